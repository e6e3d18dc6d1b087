"""Claims on DP-EM: sensitivity, noise, composition, whole runs."""

"""Claims on total variation and the distances between parameters, with their triangle inequalities."""

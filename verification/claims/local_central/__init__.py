"""Claims on the local and central mixtures of Harrington and Mayolo."""

"""Claims on Gaussians, divergences and mechanisms, and definitions that every family of claims shares."""

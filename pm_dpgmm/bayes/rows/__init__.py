"""Rows from a mixture with random parameters: density, missing values, labels."""

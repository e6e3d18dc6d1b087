"""Gaussian mixtures under differential privacy."""

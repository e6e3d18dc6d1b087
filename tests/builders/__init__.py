"""Makers of mixtures, fits and releases that several test modules share, by subject."""

"""Experiments that audit privacy claims."""

"""Mechanisms: each adds noise to one statistic of the records; each has a proof note of its name beside it."""

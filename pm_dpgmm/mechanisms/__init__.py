"""Mechanisms: each adds noise to one statistic of the records, with a proof note of its name beside it."""

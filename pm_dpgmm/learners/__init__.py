"""Non-private fits to subsets of the records, each apart from the others. Nothing here is released."""

"""Method "populous": fits to many subsets, a private test that they agree, one noisy average."""

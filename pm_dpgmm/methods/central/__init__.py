"""Method "central": noisy counts, sums and squares of cells."""

"""Methods "histogram" and "slices": noisy counts of public bins, and the mixture behind them."""

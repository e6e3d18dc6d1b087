"""Claims on the aggregated populous estimator, with a reference written apart from the package."""

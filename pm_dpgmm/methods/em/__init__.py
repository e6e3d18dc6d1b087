"""Method "em": private EM, the law of its noisy sums, and the mixture that explains them best."""

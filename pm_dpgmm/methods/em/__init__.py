"""Method "em": private EM, the law of its noisy sums, the mixture that explains them best; and private k-means."""

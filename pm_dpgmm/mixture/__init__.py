"""Mathematics of Gaussian mixtures: values, distances, laws. Nothing here is private or sees a budget."""

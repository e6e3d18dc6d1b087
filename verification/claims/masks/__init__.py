"""Claims on the masks of components and mixtures: privacy, accuracy, constants."""

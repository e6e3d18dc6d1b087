"""A mixture as the prior of a latent vector: its labels, its forms, and whether a sampler saw every component."""

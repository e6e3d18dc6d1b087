"""A module that sets the seed of NumPy's own generator when it is imported, as many a script does."""

import numpy as np

np.random.seed(0)  # noqa: NPY002


def noisy(data, n, rng):
    return data + np.random.laplace(size=n)  # noqa: NPY002

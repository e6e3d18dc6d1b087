"""Do the labels of a labelled mixture prior fit the vectors they were drawn with?"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.prior.mode_check import MARGIN
from pm_dpgmm.bayes.prior.occupancy import N_BATCHES, batches_of
from pm_dpgmm.privacy.noise import IntArray


def labels_of(posterior: Any, name: str, *, shape: tuple[int, ...]) -> IntArray | None:
    """Labels of the vectors ``name`` in the posterior, ``shape`` (C, S, N); None when they were not kept."""
    if f"{name}_label" not in posterior:
        return None
    values = np.asarray(posterior[f"{name}_label"].transpose("chain", "draw", ...).values)
    if values.size != np.prod(shape):
        raise ValueError(f"{name}_label must have one label for each vector {shape}, got shape {values.shape}")
    return values.reshape(shape).astype(np.int64)


def label_gaps(labels: IntArray, shares: FloatArray, *, level: float) -> tuple[FloatArray, FloatArray]:
    """Share of every label less the mean responsibility of its component, and what chance and ``MARGIN`` explain.

    Given the vector, a label has the law of the responsibilities when nothing but the vector is read: the gap has
    expectation 0 whatever the likelihood.

    Parameters
    ----------
    labels : ndarray, shape (C, S, N)
    shares : ndarray, shape (C, S, N, K)
        Responsibilities of the components for the vectors.
    level : float
        Probability, at most, that chance exceeds a tolerance on one side for a vector and component.

    Returns
    -------
    gap, tolerance : ndarray, shape (C + 1, N, K)
        Of every chain, where wrong labels of different chains cannot cancel, and of all together.
    """
    n_chains, k = labels.shape[0], shares.shape[-1]
    batches = batches_of((labels[..., None] == np.arange(k)) - shares).mean(axis=2)  # (C, B, N, K)
    by_chain = batches.mean(axis=1)
    errors = batches.std(axis=1, ddof=1) / np.sqrt(N_BATCHES)
    level = level / (n_chains + 1)
    tolerances = stats.t.isf(level, N_BATCHES - 1) * errors
    overall = stats.t.isf(level, n_chains * N_BATCHES - 1) * np.sqrt((errors**2).sum(axis=0)) / n_chains
    gap = np.concatenate([by_chain, by_chain.mean(axis=0)[None]])
    return gap, MARGIN + np.concatenate([tolerances, overall[None]])

"""Learners for benchmarks of ``method="aggregate"`` that mean something else than the sketch does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from pm_dpgmm import Mixture
from pm_dpgmm._arguments import FloatArray

TRIMMED, ROUNDS = 0.08, 3  # share of the rows that is left out, and how often it is chosen anew
REACH = 3.3  # deviations from the nearest component, within which rows come back in the end: 99.9 % in one column
DEGREES = 4.0  # of freedom of the t mixture
STEPS = 60  # of EM


@dataclass(frozen=True)
class TrimmedEM:
    """A mixture without the 8 % of the rows that it explains least, chosen three times, in robust units.

    The last fit is to the rows within REACH of a component, as trimming alone makes components too narrow (the step of
    reweighting of Rousseeuw and Van Driessen 1999).
    """

    n_components: int

    def __call__(self, rows: FloatArray) -> Mixture:
        from sklearn.mixture import GaussianMixture

        middle, unit = _robust(rows)
        scaled = (rows - middle) / unit
        kept = np.ones(len(rows), dtype=bool)
        for _ in range(ROUNDS):
            model = GaussianMixture(self.n_components, n_init=2, random_state=0).fit(scaled[kept])
            heights = model.score_samples(scaled)
            kept = heights >= np.quantile(heights, TRIMMED)
        offsets = scaled[:, None] - model.means_
        squares = np.einsum("nki,kij,nkj->nk", offsets, model.precisions_, offsets)
        near = squares.min(axis=1) < REACH**2
        model = GaussianMixture(
            self.n_components, weights_init=model.weights_, means_init=model.means_, precisions_init=model.precisions_
        ).fit(scaled[near])
        return _mixture(model, middle, unit)


@dataclass(frozen=True)
class TMixture:
    """Multivariate t components with 4 degrees of freedom; their scale matrices stand for covariances (EM)."""

    n_components: int

    def __call__(self, rows: FloatArray) -> Mixture:
        from sklearn.cluster import KMeans

        middle, unit = _robust(rows)
        scaled = (rows - middle) / unit
        n, d = scaled.shape
        labels = KMeans(self.n_components, n_init=3, random_state=0).fit(scaled).labels_
        shares = np.eye(self.n_components)[labels]
        heavy = np.ones_like(shares)
        for _ in range(STEPS):
            sizes = shares.sum(axis=0)
            pulls = shares * heavy
            means = (pulls.T @ scaled) / pulls.sum(axis=0)[:, None]
            offsets = scaled[:, None, :] - means
            scatter = np.einsum("nk,nki,nkj->kij", pulls, offsets, offsets) / sizes[:, None, None]
            scatter += 1e-6 * np.eye(d)
            squares = np.einsum("nki,kij,nkj->nk", offsets, np.linalg.inv(scatter), offsets)
            logs = np.log(sizes / n) - 0.5 * np.linalg.slogdet(scatter)[1]
            logs = logs - 0.5 * (DEGREES + d) * np.log1p(squares / DEGREES)
            shares = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
            heavy = (DEGREES + d) / (DEGREES + squares)
        return Mixture(sizes / n, means * unit + middle, scatter * unit[:, None] * unit)


def _robust(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    middle = np.median(rows, axis=0)
    return middle, 1.4826 * np.median(np.abs(rows - middle), axis=0)


def _mixture(model: Any, middle: FloatArray, unit: FloatArray) -> Mixture:
    weights = model.weights_ / model.weights_.sum()
    return Mixture(weights, model.means_ * unit + middle, model.covariances_ * unit[:, None] * unit)

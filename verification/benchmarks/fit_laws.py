"""Fits that maximum likelihood would give on more records than fit in memory: drawn from their asymptotic law."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pm_dpgmm import Mixture
from pm_dpgmm._arguments import FloatArray

N_POINTS = 200_000  # for the information of one record


@dataclass(frozen=True, slots=True, eq=False)
class FitLaw:
    """Normal law of fits about ``truth``: the inverse information of a record, over the number of records.

    Coordinates are relative to the components N(m, L L'): a fit has means m + L u, covariances L (I + E) L' and weights
    w + v. ``root`` is a factor of the covariance of (v without the last, u, lower triangle of E) for one record.
    """

    truth: Mixture
    root: FloatArray

    @classmethod
    def of(cls, truth: Mixture, *, rng: np.random.Generator) -> FitLaw:
        """By scores at simulated records."""
        scores = _scores(truth, truth.sample(N_POINTS, rng=rng))
        return cls(truth, np.linalg.cholesky(np.linalg.inv(scores.T @ scores / N_POINTS)))

    def steps(self, n_fits: int, *, rng: np.random.Generator) -> FloatArray:
        """Coordinates of fits to one record each, (n_fits, p); divide by the root of the number of records."""
        return rng.standard_normal((n_fits, len(self.root))) @ self.root.T

    def fits(self, steps: FloatArray, n_records: float) -> list[Mixture]:
        """The fits to ``n_records`` records each, components in the order of the truth."""
        k, d = self.truth.means.shape
        factors = np.linalg.cholesky(self.truth.covariances)
        lower, found = np.tril_indices(d), []
        for step in steps / math.sqrt(n_records):
            weights = self.truth.weights + np.append(step[: k - 1], -step[: k - 1].sum())
            shifts, changes = step[k - 1 : k - 1 + k * d].reshape(k, d), step[k - 1 + k * d :].reshape(k, -1)
            change = np.zeros((k, d, d))
            change[:, lower[0], lower[1]] = change[:, lower[1], lower[0]] = changes
            covariances = factors @ (np.eye(d) + change) @ np.swapaxes(factors, 1, 2)
            means = self.truth.means + (factors @ shifts[:, :, None])[:, :, 0]
            found.append(Mixture(weights, means, (covariances + np.swapaxes(covariances, 1, 2)) / 2))
        return found


def _scores(truth: Mixture, points: FloatArray) -> FloatArray:
    """Derivatives of the log density in the coordinates of :class:`FitLaw`, (n, p)."""
    d = points.shape[1]
    shares = truth.responsibilities(points)
    by_weight = shares / truth.weights
    first, second = np.tril_indices(d)
    means, covariances = [], []
    for share, centre, covariance in zip(shares.T, truth.means, truth.covariances, strict=True):
        whitened = np.linalg.solve(np.linalg.cholesky(covariance), (points - centre).T).T
        means.append(share[:, None] * whitened)
        products = whitened[:, first] * whitened[:, second]
        covariances.append(share[:, None] * np.where(first == second, (products - 1) / 2, products))
    return np.concatenate([by_weight[:, :-1] - by_weight[:, -1:], *means, *covariances], axis=1)

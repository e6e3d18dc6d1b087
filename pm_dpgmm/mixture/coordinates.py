"""Gaussian mixtures as unconstrained vectors and back, with derivatives: one transform for fits and for offsets.

A vector is made of three blocks: logarithms of weights; means, component by component; lower triangular factors T,
component by component and row by row, diagonal entries as logarithms. They are offsets from an origin of weights w0,
means m0 and frames L0, at which all of them are 0:

    weight proportional to w0 exp(logarithm),   mean = m0 + L0 offset,   covariance = F F' with F = L0 T.

Without an origin w0 is the same everywhere, m0 = 0 and L0 = I. Compiled twins for PyMC and for calibration
(bayes/parameters/anchor_kernel.py, verification/calibration/mixture_kernels.py) are tested against this module, and the
graph twin (anchor_operation.py) against the compiled one. ``MapMixture`` has PyMC's own transforms instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.mixture import Mixture

Parts = tuple[FloatArray, FloatArray, FloatArray]  # weights, means, factors
IntArray = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """How a mixture of K components in D dimensions is written as a vector of P numbers.

    Attributes
    ----------
    n_components, n_features : int
        K and D.
    form : {"shares", "ratios", "rates"}
        What the logarithms make. "shares": W weights that sum to 1 from W logarithms, of which only differences count;
        the derivatives by them sum to 0. "ratios": K weights that sum to 1 from K - 1 logarithms of their ratios to
        that of component ``reference``. "rates": K positive numbers from K logarithms.
    n_more : int
        Components, after the K, of which the weight alone is in the vector: W = K + n_more. Of form "shares" only.
    reference : int
        Of form "ratios" only.
    origin : (weights, means, frames) or None
        Arrays (W,), (K, D) and (K, D, D), the frames lower triangular; a weight may be 0.
    limits : (float, float)
        Between which logarithms of a factor's diagonal are moved on the way from a vector to a mixture.

    Notes
    -----
    P = W + K D + K D (D + 1)/2, one less for "ratios". Vectors may have leading dimensions, which the results of
    :meth:`at`, :meth:`of`, :meth:`pullback` and :meth:`log_determinant` then have, too.

    Examples
    --------
    >>> chart = Coordinates(n_components=1, n_features=2)
    >>> _, means, factors = chart.at(np.array([0.0, 3.0, 4.0, np.log(2.0), 5.0, 0.0]))
    >>> means.tolist(), factors.round(9).tolist()
    ([[3.0, 4.0]], [[[2.0, 0.0], [5.0, 1.0]]])
    """

    n_components: int
    n_features: int
    form: Literal["shares", "ratios", "rates"] = "shares"
    n_more: int = 0
    reference: int = 0
    origin: Parts | None = None
    limits: tuple[float, float] = (-np.inf, np.inf)

    @classmethod
    def about(cls, mixture: Mixture, form: Literal["shares", "ratios"] = "ratios") -> Coordinates:
        """Offsets from ``mixture``, weight ratios to its heaviest component."""
        weights, frames = mixture.weights, np.asarray(np.linalg.cholesky(mixture.covariances), dtype=float)
        k, d = mixture.means.shape
        return cls(k, d, form, reference=int(np.argmax(weights)), origin=(weights, mixture.means, frames))

    @property
    def n_logs(self) -> int:
        """Numbers in the first block."""
        return self.n_components + self.n_more - (self.form == "ratios")

    @property
    def size(self) -> int:
        """P."""
        return self.blocks[2].stop

    @property
    def blocks(self) -> tuple[slice, slice, slice]:
        """Where logarithms of weights, means and entries of factors are."""
        k, d, first = self.n_components, self.n_features, self.n_logs
        means, end = first + k * d, first + k * d + k * (d * (d + 1) // 2)
        return slice(0, first), slice(first, means), slice(means, end)

    def split(self, vector: FloatArray) -> Parts:
        """The blocks of vectors (..., P), in the shapes (..., n_logs), (..., K, D) and (..., K, D (D + 1)/2)."""
        logs, means, entries = self.blocks
        lead, k = vector.shape[:-1], self.n_components
        return (
            vector[..., logs],
            vector[..., means].reshape(*lead, k, self.n_features),
            vector[..., entries].reshape(*lead, k, self.n_features * (self.n_features + 1) // 2),
        )

    def filled(self, logs: ArrayLike, means: ArrayLike, diagonal: ArrayLike, below: ArrayLike) -> FloatArray:
        """A vector (P,) of given numbers, such as standard deviations.

        ``logs`` is broadcast to (n_logs,), ``means`` to (K, D), ``diagonal`` and ``below``, for the entries of a factor
        on and below its diagonal, to (K, D (D + 1)/2).
        """
        row, column, _ = triangle(self.n_features)
        k, d = self.n_components, self.n_features
        entries = np.broadcast_to(np.where(row == column, diagonal, below), (k, len(row)))
        parts = np.broadcast_to(logs, self.n_logs), np.broadcast_to(means, (k, d)).ravel(), entries.ravel()
        return np.concatenate(parts, dtype=float)

    def at(self, vector: FloatArray) -> Parts:
        """Weights (..., W), means (..., K, D) and factors (..., K, D, D) of vectors (..., P)."""
        logs, means, _ = self.split(vector)
        factors = self._inner(vector)
        if self.origin is not None:
            _, middle, frames = self.origin
            means = middle + np.einsum("...kij,...kj->...ki", frames, means)
            factors = frames @ factors
        return self._weights(logs), means, factors

    def of(self, weights: FloatArray, means: FloatArray, factors: FloatArray, *, least: float = 0.0) -> FloatArray:
        """Vectors (..., P) of mixtures, as :meth:`at` returns them; weights below ``least`` count as that."""
        logs = np.maximum(weights, least)
        if self.origin is not None:
            base, middle, frames = self.origin
            logs = logs / base
            means = np.asarray(np.linalg.solve(frames, (means - middle)[..., None])[..., 0], dtype=float)
            factors = np.asarray(np.linalg.solve(frames, factors), dtype=float)
        logs = np.log(logs)
        if self.form == "ratios":
            logs = np.delete(logs - logs[..., self.reference, None], self.reference, axis=-1)
        row, column, diagonal = triangle(self.n_features)
        entries = factors[..., row, column]
        entries[..., diagonal] = np.log(entries[..., diagonal])
        lead = entries.shape[:-2]
        return np.concatenate([logs, means.reshape(*lead, -1), entries.reshape(*lead, -1)], axis=-1)

    def pullback(
        self, vector: FloatArray, by_weights: FloatArray, by_means: FloatArray, by_factors: FloatArray
    ) -> FloatArray:
        """Derivatives (..., P) of a number by vectors, from those by what :meth:`at` returns: the transposed Jacobian.

        ``by_factors`` (..., K, D, D) may hold anything above the diagonals.
        """
        weights = self._weights(self.split(vector)[0])
        by_logs = weights * by_weights
        if self.form != "rates":
            by_logs = by_logs - weights * by_logs.sum(axis=-1, keepdims=True)
        if self.form == "ratios":
            by_logs = np.delete(by_logs, self.reference, axis=-1)
        if self.origin is not None:
            frames = self.origin[2]
            by_means = np.einsum("...kij,...ki->...kj", frames, by_means)
            by_factors = frames.swapaxes(-1, -2) @ by_factors
        row, column, diagonal = triangle(self.n_features)
        by_entries = by_factors[..., row, column]
        by_entries[..., diagonal] *= np.diagonal(self._inner(vector), axis1=-2, axis2=-1)
        lead = vector.shape[:-1]
        return np.concatenate([by_logs, by_means.reshape(*lead, -1), by_entries.reshape(*lead, -1)], axis=-1)

    def jacobian(self, vector: FloatArray) -> FloatArray:
        """Derivatives of weights, means and the factors' entries, row by row, by one vector (P,).

        Returns
        -------
        ndarray, shape (W + K D + K D (D + 1)/2, P)
            As if no logarithm were at its limit.
        """
        k, d = self.n_components, self.n_features
        weights = self._weights(self.split(vector)[0])
        by_logs = np.diag(weights) if self.form == "rates" else share_slopes(weights)
        if self.form == "ratios":
            by_logs = np.delete(by_logs, self.reference, axis=1)
        frames = np.broadcast_to(np.eye(d), (k, d, d)) if self.origin is None else self.origin[2]
        row, column, _ = triangle(d)
        # F[a, b] = sum of L0[a, e] T[e, b] over e
        by_inner = frames[:, row[:, None], row] * (column[:, None] == column)
        by_entry = by_inner * np.where(row == column, self._inner(vector)[:, row, column], 1.0)[:, None, :]
        found = np.zeros((len(weights) + k * d + k * len(row), self.size))
        found[: len(weights), self.blocks[0]] = by_logs
        place = np.array([len(weights), self.n_logs])
        for blocks in (frames, by_entry):
            for block in blocks:
                found[place[0] : place[0] + len(block), place[1] : place[1] + len(block)] = block
                place += len(block)
        return found

    def log_determinant(self, vector: FloatArray) -> FloatArray:
        """Logarithm of the determinant of the Jacobian, the row of weight ``reference`` left out for "ratios", (...).

        A density of weights, means and factors, times its exponential, is that of the vector. ValueError for "shares",
        which have none: one logarithm too many.
        """
        if self.form == "shares":
            raise ValueError("form must be 'ratios' or 'rates' for a determinant, got 'shares'")
        logs, _, entries = self.split(vector)
        whole = np.log(self._weights(logs)).sum(axis=-1)
        diagonal = triangle(self.n_features)[2]
        whole = whole + np.clip(entries[..., diagonal], *self.limits).sum(axis=(-2, -1))
        if self.origin is not None:
            sizes = np.log(np.diagonal(self.origin[2], axis1=-2, axis2=-1))
            whole = whole + (sizes * np.arange(2, self.n_features + 2)).sum()  # of means once, of T in row i i times
        return np.asarray(whole)

    def _weights(self, logs: FloatArray) -> FloatArray:
        if self.form == "rates":
            return np.exp(logs) if self.origin is None else self.origin[0] * np.exp(logs)
        if self.form == "ratios":
            logs = np.insert(logs, self.reference, 0.0, axis=-1)
        if self.origin is not None:
            with np.errstate(divide="ignore"):  # a weight of 0 stays one
                logs = logs + np.log(self.origin[0])
        heights = np.exp(logs - logs.max(axis=-1, keepdims=True))
        return np.asarray(heights / heights.sum(axis=-1, keepdims=True))

    def _inner(self, vector: FloatArray) -> FloatArray:
        """T, shape (..., K, D, D)."""
        entries = self.split(vector)[2]
        row, column, diagonal = triangle(self.n_features)
        inner = np.zeros((*entries.shape[:-1], self.n_features, self.n_features))
        inner[..., row, column] = entries
        places = np.arange(self.n_features)
        inner[..., places, places] = np.exp(np.clip(entries[..., diagonal], *self.limits))
        return inner


def share_slopes(weights: FloatArray) -> FloatArray:
    """Derivatives (W, W) of weights (W,) that sum to 1 by their logarithms before division by the sum."""
    return np.diag(weights) - np.outer(weights, weights)


@cache
def triangle(n_features: int) -> tuple[IntArray, IntArray, IntArray]:
    """Rows and columns of a packed factor's entries, (D (D + 1)/2,), and which entries are on the diagonal, (D,)."""
    row, column = np.tril_indices(n_features)
    found = row, column, np.flatnonzero(row == column)
    for array in found:
        array.setflags(write=False)
    return found

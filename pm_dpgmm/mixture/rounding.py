"""Characteristic functions of mixtures that are seen rounded: what a sketch of rounded records is expected to be.

A value is seen as the nearest multiple of its column's resolution h. Adding a uniform error of width h to Z gives a
density g whose value at k h, times h, is the probability that Z is rounded to k h, and the characteristic function of
g is f(w) s(w h/2) with f that of Z and s(u) = sin(u)/u. Poisson's sum over the lattice of values then says

    E exp(i t round(Z)) = sum over integers m of f(w) s(w h/2),  w = t + 2 pi m/h,

and the same with a sum over integer vectors and a product over columns for several. Phases are taken from a point of
the lattice. One term is left of it where the components are wide against h: the others are there for narrow ones.
Sources: Widrow and Kollar (2008), Quantization Noise, chapter 4; Sheppard (1898) is its second moment. Post-processing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.characteristic import (
    ComplexArray,
    characteristic_jacobian,
    finish_covariance,
)

LEAST_DEVIATION = 1 / 3  # of a component in a fit, in resolutions: rounded values tell nothing narrower apart
LEFT_OUT = 1e-6  # size of terms that are left out for every component that is as wide as that
NEGLIGIBLE = 12.0  # exponent of a term that is left out where the components are wide
MOST_TERMS = 64
# farthest neighbours of a frequency, and in how many columns at once, by the number of rounded columns
REACHES = {1: (2, 1), 2: (2, 2), 3: (1, 3), 4: (1, 2), 5: (1, 2)}


@dataclass(frozen=True, slots=True, eq=False)
class RoundedWaves:
    """Frequencies with their neighbours on the dual lattice, nearest first.

    Attributes
    ----------
    given : ndarray, shape (m, D)
        Frequencies t of the rounded values, radians per unit, about a point of the lattice.
    frequencies : ndarray, shape (A, m, D)
        Frequencies w of the values before they are rounded; those of the first row are the shortest.
    coefficients : ndarray, shape (A, m)
        What the characteristic function there counts for.
    resolution : ndarray, shape (D,)
        h of every column, 0 where it is not rounded; in the same unit.
    """

    given: FloatArray
    frequencies: FloatArray
    coefficients: FloatArray
    resolution: FloatArray

    @classmethod
    def of(cls, frequencies: FloatArray, resolution: FloatArray) -> RoundedWaves:
        """Neighbours that matter for components of at least LEAST_DEVIATION resolutions, as far as REACHES goes.

        Examples
        --------
        >>> RoundedWaves.of(np.array([[0.5]]), np.array([1.0])).frequencies.shape
        (5, 1, 1)
        """
        rounded = np.flatnonzero(resolution > 0)
        lattice = np.zeros(len(resolution))
        lattice[rounded] = 2 * math.pi / resolution[rounded]
        turns = np.zeros_like(frequencies)
        turns[:, rounded] = np.rint(frequencies[:, rounded] / lattice[rounded])
        nearest = frequencies - turns * lattice
        reach, at_once = REACHES.get(rounded.size, (1, 1))
        offsets = [np.zeros(len(resolution))]
        for number in range(1, min(at_once, rounded.size) + 1):
            for columns in itertools.combinations(rounded.tolist(), number):
                for steps in itertools.product([n for n in range(-reach, reach + 1) if n], repeat=number):
                    offset = np.zeros(len(resolution))
                    offset[list(columns)] = steps
                    offsets.append(offset)
        every = nearest + np.array(offsets)[:, None, :] * lattice
        angles = every * resolution / 2
        coefficients = np.sinc(angles / math.pi).prod(axis=-1)
        sizes = np.abs(coefficients) * np.exp(-0.5 * np.square(2 * LEAST_DEVIATION * angles).sum(axis=-1))
        largest = sizes.max(axis=1)
        largest[0] = np.inf
        kept = np.argsort(-largest, kind="stable")[:MOST_TERMS]
        kept = kept[largest[kept] > LEFT_OUT]
        return cls(frequencies, every[kept], coefficients[kept], resolution)

    def thinned(self, stride: int) -> RoundedWaves:
        """Every ``stride``-th frequency."""
        return replace(
            self,
            given=self.given[::stride],
            frequencies=self.frequencies[:, ::stride],
            coefficients=self.coefficients[:, ::stride],
        )

    def n_terms(self, factors: FloatArray, variance_floor: FloatArray | None = None) -> int:
        """How many of the first terms a mixture with these factors (K, D, D) needs."""
        return int(np.flatnonzero(self._needed(factors, variance_floor).any(axis=1))[-1]) + 1

    def _needed(self, factors: FloatArray, variance_floor: FloatArray | None) -> NDArray[np.bool_]:
        """Which terms each component needs, shape (A, K): the first, and what is above exp(-NEGLIGIBLE) anywhere.

        The exponent w'Sw/2 is at least w_j^2/2 times the variance of column j given all others, whatever the other
        entries of w are.
        """
        covariances = factors @ factors.swapaxes(1, 2)
        if variance_floor is not None:
            covariances = covariances + np.diag(variance_floor)
        rounded = self.resolution > 0
        needed = np.ones((len(self.frequencies), len(factors)), dtype=bool)
        try:
            given = 1 / np.diagonal(np.linalg.inv(covariances), axis1=1, axis2=2)[:, rounded]
        except np.linalg.LinAlgError:
            return needed
        shortest = np.abs(self.frequencies[1:, :, rounded]).min(axis=1)
        exponents = (np.square(shortest)[:, None] * given).max(axis=2)  # NaN compares as needed
        needed[1:] = ~(exponents > 2 * NEGLIGIBLE)
        return needed

    def functions(
        self, means: FloatArray, factors: FloatArray, variance_floor: FloatArray | None = None
    ) -> ComplexArray:
        """Characteristic functions of components (K, D), (K, D, D) that are rounded, shape (m, K).

        ``variance_floor`` (D,) comes on top of the covariances of the factors.
        """
        nearest = self.frequencies[0]
        turns = self.frequencies[:, 0] - nearest[0]  # of the lattice: those of every frequency
        wave = np.exp(1j * (nearest @ means.T))
        projected = [nearest @ factors[:, :, e].T for e in range(len(turns[0]))]  # rows of L'w, (m, K) each
        found = np.zeros_like(wave)
        for i, some in enumerate(self._needed(factors, variance_floor)):
            if some.any():
                own = slice(None) if some.all() else some
                apart = turns[i] @ factors[own]
                exponents = sum(np.square(row[:, own] + apart[:, e]) for e, row in enumerate(projected))
                size = np.exp(-0.5 * exponents) * self._size(i, variance_floor)[:, None]
                found[:, own] += size * np.exp(1j * (means[own] @ turns[i]))
        return wave * found

    def jacobian(
        self, weights: FloatArray, means: FloatArray, factors: FloatArray, variance_floor: FloatArray | None = None
    ) -> ComplexArray:
        """Derivatives of the mixture's, (m, P), as of :func:`characteristic.characteristic_jacobian`."""
        needed = np.flatnonzero(self._needed(factors, variance_floor).any(axis=1)).tolist()
        return self.summed(lambda w: characteristic_jacobian(w, weights, means, factors)[1], needed, variance_floor)

    def summed(
        self,
        of_wave: Callable[[FloatArray], ComplexArray],
        terms: Iterable[int] | None = None,
        variance_floor: FloatArray | None = None,
    ) -> ComplexArray:
        """Sum over terms, None for all, of values (m, P) at their frequencies, each damped by a variance of its own."""
        total: ComplexArray | float = 0.0
        for i in range(len(self.frequencies)) if terms is None else terms:
            total = total + of_wave(self.frequencies[i]) * self._size(i, variance_floor)[:, None]
        return np.asarray(total, dtype=complex)

    def _size(self, term: int, variance_floor: FloatArray | None) -> FloatArray:
        size = self.coefficients[term]
        if variance_floor is not None:
            size = size * np.exp(-0.5 * np.square(self.frequencies[term]) @ variance_floor)
        return size

    def covariance(
        self, amplitudes: FloatArray, weights: FloatArray, means: FloatArray, factors: FloatArray
    ) -> FloatArray:
        """Covariance of one rounded record's features [a cos(t.x), a sin(t.x)], shape (2 m, 2 m).

        From characteristic functions at sums and differences: with all terms in one column. In several only the first
        one is used there, which is off by as much as exp(-4) where components are as narrow as a resolution, and more
        below: it may then have negative eigenvalues (:func:`nearest_semidefinite`).
        """
        m, d = self.given.shape
        mean = self.functions(means, factors) @ weights
        second = np.zeros((2 * m, 2 * m))
        if d == 1:
            self._add_exactly(second, weights, means, factors)
        else:
            projected = np.moveaxis(self.given @ factors, 0, 1)
            phases = self.given @ means.T
            angles = self.given * (self.resolution / 2)
            for k, weight in enumerate(weights):
                projection = np.ascontiguousarray(projected[:, k])
                add_rounded(second, 0.5 * weight, projection, angles, np.cos(phases[:, k]), np.sin(phases[:, k]))
        finish_covariance(second, np.concatenate([mean.real, mean.imag]), np.tile(amplitudes, 2))
        return second

    def _add_exactly(self, second: FloatArray, weights: FloatArray, means: FloatArray, factors: FloatArray) -> None:
        m, t = len(self.given), self.given[:, 0]
        pairs = np.concatenate([(t[:, None] - t).ravel(), (t[:, None] + t).ravel()])
        steps = np.rint(pairs / (np.abs(t).min() * 1e-6))  # the same wave, but for rounding, is computed once
        _, first, place = np.unique(steps, return_index=True, return_inverse=True)
        table = RoundedWaves.of(pairs[first][:, None], self.resolution).functions(means, factors) @ weights
        apart, together = table[place].reshape(2, m, m)
        second[:m, :m] = (apart.real + together.real) / 2
        second[m:, m:] = (together.real * -1 + apart.real) / 2
        second[:m, m:] = (together.imag - apart.imag) / 2


def nearest_semidefinite(matrix: FloatArray) -> FloatArray:
    """A symmetric matrix with its negative eigenvalues at 0; LinAlgError unless it is finite.

    :meth:`RoundedWaves.covariance` leaves terms out in several columns, and need not be one of any law where components
    are narrow.
    """
    if not np.isfinite(matrix).all():
        raise np.linalg.LinAlgError("a covariance must be finite")
    values, vectors = linalg.eigh(matrix, check_finite=False)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


@numba.njit(nogil=True, cache=True)
def add_rounded(
    covariance: FloatArray, scale: float, projected: FloatArray, angles: FloatArray, c: FloatArray, s: FloatArray
) -> None:
    """Add E cos cos, E sin sin and E cos sin of one component above the diagonal of each block.

    ``projected`` holds L'w, (m, D), ``angles`` w h/2, (m, D); c and s are cosines and sines of the phases of its mean.
    """
    m, d = angles.shape
    for i in range(m):
        for j in range(i, m):
            short, long = 0.0, 0.0
            difference, total = 1.0, 1.0
            for b in range(d):
                short += (projected[i, b] - projected[j, b]) ** 2
                long += (projected[i, b] + projected[j, b]) ** 2
                low, high = angles[i, b] - angles[j, b], angles[i, b] + angles[j, b]
                if low != 0.0:
                    difference *= np.sin(low) / low
                if high != 0.0:
                    total *= np.sin(high) / high
            difference *= np.exp(-0.5 * short)
            total *= np.exp(-0.5 * long)
            cc, ss, cs, sc = c[i] * c[j], s[i] * s[j], c[i] * s[j], s[i] * c[j]
            covariance[i, j] += scale * (difference * (cc + ss) + total * (cc - ss))
            covariance[m + i, m + j] += scale * (difference * (cc + ss) - total * (cc - ss))
            covariance[i, m + j] += scale * (total * (cs + sc) + difference * (cs - sc))
            if i != j:
                covariance[j, m + i] += scale * (total * (cs + sc) - difference * (cs - sc))

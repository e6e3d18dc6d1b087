"""Dominating pairs of output laws, and their products: composition without a grid wherever a few losses are possible.

Proof: dominating_pair.md.

A pair is a Gaussian shift beside finitely many values of the privacy loss ln P/Q. Gaussian shifts compose to one; the
other losses add up. Everything is a sum of positive terms, so rounding is relative and is paid for once, at the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.privacy.gaussian_curve import gaussian_deltas

MOST_LOSSES = 2**13  # of a product; more are moved to a grid
ROUNDING = 1e-11  # relative allowance for a value: up to MOST_LOSSES positive terms, each within 1e-13
GAUSSIAN_ROUNDING = 1e-15  # absolute: a difference of two probabilities of at most 1
ULP = 2.3e-16  # just above the largest relative distance of floats
LEAST_MASS = 1e-300  # stands for what underflows
BLOCK = 2**20  # losses of a product, and values of the Gaussian curve, at a time


def no_losses() -> FloatArray:
    """Of outputs that tell nothing."""
    return np.zeros(1)


@dataclass(frozen=True, slots=True)
class DominatingPair:
    """P and Q so that no mechanism of a family has a larger curve, in either order of neighbours.

    ``mu_squared``: of the Gaussian shift. ``losses``, ``masses``: ln P/Q and P of the other outputs, shape (n,).
    ``infinite``: mass of P where Q has none; not among ``masses``, which sum to 1.
    """

    mu_squared: float = 0.0
    losses: FloatArray = field(default_factory=no_losses)
    masses: FloatArray = field(default_factory=lambda: np.ones(1))
    infinite: float = 0.0

    def times(self, other: DominatingPair) -> DominatingPair:
        """The pair of both outputs together: independent noise, the second perhaps chosen after the first."""
        wide, narrow = (self, other) if len(self.losses) >= len(other.losses) else (other, self)
        infinite = self.infinite + other.infinite - self.infinite * other.infinite
        mu_squared = self.mu_squared + other.mu_squared
        if len(wide.losses) * len(narrow.losses) <= BLOCK:
            found = merged(*_outer(wide, narrow, slice(None)))
            if len(found[0]) <= MOST_LOSSES:
                return DominatingPair(mu_squared, *found, infinite)
        ends = [np.nextafter(pick(wide.losses) + pick(narrow.losses), np.inf) for pick in (np.min, np.max)]
        grid = np.linspace(float(ends[0]), float(ends[1]), MOST_LOSSES)
        masses, size = np.zeros(MOST_LOSSES), max(1, BLOCK // len(wide.losses))
        for start in range(0, len(narrow.losses), size):
            masses += divided(*_outer(wide, narrow, slice(start, start + size)), grid)
        return DominatingPair(mu_squared, grid, masses, infinite)

    def power(self, times: int) -> DominatingPair:
        """The product of ``times`` copies, by squaring."""
        found, square = DominatingPair(), self
        while times:
            if times % 2:
                found = found.times(square)
            times //= 2
            if times:
                square = square.times(square)
        return found

    def curve(self, epsilons: FloatArray) -> FloatArray:
        """Upper bound of the hockey-stick divergence at ``epsilons`` >= 0, shape (n,)."""
        losses = self.losses
        mu = math.sqrt(self.mu_squared)
        finite = np.empty(len(epsilons))
        size = max(1, BLOCK // len(losses))
        for start in range(0, len(epsilons), size):
            part = slice(start, start + size)
            left = epsilons[part, None] - losses
            each = gaussian_deltas(left, mu) if mu else -np.expm1(np.minimum(left, 0.0))
            finite[part] = each @ self.masses
        total = (self.infinite + (1 - self.infinite) * finite) * (1 + ROUNDING)
        return np.minimum(1.0, total + (GAUSSIAN_ROUNDING if mu else 0.0))


def response(epsilon: float, infinite: float = 0.0) -> DominatingPair:
    """Randomised response at ``epsilon``, after a leak of probability ``infinite``."""
    masses = np.array([special.expit(-epsilon), special.expit(epsilon)]) * (1 + 4 * ULP)
    return DominatingPair(0.0, np.array([-epsilon, epsilon]), np.maximum(masses, LEAST_MASS), infinite)


def merged(losses: FloatArray, masses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Increasing losses; those that differ by rounding become the largest of them."""
    order = np.argsort(losses)
    losses, masses = losses[order], masses[order]
    first = np.append(True, np.diff(losses) > 4 * ULP * np.abs(losses).max())
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(losses))
    return losses[ends - 1], np.add.reduceat(masses, starts) * (1 + 2 * ULP * (ends - starts))


def divided(losses: FloatArray, masses: FloatArray, grid: FloatArray) -> FloatArray:
    """Masses of the points of ``grid`` that dominate the given ones, which lie within it.

    A mass between two points is divided among them so that both laws keep their masses: the curve becomes a chord of
    itself as a function of exp(epsilon), where it is convex (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, 2022,
    "Connect the dots"). Shares and sums are rounded up.
    """
    above = np.clip(np.searchsorted(grid, losses), 1, len(grid) - 1)
    low, high = grid[above - 1], grid[above]
    with np.errstate(invalid="ignore"):
        upper = np.expm1(np.minimum(low - losses, 0.0)) / np.expm1(low - high)
    upper = np.where(high > low, np.minimum(1.0, upper * (1 + 8 * ULP)), 1.0)
    found = np.bincount(above, weights=masses * upper, minlength=len(grid))
    found += np.bincount(above - 1, weights=masses * (1 - upper) * (1 + 8 * ULP), minlength=len(grid))
    return found * (1 + 2 * ULP * np.bincount(above, minlength=len(grid)).max())


def _outer(wide: DominatingPair, narrow: DominatingPair, part: slice) -> tuple[FloatArray, FloatArray]:
    """Losses, rounded up, and masses of all pairs of outputs."""
    losses = np.nextafter(np.add.outer(wide.losses, narrow.losses[part]), np.inf)
    return losses.ravel(), np.multiply.outer(wide.masses, narrow.masses[part]).ravel() * (1 + 2 * ULP)

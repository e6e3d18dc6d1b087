"""One point of a privacy profile with the whole error probability, and where to look for it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from verification.auditing.bisection import bracket
from verification.profile.band import LARGEST_EPSILON, excess, odds_of, refuted_in_a_row, weights

FloatArray = NDArray[np.float64]

EVEN, FINE, WINDOW = 17, 400, 6.0  # even points of a grid; points of a fine one and its half-width in standard errors
TAILS = np.exp(-0.5 * np.arange(1, 40))  # shares of the pilot runs beyond a grid point
BEYOND = np.array([1.1, 1.25, 1.5, 2.0])  # times the largest ratio of the pilot: later runs see more
ROUNDED = 1e-9  # log ratios are rounded to it


def default_epsilons(pilot: FloatArray) -> FloatArray:
    """Grid points for a band, from the log ratios of the pilot runs alone."""
    sizes = np.abs(pilot[np.isfinite(pilot)])
    largest = float(sizes.max()) if sizes.size else 0.0
    if largest == 0:
        return np.array([0.0, 1.0])
    tails = np.quantile(sizes, 1 - TAILS[sizes.size * TAILS > 4])
    points = np.concatenate([np.linspace(0, largest, EVEN), tails, BEYOND * largest])
    return np.unique(np.round(np.minimum(points, LARGEST_EPSILON), 9))


def epsilon_bound(log_ratio: FloatArray, *, delta: float, error: float, pilot: int) -> float:
    """Return a lower bound of epsilon at ``delta`` for both directions together; may be infinite.

    Parameters
    ----------
    log_ratio : ndarray, shape (n,)
        Exact log-likelihood ratios of runs with fair coins, in their order.
    delta : float
        In [0, 1), chosen without a look at these runs.
    error : float
    pilot : int
        Runs that only choose the claims to be tested.

    Guarantee
    ---------
    Above the epsilon of the pair at ``delta`` with probability at most ``error``. Proof: profile.md.
    """
    if delta == 0:
        return max(0.0, float(np.abs(log_ratio).max()) - ROUNDED)
    epsilons = _epsilons(log_ratio[:pilot], delta)
    s, r = weights(log_ratio)
    refuted = refuted_in_a_row(s, r, epsilons, np.full(epsilons.size, delta), error=error, pilot=pilot)
    return float(epsilons[refuted - 1]) if refuted else 0.0


def delta_bound(log_ratio: FloatArray, *, epsilon: float, error: float, pilot: int) -> float:
    """Return a lower bound of delta at ``epsilon`` for both directions together, as `epsilon_bound`.

    Guarantee
    ---------
    Above the delta of the pair at ``epsilon`` with probability at most ``error``. Proof: profile.md.
    """
    s, r = weights(log_ratio)
    odds = odds_of(epsilon)
    both = np.stack([excess(s[:pilot], r[:pilot], odds), excess(r[:pilot], s[:pilot], odds)])
    centre, spread = both.mean(axis=1).max(), both.std(axis=1).max() / np.sqrt(pilot)
    fine = centre + spread * np.linspace(-WINDOW, WINDOW, FINE)
    deltas = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, 200), fine])
    deltas = np.unique(deltas[(deltas >= 0) & (deltas < 1)])
    refuted = refuted_in_a_row(s, r, np.full(deltas.size, epsilon), deltas, error=error, pilot=pilot)
    return float(deltas[refuted - 1]) if refuted else 0.0


def _epsilons(pilot: FloatArray, delta: float) -> FloatArray:
    """Claims to test at ``delta``: everywhere with wide steps, around the answer of the pilot with narrow ones."""
    s, r = weights(pilot)
    sizes = np.abs(pilot[np.isfinite(pilot)])
    largest = max(1e-6, float(sizes.max())) if sizes.size else 1.0

    def estimate(epsilon: float) -> float:
        odds = odds_of(epsilon)
        return float(max(excess(s, r, odds).mean(), excess(r, s, odds).mean()))

    low, _ = bracket(lambda epsilon: estimate(epsilon) > delta, 0.0, largest, steps=40)
    odds = odds_of(low)
    variables = [excess(s, r, odds), excess(r, s, odds)]
    slope = max(float(odds * (2 * r[s > odds * r]).sum()), float(odds * (2 * s[r > odds * s]).sum())) / pilot.size
    spread = max(float(v.std()) for v in variables) / np.sqrt(pilot.size)
    width = min(WINDOW * spread / slope, largest) if slope > 0 else largest
    fine = low + np.linspace(-width, width, FINE)
    wide = np.concatenate([np.linspace(0, 1.25 * largest, 80), BEYOND * largest])
    points = np.concatenate([wide, fine])
    return np.append(np.unique(points[(points >= 0) & (points <= LARGEST_EPSILON)]), np.inf)

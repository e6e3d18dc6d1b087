"""How large a violation an audit of a given size would have caught: the number that gives a pass its meaning."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from verification._checks import check_count, check_delta, check_non_negative, check_probability
from verification.events import SPLITS, binomial_lower, binomial_upper, epsilon_bound
from verification.references import gaussian_delta

FloatArray = NDArray[np.float64]
POWER = 0.9
WINDOW = 6.0  # standard deviations of a binomial that are summed; the rest weighs below 2e-9


def detection_limit(*, epsilon: float, delta: float, n_certified: int, false_alarm: float) -> float:
    """Return the smallest true epsilon, above the claim, that the certification step refutes with probability 0.9.

    The planted violation is a Laplace mechanism of sensitivity 1 (``delta`` = 0) or a Gaussian mechanism
    (``delta`` > 0; its epsilon at the same delta). The certification step is given the right score and event, so
    learning and choosing are not part of this figure: an audit with a learned score catches a little less.

    delta = 0: labels are guessed where the privacy loss has its largest size, outputs below 0 or above 1, and the
    number of guesses is binomial. delta > 0: labels are split evenly; the threshold and the split of the error are
    those that maximise the bound at the expected counts. Powers are exact binomial sums, so the figure is
    deterministic; it is found by bisection to a relative 1e-3 of the excess over the claim.

    Parameters
    ----------
    epsilon, delta : float
        The claim, no unit.
    n_certified : int
        Runs of the mechanism in the certify part, both data sets together.
    false_alarm : float
        Error probability of the certified bound.

    Returns
    -------
    float
        In the unit of epsilon; infinite when no planted mechanism is caught with probability 0.9.

    Raises
    ------
    TypeError, ValueError
        If an argument is outside its range.
    """
    check_non_negative(epsilon=epsilon)
    check_delta(delta)
    check_count(least=1, n_certified=n_certified)
    check_probability(false_alarm=false_alarm)
    return _detection_limit(float(epsilon), float(delta), int(n_certified), float(false_alarm))


@lru_cache(maxsize=256)
def _detection_limit(epsilon: float, delta: float, n: int, false_alarm: float) -> float:
    if delta == 0:
        return _smallest_excess(epsilon, lambda true: _laplace_power(true, epsilon, n, false_alarm))

    def power(true: float) -> float:
        return _gaussian_power(_noise_multiplier(true, delta), epsilon, delta, n // 2, false_alarm)

    return _smallest_excess(epsilon, power)


def _smallest_excess(epsilon: float, power: object) -> float:
    """Bisection for the smallest true epsilon with the wanted power, after a scan by factors of two of the excess."""
    assert callable(power)
    low, high = 0.0, 1e-4
    while power(epsilon + high) < POWER:
        low, high = high, 2 * high
        if high > 100:  # both planted mechanisms are then as good as deterministic
            return math.inf
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if power(epsilon + middle) >= POWER else (middle, high)
    return epsilon + high


def _laplace_power(true: float, epsilon: float, n: int, false_alarm: float) -> float:
    guesses = _likely(n, (1 + math.exp(-true)) / 2)  # both tails of the loss, on either data set
    weights = stats.binom.pmf(guesses, n, (1 + math.exp(-true)) / 2)
    # refuted <=> Pr[Bin(r, sigma(epsilon)) >= v] < false_alarm <=> v > isf
    least = stats.binom.isf(false_alarm, guesses, special.expit(epsilon)) + 1
    return float(np.sum(weights * stats.binom.sf(least - 1, guesses, special.expit(true))))


def _gaussian_power(z: float, epsilon: float, delta: float, n: int, false_alarm: float) -> float:
    """Power of one event on ``n`` runs per data set; noise multiplier ``z``."""
    if n == 0:
        return 0.0
    thresholds = np.linspace(0.5 / z - 1.0, 0.5 / z + 4.0, 101)[:, None]  # in noise scales, under x_neighbour
    q, p = special.ndtr(-thresholds), special.ndtr(1 / z - thresholds)
    p_low = binomial_lower(np.round(n * p), n, false_alarm * SPLITS)
    q_high = binomial_upper(np.round(n * q), n, false_alarm * (1 - SPLITS))
    i, j = np.unravel_index(np.argmax(epsilon_bound(p_low, q_high, delta)), p_low.shape)
    error = false_alarm * SPLITS[j]
    others = _likely(n, float(q[i, 0]))
    needed = delta + np.exp(np.minimum(700.0, epsilon + np.log(binomial_upper(others, n, false_alarm - error))))
    possible = needed < 1
    least = stats.binom.isf(error, n, np.where(possible, needed, 0.5)) + 1
    caught = np.where(possible, stats.binom.sf(least - 1, n, p[i, 0]), 0.0)
    return float(np.sum(stats.binom.pmf(others, n, q[i, 0]) * caught))


def _likely(n: int, probability: float) -> FloatArray:
    """Counts of a binomial that are within WINDOW standard deviations, and a few more for rare events."""
    mean, spread = n * probability, WINDOW * math.sqrt(n * probability * (1 - probability)) + 20
    return np.arange(max(0, math.floor(mean - spread)), min(n, math.ceil(mean + spread)) + 1, dtype=float)


def _noise_multiplier(epsilon: float, delta: float) -> float:
    """The noise multiplier whose Gaussian mechanism has this epsilon at this delta, by bisection on a log scale."""
    low, high = 1e-4, 1e8
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gaussian_delta(epsilon, noise_multiplier=middle) > delta else (low, middle)
    return high

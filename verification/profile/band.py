"""Certified bounds of a privacy profile from exact log-likelihood ratios, by betting on bounded variables.

Every run is on x or x_neighbour by the flip of a fair coin, so outputs are independent draws from M = (P + Q)/2. With
s = 1/(1 + exp(-l)) and r = 1 - s, l the log ratio of a run, and odds t = exp(epsilon),

    delta(epsilon) = P(l > epsilon) - t Q(l > epsilon) = E_M[2 max(0, s - t r)],

a variable in [0, 2]; the other direction swaps s and r. The coins themselves are not used: given the output they carry
nothing more. Proofs: profile.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

FloatArray = NDArray[np.float64]

LARGEST_EPSILON = 600.0  # of a finite grid point: its odds are then far from overflow
LARGEST_RATIO = 700.0
INFINITE_ODDS = 1e308  # times the smallest r of a finite ratio, 1e-304, this is above 1
STAKE_CAP = 0.9  # of the stake that could lose everything
HOPELESS = 1e-6  # a capital that is this small against its goal is given up
SHARE = 1 / 80  # of the runs left, per block: the stakes are set anew after each
LEAST_BLOCK = 50
AIM = 0.93  # aim at a capital of 1/(AIM error), because a hedge by blocks ends a little short of its aim
ASYMMETRY = 2.0  # standard errors from which the two directions count as different


def weights(log_ratio: FloatArray) -> tuple[FloatArray, FloatArray]:
    """s = p/(p + q) and r = q/(p + q) of every run; finite ratios beyond 700 are lowered to it, so that r > 0."""
    clipped = np.where(np.isinf(log_ratio), log_ratio, np.clip(log_ratio, -LARGEST_RATIO, LARGEST_RATIO))
    return special.expit(clipped), special.expit(-clipped)


def odds_of(epsilon: FloatArray | float) -> FloatArray:
    """exp(epsilon); a stand-in for infinity beyond LARGEST_EPSILON."""
    epsilon = np.asarray(epsilon, dtype=float)
    return np.where(epsilon <= LARGEST_EPSILON, np.exp(np.minimum(epsilon, LARGEST_EPSILON)), INFINITE_ODDS)


def excess(s: FloatArray, r: FloatArray, odds: FloatArray | float) -> FloatArray:
    """2 max(0, s - odds r), whose expectation under M is delta at exp(epsilon) = odds."""
    return 2 * np.maximum(0.0, s - odds * r)


def mean_lower(values: FloatArray, *, least: float, error: float, pilot: int) -> float:
    """Return a lower bound of the mean of independent, identically distributed ``values`` that are at least ``least``.

    Bets start after ``pilot`` runs; each block doubles the runs seen and has one stake, from the runs before it.

    Guarantee
    ---------
    Above the mean with probability at most ``error``. Proof: profile.md.
    """
    n, goal = values.size, -math.log(error)
    stakes, blocks, start = [], [], pilot
    while start < n:
        seen, block = values[:start], values[start : min(n, 2 * start)]
        mean = max(float(seen.mean()), least)
        spread = (float(np.square(seen - mean).sum()) + ((seen.max() - least) / 2) ** 2 + 1e-12) / (start + 1)
        stake = math.sqrt(2 * goal / ((n - pilot) * spread))
        stakes.append(min(stake, STAKE_CAP / (mean - least)) if mean > least else stake)
        # Equal values are common: an event that does not happen gives 0.
        common = block == block[0]
        blocks.append((block[~common], int(common.sum()), block[0]))
        start += block.size
    # A stake at which one run could lose more than everything is not allowed: no larger mean is ever refuted.
    highest = least + (1 - 1e-9) / max(stakes)

    def log_capital(mean: float) -> tuple[float, float]:
        value = slope = 0.0
        for stake, (block, repeats, common) in zip(stakes, blocks, strict=True):
            gain = stake * (block - mean)
            value += float(np.log1p(gain).sum()) + repeats * math.log1p(stake * (common - mean))
            slope -= stake * (float((1 / (1 + gain)).sum()) + repeats / (1 + stake * (common - mean)))
        return value - goal, slope

    if log_capital(least)[0] < 0:
        return least
    # The capital falls in the mean and is log-concave: Newton's steps come down to the root from the right.
    mean = min(highest, float(values[pilot:].mean()))
    for _ in range(60):
        value, slope = log_capital(mean)
        if value >= 0:
            return mean
        mean = max(least, mean - (1 + 1e-4) * value / slope - 1e-12)
    return least


def band_direction(
    s: FloatArray, r: FloatArray, epsilons: FloatArray, *, error: float, pilot: int
) -> tuple[FloatArray, float, FloatArray, FloatArray]:
    """Return lower lines, the lower bound at infinity, upper points and estimates of one direction.

    Parameters
    ----------
    s, r : ndarray, shape (n,)
        From `weights`, or swapped for the other direction; the first ``pilot`` runs may have chosen ``epsilons``.
    epsilons : ndarray, shape (k,)
        Ascending and finite.
    error : float
        Half of it is spent on the lower lines and infinity, half on the upper points, in equal parts.

    Returns
    -------
    lines : ndarray, shape (k - 1, 2)
        Values at both ends of each interval; the straight line in exp(epsilon) between them is a lower bound there.
    at_infinity : float
        Lower bound of delta at every epsilon.
    upper : ndarray, shape (k,)
        Upper bounds at the points; straight lines in exp(epsilon) between them are upper bounds too.
    estimates : ndarray, shape (k,)

    Guarantee
    ---------
    One of the bounds is wrong with probability at most ``error``. Proof: profile.md.
    """
    low_error, high_error = error / 2 / (2 * epsilons.size - 1), error / 2 / epsilons.size
    odds = odds_of(epsilons)

    def lower(values: FloatArray, corners: list[tuple[float, float]], error: float) -> float:
        """``corners``: (s, value) between which the value is linear in s, to bound it from below."""
        slope = _control(values, s, pilot)
        least = min(value - slope * (2 * at - 1) for at, value in corners)
        if slope:
            values = values - slope * (2 * s - 1)
        return mean_lower(values, least=least, error=error, pilot=pilot)

    lines = np.zeros((max(0, epsilons.size - 1), 2))
    for i in range(epsilons.size - 1):
        middle = (epsilons[i] + epsilons[i + 1]) / 2
        cut, rest = float(special.expit(middle)), float(special.expit(-middle))  # s and r of a ratio in the middle
        inside = r < rest
        for end in (0, 1):
            t = float(odds[i + end])
            values = np.where(inside, 2 * (s - t * r), 0.0)
            corners = [(0.0, 0.0), (cut, 0.0), (cut, 2 * (cut - t * rest)), (1.0, 2.0)]
            lines[i, end] = lower(values, corners, low_error)
    at_infinity = max(0.0, lower(excess(s, r, INFINITE_ODDS), [(0.0, 0.0), (1.0, 0.0), (1.0, 2.0)], low_error))
    upper, estimates = np.zeros(epsilons.size), np.zeros(epsilons.size)
    for i, t in enumerate(odds):
        values = excess(s, r, t)
        estimates[i] = values.mean() - _control(values, s, s.size) * (2 * s - 1).mean()
        corner = t / (1 + t)
        upper[i] = -lower(-values, [(0.0, 0.0), (corner, 0.0), (1.0, -2.0)], high_error)
    return lines, at_infinity, np.clip(upper, 0.0, 1.0), np.clip(estimates, 0.0, 1.0)


def _control(values: FloatArray, s: FloatArray, n: int) -> float:
    """Slope of ``values`` on 2 s - 1, whose mean is known to be 0; 0 where it would hardly help."""
    v, c = values[:n] - values[:n].mean(), 2 * s[:n] - 1
    power, covariance, spread = float(c @ c), float(v @ c), float(v @ v)
    if power <= 0 or covariance**2 <= 0.1 * power * spread:
        return 0.0
    return covariance / power


def refuted_in_a_row(
    s: FloatArray, r: FloatArray, epsilons: FloatArray, deltas: FloatArray, *, error: float, pilot: int
) -> int:
    """Return how many claims (epsilons[i], deltas[i]) are refuted before the first that is not.

    Parameters
    ----------
    s, r : ndarray, shape (n,)
        From `weights`; the first ``pilot`` runs may have chosen the claims and carry no bet.
    epsilons, deltas : ndarray, shape (k,)
        Claims on both directions, each implied by the one before it: ascending in epsilon or in delta. An infinite
        epsilon is allowed.
    error : float

    Guarantee
    ---------
    A claim that holds is among them with probability at most ``error``. Proof: profile.md.

    Source
    ------
    Capital: Waudby-Smith and Ramdas (2024). Stakes that reach a goal by a deadline with the largest probability:
    Browne (1999), Reaching goals by a deadline, Advances in Applied Probability 31.
    """
    goal, n = -math.log(error), s.size
    odds, above = odds_of(epsilons), s > r
    large, small, control = np.maximum(s, r), np.minimum(s, r), s - r
    claims = np.arange(epsilons.size)  # those not decided
    log_capital, refuted = np.zeros(epsilons.size), np.zeros(epsilons.size, bool)
    moments = _moments(excess(large[:pilot, None], small[:pilot, None], odds), above[:pilot], control[:pilot])
    start = pilot
    while start < n and claims.size:
        left, lowest, delta = n - start, odds[claims[0]], deltas[claims]
        stop = start + min(left, max(LEAST_BLOCK, math.ceil(SHARE * left)))
        share, slope, spread = _bet(moments[:, :, claims], control[:start])
        aim = np.minimum(log_capital[claims] + math.log(AIM) - goal, -1e-12)
        d = special.ndtri_exp(aim)  # where a normal walk would stand whose chance of success is the capital's
        stake = np.exp(-(d**2) / 2 - 0.5 * math.log(2 * math.pi) - aim) / (spread * math.sqrt(left))
        stake = np.minimum(stake, STAKE_CAP / np.maximum(delta + np.abs(slope), 1e-300))
        # Runs below the odds of every claim left have variables of 0 and are only counted.
        some = np.arange(start, stop)
        if not np.any(slope):
            some = some[large[some] > lowest * small[some]]
        values = excess(large[some, None], small[some, None], odds[claims])
        bets = np.where(above[some, None], share, 1 - share) * values - slope * control[some, None]
        log_capital[claims] += np.log1p(stake * (bets - delta)).sum(axis=0)
        log_capital[claims] += (stop - start - some.size) * np.log1p(-stake * delta)
        moments[:, :, claims] += _moments(values, above[some], control[some])
        refuted |= log_capital >= goal
        given_up = np.flatnonzero(~refuted & (log_capital < goal + math.log(HOPELESS)))
        end = given_up[0] if given_up.size else epsilons.size
        claims = np.flatnonzero(~refuted[:end])
        start = stop
    return int(np.argmin(np.append(refuted, False)))


def _moments(values: FloatArray, above: NDArray[np.bool_], control: FloatArray) -> FloatArray:
    """Sums by direction of the variables, their squares and their products with the control, shape (2, 3, claims)."""
    return np.stack(
        [
            [part.sum(axis=0), np.square(part).sum(axis=0), control[side] @ part]
            for side, part in ((above, values[above]), (~above, values[~above]))
        ]
    )


def _bet(moments: FloatArray, control: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Share of direction 0 (half, unless one is clearly larger), slope on the control, and spread of the bet.

    Any choice is valid; this one is from the runs seen, whose ``control`` is given.
    """
    seen, middle, width = control.size, float(control.mean()), max(float(control.var()), 1e-300)
    means, powers = moments[:, 0] / seen, (moments[:, 1] + 0.05) / (seen + 1)
    slopes = (moments[:, 2] / seen - means * middle) / width

    def variance(first: FloatArray | float, second: FloatArray | float, *, controlled: bool) -> FloatArray:
        """Of first Z_0 + second Z_1; the product of the two variables is 0."""
        with np.errstate(over="ignore", invalid="ignore"):  # of ratios that are infinite
            power = first**2 * powers[0] + second**2 * powers[1]
            rest = power - (first * means[0] + second * means[1]) ** 2
            rest = rest - width * (first * slopes[0] + second * slopes[1]) ** 2 if controlled else rest
        return np.maximum(rest, 1e-3 * power)

    gap = means[0] - means[1] - (slopes[0] - slopes[1]) * middle
    error = np.sqrt(variance(1.0, -1.0, controlled=True) / seen)
    share = np.where(np.abs(gap) < ASYMMETRY * error, 0.5, np.where(gap > 0, 1.0, 0.0))
    plain, best = (variance(share, 1 - share, controlled=use) for use in (False, True))
    helps = best < 0.9 * plain
    slope = np.where(helps, share * slopes[0] + (1 - share) * slopes[1], 0.0)
    return share, slope, np.sqrt(np.where(helps, best, plain))

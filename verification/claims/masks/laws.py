"""Exact privacy curves of the masks, and the noise and radii that the papers print for them.

A pair of inputs of a mask is a pair of normal laws: P = N(0, I) against Q with shift m_i and variance v_i in direction
i, in units of P. One direction (or equal ones) has the closed form :func:`log_delta`; any spectrum has
:func:`spread_delta`, the inversion of the moment generating function of the loss. Both are for the covariance mask read
as the matrix S^1/2 (I + eta G), of which the released product is a function; :func:`released_log_delta` bounds the
product from below by events of its own. :func:`weight_curve`, :func:`mean_curve` and :func:`covariance_curve` are for
plots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

from verification.claims.common.distances import FloatArray

TINY = 1e-300  # keeps logarithms finite
Pair = tuple[float, float, int]  # shift, variance, number of directions: P = N(0, I_n) and Q = N(shift e, variance I_n)


# ---- the papers' numbers ----


def weight_noise(alpha: ArrayLike, beta: ArrayLike, *, factor: float = 2.0) -> FloatArray:
    """Lemma F.1: eta_W = alpha / sqrt(2 (1 + ln(1/beta)))."""
    return np.asarray(alpha) / np.sqrt(factor * (1 - np.log(beta)))


def mean_noise(alpha: ArrayLike, beta: ArrayLike, d: ArrayLike, *, factor: float = 3.0) -> FloatArray:
    """Lemma F.2: eta_MEAN = alpha / sqrt(3 (d + ln(1/beta)))."""
    return np.asarray(alpha) / np.sqrt(factor * (np.asarray(d) - np.log(beta)))


def covariance_noise(alpha: float, log_beta: float, d: int, *, c1: float, root: bool = True) -> float:
    """Lemma F.7: eta_COV = alpha / (C1 sqrt d (sqrt d + sqrt ln(4/beta))); the thesis lacks the first sqrt d."""
    return alpha / (c1 * math.sqrt(d if root else 1) * (math.sqrt(d) + math.sqrt(math.log(4) - log_beta)))


def weight_radius(epsilon: ArrayLike, delta: ArrayLike, noise: ArrayLike) -> FloatArray:
    """Lemma F.1: gamma_W = eta_W epsilon / (2 ln(2/delta))."""
    return np.asarray(noise * np.asarray(epsilon) / (2 * np.log(2 / np.asarray(delta))))


def mean_radius(epsilon: ArrayLike, log_term: ArrayLike, alpha: ArrayLike, spread: ArrayLike) -> FloatArray:
    """Lemma F.2: gamma = min(1/2, epsilon alpha / (24 ln(2/delta) sqrt(d + ln(1/beta)))); both logarithms are given."""
    return np.minimum(0.5, np.asarray(epsilon) * alpha / (24 * np.asarray(log_term) * np.sqrt(spread)))


def covariance_conditions(epsilon: float, log_term: float, noise: float, d: int, *, frobenius: bool) -> list[float]:
    """Lemma F.6, equation (11): four bounds on gamma for spectral distances, or without sqrt d for Frobenius ones."""
    root = 1.0 if frobenius else math.sqrt(d)
    return [
        math.sqrt(epsilon / (2 * (d + 1 / noise**2))) / root,
        epsilon / (8 * math.sqrt(d * log_term)) / root,
        epsilon / (8 * log_term),
        epsilon * noise / (12 * math.sqrt(log_term)) / root,
    ]


def joint_radius(epsilon: float, log_term: float, alpha: float, log_beta: float, d: int, *, c2: float) -> float:
    """Lemma F.5: gamma = epsilon alpha / (C2 sqrt(d^2 (d + ln(4/beta)) ln(2/delta)))."""
    return epsilon * alpha / (c2 * d * math.sqrt((d + math.log(4) - log_beta) * log_term))


# ---- pairs at distance gamma ----


def mean_pairs(gamma: float, noise: float, d: int) -> list[Pair]:
    """Pairs of the mean mask at dist_COMP gamma: one or d equal ratios, both signs, the largest shift."""
    found = []
    for n in sorted({1, d}):
        for ratio in _ratios(gamma / math.sqrt(n)):
            found.append((gamma / noise * min(1.0, math.sqrt(ratio)), ratio, n))
    return found


def covariance_pairs(gamma: float, noise: float, d: int, *, frobenius: bool) -> list[Pair]:
    """Pairs of the matrix S^1/2 (I + eta G): q of d eigenvalues move, so q d normals, q = 1 or d; both signs."""
    found = []
    for q in sorted({1, d}):
        for ratio in _ratios(gamma / math.sqrt(q) if frobenius else gamma):
            found.append((_root_change(ratio) * math.sqrt(q) / noise, ratio, q * d))
    return found


def matrix_pairs(ratios: Sequence[float], noise: float) -> list[Pair]:
    """The pair of any spectrum: row i of the matrix is d normals with shift |sqrt(ratio_i) - 1| / eta."""
    return [(_root_change(ratio) / noise, ratio, len(ratios)) for ratio in ratios]


def _ratios(gamma: float) -> tuple[float, float]:
    return 1 + gamma, 1 / (1 + gamma)  # both orders of |ratio - 1| are at most gamma


def _root_change(ratio: float) -> float:
    return abs(ratio - 1) / (math.sqrt(ratio) + 1)


# ---- exact curves ----


def log_delta(epsilon: float, pair: Pair) -> float:
    """ln of the hockey-stick divergence of P over Q at epsilon >= 0."""
    return _difference(epsilon, *log_tails(epsilon, pair))


def log_tails(epsilon: float, pair: Pair) -> tuple[float, float]:
    """ln P(loss > epsilon) under P and under Q: a normal tail, or the inside or outside of a ball."""
    m, v, n = pair
    if abs(v - 1) < 1e-13:
        if m == 0:
            return -math.inf, -math.inf
        return float(special.log_ndtr(m / 2 - epsilon / m)), float(special.log_ndtr(-m / 2 - epsilon / m))
    centre = abs(m) / (1 - v)
    product = (m * m - v * (2 * epsilon - n * math.log(v))) / (
        1 - v
    )  # of both ends of the ball on the axis of the shift
    square = centre**2 - product
    if square <= 0:
        return -math.inf, -math.inf  # the loss stays below epsilon
    if n > 1:
        tail = stats.ncx2.sf if v < 1 else stats.ncx2.cdf
        p = float(tail(square, n, centre**2))
        q = float(tail(square / v, n, m * m * v / (1 - v) ** 2))
        return math.log(max(p, TINY)), math.log(max(q, TINY))
    far = centre + math.copysign(math.sqrt(square), 1 - v)
    ends = np.array([product / far, far])
    ends = np.stack([ends, (ends - abs(m)) / math.sqrt(v)])  # under P and under Q
    if v < 1:
        logs = np.logaddexp(special.log_ndtr(ends[:, 0]), special.log_ndtr(-ends[:, 1]))
    else:
        high, low = special.log_ndtr(ends[:, 0]), special.log_ndtr(ends[:, 1])
        logs = high + np.log(-np.expm1(np.minimum(low - high, -TINY)))
    return float(logs[0]), float(logs[1])


def _difference(epsilon: float, log_p: float, log_q: float) -> float:
    """ln(p - e^epsilon q)."""
    gap = -math.expm1(min(0.0, epsilon + log_q - log_p)) if log_p > -math.inf else 0.0
    return log_p + math.log(gap) if gap > 0 else -math.inf


def spread_delta(epsilon: float, pairs: Sequence[Pair]) -> tuple[float, float]:
    """(delta, its error) of a product of pairs, by inversion along the line of steepest descent.

    delta = (1 / 2 pi i) int M(z) exp(-z epsilon) / (z (z + 1)) dz over Re z = lambda, M(z) = E_P exp(z loss). The error
    is ten times the difference of step h and 2 h, and a bound of the rest beyond the last point, where |M| decreases.
    """
    shifts, ratios, n = (np.array(x, dtype=float) for x in zip(*pairs, strict=True))
    a = (1 - ratios) / ratios  # the loss is n ln(v)/2 + a |x|^2/2 - m x/v + m^2/(2v)
    largest = 0.999 / max(float(a.max()), 1e-9)

    def exponent(z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        z = z[:, None]
        rest = 1 - z * a
        part = n / 2 * (z * np.log(ratios) - np.log(rest))
        part = part + z * shifts**2 / (2 * ratios) + (z * shifts / ratios) ** 2 / (2 * rest)
        return np.asarray(part.sum(axis=1) - z[:, 0] * epsilon - np.log(z[:, 0]) - np.log1p(z[:, 0]))

    def height(log_line: float) -> float:
        return float(exponent(np.array([math.exp(log_line) + 0j])).real[0])

    line = math.exp(optimize.minimize_scalar(height, bounds=(-7, math.log(largest)), method="bounded").x)
    peak = height(math.log(line))
    end = line
    while float(exponent(np.array([line + 1j * end])).real[0]) > peak - 34 and end < 1e7:
        end *= 1.5
    t = np.linspace(0, math.asinh(end / line), 8001)  # u = line sinh t: dense where the integrand is large
    values = (np.exp(exponent(line + 1j * line * np.sinh(t)) - peak)).real * line * np.cosh(t)
    values[0] /= 2
    values[-1] /= 2
    scale = math.exp(peak) / math.pi
    fine, coarse = t[1] * values.sum(), 2 * t[1] * values[::2].sum()
    rest = math.exp(float(exponent(np.array([line + 1j * end])).real[0]) - peak) * end
    return float(scale * fine), float(scale * (10 * abs(fine - coarse) + rest))


def released_log_delta(epsilon: float, ratio: float, n: int, noise: float, rows: int = 1) -> float:
    """ln delta of the released product by events {squared norm beyond a bound} alone: a lower bound.

    The squared norm of ``rows`` rows of the matrix can be read off the product. In units of eta^2 it is noncentral
    chi-squared of n degrees with noncentrality ``rows`` / eta^2 under P, and ``ratio`` times that under Q. With n = 1
    it is a folded normal, computed in logarithms, so that delta may be as small as it likes.
    """
    if n > 1:
        tail = stats.ncx2.sf if ratio < 1 else stats.ncx2.cdf
        centre = rows / noise**2
        spread = math.sqrt(2 * (n + 2 * centre)) * math.copysign(1, 1 - ratio)
        bounds = n + centre + np.linspace(-1, 14, 60) * spread
        bounds = bounds[bounds > 0]
        with np.errstate(under="ignore", divide="ignore"):
            excess = float(np.max(tail(bounds, n, centre) - math.exp(epsilon) * tail(bounds / ratio, n, centre)))
        return math.log(excess) if excess > 0 else -math.inf
    if ratio > 1:
        return -math.inf  # the event of a small square is left out: a lower bound all the same
    bounds = 1 + noise * np.geomspace(1e-2, 1e6, 2000)
    p, q = (
        np.logaddexp(special.log_ndtr((1 - x) / noise), special.log_ndtr((-1 - x) / noise))
        for x in (bounds, bounds / math.sqrt(ratio))
    )
    margin = p - q - epsilon
    sure = margin > 1e-12 * (1 + np.abs(p))  # beyond the rounding of the logarithms
    return float(np.max((p + np.log(-np.expm1(-margin, where=sure, out=np.full_like(p, -1.0))))[sure], initial=-np.inf))


def largest_log_delta(epsilon: float, pairs: Sequence[Pair]) -> float:
    """ln delta of the worst of several pairs."""
    return max(log_delta(epsilon, pair) for pair in pairs)


def slack(pairs_at: Callable[[float], Sequence[Pair]], epsilon: float, log_claim: float) -> float:
    """Largest factor on the radius with delta <= the claim; ``pairs_at`` takes the factor, delta increases with it."""

    def excess(log_factor: float) -> float:
        return max(largest_log_delta(epsilon, pairs_at(math.exp(log_factor))), -1e300) - log_claim

    if excess(math.log(1e4)) <= 0:
        return math.inf
    return math.exp(optimize.brentq(excess, math.log(1e-3), math.log(1e4), xtol=1e-6))


# ---- for plots ----


def weight_curve(epsilons: ArrayLike, *, radius: float, noise: float) -> FloatArray:
    """Exact delta of the weight mask for weights ``radius`` apart."""
    return _curve(epsilons, [(radius / noise, 1.0, 1)])


def mean_curve(epsilons: ArrayLike, *, radius: float, noise: float, d: int) -> FloatArray:
    """Exact delta of the mean mask at the worst of the pairs of :func:`mean_pairs`."""
    return _curve(epsilons, mean_pairs(radius, noise, d))


def covariance_curve(epsilons: ArrayLike, *, radius: float, noise: float, d: int, frobenius: bool) -> FloatArray:
    """Exact delta of the matrix mask at the worst of :func:`covariance_pairs`: at least that of the product."""
    return _curve(epsilons, covariance_pairs(radius, noise, d, frobenius=frobenius))


def _curve(epsilons: ArrayLike, pairs: Sequence[Pair]) -> FloatArray:
    return np.array([math.exp(largest_log_delta(e, pairs)) for e in np.atleast_1d(epsilons).astype(float).tolist()])

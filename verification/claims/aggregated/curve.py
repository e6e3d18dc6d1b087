"""Privacy curves of the mask of the aggregated estimator: exact ones, and the proved bound of its Theorem 3.

A mask multiplies a D x D factor of the average by I + eta G. Between two averages whose ratio has eigenvalues e^x_i the
loss is a sum over rows, each an affine noncentral chi-square; P is the law at the first average.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

FloatArray = NDArray[np.float64]


def log_moment(
    x: FloatArray | float, z: FloatArray | NDArray[np.complex128] | complex, size: int, eta: float
) -> FloatArray:
    """Lambda_x(z) = ln E_P exp(z ln P/Q) of one row, ``size`` = D; complex ``z`` allowed, 1 + Re(z)(1 - e^-x) > 0."""
    a = -np.expm1(-np.asarray(x))
    shift = -np.expm1(-np.asarray(x) / 2) / eta
    linear = size / 2 * (z * np.asarray(x) - np.log1p(z * a))
    return np.asarray(linear + z * (1 + np.asarray(z)) * shift**2 / (2 * (1 + z * a)))


def single_delta(epsilon: float, x: float, size: int, eta: float) -> float:
    """Exact delta at any real epsilon for one eigenvalue e^x, x not 0, by noncentral chi-square tails."""
    a = -math.expm1(-x)
    constant = size * x / 2 + math.tanh(x / 4) / (2 * eta**2)
    centres = [1 / (eta * (1 + math.exp(sign * x / 2))) ** 2 for sign in (1, -1)]
    edge = 2 * (constant - epsilon) / a  # ln P/Q > epsilon where a/2 X < constant - epsilon
    tail = stats.ncx2.cdf if a > 0 else stats.ncx2.sf
    if edge <= 0:
        return 0.0 if a > 0 else -math.expm1(epsilon) if epsilon < 0 else 0.0
    return float(tail(edge, size, centres[0]) - math.exp(epsilon) * tail(edge * math.exp(-x), size, centres[1]))


def weight_delta(epsilon: float, omega: float, size: int, eta: float, share: float = 1.0) -> float:
    """Exact delta when the weights alone move, by omega kappa, with noise ``share`` kappa/sqrt(1/(4 eta^2) + D/2)."""
    mu = omega * math.sqrt(1 / (4 * eta**2) + size / 2) / share
    high, low = stats.norm.cdf(mu / 2 - epsilon / mu), stats.norm.cdf(-mu / 2 - epsilon / mu)
    return float(high - math.exp(epsilon) * low)


def spread_delta(epsilon: float, xs: FloatArray, weight: float, size: int, eta: float) -> float:
    """Exact delta, up to a quadrature error of about 1e-6 of itself, for eigenvalues e^x_i and weights moved by
    ``weight`` kappa: (1/pi) int Re exp(Lambda(z) - z epsilon)/(z (1 + z)) along z = lambda + iu.
    """
    mu = weight**2 * (1 / (4 * eta**2) + size / 2)

    def total(z: NDArray[np.complex128] | float) -> FloatArray:
        rows = sum((log_moment(x, z, size, eta) for x in xs if x), np.zeros(np.shape(z)))
        return np.asarray(rows + z * (1 + np.asarray(z)) * mu / 2)

    highest = min(300.0, 0.98 / max(1e-9, math.expm1(-float(xs.min(initial=0.0)))))
    saddle = optimize.minimize_scalar(
        lambda q: float(total(math.exp(q))) - math.exp(q) * epsilon - q - math.log1p(math.exp(q)),
        bounds=(math.log(0.05), math.log(highest)),
        method="bounded",
    )
    place = math.exp(float(saddle.x))
    top = float(total(place)) - place * epsilon
    curvature = float(total(1.01 * place)) + float(total(0.99 * place)) - 2 * float(total(place))
    sd = 0.01 * place / math.sqrt(max(1e-9, curvature))
    u = sd * np.append(np.linspace(0, 40, 4000, endpoint=False), np.linspace(40, 400, 6000))  # tails of a gamma law
    z = (place + 1j * u).astype(np.complex128)
    values = np.exp(total(z) - z * epsilon - top) / (z * (1 + z))
    return float(np.trapezoid(values.real, u) / math.pi * math.exp(top))


@dataclass(frozen=True, slots=True)
class Bound:
    """Theorem 3 at one omega: delta(epsilon) <= exp(``log_integral`` - lambda epsilon) at every lambda."""

    lambdas: FloatArray
    log_integral: FloatArray

    def delta(self, epsilon: float) -> float:
        """Upper bound at any real epsilon; below 0 by exact reflection."""
        if epsilon < 0:
            return min(1.0, -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon))
        return math.exp(min(0.0, float(np.min(self.log_integral - self.lambdas * epsilon))))


@functools.lru_cache(maxsize=400)
def proved(omega: float, size: int, eta: float, signs: tuple[int, ...] = (-1, 1)) -> Bound:
    """Theorem 3 with cells and left ends: monotone pieces only, so the result is an upper bound up to rounding.

    ``signs`` (1,) looks at positive x alone, which is wrong.
    """
    highest = min(0.999 / math.expm1(omega), 2000.0)
    lambdas = np.geomspace(min(0.3, highest / 3), highest, 60)[:, None]
    u = np.append(0.0, np.geomspace(2e-3, 1e6, 400)) * np.sqrt(lambdas * (lambdas + 1))
    edges = omega * np.concatenate([-1 + np.geomspace(1e-3, 0.8, 14), [0.2, 0.6, 1.0]])
    exponent = np.full(u.shape, -np.inf)
    for low, high in zip(np.append(-omega, edges[:-1]), edges, strict=True):
        if (high > 0 and 1 not in signs) or (low < 0 and high <= 0.2 * omega and -1 not in signs):
            continue
        # Lambda_x/x^2 falls with x, and so do the slope and the noncentrality; far is the largest |x| of the cell
        first = log_moment(low, lambdas, size, eta) / low**2
        a, y, far = -math.expm1(-high), math.exp(-high / 2), max(-low, high)
        slope = a / ((1 + lambdas * a) * high)
        noncentral = (y / ((1 + y) * eta)) ** 2 / (1 + lambdas * a)
        v2 = (slope * far * u) ** 2
        damped = (size / 4 * np.log1p(v2) + noncentral / 2 * v2 / (1 + v2)) / far**2
        exponent = np.maximum(exponent, first - damped)
    logs = omega**2 * exponent
    top = logs[:, :1]
    kernel = np.exp(logs - top) / np.sqrt((lambdas**2 + u**2) * ((lambdas + 1) ** 2 + u**2))
    tail = np.exp(logs[:, -1] - top[:, 0]) / u[:, -1]
    integral = (np.sum(kernel[:, :-1] * np.diff(u, axis=1), axis=1) + tail) / math.pi
    return Bound(lambdas[:, 0], np.log(integral) + top[:, 0])


def largest_omega(epsilon: float, delta: float, size: int, eta: float, *, exact: bool) -> float:
    """The largest omega with delta(epsilon) <= ``delta``: of Theorem 3, or of the single eigenvalue -omega."""

    def excess(log_omega: float) -> float:
        omega = math.exp(log_omega)
        found = single_delta(epsilon, -omega, size, eta) if exact else proved(omega, size, eta).delta(epsilon)
        return math.log(max(found, 1e-300) / delta)

    return math.exp(optimize.brentq(excess, math.log(1e-4), math.log(0.5), xtol=1e-7))

"""Privacy curve of the mask of lifted averages: a proved upper bound at every real epsilon.

Two averages at distance omega give outputs whose loss ln P/Q is a sum over rows, each with the log moment
Lambda_x(z) of one eigenvalue e^x. The curve is a contour integral of the moments, bounded piece by piece. Proof:
mechanisms/lifted_mask.md.
"""

from __future__ import annotations

import functools
import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_count, check_positive, check_probability
from pm_dpgmm.files.pickling import by_constructor

STEP = 2.0**-10  # width of a step of the curve, a power of two so that rounding cannot miss a step
REACH = 8  # below -REACH the curve is 1; above it steps are computed on demand
N_LAMBDAS = 160  # contours; every one gives a valid bound, more of them give a smaller one
LARGEST_LAMBDA = 1e4
N_POINTS = 420  # of the left sum along a contour
# Cells of [-omega, omega] as shares of omega, refined where the largest moment is.
CELLS = np.concatenate([[-1.0], -1 + np.geomspace(1e-3, 0.8, 13), [0.2, 0.6, 1.0]])
BLOCK = 4096  # steps beyond REACH that are computed at a time
ROUNDING = 1e-12  # relative allowance for floating point, far above 1e-16 times the number of operations


@dataclass(frozen=True, slots=True)
class LiftedMaskProfile:
    """Mask of lifted averages that are within ``omega`` of each other, in both orders of the pair.

    ``omega``^2 bounds the sum over components of d_AI^2 plus the sum over weights of (difference / kappa)^2;
    ``eta`` is the relative noise; ``dimension`` is D = n_features + 1. The number of components does not matter.

    Notes
    -----
    A step function that does not increase, defined at every real epsilon: below 0 by the symmetry of the pair,
    delta(epsilon) = 1 - exp(epsilon) + exp(epsilon) delta(-epsilon).

    Examples
    --------
    >>> profile = LiftedMaskProfile(omega=0.019, eta=0.05, dimension=3)
    >>> profile.delta(1.0) < 1e-6 < profile.delta(0.9)
    True
    """

    omega: float
    eta: float
    dimension: int
    kind: ClassVar[str] = "lifted-mask"
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        check_probability(omega=self.omega)
        check_positive(eta=self.eta)
        check_count(least=2, dimension=self.dimension)

    def delta(self, epsilon: float) -> float:
        """Upper bound of the hockey-stick divergence at any real ``epsilon``: its value at the step below."""
        if epsilon < -REACH:
            return 1.0
        place = math.floor(min(epsilon, 1e9) / STEP)  # exact
        steps = _steps(self)
        if place < REACH / STEP:
            return float(steps[place + round(REACH / STEP)])
        return min(float(steps[-1]), float(self.bounds(np.array([place * STEP]))[0]))

    def curve(self, epsilons: FloatArray) -> FloatArray:
        """:meth:`delta` at every one of ``epsilons``, shape (n,)."""
        steps, middle = _steps(self), round(REACH / STEP)
        places = np.floor(np.clip(epsilons, -1e9, 1e9) / STEP).astype(np.int64)  # exact
        found = np.where(epsilons < -REACH, 1.0, steps[np.clip(places + middle, 0, len(steps) - 1)])
        far, back = np.unique(places[places >= middle], return_inverse=True)
        blocks = np.array_split(far * STEP, max(1, math.ceil(len(far) / BLOCK)))
        found[places >= middle] = np.minimum(steps[-1], np.concatenate([self.bounds(block) for block in blocks]))[back]
        return found

    def log_moment(self, x: float, order: FloatArray | float) -> FloatArray:
        """Lambda_x(z) = ln E_P exp(z ln P/Q) for one eigenvalue e^``x``, z = ``order`` > 0; infinite where it diverges.

        Divided by z it is the Renyi divergence of order 1 + z. Q against P at x is P against Q at -x.
        """
        z = np.asarray(order, dtype=float)
        slope = -z * math.expm1(-x)
        finite = slope > -1
        slope = np.where(finite, slope, 0.0)
        spread = self.dimension / 2 * (z * x - np.log1p(slope))
        moment = spread + z * (1 + z) * (math.expm1(-x / 2) / self.eta) ** 2 / (2 * (1 + slope))
        return np.where(finite, moment, np.inf)

    def contours(self) -> tuple[FloatArray, FloatArray]:
        """Contours lambda and logarithms c of bounds of their integrals: delta(epsilon) <= exp(c - lambda epsilon).

        In a cell [low, high] the log moment over x^2 is largest at low; the damping by the imaginary part u is least
        with slope and noncentrality of high and the largest |x|. Everything falls in u, so left ends bound a sum.
        """
        highest = min(LARGEST_LAMBDA, 0.999 / math.expm1(self.omega))
        lambdas = np.geomspace(min(0.1, highest / 10), highest, N_LAMBDAS)[:, None]
        u = np.append(0.0, np.geomspace(2e-3, 1e4, N_POINTS - 1)) * np.sqrt(lambdas * (lambdas + 1))
        exponent = np.full(u.shape, -np.inf)
        for low, high in zip(self.omega * CELLS[:-1], self.omega * CELLS[1:], strict=True):
            moment = self.log_moment(low, lambdas) / low**2
            a, y = -math.expm1(-high), math.exp(-high / 2)
            farthest = max(-low, high)
            v2 = (a / (high * (1 + lambdas * a)) * farthest * u) ** 2
            noncentrality = (y / ((1 + y) * self.eta)) ** 2 / (1 + lambdas * a)
            damping = (self.dimension / 4 * np.log1p(v2) + noncentrality / 2 * v2 / (1 + v2)) / farthest**2
            exponent = np.maximum(exponent, moment - damping)
        exponent *= self.omega**2
        top = exponent[:, :1]
        pieces = np.exp(exponent - top) / np.sqrt((lambdas**2 + u**2) * ((lambdas + 1) ** 2 + u**2))
        tail = np.exp(exponent[:, -1] - top[:, 0]) / u[:, -1]
        integral = (np.sum(pieces[:, :-1] * np.diff(u, axis=1), axis=1) + tail) / math.pi
        slack = ROUNDING * (1 + self.dimension + np.abs(top[:, 0]))
        return lambdas[:, 0], np.log(integral) + top[:, 0] + slack

    def bounds(self, epsilons: FloatArray) -> FloatArray:
        """The least bound over all contours at ``epsilons`` >= 0, same shape (n,)."""
        lambdas, logs, starts = _contours(self)
        best = np.searchsorted(starts, epsilons, side="right")
        least = logs[best] - lambdas[best] * (1 - ROUNDING) * epsilons
        return np.maximum(np.exp(np.minimum(least, 0.0)), 1e-300)  # never 0 by underflow

    def steps(self) -> FloatArray:
        """Values at -REACH, -REACH + STEP, ..., REACH - STEP; a curve falls, so the least value so far holds."""
        grid = np.arange(REACH / STEP + 1) * STEP
        right = self.bounds(grid)
        left = (-np.expm1(-grid) + np.exp(-grid) * right)[:0:-1] * (1 + ROUNDING)
        steps = np.minimum.accumulate(np.minimum(1.0, np.concatenate([left, right[:-1]])))
        steps.setflags(write=False)
        return steps

    def to_dict(self) -> dict[str, Any]:
        """Kind and parameters, JSON-ready."""
        return {"kind": self.kind, **asdict(self)}

    def dominating_pair(self) -> None:
        """None: a dominating pair of laws is not known, only its curve is bounded."""
        return None


@functools.lru_cache(maxsize=64)
def _contours(profile: LiftedMaskProfile) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The contours that are best somewhere, and where each but the first starts to be."""
    best: list[tuple[float, float]] = []
    starts: list[float] = []
    for slope, log in zip(*(part.tolist() for part in profile.contours()), strict=True):  # ascending slopes
        while best and (start := (log - best[-1][1]) / (slope - best[-1][0])) <= (starts[-1] if starts else 0.0):
            best.pop()  # the new one is lower before this one starts to be the best
            del starts[-1:]
        if best:
            starts.append(start)
        best.append((slope, log))
    lambdas, logs = np.array(best).T
    return lambdas, logs, np.array(starts)


@functools.lru_cache(maxsize=64)
def _steps(profile: LiftedMaskProfile) -> FloatArray:
    return profile.steps()

"""Mechanisms whose epsilon can be chosen, for ``curve_power``: Gaussian noise, and those of the package.

Each gives two data sets at the largest distance that its proof allows, and simulated noise, so that a seed decides an
audit. The code that runs is the package's; only its budget, or the distance of the mask's averages, is another one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.ball_sum import noisy_ball_sum
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.lifted_mask import largest_omega
from pm_dpgmm.mechanisms.sketch import noisy_sketch
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.lifted_mask_curve import LiftedMaskProfile
from verification import GDP
from verification.auditing.bisection import bracket
from verification.auditing.claimed_curve import GAUSSIAN
from verification.targets import ball_sums, lifted, sketches
from verification.targets.runs import rows_of

DELTA = 1e-6
Sampler = Callable[[Any, int, np.random.Generator], Any]


@dataclass(frozen=True, slots=True)
class Family:
    """Of mechanisms: ``at(epsilon)`` has this epsilon at DELTA on two data sets, which it gives after the mechanism.

    ``profile(epsilon)``: the curve that a sound member claims. ``log_density``: of the mechanism, if it is known.
    """

    at: Callable[[float], tuple[Sampler, Any, Any]]
    profile: Callable[[float], Any]
    log_density: Callable[..., Any] | None = None


def mu_of(epsilon: float) -> float:
    """Of the Gaussian mechanism with this epsilon at DELTA."""
    return bracket(lambda mu: GAUSSIAN.epsilon_at(mu, DELTA) < epsilon, 1e-3, 50.0, relative=1e-9)[0]


def gaussian_profile(epsilon: float) -> GDP:
    """The curve of Gaussian noise."""
    return GDP(mu_of(epsilon))


def noisy(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Gaussian noise of scale 1 about ``data``."""
    return data + rng.normal(size=n_samples)


def log_density(outputs: Any, data: float) -> Any:
    """Of `noisy`, up to a constant."""
    return -((outputs - data) ** 2) / 2


@cache
def budget(epsilon: float) -> GaussianFilter:
    """All of it at once."""
    return GaussianFilter.of(epsilon, DELTA)


def ball_sum(epsilon: float, vectors: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Sums of vectors in the unit ball: what ``method="aggregate"`` releases."""

    def run() -> FloatArray:
        found, _ = noisy_ball_sum(vectors, radius=1.0, budget=budget(epsilon), share=Fraction(1), rng=rng)
        return np.append(found.total, found.n_inside)

    return rows_of(run, n_samples)


def sketch(epsilon: float, records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Noisy cosines and sines, at two frames of frequencies."""
    ways: dict[str, Any] = {"budget": budget(epsilon), "share": Fraction(1), "rng": rng}

    def run() -> FloatArray:
        found, _ = noisy_sketch(records, sketches.FRAMES, neighbouring=Neighbouring.REPLACE_ONE, **ways)
        return found.values.ravel()

    return rows_of(run, n_samples)


def ball_sum_at(epsilon: float) -> tuple[Sampler, Any, Any]:
    """One vector turns round."""
    rest = np.array([[0.3, 0.0, 0.1], [0.0, -0.2, 0.5]])
    end = np.array([ball_sums.AT_SURFACE, 0.0, 0.0])
    return partial(ball_sum, epsilon), np.vstack([end, rest]), np.vstack([-ball_sums.FAR * end, rest])


def sketch_at(epsilon: float) -> tuple[Sampler, Any, Any]:
    """A record goes half a turn of the base frequency."""
    rest = np.array([[0.2, 0.1], [0.4, -0.3]])
    return partial(sketch, epsilon), np.vstack([[0.0, 0.0], rest]), np.vstack([[1.0, 0.0], rest])


@cache
def omega(epsilon: float) -> float:
    """Distance of averages of one column at which the lifted mask has this epsilon."""
    return lifted.MARGIN * largest_omega(epsilon=epsilon, delta=DELTA, eta=lifted.NOISE.eta, dimension=2)


def mask_at(epsilon: float) -> tuple[Sampler, Any, Any]:
    """Lifted averages whose one eigenvalue differs, along a coordinate that is published."""
    return partial(lifted.simulated, noise=lifted.NOISE), *lifted.moved(
        lifted.one_component(), -omega(epsilon), lifted.CORNER
    )


def mask_profile(epsilon: float) -> Any:
    """The curve that is proved for the lifted mask."""
    return LiftedMaskProfile(omega=omega(epsilon), eta=lifted.NOISE.eta, dimension=2).delta


FAMILIES = {
    "gaussian": Family(lambda epsilon: (noisy, mu_of(epsilon), 0.0), gaussian_profile, log_density),
    "ball-sum": Family(ball_sum_at, gaussian_profile),
    "sketch": Family(sketch_at, gaussian_profile),
    "lifted-mask": Family(mask_at, mask_profile),
}

"""Mechanisms whose epsilon can be chosen, for ``curve_power``: Gaussian noise, and those of the package.

Each gives two data sets at the largest distance that its proof allows, and simulated noise, so that a seed decides an
audit. The code that runs is the package's; only its budget, or the distance of the mask's averages, is another one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import stats

from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.lifted_mask import largest_omega
from pm_dpgmm.privacy.lifted_mask_curve import LiftedMaskProfile
from verification import GDP
from verification.auditing.bisection import bracket
from verification.auditing.claimed_curve import GAUSSIAN
from verification.specimens import Specimen
from verification.targets import ball_sums, lifted, sketches

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


def with_budget(targets: Callable[[], list[Specimen]], name: str, epsilon: float) -> tuple[Sampler, Any, Any]:
    """A target of the package that spends one Gaussian budget, with that of ``epsilon`` in place of its own."""
    target = next(item for item in targets() if item.name == name)
    share = GaussianFilter.of(epsilon, DELTA).limit / GaussianFilter.of(target.epsilon, target.delta).limit
    return sketches.little_noise(target.mechanism, share), target.x, target.x_neighbour


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


def mask_log_density(outputs: Any, data: lifted.Average) -> Any:
    """Of the published corner, where nearly all of the difference is: e^x |(1, 0) + eta g|^2 for two normal numbers."""
    corner, eta_squared = float(data.corners[0]), lifted.NOISE.eta**2
    law = stats.ncx2(df=2, nc=1 / eta_squared, scale=corner * eta_squared)
    return law.logpdf(outputs[:, lifted.PARTS.index("corners")])


FAMILIES = {
    "gaussian": Family(lambda epsilon: (noisy, mu_of(epsilon), 0.0), gaussian_profile, log_density),
    # sums of vectors in a ball: what method="aggregate" releases; one vector turns round
    "ball-sum": Family(partial(with_budget, ball_sums.targets, "ball_sum"), gaussian_profile),
    # cosines and sines at two frames of frequencies; a record goes half a turn of the base frequency
    "sketch": Family(partial(with_budget, sketches.targets, "sketch"), gaussian_profile),
    # its proved curve is looser in the middle than in the tail: the exact score says what can be caught at all
    "lifted-mask": Family(mask_at, mask_profile, mask_log_density),
}

"""A noisy sum in a ball: subsets of one record, vectors at the surface.

One subset's vector goes from one end of a diameter to the other and leaves the ball; or its learner fails.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms import ball_sum
from pm_dpgmm.mechanisms.ball_sum import noisy_ball_sum
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.privacy.noise import Rng
from verification.specimens import Specimen
from verification.targets.runs import DELTA, EPSILON, at_bits, rows_of

MECHANISM = "mechanisms/ball_sum.py"
FAULT = f"fault in {MECHANISM}"
WHOLE = Fraction(1)
AT_SURFACE = 1 - 1e-5  # of the radius: inside, whatever rounding does
FAR = 1e6  # radii: outside


@cache
def budget() -> GaussianFilter:
    """Of the claim."""
    return GaussianFilter.of(EPSILON, DELTA)


def summed(
    vectors: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    noise: Rng = None,
    radius_of: Any = lambda vectors: 1.0,
    limit: Fraction = WHOLE,
) -> Any:
    """One release with the whole budget: the sum and the number inside. A radius of the vectors is a fault."""
    allowed = replace(budget(), limit=budget().limit * limit)
    radius = radius_of(vectors)

    def run() -> FloatArray:
        found, _ = noisy_ball_sum(vectors, radius=radius, budget=allowed, share=WHOLE, rng=noise)
        return np.append(found.total, found.n_inside)

    return rows_of(run, n_samples)


def longest(vectors: FloatArray) -> float:
    """Fault: the radius that just holds the vectors there are."""
    return float(np.linalg.norm(vectors, axis=1).max())


def unshrunk(vectors: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: every coordinate is cut to the radius, and not the vector."""

    def cut(vectors: Any, *, radius: float) -> Any:
        units = np.clip(np.asarray(vectors) / radius, -1.0, 1.0)
        return np.rint(units * ball_sum.RADIUS).astype(np.int64), np.ones(len(units), dtype=bool)

    with mock.patch.object(ball_sum, "shrunk", cut):
        return summed(vectors, n_samples, rng, noise=rng)


def one_radius(vectors: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the noise is made for a vector that comes or goes, and not for one that turns round."""
    with mock.patch.object(ball_sum, "ball_steps", return_value=ball_sum.RADIUS):
        return summed(vectors, n_samples, rng, noise=rng)


def floating_noise(vectors: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: sums in floating-point numbers with NumPy's normal noise."""
    points, inside = ball_sum.shrunk(vectors, radius=1.0)
    sums = np.append(points.sum(axis=0) / ball_sum.RADIUS, inside.sum() / 2)
    scale = math.sqrt(17 / 4 / budget().limit)
    return sums + rng.normal(scale=1.001 * scale, size=(n_samples, sums.size))


def targets() -> list[Specimen]:
    """Sums with one vector that turns round or has no numbers, both levels; four faults."""
    rest = np.array([[0.3, 0.0, 0.1], [0.0, -0.2, 0.5]])
    turned = np.vstack([[AT_SURFACE, 0.0, 0.0], rest]), np.vstack([[-FAR, 0.0, 0.0], rest])
    failed = np.vstack([[AT_SURFACE, 0.0, 0.0], rest]), np.vstack([[np.nan, 0.0, 0.0], rest])
    huge = np.vstack([[1e308, 1e308, 0.0], rest]), np.vstack([[-1e308, np.inf, 0.0], rest])
    corner = np.vstack([[1.0, 1.0, 1.0], rest]), np.vstack([[-1.0, -1.0, -1.0], rest])
    claim, inf = (EPSILON, DELTA), math.inf
    return [
        Specimen("ball_sum", MECHANISM, summed, *turned, *claim, 1.0, False, 8_000),
        at_bits("ball_sum_bits", MECHANISM, summed, *turned, *claim, 1.0, False, 8_000),
        Specimen("ball_sum_of_a_failed_fit", MECHANISM, summed, *failed, *claim, 1.0, False, 8_000),
        Specimen("ball_sum_of_huge_vectors", MECHANISM, summed, *huge, *claim, 1.0, False, 8_000),
        Specimen("ball_sum_one_radius", FAULT, one_radius, *turned, *claim, inf, True, 8_000),
        Specimen("ball_sum_unshrunk", FAULT, unshrunk, *corner, *claim, inf, True, 20_000),
        Specimen(
            "ball_sum_longest_radius", FAULT, partial(summed, radius_of=longest), *turned, *claim, inf, True, 2_000
        ),
        at_bits("ball_sum_floating_bits", FAULT, floating_noise, *turned, *claim, inf, True, 60_000),
    ]

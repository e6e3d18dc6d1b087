"""What precedes and judges a private sketch: moments of parts, duels of mixtures; box.py has the box and the count."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.log_likelihood_ratio import CLIP, noisy_log_likelihood_ratio
from pm_dpgmm.mechanisms.moments import COUNT_WEIGHT, NoisyMoments, moment_sums, noisy_moments
from pm_dpgmm.mechanisms.partitions import Partition, SoftPartition, VoronoiPartition
from pm_dpgmm.mechanisms.sketch_features import GRID
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import Rng
from verification.specimens import Specimen
from verification.targets.runs import DELTA, EPSILON, at_bits, rows_of
from verification.targets.sketches import SIXTEENFOLD, WHOLE, budget, little_noise

MOMENTS, DUEL = "mechanisms/moments.py", "mechanisms/log_likelihood_ratio.py"
REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
ORIGIN = np.zeros(2), np.ones(2)
ONE_CELL = VoronoiPartition(*ORIGIN, centres=np.zeros((1, 2)), radii=np.ones(1))
TWO_CELLS = VoronoiPartition(*ORIGIN, centres=np.array([[0.0, 0.0], [10.0, 0.0]]), radii=np.ones(2))
FACTORS = np.tile(np.eye(2) / math.sqrt(2), (3, 1, 1))  # radii of 1 at reach 1
SOFT = SoftPartition.of(*ORIGIN, np.array([0.5, 0.5]), TWO_CELLS.centres / 5, FACTORS[:2], reach=1.0)
LEFT, RIGHT = (
    SoftPartition.of(*ORIGIN, np.ones(1), np.array([[x, 0.0]]), 2 * FACTORS[:1], reach=1.0) for x in (-3.0, 3.0)
)
TRIES, EQUAL_PARTS = 16, 16


def flat(found: NoisyMoments) -> FloatArray:
    """Everything released, as one row."""
    squares = found.squares[:, *np.triu_indices(found.squares.shape[1])]
    return np.concatenate([found.counts, found.sums.ravel(), squares.ravel()])


def moments(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    partition: Partition = ONE_CELL,
    neighbouring: Neighbouring = REPLACE,
    limit: Fraction = WHOLE,
    noise: Rng = None,
) -> Any:
    """Moments with the whole budget; ``limit`` other than 1 is a fault."""
    settings: dict[str, Any] = {"share": WHOLE, "neighbouring": neighbouring, "rng": noise}
    allowed = replace(budget(), limit=budget().limit * limit)
    return rows_of(lambda: flat(noisy_moments(records, partition, budget=allowed, **settings)[0]), n_samples)


def with_noise(exact: Any, squared: float, n_samples: int, rng: np.random.Generator) -> FloatArray:
    """Numbers of a squared sensitivity with the noise that it asks for."""
    scale = 1.001 * math.sqrt(squared / budget().limit)
    return exact.ravel() + np.rint(rng.normal(scale=scale / GRID, size=(n_samples, exact.size))) * GRID


def out_of_the_ball(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: distances from the centre are not limited, and NaN is not replaced."""
    products = records[:, :, None] * records[:, None, :]
    exact = np.concatenate([[COUNT_WEIGHT * len(records)], records.sum(axis=0), products.sum(axis=0).ravel()])
    return with_noise(exact, 4.5, n_samples, rng)


def shares_of_one(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: densities over the largest, not over their sum, so a record counts whole in each of 16 equal parts."""
    exact = np.tile(moment_sums(records, ONE_CELL), (EQUAL_PARTS, 1)) * GRID
    return with_noise(exact, 4.5, n_samples, rng)


def floating_noise(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: moments in floating-point numbers with NumPy's normal noise."""
    products = records[:, :, None] * records[:, None, :]
    exact = np.concatenate([records.sum(axis=0), products.sum(axis=0).ravel()])
    return exact + rng.normal(scale=1.001 * math.sqrt(4.5 / budget().limit), size=(n_samples, exact.size))


def tried_again(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: a start that is rejected is tried again with the whole budget, 16 times at most."""

    def run() -> FloatArray:
        tries: list[FloatArray] = []
        while len(tries) < TRIES and not (tries and tries[-1][0] > 1e3):
            tries.append(moments(records, 1, rng, noise=rng)[0])
        return np.asarray(np.mean(tries, axis=0))

    return rows_of(run, n_samples)


def floored(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: counts are floored at a tenth of the number of records, which is private."""
    found = moments(records, n_samples, rng, partition=TWO_CELLS, neighbouring=ADD_REMOVE)
    found[:, :2] = np.maximum(found[:, :2], 0.1 * len(records))
    return found


def duel(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    neighbouring: Neighbouring = REPLACE,
    limit: Fraction = WHOLE,
    noise: Rng = None,
) -> Any:
    """Two mixtures on the records, with the whole budget; ``limit`` other than 1 is a fault."""
    settings: dict[str, Any] = {"share": WHOLE, "neighbouring": neighbouring, "rng": noise}
    allowed = replace(budget(), limit=budget().limit * limit)
    return rows_of(lambda: [noisy_log_likelihood_ratio(records, LEFT, RIGHT, budget=allowed, **settings)[0]], n_samples)


def duel_unclipped(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: a record far from both mixtures weighs as much as it likes."""
    exact = np.array([(np.square(records - RIGHT.centres) - np.square(records - LEFT.centres)).sum() / 4])
    return with_noise(exact, (2 * CLIP) ** 2, n_samples, rng)


def duel_in_floats(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: a ratio in floating-point numbers with NumPy's normal noise."""
    scale = 1.001 * 2 * CLIP / math.sqrt(budget().limit)
    return np.clip(-3 * records[:, 0], -CLIP, CLIP).sum() + rng.normal(scale=scale, size=(n_samples, 1))


def targets() -> list[Specimen]:
    """Every release at its worst pairs, at both levels; nine faults."""
    rest = np.array([[0.2, 0.1], [0.4, -0.3]])

    def pair(one: list[float], other: list[float]) -> tuple[FloatArray, FloatArray]:
        return np.vstack([one, rest]), np.vstack([other, rest])

    side = math.sqrt(3) / 2
    one_part, two_parts = pair([1.0, 0.0], [-0.5, side]), pair([1.0, 0.0], [11.0, 0.0])
    soft, wild = pair([-9.0, 0.0], [12.0, 0.0]), pair([np.nan, 1e308], [-1e300, 5e-324])
    far, ends = pair([1.0, 0.0], [30.0, 0.0]), pair([-10.0, 0.0], [10.0, 0.0])
    less = one_part[0], rest
    claim, inf = (EPSILON, DELTA), math.inf
    by_two, by_soft = partial(moments, partition=TWO_CELLS), partial(moments, partition=SOFT)
    one_less, no_count = partial(moments, neighbouring=ADD_REMOVE), rest[:1]
    duel_one_less = partial(duel, neighbouring=ADD_REMOVE)
    weak, half = little_noise(moments, SIXTEENFOLD), little_noise(duel, Fraction(4))
    fault_m, fault_d = f"fault in {MOMENTS}", f"fault in {DUEL}"
    return [
        Specimen("moments", MOMENTS, moments, *one_part, *claim, 1.0, False, 4_000),
        at_bits("moments_bits", MOMENTS, moments, *one_part, *claim, 1.0, False, 4_000),
        Specimen("moments_of_two_cells", MOMENTS, by_two, *two_parts, *claim, 1.0, False, 3_000),
        Specimen("moments_soft", MOMENTS, by_soft, *soft, *claim, 1.0, False, 4_000),
        at_bits("moments_soft_bits", MOMENTS, by_soft, *soft, *claim, 1.0, False, 4_000),
        Specimen("moments_of_wild_records", MOMENTS, by_soft, *wild, *claim, 1.0, False, 3_000),
        Specimen("moments_add_remove", MOMENTS, one_less, *less, *claim, 1.0, False, 3_000),
        Specimen("moments_little_noise", fault_m, weak, *one_part, *claim, inf, True, 4_000),
        Specimen("moments_out_of_the_ball", fault_m, out_of_the_ball, *far, *claim, inf, True, 2_000),
        Specimen("moments_shares_of_one", fault_m, shares_of_one, *one_part, *claim, inf, True, 4_000),
        Specimen("moments_tried_again", fault_m, tried_again, *one_part, *claim, inf, True, 2_000),
        Specimen("moments_floored", fault_m, floored, rest, no_count, *claim, inf, True, 2_000),
        at_bits("moments_floating_bits", fault_m, floating_noise, *one_part, *claim, inf, True, 8_000),
        Specimen("duel", DUEL, duel, *ends, *claim, 1.0, False, 8_000),
        at_bits("duel_bits", DUEL, duel, *ends, *claim, 1.0, False, 4_000),
        Specimen("duel_of_wild_records", DUEL, duel, *wild, *claim, 1.0, False, 3_000),
        Specimen("duel_add_remove", DUEL, duel_one_less, ends[0], rest, *claim, 1.0, False, 4_000),
        Specimen("duel_half_noise", fault_d, half, *ends, *claim, inf, True, 12_000),
        Specimen("duel_unclipped", fault_d, duel_unclipped, *far, *claim, inf, True, 2_000),
        at_bits("duel_floating_bits", fault_d, duel_in_floats, *one_part, *claim, inf, True, 60_000),
    ]

"""Sums of one step of private EM in all their kinds, method "em" from records to release, and faults of both.

Whole fits have two components, one level of cells, the published M-step and a start that takes no time: quick, and all
of it a function of released numbers. Centres and radii of a step are as noisy as what came before, so at the level of
values the output is the log-likelihood ratio of the transcript between the two data sets of the pair, which an attacker
who knows both can compute; at that of bits it is everything that was released.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.fit import fit_gmm
from pm_dpgmm.mechanisms import lloyd as lloyd_module
from pm_dpgmm.mechanisms.em_sums import NoisyEMSums, Squares, noisy_em_sums, squared_sensitivity
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.lloyd import lloyd_scale, noisy_lloyd
from pm_dpgmm.mechanisms.moments import COUNT_WEIGHT
from pm_dpgmm.mechanisms.partitions import Partition, SoftPartition
from pm_dpgmm.methods.em import method as em_method, run as em_run
from pm_dpgmm.methods.em.method import EM
from pm_dpgmm.methods.em.run import Run
from pm_dpgmm.methods.em.statistics import EMStatistics
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.start import merged, padded
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import Rng
from verification.specimens import Specimen
from verification.targets.before_sketch import ONE_CELL, SOFT, TWO_CELLS, with_noise
from verification.targets.runs import DELTA, EPSILON, at_bits, nothing_to_say, rows_of
from verification.targets.sketches import SIXTEENFOLD, WHOLE, budget, little_noise

SUMS, LLOYD, METHOD = "mechanisms/em_sums.py", "mechanisms/lloyd.py", "methods/em/method.py"
REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
BOUNDS = (-4.0, 4.0)
COLUMN = np.array([[-4.0], [-1.2], [1.1], [0.9], [1.0]])
ENDS = COLUMN, np.vstack([[4.0], COLUMN[1:]])  # a record at the one end of the bounds, or at the other
LONGER = COLUMN, np.vstack([[8.0], COLUMN[1:]])  # the longest of all, or twice as long
GONE = COLUMN, COLUMN[1:]
EQUAL_PARTS = 16


def flat(found: NoisyEMSums) -> FloatArray:
    """Everything released, as one row."""
    return np.concatenate([found.counts, found.sums.ravel(), found.squares.ravel()])


def summed(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    partition: Partition = ONE_CELL,
    squares: Squares = Squares.FULL,
    neighbouring: Neighbouring = REPLACE,
    limit: Fraction = WHOLE,
    noise: Rng = None,
) -> Any:
    """One step with the whole budget; ``limit`` other than 1 is a fault."""
    settings: dict[str, Any] = {"share": WHOLE, "neighbouring": neighbouring, "rng": noise, "squares": squares}
    allowed = replace(budget(), limit=budget().limit * limit)
    return rows_of(lambda: flat(noisy_em_sums(records, partition, budget=allowed, **settings)[0]), n_samples)


def shares_above_one(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: responsibilities that do not sum to 1, so a record counts whole in each of 16 components."""
    y = np.clip(records, -1.0, 1.0)
    one = np.concatenate([[0.5 * len(y)], y.sum(axis=0), np.square(y).sum(axis=0)])
    exact = np.tile(one, EQUAL_PARTS)
    return with_noise(exact, float(squared_sensitivity(Squares.DIAGONAL, REPLACE)), n_samples, rng)


def ball_of_another(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: one ball moves the records in, and another one's radius divides them, eight times smaller."""
    moved = records / np.maximum(1.0, np.linalg.norm(records, axis=1))[:, None]
    y = moved * 8
    exact = np.concatenate([[0.5 * len(y)], y.sum(axis=0), [np.square(y).sum()]])
    return with_noise(exact, float(squared_sensitivity(Squares.ISOTROPIC, REPLACE)), n_samples, rng)


def floating_noise(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: sums in floating-point numbers with NumPy's normal noise."""
    exact = np.concatenate([records.sum(axis=0), np.square(records).sum(axis=0)])
    scale = 1.001 * math.sqrt(float(squared_sensitivity(Squares.DIAGONAL, REPLACE)) / budget().limit)
    return exact + rng.normal(scale=scale, size=(n_samples, exact.size))


# ---------------------------------------------------------------------- k-means
def lloyd(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    delta: float = 0.0,
    neighbouring: Neighbouring = REPLACE,
    bounds: Any = ((-1.0, 1.0),),
    noise: Rng = None,
    **patches: Any,
) -> Any:
    """Two steps with two clusters of one column; ``patches``, and ``bounds`` made of records, are faults."""
    box = bounds(records) if callable(bounds) else bounds
    ways: dict[str, Any] = {"bounds": box, "n_steps": 2, "epsilon": EPSILON, "delta": delta}

    def run() -> FloatArray:
        found = noisy_lloyd(records, [[-0.5], [0.5]], neighbouring=neighbouring, rng=noise, **ways)
        return np.concatenate([part.ravel() for step in found.steps for part in (step.counts, step.moved)])

    with ExitStack() as held:
        for name, fault in patches.items():
            held.enter_context(mock.patch.object(lloyd_module, name, fault))
        return rows_of(run, n_samples)


def lloyd_as_printed(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the printed noise, for a record that comes or goes, where records are replaced, in one step of two."""

    def printed(n_features: int, n_steps: int, epsilon: float, neighbouring: Neighbouring, *, squares: bool) -> float:
        return lloyd_scale(n_features, 1, epsilon, ADD_REMOVE)

    return lloyd(records, n_samples, rng, noise=rng, lloyd_scale=printed)


# ---------------------------------------------------------------------- whole fits
def quick_start(leaves: ScaledMixture, n_components: int) -> list[ScaledMixture]:
    """``starts`` without its EM runs."""
    return [padded(merged(leaves, n_components), n_components)]


@functools.cache
def _filter(epsilon: float, delta: float) -> GaussianFilter:
    return GaussianFilter.of(epsilon, delta)


def one_budget(self: EM, problem: Problem) -> GaussianFilter:
    """``EM.budget``, calibrated once."""
    return _filter(problem.epsilon, problem.delta)


def log_ratio(raw: Mapping[str, FloatArray], one: FloatArray, other: FloatArray) -> float:
    """Log-likelihood of what was released if the records are ``one``, less that if they are ``other``."""
    steps = EMStatistics.from_arrays(raw)
    cells, unit, middle = raw["em_cells_0"][0], steps.unit[0], steps.bounds.mean()
    level = cells[-1] * np.array([1 / COUNT_WEIGHT, 1.0, 1.0]), cells[2:5]
    found = 0.0
    for sign, records in ((1, one), (-1, other)):
        y = np.clip(records[:, 0], *steps.bounds[0]) - middle
        y = np.clip((y / unit - cells[0]) / cells[1], -1.0, 1.0)
        first = np.array([len(y), y.sum(), np.square(y).sum()])
        exact = steps.features(records).sum(axis=0)
        squares = (
            np.square((level[1] - first) / level[0]).sum()
            + np.square((steps.values - exact) / steps.noise_scales).sum()
        )
        if steps.n_records_scale > 0:
            squares += ((steps.n_records - len(records)) / steps.n_records_scale) ** 2
        found -= sign * float(squares) / 2
    return found


def by_fit_gmm(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    neighbouring: str = "replace-one",
    bounds: Any = BOUNDS,
    pair: tuple[FloatArray, FloatArray] | None = None,
    noise: Rng = None,
    **patches: Callable[..., Any],
) -> Any:
    """Whole fits of one column; ``pair``: the ratio between these, not all that is in ``raw``.

    ``patches`` of parts of the method, and ``bounds`` made of records, are faults.
    """
    limits = bounds(records) if callable(bounds) else bounds
    settings = EM(n_steps=2, estimate="m-step", start_share=0.2, reach=0.3)  # both ends are outside of most balls

    def run() -> FloatArray:
        ways: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "neighbouring": neighbouring, "random_seed": noise}
        raw = fit_gmm(records, 2, method=settings, bounds=limits, progress=False, **ways).raw
        if pair is not None:
            return np.array([log_ratio(raw, *pair)])
        names = sorted(name for name in raw if name not in ("em_bounds", "em_unit", "em_scales"))
        return np.concatenate([np.ravel(raw[name]) for name in names])

    with ExitStack() as held:
        held.enter_context(mock.patch.object(em_run, "starts", quick_start))
        held.enter_context(mock.patch.object(em_run, "em_caveats", nothing_to_say))
        held.enter_context(mock.patch.object(em_method, "cell_sizes", return_value=[1]))
        held.enter_context(mock.patch.object(EM, "budget", one_budget))
        held.enter_context(mock.patch.object(EM, "check"))
        for name, fault in patches.items():
            owner = Run if hasattr(Run, name) else em_method
            held.enter_context(mock.patch.object(owner, name, fault))
        return rows_of(run, n_samples)


def noise_of_one_step(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: every step has noise as if it were the only one, of 64 times the budget."""
    real = em_method.noisy_em_sums

    def unpaid(*given: Any, budget: GaussianFilter, share: Fraction, **named: Any) -> Any:
        fresh = GaussianFilter(64 * budget.limit, budget.failure)
        return real(*given, budget=fresh, share=share, **named)[0], budget

    return by_fit_gmm(records, n_samples, rng, noise=rng, pair=ENDS, noisy_em_sums=unpaid)


def centre_of_the_data(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the balls of a step lie around the mean of the records."""
    real = Run.next_step

    def around(run: Run, reach: float) -> Any:
        step, parts = real(run, reach)
        at = step.means + (records.mean(axis=0) - step.means.mean(axis=1))
        moved = SoftPartition(
            parts.origin, parts.unit, parts.log_weights, (at[0] - run.middle) / run.unit, parts.whiteners, parts.radii
        )
        return replace(step, means=at, centres=at), moved

    return by_fit_gmm(records, n_samples, rng, noise=rng, next_step=around)


def radius_of_the_data(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the balls of a step just hold the records."""
    real = Run.next_step

    def holding(run: Run, reach: float) -> Any:
        step, parts = real(run, reach)
        radii = np.abs(records - step.centres[0].T).max(axis=0) / run.unit
        whole = SoftPartition(parts.origin, parts.unit, parts.log_weights, parts.centres, parts.whiteners, radii)
        return replace(step, radii=radii[None]), whole

    return by_fit_gmm(records, n_samples, rng, noise=rng, next_step=holding)


def norm_of_the_data(records: FloatArray) -> tuple[float, float]:
    """Fault: records are scaled by their own largest norm, as published."""
    largest = float(np.abs(records).max())
    return -largest, largest


def targets() -> list[Specimen]:
    """Steps of every kind at their worst pairs, whole fits under both relations; eight faults."""
    rest = np.array([[0.2, 0.1], [0.4, -0.3]])

    def pair(one: list[float], other: list[float]) -> tuple[FloatArray, FloatArray]:
        return np.vstack([one, rest]), np.vstack([other, rest])

    side = math.sqrt(3) / 2
    turned, opposite = pair([1.0, 0.0], [-0.5, side]), pair([1.0, 0.0], [-1.0, 0.0])
    two_parts, soft = pair([1.0, 0.0], [11.0, 0.0]), pair([-9.0, 0.0], [12.0, 0.0])
    less, far = (turned[0], rest), pair([30.0, 0.0], [-30.0, 0.0])
    claim, inf = (EPSILON, DELTA), math.inf
    round_ = partial(summed, squares=Squares.ISOTROPIC, partition=TWO_CELLS)
    by_columns = partial(summed, squares=Squares.DIAGONAL, partition=SOFT)
    k_means = partial(summed, squares=Squares.NONE)
    one_less = partial(summed, neighbouring=ADD_REMOVE)
    weak = little_noise(round_, SIXTEENFOLD)
    replaced, added = partial(by_fit_gmm, pair=ENDS), partial(by_fit_gmm, neighbouring="add-remove", pair=GONE)
    scaled = partial(by_fit_gmm, bounds=norm_of_the_data)
    ends, inner = (np.array([[-1.0], [0.9], [-0.8]]), np.array([[1.0], [0.9], [-0.8]])), np.array([[0.9], [-0.8]])
    lloyd_less, lloyd_gauss = partial(lloyd, neighbouring=ADD_REMOVE), partial(lloyd, delta=DELTA)
    lloyd_scaled = partial(lloyd, bounds=lambda records: [norm_of_the_data(records)])
    wide = ends[0], np.array([[50.0], [0.9], [-0.8]])
    pure, fault_l = (EPSILON, 0.0), f"fault in {LLOYD}"
    fault_s, fault_m = f"fault in {SUMS}", f"fault in {METHOD}"
    return [
        Specimen("em_sums", SUMS, partial(summed, partition=SOFT), *soft, *claim, 1.0, False, 4_000),
        at_bits("em_sums_bits", SUMS, summed, *turned, *claim, 1.0, False, 4_000),
        Specimen("em_sums_diagonal", SUMS, by_columns, *soft, *claim, 1.0, False, 4_000),
        Specimen("em_sums_isotropic", SUMS, round_, *two_parts, *claim, 1.0, False, 4_000),
        Specimen("em_sums_means", SUMS, k_means, *opposite, *claim, 1.0, False, 4_000),
        Specimen("em_sums_add_remove", SUMS, one_less, *less, *claim, 1.0, False, 4_000),
        Specimen("em_sums_little_noise", fault_s, weak, *two_parts, *claim, inf, True, 4_000),
        Specimen("em_shares_above_one", fault_s, shares_above_one, *opposite, *claim, inf, True, 4_000),
        Specimen("em_ball_of_another", fault_s, ball_of_another, *far, *claim, inf, True, 4_000),
        at_bits("em_sums_floating_bits", fault_s, floating_noise, *turned, *claim, inf, True, 16_000),
        Specimen("lloyd", LLOYD, lloyd, *ends, *pure, 1.0, False, 8_000),
        at_bits("lloyd_bits", LLOYD, lloyd, *ends, *pure, 1.0, False, 8_000),
        Specimen("lloyd_add_remove", LLOYD, lloyd_less, ends[0], inner, *pure, 1.0, False, 8_000),
        Specimen("lloyd_gaussian", LLOYD, lloyd_gauss, *ends, *claim, 1.0, False, 4_000),
        Specimen("lloyd_as_printed", fault_l, lloyd_as_printed, *ends, *pure, 4.0, True, 20_000),
        Specimen("lloyd_norm_of_the_data", fault_l, lloyd_scaled, *wide, *pure, inf, True, 4_000),
        Specimen("fit_gmm_em", METHOD, replaced, *ENDS, *claim, 1.0, False, 2_000),
        at_bits("fit_gmm_em_bits", METHOD, by_fit_gmm, *ENDS, *claim, 1.0, False, 2_000),
        Specimen("fit_gmm_em_add_remove", METHOD, added, *GONE, *claim, 1.0, False, 2_000),
        Specimen("fit_gmm_em_noise_of_one_step", fault_m, noise_of_one_step, *ENDS, *claim, inf, True, 2_000),
        Specimen("fit_gmm_em_centre_of_the_data", fault_m, centre_of_the_data, *ENDS, *claim, inf, True, 1_000),
        Specimen("fit_gmm_em_radius_of_the_data", fault_m, radius_of_the_data, *ENDS, *claim, inf, True, 1_000),
        Specimen("fit_gmm_em_norm_of_the_data", fault_m, scaled, *LONGER, *claim, inf, True, 1_000),
    ]

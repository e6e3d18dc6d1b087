"""Sums of Bernstein polynomials, method "central" from records to release, and faults of both.

Whole fits return the mixture that they start from: quick, and all of it a function of released numbers. Cells that are
found are as noisy as what came before, so at the level of values the output is the log-likelihood ratio of the
transcript between the two data sets of the pair; at that of bits it is everything that was released.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from fractions import Fraction
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.fit import fit_gmm
from pm_dpgmm.mechanisms.bernstein_sums import (
    WHOLE,
    Budget,
    LaplaceFilter,
    bernstein_sums,
    noisy_bernstein_sums,
    polynomials,
)
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.partitions import SoftPartition
from pm_dpgmm.methods.central import method as central_method, run as central_run
from pm_dpgmm.methods.central.method import Central
from pm_dpgmm.methods.central.run import Run
from pm_dpgmm.methods.central.statistics import CentralStatistics, partition_of
from pm_dpgmm.methods.em.statistics import EMStatistics
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import Rng, discrete_laplace
from verification.specimens import Specimen
from verification.targets.em import quick_start
from verification.targets.runs import DELTA, EPSILON, at_bits, nothing_to_say, rows_of

SUMS, METHOD = "mechanisms/bernstein_sums.py", "methods/central/method.py"
REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
NARROW = 0.02 * np.ones((2, 1, 1))  # edges so steep that a record has one cell
LINE = SoftPartition.of(np.zeros(1), np.ones(1), np.full(2, 0.5), np.array([[-1.0], [1.0]]), NARROW, reach=50.0)
PLANE = SoftPartition.of(
    np.zeros(2),
    np.ones(2),
    np.full(2, 0.5),
    np.array([[-1.0, 0.0], [1.0, 0.0]]),
    0.5 * np.array([np.eye(2)] * 2),
    reach=1,
)
COLUMN = np.array([[-4.0], [-1.2], [1.1], [0.9], [1.0]])
ENDS = COLUMN, np.vstack([[4.0], COLUMN[1:]])  # a record at the one end of the bounds, or at the other
GONE = COLUMN, COLUMN[1:]
LONGER = COLUMN, np.vstack([[8.0], COLUMN[1:]])
BOUNDS = (-4.0, 4.0)


# ---------------------------------------------------------------------- one release
def released(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    partition: SoftPartition = LINE,
    delta: float = 0.0,
    neighbouring: Neighbouring = REPLACE,
    pair: tuple[FloatArray, FloatArray] | None = None,
    noise: Rng = None,
) -> Any:
    """One partition with the whole budget; ``pair``: the log-likelihood ratio between these, not all numbers."""
    budget: Budget = LaplaceFilter.of(EPSILON) if delta == 0 else GaussianFilter.of(EPSILON, delta)
    ways: dict[str, Any] = {"budget": budget, "share": Fraction(1), "neighbouring": neighbouring, "rng": noise}
    found = rows_of(lambda: noisy_bernstein_sums(records, partition, **ways)[0].values.ravel(), n_samples)
    if pair is None:
        return found
    away = [np.abs(found - bernstein_sums(one, partition).ravel() / WHOLE).sum(axis=1) for one in pair]
    return (away[1] - away[0])[:, None]


def exact_moments(records: FloatArray) -> FloatArray:
    """Counts, sums and squares of the two cells of the line, (2, 3)."""
    return np.asarray(bernstein_sums(records, LINE) @ np.linalg.inv(polynomials(1)) / WHOLE)


def laplace(shape: tuple[int, ...], sensitivity: float, rng: np.random.Generator) -> FloatArray:
    """Noise on the grid."""
    return discrete_laplace(shape, scale=sensitivity * WHOLE / EPSILON, rng=rng) / WHOLE


def sensitivity_of_one_part(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: counts, sums and squares each have noise for what they move by alone, which is 2."""
    return exact_moments(records).ravel() + laplace((n_samples, 6), 2, rng)


def noise_of_means_alone(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: counts and squares leave as they are."""
    exact = np.broadcast_to(exact_moments(records), (n_samples, 2, 3)).copy()
    exact[:, :, 1] += laplace((n_samples, 2), 2, rng)
    return exact.reshape(n_samples, 6)


def empty_cell_divided(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: means are divided by counts of records, as published; an empty cell has none, and the run fails."""
    exact = exact_moments(records)
    with np.errstate(all="ignore"):
        means = np.where(exact[:, 0] > 0.5, exact[:, 1] / exact[:, 0], np.nan)
    return means + laplace((n_samples, 2), 2, rng)


def floating_noise(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: sums in floating-point numbers with NumPy's Laplace noise."""
    return bernstein_sums(records, LINE).ravel() / WHOLE + rng.laplace(scale=2 / EPSILON, size=(n_samples, 6))


# ---------------------------------------------------------------------- whole fits
def quick_fit(statistics: CentralStatistics, crude: Any, **named: Any) -> Any:
    """``fit_sums`` without a fit."""
    return crude, 0.0


def log_ratio(raw: Mapping[str, FloatArray], law: str, one: FloatArray, other: FloatArray) -> float:
    """Log-likelihood of what was released if the records are ``one``, less that if they are ``other``."""
    found = 0.0
    for level in CentralStatistics.from_arrays(raw).levels:
        cells = partition_of(level.cells)
        for sign, records in ((1, one), (-1, other)):
            away = level.sums - bernstein_sums(np.clip(records, *level.cells.bounds[0]), cells) / WHOLE
            if law == central_run.LAWS[0]:
                found -= sign * float(np.abs(away).sum()) / (level.scale / math.sqrt(2))
            else:
                found -= sign * float(np.square(away).sum()) / (2 * level.scale**2)
    return found


def by_fit_gmm(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    cells: str = "public",
    delta: float = 0.0,
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
    kind = "gaussian" if delta > 0 else "laplace"
    settings = Central(n_cells=4 if cells == "public" else 2, cells=cells, noise=kind)

    def run() -> FloatArray:
        ways: dict[str, Any] = {"epsilon": EPSILON, "delta": delta, "neighbouring": neighbouring, "random_seed": noise}
        release = fit_gmm(records, 2, method=settings, bounds=limits, progress=False, **ways)
        if pair is not None:
            return np.array([log_ratio(release.raw, release.noise["law"], *pair)])
        return np.concatenate([np.ravel(release.raw[name]) for name in sorted(release.raw)])

    with ExitStack() as held:
        held.enter_context(mock.patch.object(central_run, "starts", quick_start))
        held.enter_context(mock.patch.object(central_run, "fit_sums", quick_fit))
        held.enter_context(mock.patch.object(central_run, "central_caveats", nothing_to_say))
        held.enter_context(mock.patch.object(Central, "check"))
        for name, fault in patches.items():
            owner = Run if hasattr(Run, name) else central_method
            held.enter_context(mock.patch.object(owner, name, fault))
        return rows_of(run, n_samples)


def cells_of_the_data(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: cells lie side by side between the least and the largest record, as published."""
    real = Run.side_by_side

    def between(run: Run, size: int) -> EMStatistics:
        limits = np.array([[records.min(), records.max()]])
        own = real(Run(limits, run.n_records, run.n_components, run.noise), size)
        return central_run.cells_of(own.weights[0], own.centres[0], own.covariances[0], own.radii[0], run.bounds)

    return by_fit_gmm(records, n_samples, rng, noise=rng, side_by_side=between)


def bounds_of_the_data(records: FloatArray) -> tuple[float, float]:
    """Fault: the bounds are the least and the largest record."""
    return float(records.min()), float(records.max())


def noise_of_one_level(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: every level has noise as if it were the only one, of 16 times the budget."""
    real = noisy_bernstein_sums

    def unpaid(*given: Any, budget: LaplaceFilter, share: Fraction, **named: Any) -> Any:
        return real(*given, budget=LaplaceFilter.of(16 * EPSILON), share=Fraction(1), **named)[0], budget

    return by_fit_gmm(records, n_samples, rng, cells="found", noise=rng, pair=ENDS, noisy_bernstein_sums=unpaid)


def targets() -> list[Specimen]:
    """One release under both relations and noises, whole fits; seven faults."""
    rest, flat = np.array([[0.2], [-0.4]]), np.array([[0.2, 0.1], [0.4, -0.3]])
    apart = np.vstack([[-2.0], rest]), np.vstack([[2.0], rest])  # in the last number of one cell, or of the other
    emptied = np.array([[-1.0], [1.0], [1.2]]), np.array([[1.0], [1.0], [1.2]])
    corners = np.vstack([[-9.0, -5.0], flat]), np.vstack([[9.0, 5.0], flat])
    pure, claim, inf = (EPSILON, 0.0), (EPSILON, DELTA), math.inf
    less, in_plane = partial(released, neighbouring=ADD_REMOVE), partial(released, partition=PLANE, pair=corners)
    normal = partial(released, delta=DELTA)
    one_less = partial(by_fit_gmm, neighbouring="add-remove", pair=GONE)
    found, public = partial(by_fit_gmm, cells="found", pair=ENDS), partial(by_fit_gmm, pair=ENDS)
    gaussian, limits = partial(found, delta=DELTA), partial(by_fit_gmm, bounds=bounds_of_the_data)
    fault_s, fault_m = f"fault in {SUMS}", f"fault in {METHOD}"
    return [
        Specimen("bernstein_sums", SUMS, released, *apart, *pure, 1.0, False, 8_000),
        at_bits("bernstein_sums_bits", SUMS, released, *apart, *pure, 1.0, False, 8_000),
        Specimen("bernstein_sums_add_remove", SUMS, less, apart[0], rest, *pure, 1.0, False, 8_000),
        Specimen("bernstein_sums_plane", SUMS, in_plane, *corners, *pure, 1.0, False, 8_000),
        Specimen("bernstein_sums_gaussian", SUMS, normal, *apart, *claim, 1.0, False, 4_000),
        Specimen("central_sensitivity_of_one_part", fault_s, sensitivity_of_one_part, *apart, *pure, 3.0, True, 20_000),
        Specimen("central_noise_of_means_alone", fault_s, noise_of_means_alone, *apart, *pure, inf, True, 4_000),
        Specimen("central_empty_cell_divided", fault_s, empty_cell_divided, *emptied, *pure, inf, True, 4_000),
        at_bits("central_floating_bits", fault_s, floating_noise, *apart, *pure, inf, True, 8_000),
        Specimen("fit_gmm_central", METHOD, public, *ENDS, *pure, 1.0, False, 4_000),
        at_bits("fit_gmm_central_bits", METHOD, by_fit_gmm, *ENDS, *pure, 1.0, False, 4_000),
        Specimen("fit_gmm_central_add_remove", METHOD, one_less, *GONE, *pure, 1.0, False, 4_000),
        Specimen("fit_gmm_central_found", METHOD, found, *ENDS, *pure, 1.0, False, 2_000),
        Specimen("fit_gmm_central_gaussian", METHOD, gaussian, *ENDS, *claim, 1.0, False, 2_000),
        Specimen("fit_gmm_central_cells_of_the_data", fault_m, cells_of_the_data, *ENDS, *pure, inf, True, 1_000),
        Specimen("fit_gmm_central_bounds_of_the_data", fault_m, limits, *LONGER, *pure, inf, True, 1_000),
        Specimen("fit_gmm_central_noise_of_one_level", fault_m, noise_of_one_level, *ENDS, *pure, 48.0, True, 1_000),
    ]

"""Statistics from an untrusted source: what it must be to be read, to be fitted to, and to be a reference.

Every check is a function of the evidence alone, which is released or public, and comes before anything is spent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pm_dpgmm._arguments import (
    FloatArray,
    check_choice,
    check_non_negative,
    check_positive,
    check_real,
    finite_numbers,
    shown,
)
from pm_dpgmm.mechanisms.frequencies import FejerHarmonics, RieszProduct
from pm_dpgmm.mechanisms.gaussian_filter import LEAST_SCALE, MOST_NUMBERS
from pm_dpgmm.mechanisms.moments import NoisyMoments
from pm_dpgmm.mechanisms.partitions import SoftPartition, VoronoiPartition
from pm_dpgmm.mechanisms.sketch import NoisySketch
from pm_dpgmm.mechanisms.sketch_features import GRID
from pm_dpgmm.methods.sketch.covariance_types import COVARIANCE_TYPES
from pm_dpgmm.records.resolution import check_resolution, on_grid

if TYPE_CHECKING:
    from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
    from pm_dpgmm.methods.sketch.statistics import SketchStatistics

MOST_SKETCHES, MOST_TABLES = 64, 64  # each sketch is a pass over the records; a fit makes 1 to 3, and 2 to 12 tables
MOST_PARTS = 256  # of a table: 4 for each of 64 components; pairs of them are compared
MOST_SKETCH_COMPONENTS, MOST_TOGETHER = 64, 256  # of a fit; of all numbers of components that are compared
MOST_FITTED = {True: 2**11, False: 2**15}  # numbers that a fit weighs together: of one column, of more
# Nothing that a fit computes overflows or vanishes within these; what releases hold stays far inside.
LEAST_NOISE = LEAST_SCALE * GRID * (1 - 1e-9)
NUMBERS_OF_FRAME = 80  # cosines and sines of its 40 frequencies; the first sketch has a frame for each component
LARGEST_NUMBER = 1e12  # released sums and noise: sums are below 2^33 for 2^31 records
LARGEST_LENGTH = 1e120  # of units and centres: a method takes bounds up to 1e100
LARGEST_TURN = 1e15  # frequency times unit: components are wider than e^-12 units
NARROWEST = 1e-10  # width of the bounds over their distance from 0: cells of cells must have different ends
LARGEST_PART = 1e9  # centres and radii of parts, and the mixture, in units


def check_sketch_statistics(evidence: SketchStatistics) -> None:
    """Raise unless shapes fit each other, numbers are finite, and scales and units positive.

    Raises
    ------
    TypeError, ValueError
        Naming the first thing that does not.
    """
    unit = finite_numbers(evidence.unit, "unit")
    if unit.ndim != 1 or unit.size == 0 or not (unit > 0).all():
        raise ValueError(f"unit must be a row of positive numbers, got {unit.tolist()}")
    d = unit.size
    if not 0 < len(evidence.sketches) <= MOST_SKETCHES:
        raise ValueError(f"sketches must be 1 to {MOST_SKETCHES}, got {len(evidence.sketches)}")
    for i, sketch in enumerate(evidence.sketches):
        _check_sketch(sketch, f"sketches[{i}]", d)
    centre = evidence.centre
    for i, sketch in enumerate(evidence.sketches):
        if not np.array_equal(np.atleast_1d(sketch.frequencies.centre), centre):
            raise ValueError(f"sketches must have the same centre, got another one in sketches[{i}]")
        if (sketch.n_records_scale > 0) != (evidence.sketches[0].n_records_scale > 0):
            raise ValueError("sketches must all have a number of records with noise, or none, got both")
    n_numbers = sum(sketch.values.size + 1 for sketch in evidence.sketches)
    if n_numbers > MOST_NUMBERS:
        raise ValueError(f"sketches must hold at most {MOST_NUMBERS} numbers, got {n_numbers}")
    tables = (*evidence.cells, *evidence.parts)
    if len(tables) > MOST_TABLES:
        raise ValueError(f"moments must be at most {MOST_TABLES} tables, got {len(tables)}")
    for i, table in enumerate(tables):
        _check_moments(table, f"moments[{i}]", d)
    if evidence.variance_floor is not None and not (finite_numbers(evidence.variance_floor, "ridge", (d,)) >= 0).all():
        raise ValueError(f"ridge must be at least 0, got {np.asarray(evidence.variance_floor).tolist()}")
    if evidence.bounds is not None:
        low, high = finite_numbers(evidence.bounds, "bounds", (d, 2)).T
        if not (low < high).all():
            raise ValueError(f"bounds must increase, got {np.asarray(evidence.bounds).tolist()}")
    if evidence.resolution is not None:
        check_resolution(evidence.resolution, d)
        _check_within("resolution in units", evidence.resolution / unit, 0, LARGEST_PART)
        if not np.array_equal(on_grid(centre, evidence.resolution), centre):
            raise ValueError(f"centre must be a multiple of the resolution, got {centre.tolist()}")
    check_choice(COVARIANCE_TYPES, covariance_type=evidence.covariance_type)


def check_widths(bounds: FloatArray, reg_covar: float | Sequence[float]) -> None:
    """Raise ValueError unless bounds (D, 2) can be divided into cells of cells, and hold a variance floor."""
    width = bounds[:, 1] / 2 - bounds[:, 0] / 2
    if width.min() < 1e-100 or np.abs(bounds).max() > 1e100:
        raise ValueError(f"bounds must lie within 1e100 and 1e-100 apart, got {bounds.tolist()}; rescale")
    if (width < NARROWEST * np.abs(bounds).max(axis=1)).any():
        rule = "bounds must not lie so far from 0 for their width"
        raise ValueError(f"{rule}, got {bounds.tolist()}; shift X and bounds")
    if (np.sqrt(reg_covar) > 2 * width).any():
        rule = "reg_covar must be at most the squared width of the bounds"
        raise ValueError(f"{rule}, got {shown(reg_covar)} and bounds {shown(bounds.tolist())}")


def check_law(evidence: SketchStatistics, name: str) -> None:
    """Raise ValueError unless the covariance of the sketches has a factor, memory for it, and nothing overflows.

    A mechanism's noise on a sketch is at least 1 (LEAST_SCALE grid steps): far less, and rounding of what sampling
    contributes would hide it.
    """
    for sketch in evidence.sketches:
        if not (sketch.noise_scale >= LEAST_NOISE and sketch.n_records <= LARGEST_NUMBER):
            raise ValueError(
                f"{name} must have noise of scale 1 or more on its sketches and at most {LARGEST_NUMBER:g} records, got"
                f" {sketch.noise_scale:g} and {sketch.n_records:g}"
            )
    n_numbers, d = sum(sketch.values.size for sketch in evidence.sketches), len(evidence.unit)
    if n_numbers > MOST_FITTED[d == 1]:
        raise ValueError(f"{name} must hold sketches of at most {MOST_FITTED[d == 1]} numbers, got {n_numbers}")
    check_sizes(evidence, name)


def check_fittable(evidence: SketchStatistics, name: str) -> None:
    """Raise ValueError unless a mixture can be fitted to the evidence in bearable time and memory."""
    check_law(evidence, name)
    d = len(evidence.unit)
    if d > 1 and not evidence.cells:
        raise ValueError(f"{name} must hold moments of cells, where a fit to {d} columns starts, got none")
    largest = max((len(table.counts) for table in (*evidence.cells, *evidence.parts)), default=0)
    if largest > MOST_PARTS:
        raise ValueError(f"{name} must hold at most {MOST_PARTS} cells or parts in a table, got {largest}")


def check_numbers(numbers: Sequence[int], n_features: int, n_released: int | None = None) -> None:
    """Raise ValueError unless mixtures of so many components can be fitted in bearable time, now or later from a file.

    ``n_released``: numbers of the sketches, where they are known; there must be one for each weight and coordinate of a
    mean.
    """
    if max(numbers) > MOST_SKETCH_COMPONENTS:
        raise ValueError(f"n_components must be at most {MOST_SKETCH_COMPONENTS} for a sketch, got {max(numbers)}")
    if sum(numbers) > MOST_TOGETHER:
        raise ValueError(
            f"n_components must add up to at most {MOST_TOGETHER}, got {len(numbers)} numbers of {sum(numbers)}"
        )
    each = min(1 + n_features, NUMBERS_OF_FRAME)
    if n_released is not None and max(numbers) * each > n_released:
        rule = f"n_components must be at most {n_released // each} for a sketch of {n_released} numbers"
        raise ValueError(f"{rule}, got {max(numbers)}")


def check_sizes(evidence: SketchStatistics, name: str) -> None:
    """Raise ValueError unless every number has an ordinary size, so that no fit to such numbers can fail."""
    unit = evidence.unit
    _check_within(f"{name}: unit", unit, 1 / LARGEST_LENGTH, LARGEST_LENGTH)
    _check_within(f"{name}: centre", evidence.centre, 0, LARGEST_LENGTH)
    for sketch in evidence.sketches:
        waves = sketch.frequencies
        bases = waves.bases if isinstance(waves, RieszProduct) else np.array([waves.step * waves.order])
        with np.errstate(over="ignore"):
            _check_within(f"{name}: frequencies in units", bases * unit, 0, LARGEST_TURN)
        _check_within(f"{name}: sketch", sketch.values, 0, LARGEST_NUMBER)
        _check_within(f"{name}: n_records", np.array([sketch.n_records]), 0, LARGEST_NUMBER)
        scales = [sketch.noise_scale, *([sketch.n_records_scale] if sketch.n_records_scale else [])]
        _check_within(f"{name}: noise scale", np.array(scales), 1 / LARGEST_NUMBER, LARGEST_NUMBER)
    for table in (*evidence.cells, *evidence.parts):
        for values in (table.counts, table.sums, table.squares):
            _check_within(f"{name}: moments", values, 0, LARGEST_NUMBER**2)
        scale = np.array([table.noise_scale])
        _check_within(f"{name}: noise scale of moments", scale, LARGEST_NUMBER**-2, LARGEST_NUMBER**2)
        _check_within(f"{name}: centres of parts", table.partition.centres, 0, LARGEST_PART)
        _check_within(f"{name}: radii of parts", table.partition.radii, LARGEST_PART**-3, LARGEST_PART)
    if evidence.variance_floor is not None:
        _check_within(f"{name}: ridge", evidence.variance_floor, 0, LARGEST_PART)


def check_start(start: ScaledMixture, name: str) -> None:
    """Raise ValueError unless a mixture in the unit of its evidence has an ordinary size there."""
    widths = np.diagonal(start.factors, axis1=1, axis2=2)
    for what, values, least in (
        ("means", start.means, 0),
        ("deviations", widths, 1 / LARGEST_PART**2),
        ("covariances", start.factors, 0),
    ):
        _check_within(f"{name}: {what} of the mixture in units", values, least, LARGEST_PART)


def _check_sketch(sketch: NoisySketch, name: str, d: int) -> None:
    waves = sketch.frequencies
    if not isinstance(waves, (RieszProduct, FejerHarmonics)):
        raise TypeError(f"{name} must have frequencies of kind 'riesz' or 'fejer', got {type(waves).__name__}")
    if waves.n_features != d:
        raise ValueError(f"{name} must have frequencies for {d} columns as the unit has, got {waves.n_features}")
    finite_numbers(sketch.values, f"{name}: values", (2, waves.n_frequencies))
    check_positive(**{f"{name}: noise_scale": sketch.noise_scale})
    check_non_negative(**{f"{name}: n_records_scale": sketch.n_records_scale})
    check_real(**{f"{name}: n_records": sketch.n_records})
    if not (math.isfinite(sketch.n_records) and (sketch.n_records >= 1 or sketch.n_records_scale > 0)):
        raise ValueError(f"{name}: n_records must be finite, and at least 1 without noise, got {sketch.n_records}")


def _check_moments(table: NoisyMoments, name: str, d: int) -> None:
    partition = table.partition
    if not isinstance(partition, (VoronoiPartition, SoftPartition)):
        raise TypeError(f"{name} must have a partition into cells or parts, got {type(partition).__name__}")
    if partition.shape[1] != d:
        raise ValueError(f"{name} must have centres in {d} columns as the unit has, got {partition.shape[1]}")
    given: dict[str, Any] = {part: getattr(partition, part) for part in type(partition).__slots__}
    given |= {part: getattr(table, part) for part in ("counts", "sums", "squares")}
    for part, values in given.items():
        finite_numbers(values, f"{name}: {part}")
    for part in ("unit", "radii"):
        if not (given[part] > 0).all():
            raise ValueError(f"{name}: {part} must be greater than 0, got {given[part].min()}")
    check_positive(**{f"{name}: noise_scale": table.noise_scale})


def _check_within(name: str, values: Any, least: float, most: float) -> None:
    sizes = np.abs(values)
    wrong = ~((sizes >= least) & (sizes <= most))
    if wrong.any():
        rule = f"of size {least:g} to {most:g}" if least else f"of size at most {most:g}"
        raise ValueError(f"{name} must be {rule}, got {np.asarray(values)[wrong].flat[0]:g}")

"""Counts of a column after a public transformation, and of one whose transformation is chosen by the records.

A function of a user's own that mixes the numbers it is given is none of ours to forbid; as it never sees two of them
together, it is a public map all the same.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.histogram import cell_counts
from pm_dpgmm.methods.problem import read_problem
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import IntArray
from pm_dpgmm.records import transformation
from pm_dpgmm.records.transformation import Function, Transformation, values_of
from verification.specimens import Specimen
from verification.targets.histogram import N_CELLS, noisy
from verification.targets.runs import Prepared, at_bits

MODULE = "records/transformation.py"
BOUNDS = (-1.0, 1000.0)
PUBLIC = 2.0  # scale
POSITIVE = (0.5, 1000.0)


def counts_of(data: FloatArray, scale: float = PUBLIC) -> IntArray:
    """Exact counts of eight cells of asinh of a column, from the arguments of a fit on."""
    return _counts(data, BOUNDS, Transformation.asinh(scale))


def _counts(data: FloatArray, bounds: tuple[float, float], made: Transformation) -> IntArray:
    given: dict[str, Any] = {"bounds": bounds, "resolution": None, "transform": [made]}
    records, _, problem = read_problem(data[:, None], (1,), 1.0, None, Neighbouring.REPLACE_ONE, **given)
    assert problem.bounds is not None
    return cell_counts(records, bounds=problem.bounds, n_cells=N_CELLS)


def of_the_records(data: FloatArray) -> IntArray:
    """Fault: the scale of asinh is the records' own, so one record moves all others to other cells."""
    return counts_of(data, float(np.abs(data).mean()))


def of_shifted(data: FloatArray) -> IntArray:
    """With a function that adds the same to all numbers that it is given, so that all are above 0."""
    return _counts(data, POSITIVE, Transformation("shifted", _shifted, np.exp, lambda x: -np.log(x)))


def _shifted(x: FloatArray) -> FloatArray:
    return np.asarray(np.log(x if x.min() > 0 else x - x.min() + 1e-3))


def at_once(data: FloatArray) -> IntArray:
    """Fault: such a function is given the whole column, and passes its trial on bounds above 0."""

    def whole(forward: Function, x: FloatArray) -> FloatArray:
        return values_of(forward, x)

    with mock.patch.object(transformation, "_forced", whole):
        return of_shifted(data)


def targets() -> list[Specimen]:
    """A pair whose records go to far cells, at both levels, and one that goes below the bounds; two faults."""
    many = np.append(np.full(20, 3.0), 0.5)
    pair = np.append(many, 0.5), np.append(many, 1e4)
    release, fault = Prepared(counts_of, noisy), Prepared(of_the_records, noisy)
    below = np.append(many, 900.0), np.append(many, -400.0)
    shifted, together = Prepared(of_shifted, noisy), Prepared(at_once, noisy)
    return [
        Specimen("transformed_column", MODULE, release, *pair, 1.0, 0.0, 1.0, False, 20_000),
        at_bits("transformed_column_bits", MODULE, release, *pair, 1.0, 0.0, 1.0, False, 12_000),
        Specimen("transformed_scale_of_records", f"fault in {MODULE}", fault, *pair, 1.0, 0.0, 20.0, True, 6_000),
        Specimen("transformed_by_functions", MODULE, shifted, *below, 1.0, 0.0, 1.0, False, 12_000),
        Specimen("transformed_column_at_once", f"fault in {MODULE}", together, *below, 1.0, 0.0, 20.0, True, 6_000),
    ]

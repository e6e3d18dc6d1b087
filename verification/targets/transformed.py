"""Counts of a column after a public transformation, and of one whose transformation is chosen by the records."""

from __future__ import annotations

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.histogram import cell_counts
from pm_dpgmm.methods.problem import read_problem
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import IntArray
from pm_dpgmm.records.transformation import Transformation
from verification.specimens import Specimen
from verification.targets.histogram import N_CELLS, noisy
from verification.targets.runs import Prepared, at_bits

MODULE = "records/transformation.py"
BOUNDS = (-1.0, 1000.0)
PUBLIC = 2.0  # scale


def counts_of(data: FloatArray, scale: float = PUBLIC) -> IntArray:
    """Exact counts of eight cells of asinh of a column, from the arguments of a fit on."""
    given = {"bounds": BOUNDS, "resolution": None, "transform": [Transformation.asinh(scale)]}
    records, _, problem = read_problem(data[:, None], (1,), 1.0, None, Neighbouring.REPLACE_ONE, **given)
    assert problem.bounds is not None
    return cell_counts(records, bounds=problem.bounds, n_cells=N_CELLS)


def of_the_records(data: FloatArray) -> IntArray:
    """Fault: the scale of asinh is the records' own, so one record moves all others to other cells."""
    return counts_of(data, float(np.abs(data).mean()))


def targets() -> list[Specimen]:
    """A pair whose records go to far cells, at both levels, and one fault."""
    many = np.append(np.full(20, 3.0), 0.5)
    pair = np.append(many, 0.5), np.append(many, 1e4)
    release, fault = Prepared(counts_of, noisy), Prepared(of_the_records, noisy)
    return [
        Specimen("transformed_column", MODULE, release, *pair, 1.0, 0.0, 1.0, False, 20_000),
        at_bits("transformed_column_bits", MODULE, release, *pair, 1.0, 0.0, 1.0, False, 12_000),
        Specimen("transformed_scale_of_records", f"fault in {MODULE}", fault, *pair, 1.0, 0.0, 20.0, True, 6_000),
    ]

"""From what the front door is given to records, names and the public facts of a fit, before anything is spent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pm_dpgmm._arguments import shown
from pm_dpgmm._blocks import mapped
from pm_dpgmm.methods.outcome import Problem, TooFewRecords
from pm_dpgmm.methods.released_checks import check_names
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.records.blocks import RecordBlocks
from pm_dpgmm.records.categories import RowsOfLevel
from pm_dpgmm.records.feature_names import own_names
from pm_dpgmm.records.reading import read_bounds, read_records
from pm_dpgmm.records.resolution import read_resolution
from pm_dpgmm.records.transformed_columns import check_apart, read_transform


def read_problem(
    X: Any,
    choices: tuple[int, ...],
    epsilon: float,
    delta: float | None,
    relation: Neighbouring,
    *,
    columns: Sequence[str] | None = None,
    bounds: Any,
    resolution: Any,
    transform: Any,
) -> tuple[Any, tuple[str, ...], Problem]:
    """The records as a method sees them, the names of their columns, and the public facts of the fit.

    Columns with a public transformation are in the transformed unit, as are their bounds. Arguments are those of
    :func:`pm_dpgmm.fit_gmm`. Proof: problem.md.
    """
    records: Any = X
    if isinstance(X, RecordBlocks):
        if columns is not None:
            raise ValueError(
                f"columns must be given to RecordBlocks(X, columns=...) and not here, got {shown(columns)}"
            )
        n_records, feature_names = X.n_records, X.feature_names
    else:
        table = X.table if isinstance(X, RowsOfLevel) else X
        records, feature_names = read_records(table, columns=columns, few=isinstance(X, RowsOfLevel))
        n_records = len(records)
    check_names(feature_names)
    n_features = len(feature_names)
    if n_records < choices[-1] and not isinstance(X, RowsOfLevel):
        raise TooFewRecords(f"n_components = {choices[-1]} rows", n_records)
    own = own_names(feature_names)
    limits = read_bounds(bounds, n_features, own)
    steps = read_resolution(resolution, feature_names, limits)
    maps = read_transform(transform, feature_names, limits)
    if maps is not None:
        check_apart(steps, maps, feature_names)
        limits = None if limits is None else maps.of_bounds(limits, feature_names)
        records = mapped(records, maps.of_records)
    spent = float(epsilon), float(delta or 0.0)
    facts = Problem(n_records, n_features, choices[-1], *spent, limits, relation, choices, steps, maps)
    return records, feature_names, facts

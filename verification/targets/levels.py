"""Whole calls of ``fit_levels``: rows of two levels in, every array of both releases out."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm import by_level, fit_levels
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.counts import histogram
from pm_dpgmm.privacy.guarantee import Neighbouring
from verification.specimens import Specimen
from verification.targets.releases import HISTOGRAM_EPSILON, fit_once, published
from verification.targets.runs import as_it_is, at_bits, no_gain, nothing_to_say, rows_of

MODULE = "by_level.py"
LEVELS = (0, 1)
WIDTH = 2 * 5  # weight, mean, variance and two counts of each level


def whole(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    rows_at: Callable[..., Any] = by_level.rows_at,
    relation: Neighbouring = by_level.ADD_REMOVE,
    made: Callable[..., Any] = by_level.LevelReleases,
    read: Callable[..., Any] = by_level.RowsOfLevel,
) -> Any:
    """``fit_levels`` of records (N, 2), a value and a level, by histograms of two cells; what differs is a fault."""
    settings: dict[str, Any] = {"bounds": (0.0, 1.0), "n_cells": 2, "method": "histogram", "progress": False}

    def run() -> FloatArray:
        try:
            found = fit_levels(
                records[:, :1], 1, by=records[:, 1], levels=LEVELS, epsilon=HISTOGRAM_EPSILON, **settings
            )
        except ValueError:  # of a fault
            return np.full(WIDTH, np.nan)
        return np.concatenate([published(found[level]) for level in LEVELS])

    with ExitStack() as stack:
        for place, name, there in (
            (histogram, "fit_counts", fit_once),
            (histogram, "beside_histogram", as_it_is),
            (histogram, "gain_of_one_more", no_gain),
            (histogram, "count_caveats", nothing_to_say),
            (by_level, "rows_at", rows_at),
            (by_level, "ADD_REMOVE", relation),
            (by_level, "LevelReleases", made),
            (by_level, "RowsOfLevel", read),
        ):
            stack.enter_context(mock.patch.object(place, name, there))
        return rows_of(run, n_samples)


def all_rows(X: Any, places: Any) -> Any:
    """Fault: every level is fitted to all rows, at the price of one."""
    return X


def as_records(table: Any) -> Any:
    """Fault: a level without rows is refused, as a table without rows is."""
    return table


def mapping(name: str, releases: Any) -> Any:
    """Without the checks of ``LevelReleases``, which refuse public numbers of records."""
    return releases


def with_sizes(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: how many records a level has is public, as under replace-one neighbours of every fit."""
    sizes = np.bincount(records[:, 1].astype(int), minlength=2)
    rows = whole(records, n_samples, rng, relation=Neighbouring.REPLACE_ONE, made=mapping)
    return np.hstack([rows, np.tile(sizes, (n_samples, 1))])


def targets() -> list[Specimen]:
    """A record more in the second level, among others or alone, at both levels of the audit; three faults."""
    values = np.array([0.1, 0.2, 0.9, 0.1, 0.3, 0.2, 0.1])
    more = np.column_stack([values, [0, 0, 0, 1, 1, 1, 1]])
    pair = more, more[:-1]
    claim = HISTOGRAM_EPSILON, 0.0
    rare = more[:4], more[:3]
    refused = functools.partial(whole, read=as_records)
    overlap = functools.partial(whole, rows_at=all_rows)
    fault = f"fault in {MODULE}"
    return [
        Specimen("fit_levels", MODULE, whole, *pair, *claim, HISTOGRAM_EPSILON, False, 2_000),
        at_bits("fit_levels_bits", MODULE, whole, *pair, *claim, HISTOGRAM_EPSILON, False, 1_000),
        Specimen("fit_levels_rare", MODULE, whole, *rare, *claim, HISTOGRAM_EPSILON, False, 2_000),
        Specimen("fit_levels_refusing_rare", fault, refused, *rare, *claim, math.inf, True, 1_000),
        Specimen("fit_levels_of_all_rows", fault, overlap, *pair, *claim, 2 * HISTOGRAM_EPSILON, True, 6_000),
        Specimen("fit_levels_public_sizes", fault, with_sizes, *pair, *claim, math.inf, True, 1_000),
    ]

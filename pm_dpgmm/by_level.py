"""Tables with a column of categories: a mixture for each level, together at the price of one. Proof: by_level.md."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import check_choice, printable, read_choices, shown
from pm_dpgmm.fit import checked, chosen_method, fit_gmm
from pm_dpgmm.methods.capabilities import check_together
from pm_dpgmm.methods.fit_warnings import FitWarning, warning_about
from pm_dpgmm.methods.problem import read_problem
from pm_dpgmm.privacy.guarantee import Neighbouring, Unstable, warn_if_weak
from pm_dpgmm.privacy.ledger import Ledger
from pm_dpgmm.privacy.simulated_fits import without_warnings_of_fits
from pm_dpgmm.records.categories import (
    Level,
    RowsOfLevel,
    check_apart,
    check_levels,
    labelled,
    places_of,
    rows_at,
    table_of_file,
)
from pm_dpgmm.records.feature_names import listed_names
from pm_dpgmm.release.late_warnings import warn_after_spending
from pm_dpgmm.release.levels import LevelReleases
from pm_dpgmm.release.release import Release

METHODS = ("auto", "sketch", "histogram", "slices")  # whose releases tell how many records a level has
ADD_REMOVE = Neighbouring.ADD_REMOVE
NOT_HERE = {
    "neighbouring": "a replaced record may change its level, so it is 'add-remove'",
    "checkpoint": "an exception carries the releases that were made as its attribute levels",
    "learner": "no method here takes one",
    "n_jobs": "no method here takes one",
    "like": "levels have frequencies of their own",
}


def fit_levels(
    X: Any,
    n_components: int | Iterable[int] | Mapping[Level, int | Iterable[int]],
    *,
    by: str | ArrayLike,
    levels: Sequence[Level],
    epsilon: float,
    delta: float | None = None,
    columns: Sequence[str] | None = None,
    bounds: Any = None,
    resolution: Any = None,
    transform: Any = None,
    method: str = "auto",
    ledger: Ledger | None = None,
    progress: bool = True,
    random_seed: int | np.random.Generator | None = None,
    **settings: Any,
) -> LevelReleases:
    """Fit a Gaussian mixture to the rows of every level of a column of categories, under differential privacy.

    Parameters
    ----------
    X : DataFrame (pandas, polars), Arrow table, array (N, D) or path
        The records, one row per person, in memory; or a .csv or .parquet file, of which every number is read from its
        own text or entry.
    n_components : int, sequence of int, or dict of these by level
        As for :func:`pm_dpgmm.fit_gmm`.
    by : str or sequence of N labels
        The column of categories, which the mixtures are without; or the level of every row. In a .csv file a level is
        the text that stands there, or its integer or truth value: ``1``, ``True``.
    levels : sequence of str, int or bool
        All levels that a row may have, from public knowledge: not those that ``X`` happens to have. Of a level without
        a row noise alone is released.
    epsilon, delta : float
        Price of the whole: a person is in one level. Every level is fitted at this price.
    columns, bounds, resolution, transform, progress, random_seed
        As for :func:`pm_dpgmm.fit_gmm`, for the columns of the mixtures.
    method : {"auto", "sketch", "histogram", "slices"}
        Methods whose releases tell how many records there are.
    ledger : Ledger, optional
        Made with ``neighbouring="add-remove"``; charged once, before the first fit, and linked to its release.
    **settings
        Settings of the method.

    Returns
    -------
    LevelReleases
        A :class:`Release` by level, and the law of whole rows: shares of the levels, ``log_density``, ``sample``, and
        ``level_probs``, which is a classifier.

    Raises
    ------
    TypeError, ValueError
        On bad input, before any budget is spent. A row whose label is no level is refused: messages about rows are for
        the curator.
    BudgetExceeded
        When the ledger has too little left.
    Unstable
        When the fits of some levels refuse, as they do without bounds where there are few rows; those of all others
        were made first. Whatever ends the call after the first fit carries the releases that were made, a dict by
        level, as its attribute ``levels``.

    Warns
    -----
    FitWarning
        After all fits, one for each level whose ``release.warnings`` say why not to rely on it.
    WeakGuarantee
        As :func:`pm_dpgmm.fit_gmm`, before anything is spent.

    Guarantee
    ---------
    (epsilon, delta)-differential privacy of all releases together under add-remove neighbours, by parallel composition
    (by_level.md): a record that is added or removed is in the rows of one level, and the fits of the others do not see
    it. How many records a level has is private. A record that is replaced may leave one level and enter another; that
    is two steps, at the price that ``pm_dpgmm.group_epsilons`` says for a group of two.

    Levels with few rows, with none and with constant columns are fitted like all others: whether there is a result does
    not tell whether somebody is in a rare level.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(1)
    >>> table = pd.DataFrame({"sex": rng.choice(["f", "m"], 4_000), "height": rng.normal(170, 7, 4_000)})
    >>> table.loc[table["sex"] == "m", "height"] += 12
    >>> releases = fit_levels(table, 1, by="sex", levels=["f", "m"], epsilon=1.0, delta=1e-6, bounds=(100, 230))
    >>> bool(releases["m"].means[0, 0] > releases["f"].means[0, 0] + 8), releases.guarantee.epsilon
    (True, 1.0)
    >>> releases.sample(3, random_seed=1).columns.tolist()
    ['height', 'sex']
    """
    for name in settings:
        if name in NOT_HERE:
            raise TypeError(f"{name} must be left out, {NOT_HERE[name]}; got {shown(settings[name])}")
    check_choice(METHODS, method=method)
    found = check_levels(levels)
    numbers = _numbers(n_components, found)
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "neighbouring": str(ADD_REMOVE), "method": method}
    others = {"learner": None, "n_jobs": None, "ledger": ledger, "progress": progress, "random_seed": random_seed}
    for number in numbers:
        _, _, rng = checked(number, **budget, **others)
    columns = None if columns is None else listed_names(columns)
    if isinstance(by, str) and by in (columns or ()):
        raise ValueError(f"columns must be of numbers, without that of categories, got {by!r} among them")
    if isinstance(X, (str, os.PathLike)):
        X = table_of_file(Path(X), by, found, columns)
    name, labels, wanted = labelled(X, by, columns)
    places = places_of(labels, found, "by")
    public: dict[str, Any] = {"columns": wanted, "bounds": bounds, "resolution": resolution, "transform": transform}
    read_problem(RowsOfLevel(X), numbers[0], epsilon, delta, ADD_REMOVE, **public)  # errors count rows of the table
    parts = [RowsOfLevel(rows_at(X, np.flatnonzero(places == place))) for place in range(len(found))]
    for level, part, number in zip(found, parts, numbers, strict=True):  # all are checked before any is paid for
        with _told(name, level, {}):
            _, names, problem = read_problem(part, number, epsilon, delta, ADD_REMOVE, **public)
            check_apart(name, names)
            chosen = chosen_method(method, settings, problem, streamed=False)
            check_together(chosen, problem, number, part, names, None)
    warn_if_weak(epsilon, delta or 0.0, None)
    seeds = [None] * len(found) if rng is None else [int(seed) for seed in rng.integers(2**63, size=len(found))]
    asked = {"progress": progress, **budget, **public, **settings}
    made: dict[Level, Release] = {}
    refusals: list[Unstable] = []
    for level, part, number, seed in zip(found, parts, numbers, seeds, strict=True):
        once = None if made or refusals else ledger  # a person is in one level
        with _told(name, level, made), without_warnings_of_fits():
            try:
                made[level] = fit_gmm(part, number, ledger=once, random_seed=seed, **asked)
            except Unstable as refusal:  # its budget is spent: the others have theirs
                refusal.add_note(f"At level {level!r} of {name!r}.")
                refusals.append(refusal)
    with _kept(made):
        if refusals:
            raise refusals[0]
        releases = LevelReleases(name, made)
        for level, release in made.items():
            if release.flag:
                warn_after_spending(
                    FitWarning(f"{printable(name)} = {level!r}: {warning_about(release)}", release), stacklevel=2
                )
    return releases


def _numbers(n_components: Any, levels: tuple[Level, ...]) -> list[tuple[int, ...]]:
    """What each level's mixture may have."""
    if not isinstance(n_components, Mapping):
        return [read_choices(n_components)] * len(levels)
    if set(n_components) != set(levels):
        given = shown(list(n_components))
        raise ValueError(f"n_components must be a number, or a dict with every level {shown(levels)}, got {given}")
    return [read_choices(n_components[level]) for level in levels]


@contextlib.contextmanager
def _told(name: str, level: Level, made: dict[Level, Release]) -> Iterator[None]:
    """Whatever ends the fits says at which level, and keeps what was released before."""
    try:
        with _kept(made):
            yield
    except BaseException as error:
        error.add_note(f"At level {level!r} of {name!r}.")
        raise


@contextlib.contextmanager
def _kept(made: dict[Level, Release]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(Exception):
            error.levels = dict(made)  # type: ignore[attr-defined]
        if made:
            error.add_note(f"The budget is spent; releases of {len(made)} levels are in its attribute levels.")
        raise

"""Tables with a column of categories: a mixture for each level, together at the price of one. Proof: by_level.md."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import check_choice, check_delta, check_positive, generator_of, read_choices, shown
from pm_dpgmm.fit import fit_gmm
from pm_dpgmm.methods.problem import read_problem
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.ledger import Ledger
from pm_dpgmm.records.categories import Level, check_levels, labelled, places_of, rows_at
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
    X : DataFrame (pandas, polars), Arrow table or array (N, D)
        The records, one row per person, in memory.
    n_components : int, sequence of int, or dict of these by level
        As for :func:`pm_dpgmm.fit_gmm`.
    by : str or sequence of N labels
        The column of categories, which the mixtures are without; or the level of every row.
    levels : sequence of str, int or bool
        All levels that a row may have, from public knowledge: not those that ``X`` happens to have.
    epsilon, delta : float
        Price of the whole: a person is in one level. Every level is fitted at this price.
    columns, bounds, resolution, transform, progress, random_seed
        As for :func:`pm_dpgmm.fit_gmm`, for the columns of the mixtures.
    method : {"auto", "sketch", "histogram", "slices"}
        Methods whose releases tell how many records there are.
    ledger : Ledger, optional
        Made with ``neighbouring="add-remove"``; charged once, before the first fit.
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
        On bad input, before any budget is spent. A row whose label is no level is refused, and so is a level with fewer
        rows than components: messages about rows are for the curator.
    BudgetExceeded
        When the ledger has too little left.
    Unstable
        When the fit of a level refuses. What ends the fit after the first level carries the releases that were made, a
        dict by level, as its attribute ``levels``.

    Guarantee
    ---------
    (epsilon, delta)-differential privacy of all releases together under add-remove neighbours, by parallel composition
    (by_level.md): a record that is added or removed is in the rows of one level, and the fits of the others do not see
    it. How many records a level has is private. A record that is replaced may leave one level and enter another; that
    is two steps, at the price that ``pm_dpgmm.group_epsilons`` says for a group of two.

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
    check_positive(epsilon=epsilon)
    if delta is not None:
        check_delta(delta)
    found = check_levels(levels)
    numbers = _numbers(n_components, found)
    name, labels, wanted = labelled(X, by, columns)
    places = places_of(labels, found, "by")
    rng = None if random_seed is None else generator_of(random_seed)
    public: dict[str, Any] = {"columns": wanted, "bounds": bounds, "resolution": resolution, "transform": transform}
    parts = [rows_at(X, np.flatnonzero(places == place)) for place in range(len(found))]
    for level, part, number in zip(found, parts, numbers, strict=True):  # all are read before any is paid for
        with _told(name, level, {}):
            read_problem(part, read_choices(number), epsilon, delta, ADD_REMOVE, **public)
    made: dict[Level, Release] = {}
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "neighbouring": str(ADD_REMOVE), "random_seed": rng}
    asked = {"method": method, "progress": progress, **budget, **public, **settings}
    for level, part, number in zip(found, parts, numbers, strict=True):
        once = None if made else ledger  # a person is in one level
        with _told(name, level, made):
            made[level] = fit_gmm(part, number, ledger=once, **asked)
    return LevelReleases(name, made)


def _numbers(n_components: Any, levels: tuple[Level, ...]) -> list[Any]:
    """What each level's mixture may have."""
    if not isinstance(n_components, Mapping):
        return [n_components] * len(levels)
    if set(n_components) != set(levels):
        given = shown(list(n_components))
        raise ValueError(f"n_components must be a number, or a dict with every level {shown(levels)}, got {given}")
    return [n_components[level] for level in levels]


@contextlib.contextmanager
def _told(name: str, level: Level, made: dict[Level, Release]) -> Iterator[None]:
    """Whatever ends the fit says at which level, and keeps what was released before."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(Exception):
            error.levels = dict(made)  # type: ignore[attr-defined]
        kept = f" The budget is spent; releases of {len(made)} levels are in its attribute levels." if made else ""
        error.add_note(f"At level {level!r} of {name!r}.{kept}")
        raise

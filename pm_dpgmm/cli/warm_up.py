"""Compiling beforehand what the first model of each kind compiles, so that later processes find it on disk."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pymc as pm

from pm_dpgmm.bayes.rows.density import gmm
from pm_dpgmm.fit import fit_gmm

if TYPE_CHECKING:
    from pm_dpgmm.release.release import Release

N_ROWS = 60


def warm_up() -> Iterator[tuple[str, float]]:
    """Compile a model of each kind and sample it once; yields its name and the seconds it took.

    Made-up records are fitted, so fits find their compiled code afterwards, too. Compiled code holds no numbers of a
    release, or is short where it does: what is found again fits any release and any number of rows.

    Examples
    --------
    >>> for name, seconds in warm_up():  # doctest: +SKIP
    ...     print(f"{seconds:4.0f} s  {name}")
    """
    for name, build in MODELS.items():
        start = time.perf_counter()
        with _quiet(), pm.Model(coords={"row": range(N_ROWS)}):
            build()
            pm.sample(
                draws=2, tune=2, chains=1, cores=1, random_seed=1, progressbar=False, compute_convergence_checks=False
            )
        yield name, time.perf_counter() - start


@contextmanager
def _quiet() -> Iterator[None]:
    """Two draws are too few for anything, and PyMC says so."""
    logger = logging.getLogger("pymc")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _release(columns: int, delta: float | None) -> Release:
    """Of 2,000 made-up records around two centres."""
    centres = np.repeat([[30.0, 10.0], [65.0, 30.0]], 1000, axis=0)[:, :columns]
    records = centres + np.random.default_rng(1).normal(0.0, 6.0, size=centres.shape)
    return fit_gmm(records, 2, epsilon=1.0, delta=delta, bounds=(0, 100), random_seed=1, progress=False)


def _vectors(form: str) -> Callable[[], None]:
    def build() -> None:
        release = _release(2, 1e-6)
        x = release.prior("x", form=form, dims=("row", "feature"))
        pm.Normal("y", x, 2.0, observed=release.sample(N_ROWS, random_seed=2))

    return build


def _rows() -> None:
    release = _release(2, 1e-6)
    gmm("y", release.params("g"), observed=release.sample(N_ROWS, random_seed=2), dims=("row", "feature"))


def _evidence(columns: int, delta: float | None) -> Callable[[], None]:
    def build() -> None:
        release = _release(columns, delta)
        release.observe(release.params("g", prior="weak"))

    return build


MODELS: dict[str, Callable[[], None]] = {
    "release.prior, separated components": _vectors("labelled"),
    "release.prior, overlapping components": _vectors("mixture"),
    "release.params and gmm": _rows,
    "release.observe, a histogram": _evidence(1, None),
    "release.observe, a sketch of one column": _evidence(1, 1e-6),
    "release.observe, a sketch of more columns": _evidence(2, 1e-6),
}

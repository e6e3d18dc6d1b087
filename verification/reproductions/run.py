"""Which experiments there are, and how they are run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from verification.reproductions import populous, sample_efficient
from verification.reproductions.experiment import Effort, Experiment
from verification.reproductions.harrington_mayolo import error_figures, table_one
from verification.reproductions.park import figure_four, figure_three, figure_two

EXPERIMENTS: dict[str, Callable[[Effort], Experiment]] = {
    "hm-table-1": table_one.table_one,
    "hm-figure-3": error_figures.figure_three,
    "hm-figure-4": error_figures.figure_four,
    "park-figure-2": figure_two.figure_two,
    "park-figure-3": figure_three.figure_three,
    "park-figure-4": figure_four.figure_four,
    "populous-sizes": populous.sizes,
    "amn-univariate": sample_efficient.univariate,
}


def run_reproductions(
    names: Iterable[str] | None = None,
    *,
    effort: Effort | None = None,
    progress: Callable[[Experiment], None] = lambda experiment: None,
) -> list[Experiment]:
    """Run experiments.

    Parameters
    ----------
    names : iterable of str, optional
        Of ``EXPERIMENTS``; None: all.
    effort : Effort, optional
        How much to run; None: everything, in one process.
    progress : callable
        Called with each experiment when it is done.

    Returns
    -------
    list of Experiment
        Those whose tables are not installed have ``missing``.

    Raises
    ------
    ValueError
        If a name is none of them.

    Examples
    --------
    >>> list(EXPERIMENTS)[:3]
    ['hm-table-1', 'hm-figure-3', 'hm-figure-4']
    >>> run_reproductions(["hm-table-1"], effort=Effort(quick=True))[0].wrong
    []
    """
    chosen = list(EXPERIMENTS) if names is None else list(names)
    unknown = sorted(set(chosen) - set(EXPERIMENTS))
    if unknown:
        raise ValueError(f"names must be among {', '.join(EXPERIMENTS)}, got {', '.join(unknown)}")
    found = []
    for name in chosen:
        begun = time.perf_counter()
        experiment = EXPERIMENTS[name](effort or Effort())
        found.append(replace(experiment, seconds=time.perf_counter() - begun))
        progress(found[-1])
    return found

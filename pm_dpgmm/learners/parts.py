"""Fits to consecutive parts of a table, by whatever learner: together where it can, else one after the other."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.answers import VectorForm, form_of
from pm_dpgmm.learners.fit_arrays import Fits, stack_fits
from pm_dpgmm.learners.subsets import FitsTogether, fit_subsets
from pm_dpgmm.privacy.noise import IntArray


def fit_parts(
    learner: Any,
    rows: FloatArray,
    edges: IntArray,
    n_components: int,
    *,
    seeds: Sequence[int],
    n_jobs: int | None,
    progress: Callable[[int, int], None],
    time_limit: float | None = None,
    public_call: str | None = None,
) -> Any:
    """One fit for each part ``rows[edges[i] : edges[i + 1]]``; see :func:`pm_dpgmm.learners.subsets.fit_subsets`.

    Fit i is a function of part i and ``seeds[i]``, on the assumptions there. Those of a
    :class:`pm_dpgmm.VectorLearner` are vectors (t, p), of NaN where there is none.
    """
    if isinstance(learner, FitsTogether):
        from joblib import effective_n_jobs

        threads = effective_n_jobs(n_jobs or 1)
        fits: Fits = learner.fit_all(rows, edges, n_components, seeds=seeds, n_threads=threads, progress=progress)
        return fits
    found = fit_subsets(
        learner,
        [rows[low:high] for low, high in itertools.pairwise(edges)],
        n_components,
        seeds=seeds,
        n_jobs=n_jobs,
        progress=progress,
        time_limit=time_limit,
        public_call=public_call,
    )
    form = form_of(learner, n_components, rows.shape[1])
    if isinstance(form, VectorForm):
        return np.array([np.full(form.size, np.nan) if answer is None else answer for answer in found])
    return stack_fits(found, n_components, rows.shape[1])


@contextlib.contextmanager
def simulated_fits(
    learner: Any,
    n_components: int,
    *,
    n_jobs: int | None,
    progress: Callable[[int, int], None],
    time_limit: float | None = None,
    forgets: bool = True,
) -> Iterator[Callable[[FloatArray, IntArray], Any]]:
    """A function of rows and edges like :func:`fit_parts`, with seeds 0, 1, ..., for SIMULATED rows only.

    Such rows are public, so fits that would have a process each share them, unless the learner may not be one that
    ``forgets``: its answers would not be what they are to records.
    """
    from pm_dpgmm.learners.pool import servers

    with servers() as call:

        def fit(rows: FloatArray, edges: IntArray) -> Any:
            return fit_parts(
                learner,
                rows,
                edges,
                n_components,
                seeds=range(len(edges) - 1),
                n_jobs=n_jobs,
                progress=progress,
                time_limit=time_limit,
                public_call=call if forgets else None,
            )

        yield fit

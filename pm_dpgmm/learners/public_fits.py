"""Fits of public rows, simulated ones for instance: several share a process, which saves starting one for each.

Nothing here may see a record: what a learner keeps in memory reaches other fits of its batch. Proof: public_fits.md.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

from pm_dpgmm.learners.answers import Answer
from pm_dpgmm.learners.pool import Task, Work, awaited, clock_limit, fit_apart

MOST_TOGETHER = 32  # fits of a process
BATCHES = 4  # for each job, where there are so many fits: jobs then end at about the same time


def fit_public(
    call: str,
    learner: bytes,
    work: Work,
    n_components: int,
    n_jobs: int | None,
    progress: Callable[[int, int], None],
    time_limit: float | None,
) -> list[Answer | None]:
    """Fits of public subsets in batches, each batch in a process, by servers of ``call`` (:func:`pool.servers`).

    A process that ends early, for whatever reason, leaves the fits that it has finished; the others have a process
    each (:func:`pool.fit_apart`). ``progress`` hears of batches.
    """
    from joblib import effective_n_jobs

    size = max(1, min(MOST_TOGETHER, math.ceil(len(work) / (BATCHES * effective_n_jobs(n_jobs)))))
    starts = range(0, len(work), size)
    limits = time_limit, clock_limit(time_limit)
    tasks: list[Task] = [(call, learner, i, (list(work[i : i + size]), n_components, *limits)) for i in starts]
    fits: dict[int, Answer | None] = {}
    with contextlib.closing(awaited(tasks, n_jobs)) as outcomes:
        for start, answers in outcomes:
            if isinstance(answers, str):
                continue
            fits |= {i: answer for i, answer in enumerate(answers, start) if not isinstance(answer, str)}
            progress(len(fits), len(work))
    rest = [i for i in range(len(work)) if i not in fits]
    if rest:
        finished = len(fits)

        def further(done: int, _: int) -> None:
            progress(finished + done, len(work))

        again = fit_apart(learner, [work[i] for i in rest], n_components, n_jobs, further, time_limit)
        fits |= dict(zip(rest, again, strict=True))
    return [fits[i] for i in range(len(work))]

"""A learner is tried on simulated rows, which are public, before a budget is spent on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.answers import form_of
from pm_dpgmm.learners.subsets import check_learner, fit_one, pickled, runs_here

FORGETS = (
    "another answer for the same rows and the same seed, given again after other rows: it keeps something between"
    " calls or draws from a generator of its own; numpy.random's global functions are seeded for every fit"
)


def rehearse_learner(
    learner: Any, n_rows: int, n_features: int, n_components: int, *, time_limit: float | None = None
) -> None:
    """Try the learner on simulated rows: a slip in it, or a memory, should not cost a budget.

    After its method ``prepare``, if it has one, it gets rows A, other rows B, and A again, each with the same seed, in
    one process of its own, so that what it may keep is seen and does not stay. A learner that remembers only records of
    a special kind passes.

    Raises
    ------
    TypeError, ValueError
        If it cannot go to a process of its own, fails where components are 6 standard deviations apart, or gives
        another answer for A the second time.
    """
    check_learner(learner, time_limit=time_limit)
    rng = np.random.default_rng(0)
    first, second = (
        rng.standard_normal((n_rows, n_features)) + 6.0 * rng.integers(n_components, size=(n_rows, 1)) for _ in range(2)
    )
    second = 3.0 * second - 20.0
    if runs_here(learner):
        problem = rehearsal_problem(learner, first, second, n_components)
    else:
        from pm_dpgmm.learners.pool import rehearsal_apart

        problem = rehearsal_apart(pickled(learner), first, second, n_components, time_limit)
    if problem is not None:
        raise ValueError(
            f"learner must fit {n_components} components to {n_rows} simulated rows of {n_features} columns, and give"
            f" equal answers to equal rows and seeds (rehearse=False skips this trial), got {problem}"
        )


def rehearsal_problem(learner: Any, first: FloatArray, second: FloatArray, n_components: int) -> str | None:
    """What is wrong with the learner in this process, in words; None if nothing is."""
    try:
        getattr(learner, "prepare", lambda k, d: None)(n_components, first.shape[1])
        answers = [fit_one(learner, rows, n_components, seed=0) for rows in (first, second, first)]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    form = form_of(learner, n_components, first.shape[1])
    before, _, after = (form.numbers(answer).tobytes() for answer in answers)
    return None if before == after else FORGETS

"""Whether a method can do what was asked for with the records that were given, before anything is spent."""

from __future__ import annotations

from typing import Any

from pm_dpgmm._arguments import shown
from pm_dpgmm.learners.quiet import without_float_errors
from pm_dpgmm.learners.vector_learner import VectorLearner
from pm_dpgmm.methods.outcome import Method, Problem
from pm_dpgmm.records.blocks import RecordBlocks


def check_together(
    chosen: Method, problem: Problem, n_components: Any, X: Any, feature_names: tuple[str, ...], learner: Any
) -> None:
    """Raise unless the method can do what was asked for with such records."""
    if len(problem.component_choices) > 1 and not chosen.chooses:
        raise ValueError(
            f"n_components must be an integer with method {chosen.name!r}, got {shown(n_components)}; only 'sketch',"
            " which needs delta, chooses among several"
        )
    if isinstance(X, RecordBlocks) and not chosen.streams:
        raise ValueError(
            f"X must be records in memory with method {chosen.name!r}, got RecordBlocks; 'sketch' reads them"
        )
    if problem.bounds is not None and not chosen.takes_bounds:
        rule = f"bounds must be left out with method {chosen.name!r}, which has no use for them ('sketch' has)"
        raise ValueError(f"{rule}, got {shown(problem.bounds.tolist())}")
    if problem.resolution is not None and not chosen.knows_rounding:
        rule = f"resolution must be left out with method {chosen.name!r}, which knows of no rounding"
        raise ValueError(f"{rule} ('sketch' and 'histogram' do), got {shown(problem.resolution.tolist())}")
    if learner is not None and not chosen.takes_learner:
        rule = f"learner must be left out with method {chosen.name!r}, which runs none ('aggregate' and 'populous' do)"
        raise ValueError(f"{rule}, got {shown(learner)}")
    if isinstance(learner, VectorLearner) and not chosen.takes_vectors:
        raise ValueError(f"learner must answer with mixtures with method {chosen.name!r}, got {shown(learner)}")
    expected = chosen.feature_names
    if expected not in (None, feature_names):
        raise ValueError(f"X must have the columns of like, {shown(expected)}, got {shown(feature_names)}")
    try:
        with without_float_errors():
            chosen.check(problem)
    except ArithmeticError as error:  # constants that no float holds
        rule = "epsilon, delta and the settings must be of sizes that the method can compute with"
        given = f"{problem.epsilon:g}, {problem.delta:g} and {shown(chosen)}"
        raise ValueError(f"{rule}, got {given}: {error}") from None

"""A learner and a space of the user's own are tried on simulated rows before a budget is spent on them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.quiet import outside_events, unheard
from pm_dpgmm.learners.rehearsal import FORGETS
from pm_dpgmm.learners.subsets import own_random_streams
from pm_dpgmm.privacy.noise import Rng

if TYPE_CHECKING:
    from pm_dpgmm.tools.populous_estimate import Design, Space

Shape = tuple[int, ...]


def rehearse_estimate(
    learner: Callable[[FloatArray], Any], space: Space, design: Design, shape: Shape, *, rng: Rng
) -> None:
    """ValueError unless learner, distance and mask work on simulated rows, and the learner does not remember them."""
    public = np.random.default_rng(0)
    first, second = public.standard_normal(shape), 3.0 * public.standard_normal(shape) - 20.0
    what = "learner"
    try:
        with outside_events() as events, unheard():
            found = [own_answer(learner, part.copy(), 0) for part in (first, second, first)]
            if found[0] is None or found[2] is None:
                return  # there is nothing to try the space on
            what = "distance of the space"
            at_home, again = (float(space.distance(found[0], other)) for other in (found[0], found[2]))
            symmetric = found[1] is None or space.distance(*found[:2]) == space.distance(found[1], found[0])
            if at_home <= design.friend_radius:
                what = "mask of the space"
                space.mask(found[0], None if rng is None else np.random.default_rng(0))
    except (Exception, SystemExit) as error:
        rule = f"{what} must work on simulated rows of shape {shape} (rehearse=False skips this trial)"
        raise ValueError(f"{rule}, got {type(error).__name__}: {error}") from error
    if events:  # Ctrl-C, which the learner kept to itself
        raise events[0]
    if not symmetric:
        raise ValueError("distance of the space must be symmetric, got two answers for one pair of points")
    if again > at_home:
        rule = "learner must give equal answers to equal rows and seeds (rehearse=False skips this trial)"
        raise ValueError(f"{rule}, got {FORGETS}")


def own_answer(learner: Callable[[FloatArray], Any], part: FloatArray, seed: int) -> Any:
    """A copy of the answer: in memory that the learner writes to again, every answer would become the last one."""
    with own_random_streams(seed):
        return copy.deepcopy(learner(part))

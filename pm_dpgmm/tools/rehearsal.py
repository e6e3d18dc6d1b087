"""A learner and a space of the user's own are tried on simulated rows before a budget is spent on them."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, shown
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
    """ValueError unless learner, distance and mask work on simulated rows, and the learner does not remember them.

    What the user's signal handlers raise meanwhile is raised, as in the run itself.
    """
    public = np.random.default_rng(0)
    first, second = public.standard_normal(shape), 3.0 * public.standard_normal(shape) - 20.0
    with contextlib.suppress(Exception):  # what it keeps of simulated rows stays in the copy
        learner = copy.deepcopy(learner)
    what, wrong = "learner", None
    with outside_events() as events, unheard():
        try:
            found = [own_answer(learner, part.copy(), 0) for part in (first, second, first)]
            what = "distance of the space"
            at_home, again = (float(space.distance(found[0], other)) for other in (found[0], found[2]))
            there, back = (float(space.distance(*pair)) for pair in (found[:2], found[1::-1]))
            if not at_home <= design.friend_radius:
                what, wrong = "learner", f"an answer, {shown(found[0])}, at a distance of {at_home:g} from itself"
            elif there != back:
                wrong = f"{there:g} one way and {back:g} the other: it must be symmetric"
            elif again > at_home:
                what, wrong = "learner", FORGETS
            else:
                what = "mask of the space"
                space.mask(found[0], None if rng is None else np.random.default_rng(0))
        except (Exception, SystemExit) as error:
            wrong = f"{type(error).__name__}: {error}"
    if events:  # Ctrl-C, whatever the learner made of it
        raise events[0]
    if wrong is not None:
        rule = f"{what} must work on simulated rows of shape {shape} (rehearse=False skips this trial)"
        raise ValueError(f"{rule}, got {wrong}")


def own_answer(learner: Callable[[FloatArray], Any], part: FloatArray, seed: int) -> Any:
    """A copy of the answer: in memory that the learner writes to again, every answer would become the last one."""
    with own_random_streams(seed):
        return copy.deepcopy(learner(part))

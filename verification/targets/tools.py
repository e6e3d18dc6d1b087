"""The public tools: a choice among densities, a test before a release, the populous estimator with numbers."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.propose_test_release import pass_probabilities
from pm_dpgmm.mechanisms.truncated_laplace import truncated_laplace_loss
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Unstable
from pm_dpgmm.tools.hypotheses import select_hypothesis
from pm_dpgmm.tools.populous_estimate import Design, Numbers, designed, friend_table, released
from pm_dpgmm.tools.stability import propose_test_release
from verification.specimens import Specimen
from verification.targets.gaps import largest_loss
from verification.targets.runs import DELTA, EPSILON, Prepared, at_bits, rows_of

CHOICE, TEST, POPULOUS = "tools/hypotheses.py", "tools/stability.py", "tools/populous_estimate.py"
LAWS = (lambda x: -np.abs(x), lambda x: -np.abs(x - 3.0))  # log densities of Laplace laws, up to a constant
DRAWS = [np.random.default_rng(i).laplace(3.0 * i, size=400) for i in range(2)]
SPACE = Numbers(np.array([1.0]), epsilon=0.5)
LEAD = 7  # of votes, where the table of passing probabilities still grows fast


# ---------------------------------------------------------------------- choice
def chosen(
    data: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    laws: Any = LAWS,
    draws: Any = DRAWS,
    simulated: bool = False,
) -> Any:
    """Places chosen by the tool."""
    given: dict[str, Any] = {"epsilon": EPSILON, "accuracy": 0.02, "rng": rng if simulated else None}
    return rows_of(lambda: [float(select_hypothesis(data, laws, draws, **given).index)], n_samples)


# Fault: densities around the mean of what they are given, so that one record moves many from set to set.
CENTRED = (lambda x: -np.abs(x - x.mean() + 1.5), lambda x: -np.abs(x - x.mean() - 1.5))
SKEWED = [np.repeat([0.0, 20.0], [380, 20]), np.repeat([3.0, -50.0], [380, 20])]  # 95 % and 5 % below the mean


# ---------------------------------------------------------------------- test
def voted(
    data: FloatArray, n_samples: int, rng: np.random.Generator, *, moves: int = 1, simulated: bool = False
) -> Any:
    """The sign of the majority of records of -1 and 1, if it is stable; a refusal is NaN.

    As a fault the stability counts the difference of votes, which one record moves by two.
    """

    def stability(votes: FloatArray) -> int:
        lead = abs(int(votes.sum()))
        return (lead - 1) * moves // 2

    def run() -> list[float]:
        try:
            given: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "rng": rng if simulated else None}
            return [float(propose_test_release(data, stability, lambda votes, _: np.sign(votes.sum()), **given).value)]
        except Unstable:
            return [math.nan]

    return rows_of(run, n_samples)


def votes(lead: int) -> FloatArray:
    """41 votes with this lead, an odd number."""
    return np.repeat([1.0, -1.0], [(41 + lead) // 2, (41 - lead) // 2])


# ---------------------------------------------------------------------- populous
@functools.cache
def sound_design() -> Design:
    """The tool's own, from public facts."""
    return designed(SPACE, epsilon=EPSILON, delta=DELTA, n_subsets=None)


def wide_design() -> Design:
    """Fault: friends at twice what the mask hides, so that two friends of one answer may be at four times that."""
    sound = sound_design()
    return Design(sound.n_subsets, 2.0, sound.min_friends, sound.threshold, sound.test)


def majority_design() -> Design:
    """Fault: a plain majority of an odd number of answers, where two may share no answer but the changed one."""
    test = truncated_laplace_loss(sensitivity=4, epsilon=EPSILON / 2, delta=DELTA)
    return Design(3, 0.5, 2, 5 - 2 * test.bound, test)  # always passes: the choice alone is audited


def estimated(design: Design, *, shared: bool = False) -> Prepared:
    """Answers are the records themselves, one each; test and mask as released; a refusal is NaN.

    Fault, where ``shared``: answers are not copied, from a learner that writes to one array.
    """

    def prepare(data: FloatArray) -> Any:
        answers = [np.array([data[-1] if shared else x]) for x in data]
        return answers, friend_table(answers, SPACE, design.friend_radius)

    def sample(state: Any, n_samples: int, rng: np.random.Generator) -> Any:
        answers, friends = state

        def run() -> list[float]:
            found = released(answers, friends, SPACE, design, rng=None)
            return [math.nan] if found is None else [float(found[0][0])]

        return rows_of(run, n_samples)

    return Prepared(prepare, sample)


def first_moved(design: Design) -> tuple[FloatArray, FloatArray]:
    """All agree but the first, nearly a friend radius below or above the others: that is the one released."""
    step = 0.999 * design.friend_radius
    low = np.full(design.n_subsets, step)
    low[0] = 0.0
    high = low.copy()
    high[0] = 2 * step
    return low, high


def targets() -> list[Specimen]:
    """Every tool on its release path, with a fault."""
    even, tilted = np.repeat([0.0, 3.0], 20), np.repeat([0.0, 3.0], [19, 21])
    crowd = np.concatenate([np.zeros(20), np.full(20, 0.5), [1.0]])
    far = np.concatenate([crowd[:-1], [41.0]])
    centred = functools.partial(chosen, laws=CENTRED, draws=SKEWED, simulated=True)
    two = functools.partial(voted, moves=2, simulated=True)
    sound, wide, majority = sound_design(), wide_design(), majority_design()
    claim, pure, inf = (EPSILON, DELTA), (EPSILON, 0.0), math.inf
    centred_loss = largest_loss(np.array([16, 17]), np.array([36, 0]))  # 20 records change sides
    passing = pass_probabilities(PointProfile(0.0), epsilon=EPSILON, delta=DELTA).probabilities
    loose = math.log((passing[4] - DELTA) / passing[2])
    alone = np.zeros(sound.n_subsets)
    apart = np.array([0.0, 0.0, 50.0]), np.array([50.0, 0.0, 50.0])
    c, t, p = (f"fault in {module}" for module in (CHOICE, TEST, POPULOUS))
    return [
        Specimen("select_hypothesis", CHOICE, chosen, even, tilted, *pure, 1.0, False, 3_000),
        Specimen("tools_propose_test_release", TEST, voted, votes(LEAD), votes(LEAD + 2), *claim, 1.0, False, 6_000),
        Specimen("populous_estimate", POPULOUS, estimated(sound), *first_moved(sound), *claim, 1.0, False, 4_000),
        at_bits("populous_estimate_bits", POPULOUS, estimated(sound), *first_moved(sound), *claim, 1.0, False, 4_000),
        Specimen("select_hypothesis_centred", c, centred, crowd, far, *pure, centred_loss, True, 4_000),
        Specimen("tools_stability_of_two", t, two, votes(3), votes(5), *claim, loose, True, 10_000),
        Specimen("populous_estimate_wide_friends", p, estimated(wide), *first_moved(wide), *claim, 2.0, True, 8_000),
        Specimen("populous_estimate_majority", p, estimated(majority), *apart, *claim, inf, True, 1_000),
        Specimen(
            "populous_estimate_one_memory",
            p,
            estimated(sound, shared=True),
            alone,
            np.append(alone[1:], 50.0),
            *claim,
            inf,
            True,
            1_000,
        ),
    ]

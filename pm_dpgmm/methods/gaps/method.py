"""One column without bounds: gaps between records, then counts in bins, then a choice. Proof: method.md.

Ashtiani, Majid and Narayanan (2024), Algorithms 3 and 1, with a likelihood in place of a net of all mixtures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_count, check_probability, plain_numbers
from pm_dpgmm.mechanisms.gap_histogram import gap_noise, noisy_gap_counts
from pm_dpgmm.mechanisms.histogram import histogram_loss, noisy_counts
from pm_dpgmm.mechanisms.hypothesis_selection import (
    MOST_HYPOTHESES,
    check_selection,
    compared,
    noisy_best,
    selection_scores,
)
from pm_dpgmm.methods.gaps.candidates import Candidates, candidates
from pm_dpgmm.methods.gaps.caveats import INTERRUPTED, gap_caveats
from pm_dpgmm.methods.gaps.groups import bin_edges, groups_of, most_counted
from pm_dpgmm.methods.gaps.statistics import GapStatistics
from pm_dpgmm.methods.outcome import Listener, Method, Outcome, Problem, Progress, TooFewRecords, kept_by_nobody
from pm_dpgmm.mixture.far_rows import far_rows
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.mixture.scheffe_sets import Lines
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring, Unstable
from pm_dpgmm.privacy.noise import IntArray, Rng, permutation, random_assignment

CELL_RECORDS = 4  # cells are as wide as so many times the first block's records at the smallest gap in them
LARGEST_SHARE = 0.3  # of the gaps, in one cell: a Gaussian has as much in the cell of its median gap
LEAST_ACCURACY, SAMPLING = 0.02, 2.0  # of the choice; and so many standard errors of a share
HANDICAP = 4.0  # largest, in units of ln(candidates) / epsilon
PLACES = 1_000  # of a random assignment: shares of blocks are multiples of its inverse
MOST_GUESSED = 2**53
MOST_COMPONENTS = 64  # each needs some 2,000 records
MOST_REJECTED = 1_000  # draws of noise for one that is kept
STEPS = 3
LARGEST_RECORD, LEAST_RECORD = 1e100, 1e-100  # in size; variances are then normal floats
NOTHING_FOUND = (
    "method 'gaps' refused: no size and place of the gaps between records stood out. The budget is spent. Use more"
    " records, fewer components, records that are not rounded (equal ones leave no gap), or a method with bounds."
)


@dataclass(frozen=True, slots=True)
class GapsMethod(Method):
    """Settings of ``method="gaps"``: one column, no bounds of any kind, however far apart or unlike its components.

    Parameters
    ----------
    first_share : float
        Share of the records for the gaps, which find places and scales.
    last_share : float
        Share of the records for the choice among candidates; the rest is counted in bins.
    n_candidates : int
        Mixtures to choose from, at most 2,000; the time of the choice grows with its square.
    accuracy : float, optional
        Total variation that the choice does not resolve: mixtures that are closer than three times this are told apart
        by the counts of the bins alone. None: two standard errors of a share, and at least 0.02.
    assumed_records : int, optional
        Public guess of the number of records, for the width of the cells of gaps. Under add-remove neighbours it must
        be given.

    Guarantee
    ---------
    (epsilon, delta)-DP under replace-one or add-remove neighbours, whether it answers or refuses; no bounds on the
    data. Three disjoint blocks of the records have the whole budget each. Proof: method.md.

    Notes
    -----
    At epsilon 1 and delta 1e-6 a component needs some 800 records in the first block, so about 2,000 divided by the
    least weight in all (``verification/benchmarks/far_and_wide.py``). Components of a similar scale within bounds, or
    within some hundred deviations, are the business of "sketch". In the unit of the records those beyond 1e100 in size
    are moved there, and those below 1e-100 count as 0.
    """

    first_share: float = 0.4
    last_share: float = 0.2
    n_candidates: int = 100
    accuracy: float | None = None
    assumed_records: int | None = None
    name: ClassVar[str] = "gaps"
    takes_bounds: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_probability(first_share=self.first_share, last_share=self.last_share)
        if self.first_share + self.last_share > 0.99 or min(self.first_share, self.last_share) < 0.01:
            raise ValueError(
                "first_share and last_share must be at least 0.01 and leave 0.01 for the counts,"
                f" got {self.first_share!r} and {self.last_share!r}"
            )
        check_count(most=MOST_HYPOTHESES, n_candidates=self.n_candidates)
        if self.accuracy is not None:
            check_probability(accuracy=self.accuracy)
        if self.assumed_records is not None:
            check_count(most=MOST_GUESSED, assumed_records=self.assumed_records)
        plain_numbers(self)

    def cost(self, problem: Problem) -> tuple[float, float]:
        """The whole budget, also for a refusal."""
        return problem.epsilon, problem.delta

    def guarantee(self, problem: Problem) -> Guarantee:
        """What :meth:`release` promises; made before anything is spent."""
        words = "gaps, counts and a choice, each of a block of its own (methods/gaps/method.md)"
        loss = PointProfile(problem.epsilon, problem.delta)
        return Guarantee(problem.epsilon, problem.delta, problem.neighbouring, words, loss)

    def check(self, problem: Problem) -> None:
        """Raise ValueError unless delta > 0, there is one column without bounds, and records enough to be found."""
        if problem.delta <= 0:
            raise ValueError("method 'gaps' needs delta greater than 0, got 0")
        if problem.n_features != 1:
            raise ValueError(f"method 'gaps' supports 1 feature, got {problem.n_features}")
        _check_components(problem.n_components)
        if problem.neighbouring is Neighbouring.ADD_REMOVE and self.assumed_records is None:
            raise ValueError(
                "assumed_records must be given under add-remove neighbours: the number of records is private there,"
                " got None"
            )
        self.guarantee(problem).check_storable()
        budget: dict[str, Any] = {"epsilon": problem.epsilon, "neighbouring": problem.neighbouring}
        noise = gap_noise(delta=problem.delta, **budget)
        if noise.scale > MOST_REJECTED * max(1, noise.bound):
            rule = f"delta must be small enough beside epsilon ({problem.epsilon:g}) for noise that can be drawn"
            raise ValueError(f"{rule} with method 'gaps', got {problem.delta:g}")
        histogram_loss(**budget)
        check_selection(epsilon=problem.epsilon)
        least, public = math.ceil(noise.bound / (LARGEST_SHARE * self.first_share)) + 1, problem.public_records
        to_find = "for method 'gaps' to find even one component at this budget"
        if public is not None and public < least:
            raise TooFewRecords(f"{least} rows {to_find}", public)
        if self.expected_records(problem) < least:
            raise ValueError(f"assumed_records must be at least {least} {to_find}, got {self.assumed_records}")

    def expected_records(self, problem: Problem) -> int:
        """The number of records where it is public, else the guess."""
        public = problem.public_records
        if public is not None:
            return public
        return self.assumed_records or 0

    def cell_bits(self, problem: Problem) -> int:
        """Binary logarithm of the cells' width over the smallest gap in them; public."""
        first = CELL_RECORDS * self.first_share * self.expected_records(problem)
        return min(40, max(1, math.ceil(math.log2(first))))

    def release(
        self,
        records: FloatArray,
        problem: Problem,
        *,
        learner: Any,
        n_jobs: int | None,
        progress: Progress,
        rng: Rng,
        released: Listener = kept_by_nobody,
    ) -> Outcome:
        """Split; release gaps, counts and a choice, each from its own block; see the class for the guarantee."""
        guarantee = self.guarantee(problem)
        budget: dict[str, Any] = {"epsilon": problem.epsilon, "neighbouring": problem.neighbouring}
        first, second, third = blocks(
            within_reach(records[:, 0]),
            (self.first_share, self.last_share),
            problem.neighbouring,
            rng=rng,
        )
        cell_bits = self.cell_bits(problem)
        found, gaps = noisy_gap_counts(first, cell_bits=cell_bits, delta=problem.delta, rng=rng, **budget)
        if not len(found.counts):
            raise Unstable(NOTHING_FOUND, guarantee)
        found = most_counted(found)
        loss = histogram_loss(**budget)
        raw: dict[str, FloatArray] = {
            "gap_exponents": found.exponents.astype(float),
            "gap_places": found.places,
            "gap_counts": found.counts.astype(float),
        }
        law: dict[str, Any] = {
            "statistic": "counts of gaps, counts of bins, a choice",
            "law": "discrete Laplace",
            "scale": loss.scale,
            "gap_scale": gaps.scale,
            "gap_bound": gaps.bound,
            "cell_bits": cell_bits,
            "bin_records": len(second) if problem.public_records is not None else None,
        }
        released(guarantee, raw, law)
        edges = bin_edges(groups_of(found))
        counts = np.bincount(np.searchsorted(edges, second, side="right"), minlength=len(edges) + 1)
        noisy, _ = noisy_counts(counts, rng=rng, **budget)
        raw = raw | {"edges": edges, "counts": noisy.astype(float)}
        released(guarantee, raw, law)
        progress(1, STEPS)
        offered = candidates_of(raw, law, problem.n_components, self.n_candidates)
        progress(2, STEPS)
        chosen = self.choose(third, offered, problem, rng=rng)
        raw = raw | {"chosen": parameters(chosen)}
        released(guarantee, raw, law)
        progress(STEPS, STEPS)
        return finished(guarantee, raw, law, chosen)

    def choose(self, records: FloatArray, offered: Candidates, problem: Problem, *, rng: Rng) -> Mixture:
        """The candidate that explains records of a block of its own; how likely the counts made it is known by then."""
        m, epsilon = len(offered.mixtures), problem.epsilon
        seen = compared(Lines.of(offered.mixtures), records)
        scores = selection_scores(
            seen.inside, len(records), own=seen.own, other=seen.other, accuracy=self.resolution(problem)
        )
        behind = 2 / epsilon * (offered.log_likelihoods.max() - offered.log_likelihoods)
        handicaps = np.minimum(behind, HANDICAP * math.log(m + 1) / epsilon)
        return offered.mixtures[noisy_best(scores, epsilon=epsilon, handicaps=whole(handicaps), rng=rng)]

    def resolution(self, problem: Problem) -> float:
        """Accuracy of the choice; public."""
        if self.accuracy is not None:
            return self.accuracy
        return max(LEAST_ACCURACY, SAMPLING / math.sqrt(4 * self.last_share * self.expected_records(problem)))


def within_reach(column: FloatArray) -> FloatArray:
    """Every record by itself: at most ``LARGEST_RECORD`` in size, and 0 below ``LEAST_RECORD``."""
    return np.where(np.abs(column) < LEAST_RECORD, 0.0, np.clip(column, -LARGEST_RECORD, LARGEST_RECORD))


def blocks(
    column: FloatArray, shares: tuple[float, float], relation: Neighbouring, *, rng: Rng
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Three disjoint blocks, for gaps, counts and choice; neighbours differ in one record of one block.

    Replace-one: parts of fixed sizes of a random order. Add-remove: every record draws its block, independently.
    """
    first, last = shares
    if relation is Neighbouring.REPLACE_ONE:
        n = len(column)
        order = permutation(n, rng=rng)
        ends = [round(first * n), n - round(last * n)]
        one, two, three = np.split(column[order], ends)
        return one, two, three
    drawn = random_assignment(len(column), PLACES, rng=rng)
    ends = [round(first * PLACES), PLACES - round(last * PLACES)]
    block = np.searchsorted(ends, drawn, side="right")
    return column[block == 0], column[block == 1], column[block == 2]


def candidates_of(raw: Mapping[str, FloatArray], law: Mapping[str, Any], k: int, n_candidates: int) -> Candidates:
    """What the released gaps and counts offer to choose from: post-processing, also later from a file."""
    found = GapStatistics.of(raw, law)
    return candidates(found.bins, groups_of(found.gaps), k, n_candidates)


def finished(guarantee: Guarantee, raw: Mapping[str, FloatArray], law: Mapping[str, Any], mixture: Mixture) -> Outcome:
    """The outcome, with what speaks against it."""
    edges = np.asarray(raw["edges"], dtype=float)
    told = {"caveats": gap_caveats(raw, law, mixture)}
    told |= far_rows(edges[None, [0, -1]], float(np.sum(raw["counts"])))
    return Outcome(mixture, guarantee, raw, dict(law) | told)


def _check_components(n_components: int) -> None:
    if n_components > MOST_COMPONENTS:
        raise ValueError(f"n_components must be at most {MOST_COMPONENTS} with method 'gaps', got {n_components}")


def parameters(mixture: Mixture) -> FloatArray:
    """Weights, means and variances of one column, (3, K)."""
    return np.stack([mixture.weights, mixture.means[:, 0], mixture.covariances[:, 0, 0]])


def whole(values: FloatArray) -> IntArray:
    """Rounded, with what is no number at the largest."""
    return np.rint(np.nan_to_num(values, nan=2.0**52, posinf=2.0**52).clip(0, 2.0**52)).astype(np.int64)


def resumed(guarantee: Guarantee, raw: Mapping[str, FloatArray], law: Mapping[str, Any], n_components: int) -> Outcome:
    """From a checkpoint, which comes from anywhere: the choice if it was made, else the likeliest fit to the counts."""
    _check_components(n_components)
    GapStatistics.of(raw, law)
    chosen = raw.get("chosen")
    if chosen is not None and np.shape(chosen) == (3, n_components):
        weights, means, variances = np.asarray(chosen)
        return finished(guarantee, raw, law, Mixture(weights, means[:, None], variances[:, None, None]))
    found = finished(guarantee, raw, law, candidates_of(raw, law, n_components, 1).mixtures[0])
    return found.with_caveat(INTERRUPTED)

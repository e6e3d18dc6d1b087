"""Counts of gaps, choice among hypotheses, and whole fits with them.

The fit to the released counts is post-processing and a second long; in whole fits candidates are two fixed mixtures,
so that what is audited is all that reads the records.
"""

from __future__ import annotations

import functools
import math
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms import gap_histogram
from pm_dpgmm.mechanisms.gap_histogram import GapCounts, gap_counts, gap_noise
from pm_dpgmm.mechanisms.hypothesis_selection import compared, noisy_best, selection_scores
from pm_dpgmm.methods.gaps import method
from pm_dpgmm.methods.gaps.candidates import Candidates
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.mixture.scheffe_sets import Lines
from pm_dpgmm.privacy.guarantee import Neighbouring, Unstable
from pm_dpgmm.privacy.noise import IntArray, laplace_scale, truncated_discrete_laplace
from verification.specimens import Specimen
from verification.targets.runs import DELTA, EPSILON, Prepared, at_bits, nothing_to_say, rows_of

GAPS, CHOICE, METHOD = "mechanisms/gap_histogram.py", "mechanisms/hypothesis_selection.py", "methods/gaps/method.py"
CELL_BITS = 16  # one cell for every place here
EXPONENTS = (0, 1, 2)  # reported, one column each; further ones would be NaN on both data sets
FIT_EPSILON = 2.0
THIRD = 100  # records of a block where blocks are fixed
COPIES = 60  # gaps of every size that both data sets share, so that counts stay above the threshold
ONE = {"neighbouring": Neighbouring.REPLACE_ONE}
HYPOTHESES = Lines.of([Mixture([1.0], [[m]], [[[1.0]]]) for m in (0.0, 3.0)])


# ---------------------------------------------------------------------- counts of gaps
def exact_counts(data: FloatArray) -> GapCounts:
    """Exact counts of gaps."""
    return gap_counts(data, cell_bits=CELL_BITS)


def own_cells(data: FloatArray) -> GapCounts:
    """Fault: cells as wide as the range of the records, so that their width becomes public."""
    bits = math.ceil(math.log2(np.ptp(data)))
    return gap_counts(data, cell_bits=bits)


def columns_of(exact: GapCounts, counts: IntArray, bound: int) -> FloatArray:
    """Released counts (R, M) of the exponents reported, and the width of the cells; NaN where nothing is released."""
    rows = np.full((len(counts), len(EXPONENTS)), np.nan)
    for column, exponent in enumerate(EXPONENTS):
        for at in np.flatnonzero((exact.exponents == exponent) & (exact.places == 0)):
            rows[:, column] = np.where(counts[:, at] > bound, counts[:, at], np.nan)
    return np.column_stack([rows, np.full(len(rows), exact.cell_bits)])


def noisy(
    exact: GapCounts,
    n_samples: int,
    rng: np.random.Generator,
    *,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    threshold: float = 1.0,
    pairs: int | None = None,
    simulated: bool = False,
) -> FloatArray:
    """Noisy counts as released, all runs drawn together; faults lower the threshold or the noise."""
    law = gap_noise(epsilon=EPSILON, delta=DELTA, neighbouring=neighbouring)
    scale = law.scale if pairs is None else laplace_scale(pairs, EPSILON)
    shape = (n_samples, len(exact.counts))
    noise = truncated_discrete_laplace(shape, scale=scale, bound=law.bound, rng=rng if simulated else None)
    return columns_of(exact, exact.counts + noise, round(threshold * law.bound))


def one_release(data: FloatArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
    """The mechanism itself, call by call."""

    def run() -> FloatArray:
        given: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA} | ONE
        found, law = gap_histogram.noisy_gap_counts(data, cell_bits=CELL_BITS, **given)
        return columns_of(found, found.counts[None], law.bound)[0]

    return rows_of(run, n_samples)


def worst_gaps() -> tuple[FloatArray, FloatArray]:
    """0, 1, 2, 6 and 0, 2, 4, 6, then runs of gaps 1, 2 and 4 far away: counts (2, 0, 1) against (0, 3, 0)."""
    runs = [1_000.0 * (i + 1) + 2.0**a * np.arange(COPIES + 1) for i, a in enumerate(EXPONENTS)]
    return np.concatenate([[0.0, 1, 2, 6], *runs]), np.concatenate([[0.0, 2, 4, 6], *runs])


# ---------------------------------------------------------------------- choice
def scores_of(data: FloatArray) -> IntArray:
    """Exact scores of two hypotheses."""
    seen = compared(HYPOTHESES, data)
    return selection_scores(seen.inside, len(data), own=seen.own, other=seen.other, accuracy=0.02)


def scores_of_own_sets(data: FloatArray) -> IntArray:
    """Fault: sets cut at the mean of the records, so that one of them moves many from one set to the other."""
    seen = compared(HYPOTHESES, data)
    inside = int((data < data.mean()).sum())
    counts = np.array([[0, inside], [len(data) - inside, 0]])
    return selection_scores(counts, len(data), own=seen.own, other=seen.other, accuracy=0.02)


def largest_loss(scores: IntArray, neighbour: IntArray) -> float:
    """True epsilon of the choice between two, by summing the law of the noise."""
    ratio = math.exp(-1 / laplace_scale(2, EPSILON))

    def first(pair: IntArray) -> float:
        """P[Z >= d + Z'], d the lead of the second: ties go to the first."""
        lead = int(pair[1] - pair[0])
        behind = ratio ** abs(lead) / (1 + ratio)  # P[Z >= lead + Z'] for a lead of 0 or more
        return behind if lead >= 0 else 1 - ratio * behind

    one, two = first(scores), first(neighbour)
    return max(abs(math.log(one / two)), abs(math.log((1 - one) / (1 - two))))


def choices(
    scores: IntArray, n_samples: int, rng: np.random.Generator, *, epsilon: float = EPSILON, simulated: bool = False
) -> FloatArray:
    """Places chosen."""
    given: dict[str, Any] = {"epsilon": epsilon, "rng": rng if simulated else None}
    return rows_of(lambda: [float(noisy_best(scores, **given))], n_samples)


# ---------------------------------------------------------------------- whole fits
def fixed_candidates(*released: Any) -> Candidates:
    """In the place of fits to the released counts: two mixtures."""
    pair = [Mixture([1.0], [[m]], [[[1.0]]]) for m in (0.0, 3.0)]
    return Candidates(pair, np.zeros(2))


def by_rank(column: FloatArray, shares: tuple[float, float], relation: Neighbouring, *, rng: Any) -> Any:
    """Fault: blocks of the sorted column, every third record each, so that one record moves others across."""
    ordered = np.sort(column)
    return ordered[0::3], ordered[1::3], ordered[2::3]


def fixed_blocks(column: FloatArray, shares: tuple[float, float], relation: Neighbouring, *, rng: Any) -> Any:
    """Sound where the order of the records is public: thirds, so that the record that differs is in a known block."""
    return np.split(column, [THIRD, 2 * THIRD])


def one_block(column: FloatArray, shares: tuple[float, float], relation: Neighbouring, *, rng: Any) -> Any:
    """Fault: the choice scores the records whose counts were released."""
    first, second, _ = fixed_blocks(column, shares, relation, rng=rng)
    return first, second, second


def records_of_a_fit() -> tuple[FloatArray, FloatArray]:
    """Two crowds on a fine grid in turns, as many of each in every third; a record of the middle one changes crowds."""
    crowd = np.random.default_rng(1).permutation(3 * THIRD // 2) / 128
    column = np.column_stack([crowd, 1.75 + crowd]).ravel()
    other = column.copy()
    other[THIRD] = 3.0
    return column, other


def shifted_ranks() -> tuple[FloatArray, FloatArray]:
    """Gaps 1, 1, 1, 4, 4, 4, ...: sums of three of them are 3 and 12 from one rank on, 6 and 9 from the next."""
    column = np.append(0.0, np.cumsum(np.tile([1.0, 1, 1, 4, 4, 4], THIRD // 2)))
    return column, np.append(column[1:], column[-1] + 1.0)


def lonely_gap() -> tuple[FloatArray, FloatArray]:
    """One gap of 1, which the neighbour has not."""
    return np.array([0.0, 1.0]), np.array([0.0, 100.0])


method_blocks = method.blocks


def by_gaps(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    split: Any = method_blocks,
    simulated: bool = False,
) -> FloatArray:
    """A release of ``method="gaps"`` with fixed bins and candidates; a refusal is a row of NaN.

    Columns: least exponent of the released gaps and their number, counts of three bins, the place of the choice.
    """
    problem = Problem(len(records), 1, 1, FIT_EPSILON, DELTA, None, Neighbouring.REPLACE_ONE)
    given: dict[str, Any] = {"learner": None, "n_jobs": None, "rng": rng if simulated else None}
    given["progress"] = given["released"] = nothing_to_say
    edges, settings = np.array([-1.0, 1.5]), method.GapsMethod()
    settings.check(problem)

    def run() -> FloatArray:
        try:
            raw = settings.release(records[:, None], problem, **given).raw
        except Unstable:
            return np.full(6, np.nan)
        chosen = float(raw["chosen"][1, 0])
        return np.array([raw["gap_exponents"].min(), raw["gap_counts"].sum(), *raw["counts"], chosen])

    with (
        mock.patch.object(method, "blocks", split),
        mock.patch.object(method, "bin_edges", return_value=edges),
        mock.patch.object(method, "candidates_of", fixed_candidates),
        mock.patch.object(method, "gap_caveats", nothing_to_say),
    ):
        return rows_of(run, n_samples)


def targets() -> list[Specimen]:
    """Counts of gaps and choices under both relations, whole fits, faults of each."""
    worst, records = worst_gaps(), records_of_a_fit()
    fewer = worst[0], np.delete(worst[0], 1)
    spread = np.concatenate([np.arange(200.0), [250.0]]), np.concatenate([np.arange(200.0), [600.0]])
    even, tilted = np.repeat([0.0, 3.0], 20), np.repeat([0.0, 3.0], [19, 21])
    crowd = np.concatenate([np.zeros(20), np.full(20, 0.5), [1.0]])
    far = np.concatenate([crowd[:-1], [41.0]])
    drawn = Prepared(exact_counts, noisy)
    less = Prepared(exact_counts, functools.partial(noisy, neighbouring=Neighbouring.ADD_REMOVE))
    one_pair = Prepared(exact_counts, functools.partial(noisy, pairs=1, simulated=True))
    low = Prepared(exact_counts, functools.partial(noisy, threshold=0.4, simulated=True))
    wide = Prepared(own_cells, functools.partial(noisy, simulated=True))
    chosen = Prepared(scores_of, choices)
    half = Prepared(scores_of, functools.partial(choices, epsilon=2 * EPSILON, simulated=True))
    own_sets = Prepared(scores_of_own_sets, functools.partial(choices, simulated=True))
    own_loss = largest_loss(scores_of_own_sets(crowd), scores_of_own_sets(far))
    claim, fit, pure, inf = (EPSILON, DELTA), (FIT_EPSILON, DELTA), (EPSILON, 0.0), math.inf
    g, c, m = (f"fault in {module}" for module in (GAPS, CHOICE, METHOD))
    ranked = functools.partial(by_gaps, split=by_rank, simulated=True)
    twice = functools.partial(by_gaps, split=one_block, simulated=True)
    fixed = functools.partial(by_gaps, split=fixed_blocks)
    return [
        Specimen("gap_histogram", GAPS, one_release, *worst, *claim, 1.0, False, 4_000),
        at_bits("gap_histogram_bits", GAPS, drawn, *worst, *claim, 1.0, False, 12_000),
        Specimen("gap_histogram_add_remove", GAPS, less, *fewer, *claim, 1.0, False, 20_000),
        Specimen("hypothesis_selection", CHOICE, chosen, even, tilted, *pure, 1.0, False, 8_000),
        Specimen("hypothesis_selection_add_remove", CHOICE, chosen, even, even[:-1], *pure, 1.0, False, 8_000),
        Specimen("gaps_release", METHOD, by_gaps, *records, *fit, 2.0, False, 1_500),
        at_bits("gaps_release_bits", METHOD, by_gaps, *records, *fit, 2.0, False, 1_500),
        Specimen("gaps_fixed_blocks", METHOD, fixed, *records, *fit, 2.0, False, 1_500),
        Specimen("gap_histogram_one_pair", g, one_pair, *worst, *claim, 6.0, True, 10_000),
        Specimen("gap_histogram_low_threshold", g, low, *lonely_gap(), *claim, inf, True, 10_000),
        Specimen("gap_histogram_own_cells", g, wide, *spread, *claim, inf, True, 2_000),
        Specimen("hypothesis_selection_half_noise", c, half, even, tilted, *pure, 2.0, True, 20_000),
        Specimen("hypothesis_selection_own_sets", c, own_sets, crowd, far, *pure, own_loss, True, 4_000),
        Specimen("gaps_blocks_by_rank", m, ranked, *shifted_ranks(), *fit, inf, True, 1_000),
        Specimen("gaps_scored_twice", m, twice, *records, *fit, 4.0, True, 9_000),
    ]

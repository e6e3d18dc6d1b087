"""Private choice of the hypothesis that is nearest to the records. Proof: hypothesis_selection.md.

Bun, Kamath, Steinke and Wu (2019), with explicit constants: every two hypotheses are compared on the set where the
first has the larger density; a hypothesis whose records are missing from such a set scores little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_count, check_positive, check_probability
from pm_dpgmm.mechanisms.histogram import SMALLEST_EPSILON, SMALLEST_SCALE
from pm_dpgmm.mixture.scheffe_sets import Lines, ScheffeSets, scheffe_sets
from pm_dpgmm.privacy.noise import IntArray, Rng, geometric, laplace_scale

CHANGED = 2  # of noisy scores: one that falls by one record while another rises by one
SHARE_BITS = 20  # shares of the records are compared in multiples of 2^-20, so that counts stay whole
MOST_HYPOTHESES = 2_000
TINY = 1e-150  # what divides; no machine holds the records that smaller steps need
MOST_AT_ONCE = 50_000  # pairs of hypotheses with one component, compared at once


def records_needed(
    n_hypotheses: int, *, accuracy: float, epsilon: float, slack: float = 1.0, failure: float = 0.05
) -> int:
    """Records with which a hypothesis within (3 + slack) accuracy is chosen with probability 1 - failure.

    n = 8 ln(4 m / b) / (z a)^2 + 8 ln(2 m / b) / (z a epsilon), for m hypotheses, one within a = ``accuracy`` of the
    law of the records in total variation; z = ``slack``, b = ``failure``. Without handicaps, records independent;
    claim ``hypothesis-selection`` of this package checks the constants.

    Raises
    ------
    TypeError, ValueError
        If a number breaks these rules, or is so small that no number of records would do.

    Examples
    --------
    >>> records_needed(1_000, accuracy=0.1, epsilon=1.0, failure=0.1)
    9270
    """
    check_count(n_hypotheses=n_hypotheses)
    check_positive(accuracy=accuracy, epsilon=epsilon, slack=slack)
    check_probability(failure=failure)
    step = slack * accuracy
    if min(step**2, step * epsilon) < TINY:
        rule = "accuracy, slack and epsilon must be of sizes that a number of records can be for"
        raise ValueError(f"{rule}, got {accuracy:g}, {slack:g} and {epsilon:g}")
    sampling = 8 * math.log(4 * n_hypotheses / failure) / step**2
    return math.ceil(sampling + 8 * math.log(2 * n_hypotheses / failure) / (step * epsilon))


def selection_scores(
    inside: IntArray, n_records: int, *, own: FloatArray, other: FloatArray, accuracy: float, slack: float = 1.0
) -> IntArray:
    """Score every hypothesis by the comparison that speaks most against it: whole numbers of records.

    Parameters
    ----------
    inside : ndarray of int, shape (M, M)
        Records in the set W[j, l]; sets are public and take one record at a time.
    n_records : int
        All records.
    own, other : ndarray, shape (M, M)
        Probabilities of W[j, l] under hypotheses j and l: public.
    accuracy, slack : float
        a and z: hypotheses whose probabilities of W differ by (2 + z) a or less are not told apart.

    Returns
    -------
    ndarray of int, shape (M,)
        From 0, where another hypothesis explains the records as well as can be, to ``n_records``.

    Guarantee
    ---------
    None: the scores are exact. Replacing, adding or removing one record moves each by at most one.
    """
    steps = 2**SHARE_BITS
    # a share of 1 or more leaves nothing: no set holds more than all records
    share = np.ceil(np.minimum(other + (1 + slack / 2) * accuracy, 1.0) * steps).astype(np.int64)
    expected = -((-n_records * share) // steps)
    apart = own - other > (2 + slack) * accuracy
    scores = np.where(apart, np.maximum(inside - expected, 0), n_records)
    return np.asarray(scores.min(axis=1), dtype=np.int64)


def check_selection(*, epsilon: float) -> float:
    """Scale of the noise of :func:`noisy_best`; ValueError if there is none."""
    check_positive(epsilon=epsilon)
    if epsilon < SMALLEST_EPSILON:
        raise ValueError(f"epsilon must be at least {SMALLEST_EPSILON:g} for integer noise, got {epsilon:g}")
    scale = laplace_scale(CHANGED, epsilon)
    if scale < SMALLEST_SCALE:
        raise ValueError(f"epsilon must be at most {CHANGED / SMALLEST_SCALE:g} for integer noise, got {epsilon:g}")
    return scale


def noisy_best(scores: IntArray, *, epsilon: float, handicaps: IntArray | None = None, rng: Rng = None) -> int:
    """Place of the largest score after one-sided geometric noise.

    Parameters
    ----------
    scores : ndarray of int, shape (M,)
        Neighbouring data sets move each by at most one.
    epsilon : float
        Privacy cost.
    handicaps : ndarray of int, shape (M,), optional
        Taken off the scores: public, or released before.
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    int
        Of equal ones the first. Without handicaps a score that is more than t below the largest is chosen with
        probability at most M exp(-epsilon t / 2), as by the exponential mechanism.

    Guarantee
    ---------
    epsilon-DP (pure), if neighbours move each score by at most one. Proof: hypothesis_selection.md. The law is that of
    permute-and-flip but for ties (McKenna and Sheldon 2020; Ding et al. 2021).

    Examples
    --------
    >>> noisy_best(np.array([0, 500, 20]), epsilon=1.0)
    1
    """
    scale = check_selection(epsilon=epsilon)
    noisy = scores + geometric(np.shape(scores), scale=scale, rng=rng)
    return int(np.argmax(noisy if handicaps is None else noisy - handicaps))


def inside_counts(records: FloatArray, sets: ScheffeSets) -> IntArray:
    """Number of records (N,) in every one of the sets, (P,): sorted once, exact, so it must not leave.

    ValueError if edges fall or are NaN: a record between two in the wrong order would count twice.
    """
    if np.isnan(sets.edges).any() or not (sets.edges[:, 1:] >= sets.edges[:, :-1]).all():
        raise ValueError("edges of the sets must increase and hold no NaN, got others")
    ordered = np.sort(records)
    below = np.searchsorted(ordered, sets.edges, side="left").astype(float)  # whole numbers, below 2^53
    return sets.parts(below, len(ordered)).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Comparisons:
    """Every hypothesis against every other: M hypotheses, row j against column l on the set W[j, l]."""

    inside: IntArray  # (M, M), records in W: exact
    own: FloatArray  # (M, M), probability of W under j: public
    other: FloatArray  # (M, M), under l


def compared(lines: Lines, records: FloatArray) -> Comparisons:
    """Mixtures of one column on their exact Scheffe sets, with the records that each of these holds.

    Of two mixtures the second has the complement of the set of the first.
    """
    m, n = len(lines.means), len(records)
    inside = np.zeros((m, m), dtype=np.int64)
    own, other = np.zeros((m, m)), np.zeros((m, m))
    size = max(1, int(MOST_AT_ONCE / lines.means.shape[1] ** 2))
    for j, start in [(row, first) for row in range(m - 1) for first in range(row + 1, m, size)]:
        rest = slice(start, min(start + size, m))
        sets = scheffe_sets(lines[np.full(rest.stop - start, j)], lines[rest])
        counts = inside_counts(records, sets)
        inside[j, rest], own[j, rest], other[j, rest] = counts, sets.own, sets.other
        inside[rest, j], own[rest, j], other[rest, j] = n - counts, 1 - sets.other, 1 - sets.own
    return Comparisons(inside, own, other)

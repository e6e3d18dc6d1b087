"""A mean and a standard deviation out of robustness: Ashtiani, Majid and Narayanan (2024), Algorithm 2, as a toy.

A normal law is drawn among those that few replaced records would make fit, the nearer the likelier. Instead of bounds
it needs a public unit, which may be wrong by a factor of thousands. The price is that among all laws with scores up to
a public limit only a small volume may have a large score, which is certified first by propose, test, release. One
column, one component. Proof: robust_normal.md.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray, check_delta, check_positive, generator_of
from pm_dpgmm.mechanisms.normal_scores import Arrangement, CountRanges, arrangement, check_unit, drawn
from pm_dpgmm.mechanisms.propose_test_release import PassProbabilities, pass_probabilities
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring, Unstable, warn_if_weak
from pm_dpgmm.privacy.ledger import Ledger
from pm_dpgmm.privacy.noise import Rng
from pm_dpgmm.records.reading import read_records

MOST_EPSILON, MOST_RECORDS = 10.0, 20_000  # cells grow with n, to some seconds
SHARE = 0.6  # of epsilon, for the draw; the rest is for the test
SLACK = 1e-9  # total variation between a draw and its law, apart from densities: from choices by 53 bits
ROUNDING = 1e-6  # relative, of ratios of volumes and of densities: ten times what is proved up to MOST_RECORDS
LIKELY = 0.9  # probability of passing below which quantiles of a normal law show that there are too few records
SURE = (
    0.999  # probability of passing that the design asks of ordinary records; 2 sqrt(n) is far above their least score
)
LOG_RATIO = 6.0  # of the volumes that are compared; 3 to 5 for ordinary records
NAME = "robustness to privacy (Ashtiani, Majid and Narayanan 2024), tested draw of a normal law"


@dataclass(frozen=True, slots=True)
class RobustDesign:
    """Public constants of a release, from the number of records and the budget alone.

    Attributes
    ----------
    n_records : int
    exponent : float
        A law with score t is drawn with density proportional to exp(-exponent t / 2), up to ``reach``.
    excess : float
        Largest allowed mass of scores near the limit, relative to the rest.
    core, reach : int
        T0 and T: scores up to T are drawn, those up to T0 must hold enough volume.
    table : PassProbabilities
    """

    n_records: int
    exponent: float
    excess: float
    core: int
    reach: int
    table: PassProbabilities

    @property
    def limit(self) -> int:
        """Largest score whose volume the certificate asks for."""
        return self.core + self.reach + 1

    def level(self, volumes: FloatArray) -> int:
        """How many records must be replaced, at least, before the condition of the draw may fail; 0 if it fails now.

        Parameters
        ----------
        volumes : ndarray, shape (limit + 1,)
            Of all laws with score at most t.
        """
        steps = np.arange(self.core + 1)
        inner, outer = volumes[self.core - steps], volumes[self.reach + 1 + steps]
        # less at every step, so that what passes outwards passes one step further in with other rounding
        allowed = self.excess * math.exp(self.exponent * (self.reach - self.core) / 2) * (1 - ROUNDING) ** (1 + steps)
        failing = np.flatnonzero((inner <= 0) | ~(outer <= allowed * inner))
        return int(failing[0]) if failing.size else self.core + 1

    @property
    def log_weights(self) -> FloatArray:
        """Logarithm of the density of a law by its score, up to a constant."""
        return np.asarray(-self.exponent / 2 * np.arange(self.reach + 1))


@functools.lru_cache(maxsize=64)
def robust_design(n_records: int, epsilon: float, delta: float) -> RobustDesign:
    """Constants for this many records.

    Raises
    ------
    ValueError
        If there are too few records for the budget, or more than 20,000, delta is too small, or epsilon is above 10.
    """
    if epsilon > MOST_EPSILON:
        raise ValueError(f"epsilon must be at most {MOST_EPSILON:g}, got {epsilon:g}")
    if n_records > MOST_RECORDS:
        raise ValueError(f"X must have at most {MOST_RECORDS} rows, got {n_records}; fit_gmm takes more")
    excess = (delta / 2 - 4 * math.exp(epsilon) * SLACK) * (1 - ROUNDING)
    if excess <= 0:
        raise ValueError(
            f"delta must be above {8 * math.exp(epsilon) * SLACK:.2g} at epsilon {epsilon:g}, got {delta:g}"
        )
    # no table is shorter (claim rare-values), and scores beyond n_finite have no finite volume
    if math.log1p(math.expm1(epsilon) / (2 * delta)) / epsilon > CountRanges.of(n_records).n_finite:
        raise too_few(n_records, epsilon, delta)
    exponent = SHARE * epsilon - math.log1p(excess) - 2 * ROUNDING
    if exponent <= 0:
        raise ValueError(f"delta must be small beside epsilon {epsilon:g}, got {delta:g}")
    table = pass_probabilities(PointProfile(SHARE * epsilon, delta / 2), epsilon=epsilon, delta=delta)
    limit = CountRanges.of(n_records).n_finite - 1
    gap = math.ceil((2 * math.log(1 / excess) + 2 * LOG_RATIO) / exponent)
    core = min((limit - 1 - gap) // 2, table.level_for(SURE) + math.ceil(2 * math.sqrt(n_records)))
    reach = core + gap
    if core >= 0:
        design = RobustDesign(n_records, exponent, excess, core, reach, table)
        if table.probability(design.level(ideal_volumes(n_records, design.limit))) >= LIKELY:
            return design
    raise too_few(n_records, epsilon, delta)


def too_few(n_records: int, epsilon: float, delta: float) -> ValueError:
    """What to say of a number of records at which nothing would be released."""
    return ValueError(f"X must have more rows at epsilon {epsilon:g} and delta {delta:g}, got {n_records}")


def ideal_volumes(n_records: int, limit: int) -> FloatArray:
    """Volumes by score of the quantiles of a normal law: public."""
    quantiles = special.ndtri((np.arange(n_records) + 0.5) / n_records)
    return arrangement(quantiles, CountRanges.of(n_records), limit=limit).volumes


@dataclass(frozen=True, slots=True)
class RobustNormal:
    """A released normal law, its public constants and what it cost. Every field is safe to share."""

    mean: float
    standard_deviation: float
    unit: float
    design: RobustDesign
    guarantee: Guarantee

    @property
    def mixture(self) -> Mixture:
        """The law as a mixture of one component."""
        return Mixture([1.0], [[self.mean]], [[[self.standard_deviation**2]]])


def certified_draw(found: Arrangement, design: RobustDesign, *, rng: Rng = None) -> tuple[float, float] | None:
    """Mean and standard deviation, or None if the test refuses.

    Parameters
    ----------
    found : Arrangement
        Of ``design.n_records`` records, with the limit of the design.
    design : RobustDesign
    rng : numpy.random.Generator, optional
        None draws from the operating system (release); a generator simulates.

    Guarantee
    ---------
    ``design.table.curve`` under replace-one, a refusal included. Proof: robust_normal.md. Source of the idea: Ashtiani,
    Majid and Narayanan (2024), Algorithm 2; Hopkins, Kamath, Majid and Narayanan (2023).
    """
    if not design.table.passes(design.level(found.volumes), rng=rng):
        return None
    return drawn(found, design.log_weights, rng=rng)


def robust_normal(
    X: Any,
    *,
    epsilon: float,
    delta: float,
    unit: float = 1.0,
    ledger: Ledger | None = None,
    random_seed: Any = None,
) -> RobustNormal:
    """Mean and standard deviation of one column, by robustness to privacy: a public unit in the place of bounds.

    A worked example of a theorem: ``fit_gmm`` is more accurate. At (1, 1e-6) it needs about 1,200 records.

    Parameters
    ----------
    X : array_like, DataFrame or path
        Records, shape (N,) or (N, 1), finite. N is public, at most 20,000.
    epsilon, delta : float
        The budget; epsilon at most 10, delta above 0.
    unit : float
        Public, from 1e-100 to 1e100 of the unit of the records: each of them is moved to within 2^24 (17 million) times
        it, and to a multiple of 2^-24 of it. Choose it without looking at the records; standard deviations between
        1e-5 and 1e6 times it, of means within 1e7 times it, lose nothing that shows. Otherwise too many records may
        have become equal, and the test refuses, as it does of records that were rounded to a tenth of their deviation
        or more.
    ledger : Ledger, optional
        Charged before the records are used.
    random_seed : int or Generator, optional
        For teaching: the release is marked as not private.

    Returns
    -------
    RobustNormal

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range, there are too few rows, X has not one column, a value is missing or all are
        equal. Nothing is spent. What is said of values is for the owner of the records alone: do not publish it.
    Unstable
        If the test refuses: the records are far from every normal law, or too few. The budget is spent.

    Guarantee
    ---------
    (epsilon, delta)-DP under replace-one, a refusal by the test included. An error about values that are missing, or
    all equal, is not covered. Proof: robust_normal.md.

    Examples
    --------
    >>> records = np.random.default_rng(1).normal(5.0, 2.0, size=2000)
    >>> found = robust_normal(records, epsilon=1.0, delta=1e-6, random_seed=1)
    >>> abs(found.mean - 5.0) < 0.5, abs(found.standard_deviation - 2.0) < 0.5
    (True, True)
    """
    check_positive(epsilon=epsilon)
    check_delta(delta, zero=False)
    check_unit(unit)
    if ledger is not None and not isinstance(ledger, Ledger):
        raise TypeError(f"ledger must be a Ledger or None, got {type(ledger).__name__}")
    rng = None if random_seed is None else generator_of(random_seed)
    records, names = read_records(X)
    if len(names) != 1:
        raise ValueError(f"X must have one column, got {len(names)}")
    design = robust_design(len(records), float(epsilon), float(delta))
    guarantee = Guarantee(
        float(epsilon), float(delta), Neighbouring.REPLACE_ONE, NAME, design.table.curve, private=rng is None
    )
    warn_if_weak(epsilon, delta, len(records))
    if ledger is not None:
        ledger.reserve(guarantee.epsilon, guarantee.delta, guarantee.neighbouring, guarantee.mechanism)
    found = arrangement(records[:, 0], CountRanges.of(len(records)), limit=design.limit, unit=float(unit))
    law = certified_draw(found, design, rng=rng)
    if law is None:
        raise Unstable(
            "no normal law was released: too few records for this budget, or none fits them; the budget is spent",
            guarantee,
        )
    return RobustNormal(*law, float(unit), design, guarantee)

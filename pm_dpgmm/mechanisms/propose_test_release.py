"""Propose, test, release (Dwork and Lei 2009): probabilities of passing, so that both keep one budget.

A level h >= 0 that neighbours move by at most one decides by a coin whether a release is made at all. While a pass is
rare, a release costs little even if it alone uses most of epsilon, so the probabilities can grow fast from one level to
the next. Proof: propose_test_release.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pm_dpgmm._arguments import check_count, check_delta, check_positive, shown
from pm_dpgmm.privacy.bisection import arithmetic, bisected, geometric
from pm_dpgmm.privacy.curves import PrivacyProfile
from pm_dpgmm.privacy.noise import Rng, bernoulli
from pm_dpgmm.privacy.propose_test_release_curve import ProposeTestReleaseProfile, adjacent_pairs, divergence

LONGEST = 10_000  # levels; a table of passing probabilities that needs more is refused
LEAST_GROWTH = 1e-6  # relative, of a probability over that of the level below
HALVINGS = 70  # of an interval inside [delta, 1]
SHORTENED = 1e-9  # probabilities stay below the largest that is allowed, relative to both outcomes, for rounding


@dataclass(frozen=True, slots=True)
class PassProbabilities:
    """Checked probabilities of passing at every level, 0 at level 0, for one release with the profile ``loss``.

    Raises
    ------
    ValueError
        Unless ``probabilities`` start at 0, end at 1, and every pair of equal or adjacent ones, in both orders, keeps
        inequality (4) of the proof note at (``epsilon``, ``delta``).
    """

    probabilities: tuple[float, ...]
    loss: PrivacyProfile  # in both orders of neighbours, at every real epsilon, not increasing
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "probabilities", tuple(map(float, self.probabilities)))
        check_positive(epsilon=self.epsilon)
        check_delta(self.delta, zero=False)
        table = self.probabilities
        if len(table) < 2 or table[0] != 0 or table[-1] != 1 or not all(0 <= p <= 1 for p in table):
            raise ValueError(f"probabilities must go from 0 to 1 and stay between, got {shown(table)}")
        for p, q in adjacent_pairs(table):
            worst = divergence(p, q, self.loss, self.epsilon)
            if not worst <= self.delta:
                raise ValueError(
                    f"probabilities {p:g} and {q:g} of neighbouring levels must keep delta {self.delta:g},"
                    f" got {worst:g}"
                )

    @property
    def curve(self) -> ProposeTestReleaseProfile:
        """Profile of test and release together."""
        return ProposeTestReleaseProfile(self.probabilities, self.loss)

    def probability(self, level: int) -> float:
        """Probability of passing at ``level``; beyond the table it is 1."""
        check_count(least=0, level=level)
        return self.probabilities[min(level, len(self.probabilities) - 1)]

    def level_for(self, probability: float) -> int:
        """The lowest level that passes with at least this probability."""
        return next(level for level, p in enumerate(self.probabilities) if p >= min(probability, 1.0))

    def passes(self, level: int, *, rng: Rng = None) -> bool:
        """One coin, drawn exactly with the stored probability; ``level`` is private and nothing else depends on it."""
        return bernoulli(self.probability(level), rng=rng)


def _middle(low: float, high: float) -> float:
    """Of small probabilities on a logarithmic scale."""
    return geometric(low, high) if high < 0.5 else arithmetic(low, high)


def pass_probabilities(loss: PrivacyProfile, *, epsilon: float, delta: float) -> PassProbabilities:
    """The table that grows as fast as (4) allows: 0, delta, then the largest probability next to the last one, up to 1.

    Parameters
    ----------
    loss : PrivacyProfile
        Profile of the release in both orders of neighbours, at every real epsilon, such as ``LiftedMaskProfile``.
    epsilon, delta : float
        Budget of test and release together.

    Returns
    -------
    PassProbabilities

    Raises
    ------
    ValueError
        If the release alone leaves no room: a probability does not grow, or the stored table fails its check.

    Examples
    --------
    >>> from pm_dpgmm.privacy.lifted_mask_curve import LiftedMaskProfile
    >>> table = pass_probabilities(LiftedMaskProfile(0.0155, 0.05, 3), epsilon=1.0, delta=1e-6)
    >>> table.level_for(0.99)
    31
    """
    check_positive(epsilon=epsilon)
    check_delta(delta, zero=False)

    def allowed(p: float, q: float) -> bool:
        return max(divergence(p, q, loss, epsilon), divergence(q, p, loss, epsilon)) <= delta

    table = [0.0, delta]
    while table[-1] < 1:
        last = table[-1]
        if allowed(1.0, last):
            table.append(1.0)
            break
        low = bisected(partial(allowed, q=last), last, 1.0, middle=_middle, n_halvings=HALVINGS)
        low -= SHORTENED * min(low, 1 - low)
        # Near 1 it is the probability of failure that must keep shrinking.
        if (low <= last * (1 + LEAST_GROWTH) and 1 - low >= (1 - last) * (1 - LEAST_GROWTH)) or len(table) == LONGEST:
            raise ValueError(
                f"loss must leave room for the test at epsilon {epsilon:g} and delta {delta:g}, but the table stops"
                f" at {last:g} after {len(table)} levels; use a smaller sensitivity"
            )
        table.append(low)
    return PassProbabilities(tuple(table), loss, epsilon, delta)

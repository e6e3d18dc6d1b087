"""What a comparison of component probabilities in draws found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_flag
from pm_dpgmm.privacy.guarantee import seeded_mark

MARGIN = 0.02  # differences of a component's probability below it are never reported
LEAST_EFFECTIVE = 5.0  # importance points at an average state, below which the estimate is not relied on
WIDE = 0.5  # range of a component probability that says little
FROM_MODEL, EXTRAPOLATED = "model", "extrapolation"


@dataclass(frozen=True, slots=True, eq=False)
class ModeCheck:
    """What ``check_modes`` found; N vectors, K components, C chains.

    Attributes
    ----------
    name : str
        Of the vector in the posterior.
    occupancy, expected : ndarray, shape (N, K)
        Component probabilities in the draws, and what they should be.
    low, high : ndarray, shape (N, K)
        Range of ``occupancy`` that chance and 0.02 explain.
    by_chain : ndarray, shape (C, N, K)
        Component probabilities in each chain.
    chain_tolerance : ndarray, shape (C, N, K)
        Difference from ``occupancy`` that chance explains.
    source : str
        ``"model"``: importance sampling with the model's own likelihood. ``"extrapolation"``: a Gaussian likelihood
        fitted to the draws of one component, right as far as the likelihood is Gaussian.
    effective : ndarray, shape (N,)
        Effective importance points per state for the worst component that matters; infinite for the extrapolation.
    false_alarm : float
        At most the probability that a right sampler is flagged.
    label_gap, label_tolerance : ndarray, shape (C + 1, N, K), or None
        Share of the draws with a label less the mean responsibility of its component, in every chain and then in all;
        and what of it chance and 0.02 explain. None where there are no labels, or they are read elsewhere.
    private : bool
        As the release says; True for a bare Mixture.
    """

    name: str
    occupancy: FloatArray
    expected: FloatArray
    low: FloatArray
    high: FloatArray
    by_chain: FloatArray
    chain_tolerance: FloatArray
    source: str
    effective: FloatArray
    false_alarm: float
    label_gap: FloatArray | None = None
    label_tolerance: FloatArray | None = None
    private: bool = True

    def __post_init__(self) -> None:
        check_flag(private=self.private)

    @property
    def reliable(self) -> bool:
        """Whether importance sampling had points enough; when False, ``flagged`` rests on the chains alone."""
        return bool((self.effective >= LEAST_EFFECTIVE).all())

    @property
    def conclusive(self) -> bool:
        """Whether every range is narrower than a half: if not, a missed component may go unseen."""
        return self.reliable and bool((self.high - self.low < WIDE).all())

    @property
    def missed(self) -> tuple[tuple[int, int], ...]:
        """(vector, component) pairs with fewer draws than they should have."""
        if not self.reliable:
            return ()
        return _pairs(self.occupancy < self.low)

    @property
    def overfull(self) -> tuple[tuple[int, int], ...]:
        """(vector, component) pairs with more draws than they should have."""
        if not self.reliable:
            return ()
        return _pairs(self.occupancy > self.high)

    @property
    def disagreeing(self) -> tuple[tuple[int, int], ...]:
        """(vector, component) pairs on which the chains contradict each other."""
        return _pairs((abs(self.by_chain - self.occupancy) > self.chain_tolerance).any(axis=0))

    @property
    def mislabelled(self) -> tuple[tuple[int, int], ...]:
        """(vector, component) pairs whose labels contradict the draws of the vector."""
        if self.label_gap is None or self.label_tolerance is None:
            return ()
        return _pairs((abs(self.label_gap) > self.label_tolerance).any(axis=0))

    @property
    def flagged(self) -> bool:
        """Whether the draws have the wrong share of some component, or the wrong labels."""
        return bool(self.missed or self.overfull or self.disagreeing or self.mislabelled)

    @property
    def verdict(self) -> str:
        """``"wrong"`` when flagged, ``"cannot tell"`` when not ``conclusive``, otherwise ``"right"``."""
        return "wrong" if self.flagged else "right" if self.conclusive else "cannot tell"

    def summary(self) -> str:
        """Verdict, what it rests on, and the vectors that are wrong, or the one whose range is widest."""
        bad = sorted({i for i, _ in (*self.missed, *self.overfull, *self.disagreeing, *self.mislabelled)})
        verdict = {
            "wrong": "WRONG component probabilities",
            "right": "no missed component",
            "cannot tell": "CANNOT TELL whether a component was missed",
        }[self.verdict]
        words = {
            FROM_MODEL: "importance sampling with the model, one vector at a time, other variables at posterior draws",
            EXTRAPOLATED: "a Gaussian likelihood fitted to the draws",
        }
        lines = [
            f"{self.name}: {verdict} (false alarm at most {self.false_alarm:g}){seeded_mark(self.private)}",
            f"expected from {words[self.source]}",
        ]
        if not self.reliable:
            lines.append("too few effective importance points: only disagreement between chains could be seen")
        for i in bad[:10] or [int(np.argmax((self.high - self.low).max(axis=1)))]:
            lines.append(f"  vector {i}: found {_listed(self.occupancy[i])}, expected {_listed(self.expected[i])}")
        if self.mislabelled and self.label_gap is not None:
            i, j = self.mislabelled[0]
            lines.append(
                f"  labels contradict their vectors ({len({i for i, _ in self.mislabelled})} of them): vector {i} has"
                f" label {j} more often than its draws by {self.label_gap[-1, i, j]:+.3f}"
            )
        if not self.conclusive:
            more = "more draws" if self.source == FROM_MODEL else "model=, or more draws,"
            lines.append(f"the range of some component probability is wide: {more} would say more")
        if len(bad) > 10:
            lines.append(f"  and {len(bad) - 10} more vectors")
        if self.flagged:
            lines.append('use form="labelled" with pm.sample, or form="mixture" with pm.sample_smc')
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<ModeCheck: {self.verdict}>\n{self.summary()}"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "name": self.name,
            "flagged": self.flagged,
            "verdict": self.verdict,
            "reliable": self.reliable,
            "source": self.source,
            "false_alarm": self.false_alarm,
            "private": self.private,
            "occupancy": self.occupancy.tolist(),
            "expected": self.expected.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "missed": [list(pair) for pair in self.missed],
            "disagreeing": [list(pair) for pair in self.disagreeing],
            "mislabelled": [list(pair) for pair in self.mislabelled],
        }


def _pairs(where: Any) -> tuple[tuple[int, int], ...]:
    return tuple((int(i), int(j)) for i, j in np.argwhere(where))


def _listed(values: FloatArray) -> str:
    return " ".join(f"{value:.3f}" for value in values)

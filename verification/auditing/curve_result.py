"""What the audit of a curve found, in the unit of the claim, and what of it is conditional."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scipy.stats import norm

from verification.auditing.claimed_curve import ClaimedCurve
from verification.auditing.result import (
    CURVE_RARE,
    EXACT_SCORE,
    FAMILY_SAYS,
    NOISE_HAS,
    as_bits,
    if_it_shows,
    in_words,
    kinds_looked_for,
    plain,
    unlooked_in,
)
from verification.auditing.rounding import exactly, rounded_down

CONDITIONAL = "the refutation and the bound of delta assume no family, what is said of epsilon does"


@dataclass(frozen=True, slots=True)
class CurveAuditResult:
    """A certified verdict on a claimed curve, for one mechanism and one pair of neighbouring data sets.

    ``refuted`` is wrong with probability at most ``false_alarm`` if P and Q keep the claimed curve; so are
    ``delta_lower`` and ``parameter_lower``, on the same event. A pass proves nothing: read it with ``detection_limit``.
    """

    refuted: bool
    claim: str  # in words
    p_value: float  # of the claim: at most b with probability at most b if it holds
    e_value: float | None  # of the claim, with ``sequential``: expectation at most 1 if it holds
    family: str  # "GDP", "zCDP", or "" for that of a guarantee
    parameter: str  # "mu" or "rho": which of a family of curves
    claimed: float | None  # its claimed value; None: the claim is none of the family, mu of GDP
    parameter_lower: float  # certified: no curve of the family with a smaller parameter is kept
    epsilon_point: float  # where the curve was tested, fixed before the runs that count
    delta_claimed: float  # at that epsilon
    delta_lower: float  # certified, at that epsilon, of one of the orders; whatever the family
    delta: float | None  # where epsilon is told
    # At ``delta``, conditional on the family: of mu that of Gaussian noise with ``parameter_lower``; of rho what an
    # accountant of zCDP says of it, which is an upper bound of the epsilon of mechanisms with that rho
    epsilon_lower: float | None
    n_samples: int  # runs of the mechanism, both data sets together
    n_certified: int  # of these, the runs behind the bounds
    false_alarm: float
    detection_limit: (
        float  # smallest mu of a Gaussian mechanism that is refuted with probability 0.9, score and event given
    )
    score: str
    event: str
    counts: dict[str, Any]  # certified counts; the bounds follow from them and the claim
    level: str  # "value" or "bit"
    sequential: bool
    notes: tuple[str, ...]
    curve: ClaimedCurve = field(repr=False)

    @property
    def looked_for(self) -> tuple[str, ...]:
        """Kinds of violation that the scores can see."""
        return kinds_looked_for(self.score, self.level, unlooked_in(self.notes))

    @property
    def claimed_mu(self) -> float:
        """Of a Gaussian mechanism that has the claimed parameter, or as large a delta at epsilon 0 as the claim.

        Infinite if the claim allows every difference there.
        """
        if self.claimed is None:
            most = max(self.curve.first[0], self.curve.second[0])
            return 2 * float(norm.ppf((1 + most) / 2))
        return self.claimed if self.parameter == "mu" else math.sqrt(2 * self.claimed)

    def as_dict(self) -> dict[str, Any]:
        """Return every field and ``looked_for`` as plain JSON types; an infinite number becomes "inf"."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "curve"}
        return plain(fields | {"looked_for": list(self.looked_for), "notes": list(self.notes)})

    def __str__(self) -> str:
        return self.said_with(rounded_down)

    def said_with(self, bound_text: Callable[[float], str], number_text: Callable[[float], str] = exactly) -> str:
        """The verdict, what is certified and what it is worth.

        ``bound_text`` writes certified bounds, ``number_text`` what was asked.
        """
        certified = f"(certified, error probability {number_text(self.false_alarm)})"
        point = f"at epsilon = {self.epsilon_point:.4g}, where {self.delta_claimed:.4g} is claimed"
        notes = in_words(self.notes)
        family = f"no curve with {self.parameter} below {bound_text(self.parameter_lower)} is kept"
        if self.claimed is None:
            family = f"it is not {bound_text(self.parameter_lower)}-GDP"
        if self.epsilon_lower is not None and self.delta is not None:
            epsilon = bound_text(self.epsilon_lower)
            family += f", and {FAMILY_SAYS if self.family else NOISE_HAS} epsilon >= {epsilon} at delta"
            family += f" = {number_text(self.delta)}{self._of_the_claim()} ({CONDITIONAL})"
        if self.sequential and self.refuted:
            certified = f"({certified[1:-1]}, after {self.n_samples:,} runs)"
            return f"claim {self.claim} refuted{as_bits(self.level)} {certified}: {family}{notes}"
        bound = f"delta is at least {bound_text(self.delta_lower)} {point} {certified}"
        if self.refuted:
            return f"claim {self.claim} refuted{as_bits(self.level)}: {bound}; {family}{notes}"
        if self.delta_lower == 0:
            bound = f"no delta is {certified[1:-1]}"
        power = "this audit had too few samples to catch Gaussian noise of any scale"
        if math.isfinite(self.detection_limit):
            power = f"this audit would have caught Gaussian noise with mu >= {self._limit()}"
            power += f" {if_it_shows(self.looked_for, sequential=self.sequential)}"
            if self.score != EXACT_SCORE and not self.sequential:  # learned, and planned from few runs
                power += CURVE_RARE
        return f"no violation of {self.claim} found: {bound}; {power}; a pass is not a proof{notes}"

    def _limit(self) -> str:
        """The detection limit, for a claim of zCDP also as the rho of Gaussian noise of that mu."""
        rho = f" (rho {self.detection_limit**2 / 2:.4g})" if self.parameter == "rho" else ""
        return f"{self.detection_limit:.4g}{rho}"

    def _of_the_claim(self) -> str:
        """What the same accountant says of the claim, where the claim's own words do not, to compare with."""
        if self.claimed is None or self.delta is None or not self.family:  # a guarantee's words have its epsilon
            return ""
        return f", and {self.curve.family.epsilon_at(self.claimed, self.delta):.4g} of the claim"

    def save(self, path: Any, *, mechanism: str = "", pair: str = "") -> None:
        """Write a certificate (JSON) that ``python -m verification verify`` checks; see certificate_writing.py."""
        from verification.auditing.certificate_writing import save_certificate

        save_certificate(self, path, mechanism=mechanism, pair=pair)

    def plot(self, ax: Any = None) -> Any:
        """Draw the claimed curve and the certified bound at the point of the test; return the matplotlib axes."""
        from verification.auditing.pictures import plot_curve

        return plot_curve(self, ax)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from verification.auditing.notebook_html import audit_html

        rows = [
            ("claim", self.claim),
            ("tested at", f"epsilon = {self.epsilon_point:.4g}, where delta = {self.delta_claimed:.4g} is claimed"),
            (
                "certified",
                f"delta at least {rounded_down(self.delta_lower)}, error probability {exactly(self.false_alarm)}",
            ),
            ("so", f"no curve with {self.parameter} below {rounded_down(self.parameter_lower)} is kept"),
            ("would have caught", f"Gaussian noise with mu from {self._limit()} on, where it shows"),
            ("runs", f"{self.n_samples:,}"),
        ]
        return audit_html("Audit of a privacy curve", rows, refuted=self.refuted, notes=self.notes)

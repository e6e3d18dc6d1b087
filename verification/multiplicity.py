"""One error probability for a whole family of audits: which claims are refuted when many are tested."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from numbers import Real
from typing import Any

from verification._arguments import check_probability, check_real, printable, shown
from verification.auditing.curve_result import CurveAuditResult
from verification.auditing.one_run_result import OneRunResult
from verification.auditing.result import AuditResult
from verification.auditing.rounding import exactly

Result = AuditResult | CurveAuditResult | OneRunResult
SHOWN_NAMES = 8  # refuted names in the text of a report; all of them are in ``rejected``


@dataclass(frozen=True, slots=True)
class FamilyReport:
    """Verdicts on a family of claims that are all right together with probability at least ``1 - error``."""

    rejected: tuple[str, ...]  # names of the refuted claims, in the order given
    adjusted: dict[str, float]  # adjusted p-values of all claims: refuted at any error from this on
    error: float
    method: str  # "Holm" or "e-Holm"

    def as_dict(self) -> dict[str, Any]:
        """Return every field as plain JSON types."""
        return {
            "rejected": list(self.rejected),
            "adjusted": dict(self.adjusted),
            "error": self.error,
            "method": self.method,
        }

    def __str__(self) -> str:
        of_all = f"of {len(self.adjusted)} claims refuted"
        error, percent = exactly(self.error), f"{100 * (1 - self.error):g}"
        whole = self.error >= 1e-4 and math.isclose(100 - float(percent), 100 * self.error, rel_tol=1e-9)
        confidence = f"{percent} %" if whole else f"1 - {error}"
        if not self.rejected:
            return f"none {of_all} ({self.method}, error probability {error} of the family); a pass is not a proof"
        n = len(self.rejected)
        names = ", ".join(map(printable, self.rejected[:SHOWN_NAMES])) + (", ..." if n > SHOWN_NAMES else "")
        return (
            f"{n} {of_all}: {names}; with probability at least {confidence} no sound mechanism is among the {n} refuted"
            f" ({self.method}); a pass is not a proof"
        )


def family(results: Mapping[str, Result], *, error: float = 0.05) -> FamilyReport:
    """Decide which of many audited claims are refuted, with one error probability for all of them.

    Parameters
    ----------
    results : mapping of str to AuditResult, CurveAuditResult or OneRunResult
        One audit per mechanism, or per neighbouring pair; at least one. They may share samples.
    error : float
        Probability, at most, that any claim that holds is refuted.

    Returns
    -------
    FamilyReport
        By `e_holm` if every audit was sequential, else by `holm`. In a mixture the e-value e of a sequential audit
        counts as the p-value min(1, 1/e). That way round because Markov's inequality makes it valid without further
        assumptions, while a p-value turned into an e-value loses much of its evidence.

    Raises
    ------
    TypeError, ValueError
        If ``results`` is no mapping of results of audits or empty, or ``error`` is not strictly between 0 and 1.

    Guarantee
    ---------
    For any dependence between the audits, no claim that holds is refuted, with probability at least ``1 - error``.
    Proof: multiplicity.md.

    The verdicts of the single audits play no part: a p-value of 0.02 is a refutation alone and none among twenty. A
    sequential audit may stop betting at capital 1/false_alarm; run it at ``false_alarm = error / len(results)`` if one
    broken mechanism among sound ones is to be enough.

    Source
    ------
    Holm (1979); Vovk and Wang (2021).
    """
    _check_mapping("results", results)
    for name, result in results.items():
        if not hasattr(result, "p_value"):
            raise TypeError(
                f"results[{name!r}] must be a result of audit or one_run, got {shown(result)} of type"
                f" {type(result).__name__}"
            )
    evidence: Mapping[str, Any] = results
    found = {name: getattr(result, "e_value", None) for name, result in evidence.items()}  # one_run has none
    e_values = {name: value for name, value in found.items() if value is not None}
    if len(e_values) == len(results):
        return e_holm(e_values, error=error)
    _check_e_values("e_value", e_values)
    p_values = {name: result.p_value for name, result in evidence.items() if name not in e_values}
    return holm(
        {name: _inverse(e_values[name]) if name in e_values else p_values[name] for name in results}, error=error
    )


def holm(p_values: Mapping[str, float], *, error: float) -> FamilyReport:
    """Refute claims by their p-values, one error probability for all.

    Parameters
    ----------
    p_values : mapping of str to float
        One per claim, in [0, 1]: at most b with probability at most b if the claim holds. At least one.
    error : float
        Probability, at most, that any claim that holds is refuted.

    Returns
    -------
    FamilyReport
        The i-th smallest of m p-values is multiplied by m - i + 1; the adjusted p-value is the largest product so far.

    Raises
    ------
    TypeError, ValueError
        If ``p_values`` is no mapping, empty or holds anything but numbers in [0, 1]; if ``error`` is not in (0, 1).

    Guarantee
    ---------
    For any dependence, no claim that holds is refuted, with probability at least ``1 - error``. Proof: multiplicity.md.

    Example
    -------
    >>> print(holm({"a": 0.001, "b": 0.03, "c": 0.04}, error=0.05).adjusted)
    {'a': 0.003, 'b': 0.06, 'c': 0.06}

    Source
    ------
    Holm (1979), A simple sequentially rejective multiple test procedure.
    """
    _check_mapping("p_values", p_values)
    for name, value in p_values.items():
        check_real(f"p_values[{name!r}]", value, -math.ulp(0.0), math.nextafter(1.0, 2.0), rule="lie between 0 and 1")
    check_probability(error=error)
    # multipletests of statsmodels gives the same bits, but takes a second to load and far longer for a few p-values
    ordered = sorted(p_values, key=lambda name: p_values[name])
    products = (min(1.0, (len(ordered) - i) * float(p_values[name])) for i, name in enumerate(ordered))
    by_name = dict(zip(ordered, accumulate(products, max), strict=True))
    return _report({name: by_name[name] for name in p_values}, error, "Holm")


def e_holm(e_values: Mapping[str, float], *, error: float) -> FamilyReport:
    """Refute claims by their e-values, one error probability for all.

    Parameters
    ----------
    e_values : mapping of str to float
        One per claim, at least 0, infinity allowed: of expectation at most 1 if the claim holds. The capital of a
        sequential audit when it stopped is one; the largest capital it ever had is not. At least one.
    error : float
        Probability, at most, that any claim that holds is refuted.

    Returns
    -------
    FamilyReport
        The adjusted e-value of a claim is the least mean over the sets of claims that contain it, and its adjusted
        p-value the inverse of that, at most 1.

    Raises
    ------
    TypeError, ValueError
        If ``e_values`` is no mapping, empty or holds anything but numbers of at least 0; if ``error`` is not in (0, 1).

    Guarantee
    ---------
    For any dependence, no claim that holds is refuted, with probability at least ``1 - error``. It refutes whatever
    `holm` refutes at the p-values min(1, 1/e). Proof: multiplicity.md.

    Example
    -------
    >>> report = e_holm({"a": 30.0, "b": 18.0, "c": 0.0}, error=0.1)
    >>> print(report.rejected, report.adjusted)
    ('a',) {'a': 0.06666666666666667, 'b': 0.1111111111111111, 'c': 1.0}

    Source
    ------
    Vovk and Wang (2021), E-values: calibration, combination and applications, Annals of Statistics 49.
    """
    _check_mapping("e_values", e_values)
    _check_e_values("e_values", e_values)
    check_probability(error=error)
    # A smaller e-value is one too, and sums of values up to this cannot overflow.
    cap = sys.float_info.max / (2 * len(e_values))
    values = {name: min(float(value), cap) for name, value in e_values.items()}
    ascending = sorted(values.values())
    sums = [0.0, *accumulate(ascending)]

    def least_mean(value: float) -> float:
        # Only the smallest other values can lower the mean, and none that is as large as this one.
        return min((value + sums[i]) / (i + 1) for i in range(bisect_left(ascending, value) + 1))

    return _report({name: _inverse(least_mean(value)) for name, value in values.items()}, error, "e-Holm")


def average_e(e_values: Iterable[float]) -> float:
    """Merge e-values of one claim into one: their mean.

    Parameters
    ----------
    e_values : iterable of float
        E-values of the same claim, for example of several events, directions or scores on one pair; at least one.

    Returns
    -------
    float
        At least 0; infinite if one of them is.

    Raises
    ------
    TypeError, ValueError
        If there is none, or one is not a number of at least 0.

    Guarantee
    ---------
    An e-value for any dependence, because expectations add. A product would need independent samples.

    Example
    -------
    >>> average_e([30.0, 0.0, 0.0])
    10.0

    Source
    ------
    Vovk and Wang (2021), Section 3: among symmetric rules for any dependence none is better in essence.
    """
    values = list(e_values)
    if not values:
        raise ValueError("e_values must hold at least one e-value, got none")
    _check_e_values("e_values", dict(enumerate(values)))
    return float(sum(float(value) / len(values) for value in values))


def _report(adjusted: dict[str, float], error: float, method: str) -> FamilyReport:
    rejected = tuple(name for name, value in adjusted.items() if value <= error)
    return FamilyReport(rejected, adjusted, float(error), method)


def _inverse(e_value: float) -> float:
    """The p-value of an e-value, by Markov's inequality."""
    return 1.0 / e_value if e_value > 1 else 1.0


def _check_mapping(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping of names, got {shown(value)} of type {type(value).__name__}")
    if not value:
        raise ValueError(f"{name} must hold at least one entry, got {shown(value)}")
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"{name} must have names that are text, got {shown(key)} of type {type(key).__name__}")


def _check_e_values(name: str, values: Mapping[Any, Any]) -> None:
    for key, value in values.items():
        if not (isinstance(value, Real) and value == math.inf):
            check_real(f"{name}[{key!r}]", value, -math.ulp(0.0), math.inf, rule="be at least 0")

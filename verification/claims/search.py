"""Ways to look for the worst case of a statement; each returns a Finding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from verification.claims.claim import Effort, Finding

FloatArray = NDArray[np.float64]
FALSE_ALARM = 1e-6  # of each sampled check
MOST_ROUNDS = 20  # of climbs in a search by properties


def over(
    cases: Iterable[tuple[float, object]], *, tolerance: float = 0.0, figures: Mapping[str, float] | None = None
) -> Finding:
    """Largest first entry of the pairs (left over right, case); the case is shown by ``str``."""
    largest, where, n = -math.inf, "", 0
    for value, case in cases:
        n += 1
        if math.isnan(value):
            raise ValueError(f"a check must not compare NaN, at {shown(case)}")
        if value > largest:
            largest, where = float(value), shown(case)
    return Finding(largest, where, n, tolerance, dict(figures or {}))


def every(cases: Iterable[tuple[bool, object]], *, figures: Mapping[str, float] | None = None) -> Finding:
    """Whether all first entries are true; names the first case that is not."""
    return over(((0.0 if true else math.inf, case) for true, case in cases), figures=figures)


def maximised(
    ratio: Callable[[FloatArray], float],
    starts: Iterable[FloatArray],
    *,
    tolerance: float = 0.0,
    polished: int = 3,
    steps: int = 400,
    shown_as: Callable[[FloatArray], object] = lambda x: x,
) -> Finding:
    """Search for the largest ``ratio``: every start is evaluated, the best ones are refined by Nelder-Mead.

    ``ratio`` is NaN or minus infinity outside the domain of the statement. Finding nothing above 1 is no proof.
    """
    places = [np.asarray(start, dtype=float) for start in starts]
    n = 0

    def value(x: FloatArray) -> float:
        nonlocal n
        n += 1
        found = float(ratio(x))
        return -found if found == found else math.inf

    found = sorted(((value(x), i) for i, x in enumerate(places)))[:polished]
    best, place = found[0][0], places[found[0][1]]
    for start, i in found:
        if not math.isfinite(start):
            continue
        options = {"maxfev": steps, "xatol": 1e-12, "fatol": 1e-14, "adaptive": len(places[i]) > 4}
        end = optimize.minimize(value, places[i], method="Nelder-Mead", options=options)
        if end.fun < best:
            best, place = float(end.fun), end.x
    return Finding(-best, shown(shown_as(place)), n, tolerance)


def by_property(
    strategy: Any,
    ratio: Callable[[Any], float],
    effort: Effort,
    *,
    quick: int = 100,
    thorough: int = 1500,
    tolerance: float = 0.0,
) -> Finding:
    """Hypothesis draws hostile cases from ``strategy``, climbs towards large ratios, and shrinks a violation.

    ``ratio`` may be NaN where the statement says nothing. Needs Hypothesis, which the extra "claims" installs.
    """
    from hypothesis import HealthCheck, Phase, assume, given, seed, settings, target

    largest, where, n = -math.inf, "", 0
    violation: tuple[float, str] | None = None

    @seed(int(effort.rng.integers(2**32)))
    @settings(
        max_examples=effort.of(quick, thorough),
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.target, Phase.shrink),
    )
    @given(strategy)
    def compare(case: Any) -> None:
        nonlocal largest, where, n, violation
        found = float(ratio(case))
        assume(not math.isnan(found))
        n += 1
        if math.isfinite(found):
            target(found)
        if found > largest:
            largest, where = found, shown(case)
        if found > 1 + tolerance:
            violation = found, shown(case)  # the last one is the smallest: Hypothesis replays it at the end
            raise _Violated

    try:
        with _from_the_seed_alone(), _climbs_that_end():
            compare()
    except _Violated:
        assert violation is not None
        largest, where = violation
    return Finding(largest, where, n, tolerance)


class _Violated(Exception):
    pass


@contextmanager
def _from_the_seed_alone() -> Iterator[None]:
    """Without the numbers that Hypothesis takes from the source of all modules loaded so far.

    With them the cases, and so the worst one, depend on what else the process has imported. There is no setting.
    """
    try:
        from hypothesis.internal.conjecture.providers import HypothesisProvider
    except ImportError:  # older versions have none
        yield
        return
    if hasattr(HypothesisProvider, "_maybe_draw_constant"):  # since 6.130
        with mock.patch.object(HypothesisProvider, "_maybe_draw_constant", return_value=None):
            yield
    else:
        yield


@contextmanager
def _climbs_that_end() -> Iterator[None]:
    """Climbs towards large ratios for so many rounds only, each of which Hypothesis allows twice the improvements.

    It goes on for as long as a round calls the test, and some rounds do so without an end in sight: the same few cases
    that are too short, for a quarter of an hour.
    """
    from hypothesis.internal.conjecture.optimiser import Optimiser

    climb = Optimiser.run

    def run(self: Any) -> None:
        if self.max_improvements < 2**MOST_ROUNDS:
            climb(self)

    with mock.patch.object(Optimiser, "run", run):
        yield


def quotient(left: float, right: float) -> float:
    """left / right of two numbers of at least 0, where 0 <= 0 holds and more than 0 <= 0 does not."""
    if right > 0:
        return left / right
    return 0.0 if left <= 0 else math.inf


def at_most(hits: int, n_samples: int, bound: float, *, false_alarm: float = FALSE_ALARM) -> tuple[float, float]:
    """(certified lower bound of a probability over ``bound``, its estimate): above 1 refutes "at most ``bound``"."""
    from statsmodels.stats.proportion import proportion_confint

    # by quantiles of the beta law; the interval of scipy.stats.binomtest is a root to 1e-12, on either side
    low, _ = proportion_confint(hits, n_samples, alpha=2 * false_alarm, method="beta")
    return low / bound, hits / n_samples


def shown(case: object) -> str:
    """Short text of a case: numbers to six digits, arrays on one line."""
    if isinstance(case, str):
        return case
    if isinstance(case, (float, np.floating)):
        return f"{float(case):.6g}"
    if isinstance(case, np.ndarray):
        return np.array2string(case, precision=6, separator=", ", threshold=60, max_line_width=10_000).replace("\n", "")
    if isinstance(case, Mapping):
        return ", ".join(f"{key} = {shown(value)}" for key, value in case.items())
    if isinstance(case, (tuple, list)):
        return "(" + ", ".join(shown(part) for part in case) + ")"
    return str(case)


def worst(*findings: Finding) -> Finding:
    """One finding of several searches of the same statement; their figures and false alarms are joined."""
    found = max(findings, key=lambda finding: finding.largest - finding.tolerance)
    figures: dict[str, float] = {}
    for finding in findings:
        figures |= finding.figures
    n_cases = sum(finding.n_cases for finding in findings)
    false_alarm = sum(finding.false_alarm for finding in findings)
    return Finding(found.largest, found.where, n_cases, found.tolerance, figures, false_alarm)

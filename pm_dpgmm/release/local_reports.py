"""The server's last step: from counts of people's reports to a release. Post-processing of private reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pm_dpgmm._arguments import check_count, check_flag, shown
from pm_dpgmm.methods.local.aggregation import LocalReports
from pm_dpgmm.methods.local.design import Frame
from pm_dpgmm.methods.local.fit import chart_of
from pm_dpgmm.methods.local.method import MOST_COMPONENTS, MOST_NUMBERS, WORDS, LocalMethod, fitted, released_numbers
from pm_dpgmm.methods.local.protocol import REPORT_SIZE
from pm_dpgmm.methods.local.responses import WaveResponses
from pm_dpgmm.methods.released_checks import check_names
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.progress_bar import progress_bar
from pm_dpgmm.release.making import release_of
from pm_dpgmm.release.release import Release


def fit_reports(
    reports: LocalReports | Sequence[LocalReports],
    n_components: int,
    *,
    feature_names: Sequence[str] | None = None,
    progress: bool = True,
    simulated: bool = False,
) -> Release:
    """Fit a mixture to what people reported, on a server that sees no record.

    Parameters
    ----------
    reports : LocalReports, or several
        Of :meth:`pm_dpgmm.LocalProtocol.aggregate`. Several are of "one-bit" protocols with one epsilon that asked
        different people, each of whom answered one of them once.
    n_components : int
    feature_names : sequence of str, optional
        Names of the columns; "x0", "x1" and so on.
    progress : bool
        Show a progress bar on a terminal.
    simulated : bool
        Whether answers were made with generators of known seeds: the release then says ``private=False``. Reports
        themselves do not tell.

    Returns
    -------
    Release
        Of method "local", as :func:`pm_dpgmm.fit_gmm` makes it. Its guarantee is that of each person's own report; the
        server spends nothing.

    Raises
    ------
    TypeError, ValueError
        If something is not as said, or a report is there twice, also where it was counted twice among others.

    Examples
    --------
    >>> from pm_dpgmm.methods.local.protocol import LocalProtocol
    >>> protocol = LocalProtocol.design(1, epsilon=4.0, bounds=(-10, 10))
    >>> rng = np.random.default_rng(1)
    >>> sent = [protocol.respond(x, rng) for x in rng.normal(2.0, 1.0, size=2_000)]
    >>> release = fit_reports(protocol.aggregate(sent), 1, progress=False, simulated=True)
    >>> release.n_records, release.private, bool(abs(release.means[0, 0] - 2) < 0.5)
    (2000, False, True)
    """
    given = [reports] if isinstance(reports, LocalReports) else reports
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(one, LocalReports) for one in given):
        raise TypeError(f"reports must be LocalReports, or a list of some, got {shown(reports)}")
    check_count(most=MOST_COMPONENTS, n_components=n_components)
    check_flag(progress=progress, simulated=simulated)
    if len({one.digest or id(one) for one in given}) < len(given):
        raise ValueError("reports must be of different people, got the same ones twice")
    if len(given) > 1 and (n_twice := _n_repeated(given)):
        rule = "reports must be of different people, each in one of them"
        together = "aggregate all of one protocol together, where strict=False counts each once"
        raise ValueError(f"{rule}, got {n_twice} that are in several; {together}")
    first = given[0]
    responses: Any = first.responses
    for other in given[1:]:
        alike = isinstance(responses, WaveResponses) and isinstance(other.responses, WaveResponses)
        if not alike or other.protocol.epsilon != first.protocol.epsilon:
            raise ValueError(
                "reports must be of 'one-bit' protocols with one epsilon, got"
                f" {first.protocol!r} and {other.protocol!r}"
            )
        if other.protocol.n_features != first.protocol.n_features:
            raise ValueError(
                f"reports must have {first.protocol.n_features} columns, got {other.protocol.n_features} as well"
            )
        responses = responses.with_more(other.responses)
    size = chart_of(int(n_components), first.protocol.n_features).size
    if size > MOST_NUMBERS:
        rule = f"n_components must be so small that a mixture has at most {MOST_NUMBERS} numbers"
        raise ValueError(f"{rule}, got {n_components} in {first.protocol.n_features} columns")
    names = tuple(f"x{j}" for j in range(first.protocol.n_features)) if feature_names is None else feature_names
    check_names(names)
    if len(names) != first.protocol.n_features:
        raise ValueError(f"feature_names must have {first.protocol.n_features} names, got {len(names)}")
    protocol = first.protocol
    frame = Frame(np.array(protocol.centre), np.array(protocol.scale))
    raw, noise = released_numbers(responses, frame, protocol.epsilon)
    guarantee = Guarantee(protocol.epsilon, 0.0, Neighbouring.REPLACE_ONE, WORDS, PointProfile(protocol.epsilon))
    with progress_bar(progress, LocalMethod.name) as step:
        outcome = fitted(guarantee, raw, noise, int(n_components), step)
    return release_of(
        outcome,
        method=LocalMethod.name,
        settings={"randomiser": protocol.randomiser, "protocols": [one.protocol.fingerprint for one in given]},
        feature_names=tuple(names),
        n_records=responses.n_responses,
        private=not simulated,
    )


def _n_repeated(several: Sequence[LocalReports]) -> int:
    """How many reports are in more than one of them."""
    if any(one.sent and len(one.sent) != REPORT_SIZE * one.n_reports for one in several):
        raise ValueError("sent must hold the reports that count, or be empty, got others")
    every = np.concatenate([np.frombuffer(one.sent, dtype=f"V{REPORT_SIZE}") for one in several])
    return every.size - np.unique(every).size

"""What a report says, before it is laid out: papers with their claims, audits, figures, versions, seeds."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from verification.claims import Outcome, Verdict
from verification.reproductions import Experiment

PAPERS = {  # how a source names a paper: its title in the report
    "Arbas, Ashtiani, Liaw (2023)": "Arbas, Ashtiani, Liaw (2023): Polynomial time and private learning of unbounded "
    "Gaussian mixture models",
    "Arbas (2023)": "Arbas (2023), thesis: the private populous estimator",
    "Park, Foulds, Chaudhuri, Welling (2017)": "Park, Foulds, Chaudhuri, Welling (2017): DP-EM",
    "Harrington, Mayolo": "Harrington, Mayolo: local and central private Gaussian mixtures",
    "Ashtiani, Majid, Narayanan (2024)": "Ashtiani, Majid, Narayanan (2024): sample-efficient private learning of "
    "mixtures of Gaussians",
    "this project": "Statements of this project",
}
LONGEST = 240  # characters of a worst case; the JSON of the claims has all of it
PACKAGES = ("pm_dpgmm", "numpy", "scipy", "opendp", "hypothesis", "statsmodels")


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing, and the claims whose statements and numbers it shows."""

    name: str
    title: str
    words: str
    claims: tuple[str, ...]  # ids; empty: the audits of the table below it
    svg: str


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything in a report.

    ``specimens`` and ``targets`` are None when the audits were not asked for, ``reproductions`` when the experiments
    were not; the report then says so.
    """

    outcomes: Sequence[Outcome]
    specimens: Sequence[Any] | None  # of verification.trials.Trial
    targets: Sequence[Any] | None
    figures: Sequence[Figure]
    seed: int
    thorough: bool
    share: float
    reproductions: Sequence[Experiment] | None = None

    @property
    def wrong(self) -> list[str]:
        """Names of claims and audits whose outcome is not what their verdict says."""
        audits = [*(self.specimens or ()), *(self.targets or ())]
        named = [(outcome.claim.id, outcome.right) for outcome in self.outcomes]
        named += [(trial.specimen.name, trial.right) for trial in audits]
        experiments = [name for experiment in self.reproductions or () for name in experiment.wrong]
        return [name for name, right in named if not right] + experiments

    @property
    def papers(self) -> dict[str, list[Outcome]]:
        """Outcomes by the title of the paper; one that two papers state is in both."""
        found = {
            title: [outcome for outcome in self.outcomes if name in outcome.claim.source]
            for name, title in PAPERS.items()
        }
        return {title: outcomes for title, outcomes in found.items() if outcomes}

    @property
    def versions(self) -> dict[str, str]:
        """Of Python and the packages that the results depend on."""
        return {"Python": platform.python_version()} | {name: metadata.version(name) for name in PACKAGES}

    @property
    def few_runs(self) -> str:
        """What to know of wrong verdicts where the audits had few runs; empty where they had all."""
        if self.share >= 1 or not (self.specimens or self.targets):
            return ""
        return (
            f"Audits had a share of {self.share:g} of their runs: faults that so few cannot show are missed, and their"
            " verdicts are wrong for that reason."
        )

    @property
    def command(self) -> str:
        """The command that makes this report again."""
        extra = (" --thorough" if self.thorough else "") + ("" if self.share == 1 else f" --share {self.share!r}")
        extra += "" if self.targets or self.specimens else " --no-audits"
        extra += "" if self.reproductions else " --no-reproductions"
        return f"python -m verification report --seed {self.seed}{extra}"


def counts(outcomes: Sequence[Outcome]) -> dict[Verdict, int]:
    """How many claims have each verdict."""
    found = Counter(outcome.claim.verdict for outcome in outcomes)
    return {verdict: found[verdict] for verdict in Verdict}


FIRST = (Verdict.FALSE, Verdict.SLACK, Verdict.HOLDS, Verdict.NOT_CHECKABLE)


def false_first(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """What is not as its verdict says, then false statements, those with slack, true ones, those not checkable."""
    return sorted(outcomes, key=lambda outcome: (outcome.right, FIRST.index(outcome.claim.verdict)))


def evidence(outcome: Outcome) -> str:
    """What the check found: a counterexample, a worst case, no violation; or why there is no finding."""
    finding = outcome.finding
    if finding is None:
        return outcome.without_finding
    where = finding.where if len(finding.where) <= LONGEST else finding.where[: LONGEST - 2] + " …"
    if not finding.holds:
        return f"Counterexample found: {where}"
    if finding.largest > 0:
        return f"Worst case of {finding.n_cases:,}: {where}"
    return f"No violation in {finding.n_cases:,} cases"


def ratio(outcome: Outcome) -> str:
    """Left side over right side at the worst case; "false" or "true" where there is nothing between."""
    if outcome.finding is None:
        return ""
    largest = outcome.finding.largest
    if largest in (0.0, float("inf")):
        return "true" if largest == 0 else "false"
    return f"{largest:.4g}"


def otherwise(outcome: Outcome) -> str:
    """The corrected statement, or a close one that the same check refutes, as far as its run bears it out."""
    words, contrast = outcome.claim.otherwise, outcome.contrast
    if not words:
        return ""
    false = outcome.claim.verdict is Verdict.FALSE
    if contrast is None:
        return f"{'Corrected' if false else 'A close statement, false'}, not checked: {words}"
    if contrast.holds != false:
        return f"{'Corrected, but violated in this run' if false else 'The same check does not refute'}: {words}"
    return f"{'Corrected' if false else 'The same check refutes'}: {words}"


def claimed(trial: Any) -> str:
    """The epsilon that a mechanism claims, and the delta where there is one."""
    s = trial.specimen
    return f"{s.epsilon:.3g}" + (f", {s.delta:.2g}" if s.delta else "")


def refuted_or_not(trial: Any) -> str:
    """The verdict of an audit."""
    return "refuted" if trial.result.refuted else "not refuted"

"""Results and lists of the command line, as tables on a terminal and as JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from verification.auditing.result import json_text
from verification.auditing.rounding import rounded_down_to
from verification.claims import Claim, Verdict
from verification.report.contents import PAPERS
from verification.specimens import Specimen
from verification.specimens.sentences import sentence

LEGEND = (
    "claim: epsilon, or epsilon, delta; true: the smallest epsilon that holds at that delta, inf if none does; bits:"
    " outputs are read as bits. In brackets: where it is from; control: sound, to compare with a broken one; unseen:"
    " written before the audit was tried on it."
)


def print_trials(trials: list[Any]) -> None:
    """What audits certified, beside what was claimed and what is true."""
    table = Table(title="epsilon at the claimed delta: claimed, certified lower bound, true")
    for name in ("mechanism", "kind", "claim", "certified", "true", "would catch", "verdict", "runs", "s"):
        table.add_column(name, justify="left" if name in ("mechanism", "kind", "verdict") else "right")
    for trial in trials:
        s, r = trial.specimen, trial.result
        claim = f"{s.epsilon:.3g}" + (f", {s.delta:.2g}" if s.delta else "")
        verdict = ("refuted" if r.refuted else "not refuted") + ("" if trial.right else "  WRONG")
        table.add_row(
            s.name,
            "broken" if s.broken else "sound",
            claim,
            rounded_down_to(3, trial.epsilon_lower),
            f"{s.true_epsilon:.3g}",
            f"{trial.would_catch:.3g}",
            verdict,
            f"{r.n_samples:,}",
            f"{trial.seconds:.1f}",
        )
    _print(table)


def print_claims(outcomes: list[Any]) -> None:
    """What the checks of claims found."""
    table = Table(
        title="statements of the papers; worst: left side over right side at the worst case found", show_lines=True
    )
    for name in ("claim", "source", "statement", "verdict", "worst", "where, or why not"):
        table.add_column(name, justify="right" if name == "worst" else "left", overflow="fold")
    for outcome in outcomes:
        claim, finding = outcome.claim, outcome.finding
        verdict = claim.verdict.value + ("" if outcome.right else "  WRONG")
        if finding is None:
            worst, where = "", outcome.without_finding
        else:
            worst = f"{finding.largest:.4g}"
            where = (finding.where if not finding.holds else claim.constants or claim.kind.value)[:160]
        table.add_row(claim.id, *map(escape, (claim.source, claim.statement, verdict, worst, where)))
    console = Console() if sys.stdout.isatty() else Console(width=180)
    console.print(table)


def print_list(specimens: Sequence[Specimen], *, as_json: bool) -> int:
    """What mechanisms are, without running one."""
    rows = [
        (s.name, "broken" if s.broken else "sound", s.level, s.epsilon, s.delta, s.true_epsilon, s.origin, sentence(s))
        for s in specimens
    ]
    names = ("name", "kind", "level", "epsilon", "delta", "true_epsilon", "origin", "does")
    if as_json:
        listed = [dict(zip(names, row, strict=True)) for row in rows]
        print(json_text([entry | {"true_epsilon": str(entry["true_epsilon"])} for entry in listed]))
        return 0
    table = Table(title=f"{len(rows)} mechanisms", caption=LEGEND, caption_justify="left")
    for name in ("mechanism", "kind", "claim", "true", "what it does, and where it is from"):
        table.add_column(name, overflow="fold")
    for name, kind, level, epsilon, delta, true, origin, does in rows:
        claim = f"{epsilon:.3g}" + (f", {delta:.2g}" if delta else "")
        table.add_row(
            name, kind + (" bits" if level == "bit" else ""), claim, f"{true:.3g}", escape(f"{does} [{origin}]")
        )
    _print(table)
    return 0


def print_statements(claims: Sequence[Claim], *, as_json: bool) -> int:
    """Statements with their sources and verdicts, and what is true in place of a false one, without checking any."""
    if as_json:
        names = ("id", "family", "source", "statement", "verdict", "otherwise", "reason")
        print(json_text([{name: getattr(claim, name) for name in names} for claim in claims]))
        return 0
    table = Table(title=f"{len(claims)} statements; --id NAME checks one", show_lines=True)
    for name in ("claim", "source", "statement", "verdict", "corrected, or why not checkable"):
        table.add_column(name, overflow="fold")
    for claim in claims:
        words = claim.otherwise if claim.verdict is Verdict.FALSE else claim.reason
        table.add_row(claim.id, *map(escape, (claim.source, claim.statement, claim.verdict.value, words)))
    _print(table)
    return 0


def print_families(claims: Sequence[Claim], *, as_json: bool) -> int:
    """Families of claims with their numbers by verdict, without checking one."""
    counted: dict[str, Counter[Verdict]] = {}
    papers: dict[str, dict[str, None]] = {}  # an ordered set for each family
    for claim in claims:
        counted.setdefault(claim.family, Counter())[claim.verdict] += 1
        papers.setdefault(claim.family, {}).update({name: None for name in PAPERS if name in claim.source})
    if as_json:
        listed = {family: {str(verdict.value): n for verdict, n in found.items()} for family, found in counted.items()}
        print(json_text(listed))
        return 0
    table = Table(title=f"{len(claims)} claims in {len(counted)} families")
    table.add_column("family")
    for verdict in Verdict:
        table.add_column(verdict.value, justify="right")
    table.add_column("papers")
    for family, found in counted.items():
        table.add_row(family, *(str(found[verdict] or "") for verdict in Verdict), "; ".join(papers[family]))
    _print(table)
    return 0


def _print(table: Any) -> None:
    console = Console() if sys.stdout.isatty() else Console(width=140)
    console.print(table)

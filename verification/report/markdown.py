"""The report as Markdown: the same tables without the drawings."""

from __future__ import annotations

from verification.auditing.rounding import rounded_down_to
from verification.claims import Verdict
from verification.report.contents import (
    Contents,
    claimed,
    counts,
    evidence,
    false_first,
    otherwise,
    ratio,
    refuted_or_not,
)
from verification.report.experiments import experiments_markdown
from verification.report.glossary import GLOSSARY
from verification.specimens.sentences import sentence


def to_markdown(contents: Contents) -> str:
    """One file, headings in the order of the page."""
    lines = ["# What is true of private Gaussian mixtures", "", _summary(contents), "", "## Papers", ""]
    lines += ["| paper | " + " | ".join(verdict.value for verdict in Verdict) + " |", "|---|" + "---:|" * len(Verdict)]
    for title, outcomes in contents.papers.items():
        lines.append(f"| {_cell(title)} | " + " | ".join(str(n) for n in counts(outcomes).values()) + " |")
    for title, outcomes in contents.papers.items():
        lines += ["", f"## {title}", "", "| claim | source | statement | verdict | worst | evidence | |"]
        lines += ["|---|---|---|---|---:|---|---|"]
        for outcome in false_first(outcomes):
            claim = outcome.claim
            verdict = claim.verdict.value + ("" if outcome.right else " (NOT CONFIRMED)")
            more = "; ".join(filter(None, (otherwise(outcome), claim.constants)))
            cells = (f"`{claim.id}`", claim.source, claim.statement, verdict, ratio(outcome), evidence(outcome), more)
            lines.append("| " + " | ".join(_cell(text) for text in cells) + " |")
    lines += ["", "## Experiments of the papers, run again", "", *experiments_markdown(contents.reproductions)]
    for title, trials in (("Specimens", contents.specimens), ("Mechanisms of this package", contents.targets)):
        lines += ["", f"## {title}", ""]
        if trials is None:
            lines.append("Not audited in this run.")
            continue
        lines += [
            "| mechanism | what it does | kind | claimed epsilon, delta | certified | true | verdict | runs |",
            "|---|---|---|---:|---:|---:|---|---:|",
        ]
        for trial in trials:
            s, r = trial.specimen, trial.result
            row = (
                f"`{s.name}`",
                sentence(s),
                "broken" if s.broken else "sound",
                claimed(trial),
                rounded_down_to(3, r.epsilon_lower),
                f"{s.true_epsilon:.3g}",
                refuted_or_not(trial) + ("" if trial.right else " (WRONG)"),
                f"{r.n_samples:,}",
            )
            lines.append("| " + " | ".join(_cell(text) for text in row) + " |")
    lines += ["", "## Words", "", *(f"- {term}: {words}" for term, words in GLOSSARY.items())]
    lines += ["", "## Versions", "", *(f"- {name} {version}" for name, version in contents.versions.items())]
    return "\n".join(lines) + "\n"


def _summary(contents: Contents) -> str:
    wrong = contents.wrong
    words = "Every outcome is as its verdict says." if not wrong else f"NOT as expected: {', '.join(wrong)}."
    words = " ".join(filter(None, (words, contents.few_runs)))
    return f"{len(contents.outcomes)} claims. {words} Made by `{contents.command}`."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")

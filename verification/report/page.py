"""The report as one HTML page: no scripts, nothing loaded from elsewhere, readable at the width of a phone."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from verification.auditing.rounding import rounded_down_to
from verification.claims import Outcome, Verdict
from verification.report.contents import (
    Contents,
    Figure,
    claimed,
    counts,
    evidence,
    false_first,
    otherwise,
    ratio,
    refuted_or_not,
)
from verification.report.experiments import experiments_html
from verification.report.formulas import formula
from verification.report.glossary import GLOSSARY
from verification.reproductions import Experiment
from verification.specimens.sentences import sentence

CLASSES = {Verdict.HOLDS: "holds", Verdict.SLACK: "slack", Verdict.FALSE: "false", Verdict.NOT_CHECKABLE: "open"}
STYLE = """
:root { --ink: #1c2430; --faint: #5b6675; --line: #d9dee5; --paper: #fff; --band: #f5f7f9; --link: #0b57a4;
  --holds: #1a7f4b; --slack: #2b6cb0; --false: #b3261e; --open: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --faint: #a2adba; --line: #36404d; --paper: #14191f;
  --band: #1c232b; --link: #8ab8ee; --holds: #5fc58e; --slack: #7fb3ea; --false: #f08a82; --open: #a6adb8; }
  svg { background: #fff; border-radius: 6px; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .5rem; } h2 { margin: 2.5rem 0 .75rem; font-size: 1.3rem; }
p, figcaption { max-width: 46rem; } a { color: var(--link); } code { font-size: .9em; overflow-wrap: anywhere; }
.faint { color: var(--faint); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .5rem .6rem; border-bottom: 1px solid var(--line); }
.claims td { overflow-wrap: anywhere; } .scroll td:first-child { min-width: 11rem; }
.scroll td:first-child code { overflow-wrap: anywhere; } .scroll th.number { white-space: normal; }
th { color: var(--faint); font-weight: 600; } .number { text-align: right; white-space: nowrap; }
.claims td:nth-child(1) { width: 15%; } .claims td:nth-child(2) { width: 26%; }
.claims td:nth-child(3) { width: 8.5rem; } .claims td:nth-child(4) { width: 5.5rem; }
tr:target { background: var(--band); }
.verdict { font-weight: 600; white-space: nowrap; } .holds { color: var(--holds); } .slack { color: var(--slack); }
.false { color: var(--false); } .open { color: var(--open); }
.alarm { border: 2px solid var(--false); padding: .5rem 1rem; border-radius: 6px; }
.filters { display: grid; gap: .5rem; margin: 1.5rem 0 0; }
fieldset { border: 1px solid var(--line); border-radius: 6px; }
legend { color: var(--faint); font-size: .85rem; } .filters span { display: inline-block; margin: 0 1rem .15rem 0; }
.filters label { padding-left: .3rem; } sup, sub { font-size: .75em; line-height: 0; }
.what { min-width: 14rem; } dt { font-weight: 600; } dd { margin: 0 0 .6rem; max-width: 46rem; }
.figures { display: grid; gap: 2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
figure { margin: 0; } figure svg { width: 100%; height: auto; } figcaption { font-size: .92rem; }
@media (max-width: 46rem) {
  .overview th, .overview td { padding: .4rem .2rem; font-size: .78rem; } .overview td:first-child { min-width: 0; }
  .claims thead { display: none; } .claims, .claims tbody { display: block; }
  .claims tr { display: block; padding: .75rem 0; border-bottom: 1px solid var(--line); }
  .claims td, .claims td:nth-child(n) { display: block; width: auto; border: 0; padding: .15rem 0; text-align: left; }
  .claims td[data-name]:not(:empty)::before { content: attr(data-name) ": "; color: var(--faint); }
}
"""


def to_html(contents: Contents) -> str:
    """The whole page."""
    seen: set[str] = set()
    sections = [
        "<h1>What is true of private Gaussian mixtures</h1>",
        _summary(contents),
        _overview(contents),
        _filters(list(contents.papers)),
    ]
    for i, (title, outcomes) in enumerate(contents.papers.items()):
        table = _claims(false_first(outcomes), seen)
        sections.append(
            f'<section class="paper" data-paper="{i}"><h2 id="paper-{i}">{escape(title)}</h2>{table}</section>'
        )
    drawn = "".join(map(_figure, contents.figures))
    sections.append(f'<h2 id="figures">Figures</h2><div class="figures">{drawn}</div>')
    sections.append('<h2 id="reproductions">Experiments of the papers, run again</h2>')
    sections.append(experiments_html(contents.reproductions))
    words = "Mechanisms whose true privacy is known. The broken ones must be refuted, the sound ones must not."
    sections.append(_audits("specimens", "Specimens", words, contents.specimens))
    words = "Every function that spends budget, on its release path, and planted faults that its audit must catch."
    sections.append(_audits("targets", "Mechanisms of this package", words, contents.targets))
    sections.append(_glossary())
    rows = "".join(f"<tr><td>{escape(name)}</td><td>{escape(v)}</td></tr>" for name, v in contents.versions.items())
    sections.append(
        f'<h2 id="versions">Versions and seed</h2><p>Seed {contents.seed}. The same seed and versions give the same'
        f" page: <code>{escape(contents.command)}</code></p><table><tbody>{rows}</tbody></table>"
    )
    return _page("What is true of private Gaussian mixtures", sections)


def experiments_page(experiments: Sequence[Experiment], command: str) -> str:
    """The experiments alone, as a page of their own."""
    title = "Experiments of papers on private Gaussian mixtures, run again"
    made = f"<p>Made by <code>{escape(command)}</code></p>"
    return _page(title, [f"<h1>{title}</h1>", made, experiments_html(experiments)])


def _page(title: str, sections: Sequence[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(sections)
        + "\n</main>\n</body>\n</html>\n"
    )


def _summary(contents: Contents) -> str:
    false = sum(outcome.claim.verdict is Verdict.FALSE for outcome in contents.outcomes)
    unchecked = sum(outcome.claim.check is None for outcome in contents.outcomes)
    failed = sum(bool(outcome.failure) for outcome in contents.outcomes)
    ended = f", but for {failed} whose check ended with an error" if failed else ""
    text = (
        f"<p>{len(contents.outcomes)} statements of five papers and of this project; {false} of them are false as"
        f" printed, {unchecked} cannot be checked, and of each of the others a check ran for this page{ended}. The"
        " number under <em>worst</em> is left over right side of the statement at the worst case found: above 1 it is"
        " violated. A search that finds no violation is no proof. Every check that ran to its end was also run on a"
        " close statement with the other truth value.</p>"
    )
    if contents.wrong:
        names = ", ".join(f"<code>{escape(name)}</code>" for name in contents.wrong)
        text += f'<p class="alarm">Not as their verdict says: {names}. {escape(contents.few_runs)}</p>'
    return text


def _overview(contents: Contents) -> str:
    head = "".join(f'<th class="number">{verdict.value}</th>' for verdict in Verdict)
    rows = ""
    for i, (title, outcomes) in enumerate(contents.papers.items()):
        cells = "".join(f'<td class="number">{n or ""}</td>' for n in counts(outcomes).values())
        rows += f'<tr><td><a href="#paper-{i}">{escape(title)}</a></td>{cells}</tr>'
    table = f"<table><thead><tr><th>paper</th>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="scroll overview">{table}</div>'


def _filters(papers: Sequence[str]) -> str:
    """Which claims are shown: buttons and style alone, no scripts."""
    verdicts = [("all", "all"), *((CLASSES[verdict], verdict.value) for verdict in Verdict)]
    sources = [("all", "all papers"), *((str(i), title.split(":")[0]) for i, title in enumerate(papers))]
    rules = [
        f'main:has(#verdict-{key}:checked) tr[data-verdict]:not([data-verdict="{key}"]) {{ display: none; }}'
        for key, _ in verdicts[1:]
    ]
    rules += [
        f'main:has(#source-{key}:checked) section.paper:not([data-paper="{key}"]) {{ display: none; }}'
        for key, _ in sources[1:]
    ]
    groups = "".join(
        f"<fieldset><legend>{legend}</legend>"
        + "".join(_choice(name, key, words) for key, words in choices)
        + "</fieldset>"
        for name, legend, choices in (("verdict", "verdict", verdicts), ("source", "paper", sources))
    )
    return f'<style>{" ".join(rules)}</style><form id="claims" class="filters">{groups}</form>'


def _choice(name: str, key: str, words: str) -> str:
    checked = " checked" if key == "all" else ""
    button = f'<input type="radio" name="{name}" id="{name}-{key}"{checked}>'
    return f'<span>{button}<label for="{name}-{key}">{escape(words)}</label></span>'


def _glossary() -> str:
    terms = "".join(f"<dt>{escape(term)}</dt><dd>{escape(words)}</dd>" for term, words in GLOSSARY.items())
    return f'<h2 id="glossary">Words</h2><dl>{terms}</dl>'


def _figure(figure: Figure) -> str:
    links = ", ".join(f'<a href="#{name}"><code>{name}</code></a>' for name in figure.claims)
    links = (
        f" Claims: {links}."
        if links
        else ' Numbers: <a href="#specimens">specimens</a>, <a href="#targets">targets</a>.'
    )
    return (
        f'<figure id="figure-{figure.name}">{figure.svg}<figcaption><strong>{escape(figure.title)}.</strong>'
        f" {escape(figure.words)}{links}</figcaption></figure>"
    )


def _claims(outcomes: Sequence[Outcome], seen: set[str]) -> str:
    rows = ""
    for outcome in outcomes:
        claim = outcome.claim
        anchor = "" if claim.id in seen else f' id="{claim.id}"'
        seen.add(claim.id)
        failed = "" if outcome.right else ' <span class="false">not confirmed</span>'
        more = "".join(f"<br>{formula(text)}" for text in (otherwise(outcome), claim.constants) if text)
        rows += (
            f'<tr{anchor} data-verdict="{CLASSES[claim.verdict]}"><td><code>{claim.id}</code><br>'
            f'<span class="faint">{escape(claim.source)}</span></td>'
            f"<td>{formula(claim.statement)}</td>"
            f'<td><span class="verdict {CLASSES[claim.verdict]}">{claim.verdict.value}</span>{failed}<br>'
            f'<span class="faint">{claim.kind.value}</span></td>'
            f'<td class="number" data-name="worst">{ratio(outcome)}</td><td>{escape(evidence(outcome))}{more}</td></tr>'
        )
    head = '<th>claim</th><th>statement</th><th>verdict</th><th class="number">worst</th><th>evidence</th>'
    return f'<table class="claims"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _audits(name: str, title: str, words: str, trials: Sequence[Any] | None) -> str:
    text = f'<h2 id="{name}">{title}</h2><p>{words}</p>'
    if trials is None:
        return text + "<p>Not audited in this run.</p>"
    rows = ""
    for trial in trials:
        s, r = trial.specimen, trial.result
        failed = "" if trial.right else ' <span class="false">wrong</span>'
        rows += (
            f'<tr><td><code>{escape(s.name)}</code><br><span class="faint">{escape(s.origin)}</span></td>'
            f'<td class="what">{escape(sentence(s))}</td>'
            f"<td>{'broken' if s.broken else 'sound'}</td>"
            f'<td class="number">{claimed(trial)}</td>'
            f'<td class="number">{rounded_down_to(3, r.epsilon_lower)}</td><td class="number">{s.true_epsilon:.3g}</td>'
            f'<td class="verdict {"false" if r.refuted else "holds"}">{refuted_or_not(trial)}{failed}</td>'
            f'<td class="number">{r.n_samples:,}</td></tr>'
        )
    head = "<th>mechanism</th><th>what it does</th><th>kind</th>" + "".join(
        f'<th class="number">{column}</th>' for column in ("claimed epsilon, delta", "certified", "true")
    )
    head += '<th>verdict</th><th class="number">runs</th>'
    return f'{text}<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'

"""The papers' experiments in a report: pictures, tables, what each mechanism promises, and what reproduces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from verification.report.figures import axes, to_svg
from verification.reproductions.experiment import Experiment, Kind, Mechanism, Panel, Table, Verdict

LEFT_OUT = "Not run for this page."
CLASSES = {
    Verdict.REPRODUCES: "holds",
    Verdict.DIFFERS: "false",
    Verdict.UNCOMPARED: "open",
    Verdict.NEW: "slack",
}
LINES = {Kind.NONE: ":", Kind.PRINTED: "--", Kind.SOUND: "-"}
OTHERS = "-."  # a rate, a size
BESIDE = ", digitised"  # end of the name of a curve of the paper itself
LEGEND_COLUMNS, LEGEND_ROW = 3, 0.16  # inches
FINDINGS = ("statement", "paper", "here", "verdict", "why")
MECHANISMS = ("mechanism", "kind", "its epsilon is a parameter of", "guarantee that it really gives")


def panel_svg(panel: Panel, mechanisms: Sequence[Mechanism], name: str) -> str:
    """One picture."""
    drawn = [curve.mechanism for curve in panel.curves if not curve.mechanism.endswith(BESIDE)]
    figure, ax = axes()
    for curve in panel.curves:
        own = curve.mechanism.removesuffix(BESIDE)
        colour = f"C{drawn.index(own) % 10}" if own in drawn else "0.5"
        if own != curve.mechanism:
            look: dict[str, Any] = {"lw": 0, "marker": "x", "ms": 3, "alpha": 0.6}
        else:
            look = {"lw": 1.3, "ls": line_of(own, mechanisms), "marker": "o", "ms": 2.5}
        ax.plot(curve.x, curve.y, color=colour, label=curve.mechanism, **look)
        if curve.low:
            ax.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.12, lw=0)
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    ax.set_title(panel.title, fontsize=10)
    if panel.log_x:
        ax.set_xscale("log")
    if panel.log_y and any(y > 0 for curve in panel.curves for y in curve.y):
        ax.set_yscale("log")
    if panel.y_range is not None:
        ax.set_ylim(*panel.y_range)
    rows = math.ceil(len(panel.curves) / LEGEND_COLUMNS)
    figure.set_size_inches(figure.get_figwidth(), figure.get_figheight() + LEGEND_ROW * rows)
    figure.legend(loc="outside lower center", ncols=LEGEND_COLUMNS, fontsize=6.5, frameon=False)  # covers no curve
    return to_svg(figure, name, panel.title)


def line_of(curve: str, mechanisms: Sequence[Mechanism]) -> str:
    """Style of the line of a curve, by the mechanism that its name begins with."""
    return next((LINES[one.kind] for one in mechanisms if curve.startswith(one.name)), OTHERS)


def experiments_html(experiments: Sequence[Experiment] | None) -> str:
    """Sections of a page."""
    if experiments is None:
        return f"<p>{LEFT_OUT}</p>"
    words = (
        "<p>Lines: drawn through, sound; dashed, as printed; dotted, not private; dash-dotted, no mechanism. A printed"
        " mechanism may give no guarantee at all; what each one gives stands below its pictures.</p>"
    )
    return words + "".join(_one_html(experiment) for experiment in experiments)


def _one_html(experiment: Experiment) -> str:
    head = f'<h3 id="{experiment.name}">{escape(experiment.title)}</h3><p class="faint">{escape(experiment.paper)}</p>'
    if experiment.missing:
        return f"{head}<p>Not run: it {escape(experiment.missing)}</p>"
    drawn = "".join(
        f"<figure>{panel_svg(panel, experiment.mechanisms, f'{experiment.name}-{i}')}</figure>"
        for i, panel in enumerate(experiment.panels)
    )
    findings = "".join(
        "<tr>"
        + "".join(f"<td>{escape(text)}</td>" for text in (finding.statement, finding.printed, finding.found))
        + f'<td><span class="verdict {CLASSES[finding.verdict]}">{finding.verdict.value}</span>'
        + ("" if finding.holds else ' <span class="false">not confirmed</span>')
        + f"</td><td>{escape(finding.why)}</td></tr>"
        for finding in experiment.findings
    )
    return (
        f'{head}<p>{escape(experiment.setting)}</p><div class="figures">{drawn}</div>'
        + _html_rows(FINDINGS, findings)
        + _html_table(mechanism_table(experiment))
        + "".join(f"<p>{escape(table.title)}</p>{_html_table(table)}" for table in experiment.tables)
    )


def _html_table(table: Table) -> str:
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return _html_rows(table.header, rows)


def _html_rows(header: Sequence[str], rows: str) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def mechanism_table(experiment: Experiment) -> Table:
    """What each mechanism is and promises."""
    rows = tuple((one.name, one.kind.value, one.parameter, one.guarantee) for one in experiment.mechanisms)
    return Table("Mechanisms", MECHANISMS, rows)


def finding_table(experiment: Experiment) -> Table:
    """What reproduces, what does not, and why."""
    rows = tuple(
        (one.statement, one.printed, one.found, one.verdict.value + ("" if one.holds else " (NOT CONFIRMED)"), one.why)
        for one in experiment.findings
    )
    return Table("What reproduces", FINDINGS, rows)


def experiments_markdown(experiments: Sequence[Experiment] | None) -> list[str]:
    """The same without pictures, as lines."""
    if experiments is None:
        return [LEFT_OUT]
    lines: list[str] = []
    for experiment in experiments:
        lines += [f"### {experiment.title}", "", experiment.paper, ""]
        if experiment.missing:
            lines += [f"Not run: it {experiment.missing}", ""]
            continue
        lines += [experiment.setting, ""]
        for table in (finding_table(experiment), mechanism_table(experiment), *experiment.tables):
            lines += [f"{table.title}:", "", _row(table.header), "|" + "---|" * len(table.header)]
            lines += [*map(_row, table.rows), ""]
    return lines[:-1]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def experiments_text(experiments: Sequence[Experiment]) -> str:
    """For a terminal or a pipe."""
    from rich.console import Console
    from rich.markup import escape as marked_up

    console: Any = Console(width=160, file=None)
    with console.capture() as caught:
        for experiment in experiments:
            if experiment.missing:
                console.print(f"[b]{marked_up(experiment.title)}[/b] not run: it {marked_up(experiment.missing)}\n")
                continue
            console.print(
                f"[b]{marked_up(experiment.title)}[/b] ({experiment.seconds:.0f} s)\n{marked_up(experiment.setting)}",
                highlight=False,
            )
            for table in (*experiment.tables, mechanism_table(experiment), finding_table(experiment)):
                console.print(_rich_table(table))
    held = [finding.holds for experiment in experiments for finding in experiment.findings]
    missing = sum(bool(experiment.missing) for experiment in experiments)
    words = f"{sum(held)} of {len(held)} findings confirmed" + (f", {missing} experiments not run" if missing else "")
    return f"{caught.get()}{words}."


def _rich_table(table: Table) -> Any:
    from rich.markup import escape as marked_up
    from rich.table import Table as Drawn

    drawn = Drawn(title=marked_up(table.title), title_justify="left", show_lines=False)
    for name in table.header:
        drawn.add_column(marked_up(name), overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(marked_up, row))
    return drawn

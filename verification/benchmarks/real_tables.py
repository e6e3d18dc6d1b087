"""Real tables: private mixtures beside mixtures of private synthetic rows, which is what else a user would do.

``python -m verification.benchmarks.real_tables`` fits ten tables by this project (default with public bounds, without
bounds, and pure) and by the rivals MST and AIM of the package dpmm, at epsilon 1 and delta 1e-6, and prints for each
table and method the median and the worst gap over divisions of the rows, seconds, and the targets.

- gap: mean log-density of the held-out rows inside the public bounds, columns in standard deviations, less that of
  scikit-learn's mixture of the same training rows inside the bounds; nats per row.
- Every fit has the same least variance, a thousandth of a column's. Of the rivals see ``real_table_methods``.

Tables and their bounds are in real_table_recipes, what must be reached in real_table_targets. ``--out FOLDER`` keeps
every fit in real_tables.csv, where fits that are there are not made again, and draws real_tables.png. dpmm needs an
older Python, so it runs in ``.venv-dpmm`` of the current folder, made on first use; a rival's fit takes a minute or
more. Five further tables are not for work on methods: ``--last`` is for the end. Exit status 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, fields
from pathlib import Path

from verification.benchmarks.accuracy import chosen
from verification.benchmarks.real_table_methods import CEILING, METHODS, RIVALS, Rivals, Score, ceiling, level, score
from verification.benchmarks.real_table_recipes import TABLES, TUNING, MissingTable, divided, load
from verification.benchmarks.real_table_targets import Summary, summarised, targets

DEFAULT_REPEATS, DEFAULT_RIVAL_REPEATS = 3, 1
FILE, FIGURE = "real_tables.csv", "real_tables.png"
LINEAR, SMALLEST = 1e-2, -10.0  # of the figure's axis: linear near 0, logarithmic from here on, cut below

Made = dict[tuple[str, int, str], Score]


def run(
    names: Sequence[str], methods: Sequence[str], repeats: Callable[[str], int], rivals: Rivals, made: Made
) -> Iterator[Score]:
    """Scores one by one; those in ``made`` are not fitted again."""
    for name in names:
        rows = None
        for repeat in range(max(repeats(method) for method in methods)):
            wanted = [CEILING, *(method for method in methods if repeat < repeats(method))]
            if all((name, repeat, method) in made for method in wanted):
                yield from (made[name, repeat, method] for method in wanted)
                continue
            rows = load(TABLES[name]) if rows is None else rows
            division = divided(TABLES[name], rows, repeat)
            known = made.get((name, repeat, CEILING))
            if known is None:
                fit, seconds = ceiling(division)
                known = Score(name, repeat, CEILING, 0.0, seconds, f"{level(fit, division):.6f}")
            yield known
            for method in wanted[1:]:
                yield made.get((name, repeat, method)) or score(division, method, float(known.note), rivals)


def read(path: Path) -> Made:
    """Scores in a file of an earlier run; none where there is no file."""
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        found = [
            Score(
                row["table"], int(row["repeat"]), row["method"], float(row["gap"]), float(row["seconds"]), row["note"]
            )
            for row in csv.DictReader(file)
        ]
    return {(one.table, one.repeat, one.method): one for one in found if one.ran}


def write(scores: Iterable[Score], path: Path) -> None:
    """One row for every fit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields(Score))
        writer.writerows(
            [f"{value:.6g}" if isinstance(value, float) else value for value in astuple(one)] for one in scores
        )


def heading(name: str) -> str:
    """What is known of a table, and the first line of its figures."""
    table = TABLES[name]
    what = f"{name} ({'/'.join(table.source)}, {table.licence}): {table.n_rows:,} rows, {', '.join(table.bounds)}"
    return (
        f"\n{what}, {table.n_components} components\n{'method':<12}{'median':>10}{'worst':>10}{'runs':>6}{'seconds':>9}"
    )


def line(one: Summary) -> str:
    """One method on one table, as text."""
    if not one.n_runs:
        return f"{one.method:<12}  {one.note}"
    numbers = f"{one.median:>10.3f}{one.worst:>10.3f}{one.n_runs:>6}{one.seconds:>9.1f}"
    return f"{one.method:<12}{numbers}  {one.note}".rstrip()


def draw(summaries: Sequence[Summary], path: Path) -> None:
    """Median gap (dot) and worst gap (end of the line) of every method on every table; cut at ``SMALLEST``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    ran = [one for one in summaries if one.n_runs and one.method != CEILING]
    names, methods = list(dict.fromkeys(one.table for one in ran)), list(METHODS)
    figure = Figure(figsize=(8, 1.5 + 0.45 * max(len(names), 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for one in ran:
        place = methods.index(one.method)
        height = names.index(one.table) + 0.14 * (place - (len(methods) - 1) / 2)
        median, worst = max(one.median, SMALLEST), max(one.worst, SMALLEST)
        axes.plot([worst, median], [height, height], color=f"C{place}", linewidth=1)
        axes.plot([median], [height], "o", color=f"C{place}", markersize=4)
    for place, method in enumerate(methods):
        if any(one.method == method for one in ran):
            axes.plot([], [], "o-", color=f"C{place}", markersize=4, label=method)
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=LINEAR)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("gap to scikit-learn without privacy, nats per held-out row: median (dot) and worst")
    figure.legend(loc="outside upper center", ncols=len(methods), fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark, print it, write files; returns the exit status."""
    options = _options(arguments)
    repeats = {method: options.rival_repeats if method in RIVALS else options.repeats for method in METHODS}
    rivals = Rivals.make() if set(options.methods) & set(RIVALS) else Rivals(None, "not asked for")
    made = read(options.out / FILE) if options.out else {}
    every: Made = dict(made)
    shown: list[Score] = []
    for name in options.tables:
        found: list[Score] = []
        try:
            for one in run([name], options.methods, repeats.__getitem__, rivals, made):
                found.append(one)
                every[one.table, one.repeat, one.method] = one
                if options.out:  # after every fit: a run that is stopped leaves what it has
                    write(every.values(), options.out / FILE)
        except MissingTable as reason:
            print(f"\n{name}: NOT RUN, needs {reason}", file=sys.stderr, flush=True)
            continue
        shown += found
        if not options.json:
            print(heading(name), *(line(one) for one in summarised(found)), sep="\n", flush=True)
    summaries = summarised(shown)
    wanted = targets(summaries)
    missed = sum(target.missed for target in wanted)
    if options.out:
        draw(summaries, options.out / FIGURE)
    if options.json:
        aims = [asdict(one) | {"missed": one.missed} for one in wanted]
        print(json.dumps({"summaries": _plain(map(asdict, summaries)), "targets": _plain(aims)}, indent=1))
    else:
        print(f"\nTargets, {missed} of {len(wanted)} missed", *wanted, sep="\n")
    return int(missed > 0 or not shown)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Private mixtures of real tables beside private synthetic rows.")
    parser.add_argument("--tables", help=f"separated by ',': {', '.join(TUNING)} (default: these)")
    parser.add_argument("--last", action="store_true", help="the five tables that nothing is tuned on instead")
    parser.add_argument("--methods", help=f"separated by ',': {', '.join(METHODS)}")
    parser.add_argument("--repeats", type=int, default=DEFAULT_REPEATS, help="divisions of each table (default 3)")
    parser.add_argument("--rival-repeats", type=int, default=DEFAULT_RIVAL_REPEATS, help="for MST and AIM (default 1)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--out", type=Path, help=f"folder for {FILE}, whose fits are not made again, and {FIGURE}")
    options = parser.parse_args(arguments)
    for name in ("repeats", "rival_repeats"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, got {getattr(options, name)}")
    known = [name for name, table in TABLES.items() if table.last == options.last]
    try:
        options.tables = chosen(options.tables, known, "--tables")
        options.methods = chosen(options.methods, METHODS, "--methods")
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    return options


def _plain(rows: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """The rows with None for numbers that JSON has no form for."""
    return [
        {key: None if isinstance(one, float) and not math.isfinite(one) else one for key, one in row.items()}
        for row in rows
    ]


if __name__ == "__main__":
    sys.exit(main())

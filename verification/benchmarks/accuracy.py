"""How far are private mixtures from the non-private ceiling, and from what else a user could do?

``python -m verification.benchmarks.accuracy`` fits every data set by every method on the same rows and prints, for each
set and method, the median and the worst gap, the total variation to the truth, and seconds. Makes the size tables of
README.md and docs/how-many-records.md for methods with delta.

- gap: mean held-out log-density under the private fit less that under the best of several fits of scikit-learn's
  GaussianMixture to the same rows, nats per record; 0 is as good as no privacy.
- TV: after the best matching of components, the largest weight error or total variation of components.
- delta is 1e-6; neighbours differ by replacing one record. Every fit gets the same floors.

The sets are in sets.py, the methods in accuracy_methods.py, what must be reached in accuracy_targets.py. diffprivlib
needs an older scikit-learn, so it runs in an environment of its own, made on first use in ``.venv-diffprivlib`` of the
current folder. Exit status 1 when a target is missed. Targets are meant for ten repeats; with fewer they are shown all
the same.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from verification.benchmarks.accuracy_methods import CEILING, METHODS, Score, scores
from verification.benchmarks.accuracy_report import draw, write_csv
from verification.benchmarks.accuracy_targets import Summary, summarised, targets
from verification.benchmarks.peers import Peer
from verification.benchmarks.sets import RECIPES, data_set

DEFAULT_REPEATS = 10
# sets of methods that say little elsewhere, or take long
ONLY = {
    "sketch, loose bounds": ("A-1e3", "A-1e4", "C-1e4"),
    "local": ("A-1e4", "A-1e5", "B-1e5"),
    "gaps": ("A-1e4", "A-1e5"),
    "auto, no bounds": ("A-1e3", "A-1e4", "A-1e5"),
    "aggregate": ("A-1e4", "B-8e3", "C-1e4"),
}


def run(sets: list[str], methods: list[str], repeats: int, peer: Peer) -> Iterator[list[Score]]:
    """Scores of one set at a time."""
    for name in sets:
        chosen = [method for method in methods if name in ONLY.get(method, (name,))]
        wanted = min(repeats, RECIPES[name].most_repeats)
        yield [score for repeat in range(wanted) for score in scores(data_set(name, repeat), chosen, peer)]


def heading() -> str:
    """First line of the table."""
    return f"{'method':<22}{'median':>12}{'worst':>12}{'TV':>8}{'seconds':>9}"


def line(one: Summary) -> str:
    """One method on one set, as text."""
    if not one.n_runs:
        return f"{one.method:<22}  {one.note}"
    numbers = f"{_number(one.median):>12}{_number(one.worst):>12}"
    tv = "" if math.isnan(one.tv) else f"{one.tv:.3f}"
    return f"{one.method:<22}{numbers}{tv:>8}{one.seconds:>9.2f}  {one.note}".rstrip()


def _number(gap: float) -> str:
    return f"{gap:.5f}" if abs(gap) < 100 else f"{gap:.2e}"


def chosen(text: str | None, known: Any, option: str) -> list[str]:
    """Names in a list separated by semicolons or, where no known name has one, commas."""
    if text is None:
        return list(known)
    names = [name.strip() for name in text.split(";" if ";" in text or text in known else ",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"{option} must be among {', '.join(map(repr, known))}, got {unknown}")
    return names


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark, print it, write files; returns the exit status."""
    parser = argparse.ArgumentParser(description="Accuracy of private mixtures beside other recipes.")
    parser.add_argument("--sets", help=f"separated by ';' or ',': {', '.join(RECIPES)}")
    parser.add_argument("--methods", help=f"separated by ';': {'; '.join(METHODS)}")
    parser.add_argument("--repeats", type=int, default=DEFAULT_REPEATS, help="data sets of each set (default 10)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--out", type=Path, help="folder for accuracy.csv (every fit) and accuracy.png")
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    try:
        sets = chosen(options.sets, RECIPES, "--sets")
        methods = chosen(options.methods, METHODS, "--methods")
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))

    peer = Peer.make() if "diffprivlib" in methods else Peer(None, "not asked for")
    every: list[Score] = []
    for found in run(sets, methods, options.repeats, peer):
        every += found
        if options.out is not None:  # after every set: a run that is stopped leaves what it has
            options.out.mkdir(parents=True, exist_ok=True)
            write_csv(every, options.out / "accuracy.csv")
        if not options.json:
            recipe = RECIPES[found[0].set_name]
            n_features = len(recipe.domain.centre)
            print(
                f"\n{recipe.name}: {recipe.what}; {recipe.n_records:,} records, {n_features} column"
                f"{'s' * (n_features > 1)}, {recipe.n_components} components, epsilon {recipe.epsilon:g}"
            )
            print(heading(), *(line(one) for one in summarised(found)), sep="\n", flush=True)
    summaries = summarised(every)
    wanted = targets(summaries)
    missed = [target for target in wanted if target.missed]
    if options.out is not None:
        draw([one for one in summaries if one.method != CEILING], options.out / "accuracy.png")
    if options.json:
        rows = [{key: _plain(value) for key, value in asdict(one).items()} for one in summaries]
        aims = [{key: _plain(value) for key, value in asdict(one).items()} | {"missed": one.missed} for one in wanted]
        print(json.dumps({"summaries": rows, "targets": aims}, indent=1, allow_nan=False))
    else:
        print(f"\nTargets, {len(missed)} of {len(wanted)} missed", *wanted, sep="\n")
    return int(bool(missed))


def _plain(value: Any) -> Any:
    """The value, or None for a number that JSON has no form for."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    sys.exit(main())

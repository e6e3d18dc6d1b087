"""What is each tuning constant of the sketch method worth?

``python -m verification.benchmarks.ablation`` fits the same records with the same noise seeds, once as the package is
and once for each trial of ablation_trials.py with a plainer value in place of one constant, and prints a Markdown
table. For each kind of set: the mean difference of the held-out log-density per record, in nats, with its standard
error over the data sets; negative where the plainer value is worse. Differences of fits to the same records with the
same noise are small, so few data sets tell. ``changed`` counts the fits that came out different: where it is 0 the
constant was never used, and the row says nothing. Seconds are those of the processor, of a changed fit less its pair.

``--rows FILE`` keeps every fit; what the file has is not fitted again, so a study can be stopped and extended.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import numpy as np

from pm_dpgmm import Unstable, fit_gmm
from pm_dpgmm.methods.sketch.checks.misfit import Misfit
from pm_dpgmm.methods.sketch.estimate import SketchFit
from pm_dpgmm.mixture.mixture import Mixture
from verification.benchmarks.ablation_sets import SETS, Problem, Set
from verification.benchmarks.ablation_trials import TRIALS, Trial
from verification.benchmarks.peers import DELTA, WEIGHT_FLOOR
from verification.benchmarks.seeds import at_least

REFUSAL = 1.0  # nats that a refusal costs
Names = frozenset[tuple[str, str]]  # modules and what their functions that ran refer to


@dataclass(frozen=True, slots=True)
class Row:
    """One pair of fits."""

    trial: str
    kind: str
    set_name: str
    seed: int
    difference: float  # nats per record
    seconds: float

    @property
    def changed(self) -> bool:
        """Whether the fit came out different."""
        return self.difference != 0.0


@contextmanager
def changed(module: str, name: str, value: Any) -> Iterator[None]:
    """Give a constant another value wherever the package holds it: modules that import it, keywords of its name."""
    constant = getattr(sys.modules[module], name)
    holders = [holder for holder in _package() if vars(holder).get(name) is constant]
    functions = [f for holder in holders for f in vars(holder).values() if isinstance(f, FunctionType)]
    keyword = name.lower()
    defaults = [given for f in functions if (given := f.__kwdefaults__) and given.get(keyword) is constant]
    for holder in holders:
        setattr(holder, name, value)
    for given in defaults:
        given[keyword] = value
    try:
        yield
    finally:
        for holder in holders:
            setattr(holder, name, constant)
        for given in defaults:
            given[keyword] = constant


@contextmanager
def recorded(names: set[tuple[str, str]]) -> Iterator[None]:
    """Collect what the functions of the package that run refer to."""

    def note(frame: FrameType, event: str, argument: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("pm_dpgmm"):
            code = frame.f_code
            names.update((module, name) for name in code.co_names)
            keywords = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            names.update((module, keyword.upper()) for keyword in keywords)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def _package() -> list[Any]:
    return [module for name, module in list(sys.modules.items()) if name.startswith("pm_dpgmm") and module is not None]


def used(trial: Trial, names: Names) -> bool:
    """Whether a fit that ran these names can depend on the constant."""
    constant = getattr(sys.modules[trial.module], trial.name)
    return any(
        (holder.__name__, trial.name) in names for holder in _package() if vars(holder).get(trial.name) is constant
    )


def scored(problem: Problem, seed: int) -> tuple[float, float]:
    """Held-out log-density per record, NaN for a refusal, and seconds of one fit."""
    start = time.process_time()
    try:
        release = fit_gmm(
            problem.training, problem.n_components, epsilon=1.0, delta=DELTA, bounds=problem.bounds, method="sketch",
            reg_covar=problem.reg_covar, random_seed=seed, progress=False,
        )  # fmt: skip
    except Unstable:
        return math.nan, time.process_time() - start
    seconds = time.process_time() - start
    density = floored(release.density, problem.floor)
    return float(density.log_density(problem.held_out).mean()), seconds


def floored(mixture: Mixture, floor: float) -> Mixture:
    """As in the accuracy benchmark, so that no single record decides."""
    weights = np.maximum(mixture.weights, WEIGHT_FLOOR)
    values, axes = np.linalg.eigh(mixture.covariances)
    covariances = (axes * np.maximum(values, floor)[:, None, :]) @ axes.swapaxes(1, 2)
    return Mixture(weights / weights.sum(), mixture.means, (covariances + covariances.swapaxes(1, 2)) / 2)


def study(trials: Sequence[Trial], one: Set, seed: int, known: set[tuple[str, str, int]]) -> Iterator[Row]:
    """Every trial that is not known on one data set."""
    wanted = [trial for trial in trials if (trial.label, one.name, seed) not in known]
    if not wanted:
        return
    problem, found = one.problem(seed), set[tuple[str, str]]()
    with recorded(found):
        scored(problem, seed)  # also compiles, so that seconds of the next are those of a fit
    level, seconds = scored(problem, seed)
    for trial in wanted:
        if not used(trial, frozenset(found)):
            yield Row(trial.label, one.kind, one.name, seed, 0.0, 0.0)
            continue
        with changed(trial.module, trial.name, trial.value):
            other, later = scored(problem, seed)
        difference = other - level
        if math.isnan(difference):
            difference = REFUSAL * (math.isnan(level) - math.isnan(other))
        yield Row(trial.label, one.kind, one.name, seed, difference, later - seconds)


@contextmanager
def quickly() -> Iterator[None]:
    """Without the sizes of misfits and the caveats, on which no density of several components depends."""

    def unmeasured(evidence: Any, fit: SketchFit) -> tuple[SketchFit, Misfit]:
        return fit, Misfit.sized(fit.misfit, None, None)

    finish = "pm_dpgmm.methods.sketch.checks.finish"
    with changed(finish, "better", unmeasured), changed(finish, "sketch_caveats", lambda *arguments: []):
        yield


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Markdown: a line for each trial, a column for each kind of set."""
    kinds = list(dict.fromkeys(one.kind for one in SETS))
    yield f"| tried | {' | '.join(kinds)} | changed | seconds |"
    yield "|" + "---|" * (len(kinds) + 3)
    for label in dict.fromkeys(row.trial for row in rows):
        mine = [row for row in rows if row.trial == label]
        cells = [_cell([row.difference for row in mine if row.kind == kind]) for kind in kinds]
        moved = [row for row in mine if row.changed]
        seconds = f"{np.mean([row.seconds for row in moved]):+.2f}" if moved else ""
        yield f"| {label} | {' | '.join(cells)} | {len(moved)}/{len(mine)} | {seconds} |"


def _cell(differences: Sequence[float]) -> str:
    """Mean and standard error; nothing where no fit changed."""
    if not any(differences):
        return ""
    error = np.std(differences, ddof=1) / math.sqrt(len(differences)) if len(differences) > 1 else math.nan
    return f"{np.mean(differences):+.4f} ± {error:.4f}"


def main(arguments: list[str] | None = None) -> int:
    """Run the trials and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--constants", help="names or parts of labels, separated by commas; all without it")
    parser.add_argument("--sets", help="names or kinds, separated by commas; all without it")
    parser.add_argument("--seeds", type=at_least(1), default=3, help="data sets of each set")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--rows", type=Path, help="file with a line of JSON for each fit, read and extended")
    options = parser.parse_args(arguments)
    wanted = None if options.constants is None else options.constants.split(",")
    trials = [trial for trial in TRIALS if wanted is None or any(part in trial.label for part in wanted)]
    names = None if options.sets is None else options.sets.split(",")
    sets = [one for one in SETS if names is None or one.name in names or one.kind in names]
    rows: list[Row] = []
    if options.rows is not None and options.rows.exists():
        rows = [Row(**json.loads(line)) for line in options.rows.read_text().splitlines()]
    known = {(row.trial, row.set_name, row.seed) for row in rows}
    with warnings.catch_warnings(), quickly():
        warnings.simplefilter("ignore")
        for seed in range(options.first, options.first + options.seeds):
            for one in sets:
                for row in study(trials, one, seed, known):
                    rows.append(row)
                    if options.rows is not None:
                        with options.rows.open("a") as file:
                            file.write(json.dumps(asdict(row)) + "\n")
    print(*table(rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

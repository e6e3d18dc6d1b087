"""Wrong arguments for every public function: does each get one clear error, in words of this package?

``python -m verification.fuzz.entries --inputs 5000 --seed 1`` calls public functions and methods with one or two
arguments replaced by hostile ones. Allowed are a result and an exception of ``CLEAR`` whose message is not empty and
which this package raised itself: an error that comes up from inside NumPy says nothing of the caller's argument. For
fits it also holds that bad input never charges a ledger. Whatever else happens is printed with its seed.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import datetime
import decimal
import fractions
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

import pm_dpgmm as dpg
from verification import audit, repeated
from verification.benchmarks.seeds import at_least
from verification.fuzz.releases import FILES, LONGEST, Report, TooLong

Entries = dict[str, tuple[Callable[..., Any], dict[str, Any]]]  # name: function, arguments that are right
CLEAR = (TypeError, ValueError, OSError, ImportError)
BESIDE = {"audit": RuntimeError}  # a mechanism that raises: the first word of the entry's name, and what is clear there
OURS = tuple(str(Path(__file__).resolve().parents[2] / package) for package in ("pm_dpgmm", "verification"))
HOSTILE: tuple[Callable[[], Any], ...] = tuple(
    partial(copy.copy, value)
    for value in (
        None, True, False, -1, 0, 1, 2, 2.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), 10**30, -(10**400),
        3 + 4j, "", "text", "\x00", "1", "/nonexistent/file.csv", "\ud800", b"bytes", (), (1,), [], [1], [[]],
        [[1, 2], [3]],
        ["a"], [None], {}, {"a": 1}, {1, 2}, object(), int, range(0), range(10**5), slice(3), Ellipsis, NotImplemented,
        decimal.Decimal("1.5"), fractions.Fraction(1, 3), datetime.date(2026, 1, 1), Path("/nonexistent/x.json"),
        np.array([]), np.array(1.0), np.zeros((0, 2)), np.zeros((2, 0)), np.zeros((2, 2, 2)), np.array(["a", "b"]),
        np.array([1j]), np.array([None, 1]), np.array([np.nan, 1.0]), np.longdouble(1), np.float32(0.5), np.int64(3),
        np.datetime64("2026-01-01"), np.ma.masked_array([1.0, 2.0], mask=[True, False]), np.random.default_rng(1),
        pd.DataFrame({"a": ["x"]}), pd.DataFrame({"a": [1.0, 2.0], "b": [0.5, 1.5]}), pd.Series([1.0]), pd.NA,
    )
)  # fmt: skip
GENERATED: tuple[Callable[[], Any], ...] = (lambda: (i for i in range(3)), lambda: lambda *given: None)
RECORDS = np.concatenate([np.linspace(-1.0, 1.0, 60), np.linspace(5.0, 7.0, 40)])[:, None]


def noisy_sum(data: Any, n_samples: int, rng: np.random.Generator) -> Any:
    """A mechanism that keeps its claim."""
    return np.sum(np.asarray(data, dtype=float)) + rng.laplace(size=n_samples)


def noisy_once(data: Any, rng: np.random.Generator) -> float:
    """The same, run once."""
    return float(np.sum(np.asarray(data, dtype=float)) + rng.laplace())


def entries(folder: Path) -> Entries:
    """Public functions with arguments that are right; fits get a ledger of their own."""
    release = dpg.load(FILES / "histogram.json")
    sketch = dpg.load(FILES / "sketch_one_column.json")
    mixture = dpg.Mixture([0.5, 0.5], [[0.0, 0.0], [4.0, 1.0]], [np.eye(2)] * 2)
    points = np.zeros((3, release.n_features))
    estimator = dpg.PrivateGaussianMixture(1, epsilon=1.0, bounds=(-2, 8)).fit(RECORDS)
    ledger = dpg.Ledger(folder / "budget.sqlite", epsilon=1e9, delta=0.5)
    asked = dpg.LocalProtocol.design(1, epsilon=1.0, bounds=(-2, 8))
    # an epsilon that no other entry uses tells a charge
    fit = {"X": RECORDS, "n_components": 1, "epsilon": 0.5, "ledger": ledger, "progress": False}
    sizes = {"accuracy": 0.1, "epsilon": 1.0, "delta": 1e-6}
    given = {"mechanism": noisy_sum, "x": [0.0], "x_neighbour": [1.0], "epsilon": 1.0, "n_samples": 400}
    labelled: dict[str, Any] = {
        "by": ["a", "b"] * (len(RECORDS) // 2),
        "levels": ("a", "b"),
        "epsilon": 0.5,
        "progress": False,
    }
    levels = dpg.fit_levels(RECORDS, 1, bounds=(-2, 8), random_seed=1, **labelled)
    return {
        "fit_levels": (dpg.fit_levels, labelled | {
            "X": RECORDS, "n_components": {"a": 1, "b": 2}, "columns": ["x"], "bounds": (-2, 8), "method": "histogram",
            "n_cells": 8, "delta": None, "resolution": None, "transform": None, "random_seed": 1,
        }),
        "LevelReleases": (dpg.LevelReleases, {"by": "kind", "releases": dict(levels)}),
        "LevelReleases.log_density": (levels.log_density, {"X": points[:, :1], "labels": ["a", "b", "a"]}),
        "LevelReleases.level_probs": (levels.level_probs, {"X": points[:, :1]}),
        "LevelReleases.sample": (levels.sample, {"n_points": 3, "random_seed": 1}),
        "fit_gmm histogram": (dpg.fit_gmm, fit | {
            "bounds": (-2, 8), "method": "histogram", "neighbouring": "replace-one", "n_cells": 8, "random_seed": 1,
            "delta": None, "n_jobs": None, "learner": None, "checkpoint": None, "transform": ["asinh"],
        }),
        "Transformation": (dpg.Transformation, {
            "name": "same", "forward": np.copy, "inverse": np.copy, "log_jacobian": np.zeros_like, "domain": (-9, 9),
        }),
        "Transformation.log": (dpg.Transformation.log, {"floor": 1.0}),
        "Transformation.logit": (dpg.Transformation.logit, {"low": 0, "high": 1, "margin": 0.01}),
        "Transformation.asinh": (dpg.Transformation.asinh, {"scale": 1.0}),
        "fit_gmm sketch": (dpg.fit_gmm, fit | {
            "bounds": (-2, 8), "method": "sketch", "delta": 1e-6, "order": 8, "reg_covar": 0.1, "like": None,
            "covariance_type": "auto", "random_seed": 1,
        }),
        "fit_gmm slices": (dpg.fit_gmm, fit | {
            "X": np.hstack([RECORDS, RECORDS[::-1]]), "bounds": (-2, 8), "method": "slices", "n_cells": 6,
        }),
        "fit_gmm populous": (dpg.fit_gmm, fit | {"method": "populous", "delta": 1e-6, "noise": 0.1, "rehearse": True}),
        "fit_gmm populous-single": (dpg.fit_gmm, fit | {"method": "populous-single", "delta": 1e-6, "n_subsets": 50}),
        "fit_gmm aggregate": (dpg.fit_gmm, fit | {
            "X": np.tile(RECORDS, (8, 1)), "bounds": (-2, 8), "method": "aggregate", "delta": 1e-6, "centre_share": 0.5,
            "records_per_number": 20.0, "fuse": True, "rehearse": True, "time_limit": None, "random_seed": 1,
        }),
        "fit_gmm local": (dpg.fit_gmm, fit | {
            "bounds": None, "method": "local", "randomiser": "optimised", "centre": 3.0, "scale": 5.0, "rounds": 1,
            "resolution": 8.0, "n_cells": 8, "random_seed": 1,
        }),
        "fit_gmm em": (dpg.fit_gmm, fit | {
            "bounds": (-2, 8), "method": "em", "estimate": "k-means", "n_steps": 2, "start": [[3.0]], "delta": None,
            "covariance_type": None, "neighbouring": "replace-one", "random_seed": 1,
        }),
        "EM": (dpg.EM, {
            "n_steps": 3, "covariance_type": "spherical", "estimate": "k-means", "start_share": None, "reach": None,
            "prior": None, "start": [[0.0]],
        }),
        "LocalProtocol": (dpg.LocalProtocol, {
            "randomiser": "one-bit", "epsilon": 1.0, "frequencies": [[1.0]], "phases": [0.5], "edges": (), "centre": (),
            "scale": (),
        }),
        "LocalProtocol.design": (asked.design, {
            "n_features": 1, "epsilon": 1.0, "randomiser": "k-ary", "bounds": (-2, 8), "resolution": 4.0, "n_cells": 4,
        }),
        "LocalProtocol.from_dict": (dpg.LocalProtocol.from_dict, {"fields": asked.to_dict()}),
        "LocalProtocol.from_json": (dpg.LocalProtocol.from_json, {"text": asked.to_json()}),
        "respond": (asked.respond, {"record": [3.0], "rng": None}),
        "aggregate": (asked.aggregate, {"reports": [asked.respond([3.0])], "strict": True}),
        "fit_reports": (dpg.fit_reports, {
            "reports": asked.aggregate([asked.respond([3.0])]), "n_components": 1, "feature_names": ["a"],
            "progress": False,
        }),
        "VectorLearner": (dpg.VectorLearner, {"function": np.median, "names": ("median",)}),
        "RecordBlocks": (dpg.RecordBlocks, {"X": RECORDS, "rows_per_block": 30}),
        "estimator": (lambda X, **settings: dpg.PrivateGaussianMixture(**settings).fit(X), {
            "X": RECORDS, "n_components": 1, "epsilon": 1.0, "bounds": (-2, 8), "method": "histogram",
            "random_state": 1, "settings": None,
        }),
        "predict": (estimator.predict, {"X": RECORDS}),
        "score_samples": (estimator.score_samples, {"X": RECORDS}),
        "plan": (dpg.plan, {
            "n_records": 100, "n_features": 1, "n_components": 1, "n_simulations": 1, "method": "histogram",
            "bounds": True, "neighbouring": "replace-one", "separation": 4.0, "weights": None, "error": 0.1,
            "random_seed": 0, "epsilon": 1.0, "delta": None,
        }),
        "robust_normal": (dpg.robust_normal, {
            "X": np.linspace(-1.0, 1.0, 240)[:, None], "epsilon": 4.0, "delta": 0.05, "unit": 1.0,
            "random_seed": 1,
        }),
        "selection_size": (dpg.selection_size, {
            "n_hypotheses": 9, "accuracy": 0.1, "epsilon": 1.0, "failure": 0.1, "z": 1.0,
        }),
        "populous_size": (dpg.populous_size, {
            "n_components": 2, "n_features": 1, **sizes, "failure": 0.1, "learner_size": None,
        }),
        "mixture_rate": (dpg.mixture_rate, {"n_components": 2, "n_features": 1, **sizes, "constant": 1.0}),
        "univariate_rate": (dpg.univariate_rate, {"n_components": 2, **sizes, "constant": 1.0}),
        "necessary_rate": (dpg.necessary_rate, {"n_components": 2, "n_features": 1, **sizes, "constant": 1.0}),
        "Ledger": (dpg.Ledger, {"path": folder / "other.sqlite", "epsilon": 1.0, "delta": 0.0}),
        "reserve": (ledger.reserve, {
            "epsilon": 0.25, "delta": 0.0, "neighbouring": "replace-one", "mechanism": "words",
        }),
        "compose": (lambda a, b, delta: dpg.compose(a, b, delta=delta), {
            "a": release.guarantee, "b": release.guarantee, "delta": 1e-6,
        }),
        "group_epsilons": (dpg.group_epsilons, {"guarantee": release.guarantee, "group": [1, 3], "delta": 1e-6}),
        "Ledger.composed": (ledger.composed, {"delta": 1e-6}),
        "curve": (release.guarantee.curve, {"epsilon": 0.5}),
        "epsilon_at": (release.guarantee.epsilon_at, {"delta": 1e-6}),
        "Mixture": (dpg.Mixture, {"weights": [0.4, 0.6], "means": [[0.0], [1.0]], "covariances": [[[1.0]], [[2.0]]]}),
        "Mixture.log_density": (mixture.log_density, {"points": [[0.0, 1.0]]}),
        "Mixture.marginal": (mixture.marginal, {"columns": [0]}),
        "Mixture.conditional": (mixture.conditional, {"given": {0: 1.0}}),
        "log_density": (release.log_density, {"points": points}),
        "sample": (release.sample, {"n_points": 3, "random_seed": 1}),
        "marginal": (release.marginal, {"names": [release.feature_names[0]]}),
        "conditional": (release.conditional, {"given": {release.feature_names[0]: 0.0}}),
        "refit": (sketch.refit, {"n_components": 1}),
        "select_k": (sketch.select_k, {"n_components": [1, 2], "penalty": 4.0}),
        "draws": (sketch.draws, {"n_draws": 2, "random_seed": 1}),
        "interval": (sketch.interval, {
            "quantity": lambda m: m.weights[0], "n_draws": 10, "probability": 0.9, "random_seed": 1,
        }),
        "band": (sketch.band, {"points": [0.0, 1.0], "n_draws": 10, "probability": 0.9, "names": None, "given": None}),
        "check_fit": (sketch.check_fit, {"idata": None, "name": None, "n_draws": 5, "random_seed": 1}),
        "save": (release.save, {"path": folder / "saved.json"}),
        "card": (release.card, {
            "path": folder / "card.html", "force": True, "title": "t", "data": "d", "contact": "c", "licence": "l",
            "date": "2026-11-24", "file": "f", "units": None, "descriptions": None, "rows_per_person": 2,
        }),
        "load": (dpg.load, {"path": FILES / "histogram.json"}),
        "from_dict": (dpg.Release.from_dict, {"fields": release.to_dict()}),
        "resume": (dpg.resume, {"source": folder / "none.json", "n_components": None}),
        "combine": (dpg.combine, {"releases": [sketch], "n_components": 1}),
        "audit": (audit, given | {"delta": 0.0, "false_alarm": 0.05, "level": "value", "rng": None, "n_jobs": 1}),
        "audit at bit level": (audit, given | {"level": "bit"}),
        "audit, sequential": (audit, given | {"sequential": True}),
        "audit of one run": (lambda mechanism, **rest: audit(repeated(mechanism), **rest), given | {
            "mechanism": noisy_once, "n_samples": 200,
        }),
        "fit_gmm add-remove": (dpg.fit_gmm, fit | {
            "bounds": (-2, 8), "neighbouring": "add-remove", "method": "histogram",
        }),
    }  # fmt: skip


def run(
    n_inputs: int,
    seed: int,
    listing: Callable[[Path], Entries] = entries,
    more: Sequence[Callable[[], Any]] = (),
) -> Report:
    """Try ``n_inputs`` calls of the entries in ``listing``, each with a generator of its own, [seed, number].

    ``more`` makes hostile arguments beside those for everything.
    """
    report = Report()
    pool = (*HOSTILE, *GENERATED, *more)
    # what is saved to a path such as "1" goes where nobody keeps anything
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        listed = listing(Path(place))
        names = sorted(listed)
        ledgers = [given["ledger"] for _, given in listed.values() if "ledger" in given]
        ledger = ledgers[0] if ledgers else dpg.Ledger(Path(place) / "none.sqlite", epsilon=1.0)
        for number in range(n_inputs):
            rng = np.random.default_rng([seed, number])
            name = names[int(rng.integers(len(names)))]
            function, right = listed[name]
            wrong = dict(right)
            for _ in range(int(rng.integers(1, 3))):
                changed = list(wrong)[int(rng.integers(len(wrong)))]
                if changed != "ledger":
                    wrong[changed] = pool[int(rng.integers(len(pool)))]()
            before = ledger.spent
            report.n_inputs += 1
            clear = (*CLEAR, BESIDE[name.split()[0].strip(",")]) if name.startswith(tuple(BESIDE)) else CLEAR
            scikit = name in ("predict", "score_samples")  # an estimator checks points as scikit-learn's do
            fault = _fault(partial(function, **wrong), clear, scikit=scikit)
            if fault is None and name.startswith("fit_gmm") and ledger.spent != before:
                report.actions["charged"] += 1
            elif fault in ("refused", None):
                report.actions[fault or "done"] += 1
                if fault == "refused" and ledger.spent != before:
                    fault = "bad input was charged"
            if fault not in ("refused", None):
                shown = {key: wrong[key] for key in wrong if wrong[key] is not right[key]}
                report.faults.append(f"seed {seed}, input {number}, {name}({shown!r:.200}): {fault}")
    return report


def _fault(call: Callable[[], Any], clear: tuple[type[Exception], ...], *, scikit: bool) -> str | None:
    """What is wrong with how a call ends; None for a result, "refused" for a clear error."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        call()
    except TooLong:
        return f"no end within {LONGEST} s"
    except dpg.Unstable:
        return None  # an answer, which is paid for
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error)
        told = scikit or (isinstance(error, clear) and frame.filename.startswith(OURS))
        if not told or not text or len(text) > 1000:
            return f"{type(error).__name__}: {text[:160]!r} in {Path(frame.filename).name}:{frame.lineno}"
        return "refused"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return None


def main(
    listing: Callable[[Path], Entries] = entries, more: Sequence[Callable[[], Any]] = (), words: str | None = __doc__
) -> None:
    """Run from the command line; the exit status is 1 if there was a fault."""
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("--inputs", type=at_least(1), default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    report = run(given.inputs, given.seed, listing, more)
    print(report)
    sys.exit(1 if report.faults else 0)


if __name__ == "__main__":
    main()

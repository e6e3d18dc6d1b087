"""Command line: ``pm-dpgmm fit|plan|show|demo``."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status (1 for a refusal or a plan that is not enough, 2 for bad input)."""
    parser = argparse.ArgumentParser(prog="pm-dpgmm", description="Gaussian mixtures under differential privacy")
    commands = parser.add_subparsers(dest="command", required=True)

    fit = commands.add_parser("fit", help="fit a mixture to a .csv or .parquet file and save the release")
    fit.add_argument("records", type=Path)
    fit.add_argument("--columns", nargs="+", help="columns to use (default: all)")
    fit.add_argument("--components", type=int, required=True)
    fit.add_argument("--epsilon", type=float, required=True)
    fit.add_argument("--delta", type=float)
    fit.add_argument(
        "--bounds", type=float, nargs="+", metavar="LIMIT", help="public limits: low high for all columns or for each"
    )
    fit.add_argument("--method", default="auto")
    fit.add_argument("--neighbouring", default="replace-one")
    fit.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="settings of the method, such as noise=0.05"
    )
    fit.add_argument("--output", type=Path, required=True, help="release file to write (.json)")
    fit.add_argument("--json", action="store_true")

    plan = commands.add_parser("plan", help="what a number of records and a budget will buy; no records are read")
    plan.add_argument("--n-records", type=int, help="left out: about the fewest that are enough")
    plan.add_argument("--n-features", type=int, required=True)
    plan.add_argument("--n-components", type=int, required=True)
    plan.add_argument("--epsilon", type=float, required=True)
    plan.add_argument("--delta", type=float)
    plan.add_argument("--method", default="auto")
    plan.add_argument("--no-bounds", action="store_true", help="there will be no public limits")
    plan.add_argument("--neighbouring", default="replace-one")
    plan.add_argument("--separation", type=float, default=4.0, help="of the nearest components, standard deviations")
    plan.add_argument("--weights", type=float, nargs="+", help="of the components (default: equal)")
    plan.add_argument("--error", type=float, default=0.1, help="log-density per record that may be lost, nats")
    plan.add_argument("--noise", type=float, help="populous: relative noise (default: the least that lets fits pass)")
    plan.add_argument("--efficiency", type=float, help="populous: guess of the learner's quality, 0 to 1")
    plan.add_argument("--simulations", type=int, default=5)
    plan.add_argument("--seed", type=int, default=0)
    plan.add_argument("--json", action="store_true")

    show = commands.add_parser("show", help="print what a release holds and what it cost")
    show.add_argument("release", type=Path)
    show.add_argument("--json", action="store_true")

    demo = commands.add_parser("demo", help="private fit, PyMC prior and audit on public health-insurance records")
    demo.add_argument("--output", type=Path, default=Path("demo-output"))

    options = parser.parse_args(arguments)
    try:
        return {"fit": _fit, "plan": _plan, "show": _show, "demo": _demo}[options.command](options)
    except (TypeError, ValueError, FileNotFoundError) as error:
        print(f"pm-dpgmm {options.command}: {error}", file=sys.stderr)
        return 2


def _fit(options: argparse.Namespace) -> int:
    import pandas as pd

    from pm_dpgmm.caveats import FitWarning
    from pm_dpgmm.fit import fit_gmm
    from pm_dpgmm.privacy import Unstable

    if not options.output.parent.is_dir():  # before any budget is spent
        raise FileNotFoundError(f"--output must be in an existing folder, got {str(options.output)!r}")
    records: Any = options.records
    if options.columns:
        if not options.records.is_file():
            raise FileNotFoundError(f"records must be an existing file, got {str(options.records)!r}")
        read = pd.read_parquet if options.records.suffix == ".parquet" else pd.read_csv
        table = read(options.records)
        missing = [name for name in options.columns if name not in table]
        if missing:
            raise ValueError(f"--columns must be among {list(table.columns)}, got {missing}")
        records = table[options.columns]
    bounds = options.bounds
    if bounds is not None and len(bounds) != 2:
        if len(bounds) % 2:
            raise ValueError(f"--bounds must be pairs of low and high, got {len(bounds)} numbers")
        bounds = np.array(bounds).reshape(-1, 2)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # said below
            release = fit_gmm(
                records,
                options.components,
                epsilon=options.epsilon,
                delta=options.delta,
                bounds=bounds,
                method=options.method,
                neighbouring=options.neighbouring,
                **_settings(options.set),
            )
    except Unstable as refusal:
        print(f"{refusal}\nSpent: {refusal.guarantee}", file=sys.stderr)
        return 1
    release.save(options.output)
    if options.json and release.flag:
        print(f"WARNING: {release.flag}", file=sys.stderr)
    print(json.dumps(release.to_dict()) if options.json else release.summary())
    return 0


def _settings(pairs: list[str]) -> dict[str, Any]:
    """Settings from NAME=VALUE; a value is JSON, or a word."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise ValueError(f"--set must be NAME=VALUE, got {pair!r}")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def _plan(options: argparse.Namespace) -> int:
    from pm_dpgmm.planning import plan, smallest_size

    settings: dict[str, Any] = {
        "epsilon": options.epsilon, "delta": options.delta, "method": options.method, "bounds": not options.no_bounds,
        "neighbouring": options.neighbouring, "separation": options.separation, "weights": options.weights,
        "error": options.error, "n_simulations": options.simulations, "random_seed": options.seed,
    }  # fmt: skip
    settings |= {name: value for name in ("noise", "efficiency") if (value := getattr(options, name)) is not None}
    size = options.n_features, options.n_components
    found = (
        smallest_size(*size, **settings) if options.n_records is None else plan(options.n_records, *size, **settings)
    )
    print(json.dumps(found.as_dict()) if options.json else found.table())
    return 0 if found.enough else 1


def _show(options: argparse.Namespace) -> int:
    from pm_dpgmm.release import Release

    release = Release.load(options.release)
    print(json.dumps(release.to_dict()) if options.json else release.summary())
    return 0


def _demo(options: argparse.Namespace) -> int:
    from pm_dpgmm.demo import run

    return run(options.output, progress=sys.stderr.isatty())

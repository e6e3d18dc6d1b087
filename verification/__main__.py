"""Command line: ``python -m verification specimens|targets|claims|report|audit|verify``.

Exit status 1 when a verdict is wrong, a claim is refuted or a certificate does not hold; 2 for wrong arguments,
a mechanism that fails or a file that cannot be read or written.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import Any

import numpy as np


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m verification", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, words in {
        "specimens": "audit the zoo: broken mechanisms must be refuted, sound ones must not",
        "targets": "audit this package's own mechanisms and their planted faults",
    }.items():
        command = commands.add_parser(name, help=words, description=words)
        command.add_argument("--only", metavar="NAME", nargs="+", help="names to run")
        command.add_argument("--share", type=float, default=1.0, help="share of the samples (default 1)")
        command.add_argument("--seed", type=int, default=20261120)
        command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    words = "check the statements of five papers on private Gaussian mixtures"
    command = commands.add_parser("claims", help=words, description=words)
    command.add_argument("--id", metavar="NAME", nargs="+", help="claims to check (default all)")
    command.add_argument("--family", metavar="NAME", nargs="+", help="families to check (default all)")
    command.add_argument("--thorough", action="store_true", help="ten times as many cases")
    command.add_argument("--seed", type=int, default=20261120)
    command.add_argument("--n-jobs", type=int, default=-1, help="workers, -1 (default) for every core")
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    words = "run claims and audits, write report.html and report.md"
    command = commands.add_parser("report", help=words, description=words)
    command.add_argument("--out", metavar="FOLDER", default="report", help="folder to write to (default report)")
    command.add_argument("--thorough", action="store_true", help="ten times as many cases for the claims")
    command.add_argument("--share", type=float, default=1.0, help="share of the samples of the audits (default 1)")
    command.add_argument("--no-audits", action="store_true", help="claims only; the report says so")
    command.add_argument("--seed", type=int, default=20261120)
    command.add_argument("--n-jobs", type=int, default=-1, help="workers for the claims, -1 (default) for every core")
    command.add_argument("--json", action="store_true", help="print JSON instead of a sentence")
    command = commands.add_parser("audit", help="audit a function mechanism(data, n_samples, rng)")
    command.add_argument("mechanism", help="module:function")
    command.add_argument("--once", action="store_true", help="the function runs once: mechanism(data, rng)")
    command.add_argument("x", type=json.loads, help="data set, as JSON")
    command.add_argument("x_neighbour", type=json.loads, help="neighbouring data set, as JSON")
    command.add_argument("--epsilon", type=float, required=True)
    command.add_argument("--delta", type=float, default=0.0)
    command.add_argument("--n-samples", type=int, default=200_000)
    command.add_argument("--false-alarm", type=float, default=0.05)
    command.add_argument("--level", choices=("value", "bit"), default="value")
    command.add_argument("--sequential", action="store_true", help="stop as soon as the claim is refuted")
    command.add_argument("--n-jobs", type=int, default=1, help="workers, -1 for every core")
    command.add_argument("--seed", type=int)
    command.add_argument("--json", action="store_true")
    command.add_argument("--certificate", metavar="FILE", help="write a certificate that can be verified")
    command = commands.add_parser("verify", help="compute the bounds of a certificate again from its counts")
    command.add_argument("certificate", metavar="FILE")
    options = parser.parse_args(arguments)
    run = {"audit": _audit, "verify": _verify, "claims": _claims, "report": _report}.get(options.command, _trials)
    return run(options)


def _trials(options: argparse.Namespace) -> int:
    from verification.specimens import all_specimens
    from verification.targets import all_targets
    from verification.trials import FALSE_ALARM, Trial, run_trials

    if options.command == "targets":
        chosen = all_targets()
    else:
        releases = [target for target in all_targets() if target.name.endswith("_release")]
        chosen = [*all_specimens(), *releases]
    if options.only:
        known = {specimen.name: specimen for specimen in chosen}
        missing = sorted(set(options.only) - set(known))
        if missing:
            print(f"names must be among {', '.join(known)}; got {', '.join(missing)}", file=sys.stderr)
            return 2
        chosen = [known[name] for name in options.only]

    quiet = options.json or not sys.stderr.isatty()

    def show(trial: Trial) -> None:
        if not quiet:
            print(f"{trial.specimen.name}: {trial.seconds:.1f} s", file=sys.stderr)

    trials = run_trials(chosen, seed=options.seed, share=options.share, progress=show)
    sound = sum(not trial.specimen.broken for trial in trials)
    wrong = [trial.specimen.name for trial in trials if not trial.right]
    if options.json:
        print(json.dumps({"trials": [trial.as_dict() for trial in trials], "wrong": wrong}, indent=1))
    else:
        _table(trials)
        print(
            f"{len(trials) - len(wrong)} of {len(trials)} verdicts right"
            f" ({sound} sound mechanisms at error probability {FALSE_ALARM:g} each, so at most {sound * FALSE_ALARM:g}"
            " of a false alarm in the run). A pass is not a proof."
        )
    return int(bool(wrong))


def _table(trials: list[Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="epsilon at the claimed delta: claimed, certified lower bound, true")
    for name in ("mechanism", "kind", "claim", "certified", "true", "would catch", "verdict", "runs", "s"):
        table.add_column(name, justify="left" if name in ("mechanism", "kind", "verdict") else "right")
    for trial in trials:
        s, r = trial.specimen, trial.result
        claim = f"{s.epsilon:.3g}" + (f", {s.delta:.2g}" if s.delta else "")
        verdict = ("refuted" if r.refuted else "not refuted") + ("" if trial.right else "  WRONG")
        table.add_row(
            s.name, "broken" if s.broken else "sound", claim, f"{r.epsilon_lower:.3f}", f"{s.true_epsilon:.3g}",
            f"{r.detection_limit:.3g}", verdict, f"{r.n_samples:,}", f"{trial.seconds:.1f}",
        )  # fmt: skip
    console = Console() if sys.stdout.isatty() else Console(width=140)
    console.print(table)


def _claims(options: argparse.Namespace) -> int:
    from verification import claims

    chosen = list(claims.all_claims())
    for name, asked, known in (
        ("id", options.id, [claim.id for claim in chosen]),
        ("family", options.family, list(dict.fromkeys(claim.family for claim in chosen))),
    ):
        missing = sorted(set(asked or ()) - set(known))
        if missing:
            print(f"{name} must be among {', '.join(known)}; got {', '.join(missing)}", file=sys.stderr)
            return 2
        if asked:
            chosen = [claim for claim in chosen if getattr(claim, name) in asked]
    quiet = options.json or not sys.stderr.isatty()

    def show(outcome: claims.Outcome) -> None:
        if not quiet:
            print(f"{outcome.claim.id}: {outcome.seconds:.1f} s", file=sys.stderr)

    outcomes = claims.run_claims(
        chosen, seed=options.seed, thorough=options.thorough, n_jobs=options.n_jobs, progress=show
    )
    wrong = [outcome.claim.id for outcome in outcomes if not outcome.right]
    if options.json:
        fields = {"seed": options.seed, "thorough": options.thorough, "wrong": wrong}
        print(json.dumps(fields | {"claims": [outcome.as_dict() for outcome in outcomes]}, indent=1))
    else:
        _claims_table(outcomes)
        print(
            f"{len(outcomes) - len(wrong)} of {len(outcomes)} verdicts confirmed."
            " A search that finds no violation is no proof."
        )
    return int(bool(wrong))


def _claims_table(outcomes: list[Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title="statements of the papers; worst: left side over right side at the worst case found", show_lines=True
    )
    for name in ("claim", "source", "statement", "verdict", "worst", "where, or why not"):
        table.add_column(name, justify="right" if name == "worst" else "left", overflow="fold")
    for outcome in outcomes:
        claim, finding = outcome.claim, outcome.finding
        verdict = claim.verdict.value + ("" if outcome.right else "  WRONG")
        if finding is None:
            table.add_row(claim.id, claim.source, claim.statement, verdict, "", claim.reason)
            continue
        where = finding.where if claim.verdict.value.startswith("false") else claim.constants or claim.kind.value
        table.add_row(claim.id, claim.source, claim.statement, verdict, f"{finding.largest:.4g}", where[:160])
    console = Console() if sys.stdout.isatty() else Console(width=180)
    console.print(table)


def _report(options: argparse.Namespace) -> int:
    from verification.report import collect, write_report

    quiet = options.json or not sys.stderr.isatty()
    contents = collect(
        seed=options.seed,
        thorough=options.thorough,
        share=options.share,
        audits=not options.no_audits,
        n_jobs=options.n_jobs,
        progress=lambda name: None if quiet else print(name, file=sys.stderr),
    )
    try:
        paths = [str(path) for path in write_report(contents, options.out)]
    except OSError as error:
        print(f"report not written: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"files": paths, "wrong": contents.wrong}, indent=1))
    else:
        words = "every outcome is as its verdict says" if not contents.wrong else f"WRONG: {', '.join(contents.wrong)}"
        print(f"{' and '.join(paths)}: {words}")
    return int(bool(contents.wrong))


def _audit(options: argparse.Namespace) -> int:
    from verification.audit import audit
    from verification.repeated import repeated

    module, _, function = options.mechanism.partition(":")
    try:
        mechanism = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        print(f"mechanism must be module:function, got {options.mechanism!r}: {error}", file=sys.stderr)
        return 2
    x, x_neighbour = (np.array(v) if isinstance(v, list) else v for v in (options.x, options.x_neighbour))
    try:
        if options.once:
            mechanism = repeated(mechanism)
        result = audit(
            mechanism,
            x,
            x_neighbour,
            epsilon=options.epsilon,
            delta=options.delta,
            n_samples=options.n_samples,
            false_alarm=options.false_alarm,
            level=options.level,
            sequential=options.sequential,
            n_jobs=options.n_jobs,
            progress=True,
            rng=None if options.seed is None else np.random.default_rng(options.seed),
        )
    except (TypeError, ValueError, RuntimeError) as error:  # status 1 would say that the claim is refuted
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(result.as_dict()) if options.json else result)
    if options.certificate:
        try:
            result.save(options.certificate, mechanism=options.mechanism, pair=f"{options.x} and {options.x_neighbour}")
        except OSError as error:
            print(f"certificate not written: {error}", file=sys.stderr)
            return 2
    return int(result.refuted)


def _verify(options: argparse.Namespace) -> int:
    from verification.certificate import verify

    try:
        with open(options.certificate, encoding="utf-8") as file:
            found = verify(json.load(file))
    except (OSError, ValueError, RecursionError) as error:
        print(f"{options.certificate}: {error}", file=sys.stderr)
        return 2
    print(found)
    return int(not found.holds)


if __name__ == "__main__":
    sys.exit(main())

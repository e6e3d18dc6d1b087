"""Command line: ``python -m verification specimens|targets|claims|reproductions|report|audit|verify``.

Exit status 1 when a verdict is wrong, a claim is refuted or a certificate does not hold; 2 for wrong arguments,
a mechanism that fails or a file that cannot be read or written, which is found before work begins; 130 for Ctrl-C,
141 where nobody reads on.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pm_dpgmm._version import __version__
from pm_dpgmm.cli.exit_status import NEGATIVE, one_line, run_command
from pm_dpgmm.files.distinct_keys import distinct_keys
from pm_dpgmm.files.untrusted_json import read_text
from pm_dpgmm.files.writing import check_destination, make_folder
from verification import audit_command

STATUS = """exit status:
  0 done: verdicts right, claim not refuted, certificate holds
  1 a verdict is wrong, a claim is refuted or a certificate does not hold
  2 wrong arguments, a mechanism that fails, a file that cannot be read or written
  130 Ctrl-C, 141 nobody reads on"""
MOST_SHARE, MOST_JOBS = 1000.0, 1024  # beyond what anybody means
FEW = "with few, faults are missed and count as wrong verdicts"


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    return run_command("python -m verification", _parser, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m verification", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"verification of pm-dpgmm {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], words: str, example: str) -> Any:
        made = commands.add_parser(
            name,
            help=words,
            description=f"{words[0].upper()}{words[1:]}.",
            epilog=f"example:\n  python -m verification {name} {example}\n\n{STATUS}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        made._negative_number_matcher = NEGATIVE
        made.set_defaults(run=run)
        return made

    for name, words, example in (
        ("specimens", "audit the zoo: broken mechanisms must be refuted, sound ones must not", "--share 0.1"),
        ("targets", "audit this package's own mechanisms and their planted faults", "--only histogram_release"),
    ):
        trials = command(name, _trials, words, example)
        trials.add_argument("--only", metavar="NAME", nargs="+", help="names to run")
        trials.add_argument("--list", action="store_true", help="say what they are and run nothing")
        if name == "targets":
            pairs = "against (epsilon, delta) alone, also those that claim a whole curve"
            trials.add_argument("--pairs", action="store_true", help=pairs)
        trials.add_argument("--share", type=_share, default=1.0, help=f"share of the samples (default 1); {FEW}")
        trials.add_argument("--seed", type=_seed, default=20261120)
        trials.add_argument("--n-jobs", type=_jobs, default=-1, help="audits at once, -1 (default) for every core")
        trials.add_argument("--json", action="store_true", help="print JSON instead of a table")
    words = "check the statements of five papers on private Gaussian mixtures"
    papers = command("claims", _claims, words, "--family masks --json")
    papers.add_argument("--id", metavar="NAME", nargs="+", help="claims to check (default all)")
    papers.add_argument("--family", metavar="NAME", nargs="+", help="families to check (default all)")
    papers.add_argument("--families", action="store_true", help="list the families and their papers, run nothing")
    papers.add_argument("--list", action="store_true", help="list the statements with their verdicts, run nothing")
    papers.add_argument("--false", action="store_true", help="only statements that are false as printed")
    papers.add_argument("--thorough", action="store_true", help="ten times as many cases")
    papers.add_argument("--seed", type=_seed, default=20261120)
    papers.add_argument("--n-jobs", type=_jobs, default=-1, help="workers, -1 (default) for every core")
    papers.add_argument("--json", action="store_true", help="print JSON instead of a table")
    words = "run the papers' experiments again: as printed, sound, and without privacy"
    again = command("reproductions", _reproductions, words, "--quick --out report")
    again.add_argument("--only", metavar="NAME", nargs="+", help="experiments to run (default all)")
    again.add_argument("--quick", action="store_true", help="fewer runs, in three minutes")
    again.add_argument("--digitised", metavar="FILE", help="table figure, x, quantity, method, rmse to draw beside")
    again.add_argument("--out", metavar="FOLDER", help="folder for reproductions.html and .md")
    again.add_argument("--seed", type=_seed, default=20261123)
    again.add_argument("--n-jobs", type=_jobs, default=-1, help="workers, -1 (default) for every core")
    again.add_argument("--json", action="store_true", help="print JSON instead of tables")
    report = command("report", _report, "run claims and audits, write report.html and report.md", "--out report")
    report.add_argument(
        "--out", metavar="FOLDER", default="report", help="folder (default report); written after each part"
    )
    report.add_argument("--thorough", action="store_true", help="ten times as many cases for the claims")
    share = f"share of the samples of the audits (default 1); {FEW}"
    report.add_argument("--share", type=_share, default=1.0, help=share)
    report.add_argument("--no-audits", action="store_true", help="no audits; the report says so")
    report.add_argument("--no-reproductions", action="store_true", help="no experiments; the report says so")
    report.add_argument("--seed", type=_seed, default=20261120)
    report.add_argument("--n-jobs", type=_jobs, default=-1, help="workers, -1 (default) for every core")
    report.add_argument("--json", action="store_true", help="print JSON instead of a sentence")
    words = "audit a function mechanism(data, n_samples, rng)"
    audit = command(
        "audit", audit_command.run, words, "clinic:noisy_mean '[1, 0]' '[0, 0]' --epsilon 1 --certificate mean.json"
    )
    audit.add_argument("mechanism", help="module:function")
    audit.add_argument("--once", action="store_true", help="the function runs once: mechanism(data, rng)")
    audit.add_argument("x", type=_data, help="data set, as JSON; lists of entries of one kind become arrays")
    audit.add_argument("x_neighbour", type=_data, help="neighbouring data set, likewise")
    claim = audit.add_mutually_exclusive_group(required=True)
    claim.add_argument("--epsilon", type=float, help="claim (epsilon, delta)-DP")
    claim.add_argument("--mu", type=float, help="claim mu-GDP, as a whole curve")
    claim.add_argument("--rho", type=float, help="claim rho-zCDP, as a whole curve")
    claim.add_argument("--release", metavar="FILE", help="claim the whole curve of a release's guarantee")
    audit.add_argument("--delta", type=float, default=0.0, help="of the claim; of a curve, where epsilon is told")
    runs = "runs on both data sets together, at most so many with --sequential (default 200,000)"
    audit.add_argument("--n-samples", metavar="N", type=int, default=200_000, help=runs)
    error = "probability, at most, that the bounds are wrong (default 0.05)"
    audit.add_argument("--false-alarm", metavar="P", type=float, default=0.05, help=error)
    level = "read outputs as numbers (default) or also as their bits"
    audit.add_argument("--level", choices=("value", "bit"), default="value", help=level)
    audit.add_argument("--sequential", action="store_true", help="stop as soon as the claim is refuted")
    audit.add_argument("--n-jobs", type=_jobs, default=1, help="workers, -1 for every core")
    audit.add_argument("--seed", type=_seed, help="repeats the audit (default: another one each time)")
    audit.add_argument("--json", action="store_true", help="print JSON instead of a sentence")
    audit.add_argument("--certificate", metavar="FILE", help="write a certificate that can be verified")
    audit.add_argument("--force", action="store_true", help="overwrite a certificate that exists")
    verify = command("verify", _verify, "compute the bounds of a certificate again from its counts", "mean.json")
    verify.add_argument("certificate", metavar="FILE")
    verify.add_argument("--json", action="store_true")
    return parser


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share <= MOST_SHARE:
        raise argparse.ArgumentTypeError(f"must be greater than 0 and at most {MOST_SHARE:g}, got {text[:40]}")
    return share


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text[:40]!r}") from None


def _seed(text: str) -> int:
    seed = _whole(text)
    if not 0 <= seed < 2**63:
        raise argparse.ArgumentTypeError(f"must be at least 0 and below 2^63, got {text[:40]}")
    return seed


def _jobs(text: str) -> int:
    number = _whole(text)
    if number != -1 and not 1 <= number <= MOST_JOBS:
        raise argparse.ArgumentTypeError(f"must be from 1 to {MOST_JOBS}, or -1 for every core, got {text[:40]}")
    return number


def _finite(text: str) -> float:
    """A number of a JSON text that floats can hold."""
    if math.isinf(float(text)):
        raise ValueError(f"{text[:40]} is beyond the largest float")
    return float(text)


def _data(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=distinct_keys, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"must be JSON, got {text[:40]!r}: {one_line(error)}") from None


def _trials(options: argparse.Namespace) -> int:
    from verification.auditing.result import json_text
    from verification.report.terminal import print_list, print_trials
    from verification.specimens import all_specimens
    from verification.targets import all_targets, targets_beside_specimens
    from verification.targets.curves import against_what_they_claim
    from verification.trials import FALSE_ALARM, Trial, TrialsError, run_trials

    if options.command == "specimens":
        chosen = [*all_specimens(), *targets_beside_specimens()]
    else:
        chosen = all_targets() if options.pairs else against_what_they_claim(all_targets())
    if options.only:
        known = {specimen.name: specimen for specimen in chosen}
        missing = sorted(set(options.only) - set(known))
        if missing:
            print(f"names must be among {', '.join(known)}; got {', '.join(missing)}", file=sys.stderr)
            return 2
        chosen = [known[name] for name in options.only]
    if options.list:
        return print_list(chosen, as_json=options.json)

    quiet = options.json or not sys.stderr.isatty()

    def show(trial: Trial) -> None:
        if not quiet:
            print(f"{trial.specimen.name}: {trial.seconds:.1f} s", file=sys.stderr)

    early = {"until_refuted": options.command == "targets"}
    lost = None
    try:
        trials = run_trials(
            chosen, seed=options.seed, share=options.share, n_jobs=options.n_jobs, progress=show, **early
        )
    except TrialsError as error:  # what took minutes is printed
        trials, lost = error.trials, error
    sound = sum(not trial.specimen.broken for trial in trials)
    wrong = [trial.specimen.name for trial in trials if not trial.right]
    if options.json:
        print(json_text({"trials": [trial.as_dict() for trial in trials], "wrong": wrong}))
    else:
        print_trials(trials)
        print(
            f"{len(trials) - len(wrong)} of {len(trials)} verdicts right"
            f" ({sound} sound mechanisms at error probability {FALSE_ALARM:g} each, so at most {sound * FALSE_ALARM:g}"
            " of a false alarm in the run). A pass is not a proof."
        )
    if lost is not None:
        raise lost
    return int(bool(wrong))


def _claims(options: argparse.Namespace) -> int:
    from verification import claims
    from verification.auditing.result import json_text
    from verification.report.terminal import print_claims, print_families, print_statements

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
    if options.false:
        chosen = [claim for claim in chosen if claim.verdict is claims.Verdict.FALSE]
    if not chosen:
        false = " that is false as printed" * options.false
        print(f"id and family must leave a claim{false}, got none", file=sys.stderr)
        return 2
    if options.families:
        return print_families(chosen, as_json=options.json)
    if options.list:
        return print_statements(chosen, as_json=options.json)
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
        print(json_text(fields | {"claims": [outcome.as_dict() for outcome in outcomes]}))
    else:
        print_claims(outcomes)
        checked = [outcome for outcome in outcomes if outcome.claim.check is not None]
        confirmed = sum(outcome.right for outcome in checked)
        unchecked = f", {len(outcomes) - len(checked)} not checkable" if len(outcomes) > len(checked) else ""
        print(
            f"{confirmed} of {len(checked)} verdicts confirmed{unchecked}."
            " A search that finds no violation is no proof."
        )
    return int(bool(wrong))


def _reproductions(options: argparse.Namespace) -> int:
    from verification.auditing.result import json_text
    from verification.report import write_experiments
    from verification.report.experiments import experiments_text
    from verification.reproductions import EXPERIMENTS, Effort, Experiment, run_reproductions
    from verification.reproductions.harrington_mayolo.error_figures import read_digitised

    unknown = sorted(set(options.only or ()) - set(EXPERIMENTS))
    if unknown:
        print(f"--only must be among {', '.join(EXPERIMENTS)}; got {', '.join(unknown)}", file=sys.stderr)
        return 2
    digitised = None if options.digitised is None else Path(options.digitised)
    for figure in (3, 4) if digitised is not None else ():
        read_digitised(Path(options.digitised), figure)  # before minutes of work
    if options.out is not None:
        folder = make_folder(options.out, name="--out")
        for name in ("reproductions.html", "reproductions.md"):
            check_destination(folder / name, name="the page", force=True)
    quiet = options.json or not sys.stderr.isatty()

    def show(experiment: Experiment) -> None:
        if not quiet:
            print(f"{experiment.name}: {experiment.seconds:.1f} s", file=sys.stderr)

    effort = Effort(options.quick, options.seed, options.n_jobs, digitised)
    found = run_reproductions(options.only, effort=effort, progress=show)
    wrong = [name for experiment in found for name in experiment.wrong]
    lost = None
    if options.out is not None:
        try:
            write_experiments(found, options.out, command=effort.command(options.only or ()))
        except OSError as error:  # what took minutes is printed
            lost = error
    if options.json:
        print(json_text({"experiments": [one.as_dict() for one in found], "wrong": wrong}))
    else:
        print(experiments_text(found))
    if lost is not None:
        raise lost
    return int(bool(wrong))


def _report(options: argparse.Namespace) -> int:
    from verification.auditing.result import json_text
    from verification.report import Contents, collect, to_markdown, write_report

    quiet = options.json or not sys.stderr.isatty()
    folder = make_folder(options.out, name="--out")  # before the audits, which take long
    for name in ("report.html", "report.md"):  # an older report is replaced
        check_destination(folder / name, name="the report", force=True)

    def keep(contents: Contents) -> None:
        with suppress(OSError):  # the end tells
            write_report(contents, options.out)

    contents = collect(
        seed=options.seed,
        thorough=options.thorough,
        share=options.share,
        audits=not options.no_audits,
        reproductions=not options.no_reproductions,
        n_jobs=options.n_jobs,
        progress=lambda name: None if quiet else print(name, file=sys.stderr),
        partly=keep,
    )
    try:
        paths = [str(path) for path in write_report(contents, options.out)]
    except OSError as error:
        print(f"report not written, and so on standard output: {one_line(error)}", file=sys.stderr)
        print(to_markdown(contents))
        return 2
    if options.json:
        print(json_text({"files": paths, "wrong": contents.wrong}))
    else:
        words = "every outcome is as its verdict says" if not contents.wrong else f"WRONG: {', '.join(contents.wrong)}"
        print(f"{' and '.join(paths)}: {words}")
    return int(bool(contents.wrong))


def _verify(options: argparse.Namespace) -> int:
    from verification.auditing.certificate_reading import verify

    try:
        text = read_text(Path(options.certificate), kind="certificate")
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    try:
        found = verify(json.loads(text, object_pairs_hook=distinct_keys))
    except (ValueError, RecursionError) as error:
        kind = "is no JSON, as a certificate is: " if isinstance(error, json.JSONDecodeError) else ""
        print(f"{options.certificate}: {kind}{error}", file=sys.stderr)
        return 2
    print(json.dumps({"holds": found.holds, "text": str(found)}) if options.json else found)
    return int(not found.holds)


if __name__ == "__main__":
    sys.exit(main())

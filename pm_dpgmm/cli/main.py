"""Command line: ``pm-dpgmm fit|resume|plan|show|card|combine|ledger|warm-up|demo``.

Exit status 1 when something that must hold does not: a method or a ledger refuses, a plan is not enough, a release
could not be written where it should. 2 for bad input; nothing was spent then. 130 for Ctrl-C.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from pm_dpgmm._arguments import MOST_CHOICES, shown
from pm_dpgmm.cli import commands as cli_commands
from pm_dpgmm.cli.exit_status import NEGATIVE, run_command


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    given = [re.sub(r"^--components(?==|$)", "--n-components", text) for text in given]  # its old name
    return run_command("pm-dpgmm", _parser, given)


def n_components_of(text: str) -> int | list[int]:
    """``3``, ``1:5`` or ``1-5`` (both ends included), ``2,3,5``."""
    if re.fullmatch(r"[0-9]{1,9}", text):
        return int(text)
    if ends := re.fullmatch(r"([0-9]{1,9})[:-]([0-9]{1,9})", text):
        low, high = int(ends[1]), int(ends[2])
        if not 0 <= high - low < MOST_CHOICES:
            raise argparse.ArgumentTypeError(f"must be a range of 1 to {MOST_CHOICES} numbers, got {shown(text)}")
        return list(range(low, high + 1))
    if re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})+", text):
        return [int(part) for part in text.split(",")]
    raise argparse.ArgumentTypeError(
        f"must be a number, a range such as 1:5, or numbers such as 2,3,5, got {shown(text)}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pm-dpgmm", description="Gaussian mixtures under differential privacy", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"pm-dpgmm {_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, words: str, example: str) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name,
            help=words,
            description=f"{words[0].upper()}{words[1:]}.",
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        made._negative_number_matcher = NEGATIVE
        made.set_defaults(run=getattr(cli_commands, name.replace("-", "_")))
        return made

    fit = command(
        "fit",
        "fit a mixture to a .csv or .parquet file and save the release",
        "pm-dpgmm fit people.csv --columns age weight --n-components 1:5 --epsilon 1 --delta 1e-6"
        " --bounds 0 110 20 300 --output release.json",
    )
    fit.add_argument("records", type=Path)
    fit.add_argument("--columns", nargs="+", action="extend", metavar="NAME", help="columns to use (default: all)")
    _choices(fit, required=True)
    _budget(fit)
    fit.add_argument(
        "--bounds",
        type=float,
        nargs="+",
        action="extend",
        metavar="LIMIT",
        help="public limits: low high for all columns or for each",
    )
    fit.add_argument(
        "--resolution",
        type=float,
        nargs="+",
        action="extend",
        metavar="STEP",
        help="public steps of rounded or whole columns: one for all, or one for each, 0 where one is not rounded",
    )
    fit.add_argument(
        "--transform",
        nargs="+",
        action="extend",
        metavar="NAME=MAP",
        help="public maps of columns: income=log or income=log:FLOOR, share=logit or share=logit:LOW:HIGH,"
        " balance=asinh:SCALE",
    )
    fit.add_argument("--method", default="auto")
    fit.add_argument("--neighbouring", default="replace-one")
    fit.add_argument(
        "--like", type=Path, metavar="RELEASE", help="release of another site's records, to be combined with this one"
    )
    fit.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="settings of the method, such as noise=0.05",
    )
    fit.add_argument("--ledger", type=Path, metavar="FILE", help="budget to charge; made by pm-dpgmm ledger")
    fit.add_argument(
        "--seed-not-private", type=int, metavar="SEED", help="for teaching: known noise, so the release protects nobody"
    )
    _output(fit, "release file to write (.json); while the fit runs, NAME.partial.json beside it can be resumed")

    resume = command(
        "resume",
        "finish an interrupted fit from what it had released; reads no records and costs nothing",
        "pm-dpgmm resume release.partial.json --output release.json",
    )
    resume.add_argument("checkpoint", type=Path)
    _choices(resume, required=False)
    _output(resume, "release file to write (.json)")

    plan = command(
        "plan",
        "what a number of records and a budget will buy; no records are read",
        "pm-dpgmm plan --n-records 10000 --n-features 3 --n-components 3 --epsilon 1 --delta 1e-6",
    )
    plan.add_argument("--n-records", type=int, help="left out: about the fewest that are enough")
    plan.add_argument("--n-features", type=int, required=True)
    plan.add_argument("--n-components", type=int, required=True)
    _budget(plan)
    plan.add_argument("--method", default="auto")
    plan.add_argument("--no-bounds", action="store_true", help="there will be no public limits")
    plan.add_argument("--neighbouring", default="replace-one")
    plan.add_argument("--separation", type=float, default=4.0, help="of the nearest components, standard deviations")
    plan.add_argument("--weights", type=float, nargs="+", help="of the components (default: equal)")
    plan.add_argument("--error", type=float, default=0.1, help="log-density per record that may be lost, nats")
    plan.add_argument("--noise", type=float, help="populous: relative noise (default: the least that lets fits pass)")
    plan.add_argument("--efficiency", type=float, help="populous: guess of the learner's quality, 0 to 1")
    plan.add_argument("--simulations", type=int, default=5)
    plan.add_argument("--seed", type=int, default=0, help="of the simulated public records")
    _json(plan)

    show = command("show", "print what a release holds and what it cost", "pm-dpgmm show release.json")
    show.add_argument("release", type=Path)
    _json(show)

    _card(
        command(
            "card",
            "write the card to publish beside a release, for readers who know nothing of differential privacy",
            'pm-dpgmm card release.json --output card.html --title "Waiting times" --contact dpo@clinic.example'
            " --unit wait=days --rows-per-person 3",
        )
    )

    combine = command(
        "combine",
        "add up releases of sites with different people (made with fit --like)",
        "pm-dpgmm combine north.json south.json --output both.json",
    )
    combine.add_argument("releases", type=Path, nargs="+", metavar="RELEASE")
    _choices(combine, required=False)
    _output(combine, "release file to write (.json)")

    ledger = command(
        "ledger",
        "make a budget that outlives a session, or show what is left of it",
        "pm-dpgmm ledger clinic.sqlite --epsilon 3 --delta 1e-5",
    )
    ledger.add_argument("ledger", type=Path)
    ledger.add_argument("--epsilon", type=float, help="of a new ledger; left out, the ledger is shown")
    ledger.add_argument("--delta", type=float, help="of a new ledger (default 0)")
    ledger.add_argument("--neighbouring", help="of a new ledger (default replace-one)")
    _json(ledger)

    warm_up = command(
        "warm-up",
        "compile once what PyMC models of releases need, a minute or two; later processes find it on disk",
        "pm-dpgmm warm-up",
    )
    _json(warm_up)

    demo = command(
        "demo", "private fit, PyMC prior and audit on public health-insurance records", "pm-dpgmm demo --output demo"
    )
    demo.add_argument("--output", type=Path, default=Path("demo-output"), metavar="FOLDER")
    _force(demo)
    _json(demo)
    return parser


def _card(card: argparse.ArgumentParser) -> None:
    card.add_argument("release", type=Path)
    card.add_argument(
        "--output", type=Path, metavar="FILE", help="page (.html) or Markdown (.md) to write (default: print Markdown)"
    )
    card.add_argument("--title", help="of the release")
    card.add_argument("--data", help="what the data are")
    card.add_argument("--contact", help="who is answerable")
    card.add_argument("--licence", help="on what terms it may be used")
    card.add_argument("--date", help="of the card (default: today)")
    card.add_argument("--unit", nargs="+", action="extend", metavar="NAME=UNIT", help="units of columns")
    card.add_argument("--describe", nargs="+", action="extend", metavar="NAME=TEXT", help="what columns are")
    card.add_argument("--rows-per-person", type=int, metavar="M", help="most records that one person has")
    card.add_argument("--ledger", type=Path, metavar="FILE", help="of the records: its budget and what is spent in all")
    _force(card)
    _json(card)


def _budget(command: argparse.ArgumentParser) -> None:
    command.add_argument("--epsilon", type=float, required=True)
    command.add_argument("--delta", type=float)


def _choices(command: argparse.ArgumentParser, *, required: bool) -> None:
    words = "number of components; 1:5 or 2,3,5 let the released numbers choose (method sketch)"
    command.add_argument("--n-components", type=n_components_of, required=required, metavar="K", help=words)


def _output(command: argparse.ArgumentParser, words: str) -> None:
    command.add_argument("--output", type=Path, required=True, metavar="FILE", help=words)
    _force(command)
    _json(command)


def _force(command: argparse.ArgumentParser) -> None:
    command.add_argument("--force", action="store_true", help="overwrite files that exist")


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON")


def _version() -> str:
    from pm_dpgmm._version import __version__

    return __version__

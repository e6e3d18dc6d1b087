"""What the commands of ``pm-dpgmm`` do; each returns an exit status. Heavy imports happen inside."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pm_dpgmm._arguments import printable, shown
from pm_dpgmm.cli.exit_status import INTERRUPTED, one_line, stop_writing
from pm_dpgmm.cli.paid_for import keep, tell_charge
from pm_dpgmm.files.distinct_keys import distinct_keys
from pm_dpgmm.files.writing import Reserved, check_destination, make_folder, rescue, reserved
from pm_dpgmm.privacy.ledger_files import ledger_files

if TYPE_CHECKING:
    from pm_dpgmm.release.release import Release


PARTIAL = ".partial.json"


def fit(options: argparse.Namespace) -> int:
    """Destinations are checked and reserved first, then everything else is checked, then the budget is spent."""
    read = (options.records, *ledger_files(options.ledger), options.like)
    _check_output(options, *read)
    target = options.output.resolve() if options.output.is_symlink() else options.output  # one checkpoint for both
    partial = target.with_name(target.stem + PARTIAL)
    if partial.is_file() and partial.stat().st_size:
        raise FileExistsError(
            f"{str(partial)!r} holds what an interrupted fit had paid for: pm-dpgmm resume finishes it, where enough"
            " is there; or delete it"
        )
    with reserved(partial, name="the checkpoint", never=(*read, options.output)) as held:
        _check_output(options, *read)  # a fit that has just ended may have written there
        return _fitted(options, held)


def _fitted(options: argparse.Namespace, held: Reserved) -> int:
    """Fit and save; whatever ends that early, what was paid for is in a file that is named."""
    from pm_dpgmm.fit import fit_gmm
    from pm_dpgmm.privacy.guarantee import Unstable
    from pm_dpgmm.privacy.ledger import BudgetExceeded, Ledger
    from pm_dpgmm.release.release import Release

    bounds = options.bounds
    if bounds is not None and len(bounds) != 2:
        if len(bounds) % 2:
            raise ValueError(f"--bounds must be pairs of low and high, got {len(bounds)} numbers")
        bounds = np.array(bounds).reshape(-1, 2)
    steps = options.resolution
    resolution = steps[0] if steps is not None and len(steps) == 1 else steps
    settings = _settings(options.set)
    if options.like is not None:
        settings["like"] = Release.load(options.like)
    ledger = None if options.ledger is None else Ledger.existing(options.ledger)
    before = None if ledger is None else ledger.spent
    release = None
    try:
        release = fit_gmm(
            options.records,
            options.n_components,
            epsilon=options.epsilon,
            delta=options.delta,
            columns=options.columns,
            bounds=bounds,
            resolution=resolution,
            transform=_transforms(options.transform),
            method=options.method,
            neighbouring=options.neighbouring,
            ledger=ledger,
            random_seed=options.seed_not_private,
            checkpoint=held,
            **settings,
        )
        saved = _saved(release, options)
    except Unstable as refusal:
        print(f"{refusal}\nSpent: {refusal.guarantee}", file=sys.stderr)
        keep(refusal, release, held.path, options.output, ended="refused")
        return 1
    except BudgetExceeded as refusal:
        print(f"pm-dpgmm fit: {one_line(refusal)}. Nothing was spent.", file=sys.stderr)
        return 1
    except BaseException as error:
        if isinstance(error, Warning) and isinstance(getattr(error, "release", None), Release):
            return _warned(error, options, held.path)
        unwritten = release is not None and isinstance(error, OSError)  # paid for, so 2 would be wrong
        try:
            kept = keep(error, release, held.path, options.output)
        except OSError:  # not even printed
            kept = unwritten
        if unwritten:
            stop_writing()
            return 1
        if kept and isinstance(error, KeyboardInterrupt):
            return INTERRUPTED
        if ledger is not None and not kept:
            tell_charge(ledger, before)
        raise
    if not saved:
        return 1
    held.path.resolve().unlink(missing_ok=True)  # of a link: what it leads to
    return _told(release, options)


def _warned(error: Any, options: argparse.Namespace, partial: Path | None = None) -> int:
    """Where warnings are errors: the release that the warning is about is saved, and the status is 1."""
    saved = _saved(error.release, options)
    kept = f" The release is in {str(options.output)!r}." if saved else ""
    print(f"pm-dpgmm {options.command}: a warning was an error: {one_line(error)}.{kept}", file=sys.stderr)
    if saved and partial is not None:
        partial.resolve().unlink(missing_ok=True)
    return 1


def resume(options: argparse.Namespace) -> int:
    """The checkpoint stays: it may be fitted again with another number of components."""
    from pm_dpgmm.release.checkpoint import resume

    _check_output(options, options.checkpoint)
    return _finished(lambda: resume(options.checkpoint, options.n_components), options)


def plan(options: argparse.Namespace) -> int:
    """Status 1 for a plan that is not enough."""
    from pm_dpgmm.planning.plan import plan
    from pm_dpgmm.planning.sizes import smallest_size

    settings: dict[str, Any] = {
        "epsilon": options.epsilon,
        "delta": options.delta,
        "method": options.method,
        "bounds": not options.no_bounds,
        "neighbouring": options.neighbouring,
        "separation": options.separation,
        "weights": options.weights,
        "error": options.error,
        "n_simulations": options.simulations,
        "random_seed": options.seed,
    }
    settings |= {name: value for name in ("noise", "efficiency") if (value := getattr(options, name)) is not None}
    size = options.n_features, options.n_components
    found = (
        smallest_size(*size, **settings) if options.n_records is None else plan(options.n_records, *size, **settings)
    )
    print(json.dumps(found.as_dict()) if options.json else found.table())
    return 0 if found.enough else 1


def show(options: argparse.Namespace) -> int:
    """Summary or the whole file."""
    _print(_load(options.release), options)
    return 0


def card(options: argparse.Namespace) -> int:
    """Print or write the card; with --json its text either way."""
    from pm_dpgmm.files.writing import write_text
    from pm_dpgmm.release.card.writing import card_text, check_card

    release = _load(options.release)
    facts: dict[str, Any] = {
        "file": printable(options.release.name),
        "units": _texts(options.unit, "--unit", release.feature_names),
        "descriptions": _texts(options.describe, "--describe", release.feature_names),
        "rows_per_person": options.rows_per_person,
        "ledger": options.ledger,
        "date": options.date,
    }
    facts |= {name: value for name in ("title", "data", "contact", "licence") if (value := getattr(options, name))}
    suffix = ".md"
    if options.output is not None:
        read = (options.release, *ledger_files(options.ledger))
        check_card(options.output, name="--output", force=options.force, never=read)
        suffix = options.output.suffix
    text = card_text(release, suffix=suffix, **facts)
    if options.output is not None:
        check_card(options.output, name="--output", force=options.force, never=read)  # it may be there by now
        write_text(options.output, text)
    if options.json:
        print(json.dumps({"card": text, "written": None if options.output is None else str(options.output)}))
    else:
        print(text if options.output is None else f"wrote {options.output}")
    return 0


def _texts(pairs: list[str] | None, option: str, names: tuple[str, ...]) -> dict[str, str]:
    """Texts by column from NAME=TEXT, either of which may hold more of these signs."""
    found: dict[str, str] = {}
    for pair in pairs or ():
        known = max((name for name in names if pair.startswith(f"{name}=")), key=len, default="")
        name, equals, text = (known, "=", pair[len(known) + 1 :]) if known else pair.partition("=")
        if not name or not equals or name in found:
            raise ValueError(f"{option} must be NAME=TEXT, each column once, got {pair!r}")
        found[name] = text
    return found


def combine(options: argparse.Namespace) -> int:
    """The releases are checked by the library."""
    from pm_dpgmm.release.combining import combine

    _check_output(options, *options.releases)
    releases = [_load(path) for path in options.releases]
    return _finished(lambda: combine(releases, n_components=options.n_components), options)


def ledger(options: argparse.Namespace) -> int:
    """Make one if a budget is given, then say what is left."""
    from pm_dpgmm.privacy.ledger import Ledger

    if options.epsilon is None:
        if options.delta is not None or options.neighbouring is not None:
            raise ValueError("--epsilon must be given with --delta or --neighbouring, to make a ledger")
        found = Ledger.existing(options.ledger)
    else:
        if not options.ledger.is_file():
            check_destination(options.ledger, name="ledger")
        relation = options.neighbouring or "replace-one"
        found = Ledger(options.ledger, epsilon=options.epsilon, delta=options.delta or 0.0, neighbouring=relation)
    entries, (epsilon, delta), left = found.entries(), found.spent, found.remaining
    fields: dict[str, Any] = {
        "ledger": str(options.ledger),
        "neighbouring": str(found.neighbouring),
        "budget": {"epsilon": found.epsilon, "delta": found.delta},
        "spent": {"epsilon": epsilon, "delta": delta},
        "left": {"epsilon": left[0], "delta": left[1]},
        "spending": [list(entry) for entry in entries],
    }
    if options.json:
        print(json.dumps(fields))
        return 0
    print(f"{options.ledger}, {found.neighbouring} neighbours")
    for name in ("budget", "spent", "left"):
        print(f"{name:6}  epsilon = {fields[name]['epsilon']:g}, delta = {fields[name]['delta']:g}")
    for time, cost_epsilon, cost_delta, mechanism in fields["spending"]:
        print(f"  {time} UTC  epsilon = {cost_epsilon:g}, delta = {cost_delta:g}  {printable(str(mechanism))}")
    return 0


def warm_up(options: argparse.Namespace) -> int:
    """One line for each model as it is done."""
    from pm_dpgmm.cli.warm_up import warm_up

    done = {}
    for name, seconds in warm_up():
        done[name] = round(seconds, 1)
        if not options.json:
            print(f"{seconds:5.1f} s  {name}", flush=True)
    if options.json:
        print(json.dumps({"seconds": done}))
    return 0


def demo(options: argparse.Namespace) -> int:
    """Status 1 when the audit finds a violation or misses the planted fault."""
    from pm_dpgmm import demo as main_job

    folder = make_folder(options.output, name="--output")
    for name in main_job.FILES:
        check_destination(folder / name, name="a file of the demo", force=options.force)
    quiet = sys.stderr if options.json else sys.stdout  # the story is for people
    with contextlib.redirect_stdout(quiet):
        status = main_job.run(folder, progress=sys.stderr.isatty())
    if options.json:
        print(json.dumps({"files": [str(folder / name) for name in main_job.FILES], "audit_right": status == 0}))
    return status


def _check_output(options: argparse.Namespace, *read: Path | None) -> None:
    check_destination(options.output, name="--output", force=options.force, never=read)
    if options.output.resolve().name.endswith(PARTIAL):
        raise ValueError(
            f"--output must not end in {PARTIAL}, the names of interrupted fits, got {str(options.output)!r}"
        )


def _finished(made: Callable[[], Release], options: argparse.Namespace) -> int:
    """Save and print what costs nothing to make."""
    from pm_dpgmm.methods.fit_warnings import FitWarning

    try:
        release = made()
    except FitWarning as error:
        return _warned(error, options)
    if not _saved(release, options):
        return 1
    return _told(release, options)


def _told(release: Release, options: argparse.Namespace) -> int:
    """Print a release that is saved; 1 where that fails, since 2 would say that nothing was spent."""
    try:
        _print(release, options)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, UnicodeError) as error:
        stop_writing()
        words = f"the release is in {str(options.output)!r}, and could not be printed: {one_line(error)}"
        print(f"pm-dpgmm {options.command}: {words}", file=sys.stderr)
        return 1
    return 0


def _saved(release: Release, options: argparse.Namespace) -> bool:
    """Save; False, and where it is, if the release had to be put somewhere else."""
    try:
        _check_output(options)  # somebody else may have written there meanwhile
        release.save(options.output)
        return True
    except (OSError, ValueError) as error:
        print(f"pm-dpgmm {options.command}: the release could not be saved: {one_line(error)}", file=sys.stderr)
    text = json.dumps(release.to_dict())
    try:
        print(f"It is in {rescue(text, options.output)}", file=sys.stderr)
    except OSError as error:
        print(f"It is printed, since it could not be written anywhere: {one_line(error)}", file=sys.stderr)
        print(text, flush=True)
    return False


def _print(release: Release, options: argparse.Namespace) -> None:
    print(json.dumps(release.to_dict()) if options.json else release.summary())


def _load(path: Path) -> Release:
    from pm_dpgmm.release.release import Release

    return Release.load(path)


def _transforms(pairs: list[str] | None) -> dict[str, Any] | None:
    """Transformations by column from NAME=MAP, or NAME=MAP:NUMBER... with the numbers that the map takes."""
    from pm_dpgmm.records.transformation import NAMES, Transformation

    found: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, text = pair.rpartition("=")
        kind, *numbers = text.split(":")
        if not name or not equals or kind not in NAMES or name in found:
            rule = f"--transform must be NAME=MAP with a map among {', '.join(NAMES)}, each column once"
            raise ValueError(f"{rule}, got {pair!r}")
        try:
            parameters = [float(number) for number in numbers]
            found[name] = getattr(Transformation, kind)(*parameters) if parameters else kind
        except (TypeError, ValueError) as error:
            raise ValueError(f"--transform {name} must have the numbers of {kind}, got {text!r}: {error}") from None
    return found or None


def _settings(pairs: list[str]) -> dict[str, Any]:
    """Settings from NAME=VALUE; a value is JSON, a word, or what Python calls true, false and null."""
    taken = {
        "X",
        "n_components",
        "epsilon",
        "delta",
        "columns",
        "bounds",
        "resolution",
        "transform",
        "method",
        "neighbouring",
        "ledger",
        "random_seed",
        "checkpoint",
        "like",
        "learner",
        "n_jobs",
        "progress",
    }
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise ValueError(f"--set must be NAME=VALUE, got {pair!r}")
        if name in taken or name in found:
            raise ValueError(f"--set must name settings of the method, each once, got {pair!r}")
        try:
            found[name] = json.loads(value, object_pairs_hook=distinct_keys)
        except (json.JSONDecodeError, RecursionError):
            found[name] = {"True": True, "False": False, "None": None}.get(value, value)
        except ValueError as error:
            raise ValueError(f"--set {name} must be JSON or a word, got {shown(value)}: {error}") from None
    return found

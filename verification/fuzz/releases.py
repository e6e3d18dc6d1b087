"""Release files that lie: what does the package do with them?

``python -m verification.fuzz.releases --inputs 5000 --seed 1`` changes stored releases (tests/data/releases) in one to
three places, or replaces all their numbers by extreme ones, reads them, and does everything with what is read that a
recipient may do. Allowed are a result and one clear error (TypeError or ValueError). Anything else, and anything that
takes longer than ``LONGEST`` seconds, is printed with its seed; so is a fit that failed after its ledger was charged.
"""

from __future__ import annotations

import argparse
import collections
import copy
import json
import pickle
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import pm_dpgmm as dpg
from pm_dpgmm.methods.sketch.method import SketchMethod
from verification.benchmarks.seeds import at_least

FILES = Path(__file__).resolve().parents[2] / "tests" / "data" / "releases"
LONGEST = 10.0  # seconds of processor time for one action; twice that ends it
CLEAR = (TypeError, ValueError)
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
NUMBERS = (
    0, -0.0, 1, -1, 0.5, 2, 3, 7, 1e-320, 5e-324, 1e-300, 1e-12, 1e9, 1e12, 1e15, 1e16, 1e120, 1e300, 1.7e308, -1e300,
    2**31, 2**62, 2**63 - 1,
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    None, True, False, "", "1.0", "\x1b[2J", "a\n```\n# b", "\u202e", "\ud800", "x" * 2000, [], {}, [[]], [1], [None],
    [[1.0, 2.0], [3.0]], {"kind": "point"}, {"kind": "sum"},
)  # fmt: skip
RAW_TEXTS = (
    "NaN", "Infinity", "-Infinity", "1e999", "-0.0", "9" * 400, "9" * 5000, "1" + "0" * 30, "[" * 5000 + "]" * 5000,
    '{"a":' * 5000 + "1" + "}" * 5000,
)  # fmt: skip
MARK = "@here@"
EXTREME = 0.25  # share of the sketches whose numbers are all replaced
PARTNERS = {"sketch_one_column": ("sketch_like",), "sketch_like": ("sketch_one_column",)}  # that can be combined


@dataclass
class Report:
    """What came of the inputs."""

    n_inputs: int = 0
    actions: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = ", ".join(f"{name} {count}" for name, count in sorted(self.actions.items()))
        return "\n".join([f"{self.n_inputs} inputs; {told}", *self.faults, f"{len(self.faults)} faults"])


class TooLong(BaseException):
    """The time of an action is over; no handler for exceptions stops it."""


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """All (container, key) of a JSON tree; of long lists the first, the last and two more."""
    if isinstance(tree, dict):
        keys: list[Any] = list(tree)
    elif isinstance(tree, list):
        keys = sorted({0, len(tree) - 1, len(tree) // 2, len(tree) // 3}) if tree else []
    else:
        return
    for key in keys:
        yield tree, key
        yield from places(tree[key])


def mutated(fields: dict[str, Any], rng: np.random.Generator) -> str:
    """JSON text of a copy that was changed in one to three places."""
    fields = copy.deepcopy(fields)
    raw_text = None
    for _ in range(int(rng.integers(1, 4))):
        found = list(places(fields))
        holder, key = found[int(rng.integers(len(found)))]
        old = holder[key]
        kind = rng.choice(["number", "scaled", "other", "delete", "repeat", "swap", "text", "resize"])
        if kind == "number":
            holder[key] = NUMBERS[int(rng.integers(len(NUMBERS)))]
        elif kind == "scaled" and isinstance(old, (int, float)) and not isinstance(old, bool):
            holder[key] = old * float(10.0 ** rng.integers(-30, 31))
        elif kind == "scaled" and isinstance(old, list):
            holder[key] = _scaled(old, float(10.0 ** rng.integers(-12, 13)) * int(rng.choice([-1, 1])))
        elif kind == "other":
            holder[key] = copy.deepcopy(OTHERS[int(rng.integers(len(OTHERS)))])
        elif kind == "delete":
            del holder[key]
        elif kind == "repeat" and isinstance(old, list) and old:
            holder[key] = old * int(rng.choice([2, 3, 50]))
        elif kind == "resize" and isinstance(old, list):
            holder[key] = old[: int(rng.integers(len(old) + 1))]
        elif kind == "swap":
            other, place = found[int(rng.integers(len(found)))]
            if not isinstance(old, (dict, list)) and not isinstance(other[place], (dict, list)):
                holder[key], other[place] = other[place], old
        elif kind == "text":
            holder[key], raw_text = MARK, RAW_TEXTS[int(rng.integers(len(RAW_TEXTS)))]
    text = json.dumps(fields)
    return text if raw_text is None else text.replace(json.dumps(MARK), raw_text)


def extreme(fields: dict[str, Any], rng: np.random.Generator) -> str:
    """JSON text of a copy whose statistics are random numbers of random sizes that mostly lie within what is accepted.

    Shapes and structure stay right, so such files are read: fits must survive what they hold.
    """
    fields = copy.deepcopy(fields)
    noise, raw = fields["noise"], fields["raw"]

    def size(low: float, high: float) -> float:
        return float(10.0 ** (rng.uniform(low, high) if rng.random() < 0.7 else rng.choice([low, high])))

    def filled(values: Any, low: float, high: float, *, signed: bool = True) -> Any:
        shape = np.shape(values)
        powers = 10.0 ** rng.uniform(low, high, shape) if rng.random() < 0.5 else np.full(shape, size(low, high))
        signs = rng.choice([-1.0, 0.0, 1.0], shape) if signed else np.ones(shape)
        return (powers * signs).tolist()

    for i, sketch in enumerate(noise["sketches"]):
        waves = sketch["frequencies"]
        if rng.random() < 0.5:
            raw[f"sketch_{i}"] = filled(raw[f"sketch_{i}"], 0, 11.9)
        if rng.random() < 0.5:
            sketch["scale"] = size(-11.9, 11.9)
        if rng.random() < 0.5 and waves["kind"] == "riesz":
            waves["bases"] = filled(waves["bases"], -320, 13)
        elif rng.random() < 0.5 and waves["kind"] == "fejer":
            waves["step"] = size(-320, 12)
    for i, table in enumerate(noise["moments"]):
        if rng.random() < 0.5:
            raw[f"moments_{i}"] = filled(raw[f"moments_{i}"], -5, 23.9)
        if rng.random() < 0.5:
            table["scale"] = size(-23.9, 23.9)
        partition = table["partition"]
        if rng.random() < 0.5:
            partition["centres"] = filled(partition["centres"], -300, 8.9)
        if rng.random() < 0.5:
            partition["radii"] = filled(partition["radii"], -26.9, 8.9, signed=False)
    if rng.random() < 0.3 and "ridge" in noise:
        noise["ridge"] = filled(noise["ridge"], -300, 8.9, signed=False)
    if rng.random() < 0.5 and "resolution" in noise:
        noise["resolution"] = (np.multiply(noise["unit"], filled(noise["unit"], -12, 9, signed=False))).tolist()
    return json.dumps(fields)


def _scaled(values: Any, factor: float) -> Any:
    if isinstance(values, list):
        return [_scaled(value, factor) for value in values]
    return values * factor if isinstance(values, (int, float)) and not isinstance(values, bool) else values


def actions(
    release: dpg.Release, folder: Path, others: list[dpg.Release], *, fits: bool
) -> dict[str, Callable[[], Any]]:
    """Everything that a recipient may do with a release; without ``fits`` what takes milliseconds."""
    d = min(release.n_features, 40)
    points = np.zeros((2, release.n_features))
    known = {release.feature_names[0]: 0.0}
    slow = release.guarantee.to_dict()["loss"]["kind"] == "sum"  # its whole curve takes a minute, also unchanged
    listed: dict[str, Callable[[], Any]] = {
        "repr": lambda: repr(release),
        "summary": release.summary,
        "save": lambda: release.save(folder / "again.json"),
        "pickle": lambda: pickle.loads(pickle.dumps(release)),
        "density": lambda: release.log_density(points),
        "sample": lambda: release.sample(5, random_seed=1),
        "conditional": lambda: release.conditional(known),
        "reference": lambda: SketchMethod(like=release),
    }
    if not slow:
        listed["card"] = lambda: release.card(folder / "card.html", force=True)
    if not fits:
        return listed
    return listed | {
        "refit": lambda: release.refit(1),
        "select_k": lambda: release.select_k([1, 2]),
        "standard_errors": lambda: repr(release.standard_errors()),
        "draws": lambda: release.draws(2, random_seed=1),
        "check_fit": lambda: release.check_fit(random_seed=1),
        "combine": lambda: [dpg.combine([release, other]) for other in others],
        "like": lambda: _fit_like(release, d, folder),
    }


def _fit_like(release: dpg.Release, n_features: int, folder: Path) -> dpg.Release:
    """A fit of other records; RuntimeError where the ledger was charged and nothing came of it."""
    records = np.random.default_rng(1).normal(size=(200, n_features))
    path = folder / "ledger.sqlite"
    path.unlink(missing_ok=True)
    ledger = dpg.Ledger(path, epsilon=10.0, delta=1e-3)
    relation = str(release.guarantee.neighbouring)
    settings: dict[str, Any] = {
        "bounds": (-5, 5),
        "neighbouring": relation,
        "ledger": ledger,
        "progress": False,
        "random_seed": 1,
    }
    try:
        made = dpg.fit_gmm(records, min(release.n_components, 3), like=release, **BUDGET, **settings)
    except Exception as error:
        if ledger.spent != (0.0, 0.0):
            raise RuntimeError(f"the budget is spent: {error!r}") from error
        raise
    if made.private or ledger.spent != (BUDGET["epsilon"], BUDGET["delta"]):
        raise RuntimeError(f"spent {ledger.spent}, private {made.private}")
    made.save(folder / "like.json")
    dpg.load(folder / "like.json")
    return made


def run(n_inputs: int, seed: int, *, every: int = 1, seconds: float = float("inf")) -> Report:
    """Try ``n_inputs`` files, or as many as ``seconds`` allow, each with a generator of its own, [seed, number].

    Of files that could be read one in ``every`` is fitted to, and what takes milliseconds is done with all.
    """
    started, report, n_read = time.monotonic(), Report(), 0
    sources = [(path, json.loads(path.read_text())) for path in sorted(FILES.glob("*.json"))]
    originals = {path.stem: dpg.load(path) for path, _ in sources}
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(place)
        for number in range(n_inputs):
            if time.monotonic() - started > seconds:
                break
            rng = np.random.default_rng([seed, number])
            path, fields = sources[number % len(sources)]
            file = folder / "release.json"
            changed = extreme if "sketches" in fields["noise"] and rng.random() < EXTREME else mutated
            file.write_text(changed(fields, rng), encoding="utf-8")
            report.n_inputs += 1
            label = f"seed {seed}, input {number} from {path.stem}"
            release = _tried(report, label, "load", lambda file=file: dpg.load(file))  # type: ignore[misc]
            if release is None:
                continue
            partners = [originals[name] for name in PARTNERS.get(path.stem, (path.stem,))]
            fits, n_read = n_read % every == 0, n_read + 1
            for name, action in actions(release, folder, partners, fits=fits).items():
                _tried(report, label, name, action)
    return report


def _tried(report: Report, label: str, name: str, action: Callable[[], Any]) -> Any:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    started = time.process_time()
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, 2 * LONGEST)
    found, outcome = None, "refused"
    try:
        found = action()
        outcome = "done"
    except CLEAR as error:
        if isinstance(error, np.linalg.LinAlgError) or not str(error) or len(str(error)) > 1000:
            report.faults.append(f"{label}, {name}: {error!r:.300}")
    except TooLong:
        report.faults.append(f"{label}, {name}: no end within {2 * LONGEST} s")
    except Exception as error:  # whatever it is, it is what is looked for
        report.faults.append(f"{label}, {name}: {error!r:.300}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if time.process_time() - started > LONGEST:
        report.faults.append(f"{label}, {name}: took {time.process_time() - started:.0f} s")
    report.actions[f"{name} {outcome}"] += 1
    return found


def main() -> None:
    """Run from the command line; the exit status is 1 if there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=at_least(1), default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--every", type=at_least(1), default=1, help="fit to one in so many of the files that can be read"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    report = run(given.inputs, given.seed, every=given.every, seconds=given.seconds)
    print(report)
    sys.exit(1 if report.faults else 0)


if __name__ == "__main__":
    main()

"""Run a mechanism on both data sets and check what it returns."""

from __future__ import annotations

import inspect
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verification._arguments import check_callable, shown, unmasked
from verification.auditing.alike import NAMES, Calls
from verification.auditing.foreign import foreign
from verification.auditing.given_data import CHANGED, check_readable, fingerprint, same_data
from verification.auditing.parts import ONE_SHAPE, OutputError, OutputTypeError, check_one_type, checked_part, widened
from verification.auditing.repeated import Repeated
from verification.auditing.workers import stopping_is_no_error

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Outputs = tuple[NDArray[Any], ...]

# Per data set; fixed, so that a result does not depend on the number of workers.
BLOCKS, LEAST_BLOCK = 4, 25  # several calls, so that runs which share a draw with their call are told from others
LEAST_IN_BATCH = 100  # of a sequential audit, whose batches are calls by themselves
MANY_COLUMNS, SECONDS_A_COLUMN = 1_000, 0.025  # 24 s of 1,000, 2,000 runs: trees, phases and the check of alike runs
ALL_FAILED = "every run on both data sets failed (all NaN), so there was nothing to compare"
CHANGING_TYPE = "outputs of changing type"


@dataclass(frozen=True, slots=True, eq=False)
class Runner:
    """A mechanism, prepared for both data sets."""

    sample: Callable[..., Any]  # sample(state, n, rng)
    states: tuple[Any, Any]  # on x_neighbour, on x: a coin is the index
    data: tuple[Any, Any] = (None, None)  # as given, which the mechanism leaves as they are
    fingerprints: tuple[bytes, bytes] | None = None  # of the data before the first run
    same_data: bool = False
    blocks: int | None = None  # per data set, for a mechanism that is slow; None: BLOCKS for many runs
    types: set[tuple[str, ...]] = field(default_factory=set)  # of the parts, in every block so far
    probed: dict[int, list[FloatArray]] = field(default_factory=dict)  # runs of `probe`

    def draw(self, which: int, n: int, rng: np.random.Generator) -> tuple[Outputs, bool]:
        """``n`` checked runs, one array per output part, and whether the mechanism returns a tuple."""
        with foreign(f"mechanism raised on {NAMES[which]}", passing=(OutputError, OutputTypeError)):
            output = self.sample(self.states[which], n, rng)
        self.check_data(which)
        return _checked(output, n)

    def check_data(self, which: int) -> None:
        """Raise ValueError if a run changed the data: later runs would be on others."""
        if self.fingerprints is not None and fingerprint(NAMES[which], self.data[which]) != self.fingerprints[which]:
            raise ValueError(CHANGED.format(who="mechanism", when="a run"))


def prepared(mechanism: Any, x: Any, x_neighbour: Any) -> Runner:
    """The runner of a callable ``mechanism(data, n, rng)``, or of ``prepare(data)`` with ``sample(state, n, rng)``."""
    check_readable(x=x, x_neighbour=x_neighbour)
    data = (x_neighbour, x)
    before = (fingerprint(NAMES[0], x_neighbour), fingerprint(NAMES[1], x))
    same = same_data(x, x_neighbour)
    if not (hasattr(mechanism, "prepare") and hasattr(mechanism, "sample")):
        check_callable(mechanism=mechanism)
        _check_takes_many(mechanism)
        return Runner(mechanism, data, data, before, same)
    check_callable(**{"mechanism.prepare": mechanism.prepare, "mechanism.sample": mechanism.sample})
    if isinstance(mechanism, Repeated):
        mechanism = mechanism.anew()
    states = []
    for given, name in zip(data, NAMES, strict=True):
        with foreign(f"mechanism.prepare raised on {name}", passing=(OutputError, OutputTypeError)):
            states.append(mechanism.prepare(given))
    runner = Runner(mechanism.sample, (states[0], states[1]), data, before, same, getattr(mechanism, "blocks", None))
    for which in (0, 1):
        runner.check_data(which)
    return runner


def _check_takes_many(mechanism: Any) -> None:
    """Raise if ``mechanism`` cannot be called with data, a number of runs and a generator."""
    try:
        signature = inspect.signature(mechanism)
    except (TypeError, ValueError):  # some builtins tell nothing
        return
    try:
        signature.bind(None, 1, None)
    except TypeError:
        raise TypeError(
            f"mechanism must take (data, n_samples, rng), got parameters {', '.join(signature.parameters) or 'none'};"
            " one that runs once, (data, rng), goes through repeated(mechanism), or --once"
        ) from None


def reseed_the_process() -> None:
    """Forked workers, and those whose module sets a seed, begin with one state and would repeat each other."""
    np.random.seed()  # noqa: NPY002 whatever the mechanism uses
    random.seed()


def _draw_in_worker(parent: int, runner: Runner, which: int, n: int, rng: np.random.Generator) -> tuple[Outputs, bool]:
    """As `Runner.draw`, in a worker with its own randomness."""
    if os.getpid() != parent:
        reseed_the_process()
    return runner.draw(which, n, rng)


def run_both(
    runner: Runner,
    label: BoolArray,
    rng: np.random.Generator,
    *,
    n_jobs: int = 1,
    progress: Callable[[int], None] = lambda runs: None,
    calls: Calls | None = None,
    turn: int = 0,
) -> tuple[Outputs, bool]:
    """Runs in the order of the coins, one array per output part, and whether the mechanism returns a tuple.

    Raises ValueError where runs depend on when they were made; with ``calls``, which takes them, the caller looks. The
    data sets take turns, ``turn`` says whose it is: what changes with the number of calls then shows on both of them.
    """
    n_ones = int(label.sum())
    sizes = {1: n_ones, 0: label.size - n_ones}
    least = LEAST_BLOCK if calls is None else LEAST_IN_BATCH
    split = {which: _split(sizes[which], runner.blocks, least) for which in (1, 0)}
    own_rng = {(which, i): child(rng) for which in (1, 0) for i in range(len(split[which]))}
    tasks = [(which, split[which][i], own_rng[which, i]) for which, i in _turns(split, turn)]
    if n_jobs == 1:
        drawn = []
        for which, n, own in tasks:
            drawn.append(runner.draw(which, n, own))
            progress(n)
    else:
        from joblib import Parallel, delayed

        drawn, calls_of = [], [delayed(_draw_in_worker)(os.getpid(), runner, *task) for task in tasks]
        with stopping_is_no_error():
            try:  # with large arrays as maps that a mechanism may write to, as it may with one worker
                blocks = Parallel(n_jobs=n_jobs, mmap_mode="c", return_as="generator")(calls_of)
            except ValueError:  # a backend of the user's that gives no answers as they come
                blocks = Parallel(n_jobs=n_jobs, mmap_mode="c")(calls_of)
            for block in blocks:
                drawn.append(block)
                progress(len(block[0][0]))
    shapes = {(is_tuple, tuple(part.shape[1:] for part in block)) for block, is_tuple in drawn}
    if len(shapes) > 1:
        mixed = len({is_tuple for is_tuple, _ in shapes}) > 1

        def holder(is_tuple: bool) -> str:
            return ("a tuple of " if is_tuple else "an array of ") if mixed else ""

        raise ValueError(
            f"{ONE_SHAPE} on x and x_neighbour (pad with NaN), got "
            + " and ".join(f"{holder(is_tuple)}{shown(list(shape))}" for is_tuple, shape in sorted(shapes))
        )
    runner.types.update(tuple(str(part.dtype) for part in block) for block, _ in drawn)
    made = Calls(runner.probed) if calls is None else calls
    for (block, _), (which, _, _) in zip(drawn, tasks, strict=True):
        made.see(as_rows(block), which)
    if calls is None:
        made.check()
    outputs = []
    for i, first in enumerate(drawn[0][0]):
        kind = np.result_type(*(block[i].dtype for block, _ in drawn))
        whole = np.empty((label.size, *first.shape[1:]), dtype=kind)
        for which, coin in ((1, label), (0, ~label)):
            pieces = [block[i] for (block, _), task in zip(drawn, tasks, strict=True) if task[0] == which]
            if pieces:
                whole[coin] = np.concatenate(pieces)
        outputs.append(whole)
    return tuple(outputs), drawn[0][1]


def type_notes(runner: Runner, level: str) -> list[str]:
    """A note when types of number changed from block to block; as bits that is an error, for the type is an output."""
    if len(runner.types) < 2:
        return []
    words = " and ".join(", ".join(types) for types in sorted(runner.types))
    if level == "bit":
        raise ValueError(
            f"mechanism must return one type of number on x and x_neighbour at the level of bits, got {words}"
        )
    return [f"{CHANGING_TYPE} ({words}) were compared as real numbers"]


class Watch:
    """Notes on outputs that carry no randomness, or nothing at all."""

    def __init__(self) -> None:
        self.failed = True
        self.fixed = True
        self.first: dict[bool, FloatArray] = {}

    def see(self, rows: FloatArray, label: BoolArray) -> None:
        """Take note of runs, shape (n, d), and their coins; raise ValueError if d changes from call to call."""
        self.failed &= bool(np.isnan(rows).all())
        for coin in (True, False):
            mine = rows[label == coin]
            if len(mine):
                first = self.first.setdefault(coin, mine[0])
                if first.shape != mine.shape[1:]:
                    raise ValueError(f"{ONE_SHAPE} (pad with NaN), got {first.shape} and {mine.shape[1:]}")
                alike = (mine == first) & (np.signbit(mine) == np.signbit(first))  # bits may tell 0 from -0
                self.fixed &= bool((alike | (np.isnan(mine) & np.isnan(first))).all())

    def notes(self, level: str) -> list[str]:
        """At most one sentence."""
        if self.failed:
            return [ALL_FAILED + (" but the bits of NaN" if level == "bit" else "")]
        if self.fixed:
            return ["the mechanism is not random: each data set has a single output"]
        return []


def as_rows(outputs: Outputs) -> FloatArray:
    """All parts side by side, shape (n, d)."""
    return np.column_stack([widened(part.reshape(len(part), -1)) for part in outputs])


def child(rng: np.random.Generator) -> np.random.Generator:
    """A generator of its own for one block of runs."""
    return np.random.default_rng(rng.integers(2**32, size=4))


@contextmanager
def progress_bar(shown_: bool, total: int, label: str) -> Iterator[Callable[[int], None]]:
    """A rich progress bar of runs on a terminal, nothing in a pipe."""
    if not (shown_ and _on_terminal()):
        yield lambda runs: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda runs: bar.update(task, advance=runs)


def tell_if_long(shown_: bool, runner: Runner) -> None:
    """One line on a terminal before an audit of many numbers: what is learned of them is not in the bar."""
    columns = max(drawn[0].shape[1] for drawn in runner.probed.values())
    if shown_ and columns >= MANY_COLUMNS and _on_terminal():
        words = f"{columns:,} numbers of a run to learn from: about {columns * SECONDS_A_COLUMN:.0f} s beside the runs"
        print(f"audit: {words}", file=sys.stderr, flush=True)


def _on_terminal() -> bool:
    """Whether stderr is a terminal; it may be missing, closed or no file."""
    try:
        return bool(sys.stderr.isatty())
    except (AttributeError, ValueError):
        return False


def log_ratio(log_density: Callable[..., Any], outputs: Any, x: Any, x_neighbour: Any, n: int) -> FloatArray:
    """Exact log-likelihood ratio of every run, shape (n,).

    Raises RuntimeError for whatever ``log_density`` raises, ValueError for values that are no log densities or if it
    changes the data.
    """
    logs = []
    for data, name in ((x, NAMES[1]), (x_neighbour, NAMES[0])):
        own = tuple(map(_backward, outputs)) if isinstance(outputs, tuple) else _backward(outputs)
        before = fingerprint(name, data)
        with foreign(f"log_density raised on {name}"):
            values = np.asarray(unmasked(log_density(own, data)))
        if fingerprint(name, data) != before:
            raise ValueError(CHANGED.format(who="log_density", when="a call"))
        if values.dtype.kind not in "biuf" or values.shape != (n,):
            raise ValueError(
                f"log_density must return numbers of shape ({n},), got {values.dtype} of shape {values.shape}"
            )
        values = values[::-1].astype(float)
        if np.any(np.isnan(values) | (values == np.inf)):
            raise ValueError(f"log_density must be below infinity and not NaN, got {shown(values)}")
        logs.append(values)
    if np.any(np.isneginf(logs[0]) & np.isneginf(logs[1])):
        raise ValueError("log_density must be above -inf under x or x_neighbour, got -inf under both for a run")
    # Rounding errors would break the ties that atoms of the ratio are made of.
    with np.errstate(over="ignore"):  # of +-1e308: infinite is right
        return np.asarray(np.round(logs[0] - logs[1], 9))


def _backward(part: Any) -> Any:
    """A copy, as it may be computed in. Where a function leaves numbers unset, memory may hold coins in their order."""
    return np.array(part[::-1])


def _split(n: int, blocks: int | None = None, least: int = LEAST_BLOCK) -> list[int]:
    """``n`` runs in blocks, larger ones first; no block for none."""
    if blocks is None:
        blocks = BLOCKS if n >= BLOCKS * least else 1
    blocks = min(blocks, n)
    return [n // blocks + (i < n % blocks) for i in range(blocks)]


def _turns(split: Mapping[int, list[int]], turn: int) -> list[tuple[int, int]]:
    """Data set and place of every block, in the order in which they are run.

    By the sequence of Thue and Morse: neither a drift nor a period of a few calls falls together with the data sets.
    """
    order = []
    for i in range(max(map(len, split.values()))):
        pair = (1, 0) if (turn + i).bit_count() % 2 == 0 else (0, 1)
        order += [(which, i) for which in pair if i < len(split[which])]
    return order


def _checked(output: Any, n_samples: int) -> tuple[Outputs, bool]:
    is_tuple = isinstance(output, tuple)
    given = output if is_tuple else (output,)
    parts = tuple(map(checked_part, given))
    for part in given:
        check_one_type(part)
    for part in parts:
        if part.ndim == 0 or part.shape[0] != n_samples:
            raise ValueError(
                f"mechanism must return arrays whose first axis is n_samples = {n_samples}, got shape {part.shape}"
            )
    if sum(part[:1].size for part in parts) == 0 and n_samples > 0:
        raise ValueError(f"mechanism must return at least one number per run, got {shown(output)}")
    return parts, is_tuple

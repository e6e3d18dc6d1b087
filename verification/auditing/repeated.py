"""From a mechanism that runs once to one that an audit can ask for many runs."""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verification._arguments import check_callable, shown
from verification.auditing.parts import (
    ONE_SHAPE,
    ONE_TYPE,
    OutputError,
    check_keys,
    check_no_attributes,
    checked_part,
    kind_of,
    type_in_words,
    type_of,
    widened,
)

FloatArray = NDArray[np.float64]

BLOCKS = 50  # per data set: steps of the progress bar, and what workers share
PILOT_RUNS = 20  # at most, on each data set, until one succeeds and shows the form of the output
MOST_PILOT = 1_000  # the same, where none of those on either data set showed it
TOO_RARE = (
    "mechanism must return NaN in the form of a success, not None, where success is so rare: the first"
    f" {MOST_PILOT:,} runs on either data set gave None"
)
NO_OUTPUT = np.array(0x7FF8000000000001, dtype=np.uint64).view(np.float64)  # None, which as bits is not np.nan
ALONE = "number or array"


def repeated(mechanism: Callable[..., Any], *, failures: tuple[type[Exception], ...] = ()) -> Repeated:
    """Make a mechanism that runs once, ``mechanism(data, rng)``, one that `audit` and its relatives can run many times.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, rng)`` or, if it takes no generator, ``mechanism(data)``; a parameter named ``rng`` is given
        by name. Returns a number, an array, a tuple of these, a dataclass of these, or a dict of these by texts,
        numbers or tuples of them; None, whole or as a part, is the failure symbol (NaN). Every run has the same form:
        parts, names, shapes and types of number and of what holds them; NumPy's float64, int64 and bool count as float,
        int and bool. What is on a class, and the memory of which an array is a part, goes unseen.
    failures : tuple of exception types
        Exceptions of these types are outputs too: the run is NaN in every part, and a further part says which type it
        was (0: none; 1: None; from 2 on: the first type that fits). Messages go unseen. Any other exception ends the
        audit.

    Returns
    -------
    Repeated
        For `audit`, `privacy_profile`, `worst_pair`, `minimal_pair`, `dp_audit`; also a function
        ``(data, n_samples, rng)`` whose parts are arrays in double precision.

    Raises
    ------
    TypeError
        If an argument breaks these rules.

    Each run has a generator of its own, drawn from the audit's, so runs are independent whatever ``mechanism`` does to
    its generator, and the number of workers (``n_jobs`` of `audit`) does not change the result. Beyond ``n_samples``
    some 500 runs look at form and randomness, up to 2,000 where none succeeds. A mechanism that takes no generator must
    draw fresh entropy by itself in every run; the audit then says that its seed does not repeat it.

    During the audit a ValueError says so if runs differ in form, if ``mechanism`` changes its data, or if the first
    1,000 runs on either data set gave None and a later one an array: then return NaN in its shape instead of None.

    Examples
    --------
    >>> import numpy as np
    >>> from verification import audit, repeated
    >>> def noisy_mean(data, rng):
    ...     return np.mean(data) + rng.laplace(scale=0.25)  # half the noise that epsilon = 1 needs
    >>> found = audit(repeated(noisy_mean), [0, 1], [1, 1], epsilon=1.0, n_samples=5_000, rng=np.random.default_rng(1))
    >>> found.refuted
    True
    """
    check_callable(mechanism=mechanism)
    if not isinstance(failures, tuple) or not all(isinstance(f, type) and issubclass(f, Exception) for f in failures):
        raise TypeError(f"failures must be a tuple of exception types, got {shown(failures)}")
    return Repeated(mechanism, failures, _way_of_rng(mechanism))


@dataclass(slots=True, eq=False)
class Form:
    """What all runs have in common; a shape or type is None until a run shows it."""

    names: tuple[Any, ...]  # what holds the parts, then theirs
    shapes: list[tuple[int, ...] | None]
    types: list[Any]  # as of `type_of`


@dataclass(slots=True, eq=False)
class Repeated:
    """A mechanism that runs once, as `audit` takes it; made by `repeated`."""

    mechanism: Callable[..., Any]
    failures: tuple[type[Exception], ...]
    way: str  # how it takes its generator: "by name", "by place" or "not at all"
    form: Form | None = None
    blocks: int = BLOCKS
    piloted: list[Any] = field(default_factory=list)  # data on which a few runs did not show the whole form
    settled: bool = False  # what no run has shown by now counts as one number

    def anew(self) -> Repeated:
        """The same mechanism before its first run: on another pair the form may be another one."""
        return Repeated(self.mechanism, self.failures, self.way)

    def prepare(self, data: Any) -> Any:
        """``data`` as they are, after a few runs that show the form of the output."""
        self.settled = False
        self._pilot(data, range(PILOT_RUNS))
        self.piloted = [] if self._whole() else [*self.piloted[-1:], data]
        return data

    def sample(self, data: Any, n_samples: int, rng: np.random.Generator) -> Any:
        """``n_samples`` runs, each with a generator of its own: an array per part, shape (n_samples, ...)."""
        if self.piloted:
            for given in self.piloted:
                self._pilot(given, range(PILOT_RUNS, MOST_PILOT))
            self.piloted, self.settled = [], not self._whole()
        runs, kinds = [], np.zeros(n_samples)
        for i in range(n_samples):
            own = np.random.default_rng(rng.integers(2**32, size=4))
            kinds[i], parts = self._once(data, own)
            self._fit(parts)
            runs.append(parts)
        names, shapes = ((ALONE, 0), [()]) if self.form is None else (self.form.names, self.form.shapes)
        columns = []
        for place, shape in enumerate(shapes):
            column = np.full((n_samples, *(shape or ())), NO_OUTPUT)
            for i, parts in enumerate(runs):
                if parts is not None and parts[1][place] is not None:
                    column[i] = parts[1][place]
            columns.append(column)
        if self.failures:
            columns.append(kinds)
        return columns[0] if len(columns) == 1 and names[0] == ALONE else tuple(columns)

    __call__ = sample

    def once(self, data: Any, rng: np.random.Generator) -> Any:
        """What ``mechanism`` returns in one run, as it is."""
        if self.way == "by name":
            return self.mechanism(data, rng=rng)
        return self.mechanism(data, rng) if self.way == "by place" else self.mechanism(data)

    def _pilot(self, data: Any, seeds: range) -> None:
        """Runs until the form is known."""
        for seed in seeds:
            if self._whole():
                return
            self._fit(self._once(data, np.random.default_rng(seed))[1])

    def _whole(self) -> bool:
        return self.form is not None and None not in self.form.shapes

    def _once(self, data: Any, rng: np.random.Generator) -> tuple[int, Parts | None]:
        """Which failure it was, 0 for none, and the parts of one run."""
        try:
            output = self.once(data, rng)
        except self.failures as error:
            return 2 + next(i for i, kind in enumerate(self.failures) if isinstance(error, kind)), None
        return (1, None) if output is None else (0, _parts(output))

    def _fit(self, parts: Parts | None) -> None:
        """Take note of the form of a run; raise where it differs from that of an earlier one."""
        if parts is None:
            return
        names, values, types = parts
        if self.form is None:
            if self.settled and names[0] != ALONE:
                raise OutputError(f"{TOO_RARE}, got a {type_in_words(names[0])}")
            self.form = Form(names, [None] * len(values), [None] * len(values))
        if _exactly(names) != _exactly(self.form.names):
            before, now = (f"{type_in_words(kind)} {parts}" for kind, *parts in (self.form.names, names))
            raise OutputError(f"mechanism must return the same parts in every run, got {before} and {now}")
        for place, (value, kind) in enumerate(zip(values, types, strict=True)):
            if value is None:
                continue
            shape, before = self.form.shapes[place], self.form.types[place]
            if shape is None or before is None:
                if self.settled and value.shape != ():
                    raise OutputError(f"{TOO_RARE}, got shape {value.shape}")
                self.form.shapes[place], self.form.types[place] = value.shape, kind
            elif shape != value.shape:
                raise OutputError(f"{ONE_SHAPE} (pad with NaN), got {shape} and {value.shape}")
            elif before != kind:
                raise OutputError(ONE_TYPE.format(type_in_words(before), type_in_words(kind)))


def _exactly(name: Any) -> Any:
    """A name with its type: 1, 1.0 and True are equal as keys, and -0.0 and 0.0, and may tell records apart."""
    if isinstance(name, type):
        return name
    if type(name) is float:
        return float, struct.pack("d", name)  # of NaN also its content
    return tuple(map(_exactly, name)) if type(name) is tuple else (type(name), repr(name))


def _places(output: tuple[Any, ...]) -> Iterable[Any]:
    """What the parts of a tuple are called."""
    return getattr(output, "_fields", range(len(output)))


Parts = tuple[tuple[Any, ...], list[FloatArray | None], list[Any]]  # names, values, types


def _parts(output: Any) -> Parts:
    kind: Any = kind_of(output)
    named: list[tuple[Any, Any]]
    if is_dataclass(output) and not isinstance(output, type):
        named = [(f.name, getattr(output, f.name)) for f in fields(output)]
        check_no_attributes(output, [name for name, _ in named])
    elif isinstance(output, (dict, tuple)):
        named = list(output.items() if isinstance(output, dict) else zip(_places(output), output, strict=True))
        check_no_attributes(output)
        check_keys(output if isinstance(output, dict) else ())
    else:
        kind, named = ALONE, [(0, output)]
    if not named:
        raise OutputError(f"mechanism must return at least one number per run, got {shown(output)}")
    arrays = [None if value is None else checked_part(value) for _, value in named]
    return (
        (kind, *(name for name, _ in named)),
        [None if array is None else widened(array) for array in arrays],
        [None if value is None else type_of(value) for _, value in named],
    )


def _way_of_rng(mechanism: Callable[..., Any]) -> str:
    """How ``mechanism`` takes its generator."""
    try:
        signature = inspect.signature(mechanism)
    except (TypeError, ValueError):  # some builtins tell nothing
        return "by place"
    parameters = signature.parameters
    any_more = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    if "rng" in parameters and parameters["rng"].kind is not inspect.Parameter.POSITIONAL_ONLY:
        way = "by name" if _takes(signature, 0, rng=0) else None
    elif _takes(signature, 0) and not any_more:
        way = "not at all"
    else:
        way = "by place" if _takes(signature, 0, 0) else None
    if way is None:
        names = ", ".join(parameters) or "none"
        raise TypeError(f"mechanism must take (data, rng) or (data), got parameters {names}")
    return way


def _takes(signature: inspect.Signature, *places: Any, **names: Any) -> bool:
    try:
        signature.bind(*places, **names)
    except TypeError:
        return False
    return True

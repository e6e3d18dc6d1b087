"""Local privacy: a person's report as it leaves the device, and releases made of the reports of three people."""

from __future__ import annotations

import contextlib
import math
from functools import cache, partial
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.local import design, method, randomisers
from pm_dpgmm.methods.local.method import LocalMethod
from pm_dpgmm.methods.local.protocol import HEADER, LocalProtocol
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Neighbouring
from verification.specimens import Specimen
from verification.targets.runs import EPSILON, at_bits, rows_of

REPORT = "methods/local/protocol.py"
RANDOMISER = "methods/local/randomisers.py"
METHOD = "methods/local/method.py"
WAVES = {"frequencies": [[0.5], [1.0]], "phases": [0.0, 0.7]}
EDGES = {"edges": [[-1.0, 0.0, 1.0]]}
KINDS = {"symmetric": "symmetric", "optimised": "optimised", "k_ary": "k-ary", "subset": "subset"}
BOUNDS = np.array([[-4.0, 4.0]])


@cache
def protocol(kind: str) -> LocalProtocol:
    """Two waves, or four cells."""
    return LocalProtocol(kind, EPSILON, **(WAVES if kind == "one-bit" else EDGES))


def outputs(data: FloatArray, n_samples: int, rng: np.random.Generator, *, kind: str = "one-bit") -> Any:
    """What the first person's reports say."""
    asked, record = protocol(kind), [float(data[0])]
    return np.array([asked.output_of(asked.respond(record)) for _ in range(n_samples)], dtype=float)[:, None]


def whole_reports(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """The report itself, byte by byte."""
    asked, record = protocol("one-bit"), [float(data[0])]
    return np.array([list(asked.respond(record)[HEADER:]) for _ in range(n_samples)], dtype=float)


def two_bits(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the wave is the first one for everybody, and a lost message is answered anew: two bits about one phase."""
    asked, place = protocol("one-bit"), int(math.cos(0.5 * data[0]) > 0)

    def bits() -> list[int]:
        return [asked.law.draw(place, lambda n: int(rng.integers(n, dtype=np.uint64))) for _ in range(2)]

    return rows_of(bits, n_samples)


def one_hot(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: every bit of the own cell and the others is flipped as if one of them alone depended on the record."""
    with mock.patch.object(
        randomisers, "exponential_below", lambda epsilon, bits: int(math.exp(EPSILON) * 2.0**60) << (bits - 60)
    ):
        wrong = randomisers.Randomiser("symmetric", EPSILON, 4)
    place = int(np.searchsorted(EDGES["edges"][0], data[0]))
    draw = partial(wrong.draw, place, lambda n: int(rng.integers(n, dtype=np.uint64)))
    found = [draw() for _ in range(n_samples)]
    return np.array([[y >> j & 1 for j in range(4)] for y in found], dtype=float)


def rounded_up(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the chance to keep the side is rounded up, to three bits."""
    keep = math.ceil(8 / (1 + math.exp(-EPSILON))) / 8
    place = int(math.cos(0.5 * data[0]) > 0)
    return np.where(rng.random(n_samples) < keep, place, 1 - place).astype(float)[:, None]


# ---------------------------------------------------------------------- whole releases
def problem_of(n_records: int) -> Problem:
    """Of one component."""
    return Problem(n_records, 1, 1, EPSILON, 0.0, BOUNDS, Neighbouring.REPLACE_ONE)


def few_waves(*public: Any) -> tuple[FloatArray, FloatArray]:
    """In place of a hundred: an audit sees more of two."""
    return np.array(WAVES["frequencies"]), np.array(WAVES["phases"])


def released(data: FloatArray, n_samples: int, rng: np.random.Generator, *, rounds: int = 1, waves: Any = None) -> Any:
    """Counts of a release of few waves, without its fit; ``waves`` that look at the records are a fault."""
    settings, problem = LocalMethod(rounds=rounds), problem_of(len(data))
    told: list[Any] = []

    class Told(Exception):
        pass

    def stop(guarantee: Any, raw: Any, noise: Any) -> None:
        told.append(raw)
        if len(told) == rounds:
            raise Told

    def first(frame: Any, resolution: float) -> tuple[FloatArray, FloatArray]:
        return few_waves() if waves is None else waves(data)

    def run() -> FloatArray:
        told.clear()
        with contextlib.suppress(Told):
            settings.release(
                data[:, None], problem, learner=None, n_jobs=None, progress=_silent, rng=None, released=stop
            )
        raw = told[-1]
        return np.concatenate([raw["local_asked"], raw["local_ones"], raw["local_frequencies"].ravel()])

    with (
        mock.patch.object(design, "public_waves", first),
        mock.patch.object(method, "whitened_waves", _second_waves),
        mock.patch.object(method, "fit_responses", _found),
    ):
        return rows_of(run, n_samples)


def asked_again(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the second round asks everybody, those of the first round, too; here a lone person, twice."""
    with mock.patch.object(method, "permutation", lambda n, rng: _everybody(n)):
        return released(data, n_samples, rng, rounds=2)


class _everybody:
    """Rows of both rounds, whatever part is asked for."""

    def __init__(self, n: int) -> None:
        self.rows = np.arange(n)

    def __getitem__(self, part: slice) -> Any:
        return self.rows


def waves_of(data: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fault: frequencies from the spread of the records."""
    return np.array([[1.0], [2.0]]) / np.ptp(data), np.zeros(2)


def _second_waves(frame: Any, mixture: Mixture) -> tuple[FloatArray, FloatArray]:
    return few_waves()


class _found:
    """In the place of the fit between two rounds, which takes longer than everything else."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.mixture = Mixture([1.0], [[0.0]], [[[1.0]]])


def _silent(done: int, total: int) -> None:
    pass


def targets() -> list[Specimen]:
    """Every randomiser, reports as bytes, releases of one round and two; five faults."""
    x, far = np.array([0.1, 0.4, -0.3]), np.array([4.0, 0.4, -0.3])
    claim, inf = (EPSILON, 0.0), math.inf
    kinds = [
        Specimen(f"local_{name}", RANDOMISER, partial(outputs, kind=kind), x, far, *claim, 1.0, False, 12_000)
        for name, kind in KINDS.items()
    ]
    return [
        Specimen("local_report", REPORT, outputs, x, far, *claim, 1.0, False, 20_000),
        at_bits("local_report_bits", REPORT, whole_reports, x, far, *claim, 1.0, False, 12_000),
        *kinds,
        Specimen("local_release", METHOD, released, x, far, *claim, 1.0, False, 8_000),
        at_bits("local_release_bits", METHOD, released, x, far, *claim, 1.0, False, 6_000),
        Specimen("local_two_rounds", METHOD, partial(released, rounds=2), x, far, *claim, 1.0, False, 6_000),
        Specimen("local_two_bits", f"fault in {REPORT}", two_bits, x, far, *claim, 2.0, True, 12_000),
        Specimen("local_one_hot", f"fault in {RANDOMISER}", one_hot, x, far, *claim, 2.0, True, 20_000),
        Specimen(
            "local_rounded_up", f"fault in {RANDOMISER}", rounded_up, x, far, *claim, math.log(3), True, 200_000
        ),
        Specimen(
            "local_waves_from_records", f"fault in {METHOD}", partial(released, waves=waves_of), x, far, *claim, inf,
            True, 2_000,
        ),
        Specimen("local_asked_again", f"fault in {METHOD}", asked_again, x[:1], far[:1], *claim, 2.0, True, 6_000),
    ]  # fmt: skip

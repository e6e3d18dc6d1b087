"""What a mechanism may return, what is said about one that breaks the rules, and how its runs are put in order.

No check here can raise a false alarm but those that say so.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import io
import json
import math
import os
import sys
from types import SimpleNamespace

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.builders.seeded_module import noisy
from verification import repeated
from verification.__main__ import main
from verification.auditing import outputs as runs
from verification.auditing.audit import audit
from verification.auditing.features.phases import NOT_GRIDS
from verification.auditing.outputs import Runner, Watch, as_rows, log_ratio, prepared, progress_bar, run_both
from verification.auditing.parts import _is_of_numpy
from verification.auditing.probing import ELSEWHERE, PROBES as N_PROBES, SAME_DATA, probe
from verification.auditing.result import UNLOOKED
from verification.auditing.scores import NOT_REGIONS


def laplace(data, n, rng):
    return data + rng.laplace(size=n)


def run(mechanism, seed=1, *, n_samples=400, **settings):
    rng = np.random.default_rng(seed)
    return audit(mechanism, 0.0, 1.0, epsilon=settings.pop("epsilon", 1.0), n_samples=n_samples, rng=rng, **settings)


def findings(mechanism, **settings):
    return run(mechanism, **settings).as_dict()


class WithUnit(np.ndarray):
    """An array that may say more than its numbers."""


class Boxed:
    """Likewise, and no array."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


class Prepared:
    """Noise on the sum of the records, which is computed once."""

    def __init__(self):
        self.seen = []

    def prepare(self, data):
        self.seen.append(data)
        return {"sum": float(np.sum(data))}

    def sample(self, state, n, rng):
        return laplace(state["sum"], n, rng)


PROBES = (1,) * 6  # widths of the runs that look at randomness, three calls on each data set


class Changing:
    """As many columns as ``widths`` says, call after call, the last one for ever."""

    def __init__(self, *widths):
        self.widths = list(widths)

    def __call__(self, data, n, rng):
        width = self.widths.pop(0) if len(self.widths) > 1 else self.widths[0]
        return data + rng.laplace(size=(n, width))


def test_several_draws_for_all_runs_at_once_are_from_rng():
    """Fewer runs are then other runs, and as many again are the same."""
    found = run(lambda data, n, rng: data + rng.normal(size=n) + rng.normal(size=n))
    assert ELSEWHERE not in found.notes


# ------------------------------------------------------------------ errors
@pytest.mark.parametrize("where, data", [("x", 0.0), ("x_neighbour", 1.0)])
@pytest.mark.parametrize("settings", [{}, {"sequential": True}])
def test_an_error_of_the_mechanism_is_the_cause_and_its_data_set_is_named(where, data, settings):
    def mechanism(given, n, rng):
        if given == data:
            raise ZeroDivisionError("no records")
        return laplace(given, n, rng)

    with pytest.raises(RuntimeError, match=f"mechanism raised on {where}: ZeroDivisionError: no records") as caught:
        run(mechanism, **settings)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_interrupt_is_no_error_of_the_mechanism():
    def mechanism(data, n, rng):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(mechanism)


def test_floats_of_other_packages_are_refused_whatever_they_call_their_kind():
    """Such as float8_e5m2, a float of one byte: the content of its NaN would not be read."""
    taken = [np.float16, np.float32, ">f8", "<f4", bool, np.int8, np.uint64, np.longlong, np.longdouble]
    assert all(_is_of_numpy(np.dtype(kind)) for kind in taken)
    assert not _is_of_numpy(SimpleNamespace(kind="f", itemsize=1, isbuiltin=2))
    assert not _is_of_numpy(np.dtype("U3")) and not _is_of_numpy(np.dtype(complex))


@pytest.mark.parametrize(
    "mechanism, error, message",
    [
        (lambda d, n, r: r.random(n) + 1j, TypeError, "must return numbers .* got dtype complex128"),
        (lambda d, n, r: r.random(n).astype(object), TypeError, "must return numbers .* got dtype object"),
        (lambda d, n, r: np.zeros(n, "datetime64[s]"), TypeError, "must return numbers .* got dtype datetime64"),
        (lambda d, n, r: (i for i in range(n)), TypeError, "must return numbers .* got a generator"),
        (lambda d, n, r: {"y": r.random(n)}, TypeError, "must return numbers .* got a dict"),
        (lambda d, n, r: np.full(n, "1.5"), TypeError, "must return numbers .* got dtype <U3"),
        (
            lambda d, n, r: r.random(n).astype(np.longdouble),
            TypeError,
            "floats of at most 64 bits, got dtype (longdouble|float128)",
        ),
        (lambda d, n, r: list(r.random(n).astype(np.longdouble)), TypeError, "floats of at most 64 bits"),
        (lambda d, n, r: r.random(n).astype(np.clongdouble), TypeError, "must return numbers"),
        (lambda d, n, r: np.ma.masked_less(r.random(n), 0.5), TypeError, "got a masked array"),
        (lambda d, n, r: pd.Series(r.random(n), index=np.arange(n) + d), TypeError, "got a Series, whose labels"),
        (lambda d, n, r: pd.DataFrame({"a": r.random(n)}), TypeError, "got a DataFrame, whose labels"),
        (lambda d, n, r: pa.table({"ab"[int(d)]: r.random(n)}), TypeError, "got a Table, whose labels"),
        (lambda d, n, r: pa.record_batch({"ab"[int(d)]: r.random(n)}), TypeError, "got a RecordBatch, whose labels"),
        (lambda d, n, r: [pa.array([v]) for v in r.random(n)], TypeError, "got a DoubleArray, whose labels"),
        (lambda d, n, r: r.random(n).view(WithUnit), TypeError, "got a WithUnit, whose labels"),
        (lambda d, n, r: (Boxed(r.random(n)), r.random(n)), TypeError, "got a Boxed, whose labels"),
        (lambda d, n, r: [2**53 + 1, *r.random(n - 1)], ValueError, "within 2\\^53"),
        (lambda d, n, r: [2**63, -1] * (n // 2), ValueError, "within 2\\^53"),
        (lambda d, n, r: [2**70] * n, ValueError, "within 2\\^53, beyond which low digits"),
        (lambda d, n, r: [-(10**400), 0] * (n // 2), ValueError, "within 2\\^53, beyond which low digits"),
        (lambda d, n, r: (r.random(n), ["a"] * n), TypeError, "must return numbers .* got dtype <U1"),
        (
            lambda d, n, r: (r.random(n), r.random(n - 1)),
            ValueError,
            r"first axis is n_samples = 64, got shape \(63,\)",
        ),
        (lambda d, n, r: r.random((2, n)), ValueError, r"first axis is n_samples = 64, got shape \(2, 64\)"),
        (lambda d, n, r: [[1.0] * (1 + i % 2) for i in range(n)], ValueError, "mechanism must return .*pad with NaN"),
        (lambda d, n, r: (r.random(n),) * (1 + int(d)), ValueError, "mechanism must return runs of one shape"),
        (lambda d, n, r: (r.random(n),) if d else r.random(n), ValueError, "mechanism must return runs of one shape"),
        (Changing(1, 2), ValueError, r"mechanism must return runs of one shape, got \(1,\) and \(2,\) on x"),
        (Changing(1, 2, 1), ValueError, r"mechanism must return runs of one shape, got \(1,\) and \(2,\) on x"),
        (Changing(1, 1, 2), ValueError, r"mechanism must return runs of one shape, got \(1,\) and \(2,\) on x"),
        (Changing(*PROBES, 1, 2), ValueError, "mechanism must return runs of one shape on x and x_neighbour"),
    ],
)
def test_outputs_that_break_the_rules_are_named(mechanism, error, message):
    with pytest.raises(error, match=message):
        run(mechanism)


@pytest.mark.parametrize("settings", [{}, {"log_density": lambda y, data: -np.abs(y[:, 0] - data)}])
def test_a_width_that_changes_between_batches_is_named(settings):
    with pytest.raises(ValueError, match=r"runs of one shape \(pad with NaN\), got \(1,\) and \(2,\)"):
        run(Changing(*PROBES, 1, 1, 2), sequential=True, **settings)


# ------------------------------------------------------------------ kinds that are the same
@pytest.mark.parametrize(
    "same",
    [
        lambda y: y.tolist(),
        lambda y: y.astype(np.int8),
        lambda y: y.astype(np.uint64),
        lambda y: y.astype(np.float16),
        lambda y: y[:, None, None],
        lambda y: (y,),
        lambda y: (y, np.zeros((y.size, 0))),
        lambda y: y[::-1].copy()[::-1],
    ],
)
def test_the_form_of_the_numbers_does_not_matter(same):
    def digits(data, n, rng):
        return rng.binomial(9, 0.3 + 0.4 * data, size=n).astype(float)

    assert findings(lambda *given: same(digits(*given))) == findings(digits)
    assert run(digits).refuted  # so there is something to compare


def test_booleans_are_zero_and_one_and_parts_of_a_tuple_are_columns():
    def parts(data, n, rng):
        return rng.random(n) < 0.2 + 0.6 * data, rng.integers(5, size=n), rng.random((n, 2, 1))

    def columns(data, n, rng):
        return np.column_stack([part.reshape(n, -1) for part in parts(data, n, rng)]).astype(float)

    assert findings(parts) == findings(columns)


def test_kinds_may_differ_between_the_data_sets():
    def mechanism(data, n, rng):
        noise = rng.integers(9, size=n)
        return noise if data else noise + 0.5

    label = np.arange(600) % 3 == 0
    (found,), is_tuple = run_both(Runner(mechanism, (0.0, 1.0)), label, np.random.default_rng(1))
    assert not is_tuple and found.dtype == float
    assert np.array_equal(found % 1 == 0, label)


@pytest.mark.thorough
def test_a_mechanism_may_write_every_answer_into_the_same_memory():
    memory = np.empty(10_000)

    def thrifty(data, n, rng):
        memory[:n] = laplace(data, n, rng)
        return memory[:n]

    for settings in ({"n_samples": 2_000}, {"sequential": True}):
        assert findings(thrifty, **settings) == findings(laplace, **settings)


@pytest.mark.parametrize("settings", [{}, {"sequential": True}])
def test_a_type_that_depends_on_the_data_is_noted_and_an_error_at_the_level_of_bits(settings):
    def mechanism(data, n, rng):
        return rng.integers(9, size=n).astype(np.float32 if data else np.float64)

    assert any("outputs of changing type (float32 and float64)" in note for note in run(mechanism, **settings).notes)
    with pytest.raises(ValueError, match="one type of number on x and x_neighbour at the level of bits"):
        run(mechanism, level="bit", **settings)


def test_the_order_of_bytes_is_part_of_a_type():
    def mechanism(data, n, rng):
        return rng.laplace(size=n).astype(">f8" if data else "<f8")

    with pytest.raises(ValueError, match=r"one type of number on x and x_neighbour at the level of bits.* >f8"):
        run(mechanism, level="bit")


def test_large_integers_are_named_also_where_the_other_data_set_gives_another_type():
    def mechanism(data, n, rng):
        return 2**60 + rng.integers(9, size=n) if data == 0.0 else rng.random(n)

    with pytest.raises(ValueError, match="within 2\\^53"):
        run(mechanism)


@pytest.mark.parametrize("kind, word, quiet", [(np.float32, np.uint32, 0x7FC00000), (np.float16, np.uint16, 0x7E00)])
def test_narrow_floats_are_widened_with_the_content_of_nan(kind, word, quiet):
    words = np.array([quiet + 5, quiet + 6, 0, 1 << (8 * np.dtype(kind).itemsize - 1), 1], dtype=word)
    wide = as_rows((words.view(kind),))[:, 0]
    assert np.isnan(wide[:2]).all() and wide.view(np.uint64)[0] != wide.view(np.uint64)[1]
    assert np.signbit(wide[3]) and wide[4] == float(words.view(kind)[4]) > 0
    signalling = np.array([quiet ^ (quiet & -quiet) | 1], dtype=word).view(kind)
    assert as_rows((signalling,)).view(np.uint64)[0, 0] not in wide.view(np.uint64)


# ------------------------------------------------------------------ order, blocks, workers
@pytest.mark.parametrize("n, ones", [(1, 0), (1, 1), (7, 7), (399, 200), (400, 400), (3_001, 1_777)])
def test_every_run_lands_at_its_coin_and_is_run_once(n, ones):
    label = np.random.default_rng(n).permutation(np.arange(n) < ones)
    seen = []

    def mechanism(data, size, rng):
        seen.append((data, size))
        return np.full(size, data), rng.random((size, 2))

    steps = []
    runner = Runner(mechanism, (10, 11))
    (data, noise), is_tuple = run_both(runner, label, np.random.default_rng(1), progress=steps.append)
    assert is_tuple and np.array_equal(data, 10 + label)
    assert np.unique(noise).size == 2 * n  # no block repeats another; equal by chance: below 1e-8
    assert sum(steps) == n and all(size > 0 for _, size in seen)
    assert sum(size for data, size in seen if data == 11) == ones


def test_blocks_are_of_equal_size_up_to_one_and_only_for_many_runs():
    for n in [*range(3_000), 10**6 + 3]:
        sizes = runs._split(n)
        assert sum(sizes) == n and len(sizes) == (0 if n == 0 else 1 if n < 100 else 4)
        assert not sizes or max(sizes) - min(sizes) <= 1


@pytest.mark.thorough
@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_workers_do_not_change_the_result(delta):
    alone = findings(laplace, n_samples=2_000, delta=delta)
    with joblib.parallel_config(backend="threading"):
        assert findings(laplace, n_samples=2_000, delta=delta, n_jobs=2) == alone
        assert findings(laplace, n_samples=2_000, delta=delta, n_jobs=-1) == alone
        assert findings(laplace, sequential=True, n_jobs=2) == findings(laplace, sequential=True)


class Filling:
    """A mechanism that writes its noise into a large array of its own."""

    def __init__(self):
        self.held = np.zeros(200_000)

    def __call__(self, data, n_samples, rng):
        self.held[:n_samples] = rng.laplace(size=n_samples)
        return data + self.held[:n_samples]


def test_a_large_array_that_a_mechanism_fills_may_be_written_in_workers():
    """Workers are sent a map of it, which was read-only."""
    assert findings(Filling(), n_jobs=2) == findings(Filling(), n_jobs=1)


def test_a_backend_that_gives_no_answers_as_they_come_gives_the_same_ones():
    label = np.arange(1_000) % 2 == 0
    (alone,), _ = run_both(Runner(laplace, (0, 1)), label, np.random.default_rng(3))
    with joblib.parallel_config(backend="multiprocessing"):
        (found,), _ = run_both(Runner(laplace, (0, 1)), label, np.random.default_rng(3), n_jobs=2)
    assert np.array_equal(found, alone)


def test_workers_take_a_mechanism_that_has_no_name_and_their_errors_keep_the_cause():
    place = {os.getpid()}
    label = np.arange(1_000) % 2 == 0

    def elsewhere(data, n, rng):
        return rng.random(n), np.full(n, os.getpid() in place)

    (noise, here), _ = run_both(Runner(elsewhere, (0, 1)), label, np.random.default_rng(3), n_jobs=2)
    assert not here.any()
    assert np.array_equal(noise, run_both(Runner(elsewhere, (0, 1)), label, np.random.default_rng(3))[0][0])

    def fails(data, n, rng):
        if os.getpid() not in place:
            raise ZeroDivisionError("in a worker")
        return laplace(data, n, rng)

    with pytest.raises(RuntimeError, match=r"mechanism raised on x.*: ZeroDivisionError: in a worker"):
        run(fails, n_jobs=2)


class KeepsGenerator:
    def __init__(self):
        self.own = np.random.default_rng(7)

    def __call__(self, data, n, rng):
        return data + self.own.laplace(size=n)


class KeepsGeneratorForOne(KeepsGenerator):
    def __call__(self, data, n, rng):
        return super().__call__(data, n, rng), rng.normal(size=n)


class KeepsGeneratorForSome(KeepsGenerator):
    def __call__(self, data, n, rng):
        return data + np.where(rng.random(n) < 0.5, self.own.laplace(size=n), rng.laplace(size=n))


@pytest.mark.parametrize("kind", [KeepsGenerator, KeepsGeneratorForOne, KeepsGeneratorForSome])
@pytest.mark.parametrize("settings", [{}, {"sequential": True}])
def test_workers_do_not_take_a_mechanism_whose_copies_repeat_each_other(settings, kind):
    """Where one number came from rng, the copies' repeats went unseen, and sound claims were refuted in all audits."""
    assert any("elsewhere" in note for note in run(kind(), **settings).notes)
    with pytest.raises(ValueError, match="from two copies of it, as workers would"):
        run(kind(), n_jobs=2, **settings)


OWN = np.random.default_rng(42)  # as in many a script


def from_the_generator_of_the_module(data, n, rng):
    return data + OWN.laplace(size=n)


def test_workers_do_not_take_a_generator_of_the_module_of_a_mechanism():
    """Every process begins it anew: sequential audits refuted sound claims 8 times of 8."""
    assert any("elsewhere" in note for note in run(from_the_generator_of_the_module).notes)
    with pytest.raises(ValueError, match="from two copies of it, as workers would"):
        run(from_the_generator_of_the_module, n_jobs=2)
    with joblib.parallel_config(backend="threading"):  # where there is one
        assert any("elsewhere" in note for note in run(from_the_generator_of_the_module, n_jobs=2).notes)


def test_workers_take_entropy_of_the_operating_system():
    with joblib.parallel_config(backend="threading"):
        result = run(lambda data, n, rng: data + np.random.default_rng().laplace(size=n), n_jobs=2)
    assert any("elsewhere" in note for note in result.notes)


# ------------------------------------------------------------------ prepare and sample
@pytest.mark.thorough(quick=["settings0"])
@pytest.mark.parametrize("settings", [{}, {"sequential": True}, {"n_samples": 2_000}])
def test_data_are_prepared_once_each_and_the_states_are_sampled(settings):
    prepared_once = Prepared()
    records, fewer = np.array([0.25, 0.75]), np.array([0.0])
    settings = {"epsilon": 0.5, "n_samples": 400} | settings
    found = audit(prepared_once, fewer, records, rng=np.random.default_rng(1), **settings)
    assert [data is known for data, known in zip(prepared_once.seen, (records, fewer), strict=True)] == [True, True]
    assert found.as_dict() == findings(laplace, **settings)


def test_an_error_while_preparing_is_the_cause_and_its_data_set_is_named():
    class Fails(Prepared):
        def prepare(self, data):
            return 1 / data

    with pytest.raises(RuntimeError, match=r"mechanism\.prepare raised on x: ZeroDivisionError") as caught:
        run(Fails())
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_mechanism_that_runs_once_is_sent_to_repeated():
    with pytest.raises(TypeError, match=r"must take \(data, n_samples, rng\), got parameters data, rng; .*repeated"):
        prepared(lambda data, rng: data, 0, 1)
    with pytest.raises(TypeError, match="got parameters data, n, rng, scale"):
        prepared(lambda data, n, rng, scale: data, 0, 1)
    for fits in (lambda data, n, rng, scale=1.0: data, lambda *given: given, np.add.reduce):
        prepared(fits, 0, 1)


def test_half_a_protocol_is_named():
    class OnlySample:
        sample = Prepared.sample

    class NotCallable:
        prepare, sample = Prepared.prepare, 3

    with pytest.raises(TypeError, match="mechanism must be callable"):
        prepared(OnlySample(), 0, 1)
    with pytest.raises(TypeError, match=r"mechanism\.sample must be callable, got 3"):
        prepared(NotCallable(), 0, 1)


def test_a_callable_with_the_protocol_is_prepared():
    class Both(Prepared):
        def __call__(self, data, n, rng):
            raise AssertionError("prepare and sample come first")

    assert run(Both()).n_samples == 400


# ------------------------------------------------------------------ randomness
def stuck(data, n, rng):
    return data + np.random.default_rng(3).laplace(size=n)


@pytest.mark.parametrize("settings", [{}, {"sequential": True}])
def test_a_mechanism_that_ignores_its_generator_is_named(settings):
    with pytest.raises(ValueError, match="mechanism must draw its randomness from rng"):
        run(stuck, **settings)
    with pytest.raises(ValueError, match="must draw its randomness from rng"):
        run(lambda data, n, rng: stuck(data, n, rng) > 0, **settings)  # two values, 2^-64 by chance
    with pytest.raises(ValueError, match="must draw its randomness from rng"):  # failures are values too
        run(lambda data, n, rng: np.where(stuck(0, n, rng) > 0, np.nan, 0.0), **settings)


@pytest.mark.parametrize("ones, named", [(0, False), (1, False), (7, False), (8, True), (32, True), (57, False)])
def test_equal_runs_are_a_fault_if_chance_makes_them_so_less_than_once_in_a_billion(ones, named):
    assert (1 / math.comb(64, ones) < 1e-9 / 2) == named  # of the runs as a whole and of their number
    runner = Runner(lambda data, n, rng: np.arange(n) < ones, (0, 1))
    if named:
        with pytest.raises(ValueError, match="must draw its randomness from rng"):
            probe(runner, np.random.default_rng(1))
    else:
        assert probe(runner, np.random.default_rng(1)) == []


def test_runs_that_coincide_by_chance_are_no_fault():
    # 600 probes; equal ones are rejected where chance makes them below 1e-9: false alarm below 1e-6.
    equal = 0
    for seed in range(200):
        for rare in (1e-3, 0.01, 0.1):
            runner = Runner(lambda data, n, rng, rare=rare: rng.random(n) < rare, (0, 1))
            assert probe(runner, np.random.default_rng((seed, 1))) == []
            state = np.random.default_rng((seed, 1)).integers(2**32, size=(2, 4))
            first, other = (np.random.default_rng(seeds).random(N_PROBES) < rare for seeds in state)
            equal += np.array_equal(first, other)
    assert equal > 100  # so the rule is exercised


def test_randomness_from_elsewhere_is_noted():
    elsewhere = np.random.default_rng(5)
    result = run(lambda data, n, rng: data + elsewhere.laplace(size=n))
    assert any("draws from elsewhere than rng" in note for note in result.notes) and "elsewhere" in str(result)
    assert run(laplace).notes == (NOT_GRIDS, NOT_REGIONS)


@pytest.mark.thorough(quick=["<lambda>-False-None-settings0"])
@pytest.mark.parametrize("settings", [{}, {"sequential": True}])
@pytest.mark.parametrize(
    "mechanism, refuted, note",
    [
        (lambda data, n, rng: np.full((n, 2), np.nan), False, "every run on both data sets failed"),
        (lambda data, n, rng: np.full(n, 7.0), False, "the mechanism is not random"),
        (lambda data, n, rng: np.full(n, 7.0 + data), True, "the mechanism is not random"),
        (lambda data, n, rng: np.full(n, np.nan if data else 7.0), True, "the mechanism is not random"),
        (lambda data, n, rng: np.tile([7.0, np.nan, np.inf], (n, 1)), False, "the mechanism is not random"),
        (lambda data, n, rng: rng.random(n) + 1 if data else np.full(n, 7.0), True, None),
        (lambda data, n, rng: np.where(rng.random(n) < 0.5, np.nan, 7.0), False, None),
    ],
)
def test_outputs_without_randomness_are_noted(mechanism, refuted, note, settings):
    # The sound ones err with probability 1e-4 each, with fixed seeds.
    result = run(mechanism, false_alarm=1e-4, **settings)
    assert result.refuted == refuted
    few = () if refuted else (NOT_REGIONS,) if "sequential" in settings else (NOT_GRIDS, NOT_REGIONS)
    noted = [words for words in result.notes if words not in UNLOOKED]
    assert tuple(words for words in result.notes if words in UNLOOKED) == few
    assert [note is not None and note in words for words in noted] == [True] * (note is not None)
    assert str(result).count("; note: ") == len(result.notes)


def test_the_sign_of_zero_is_random():
    watch = Watch()
    watch.see(np.array([[0.0], [-0.0], [0.0]]), np.array([True, True, False]))
    assert watch.notes("value") == []


def test_a_watch_sees_all_batches_and_both_data_sets():
    watch = Watch()
    for rows, label in (([[1.0]], [True]), ([[2.0], [1.0]], [False, True])):
        watch.see(np.array(rows), np.array(label))
        assert watch.notes("value") == ["the mechanism is not random: each data set has a single output"]
    for last in (1.0, np.nan):
        watch.see(np.array([[last]]), np.array([False]))
        assert watch.notes("value") == []


# ------------------------------------------------------------------ densities and progress
def test_log_ratios_keep_infinities_and_ties():
    y = np.array([0.1, 0.2, 0.3])

    def log_density(outputs, data):
        return np.where(
            outputs > 0.25, (0.0, -np.inf)[data], np.where(outputs < 0.15, (-np.inf, 0)[data], 0.7 - data * 0.1)
        )

    assert np.array_equal(log_ratio(log_density, y, 1, 0, 3), [math.inf, -0.1, -math.inf])
    noisy = np.array([0.1 + 0.2, 0.3])  # a rounding error apart
    assert noisy[0] != noisy[1]
    assert np.unique(log_ratio(lambda outputs, data: outputs * data, noisy, 1, 0, 2)).size == 1


@pytest.mark.parametrize("as_tuple", [False, True])
def test_a_log_density_may_compute_in_its_outputs_but_not_in_the_data(as_tuple):
    def in_place(outputs, data):
        own = outputs[0] if as_tuple else outputs
        own -= data[0]
        np.abs(own, out=own)
        return np.negative(own, out=own)

    y, x, x_neighbour = np.array([0.1, 2.0]), np.array([1.0]), np.array([0.0])
    found = log_ratio(in_place, (y,) if as_tuple else y, x, x_neighbour, 2)
    assert np.array_equal(found, [-0.8, 1.0]) and np.array_equal(y, [0.1, 2.0])

    def careless(outputs, data):
        data += 1
        return -np.abs(outputs[0] - data)

    with pytest.raises(ValueError, match="log_density must leave its data as they are, got other data after a call"):
        log_ratio(careless, (y,), x, x_neighbour, 2)


def test_rows_hold_all_parts_side_by_side():
    found = as_rows((np.array([True, False]), np.arange(8).reshape(2, 2, 2), np.array([0.5, np.inf])))
    assert np.array_equal(found, [[1, 0, 1, 2, 3, 0.5], [0, 4, 5, 6, 7, np.inf]]) and found.dtype == float


@pytest.mark.parametrize("kind", ["none", "closed", "no file"])
def test_a_stderr_that_fails_ends_no_audit(monkeypatch, kind):
    screen = {"none": None, "closed": io.StringIO(), "no file": object()}[kind]
    if kind == "closed":
        screen.close()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_bar(True, 10, "audit") as step:
        step(10)


@pytest.mark.parametrize(
    "columns, shown, terminal, told",
    [(1_000, True, True, True), (999, True, True, False), (1_000, False, True, False), (1_000, True, False, False)],
)
def test_an_audit_that_will_take_long_says_so_before_it_starts(monkeypatch, columns, shown, terminal, told):
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(runs, "run_both", lambda *given, **named: pytest.fail("started"))

    def mechanism(data, n, rng):
        return rng.normal(size=(n, columns))

    with contextlib.suppress(pytest.fail.Exception):
        audit(mechanism, 1, 0, epsilon=1.0, n_samples=200, progress=shown, rng=np.random.default_rng(1))
    assert ("audit: 1,000 numbers of a run to learn from: about 25 s" in screen.getvalue()) == told


@pytest.mark.parametrize("shown, terminal, words", [(True, True, True), (True, False, False), (False, True, False)])
def test_a_bar_is_drawn_on_a_terminal_only(monkeypatch, shown, terminal, words):
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_bar(shown, 10, "audit") as step:
        step(4)
        step(6)
    assert ("audit" in screen.getvalue()) == words == bool(screen.getvalue())


@pytest.mark.parametrize("value", [2**53 + 2, -(2**53) - 2])
def test_integers_whose_low_digits_would_be_lost_are_named(value):
    def secret_in_the_last_digit(data, n, rng):
        return value + rng.integers(2, size=n)

    with pytest.raises(ValueError, match="within 2\\^53"):
        audit(secret_in_the_last_digit, 0, 1, epsilon=1.0, n_samples=1_000, rng=np.random.default_rng(1))


# ------------------------------------------------------------------ data and runs that an audit cannot do with
@pytest.mark.parametrize("make", [iter, lambda values: (v for v in values)])
@pytest.mark.parametrize("wrapped", [lambda m: m, lambda m: repeated(lambda data, rng: m(data, 1, rng)[0])])
def test_data_that_are_gone_once_they_are_read_are_refused(make, wrapped):
    """The first runs would use them up, and all others would compare nothing with nothing."""
    mechanism = wrapped(lambda data, n, rng: sum(data) + rng.laplace(size=n))
    with pytest.raises(TypeError, match="x must be data that every run can read again, got"):
        audit(mechanism, make([1.0, 50.0]), [1.0], epsilon=1.0, n_samples=200)
    with pytest.raises(TypeError, match="x_neighbour must be data that every run can read again, got"):
        audit(mechanism, [1.0], make([1.0, 50.0]), epsilon=1.0, n_samples=200)


def clears(data, n, rng):
    total = float(np.sum(data))
    data[:] = [0.0] * len(data)
    return total + rng.laplace(size=n)


@pytest.mark.parametrize("data", [[1.0, 50.0], np.array([1.0, 50.0])])
@pytest.mark.parametrize("settings", [{}, {"sequential": True}])
def test_data_that_a_mechanism_changes_are_refused(data, settings):
    with pytest.raises(ValueError, match="mechanism must leave its data as they are"):
        audit(clears, data.copy(), [1.0, 1.0], epsilon=1.0, n_samples=200, **settings)


@pytest.mark.parametrize(
    "mechanism",
    [
        lambda d, n, rng: np.full(n, rng.laplace()),
        lambda d, n, rng: (rng.laplace(size=n), np.full((n, 2), rng.laplace())),
        lambda d, n, rng: (rng.laplace(size=n), np.full(n, n)),
    ],
)
def test_a_number_that_all_runs_of_a_call_share_is_refused(mechanism):
    """It would tell blocks of runs apart, and so their labels, whatever the data: a sound claim would be refuted."""
    with pytest.raises(ValueError, match="mechanism must draw every run by itself"):
        run(mechanism)


@pytest.mark.parametrize("entry", [np.ma.array([1.0, 2.0], mask=[True, False]), pd.Series([1.0, 2.0], index=[3, 4])])
def test_masks_and_labels_within_lists_are_refused(entry):
    for mechanism in (lambda d, n, rng: [entry] * n, lambda d, n, rng: (rng.random(n), [[entry]] * n)):
        with pytest.raises(TypeError, match="mechanism must return plain arrays"):
            run(mechanism)
    with pytest.raises(TypeError, match="mechanism must return plain arrays"):
        run(repeated(lambda d, rng: entry))


def test_the_same_data_twice_are_noted():
    for x, y in (([1.0], [1.0]), (np.ones(2), np.ones(2)), ({"a": [1]}, {"a": [1]}), (3, 3)):
        found = audit(lambda d, n, rng: rng.laplace(size=n), x, y, epsilon=1.0, n_samples=100)
        assert found.notes == (SAME_DATA, NOT_GRIDS, NOT_REGIONS)
    assert not runs.prepared(lambda d, n, rng: rng.laplace(size=n), [1.0], [2.0]).same_data


@pytest.mark.parametrize(
    "name, raised",
    [
        ("ending", "SystemExit: 1"),
        ("cancelled", "CancelledError: late"),
        ("exhausted", "StopIteration:"),
        ("wordless", "Wordless:"),
    ],
)
def test_a_mechanism_that_ends_the_program_is_an_error_and_not_a_verdict(name, raised, capsys):
    """Status 1 would say that the claim is refuted; Python gives it for whatever is no Exception."""
    with pytest.raises(RuntimeError, match=f"mechanism raised on x: {raised}"):
        run(globals()[name])
    arguments = ["audit", f"{__name__}:{name}", "0", "1", "--epsilon", "1", "--n-samples", "200"]
    assert main(arguments) == 2 and raised in capsys.readouterr().err


def cancelled(data, n, rng):
    raise asyncio.CancelledError("late")


def wordless(data, n, rng):
    raise Wordless


class Wordless(Exception):
    def __str__(self):
        return str(1 // 0)


def exhausted(data, n, rng):
    next(iter(()))


def ending(data, n, rng):
    sys.exit(1)


@pytest.mark.parametrize(
    "form", [list, tuple, np.ndarray.tolist, np.float32, memoryview, lambda a: array.array("d", a)]
)
def test_what_holds_numbers_alone_is_taken(form):
    assert not run(lambda d, n, r: (form(laplace(d, n, r)), np.zeros(n)), epsilon=1.0).refuted


def from_the_generator_of_the_process(data, n, rng):
    return np.random.random(n)  # noqa: NPY002


def test_forked_workers_do_not_repeat_each_other():
    """They begin with one state of NumPy's own generator, and a sound claim was refuted too often."""
    runner = runs.prepared(from_the_generator_of_the_process, 0.0, 10.0)
    with joblib.parallel_config(backend="multiprocessing"):
        (drawn,), _ = runs.run_both(runner, np.arange(400) % 2 == 0, np.random.default_rng(1), n_jobs=2)
    assert np.unique(drawn).size == 400


def talking(data, n, rng):
    print("a line that is no JSON")
    return data / 10 + rng.laplace(size=n)


def shouting(data, n, rng):
    raise ValueError("two\nlines \x1b[31m")


def test_what_a_mechanism_prints_and_raises_leaves_the_result_alone(capsys):
    arguments = ["audit", f"{__name__}:talking", "0", "1", "--epsilon", "1", "--n-samples", "200", "--json"]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["refuted"] is False and "a line that is no JSON" in printed.err
    assert main([arguments[0], f"{__name__}:shouting", *arguments[2:]]) == 2
    assert "ValueError: two lines \\x1b[31m\n" in capsys.readouterr().err


@pytest.mark.thorough
def test_workers_have_randomness_of_their_own_where_a_module_sets_a_seed():
    """They are seeded anew after the module is imported, and so are the two processes that are looked at before."""
    assert any("elsewhere" in note for note in run(noisy, n_jobs=2).notes)

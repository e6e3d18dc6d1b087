"""Mechanisms that run once: every form of output, failures, runs that differ in form, generators, workers.

The audits of sound mechanisms run at false_alarm = 1e-4 with fixed seeds; there are two, so at most 2e-4 for a false
alarm. Nothing else is random.
"""

from __future__ import annotations

import enum
from array import array
from collections import Counter, OrderedDict, UserList, defaultdict, deque, namedtuple
from dataclasses import dataclass, field

import joblib
import numpy as np
import pytest

from verification import audit, repeated
from verification.__main__ import main
from verification.auditing.outputs import prepared
from verification.profile import privacy_profile


def once(data, rng):
    return data + rng.laplace(scale=0.5)


def run(mechanism, *, n_samples=1_000, seed=1, **settings):
    settings = {"epsilon": 1.0, "false_alarm": 1e-4} | settings
    return audit(mechanism, 0.0, 1.0, n_samples=n_samples, rng=np.random.default_rng(seed), **settings)


@pytest.mark.thorough(quick=["settings0"])
@pytest.mark.parametrize("settings", [{}, {"sequential": True}, {"level": "bit"}])
def test_too_little_noise_is_refuted_and_enough_is_not(settings):
    noise = {"scale": 1 / 16} if settings.get("level") == "bit" else {}

    def broken(data, rng):
        return round((data + rng.laplace(scale=0.2)) * 16) / 16 + 0.0

    def sound(data, rng):
        return data + (rng.geometric(1 - np.exp(-1 / 16)) - rng.geometric(1 - np.exp(-1 / 16))) / 16 + 0.0 * len(noise)

    assert run(repeated(broken), **settings).refuted
    assert not run(repeated(sound), **settings).refuted


@dataclass
class Answer:
    mean: float
    counts: np.ndarray


Pair = namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    "form, shapes",
    [
        (lambda v: v, [()]),
        (lambda v: np.float32(v), [()]),
        (lambda v: np.array([v, 1.0]), [(2,)]),
        (lambda v: [v, 1.0], [(2,)]),
        (lambda v: (v, [1, 2]), [(), (2,)]),
        (lambda v: Pair(v, np.zeros((2, 3))), [(), (2, 3)]),
        (lambda v: {"a": v, "b": True}, [(), ()]),
        (lambda v: Answer(v, np.arange(3)), [(), (3,)]),
        (lambda v: (v, None), [(), ()]),
    ],
)
def test_every_form_of_output_becomes_arrays(form, shapes):
    mechanism = repeated(lambda data, rng: form(once(data, rng)))
    found = mechanism(1.0, 7, np.random.default_rng(1))
    parts = found if isinstance(found, tuple) else (found,)
    assert isinstance(found, tuple) == (len(shapes) > 1)
    assert [part.shape for part in parts] == [(7, *shape) for shape in shapes]
    assert all(part.dtype == np.float64 for part in parts)
    assert len(np.unique(parts[0].reshape(7, -1)[:, 0])) == 7


def test_none_is_the_failure_symbol_whole_or_in_part_and_has_bits_of_its_own():
    def fails(data, rng):
        u = rng.random()
        return None if u < 0.3 else ((u, None) if u < 0.6 else (np.nan, np.ones(2)))

    first, second = repeated(fails)(0, 400, np.random.default_rng(1))
    whole = np.isnan(first) & np.isnan(second).all(axis=1)
    assert 60 < whole.sum() < 180 and second.shape == (400, 2)
    own = np.isnan(first) & ~np.isnan(second).any(axis=1)  # returned np.nan
    assert own.any() and set(first[own].view(np.uint64)).isdisjoint(first[whole].view(np.uint64))


@pytest.mark.parametrize("shy", [0.0, 1.0])
def test_a_data_set_on_which_every_run_fails_is_an_output_and_not_an_error(shy):
    result = run(repeated(lambda data, rng: None if data == shy else np.zeros(3)), n_samples=400)
    assert result.refuted


def test_exceptions_end_the_audit_unless_they_are_outputs():
    def fails(data, rng):
        if rng.random() < 0.2:
            raise KeyError("a") if data else ZeroDivisionError("b")
        return rng.random()

    with pytest.raises(RuntimeError, match=r"mechanism(\.prepare)? raised on x"):
        run(repeated(fails))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run(repeated(fails, failures=(KeyError,)))
    assert run(repeated(fails, failures=(KeyError, ArithmeticError))).refuted  # which one it was tells
    value, kind = repeated(fails, failures=(KeyError, ArithmeticError))(1.0, 200, np.random.default_rng(1))
    assert set(kind) == {0, 2} and np.array_equal(np.isnan(value), kind == 2)


@pytest.mark.parametrize(
    "mechanism, message",
    [
        (lambda data, rng: np.zeros(rng.integers(1, 4)), r"runs of one shape \(pad with NaN\), got"),
        (lambda data, rng: [[1.0], [1.0, 2.0]], r"runs of one shape \(pad with NaN\)"),
        (lambda data, rng: rng.integers(9) if rng.random() < 0.5 else rng.random(), "one type of number in every run"),
        (lambda data, rng: 1 if data else 1.0, "one type of number in every run, got"),
        (lambda data, rng: [[1 if data else 1.0, 2.5]], "one type of number in every run, got"),
        (lambda data, rng: {"a": (1 if data else 1.0, 2.5)}, "one type of number in every run, got"),
        (lambda data, rng: ((1 if data else 1.0, 2.5),), "one type of number in every run, got"),
        (lambda data, rng: {"a": (1.0, 2.5) if data else [1.0, 2.5]}, "one type of number in every run, got"),
        (lambda data, rng: np.array([1.0]).astype(">f8" if data else "<f8"), "one type of number in every run, got"),
        (lambda data, rng: np.float32(1.5) if data else 1.5, "one type of number in every run, got"),
        (lambda data, rng: np.array(1.5) if data else 1.5, "one type of number in every run, got"),
        (lambda data, rng: array("d" if data else "f", [1.5]), "one type of number in every run, got array of"),
        (lambda data, rng: array("d", [1.5]) if data else np.array([1.5]), "one type of number in every run, got"),
        (lambda data, rng: Tensor(1.5, "f4" if data else "f8"), "one type of number in every run, got Tensor of"),
        (lambda data, rng: [np.array([1.5])] if data else [[1.5]], "list of ndarray of float64|list of list of float"),
        (lambda data, rng: (1.0,) if data else 1.0, "the same parts in every run"),
        (lambda data, rng: OrderedDict(a=1.0) if data else {"a": 1.0}, "in every run, got dict .* and OrderedDict|Ord"),
        (lambda data, rng: defaultdict(int if data else float, a=1.5), "the same parts in every run"),
        (lambda data, rng: (Pair if data else namedtuple("Pair", "a b"))(1.0, 2.0), "the same parts in every run"),
        (lambda data, rng: {1: 1.0} if data else {1.0: 1.0}, "the same parts in every run"),
        (lambda data, rng: {0.0: 1.0} if data else {-0.0: 1.0}, "the same parts in every run"),
        (lambda data, rng: {"a": 1.0, "b": 2.0} if data else {"b": 2.0, "a": 1.0}, "the same parts in every run"),
        (lambda data, rng: (), "at least one number per run"),
        (lambda data, rng: {}, "at least one number per run"),
    ],
)
def test_runs_that_differ_in_form_are_refused(mechanism, message):
    with pytest.raises(ValueError, match=message):
        run(repeated(mechanism))


class Tensor:
    """As those of other libraries: an array by what it offers."""

    def __init__(self, value, dtype):
        self.value = np.array(value, dtype)
        self.dtype = self.value.dtype

    def __array__(self, dtype=None, copy=None):
        return np.array(self.value, dtype)

    def __dlpack__(self, **kwargs):
        return self.value.__dlpack__(**kwargs)


def with_secret(kind, *values):
    """An output of a class that may carry more than its numbers, and does."""
    found = type(kind.__name__, (kind,), {})(*values)
    found.secret = 1.0
    return found


def in_a_slot(kind, *values, slot="secret"):
    found = type(kind.__name__, (kind,), {"__slots__": (slot,)})(*values)
    setattr(found, slot if slot == "secret" else f"_{kind.__name__}{slot}", 1.0)
    return found


@pytest.mark.parametrize(
    "output",
    [
        with_secret(float, 1.5),
        with_secret(np.float64, 1.5),
        with_secret(tuple, (1.5, 2.5)),
        with_secret(list, [1.5, 2.5]),
        [with_secret(float, 1.5), 2.5],
        with_secret(dict, {"a": 1.5}),
        with_secret(Answer, 1.5, 2.5),
        {"a": with_secret(list, [1.5])},
        np.zeros(2, np.dtype("f8", metadata={"secret": 1})),
        in_a_slot(list, [1.5, 2.5]),
        in_a_slot(dict, {"a": 1.5}),
        in_a_slot(Answer, 1.5, 2.5),
        in_a_slot(Answer, 1.5, 2.5, slot="__private"),
        defaultdict(lambda: 1.5, a=1.5),
        UserList([1.5]),
        deque([1.5]),
    ],
    ids=lambda output: type(output).__name__,
)
def test_what_is_put_on_an_output_beside_its_numbers_is_refused(output):
    with pytest.raises(TypeError, match=r"mechanism must return .* (would go unseen|tuples of them, got a)"):
        run(repeated(lambda data, rng: output))


@pytest.mark.parametrize("other", [int, bool, np.float32])
def test_runs_of_several_types_in_a_list_are_refused(other):
    """NumPy makes them one type, and the type told which data it was."""
    with pytest.raises(ValueError, match=f"one type of number in every run, got float and {other.__name__}"):
        run_many(lambda data, n, rng: [1.0, *([other(1) if data else 1.0] * (n - 1))])


def run_many(mechanism):
    return audit(mechanism, 0.0, 1.0, epsilon=1.0, n_samples=200, rng=np.random.default_rng(1))


@pytest.mark.thorough
def test_classes_made_in_the_mechanism_are_one_class():
    def makes(kind):
        def mechanism(data, rng):
            @dataclass
            class Own:
                a: float

            forms = {"namedtuple": namedtuple("Own", "a"), "dataclass": Own, "counter": lambda a: Counter(a=a)}
            return forms[kind](data + rng.laplace(scale=0.1))

        return mechanism

    for kind in ("namedtuple", "dataclass", "counter"):
        assert run(repeated(makes(kind))).refuted


def test_numbers_of_numpy_and_python_may_take_turns():
    for one, other in ((float, np.float64), (int, np.int64), (bool, np.bool_)):
        assert run(repeated(lambda data, rng: (one if rng.random() < 0.5 else other)(data))).refuted  # noqa: B023


@pytest.mark.parametrize("output", ["text", 1j, np.longdouble(1), object(), np.ma.masked_array([1.0], [True])])
def test_outputs_that_are_no_numbers_are_refused(output):
    with pytest.raises((TypeError, RuntimeError), match="mechanism must return"):
        run(repeated(lambda data, rng: output))


def rare(rate, form):
    return repeated(lambda data, rng: form(data + rng.laplace(size=3)) if rng.random() < rate else None)


@pytest.mark.parametrize("form", [lambda v: v, lambda v: (v, v[0]), lambda v: {"a": v}])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_runs_of_which_few_succeed_have_a_form(form, n_jobs):
    """A few runs do not show it; blocks without any success have it all the same."""
    assert run(rare(0.004, form), n_jobs=n_jobs).n_samples == 1_000


def test_where_success_is_rarer_than_that_the_error_says_what_to_return():
    with pytest.raises(ValueError, match="must return NaN in the form of a success, not None"):
        run(rare(2e-4, lambda v: v), n_samples=40_000)
    with pytest.raises(ValueError, match="must return NaN in the form of a success, not None"):
        run(rare(2e-4, lambda v: (v, v)), n_samples=40_000)
    assert run(rare(2e-4, lambda v: v[0]), n_samples=20_000).n_samples == 20_000  # a number has no shape


def test_data_that_a_run_changes_are_refused():
    def greedy(data, rng):
        data += rng.laplace(size=2)
        return data.sum()

    with pytest.raises(ValueError, match="must leave its data as they are"):
        audit(repeated(greedy), np.zeros(2), np.ones(2), epsilon=1.0, n_samples=200)


@pytest.mark.parametrize(
    "mechanism, way",
    [
        (lambda data, rng: rng, "by name"),
        (lambda data, *, rng=None: rng, "by name"),
        (lambda data, generator: generator, "by place"),
        (lambda *given: given[1], "by place"),
        (lambda data, scale=1.0: 0, "not at all"),
        (max, "by place"),
    ],
)
def test_the_generator_goes_where_the_mechanism_takes_it(mechanism, way):
    assert repeated(mechanism).way == way


def test_a_mechanism_that_takes_no_generator_is_noted():
    own = np.random.default_rng(3)
    result = run(repeated(lambda data: data + own.laplace()), n_samples=300)
    assert any("elsewhere than rng" in note for note in result.notes)
    stuck = run(repeated(lambda data: data + np.random.default_rng(1).laplace()), n_samples=300)
    assert any("the mechanism is not random" in note for note in stuck.notes)


def test_runs_are_independent_whatever_a_mechanism_does_to_its_generator():
    def seeds_again(data, rng):
        return np.random.default_rng(rng.bit_generator.seed_seq).random()

    assert np.unique(repeated(seeds_again)(0, 300, np.random.default_rng(1))).size == 300


def test_workers_do_not_change_the_result_and_progress_moves_in_small_steps():
    alone = run(repeated(once)).as_dict()
    with joblib.parallel_config(backend="threading"):
        assert run(repeated(once), n_jobs=2).as_dict() == alone
    assert prepared(repeated(once), 0.0, 1.0).blocks == 50


def test_a_profile_and_densities_take_it_too():
    def log_density(outputs, data):
        return -2 * np.abs(outputs - data)

    profile = privacy_profile(
        repeated(once), 0.0, 1.0, log_density=log_density, n_samples=1_000, rng=np.random.default_rng(1)
    )
    assert profile.epsilon_lower(0.0) == pytest.approx(2.0)
    assert run(repeated(once), log_density=log_density).refuted


@pytest.mark.parametrize(
    "arguments, message",
    [
        (((3,), {}), "mechanism must be callable"),
        (((lambda: 1,), {}), r"mechanism must take \(data, rng\) or \(data\)"),
        (((lambda a, b, c: 1,), {}), r"mechanism must take \(data, rng\) or \(data\)"),
        (((lambda rng, d: 1,), {}), r"mechanism must take \(data, rng\) or \(data\), got parameters rng, d"),
        (((lambda *, data, rng: 1,), {}), r"mechanism must take \(data, rng\) or \(data\), got parameters data, rng"),
        (((once,), {"failures": KeyError}), "failures must be a tuple of exception types"),
        (((once,), {"failures": (KeyboardInterrupt,)}), "failures must be a tuple of exception types"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(TypeError, match=message):
        repeated(*arguments[0], **arguments[1])


def test_the_command_line_takes_it_too(capsys):
    arguments = [
        "audit",
        f"{__name__}:once",
        "0",
        "1",
        "--epsilon",
        "1",
        "--n-samples",
        "1000",
        "--seed",
        "1",
        "--once",
    ]
    assert main(arguments) == 1
    assert "refuted" in capsys.readouterr().out


def test_on_another_pair_the_form_may_be_another_one():
    mechanism = repeated(lambda data, rng: np.asarray(data) + rng.laplace(scale=0.3, size=len(data)))
    found = [
        audit(mechanism, [1.0] * d, [1.0] * (d - 1) + [2.0], epsilon=1.0, n_samples=1_000, rng=np.random.default_rng(d))
        for d in (1, 3)
    ]
    assert all(result.refuted for result in found)


def test_the_type_of_an_entry_of_a_list_is_an_output_too():
    def tells(data, rng):
        return [1 if data else 1.0, float(rng.laplace())]

    with pytest.raises(ValueError, match="one type of number in every run"):
        audit(repeated(tells), 1, 0, epsilon=1.0, n_samples=1_000, rng=np.random.default_rng(1))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_narrow_nan_is_a_failure_as_any_other(kind):
    """One of 32 bits had another shape than the numbers, and ended the audit."""

    def rare(data, rng):
        return kind("nan") if rng.random() < 0.05 else kind(data + rng.laplace())

    assert run(repeated(rare), level="bit" if kind is np.float64 else "value").n_samples == 1_000


@dataclass(frozen=True)
class Key:
    text: str
    secret: float = field(repr=False, default=0.0)


class Text(str):
    pass


@pytest.mark.parametrize("key", [Key("a"), Text("a"), np.float64(1.0), ("a", Key("a")), frozenset()])
def test_keys_of_which_more_than_their_text_may_differ_are_refused(key):
    """A key may hold the record, and was compared by what it prints."""
    with pytest.raises(TypeError, match="dicts whose keys are texts, numbers or tuples of them, got a key of type"):
        run(repeated(lambda data, rng: {key: rng.laplace()}))


class Kind(enum.Enum):
    A = 1


def test_plain_keys_are_taken_and_the_content_of_nan_is_a_part_of_one():
    assert run(repeated(lambda data, rng: {(Kind.A, 1, None, "a", 0.5): rng.laplace()})).n_samples == 1_000
    nans = np.array([0x7FF8000000000000, 0x7FF8000000000001], dtype=np.uint64).view(float).tolist()
    with pytest.raises(ValueError, match="the same parts in every run"):
        run(repeated(lambda data, rng: {nans[int(data)]: rng.laplace()}))

"""Data of every kind: a mechanism that changes them is refused, one that reads them is not, and equal data are noted.

Nothing here can raise a false alarm.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from verification import repeated
from verification.auditing import outputs as runs
from verification.auditing.audit import audit
from verification.auditing.data_digest import digest
from verification.auditing.features.phases import NOT_GRIDS
from verification.auditing.probing import ELSEWHERE, SAME_DATA
from verification.auditing.scores import NOT_REGIONS


def changes(data, step):
    """One change in place, of each kind of container."""
    if isinstance(data, pd.Series):
        data.iloc[0] += step
    elif isinstance(data, (list, np.ndarray)):
        data[0] = data[0] + step
    elif isinstance(data, set):
        data.add(max(data) + step)
    elif isinstance(data, dict):
        data["a"] = data["a"] + step
    elif isinstance(data, pd.DataFrame):
        data.loc[0, "a"] += step
    elif isinstance(data, pl.DataFrame):
        data[0, "a"] = data["a"].sum() + step
    elif sparse.issparse(data):
        data.data[0] += step
    elif isinstance(data, tuple):
        changes(data[0], step)
    else:
        data.a = data.a + step


def index(*labels, name=None):
    return pd.Series([1.0, 2.0], index=pd.Index(labels, name=name))


def labelled(note):
    array = np.ones(2).view(Labelled)
    array.note = note
    return array


def with_cache(data):
    object.__setattr__(data, "_cached", 3.0)
    return data


def described(note):
    return pa.table({"a": [1]}).replace_schema_metadata({"note": note})


DAYS = pd.date_range("2020-01-01", periods=3)


@dataclass
class Records:
    a: float


class Slots:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


class Labelled(np.ndarray):
    """An array of a class of its own."""


MAKES = {
    "array": lambda: np.ones(2),
    "array of a class": lambda: np.ones(2).view(Labelled),
    "list": lambda: [1.0, {"b": None}],
    "dict": lambda: {"a": 1.0, "b": [1, "c"]},
    "set": lambda: {1.0, 2.0},
    "tuple": lambda: ([1.0], "b"),
    "frame": lambda: pd.DataFrame({"a": [1.0, 2.0], "b": ["x", None], "c": pd.Categorical(["u", "v"])}),
    "series": lambda: pd.Series([1.0, 2.0], index=["a", "b"]),
    "polars": lambda: pl.DataFrame({"a": [1.0, 2.0], "b": ["x", None]}),
    "sparse": lambda: sparse.csr_array(np.eye(3)),
    "dataclass": lambda: Records(1.0),
    "slots": lambda: Slots(1.0),
    "object": lambda: SimpleNamespace(a=1.0),
    "nested": lambda: (SimpleNamespace(a=1.0), [pd.DataFrame({"a": [1.0]})]),
}
READ_ONLY = {"arrow": lambda: pa.table({"a": [1.0, None], "b": ["x", "y"]}), "index": lambda: pd.Index(["a", "b"])}


@pytest.mark.parametrize("kind", MAKES)
@pytest.mark.parametrize("changed", ["x", "x_neighbour"])
@pytest.mark.parametrize("settings", [{}, {"sequential": True}])
def test_data_of_any_kind_that_a_mechanism_changes_are_refused_on_either_data_set(kind, changed, settings):
    """It would leak at the first run only, and all others would compare nothing with nothing."""
    x, x_neighbour = MAKES[kind](), MAKES[kind]()
    changes(x, 5.0)
    target = {"x": x, "x_neighbour": x_neighbour}[changed]

    def mechanism(data, n, rng):
        if data is target:
            changes(data, 1.0)
        return rng.laplace(size=n)

    for given in (mechanism, repeated(lambda data, rng: mechanism(data, 1, rng)[0])):
        with pytest.raises(ValueError, match="mechanism must leave its data as they are"):
            audit(given, x, x_neighbour, epsilon=1.0, n_samples=200, **settings)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_data_that_are_changed_late_are_refused(n_jobs):
    """After the runs that look at randomness, and in workers, whose data are copies."""

    def mechanism(data, n, rng):
        if n > 64:
            data[0] += 1.0
        return rng.laplace(size=n)

    with pytest.raises(ValueError, match="mechanism must leave its data as they are"):
        audit(mechanism, [1.0], [2.0], epsilon=1.0, n_samples=1_000, n_jobs=n_jobs)


@pytest.mark.parametrize("kind", [*MAKES, *READ_ONLY])
def test_reading_changes_nothing_and_equal_data_are_noted(kind):
    make = (MAKES | READ_ONLY)[kind]

    def mechanism(data, n, rng):
        for name in ("describe", "to_numpy", "mean", "to_pandas", "sort_indices", "has_canonical_format"):
            attribute = getattr(data, name, None)
            with contextlib.suppress(TypeError, ValueError):
                attribute()
        return rng.laplace(size=n)

    found = audit(mechanism, make(), make(), epsilon=1.0, n_samples=100)
    assert found.notes == (SAME_DATA, NOT_GRIDS, NOT_REGIONS)


@pytest.mark.parametrize(
    "x, y, same",
    [
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True),
        ([{"a": pd.DataFrame({"c": [1]})}], [{"a": pd.DataFrame({"c": [1]})}], True),
        ({8, 0}, {0, 8}, True),
        (pa.chunked_array([[1], [2]]), pa.chunked_array([[1, 2]]), True),
        ([0.0], [-0.0], False),
        ([1], [1.0], False),
        ([1, [2]], [1, 2], False),
        (pd.DataFrame({"a": [1.0]}), pd.DataFrame({"a": [2.0]}), False),
        (pd.DataFrame({"a": [1.0]}), pd.DataFrame({"b": [1.0]}), False),
        (pd.Series([1.0], index=["a"]), pd.Series([1.0], index=["b"]), False),
        (pd.Series([1.0], name="a"), pd.Series([1.0], name="b"), False),
        (pd.Series([1, None], dtype="Int64"), pd.Series([1, 1], dtype="Int64"), False),
        (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[0, 0]), False),
        (np.array([1, "a"], dtype=object), np.array([1, "b"], dtype=object), False),
        (np.zeros((2, 1)), np.zeros((1, 2)), False),
        (Records(1.0), Records(2.0), False),
        (index("a", "b"), index("a", "b"), True),
        (index("a", "b", name="c"), index("a", "b", name="d"), False),
        (pd.Series([1.0], name=1), pd.Series([1.0], name=1.0), False),
        (pd.Series(DAYS, index=DAYS), pd.Series(DAYS, index=pd.DatetimeIndex(list(DAYS))), False),
        (pd.Series(pd.Categorical(["u"])), pd.Series(pd.Categorical(["u"], ordered=True)), False),
        (pd.Series([1.0]), pd.Series([1.0]).set_flags(allows_duplicate_labels=False), False),
        (described("c"), described("c"), True),
        (described("c"), described("d"), False),
        (with_cache(pd.DataFrame({"a": [1]})), pd.DataFrame({"a": [1]}), False),
        (with_cache(pd.Series([1])), pd.Series([1]), False),
        (with_cache(sparse.csr_array(np.eye(2))), sparse.csr_array(np.eye(2)), False),
        (sparse.csr_array(np.eye(2)), sparse.csr_array(np.eye(2)), True),
        (labelled("c"), labelled("c"), True),
        (labelled("c"), labelled("d"), False),
        (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[0, 1], fill_value=7), False),
        (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[0, 1], hard_mask=True), False),
        (np.ones(2), np.ones(2, dtype=np.dtype("f8", metadata={"c": 1})), False),
        (lambda row: row + 1, lambda row: row + 1, True),
        (lambda row: row + 1, lambda row: row + 2, False),
        (lambda row: min(row), lambda row: max(row), False),
        (lambda row: [v + 1 for v in row], lambda row: [v + 2 for v in row], False),
    ],
)
def test_which_data_are_the_same(x, y, same):
    assert runs.same_data(x, y) == same and not runs.same_data(x, repr(x))


@pytest.mark.parametrize("data", [[threading.Lock()], {"a": (i for i in [1.0])}])
def test_data_that_cannot_be_looked_at_are_refused(data):
    mechanism = lambda data, n, rng: rng.laplace(size=n)  # noqa: E731
    with pytest.raises(TypeError, match="x must be data of which an audit can see"):
        audit(mechanism, data, [1.0], epsilon=1.0, n_samples=200)
    with pytest.raises(TypeError, match="x_neighbour must be data of which an audit can see"):
        audit(mechanism, [1.0], data, epsilon=1.0, n_samples=200)


def test_data_within_themselves_and_shared_many_times_have_a_digest():
    circle, shared = [1.0], [1.0]
    circle.append(circle)
    for _ in range(100):
        shared = [shared, shared]
    assert digest(circle) == digest(circle) and digest(shared) != digest(circle)
    deep = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(TypeError, match=r"x must be data .*nested too deeply"):
        audit(lambda data, n, rng: rng.laplace(size=n), deep, [1.0], epsilon=1.0)


def test_a_number_that_runs_share_on_one_data_set_only_is_refused():
    with pytest.raises(ValueError, match="in all 64 runs of a call on x_neighbour"):
        audit(lambda d, n, rng: rng.laplace(size=n) if d else np.full(n, rng.random()), 1, 0, epsilon=1.0)
    noise = np.random.default_rng(1)
    own = lambda d, n, rng: (rng if d else np.random.default_rng(3)).laplace(size=n)  # noqa: E731
    with pytest.raises(ValueError, match="the same numbers in runs on x_neighbour from two generators"):
        audit(own, 1, 0, epsilon=1.0)
    notes = audit(lambda d, n, rng: (rng if d else noise).laplace(size=n), 1, 0, epsilon=1.0, n_samples=100).notes
    assert notes == (ELSEWHERE, NOT_GRIDS, NOT_REGIONS)

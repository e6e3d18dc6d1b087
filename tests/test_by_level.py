"""A mixture for each level of a column of categories: at the price of one, and nothing lost or spent on bad input."""

import contextlib
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray

import pm_dpgmm as dpg
from pm_dpgmm import by_level
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.records import categories
from pm_dpgmm.records.categories import table_of_file
from tests.builders.query import Query

LEVELS = ("f", "m", "x")
BOUNDS = {"height": (100, 230), "weight": (20, 200)}
ASKED = {"by": "sex", "levels": LEVELS, "epsilon": 1.0, "delta": 1e-6, "bounds": BOUNDS, "progress": False}


def people(n=6_000, seed=1):
    rng = np.random.default_rng(seed)
    sex = rng.choice(LEVELS, n, p=[0.5, 0.4, 0.1])
    middle = np.array([[165.0, 63.0], [178.0, 80.0], [170.0, 70.0]])[[LEVELS.index(one) for one in sex]]
    rows = rng.normal(middle, [6.0, 9.0])
    return pd.DataFrame({"height": rows[:, 0], "sex": sex, "weight": rows[:, 1]})


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def releases(table):
    return dpg.fit_levels(table, 1, random_seed=1, **ASKED)


def test_levels_have_their_means_and_shares(releases, table):
    for level in LEVELS:
        true = table.loc[table["sex"] == level, ["height", "weight"]].mean()
        assert np.allclose(releases[level].means[0], true, atol=4.0), level
    assert np.allclose(releases.shares, [0.5, 0.4, 0.1], atol=0.03) and releases.shares.sum() == pytest.approx(1)
    assert releases.feature_names == ("height", "weight") and list(releases) == list(LEVELS) and len(releases) == 3


def test_the_whole_has_the_guarantee_of_one_level(releases, tmp_path):
    assert not releases.private and not releases.guarantee.private  # a known seed
    assert releases.guarantee.neighbouring is Neighbouring.ADD_REMOVE
    assert (releases.guarantee.epsilon, releases.guarantee.delta) == (1.0, 1e-6)
    one = releases["f"].guarantee
    assert releases.guarantee.curve([0.3, 1.0]).tolist() == one.curve([0.3, 1.0]).tolist()
    assert all(release.n_records is None for release in releases.values())


def test_the_ledger_is_charged_once(table, tmp_path):
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.5, delta=1e-5, neighbouring="add-remove")
    dpg.fit_levels(table, 1, ledger=ledger, random_seed=1, **ASKED)
    assert ledger.spent == (1.0, 1e-6)


def test_every_kind_of_table_gives_the_same_bits(releases, table):
    codes = {level: place for place, level in enumerate(LEVELS)}
    kinds = {
        "polars": pl.from_pandas(table),
        "arrow": pa.Table.from_pandas(table, preserve_index=False),
        "categorical": table.astype({"sex": "category"}),
        "another index": table.set_axis(table.index[::-1] * 2),
    }
    for name, kind in kinds.items():
        again = dpg.fit_levels(kind, 1, random_seed=1, **ASKED)
        for level in LEVELS:
            assert again[level].means.tolist() == releases[level].means.tolist(), name
    numbers = table[["height", "weight"]].to_numpy()
    asked = ASKED | {"by": table["sex"].map(codes), "levels": [0, 1, 2], "columns": ["height", "weight"]}
    again = dpg.fit_levels(numbers, {0: 1, 1: 1, 2: [1]}, random_seed=1, **asked)
    assert again.by == "sex" and again[2].means.tolist() == releases["x"].means.tolist()
    rows = xarray.DataArray(numbers, dims=("patient", "what"), coords={"what": ["height", "weight"]})
    asked = ASKED | {"by": xarray.DataArray(table["sex"].to_numpy(), dims="patient")}
    again = dpg.fit_levels(rows, 1, random_seed=1, **asked)
    assert again.by == "level" and again["x"].means.tolist() == releases["x"].means.tolist()


def test_a_file_gives_the_bits_of_its_numbers(releases, table, tmp_path):
    """Numbers of a .csv file are read from their own texts, which a parser that chooses types of columns need not do."""
    table.to_csv(tmp_path / "people.csv", index=False)
    table.to_parquet(tmp_path / "people.parquet", index=False)
    for name in ("people.csv", "people.parquet"):
        again = dpg.fit_levels(tmp_path / name, 1, random_seed=1, **ASKED)
        for level in LEVELS:
            assert again[level].means.tolist() == releases[level].means.tolist(), name
    codes = table.assign(sex=table["sex"].map({"f": 0, "m": 1, "x": 2}), left=True, note="n/a")
    codes.to_csv(tmp_path / "codes.csv", index=False)
    codes.to_parquet(tmp_path / "codes.parquet", index=False)
    asked = ASKED | {"levels": [0, 1, 2], "columns": iter(["height", "weight"])}
    again = dpg.fit_levels(str(tmp_path / "codes.csv"), 1, random_seed=1, **asked)
    assert again.by == "sex" and again[2].means.tolist() == releases["x"].means.tolist()
    codes.assign(left="TRUE").to_csv(tmp_path / "words.CSV", index=False)
    for name in ("codes.csv", "codes.parquet", "words.CSV"):
        table = table_of_file(tmp_path / name, "left", (False, True), ["height"])
        assert table["left"].tolist() == [True] * 6_000 and list(table) == ["height", "left"]


def test_levels_of_a_text_file_are_different_as_texts(table, tmp_path):
    """The last of them had all rows, and the other was noise."""
    codes = table.assign(sex=(table["sex"] == "f").astype(int))
    codes.to_csv(tmp_path / "codes.csv", index=False)
    codes.to_parquet(tmp_path / "codes.parquet", index=False)
    for levels in ([0, 1, "1"], [0, "1", 1], [True, "true", 0]):
        with pytest.raises(ValueError, match="levels must be different from each other as texts"):
            dpg.fit_levels(tmp_path / "codes.csv", 1, **ASKED | {"levels": levels})
    found = table_of_file(tmp_path / "codes.parquet", "sex", [0, 1, "1"], None)
    assert found["sex"].tolist() == codes["sex"].tolist()


def test_a_file_that_grows_while_it_is_read_is_refused(table, tmp_path, monkeypatch):
    table.to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.setattr(categories, "labels_of_file", lambda path, name: (["f"] * 5_999, tuple(table)))
    with pytest.raises(ValueError, match="X must stay as it is while it is read, got 5999 rows and then 6000"):
        dpg.fit_levels(tmp_path / "people.csv", 1, **ASKED)


FILES = {
    "no such column": ({"by": "gender"}, ValueError, "by must be the name of a column of X, got 'gender' and the colu"),
    "labels of their own": ({"by": ["f", "m"]}, TypeError, "by must be the name of a column where X is a file, got"),
    "categories as numbers": ({"columns": ["height", "sex"]}, ValueError, "columns must be of numbers, without that"),
    "columns that are not there": ({"columns": ["size"]}, ValueError, "columns must be among"),
    "columns that are a text": ({"columns": "height"}, TypeError, "columns must be a sequence of column names"),
    "columns that are a number": ({"columns": 3}, TypeError, "columns must be a sequence of column names, got 3"),
    "a label that is no level": ({"levels": ("f", "m")}, ValueError, r"by must be among the levels \('f', 'm'\), got"),
    "other text": ({"by": "weight", "levels": ["1", "2"]}, TypeError, "X must be numeric, got text in column 'sex'"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_that_do_not_fit_are_refused_before_anything_is_spent(case, kind, table, tmp_path):
    changed, error, words = FILES[case]
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5, neighbouring="add-remove")
    place = tmp_path / f"people.{kind}"
    table.to_csv(place, index=False) if kind == "csv" else table.to_parquet(place, index=False)
    with pytest.raises(error, match=words.replace("text in", "(text|values of other types) in")):
        dpg.fit_levels(place, 1, ledger=ledger, **ASKED | changed)
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("changed", LEVELS)
def test_no_level_sees_the_records_of_another(changed, releases, table):
    """With one seed the fits of all other levels have the same bits: noise does not tell of records either."""
    moved = table.copy()
    moved.loc[moved["sex"] == changed, ["height", "weight"]] += 7.0
    moved = pd.concat([moved, moved[moved["sex"] == changed].iloc[:50]])
    again = dpg.fit_levels(moved, 1, random_seed=1, **ASKED)
    for level in set(LEVELS) - {changed}:
        assert {name: values.tolist() for name, values in again[level].raw.items()} == {
            name: values.tolist() for name, values in releases[level].raw.items()
        }
    assert again[changed].means[0, 0] > releases[changed].means[0, 0] + 4


BAD = {
    "a label that is no level": ({"levels": ("f", "m")}, ValueError, r"by must be among the levels \('f', 'm'\), got"),
    "one level": ({"levels": ["f"]}, ValueError, "levels must be 2 to 1000, got 1"),
    "levels twice": ({"levels": ["f", "m", "x", "f"]}, ValueError, "levels must be different from each other"),
    "levels in no order": ({"levels": set(LEVELS)}, TypeError, "levels must be a sequence of texts"),
    "levels of floats": ({"levels": [0.5, 1.5]}, TypeError, "got 0.5 among them"),
    "no such column": ({"by": "gender"}, ValueError, "by must be the name of a column of X, or labels of the rows"),
    "labels in no order": ({"by": set(LEVELS)}, TypeError, "by must be the name of a column of X, or labels of the"),
    "labels as keys": ({"by": dict.fromkeys(LEVELS)}, TypeError, "by must be the name of a column of X, or labels"),
    "labels too few": ({"by": ["f", "m"]}, ValueError, "by must have a label for each of 6000 rows, got 2"),
    "no labels": ({"by": None}, TypeError, "by must be the name of a column"),
    "categories as numbers": ({"columns": ["height", "sex"]}, ValueError, "columns must be of numbers"),
    "another relation": ({"neighbouring": "replace-one"}, TypeError, "neighbouring must be left out, a replaced"),
    "a checkpoint": ({"checkpoint": "x.json"}, TypeError, "checkpoint must be left out"),
    "another method": ({"method": "em"}, ValueError, "method must be"),
    "no budget": ({"epsilon": 0.0}, ValueError, "epsilon must be"),
    "a number for some levels": ({"n_components": {"f": 1}}, ValueError, "n_components must be a number, or a dict"),
    "a later number that the method cannot choose from": (
        {"n_components": {"f": 1, "m": (1, 2), "x": 1}, "method": "histogram"},
        ValueError,
        "n_components must be an int",
    ),
    "a name of a column": (
        {"X": people()[["height", "weight"]], "by": pd.Series(people()["sex"], name="height")},
        ValueError,
        "by must have another name than the columns",
    ),
    "labels of another index": (
        {"by": people()["sex"].set_axis(range(1, 6_001)), "columns": ["height"]},
        ValueError,
        "by must have the index of X",
    ),
    "labels of another index of xarray": (
        {
            "by": xarray.DataArray(people()["sex"].to_numpy()[::-1], dims="row", coords={"row": range(6_000)[::-1]}),
            "columns": ["height"],
        },
        ValueError,
        "by must have the index of X",
    ),
    "a query": ({"X": Query()}, TypeError, "X must be a table in memory, got Query; collect it first"),
    "a dictionary": ({"X": {"height": [1.0]}}, TypeError, "X must be a data frame, Arrow table or array in memory"),
    "too many levels": ({"levels": range(1_001)}, ValueError, "levels must be 2 to 1000, got 1001"),
    "a level of 65 bits": ({"levels": [1, 2**63]}, ValueError, "levels must be integers of 64 bits, got 922"),
    "labels of no kind": ({"by": [b"f"] * 6_000}, ValueError, "by must be among the levels"),
    "an unknown setting": ({"order_of": 3}, TypeError, "settings of method 'sketch' must be among"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_before_anything_is_spent(case, table, tmp_path):
    changed, error, words = BAD[case]
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5, neighbouring="add-remove")
    with pytest.raises(error, match=words):
        dpg.fit_levels(**({"X": table, "n_components": 1, "ledger": ledger} | ASKED | changed))
    assert ledger.spent == (0.0, 0.0)


def test_a_row_that_cannot_be_read_is_found_before_the_first_level_is_paid_for(table, tmp_path):
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5, neighbouring="add-remove")
    broken = table.copy()
    row = np.flatnonzero(broken["sex"] == "x")[-1]
    broken.loc[row, "weight"] = np.nan
    with pytest.raises(
        ValueError, match=rf"X must be finite, got nan in column 'weight' \(row {row}, counted from 0\)"
    ):
        dpg.fit_levels(broken, 1, ledger=ledger, **ASKED)
    assert ledger.spent == (0.0, 0.0)
    with pytest.raises(FileNotFoundError, match=r"X must be an existing file, got .people\.csv"):
        dpg.fit_levels("people.csv", 1, **ASKED)


def test_what_ends_the_fit_keeps_the_releases_that_were_made(table, monkeypatch, tmp_path):
    real, calls = by_level.fit_gmm, []
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5, neighbouring="add-remove")

    def interrupted(*given, **asked):
        calls.append(asked["ledger"])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*given, **asked)

    monkeypatch.setattr(by_level, "fit_gmm", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        dpg.fit_levels(table, 1, random_seed=1, ledger=ledger, **ASKED)
    assert list(caught.value.levels) == ["f", "m"]
    notes = ["The budget is spent; releases of 2 levels are in its attribute levels.", "At level 'x' of 'sex'."]
    assert caught.value.__notes__[-2:] == notes
    assert calls[0] is ledger and calls[1:] == [None, None] and ledger.spent == (1.0, 1e-6)


def test_pure_releases_of_histograms_and_slices_tell_sizes_too(table):
    for columns in (["height"], ["height", "weight"]):
        asked = {**ASKED, "delta": None, "columns": columns, "bounds": [BOUNDS[name] for name in columns]}
        found = dpg.fit_levels(table, 1, random_seed=2, **asked)
        assert np.allclose(found.shares, [0.5, 0.4, 0.1], atol=0.05), columns
    found = dpg.fit_levels(table, 1, method="slices", random_seed=2, **asked)
    assert np.allclose(found.shares, [0.5, 0.4, 0.1], atol=0.05) and found.guarantee.delta == 0


def test_a_level_that_refuses_costs_no_other(table, monkeypatch):
    real = by_level.fit_gmm

    def refuses(part, *given, **asked):
        if part.table["height"].mean() > 175:
            raise dpg.Unstable("too few", None)
        return real(part, *given, **asked)

    monkeypatch.setattr(by_level, "fit_gmm", refuses)
    with pytest.raises(dpg.Unstable, match="too few") as caught:
        dpg.fit_levels(table, 1, random_seed=1, **ASKED)
    assert list(caught.value.levels) == ["f", "x"] and "At level 'm' of 'sex'." in caught.value.__notes__


def test_warnings_come_after_all_fits_and_name_their_level():
    few = people(160)
    with pytest.warns(dpg.FitWarning, match="sex = 'x': ") as told:
        found = dpg.fit_levels(few, 1, random_seed=1, **ASKED)
    assert len(told) == sum(bool(release.flag) for release in found.values()) and told[-1].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", dpg.FitWarning)
        with pytest.raises(dpg.FitWarning) as caught:
            dpg.fit_levels(few, 1, random_seed=1, **ASKED)
    assert list(caught.value.levels) == list(LEVELS)


def test_masked_rows_are_refused_and_labels_of_numpy_are_taken():
    x = np.random.default_rng(1).normal(size=(2_000, 1))
    asked = {"by": [np.True_, np.False_] * 1_000, "levels": (False, True), "epsilon": 1.0, "delta": 1e-6}
    asked |= {"bounds": (-6, 6), "progress": False}
    assert len(dpg.fit_levels(x, 1, **asked)) == 2
    with pytest.raises((TypeError, ValueError), match="X must be finite, got nan"):
        dpg.fit_levels(np.ma.masked_greater(x, 2.0), 1, **asked)


KINDS = [("sketch", pd.DataFrame), ("slices", pl.DataFrame), ("histogram", pa.table), ("histogram", "array")]


@pytest.mark.thorough(quick=["histogram-table", "histogram-array"])
@pytest.mark.parametrize("method, kind", KINDS)
@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
def test_that_there_is_a_result_does_not_tell_of_a_rare_level(method, kind):
    """No row, one, fewer than components, and equal ones: all are tables with neighbours of every number of rows."""
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 2, 3, 4], [400, 1, 2, 30])
    x = rng.normal(size=(len(labels), 2))
    x[labels == 4] = 1.5
    columns = {"a": x[:, 0], "b": x[:, 1]}
    table = x if kind == "array" else kind(columns)
    delta = 1e-6 if method == "sketch" else None
    asked = {"n_cells": 16} if method == "histogram" else {}
    asked |= {"by": labels, "levels": range(6), "epsilon": 1.0, "delta": delta, "bounds": (-6, 6), "method": method}
    found = dpg.fit_levels(table, 3, random_seed=1, progress=False, **asked)
    assert len(found) == 6 and all(release.n_components == 3 for release in found.values())
    assert found.shares[0] > 0.5 and found.shares.min() > 0
    assert found.level_probs(x[:5]).shape == (5, 6) and len(found.sample(50, random_seed=1)) == 50


@pytest.mark.parametrize("first_refuses", [False, True])
def test_one_level_is_charged_and_each_has_a_seed_of_its_own(first_refuses, table, monkeypatch):
    """None for a private fit; else numbers drawn beforehand, since a shared generator would tell of earlier records."""
    real, real_checked, asked = by_level.fit_gmm, by_level.checked, []

    def watched(*given, **settings):
        asked.append((settings["ledger"], settings["random_seed"]))
        if first_refuses and len(asked) == 1:
            raise dpg.Unstable("too few", None)
        return real(*given, **settings | {"ledger": None, "random_seed": 1})

    monkeypatch.setattr(by_level, "fit_gmm", watched)
    monkeypatch.setattr(by_level, "checked", lambda *given, **rest: real_checked(*given, **rest | {"ledger": None}))
    for seed in (None, 5, np.random.default_rng(5)):
        asked.clear()
        with contextlib.suppress(dpg.Unstable):
            dpg.fit_levels(table, 1, ledger="a ledger", random_seed=seed, **ASKED)
        assert [ledger for ledger, _ in asked] == ["a ledger", None, None]
        seeds = [given for _, given in asked]
        if seed is None:
            assert seeds == [None, None, None]
        else:
            assert all(type(given) is int for given in seeds) and len(set(seeds)) == 3


def test_columns_may_come_from_an_iterator(releases, table):
    again = dpg.fit_levels(table, 1, random_seed=1, columns=iter(["height", "weight"]), **ASKED)
    assert again["f"].means.tolist() == releases["f"].means.tolist()

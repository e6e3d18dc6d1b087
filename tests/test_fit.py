"""The front door: what it returns, and one clear error for each bad input before any budget is spent."""

import functools
import io
import math
import sys
import warnings

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from pyarrow import csv as pacsv
from scipy import sparse, special, stats
from sklearn.mixture import GaussianMixture

import pm_dpgmm as dpg
from pm_dpgmm import fit as fit_module
from pm_dpgmm.mechanisms import histogram
from pm_dpgmm.methods.outcome import TooFewRecords
from pm_dpgmm.methods.populous_single import method as populous_single
from pm_dpgmm.privacy import noise
from pm_dpgmm.records.reading import read_records

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(0, 1, (600, 1)), RNG.normal(8, 1, (400, 1))])
X2 = np.hstack([X, RNG.normal(size=(1000, 1))])
GOOD = {"epsilon": 1.0, "bounds": (-5, 13)}


@pytest.fixture
def no_noise(monkeypatch):
    """Fails a test whose bad input gets as far as spending: every release draws noise."""
    for name in ("discrete_laplace", "discrete_gaussian", "permutation", "seeds"):
        monkeypatch.setattr(noise, name, lambda *a, **k: pytest.fail("budget was spent"))
    monkeypatch.setattr(histogram, "discrete_laplace", lambda *a, **k: pytest.fail("budget was spent"))
    monkeypatch.setattr(populous_single, "permutation", lambda *a, **k: pytest.fail("budget was spent"))


def with_value(value):
    bad = X2.copy()
    bad[7, 1] = value
    return bad


BAD_INPUT = {
    "text": (np.array([["a"], ["b"]]), {}, TypeError, "X must be numeric"),
    "mixed frame": (pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), {}, TypeError, "X must be numeric, got values of other types in column 'b' .leave it out by columns=, fit"),
    "dates": (pd.DataFrame({"a": pd.to_datetime(["2020-01-01", "2021-01-01"])}), {}, TypeError, "X must be numeric, got dtype datetime64.* in column 'a'; write a date as days since a public day"),
    "durations": (pd.DataFrame({"a": pd.to_timedelta([1, 2], "D")}), {}, TypeError, "in column 'a'; write a duration as a number"),
    "durations of polars": (pl.DataFrame({"a": pl.Series([1, 2]).cast(pl.Duration("us"))}), {}, TypeError, "write a duration as a number"),
    "dates of polars": (pl.DataFrame({"a": pl.Series([1, None]).cast(pl.Date)}), {}, TypeError, "write a date as days since"),
    "complex": (np.array([[1j], [2j]]), {}, TypeError, "X must be numeric"),
    "ragged": ([[1.0], [1.0, 2.0]], {}, ValueError, "rows of equal length"),
    "three dimensions": (np.zeros((4, 2, 2)), {}, ValueError, r"one row per record .* got shape \(4, 2, 2\)"),
    "a dictionary": ({"a": [1.0, 2.0]}, {}, TypeError, "X must be an array or table with a row for each record, got dict; make a data frame"),
    "a set": ({1.0, 2.0}, {}, TypeError, "X must be an array or table with a row for each record, got set"),
    "an iterator": (iter([1.0, 2.0]), {}, TypeError, "X must be an array or table with a row for each record, got list_iterator"),
    "bytes": (bytearray(b"1234"), {}, TypeError, "X must be an array or table with a row for each record, got bytearray"),
    "sparse": (sparse.csr_array(X2), {}, TypeError, r"X must be an array or table .* got csr_array; X.toarray"),
    "a scalar": (3.0, {}, ValueError, "one row per record"),
    "NaN": (with_value(np.nan), {}, ValueError, r"X must be finite, got nan in column 'x1' \(row 7, counted from 0\)"),
    "infinite": (with_value(-np.inf), {}, ValueError, "X must be finite, got -inf"),
    "no rows": (np.zeros((0, 2)), {}, ValueError, r"at least one row and one column, got shape \(0, 2\)"),
    "no columns": (np.zeros((5, 0)), {}, ValueError, "at least one row and one column"),
    "fewer rows than components": (X[:2], {"n_components": 3}, TooFewRecords, "at least n_components = 3 rows, got 2"),
    "constant column": (np.hstack([X, np.ones((1000, 1))]), {}, ValueError, "constant column 'x1'"),
    "a very long name": (pd.DataFrame(X, columns=["a" * 1001]), {}, ValueError, r"feature_names\[0\] must have at most 1000 characters, got 1001"),
    "repeated names": (pd.DataFrame(X2, columns=["a", "a"]), {}, ValueError, "distinct column names"),
    "bounds reversed": (X, {"bounds": (5, -5)}, ValueError, r"bounds must have low < high, got \[5.0, -5.0\] for column 'x0'"),
    "bounds of one column": (X2, {"bounds": {"x0": (-5, 5), "x1": (5, 1)}}, ValueError, "for column 'x1'"),
    "bounds of one column no pair": (X2, {"bounds": {"x0": (-5, 5), "x1": 3}}, ValueError, r"bounds must be \(low, high\), got 3 for column 'x1'"),
    "bounds equal": (X, {"bounds": (5, 5)}, ValueError, "bounds must have low < high"),
    "bounds of wrong shape": (X2, {"bounds": [[0, 1], [0, 1], [0, 1]]}, ValueError, r"shape \(2, 2\), got shape \(3, 2\)"),
    "bounds not finite": (X, {"bounds": (0, np.inf)}, ValueError, "bounds must be finite"),
    "bounds not numbers": (X, {"bounds": ("low", "high")}, TypeError, "bounds must be numbers"),
    "bounds of other names": (pd.DataFrame(X2, columns=["a", "b"]), {"bounds": pd.DataFrame([[-5, -5], [13, 13]], ["min", "max"])}, ValueError, r"rows of bounds must be labelled \('a', 'b'\) and nothing else, got \('min', 'max'\)"),
    "bounds missing": (X, {"bounds": None}, ValueError, "method 'auto' needs delta"),
    "bounds missing for the method": (X, {"bounds": None, "method": "histogram"}, ValueError, "needs bounds"),
    "epsilon 0": (X, {"epsilon": 0.0}, ValueError, "epsilon must be finite and greater than 0, got 0.0"),
    "epsilon negative": (X, {"epsilon": -1}, ValueError, "epsilon must be finite and greater than 0, got -1"),
    "epsilon infinite": (X, {"epsilon": math.inf}, ValueError, "epsilon must be finite"),
    "epsilon NaN": (X, {"epsilon": math.nan}, ValueError, "epsilon must be finite"),
    "epsilon text": (X, {"epsilon": "1"}, TypeError, "epsilon must be a real number, got '1' of type str"),
    "epsilon bool": (X, {"epsilon": True}, TypeError, "epsilon must be a real number"),
    "epsilon None": (X, {"epsilon": None}, TypeError, "epsilon must be a real number"),
    "delta 1": (X, {"delta": 1.0}, ValueError, "delta must be at least 0 and below 1, got 1.0"),
    "delta negative": (X, {"delta": -1e-9}, ValueError, "delta must be at least 0"),
    "delta text": (X, {"delta": "tiny"}, TypeError, "delta must be a real number"),
    "n_components 0": (X, {"n_components": 0}, ValueError, "n_components must be at least 1, got 0"),
    "n_components float": (X, {"n_components": 2.0}, TypeError, "n_components must be an integer, got 2.0"),
    "n_components bool": (X, {"n_components": True}, TypeError, "n_components must be an integer"),
    "unknown method": (X, {"method": "magic"}, ValueError, "method must be one of 'auto', 'sketch', 'histogram'"),
    "no method": (X, {"method": 3}, ValueError, "method must be 'auto', one of .* or a settings object, got 3"),
    "three columns": (np.hstack([X2, X2[:, :1] ** 2]), {"method": "histogram"}, ValueError, "supports 1 or 2 features, got 3"),
    "three columns without bounds": (np.hstack([X2, X2[:, :1] ** 2]), {"bounds": None}, ValueError, "got 3 features, no bounds and no delta"),
    "thirteen columns": (np.tile(X2, 7)[:, :13] + RNG.normal(size=13) * X, {}, ValueError, "supports 2 to 12 features, got 13"),
    "slices without bounds": (X2, {"bounds": None, "method": "slices"}, ValueError, "method 'slices' needs bounds"),
    "slices of one column": (X, {"method": "slices"}, ValueError, "supports 2 to 12 features, got 1"),
    "too few slices": (X2, {"method": "slices", "n_bins": 3}, ValueError, "at least 2 for each component, got 3 slices"),
    "slices, bounds too wide": (X2, {"method": "slices", "bounds": (-1e300, 1e300)}, ValueError, "bounds must lie within 1e"),
    "slices, n_bins 1": (X2, {"method": "slices", "n_bins": 1}, ValueError, "n_bins must be at least 2"),
    "slices, epsilon below the grid": (X2, {"method": "slices", "epsilon": 1e-12}, ValueError, "epsilon must be at least 1e-09"),
    "neighbouring": (X, {"neighbouring": "swap"}, ValueError, "neighbouring must be one of"),
    "unknown setting": (X, {"cells": 3}, TypeError, r"settings of method 'histogram' must be among \['n_bins', 'n_cells'\]"),
    "n_bins 1": (X, {"n_bins": 1}, ValueError, "n_bins must be at least 2"),
    "too few bins": (X, {"n_bins": 3}, ValueError, "at least 2 bins for each component"),
    "settings twice": (X, {"method": dpg.HistogramMethod(), "n_bins": 9}, TypeError, "inside the settings object"),
    "learner": (X, {"learner": "em"}, TypeError, "learner must be None"),
    "ledger": (X, {"ledger": "file.sqlite"}, TypeError, "ledger must be a pm_dpgmm.Ledger"),
    "bounds too wide": (X, {"bounds": (-1e300, 1e300)}, ValueError, "bounds must lie within 1e100"),
    "bounds too narrow": (X, {"bounds": (0, 5e-324)}, ValueError, "bins wider than 1e-100"),
    "epsilon below the grid": (X, {"epsilon": 1e-12}, ValueError, "epsilon must be at least 1e-09"),
    "n_jobs 0": (X, {"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
    "learner that cannot travel": (X, {"learner": (lambda lock: lambda s: lock)(__import__("threading").Lock()), "n_jobs": 2}, TypeError, "learner must be picklable"),
    "a huge integer": (np.array([[10**400], [1]], dtype=object), {}, TypeError, "X must be numeric"),
    "n_jobs": (X, {"n_jobs": 1.5}, TypeError, "n_jobs must be an integer"),
    "settings without constants": (X, {"method": "populous-single", "bounds": None, "delta": 0.5, "test_share": 1e-300}, ValueError, "epsilon must leave a noise scale of at most 2.52 steps in every part"),
    "noise without constants": (X, {"method": "populous-single", "bounds": None, "delta": 0.1, "noise": 1e-300, "accounting": "paper"}, ValueError, "epsilon, delta and the settings must be of sizes"),
    "seed": (X, {"random_seed": -1}, ValueError, "random_seed must be at least 0"),
    "no such file": ("nowhere.csv", {}, FileNotFoundError, "X must be an existing file, got 'nowhere.csv'"),
    "wrong suffix": ("records.xlsx", {}, ValueError, "X must be a path that ends in .csv or .parquet"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_gets_one_clear_error_before_budget_is_spent(case, no_noise, tmp_path):
    records, change, kind, words = BAD_INPUT[case]
    arguments = {"n_components": 2} | GOOD | {"ledger": dpg.Ledger(tmp_path / "budget.sqlite", epsilon=1.0)} | change
    with pytest.raises(kind, match=words) as caught:
        dpg.fit_gmm(records, arguments.pop("n_components"), **arguments)
    assert type(caught.value) is kind
    assert dpg.Ledger(tmp_path / "budget.sqlite", epsilon=1.0).spent == (0.0, 0.0)


@pytest.mark.thorough(quick=["5e-324-raise"])
@pytest.mark.parametrize("action", ["raise", "warn"])
@pytest.mark.parametrize("value", [5e-324, 1e308])
def test_floating_point_settings_of_the_caller_show_no_record(action, value, tmp_path):
    """A number near 0 or the largest underflows or overflows on its way to a count."""
    rows = X.copy()
    rows[3] = value
    settings = {"epsilon": 1.0, "bounds": (-5, 13), "random_seed": 1}
    plain = dpg.fit_gmm(rows, 2, **settings)
    with np.errstate(all=action), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", dpg.FitWarning)
        shown = dpg.fit_gmm(rows, 2, checkpoint=tmp_path / "partial.json", **settings)
        again = dpg.resume(tmp_path / "partial.json")
        dpg.fit_gmm(rows, 2, delta=1e-6, **settings)
    assert shown.to_dict() == again.to_dict() == plain.to_dict()


@pytest.mark.parametrize("action", ["raise", pytest.param("warn", marks=pytest.mark.thorough)])
def test_settings_of_the_caller_for_special_functions_cost_no_fit(action, tmp_path):
    """SciPy has its own, for all threads at once: an underflow in a probability ended a fit that was paid for."""
    settings = {"epsilon": 1.0, "bounds": (-5, 13), "random_seed": 1}
    two = np.column_stack([X[:, 0], X[::-1, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpg.FitWarning)
        plain = dpg.fit_gmm(two, 2, **settings)
        with special.errstate(all=action):
            warnings.simplefilter("error", special.SpecialFunctionWarning)
            before = special.geterr()
            shown = dpg.fit_gmm(two, 2, checkpoint=tmp_path / "partial.json", **settings)
            again = dpg.resume(tmp_path / "partial.json")
            assert special.geterr() == before
    assert shown.to_dict() == again.to_dict() == plain.to_dict()


@pytest.mark.parametrize(
    "epsilon, delta, relation, words",
    [
        (10.5, None, "replace-one", r"epsilon should be at most 10 .* got 10\.5"),
        (10.5, None, "add-remove", r"epsilon should be at most 10 .* got 10\.5"),
        (1.0, 1e-3, "replace-one", r"delta should be well below 1/N = 0\.001, got 0\.001"),
    ],
)
def test_a_guarantee_that_promises_little_is_warned_of(epsilon, delta, relation, words, tmp_path):
    settings = {"epsilon": epsilon, "delta": delta, "neighbouring": relation, "bounds": (-5, 13)}
    settings["ledger"] = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=20.0, delta=0.9, neighbouring=relation)
    with pytest.warns(dpg.WeakGuarantee, match=words) as caught:
        dpg.fit_gmm(X, 2, **settings)
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(dpg.WeakGuarantee):
            dpg.fit_gmm(X, 2, **settings)
    assert len(settings["ledger"].entries()) == 1  # where warnings are errors nothing was spent


@pytest.mark.filterwarnings("error")
def test_a_private_number_of_records_and_an_unused_delta_are_not_warned_of():
    """delta >= 1/N: under add-remove neighbours the warning would tell N."""
    dpg.fit_gmm(X, 2, epsilon=10.0, delta=0.5, bounds=(-5, 13), method="histogram")
    dpg.fit_gmm(X, 2, epsilon=10.0, delta=1e-3, neighbouring="add-remove", bounds=(-5, 13))


def test_a_public_guess_of_the_number_of_records_is_used():
    guess = dpg.Populous(noise=0.05, assumed_records=50_000)
    with pytest.warns(dpg.WeakGuarantee, match=r"1/N = 2e-05, got 0\.001"), pytest.raises(dpg.Unstable):
        dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-3, neighbouring="add-remove", method=guess)


@pytest.mark.filterwarnings("ignore::pm_dpgmm.WeakGuarantee")
@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # X has two clusters, and 1e-3 is too small a budget
@pytest.mark.parametrize("epsilon", [12.6, 14.3, 49.0, 98.0, 1e-3, 500.0])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_any_epsilon_gives_a_pure_guarantee_at_that_epsilon(epsilon, relation):
    release = dpg.fit_gmm(X, 1, epsilon=epsilon, bounds=(-5, 13), neighbouring=relation)
    assert release.guarantee.curve(epsilon) == 0.0 and release.guarantee.epsilon == epsilon


def test_the_first_record_of_a_file_without_header_is_not_published(tmp_path, no_noise):
    np.savetxt(tmp_path / "a.csv", X2, delimiter=",")
    np.savetxt(tmp_path / "b.csv", np.ones((5, 2)), delimiter=",")  # repeated names: pandas adds .1
    for name in ("a.csv", "b.csv"):
        with pytest.raises(ValueError, match="header line of column names") as caught:
            dpg.fit_gmm(tmp_path / name, 1, **GOOD)
        assert "1.0" not in str(caught.value) and "257" not in str(caught.value)


@pytest.mark.parametrize(
    "read", [pd.read_csv, pl.read_csv, pacsv.read_csv, dd.read_csv], ids=["pandas", "polars", "arrow", "dask"]
)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "in blocks"])
def test_the_first_record_that_a_reader_took_for_a_header_is_not_published(read, whole, tmp_path, no_noise):
    np.savetxt(tmp_path / "a.csv", X2, delimiter=",")
    frame = read(tmp_path / "a.csv")
    with pytest.raises(ValueError, match=r"X must have names for its columns.*first record of a file") as caught:
        dpg.fit_gmm(frame if whole else dpg.RecordBlocks(frame), 1, **GOOD)
    assert str(X2[0, 0])[:5] not in str(caught.value)


def test_a_header_of_truth_values_is_a_record_and_labels_that_are_numbers_are_names(tmp_path, no_noise):
    (tmp_path / "a.csv").write_text("True,False\nFalse,True\nTrue,False\n")
    with pytest.raises(ValueError, match="header line of column names"):
        dpg.fit_gmm(tmp_path / "a.csv", 1, **GOOD)
    assert read_records(pd.DataFrame(X2))[1] == ("0", "1")


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n3", 'a\n"1'])
def test_a_broken_file_is_refused(content, tmp_path, no_noise):
    path = tmp_path / "records.csv"
    path.write_text(content)
    with pytest.raises((TypeError, ValueError), match=r"X must (be|have)"):
        dpg.fit_gmm(path, 1, **GOOD)


def test_a_good_fit_finds_the_mixture():
    release = dpg.fit_gmm(X, 2, **GOOD)
    order = np.argsort(release.means[:, 0])
    assert release.means[order, 0] == pytest.approx([0, 8], abs=0.5)
    assert release.weights[order] == pytest.approx([0.6, 0.4], abs=0.06)
    assert release.covariances[order, 0, 0] == pytest.approx([1, 1], abs=0.5)
    assert release.method == "histogram" and release.n_records == 1000 and release.private
    assert release.guarantee.delta == 0 and release.guarantee.epsilon_at(0.0) == pytest.approx(1.0, abs=1e-9)
    assert release.raw["counts"].shape == (64,) and release.noise["scale"] == 2.0


def test_bounds_with_names_are_those_of_their_columns():
    """Read by place, those of another column moved the records to a limit."""
    table = pd.DataFrame(X2, columns=["a", "b"])
    given = pd.DataFrame({"low": [-4.0, -5.0], "high": [4.0, 13.0]}, index=["b", "a"])
    for bounds in (given, given.to_xarray().to_array().T):
        release = dpg.fit_gmm(table, 2, epsilon=1.0, bounds=bounds, random_seed=1, progress=False)
        assert release.raw["bounds"].tolist() == [[-5.0, 13.0], [-4.0, 4.0]]
    release = dpg.fit_gmm(X2, 2, epsilon=1.0, bounds=given.loc[["a", "b"]], random_seed=1, progress=False)
    assert release.raw["bounds"].tolist() == [[-5.0, 13.0], [-4.0, 4.0]]  # columns without names: by place


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # of bounds that are far too wide
@pytest.mark.parametrize(
    "records",
    [X2.tolist(), pd.DataFrame(X2, columns=["u", "v"]), X2.astype(np.float32), (10 * X2).astype(int)],
    ids=["list", "frame", "float32", "int"],
)
def test_other_containers(records):
    release = dpg.fit_gmm(records, 2, epsilon=5.0, bounds=[[-50, 130], [-40, 40]])
    assert release.means.shape == (2, 2)
    assert release.feature_names == (("u", "v") if hasattr(records, "columns") else ("x0", "x1"))


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # columns of a few numbers are no mixture
def test_files_and_mixed_numeric_columns(tmp_path):
    table = pd.DataFrame({"u": X[:, 0], "v": RNG.integers(0, 9, 1000), "w": RNG.integers(0, 2, 1000).astype(bool)})
    table[["u", "v"]].to_csv(tmp_path / "t.csv", index=False)
    assert dpg.fit_gmm(tmp_path / "t.csv", 2, epsilon=1.0, bounds=[[-5, 13], [0, 9]]).feature_names == ("u", "v")
    assert dpg.fit_gmm(table[["u", "w"]], 1, epsilon=1.0, bounds=[[-5, 13], [0, 1]]).n_features == 2


@pytest.mark.thorough
def test_parquet_polars_and_dask(tmp_path):
    import dask.array as da
    import polars as pl

    frame = pd.DataFrame(X2, columns=["u", "v"])
    frame.to_parquet(tmp_path / "t.parquet")
    bounds = [[-5, 13], [-4, 4]]
    exact = dpg.fit_gmm(X2, 2, epsilon=1.0, bounds=bounds, random_seed=1)
    for records in (tmp_path / "t.parquet", str(tmp_path / "t.parquet"), pl.DataFrame({"u": X2[:, 0], "v": X2[:, 1]})):
        release = dpg.fit_gmm(records, 2, epsilon=1.0, bounds=bounds, random_seed=1)
        assert release.feature_names == ("u", "v") and (release.raw["counts"] == exact.raw["counts"]).all()
    release = dpg.fit_gmm(da.from_array(X2, chunks=100), 2, epsilon=1.0, bounds=bounds, random_seed=1)
    assert (release.raw["counts"] == exact.raw["counts"]).all()


def test_a_parquet_file_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match="needs pyarrow"):
        dpg.fit_gmm(tmp_path / "t.parquet", 2, **GOOD)


def test_add_remove_keeps_the_number_of_records_secret():
    release = dpg.fit_gmm(X, 2, neighbouring="add-remove", **GOOD)
    assert release.n_records is None and "Records:" not in release.summary()
    assert release.to_dict()["n_records"] is None and 1000 not in release.noise.values()
    assert release.noise["scale"] == 1.0


def test_a_known_seed_repeats_the_release_and_marks_it():
    first, second = (dpg.fit_gmm(X, 2, random_seed=4, **GOOD) for _ in range(2))
    assert (first.raw["counts"] == second.raw["counts"]).all() and (first.means == second.means).all()
    assert not first.private and "NOT PRIVATE" in first.summary() and "NOT PRIVATE" in repr(first)
    fresh = [dpg.fit_gmm(X, 2, **GOOD).raw["counts"] for _ in range(2)]
    assert (fresh[0] != fresh[1]).any()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # three components where there are two
def test_the_mixture_is_a_function_of_the_raw_release_alone():
    from pm_dpgmm.methods.counts.histogram_fit import fit_counts

    release = dpg.fit_gmm(X2, 3, epsilon=1.0, bounds=[[-5, 13], [-4, 4]])
    counts = release.raw["counts"].astype(np.int64)
    again = fit_counts(
        counts, release.raw["bounds"], 3, noise_scale=release.noise["scale"], progress=lambda done, total: None
    )
    assert (again.means == release.means).all() and (again.covariances == release.covariances).all()


def test_settings_objects_are_accepted_and_recorded():
    release = dpg.fit_gmm(X, 2, method=dpg.HistogramMethod(n_bins=20), **GOOD)
    assert release.raw["counts"].shape == (20,) and release.settings["n_cells"] == 20


def test_a_ledger_is_charged_once_and_refuses_before_the_fit(tmp_path, monkeypatch):
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=1.5)
    dpg.fit_gmm(X, 2, ledger=ledger, **GOOD)
    assert ledger.spent == (1.0, 0.0)
    monkeypatch.setattr(dpg.HistogramMethod, "release", lambda *a, **k: pytest.fail("ran"))
    with pytest.raises(dpg.BudgetExceeded, match=r"epsilon must leave the ledger within its budget 1\.5"):
        dpg.fit_gmm(X, 2, ledger=ledger, **GOOD)
    assert ledger.spent == (1.0, 0.0)


def test_a_refusal_is_charged(tmp_path):
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5)
    with pytest.raises(dpg.Unstable):
        dpg.fit_gmm(
            np.arange(3000.0),
            1,
            epsilon=1.0,
            delta=1e-6,
            method="populous-single",
            learner=GaussianMixture(1),
            ledger=ledger,
        )
    assert ledger.spent == (1.0, 1e-6)


@pytest.mark.parametrize("method", ["auto", "sketch", "histogram", "slices", "em", "gaps"])
def test_a_learner_is_refused_where_it_would_not_run(method, tmp_path):
    """The fit was another one, without a word, and paid for."""
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5)
    given = {"epsilon": 1.0, "delta": 1e-6, "method": method, "learner": GaussianMixture(1)}
    given |= {} if method == "gaps" else {"bounds": (-9, 9)}
    with pytest.raises(ValueError, match=r"learner must be left out with method '.*'aggregate' and 'populous' do"):
        dpg.fit_gmm(np.random.default_rng(1).normal(size=(3_000, 1)), 1, ledger=ledger, **given)
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("method", ["populous", "populous-single", "two-phase", "gaps"])
def test_bounds_are_refused_where_they_would_not_be_used(method, tmp_path):
    """Two of the four took them and cut nothing, without a word."""
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5)
    given = {"epsilon": 1.0, "delta": 1e-6, "method": method, "ledger": ledger}
    with pytest.raises(ValueError, match=rf"bounds must be left out with method '{method}'.*got \[\[0.0, 50.0\]\]"):
        dpg.fit_gmm(np.random.default_rng(1).normal(50, 5, (3_000, 1)), 1, bounds=(0, 50), **given)
    assert ledger.spent == (0.0, 0.0)


def test_a_plan_refuses_the_learner_that_its_fit_would_refuse():
    with pytest.raises(ValueError, match="learner must be left out with method 'sketch'"):
        dpg.plan(3_000, 1, 1, epsilon=1.0, delta=1e-6, learner=GaussianMixture(1), n_simulations=1)


def test_nothing_is_printed_in_a_pipe(capsys):
    dpg.fit_gmm(X, 2, **GOOD)
    assert capsys.readouterr() == ("", "")


def test_progress_is_shown_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(fit_module.sys.stderr, "isatty", lambda: True, raising=False)
    with fit_module.progress_bar(True, "histogram") as step:
        step(1, 2)
    with fit_module.progress_bar(False, "histogram") as step:
        step(1, 2)


class NoFile:
    def write(self, text):
        return len(text)


class HangsUp(io.StringIO):
    """A terminal that is gone after a few writes."""

    def __init__(self, writes):
        super().__init__()
        self.left = writes

    def isatty(self):
        return True

    def write(self, text):
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error")
        return len(text)


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize(
    "stream",
    [lambda: None, NoFile, closed, *(functools.partial(HangsUp, n) for n in (0, 3, 5))],
    ids=["none", "no file", "closed", "hung up", "hangs up at the start", "hangs up later"],
)
def test_a_stderr_that_fails_costs_no_release(stream, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream())
        release = dpg.fit_gmm(X, 2, **GOOD)  # it was paid for before the bar is shown
    assert release.n_components == 2


def test_a_warning_that_cannot_be_shown_costs_no_release(monkeypatch):
    def fails(*args, **kwargs):
        raise ValueError("I/O operation on closed file")

    few = X[::100]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", fails)
        release = dpg.fit_gmm(few, 2, epsilon=1.0, delta=1e-4, bounds=(-5, 13))
    assert release.warnings
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what was asked for stays an error, and carries the release
        with pytest.raises(dpg.FitWarning) as caught:
            dpg.fit_gmm(few, 2, epsilon=1.0, delta=1e-4, bounds=(-5, 13))
    assert caught.value.release.warnings


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # X has two clusters
def test_interval_of_noise_matches_the_guarantee_of_the_counts():
    """Counts minus the exact ones are discrete Laplace of the stated scale (Kolmogorov-Smirnov, error below 1e-5)."""
    from pm_dpgmm.mechanisms.histogram import cell_counts

    exact = cell_counts(X, bounds=np.array([[-5.0, 13.0]]), n_cells=64)
    noise_seen = np.concatenate([dpg.fit_gmm(X, 1, **GOOD).raw["counts"] - exact for _ in range(10)])
    scale = 2.0
    result = stats.kstest(noise_seen + RNG.uniform(-0.5, 0.5, noise_seen.size), lambda v: _smooth_cdf(v, scale))
    assert result.pvalue > 1e-5


def _smooth_cdf(v, scale):
    """Distribution function of a discrete Laplace number plus a uniform on (-1/2, 1/2)."""
    q = math.exp(-1 / scale)
    low = np.floor(v + 0.5)

    def cdf(j):
        return np.where(j < 0, q ** (-j) / (1 + q), 1 - q ** (np.abs(j) + 1) / (1 + q))

    return cdf(low - 1) + (v + 0.5 - low) * (cdf(low) - cdf(low - 1))


@pytest.mark.parametrize("rows", [
    [np.ma.masked_array([1.0, 99.0], mask=[False, True]), [2.0, 3.0], [0.5, 1.5]],
    ([1.0, np.ma.masked], [2.0, 3.0], [0.5, 1.5]),
], ids=["arrays", "numbers"])  # fmt: skip
def test_masks_within_lists_are_refused_and_not_dropped(rows, tmp_path):
    """NumPy makes plain numbers of them: what is under the mask was fitted."""
    ledger = dpg.Ledger(tmp_path / "l.sqlite", epsilon=1.0)
    with pytest.raises(TypeError, match="X must be plain numbers or one masked array"):
        dpg.fit_gmm(rows, 1, epsilon=1.0, bounds=(0, 100), ledger=ledger)
    with pytest.raises(TypeError, match=r"X must be plain numbers or one masked array"):
        dpg.RecordBlocks([np.zeros((2, 2)), rows])
    assert ledger.spent == (0.0, 0.0)
    mixture = dpg.Mixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    for points in (rows, np.ma.masked_array(np.zeros((1, 2)), mask=[[True, False]])):
        with pytest.raises(TypeError, match="points must "):
            mixture.log_density(points)
    with pytest.raises(TypeError, match="bounds must have no mask"):
        dpg.fit_gmm([[1, 2], [3, 4]], 1, epsilon=1.0, bounds=np.ma.masked_array([0.0, 9.0], [1, 0]))


def test_columns_choose_those_of_a_file_and_name_those_of_an_array(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"sex": ["f", "m"] * 100, "age": rng.normal(50, 10, 200), "bmi": rng.normal(25, 3, 200)})
    frame.to_csv(tmp_path / "people.csv", index=False)
    limits = {"bmi": (10, 60), "age": (0, 110)}
    settings = {"epsilon": 1.0, "bounds": limits, "progress": False, "random_seed": 1}
    from_file = dpg.fit_gmm(tmp_path / "people.csv", 1, columns=["bmi", "age"], **settings)
    from_array = dpg.fit_gmm(frame[["bmi", "age"]].to_numpy(), 1, columns=["bmi", "age"], **settings)
    assert from_file.feature_names == from_array.feature_names == ("bmi", "age")
    np.testing.assert_array_equal(from_file.means, from_array.means)
    blocks = dpg.RecordBlocks(tmp_path / "people.csv", columns=["bmi", "age"])
    with pytest.raises(ValueError, match=r"columns must be given to RecordBlocks\(X, columns=...\) and not here"):
        dpg.fit_gmm(blocks, 1, columns=["bmi"], delta=1e-6, **settings)
    from_blocks, in_memory = (dpg.fit_gmm(X, 1, delta=1e-6, **settings) for X in (blocks, frame[["bmi", "age"]]))
    assert from_blocks.feature_names == ("bmi", "age")
    np.testing.assert_array_equal(from_blocks.means, in_memory.means)

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import pm_dpgmm as dpg

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(0, 1, (600, 1)), RNG.normal(8, 1, (400, 1))])


def test_it_feels_like_scikit_learn():
    est = dpg.PrivateGaussianMixture(2, epsilon=2.0, bounds=(-5, 13), settings={"n_cells": 40})
    assert clone(est).get_params() == est.get_params()
    assert est.fit(X) is est
    assert est.weights_.shape == (2,) and est.means_.shape == (2, 1) and est.covariances_.shape == (2, 1, 1)
    assert est.release_.raw["counts"].shape == (40,)
    labels = est.predict(X)
    assert labels[0] != labels[-1] and est.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    assert est.score(X) == pytest.approx(est.score_samples(X).mean())
    points, of = est.sample(50)
    assert points.shape == (50, 1) and of.shape == (50,)


def test_it_works_in_a_pipeline_and_checks_the_number_of_columns():
    pipeline = make_pipeline(FunctionTransformer(lambda x: x / 2), dpg.PrivateGaussianMixture(2, bounds=(-5, 13))).fit(
        X
    )
    assert pipeline.predict(X).shape == (1000,)
    with pytest.raises(ValueError, match="features"):
        pipeline[-1].predict(np.zeros((3, 2)))


@pytest.mark.parametrize(
    "fit",
    [
        lambda est: make_pipeline(est, LinearRegression()).fit(X, X[:, 0]),
        lambda est: make_pipeline(FunctionTransformer(), est).fit_transform(X),
        lambda est: FeatureUnion([("mixture", est)]).fit_transform(X),
        lambda est: ColumnTransformer([("mixture", est, [0])]).fit_transform(X),
    ],
)
def test_it_is_no_transformer_and_nothing_is_spent_where_one_is_asked_for(fit, tmp_path):
    """Its parameter was named ``transform``: the fit was paid for, and lost to a call of None."""
    ledger = dpg.Ledger(tmp_path / "l.sqlite", epsilon=1.0)
    with pytest.raises((AttributeError, TypeError), match="transform"):
        fit(dpg.PrivateGaussianMixture(2, bounds=(-5, 13), ledger=ledger))
    assert ledger.spent == (0.0, 0.0)


OTHER_WORDS = {  # bad records are refused, in words of this package
    "check_complex_data", "check_dtype_object", "check_estimators_empty_data_messages", "check_estimators_nan_inf",
    "check_estimator_sparse_tag", "check_estimator_sparse_array", "check_estimator_sparse_matrix",
}  # fmt: skip
ONE_COLUMN = {"check_fit1d"}  # may be (N,)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_it_keeps_the_rules_of_scikit_learn():
    found = check_estimator(dpg.PrivateGaussianMixture(epsilon=50.0, bounds=(-100, 100)), on_fail=None, on_skip=None)
    failed = {check["check_name"] for check in found if check["status"] == "failed"}
    assert failed <= OTHER_WORDS | ONE_COLUMN and len(found) > 30


def test_data_frames_keep_their_names():
    frame = pd.DataFrame({"age": X[:, 0]})
    est = dpg.PrivateGaussianMixture(2, bounds=(-5, 13)).fit(frame)
    assert list(est.feature_names_in_) == ["age"] and est.predict(frame).shape == (1000,)


PAIR = pd.DataFrame({"age": X[:, 0], "bmi": RNG.normal(size=1000)})


@pytest.mark.thorough(quick=["pandas", "polars", "csv", "parquet", "blocks"])
@pytest.mark.parametrize("kind", ["pandas", "polars", "csv", "parquet", "blocks", "blocks of parts"])
def test_columns_of_data_frames_are_those_of_the_fit_or_refused(kind, tmp_path):
    PAIR.to_csv(tmp_path / "x.csv", index=False)
    PAIR.to_parquet(tmp_path / "x.parquet")
    records = {
        "pandas": PAIR,
        "polars": pl.DataFrame(PAIR.to_dict("list")),
        "csv": tmp_path / "x.csv",
        "parquet": str(tmp_path / "x.parquet"),
        "blocks": dpg.RecordBlocks(tmp_path / "x.csv"),
        "blocks of parts": dpg.RecordBlocks([PAIR[:400], PAIR[400:]]),
    }[kind]
    settings = {"delta": 1e-6} if "blocks" in kind else {"bounds": [[-5, 13], [-4, 4]]}
    est = dpg.PrivateGaussianMixture(2, epsilon=5.0, random_state=1, **settings).fit(records)
    assert list(est.feature_names_in_) == ["age", "bmi"] and est.predict(PAIR).shape == (1000,)
    with pytest.raises(ValueError, match="n_samples must be"):
        est.sample(0)
    with pytest.raises(TypeError, match="random_state must be None, an int or a numpy"):
        dpg.PrivateGaussianMixture(2, random_state=np.random.RandomState(1)).fit(records)
    for wrong in (PAIR[["bmi", "age"]], PAIR.assign(kg=1.0), PAIR[["age"]], PAIR.set_axis(["a", "b"], axis=1)):
        for read in (est.predict, est.predict_proba, est.score_samples, est.score):
            with pytest.raises(ValueError, match="The feature names should match those that were passed"):
                read(wrong)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # newer versions of scikit-learn say so
@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # PAIR has two clusters
def test_tables_whose_names_scikit_learn_does_not_read_are_matched_too():
    est = dpg.PrivateGaussianMixture(1, bounds=(-5, 13)).fit(PAIR)
    for wrong in (
        pa.RecordBatch.from_pandas(PAIR[["bmi", "age"]]),
        pa.RecordBatch.from_pandas(PAIR.set_axis(["a", "b"], axis=1)),
    ):
        with pytest.raises(ValueError, match=r"X must have|feature names should match"):  # some versions read the names
            est.score_samples(wrong)
    right = pa.RecordBatch.from_pandas(PAIR)
    found = est.score_samples(right)
    np.testing.assert_array_equal(found, est.score_samples(PAIR))
    numbered = pd.DataFrame(PAIR.to_numpy())
    with pytest.raises(ValueError, match="X must have its columns in the order"):
        est.fit(numbered).predict(numbered[[1, 0]])


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # PAIR has two clusters
def test_names_of_an_earlier_fit_are_forgotten():
    est = dpg.PrivateGaussianMixture(1, bounds=(-5, 13)).fit(PAIR)
    for unnamed in (PAIR.to_numpy(), pd.DataFrame(PAIR.to_numpy())):
        est.fit(unnamed)
        assert not hasattr(est, "feature_names_in_") and est.predict(unnamed).shape == (1000,)  # without a warning


def test_it_must_be_fitted_first():
    with pytest.raises(NotFittedError):
        dpg.PrivateGaussianMixture(2).predict(X)
    with pytest.raises(NotFittedError):
        _ = dpg.PrivateGaussianMixture(2).weights_


def test_bad_parameters_reach_the_same_checks():
    with pytest.raises(ValueError, match="n_components must be at least 1"):
        dpg.PrivateGaussianMixture(0, bounds=(0, 1)).fit(X)
    with pytest.raises(TypeError, match="settings of method"):
        dpg.PrivateGaussianMixture(1, bounds=(0, 1), settings={"bins": 3}).fit(X)
    for wrong, words in (
        ({"epsilon": 3.0}, "got 'epsilon', which is a parameter"),
        ({"columns": ["a"]}, "got 'columns', which is a parameter"),  # predict would take all of them
        ({"checkpoint": "c.json"}, "got 'checkpoint', which is a parameter"),
        ({3: 3}, "got 3, which is no name"),
    ):
        with pytest.raises(ValueError, match=f"settings must be of the method alone, by name, {words}"):
            dpg.PrivateGaussianMixture(1, bounds=(0, 1), settings=wrong).fit(X)


def test_fit_predict_is_fit_and_predict():
    settings = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-10, 15), "random_state": 3}
    labels = dpg.PrivateGaussianMixture(2, **settings).fit_predict(X)
    assert np.array_equal(labels, dpg.PrivateGaussianMixture(2, **settings).fit(X).predict(X))


@pytest.mark.parametrize("kind", ["file", "blocks", "series", "row", "mixed names", "mask"])
def test_what_cannot_be_predicted_is_refused_before_the_fit(kind, tmp_path):
    pd.DataFrame(X).to_csv(tmp_path / "r.csv", index=False)
    given = {
        "file": tmp_path / "r.csv",
        "blocks": dpg.RecordBlocks(X),
        "series": pd.Series(X[:, 0]),
        "row": X[:, 0],
        "mixed names": pd.DataFrame(np.column_stack([X[:, 0], X[:, 0]]), columns=["a", 1]),
        "mask": np.ma.masked_less(X, 0),
    }[kind]
    ledger = dpg.Ledger(tmp_path / "ledger.sqlite", epsilon=1.0, delta=1e-6)
    est = dpg.PrivateGaussianMixture(1, bounds=(-10, 15), ledger=ledger)
    with pytest.raises((TypeError, ValueError), match=r"X must (be an array or table \(N, D\)|have no mask)"):
        est.fit_predict(given)
    assert ledger.spent == (0.0, 0.0) and not hasattr(est, "release_")


def test_rows_with_a_mask_are_refused():
    est = dpg.PrivateGaussianMixture(1, bounds=(-10, 15)).fit(X)
    for use in (est.predict, est.predict_proba, est.score_samples, est.score):
        with pytest.raises(TypeError, match="X must have no mask"):
            use(np.ma.masked_less(X, 0))

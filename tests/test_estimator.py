import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

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


def test_data_frames_keep_their_names():
    frame = pd.DataFrame({"age": X[:, 0]})
    est = dpg.PrivateGaussianMixture(2, bounds=(-5, 13)).fit(frame)
    assert list(est.feature_names_in_) == ["age"] and est.predict(frame).shape == (1000,)


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

"""Noisy sums of cells: features, their law against simulation, its PyTensor form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pm_dpgmm as dpg
from pm_dpgmm.bayes.likelihoods.central import log_likelihood
from pm_dpgmm.mechanisms.bernstein_sums import WHOLE, bernstein_sums
from pm_dpgmm.methods.central.statistics import CentralStatistics, partition_of
from pm_dpgmm.methods.em.law import log_density, moments, noisy_covariance
from tests.builders import releases
from tests.builders.masked_releases import a_mixture

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")
BOTH = pytest.mark.parametrize("d", [1, 2])


@BOTH
def test_features_are_what_the_mechanism_adds_up(d):
    """To a grid step a number for each record."""
    given = CentralStatistics.of(releases.cells(d))
    points = a_mixture(d).sample(200, rng=np.random.default_rng(1)) * 1.5  # some beyond the bounds
    exact = [bernstein_sums(np.clip(points, -9, 9), partition_of(one.cells)).ravel() for one in given.levels]
    assert_allclose(given.features(points).sum(axis=0), np.concatenate(exact) / WHOLE, atol=200 * 3 / WHOLE)


@BOTH
def test_the_law_is_that_of_simulated_sums(d):
    """Mean and covariance of 60,000 records' features; 6 standard errors, of at most 2,000 entries: alarm 4e-6."""
    given, truth = CentralStatistics.of(releases.cells(d)), a_mixture(d)
    mean, covariance = moments(given, truth.weights, truth.means, np.linalg.cholesky(truth.covariances))
    h = given.features(truth.sample(60_000, rng=np.random.default_rng(2)))
    assert (np.abs(h.mean(axis=0) - mean) < 6 * h.std(axis=0) / 245 + 1e-6).all()
    away = h - mean
    products = np.einsum("ni,nj->ij", away**2, away**2) / len(h)
    error = np.sqrt(np.maximum(products - covariance**2, 0) / len(h))
    assert (np.abs(np.cov(h.T) - covariance) < 6 * error + 1e-5).all()


@pytest.mark.thorough(quick=["exact-replace-one-1", "gaussian-add-remove-2"])
@BOTH
@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove"])
@pytest.mark.parametrize("likelihood", ["exact", "gaussian"])
def test_the_graph_is_the_law(d, neighbouring, likelihood):
    release, truth = releases.cells(d, neighbouring), a_mixture(d)
    chol = np.asarray(np.linalg.cholesky(truth.covariances))
    inputs = [pt.vector("w"), pt.matrix("mu"), pt.tensor3("chol")]
    graph = log_likelihood(release, *inputs, likelihood=likelihood)
    found = float(pytensor.function(inputs, graph, mode="FAST_COMPILE")(truth.weights, truth.means, chol))
    given = CentralStatistics.of(release)
    if likelihood == "exact":
        assert found == pytest.approx(log_density(given, truth.weights, truth.means, chol), rel=1e-8)
        return
    at = release.mixture
    held = noisy_covariance(given, *moments(given, at.weights, at.means, np.linalg.cholesky(at.covariances)))
    rest = given.values - given.n_records * moments(given, truth.weights, truth.means, chol)[0]
    expected = -0.5 * (rest @ np.linalg.solve(held, rest) + np.linalg.slogdet(2 * np.pi * held)[1])
    assert found == pytest.approx(expected, rel=1e-8)


def test_a_release_keeps_the_statistics_through_a_file(tmp_path):
    release = releases.cells(2)
    again = CentralStatistics.of(dpg.load(release.save(tmp_path / "release.json")))
    given = CentralStatistics.of(release)
    assert_array_equal(again.values, given.values)
    assert_array_equal(again.noise_scales, given.noise_scales)
    assert again.n_records == 800 and again.n_records_scale == 0


def test_the_number_of_records_is_public_or_what_the_sums_say():
    private = CentralStatistics.of(releases.cells(1, "add-remove"))
    assert private.public_records is None and 0 < private.n_records_scale < 1000
    assert abs(private.n_records - 800) < private.n_records_scale
    public = releases.cells(1)
    for raw in (releases.cells(1, "add-remove").raw, dict(public.raw) | {"central_n_records": np.asarray(799.0)}):
        with pytest.raises(ValueError, match="central_n_records must be the public number of records of the release"):
            CentralStatistics.of(replace(public, raw=raw))


def test_unknown_likelihoods_are_refused():
    with pytest.raises(ValueError, match="likelihood must be one of 'auto', 'exact', 'gaussian'"):
        log_likelihood(releases.cells(1), np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)), likelihood="wishart")

"""Laws of the errors of fits to local responses, to EM sums and to sums of cells: the information, by derivatives of other functions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pm_dpgmm.bayes.parameters.anchor import mixture_at, weak_deviations
from pm_dpgmm.bayes.parameters.anchor_laws import anchor_of
from pm_dpgmm.bayes.parameters.fit_information import cells_covariance, responses_covariance, sums_covariance
from pm_dpgmm.methods.central.statistics import CentralStatistics
from pm_dpgmm.methods.em.law import moments
from pm_dpgmm.methods.em.statistics import EMStatistics
from pm_dpgmm.methods.local.waves import wave_probabilities
from pm_dpgmm.mixture.cell_probabilities import cell_probabilities
from tests.builders import em_sums, local_responses, releases

STEP = 1e-5


def slopes(function, mixture):
    """Derivatives of a function of weights, means and factors by offsets from the mixture, (..., P)."""

    def value(offsets):
        near = mixture_at(offsets, mixture)
        return function(near.weights, near.means, np.linalg.cholesky(near.covariances))

    steps = STEP * np.eye(len(weak_deviations(mixture)))
    return np.stack([(value(step) - value(-step)) / (2 * STEP) for step in steps], axis=-1)


def assert_information(covariance, information, mixture, *, rtol=1e-4):
    expected = np.linalg.inv(information + np.diag(weak_deviations(mixture) ** -2))
    assert_allclose(covariance, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("d", [1, 2])
def test_information_of_waves(d):
    mixture = local_responses.mixture(local_responses.LINE if d == 1 else local_responses.PLANE)
    responses = local_responses.reports(d, "one-bit")
    waves = responses.frequencies, responses.phases
    true, other = responses.channel
    q = other + (true - other) * wave_probabilities(*waves, *parts(mixture))
    by = (true - other) * slopes(lambda *parts: wave_probabilities(*waves, *parts), mixture)
    information = (by.T * (responses.asked / (q * (1 - q)))) @ by
    assert_information(responses_covariance(local_responses.release(responses), mixture), information, mixture)


@pytest.mark.parametrize("kind", ["unary", "direct"])
@pytest.mark.parametrize("d", [1, 2])
def test_information_of_cells(d, kind):
    mixture = local_responses.mixture(local_responses.LINE if d == 1 else local_responses.PLANE)
    responses = local_responses.cells(d, kind)
    own, other = responses.channel
    shares = cell_probabilities(responses.edges, *parts(mixture))
    q = other + (own - other) * shares
    by = (own - other) * slopes(lambda *parts: cell_probabilities(responses.edges, *parts), mixture)
    covariance = np.diag(q)  # of one response; of names less than what is regular, of which only sums count
    if kind == "unary":
        g = (own - other) * shares
        covariance = np.diag(q * (1 - q) + g**2) - np.outer(g, g)
    information = 500 * by.T @ np.linalg.solve(covariance, by)
    assert_information(responses_covariance(local_responses.release(responses), mixture), information, mixture)


@pytest.mark.parametrize("n_records_scale", [0.0, 5.0])
@pytest.mark.parametrize("d", [1, 2])
def test_information_of_em_sums(d, n_records_scale):
    """In two columns of a step whose balls move nothing: elsewhere nodes and scores have errors of a few per cent."""
    given, truth = em_sums.statistics(d, n_records_scale=n_records_scale)
    if d == 2:
        law = {"bounds": [[-9.0, 9.0]] * d, "scale": 9.0, "n_records": 2000.0, "n_records_scale": n_records_scale}
        given = EMStatistics.of_step([0.5, 0.5], 1.2 * truth[1], [np.eye(d)] * 2, **law)
    mixture, n = em_sums.mixture(truth), float(given.n_records)
    mean, covariance = moments(given, *parts(mixture))
    by = n * slopes(lambda *parts: moments(given, *parts)[0], mixture)
    total = n * covariance + n_records_scale**2 * np.outer(mean, mean) + np.diag(given.noise_scales**2)
    information = by.T @ np.linalg.solve(total, by)
    assert_information(sums_covariance(em_sums.release(given, mixture), mixture), information, mixture, rtol=1e-3)


@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove"])
@pytest.mark.parametrize("d, rtol", [(1, 1e-3), (2, 0.1)])  # in two columns nodes and scores differ, as above
def test_information_of_sums_of_cells(d, rtol, neighbouring):
    release = releases.cells(d, neighbouring)
    given, mixture = CentralStatistics.of(release), release.mixture
    mean, covariance = moments(given, *parts(mixture))
    by = float(given.n_records) * slopes(lambda *parts: moments(given, *parts)[0], mixture)
    total = given.n_records * covariance + given.n_records_scale**2 * np.outer(mean, mean)
    information = by.T @ np.linalg.solve(total + np.diag(given.noise_scales**2), by)
    assert_information(cells_covariance(release, mixture), information, mixture, rtol=rtol)
    assert "noisy sums" in anchor_of(release).source


def test_anchors_take_them_and_say_so():
    mixture = local_responses.mixture(local_responses.LINE)
    release = em_sums.release(em_sums.statistics(1)[0], mixture)
    assert "noisy sums" in anchor_of(release).source
    assert "responses" in anchor_of(local_responses.release(local_responses.reports(1, "one-bit"))).source
    with pytest.raises(ValueError, match="must be numbers for a release of method 'local' with 'added' responses"):
        anchor_of(local_responses.release(local_responses.vectors(1)))


def parts(mixture):
    return mixture.weights, mixture.means, np.linalg.cholesky(mixture.covariances)

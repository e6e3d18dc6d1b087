"""Characteristic functions against simulation and finite differences."""

import numpy as np
import pytest

from pm_dpgmm.mixture.characteristic import characteristic_function, characteristic_jacobian, feature_covariance


def mixture(n_components, n_features, seed=0):
    rng = np.random.default_rng(seed)
    factors = np.tril(rng.normal(size=(n_components, n_features, n_features)) / 3)
    diagonal = np.arange(n_features)
    factors[:, diagonal, diagonal] = rng.uniform(0.3, 1.5, size=(n_components, n_features))
    return rng.dirichlet(np.ones(n_components)), rng.normal(size=(n_components, n_features)), factors


def moved(parameters, step):
    """The mixture after a step in logits, means and factors (diagonal in logarithms)."""
    weights, means, factors = parameters
    n_components, n_features = means.shape
    row, column = np.tril_indices(n_features)
    logits, by_mean, by_factor = np.split(step, [n_components, n_components + means.size])
    weights = weights * np.exp(logits)
    new = factors.copy()
    new[:, row, column] += by_factor.reshape(n_components, -1) * np.where(row == column, 0, 1)
    diagonal = np.arange(n_features)
    new[:, diagonal, diagonal] *= np.exp(by_factor.reshape(n_components, -1)[:, row == column])
    return weights / weights.sum(), means + by_mean.reshape(means.shape), new


@pytest.mark.parametrize("n_components, n_features", [(1, 1), (3, 1), (2, 3)])
def test_derivatives_are_those_of_finite_differences(n_components, n_features):
    parameters = mixture(n_components, n_features)
    frequencies = np.random.default_rng(1).normal(size=(9, n_features))
    values, jacobian = characteristic_jacobian(frequencies, *parameters)
    assert np.allclose(values, characteristic_function(frequencies, *parameters), atol=1e-15)
    for j, column in enumerate(jacobian.T):
        step = np.zeros(jacobian.shape[1])
        step[j] = 1e-5
        ends = [characteristic_function(frequencies, *moved(parameters, sign * step)) for sign in (1, -1)]
        # central differences are good to the square of the step and to rounding over it
        assert np.abs((ends[0] - ends[1]) / 2e-5 - column).max() < 1e-9


def test_mean_and_covariance_of_features_are_those_of_simulated_records():
    """Alarm 1e-6 for the mean; covariances within 6 standard errors."""
    weights, means, factors = mixture(2, 2)
    rng = np.random.default_rng(2)
    n = 200_000
    labels = rng.choice(2, p=weights, size=n)
    records = means[labels] + np.einsum("nde,ne->nd", factors[labels], rng.normal(size=(n, 2)))
    frequencies, amplitudes = rng.normal(size=(4, 2)), np.array([1.0, 0.5, 2.0, 1.0])
    phases = records @ frequencies.T
    features = np.concatenate([amplitudes * np.cos(phases), amplitudes * np.sin(phases)], axis=1)
    covariance = feature_covariance(frequencies, amplitudes, weights, means, factors)
    values = characteristic_function(frequencies, weights, means, factors)
    expected = np.concatenate([amplitudes * values.real, amplitudes * values.imag])
    errors = np.sqrt(np.diagonal(covariance) / n)
    assert (np.abs(features.mean(axis=0) - expected) < 5.3 * errors).all()
    centred = features - expected
    products = centred[:, :, None] * centred[:, None, :]
    assert (np.abs(products.mean(axis=0) - covariance) < 6 * products.std(axis=0) / np.sqrt(n)).all()

"""When a mixture prior needs labels; the numbers behind the thresholds stand in pm_dpgmm/bayes/prior/separation.py."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pm_dpgmm.bayes.prior.separation import _overlaps, _ridgeline, is_multimodal, recommended_form, without_empty
from pm_dpgmm.mixture.mixture import Mixture


def round_mixture(weights, means, scales):
    means = np.asarray(means, dtype=float)
    return Mixture(weights, means, np.square(scales)[:, None, None] * np.eye(means.shape[1]))


@pytest.mark.parametrize(
    "mixture, form",
    [
        (round_mixture([1.0], [[0, 0]], [1]), "mixture"),
        (round_mixture([0.5, 0.5], [[0, 0], [3, 0]], [1, 1]), "mixture"),
        (round_mixture([0.5, 0.5], [[0, 0], [4, 0]], [1, 1]), "labelled"),
        (round_mixture([0.99, 0.01], [[0, 0], [9, 0]], [1, 1]), "labelled"),  # rare, but data can favour it
        (round_mixture([1.0, 0.0], [[0, 0], [9, 0]], [1, 1]), "mixture"),  # never occurs
        (round_mixture([0.5, 0.5], [[0, 0], [0, 0]], [1, 0.5]), "mixture"),
        (
            round_mixture([0.5, 0.5], [[0, 0], [0, 0]], [1, 0.03]),
            "labelled",
        ),  # no valley, yet NUTS does not cross
        (round_mixture([0.25] * 4, [[0, 0], [2, 0], [4, 0], [4, 2]], [1] * 4), "mixture"),  # ends far apart
        (
            round_mixture([0.5 - 1e-6, 2e-6, 0.5 - 1e-6], [[0], [3.0], [6]], [1] * 3),
            "labelled",
        ),  # bridge too low
    ],
)
def test_form_of_clear_cases(mixture, form):
    assert recommended_form(mixture) == form


def test_form_does_not_depend_on_units_or_component_order():
    mixture = round_mixture([0.5, 0.3, 0.2], [[0, 0], [2.9, 0], [0, 2.8]], [1, 0.9, 0.8])
    for matrix in (np.diag([1e6, 1e-6]), np.array([[1.0, 5.0], [0.0, 1.0]])):
        for order in ([0, 1, 2], [2, 0, 1]):
            assert recommended_form(mixture.transformed(matrix, [1e3, -7]).permuted(order)) == "mixture"
            assert not is_multimodal(mixture.transformed(matrix))


def test_depth_of_the_valley_decides_at_a_factor_of_two():
    # Two equal unit normals in one dimension: density at a mean over density in the middle, in closed form.
    for gap in np.arange(2.0, 5.0, 0.1):
        ratio = (1 + math.exp(-(gap**2) / 2)) / (2 * math.exp(-(gap**2) / 8))
        assert is_multimodal(round_mixture([0.5, 0.5], [[0.0], [gap]], [1, 1])) == (ratio > 2)


def test_the_ridgeline_holds_every_mode_of_a_pair():
    mixture = Mixture([0.5, 0.5], [[0, 0], [2, 2]], [np.diag([4, 0.1]), np.diag([0.1, 4])])  # mode off both means
    grid = np.stack(np.meshgrid(*[np.linspace(-3, 5, 401)] * 2), axis=-1).reshape(-1, 2)
    highest = mixture.log_density(grid).max()
    path = _ridgeline(mixture, 0, 1)
    np.testing.assert_allclose(path[[0, -1]], mixture.means, atol=1e-9)
    assert mixture.log_density(path).max() >= highest - 0.01  # 0.02 between grid points, steps of 0.03 in a


def test_overlap_is_the_bhattacharyya_coefficient():
    mixture = Mixture([0.5, 0.5], [[0.0], [1.5]], [[[1.0]], [[0.25]]])
    x = np.linspace(-10, 10, 20_001)
    integral = np.sqrt(stats.norm.pdf(x) * stats.norm.pdf(x, 1.5, 0.5)).sum() * (x[1] - x[0])
    np.testing.assert_allclose(_overlaps(mixture), [[1, integral], [integral, 1]], rtol=1e-9)


def test_components_of_weight_zero_are_dropped_without_rescaling():
    kept = without_empty(round_mixture([0.0, 0.4, 0.6], [[0.0], [1.0], [2.0]], [1, 2, 3]))
    assert kept.weights.tolist() == [0.4, 0.6] and kept.means.tolist() == [[1.0], [2.0]]

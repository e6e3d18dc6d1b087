"""One scaled mixture for starts and fits: what is given stays as it is, vectors come back."""

import numpy as np
import pytest

from pm_dpgmm.methods.sketch.estimate import less_floor
from pm_dpgmm.methods.sketch.scaled_mixture import (
    LEAST_WEIGHT,
    ScaledMixture,
    fit_coordinates,
    packed,
    packed_spreads,
    unpacked,
)
from pm_dpgmm.mixture.mixture import Mixture

PAIR = Mixture([0.3, 0.7], [[1.0, 20.0], [3.0, -10.0]], [[[2.0, 1.0], [1.0, 90.0]], [[1.0, -3.0], [-3.0, 40.0]]])
CENTRE, UNIT = np.array([2.0, 5.0]), np.array([3.0, 30.0])


def test_a_mixture_in_the_unit_of_the_data_has_the_shape_it_had():
    found = ScaledMixture.about(PAIR, CENTRE, UNIT)
    np.testing.assert_allclose(found.means * UNIT + CENTRE, PAIR.means, rtol=1e-14)
    np.testing.assert_allclose(found.covariances * UNIT * UNIT[:, None], PAIR.covariances, rtol=1e-14)
    np.testing.assert_allclose(found.factors @ found.factors.swapaxes(1, 2), found.covariances, rtol=1e-14, atol=1e-16)
    assert found.n_components == 2 and found.n_parameters == 12


def test_covariances_that_were_given_are_not_rounded_twice():
    covariances = PAIR.covariances / 7
    assert ScaledMixture.of(PAIR.weights, PAIR.means, covariances).covariances is covariances


@pytest.mark.parametrize("background", [None, 0.2])
def test_a_fit_comes_back_from_its_vector(background):
    found = ScaledMixture.about(PAIR, CENTRE, UNIT)
    weights = found.weights * (1 - (background or 0.0))
    found = ScaledMixture(weights, found.means, found.factors, background=background)
    vector = packed(found)
    assert len(vector) == fit_coordinates(2, 2, background is not None).size == 12 + (background is not None)
    back = unpacked(vector, 2, 2, background is not None)
    np.testing.assert_allclose(back.weights, found.weights, rtol=1e-14)
    np.testing.assert_array_equal(back.means, found.means)
    np.testing.assert_allclose(back.factors, found.factors, rtol=1e-14)
    assert back.background == (None if background is None else pytest.approx(background))


def test_a_weight_of_nothing_has_a_logarithm_all_the_same():
    nothing = ScaledMixture(np.array([0.0, 1.0]), np.zeros((2, 1)), np.ones((2, 1, 1)))
    np.testing.assert_allclose(np.exp(packed(nothing)[:2]), [LEAST_WEIGHT, 1.0])


def test_the_variance_floor_is_taken_off_a_start():
    found, floor = ScaledMixture.about(PAIR, CENTRE, UNIT), np.array([0.01, 0.02])
    lowered = less_floor(found, floor).covariances
    np.testing.assert_allclose(lowered + np.diag(floor), found.covariances, rtol=1e-12)


@pytest.mark.parametrize("background, ours", [(None, [0.1, 0.2]), (0.2, [0.1, 0.2, 0.0])])
def test_spreads_have_the_places_of_what_they_are_of(background, ours):
    found = ScaledMixture(np.full(2, 0.5), np.zeros((2, 2)), np.array([np.eye(2)] * 2), background=background)
    spreads = packed_spreads(found, np.array([0.1, 0.2]), np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0]))
    assert spreads.tolist() == [*ours, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 5.0, 6.0, 0.0, 6.0]

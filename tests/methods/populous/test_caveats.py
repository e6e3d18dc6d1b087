"""What a released mask says against itself."""

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms.lifted_mask import LiftedMaskNoise, lifted_mask, mixture_of_lifted
from pm_dpgmm.methods.populous.caveats import NOTABLE, POINT, expected_loss, mask_caveats


@pytest.mark.parametrize("narrow, told", [(0.99 * POINT, True), (1.01 * POINT, False), (0.2, False)])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_a_component_is_told_below_a_thousandth_of_the_whole(narrow, told, unit):
    """In the direction in which it is narrowest, whatever the unit: columns may nearly determine each other."""
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(2, 2)))[0] * [1.0, 1e-4] * unit
    first = turn @ np.diag([narrow**2, 1.0]) @ turn.T
    mixture = dpg.Mixture([0.5, 0.5], [[0.0, 0.0], [0.0, 0.0]], [first, turn @ np.diag([2 - narrow**2, 1.0]) @ turn.T])
    found = mask_caveats(mixture, 0.01)
    assert len(found) == told and all("component 0 is narrower" in text for text in found)


def test_one_component_is_as_wide_as_the_whole():
    assert mask_caveats(dpg.Mixture([1.0], [[3.0, 0.0]], [[[1.0, 1.0], [1.0, 1.0 + 1e-9]]]), 0.01) == []


@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_expected_loss_is_that_of_masks(d):
    """Of 4,000 masks the mean has a standard error of 1.6 % or less: a false alarm is one of six of these."""
    rng, noise = np.random.default_rng(2), LiftedMaskNoise.for_components(1, eta=0.02)
    one = np.ones(1), np.zeros((1, d)), np.eye(d)[None], np.ones(1)
    losses = []
    for _ in range(4_000):
        found = mixture_of_lifted(lifted_mask(*one, noise=noise, rng=rng), noise=noise)
        mean, covariance = found.means[0], found.covariances[0]
        trace = np.trace(np.linalg.inv(covariance)) + mean @ np.linalg.solve(covariance, mean)
        losses.append((trace - d + np.linalg.slogdet(covariance)[1]) / 2)
    assert np.mean(losses) == pytest.approx(expected_loss(d, noise.eta), rel=0.1)


@pytest.mark.parametrize("d, eta, told", [(1, 0.2, False), (1, 0.28, True), (4, 0.08, False), (4, 0.09, True)])
def test_a_mask_that_drowns_the_answer_is_told(d, eta, told):
    found = mask_caveats(dpg.Mixture([1.0], [np.zeros(d)], [np.eye(d)]), eta)
    assert told == (expected_loss(d, eta) >= NOTABLE) == (len(found) == 1)
    assert all("the noise of the mask moves a mean by" in text for text in found)


def test_the_fewest_records_that_are_taken_come_with_a_warning():
    """The number that a refusal names is enough for an answer, and its mask moves a mean by half a deviation."""
    X = np.random.default_rng(5).normal(10, 2, (6_700, 1))
    with pytest.warns(dpg.FitWarning, match="the noise of the mask"):
        release = dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-6, method="populous", random_seed=1, progress=False)
    assert release.flag is not None and "costs 0.16 nats a record" in release.summary()


@pytest.mark.thorough
def test_a_value_that_many_records_have_is_told(tmp_path):
    """The learner agrees with itself on it, so the private test passes; nothing was said."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((100_000, 1)) < 0.3, 0.0, rng.normal(10.0, 1.0, (100_000, 1)))
    settings = dpg.Populous(noise=0.1, efficiency=1.0)
    with pytest.warns(dpg.FitWarning, match="some records seem to have one value") as caught:
        release = dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, method=settings, random_seed=1, progress=False)
    assert caught[0].category is dpg.FitWarning
    assert dpg.load(release.save(tmp_path / "release.json")).warnings == release.warnings

"""The parts of the anchored study: its densities are those of the package, its laws are invariant to labels."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.bayes.parameters.anchor import mixture_at
from pm_dpgmm.bayes.parameters.params import mixture_params
from verification.calibration import anchored

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning"),
]


@pytest.mark.parametrize("d", [1, 2])
def test_likelihood_equals_that_of_the_model_and_of_the_mixture(d):
    centre, rng = anchored.CENTRES[d], np.random.default_rng(d)
    fresh = centre.sample(7, rng=rng)
    offsets = 0.3 * rng.normal(size=(2, 3, len(anchored.deviations(centre))))
    bases = [centre, centre.permuted([1, 0])]
    found = anchored.log_likelihood(offsets, bases, np.stack([fresh, fresh]))
    for r, s in np.ndindex(2, 3):
        mixture = mixture_at(offsets[r, s], bases[r])
        np.testing.assert_allclose(found[r, s], mixture.log_density(fresh).sum(), atol=1e-10)
    with pm.Model() as model:
        th = mixture_params("g", centre, weight_conc=99, mean_scale=0.2, cov_scale=0.1)
        dpg.gmm("y", th, observed=fresh)
    standard = np.linalg.solve(th.anchor.root, offsets[0, 0])
    prior = -0.5 * (standard**2).sum() - 0.5 * len(standard) * np.log(2 * np.pi)
    whole = model.compile_logp(mode="FAST_COMPILE")({"g_offset": standard})
    np.testing.assert_allclose(whole - prior, found[0, 0], atol=1e-9)


@pytest.mark.parametrize("d", [1, 2])
def test_parameters_are_those_of_the_mixture(d):
    centre = anchored.CENTRES[d]
    offsets = 0.2 * np.random.default_rng(d).normal(size=len(anchored.deviations(centre)))
    found = anchored.parameters(*anchored.unpacked(offsets[None, None], [centre]))[0, 0]
    mixture = mixture_at(offsets, centre)
    sds = np.sqrt(np.diagonal(mixture.covariances, axis1=1, axis2=2))
    expected = [mixture.weights[0], *mixture.means.ravel(), *sds.ravel()]
    if d == 2:
        expected += (mixture.covariances[:, 0, 1] / sds.prod(axis=1)).tolist()
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert len(anchored.names(d)) == len(expected)


def test_a_permuted_law_has_the_same_spread_of_every_parameter():
    centre, rng = anchored.CENTRES[2], np.random.default_rng(1)
    size = len(anchored.deviations(centre))
    root = 1e-3 * (np.eye(size) + 0.2 * rng.normal(size=(size, size)))  # small: laws are equal to first order
    order = np.array([1, 0])
    other = anchored.permuted_root(centre, root, order)
    spreads = []
    for base, r in ((centre, root), (centre.permuted(order), other)):
        slopes = anchored.derivative(
            lambda z, b=base, q=r: anchored.parameters(*anchored.unpacked((q @ z)[None, None], [b]))[0, 0], size
        )
        spreads.append(np.linalg.norm(slopes, axis=1))
    means, sds = [1, 2, 3, 4], [5, 6, 7, 8]
    for block in (means, sds):
        np.testing.assert_allclose(spreads[0][block], np.roll(spreads[1][block], 2), rtol=1e-5)
    np.testing.assert_allclose(spreads[0][0], spreads[1][0], rtol=1e-5)


def test_fisher_scoring_ends_where_the_score_is_zero_and_information_is_its_variance():
    centre = anchored.CENTRES[1]
    records = centre.sample(4_000, rng=np.random.default_rng(2))
    fit, information = anchored.fisher_scoring(centre, records)
    score = anchored.scores(fit, records).sum(axis=0)
    assert score @ np.linalg.solve(information, score) < 1e-6
    expected = 4_000 * anchored.unit_information(fit, rng=np.random.default_rng(3), n_points=40_000)
    np.testing.assert_allclose(np.diag(information), np.diag(expected), rtol=0.1)


def test_resampling_moves_a_prior_to_the_posterior_and_refuses_when_few_draws_count():
    centre, rng = anchored.CENTRES[1], np.random.default_rng(4)
    fresh = centre.sample(60, rng=rng)[None]
    size = len(anchored.deviations(centre))
    prior = 0.05 * rng.normal(size=(1, 6_000, size))
    kept = anchored.resampled(prior, [centre], fresh, rng=rng)
    score = anchored.scores(centre, fresh[0]).sum(axis=0)
    # to first order the posterior mean is the prior variance times the score, less what its curvature takes
    information = anchored.scores(centre, fresh[0])
    expected = np.linalg.solve(information.T @ information + np.eye(size) / 0.05**2, score)
    assert np.abs(kept[0].mean(axis=0) - expected).max() < 0.015  # 5 standard errors of 6,000 draws, and curvature
    with pytest.raises(RuntimeError, match="effective draws"):
        anchored.resampled(100 * prior, [centre], fresh, rng=rng)

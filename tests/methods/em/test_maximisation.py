"""The M-step: maximum likelihood of exact sums, the paper's prior, kinds of covariances."""

import numpy as np
import pytest

from pm_dpgmm.mechanisms.em_sums import Squares
from pm_dpgmm.methods.em.maximisation import MapPrior, maximised
from pm_dpgmm.methods.em.statistics import EMStatistics
from pm_dpgmm.mixture.mixture import Mixture

AT = Mixture([0.4, 0.6], [[-1.5, 0.0], [1.5, 0.5]], [np.diag([1.0, 0.5]), [[0.8, 0.2], [0.2, 0.6]]])
RECORDS = AT.sample(2000, rng=np.random.default_rng(1))
BOUNDS = [[-6.0, 6.0], [-4.0, 8.0]]


def exact(squares="full"):
    """Sums without noise, in one ball that holds everything."""
    step = EMStatistics.of_step(
        AT.weights, AT.means, AT.covariances, bounds=BOUNDS, scale=1e-9, n_records=2000.0, squares=squares
    )
    return step.with_sums(step.features(RECORDS).sum(axis=0))


def by_records():
    """One step of EM on the records."""
    shares = AT.responsibilities(RECORDS)
    counts = shares.sum(axis=0)
    means = shares.T @ RECORDS / counts[:, None]
    rest = RECORDS[None] - means[:, None]
    covariances = np.einsum("nk,kni,knj->kij", shares, rest, rest) / counts[:, None, None]
    return counts, means, covariances


@pytest.mark.parametrize("kind", ["full", "diagonal", "isotropic"])
def test_exact_sums_give_the_step_of_em(kind):
    counts, means, covariances = by_records()
    found = maximised(exact(kind), covariance=Squares(kind))
    np.testing.assert_allclose(found.weights, counts / 2000, rtol=1e-9)
    np.testing.assert_allclose(found.means, means, atol=1e-9)
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    expected = {
        "full": covariances,
        "diagonal": variances[:, :, None] * np.eye(2),
        "isotropic": variances.mean(axis=1)[:, None, None] * np.eye(2),
    }[kind]
    np.testing.assert_allclose(found.covariances, expected, atol=1e-8)


def test_a_prior_adds_its_records():
    """Modes of Dirichlet and normal-inverse-Wishart, written out again."""
    counts, means, covariances = by_records()
    prior = MapPrior(concentration=11.0, strength=50.0, degrees=30.0, spread=0.25)
    found = maximised(exact(), prior=prior)
    np.testing.assert_allclose(found.weights, (counts + 10) / (2000 + 20), rtol=1e-9)
    middle, half = np.array([0.0, 2.0]), 6.0
    pooled = (counts[:, None] * means + 50 * middle) / (counts + 50)[:, None]
    np.testing.assert_allclose(found.means, pooled, atol=1e-9)
    away = means - middle
    scatter = counts[:, None, None] * covariances + 30 * (0.25 * half) ** 2 * np.eye(2)
    scatter = scatter + (counts * 50 / (counts + 50))[:, None, None] * away[:, :, None] * away[:, None]
    degrees = 30 + 2 + 1  # so that the prior mean of a covariance is spread^2
    np.testing.assert_allclose(found.covariances, scatter / (counts + degrees + 2 + 2)[:, None, None], atol=1e-8)
    weak = maximised(exact(), prior=MapPrior(concentration=1.0, strength=0.0, degrees=0.0))
    np.testing.assert_allclose(weak.means, means, atol=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        {"concentration": 0.5},
        {"strength": -1.0},
        {"strength": 1e300},
        {"degrees": np.nan},
        {"spread": 0.0},
        {"spread": 2.0},
        {"spread": "wide"},
    ],
)
def test_priors_that_make_no_sense_are_refused(change):
    with pytest.raises((TypeError, ValueError), match=next(iter(change))):
        MapPrior(**change)


def test_sums_that_are_all_noise_give_a_mixture():
    step = exact()
    noise = 1e4 * np.random.default_rng(3).normal(size=len(step.values))
    found = maximised(step.with_sums(noise))
    assert np.isfinite(found.means).all() and found.weights.min() > 0

"""Masks: the bound against Renyi divergences of random close pairs, the samplers' moments, the published constants."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pm_dpgmm.mechanisms import masks
from pm_dpgmm.mechanisms.masks import (
    MaskNoise,
    largest_radius,
    mask_covariance,
    mask_log_moment,
    mask_loss,
    mask_mean,
    mask_mixture,
    mask_weight,
    paper_radius,
)
from pm_dpgmm.mixture.distances import distance_covariance, distance_mean, distance_parameters
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.examples import examples

NOISE = MaskNoise(0.05, 0.07, 0.06)


def gaussian_log_moment(z, mean_p, covariance_p, mean_q, covariance_q):
    """ln E_P[(P/Q)^z] of multivariate normals: Gil, Alajaji and Linder (2013); infinite where it diverges."""
    mixed = (1 + z) * covariance_q - z * covariance_p
    if np.linalg.eigvalsh(mixed).min() <= 0:
        return math.inf
    gap = mean_p - mean_q
    logdet = [np.linalg.slogdet(s)[1] for s in (mixed, covariance_p, covariance_q)]
    return z * (1 + z) / 2 * gap @ np.linalg.solve(mixed, gap) - 0.5 * (logdet[0] + z * logdet[1] - (1 + z) * logdet[2])


def root(covariance):
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(values)) @ vectors.T


def exact_log_moment(z, p, q, noise):
    """Mean and weight exactly; covariance by the Gaussian matrix V = S^1/2 O (I + eta G) with the best alignment O."""
    (w1, m1, s1), (w2, m2, s2) = p, q
    d = len(m1)
    first = np.linalg.cholesky(s1)
    # right-rotate the second factor so that first^-1 second is symmetric: the dominating pair of the proof
    relative = np.linalg.solve(first, np.linalg.solve(first, s2).T).T
    second = first @ root((relative + relative.T) / 2)
    covariance = gaussian_log_moment(
        z,
        first.T.ravel(),
        noise.covariance**2 * np.kron(np.eye(d), first @ first.T),
        second.T.ravel(),
        noise.covariance**2 * np.kron(np.eye(d), second @ second.T),
    )
    mean = gaussian_log_moment(z, m1, noise.mean**2 * s1, m2, noise.mean**2 * s2)
    return covariance + mean + z * (1 + z) * ((w1 - w2) / noise.weight) ** 2 / 2


@given(
    d=st.integers(1, 4),
    radius=st.floats(1e-4, 0.029),
    share=st.floats(0.1, 0.99),
    seed=st.integers(0, 2**32 - 1),
    single=st.booleans(),
)
@settings(deadline=None, max_examples=examples(150))
def test_no_close_pair_exceeds_the_bound_in_either_order(d, radius, share, seed, single):
    rng = np.random.default_rng(seed)
    z = 3 + share * (0.9 / radius - 3)
    a = rng.standard_normal((d, d)) + 2 * np.eye(d)
    s1 = a @ a.T
    direction = np.zeros(d) if single else rng.standard_normal(d)
    direction[0] += 1.0 if single else 0.0
    direction *= rng.choice([-1, 1]) / np.linalg.norm(direction)
    q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    factor = np.linalg.cholesky(s1) @ q
    scale = radius * 0.999 / (1 + radius)  # inside the radius in both directions
    s2 = factor @ np.diag(1 + scale * direction) @ factor.T
    shift = factor @ (direction * scale if single else scale * rng.standard_normal(d) / math.sqrt(d) / 3)
    p, other = (0.5, np.zeros(d), s1), (0.5 + radius, shift, (s2 + s2.T) / 2)
    assert distance_covariance(p[2], other[2]) <= radius
    assert distance_mean(p[1], p[2], other[1], other[2]) <= radius
    bound = mask_log_moment(z, radius=radius, noise=NOISE, n_features=d, n_components=1)
    assert math.isfinite(bound)
    for first, second in ((p, other), (other, p)):
        assert exact_log_moment(z, first, second, NOISE) <= bound * (1 + 1e-7)


def test_the_bound_is_attained_by_one_eigenvalue_and_a_mean_shift_along_it():
    radius, z = 0.01, 30.0
    s1, s2 = np.eye(2), np.diag([1 / (1 + radius), 1.0])
    shift = np.array([radius / math.sqrt(1 + radius), 0.0])
    exact = exact_log_moment(z, (0.5, np.zeros(2), s1), (0.5 + radius, shift, s2), NOISE)
    bound = mask_log_moment(z, radius=radius, noise=NOISE, n_features=2, n_components=1)
    assert exact == pytest.approx(bound, rel=1e-9)


def test_components_add_up_and_orders_outside_the_proof_are_infinite():
    one, three = (mask_log_moment(20.0, radius=0.01, noise=NOISE, n_features=2, n_components=k) for k in (1, 3))
    assert three == pytest.approx(3 * one)
    assert mask_log_moment(101.0, radius=0.01, noise=NOISE, n_features=2, n_components=1) == math.inf
    assert mask_log_moment(1.0, radius=0.01, noise=NOISE, n_features=2, n_components=1) == math.inf
    with pytest.raises(ValueError, match="radius must be small"):
        mask_loss(radius=0.5, noise=NOISE, n_features=1, n_components=1)


@pytest.mark.parametrize(
    "d, k, renyi, lemmas",
    [(1, 1, 7.03e-3, 7.71e-5), (1, 2, 5.04e-3, 3.69e-5), (1, 5, 3.23e-3, 1.40e-5), (5, 2, 5.03e-3, 3.69e-5)],
)
def test_radii_agree_with_an_independent_derivation(d, k, renyi, lemmas):
    size = {"epsilon": 1.0, "delta": 1e-6, "noise": MaskNoise(), "n_features": d, "n_components": k}
    assert largest_radius(**size) == pytest.approx(renyi, rel=2e-3)
    assert paper_radius(**size) == pytest.approx(lemmas, rel=2e-3)


@given(
    epsilon=st.floats(0.05, 1),
    log_delta=st.floats(-25, -3),
    d=st.integers(1, 8),
    k=st.integers(1, 6),
    noise=st.floats(0.02, 0.2),
)
@settings(deadline=None, max_examples=examples(40))
def test_published_constants_are_private_and_never_better_than_exact_ones(epsilon, log_delta, d, k, noise):
    size = {"epsilon": epsilon, "delta": math.exp(log_delta), "noise": MaskNoise(noise, noise, noise)}
    size |= {"n_features": d, "n_components": k}
    assert paper_radius(**size) <= largest_radius(**size)


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("k", [2, 7, 20, 100])
def test_the_epsilon_of_advanced_composition_is_rounded_down(epsilon, k, monkeypatch):
    """Its root was taken from either side; the budget of every component must add up to what is promised."""
    asked = []
    monkeypatch.setattr(masks, "_lemma_radius", lambda e, d, **sizes: asked.append((e, d)) or 1.0)
    paper_radius(epsilon=epsilon, delta=1e-6, noise=NOISE, n_features=2, n_components=k)
    (_, _), (each, share) = asked
    total = math.sqrt(2 * k * math.log(2 / 1e-6)) * 3 * each + 3 * k * each * math.expm1(3 * each)
    assert epsilon * (1 - 1e-12) <= total <= epsilon and share == 1e-6 / (6 * k)


@pytest.mark.parametrize(
    "change, words", [({"epsilon": 1.5}, "epsilon must be at most 1"), ({"noise": MaskNoise(0.05, 0.5)}, "mean noise")]
)
def test_published_constants_are_refused_where_they_are_false(change, words):
    size = {"epsilon": 1.0, "delta": 1e-6, "noise": MaskNoise(), "n_features": 2, "n_components": 1}
    with pytest.raises(ValueError, match=words):
        paper_radius(**(size | change))


@pytest.mark.parametrize("rng", [None, np.random.default_rng(11)], ids=["release", "simulation"])
def test_masks_have_their_moments(rng):
    n, eta = 1500, 0.1
    covariance, mean = np.array([[2.0, 0.6], [0.6, 0.5]]), np.array([10.0, -3.0])
    draws = np.array([mask_covariance(covariance, noise=eta, rng=rng) for _ in range(n)])
    # relative noise of an entry is about 2 eta; six standard errors of the mean
    assert draws.mean(axis=0) == pytest.approx((1 + 2 * eta**2) * covariance, abs=6 * 2 * eta * 2 / math.sqrt(n))
    white = np.linalg.solve(
        np.linalg.cholesky(covariance),
        (np.array([mask_mean(mean, covariance, noise=eta, rng=rng) for _ in range(n)]) - mean).T,
    )
    assert np.cov(white) == pytest.approx(eta**2 * np.eye(2), abs=6 * eta**2 * math.sqrt(2 / n))
    weights = np.array([mask_weight(0.3, noise=eta, rng=rng) for _ in range(n)])
    assert weights.std() == pytest.approx(eta, rel=6 / math.sqrt(2 * n)) and abs(
        weights.mean() - 0.3
    ) < 6 * eta / math.sqrt(n)


def test_the_mixture_mask_shuffles_and_rounds():
    mixture = Mixture([0.2, 0.8], [[0.0], [100.0]], [[[1.0]], [[1.0]]])
    noise = MaskNoise(0.01, 0.01, 0.01)
    firsts = [mask_mixture(mixture, noise=noise)["means"][0, 0] > 50 for _ in range(200)]
    assert 50 < sum(firsts) < 150  # binomial(200, 1/2): outside with probability below 1e-11
    raw = mask_mixture(mixture, noise=noise)
    assert (raw["weights"] * 2**30 == np.rint(raw["weights"] * 2**30)).all()
    unit = np.exp2(np.floor(np.log2(np.sqrt(raw["covariances"][:, 0, 0]))) - 30)
    assert (raw["means"][:, 0] / unit == np.rint(raw["means"][:, 0] / unit)).all()
    order = np.argsort(raw["means"][:, 0])  # weight, mean and covariance of a component travel together
    assert raw["weights"][order] == pytest.approx([0.2, 0.8], abs=0.1)


def test_masking_does_not_move_a_mixture_out_of_its_shape():
    mixture = Mixture([0.5, 0.5], [[0.0, 0.0], [5.0, 5.0]], [np.eye(2), np.eye(2)])
    raw = mask_mixture(mixture, noise=NOISE, rng=np.random.default_rng(2))
    again = Mixture(raw["weights"] / raw["weights"].sum(), raw["means"], raw["covariances"])
    assert 0 < distance_parameters(mixture, again) < 1

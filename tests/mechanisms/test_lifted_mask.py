"""The lifted mask against the matrix formula it stands for, its moments, its shuffle, its grid; post-processing."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pm_dpgmm.mechanisms.lifted_mask import LiftedMaskNoise, lifted_mask, mixture_of_lifted, parts_of_lifted
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.examples import examples
from verification.claims.aggregated.reference import distance, lifted

NOISE = LiftedMaskNoise.for_components(2)


def spd(rng, k, d):
    a = rng.standard_normal((k, d, d)) + 2 * np.eye(d)
    return a @ np.swapaxes(a, 1, 2)


def assembled(means, covariances, corners):
    """The matrices that have these parts."""
    k, d = means.shape
    whole = np.empty((k, d + 1, d + 1))
    whole[:, :d, :d] = covariances + corners[:, None, None] * means[:, :, None] * means[:, None, :]
    whole[:, :d, d] = whole[:, d, :d] = corners[:, None] * means
    whole[:, d, d] = corners
    return whole


def test_noise_of_weights_is_that_of_the_theorem():
    noise = LiftedMaskNoise(eta=0.1, kappa=0.3)
    assert noise.weight(4) == pytest.approx(0.3 / math.sqrt(1 / (4 * 0.1**2) + 5 / 2))
    assert LiftedMaskNoise.for_components(3).kappa == pytest.approx(1 / (math.sqrt(2) * 3))
    with pytest.raises(ValueError, match="eta must be"):
        LiftedMaskNoise(0.0, 0.1)


def masked(weights, means, covariances, corners, **named):
    return lifted_mask(weights, means, np.linalg.cholesky(covariances), corners, **named)


@given(d=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_parts_and_matrices_are_each_others_inverse_and_follow_a_change_of_units(d, seed):
    rng = np.random.default_rng(seed)
    points = spd(rng, 2, d + 1)
    means, covariances, corners = parts_of_lifted(points)
    assert assembled(means, covariances, corners) == pytest.approx(points, rel=1e-9, abs=1e-9)
    assert np.linalg.eigvalsh(covariances).min() > 0
    again = parts_of_lifted(np.array([lifted(means[0], covariances[0])]))
    assert again[0][0] == pytest.approx(means[0]) and again[1][0] == pytest.approx(covariances[0], abs=1e-9)
    assert again[2][0] == 1
    a, b = rng.standard_normal((d, d)) + 2 * np.eye(d), rng.standard_normal(d)
    change = np.block([[a, b[:, None]], [np.zeros(d), 1.0]])
    moved = parts_of_lifted(change @ points @ change.T)
    scale = np.abs(change @ points @ change.T).max()
    assert moved[0] == pytest.approx(means @ a.T + b, rel=1e-6, abs=1e-9 * scale)
    assert moved[1] == pytest.approx(a @ covariances @ a.T, rel=1e-6, abs=1e-9 * scale**2)
    assert moved[2] == pytest.approx(corners)


@given(d=st.integers(1, 5), k=st.integers(1, 3), eta=st.floats(0.01, 1.0), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(60))
def test_the_mask_is_the_matrix_formula_with_the_noise_that_was_drawn(d, k, eta, seed):
    rng = np.random.default_rng(seed)
    means, covariances, corners = rng.standard_normal((k, d)), spd(rng, k, d), rng.uniform(0.5, 2, k)
    noise = LiftedMaskNoise(eta, 0.2)
    raw = masked(np.ones(k) / k, means, covariances, corners, noise=noise, rng=np.random.default_rng(seed))
    replay = np.random.default_rng(seed)
    weights = 1 / k + noise.weight(d) * replay.standard_normal(k)
    drawn = np.eye(d + 1) + eta * replay.standard_normal((k, d + 1, d + 1))
    order = replay.permutation(k)
    for place, a in enumerate(order):
        root = np.linalg.cholesky(covariances[a])
        factor = np.block([[root, means[a][:, None] * math.sqrt(corners[a])], [np.zeros(d), math.sqrt(corners[a])]])
        assert factor @ factor.T == pytest.approx(assembled(means, covariances, corners)[a])  # a factor of the average
        expected = factor @ drawn[a] @ drawn[a].T @ factor.T
        found = assembled(raw["means"], raw["covariances"], raw["corners"])[place]
        # 2^-30 of a released standard deviation, squared with a mean that may be several of them
        size = np.abs(expected).max()
        assert found == pytest.approx(expected, rel=1e-7, abs=1e-7 * size)
        assert raw["weights"][place] == pytest.approx(weights[a], abs=2.0**-30)


def test_an_offset_of_a_million_standard_deviations_costs_no_digits():
    rng = np.random.default_rng(5)
    means, covariances, corners = rng.standard_normal((2, 2)), spd(rng, 2, 2), np.array([1.0, 1.01])
    given = np.array([0.5, 0.5]), means, covariances, corners
    near = masked(*given, noise=NOISE, rng=np.random.default_rng(1))
    offset, unit = 2.0**20, 2.0**-30  # powers of two: the far average is exactly the near one, moved
    far = (given[0], (means + offset) * unit, covariances * unit**2, corners)
    found = masked(*far, noise=NOISE, rng=np.random.default_rng(1))
    assert (found["covariances"] == near["covariances"] * unit**2).all()
    assert (found["corners"] == near["corners"]).all() and (found["weights"] == near["weights"]).all()
    assert found["means"] / unit - offset == pytest.approx(near["means"], abs=1e-8)


@pytest.mark.parametrize("rng", [None, np.random.default_rng(11)], ids=["release", "simulation"])
def test_masks_have_the_stated_noise(rng):
    n, eta, d = 1500, 0.05, 2
    noise = LiftedMaskNoise(eta, 0.2)
    given = np.array([0.7]), np.zeros((1, d)), np.eye(d)[None], np.ones(1)
    runs = [masked(*given, noise=noise, rng=rng) for _ in range(n)]
    weights, corners, means, covariances = (
        np.array([run[name][0] for run in runs]) for name in ("weights", "corners", "means", "covariances")
    )
    error = 6 / math.sqrt(n)  # six standard errors, and as many of a standard deviation with a factor 1/sqrt(2)
    assert weights.mean() == pytest.approx(0.7, abs=error * noise.weight(d))
    assert weights.std() == pytest.approx(noise.weight(d), rel=error)
    assert means.mean(axis=0) == pytest.approx(np.zeros(d), abs=error * 1.5 * eta)
    assert means.std(axis=0) == pytest.approx(np.full(d, math.sqrt(2) * eta), rel=error)
    assert covariances[:, 0, 0].std() == pytest.approx(2 * eta, rel=error)
    assert covariances[:, 0, 1].std() == pytest.approx(math.sqrt(2) * eta, rel=error)
    assert corners.std() == pytest.approx(2 * eta, rel=error)


@pytest.mark.parametrize("d", [1, 2, 6])
def test_the_bias_of_covariances_is_removed(d):
    rng, eta, n = np.random.default_rng(3), 0.1, 4000
    noise = LiftedMaskNoise(eta, 0.2)
    given = np.ones(n) / n, np.zeros((n, d)), np.broadcast_to(np.eye(d), (n, d, d)), np.ones(n)
    mixture = mixture_of_lifted(masked(*given, noise=noise, rng=rng), noise=noise)
    traces = np.trace(mixture.covariances, axis1=1, axis2=2) / d
    # six standard errors of entries with noise 2 eta, and what is left at order eta^4
    assert traces.mean() == pytest.approx(1, abs=6 * 2 * eta / math.sqrt(n * d) + 3 * d * eta**4)


@pytest.mark.parametrize("below", [0.0, 1e-9])
def test_covariances_that_rounding_made_singular_become_a_mixture(below):
    """Rounding to a grid may reach below 0, and then no record may cost the release."""
    scale = np.array([1e-3, 1.0, 1e4])
    flat = (np.ones((3, 3)) - below * np.eye(3)) * np.outer(scale, scale)
    raw = {"weights": np.array([0.4, 0.6]), "means": np.zeros((2, 3)), "covariances": np.array([flat, np.eye(3)])}
    mixture = mixture_of_lifted(raw, noise=NOISE)
    assert np.linalg.eigvalsh(mixture.covariances[0] / np.outer(scale, scale)).min() > 0
    assert np.isfinite(mixture.log_density(np.zeros((1, 3)))).all()
    assert mixture.covariances * (1 + 2 * NOISE.eta**2) == pytest.approx(raw["covariances"], rel=1e-8)


def test_the_mask_shuffles_components_whole_and_rounds():
    average = np.array([0.2, 0.8]), np.array([[0.0], [100.0]]), np.array([[[1.0]], [[4.0]]]), np.array([1.0, 1.5])
    noise = LiftedMaskNoise(0.01, 0.1)
    firsts = [masked(*average, noise=noise)["means"][0, 0] > 50 for _ in range(200)]
    assert 50 < sum(firsts) < 150  # binomial(200, 1/2): outside with probability below 1e-11
    raw = masked(*average, noise=noise)
    order = np.argsort(raw["means"][:, 0])
    for name, expected in zip(("weights", "means", "covariances", "corners"), average, strict=True):
        assert raw[name][order] == pytest.approx(expected, abs=0.5)
    unit = np.exp2(np.floor(np.log2(np.sqrt(raw["covariances"][:, 0, 0]))))
    grids = (
        (raw["weights"], 1.0),
        (raw["means"][:, 0], unit),
        (raw["covariances"][:, 0, 0], unit**2),
        (raw["corners"], np.exp2(np.floor(np.log2(raw["corners"])))),
    )
    for values, scale in grids:
        steps = values / scale * 2**30
        assert (steps == np.rint(steps)).all()


def test_arguments_are_not_modified_and_nothing_depends_on_units_that_are_powers_of_two():
    rng = np.random.default_rng(8)
    given = [np.array([0.5, 0.5]), rng.standard_normal((2, 3)), spd(rng, 2, 3), np.ones(2)]
    copies = [part.copy() for part in given]
    raw = masked(*given, noise=NOISE, rng=np.random.default_rng(0))
    assert all((a == b).all() for a, b in zip(given, copies, strict=True))
    for unit in (2.0**-200, 2.0**200):
        scaled = given[0], given[1] * unit, given[2] * unit**2, given[3]
        other = masked(*scaled, noise=NOISE, rng=np.random.default_rng(0))
        assert (other["means"] == raw["means"] * unit).all()
        assert (other["covariances"] == raw["covariances"] * unit**2).all()
        mixture_of_lifted(other, noise=NOISE)


@given(seed=st.integers(0, 2**32 - 1), eta=st.floats(0.01, 3.0), d=st.integers(1, 6), k=st.integers(1, 4))
@settings(deadline=None, max_examples=examples(80))
def test_post_processing_always_gives_a_mixture(seed, eta, d, k):
    rng = np.random.default_rng(seed)
    noise = LiftedMaskNoise(eta, 3.0)  # weights are noisy enough to be clipped, often all of them
    units = np.exp(rng.uniform(-20, 20, d))
    covariances = spd(rng, k, d) * units[:, None] * units
    average = np.ones(k) / k, rng.standard_normal((k, d)) * units, covariances, np.ones(k)
    raw = masked(*average, noise=noise, rng=rng)
    mixture = mixture_of_lifted(raw, noise=noise)
    assert isinstance(mixture, Mixture) and mixture.weights.sum() == pytest.approx(1)
    if raw["weights"].max() <= 0:
        assert (mixture.weights == 1 / k).all()
    assert (mixture.means == raw["means"]).all()


def test_the_distance_of_a_masked_average_from_it_is_about_what_the_noise_says():
    rng, eta, d = np.random.default_rng(4), 0.01, 3
    noise = LiftedMaskNoise(eta, 0.2)
    means, covariances, corners = rng.standard_normal((1, d)), spd(rng, 1, d), np.ones(1)
    before = assembled(means, covariances, corners)[0]
    found = []
    for _ in range(200):
        raw = masked(np.ones(1), means, covariances, corners, noise=noise, rng=rng)
        found.append(distance(assembled(raw["means"], raw["covariances"], raw["corners"])[0], before) ** 2)
    # to first order log is eta (G + G'), with squared norm eta^2 (2 D^2 + 2 D) on average
    size = d + 1
    assert np.mean(found) == pytest.approx(eta**2 * (2 * size**2 + 2 * size), rel=0.2)

"""The mechanisms of the experiments: without noise they are what they say, and noise has the scale that is stated."""

import math

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from pm_dpgmm import Mixture
from verification.benchmarks.truths import disc, overlapping_column
from verification.reproductions.harrington_mayolo.runs import (
    apart,
    fit_counts,
    of_mixture,
    plain,
    printed_central,
    printed_local,
    sound_sums,
)
from verification.reproductions.park.figure_three import (
    LAPLACE,
    LLOYD,
    OWN,
    OWN_PURE,
    OWN_ZCDP,
    lloyd_noise,
    own_clusters,
)
from verification.reproductions.park.mechanisms import CDP, EXACT, NONE, PAIR, ZCDP, em_noise, printed_each
from verification.reproductions.park.runs import LloydNoise, Noise, em_run, floored, lloyd_run

FAR = Mixture([0.3, 0.7], [[20.0], [60.0]], [[[9.0]], [[16.0]]])


def whole(truth, n):
    return np.trunc(truth.sample(n, rng=np.random.default_rng(1))[:, 0])


def test_a_fit_to_counts_is_that_of_scikit_learn_to_copies():
    records = whole(FAR, 500)
    model = GaussianMixture(2, tol=1e-3, random_state=0).fit(records[:, None])
    order = np.argsort(model.means_[:, 0])
    expected = np.column_stack([model.weights_, model.means_[:, 0], model.covariances_[:, 0, 0]])[order]
    np.testing.assert_allclose(plain(records, 2, n_starts=1, seed=0), expected, rtol=1e-9)


def test_too_few_values_give_no_mixture():
    assert np.isnan(fit_counts(np.array([1.0, 2.0]), np.array([0.0, 3.0]), 2, n_starts=1, seed=0)).all()


def test_many_starts_find_what_one_start_may_miss():
    records, truth = whole(overlapping_column(), 5000), of_mixture(overlapping_column())
    best = plain(records, 3, n_starts=20, seed=0)
    assert np.abs(best[:, 1] - truth[:, 1]).max() < 1.0


@pytest.mark.parametrize("mechanism", [printed_central, printed_local])
def test_printed_mechanisms_tend_to_the_mixture_as_epsilon_grows(mechanism):
    records = whole(FAR, 2000)
    found = mechanism(records, 2, 1e4 if mechanism is printed_central else 50.0, np.random.default_rng(2))
    np.testing.assert_allclose(found, of_mixture(FAR), rtol=0.15)


def test_printed_noise_has_the_printed_scales():
    """Standard deviations of 1,000 runs; 20 % is 6 standard errors of each."""
    records, epsilon, k = whole(FAR, 1000), 100.0, 2
    runs = np.array([printed_central(records, k, epsilon, np.random.default_rng([3, i])) for i in range(1000)])
    width, n = np.ptp(records), len(records)
    np.testing.assert_allclose(runs[:, :, 1].std(axis=0), math.sqrt(2) * width / n * k / (0.16 * epsilon), rtol=0.2)
    scale = (n - 1) * width**2 / n**2 * k / (0.7 * epsilon)
    np.testing.assert_allclose(runs[:, :, 2].std(axis=0), math.sqrt(2) * scale, rtol=0.2)


def test_starts_lie_apart():
    for seed in range(20):
        points = np.sort(apart(3, np.random.default_rng(seed)))
        assert points[0] >= 0 and points[-1] <= 1 and np.diff(points).min() >= 1 / 16


def test_sound_sums_move_by_what_their_noise_is_for():
    """Replacing a record moves counts, sums and sums of squares of the cells by at most 2 in L1 each."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-20, 140, (200, 2))
    scaled = np.clip(x / 100, 0, 1)
    cells = np.minimum((scaled * 3).astype(int), 2)
    for power in range(3):
        parts = np.eye(3)[cells] * scaled[..., None] ** power
        assert np.abs(parts[:, 0] - parts[:, 1]).sum(axis=1).max() <= 2
    found = sound_sums(whole(FAR, 3000), 2, 1e6, (0.0, 80.0), rng)
    np.testing.assert_allclose(found, of_mixture(FAR), rtol=0.2)


# ------------------------------------------------------------------ DP-EM
@pytest.mark.parametrize("isotropic", [True, False])
def test_em_without_noise_raises_the_likelihood(isotropic):
    rows = disc().sample(2000, rng=np.random.default_rng(5))
    start = Mixture(np.full(3, 1 / 3), disc().means + 0.1, np.tile(0.1 * np.eye(2), (3, 1, 1)))
    given = {"isotropic": isotropic, "floor": 1e-6, "rng": np.random.default_rng(6)}
    found = [start, *(em_run(rows, start, Noise(), n_steps=n, **given) for n in (1, 2, 5, 30))]
    likelihoods = [law.log_density(rows).mean() for law in found]
    assert all(np.diff(likelihoods) > 0)
    assert np.abs(found[-1].means - disc().means).max() < 0.02


@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize("noise", [Noise(each=1e6), Noise(scale=1e-3)])
def test_little_noise_changes_little(isotropic, noise):
    rows = disc().sample(2000, rng=np.random.default_rng(5))
    start = Mixture(np.full(3, 1 / 3), disc().means + 0.1, np.tile(0.1 * np.eye(2), (3, 1, 1)))
    given = {"n_steps": 3, "isotropic": isotropic, "floor": 1e-6, "rng": np.random.default_rng(7)}
    found, exact = em_run(rows, start, noise, **given), em_run(rows, start, Noise(), **given)
    np.testing.assert_allclose(found.means, exact.means, atol=1e-3)
    np.testing.assert_allclose(found.covariances, exact.covariances, atol=1e-3)


def test_a_joint_release_moves_by_at_most_its_sensitivity():
    """The vector that the noise is for: counts times 1/2, sums, products, those off the diagonal times sqrt(2)."""
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(400, 2, 3))
    rows /= np.maximum(1, np.linalg.norm(rows, axis=2, keepdims=True))
    parts = rng.dirichlet(np.full(3, 0.1), size=(400, 2))
    features = np.concatenate(
        [np.full((400, 2, 1), 0.5), rows, (rows[..., :, None] * rows[..., None, :]).reshape(400, 2, 9)], axis=2
    )
    vectors = (parts[..., None] * features[..., None, :]).reshape(400, 2, -1)
    assert np.linalg.norm(vectors[:, 0] - vectors[:, 1], axis=1).max() <= math.sqrt(4.5)


def test_printed_budgets_are_those_of_the_paper():
    assert printed_each(CDP, 0.9, 0.01) == pytest.approx(math.sqrt(2 * 0.9 / 70))
    assert 10 * 7 * printed_each(CDP, 0.9, 0.01) ** 2 / 2 == pytest.approx(0.9)
    assert em_noise(NONE, 0.9, 0.01) == Noise() and em_noise(PAIR, 0.9, 0.01).each < em_noise(CDP, 0.9, 0.01).each
    scale = em_noise(ZCDP, 0.9, 0.01).scale
    assert 10 * 4.5 / scale**2 / 2 == pytest.approx(0.9)
    assert em_noise(EXACT, 0.9, 0.01).scale > scale
    assert lloyd_noise(LLOYD, 0.01, 2) == LloydNoise(laplace=3000.0)
    assert lloyd_noise(LAPLACE, 0.01, 2).each == pytest.approx(math.sqrt(0.001))


@pytest.mark.thorough
def test_sound_k_means_of_the_figure_is_that_of_the_package():
    """Without privacy 4 e-3; at these budgets within a tenth of it for the seeds 0 to 4, pure epsilon farther off."""
    rows = disc().sample(20_000, rng=np.random.default_rng(9))
    exact = lloyd_run(rows, disc().means, LloydNoise(), n_steps=10, rng=np.random.default_rng(0))
    zcdp, own, pure = (own_clusters(kind, rows, disc().means, 1.0, 1) for kind in (OWN_ZCDP, OWN, OWN_PURE))
    assert exact * 0.999 < zcdp < exact * 1.05 and own < exact * 1.1 and pure < exact * 1.3


def test_k_means_without_noise_finds_the_clusters():
    rows = disc().sample(2000, rng=np.random.default_rng(9))
    exact = lloyd_run(rows, disc().means, LloydNoise(), n_steps=10, rng=np.random.default_rng(0))
    within = sum(w * np.trace(c) for w, c in zip(disc().weights, disc().covariances, strict=True))
    assert exact == pytest.approx(within, rel=0.1)
    noisy = lloyd_run(rows, disc().means, LloydNoise(laplace=3000.0), n_steps=10, rng=np.random.default_rng(0))
    assert noisy > 2 * exact


def test_floored_covariances_have_eigenvalues_in_the_limits():
    found = floored(np.array([np.diag([-1.0, 0.5]), np.diag([2.0, 1e-9])]), np.array([0.1, 0.2]))
    values = np.linalg.eigvalsh(found)
    np.testing.assert_allclose(values, [[0.1, 0.5], [0.2, 1.0]])

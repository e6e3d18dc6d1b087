"""Noisy sums of EM steps: features, their law against direct integrals, its PyTensor form, the calibration's kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

from pm_dpgmm.bayes.likelihoods.em import LIKELIHOODS, log_likelihood
from pm_dpgmm.methods.em.law import grid, log_density, moments, noisy_covariance, normal_nodes
from pm_dpgmm.methods.em.statistics import EMStatistics
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.release.release import Release
from tests.builders.em_sums import LINE, PLANE, WEIGHTS, mixture, release, statistics
from verification.calibration import em as study, mixture_kernels as kernels

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")


def compiled(given, fit, likelihood, *, gradient=True):
    inputs = [pt.vector("w"), pt.matrix("mu"), pt.tensor3("chol")]
    value = log_likelihood(release(given, fit), *inputs, likelihood=likelihood)
    outputs = [value, *pt.grad(value, inputs)] if gradient else [value]
    return pytensor.function(inputs, outputs, mode="FAST_COMPILE")


# ------------------------------------------------------------------ features and layout
def test_features_of_one_record_by_hand():
    given, _ = statistics(2)
    x = np.array([0.3, -0.9])
    found = given.features([x])[0]
    inside = found.size // 2
    for step, part in enumerate((found[:inside], found[inside:])):
        densities = [
            w * stats.multivariate_normal(mu, s).pdf(x)
            for w, mu, s in zip(given.weights[step], given.means[step], given.covariances[step], strict=True)
        ]
        r = np.array(densities) / np.sum(densities)
        y = (x - given.centres[step]) / given.unit / given.radii[step][:, None]
        y /= np.maximum(np.linalg.norm(y, axis=1), 1)[:, None]
        squares = [r[k] * y[k, a] * y[k, b] for k in range(2) for a, b in ((0, 0), (0, 1), (1, 1))]
        assert_allclose(part, [*r, *(r[:, None] * y).ravel(), *squares], rtol=1e-12)


def test_records_are_clipped_to_the_box_and_then_to_the_balls():
    given, _ = statistics(2)
    assert_array_equal(given.features([[50.0, -50.0]]), given.features([[4.0, -3.5]]))
    t, k, d = given.shape
    table = given.features(np.random.default_rng(0).normal(scale=5, size=(500, 2))).reshape(500, t, -1)
    shares, sums = table[..., :k], table[..., k : k + k * d].reshape(500, t, k, d)
    assert_allclose(shares.sum(axis=-1), 1, rtol=1e-12)
    assert (np.linalg.norm(sums, axis=-1) <= shares * (1 + 1e-12)).all()
    assert (np.linalg.norm(sums[:, 1], axis=-1) > 0.999 * shares[:, 1]).any()


def test_replacing_a_record_moves_a_step_by_at_most_the_stated_sensitivity():
    given, _ = statistics(2)
    rng = np.random.default_rng(1)
    first, second = given.features(rng.normal(scale=3, size=(2, 4000, 2)).reshape(-1, 2)).reshape(2, 4000, -1)
    moved = (first - second) / given.noise_scales * 9.0  # noise scale 9 for sensitivity sqrt(9/2)
    assert np.square(moved).reshape(4000, 2, -1).sum(axis=-1).max() <= 4.5


def test_values_and_scales_are_in_the_order_of_the_features():
    given, _ = statistics(2)
    assert given.values[:2].tolist() == given.counts[0].tolist()
    assert given.values[2:6].tolist() == given.sums[0].ravel().tolist()
    assert given.values[6:12].tolist() == given.squares[0].ravel().tolist()
    half = 9 * np.sqrt(0.5)
    assert_allclose(given.noise_scales[:12], [18, 18, 9, 9, 9, 9, 9, half, 9, 9, half, 9])
    assert_array_equal(given.with_sums(given.values).values, given.values)


def test_a_release_keeps_the_statistics_through_a_file(tmp_path):
    given, truth = statistics(2)
    path = release(given, mixture(truth)).save(tmp_path / "release.json")
    again = EMStatistics.of(Release.load(path))
    assert_array_equal(again.values, given.values)
    assert_array_equal(again.noise_scales, given.noise_scales)
    assert float(again.n_records) == 2000


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("em_scales", np.zeros((2, 4)), "em_scales must be greater than 0"),
        ("em_counts", np.zeros((2, 3)), r"em_counts must have shape \(2, 2\), got \(2, 3\)"),
        ("em_sums", np.full((2, 2, 1), np.nan), "em_sums must hold finite numbers"),
        ("em_means", np.zeros(2), r"em_means must have shape \(T, K, D\)"),
        ("em_bounds", np.array([[1.0, 1.0]]), "em_bounds must increase"),
        ("em_covariances", np.zeros((2, 2, 1, 1)), "em_covariances must be positive definite"),
        ("em_n_records_scale", np.array(-1.0), "em_n_records_scale must be at least 0"),
        ("em_radii", None, "without em_radii"),
    ],
)
def test_a_broken_release_is_refused(name, value, message):
    raw = statistics(1)[0].to_arrays() | {name: value}
    if value is None:
        del raw[name]
    with pytest.raises(ValueError, match=message):
        EMStatistics.from_arrays(raw)


def test_the_number_of_records_is_public_or_noisy():
    given, truth = statistics(1, n_records_scale=40.0)
    fine = release(given, mixture(truth))
    assert EMStatistics.of(fine).n_records_scale == 40
    without_noise = replace(fine, raw=statistics(1)[0].to_arrays())
    with pytest.raises(ValueError, match=r"em_n_records_scale must be greater than 0: .* is private"):
        EMStatistics.of(without_noise)
    public = release(statistics(1)[0], mixture(truth))
    for raw in (given.to_arrays(), statistics(1, n_records=1999.0)[0].to_arrays()):
        with pytest.raises(ValueError, match="em_n_records must be the public number of records"):
            EMStatistics.of(replace(public, raw=raw))


def test_unknown_likelihoods_are_refused():
    given, truth = statistics(1)
    with pytest.raises(ValueError, match="likelihood must be one of 'auto', 'exact', 'gaussian'"):
        log_likelihood(release(given, mixture(truth)), *truth, likelihood="wishart")


@pytest.mark.thorough
# ------------------------------------------------------------------ moments against direct integrals
def test_moments_on_the_line_equal_adaptive_quadrature():
    given, (w, mu, chol) = statistics(1)
    mean, covariance = moments(given, w, mu, chol)
    low, high = given.bounds[0]
    ends = np.concatenate(
        [given.centres - given.radii[..., None] * 3.75, given.centres + given.radii[..., None] * 3.75]
    )
    kinks = sorted(x for x in ends.ravel() if low < x < high)

    def expected(function):
        def density(x):
            return sum(a * stats.norm(m[0], s[0, 0]).pdf(x) for a, m, s in zip(w, mu, chol, strict=True))

        atoms = [
            sum(a * stats.norm(m[0], s[0, 0]).cdf(low) for a, m, s in zip(w, mu, chol, strict=True)),
            sum(a * stats.norm(m[0], s[0, 0]).sf(high) for a, m, s in zip(w, mu, chol, strict=True)),
        ]
        between = integrate.quad(
            lambda x: density(x) * function(given.features([[x]])[0]), low, high, points=kinks, epsabs=1e-12, limit=200
        )[0]
        return between + sum(p * function(given.features([[x]])[0]) for p, x in zip(atoms, (low, high), strict=True))

    for i in range(len(mean)):
        assert_allclose(mean[i], expected(lambda h, i=i: h[i]), atol=1e-9)
    for i, j in ((0, 0), (0, 7), (3, 11), (4, 5), (8, 9)):
        second = expected(lambda h, i=i, j=j: h[i] * h[j])
        assert_allclose(covariance[i, j], second - mean[i] * mean[j], atol=1e-9)


@pytest.mark.parametrize("d", [2, 3])
def test_moments_in_more_dimensions_are_within_the_documented_share_of_the_sampling_error(d):
    """Against the trapezoid rule on a much finer lattice that is not rotated; 0.1 sampling deviations at n = 2000."""
    given, truth = statistics(2)
    if d == 3:
        w, mu, chol = truth
        mu = np.column_stack([mu, [0.3, -0.2]])
        chol = np.array([np.diag([0.9, 1.1, 1.0]), np.diag([1.2, 0.7, 1.0])])
        truth = (w, mu, chol)
        law = {"bounds": [[-3.5, 4.0]] * 3, "scale": 9.0, "n_records": 2000.0}
        given = EMStatistics.of_step([0.4, 0.6], mu, [np.eye(3)] * 2, centres=mu, radii=[0.7, 0.8], **law)
    w, mu, chol = truth
    mean, covariance = moments(given, *truth)
    axis = np.arange(-6, 6.001, 0.05 if d == 2 else 0.25)
    u = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    p = np.exp(-0.5 * (u**2).sum(axis=1))
    h = [given.features(m + u @ c.T) for m, c in zip(mu, chol, strict=True)]
    fine = sum(a * (p @ one) for a, one in zip(w, h, strict=True)) / p.sum()
    second = sum(a * ((one * p[:, None]).T @ one) for a, one in zip(w, h, strict=True)) / p.sum()
    sampling = np.sqrt(np.diag(covariance) / 2000)
    assert (np.abs(mean - fine) / sampling).max() < 0.1
    correlation_error = (covariance - (second - np.outer(fine, fine))) / np.outer(sampling, sampling) / 2000
    assert np.abs(correlation_error).max() < 0.02


@pytest.mark.parametrize("angle", [0.0, 45.0, 20.0, 110.0])
def test_sharp_steps_along_any_line_are_within_the_documented_error(angle):
    """Responsibilities change fast along the line through the means; a lattice parallel to it would miss them."""
    line = 2.1 * np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    mu, chol = np.array([-line, line]), np.array([0.9 * np.eye(2), 1.1 * np.eye(2)])
    law = {"bounds": [[-4.0, 4.0]] * 2, "scale": 9.0, "n_records": 2000.0}
    sharp = EMStatistics.of_step([0.45, 0.55], 0.5 * mu, [0.2 * np.eye(2)] * 2, centres=mu, radii=[0.6, 0.7], **law)
    mean, covariance = moments(sharp, WEIGHTS, mu, chol)
    axis = np.arange(-6, 6.001, 0.03)
    u = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    p = np.exp(-0.5 * (u**2).sum(axis=1))
    fine = sum(a * (p @ sharp.features(m + u @ c.T)) for a, m, c in zip(WEIGHTS, mu, chol, strict=True)) / p.sum()
    assert (np.abs(mean - fine) / np.sqrt(np.diag(covariance) / 2000)).max() < 0.08


def test_normal_nodes_have_the_moments_of_a_normal_law():
    for d, n in ((2, 100.0), (2, 1e6), (3, 2000.0), (5, 2000.0)):
        u, p = normal_nodes(d, n)
        assert len(u) <= 8400
        assert_allclose([p.sum(), *(p @ u)], [1, *[0] * d], atol=1e-12)
        assert_allclose((u * p[:, None]).T @ u, np.eye(d), atol=1e-12)
        assert_allclose(p @ u[:, 0] ** 4, 3, rtol=0.05)
    assert len(normal_nodes(2, 1e6)[0]) > 5 * len(normal_nodes(2, 2000.0)[0])


def test_one_component_in_a_wide_box_has_the_moments_of_a_normal_law():
    sd, n = 0.7, 500.0
    one = EMStatistics.of_step([1.0], [[0.2]], [[[1.0]]], bounds=[[-7.0, 7.0]], scale=3.0, n_records=n)
    mean, covariance = moments(one, np.array([1.0]), np.array([[0.5]]), np.array([[[sd]]]))
    assert_allclose(mean, [1, 0.5 / 7, (0.25 + sd**2) / 49], rtol=1e-10)
    expected = [[0, 0, 0], [0, sd**2 / 49, 2 * 0.5 * sd**2 / 343], [0, 0, (2 * sd**4 + 4 * 0.25 * sd**2) / 7**4]]
    assert_allclose(np.triu(covariance), expected, atol=1e-12)


@pytest.mark.parametrize("sd", [0.05, 1e-3, 1e-9])
def test_components_narrower_than_the_grid_keep_their_mass(sd):
    """They sit at the nearest node: features err by a node's distance."""
    given, _ = statistics(1)
    found, covariance = moments(given, WEIGHTS, np.array([[-1.4], [1.7]]), np.full((2, 1, 1), sd))
    assert_allclose(found[:2].sum(), 1, rtol=1e-12)
    assert_allclose(found, WEIGHTS @ given.features(np.array([[-1.4], [1.7]])), atol=0.02)
    assert np.isfinite(covariance).all()


def test_the_grid_is_fine_enough_for_the_sharpest_step():
    sharp = EMStatistics.of_step([0.5, 0.5], [[-1.0], [1.0]], [[[1e-4]], [[1.0]]], bounds=[[-4.0, 4.0]], scale=1.0)
    assert len(grid(sharp)[0]) > 8 / 0.01
    assert_allclose(grid(sharp)[1].sum(), 8, rtol=1e-12)


# ------------------------------------------------------------------ the law
def test_stacked_sums_at_parameters_of_earlier_noise_follow_the_law():
    """The squared whitened residual has mean P and variance 2 P; each may err by 5 standard deviations: 1e-6 of runs.

    With little noise cross-covariances matter: left out, the variance is about three times as large.
    """
    rng = np.random.default_rng(5)
    found, without = [], []
    for _ in range(150):
        records = mixture(LINE).sample(1000, rng=rng)
        at, stack = Mixture([0.5, 0.5], [[-2.0], [2.0]], [[[1.0]], [[1.0]]]), None
        for _ in range(3):
            step = EMStatistics.of_step(
                at.weights, at.means, at.covariances, bounds=[[-3.5, 4.0]], scale=1.0, n_records=1000.0
            )
            noise = step.noise_scales * rng.normal(size=6)
            step = step.with_sums(step.features(records).sum(axis=0) + noise)
            at = study.maximised(step)
            stack = step if stack is None else stack.then(step)
        mean, covariance = moments(stack, *LINE)
        rest, law = stack.values - 1000 * mean, noisy_covariance(stack, mean, covariance)
        found.append(rest @ np.linalg.solve(law, rest))
        without.append(rest @ np.linalg.solve(law * np.kron(np.eye(3), np.ones((6, 6))), rest))
    assert abs(np.mean(found) - 18) < 5 * np.sqrt(36 / 150)
    excess = 12 / 18  # kurtosis of a chi-square with 18 degrees of freedom
    limit = 5 * np.sqrt((2 + excess) / 150)
    assert abs(np.var(found) / 36 - 1) < limit < np.var(without) / 36 - 1


def test_a_noisy_count_of_records_adds_its_variance():
    given, truth = statistics(1, n_records_scale=40.0)
    mean, covariance = moments(given, *truth)
    expected = 2000 * covariance + 1600 * np.outer(mean, mean) + np.diag(given.noise_scales**2)
    reference = stats.multivariate_normal(2000 * mean, expected).logpdf(given.values)
    assert_allclose(log_density(given, *truth), reference, rtol=1e-12)
    for likelihood in LIKELIHOODS:  # the covariance is held at the truth itself
        found = compiled(given, mixture(truth), likelihood, gradient=False)(*truth)[0]
        assert_allclose(found, reference, rtol=1e-10)
    assert abs(reference - log_density(statistics(1)[0], *truth)) > 0.1


@pytest.mark.parametrize("squares, size", [("diagonal", 2), ("isotropic", 1)])
def test_steps_without_products_of_columns_have_the_law_of_their_features(squares, size):
    """Features are those of the full steps, less the products, or added up; graph and law agree."""
    w, mu, chol = PLANE
    law = {"bounds": [[-3.5, 4.0]] * 2, "scale": 9.0, "n_records": 2000.0, "centres": mu, "radii": [0.55, 0.7]}
    whole, part = (EMStatistics.of_step(w, mu, chol @ chol.mT, squares=kind, **law) for kind in ("full", squares))
    assert part.squares.shape == (1, 2, size) and len(part.noise_scales) == 6 + 2 * size
    points = np.random.default_rng(1).normal(size=(5, 2))
    diagonal = whole.features(points)[:, 6:].reshape(5, 2, 3)[:, :, [0, 2]]
    expected = diagonal if squares == "diagonal" else diagonal.sum(axis=2, keepdims=True)
    assert_allclose(part.features(points)[:, 6:], expected.reshape(5, -1), rtol=1e-12)
    given = part.with_sums(part.features(mixture(PLANE).sample(2000, rng=np.random.default_rng(2))).sum(axis=0))
    assert EMStatistics.from_arrays(given.to_arrays()).kind == squares
    moved = (np.array([0.4, 0.6]), mu + 0.1, chol * 1.05)
    found = compiled(given, mixture(PLANE), "exact", gradient=False)(*moved)[0]
    assert_allclose(found, log_density(given, *moved), rtol=1e-10)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("d", [1, 2])
def test_density_and_gradient(d, likelihood):
    given, truth = statistics(d)
    fit = mixture(PLANE if d == 2 else LINE)
    moved = (np.array([0.4, 0.6]), truth[1] + 0.1, truth[2] * 1.05)
    function = compiled(given, fit, likelihood)
    value, *gradients = function(*moved)
    mean, covariance = moments(given, *moved)
    if likelihood == "gaussian":
        held_mean, held = moments(given, fit.weights, fit.means, np.linalg.cholesky(fit.covariances))
        law = noisy_covariance(given, held_mean, held)
    else:
        law = noisy_covariance(given, mean, covariance)
    assert_allclose(value, stats.multivariate_normal(2000 * mean, law).logpdf(given.values), rtol=1e-10)
    step, rng = 1e-5, np.random.default_rng(2)
    for _ in range(3):
        towards = [
            np.tril(rng.normal(size=one.shape)) if one.ndim == 3 else rng.normal(size=one.shape) for one in moved
        ]
        ends = [
            float(function(*(one + sign * step * way for one, way in zip(moved, towards, strict=True)))[0])
            for sign in (1, -1)
        ]
        slope = sum((one * way).sum() for one, way in zip(gradients, towards, strict=True))
        assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


def test_auto_follows_the_parameters_only_for_small_stacks():
    given, truth = statistics(1)
    fit = mixture((np.array([0.6, 0.4]), LINE[1] - 0.5, LINE[2] * 1.3))
    large = given
    for _ in range(7):
        large = large.then(given)
    for stack, same in ((given, "exact"), (large, "gaussian")):
        auto, named = (compiled(stack, fit, kind, gradient=False)(*truth)[0] for kind in ("auto", same))
        assert auto == named


def test_evidence_in_a_model_is_finite_where_sampling_starts():
    given, truth = statistics(2)
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(2))
        mu = pm.Normal("mu", 0, 3, shape=(2, 2))
        sd = pm.HalfNormal("sd", 2, shape=2)
        pm.Potential("evidence", log_likelihood(release(given, mixture(truth)), w, mu, sd[:, None, None] * np.eye(2)))
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        value = model.compile_logp(mode="FAST_COMPILE")(model.initial_point())
    assert np.isfinite(value)


# ------------------------------------------------------------------ the calibration study's kernels
@pytest.mark.thorough(quick=["2-1"])
@pytest.mark.parametrize("d, n_steps", [(1, 1), (1, 3), (2, 1), (2, 2)])
def test_the_study_has_the_density_of_the_package(d, n_steps):
    rng = np.random.default_rng(3)
    points = study.CENTRE[d] + 0.5 * study.SPREAD[d] * rng.normal(size=(4, len(study.CENTRE[d])))
    records = study.mixture_of(points[0], d).sample(2000, rng=rng)
    given = study.released(records, n_steps=n_steps, rng=rng)
    found = study.log_likelihood(given)(points)
    fit = study.mixture_of(study.CENTRE[d], d)
    function = compiled(given, fit, "exact", gradient=False)
    expected = [float(function(*kernels.parameters(point, d))[0]) for point in points]
    assert_allclose(found - found[0], np.array(expected) - expected[0], atol=1e-8)
    records_found = study.of_records(records[:200])(points)
    exact = [study.mixture_of(point, d).log_density(records[:200]).sum() for point in points]
    assert_allclose(records_found - records_found[0], np.array(exact) - exact[0], atol=1e-8)


def test_the_naive_density_is_that_of_the_last_step_without_noise():
    rng = np.random.default_rng(4)
    points = study.CENTRE[1] + 0.3 * study.SPREAD[1] * rng.normal(size=(3, 5))
    given = study.released(study.mixture_of(points[0], 1).sample(2000, rng=rng), n_steps=2, rng=rng)
    found = study.log_likelihood(given, naive=True)(points)
    kept = np.array([6, 8, 9, 10, 11])
    expected = []
    for point in points:
        mean, covariance = moments(given, *kernels.parameters(point, 1))
        law = stats.multivariate_normal(2000 * mean[kept], 2000 * covariance[np.ix_(kept, kept)])
        expected.append(law.logpdf(given.values[kept]))
    assert_allclose(np.diff(found), np.diff(expected), rtol=1e-6)


def test_without_evidence_a_posterior_of_the_study_is_the_prior_of_its_truths(capsys):
    """Standard deviations of 2,000 weighted draws within 10 %, five standard errors: false alarm 1e-5."""
    (found,) = study.posterior([lambda points: np.zeros(len(points))], 1, rng=np.random.default_rng(5))
    assert_allclose(found.std(axis=0), study.SPREAD[1], rtol=0.1)
    assert "effective draws" in capsys.readouterr().out

"""Laws of masked releases: against SciPy, direct integrals and simulation; as graphs, against NumPy."""

import math
from dataclasses import replace

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import integrate, special, stats

from pm_dpgmm.bayes.likelihoods import populous, populous_single
from pm_dpgmm.mechanisms.lifted_mask import LiftedMaskNoise, lifted_mask
from pm_dpgmm.mechanisms.masks import MaskNoise, mask_covariance, mask_mixture
from pm_dpgmm.methods.populous.agreement import AgreementRule
from pm_dpgmm.methods.populous.mask_law import log_density, masked_mixture, stacked
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.mixture.wishart import log_central, log_noncentral, log_scaled_bessel
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.release.release import Release
from tests.builders.masked_releases import a_mixture, a_release


def entries(factor):
    return [[factor[..., i, j] for j in range(i + 1)] for i in range(factor.shape[-1])]


EVIDENCE = {"populous": populous, "populous-single": populous_single}


@pytest.mark.parametrize("eta", [0.01, 0.05, 0.2, 1.0, 3.0])
def test_one_dimension_is_a_noncentral_chi_square(eta):
    values = np.array([1e-4, 0.3, 0.9, 1.0, 1.3, 4.0])
    found = log_noncentral([[np.sqrt(values)]], np.array(eta))
    wanted = stats.ncx2.logpdf(values / eta**2, 1, 1 / eta**2) - 2 * math.log(eta)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("eta", [0.05, 0.1, 0.3, 1.0])
def test_two_dimensions_equal_the_integral_over_rotations_and_reflections(eta):
    factor = np.array([[1.2, 0.0], [0.4, 0.8]])
    angle = np.linspace(0, 2 * np.pi, 4_000, endpoint=False)  # periodic and smooth: exact to rounding
    cos, sin = np.cos(angle), np.sin(angle)
    turns = np.concatenate([np.array([[cos, -sin], [sin, cos]]), np.array([[cos, sin], [sin, -cos]])], axis=-1)
    exponent = np.einsum("ij,ijn->n", factor, turns) / eta**2
    square = factor @ factor.T
    wanted = (
        special.logsumexp(exponent)
        - math.log(len(exponent))
        - 2 * math.log(2)
        - special.multigammaln(1, 2)
        - 4 * math.log(eta)
        - 0.5 * np.linalg.slogdet(square)[1]
        - (np.trace(square) + 2) / (2 * eta**2)
    )
    assert log_noncentral(entries(factor), np.array(eta)) == pytest.approx(wanted, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("eta", [0.05, 0.1, 0.2])
def test_three_dimensions_equal_the_integral_over_rotations_to_second_order(eta):
    # int over SO(3) of exp(tr(diag(a) H)) as one integral: Lee (2018), arXiv:1710.03746, equation (10)
    s = np.array([1.1, 0.95, 0.9])
    a, b, c = s / eta**2

    def integrand(u):
        return (
            0.5 * special.i0e((a - b) * (1 - u) / 2) * special.i0e((a + b) * (1 + u) / 2) * math.exp((u - 1) * (b + c))
        )

    rotations, _ = integrate.quad(integrand, -1, 1, epsabs=0, epsrel=1e-11, points=[1 - 20 / (b + c)], limit=200)
    wanted = math.log(rotations / 2)  # reflections add exp(-2 c), below 1e-19
    law = -4.5 * math.log(2) - special.multigammaln(1.5, 3) - 9 * math.log(eta)
    law += -np.log(s).sum() - ((s - 1) ** 2).sum() / (2 * eta**2) + wanted
    found = log_noncentral(entries(np.diag(s)), np.array(eta))
    assert abs(found - law) < 0.5 * eta**2


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_central_law_is_that_of_scipy(d):
    squares = stats.wishart.rvs(60, np.eye(d) / 60, size=7, random_state=1).reshape(7, d, d)
    eta = 0.09
    freedom = 1 / (2 * eta**2)
    law = stats.wishart(freedom, np.eye(d) * (1 + d * eta**2) / freedom)
    wanted = law.logpdf(np.moveaxis(squares, 0, -1) if d > 1 else squares[:, 0, 0])
    found = log_central(entries(np.linalg.cholesky(squares)), np.full(7, eta))
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


def test_the_scaled_bessel_function_is_that_of_scipy():
    x = np.array([0.0, 1e-3, 1.0, 10.0, 29.99, 30.01, 100.0, 1e8])
    np.testing.assert_allclose(log_scaled_bessel(x), np.log(special.i0e(x)), rtol=1e-13, atol=1e-13)


@pytest.mark.thorough
def test_masked_covariances_follow_the_law():
    """Probability transform of log det in two dimensions; false alarm 1e-4."""
    eta, rng = 0.3, np.random.default_rng(5)
    drawn = np.array([mask_covariance(np.eye(2), noise=eta, rng=rng) for _ in range(2_000)])
    grid = stats.wishart.rvs(6, np.eye(2) / 5, size=40_000, random_state=2)  # proposals, reweighted by the law
    weight = np.exp(
        log_noncentral(entries(np.linalg.cholesky(grid)), np.array(eta))
        - stats.wishart(6, np.eye(2) / 5).logpdf(np.moveaxis(grid, 0, -1))
    )
    assert weight.mean() == pytest.approx(1, abs=5 * weight.std() / len(weight) ** 0.5)
    values = np.log(np.linalg.det(grid))
    order = np.argsort(values)
    share = np.cumsum(weight[order]) / weight.sum()
    uniform = np.interp(np.log(np.linalg.det(drawn)), values[order], share)
    assert stats.kstest(uniform, "uniform").pvalue > 1e-4


def test_the_average_of_fits_to_few_records_has_the_known_bias():
    """Covariances by (d + 2)/2 records' share, corners by d/2: six standard errors, and (d + 3)/2 is excluded."""
    from pm_dpgmm.mechanisms.lifted_mask import parts_of_lifted
    from pm_dpgmm.methods.populous.average import barycentre

    d, n, n_fits = 1, 100, 300
    rng, rule = np.random.default_rng(3), AgreementRule(1, d, 1.0, 1.0)
    found = []
    for _ in range(200):
        rows = rng.normal(size=(n_fits, n))
        means, variances = rows.mean(axis=1), rows.var(axis=1)
        points = np.array([[variances + means**2, means], [means, np.ones(n_fits)]]).transpose(2, 0, 1)
        _, covariances, corners = parts_of_lifted(barycentre(points, np.full(n_fits, 1 / n_fits), rule)[None])
        found.append([covariances[0, 0, 0], corners[0]])
    law = {"eta": 1e-3, "kappa": 0.35}
    raw = {"weights": np.ones(1), "means": np.zeros((1, 1)), "covariances": np.ones((1, 1, 1)), "corners": np.ones(1)}
    masked = masked_mixture(raw, law, Mixture([1.0], [[0.0]], [[[1.0]]]), subset_records=n, averaged=n_fits)
    expected = np.array([1 / masked.factors[0, 0, 0] ** 2, 1 / masked.corners[0]])
    error = np.std(found, axis=0) / len(found) ** 0.5
    assert (np.abs(np.mean(found, axis=0) - expected) < 6 * error + 2 / n**2).all()


@pytest.mark.thorough(quick=["1-exact-populous-single"])
@pytest.mark.parametrize("method", EVIDENCE)
@pytest.mark.parametrize("d, form", [(1, "exact"), (2, "exact"), (2, "wishart"), (2, "gaussian")])
def test_graphs_equal_numpy_and_their_gradients_finite_differences(method, d, form):
    release = a_release(method, d)
    mixture = a_mixture(d)
    if np.argmin(release.means[:, 0]) != np.argmin(mixture.means[:, 0]):
        mixture = Mixture(mixture.weights[::-1], mixture.means[::-1], mixture.covariances[::-1])
    point = [mixture.weights, mixture.means + 0.1, np.linalg.cholesky(mixture.covariances)]
    masked = EVIDENCE[method].statistics(release)
    given = [pt.dvector(), pt.dmatrix(), pt.dtensor3()]
    value = EVIDENCE[method].log_likelihood(release, *given, likelihood=form)
    function = pytensor.function(given, [value, *pytensor.grad(value, given)], mode="FAST_COMPILE")
    found, *gradients = function(*point)
    assert found == pytest.approx(log_density(masked, *point, form=form), rel=1e-12)
    for i, gradient in enumerate(gradients):
        for place in np.ndindex(gradient.shape):
            if i == 2 and place[1] < place[2]:
                continue
            step = 1e-5
            ends = []
            for sign in (1, -1):
                moved = [part.copy() for part in point]
                moved[i][place] += sign * step
                ends.append(log_density(masked, *moved, form=form))
            slope = (ends[0] - ends[1]) / (2 * step)
            assert gradient[place] == pytest.approx(slope, rel=1e-5, abs=1e-4)


@pytest.mark.thorough(quick=["populous-single"])
@pytest.mark.parametrize("method", EVIDENCE)
def test_the_gradient_is_finite_at_the_release_itself(method):
    """Equal singular values, where eigenvectors have no derivative."""
    release = a_release(method, 3)
    given = [pt.dvector(), pt.dmatrix(), pt.dtensor3()]
    value = EVIDENCE[method].log_likelihood(release, *given, likelihood="exact")
    function = pytensor.function(given, pytensor.grad(value, given), mode="FAST_COMPILE")
    for gradient in function(release.weights, release.means, np.linalg.cholesky(release.raw["covariances"])):
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("method", EVIDENCE)
@pytest.mark.parametrize("d", [1, 2])
def test_forms_agree_where_the_noise_is_small(method, d):
    release = a_release(method, d, eta=0.01, n=10**7)
    masked = EVIDENCE[method].statistics(release)
    point = [release.weights, release.means, np.linalg.cholesky(release.covariances)]
    moved = [point[0], point[1] + 0.02, point[2] * 1.01]
    changes = [
        log_density(masked, *moved, form=form) - log_density(masked, *point, form=form)
        for form in ("exact", "wishart", "gaussian")
    ]
    assert np.ptp(changes) < 0.1 * abs(changes[0])


def test_overlapping_components_with_little_noise_are_taken_jointly():
    apart = a_release("populous", 1)
    near = Mixture([0.5, 0.5], [[-0.8], [0.8]], [[[1.0]], [[1.0]]])
    raw = dict(apart.raw) | {"means": near.means, "covariances": near.covariances}
    law = dict(apart.noise) | {"eta": 0.01}
    assert masked_mixture(apart.raw, apart.noise, apart.mixture, subset_records=200, averaged=100).form == "exact"
    assert masked_mixture(raw, law, near, subset_records=200, averaged=100).form == "gaussian"


def test_the_released_number_of_records_is_not_needed():
    release = a_release("populous", 1)
    law = dict(release.noise) | {"subset_records": None}
    private = Release(
        release.mixture,
        Guarantee(1.0, 1e-6, Neighbouring.ADD_REMOVE, "test", PointProfile(1.0, 1e-6)),
        "populous",
        {},
        release.raw,
        law,
        ("x0",),
        None,
    )
    masked = populous.statistics(private)
    assert masked.eta == pytest.approx(np.full(2, 0.1)) and masked.form == "exact"


def test_a_wrong_form_and_too_much_noise_are_refused():
    release = a_release("populous-single", 1, eta=0.3)
    point = [release.weights, release.means, np.linalg.cholesky(release.covariances)]
    with pytest.raises(ValueError, match="likelihood must be one of"):
        populous_single.log_likelihood(release, *point, likelihood="student")
    with pytest.raises(ValueError, match="use 'exact'"):
        populous_single.log_likelihood(release, *point, likelihood="wishart")


@pytest.mark.parametrize("method", EVIDENCE)
@pytest.mark.parametrize("form", ["exact", "wishart", "gaussian"])
@pytest.mark.parametrize("d", [1, 2])
def test_several_releases_at_once_are_as_each_alone(method, form, d):
    masked = [EVIDENCE[method].statistics(a_release(method, d, seed=seed)) for seed in (1, 2, 3)]
    weights, means, chol = a_mixture(d).weights, a_mixture(d).means, np.linalg.cholesky(a_mixture(d).covariances)
    points = [
        np.stack([part * share for share in (0.9, 1.0)] * 3).reshape(3, 2, *part.shape)
        for part in (weights, means, chol)
    ]
    found = log_density(stacked(masked), *points, form=form)
    for r, item in enumerate(masked):
        for i in range(2):
            alone = log_density(item, *(part[r, i] for part in points), form=form)
            assert found[r, i] == pytest.approx(alone, rel=1e-12)


def moved_point(d):
    mixture = a_mixture(d)
    chol = np.linalg.cholesky(mixture.covariances) * (1 + 0.06 * np.eye(d))
    chol[:, -1, -1] *= 1.06
    return mixture.weights + np.array([0.01, -0.01]), mixture.means + 0.02, chol


@pytest.mark.thorough(quick=["1-populous", "1-populous-single"])
@pytest.mark.parametrize("method", EVIDENCE)
@pytest.mark.parametrize("d", [1, 2])
def test_the_likelihood_ratio_of_real_masks_has_mean_one(method, d):
    """All of the exact law at once, Jacobians included; six standard errors."""
    rng, mixture, eta = np.random.default_rng(11), a_mixture(d), 0.2
    lifted_noise, noise = LiftedMaskNoise(eta, 0.35), MaskNoise(0.05, eta, eta)
    factors = np.linalg.cholesky(mixture.covariances)
    masked = []
    for _ in range(3_000):
        if method == "populous":
            law = {"eta": eta, "kappa": 0.35}
            raw = lifted_mask(mixture.weights, mixture.means, factors, np.ones(2), noise=lifted_noise, rng=rng)
        else:
            law = {"weight": 0.05, "mean": eta, "covariance": eta}
            raw = mask_mixture(mixture, noise=noise, rng=rng)
        order = np.argsort(raw["means"][:, 0])
        raw = {name: values[order] for name, values in raw.items()}
        masked.append(masked_mixture(raw, law, mixture, subset_records=None))
    drawn, truth = stacked(masked), (mixture.weights, mixture.means, factors)
    ratio = np.exp(log_density(drawn, *moved_point(d)) - log_density(drawn, *truth))
    assert abs(ratio.mean() - 1) < 6 * ratio.std() / len(masked) ** 0.5 < 0.35


def test_the_likelihood_ratio_of_the_gaussian_form_has_mean_one_under_its_own_law():
    """Its Jacobian: a wrong power of a determinant moves the mean by more than a tenth; six standard errors."""
    rng, d, n = np.random.default_rng(12), 2, 20_000
    release, mixture = a_release("populous", d, eta=0.15), a_mixture(d)
    masked = masked_mixture(release.raw, release.noise, mixture, subset_records=None)
    residual = rng.normal(size=(n, 12)) @ np.linalg.inv(masked.whitener).T
    factors = np.linalg.cholesky(mixture.covariances)
    shift, shape = residual[:, 2:6].reshape(n, 2, d), residual[:, 6:].reshape(n, 2, 3)
    relative = np.zeros((n, 2, d, d))
    for i in range(d):
        relative[..., i, i] = np.exp(shape[..., 2 * i] + masked.offset[:, i])
    relative[..., 1, 0] = shape[..., 1] * relative[..., 0, 0]
    drawn = replace(
        masked,
        weights=mixture.weights + residual[:, :2],
        means=mixture.means + np.einsum("kij,nkj->nki", factors, shift),
        factors=factors @ relative,
    )
    moved, truth = moved_point(d), (mixture.weights, mixture.means, factors)
    ratio = np.exp(log_density(drawn, *moved, form="gaussian") - log_density(drawn, *truth, form="gaussian"))
    assert abs(ratio.mean() - 1) < 6 * ratio.std() / n**0.5 < 0.1


@pytest.mark.parametrize("method", EVIDENCE)
@pytest.mark.parametrize("d", [1, 2])
def test_components_far_apart_have_the_sampling_error_and_the_bias_of_their_own_records(method, d):
    """A relative mean has variance 1/n, a log deviation half of that; quadrature errs by a per cent."""
    release = a_release(method, d)
    release = replace(release, mixture=Mixture(release.weights, 10 * release.means, release.covariances))
    masked, w, eta = EVIDENCE[method].statistics(release), release.weights, 0.1
    n = 20_000 if method == "populous" else 200  # one subset alone was fitted, or all were
    np.testing.assert_allclose(masked.eta**2 - eta**2, 1 / (2 * n * w), rtol=0.03)
    multinomial = (np.diag(w) - np.outer(w, w)) / n
    noise = 0.05 if method == "populous-single" else LiftedMaskNoise(eta, 0.35).weight(d)
    covariance = np.linalg.inv(masked.weight_whitener.T @ masked.weight_whitener)
    np.testing.assert_allclose(covariance, noise**2 * np.eye(2) + multinomial, rtol=0.01)
    # expected covariance over the truth: with the noise alone and the bias of the fits, and as the wider law has it
    order, share = (d + 1, (d + 2) / 2) if method == "populous" else (d, 1.0)
    over = (1 + order * eta**2) * (1 - share / (200 * w)) / (1 + order * masked.eta**2)
    found = masked.factors @ masked.factors.swapaxes(1, 2)
    np.testing.assert_allclose(found, release.raw["covariances"] / over[:, None, None], rtol=1e-9)
    if method == "populous":
        over = (1 + order * eta**2) * (1 - d / (2 * 200 * w)) / (1 + order * masked.eta**2)
        np.testing.assert_allclose(masked.corners, release.raw["corners"] / over, rtol=1e-9)
    else:
        np.testing.assert_allclose(masked.mean_scale**2 - eta**2, 1 / (n * w), rtol=0.03)


@pytest.mark.thorough(quick=["populous"])
@pytest.mark.parametrize("method", EVIDENCE)
def test_relative_numbers_of_masks_are_standard_once_the_gaussian_form_has_whitened_them(method):
    """Over 20,000 masks, to first order in the noise: four standard errors of a mean, false alarm 7e-4."""
    rng, mixture, eta = np.random.default_rng(13), a_mixture(2), 0.1
    factors = np.linalg.cholesky(mixture.covariances)
    found = []
    for _ in range(20_000):
        if method == "populous":
            law, noise = {"eta": eta, "kappa": 0.35}, LiftedMaskNoise(eta, 0.35)
            raw = lifted_mask(mixture.weights, mixture.means, factors, np.ones(2), noise=noise, rng=rng)
        else:
            law = {"weight": 0.05, "mean": eta, "covariance": eta}
            raw = mask_mixture(mixture, noise=MaskNoise(0.05, eta, eta), rng=rng)
        order = np.argsort(raw["means"][:, 0])
        raw = {name: values[order] for name, values in raw.items()}
        if not found:
            masked = masked_mixture(raw, law, mixture, subset_records=None)
        relative = np.linalg.solve(factors, np.linalg.cholesky(raw["covariances"]))
        shift = np.linalg.solve(factors, (raw["means"] - mixture.means)[..., None])[..., 0]
        logs = np.log(np.diagonal(relative, axis1=1, axis2=2)) - masked.offset
        shape = np.stack([logs[:, 0], relative[:, 1, 0] / relative[:, 0, 0], logs[:, 1]], axis=1)
        found.append(masked.whitener @ np.concatenate([raw["weights"] - mixture.weights, shift.ravel(), shape.ravel()]))
    np.testing.assert_allclose(np.mean(found, axis=0), 0, atol=0.03)
    np.testing.assert_allclose(np.var(found, axis=0), 1, atol=0.15)

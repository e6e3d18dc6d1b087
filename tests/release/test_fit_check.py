"""Predictive checks: uniform for right mixtures, tiny for wrong ones; other numbers of components from counts."""

from dataclasses import replace

import numpy as np
import pytest
import xarray
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm.methods.counts.count_check import CountLaw
from pm_dpgmm.methods.counts.noisy_poisson import count_log_likelihood
from pm_dpgmm.methods.sketch.estimate import as_start, sketch_data
from pm_dpgmm.methods.sketch.fit import _slopes, distances
from pm_dpgmm.methods.sketch.scaled_mixture import packed
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.characteristic import feature_covariance
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.release.by_statistic import check_fit
from pm_dpgmm.release.fit_check import mixtures_of

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # poor fits on purpose

TRUTH = {
    1: Mixture([0.6, 0.4], [[0.0], [4.0]], [[[1.0]], [[0.5]]]),
    2: Mixture([0.6, 0.4], [[0.0, 0.0], [4.0, 3.0]], [[[1.0, 0.4], [0.4, 1.0]], [[0.5, 0.0], [0.0, 0.8]]]),
}


def fitted(d, seed, *, n_components=2, n_records=4000, **settings):
    X = TRUTH[d].sample(n_records, rng=np.random.default_rng(seed))
    given = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-6, 10), "method": "histogram"} | settings
    return dpg.fit_gmm(X, n_components, random_seed=seed, **given)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "d, neighbouring, n_releases", [(1, "replace-one", 25), (1, "add-remove", 25), (2, "replace-one", 5)]
)
def test_p_values_of_right_histograms_are_uniform_and_those_of_wrong_ones_tiny(d, neighbouring, n_releases):
    """Kolmogorov-Smirnov against the uniform law at 1e-4."""
    p_values = [
        fitted(d, seed, neighbouring=neighbouring).check_fit(random_seed=seed).p_value for seed in range(n_releases)
    ]
    assert stats.kstest(p_values, "uniform").pvalue > 1e-4
    wrong = fitted(d, 1, n_components=1, neighbouring=neighbouring).check_fit(random_seed=1)
    assert wrong.p_value <= 0.001 and wrong.statistic > 1.5 * wrong.expected
    assert "contradicts the" in wrong.summary()


@pytest.mark.parametrize("method", ["histogram", "sketch"])
def test_gross_misfits_are_said_to_contradict(method):
    """Simulated p-values never fell below the bound from which on that was said: .001 of a fit, .00498 of 200 draws."""
    wrong = fitted(1, 1, n_components=1, method=method)
    assert "the released mixture contradicts the" in wrong.check_fit(random_seed=1).summary()
    draws = xarray.Dataset(
        {
            f"g_{name}": (("chain", "draw", *"kde"[: array.ndim]), np.tile(array, (1, 250) + (1,) * array.ndim))
            for name, array in (
                ("weights", wrong.weights), ("means", wrong.means), ("covariances", wrong.covariances),
            )
        }
    )  # fmt: skip
    assert "200 posterior draws contradict the" in wrong.check_fit(draws, random_seed=1).summary()
    right = fitted(1, 1, method=method).check_fit(random_seed=1)
    assert "the released mixture explains the" in right.summary()


@pytest.mark.thorough
def test_a_sketch_is_tested_by_its_exact_law():
    """Four releases, the sum of -2 log p is chi-square: false alarm 1e-4 at either end."""
    p_values = [fitted(1, seed, method="sketch").check_fit().p_value for seed in range(4)]
    fisher = stats.chi2.cdf(-2 * np.log(p_values).sum(), 2 * len(p_values))
    assert 1e-4 < fisher < 1 - 1e-4
    wrong = fitted(1, 1, method="sketch", n_components=1).check_fit()
    assert wrong.p_value < 1e-6 and "contradicts the" in wrong.summary() and "p = " in repr(wrong)
    assert wrong.as_dict()["method"] == "sketch" and wrong.n_draws == 0


@pytest.mark.parametrize("method", ["histogram", "sketch"])
def test_posterior_draws_that_are_right_are_not_contradicted_and_wrong_ones_are(method):
    """The truth with small errors stands for a posterior; false alarm below 1e-3."""
    release = fitted(1, 3, method=method)
    rng = np.random.default_rng(4)
    draws = (2, 30)
    truth = TRUTH[1]
    variables = {
        "g_weights": (("chain", "draw", "component"), np.broadcast_to(truth.weights, (*draws, 2))),
        "g_means": (("chain", "draw", "component", "feature"), truth.means + rng.normal(0, 0.01, (*draws, 2, 1))),
        "g_covariances": (
            ("chain", "draw", "component", "feature", "bis"),
            np.broadcast_to(truth.covariances, (*draws, 2, 1, 1)),
        ),
    }
    right = xarray.Dataset(variables)
    check = release.check_fit(right, n_draws=40, random_seed=1)
    assert check.p_value > 1e-3 and check.n_draws == 40 and "40 posterior draws explain the" in check.summary()
    moved = right.assign(g_means=right["g_means"] + 1.0)
    wrong = release.check_fit(xarray.DataTree.from_dict({"posterior": moved}), n_draws=2000, random_seed=1)
    assert wrong.n_draws == 60 and wrong.p_value < 0.02 and wrong.statistic > 1.5 * wrong.expected


def test_draws_are_found_by_name():
    arrays = {
        f"{name}_{part}": (("chain", "draw", *"abc"[: values.ndim]), values[None, None])
        for name in ("g", "h")
        for part, values in (
            ("weights", TRUTH[2].weights),
            ("means", TRUTH[2].means),
            ("covariances", TRUTH[2].covariances),
        )
    }
    arrays = {
        name: (tuple(f"{name}_dim_{'abc'.index(dim)}" if dim in "abc" else dim for dim in dims), values)
        for name, (dims, values) in arrays.items()
    }
    (found,) = mixtures_of(xarray.Dataset(arrays), name="h", n_draws=5)
    np.testing.assert_array_equal(found.covariances, TRUTH[2].covariances)
    with pytest.raises(ValueError, match=r"one set of variables .* got None of g, h"):
        mixtures_of(xarray.Dataset(arrays), name=None, n_draws=5)
    with pytest.raises(ValueError, match="got 'x' of g, h"):
        mixtures_of(xarray.Dataset(arrays), name="x", n_draws=5)
    with pytest.raises(ValueError, match="got None of none"):
        mixtures_of(xarray.Dataset(), name=None, n_draws=5)


def named(mixture, dims):
    """One draw of a mixture with these names of its dimensions, (component, feature, other feature) at first."""
    values = {"weights": mixture.weights, "means": mixture.means, "covariances": mixture.covariances}
    return xarray.Dataset(
        {f"g_{part}": (("chain", "draw", *dims[part]), array[None, None]) for part, array in values.items()}
    )


SQUARE = dpg.Mixture([0.3, 0.7], [[0.0, 5.0], [9.0, -2.0]], [[[1.0, 0.5], [0.5, 2.0]], [[4.0, 0.0], [0.0, 3.0]]])


def test_components_are_along_the_dimension_of_the_weights_wherever_it_stands():
    """Axes were told apart by place: where K = D, transposed means were those of another mixture, in silence."""
    dims = {"weights": ["k"], "means": ["k", "d"], "covariances": ["k", "d", "e"]}
    draws = named(SQUARE, dims)
    numbered = named(SQUARE, {part: [f"g_{part}_dim_{i}" for i in range(len(own))] for part, own in dims.items()})
    for given in (draws, numbered):
        for reverse in (False, True):
            if reverse:
                given = given.map(lambda one: one.transpose(*one.dims[::-1]))
            (found,) = mixtures_of(given, name=None, n_draws=1)
            for part in ("weights", "means", "covariances"):
                np.testing.assert_array_equal(getattr(found, part), getattr(SQUARE, part))


def test_axes_that_nothing_tells_apart_are_refused():
    wide = dpg.Mixture([0.3, 0.7], [[0.0, 5.0, 1.0], [9.0, -2.0, 0.0]], [np.eye(3)] * 2)
    dims = {"weights": ["a"], "means": ["k", "d"], "covariances": ["k", "d", "e"]}
    (found,) = mixtures_of(named(wide, dims).transpose("d", ...), name=None, n_draws=1)  # one has length K
    np.testing.assert_array_equal(found.means, wide.means)
    with pytest.raises(ValueError, match="g_means must have the dimension 'a' of the weights, as more than one has 2"):
        mixtures_of(named(SQUARE, dims), name=None, n_draws=1)
    flat = named(SQUARE, dims | {"weights": ["k"]})
    with pytest.raises(ValueError, match="g_covariances must have 3 dimensions beside chain and draw"):
        mixtures_of(flat.assign(g_covariances=flat["g_means"]), name=None, n_draws=1)
    three = dpg.Mixture([0.2, 0.3, 0.5], np.zeros((3, 1)), np.ones((3, 1, 1)))
    other = named(three, dims)
    with pytest.raises(ValueError, match="g_means must have 3 components, as the weights"):
        mixtures_of(flat.rename(k="f").assign(g_weights=other["g_weights"]), name=None, n_draws=1)


def test_a_release_of_parameters_alone_has_nothing_to_compare_with():
    guarantee = fitted(1, 1).guarantee
    release = dpg.Release(TRUTH[1], guarantee, "populous", {}, {}, {}, feature_names=("x0",), n_records=100)
    with pytest.raises(ValueError, match="nothing to compare with for method 'populous'"):
        release.check_fit()
    with pytest.raises(ValueError, match="method 'slices', as there is no test for the counts"):
        replace(release, method="slices").check_fit()
    for verb in (release.select_k, lambda: release.refit(3)):
        with pytest.raises(ValueError, match="needs a release of method 'sketch', 'two-phase', 'histogram' or 'local'"):
            verb()
    with pytest.raises(ValueError, match="n_mixtures must be at least 1"):
        check_fit(fitted(1, 1), [])


def test_slopes_of_expected_counts_are_derivatives():
    """Against a plain difference in one direction of each kind, and the span against directions never asked for."""
    law = CountLaw(np.array([[-6.0, 10.0]]), 32, 4.0, 1000, 1000.0)
    slopes = law.slopes(TRUTH[1])
    assert slopes.shape == (32, 6)
    h = 1e-3
    shifted = [
        Mixture(TRUTH[1].weights, TRUTH[1].means + s * np.array([[h], [0.0]]), TRUTH[1].covariances) for s in (1, -1)
    ]
    plain = (law.expected(shifted[0]) - law.expected(shifted[1])) / (2 * h)
    np.testing.assert_allclose(
        slopes[:, 2], plain, atol=1e-3
    )  # after two logarithms; one standard deviation of component 0 is 1
    np.testing.assert_allclose(slopes.sum(axis=0), 0, atol=1e-6)  # no records are gained
    private = replace(law, n_records=None).slopes(TRUTH[1])
    np.testing.assert_allclose(private[:, 0], law.expected(TRUTH[1]) / 1000)  # but a private number of them may be
    np.testing.assert_allclose(private[:, 1:], slopes)


def test_simulated_counts_have_the_stated_law():
    """Mean and variance of each of 16 cells within five standard errors, for public and for private numbers."""
    for n_records in (500, None):
        law = CountLaw(np.array([[-6.0, 10.0]]), 16, 1.5, n_records, 500.0)
        draws = law.simulate(law.probabilities(TRUTH[1]), 20_000, rng=np.random.default_rng(5))
        expected = law.expected(TRUTH[1])
        deviations = law.deviations(expected)
        assert (abs(draws.mean(axis=0) - expected) < 5 * deviations / np.sqrt(20_000)).all()
        variances = deviations**2 - (expected**2 / 500 if n_records else 0)
        np.testing.assert_allclose(draws.var(axis=0), variances, rtol=0.08)


@pytest.mark.thorough
def test_counts_choose_the_number_of_components():
    release = fitted(1, 2, n_components=1, n_records=20_000)
    found = release.select_k(range(1, 5))
    assert found.chosen == 2 and found.release.n_components == 2 and found.release.guarantee is release.guarantee
    assert found.misfits[0] > 10 and abs(found.misfits[1]) < 5
    assert "<- chosen" in found.summary() and found.as_dict()["chosen"] == 2
    two = release.refit(2)
    np.testing.assert_array_equal(two.means, found.release.means)
    assert release.refit(1) is release and dict(two.raw).keys() == dict(release.raw).keys()
    bic = release.select_k([1, 2], penalty="bic")
    assert bic.penalty == pytest.approx(np.log(64)) and release.select_k([2], penalty="aic").penalty == 2
    with pytest.raises(ValueError, match="n_components must be at most 32 for 64 bins, got 33"):
        release.refit(33)
    # the score is what it says
    law = CountLaw(np.array([[-6.0, 10.0]]), 64, release.noise["scale"], 20_000, 0.0)
    value, _ = count_log_likelihood(
        release.raw["counts"], law.expected(two.mixture) + 1e-6, noise_scale=release.noise["scale"]
    )
    assert bic.scores[1] == pytest.approx(-2 * value.sum() + 6 * bic.penalty)


def test_noise_on_the_number_of_records_is_one_more_direction_of_the_law():
    """Chi-square before the step and log-determinant equal those of the whole covariance."""
    release = fitted(1, 2, method="sketch", neighbouring="add-remove")
    evidence = SketchStatistics.from_arrays(release.raw, release.noise)
    data, found = sketch_data(evidence), as_start(evidence, release.mixture, release.background_weight)
    before, after, _, log_determinant, _ = distances(data, found)
    covariance = feature_covariance(data.frequencies, data.amplitudes, *data.components(found)) * data.n_records
    expected = data.expected(found)
    by_count = expected * evidence.n_records_scale / data.n_records
    covariance += np.diag(data.variances) + np.outer(by_count, by_count)
    residuals = expected - data.values
    assert evidence.n_records_scale > 10 and after < before
    assert before == pytest.approx(residuals @ np.linalg.solve(covariance, residuals), rel=1e-9)
    assert log_determinant == pytest.approx(np.linalg.slogdet(covariance)[1], rel=1e-9)
    assert before < distances(replace(data, count_scale=0.0), found)[0]
    root = np.linalg.cholesky(covariance)
    slopes = _slopes(data, packed(found), found.n_components, root, found.background is not None)
    explained = slopes.T @ np.linalg.solve(root, residuals)
    gain = explained @ np.linalg.lstsq(slopes.T @ slopes, explained)[0]
    assert after == pytest.approx(before - gain, rel=1e-5)  # a ridge of 1e-6 keeps the step small


def test_posterior_draws_are_completed_by_the_background_of_the_release():
    """At the released mixture the statistic is that of the release, less what its best small step explains."""
    rng = np.random.default_rng(1)
    X = np.vstack([TRUTH[2].sample(3200, rng=rng), rng.normal(2.0, 3.5, size=(800, 2))])
    release = dpg.fit_gmm(
        X, 2, epsilon=1.0, delta=1e-6, bounds=(-6, 10), method="sketch", random_seed=1, progress=False
    )
    assert release.background_weight > 0.1
    at_release = check_fit(release, [release.mixture]).statistic
    assert at_release == pytest.approx(check_fit(release).statistic, rel=0.01)


def test_draws_are_spread_over_all_chains():
    means = np.arange(20.0).reshape(2, 10, 1, 1)
    ones = np.ones((2, 10, 1))
    arrays = {"g_weights": ones, "g_means": means, "g_covariances": ones[..., None, None]}
    arrays = {name: (("chain", "draw", *(f"{name}{i}" for i in range(x.ndim - 2))), x) for name, x in arrays.items()}
    found = mixtures_of(xarray.Dataset(arrays), name=None, n_draws=3)
    assert [mixture.means.item() for mixture in found] == [0.0, 10.0, 19.0]

"""Method "em" from records to release: what is spent, what leaves, what it finds, what it refuses."""

import json
import warnings
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.methods.em import method as em_method
from pm_dpgmm.methods.em.law import log_density
from pm_dpgmm.methods.em.maximisation import maximised
from pm_dpgmm.methods.em.method import EM, step_shares
from pm_dpgmm.methods.em.run import resumed
from pm_dpgmm.methods.em.statistics import EMStatistics
from tests.builders.interruptions import interrupted_after

RELEASES = Path(__file__).resolve().parents[2] / "data" / "releases"
LINE = dpg.Mixture([0.3, 0.7], [[-2.0], [2.0]], [[[0.6]], [[1.2]]])
PLANE = dpg.Mixture([0.4, 0.6], [[-2.0, 0.0], [2.0, 1.0]], [[[1.0, 0.3], [0.3, 0.5]], [[0.6, 0.0], [0.0, 1.0]]])
ROWS = np.random.default_rng(2).normal(size=(100, 30))
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-6, 6), "progress": False}


def fitted(truth, n_records, *, seed=1, **settings):
    records = truth.sample(n_records, rng=np.random.default_rng(seed))
    return dpg.fit_gmm(records, truth.n_components, method="em", random_seed=seed, **BUDGET, **settings)


@pytest.mark.thorough(quick=["line-replace-one"])
@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove"])
@pytest.mark.parametrize("truth", [LINE, PLANE], ids=["line", "plane"])
def test_it_finds_the_mixture(truth, neighbouring):
    """Errors are a tenth of these limits on average; seeds are fixed."""
    found = fitted(truth, 20_000, neighbouring=neighbouring).mixture
    order = np.argsort(found.means[:, 0])
    np.testing.assert_allclose(found.weights[order], truth.weights, atol=0.05)
    np.testing.assert_allclose(found.means[order], truth.means, atol=0.15)
    np.testing.assert_allclose(found.covariances[order], truth.covariances, atol=0.25)


@pytest.mark.thorough(quick=["diag"])
@pytest.mark.parametrize("covariance", ["diag", "spherical"])
def test_covariances_have_the_form_that_was_asked_for(covariance):
    release = fitted(PLANE, 20_000, covariance_type=covariance)
    for one in release.covariances:
        np.testing.assert_array_equal(one, np.diag(np.diag(one)))
        assert covariance == "diag" or one[0, 0] == pytest.approx(one[1, 1], rel=1e-12)
    assert (
        release.raw["em_squares"].shape == (2, 2, 2 if covariance == "diag" else 1)
        and release.covariance_type == covariance
    )
    order = np.argsort(release.means[:, 0])
    np.testing.assert_allclose(release.means[order], PLANE.means, atol=0.2)


@pytest.mark.thorough
def test_the_likelihood_is_better_than_the_last_step_alone():
    """Overlapping components: the published step stops at its bias, of which the likelihood has none."""
    close = dpg.Mixture([0.15, 0.35, 0.5], [[17.0], [30.0], [50.0]], [[[9.0]], [[16.0]], [[25.0]]])
    records = close.sample(100_000, rng=np.random.default_rng(0))
    gaps = []
    for estimate in ("likelihood", "m-step"):
        ways = BUDGET | {"bounds": (0, 80), "estimate": estimate}
        release = dpg.fit_gmm(records, 3, method="em", random_seed=0, **ways)
        gaps.append(float((close.log_density(records) - release.mixture.log_density(records)).mean()))
    assert gaps[0] < 1e-4 < gaps[1]  # of four seeds: at most 0 and at least .00012


def test_the_answer_is_at_the_top_of_the_law_that_observe_has():
    """Moving the mixture a little anywhere lowers the log density of the sums; the prior moves it by far less."""
    release = fitted(LINE, 20_000)
    steps = EMStatistics.of(release)

    def density(weights, means, variances):
        return log_density(steps, weights, means, np.sqrt(variances))

    best = density(release.weights, release.means, release.covariances)
    assert best > density(LINE.weights, LINE.means, LINE.covariances) - 0.5
    for sign in (-1, 1):
        assert density(release.weights, release.means + sign * 0.1, release.covariances) < best
        assert density(release.weights, release.means, release.covariances * 1.1**sign) < best
        moved = release.weights + sign * np.array([0.02, -0.02])
        assert density(moved, release.means, release.covariances) < best


@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove"])
def test_the_whole_budget_is_spent_and_no_more(neighbouring, monkeypatch):
    filters, real = [], em_method.noisy_em_sums

    def heard(*given, **named):
        found, left = real(*given, **named)
        filters.append(left)
        return found, left

    monkeypatch.setattr(em_method, "noisy_em_sums", heard)
    fitted(LINE, 3_000, neighbouring=neighbouring, n_steps=3)
    assert len(filters) == 3 and all(one.spent <= one.limit for one in filters)
    assert filters[-1].remaining_share < 1e-6


@pytest.mark.parametrize("prior", [None, dpg.MapPrior(concentration=200.0, strength=100.0, degrees=300.0)])
def test_a_prior_is_that_of_the_last_step_and_an_interrupted_fit_keeps_it(prior):
    release = fitted(LINE, 3_000, estimate="map", prior=prior)
    whole = prior or dpg.MapPrior()
    expected = maximised(EMStatistics.of(release), prior=whole)
    np.testing.assert_array_equal(release.means, expected.means)
    np.testing.assert_array_equal(release.covariances, expected.covariances)
    assert release.settings["prior"] == (None if prior is None else release.noise["prior"])
    again = resumed(release.guarantee, release.raw, release.noise, 2)
    np.testing.assert_array_equal(again.mixture.covariances, release.covariances)
    with pytest.raises(ValueError, match="prior must hold the numbers of a MapPrior, got"):
        resumed(release.guarantee, release.raw, dict(release.noise) | {"prior": "weak"}, 2)


@pytest.mark.thorough
def test_columns_of_two_values_get_their_moments_and_a_warning():
    """The best clipped mixture had standard deviations of many times the bounds."""
    records = np.random.default_rng(1).choice([-1.0, 1.0], size=(20_000, 4), p=[0.4, 0.6])
    with pytest.warns(dpg.FitWarning, match="no mixture of this kind explains the released sums"):
        release = dpg.fit_gmm(records, 2, method="em", random_seed=1, **(BUDGET | {"bounds": (-1, 1)}))
    steps = EMStatistics.of(release)
    np.testing.assert_array_equal(release.means, maximised(steps).means)
    assert release.covariances.max() < 1.5  # of one column: .96
    again = resumed(release.guarantee, release.raw, release.noise, 2)
    assert again.noise["caveats"] == release.noise["caveats"]


@pytest.mark.parametrize("n_steps", [1, 2, 3, 10])
def test_shares_of_steps_add_up_in_rational_numbers(n_steps):
    shares = step_shares(Fraction(3, 4), n_steps)
    assert sum(shares) == Fraction(3, 4) and shares == sorted(shares) and shares[0] > 0


def test_records_outside_the_bounds_count_at_their_edge():
    records = LINE.sample(3_000, rng=np.random.default_rng(1))
    wild = records.copy()
    wild[0] = 1e300
    edge = records.copy()
    edge[0] = 6.0
    ways = {"method": "em", "random_seed": 1, **BUDGET}
    one, other = (dpg.fit_gmm(rows, 2, **ways).raw for rows in (wild, edge))
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"n_steps": 0}, "n_steps must be at least 1"),
        ({"n_steps": 11}, "n_steps must be at most 10"),
        ({"covariance_type": "tied"}, "covariance_type must be one of 'full', 'diag', 'spherical', got 'tied'"),
        ({"estimate": "mode"}, "estimate must be one of 'likelihood', 'm-step', 'map', 'k-means', got 'mode'"),
        ({"prior": dpg.MapPrior()}, "prior must be None unless estimate is 'map', got one for 'likelihood'"),
        ({"prior": {"degrees": 2.0}, "estimate": "map"}, "prior must be a MapPrior or None, got"),
        ({"start_share": 0.0}, "start_share must lie strictly between 0 and 1"),
        ({"start_share": 0.999}, "start_share must be from 0.01 to 0.99"),
        ({"reach": -1.0}, "reach must be finite and greater than 0"),
        ({"reach": 1e9}, "reach must be from 0.01 to 100"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, words):
    with pytest.raises((TypeError, ValueError), match=words):
        EM(**settings)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"delta": None}, "needs delta"),
        ({"bounds": None}, "needs bounds"),
        ({"bounds": (1e12, 1e12 + 1)}, "bounds must not lie so far from 0"),
        ({"bounds": (-1e300, 1e300)}, "bounds must lie within 1e100"),
    ],
)
def test_problems_that_it_cannot_do_cost_nothing(change, words, tmp_path):
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5)
    with pytest.raises(ValueError, match=words):
        dpg.fit_gmm(ROWS[:, :1], 2, method="em", ledger=ledger, **(BUDGET | change))
    with pytest.raises(ValueError, match="n_components and n_steps must be so small that all steps have at most 1200"):
        dpg.fit_gmm(ROWS, 3, method="em", ledger=ledger, **BUDGET)
    assert ledger.spent == (0.0, 0.0)


def test_a_few_records_make_a_release_that_warns():
    with pytest.warns(dpg.FitWarning, match="too few records or too small a budget"):
        release = fitted(PLANE, 60)
    assert np.isfinite(release.means).all() and "too few" in release.flag


@pytest.mark.parametrize("n_features, half, told", [(1, 10, False), (1, 1_000, True), (4, 10, False), (4, 1_000, True)])
def test_noise_as_large_as_the_variance_that_was_found_is_told(n_features, half, told):
    """Of one component in wide bounds: the fits lose a nat and four; in the narrow ones at most 0.01."""
    records = np.random.default_rng(2).normal(5.0, 1.0, (2_000, n_features))
    settings = {"bounds": (-half, half), "method": "em", "random_seed": 1, "progress": False}
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        release = dpg.fit_gmm(records, 1, epsilon=1.0, delta=1e-6, **settings)
    assert [issubclass(one.category, dpg.FitWarning) for one in shown] == [True] * told
    assert told == ("the covariance of component 0 may be noise" in str(release.flag))


@pytest.mark.parametrize("correlation, told", [(0.9, False), (0.999, True)])
def test_noise_as_large_as_the_narrowest_direction_is_told(correlation, told):
    """The mean variance of all directions said nothing where half a nat a record was lost."""
    normal = np.random.default_rng(3).normal(size=(10_000, 2))
    across = correlation * normal[:, 0] + np.sqrt(1 - correlation**2) * normal[:, 1]
    X = np.column_stack([normal[:, 0], across]) + np.repeat([[0.0, 0.0], [4.0, -4.0]], 5_000, axis=0)
    settings = {"bounds": (-12, 12), "method": "em", "random_seed": 1, "progress": False}
    with pytest.warns(dpg.FitWarning, match="the covariance of components 0, 1") if told else nullcontext():
        release = dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, **settings)
    assert told == (release.warnings != ())


@pytest.mark.thorough(quick=["7"])
@pytest.mark.parametrize("stop", [1, 6, 7, 8])
def test_an_interrupted_fit_goes_on_from_what_it_had_released(stop, tmp_path):
    """After the first and the last of six cells, after the first step, and after the last one: to the same release."""
    records = LINE.sample(5_000, rng=np.random.default_rng(1))
    whole = dpg.fit_gmm(records, 2, method="em", random_seed=1, **BUDGET)
    place = tmp_path / "fit.json"
    with interrupted_after(EM, stop):
        dpg.fit_gmm(records, 2, method="em", random_seed=1, checkpoint=place, **BUDGET)
    found = dpg.resume(place)
    assert ("em_cells_5" in found.raw, "em_counts" in found.raw, "em_step_0" in found.raw) == (
        stop >= 6,
        stop >= 7,
        stop == 8,
    )
    for name, values in found.raw.items():
        if name.startswith("em_cells") or stop != 7:  # a step is the last one, or one before it
            np.testing.assert_array_equal(values, whole.raw[name])
    last = stop == 8
    assert last == (found.warnings == whole.warnings)
    if last:
        assert found.to_dict() == whole.to_dict()
    else:
        assert "interrupted" in found.flag


@pytest.mark.parametrize(
    "part, change, words",
    [
        ("em_counts", lambda values: values[:1], r"em_counts must have shape \(2, 2\)"),
        ("em_scales", lambda values: 0 * values, "em_scales must be greater than 0"),
        ("em_squares", lambda values: np.concatenate([values] * 3, axis=2), "em_squares must have shape"),
    ],
)
def test_a_file_whose_sums_contradict_each_other_is_refused(part, change, words, tmp_path):
    release = dpg.load(RELEASES / "em.json")
    fields = release.to_dict()
    fields["raw"][part] = replace(release, raw=dict(release.raw) | {part: change(release.raw[part])}).to_dict()["raw"][
        part
    ]
    place = tmp_path / "changed.json"
    place.write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=words):
        dpg.load(place)

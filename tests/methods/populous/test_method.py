"""Method "populous": what depends on what, what leaves it, and that it answers. Its guarantee is audited as a target."""

import json
import math
import os
import signal
import time
from dataclasses import asdict, replace

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.learners.fit_arrays import Fits
from pm_dpgmm.mechanisms.lifted_mask import LiftedMaskNoise
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.populous import method as populous
from pm_dpgmm.methods.populous.agreement import AgreementRule, friend_table
from pm_dpgmm.methods.populous.average import stability_level
from pm_dpgmm.methods.populous.design import Assumed, Design, best_design, fewest_records
from pm_dpgmm.methods.populous.method import Populous, agree_average_mask, split, unbiased
from pm_dpgmm.privacy.guarantee import Neighbouring

REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
LOOSE = {"epsilon": 4.0, "delta": 1e-4}  # needs few subsets, each of which is a process where a learner is given
PROBLEM = Problem(90_000, 1, 2, 1.0, 1e-6, None, REPLACE)
TRUTH = dpg.Mixture([0.4, 0.6], [[0.0], [5.0]], [[[1.0]], [[2.0]]])


def copies(mixture, t, *, rng, spread=0.02):
    """``t`` fits that differ from ``mixture`` by about ``spread`` in the log variances, as arrays."""
    k = len(mixture.weights)
    factor = np.exp(spread * rng.standard_normal((t, k, 1, 1)))
    covariances = mixture.covariances * factor
    return Fits(
        np.tile(mixture.weights, (t, 1)), np.tile(mixture.means, (t, 1, 1)), covariances, np.ones(t, dtype=bool)
    )


@pytest.mark.thorough(quick=["replace-one"])
# ------------------------------------------------------------------ the whole method
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_it_answers_without_bounds_in_any_units_near_the_truth(relation):
    rng = np.random.default_rng(3)
    n, unit, offset = 20_000, 1e-3, 1e6
    X = (rng.normal(size=(n, 1)) + offset) * unit
    guess = {"assumed_records": 18_000} if relation == "add-remove" else {}
    release = dpg.fit_gmm(X, 1, **BUDGET, method="populous", noise=0.05, neighbouring=relation, **guess)
    # six standard deviations of noise and sampling together
    assert release.means[0, 0] / unit - offset == pytest.approx(0, abs=6 * math.hypot(math.sqrt(2) * 0.05, n**-0.5))
    assert release.covariances[0, 0, 0] / unit**2 == pytest.approx(1, abs=6 * 0.1)
    assert release.weights == pytest.approx([1.0])
    assert release.private and release.guarantee.curve(1.0) <= 1e-6
    assert release.n_records == (n if relation == "replace-one" else None)
    assert set(release.raw) == {"weights", "corners", "means", "covariances"}


def test_a_release_survives_a_file_with_its_curve(tmp_path):
    X = np.random.default_rng(3).normal(size=(20_000, 1))
    release = dpg.fit_gmm(X, 1, **BUDGET, method="populous", noise=0.05)
    loaded = dpg.load(release.save(tmp_path / "release.json"))
    assert loaded.guarantee == release.guarantee and loaded.noise["law"] == "lifted-mask"
    both = dpg.compose(release.guarantee, loaded.guarantee, delta=2e-6)
    assert both.epsilon == pytest.approx(2.0, rel=1e-3)


def test_the_same_seed_and_any_number_of_threads_give_the_same_release():
    X = np.random.default_rng(3).normal(size=(20_000, 1))
    first, second = (
        dpg.fit_gmm(X, 1, **BUDGET, method="populous", noise=0.05, random_seed=5, n_jobs=n_jobs) for n_jobs in (1, 2)
    )
    assert first.means == second.means and first.covariances == second.covariances and not first.private


@pytest.mark.thorough
def test_any_learner_will_do_and_disagreement_is_refused_without_a_word(capsys, caplog):
    def mean_and_spread(subset):
        return dpg.Mixture([1.0], [subset.mean(axis=0)], [np.cov(subset, rowvar=False).reshape(1, 1)])

    def noisy(subset):
        print("records:", subset[:2])
        return dpg.Mixture([1.0], [[subset[0, 0] * 50]], [[[1.0]]])

    X = np.random.default_rng(4).normal(size=(3_000, 1))
    release = dpg.fit_gmm(X, 1, **LOOSE, method="populous", noise=0.05, learner=mean_and_spread)
    assert abs(release.means[0, 0]) < 0.5
    words = []
    for records in (X, X * 7 + 1):
        with pytest.raises(dpg.Unstable, match="refused") as caught:
            dpg.fit_gmm(records, 1, **LOOSE, method="populous", noise=0.05, learner=noisy, rehearse=False)
        words.append(str(caught.value))
        assert caught.value.guarantee.epsilon == 4.0 and caught.value.__cause__ is None
    assert words[0] == words[1]
    assert capsys.readouterr().out == "" and not caplog.records


@pytest.mark.thorough
def test_a_learner_that_always_fails_is_found_before_anything_is_spent(tmp_path):
    ledger = dpg.Ledger(tmp_path / "ledger.sqlite", **LOOSE)
    X = np.random.default_rng(4).normal(size=(3_000, 1))
    settings = {**LOOSE, "method": "populous", "noise": 0.05, "learner": lambda subset: subset.no_such_method()}
    with pytest.raises(ValueError, match=r"AttributeError.*no_such_method"):
        dpg.fit_gmm(X, 1, **settings, ledger=ledger)
    assert ledger.spent == (0.0, 0.0)
    with pytest.raises(dpg.Unstable):
        dpg.fit_gmm(X, 1, **settings, rehearse=False)


# ------------------------------------------------------------------ arguments
@pytest.mark.parametrize(
    "settings, words",
    [
        ({"noise": 1.5}, "noise"),
        ({"separation": -1.0}, "separation"),
        ({"efficiency": 1.5}, "efficiency must be at most 1"),
        ({"core": "quadruple"}, "core"),
        ({"n_subsets": 2}, "n_subsets"),
        ({"time_limit": 0.0}, "time_limit"),
    ],
)
def test_bad_settings_are_named(settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        Populous(**settings)


def test_too_few_records_are_told_before_anything_is_spent(tmp_path):
    X = np.arange(90_000.0)[:, None]
    ledger = dpg.Ledger(tmp_path / "ledger.sqlite", **BUDGET)
    with pytest.raises(ValueError, match=r"X must have at least about [\d,]+ rows .* got 3,000"):
        dpg.fit_gmm(X[:3_000], 2, **BUDGET, method="populous", ledger=ledger)
    with pytest.raises(ValueError, match=r"settings must let method 'populous' answer .* got n_subsets = 6, noise ="):
        dpg.fit_gmm(X, 2, **BUDGET, method=Populous(n_subsets=6), ledger=ledger)
    guess = Populous(assumed_records=3_000)
    with pytest.raises(ValueError, match=r"assumed_records must be at least about [\d,]+ for method .* got 3,000"):
        dpg.fit_gmm(X[:2_999], 2, **BUDGET, method=guess, neighbouring="add-remove", ledger=ledger)
    with pytest.raises(ValueError, match="delta greater than 0"):
        dpg.fit_gmm(X, 2, epsilon=1.0, method="populous", ledger=ledger)
    with pytest.raises(ValueError, match="assumed_records"):
        dpg.fit_gmm(X, 2, **BUDGET, method="populous", neighbouring="add-remove", ledger=ledger)
    assert ledger.spent == (0.0, 0.0)


def test_the_number_that_is_told_is_enough():
    with pytest.raises(ValueError, match="at least about") as caught:
        Populous(noise=0.05).constants(replace(PROBLEM, n_records=20_000))
    told = int(str(caught.value).split("about ")[1].split(" rows")[0].replace(",", ""))
    assert Populous(noise=0.05).constants(replace(PROBLEM, n_records=told)).design.noise == 0.05
    with pytest.raises(ValueError, match="at least about"):
        Populous(noise=0.05).constants(replace(PROBLEM, n_records=int(0.9 * told)))


# ------------------------------------------------------------------ what depends on what
def test_under_add_remove_the_constants_do_not_know_the_number_of_records():
    settings = Populous(assumed_records=90_000)
    problems = [replace(PROBLEM, neighbouring=ADD_REMOVE, n_records=n) for n in (100, 90_000, 10**7)]
    found = [settings.constants(problem) for problem in problems]
    assert found[0] == found[1] == found[2]
    design = found[0].design
    assert settings.subset_records(problems[0], design) == settings.subset_records(problems[2], design)
    assert Populous(design=design).subset_records(problems[0], design) is None


def test_one_replaced_record_changes_one_subset_and_one_more_record_one():
    n, t = 1_003, 50
    order, edges = split(n, t, REPLACE, rng=np.random.default_rng(1))
    assert sorted(order.tolist()) == list(range(n)) and set(np.diff(edges)) == {20, 21}
    holders = [i for i in range(t) if 17 in order[edges[i] : edges[i + 1]]]
    assert len(holders) == 1

    draws = np.random.default_rng(2).integers(t, size=n + 1)

    def subsets(size, monkeypatched):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(populous, "random_assignment", lambda n, n_places, *, rng: monkeypatched[:n])
            order, edges = split(size, t, ADD_REMOVE, rng=None)
        return [order[edges[i] : edges[i + 1]].tolist() for i in range(t)]

    before, after = subsets(n, draws), subsets(n + 1, draws)
    assert [i for i in range(t) if before[i] != after[i]] == [draws[n]]
    assert after[draws[n]] == [*before[draws[n]], n]  # records keep their order


def test_the_mask_uses_the_scale_of_weights_that_friends_are_judged_by():
    rule = AgreementRule(2, 1, 0.5, 0.8, weight_scale=0.1)
    design = Design(400, rule, 330, 330, 0.05)
    constants = Populous(design=design).constants(replace(PROBLEM, n_records=4_000))
    assert constants.noise == LiftedMaskNoise(0.05, 0.1)


def test_omega_is_equation_1_and_the_curve_that_of_the_stored_table():
    rule = AgreementRule(2, 1, 0.5, 0.8)
    design = Design(400, rule, 330, 320, 0.05)
    n0 = math.ceil(802 / 3) - 1
    u = (400 - 1 - 320) / (330 - n0)
    assert design.omega == pytest.approx(2 * 0.8 * (1 + u) / (320 + 1 + u) + 2 * rule.average_error)
    method = Populous(design=design)
    problem = replace(PROBLEM, n_records=4_000)
    constants = method.constants(problem)
    guarantee = method.guarantee(problem)
    assert guarantee.loss.probabilities == constants.table.probabilities
    assert guarantee.loss.loss.omega == design.omega
    assert constants.table.probabilities[1] == guarantee.curve(30.0) == 1e-6  # the first level, at any epsilon


# ------------------------------------------------------------------ designs
@pytest.mark.thorough
def test_a_design_passes_under_its_own_model_and_with_less_noise_when_there_are_more_records():
    noises = []
    for n in (90_000, 300_000, 3_000_000):
        design = best_design(Assumed(n, 1, 2, 1.0, 1e-6, 4.0, 0.5), None)
        noises.append(design.noise)
        constants = Populous(design=design).constants(replace(PROBLEM, n_records=n))
        rng, t = np.random.default_rng(n), design.n_subsets
        spread = math.sqrt(2 * 2 / (0.5 * (n // t)))  # of each of two coordinates of a component
        mixture = dpg.Mixture([0.5, 0.5], [[0.0], [4.0]], [[[1.0]], [[1.0]]])
        fits = copies(mixture, t, rng=rng, spread=spread)
        fits = replace(fits, means=fits.means + spread / math.sqrt(2) * rng.standard_normal((t, 2, 1)))
        shift = spread * design.rule.kappa / math.sqrt(2) * rng.standard_normal((t, 1))
        fits = replace(fits, weights=fits.weights + np.hstack([shift, -shift]))
        counts = friend_table(fits, design.rule).sum(axis=1)
        assert stability_level(counts, top=design.top, full=design.full) >= constants.table.level_for(0.99)
    assert noises[0] > 2 * noises[1] > 4 * noises[2]


@pytest.mark.thorough
def test_a_given_noise_is_kept_and_a_larger_budget_or_separation_needs_fewer_records():
    assumed = Assumed(1, 2, 3, 1.0, 1e-6, 4.0, 0.5)
    assert best_design(replace(assumed, n_records=400_000), 0.05).noise == 0.05
    needed = fewest_records(assumed, 0.05)
    assert fewest_records(replace(assumed, epsilon=2.0), 0.05) < 0.8 * needed
    assert fewest_records(replace(assumed, separation=8.0), 0.05) < 0.8 * needed
    assert fewest_records(replace(assumed, efficiency=1.0), 0.05) < 0.8 * needed
    assert fewest_records(replace(assumed, core="pair"), 0.05) > 1.2 * needed


# ------------------------------------------------------------------ what leaves it
def test_garbage_fits_raise_and_warn_nothing():
    rule = AgreementRule(2, 1, 0.5, 0.8)
    constants = Populous(design=Design(400, rule, 330, 330, 0.05)).constants(replace(PROBLEM, n_records=4_000))
    rng = np.random.default_rng(5)
    fits = copies(TRUTH, 400, rng=rng)
    for value in (np.nan, np.inf, 1e308, -1.0, 0.0):
        for place in ("weights", "means", "covariances"):
            parts = {name: getattr(fits, name).copy() for name in ("weights", "means", "covariances")}
            parts[place][:30] = value
            raw = agree_average_mask(Fits(**parts, given=fits.given), constants, n_threads=1, rng=rng)
            assert raw is not None and np.isfinite(raw["means"]).all()
            parts[place][:] = value  # every fit is garbage
            allowed = value in (0.0, -1.0, 1e308) and place == "means"
            raw = agree_average_mask(Fits(**parts, given=fits.given), constants, n_threads=1, rng=rng)
            assert raw is None or allowed or place == "weights"


def test_covariances_of_fits_to_few_records_are_corrected():
    """Maximum likelihood and barycentre lose 1/20 of a variance with 40 records in two columns; the correction 1/2 %."""
    rng, d, nu, t = np.random.default_rng(6), 2, 40, 3000
    subsets = rng.normal(size=(t, nu, d))
    means = subsets.mean(axis=1)
    covariances = np.array([np.cov(subset, rowvar=False, bias=True) for subset in subsets])
    fits = Fits(np.ones((t, 1)), means[:, None], covariances[:, None], np.ones(t, dtype=bool))
    rule = AgreementRule(1, d, 1.4, 1.4)
    average = populous.average_core(fits, friend_table(fits, rule), rule, top=2400)
    centre, covariance, _ = populous.parts_of_lifted(average.points)
    factor = average.factors[0] @ np.linalg.cholesky(covariance[0])
    plain = dpg.Mixture([1.0], centre, [factor @ factor.T])
    allowed = 3 * math.sqrt(1 / (nu * t)) + 0.003  # three standard errors of a log determinant over d, second order
    assert math.log(np.linalg.det(plain.covariances[0])) / d == pytest.approx(-4 / 80, abs=allowed)
    assert math.log(np.linalg.det(unbiased(plain, nu).covariances[0])) / d == pytest.approx(0, abs=allowed)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pm_dpgmm.WeakGuarantee")
def test_learners_that_die_hang_or_talk_nonsense_cost_agreement_and_nothing_else():
    """Ten of 120 fits fail in four ways; the test passes at this level with certainty."""

    def mean_and_spread(subset):
        kind = round(1e6 * float(subset[0, 0])) % 1_000 if subset[0, 0] > 100 else -1
        if kind == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == 2:
            time.sleep(0.01)
            while True:
                pass
        if kind == 3:
            return dpg.Mixture([1.0], [[np.nan]], [[[1.0]]])
        if kind == 4:
            raise SystemExit
        return dpg.Mixture([1.0], [np.median(subset, axis=0)], [np.cov(subset, rowvar=False).reshape(1, 1)])

    rule = AgreementRule(1, 1, 1.4, 1.4)
    design = Design(120, rule, 95, 95, 0.2)
    settings = {"epsilon": 1.0, "delta": 1e-2, "method": Populous(design=design, time_limit=0.5)}
    X = np.random.default_rng(7).normal(size=(12_000, 1))
    constants = settings["method"].constants(Problem(12_000, 1, 1, 1.0, 1e-2, None, REPLACE))
    assert constants.table.probability(15) == 1.0

    def marked(n_records, n_subsets, relation, *, rng):
        order = np.arange(n_records)
        return order, np.arange(n_subsets + 1) * n_records // n_subsets

    for i in range(10):
        X[100 * 7 * i] = 1_000 + (i % 4 + 1) * 1e-6
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(populous, "split", marked)
        release = dpg.fit_gmm(X, 1, **settings, learner=mean_and_spread, n_jobs=2)
    assert abs(release.means[0, 0]) < 3  # the noise is a ratio: a false alarm needs a factor that is 4 deviations off


def test_a_design_of_numpy_numbers_can_be_stored_and_another_object_is_refused():
    rule = AgreementRule(np.int64(2), np.int32(1), np.float32(0.5), np.float64(0.5))
    method = Populous(design=Design(np.int64(120), rule, np.int64(95), np.int32(95), np.float64(0.2)))
    assert json.loads(json.dumps(asdict(method)))["design"]["n_subsets"] == 120
    with pytest.raises(TypeError, match="design must be a Design, got"):
        Populous(design={"n_subsets": 120})

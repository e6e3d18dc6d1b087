import math

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

import pm_dpgmm as dpg
from pm_dpgmm.learners.subsets import fit_subsets
from pm_dpgmm.mechanisms.masks import MaskNoise
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.populous_single.method import PopulousSingle, propose_test_release, valid_mixture

PROBLEM = Problem(10**6, 1, 2, 1.0, 1e-6, None, dpg.Neighbouring.REPLACE_ONE)
TRUTH = dpg.Mixture([0.3, 0.7], [[0.0], [8.0]], [[[1.0]], [[2.0]]])


def constant(subset):
    return TRUTH


@pytest.fixture(scope="module")
def release():
    """With a process for each of some 220 subsets."""
    X = np.random.default_rng(0).normal(size=(3000, 1)) * 1e6
    return dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, method="populous-single", learner=constant)


@pytest.mark.thorough
def test_full_agreement_answers_near_the_fit_without_any_bounds(release):
    order = np.argsort(release.means[:, 0])
    # six standard errors of the mask
    assert release.means[order, 0] == pytest.approx([0.0, 8.0], abs=6 * 0.05 * math.sqrt(2))
    assert release.weights[order] == pytest.approx([0.3, 0.7], abs=0.3)
    assert release.guarantee.curve(1.0) <= 1e-6
    assert (release.guarantee.epsilon, release.guarantee.delta, release.private) == (1.0, 1e-6, True)
    assert set(release.raw) == {"weights", "means", "covariances"}


def test_disagreement_is_refused_with_the_price_and_nothing_else():
    quick = GaussianMixture(2, max_iter=5, init_params="random_from_data")  # far from converged: also a warning
    arguments = {"epsilon": 1.0, "delta": 1e-6, "method": "populous-single", "n_subsets": 220, "learner": quick}
    arguments["rehearse"] = False  # so few rows of a subset may have no fit
    X = np.random.default_rng(0).normal(size=(3000, 1))
    with pytest.raises(dpg.Unstable, match="refused") as caught:
        dpg.fit_gmm(X, 2, **arguments)
    other = np.random.default_rng(1).normal(size=(3000, 1)) * 7
    with pytest.raises(dpg.Unstable) as again:
        dpg.fit_gmm(other, 2, **arguments)
    assert caught.value.guarantee.epsilon == 1.0 and caught.value.guarantee.delta == 1e-6
    assert str(caught.value) == str(again.value)  # a refusal is the same whatever the records are


@pytest.mark.thorough
def test_failed_learners_are_refused_like_any_disagreement():
    settings = {"epsilon": 4.0, "delta": 1e-4, "method": "populous-single", "learner": lambda s: 1 / 0}
    with pytest.raises(dpg.Unstable):
        dpg.fit_gmm(np.arange(3000.0), 2, **settings, rehearse=False)
    with pytest.raises(ValueError, match=r"learner must fit 2 components .* got ZeroDivisionError"):
        dpg.fit_gmm(np.arange(3000.0), 2, **settings)


@pytest.mark.parametrize("accounting, subsets", [("exact", 218), ("paper", 536)])
def test_default_number_of_subsets_passes_surely_when_all_agree_and_hardly_more(accounting, subsets):
    method = PopulousSingle(accounting=accounting)
    constants = method.constants(PROBLEM)
    t = constants.n_subsets
    assert t == subsets
    assert t * t - constants.test.bound >= constants.threshold + constants.test.bound
    fewer = PopulousSingle(accounting=accounting, n_subsets=int(t * 0.9)).constants(PROBLEM)
    assert fewer.n_subsets**2 - fewer.test.bound < fewer.threshold + fewer.test.bound


@pytest.mark.parametrize("n_subsets", [None, 219, 301])
def test_constants_obey_the_theorem(n_subsets):
    exact = PopulousSingle(n_subsets=n_subsets).constants(PROBLEM)
    assert 2 * exact.min_friends >= exact.n_subsets + 2
    assert exact.threshold >= exact.min_friends * exact.n_subsets
    assert exact.test.shift == 2 * (exact.n_subsets - 1)
    assert 2 * exact.friend_radius + exact.friend_radius**2 <= exact.mask_radius * (1 + 1e-12)
    assert exact.test.delta(0.5) <= 0.5e-6 and exact.mask.delta(0.5) <= 0.5e-6
    paper = PopulousSingle(accounting="paper").constants(PROBLEM)
    assert paper.friend_radius == pytest.approx(paper.mask_radius / 3)
    assert paper.min_friends > 0.6 * paper.n_subsets and paper.threshold >= 0.8 * paper.n_subsets**2
    assert paper.mask_radius < exact.mask_radius / 50  # what exact accounting is worth


@pytest.mark.thorough
def test_the_test_never_passes_below_its_threshold():
    """Half the fits agree: no fit has enough friends, so no noise may let the run pass."""
    method = PopulousSingle(n_subsets=40)
    constants = method.constants(Problem(40, 1, 2, 20.0, 0.5, None, dpg.Neighbouring.REPLACE_ONE))
    far = [dpg.Mixture([0.3, 0.7], [[100.0 * i], [8.0]], [[[1.0]], [[2.0]]]) for i in range(1, 21)]
    rng = np.random.default_rng(1)
    noise = MaskNoise()
    assert all(propose_test_release([TRUTH] * 20 + far, constants, noise=noise, rng=rng) is None for _ in range(300))
    assert any(propose_test_release([TRUTH] * 39 + far[:1], constants, noise=noise, rng=rng) for _ in range(50))


def test_settings_and_public_facts_are_checked_before_anything_is_spent():
    X = np.arange(100.0)
    cases = [
        ({"delta": None}, "needs delta greater than 0"),
        ({"neighbouring": "add-remove"}, "supports replace-one"),
        ({}, "must have at least"),
        ({"n_subsets": 6, "accounting": "paper"}, "n_subsets must be at least 10"),
        ({"n_subsets": 20}, "n_subsets must be large enough that full agreement passes"),
        ({"accounting": "loose"}, "accounting must be one of"),
        ({"test_share": 1.0}, "test_share must lie strictly between 0 and 1"),
        ({"n_subsets": 2}, "n_subsets must be at least 4"),
    ]
    for change, words in cases:
        arguments = {
            "epsilon": 1.0,
            "delta": 1e-6,
            "method": "populous-single",
            "learner": lambda s: pytest.fail("ran"),
        }
        with pytest.raises(ValueError, match=words):
            dpg.fit_gmm(X, 2, **(arguments | change))


@pytest.mark.parametrize("test_share", [1 / 3, 0.123, 0.77])
@pytest.mark.parametrize("accounting", ["exact", "paper"])
def test_any_share_of_the_budget_proves_the_stated_pair(test_share, accounting):
    method = PopulousSingle(test_share=test_share, accounting=accounting)
    guarantee = method.guarantee(PROBLEM)
    assert guarantee.curve(1.0) <= 1e-6 * (1 + 1e-9)


@pytest.mark.thorough
def test_a_learner_that_uses_global_randomness_cannot_couple_the_fits():
    """Draws of one fit, however many, must not move another: that would break the sensitivity of the test."""

    def learner(subset):
        np.random.normal(size=int(abs(subset[0, 0])) % 50)  # noqa: NPY002
        return dpg.Mixture([1.0], [[np.random.normal()]], [[[1.0]]])  # noqa: NPY002

    before = np.random.get_state()[1].copy()  # noqa: NPY002
    seen = []
    for first in (3.0, 40.0):
        subsets = [np.full((2, 1), first), *[np.full((2, 1), 7.0)] * 5]
        fits = fit_subsets(learner, subsets, 1, seeds=range(6), n_jobs=1, progress=lambda done, total: None)
        seen.append([fit.means[0, 0] for fit in fits])
    assert seen[0][1:] == seen[1][1:] and seen[0][0] != seen[1][0]
    assert len(set(seen[0])) == len(seen[0])  # and each has randomness of its own
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_extreme_fits_make_no_warning_and_no_friends(recwarn):
    fits = [
        dpg.Mixture([1.0], [[1e308]], [[[1.0]]]),
        dpg.Mixture([1.0], [[-1e308]], [[[1e-300]]]),
        dpg.Mixture([1.0], [[1e99]], [[[1e-199]]]),
        dpg.Mixture([1.0], [[-1e99]], [[[1e199]]]),
    ]
    constants = PopulousSingle(n_subsets=40).constants(PROBLEM)
    assert propose_test_release(fits, constants, noise=MaskNoise(), rng=np.random.default_rng(0)) is None
    assert not recwarn.list


def test_post_processing_does_not_depend_on_units():
    noise, sd = MaskNoise(), np.array([1e-9, 1e3])
    correlation = np.array([[1.0, 0.4], [0.4, 1.0]])
    raw = {"weights": np.ones(1), "means": np.zeros((1, 2)), "covariances": (correlation * np.outer(sd, sd))[None]}
    repaired = valid_mixture(raw, noise).covariances[0] / np.outer(sd, sd)
    assert repaired == pytest.approx(correlation / 1.005, rel=1e-9)


def test_post_processing_repairs_any_masked_output():
    noise = MaskNoise()
    raw = {"weights": np.array([-0.1, -0.2]), "means": np.zeros((2, 1)), "covariances": np.array([[[1.0]], [[2.0]]])}
    repaired = valid_mixture(raw, noise)
    assert repaired.weights.tolist() == [0.5, 0.5]
    assert repaired.covariances[:, 0, 0] == pytest.approx([1 / 1.0025, 2 / 1.0025])


@pytest.mark.thorough
def test_curve_of_a_release_is_at_least_as_good_as_the_stated_pair(release):
    assert release.guarantee.epsilon_at(1e-6) <= 1.0
    assert release.guarantee.epsilon_at(1e-3) < 0.9

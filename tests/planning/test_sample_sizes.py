"""Sample sizes of theorems: their numbers, their growth, what their constants are called."""

import math

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.planning.sample_sizes import Origin, SampleSize, mask_radii
from verification.claims.sample_efficient.selection import enough_records

BUDGET = {"accuracy": 0.1, "epsilon": 1.0, "delta": 1e-6}


def test_selection_has_the_size_that_its_claim_checks():
    for m, a, z, epsilon, b in [(1000, 0.1, 1.0, 1.0, 0.1), (2, 0.3, 0.5, 0.01, 0.3), (10**6, 0.01, 1.0, 10.0, 1e-6)]:
        found = dpg.selection_size(m, accuracy=a, epsilon=epsilon, failure=b, z=z)
        assert found.total == enough_records(m, a, z, epsilon, b)
        assert not found.is_rate and found.constants["3 + z"].value == 3 + z


def test_the_radii_are_those_of_the_corrected_lemmas():
    """By hand, one component in one column, with numbers that make logarithms whole."""
    failure, delta = 3 * math.exp(-1), 12 * math.exp(-20)  # so that ln(1/beta) = 1 and ln(2/delta of a part) = 20
    e = 0.5 / math.sqrt(72 * math.log(2 / delta))
    found = mask_radii(1, 1, concentration=0.2, failure=failure, epsilon=0.5, delta=delta)
    assert found["weight"] == pytest.approx(0.2 / math.sqrt(4) * e / 40)
    assert found["mean"] == pytest.approx(e * 0.2 / (24 * 20 * math.sqrt(2)))
    assert found["covariance"] == pytest.approx(e * 0.2 / (12 * math.sqrt(2) * 7 * math.sqrt((2 + math.log(4)) * 20)))


def test_the_mask_of_the_package_hides_at_least_what_the_lemmas_say():
    """Exact accounting against the published conditions, with the noise that they give."""
    from pm_dpgmm.mechanisms.masks import MaskNoise, largest_radius

    k, d, a, failure, epsilon, delta = 2, 3, 0.2, 0.1, 0.5, 1e-6
    radius = min(mask_radii(k, d, concentration=a, failure=failure, epsilon=epsilon, delta=delta).values())
    spread = math.log(3 * k / failure)
    noise = MaskNoise(
        a / (1 + k * (1 + a)) / math.sqrt(2 * (1 + spread)),
        a / math.sqrt(3 * (d + spread)),
        a / (7 * math.sqrt(d) * (math.sqrt(d) + math.sqrt(math.log(4) + spread))),
    )
    assert radius <= largest_radius(epsilon=epsilon, delta=delta, noise=noise, n_features=d, n_components=k)


def test_weights_stay_near_when_they_are_divided_by_their_sum():
    """The worst case of ``mask_radii``: every weight off by a/(1 + k (1 + a)), up or down, clipped at 0."""
    rng = np.random.default_rng(1)
    for k in (2, 5, 20):
        for a in (0.01, 0.3, 1.0):
            signs = rng.choice([-1.0, 1.0], (2000, k))
            signs[0], signs[1] = 1, -1
            weights = rng.dirichlet(np.full(k, 0.05), 2000)
            moved = np.maximum(weights + signs * a / (1 + k * (1 + a)), 0)
            assert np.abs(moved / moved.sum(axis=1, keepdims=True) - weights).max() <= a + 1e-12
    few, many = (dpg.populous_size(k, 1, accuracy=0.5, epsilon=1.0, delta=1e-6).terms for k in (2, 50))
    assert few["radius of the weight mask"] > few["radius of the covariance mask"]
    assert many["radius of the weight mask"] < many["radius of the covariance mask"]


def test_populous_multiplies_subsets_by_what_the_learner_asks_for():
    asked = []

    def learner(total_variation, failure):
        asked.append((total_variation, failure))
        return 1000.5

    found = dpg.populous_size(2, 1, accuracy=0.5, epsilon=1.0, delta=1e-6, learner_size=learner)
    assert found.total == found.terms["subsets"] * 1001
    radius = min(value for name, value in found.terms.items() if name.startswith("radius"))
    assert asked == [(pytest.approx(min(1 / 600, radius / 1800)), pytest.approx(0.1 / (2 * found.terms["subsets"])))]
    without = dpg.populous_size(2, 1, accuracy=0.5, epsilon=1.0, delta=1e-6)
    assert without.total is None and "not determined" in str(without)


def test_enough_subsets_for_the_test_to_pass():
    """20/epsilon ln(1 + (e^epsilon - 1)/(2 delta)) at half of the budget: the sum t^2 passes at .8 with the noise."""
    for epsilon, delta in [(1.0, 1e-6), (0.1, 1e-9), (1.0, 0.5)]:
        t = dpg.populous_size(1, 1, accuracy=1.0, epsilon=epsilon, delta=delta).terms["subsets"]
        noise = 2 / t * 2 / epsilon * math.log1p(math.expm1(epsilon / 2) / delta)  # of a share, sensitivity 2/t
        assert t >= 6 and 1 - noise >= 0.8 - 1e-12


RATES = {
    "upper": lambda k, d, **given: dpg.mixture_rate(k, d, **given),
    "lower": lambda k, d, **given: dpg.necessary_rate(k, d, **given),
    "one column": lambda k, d, **given: dpg.univariate_rate(k, **given),
}


@pytest.mark.parametrize("name", RATES)
def test_a_rate_says_that_it_is_one_and_which_constants_are_unknown(name):
    rate = RATES[name](3, 4, **BUDGET)
    assert rate.is_rate and "a rate: constants are unknown" in str(rate)
    printed = {Origin.PRINTED} if name == "upper" else set()  # the abstract has the powers of k and d of this one alone
    assert {c.origin for c in rate.constants.values()} == {Origin.DERIVED, Origin.UNKNOWN} | printed
    assert rate.total == pytest.approx(sum(rate.terms.values()))
    assert RATES[name](3, 4, **BUDGET, constant=7.0).total == pytest.approx(7 * rate.total)


def slope(rate, **doubled):
    base = {"k": 4, "d": 50, **BUDGET}
    more = base | {name: base[name] * 2 for name in doubled}
    first, second = rate(**base).terms, rate(**more).terms
    return {name: math.log2(second[name] / first[name]) for name in first}


@pytest.mark.parametrize("name", RATES)
def test_terms_grow_with_the_powers_that_they_name(name):
    of_k, of_d = slope(RATES[name], k=2), slope(RATES[name], d=2)
    of_a, of_epsilon = slope(RATES[name], accuracy=2), slope(RATES[name], epsilon=2)
    powers = {"k d^2": (1, 2), "k^1.5 d^1.75": (1.5, 1.75), "k^1.5 ln": (1.5, 0), "k^2 d": (2, 1), "k": (1, 0)}
    for term in of_k:
        head = max((head for head in powers if term.startswith(head)), key=len)
        assert (of_k[term], of_d[term]) == pytest.approx(powers[head])
        assert of_a[term] == pytest.approx(-2 if "a^2" in term else -1)
        assert of_epsilon[term] == pytest.approx(-1 if "epsilon" in term else 0)


def test_no_method_needs_fewer_records_than_any_must():
    for k, d in [(1, 1), (2, 30), (50, 2)]:
        lower = dpg.necessary_rate(k, d, **BUDGET)
        assert lower.total <= dpg.mixture_rate(k, d, **BUDGET).total
        if d == 1:
            assert lower.total <= 2 * dpg.univariate_rate(k, **BUDGET).total
    large = dpg.mixture_rate(4, 10_000, **BUDGET)  # optimal where d is much larger than k^2
    assert large.total <= 1.1 * dpg.necessary_rate(4, 10_000, **BUDGET).total
    assert dpg.mixture_rate(100, 2, accuracy=0.9, epsilon=1.0, delta=0.5).largest_term == "k^2 d/a"


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: dpg.selection_size(0, accuracy=0.1, epsilon=1.0), "n_hypotheses must be at least 1, got 0"),
        (lambda: dpg.selection_size(3, accuracy=1.0, epsilon=1.0), "accuracy must lie strictly between 0 and 1"),
        (lambda: dpg.selection_size(3, accuracy=0.1, epsilon=1.0, z=0), "z must be finite and greater than 0"),
        (lambda: dpg.mixture_rate(1, 1, accuracy=0.1, epsilon=1.0, delta=0.0), "delta must be greater than 0"),
        (lambda: dpg.mixture_rate(1, 1, accuracy=1e-320, epsilon=1.0, delta=0.1), "accuracy must lie between 1e-30"),
        (lambda: dpg.univariate_rate(10**400, **BUDGET), "n_components must be at most"),
        (lambda: dpg.necessary_rate(1, 0, **BUDGET), "n_features must be at least 1"),
        (lambda: dpg.populous_size(1, 1, **BUDGET | {"epsilon": 2.0}), "epsilon must be at most 1"),
        (lambda: dpg.populous_size(1, 1, **BUDGET | {"accuracy": 2.0}), "accuracy must be at most 1"),
        (
            lambda: dpg.populous_size(1, 1, **BUDGET, learner_size=lambda a, b: -1.0),
            "the value of learner_size must be",
        ),
    ],
)
def test_bad_arguments_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
    with pytest.raises(TypeError, match="learner_size must be a function"):
        dpg.populous_size(1, 1, **BUDGET, learner_size=3)


def test_a_size_is_a_plain_value():
    import pickle

    found = dpg.selection_size(10, accuracy=np.float64(0.1), epsilon=1.0)
    assert pickle.loads(pickle.dumps(found)) == found and isinstance(found, SampleSize)

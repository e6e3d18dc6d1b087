import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pm_dpgmm.privacy.curves import (
    CompositionProfile,
    GaussianProfile,
    GeometricProfile,
    PointProfile,
    TruncatedLaplaceProfile,
)
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring, Unstable, compose, smallest_epsilon, split_budget
from pm_dpgmm.privacy.noise import laplace_scale
from pm_dpgmm.tools.populous_estimate import Estimate
from tests.builders.examples import examples

REPLACE = Neighbouring.REPLACE_ONE


def guarantee(loss, epsilon=1.0, delta=None, relation=REPLACE):
    return Guarantee(epsilon, loss.delta(epsilon) if delta is None else delta, relation, "test", loss)


def test_a_claim_below_its_curve_is_refused():
    with pytest.raises(ValueError, match=r"delta must be at least 0\.126937 at epsilon 1, got 0\.1"):
        guarantee(GaussianProfile(1.0), delta=0.1)


@pytest.mark.parametrize("epsilon, delta", [(0, 0.1), (-1, 0.1), (math.inf, 0.1), (1, 1.0), (1, -0.1), (1, math.nan)])
def test_numbers_out_of_range_are_refused(epsilon, delta):
    with pytest.raises(ValueError, match="must"):
        Guarantee(epsilon, delta, REPLACE, "test", PointProfile(0.5, 0.0))


def test_epsilon_at_inverts_the_curve_and_rounds_up():
    g = guarantee(GaussianProfile(1.3))
    for delta in (1e-9, 1e-5, 0.1):
        epsilon = g.epsilon_at(delta)
        assert g.curve(epsilon) <= delta < g.curve(epsilon * (1 - 1e-6))
    assert g.epsilon_at(0.0) == math.inf
    assert guarantee(GeometricProfile(2.0, 2)).epsilon_at(0.0) == pytest.approx(1.0, abs=1e-9)
    assert smallest_epsilon(lambda epsilon: 0.0, 0.0) == 0.0


def test_curve_takes_arrays_and_refuses_negative_epsilon():
    g = guarantee(GaussianProfile(1.0))
    assert g.curve([[0.0, 1.0], [2.0, 3.0]]).shape == (2, 2)
    with pytest.raises(ValueError, match="epsilon must be at least 0"):
        g.curve([-0.1])


@pytest.mark.parametrize(
    "loss",
    [GaussianProfile(0.7), GeometricProfile(2.0, 2), CompositionProfile(PointProfile(0.1), PointProfile(0.2), 0.1)],
)
def test_json_round_trip(loss):
    g = guarantee(loss, delta=0.5)
    assert Guarantee.from_dict(g.to_dict()) == g


def test_the_repr_has_all_fields_and_says_in_words_what_is_not_private():
    """Reprs of what has a guarantee (results of tools, say) show it; they said private=False, among a dozen fields."""
    g = guarantee(GaussianProfile(0.7), delta=0.5)
    assert "NOT PRIVATE" not in repr(g) and f"loss={g.loss!r}, private=True)" in repr(g)
    assert repr(g.marked(False)) == repr(g).replace("private=True)", "private=False, NOT PRIVATE (seeded))")
    assert "NOT PRIVATE" in repr([Estimate(1.0, g.marked(False), 3)])


def test_composition_of_gaussians_is_close_to_the_exact_one_and_never_below_it():
    parts = [GaussianProfile(mu) for mu in (0.3, 0.4, 1.2)]
    exact = GaussianProfile(1.3)
    total = compose(*(guarantee(part) for part in parts), delta=1e-5)
    true = smallest_epsilon(exact.delta, 1e-5)
    assert true <= total.epsilon <= true * 1.002
    for epsilon in np.linspace(0, 8, 30):
        assert total.curve(epsilon) >= exact.delta(epsilon) * (1 - 1e-6)


@pytest.mark.parametrize("delta", [0.3, 0.1, 1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize("mu", [0.05, 1.0, 8.0])
def test_the_epsilon_of_a_composition_is_not_rounded_to_its_grid(mu, delta):
    one = guarantee(GaussianProfile(mu), epsilon=1.0)
    true = smallest_epsilon(GaussianProfile(mu * math.sqrt(2)).delta, delta)
    assert true <= compose(one, one, delta=delta).epsilon <= max(true * (1 + 1e-6), 1e-12)


def test_a_smallest_epsilon_is_found_up_to_the_largest():
    for largest in (0.3, 3.4, 1e4):
        assert smallest_epsilon(lambda epsilon, at=largest: float(epsilon < at), 0.5, largest=largest) == largest
        assert smallest_epsilon(lambda epsilon: 1.0, 0.5, largest=largest) == math.inf


def test_composition_of_histograms_beats_adding_epsilons_and_keeps_pure_dp():
    one = guarantee(GeometricProfile(2.0, 2), delta=0.0)
    assert compose(*[one] * 20, delta=1e-6).epsilon < 18
    assert compose(one, one, delta=0.0).epsilon == pytest.approx(2.0, abs=1e-2)


def test_composition_pays_for_the_samplers_of_all_parts():
    loss = GaussianProfile(0.2, slack=1e-14)
    one = guarantee(loss, epsilon=1.0)
    total = compose(one, one, delta=1e-8)
    exact = GaussianProfile(0.2 * math.sqrt(2), slack=2e-14)
    for epsilon in (0.5, 1.0, 3.0, 30.0):
        assert total.curve(epsilon) >= exact.delta(epsilon) * (1 - 1e-6)
    with pytest.raises(ValueError, match="delta must leave room"):
        compose(one, delta=1e-15)  # below what the sampler itself costs


def test_where_samplers_leave_nothing_of_delta_epsilons_at_its_parts_are_added():
    one = guarantee(GaussianProfile(0.2366, slack=1.4e-14), epsilon=1.0, delta=1e-6)
    each = one.epsilon_at(1e-5 / 200)
    assert compose(*[one] * 200, delta=1e-5).epsilon == pytest.approx(200 * each, rel=1e-12)
    assert compose(*[one] * 100, delta=1e-5).epsilon < 12.4  # 12.3278 is exact without the sampler


def test_composition_is_never_worse_than_adding():
    tiny = guarantee(GeometricProfile(laplace_scale(2, 1e-6), 2), epsilon=1e-6, delta=0.0)
    total = compose(tiny, tiny, delta=0.0)
    assert total.epsilon == pytest.approx(2e-6) and total.curve(2.1e-6) == 0.0


def test_composition_uses_the_stated_pair_where_no_distribution_is_known():
    test = guarantee(TruncatedLaplaceProfile(20.0, 100, 7), epsilon=0.35)
    total = compose(test, test, delta=3 * test.delta)
    assert 0.35 <= total.epsilon <= 0.7 + 1e-3


def test_composition_refuses_mixed_relations_nothing_and_too_small_a_delta():
    one, other = guarantee(GaussianProfile(1.0)), guarantee(GaussianProfile(1.0), relation=Neighbouring.ADD_REMOVE)
    with pytest.raises(ValueError, match="relations must agree"):
        compose(one, other, delta=1e-5)
    with pytest.raises(ValueError, match="at least one"):
        compose(delta=1e-5)
    with pytest.raises(ValueError, match="delta must leave room"):
        compose(guarantee(PointProfile(1.0, 1e-3)), delta=1e-5)


def test_neighbouring_names_its_choices():
    assert Neighbouring.parse("add-remove") is Neighbouring.ADD_REMOVE
    with pytest.raises(ValueError, match="'replace-one', 'add-remove'"):
        Neighbouring.parse("swap")


# ------------------------------------------------------------------ exact sums
@given(epsilon=st.floats(1e-6, 100), delta=st.floats(0, 0.9), share=st.floats(0.01, 0.99))
@settings(max_examples=examples(300))
def test_parts_of_a_budget_add_up_to_no_more_than_it_in_exact_rationals(epsilon, delta, share):
    parts = split_budget(epsilon, delta, share)
    for total, spent in zip((epsilon, delta), zip(*parts, strict=True), strict=True):
        assert sum(map(Fraction, spent)) <= Fraction(total)
        assert float(sum(map(Fraction, spent))) == pytest.approx(total, rel=1e-15)


@pytest.mark.parametrize("claimed", [1e-300, 1e-20, 1e-16])
def test_a_claim_of_a_tiny_delta_below_its_curve_is_refused(claimed):
    """1e-15 is the rounding of a curve of ordinary size; here it would be most of the claim."""
    loss = GaussianProfile(mu=0.13)
    assert 1.9e-16 < loss.delta(1.0) < 2e-16
    with pytest.raises(ValueError, match=r"delta must be at least 1\.9"):
        guarantee(loss, delta=claimed)
    with pytest.raises(ValueError, match=r"delta must be at least 1\.9"):
        Guarantee.from_dict(guarantee(loss, delta=1e-6).to_dict() | {"delta": claimed})


def test_a_pure_claim_below_its_exact_curve_is_refused():
    """2 / scale in floats is epsilon, in rationals it is a little more."""
    epsilon = next(
        e
        for e in np.random.default_rng(0).uniform(0.1, 3, 1000)
        if 2 / Fraction(2 / e) > Fraction(e) and 2 / (2 / e) == e
    )
    with pytest.raises(ValueError, match="delta must be at least"):
        guarantee(GeometricProfile(2 / epsilon, 2), epsilon=epsilon, delta=0.0)
    assert 0 < GeometricProfile(2 / epsilon, 2).delta(epsilon) < 1e-15
    # a file that says so states the next float
    fields = guarantee(GeometricProfile(2 / epsilon, 2), epsilon=5.0, delta=0.0).to_dict() | {"epsilon": epsilon}
    assert Guarantee.from_dict(fields).epsilon == math.nextafter(epsilon, math.inf)


@given(epsilons=st.lists(st.floats(0.01, 3), min_size=2, max_size=4))
@settings(max_examples=examples(20))
def test_pure_guarantees_compose_to_no_less_than_the_exact_sum(epsilons):
    losses = [GeometricProfile(laplace_scale(2, epsilon), 2) for epsilon in epsilons]
    parts = [guarantee(loss, epsilon=e, delta=0.0) for loss, e in zip(losses, epsilons, strict=True)]
    assert sum(map(Fraction, epsilons)) <= Fraction(compose(*parts, delta=0.0).epsilon)


def test_a_refusal_survives_a_pickle_and_a_copy_with_all_it_carries():
    """Pools of processes send exceptions as pickles: one that cannot be loaded there breaks the pool."""
    refusal = Unstable("refused", guarantee(GaussianProfile(mu=1.0), delta=0.2))
    refusal.released = ("paid", "for")
    refusal.add_note("a note")
    for again in (pickle.loads(pickle.dumps(refusal)), copy.copy(refusal), copy.deepcopy(refusal)):
        assert type(again) is Unstable and str(again) == "refused" and again.guarantee == refusal.guarantee
        assert again.released == ("paid", "for") and again.__notes__ == ["a note"]


@pytest.mark.parametrize("delta0", [0.0, 1e-6])
def test_the_curve_of_a_pair_beyond_what_exp_holds_can_be_asked(delta0):
    """exp overflowed from epsilon 710 on, and with it the card of such a release."""
    guarantee = Guarantee(1e4, delta0, REPLACE, "test", PointProfile(1e4, delta0))
    assert guarantee.epsilon_at(delta0) == pytest.approx(1e4, rel=1e-9)
    assert guarantee.curve([0.0, 750.0, 1e4]).tolist() == [1.0, 1.0, delta0]

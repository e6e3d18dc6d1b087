"""Scales of a column: what a neighbour moves, the noise, errors. Audited as a target."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pm_dpgmm.mechanisms.box import EXPONENTS
from pm_dpgmm.mechanisms.column_scales import gaps_by_size, noisy_column_scales
from pm_dpgmm.mechanisms.gap_histogram import MOVED
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.privacy.guarantee import Neighbouring
from tests.builders.examples import examples

BUDGET = GaussianFilter.of(1.0, 1e-6)
ONE = {"budget": BUDGET, "neighbouring": Neighbouring.REPLACE_ONE}
HOSTILE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.0, -0.0, 1.0, 1e308, -1e308, 5e-324, 1e-320])
)


@given(records=st.lists(HOSTILE, min_size=2, max_size=12), other=HOSTILE, data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_a_neighbour_moves_the_gaps_by_what_is_paid_for(records, other, data):
    at = data.draw(st.integers(0, len(records) - 1))
    column = np.array(records)
    rest, replaced = np.delete(column, at), column.copy()
    replaced[at] = other
    for relation, neighbour in ((Neighbouring.REPLACE_ONE, replaced), (Neighbouring.ADD_REMOVE, rest)):
        change = gaps_by_size(column) - gaps_by_size(neighbour)
        assert np.square(change).sum() <= sum(np.square(MOVED[relation]))


def test_counts_are_of_sizes_in_powers_of_two_and_extremes_are_at_the_ends():
    counts = gaps_by_size(np.array([0.0, 1e-300, 1.0, 3.0, 7.0, 7.0, 1e300]))
    found = dict(zip(EXPONENTS[counts > 0].tolist(), counts[counts > 0].tolist(), strict=True))
    assert found == {-100: 1, -1: 1, 1: 1, 2: 1, 100: 1} or found == {-100: 1, 0: 1, 1: 1, 2: 1, 100: 1}


@pytest.mark.parametrize("relation, moved", [(Neighbouring.REPLACE_ONE, (18, 2)), (Neighbouring.ADD_REMOVE, (5, 2))])
def test_noise_is_that_of_the_share(relation, moved):
    """Scales exactly; 402 draws have that standard deviation within 5 of its errors (false alarm 1e-6 each)."""
    share = Fraction(1, 10)
    found, left = noisy_column_scales(
        np.zeros(50), budget=BUDGET, share=share, neighbouring=relation, rng=np.random.default_rng(1)
    )
    parts = float(share * BUDGET.limit) * np.array([2 / 3, 1 / 3])
    assert [found.gap_noise, found.pair_noise] == pytest.approx(np.sqrt(np.array(moved) / parts), rel=1e-6)
    assert left.spent == pytest.approx(float(share * BUDGET.limit), rel=1e-6) and left.spent <= share * BUDGET.limit
    for counts, scale in ((found.gap_counts, found.gap_noise), (found.pair_counts, found.pair_noise)):
        assert counts.std() == pytest.approx(scale, rel=5 / math.sqrt(2 * 201))


@pytest.mark.parametrize(
    "records, share, words",
    [
        ([[1.0, 2.0]], Fraction(1, 10), r"records must have shape \(N,\), got \(1, 2\)"),
        ([1.0, math.nan], Fraction(1, 10), "records must be finite, got nan"),
        ([1.0, 2.0], Fraction(2), "share must be positive and at most"),
    ],
)
def test_what_cannot_be_released_is_named(records, share, words):
    with pytest.raises(ValueError, match=words):
        noisy_column_scales(np.array(records), share=share, **ONE)

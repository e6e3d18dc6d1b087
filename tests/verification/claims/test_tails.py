"""Tails of weighted sums of squares, where the saddle point lies close to the pole."""

import numpy as np
import pytest
from scipy import stats

from verification.claims.common.tails import log_tail_of_columns


@pytest.mark.parametrize("level", [5.0, 20.0, 45.685])
def test_a_tail_far_out_is_a_number(level):
    """Steps beyond the pole made it NaN, and the check that uses it failed for a quarter of thorough seeds."""
    change = np.array([0.107498, 1.070155]) - 1
    alone = stats.chi2.logsf(2 * level / change[1] + 1, 1)
    assert log_tail_of_columns(change[1:], np.zeros(1), level) == pytest.approx(alone, rel=5e-3)
    both = log_tail_of_columns(change, (change + 1) * [-0.003653, -0.000215], level)
    assert alone < both < 0.9 * alone

"""Records in no kept bin are told where they are many, or where the mixture has too few of them there."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm.methods.sketch.checks.outside_bins import records_outside

NONE = np.zeros(1, dtype=bool)  # no component that is likely to be noise


@pytest.mark.parametrize("n_records_scale, scale", [(0.0, 10.0), (30.0, 10.0), (0.0, 0.0)])
def test_records_in_no_kept_bin_are_told_from_a_tenth_on_beyond_doubt(n_records_scale, scale):
    evidence = SimpleNamespace(unit=np.ones(2), n_records=1_000.0, n_records_scale=n_records_scale)
    least = 100 + 2 * math.hypot(n_records_scale, 2 * scale)  # four bins
    for outside, told in ((0.98 * least, False), (1.02 * least, True)):
        counts = np.full(4, (1_000 - outside) / 4)
        raw = {"bin_noise": np.array([scale]), "bin_counts_0": np.array([1_000.0]), "bin_counts_1": counts}
        text = records_outside(raw, evidence, None, NONE)
        assert (f"(about {outside / 1_000:.0%} in column 1)" in text) if told else text is None


@pytest.mark.parametrize("n_records_scale, scale", [(0.0, 10.0), (300.0, 10.0), (0.0, 0.0)])
def test_records_that_the_mixture_has_in_the_bins_and_are_not_there_are_told(n_records_scale, scale):
    """From a hundredth on, beyond doubt: the noise alone tells them with probability 3e-4, a column."""
    n = 100_000.0
    evidence = SimpleNamespace(unit=np.ones(1), n_records=n, n_records_scale=n_records_scale)
    fit = SimpleNamespace(density=dpg.Mixture([1.0], [[0.0]], [[[1.0]]]), misfit=0.0)
    index = np.array([-2.0, -1.0, 0.0, 1.0])  # 4.6 % of the mixture lie in no bin
    shares = np.diff(stats.norm.cdf(np.arange(-2, 3)))
    for lost, told in ((0.0, False), (0.009, False), (0.02, True)):
        kept = {"bin_index_0": index, "bin_width": np.ones(1), "bin_counts_0": n * (1 - lost) * shares}
        text = records_outside(kept | {"bin_noise": np.array([scale])}, evidence, fit, NONE)
        assert (text is not None) == told
    noisy = kept | {"bin_noise": np.array([500.0])}
    assert records_outside(noisy, evidence, fit, NONE) is None  # may be noise


def outside_in_three_columns(lost, means, *, misfit=0.0, noise=False, n=10_000.0):
    """What is said of such a share of records outside of bins about 0, of a mixture with 3 % in a second component."""
    covariances = np.tile(np.eye(3), (2, 1, 1))
    fit = SimpleNamespace(density=dpg.Mixture([0.97, 0.03], [[0.0] * 3, means], covariances), misfit=misfit)
    evidence = SimpleNamespace(unit=np.ones(3), n_records=n, n_records_scale=0.0)
    raw = {"bin_width": np.full(3, 4.0), "bin_noise": np.array([45.0])}
    for j in range(3):
        raw |= {f"bin_index_{j}": np.array([-2.0, -1.0, 0.0, 1.0]), f"bin_counts_{j}": np.full(4, n * (1 - lost) / 4)}
    return records_outside(raw, evidence, fit, np.array([False, noise]))


def test_records_outside_in_all_columns_are_looked_at_together():
    """3 % in each, 3.3 standard deviations of its noise and of the number itself: in three columns 5."""
    assert "about 3% in all columns together" in outside_in_three_columns(0.03, [0.0] * 3)
    assert outside_in_three_columns(0.012, [0.0] * 3) is None


def test_records_outside_are_not_said_to_be_of_a_component_that_may_be_noise_or_that_the_numbers_contradict():
    far = [-20.0] * 3
    assert outside_in_three_columns(0.03, far) is None
    assert "in all columns together" in outside_in_three_columns(0.03, far, noise=True)
    assert "in all columns together" in outside_in_three_columns(0.03, far, misfit=6.0)

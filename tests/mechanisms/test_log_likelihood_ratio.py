"""The noisy log-likelihood ratio: bounded for records of any kind, a function of each record alone, fair noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pm_dpgmm.mechanisms import log_likelihood_ratio as duel
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.log_likelihood_ratio import CLIP, log_likelihood_ratio_sum, noisy_log_likelihood_ratio
from pm_dpgmm.mechanisms.partitions import SoftPartition
from pm_dpgmm.mechanisms.sketch_features import GRID
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Neighbouring

BUDGET = GaussianFilter.of(1.0, 1e-6)
ORIGIN, UNIT = np.array([1.0, -2.0]), np.array([2.0, 0.5])
RNG = np.random.default_rng(3)
FACTORS = np.tril(0.2 * RNG.normal(size=(3, 2, 2))) + np.eye(2)
WEIGHTS, MEANS = np.array([0.5, 0.3, 0.2]), RNG.normal(size=(3, 2))
ONE = SoftPartition.of(ORIGIN, UNIT, WEIGHTS, MEANS, FACTORS, reach=1.0)
OTHER = SoftPartition.of(ORIGIN, UNIT, np.array([0.9, 0.1]), MEANS[:2] + 1, 1.5 * FACTORS[:2], reach=1.0)


def mixture(weights, means, factors):
    scaled = UNIT[:, None] * factors
    return Mixture(weights, ORIGIN + UNIT * means, scaled @ scaled.swapaxes(1, 2))


def hostile(scale):
    records = scale * np.random.default_rng(1).normal(size=(600, 2))
    records[::7, 0] = np.resize([np.nan, np.inf, -np.inf, 0.0, 5e-324, 1.7e308, -1.7e308, 1e154], records[::7, 0].size)
    return records


def test_it_is_the_clipped_difference_of_log_densities():
    records = ORIGIN + UNIT * np.random.default_rng(2).normal(size=(500, 2))
    exact = mixture(WEIGHTS, MEANS, FACTORS).log_density(records)
    exact = exact - mixture(np.array([0.9, 0.1]), MEANS[:2] + 1, 1.5 * FACTORS[:2]).log_density(records)
    assert log_likelihood_ratio_sum(records, ONE, OTHER) * GRID == pytest.approx(
        np.clip(exact, -CLIP, CLIP).sum(), abs=1e-6
    )
    assert log_likelihood_ratio_sum(records, OTHER, ONE) == -log_likelihood_ratio_sum(records, ONE, OTHER)
    assert log_likelihood_ratio_sum(records, ONE, ONE) == 0


@pytest.mark.parametrize("scale", [1e-300, 1.0, 10.0, 1e8, 1e160, 1e300])
def test_no_record_weighs_more_than_the_clip(scale):
    found = np.array([log_likelihood_ratio_sum(row[None], ONE, OTHER) for row in hostile(scale)])
    assert np.abs(found).max() <= round(CLIP / GRID) and CLIP / GRID == 10 * 2**30
    assert not found[~np.isfinite(hostile(scale)).all(axis=1)].any()  # what is not finite counts nothing
    assert found.sum() == log_likelihood_ratio_sum(hostile(scale), ONE, OTHER)


def test_both_ends_of_the_clip_are_reached():
    near, far = (
        SoftPartition.of(np.zeros(1), np.ones(1), np.ones(1), np.array([[m]]), np.ones((1, 1, 1)), reach=1.0)
        for m in (-3, 3)
    )
    ends = [log_likelihood_ratio_sum(np.array([[x]]), near, far) for x in (-10.0, 10.0)]
    assert ends == [round(CLIP / GRID), -round(CLIP / GRID)]


def test_sums_do_not_depend_on_order_or_blocks(monkeypatch):
    records = hostile(1.0)
    whole = log_likelihood_ratio_sum(records, ONE, OTHER)
    monkeypatch.setattr(duel, "BLOCK", 37)
    assert whole == log_likelihood_ratio_sum(np.random.default_rng(1).permutation(records), ONE, OTHER)
    assert whole == log_likelihood_ratio_sum(np.asfortranarray(records), ONE, OTHER)
    assert log_likelihood_ratio_sum(np.zeros((0, 2)), ONE, OTHER) == 0


@pytest.mark.parametrize("rng", [None, np.random.default_rng(4)], ids=["release", "simulation"])
@pytest.mark.parametrize("neighbouring, reach", [(Neighbouring.REPLACE_ONE, 2 * CLIP), (Neighbouring.ADD_REMOVE, CLIP)])
def test_noise_is_normal_of_the_stated_scale(neighbouring, reach, rng):
    """Alarm 1e-6."""
    records = np.random.default_rng(1).normal(size=(40, 2))
    exact = log_likelihood_ratio_sum(records, ONE, OTHER) * GRID
    settings = {"budget": BUDGET, "share": Fraction(1, 2), "neighbouring": neighbouring, "rng": rng}
    found = [noisy_log_likelihood_ratio(records, ONE, OTHER, **settings) for _ in range(400)]
    values, scales, left = zip(*found, strict=True)
    assert scales[0] == pytest.approx(reach * math.sqrt(2 / BUDGET.limit), rel=1e-6)
    assert left[0].remaining_share == pytest.approx(0.5, abs=1e-6)
    assert stats.kstest((np.array(values) - exact) / scales[0], "norm").pvalue > 1e-6

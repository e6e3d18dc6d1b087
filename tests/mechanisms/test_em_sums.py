"""Sums of one EM step in all their kinds: how far a record moves them, noise of the stated law, what is left out."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats

from pm_dpgmm.mechanisms import em_sums
from pm_dpgmm.mechanisms.em_sums import Squares, noisy_em_sums, squared_sensitivity
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.moments import moment_sums, noisy_moments
from pm_dpgmm.mechanisms.partitions import SoftPartition, VoronoiPartition
from pm_dpgmm.mechanisms.sketch_features import GRID
from pm_dpgmm.privacy.guarantee import Neighbouring

REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
BUDGET = GaussianFilter.of(1.0, 1e-6)
RNG = np.random.default_rng(11)
D, K = 3, 4
CENTRES = RNG.normal(size=(K, D))
FACTORS = np.tril(0.3 * RNG.normal(size=(K, D, D))) + 0.8 * np.eye(D)
PARTS = SoftPartition.of(np.zeros(D), np.ones(D), np.full(K, 1 / K), CENTRES, FACTORS, reach=1.0)
CELLS = VoronoiPartition(np.zeros(D), np.ones(D), CENTRES, np.array([0.5, 1.0, 2.0, 0.1]))
EVERY = pytest.mark.parametrize("squares", list(Squares))
BOTH = pytest.mark.parametrize("partition", [PARTS, CELLS], ids=["parts", "cells"])


def asked(record, partition, squares):
    """Integers that one record adds."""
    return em_sums._asked(moment_sums(np.reshape(record, (1, D)), partition), squares, D).ravel().astype(float)


def hostile(rng, n_records):
    records = rng.normal(size=(n_records, D)) * 10.0 ** rng.integers(-3, 4, size=(n_records, 1))
    special = [np.nan, np.inf, -np.inf, 0.0, 5e-324, 1.7e308, -1.7e308]
    records[rng.integers(n_records, size=20), rng.integers(D, size=20)] = rng.choice(special, size=20)
    return records


@EVERY
@BOTH
def test_no_record_moves_the_integers_farther_than_is_paid_for(partition, squares):
    found = np.array([asked(row, partition, squares) for row in hostile(RNG, 300)])
    norms = np.square(found).sum(axis=1)
    apart = norms[:, None] + norms - 2 * found @ found.T
    assert norms.max() <= em_sums._steps(squares, ADD_REMOVE, K, D) ** 2 * (1 + 1e-9)
    assert apart.max() <= em_sums._steps(squares, REPLACE, K, D) ** 2 * (1 + 1e-9)


@EVERY
def test_the_bounds_are_reached_by_maximisation_and_never_passed(squares):
    """Cells, where shares are whole: local search over pairs from several starts."""

    def value(pair):
        one, other = (asked(half, CELLS, squares) * GRID for half in pair.reshape(2, D))
        return -float(np.square(one - other).sum())

    starts = np.random.default_rng(3).normal(scale=3.0, size=(12, 2 * D))
    ends = [optimize.minimize(value, start, method="Nelder-Mead", options={"maxiter": 800}) for start in starts]
    limit = float(squared_sensitivity(squares, REPLACE))
    best = max(-end.fun for end in ends)
    assert 0.97 * limit < best <= limit * (1 + 1e-6)


@pytest.mark.parametrize("squares, size", [("full", 6), ("diagonal", 3), ("isotropic", 1), ("none", 0)])
def test_what_is_released_are_shares_places_and_the_squares_that_were_asked_for(squares, size):
    """Without noise; the rounding of every entry is at most D grid steps of each record."""
    records = np.random.default_rng(4).normal(size=(50, D))
    kind = Squares(squares)
    assert kind.size(D) == size and kind.size(1) == min(size, 1)
    found = em_sums._asked(moment_sums(records, PARTS), kind, D) * GRID
    logs = np.array(
        [stats.multivariate_normal(m, f @ f.T).logpdf(records) for m, f in zip(CENTRES, FACTORS, strict=True)]
    ).T
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    y = (records[:, None] - CENTRES) / PARTS.radii[:, None]
    y /= np.maximum(1.0, np.linalg.norm(y, axis=2))[:, :, None]
    row, column = np.triu_indices(D)
    products = {
        "full": y[..., row] * y[..., column] * np.where(row == column, 1.0, math.sqrt(2)),
        "diagonal": y**2,
        "isotropic": (y**2).sum(axis=2, keepdims=True),
        "none": y[..., :0],
    }[squares]
    weight = np.full((*y.shape[:2], 1), kind.count_weight)
    expected = (shares[:, :, None] * np.concatenate([weight, y, products], axis=2)).sum(axis=0)
    np.testing.assert_allclose(found, expected, atol=50 * D * GRID)


def test_full_squares_are_the_moments_of_the_parts():
    """Same numbers but for the noise, whose scale may differ by the rounding that is paid for."""
    records = np.random.default_rng(5).normal(size=(200, D))
    ways = {"budget": BUDGET, "share": Fraction(1, 2), "neighbouring": REPLACE}
    one, left = noisy_em_sums(records, PARTS, squares=Squares.FULL, rng=np.random.default_rng(6), **ways)
    other, _ = noisy_moments(records, PARTS, rng=np.random.default_rng(6), **ways)
    np.testing.assert_allclose(one.scales, other.noise_scale * np.array([2, 1, 1, math.sqrt(0.5)]), rtol=1e-7)
    assert left.remaining_share == pytest.approx(0.5, abs=1e-6)
    np.testing.assert_allclose(one.squares, other.squares[:, *np.triu_indices(D)], rtol=1e-4, atol=1e-3)


@EVERY
def test_noise_has_the_stated_scales(squares):
    """Of 600 releases of no record; each of the at most 4 variances is within 6 standard errors: false alarm 1e-8."""
    records, runs = np.empty((0, D)), []
    for seed in range(600):
        given = {"budget": BUDGET, "share": Fraction(1), "neighbouring": ADD_REMOVE, "squares": squares}
        runs.append(noisy_em_sums(records, PARTS, rng=np.random.default_rng(seed), **given)[0])
    off = em_sums._off_diagonal(squares, D)
    kinds = [[one.counts for one in runs], [one.sums for one in runs]]
    kinds += [[one.squares[:, ~off] for one in runs], [one.squares[:, off] for one in runs]]
    for values, scale in zip(kinds, runs[0].scales, strict=True):
        drawn = np.ravel(values)
        if drawn.size:
            assert abs(drawn.std() / scale - 1) < 6 / math.sqrt(2 * drawn.size)
    expected = math.sqrt(float(squared_sensitivity(squares, ADD_REMOVE)) / float(BUDGET.limit))
    assert runs[0].scales[1] == pytest.approx(expected, rel=1e-6)


def test_too_little_budget_is_refused_before_records_are_read():
    with pytest.raises(ValueError, match="share must be positive and at most"):
        noisy_em_sums(None, PARTS, squares=Squares.FULL, budget=BUDGET, share=Fraction(2), neighbouring=REPLACE)

"""What the coverage studies share: interval ends, the prior of separate components, ensembles, the order of releases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from verification.calibration import ensemble, masks, separated
from verification.calibration.intervals import Row, beyond_chance, rows


def test_intervals_have_equal_tails_of_a_twentieth_and_both_ends_count():
    uniform = np.tile(np.linspace(0, 1, 1001)[:, None], (4, 1, 1))
    draws = {"aware": uniform, "naive": 0.5 * uniform, "records": 0.25 * uniform}
    (row,) = rows("study", ["x"], np.array([[0.04], [0.06], [0.94], [0.96]]), draws)
    assert (row.coverage, row.naive, row.n_replications) == (0.5, 0.5, 4) and row.width == pytest.approx(4)
    (row,) = rows("study", ["x"], np.array([[0.04], [0.06], [0.47], [0.48]]), draws)
    assert (row.coverage, row.naive, row.missed) == (0.75, 0.75, True)


def test_a_whole_study_of_right_coverages_rarely_fails():
    """300 rows of 200 runs at .9: at most one run of a hundred fails by chance, the least is 168 of 200 here."""

    def study(*covered):
        return [Row("s", str(i), 200, k / 200, 0.9, 1.0) for i, k in enumerate(covered)]

    drawn = np.random.default_rng(1).binomial(200, 0.9, size=300)
    assert any(row.missed for row in study(*drawn)) and not beyond_chance(study(*drawn))
    assert [row.parameter for row in beyond_chance(study(*drawn, 140))] == ["300"]
    assert beyond_chance(study(200)) and not beyond_chance(study(165)) and not beyond_chance(study(193))


@pytest.mark.parametrize("d", [1, 2])
def test_the_prior_of_separate_components_is_the_law_that_truths_are_drawn_from(d):
    """Minus twice its log density is chi-square, at a Kolmogorov-Smirnov level of 1e-4."""
    values = -2 * separated.log_prior(separated.draw((3_000,), d, rng=np.random.default_rng(1)), d)
    assert stats.kstest(values, stats.chi2(separated.n_parameters(d)).cdf).pvalue > 1e-4


def test_a_proposal_and_its_way_back_are_equally_likely():
    """Leaps of three walkers, of which only 1 and -1 are short: as many each way within 4.9 deviations, level 1e-6."""
    mine, others = np.zeros((5_000, 3, 1)), np.tile([[0.0], [1.0], [1000.0]], (5_000, 1, 1))
    rng = np.random.default_rng(3)
    leaps, factors = next(
        found for found in iter(lambda: ensemble._proposal(mine, others, rng=rng), None) if not found[1].any()
    )
    short = leaps[np.abs(leaps) < 50]
    assert not factors.any() and np.abs(np.sign(short).sum()) <= 4.9 * math.sqrt(short.size)


def test_an_ensemble_has_the_law_of_its_density():
    """Chi-square of the draws of 40 normal laws is the number of parameters on average; within 3 %, ten standard errors."""
    rng, size = np.random.default_rng(1), 5
    centres = rng.normal(size=(40, 1, size))
    scales = np.exp(rng.normal(size=(40, 1, size)))

    def log_density(points):
        return -0.5 * (((points - centres) / scales) ** 2).sum(axis=-1)

    start = centres + scales * rng.normal(size=(40, 12, size))
    draws = ensemble.sample(log_density, start, n_steps=1_500, n_warmup=200, rng=rng)
    z = (draws.values - centres) / scales
    squares = (z**2).sum(axis=2).mean(axis=1)
    assert abs(squares.mean() / size - 1) < 0.03


def test_masked_components_of_a_study_are_in_the_order_of_the_truth(monkeypatch):
    monkeypatch.setattr(masks, "_study", lambda *given, **named: given)
    _, thetas, releases, _ = masks.single(6, d=1, seed=1)
    for theta, (found, masked) in zip(thetas, releases, strict=True):
        truth = separated.mixture(theta, 1)
        for means in (found.means, masked.means):
            np.testing.assert_allclose(means, truth.means, atol=1.0)  # they are 5 apart

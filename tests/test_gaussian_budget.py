"""The filter for adaptive Gaussian releases: sums in rational numbers, and the guarantee of the whole."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pm_dpgmm.mechanisms.gaussian_budget import LEAST_SCALE, MOST_NUMBERS, GaussianBudget, steps_of
from pm_dpgmm.privacy_loss import GaussianLoss, gaussian_delta, loss_from_dict


@pytest.mark.parametrize("epsilon, mu", [(0.3, 0.07697), (1.0, 0.23670), (3.0, 0.64773), (8.0, 1.53155)])
def test_limits_are_the_exact_gaussian_parameters(epsilon, mu):
    assert math.sqrt(GaussianBudget.of(epsilon, 1e-6).limit) == pytest.approx(mu, abs=1e-5)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0, 25.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-6, 0.01, 0.3])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_a_budget_keeps_its_promise_and_wastes_little(epsilon, delta, share):
    budget = GaussianBudget.of(epsilon, delta, failure=share * delta)
    reached = budget.loss().delta(epsilon)
    assert reached <= delta
    if (1 + math.exp(epsilon)) * budget.loss().slack < 1e-5 * delta:  # else the sampler's slack is what limits
        assert reached >= delta * (1 - 1e-4)


def test_every_branch_of_rounds_stays_within_the_limit():
    rng = np.random.default_rng(1)
    for _ in range(50):
        budget = GaussianBudget.of(1.0, 1e-6)
        spent = Fraction(0)
        while budget.remaining_share > 1e-3:
            steps = int(rng.integers(1, 2**45))
            share = min(Fraction(float(rng.random())), 1 - budget.spent / budget.limit)
            scale, budget = budget.spend(steps, share=share, n_numbers=10)
            spent += Fraction(steps, scale) ** 2
            assert scale >= LEAST_SCALE and budget.spent == spent <= budget.limit
            if scale > LEAST_SCALE:  # no smaller integer would do
                assert Fraction(steps, scale - 2) ** 2 > share * budget.limit


def test_spending_past_the_limit_is_refused_before_anything_is_drawn():
    budget = GaussianBudget.of(1.0, 1e-6)
    _, left = budget.spend(2**40, share=Fraction(3, 4), n_numbers=4)
    with pytest.raises(ValueError, match=r"share must be positive and at most 0\.25"):
        left.spend(2**40, share=Fraction(1, 2), n_numbers=4)
    with pytest.raises(ValueError, match="share must be positive"):
        left.spend(2**40, share=Fraction(0), n_numbers=4)
    with pytest.raises(ValueError, match="n_numbers must leave room"):
        left.spend(2**40, share=Fraction(1, 8), n_numbers=MOST_NUMBERS)
    with pytest.raises(ValueError, match="delta must be at least"):
        GaussianBudget.of(1.0, 1e-16)


def test_the_padded_loss_of_a_greedy_adversary_is_the_gaussian_one():
    """Six rounds whose sizes follow the past: with the padding the loss is N(mu^2/2, mu^2). Alarm below 1e-6."""
    rng = np.random.default_rng(2)
    n, mu = 40_000, 1.0
    loss, left = np.zeros(n), np.full(n, mu**2)
    for _ in range(6):
        size = np.where(loss > 0.3, 0.05, 0.6) * left  # stop when it went well, go on when it did not
        loss += size / 2 + np.sqrt(size) * rng.normal(size=n)
        left -= size
    loss += left / 2 + np.sqrt(left) * rng.normal(size=n)
    assert stats.kstest(loss, stats.norm(mu**2 / 2, mu).cdf).pvalue > 1e-6
    # what the theorem is needed for: a second try on a fresh budget would exceed the curve
    assert np.mean(np.maximum(0, 1 - np.exp(1.0 - loss))) == pytest.approx(gaussian_delta(1.0, mu), abs=0.01)


def test_failure_adds_to_the_curve_and_is_stored():
    loss = GaussianLoss(0.5, slack=1e-12, failure=1e-3)
    assert loss.delta(1.0) == pytest.approx(1e-3 + (1 - 1e-3) * gaussian_delta(1.0, 0.5), rel=1e-6)
    assert loss_from_dict(loss.to_dict()) == loss
    assert float(loss.to_pld().get_delta_for_epsilon(1.0)) >= loss.delta(1.0) * (1 - 1e-3)
    deltas = [loss.delta(epsilon) for epsilon in np.linspace(0, 40, 200)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(deltas))


@pytest.mark.parametrize("squared", [Fraction(1, 3), Fraction(17), Fraction(384)])
@pytest.mark.parametrize("n_numbers", [1, 32, 960])
def test_steps_are_rounded_up(squared, n_numbers):
    grid = 2.0**-30
    exact = math.sqrt(squared) / grid + math.sqrt(n_numbers) * (1 + 2e-14 / grid)
    steps = steps_of(squared, grid=grid, n_numbers=n_numbers, error=1e-14)
    assert exact <= steps <= exact + 5

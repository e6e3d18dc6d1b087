"""The filter for adaptive Gaussian releases: sums in rational numbers, and the guarantee of the whole."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from pm_dpgmm.mechanisms.gaussian_filter import LEAST_SCALE, MOST_NUMBERS, GaussianFilter, steps_of
from pm_dpgmm.privacy.curve_files import profile_from_dict
from pm_dpgmm.privacy.curves import GaussianProfile, gaussian_delta


@pytest.mark.parametrize("epsilon, mu", [(0.3, 0.07697), (1.0, 0.23670), (3.0, 0.64773), (8.0, 1.53155)])
def test_limits_are_the_exact_gaussian_parameters(epsilon, mu):
    assert math.sqrt(GaussianFilter.of(epsilon, 1e-6).limit) == pytest.approx(mu, abs=1e-5)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0, 25.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-6, 0.01, 0.3])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_a_budget_keeps_its_promise_and_wastes_little(epsilon, delta, share):
    budget = GaussianFilter.of(epsilon, delta, failure=share * delta)
    reached = budget.loss().delta(epsilon)
    assert reached <= delta
    if (1 + math.exp(epsilon)) * budget.loss().slack < 1e-5 * delta:  # else the sampler's slack is what limits
        assert reached >= delta * (1 - 1e-4)


def test_every_branch_of_rounds_stays_within_the_limit():
    rng = np.random.default_rng(1)
    for _ in range(50):
        budget = GaussianFilter.of(1.0, 1e-6)
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
    budget = GaussianFilter.of(1.0, 1e-6)
    _, left = budget.spend(2**40, share=Fraction(3, 4), n_numbers=4)
    with pytest.raises(ValueError, match=r"share must be positive and at most 0\.25"):
        left.spend(2**40, share=Fraction(1, 2), n_numbers=4)
    with pytest.raises(ValueError, match="share must be positive"):
        left.spend(2**40, share=Fraction(0), n_numbers=4)
    with pytest.raises(ValueError, match="n_numbers must leave room"):
        left.spend(2**40, share=Fraction(1, 8), n_numbers=MOST_NUMBERS)
    with pytest.raises(ValueError, match="delta must be at least"):
        GaussianFilter.of(1.0, 1e-16)


def after(loss, size, rng):
    """The loss after one more release that spends ``size``, in squared Gaussian differential privacy."""
    return loss + size / 2 + np.sqrt(size) * rng.normal(size=loss.size)


def delta_of(loss, epsilon):
    """Of draws of a privacy loss: a mean of terms between 0 and 1."""
    return np.mean(np.maximum(0, 1 - np.exp(epsilon - loss)))


def test_the_padded_loss_of_a_greedy_adversary_is_the_gaussian_one():
    """Six rounds whose sizes follow the past: with the padding the loss is N(mu^2/2, mu^2). Alarm below 1e-6."""
    rng = np.random.default_rng(2)
    n, mu = 40_000, 1.0
    loss, left = np.zeros(n), np.full(n, mu**2)
    for _ in range(6):
        size = np.where(loss > 0.3, 0.05, 0.6) * left  # stop when it went well, go on when it did not
        loss, left = after(loss, size, rng), left - size
    loss = after(loss, left, rng)
    assert stats.kstest(loss, stats.norm(mu**2 / 2, mu).cdf).pvalue > 1e-6
    assert delta_of(loss, 1.0) == pytest.approx(gaussian_delta(1.0, mu), abs=0.01)


def test_a_second_try_on_a_fresh_budget_exceeds_the_curve():
    """What the filter is for: a first try that told little is rejected, and its budget is there once more.

    Of 10^5 draws of terms between 0 and 1 the mean is off by 0.0086 with probability 1e-6 (Hoeffding).
    """
    rng = np.random.default_rng(3)
    n, mu, epsilon, reach = 100_000, 1.0, 1.0, 0.0086
    first = after(np.zeros(n), mu**2, rng)
    retried = np.where(first < 0.5, after(first, mu**2, rng), first)
    # exactly: a try that is accepted counts as before, and one that was rejected, below epsilon, starts where it is
    more, _ = integrate.quad(lambda loss: stats.norm.pdf(loss, 0.5) * gaussian_delta(epsilon - loss, mu), -12, 0.5)
    curve = gaussian_delta(epsilon, mu)
    assert (curve, curve + more) == (pytest.approx(0.1269, abs=1e-4), pytest.approx(0.1793, abs=1e-4))
    assert delta_of(retried, epsilon) == pytest.approx(curve + more, abs=reach)
    assert delta_of(retried, epsilon) - reach > curve
    # under the filter the first try leaves nothing, or the two share the limit and the curve holds
    _, left = GaussianFilter(Fraction(1)).spend(2**40, share=Fraction(1), n_numbers=1)
    with pytest.raises(ValueError, match="share must be positive"):
        left.spend(2**40, share=Fraction(1), n_numbers=1)
    half = after(np.zeros(n), mu**2 / 2, rng)
    shared = np.where(half < 0.25, after(half, mu**2 / 2, rng), half)
    assert delta_of(shared, epsilon) - reach < curve


# ------------------------------------------------------------------ discrete against continuous noise
def discrete_masses(z, scale, shift=0):
    """Exact masses of ``shift`` plus the discrete Gaussian; ``z`` leaves out less than 1e-45."""
    masses = np.exp(-(((z - shift) / scale) ** 2) / 2)
    return masses / masses.sum()


@pytest.mark.parametrize("scale", [2, 3, 5, 10, 30, 100])
def test_the_sampler_is_as_near_to_a_rounded_normal_as_is_paid_for(scale):
    """Total variation at most 1/(16 scale^2). It is a third of that, so no constant could be much smaller."""
    z = np.arange(-15 * scale, 15 * scale + 1)
    edges = np.append(z - 0.5, z[-1] + 0.5) / scale
    # differences of the smaller tail keep their digits
    rounded = np.where(z < 0, np.diff(stats.norm.cdf(edges)), -np.diff(stats.norm.sf(edges)))
    distance = np.abs(discrete_masses(z, scale) - rounded).sum() / 2
    assert 0.25 <= 16 * scale**2 * distance <= 1


@pytest.mark.parametrize("scale, excess", [(3, 0.0128), (5, 0.0046)])
def test_the_gaussian_curve_is_false_for_discrete_noise_of_small_scale(scale, excess):
    """A shift by one scale at epsilon 1: the exact delta is above the curve at mu = 1, but not with the slack."""
    z = np.arange(-15 * scale, 16 * scale + 1)
    exact = np.maximum(0, discrete_masses(z, scale, shift=scale) - math.e * discrete_masses(z, scale)).sum()
    assert exact / gaussian_delta(1.0, 1.0) - 1 == pytest.approx(excess, abs=1e-4)
    assert exact <= GaussianProfile(1.0, slack=1 / (16 * scale**2)).delta(1.0)


def test_at_the_least_scale_the_excess_is_negligible_and_paid_for():
    """Of as many numbers as a transcript may hold: less than a millionth of a delta of 1e-6, and in the loss."""
    budget = GaussianFilter.of(1.0, 1e-6)
    scale, _ = budget.spend(1, share=Fraction(1), n_numbers=MOST_NUMBERS)
    assert scale >= LEAST_SCALE
    assert MOST_NUMBERS / (16 * scale**2) <= budget.loss().slack
    assert (1 + math.e) * budget.loss().slack < 1e-6 * 1e-6


def test_failure_adds_to_the_curve_and_is_stored():
    loss = GaussianProfile(0.5, slack=1e-12, failure=1e-3)
    assert loss.delta(1.0) == pytest.approx(1e-3 + (1 - 1e-3) * gaussian_delta(1.0, 0.5), rel=1e-6)
    assert profile_from_dict(loss.to_dict()) == loss
    assert loss.dominating_pair().curve(np.array([1.0]))[0] >= GaussianProfile(0.5, failure=1e-3).delta(1.0)
    deltas = [loss.delta(epsilon) for epsilon in np.linspace(0, 40, 200)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(deltas))


@pytest.mark.parametrize("squared", [Fraction(1, 3), Fraction(17), Fraction(384)])
@pytest.mark.parametrize("n_numbers", [1, 32, 960])
def test_steps_are_rounded_up(squared, n_numbers):
    grid = 2.0**-30
    exact = math.sqrt(squared) / grid + math.sqrt(n_numbers) * (1 + 2e-14 / grid)
    steps = steps_of(squared, grid=grid, n_numbers=n_numbers, error=1e-14)
    assert exact <= steps <= exact + 5

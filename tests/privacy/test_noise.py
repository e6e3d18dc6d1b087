"""Laws of the samplers, on the release path (OpenDP) and in simulation. Each test errs with probability below 1e-5."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from scipy import stats

from pm_dpgmm.mechanisms.histogram import histogram_loss
from pm_dpgmm.mechanisms.truncated_laplace import truncated_laplace_loss
from pm_dpgmm.privacy import noise
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from tests.builders.examples import examples

RNGS = [None, np.random.default_rng(7)]
FALSE_ALARM = 1e-5


def chi_square_p(draws, values, masses):
    """p-value of counts against a law on ``values`` with everything else pooled."""
    counts = np.array([(draws == v).sum() for v in values])
    observed = np.append(counts, len(draws) - counts.sum())
    expected = np.append(masses, 1 - masses.sum()) * len(draws)
    keep = expected > 5
    observed = np.append(observed[keep], observed[~keep].sum())
    expected = np.append(expected[keep], expected[~keep].sum())
    if expected[-1] < 1e-9:
        assert observed[-1] == 0
        observed, expected = observed[:-1], expected[:-1]
    return stats.chisquare(observed, expected).pvalue


@pytest.mark.parametrize("version", ["0.13.0", "0.14.0", "0.14.1", "0.14.2.dev1", "0.14.2", "0.14.10", "0.16.0", "1.0"])
def test_an_opendp_with_biased_noise_is_refused(version):
    """Its laws were measured: up to 0.14.1 the tests of this file fail."""
    if version in ("0.13.0", "0.14.0", "0.14.1"):
        with pytest.raises(ImportError, match=f"opendp must be 0.14.2 or newer, .* got {version}"):
            noise.check_opendp(version)
    else:
        noise.check_opendp(version)


@pytest.mark.parametrize("rng", RNGS, ids=["release", "simulation"])
@pytest.mark.parametrize("scale", [0.5, 3.0, 6.0])
def test_discrete_laplace_has_its_law(rng, scale):
    values = np.arange(-12, 13)
    masses = np.exp(-np.abs(values) / scale) * np.tanh(0.5 / scale)
    assert chi_square_p(noise.discrete_laplace(20_000, scale=scale, rng=rng), values, masses) > FALSE_ALARM


@pytest.mark.parametrize("rng", RNGS, ids=["release", "simulation"])
@pytest.mark.parametrize("scale", [0.7, 4.0])
def test_discrete_gaussian_has_its_law(rng, scale):
    values, wide = np.arange(-14, 15), np.arange(-60, 61)
    masses = np.exp(-0.5 * (values / scale) ** 2) / np.exp(-0.5 * (wide / scale) ** 2).sum()
    assert chi_square_p(noise.discrete_gaussian(20_000, scale=scale, rng=rng), values, masses) > FALSE_ALARM


@pytest.mark.parametrize("rng", RNGS, ids=["release", "simulation"])
def test_truncation_is_conditioning_and_not_clipping(rng):
    scale, bound = 4.0, 5
    values = np.arange(-bound, bound + 1)
    masses = np.exp(-np.abs(values) / scale)
    draws = noise.truncated_discrete_laplace(20_000, scale=scale, bound=bound, rng=rng)
    assert np.abs(draws).max() <= bound
    assert chi_square_p(draws, values, masses / masses.sum()) > FALSE_ALARM
    clipped = np.clip(noise.discrete_laplace(20_000, scale=scale, rng=rng), -bound, bound)
    assert chi_square_p(clipped, values, masses / masses.sum()) < 1e-12  # the fault that this test exists for


@pytest.mark.parametrize("rng", RNGS, ids=["release", "simulation"])
def test_standard_normal_is_normal(rng):
    draws = noise.standard_normal((50, 200), rng=rng)
    assert draws.shape == (50, 200)
    assert stats.kstest(draws.ravel(), "norm").pvalue > FALSE_ALARM


def test_large_discrete_gaussians_are_rounded_normals():
    draws = noise.discrete_gaussian(20_000, scale=5e6, rng=np.random.default_rng(3))
    assert stats.kstest(draws / 5e6, "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize("rng", RNGS, ids=["release", "simulation"])
def test_permutations_are_uniform(rng):
    orders = [tuple(noise.permutation(3, rng=rng)) for _ in range(3000)]
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_release_noise_differs_between_calls_and_simulation_repeats():
    assert (noise.discrete_laplace(50, scale=50.0) != noise.discrete_laplace(50, scale=50.0)).any()
    first, second = (noise.discrete_laplace(50, scale=50.0, rng=np.random.default_rng(1)) for _ in range(2))
    assert (first == second).all()
    assert noise.seeds(3, rng=np.random.default_rng(1)) == noise.seeds(3, rng=np.random.default_rng(1))
    assert len(set(noise.seeds(20))) == 20


@pytest.mark.parametrize("shape", [(), 0, 3, (2, 3)])
@pytest.mark.parametrize("rng", RNGS, ids=["release", "simulation"])
def test_shapes(shape, rng):
    for draw in (noise.discrete_laplace, noise.discrete_gaussian):
        assert np.shape(draw(shape, scale=2.0, rng=rng)) == (shape if isinstance(shape, tuple) else (shape,))
    assert noise.truncated_discrete_laplace(shape, scale=2.0, bound=1, rng=rng).dtype == np.int64


def test_opendp_agrees_with_the_stated_privacy_of_the_histogram_and_gaussian_noise():
    assert noise._laplace_measurement(2.0).map(2) <= 1.0  # epsilon of an L1 shift of 2 at scale 2
    assert noise._gaussian_measurement(2.0**33).map(2.0**33) == pytest.approx(0.5)  # rho of a shift by one scale


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, "1"])
def test_scales_are_checked(scale):
    with pytest.raises((TypeError, ValueError), match="scale must be"):
        noise.discrete_laplace(1, scale=scale)


# ------------------------------------------------------------------ pure epsilon, in exact rationals
@given(changed=st.integers(1, 500), epsilon=st.floats(1e-9, 1e4))
@example(changed=2, epsilon=0.7000000000000001)
def test_the_laplace_scale_never_spends_more_than_epsilon_and_hardly_less(changed, epsilon):
    scale = Fraction(noise.laplace_scale(changed, epsilon))
    assert changed / scale <= Fraction(epsilon)
    assert changed / Fraction(math.nextafter(float(scale), 0)) > Fraction(epsilon)


@given(parts=st.integers(1, 20), relation=st.sampled_from(Neighbouring), epsilon=st.floats(1e-6, 50))
@settings(max_examples=examples(300))
def test_counts_lose_at_most_epsilon_in_exact_rationals(parts, relation, epsilon):
    loss = histogram_loss(epsilon=epsilon, neighbouring=relation, n_histograms=parts)
    assert loss.n_counts / Fraction(loss.scale) <= Fraction(epsilon)
    assert Guarantee(epsilon, 0.0, relation, "counts", loss).curve(epsilon) == 0.0


@given(changed=st.integers(1, 9), epsilon=st.floats(1e-3, 50))
@settings(max_examples=examples(30))
def test_opendp_says_the_same_of_the_scale(changed, epsilon):
    """OpenDP takes a float scale as the rational it is, and rounds its loss up."""
    measurement = noise._laplace_measurement(noise.laplace_scale(changed, epsilon))
    assert measurement.map(changed) <= epsilon


@given(epsilon=st.floats(0.01, 20), sensitivity=st.integers(1, 300))
@settings(max_examples=examples(100))
def test_the_scale_of_bounded_noise_is_exact_too(epsilon, sensitivity):
    loss = truncated_laplace_loss(sensitivity=sensitivity, epsilon=epsilon, delta=1e-3)
    assert sensitivity / Fraction(loss.scale) <= Fraction(epsilon)


@pytest.mark.parametrize("changed, epsilon", [(1, 1e-320), (1, 2.0**-53), (0, 1.0), (1, 0.0), (1, math.nan)])
def test_scales_that_do_not_exist_are_refused(changed, epsilon):
    with pytest.raises(ValueError, match="must"):
        noise.laplace_scale(changed, epsilon)


@pytest.mark.parametrize("rng", [None, np.random.default_rng(1)], ids=["release", "simulation"])
def test_geometric_noise_has_its_law(rng):
    """Shares of 0 to 4 of 4,000 draws: chi-square at 1e-6, on either path."""
    draws, ratio = noise.geometric(4_000, scale=2.0, rng=rng), math.exp(-0.5)
    expected = np.append((1 - ratio) * ratio ** np.arange(5), ratio**5)
    found = np.append([(draws == k).sum() for k in range(5)], (draws > 4).sum())
    assert draws.min() >= 0 and stats.chisquare(found, 4_000 * expected).pvalue > 1e-6


@pytest.mark.parametrize("rng", RNGS, ids=["release", "simulation"])
def test_uniforms_are_uniform_on_their_grid(rng):
    draws = noise.uniforms(5_000, rng=rng)
    assert stats.kstest(draws, "uniform").pvalue > FALSE_ALARM
    assert (draws * 2**53 == np.floor(draws * 2**53)).all() and draws.max() < 1
    assert noise.uniforms(0, rng=rng).shape == (0,)


@pytest.mark.parametrize("draw, scale", [(noise.discrete_laplace, 2.0**53), (noise.discrete_gaussian, 2.0**56)])
def test_scales_at_which_draws_are_cut_are_refused(draw, scale):
    """OpenDP returns the ends of 64-bit integers there: with a record added to them it would show."""
    with pytest.raises(ValueError, match="scale must be at most"):
        draw(1, scale=scale)

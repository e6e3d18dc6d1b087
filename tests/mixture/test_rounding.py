"""Characteristic functions of rounded mixtures against exact enumeration of the rounded values."""

import itertools

import numpy as np
import pytest
from scipy import integrate, special, stats

from pm_dpgmm.mixture.characteristic import component_functions
from pm_dpgmm.mixture.rounding import RoundedWaves, nearest_semidefinite

H = 0.4


def line(deviation):
    """Two components in one column, apart by odd fractions of the resolution."""
    factors = np.array([[[deviation]], [[1.7 * deviation]]])
    return np.array([0.3, 0.7]), np.array([[0.13], [1.02]]), factors


def enumerated(weights, means, factors):
    """Multiples of H and their exact probabilities."""
    reach = 12 * factors.max() + 5 * H
    values = H * np.arange(np.floor((means.min() - reach) / H), np.ceil((means.max() + reach) / H) + 1)
    ends = (np.append(values, values[-1] + H) - H / 2 - means) / factors[:, 0]
    tail = np.where(ends > 0, special.ndtr(-ends), special.ndtr(ends))
    mass = np.where(ends[:, 1:] > 0, tail[:, :-1] - tail[:, 1:], tail[:, 1:] - tail[:, :-1])
    middle = (ends[:, :-1] <= 0) & (ends[:, 1:] > 0)
    mass = np.where(middle, 1 - tail[:, :-1] - tail[:, 1:], mass)
    return values, weights @ mass


@pytest.mark.parametrize("deviation", [H / 3, H / 2, H, 3 * H, 30 * H])
def test_one_column_is_the_sum_over_all_values(deviation):
    parameters = line(deviation)
    values, mass = enumerated(*parameters)
    frequencies = np.array([0.01, 0.3, 1.0, 2.5, np.pi, 4.0, 6.0, 8.0, 20.0])[:, None] / H
    waves = RoundedWaves.of(frequencies, np.array([H]))
    found = waves.functions(*parameters[1:]) @ parameters[0]
    features = np.exp(1j * frequencies * values)
    assert np.allclose(found, features @ mass, atol=1e-6)
    stacked = np.concatenate([features.real, features.imag])
    exact = np.cov(stacked, aweights=mass, ddof=0)
    amplitudes = np.linspace(0.5, 1.0, len(frequencies))
    both = np.tile(amplitudes, 2)
    covariance = waves.covariance(amplitudes, *parameters)
    assert np.allclose(covariance, exact * both[:, None] * both, atol=3e-6)


def boxes(mean, factor, resolution):
    """Multiples of the resolutions in two columns with their probabilities under one Gaussian, by quadrature."""
    covariance = factor @ factor.T
    sd, slope = np.sqrt(covariance[0, 0]), covariance[0, 1] / covariance[0, 0]
    rest = np.sqrt(covariance[1, 1] - slope * covariance[0, 1])
    grids = []
    for j, h in enumerate(resolution):
        reach = 9 * np.sqrt(covariance[j, j]) + h
        grids.append(h * np.arange(np.floor((mean[j] - reach) / h), np.ceil((mean[j] + reach) / h) + 1))
    nodes, shares = np.polynomial.legendre.leggauss(40)
    mass = []
    for value in grids[0]:
        x = value + resolution[0] / 2 * nodes
        ends = np.append(grids[1], grids[1][-1] + resolution[1]) - resolution[1] / 2
        below = special.ndtr((ends - mean[1] - slope * (x - mean[0])[:, None]) / rest)
        height = resolution[0] / 2 * shares * stats.norm.pdf(x, mean[0], sd)
        mass.append(height @ np.diff(below, axis=1))
    return np.array(list(itertools.product(*grids))), np.ravel(mass)


@pytest.mark.parametrize("size, tolerance", [(0.7, 1e-4), (1.5, 1e-6), (4.0, 1e-6)])
def test_two_columns_are_the_sum_over_all_pairs_of_values(size, tolerance):
    resolution, mean = np.array([0.5, 1.5]), np.array([0.2, -0.4])
    factor = size * np.array([[0.5, 0.0], [0.6, 1.5]])
    points, mass = boxes(mean, factor, resolution)
    assert mass.sum() == pytest.approx(1, abs=1e-9)
    frequencies = np.array([[0.3, 0.2], [1.0, -0.5], [0.0, 0.7], [2.0, 0.4], [-1.2, 0.9]])
    waves = RoundedWaves.of(frequencies, resolution)
    found = waves.functions(mean[None], factor[None])[:, 0]
    features = np.exp(1j * points @ frequencies.T)
    assert np.allclose(found, mass @ features, atol=tolerance)
    stacked = np.concatenate([features.real, features.imag], axis=1).T
    covariance = waves.covariance(np.ones(5), np.ones(1), mean[None], factor[None])
    assert np.allclose(covariance, np.cov(stacked, aweights=mass, ddof=0), atol=0.03 if size < 1 else 1e-3)


def test_a_column_that_is_not_rounded_is_left_as_it_is():
    mean, factor, resolution = np.array([0.2, -0.4]), np.array([[0.5, 0.0], [0.4, 0.8]]), np.array([0.0, 1.0])
    frequencies = np.array([[0.7, 0.9]])
    found = RoundedWaves.of(frequencies, resolution).functions(mean[None], factor[None])[0, 0]

    def part(k, wave):  # integral over the first column given that the second is rounded to k
        slope, rest = factor[1, 0] / factor[0, 0], factor[1, 1]

        def at(z):
            middle = mean[1] + slope * factor[0, 0] * z
            chance = special.ndtr((k + 0.5 - middle) / rest) - special.ndtr((k - 0.5 - middle) / rest)
            return stats.norm.pdf(z) * chance * wave(0.7 * (mean[0] + factor[0, 0] * z) + 0.9 * k)

        return integrate.quad(at, -9, 9, limit=200)[0]

    exact = sum(part(k, np.cos) + 1j * part(k, np.sin) for k in range(-8, 9))
    assert abs(found - exact) < 2e-6


def test_derivatives_are_those_of_finite_differences():
    weights, means, factors = line(H / 2)
    waves = RoundedWaves.of(np.array([[1.0], [3.0]]) / H, np.array([H]))
    floor = np.array([(H / 3) ** 2])
    jacobian = waves.jacobian(weights, means, factors, floor)
    step = 1e-6
    for k in range(2):
        for place, moves in ((2 + k, (step, 0.0)), (4 + k, (0.0, step))):
            ends = []
            for sign in (1, -1):
                new_means, new_factors = means.copy(), factors.copy()
                new_means[k] += sign * moves[0]
                new_factors[k] *= np.exp(sign * moves[1])
                ends.append(waves.functions(new_means, new_factors, floor) @ weights)
            assert np.allclose(jacobian[:, place], (ends[0] - ends[1]) / (2 * step), atol=1e-8)


def test_one_term_is_enough_for_wide_components():
    waves = RoundedWaves.of(np.array([[0.5]]) / H, np.array([H]))
    assert waves.n_terms(np.array([[[H]]])) == 1
    assert waves.n_terms(np.array([[[H / 2]]])) == 3  # of two turns, exp(-18)
    assert waves.n_terms(np.array([[[H / 3]]])) == 5
    assert waves.n_terms(np.array([[[0.8 * H]]]), np.array([H**2])) == 1


def test_each_component_has_the_terms_that_matter_for_it():
    """Against all terms for all: wide in both columns, in one, in none; a singular one has all."""
    rng = np.random.default_rng(5)
    waves = RoundedWaves.of(rng.normal(size=(7, 2)) / H, np.array([H, 2 * H]))
    means = rng.normal(size=(4, 2))
    factors = np.array([np.diag(widths) for widths in ([3 * H, 5 * H], [H / 2, 5 * H], [H / 3, H / 2], [0.0, H])])
    needed = waves._needed(factors[:3], None)
    assert needed[0].all() and needed.sum(axis=0).tolist() == [1, 3, len(needed)]
    whole = waves.summed(lambda w: component_functions(w, means, factors))
    for some in (slice(3), slice(4)):
        assert np.allclose(waves.functions(means[some], factors[some]), whole[:, some], atol=len(needed) * np.exp(-12))
    narrow = np.array([[[3 * H, 0.0], [10 * H, H / 4]]])  # wide in each column, narrow in one given the other
    mean = means[:1]
    exact = waves.summed(lambda w: component_functions(w, mean, narrow))
    assert np.allclose(waves.functions(mean, narrow), exact, atol=len(needed) * np.exp(-12))
    assert waves._needed(narrow, None).sum() > 1
    assert waves.n_terms(factors[:1]) == 1 and waves.n_terms(factors[2:]) == len(needed)


def test_a_frequency_beyond_the_lattice_is_that_within():
    waves = RoundedWaves.of(np.array([[0.7], [0.7 + 2 * np.pi / H]]), np.array([H]))
    found = waves.functions(*line(H)[1:])
    assert np.allclose(found[0], found[1], atol=1e-14)


def test_the_nearest_covariance_keeps_those_of_laws_and_refuses_what_is_none():
    root = np.random.default_rng(1).normal(size=(6, 4))
    assert np.allclose(nearest_semidefinite(root @ root.T), root @ root.T)
    assert np.allclose(nearest_semidefinite(np.diag([3.0, -1.0, 0.0])), np.diag([3.0, 0.0, 0.0]))
    with pytest.raises(np.linalg.LinAlgError, match="must be finite"):
        nearest_semidefinite(np.full((2, 2), np.nan))

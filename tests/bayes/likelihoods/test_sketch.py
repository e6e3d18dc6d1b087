"""Likelihood of released sketches: its law by other routes, its PyTensor form against SciPy, its gradient."""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import linalg, stats

import pm_dpgmm as dpg
from pm_dpgmm.bayes.likelihoods import sketch as sketch_likelihood
from pm_dpgmm.mechanisms.frequencies import FejerHarmonics, RieszProduct
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.sketch import NoisySketch, noisy_sketch
from pm_dpgmm.methods.sketch.law import EXACT_UP_TO, SketchLaw, plug_in_covariance
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.release.release import Release

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")

COLUMN = Mixture([0.35, 0.65], [[-1.0], [1.5]], [[[0.3]], [[0.9]]])
PLANE = Mixture([0.4, 0.6], [[-1.0, 4.0], [1.5, 5.0]], [[[0.5, 0.2], [0.2, 0.4]], [[0.9, -0.3], [-0.3, 0.6]]])
BROAD = Mixture([1.0], [[0.3, 4.4]], [[[9.0, 1.0], [1.0, 6.0]]])
LADDER = FejerHarmonics(0.6, 7, 0.25)
FRAMES = RieszProduct([[[0.9, 0.1], [-0.2, 0.8]], [[0.4, 1.1], [1.0, -0.3]]], [0.2, 4.5])
MORE_FRAMES = RieszProduct([[[0.5, -0.6], [1.3, 0.2], [0.3, 0.9]]], [0.2, 4.5])


def parts(mixture):
    return mixture.weights, mixture.means, np.linalg.cholesky(mixture.covariances)


def release_of(mixture, frequencies, *, n_records=800, noise=(20.0, 13.0), count_scale=0.0, background=None, seed=1):
    """A release that holds these numbers; values near those expected, noise scale number i on sketch i."""
    rng, sketches = np.random.default_rng(seed), []
    for each, scale in zip(frequencies, noise, strict=False):
        values = rng.normal(scale=3 * scale, size=(2, each.n_frequencies))
        count = n_records + rng.normal(scale=count_scale)
        sketches.append(NoisySketch(each, values, scale, count, count_scale * scale / noise[0]))
    raw, law = SketchStatistics(tuple(sketches), np.ones(mixture.n_features)).to_arrays()
    relation = Neighbouring.ADD_REMOVE if count_scale else Neighbouring.REPLACE_ONE
    return Release(
        mixture,
        guarantee(relation),
        "sketch",
        {},
        raw,
        law,
        tuple(f"x{j}" for j in range(mixture.n_features)),
        None if count_scale else n_records,
        background_weight=0.07 if background else 0.0,
        background=background,
    )


def guarantee(relation):
    return Guarantee(1.0, 1e-6, relation, "made up", GaussianFilter.of(1.0, 1e-6).loss())


CASES = {
    "column": release_of(COLUMN, [LADDER]),
    "private number": release_of(COLUMN, [LADDER], count_scale=40.0),
    "frames": release_of(PLANE, [FRAMES, MORE_FRAMES]),
    "background": release_of(PLANE, [FRAMES, MORE_FRAMES], count_scale=25.0, background=BROAD),
}
OTHER = {
    1: Mixture([0.2, 0.5, 0.3], [[-2.0], [0.4], [1.9]], [[[0.5]], [[0.2]], [[1.4]]]),
    2: Mixture([0.2, 0.5, 0.3], [[-2, 5], [1, 4], [0, 6]], [np.eye(2), [[1, 0.5], [0.5, 0.6]], 0.2 * np.eye(2)]),
}


def law_by_hand(release, mixture):
    """Mean and covariance of the released numbers, entry by entry from E exp(i w.x)."""
    share = release.background_weight
    broad = release.background or mixture
    sketches = SketchStatistics.from_arrays(release.raw, release.noise).sketches
    w = np.concatenate([sketch.frequencies.frequencies for sketch in sketches])
    a = np.concatenate([sketch.frequencies.amplitudes for sketch in sketches])
    noise = np.concatenate([np.full(len(sketch.frequencies.amplitudes), sketch.noise_scale) for sketch in sketches])
    centre = np.atleast_1d(sketches[0].frequencies.centre)

    def phi(frequency, of):
        exponents = [
            1j * frequency @ (mean - centre) - frequency @ cov @ frequency / 2
            for mean, cov in zip(of.means, of.covariances, strict=True)
        ]
        return of.weights @ np.exp(exponents)

    def mixed(frequency):
        return (1 - share) * phi(frequency, mixture) + share * phi(frequency, broad)

    kinds = [(j, kind) for kind in "cs" for j in range(len(w))]
    first = np.array([mixed(w[j]).real if kind == "c" else mixed(w[j]).imag for j, kind in kinds])
    own = np.array([phi(w[j], mixture).real if kind == "c" else phi(w[j], mixture).imag for j, kind in kinds])
    broads = np.array([phi(w[j], broad).real if kind == "c" else phi(w[j], broad).imag for j, kind in kinds])
    second = np.empty((len(kinds), len(kinds)))
    for row, (i, p) in enumerate(kinds):
        for column, (j, q) in enumerate(kinds):
            low, high = mixed(w[i] - w[j]), mixed(w[i] + w[j])
            second[row, column] = {
                "cc": (low.real + high.real) / 2, "ss": (low.real - high.real) / 2,
                "cs": (high.imag - low.imag) / 2, "sc": (high.imag + low.imag) / 2,
            }[p + q]  # fmt: skip
    scales = np.array([sketch.n_records_scale for sketch in sketches])
    counts = np.array([sketch.n_records for sketch in sketches])
    n, variance = counts[0], 0.0
    if scales.all():
        n, variance = counts @ scales**-2.0 / np.sum(scales**-2.0), 1 / np.sum(scales**-2.0)
    covariance = n * (second - np.outer(first, first)) + variance * np.outer(first, first)
    if share:
        covariance += np.outer(n * share * (broads - own), n * share * (broads - own))
    a = np.tile(a, 2)
    return n * a * first, a[:, None] * covariance * a + np.diag(np.tile(noise, 2) ** 2)


@functools.cache
def compiled(release, likelihood):
    inputs = [pt.vector("w"), pt.matrix("m"), pt.tensor3("c")]
    value = sketch_likelihood.log_likelihood(release, *inputs, likelihood=likelihood)
    return pytensor.function(inputs, [value, *pytensor.grad(value, inputs)], mode="FAST_COMPILE")


@pytest.mark.parametrize("name", CASES)
def test_mean_and_covariance_equal_those_entry_by_entry(name):
    release = CASES[name]
    law = SketchLaw.of(release)
    for mixture in (release.mixture, OTHER[release.n_features]):
        mean, covariance = law_by_hand(release, mixture)
        np.testing.assert_allclose(law.expected(*parts(mixture)), mean, rtol=0, atol=1e-10 * law.n_records)
        found = law.covariance(*parts(mixture))
        np.testing.assert_allclose(found, covariance, rtol=0, atol=1e-12 * np.abs(covariance).max())
        expected = stats.multivariate_normal(mean, covariance).logpdf(law.values)
        assert law.log_density(*parts(mixture)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.thorough(quick=["background"])
@pytest.mark.parametrize("name", CASES)
def test_exact_log_density_equals_that_of_scipy(name):
    release = CASES[name]
    evaluate = compiled(release, "exact")
    for mixture in (release.mixture, OTHER[release.n_features]):
        mean, covariance = law_by_hand(release, mixture)
        expected = stats.multivariate_normal(mean, covariance).logpdf(SketchLaw.of(release).values)
        assert float(evaluate(*parts(mixture))[0]) == pytest.approx(expected, rel=1e-10)


@pytest.mark.thorough(quick=["background"])
@pytest.mark.parametrize("name", CASES)
def test_gaussian_log_density_equals_that_of_scipy_with_the_held_covariance(name):
    release = CASES[name]
    law, evaluate = SketchLaw.of(release), compiled(release, "gaussian")
    plug_in = plug_in_covariance(law, release.mixture)
    for mixture in (release.mixture, OTHER[release.n_features]):
        mean, _ = law_by_hand(release, mixture)
        expected = stats.multivariate_normal(mean, plug_in.covariance).logpdf(law.values)
        assert float(evaluate(*parts(mixture))[0]) == pytest.approx(expected, rel=1e-10)
        assert plug_in.log_density(law.values - mean) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("likelihood", ["exact", "gaussian"])
@pytest.mark.parametrize("name", ["private number", "background"])
def test_gradients_equal_finite_differences(name, likelihood):
    release = CASES[name]
    evaluate, point = compiled(release, likelihood), parts(OTHER[release.n_features])
    gradients = evaluate(*point)[1:]
    rng = np.random.default_rng(2)
    for _ in range(4):
        direction = [rng.normal(size=part.shape) for part in point]
        direction[2] = np.tril(direction[2])
        along = sum(float(np.sum(g * d)) for g, d in zip(gradients, direction, strict=True))
        step = 1e-3
        ends = {
            t: float(evaluate(*(p + t * step * d for p, d in zip(point, direction, strict=True)))[0])
            for t in (-2, -1, 1, 2)
        }
        slope = (8 * (ends[1] - ends[-1]) - (ends[2] - ends[-2])) / (12 * step)
        assert along == pytest.approx(slope, rel=1e-5, abs=1e-5 * max(map(np.max, map(np.abs, gradients))))


@pytest.fixture(scope="module")
def many():
    """A release of two columns as fit_gmm makes it: 2,560 numbers in two rounds."""
    X = PLANE.sample(4000, rng=np.random.default_rng(3))
    return dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, bounds=[(-6, 6), (-1, 10)], random_seed=4, progress=False)


@pytest.mark.thorough
def test_held_covariance_has_score_and_information_of_the_full_one(many):
    """At the release, in every direction of its parameters; elsewhere densities differ by little."""
    law = SketchLaw.of(many)
    plug_in = plug_in_covariance(law, many.mixture)
    root = linalg.cholesky(law.covariance(*parts(many.mixture)), lower=True)
    assert len(plug_in.root) < law.values.size / 8

    def full(residuals):
        z = linalg.solve_triangular(root, residuals, lower=True)
        return -0.5 * (z @ z + z.size * np.log(2 * np.pi)) - np.log(np.diagonal(root)).sum()

    rng, w = np.random.default_rng(5), many.mixture
    at_fit = law.values - law.expected(*parts(w))
    # log determinants differ by what is neglected, at most 2 % of the noise variance of a number
    assert abs(plug_in.log_density(at_fit) - full(at_fit)) < 0.02 * law.values.size / 2
    for _ in range(5):
        shift, tilt = rng.normal(size=w.means.shape), np.tril(rng.normal(size=(2, 2, 2)))
        weight = rng.normal()

        def moved(t, shift=shift, tilt=tilt, weight=weight):
            weights = np.array([w.weights[0] + 0.1 * t * weight, w.weights[1] - 0.1 * t * weight])
            factors = np.linalg.cholesky(w.covariances)
            return law.values - law.expected(weights, w.means + t * shift, factors + factors @ (0.3 * t * tilt))

        small = 1e-5
        slopes = (moved(small) - moved(-small)) / (2 * small)
        y, h = slopes / plug_in.deviations, plug_in.root @ (slopes / plug_in.deviations)
        z = linalg.solve_triangular(root, slopes, lower=True)
        assert y @ y - h @ h == pytest.approx(z @ z, rel=1e-6)  # information
        at = linalg.solve_triangular(root, at_fit, lower=True)
        score = y @ (at_fit / plug_in.deviations) - h @ (plug_in.root @ (at_fit / plug_in.deviations))
        assert score == pytest.approx(z @ at, rel=1e-6, abs=1e-6 * np.sqrt(z @ z))
        change = [f(moved(0.03)) - f(at_fit) for f in (full, plug_in.log_density)]
        assert change[1] == pytest.approx(change[0], rel=0.01, abs=0.01)


def test_released_numbers_follow_the_law():
    """Squared whitened residuals of 200 releases sum to a chi-square; false alarm 1e-6, and a variance 25 % too large is seen."""
    rng, total, freedom = np.random.default_rng(6), np.zeros(2), 0
    for relation in Neighbouring:
        for _ in range(100):
            found, _ = noisy_sketch(
                COLUMN.sample(3000, rng=rng),
                LADDER,
                budget=GaussianFilter.of(2.0, 1e-6),
                share=Fraction(1),
                neighbouring=relation,
                rng=rng,
            )
            raw, noise = SketchStatistics((found,), np.ones(1)).to_arrays()
            n_records = 3000 if relation is Neighbouring.REPLACE_ONE else None
            law = SketchLaw.of(Release(COLUMN, guarantee(relation), "sketch", {}, raw, noise, ("x",), n_records))
            residuals, covariance = law.values - law.expected(*parts(COLUMN)), law.covariance(*parts(COLUMN))
            total += [residuals @ np.linalg.solve(scale * covariance, residuals) for scale in (1.0, 1.25)]
            freedom += residuals.size
    p = 2 * np.minimum(stats.chi2.sf(total, freedom), stats.chi2.cdf(total, freedom))
    assert p[0] > 1e-6 and p[1] < 1e-6


@pytest.mark.thorough
def test_merged_sites_are_one_sketch_of_all_records():
    rng = np.random.default_rng(7)
    settings = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-6, 8), "progress": False}
    first = dpg.fit_gmm(COLUMN.sample(1000, rng=rng), 2, random_seed=1, **settings)
    second = dpg.fit_gmm(COLUMN.sample(3000, rng=rng), 2, like=first, random_seed=2, **settings)
    laws = [SketchLaw.of(release) for release in (first, second, dpg.combine([first, second]))]
    both = laws[2]
    assert both.n_records == 4000
    np.testing.assert_allclose(both.deviations, np.hypot(laws[0].deviations, laws[1].deviations))
    np.testing.assert_allclose(both.values, laws[0].values + laws[1].values)
    covariances = [law.covariance(*parts(COLUMN)) for law in laws]
    np.testing.assert_allclose(covariances[2], covariances[0] + covariances[1], rtol=1e-9, atol=1e-9)


def test_few_numbers_are_exact_and_many_are_not(many):
    point = parts(OTHER[2])
    few = CASES["frames"]
    assert SketchLaw.of(few).values.size <= EXACT_UP_TO < SketchLaw.of(many).values.size
    for release, chosen in ((few, "exact"), (many, "gaussian")):
        value = sketch_likelihood.log_likelihood(release, *map(pt.as_tensor, point)).eval(mode="FAST_COMPILE")
        assert value == pytest.approx(float(compiled(release, chosen)(*point)[0]), rel=1e-12)
    assert abs(compiled(few, "gaussian")(*point)[0] - compiled(few, "exact")(*point)[0]) > 1e-3
    with pytest.raises(ValueError, match="must be 'gaussian' for more than 128 released numbers"):
        compiled(many, "exact")


def test_hostile_values_give_a_finite_density_or_nan():
    """What a sampler may try: huge means, huge and tiny scales."""
    evaluate = compiled(CASES["column"], "exact")
    for mean, scale in ((1e300, 1.0), (0.0, 1e100), (0.0, 1e-200), (0.0, 0.0)):
        assert np.isfinite(evaluate(np.ones(1), np.array([[mean]]), np.array([[[scale]]]))[0])
    assert np.isnan(float(evaluate(np.ones(1), np.array([[np.nan]]), np.ones((1, 1, 1)))[0]))

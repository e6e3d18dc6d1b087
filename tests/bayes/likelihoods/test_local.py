"""Local responses: layout, privacy of the channels, densities against direct integrals, the calibration's densities."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

from pm_dpgmm.bayes.likelihoods.local import log_likelihood
from pm_dpgmm.bayes.likelihoods.local_operation import N_NODES
from pm_dpgmm.methods.local.randomisers import Randomiser
from pm_dpgmm.methods.local.responses import (
    CellResponses,
    VectorResponses,
    local_responses,
    response_channel,
    responses_from_arrays,
)
from pm_dpgmm.mixture.cell_probabilities import cell_probabilities
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.release.release import Release
from tests.builders.local_responses import EDGES, LINE, PLANE, WEIGHTS, cells, mixture, release, reports, vectors
from verification.calibration import local as study, mixture_kernels as kernels
from verification.calibration.em import CENTRE, SPREAD
from verification.calibration.importance import sample_weighted

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")


def compiled(responses):
    inputs = [pt.vector("w"), pt.matrix("mu"), pt.tensor3("chol")]
    value = log_likelihood(release(responses), *inputs)
    return pytensor.function(inputs, [value, *pt.grad(value, inputs)], mode="FAST_COMPILE")


def check_gradient(function, at):
    value, *gradients = function(*at)
    assert np.isfinite(value)
    step, rng = 1e-5, np.random.default_rng(2)
    for _ in range(3):
        towards = [np.tril(rng.normal(size=one.shape)) if one.ndim == 3 else rng.normal(size=one.shape) for one in at]
        ends = [
            float(function(*(one + sign * step * way for one, way in zip(at, towards, strict=True)))[0])
            for sign in (1, -1)
        ]
        slope = sum((one * way).sum() for one, way in zip(gradients, towards, strict=True))
        assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-6)


# ------------------------------------------------------------------ channels and layout
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_channels_are_exactly_as_private_as_stated(epsilon):
    """Every response of 3 cells, every pair of records: the largest ratio is exp(epsilon)."""
    own, other = response_channel("unary", epsilon, 3)
    ratios = []
    for bits in itertools.product((0, 1), repeat=3):
        likelihood = [
            np.prod(
                [
                    (own if j == cell else other) ** b * (1 - (own if j == cell else other)) ** (1 - b)
                    for j, b in enumerate(bits)
                ]
            )
            for cell in range(3)
        ]
        ratios.append(max(likelihood) / min(likelihood))
    assert_allclose(np.log(max(ratios)), epsilon, rtol=1e-12)
    own, other = response_channel("direct", epsilon, 3)
    assert_allclose([own / other, own + 2 * other], [np.exp(epsilon), 1], rtol=1e-12)


@pytest.mark.parametrize("kind", ["unary", "direct"])
def test_simulated_responses_have_the_stated_means(kind):
    """Counts within 5 standard deviations: a false alarm in 2e5 runs of a seed."""
    records = np.repeat([[-3.0], [0.0], [9.0]], [2000, 3000, 5000], axis=0)
    found = CellResponses.simulated(records, EDGES[1], kind=kind, epsilon=1.0, rng=np.random.default_rng(1))
    own, other = found.channel
    expected = other * 10_000 + (own - other) * np.array([2000, 0, 3000, 0, 5000])
    assert (np.abs(found.counts - expected) < 5 * np.sqrt(10_000 / 4)).all()
    assert found.counts[4] > found.counts[0] + 500 > found.counts[1] + 500


@pytest.mark.parametrize(
    "responses", [cells(2, "unary"), cells(1, "direct"), vectors(2), reports(2, "one-bit"), reports(1, "subset")]
)
def test_a_release_keeps_responses_through_a_file(responses, tmp_path):
    again = local_responses(Release.load(release(responses).save(tmp_path / "release.json")))
    assert type(again) is type(responses)
    for name, array in again.to_arrays()[0].items():
        assert_array_equal(array, responses.to_arrays()[0][name])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"local_edges": np.array([[0.0, 0.0, 1.0, 2.0]])}, "local_edges must be increasing rows"),
        ({"local_counts": np.ones(3)}, r"local_counts must have shape \(5,\)"),
        ({"local_counts": np.full(5, -1.0)}, "local_counts must lie between 0 and the number of responses, 500"),
        ({"local_counts": np.full(5, 99.0)}, "local_counts must sum to 500, got 495"),
        ({"local_channel": np.array([0.2, 0.3])}, "local_channel must be two probabilities, the larger first"),
        ({"local_channel": np.array([0.6, 0.3])}, "local_channel must sum to 1 over the 5 cells"),
        ({"local_n_responses": np.array(0.5)}, "local_n_responses must be an integer"),
        ({"local_channel": np.array([np.nan, 0.3])}, "local_channel must hold finite numbers"),
        ({"local_edges": None}, "without local_edges"),
    ],
)
def test_broken_responses_are_refused(change, message):
    raw, noise = cells(1, "direct").to_arrays()
    raw |= change
    with pytest.raises(ValueError, match=message):
        responses_from_arrays({name: value for name, value in raw.items() if value is not None}, noise)


def test_other_releases_dimensions_and_likelihoods_are_refused():
    raw, _ = cells(1, "direct").to_arrays()
    with pytest.raises(ValueError, match="responses of a local release must be one of 'one-bit'"):
        responses_from_arrays(raw, {})
    with pytest.raises(ValueError, match="likelihood must be 'auto' or 'gaussian' for 'unary'"):
        log_likelihood(release(cells(1, "unary")), *LINE, likelihood="exact")
    with pytest.raises(ValueError, match="likelihood must be 'auto' or 'exact' for 'added' responses"):
        log_likelihood(release(vectors(1)), *LINE, likelihood="gaussian")
    with pytest.raises(ValueError, match="a release of 499 records must hold as many responses"):
        local_responses(replace(release(cells(1, "unary")), n_records=499))
    cube = CellResponses("unary", np.zeros((3, 1)), np.ones(8), np.array([0.6, 0.4]), 10)
    with pytest.raises(ValueError, match="1 or 2 columns, got 3"):
        log_likelihood(release(cube), WEIGHTS, np.zeros((2, 3)), np.stack([np.eye(3)] * 2))


# ------------------------------------------------------------------ densities
@pytest.mark.parametrize("d", [1, 2])
def test_cell_probabilities_equal_those_of_scipy(d):
    w, mu, chol = LINE if d == 1 else PLANE
    found = cell_probabilities(EDGES[d], w, mu, chol, n_nodes=N_NODES)
    assert_allclose(found.sum(), 1, rtol=1e-8)
    ends = [np.concatenate([[-30], cuts, [30]]) for cuts in EDGES[d]]
    expected = []
    for place in itertools.product(*(range(len(e) - 1) for e in ends)):
        low, high = ([e[i + up] for e, i in zip(ends, place, strict=True)] for up in (0, 1))
        if d == 1:
            expected.append(
                sum(
                    a * np.diff(stats.norm(m[0], c[0, 0]).cdf([low[0], high[0]]))[0]
                    for a, m, c in zip(w, mu, chol, strict=True)
                )
            )
        else:
            expected.append(
                sum(
                    a
                    * integrate.dblquad(
                        lambda y, x, m=m, c=c: (
                            np.exp(-0.5 * np.square(np.linalg.solve(c, [x - m[0], y - m[1]])).sum())
                            / (2 * np.pi * c[0, 0] * c[1, 1])
                        ),
                        max(low[0], -9),
                        min(high[0], 9),
                        max(low[1], -9),
                        min(high[1], 9),
                        epsabs=1e-9,
                    )[0]
                    for a, m, c in zip(w, mu, chol, strict=True)
                )
                if place in ((0, 0), (1, 2), (2, 1))
                else np.nan
            )
    known = np.isfinite(expected)
    assert known.sum() >= 3
    assert_allclose(found[known], np.array(expected)[known], atol=1e-12 if d == 1 else 1e-7)
    stacked = cell_probabilities(EDGES[d], *(np.stack([one, one]) for one in (w, mu, chol)), n_nodes=N_NODES)
    assert_allclose(stacked, [found, found], rtol=1e-12)


@pytest.mark.parametrize("d", [1, 2])
def test_direct_responses_are_multinomial(d):
    responses, truth = cells(d, "direct"), LINE if d == 1 else PLANE
    own, other = responses.channel
    probabilities = other + (own - other) * cell_probabilities(EDGES[d], *truth, n_nodes=N_NODES)
    function = compiled(responses)
    probabilities /= probabilities.sum()
    assert_allclose(
        function(*truth)[0],
        stats.multinomial(500, probabilities).logpmf(responses.counts),
        rtol=1e-10 if d == 1 else 1e-7,
    )
    check_gradient(function, truth)


@pytest.mark.parametrize("d", [1, 2])
def test_counts_of_unary_responses_have_their_normal_law(d):
    responses, truth = cells(d, "unary"), LINE if d == 1 else PLANE
    own, other = responses.channel
    pi = cell_probabilities(EDGES[d], *truth, n_nodes=N_NODES)
    # the law of one response, by summing over the record's cell and enumerating nothing: bits are independent given it
    given = other + (own - other) * np.eye(len(pi))
    mean = pi @ given
    covariance = (given * pi[:, None]).T @ given - np.outer(mean, mean) + np.diag(pi @ (given * (1 - given)))
    reference = stats.multivariate_normal(500 * mean, 500 * covariance).logpdf(responses.counts)
    function = compiled(responses)
    assert_allclose(function(*truth)[0], reference, rtol=1e-10)
    check_gradient(function, truth)


@pytest.mark.parametrize("d", [1, 2])
def test_ones_of_every_wave_are_binomial(d):
    """Sides of waves by quadrature along the wave, where the package has a series."""
    responses, (w, mu, chol) = reports(d, "one-bit"), LINE if d == 1 else PLANE
    true, other = responses.channel
    u = np.linspace(-9, 9, 400_001)
    mass = np.exp(-0.5 * u**2)
    mass /= mass.sum()
    expected = 0.0
    for frequency, phase, n, k in zip(
        responses.frequencies, responses.phases, responses.asked, responses.ones, strict=True
    ):
        sides = [
            mass @ (np.cos(frequency @ m + phase + np.linalg.norm(c.T @ frequency) * u) > 0)
            for m, c in zip(mu, chol, strict=True)
        ]
        expected += stats.binom(int(n), other + (true - other) * float(w @ sides)).logpmf(int(k))
    function = compiled(responses)
    assert_allclose(function(w, mu, chol)[0], expected, rtol=1e-5)
    check_gradient(function, (w, mu, chol))


@pytest.mark.parametrize("d", [1, 2])
def test_subsets_are_multinomial(d):
    """The probability of every possible subset, by the cell that a record is in."""
    responses, truth = reports(d, "subset"), LINE if d == 1 else PLANE
    pi = cell_probabilities(EDGES[d], *truth, n_nodes=N_NODES)
    pi = pi / pi.sum()
    law = Randomiser("subset", 1.0, len(pi))
    outputs = list(law.outputs())
    chances = [sum(p * float(law.probability(y, cell)) for cell, p in enumerate(pi)) for y in outputs]
    packed = dict(zip((responses.members @ 2.0 ** np.arange(len(pi))).tolist(), responses.counts, strict=True))
    counts = [packed.get(float(y), 0.0) for y in outputs]
    function = compiled(responses)
    assert_allclose(function(*truth)[0], stats.multinomial(500, chances).logpmf(counts), rtol=1e-7)
    check_gradient(function, truth)


def test_optimised_bits_have_the_law_of_unary_ones():
    responses = reports(1, "optimised")
    assert responses.kind == "unary"
    assert_allclose(responses.channel, response_channel("optimised", 1.0, 5), rtol=1e-12)
    assert np.isfinite(compiled(responses)(*LINE)[0])


def test_noisy_clipped_numbers_have_the_density_of_a_direct_integral():
    responses = vectors(1)
    (low, high), s = responses.bounds[0], responses.scales[0]
    mix = mixture(LINE)
    expected = 0.0
    for y in responses.responses[:, 0]:
        inside = integrate.quad(
            lambda x, y=y: np.exp(mix.log_density([[x]])[0]) * stats.norm(x, s).pdf(y), low, high, epsabs=1e-13
        )[0]
        below, above = (
            sum(a * law(m[0], c[0, 0]) for a, m, c in zip(*LINE, strict=True))
            for law in (lambda m, c: stats.norm(m, c).cdf(low), lambda m, c: stats.norm(m, c).sf(high))
        )
        assert below + above > 0.05  # clipping matters here
        expected += np.log(inside + below * stats.norm(low, s).pdf(y) + above * stats.norm(high, s).pdf(y))
    function = compiled(responses)
    assert_allclose(function(*LINE)[0], expected, rtol=1e-10)
    check_gradient(function, LINE)


def test_noisy_vectors_have_the_widened_mixture_density():
    responses = vectors(2)
    w, mu, chol = PLANE
    wide = Mixture(w, mu, chol @ chol.mT + np.diag(responses.scales**2))
    function = compiled(responses)
    assert_allclose(function(*PLANE)[0], wide.log_density(responses.responses).sum(), rtol=1e-10)
    check_gradient(function, PLANE)


def test_far_from_the_responses_the_density_stays_finite():
    far = VectorResponses([[0.0]], [[-1e3, 1e3]], [1.0])
    value, *gradients = compiled(far)(WEIGHTS, np.array([[900.0], [-950.0]]), np.array([[[0.1]], [[0.1]]]))
    assert np.isfinite(value) and all(np.isfinite(one).all() for one in gradients)
    sharp = (WEIGHTS, np.array([[900.0], [-950.0]]), np.array([[[0.1]], [[0.1]]]))
    for kind in ("unary", "direct"):
        value, *gradients = compiled(cells(1, kind))(*sharp)
        assert np.isfinite(value) and all(np.isfinite(one).all() for one in gradients)


# ------------------------------------------------------------------ the calibration study
@pytest.mark.thorough(quick=["2"])
@pytest.mark.parametrize("d", [1, 2])
def test_the_study_has_the_density_of_the_package(d):
    rng = np.random.default_rng(3)
    points = CENTRE[d] + 0.5 * SPREAD[d] * rng.normal(size=(3, len(CENTRE[d])))
    responses = cells(d, "unary")
    function = compiled(responses)
    expected = [float(function(*kernels.parameters(point, d))[0]) for point in points]
    assert_allclose(np.diff(study.log_likelihood(responses)(points)), np.diff(expected), rtol=1e-8)


def test_weighted_draws_of_a_known_law():
    """Mean and covariance of a far and narrow normal law, each within 5 standard errors of 10,000 draws: 1e-5 false alarms."""
    rng = np.random.default_rng(2)
    centre, root = np.array([2.0, -3.0, 1.0]), np.array([[0.1, 0, 0], [0.05, 0.02, 0], [0, 0.1, 0.3]])
    precision = np.linalg.inv(root @ root.T)

    def log_density(points):
        rest = points - centre
        return -0.5 * np.einsum("wi,ij,wj->w", rest, precision, rest)

    found = sample_weighted(log_density, np.zeros(3), np.full(3, 3.0), n_draws=20_000, rng=rng)
    assert 10_000 < found.effective <= 20_000
    z = np.linalg.solve(root, (found.draws - centre).T).T
    assert np.abs(z.mean(axis=0)).max() < 5 / np.sqrt(10_000)
    assert np.abs(z.T @ z / len(z) - np.eye(3)).max() < 5 * np.sqrt(2 / 10_000)

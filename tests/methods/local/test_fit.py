"""Fits to local responses: derivatives, search, what leaves the method, refusals, plans."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pm_dpgmm as dpg
from pm_dpgmm.methods.local import fit
from pm_dpgmm.methods.local.caveats import local_caveats, misfit
from pm_dpgmm.methods.local.design import Frame, public_waves, whitened_waves
from pm_dpgmm.methods.local.evidence import evidence_of
from pm_dpgmm.methods.local.method import LocalMethod, fitted, reported
from pm_dpgmm.methods.local.protocol import LocalProtocol
from pm_dpgmm.methods.local.responses import SubsetResponses, WaveResponses, responses_from_arrays
from pm_dpgmm.methods.local.waves import positive_sides, slopes_of_sides
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.planning.plan import plan
from tests.builders import local_responses as builders

KINDS = ("one-bit", "symmetric", "optimised", "k-ary", "subset")
TWO = Mixture([0.4, 0.6], [[-3.0], [2.0]], [[[1.0]], [[0.5]]])


def silent(done, total):
    pass


def evidence(kind, d=1):
    return evidence_of(builders.reports(d, kind), Frame(np.full(d, 0.3), np.full(d, 2.5)))


def fit_two(n=4_000, epsilon=4.0, seed=1, **settings):
    records = TWO.sample(n, rng=np.random.default_rng(seed))
    given = {"epsilon": epsilon, "bounds": (-8, 8), "method": "local", "random_seed": seed, "progress": False}
    return dpg.fit_gmm(records, 2, **given | settings)


# ------------------------------------------------------------------ waves
def test_sides_of_waves_are_those_of_a_quadrature():
    rng = np.random.default_rng(0)
    m, s = rng.uniform(-20, 20, 60), np.exp(rng.uniform(-4, 2, 60))
    u = np.linspace(-9, 9, 200_001)
    mass = np.exp(-0.5 * u**2) / np.exp(-0.5 * u**2).sum()
    expected = [mass @ (np.cos(a + b * u) > 0) for a, b in zip(m, s, strict=True)]
    assert_allclose(positive_sides(m, s), expected, atol=2e-4)
    at = np.full(2, 0.4)
    assert_allclose(*positive_sides(at, np.array([1 - 1e-12, 1 + 1e-12])), rtol=1e-11)  # both forms where they meet


def test_slopes_of_sides_are_derivatives():
    rng = np.random.default_rng(1)
    m, s, h = rng.uniform(-9, 9, 200), np.exp(rng.uniform(-3, 2, 200)), 1e-5
    first, second = slopes_of_sides(m, s)
    assert_allclose(first, (positive_sides(m + h, s) - positive_sides(m - h, s)) / (2 * h), atol=1e-6)
    up, down = (positive_sides(m, np.sqrt(s**2 + sign * 1e-7)) for sign in (1, -1))
    assert_allclose(second, (up - down) / 2e-7, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("d", [1, 3])
def test_public_waves_do_not_depend_on_anything_but_the_frame(d):
    frame = Frame(np.full(d, 5.0), np.full(d, 10.0))
    frequencies, phases = public_waves(frame)
    assert_array_equal(frequencies, public_waves(frame)[0])
    lengths = np.linalg.norm(frequencies, axis=1) * 10
    assert lengths.min() * (1 + 1e-12) >= 2 and lengths.max() <= 24 * (1 + 1e-12)
    moved, shifted = public_waves(Frame(np.zeros(d), np.ones(d)))
    x = np.random.default_rng(1).normal(size=(50, d))
    assert_allclose(
        np.cos((10 * x + 5) @ frequencies.T + phases), np.cos(x @ moved.T + shifted), atol=1e-9
    )  # the same waves in the unit of the frame
    found, _ = whitened_waves(frame, Mixture([1.0], [np.zeros(d)], [4 * np.eye(d)]))
    assert_allclose(np.linalg.norm(found * 2, axis=1).clip(0.35, 1.6), np.linalg.norm(found * 2, axis=1), rtol=1e-9)


# ------------------------------------------------------------------ likelihoods of the fit
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2])
def test_slopes_and_likelihoods_of_the_fit_agree_with_the_graph(kind, d):
    """The objective's derivative by differences, and its values against the evidence in PyMC."""
    found = evidence(kind, d)
    w, mu, chol = builders.LINE if d == 1 else builders.PLANE
    start = fit._made(found, w, (mu - 0.3) / 2.5, chol / 2.5)
    slope, matrix = fit.curvature(found, start)
    assert np.linalg.eigvalsh(matrix)[0] > 0
    steps = 1e-5 * np.eye(len(slope))
    ends = [
        [fit.scored(found, start.chart, start.vector + sign * step).objective for step in steps] for sign in (1, -1)
    ]
    assert_allclose(slope, (np.array(ends[0]) - np.array(ends[1])) / 2e-5, rtol=1e-3, atol=2e-3)
    ways = np.random.default_rng(1).normal(size=(4, len(start.shares)))
    whole = found.information(start.shares, np.eye(len(start.shares)))
    assert_allclose(found.curves(start.shares, ways), np.einsum("cm,mn,cn->c", ways, whole, ways), rtol=1e-8)


def test_halves_and_joined_components_keep_mean_and_covariance():
    found = fit._made(evidence("one-bit", 2), *builders.PLANE)
    mixture = found.mixture
    for which in range(2):
        w, mu, chol = fit.halved(found, which, 0)
        again = Mixture(w, mu, chol @ chol.swapaxes(1, 2))
        assert_allclose(again.mean(), mixture.mean(), atol=1e-10)
        assert_allclose(again.covariance(), mixture.covariance(), atol=1e-10)
    w, mu, chol = fit.joined(found.parts, 0, 1)
    assert_allclose(mu[0], mixture.mean(), atol=1e-10)
    assert_allclose(chol[0] @ chol[0].T, mixture.covariance(), atol=1e-10)


def test_the_expected_loss_is_a_mean_and_no_median(monkeypatch):
    """Of a component that is narrow aslant, whose losses are squares of few errors; the median is five sixths of it."""
    chol = np.array([[[1.0, 0.0], [0.99, 0.14]]])
    found = fit._made(evidence("one-bit", 2), np.ones(1), np.zeros((1, 2)), chol)
    deviation = 0.03
    monkeypatch.setattr(fit, "curvature", lambda *given: (None, np.eye(len(found.vector)) / deviation**2))
    monkeypatch.setattr(fit, "N_DRAWS", 1_000)
    rng, losses = np.random.default_rng(1), []
    points = found.mixture.sample(2_000, rng=rng)
    for step in deviation * rng.standard_normal((1_000, len(found.vector))):
        weights, means, factors = found.chart.at(found.vector + step)
        other = Mixture(weights, means, factors @ factors.mT)
        losses.append(np.mean(found.mixture.log_density(points) - other.log_density(points)))
    usual = np.mean(np.sort(losses)[:950])
    assert usual > 1.15 * np.median(losses)
    assert fit.expected_loss(evidence("one-bit", 2), found) == pytest.approx(usual, rel=0.1)


# ------------------------------------------------------------------ releases
@pytest.mark.thorough(quick=["one-bit"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_randomiser_finds_two_clusters(kind):
    release = fit_two(randomiser=kind)
    assert_allclose(np.sort(release.means[:, 0]), [-3, 2], atol=0.35)
    assert release.n_records == 4_000 and release.guarantee.delta == 0 and release.noise["expected_loss"] < 0.1
    assert not release.warnings


@pytest.mark.thorough
def test_two_rounds_ask_every_person_once():
    release = fit_two(rounds=2)
    assert release.raw["local_asked"].sum() == 4_000 and len(release.raw["local_asked"]) == 256
    assert release.raw["local_asked"][:128].sum() == 2_000
    assert_allclose(np.sort(release.means[:, 0]), [-3, 2], atol=0.35)


def test_mixture_and_caveats_are_functions_of_the_raw_counts():
    release = fit_two()
    noise = {name: release.noise[name] for name in ("statistic", "law", "epsilon", "responses")}
    again = fitted(release.guarantee, release.raw, noise, 2, silent)
    assert_array_equal(again.mixture.means, release.means)
    assert again.noise["caveats"] == list(release.noise["caveats"])
    assert again.noise["expected_loss"] == release.noise["expected_loss"]


@pytest.mark.thorough
def test_without_bounds_a_guess_of_place_and_scale_will_do_and_nothing_is_clipped():
    release = fit_two(bounds=None, centre=1.0, scale=[4.0])
    assert_allclose(np.sort(release.means[:, 0]), [-3, 2], atol=0.35)
    assert release.settings["scale"] == [4.0]
    with pytest.raises(ValueError, match="scale must be left out where bounds are given"):
        fit_two(scale=4.0)


@pytest.mark.thorough
def test_too_few_records_warn_and_say_how_many():
    with pytest.warns(dpg.FitWarning, match="2,000 responses are too few: the fit is expected to lose"):
        release = fit_two(n=2_000, epsilon=0.3)
    assert any("nats per record" in text for text in release.warnings)


@pytest.mark.thorough
def test_counts_that_no_mixture_has_are_a_misfit():
    asked = LocalProtocol.design(1, epsilon=4.0, bounds=(-8, 8))
    rng = np.random.default_rng(2)
    records = np.concatenate([TWO.sample(5_000, rng=rng), rng.normal(6.0, 0.3, (5_000, 1))])
    responses = reported(asked, records, rng=rng)
    found = evidence_of(responses, Frame(np.array(asked.centre), np.array(asked.scale)))
    one, three = (fit.fit_responses(found, k, 1, progress=silent) for k in (1, 3))
    assert misfit(found, one) > 6 > misfit(found, three)
    assert any("do not fit a mixture of 1" in text for text in local_caveats(found, one, 0.0, 10_000))
    assert local_caveats(found, three, 0.0, 10_000) == []
    assert "unknown number" in local_caveats(found, three, math.nan, 10_000)[0]


def test_a_component_that_was_folded_from_beyond_the_place_warns():
    """A cluster at 55 came out at -15 in bounds 0 to 40, with an expected loss of .02 and no word."""
    two = dpg.Mixture([0.4, 0.6], [[20.0], [55.0]], [[[25.0]], [[25.0]]])
    rows = two.sample(20_000, rng=np.random.default_rng(1))
    told = {}
    for upper in (40.0, 100.0):
        release = dpg.fit_gmm(rows, 2, epsilon=1.0, method="local", bounds=(0, upper), random_seed=1, progress=False)
        told[upper] = [text for text in release.warnings if "folded from the other side" in text]
    assert len(told[40.0]) == 1 and not told[100.0]


def test_an_interrupted_fit_is_finished_from_its_reports(tmp_path, monkeypatch):
    from pm_dpgmm.methods.local import method

    def stop(*given, **named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(method, "fit_responses", stop)
        for rounds in (1, 2):
            with pytest.raises(KeyboardInterrupt):
                fit_two(checkpoint=tmp_path / f"{rounds}.json", rounds=rounds)
    release, again = fit_two(), dpg.resume(tmp_path / "1.json")
    assert_array_equal(again.means, release.means)
    assert again.warnings == release.warnings
    told = dpg.resume(tmp_path / "2.json").warnings[0]
    assert " records had reported when the fit ended, about the first waves" in told


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"randomiser": "gaussian"}, "randomiser must be one of"),
        ({"randomiser": None}, "randomiser must be one of"),
        ({"rounds": 3}, "rounds must be at most 2"),
        ({"rounds": 2, "randomiser": "k-ary"}, "rounds must be 1 with randomiser 'k-ary'"),
        ({"n_cells": 8}, "n_cells must be left out"),
        ({"n_cells": 1, "randomiser": "k-ary"}, "n_cells must be at least 2"),
        ({"resolution": 0.5}, "resolution must be from 1 to 10000"),
        ({"resolution": "x"}, "resolution must be a real number"),
        ({"scale": 0.0}, "scale must be greater than 0"),
        ({"centre": [[1.0]]}, "centre must be finite, one number or one for each column"),
        ({"centre": math.nan}, "centre must be finite"),
    ],
)
def test_bad_settings_get_one_clear_error(settings, words):
    with pytest.raises((TypeError, ValueError), match=words):
        LocalMethod(**settings)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"neighbouring": "add-remove"}, "neighbouring must be 'replace-one' with method 'local'"),
        ({"randomiser": "symmetric", "n_cells": 65}, "edges must make at most 64 cells"),
        ({"bounds": None, "scale": [1.0, 2.0]}, "scale must be one number or 1"),
        ({"epsilon": 1e-7}, "epsilon must be from 1e-06"),
        (
            {"bounds": (-1e308, 1e308)},
            r"bounds must lie within 1e\+90 and 1e-90 apart with method 'local', got .*; rescale",
        ),
        (
            {"bounds": (0, 1e-310)},
            r"bounds must lie within 1e\+90 and 1e-90 apart with method 'local', got .*; rescale",
        ),
    ],
)
def test_problems_that_it_cannot_do_cost_nothing(given, words, tmp_path):
    ledger = dpg.Ledger(tmp_path / "b.sqlite", epsilon=9.0)
    with pytest.raises(ValueError, match=words):
        fit_two(n=100, ledger=ledger, **given)
    cube = {"X": np.random.default_rng(1).normal(size=(50, 3)), "n_components": 1, "bounds": (-1, 1), "ledger": ledger}
    with pytest.raises(ValueError, match="randomiser must be 'one-bit' with more than 2 columns"):
        dpg.fit_gmm(**cube, epsilon=1.0, method="local", randomiser="k-ary")
    assert ledger.spent == (0.0, 0.0)


# ------------------------------------------------------------------ released numbers from anywhere
WAVES = {"frequencies": [[1.0], [2.0]], "phases": [0.0, 1.0], "asked": [5, 6], "ones": [2, 6], "channel": [0.7, 0.3]}


@pytest.mark.parametrize(
    "change, words",
    [
        ({"frequencies": [1.0, 2.0]}, "local_frequencies must be rows"),
        ({"frequencies": [[1e200], [1.0]]}, "local_frequencies and local_phases must be of size at most"),
        ({"phases": [0.0]}, "local_phases must be one number for each wave"),
        ({"phases": [0.0, math.nan]}, "local_phases must hold finite numbers"),
        ({"asked": [5, 5]}, "local_ones must be at most local_asked"),
        ({"asked": [0, 0], "ones": [0, 0]}, "local_ones must be at most local_asked, of which one must be above 0"),
        ({"ones": [0.5, 1]}, "local_ones must be numbers of responses"),
        ({"ones": [-1, 1]}, "local_ones must be numbers of responses"),
        ({"asked": [2**53, 2**53]}, "local_asked must be numbers of responses"),
        ({"channel": [0.3, 0.7]}, "local_channel must be two probabilities"),
        ({"channel": [0.7, 0.2]}, "local_channel must sum to 1"),
    ],
)
def test_broken_counts_of_waves_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        WaveResponses(**WAVES | change)


SUBSETS = {"edges": [[0.0, 1.0]], "subsets": [[1, 0], [2, 0]], "counts": [3, 4], "channel": [0.6, 0.2]}


@pytest.mark.parametrize(
    "change, words",
    [
        ({"edges": [[1.0, 0.0]]}, "local_edges must be increasing rows"),
        ({"edges": [list(range(64))]}, "local_edges must make at most 64 cells"),
        ({"subsets": [1, 2]}, "local_subsets must be rows of two numbers"),
        ({"subsets": [[0.5, 0], [1, 0]]}, "local_subsets must hold integers"),
        ({"subsets": [[8, 0], [1, 0]]}, "local_subsets must be of one size, of 3 cells"),
        ({"subsets": [[3, 0], [1, 0]]}, "local_subsets must be of one size, of 3 cells"),
        ({"subsets": [[7, 0], [7, 0]]}, "local_subsets must have cells and leave out some"),
        ({"counts": [1]}, "local_counts must be one number for each subset"),
        ({"counts": [1.5, 2]}, "local_counts must be numbers of responses"),
        ({"channel": [0.2, 0.6]}, "local_channel must be two probabilities"),
        ({"counts": [math.inf, 1]}, "local_counts must hold finite numbers"),
    ],
)
def test_broken_subsets_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        SubsetResponses(**SUBSETS | change)


def test_forged_releases_are_one_clear_error():
    release = fit_two(n=400)
    fields = release.to_dict()
    for change, words in [
        ({"local_frame": [[0.0], [0.0]]}, "scale"),
        ({"local_frame": [[0.0, 1.0], [1.0, 1.0]]}, "local_frame must have shape"),
        ({"local_frequencies": [[1.0, 1.0]] * 128}, "responses must have 1 columns as the mixture"),
        ({"local_ones": None}, "without local_ones"),
    ]:
        raw = {name: value for name, value in (fields["raw"] | change).items() if value is not None}
        with pytest.raises(ValueError, match=words):
            dpg.Release.from_dict(fields | {"raw": raw})
    with pytest.raises(ValueError, match="must have reports and their local_frame"):
        fitted(
            release.guarantee,
            {k: v for k, v in release.raw.items() if k != "local_frame"},
            release.noise,
            2,
            silent,
        )
    assert responses_from_arrays(release.raw, release.noise).n_responses == 400
    with pytest.raises(ValueError, match="responses of a local release must be one of"):
        dpg.Release.from_dict(fields | {"noise": fields["noise"] | {"responses": "more"}})


# ------------------------------------------------------------------ plans
@pytest.mark.thorough
def test_a_plan_says_when_it_is_hopeless():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = plan(20_000, 4, 3, epsilon=1.0, method="local", n_simulations=1)
    assert not found.enough and "n is too small" in found.reason
    few = dpg.smallest_size(1, 2, epsilon=2.0, method="local", n_simulations=1)
    assert few.enough and 50 < few.n_records < 50_000
    assert replace(few, error=1e-9).enough is False

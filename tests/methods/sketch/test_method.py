"""The sketch method for one column: accuracy with and without bounds, refusals, and that the rest is post-processing."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms import box, log_likelihood_ratio, moments, sketch
from pm_dpgmm.mechanisms.frequencies import FejerHarmonics
from pm_dpgmm.mechanisms.sketch import NoisySketch
from pm_dpgmm.methods.sketch import method, rounds as sketch_rounds
from pm_dpgmm.methods.sketch.checks.outliers import with_outliers
from pm_dpgmm.methods.sketch.estimate import RADIUS_PRIOR, SCALE_PRIOR, fit_evidence
from pm_dpgmm.methods.sketch.fit import misfit
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.prior import Prior
from pm_dpgmm.methods.sketch.search.dictionary import Dictionary
from pm_dpgmm.methods.sketch.search.pursuit import fit_sketch
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.mixture import Mixture

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # poor fits on purpose

TRUE = Mixture([0.15, 0.35, 0.5], [[17.0], [30.0], [50.0]], [[[9.0]], [[16.0]], [[25.0]]])
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "progress": False}


def records_of(n, seed=0, *, offset=0.0, unit=1.0):
    return offset + unit * TRUE.sample(n, rng=np.random.default_rng(seed))


def loss(release, *, offset=0.0, unit=1.0):
    """Log-density per record lost against the true mixture, on fresh records."""
    fresh = records_of(20_000, seed=99)
    return float(np.mean(TRUE.log_density(fresh) - release.log_density(offset + unit * fresh) - np.log(unit)))


@pytest.mark.thorough
@pytest.mark.parametrize("bounds", [(0, 80), (-2_400, 2_400), None], ids=["tight", "loose", "none"])
def test_a_mixture_comes_out_right(bounds):
    """Seeded: median losses are 1e-4, the worst of 30 seeds 0.07 with loose bounds."""
    release = dpg.fit_gmm(records_of(20_000), 3, bounds=bounds, random_seed=1, **BUDGET)
    assert release.method == "sketch" and not release.private  # a seed makes the noise known
    assert -0.005 < loss(release) < 0.02
    order = np.argsort(release.means[:, 0])
    assert np.allclose(release.means[order, 0], [17, 30, 50], atol=1.0)
    assert abs(release.noise["misfit"]) < 5


@pytest.mark.thorough(quick=["-1000000.0-0.001"])
@pytest.mark.parametrize("offset, unit", [(1e9, 1.0), (-1e6, 1e-3), (0.0, 1e12)])
def test_offset_and_unit_do_not_matter_without_bounds(offset, unit):
    release = dpg.fit_gmm(records_of(20_000, offset=offset, unit=unit), 3, random_seed=2, **BUDGET)
    assert -0.005 < loss(release, offset=offset, unit=unit) < 0.02


@pytest.mark.thorough
def test_a_release_has_a_gaussian_curve_and_says_what_was_released(tmp_path):
    release = dpg.fit_gmm(records_of(5_000), 3, **BUDGET)
    assert release.private and release.guarantee.delta == 1e-6
    assert release.guarantee.epsilon_at(1e-6) == pytest.approx(1.0, abs=1e-4)
    assert release.guarantee.epsilon_at(1e-4) < 0.85  # the whole curve is known
    assert float(release.guarantee.curve(50.0)) >= 1e-7  # what the box stage set aside holds at no epsilon
    box = {"pair_distance_counts", "pair_distance_law", "bin_width", "bin_noise", "bin_index_0", "bin_counts_0"}
    assert set(release.raw) == box | {"sketch_0"}
    path = release.save(tmp_path / "release.json")
    again = dpg.load(path)
    assert np.array_equal(again.raw["sketch_0"], release.raw["sketch_0"])
    # the mixture follows from what is in the file
    evidence = SketchStatistics.from_arrays(again.raw, again.noise)
    fit = with_outliers(fit_evidence(evidence, 3), evidence)  # noise brings a background about in one fit of eleven
    assert np.array_equal(fit.mixture.means, release.means) and fit.misfit == release.noise["misfit"]
    json.dumps(dict(again.noise))


@pytest.mark.parametrize("n_features", [1, 2])
def test_releases_at_the_same_public_frequencies_have_their_own_noise(n_features, monkeypatch):
    """Frequencies are those of the first release, every seed is set: differences of noise are normal. Alarm 1e-6."""
    own_frames, own_intervals, own_sketch = sketch_rounds.whitened_frames, method.intervals_within, method.noisy_sketch
    kept, found, first = {}, [], []

    def seen(*args, **settings):
        sketch, left = own_sketch(*args, **settings)
        found.append(sketch)
        return sketch, left

    monkeypatch.setattr(method, "intervals_within", lambda *args: kept.setdefault("first", own_intervals(*args)))

    def frames(*args, turn, **others):
        return kept.setdefault(turn, own_frames(*args, turn=turn, **others))

    monkeypatch.setattr(sketch_rounds, "whitened_frames", frames)
    for module in (method, sketch_rounds):
        monkeypatch.setattr(module, "noisy_sketch", seen)
    records = np.column_stack([records_of(3_000, seed) for seed in range(n_features)])
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002 - the state that noise must not come from
        random.seed(0)
        dpg.fit_gmm(records, 1, bounds=[(0, 80)] * n_features, **BUDGET)
        first.append(found[0])
        found.clear()
    one, other = first
    assert np.array_equal(one.frequencies.frequencies, other.frequencies.frequencies)
    assert one.values.size >= 32 and not np.isin(one.values, other.values).any()
    apart = (one.values - other.values) / np.hypot(one.noise_scale, other.noise_scale)
    assert stats.kstest(apart.ravel(), "norm").pvalue > 1e-6


def test_refusals_cost_the_budget_and_say_so():
    few = np.random.default_rng(1).normal(size=(40, 1))
    with pytest.raises(dpg.Unstable, match="no interval holds enough records") as refusal:
        dpg.fit_gmm(few, 1, **BUDGET)
    assert refusal.value.guarantee.epsilon == 1.0 and refusal.value.guarantee.delta == 1e-6


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"delta": None, "method": "sketch"}, "needs delta greater than 0"),
        ({"delta": 1e-15, "method": "sketch"}, "delta must be at least"),
        ({"bounds": (0.0, 1e200)}, "bounds must lie within 1e100"),
        ({"bounds": (1e12, 1e12 + 4)}, "bounds must not lie so far from 0"),
        ({"order": 2_000}, "order must be at most 1024"),
        ({"order": 1}, "order must be at least 2"),
    ],
)
def test_bad_input_is_named_before_anything_is_spent(settings, message, monkeypatch):
    for module in (sketch, box, moments, log_likelihood_ratio):
        monkeypatch.setattr(module, "discrete_gaussian", lambda *a, **k: pytest.fail("spent"))
    with pytest.raises(ValueError, match=message):
        dpg.fit_gmm(records_of(100), 2, **(BUDGET | settings))


def test_what_cannot_be_finished_is_refused_before_anything_is_spent(monkeypatch):
    for module in (sketch, box, moments, log_likelihood_ratio):
        monkeypatch.setattr(module, "discrete_gaussian", lambda *a, **k: pytest.fail("spent"))
    wide = np.random.default_rng(1).normal(size=(100, 64))
    with pytest.raises(ValueError, match="at most 262144 numbers"):
        dpg.fit_gmm(wide, 40, **BUDGET)
    problem = method.Problem(2**31 + 1, 2, 3, 1.0, 1e-6, None, method.Neighbouring.REPLACE_ONE)
    with pytest.raises(ValueError, match=r"at most 2\^31 rows"):
        method.SketchMethod().check(problem)


@pytest.mark.thorough
@pytest.mark.parametrize("budget", [{"bounds": (0, 80)}, {"bounds": None}], ids=["bounds", "none"])
def test_every_branch_spends_within_the_limit(budget, monkeypatch):
    """Loose, tight, empty and spread-out data take different numbers of histograms; the sum never passes the limit."""
    spent = []
    real = method.noisy_sketch

    def watched(*args, **settings):
        found, left = real(*args, **settings)
        spent.append(left.spent / left.limit)
        return found, left

    monkeypatch.setattr(method, "noisy_sketch", watched)
    for records in (records_of(2_000), np.linspace(7.0, 7.001, 2_000)[:, None], np.linspace(0, 80, 2_000)[:, None]):
        dpg.fit_gmm(records, 1, **(BUDGET | budget))
    assert len(spent) == 3 and all(0.999999 < share <= 1 for share in spent)


def test_constant_and_clipped_records_give_a_narrow_component_or_atoms_but_no_crash():
    rng = np.random.default_rng(3)
    constant = dpg.fit_gmm(np.linspace(7, 7 + 1e-9, 5_000)[:, None], 1, bounds=(0, 80), random_seed=1, **BUDGET)
    assert abs(constant.means[0, 0] - 7) < 1 and constant.covariances[0, 0, 0] < 4
    clipped = dpg.fit_gmm(np.clip(rng.normal(size=(5_000, 1)), -1, 1), 2, bounds=(-1, 1), random_seed=1, **BUDGET)
    assert np.isfinite(clipped.means).all()


def test_candidates_too_wide_to_be_seen_explain_nothing():
    """Their characteristic function is 0 as a number; a gain that is not a number would be taken for the largest."""
    ladder = FejerHarmonics(1.0, 16, 0.0)
    data = SketchData.of((NoisySketch(ladder, np.ones((2, 16)), 0.1, 1.0),), np.ones(1))
    library = Dictionary.of(data, np.zeros((3, 1)), np.array([1.0, 30.0, 1e3])[:, None, None])
    gain, share = library.gains(-np.ones(32))
    assert library.powers[-1] == 0 and np.isfinite(gain).all() and np.isfinite(share).all()
    assert gain.argmax() == 0


@pytest.mark.thorough
def test_without_noise_the_fit_is_the_truth():
    """Expected values in place of a sketch: the search finds the parameters they came from."""
    problem = method.Problem(10**6, 1, 3, 1.0, 1e-6, np.array([[0.0, 80.0]]), method.Neighbouring.REPLACE_ONE)
    frequencies = method.SketchMethod().ladder(problem, 40.0, 40.0, method.SketchMethod().budget(problem))
    phases = frequencies.frequencies[:, 0]
    shifted = TRUE.means[:, 0] - frequencies.centre
    values = np.exp(1j * np.outer(phases, shifted) - np.outer(phases**2, TRUE.covariances[:, 0, 0]) / 2) @ TRUE.weights
    expected = 10**6 * frequencies.amplitudes * np.stack([values.real, values.imag])
    data = SketchData.of([NoisySketch(frequencies, expected, 1.0, 1e6)], np.array([40.0]))
    found = fit_sketch(data, 3, Prior(RADIUS_PRIOR, SCALE_PRIOR), radius=1.0)
    order = np.argsort(found.means[:, 0])
    assert np.allclose(found.means[order, 0] * 40 + frequencies.centre, TRUE.means[:, 0], atol=0.02)
    assert np.allclose(found.weights[order], TRUE.weights, atol=2e-3)
    assert misfit(data, found) < 0  # nothing is left over
    beside = replace(found, means=found.means + np.array([[0.0], [0.01], [0.0]]))
    assert (
        misfit(data, beside) < 3 < np.abs(data.residuals(beside)).max()
    )  # a small error of a parameter does not count
    fewer = fit_sketch(data, 2, Prior(RADIUS_PRIOR, SCALE_PRIOR), radius=1.0)
    assert misfit(data, fewer) > 50 and fewer.objective > found.objective + 50  # a missing component shows


def test_sketches_from_different_centres_are_not_mixed():
    one = NoisySketch(method.FejerHarmonics(1.0, 4, 0.0), np.zeros((2, 4)), 1.0, 10.0)
    other = NoisySketch(method.FejerHarmonics(1.0, 4, 1.0), np.zeros((2, 4)), 1.0, 10.0)
    with pytest.raises(ValueError, match="same centre"):
        SketchData.of([one, other], np.ones(1))

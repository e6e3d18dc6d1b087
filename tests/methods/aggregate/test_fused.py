"""The default learner's average, put together with the sketch around which it was made."""

from __future__ import annotations

import dataclasses
import itertools
import signal
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

import pm_dpgmm as dpg
from pm_dpgmm.learners.fit_arrays import Fits
from pm_dpgmm.methods.aggregate import fused as fusing, method
from pm_dpgmm.methods.aggregate.caveats import AT_ODDS, CONTRADICTED, average_caveats, vague
from pm_dpgmm.methods.aggregate.chart import MixtureChart
from pm_dpgmm.methods.aggregate.design import Design
from pm_dpgmm.methods.aggregate.estimate import Estimate
from pm_dpgmm.methods.aggregate.fused import SketchTold, at_odds, derivatives, fused, unbiased
from pm_dpgmm.methods.aggregate.method import Aggregate
from pm_dpgmm.methods.outcome import Outcome, Problem
from pm_dpgmm.methods.sketch.method import SketchMethod
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Neighbouring

TRUTH = Mixture([0.4, 0.6], [[-2.0], [2.0]], [[[1.0]], [[1.0]]])
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "progress": False, "random_seed": 1}


@dataclasses.dataclass(frozen=True)
class Parts:
    """What :func:`pm_dpgmm.methods.aggregate.fused.with_the_sketch` was given."""

    found: Estimate
    design: Design
    rounds: object
    centre: object
    fit: object

    @property
    def told(self):
        return SketchTold.of(self.centre, self.design.chart)


@pytest.fixture(scope="module")
def records():
    return TRUTH.sample(5_000, rng=np.random.default_rng(3))


def released_and_put_together(records):
    """A release, and what was put together with its sketch."""
    given, original = [], method.with_the_sketch

    def spy(*arguments):
        given.append(Parts(*arguments))
        return original(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method, "with_the_sketch", spy)
        release = dpg.fit_gmm(records, 2, method=Aggregate(records_per_number=12.0), **BUDGET)
    return release, given


@pytest.fixture(scope="module")
def release_and_parts(records):
    release, given = released_and_put_together(records)
    return release, given[0]


@pytest.fixture
def parts(release_and_parts):
    return release_and_parts[1]


@pytest.mark.parametrize("background", [None, (0.1, Mixture([1.0], [[1.0]], [[[100.0]]]))])
def test_slopes_are_derivatives(parts, background):
    told = parts.told
    told = dataclasses.replace(told, law=dataclasses.replace(told.law, background=background))
    np.testing.assert_allclose(
        told.slopes(told.start), derivatives(told.expected, told.start), atol=1e-7 * np.abs(told.means).max()
    )


def test_the_weight_of_a_background_is_uncertain_by_itself(parts):
    broad = Mixture([1.0], [[1.0]], [[[100.0]]])

    def beside(weight):
        law = dataclasses.replace(parts.told.law, background=(weight, broad))
        return dataclasses.replace(parts.told, law=law)

    slope = (beside(0.11).expected(parts.told.start) - beside(0.09).expected(parts.told.start)) / 0.02
    np.testing.assert_allclose(beside(0.1).shared[:, 0], 0.1 * slope, atol=1e-9)
    assert beside(0.1).shared.shape[1] == 1 and parts.told.shared.shape[1] == 0


def test_the_learner_is_simulated_with_records_of_the_background(parts):
    """A fifth of them, of which .317 lie beyond their deviation of 50."""
    background = (0.2, Mixture([1.0], [[0.0]], [[[2_500.0]]]))
    told = dataclasses.replace(parts.told, law=dataclasses.replace(parts.told.law, background=background))
    seen = []

    def fit(rows, edges):
        seen.append(rows)
        return parts.fit(rows, edges)

    unbiased(parts.found, parts.design, parts.rounds, told, at=told.start, fit=fit)
    assert (np.abs(seen[0]) > 50).mean() == pytest.approx(0.2 * 0.317, abs=0.01)


@pytest.mark.parametrize("background", [None, (0.1, Mixture([1.0], [[1.0]], [[[100.0]]]))])
@pytest.mark.parametrize("scale", [0.0, 30.0])
def test_covariances_of_the_waves_have_inverses(parts, scale, background):
    """Also with a noisy number of records, under add-remove neighbours, and beside a background."""
    told = parts.told
    told = dataclasses.replace(told, law=dataclasses.replace(told.law, n_records_scale=scale, background=background))
    columns = told.slopes(told.start)
    np.testing.assert_allclose(told.times(told.solve(columns)), columns, rtol=1e-6, atol=1e-9)


def test_both_together_tell_more_than_either(parts):
    told = parts.told
    both = fused(parts.found, parts.design, told)
    nothing = dataclasses.replace(parts.found, vector=told.start, apart=1e6 * parts.found.apart)
    sketch = fused(nothing, parts.design, told)
    for alone in (parts.found, sketch):
        gains = np.linalg.eigvalsh(alone.covariance - both.covariance)
        assert gains.min() > -0.05 * gains.max() and gains.max() > 0  # slopes are taken at three different answers
    assert np.trace(both.covariance) < 0.8 * np.trace(parts.found.covariance)


def test_a_private_number_of_records_does_not_widen_components():
    """Noise of thousands of released numbers, taken for one of their common factor, made deviations 2 to 4 % too large.

    The waves alone: the average says nothing. Threshold: 3.5 stated standard errors, with another seed too few once in
    400; the fault made two of them 4.
    """
    records = np.random.default_rng(200).normal(size=(6_000, 2))
    release = dpg.fit_gmm(records, 1, neighbouring="add-remove", **BUDGET | {"epsilon": 0.4, "random_seed": 2})
    centre = Outcome(release.mixture, release.guarantee, release.raw, release.noise)
    chart = MixtureChart.about(Mixture([1.0], [records.mean(axis=0)], [np.cov(records.T)]))
    told, size = SketchTold.of(centre, chart), chart.size
    waves = SimpleNamespace(coefficients=np.zeros((size, len(told.means))))
    nothing = Estimate(np.zeros(size), np.eye(size), 1e4 * np.eye(size), np.zeros(size), 1.0, 1.0)
    found = fused(nothing, SimpleNamespace(gain=np.zeros((size, size)), waves=waves), told)
    assert (np.abs(found.vector) < 3.5 * np.sqrt(np.diagonal(found.covariance))).all()


def test_an_average_that_means_something_else_is_told_from_the_sketch(parts):
    """Ten standard errors away; agreeing ones are told apart once in a hundred releases."""
    far = parts.found.vector + 10 * np.sqrt(np.diag(parts.found.covariance))
    assert fused(dataclasses.replace(parts.found, vector=far), parts.design, parts.told) is None
    draws = np.random.default_rng(1).multivariate_normal(np.zeros(3), np.diag([1.0, 4.0, 9.0]), size=2_000)
    share = np.mean([at_odds(draw, np.diag([1.0, 4.0, 9.0])) for draw in draws])
    assert 0.002 < share < 0.02  # .01 wanted; false alarm 1e-4


@pytest.mark.parametrize("share", [0.005, 0.05])
def test_records_far_from_all_components_are_in_the_background_of_both_together(share, tmp_path):
    """The average alone, or put together without it, lost .3 to 10 nats a record on the sketch, mostly without a word.

    Threshold: .05 nats, beside .005 found with ten other seeds.
    """
    rng, checkpoint = np.random.default_rng(4), tmp_path / "c.json"

    def drawn(n):
        far = rng.random(n) < share
        return np.where(far[:, None], rng.uniform(-50, 50, size=(n, 1)), TRUTH.sample(n, rng=rng))

    settings = BUDGET | {"bounds": (-50, 50)}
    records, held_out = drawn(20_000), drawn(20_000)
    release = dpg.fit_gmm(records, 2, method="aggregate", checkpoint=checkpoint, **settings)
    sketch = dpg.fit_gmm(records, 2, method="sketch", **settings)
    assert release.noise["average"]["fused"] is True and 0.3 < release.background_weight / share < 1.5
    assert (sketch.log_density(held_out) - release.log_density(held_out)).mean() < 0.05
    assert dpg.resume(checkpoint).to_dict() == release.to_dict()
    assert dpg.fit_gmm(records, 2, method=Aggregate(fuse=False), **settings).background is None


@pytest.mark.parametrize("degrees", [3, 5])
def test_heavy_tails_lose_nothing_on_the_sketch(degrees):
    """Of t5 most fits lost .15 to 2 nats a record without a word: a background alone kept them from the comparison."""
    rng = np.random.default_rng(degrees)

    def drawn(n):
        return rng.choice([-8.0, 8.0], size=(n, 1), p=[0.6, 0.4]) + rng.standard_t(degrees, size=(n, 1))

    records, held_out = drawn(20_000), drawn(20_000)
    settings = BUDGET | {"bounds": (-50, 50)}
    release = dpg.fit_gmm(records, 2, method="aggregate", **settings)
    sketch = dpg.fit_gmm(records, 2, method="sketch", **settings)
    assert (sketch.log_density(held_out) - release.log_density(held_out)).mean() < 0.05


def test_failures_of_a_learner_are_no_reason_to_warn_where_average_and_sketch_agree(parts):
    """Of right fits beside a background 45 of 50 were told to take another learner."""
    design = dataclasses.replace(parts.design, failed=0.31)
    given = {"names": None, "mixture": None, "covariance": None, "bounds": None}
    told = [average_caveats(design, parts.rounds, parts.found, **given, with_sketch=alike) for alike in (True, False)]
    assert not any("had no answer for 31%" in text for text in told[0])
    assert any("had no answer for 31%" in text for text in told[1])


def test_bias_is_that_of_the_learner_at_the_estimate(parts):
    """A learner that is wrong by a tenth of a deviation is put right by that much."""
    shift = 0.1 * np.sqrt(parts.design.chart.centre.covariances[:, :, 0])

    def wrong(rows, edges):
        fits = parts.fit(rows, edges)
        return Fits(fits.weights, fits.means + shift, fits.covariances, fits.given)

    at, means = parts.found.vector, parts.design.chart.coordinates.blocks[1]
    right = unbiased(parts.found, parts.design, parts.rounds, parts.told, at=at, fit=parts.fit).vector[means]
    moved = unbiased(parts.found, parts.design, parts.rounds, parts.told, at=at, fit=wrong).vector[means]
    other = dataclasses.replace(parts.design, seed=parts.design.seed + 1)  # else simulation errs alike in all releases
    again = unbiased(parts.found, other, parts.rounds, parts.told, at=at, fit=parts.fit).vector[means]
    assert (again != right).all()
    np.testing.assert_allclose(right - moved, 0.1, atol=0.04)


def test_records_unlike_any_mixture_leave_the_sketch(tmp_path):
    """Two boxes, whose edges a fit of subsets and the sketch weigh differently. Moons and the like lost .1 to .7 nats."""
    rng, checkpoint = np.random.default_rng(1), tmp_path / "c.json"
    records = np.concatenate([rng.uniform(-4, -2, size=(30_000, 1)), rng.uniform(1, 5, size=(30_000, 1))])
    with pytest.warns(dpg.FitWarning, match="waves contradict the mixture"):
        release = dpg.fit_gmm(records, 2, method=Aggregate(records_per_number=24.0), checkpoint=checkpoint, **BUDGET)
    assert release.noise["average"]["fused"] is False and CONTRADICTED in release.warnings
    assert release.statistic == "sketch" and "average_total_0" in release.raw and "average_weights" not in release.raw
    assert dpg.resume(checkpoint).to_dict() == release.to_dict()


def test_average_and_sketch_that_are_at_odds_leave_the_sketch(records, monkeypatch):
    """What is released is known to fit a mixture, so the test is told that they differ."""
    monkeypatch.setattr(fusing, "at_odds", lambda difference, covariance: True)
    with pytest.warns(dpg.FitWarning, match="differ by more than their errors"):
        release = dpg.fit_gmm(records, 2, method=Aggregate(records_per_number=12.0), **BUDGET)
    assert release.noise["average"]["fused"] is False and AT_ODDS in release.warnings
    assert release.statistic == "sketch" and "average_total_0" in release.raw and "average_weights" not in release.raw


def test_a_mixture_that_the_waves_contradict_is_not_drawn_to_them():
    """Of gamma records the two together lost .07 nats a record on the sketch, in silence: all that tells is the waves."""
    records = np.random.default_rng(1).gamma(2.0, size=(60_000, 1))
    with pytest.warns(dpg.FitWarning, match="waves contradict the mixture"):
        release = dpg.fit_gmm(records, 2, method="aggregate", **BUDGET)
    sketch = dpg.fit_gmm(records, 2, method="sketch", **BUDGET)
    points = np.random.default_rng(2).gamma(2.0, size=(40_000, 1))
    assert release.log_density(points).mean() > sketch.log_density(points).mean() - 0.02


def test_a_setting_keeps_the_average_as_it_is(release_and_parts, records):
    """The same noise, the same sums; the answer alone is another."""
    release, parts = release_and_parts
    alone = dpg.fit_gmm(records, 2, method=Aggregate(records_per_number=12.0, fuse=False), **BUDGET)
    assert release.noise["average"]["fused"] is True and alone.noise["average"]["fused"] is False
    assert release.raw["average_total_0"].tobytes() == alone.raw["average_total_0"].tobytes()
    np.testing.assert_allclose(alone.means, parts.design.chart.mixture(parts.found.vector).means)
    assert np.abs(alone.means - release.means).max() > 1e-6


@pytest.mark.parametrize("error", [np.linalg.LinAlgError("singular"), MemoryError("large")])
def test_what_cannot_be_compared_is_an_average(records, monkeypatch, error):
    def fails(*given):
        raise error

    monkeypatch.setattr(method, "with_the_sketch", fails)
    release = dpg.fit_gmm(records, 2, method=Aggregate(records_per_number=12.0), **BUDGET)
    assert release.noise["average"]["fused"] is False and "offset_covariance" in release.raw
    assert not any("interrupted" in text for text in release.warnings)
    assert f"could not be compared with the sketch ({type(error).__name__})" in release.warnings[0]


def test_an_interruption_while_the_two_are_put_together_leaves_the_average(records, monkeypatch):
    """It is paid for; the sketch alone was all that came back."""

    def stop(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(method, "with_the_sketch", stop)
    with pytest.raises(KeyboardInterrupt) as ended:
        dpg.fit_gmm(records, 2, method=Aggregate(records_per_number=12.0), **BUDGET)
    alone = dpg.fit_gmm(records, 2, method=Aggregate(records_per_number=12.0, fuse=False), **BUDGET)
    found = dpg.resume(ended.value.released)
    assert "of the average alone, as with fuse=False" in found.warnings[0]
    assert found.means.tobytes() == alone.means.tobytes()
    assert not any("interrupted" in text for text in alone.warnings)


@pytest.mark.thorough
def test_a_kill_while_the_two_are_put_together_leaves_average_and_sketch(records, tmp_path):
    """The file held the sums and the sketch: the average was lost."""
    path, table = tmp_path / "c.json", tmp_path / "records.npy"
    np.save(table, records)
    script = f"""
        import os, signal
        import numpy as np
        import pm_dpgmm as dpg
        from pm_dpgmm.methods.aggregate import method

        method.with_the_sketch = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
        settings = dpg.Aggregate(records_per_number=12.0)
        dpg.fit_gmm(np.load({str(table)!r}), 2, method=settings, checkpoint={str(path)!r}, **{BUDGET!r})
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], timeout=600)
    assert ended.returncode == -signal.SIGKILL
    alone = dpg.fit_gmm(records, 2, method=Aggregate(records_per_number=12.0, fuse=False), **BUDGET)
    again = dpg.resume(path)
    assert {name: values.tobytes() for name, values in again.raw.items()} == {
        name: values.tobytes() for name, values in alone.raw.items()
    }
    assert again.means.tobytes() == alone.means.tobytes() and again.noise["average"] == alone.noise["average"]


NESTED = Mixture([0.7, 0.3], np.zeros((2, 1)), [[[1.0]], [[25.0]]])


def two_components(rows):
    """Of a thousand rows of NESTED every second answer is another optimum, of ten thousand none."""
    found = GaussianMixture(2, random_state=0, reg_covar=1e-4).fit(rows / rows.std(axis=0))
    scale = rows.std(axis=0)
    return Mixture(found.weights_, found.means_ * scale, found.covariances_ * scale**2)


def test_the_answer_to_many_records_is_one_to_as_many_as_there_are():
    """Where few records have another optimum the release lost .02 to .3 nats a record, without a word."""

    def fit(rows, edges):
        parts = [two_components(rows[low:high]) for low, high in itertools.pairwise(edges)]
        arrays = (np.array([getattr(part, name) for part in parts]) for name in ("weights", "means", "covariances"))
        return Fits(*arrays, np.ones(len(parts), dtype=bool))

    problem = Problem(10_000, 1, 2, 0.4, 1e-6, np.array([[-15.0, 15.0]]), Neighbouring.REPLACE_ONE)
    records = NESTED.sample(10_000, rng=np.random.default_rng(0))
    given = {"learner": None, "n_jobs": None, "progress": lambda done, total: None, "rng": np.random.default_rng(2)}
    centre = SketchMethod().release(records, problem, **given)
    way = {"mu_squared": 0.02, "records_per_number": 24.0, "bounds": problem.bounds, "seed": 2}
    few, many = (method.best_design(centre, fit, own_bias=own, **way) for own in (True, False))
    assert np.abs(few.answer).max() > 0.5 > 0.25 > np.abs(many.answer).max()
    assert (np.diagonal(many.sampling) > 3 * np.diagonal(few.sampling)).all()


def test_an_average_that_leaves_much_open_says_so():
    size = Coordinates.about(NESTED).size
    assert vague(NESTED, 0.001 * np.eye(size)) is None and vague(NESTED, np.zeros((size, size))) is None
    assert "is 0.2" in vague(NESTED, 0.25 * np.eye(size)) or "is 0.1" in vague(NESTED, 0.25 * np.eye(size))
    assert "nats per record or more from this one" in vague(NESTED, 1e4 * np.eye(size))  # some of which are none


def test_what_an_average_leaves_open_is_among_its_caveats(parts):
    mixture, size = parts.design.chart.centre, parts.design.chart.size
    for variance, told in ((0.25, 1), (1e-4, 0)):
        given = {"names": None, "mixture": mixture, "covariance": variance * np.eye(size), "bounds": None}
        texts = average_caveats(parts.design, parts.rounds, parts.found, **given, with_sketch=False)
        assert sum("leave much open" in text for text in texts) == told

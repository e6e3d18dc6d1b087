import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.learners.batched_em import BatchedEM
from pm_dpgmm.learners.fit_arrays import Fits
from pm_dpgmm.learners.subsets import FitsTogether
from pm_dpgmm.methods.aggregate.chart import MixtureChart
from pm_dpgmm.methods.aggregate.control import Waves
from pm_dpgmm.methods.aggregate.method import NO_FIT, Aggregate
from pm_dpgmm.methods.sketch.law import SketchLaw
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import Mixture

TRUTH = Mixture([0.4, 0.6], [[-2.0], [2.0]], [[[1.0]], [[1.0]]])
UNIT, PLACE = 1e-3, 1e3


class OfFewRows(FitsTogether):
    """Fails on what a rehearsal does not show."""

    def fit_all(self, records, edges, n_components, **named):
        fits = BatchedEM().fit_all(records, edges, n_components, **named)
        return Fits(fits.weights, fits.means, fits.covariances, fits.given & (np.diff(edges) < 1_000))

    def __call__(self, subset):
        raise NotImplementedError


@pytest.fixture(scope="module")
def records():
    return PLACE + UNIT * TRUTH.sample(6_000, rng=np.random.default_rng(3))


@pytest.fixture(scope="module")
def release(records):
    return dpg.fit_gmm(records, 2, epsilon=1.0, delta=1e-6, method="aggregate", progress=False, random_seed=1)


@pytest.fixture(scope="module")
def sketch(records):
    return dpg.fit_gmm(records, 2, epsilon=1.0, delta=1e-6, progress=False, random_seed=1)


def test_six_thousand_records_without_bounds_are_enough(release):
    """Errors of 3 seeds were below .07 deviations for means, .11 for log deviations."""
    order = np.argsort(release.means[:, 0])
    assert np.abs((release.means[order, 0] - PLACE) / UNIT - [-2, 2]).max() < 0.3
    assert np.abs(0.5 * np.log(release.covariances[order, 0, 0] / UNIT**2)).max() < 0.4
    assert release.noise["statistic"] == "average of fits" and release.warnings == ()


def test_the_law_of_the_errors_is_that_of_the_release(release):
    """Offsets of the truth, in standard deviations that the release states: chi-square with 5 degrees, 1e-6 above 35."""
    order = np.argsort(np.argsort(release.means[:, 0]))
    truth = Mixture(TRUTH.weights[order], PLACE + UNIT * TRUTH.means[order], UNIT**2 * TRUTH.covariances[order])
    offsets = Coordinates.about(release.mixture).of(truth.weights, truth.means, np.linalg.cholesky(truth.covariances))
    assert offsets @ np.linalg.solve(release.raw["offset_covariance"], offsets) < 35


def test_a_file_keeps_it(release, tmp_path):
    path = tmp_path / "release.json"
    release.save(path)
    again = dpg.Release.load(path)
    assert again.to_dict() == release.to_dict()


def test_waves_of_subsets_average_to_the_waves_of_all(records, sketch):
    """So that what is taken off from every subset is what is put back: exactly, but for the noise of the release."""
    law = SketchLaw.of(sketch)
    evidence = SketchStatistics.from_arrays(sketch.raw, sketch.noise)
    waves = Waves.of(law, evidence.sketches, sketch.mixture, price=1.0, rows=records[:100])
    parts = np.array([waves.means(part) for part in np.split(records, 30)])
    deviations = np.sqrt(np.diag(waves.noise))
    assert (np.abs(parts.mean(axis=0) - waves.released) < 5 * deviations).all()  # false alarm 4e-6
    scores = np.array([waves.means(part) for part in np.split(records, 600)])
    assert (scores.std(axis=0) > 10 * np.abs(parts.mean(axis=0) - waves.means(records))).all()


def test_vectors_do_not_depend_on_the_order_of_components_nor_on_other_fits():
    chart = MixtureChart.about(TRUTH)
    fit = Mixture([0.5, 0.5], [[-2.5], [1.0]], [[[2.0]], [[0.5]]])
    other = fit.permuted([1, 0])
    fits = Fits(
        np.array([fit.weights, other.weights, fit.weights]),
        np.array([fit.means, other.means, 1e3 * fit.means]),
        np.array([fit.covariances, other.covariances, np.full((2, 1, 1), np.nan)]),
        np.array([True, True, True]),
    )
    rows = chart.vectors(fits)
    assert rows[0].tobytes() == rows[1].tobytes()
    assert np.isnan(rows[2]).any()  # the sum makes it 0
    again = chart.mixture(rows[0])
    np.testing.assert_allclose(again.means, fit.means)
    np.testing.assert_allclose(again.covariances, fit.covariances)
    np.testing.assert_allclose(again.weights, fit.weights)


def test_a_learner_that_cannot_fit_leaves_the_sketch(records):
    """After the sketch nothing may be lost: the release says what it is."""

    found = dpg.fit_gmm(
        records, 2, epsilon=1.0, delta=1e-6, method=Aggregate(rehearse=False), learner=OfFewRows(), progress=False,
        random_seed=1,
    )  # fmt: skip
    assert found.warnings == (NO_FIT,)
    assert found.statistic is Statistic.SKETCH and "offset_covariance" not in found.raw
    assert found.guarantee.epsilon == 1.0


def test_add_remove_neighbours(records):
    found = dpg.fit_gmm(
        records, 2, epsilon=1.0, delta=1e-6, method="aggregate", neighbouring="add-remove", progress=False,
        random_seed=1,
    )  # fmt: skip
    assert found.n_records is None
    assert np.abs((np.sort(found.means[:, 0]) - PLACE) / UNIT - [-2, 2]).max() < 0.4


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"centre_share": 0.0}, "centre_share must"),
        ({"centre_share": 1.0}, "centre_share must"),
        ({"records_per_number": -1.0}, "records_per_number must"),
        ({"time_limit": 0.0}, "time_limit must"),
    ],
)
def test_bad_settings_are_refused(settings, rule):
    with pytest.raises(ValueError, match=rule):
        Aggregate(**settings)


def test_too_few_records_are_refused_before_anything_is_spent(tmp_path):
    ledger = dpg.Ledger(tmp_path / "ledger.db", epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="X must have at least 72 rows"):
        dpg.fit_gmm(np.zeros((60, 1)) + np.arange(60)[:, None], 2, epsilon=1.0, delta=1e-6, method="aggregate",
                    ledger=ledger)  # fmt: skip
    assert ledger.spent == (0.0, 0.0)

"""Half a record as wide as the bounds: rows far from everything have a density, whether the numbers tell them or not."""

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.mixture.far_rows import WIDTHS, as_wide_as, far_rows, far_rows_of, with_far_rows

GOOD = {"weight": 0.1, "bounds": [[0.0, 1.0]], "widths": [1.0, 10.0]}
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "progress": False}


def with_a_hundredth_far(n_records, n_features, seed=0):
    """Rows of a standard normal but for one in a hundred, which is anywhere within a hundred deviations."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_records, n_features))
    far = rng.random(n_records) < 0.01
    rows[far] = rng.uniform(-100, 100, (int(far.sum()), n_features))
    return rows


@pytest.mark.parametrize("bounds", [(-100.0, 100.0), None])
@pytest.mark.parametrize(
    "n_records, n_features", [(5_000, 1), (5_000, 2), (5_000, 4), pytest.param(50_000, 2, marks=pytest.mark.thorough)]
)
def test_far_rows_cost_a_sketch_little_whether_its_numbers_tell_them_or_not(n_records, n_features, bounds):
    """A background as wide as the records lost 7 to 15 nats a record, none at all 67, and nothing said so."""
    rows = with_a_hundredth_far(n_records, n_features)
    release = dpg.fit_gmm(rows, 1, **BUDGET, bounds=bounds, random_seed=0)
    alone = dpg.Mixture([1.0], rows.mean(axis=0)[None], np.atleast_2d(np.cov(rows.T))[None])
    fresh = with_a_hundredth_far(n_records, n_features, seed=1)
    assert release.log_density(fresh).mean() > alone.log_density(fresh).mean() + 1
    np.testing.assert_allclose(release.covariances[0].diagonal(), 1.0, atol=0.2)


@pytest.mark.parametrize("method, n_features", [("histogram", 1), ("slices", 3)])
def test_counts_have_half_a_record_too(method, n_features):
    rows = np.random.default_rng(1).normal(size=(4_000, n_features))
    release = dpg.fit_gmm(rows, 1, epsilon=1.0, bounds=(-50, 50), method=method, random_seed=1, progress=False)
    weight, far = far_rows_of(release.noise, n_features)
    assert weight == pytest.approx(1 / 8_002, rel=0.1)
    assert np.sqrt(far.covariances[:, 0, 0]) == pytest.approx(np.array(WIDTHS) * 50 / 3)
    assert release.log_density(np.full((1, n_features), 50.0))[0] > -60


ALONE = dpg.Aggregate(fuse=False)  # put together with the sketch it has the background of that


@pytest.mark.parametrize(
    "method, bounds",
    [("em", (-20, 20)), ("central", (-20, 20)), ("gaps", None), (ALONE, (-20, 20)), (ALONE, None)],
)
def test_methods_that_know_no_background_have_half_a_record_too(method, bounds):
    """Without it a far row had a log-density of minus hundreds in each of them."""
    rows = np.random.default_rng(1).normal(np.repeat([-4.0, 4.0], 3_000)[:, None])
    release = dpg.fit_gmm(rows, 2, **BUDGET, bounds=bounds, method=method, random_seed=1)
    weight, far = far_rows_of(release.noise, 1)
    assert 1 / 12_100 < weight < 1 / 2_000  # of "gaps" half a record of those that are binned
    if bounds is not None:
        assert np.sqrt(far.covariances[0]).item() == pytest.approx(20 / 3)
    assert release.log_density([[100.0]])[0] > -60 > -500 > release.density.log_density([[100.0]])[0]


@pytest.mark.parametrize("reach", [1e3, 1e5])
def test_rows_without_bounds_may_be_anywhere(reach):
    """One Gaussian cost each half the square of its distance in its deviations: 20 nats a record at 1e3, 2e5 at 1e5."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5_000, 2))
    far = rng.random(5_000) < 0.01
    rows[far] = rng.uniform(-reach, reach, (int(far.sum()), 2))
    release = dpg.fit_gmm(rows, 1, **BUDGET, random_seed=0)
    alone = dpg.Mixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    assert release.log_density(rows[~far]).mean() > alone.log_density(rows[~far]).mean() - 0.05
    assert release.log_density(rows[far]).mean() > -60


def test_without_bounds_it_is_as_wide_as_the_intervals():
    rows = np.random.default_rng(1).normal(40.0, 1.0, size=(4_000, 2))
    release = dpg.fit_gmm(rows, 1, **BUDGET, random_seed=1)
    _, far = far_rows_of(release.noise, 2)
    assert np.sqrt(far.covariances[0].diagonal()) == pytest.approx(np.array(release.noise["unit"]) / 3)
    assert np.abs(far.means - 40).max() < 10


def test_it_costs_records_of_a_mixture_half_a_nat_in_all():
    rows = np.random.default_rng(1).normal(size=(4_000, 2))
    release = dpg.fit_gmm(rows, 1, **BUDGET, bounds=(-100, 100), random_seed=1)
    lost = release.density.log_density(rows) - release.log_density(rows)
    assert -0.1 < lost.sum() <= 0.51
    assert release.row_density.weights.sum() == pytest.approx(1)


def test_samples_moments_intervals_and_laws_are_without_it():
    """In wide bounds half a record has more variance than all others: intervals of a deviation held 69,000 for 15,000."""
    rows = np.random.default_rng(0).normal(50_000, 15_000, (3_000, 1))
    release = dpg.fit_gmm(rows, 1, **BUDGET, bounds=(0, 1e7), random_seed=1)
    found = release.interval(lambda mixture: mixture.covariance()[0, 0] ** 0.5, random_seed=1)
    assert found.lower < 15_000 < found.upper and found.estimate == pytest.approx(15_000, rel=0.1)
    assert release.sample(20_000, random_seed=1).std() == pytest.approx(15_000, rel=0.1)
    assert release.marginal(["x0"]).n_components == release.law.n_components == release.density.n_components == 1


def test_it_survives_a_file_a_refit_and_a_combination(tmp_path):
    rows = np.random.default_rng(1).normal([[-4.0]] * 2_000 + [[4.0]] * 2_000)
    first = dpg.fit_gmm(rows, 2, **BUDGET, bounds=(-20, 20), random_seed=1)
    again = dpg.load(first.save(tmp_path / "release.json"))
    assert (
        again.noise["far_rows"] == first.noise["far_rows"]
        and (again.row_density.weights == first.row_density.weights).all()
    )
    assert again.refit(3).noise["far_rows"] == first.noise["far_rows"]
    other = dpg.fit_gmm(rows[::-1], 2, like=first, **BUDGET, bounds=(-20, 20), random_seed=2)
    both = dpg.combine([first, other])
    assert both.noise["far_rows"]["weight"] == pytest.approx(1 / 16_002)
    assert both.log_density([[20.0]])[0] > -18 > -100 > both.density.log_density([[20.0]])[0]


def test_where_bounds_have_no_such_gaussian_there_is_none():
    for bounds in ([[-1e300, 1e300]], [[0.0, 1e-200]], [[1.0, 1.0]]):
        assert far_rows(np.array(bounds), 100) == {}
    assert far_rows_of({}, 1) is None
    mixture = as_wide_as(np.array([[0.0, 6.0]]))
    assert with_far_rows(mixture, {}) is mixture
    assert far_rows(np.array([[0.0, 6.0]]), -5.0)["far_rows"]["weight"] == 0.25  # a noisy number of records


@pytest.mark.parametrize(
    "entry, told",
    [
        ([], "a weight, bounds and widths"),
        ({"weight": 0.1, "bounds": [[0, 1]]}, "a weight, bounds and widths"),
        (GOOD | {"more": 1}, "a weight, bounds and widths"),
        (GOOD | {"weight": 1.0}, "strictly between 0 and 1"),
        (GOOD | {"weight": "1"}, "a real number"),
        (GOOD | {"bounds": [[0, 1], [0, 1]]}, "must have shape"),
        (GOOD | {"bounds": [[0, float("inf")]]}, "must be finite"),
        (GOOD | {"bounds": [[1, 0]]}, "must be in order"),
        (GOOD | {"bounds": [["a", "b"]]}, "an array of numbers"),
        (GOOD | {"bounds": [[-1e300, 1e300]]}, "covariances"),
        (GOOD | {"widths": []}, "must be 1 to 16 numbers that grow from 1"),
        (GOOD | {"widths": [1.0] * 2}, "must be 1 to 16 numbers that grow from 1"),
        (GOOD | {"widths": list(range(1, 99))}, "must be 1 to 16 numbers that grow from 1"),
        (GOOD | {"widths": [1.0, 1e200]}, "covariances"),
        (GOOD | {"widths": None}, "array of numbers"),
    ],
)
def test_a_file_whose_far_rows_are_none_is_refused(entry, told):
    rows = np.random.default_rng(1).normal(size=500)
    fields = dpg.fit_gmm(rows, 1, **BUDGET, bounds=(-9, 9), random_seed=1).to_dict()
    fields["noise"] = dict(fields["noise"]) | {"far_rows": entry}
    with pytest.raises((TypeError, ValueError), match=told):
        dpg.Release.from_dict(fields)

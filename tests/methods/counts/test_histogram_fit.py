"""EM on noisy counts must answer whatever the noise does: it runs after the budget is spent."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as npst

from pm_dpgmm.mechanisms.histogram import cell_counts, histogram_loss
from pm_dpgmm.methods.counts import histogram_fit
from pm_dpgmm.methods.counts.background import MOST, beside_histogram
from pm_dpgmm.methods.counts.histogram import fitted
from pm_dpgmm.methods.counts.histogram_fit import _em, _grid, _start, fit_counts
from pm_dpgmm.methods.counts.points_of_bins import MOST_POINTS, cell_centres, chances_of_bins, fineness_for, finest
from pm_dpgmm.mixture.cell_probabilities import exact_cell_probabilities
from pm_dpgmm.mixture.mixture import Mixture, joined
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.privacy.noise import discrete_laplace
from tests.builders.examples import examples


def quiet(done, total):
    return None


@pytest.mark.thorough
@given(
    counts=npst.arrays(np.int64, st.sampled_from([(4,), (16,), (4, 4), (8, 8)]), elements=st.integers(-(10**6), 10**6))
    | npst.arrays(np.int64, (16,), elements=st.sampled_from([-3, 0, 1, 10**15])),
    n_components=st.integers(1, 2),
    noise_scale=st.floats(1e-3, 1e7),
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
)
@settings(deadline=None, max_examples=examples(60))
def test_any_counts_give_a_valid_mixture(counts, n_components, noise_scale, low, width):
    bounds = np.array([[low, low + width]] * counts.ndim)
    mixture = fit_counts(counts, bounds, n_components, noise_scale=noise_scale, progress=quiet)
    assert isinstance(mixture, Mixture) and mixture.n_components == n_components
    slack = 1e-6 * width + 1e-9 * abs(low)
    assert (mixture.means >= bounds[:, 0] - slack).all() and (mixture.means <= bounds[:, 1] + slack).all()
    raw = {"counts": counts, "bounds": bounds}
    found, background = beside_histogram(raw, {"scale": noise_scale}, mixture, n_records=None, progress=quiet)
    assert joined(found, background).n_components == n_components + (background is not None)
    assert background is None or 0 < background[0] <= MOST


def test_exact_counts_of_many_records_give_the_truth_back():
    truth = Mixture([0.3, 0.7], [[20.0, 5.0], [60.0, 8.0]], [[[30.0, 2.0], [2.0, 1.0]], [[60.0, -3.0], [-3.0, 0.8]]])
    bounds = np.array([[0.0, 100.0], [0.0, 12.0]])
    counts = cell_counts(truth.sample(300_000, rng=np.random.default_rng(1)), bounds=bounds, n_cells=40)
    mixture = fit_counts(counts, bounds, 2, noise_scale=0.1, progress=quiet)
    order = np.argsort(mixture.means[:, 0])
    assert mixture.weights[order] == pytest.approx(truth.weights, abs=0.01)
    assert mixture.means[order] == pytest.approx(truth.means, abs=0.1)
    # within 5 % of a standard deviation product: the width of a cell is taken off (Sheppard)
    for k, j in enumerate(order):
        sd = np.sqrt(np.diag(truth.covariances[k]))
        assert mixture.covariances[j] / np.outer(sd, sd) == pytest.approx(
            truth.covariances[k] / np.outer(sd, sd), abs=0.05
        )


@pytest.mark.parametrize("d", [1, 2])
def test_no_step_of_em_lowers_the_penalised_likelihood(d):
    rng = np.random.default_rng(d)
    grid = _grid(rng.poisson(3, size=(16,) * d) + discrete_laplace((16,) * d, scale=2.0, rng=rng), 2, 2.0)
    start = _start(grid, grid.spread, rng)
    values = [_em(grid, start, steps)[0] for steps in range(1, 30)]
    # floors and the smallest expected count are outside the theorem; they cost far less than a thousandth here
    assert (np.diff(values) > -1e-3).all() and values[-1] > values[0] + 1


@pytest.mark.parametrize("n_records", [300, 800])
def test_a_component_within_a_bin_is_found_where_its_bin_stands_out(n_records):
    """From wide starts alone one bin of hundreds was taken for noise of scale 2: half were ten bins off and more.

    Of 100 other data sets one of 300 records was further off than a bin, none of 800.
    """
    bounds = np.array([[-1000.0, 1000.0]])
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-900, 900) + rng.normal(size=(n_records, 1))
        counts = cell_counts(x, bounds=bounds, n_cells=64) + discrete_laplace((64,), scale=2.0, rng=rng)
        mixture = fit_counts(counts, bounds, 1, noise_scale=2.0, progress=quiet)
        assert abs(mixture.means[0, 0] - x.mean()) < 2000 / 64


@pytest.mark.parametrize("d, narrow, found", [(1, 0.6, 0.6), (1, 0.3, 0.5), (2, 0.6, 0.6), (2, 0.35, 0.35)])
def test_directions_narrower_than_a_bin_have_their_width(d, narrow, found):
    """What is narrower than three quarters of a bin came out as wide as that. In two columns it lies aslant.

    In a column half a bin is the least: where in a bin values lie is not told, and may be its edges.
    """
    turned = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    covariance = turned @ np.diag([2.0**2, narrow**2]) @ turned.T if d == 2 else np.array([[narrow**2]])
    truth = Mixture([0.5, 0.5], [[6.3] * d, [20.6] * d], [covariance] * 2)
    bounds = np.array([[0.0, 32.0]] * d)
    counts = cell_counts(truth.sample(20_000, rng=np.random.default_rng(3)), bounds=bounds, n_cells=32)
    noisy = counts + discrete_laplace(counts.shape, scale=2.0, rng=np.random.default_rng(4))
    mixture = fit_counts(noisy, bounds, 2, noise_scale=2.0, progress=quiet)
    least = np.sqrt(np.linalg.eigvalsh(mixture.covariances)[:, 0])
    assert least == pytest.approx(found, rel=0.1)
    rows = truth.sample(20_000, rng=np.random.default_rng(5))
    assert found > narrow or mixture.log_density(rows).mean() > truth.log_density(rows).mean() - 0.02
    chances = chances_of_bins(mixture, bounds, 32, fineness_for(mixture, bounds, 32))
    assert chances == pytest.approx(exact_cell_probabilities(mixture, bounds, 32), abs=2e-3)


@pytest.mark.parametrize("d, n_cells, most", [(1, 64, 2), (1, 10**6, 1), (2, 32, 8), (2, 64, 4), (2, 300, 1)])
def test_many_bins_are_cut_into_fewer_points(d, n_cells, most):
    """Else a table of 300 by 300 bins takes gigabytes."""
    assert finest(d, n_cells) == most and (most == 1 or (n_cells * most) ** d <= MOST_POINTS)
    narrow = Mixture([1.0], [[0.5] * d], [np.eye(d) * 1e-14])
    assert fineness_for(narrow, np.array([[0.0, 1.0]] * d), n_cells) == most


def test_whole_numbers_two_of_which_share_a_bin_do_not_make_a_component_that_holds_none():
    """Of values at both edges of two bins a width of a quarter of a bin explains the counts, and no value."""
    rng = np.random.default_rng(6)
    values = rng.choice(3, size=20_000, p=[0.5, 0.3, 0.2]).astype(float)
    bounds = np.array([[-7.68, 38.4]])  # bins of 1.44: 0 a third into one, 1 and 2 near the edges of the next
    counts = cell_counts(values[:, None], bounds=bounds, n_cells=32)
    noisy = counts + discrete_laplace(counts.shape, scale=2.0, rng=rng)
    mixture = fit_counts(noisy, bounds, 1, noise_scale=2.0, progress=quiet)
    assert mixture.log_density(values[:, None]).mean() > -1.5


def test_a_direction_that_is_narrow_along_the_line_between_components_stays_so():
    """A prior as wide as they lie apart, of less than one record, made -.956 and -.929 of the second correlation.

    Counts are those expected, so that only the prior moves a correlation.
    """
    correlated = [np.array([[1.0, rho], [rho, 1.0]]) for rho in (0.97, -0.97)]
    truth, bounds = Mixture([0.5, 0.5], [[-4.0, -3.3], [4.0, 3.6]], correlated), np.array([[-12.0, 12.0]] * 2)
    for n_records in (5_000, 1_500):
        counts = np.rint(n_records * exact_cell_probabilities(truth, bounds, 32)).astype(np.int64).reshape(32, 32)
        found = fit_counts(counts, bounds, 2, noise_scale=2.0, progress=quiet)
        own = np.array([c[0, 1] / np.sqrt(c[0, 0] * c[1, 1]) for c in found.covariances])
        np.testing.assert_allclose(np.sort(own), [-0.97, 0.97], atol=0.004)


def test_a_last_fit_that_overflows_costs_no_release(monkeypatch):
    em = histogram_fit._em

    def overflows(grid, *given):
        if grid.spread.ndim == 3:  # the prior has moved: the search is over
            raise FloatingPointError
        return em(grid, *given)

    bounds, truth = np.array([[0.0, 32.0]]), Mixture([0.5, 0.5], [[8.0], [20.0]], [[[1.0]], [[4.0]]])
    counts = np.rint(2_000 * exact_cell_probabilities(truth, bounds, 32)).astype(np.int64)
    monkeypatch.setattr(histogram_fit, "_em", overflows)
    found = fit_counts(counts, bounds, 2, noise_scale=2.0, progress=quiet)
    assert np.sort(found.means[:, 0]) == pytest.approx([8.0, 20.0], abs=0.2)


def test_empty_bins_that_stand_out_hardly_widen_the_typical_component():
    """Variance of a spike of 100 and two noises of 5 at 30 bins, plus 1; by heights it would be 80."""
    counts = np.zeros(64, dtype=int)
    counts[32], counts[[2, 60]] = 100, 5
    assert _grid(counts, 1, 2.0).spread[0, 0] < 20


def test_mass_outside_the_bounds_counts_against_a_mixture():
    """Half a bell at the edge: a component centred there would put half its mass where no record can be."""
    x = np.abs(np.random.default_rng(3).normal(0, 3, (20_000, 1)))
    bounds = np.array([[0.0, 20.0]])
    mixture = fit_counts(cell_counts(x, bounds=bounds, n_cells=64), bounds, 2, noise_scale=2.0, progress=quiet)
    inside = np.exp(mixture.log_density(cell_centres(bounds, 2000))).sum() * 20 / 2000
    assert inside > 0.9


@pytest.mark.thorough
def test_knowing_the_noise_beats_taking_noisy_counts_as_exact():
    """Same noisy counts, fitted with the true noise scale and with a tiny one: median of ten data sets."""
    truth = Mixture([0.4, 0.6], [[30.0], [60.0]], [[[20.0]], [[40.0]]])
    bounds, gaps = np.array([[0.0, 100.0]]), []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        counts = cell_counts(truth.sample(400, rng=rng), bounds=bounds, n_cells=64)
        noisy = counts + discrete_laplace(64, scale=2.0, rng=rng)
        fits = [fit_counts(noisy, bounds, 2, noise_scale=b, progress=quiet) for b in (2.0, 1e-3)]
        points = truth.sample(4000, rng=rng)
        gaps.append(np.diff([fit.log_density(points).mean() for fit in fits])[0])
    assert np.median(gaps) < -0.02


def test_units_of_the_data_do_not_change_the_fit():
    counts = cell_counts(np.random.default_rng(2).normal(5, 1, (3000, 1)), bounds=np.array([[0.0, 10.0]]), n_cells=32)
    plain = fit_counts(counts, np.array([[0.0, 10.0]]), 1, noise_scale=1.0, progress=quiet)
    tiny = fit_counts(counts, np.array([[0.0, 1e-8]]), 1, noise_scale=1.0, progress=quiet)
    assert tiny.means * 1e9 == pytest.approx(plain.means) and tiny.covariances * 1e18 == pytest.approx(
        plain.covariances
    )


def test_cell_centres_follow_the_order_of_the_counts():
    bounds = np.array([[0.0, 2.0], [10.0, 14.0]])
    centres = cell_centres(bounds, 2)
    assert centres.tolist() == [[0.5, 11.0], [0.5, 13.0], [1.5, 11.0], [1.5, 13.0]]
    for j, centre in enumerate(centres):
        assert cell_counts(centre[None], bounds=bounds, n_cells=2).ravel()[j] == 1


def test_progress_counts_public_starts_and_steps_of_what_follows():
    seen = []
    law = {"scale": 1.0}
    raw = {"counts": np.array([5.0, 9.0, 2.0, 1.0]), "bounds": np.array([[0.0, 1.0]])}
    relation = Neighbouring.REPLACE_ONE
    guarantee = Guarantee(1.0, 0.0, relation, "words", histogram_loss(epsilon=1.0, neighbouring=relation))
    fitted(guarantee, raw, law, 1, None, lambda *at: seen.append(at))
    done, totals = zip(*seen, strict=True)
    assert list(done) == sorted(done) and done[0] == 1 and done[-1] == totals[-1] and len(set(totals)) == 1
    assert len(set(done)) >= 12

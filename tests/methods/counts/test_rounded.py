"""Bins of rounded columns end half way between values, so that counts have the law of the mixture."""

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.methods.counts.histogram import HistogramMethod
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.mixture.cell_probabilities import exact_cell_probabilities
from pm_dpgmm.privacy.guarantee import Neighbouring


def problem(bounds, steps):
    limits = np.atleast_2d(bounds).astype(float)
    return Problem(
        100, len(limits), 2, 1.0, 0.0, limits, Neighbouring.REPLACE_ONE, resolution=np.array(steps, dtype=float)
    )


@pytest.mark.parametrize(
    "bounds, steps, expected, n_bins",
    [
        ((0, 120), [1.0], [[-0.5, 121.5]], 61),
        ((0, 4), [1.0], [[-0.5, 4.5]], 5),
        ((-1, 1), [0.5], [[-1.25, 1.25]], 5),
        ([(0, 4), (0, 1)], [1.0, 0.0], [[-0.5, 31.5], [0.0, 1.0]], 32),
    ],
)
def test_bins_hold_whole_numbers_of_values(bounds, steps, expected, n_bins):
    found, number = HistogramMethod().grid(problem(bounds, steps))
    assert np.allclose(found, expected) and number == n_bins


def test_counts_are_those_of_the_values_before_rounding():
    asked = problem((-10, 15), [0.7])
    bounds, n_bins = HistogramMethod().grid(asked)
    truth = dpg.Mixture([0.4, 0.6], [[0.0], [5.0]], [[[1.0]], [[0.5]]])
    values = 0.7 * np.arange(-40, 60)
    law = exact_cell_probabilities(truth, np.array([[values[0] - 0.35, values[-1] + 0.35]]), len(values))
    edges = np.linspace(*bounds[0], n_bins + 1)
    by_bin = np.histogram(values, edges, weights=law)[0]
    assert np.allclose(by_bin, exact_cell_probabilities(truth, bounds, n_bins), atol=1e-12)


def test_a_release_has_the_parameters_before_rounding():
    """Seeded; three standard errors. Bins are two deviations wide."""
    records = np.random.default_rng(1).normal(3.0, 1.0, size=(20_000, 1))
    release = dpg.fit_gmm(
        np.rint(records / 2) * 2, 1, epsilon=4.0, bounds=(-20, 20), resolution=2.0, random_seed=1, progress=False
    )
    assert release.means.item() == pytest.approx(3.0, abs=0.04)
    assert np.sqrt(release.covariances.item()) == pytest.approx(1.0, abs=0.03)
    assert release.resolution.tolist() == [2.0]
    fine = dpg.fit_gmm(np.rint(records), 1, epsilon=4.0, bounds=(-20, 20), resolution=1, random_seed=1, progress=False)
    assert np.sqrt(fine.covariances.item()) == pytest.approx(1.0, abs=0.03)


def test_steps_too_fine_for_the_bounds_are_refused():
    with pytest.raises(ValueError, match="resolution must be at least"):
        dpg.fit_gmm(np.arange(9.0)[:, None], 1, epsilon=1.0, bounds=(1e6, 2e6), resolution=1e-9)


@pytest.mark.parametrize("high, step", [(1e100, 1e100), (1e100, 1e99), (9e99, 5e99)])
def test_bins_that_no_release_can_hold_are_refused_before_anything_is_spent(high, step, tmp_path):
    """Bins end half a step beyond the bounds: beyond the largest ones the budget was spent for no release."""
    ledger = dpg.Ledger(tmp_path / "l.sqlite", epsilon=1.0)
    records = np.random.default_rng(1).random((100, 1)) * high
    with pytest.raises(ValueError, match=r"bounds must lie within 1e100 .* also where those of rounded values end"):
        dpg.fit_gmm(records, 1, epsilon=1.0, bounds=(0, high), resolution=step, ledger=ledger, progress=False)
    assert ledger.spent == (0.0, 0.0)

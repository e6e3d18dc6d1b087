"""Out of local optima: a component added where counts are left over, and one taken away."""

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.methods.counts.moves import MOST_MOVES, TRIED, WORTH, moved, without_one
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.small_group import table_with_a_small_group


def test_without_one_keeps_the_records_and_merges_by_moments():
    rng = np.random.default_rng(0)
    rates, means = np.array([30.0, 50.0, 20.0]), rng.normal(size=(3, 2))
    covariances = np.array([np.eye(2) * scale for scale in (1.0, 2.0, 0.5)])
    found = list(without_one(rates, means, covariances))
    assert len(found) == 3 + 3 and all(len(one[0]) == 2 and one[0].sum() == pytest.approx(100) for one in found)
    np.testing.assert_array_equal(found[0][1], means[1:])
    whole = Mixture(rates / 100, means, covariances)
    for one in found[3:]:  # merging pairs keeps mean and covariance of the whole
        merged = Mixture(one[0] / 100, *one[1:])
        np.testing.assert_allclose(merged.mean(), whole.mean())
        np.testing.assert_allclose(merged.covariance(), whole.covariance())


def climb(start, heights):
    """``moved`` on whole numbers: growing doubles one, taking away gives its neighbours."""
    calls = {"grown": 0, "improved": 0}

    def grown(fit):
        calls["grown"] += 1
        return 2 * fit

    def improved(fit):
        calls["improved"] += 1
        return heights(fit), fit

    found = moved(
        (heights(start), start),
        grown=grown,
        fewer=lambda fit: [fit - 1, fit // 2 + 1, fit // 2, fit // 2 - 1],
        value=heights,
        improved=improved,
    )
    return found, calls


def test_moves_go_on_as_long_as_the_objective_rises():
    found, calls = climb(3, lambda fit: -abs(fit - 5.0))
    assert found == (0.0, 5) and calls == {"grown": 2, "improved": 2 * TRIED}  # 3 -> 5 -> none better
    assert climb(1, float)[1]["grown"] == MOST_MOVES
    start = 0.0, 8
    assert climb(8, lambda fit: WORTH * (fit == 15))[0] == start  # so little is not worth it
    assert climb(8, lambda fit: np.nan if fit == 15 else -abs(fit - 8.0))[0] == start


@pytest.mark.thorough(quick=["histogram-2-1000-0"])
@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
@pytest.mark.parametrize(
    "method, d, n, seed",
    [
        ("histogram", 2, 1_000, 0),  # 40 records in a dozen bins; without moves .36, .38 and .48 are lost
        ("slices", 3, 5_000, 0),
        ("slices", 4, 50_000, 1),  # no point of the cloud was near
    ],
)
def test_a_small_group_that_was_asked_for_is_found(method, d, n, seed):
    X, law = table_with_a_small_group(d, n, seed)
    release = dpg.fit_gmm(X, 3, epsilon=1.0, bounds=(0, 100), method=method, random_seed=seed, progress=False)
    fresh = law.sample(20_000, rng=99)
    assert np.mean(law.log_density(fresh) - release.log_density(fresh)) < 0.06


def test_a_move_that_overflows_leaves_what_was_found():
    def fails(fit):
        raise np.linalg.LinAlgError("Matrix is not positive definite")

    best = 1.0, 8
    for broken in ({"grown": fails}, {"improved": fails}, {"value": fails}):
        steps = {"grown": int, "fewer": lambda fit: [fit], "value": float, "improved": lambda fit: (9.0, fit)}
        assert moved(best, **steps | broken) == best


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
@pytest.mark.parametrize("n_bins", [2, 3, 5])
def test_blocks_are_no_larger_than_the_grid(n_bins):
    X = np.random.default_rng(0).normal(size=(500, 2))
    for method in ("histogram", "slices"):
        release = dpg.fit_gmm(
            X, 1, epsilon=1.0, bounds=(-4, 4), method=method, n_bins=n_bins, random_seed=1, progress=False
        )
        assert abs(release.means).max() < 1

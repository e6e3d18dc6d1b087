"""Cell probabilities against direct integrals, and against counted records."""

import numpy as np
import pytest
from scipy import integrate, stats

from pm_dpgmm.mechanisms.histogram import cell_counts
from pm_dpgmm.mixture.cell_probabilities import exact_cell_probabilities
from pm_dpgmm.mixture.mixture import Mixture

LINE = Mixture([0.3, 0.7], [[-1.0], [2.0]], [[[0.04]], [[4.0]]])
PLANE = Mixture([0.6, 0.4], [[0.0, 1.0], [2.5, -1.0]], [[[0.5, 0.35], [0.35, 0.5]], [[0.01, 0.0], [0.0, 2.0]]])


def test_one_column_is_exact_with_the_tails_in_the_outermost_cells():
    bounds = np.array([[-3.0, 5.0]])
    found = exact_cell_probabilities(LINE, bounds, 16)
    edges = np.linspace(-3, 5, 17)
    edges[0], edges[-1] = -np.inf, np.inf
    cdf = sum(
        w * stats.norm.cdf(edges, m[0], s[0, 0] ** 0.5)
        for w, m, s in zip(LINE.weights, LINE.means, LINE.covariances, strict=True)
    )
    np.testing.assert_allclose(found, np.diff(cdf), atol=1e-13)


@pytest.mark.parametrize("n_cells", [2, 5, 12])
def test_two_columns_equal_a_direct_integral(n_cells):
    bounds = np.array([[-2.0, 3.0], [-3.0, 3.0]])
    found = exact_cell_probabilities(PLANE, bounds, n_cells).reshape(n_cells, n_cells)
    assert found.sum() == pytest.approx(1, abs=1e-13)
    ends = [np.linspace(low, high, n_cells + 1) for low, high in bounds]
    for end in ends:
        end[0], end[-1] = -30, 30
    rng = np.random.default_rng(1)
    for i, j in rng.integers(n_cells, size=(4, 2)):
        exact = 0.0
        for w, m, s in zip(PLANE.weights, PLANE.means, PLANE.covariances, strict=True):
            slope = s[0, 1] / s[0, 0]
            rest = (s[1, 1] - slope * s[0, 1]) ** 0.5

            def density(x, m=m, s=s, slope=slope, rest=rest, j=j):
                inner = stats.norm.cdf(ends[1][j : j + 2], m[1] + slope * (x - m[0]), rest)
                return stats.norm.pdf(x, m[0], s[0, 0] ** 0.5) * (inner[1] - inner[0])

            low, high = np.clip([ends[0][i], ends[0][i + 1]], m[0] - 10 * s[0, 0] ** 0.5, m[0] + 10 * s[0, 0] ** 0.5)
            exact += w * integrate.quad(density, low, high, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
        assert found[i, j] == pytest.approx(exact, abs=1e-10)


def test_counted_records_follow_it():
    """Chi-square of 20 000 counted records; false alarm 1e-5 for each of the two."""
    for mixture, bounds in ((LINE, [[-3.0, 5.0]]), (PLANE, [[-2.0, 3.0], [-1.0, 2.0]])):
        records = mixture.sample(20_000, rng=np.random.default_rng(2))
        counts = cell_counts(records, bounds=np.array(bounds), n_cells=6).ravel()
        expected = 20_000 * exact_cell_probabilities(mixture, np.array(bounds), 6)
        kept = expected > 5
        assert stats.chi2.sf(((counts - expected)[kept] ** 2 / expected[kept]).sum(), kept.sum()) > 1e-5


def test_far_and_needle_like_components_lose_no_mass():
    far = Mixture([0.5, 0.5], [[1e3, -1e3], [0.0, 0.0]], [np.eye(2), np.diag([1e-8, 1e-8])])
    found = exact_cell_probabilities(far, np.array([[-1.0, 1.0], [-1.0, 1.0]]), 3).reshape(3, 3)
    np.testing.assert_allclose(found[2, 0], 0.5, atol=1e-12)
    np.testing.assert_allclose(found[1, 1], 0.5, atol=1e-9)
    with pytest.raises(ValueError, match="1 or 2 columns, got 3"):
        exact_cell_probabilities(Mixture([1.0], [[0.0] * 3], [np.eye(3)]), np.array([[-1.0, 1.0]] * 3), 2)

"""Sets where one mixture's density is above another's: probabilities against quadrature and closed forms."""

import numpy as np
import pytest
from scipy import stats

from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.mixture.scheffe_sets import Lines, scheffe_sets
from pm_dpgmm.mixture.total_variation import total_variation_1d


def random_mixture(rng, k, spread):
    deviations = 10 ** rng.uniform(-spread, spread, k)
    means = rng.normal(size=k) * 10 ** rng.uniform(-spread, spread, k)
    return Mixture(rng.dirichlet(np.full(k, 2.0)), means[:, None], deviations[:, None, None] ** 2)


def test_of_two_normals_the_difference_is_their_total_variation():
    rng = np.random.default_rng(1)
    pairs = [(random_mixture(rng, 1, 2.0), random_mixture(rng, 1, 2.0)) for _ in range(50)]
    pairs += [(one, one) for one, _ in pairs[:2]]
    found = scheffe_sets(*(Lines.of(list(side)) for side in zip(*pairs, strict=True)))
    exact = [
        total_variation_1d(
            a.means[0, 0], np.sqrt(a.covariances[0, 0, 0]), b.means[0, 0], np.sqrt(b.covariances[0, 0, 0])
        )
        for a, b in pairs
    ]
    np.testing.assert_allclose(found.own - found.other, exact, atol=1e-12)


@pytest.mark.thorough(quick=["1.0"])
@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_of_mixtures_it_is_the_integral_of_the_difference(spread):
    rng = np.random.default_rng(2)
    for _ in range(10):
        a, b = random_mixture(rng, 3, spread), random_mixture(rng, 2, spread)
        found = scheffe_sets(Lines.of([a]), Lines.of([b]))
        parts = [
            one.means[:, 0, None] + np.sqrt(one.covariances[:, 0, 0, None]) * np.linspace(-9, 9, 20_001)
            for one in (a, b)
        ]
        points = np.unique(np.concatenate([part.ravel() for part in parts]))
        gaps = np.exp(a.log_density(points[:, None])) - np.exp(b.log_density(points[:, None]))
        assert found.own[0] - found.other[0] == pytest.approx(np.trapezoid(np.abs(gaps), points) / 2, abs=2e-5)


def test_far_tails_and_narrow_spikes_are_seen():
    pair = Lines.of([Mixture([0.5, 0.5], [[1e9], [1e9 + 5]], [[[1e-6]], [[1.0]]]), Mixture([1.0], [[1e9]], [[[4.0]]])])
    found = scheffe_sets(pair[:1], pair[1:])
    assert 0.6 < found.own[0] < 1 and found.other[0] < 0.2
    inside = found.parts(stats.norm.cdf(found.edges, 1e9, 2.0), 1.0)
    assert inside[0] == pytest.approx(found.other[0], abs=1e-12)


def test_two_columns_are_refused():
    with pytest.raises(ValueError, match="mixtures must have one column, got 2"):
        Lines.of([Mixture([1.0], [[0.0, 0.0]], [np.eye(2)])])

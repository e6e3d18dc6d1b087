import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from pm_dpgmm.mechanisms import ball_sum
from pm_dpgmm.mechanisms.ball_sum import INSIDE, RADIUS, ball_steps, noisy_ball_sum, shrunk
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter

WHOLE = Fraction(1)
numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)
vectors = hnp.arrays(float, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=numbers)


def exact_length(row):
    """Squared, of integers."""
    return sum(int(x) ** 2 for x in row)


@given(vectors, st.floats(1e-300, 1e300))
def test_no_row_is_longer_than_the_radius(rows, radius):
    """Whatever the numbers are: NaN, infinite, subnormal, so large that squares overflow."""
    points, inside = shrunk(rows, radius=radius)
    assert all(exact_length(point) <= RADIUS**2 for point in points)
    assert not inside[~np.isfinite(rows).all(axis=1)].any()


@given(vectors, vectors, st.floats(1e-3, 1e3))
def test_a_row_is_a_function_of_its_vector_alone(rows, others, radius):
    both = [np.vstack([row, np.broadcast_to(others.ravel()[0], row.shape)]) for row in rows]
    alone = [shrunk(row[None], radius=radius) for row in rows]
    for pair, (point, flag) in zip(both, alone, strict=True):
        together, flags = shrunk(pair, radius=radius)
        assert together[0].tobytes() == point[0].tobytes() and flags[0] == flag[0]


@given(vectors, st.floats(1e-3, 1e3))
def test_two_data_sets_that_differ_in_a_row_are_as_close_as_the_noise_assumes(rows, radius):
    points, inside = shrunk(rows, radius=radius)
    steps = ball_steps()
    for (one, first), (other, second) in [((points[0], inside[0]), (points[-1], inside[-1]))]:
        moved = exact_length(one - other) + ((int(first) - int(second)) * INSIDE) ** 2
        assert moved <= steps**2


def test_directions_and_short_vectors_stay():
    rows = np.array([[3.0, 4.0], [0.3, -0.4], [1e300, -1e300], [0.0, 0.0]])
    points, inside = shrunk(rows, radius=1.0)
    np.testing.assert_allclose(points[0] / RADIUS, [0.6, 0.8], rtol=2e-6)
    np.testing.assert_allclose(points[1] / RADIUS, [0.3, -0.4], rtol=1e-9)
    np.testing.assert_allclose(points[2] / RADIUS, [math.sqrt(0.5), -math.sqrt(0.5)], rtol=2e-6)
    assert inside.tolist() == [False, True, False, True]


def test_the_noise_is_that_of_a_diameter_and_a_flag():
    """At the whole budget: scale / steps is mu, up to rounding up."""
    budget = GaussianFilter.of(1.0, 1e-6)
    found, left = noisy_ball_sum(np.zeros((10, 3)), radius=2.0, budget=budget, share=WHOLE)
    mu = math.sqrt(budget.limit)
    assert found.noise_scale == pytest.approx(2.0 * math.sqrt(4 + 1 / 4) / mu, rel=1e-6)
    assert found.n_inside_scale == pytest.approx(2 * math.sqrt(4 + 1 / 4) / mu, rel=1e-6)
    assert left.remaining_share == pytest.approx(0.0, abs=1e-6) and left.n_numbers == 4


def test_released_numbers_scatter_as_they_say():
    """Means and variances of 4,000 releases, within four standard errors: false alarm 6e-5 for each of 12."""
    rng = np.random.default_rng(1)
    rows = np.array([[0.5, -0.5], [0.1, 0.2], [9.0, 0.0], [np.nan, 0.0]])
    budget = GaussianFilter.of(1.0, 1e-6)
    runs = [noisy_ball_sum(rows, radius=1.0, budget=budget, share=WHOLE, rng=rng)[0] for _ in range(4_000)]
    values = np.array([np.append(run.total, run.n_inside) for run in runs])
    scales = np.array([runs[0].noise_scale] * 2 + [runs[0].n_inside_scale])
    expected = np.array([1.6, -0.3, 2.0])
    assert (np.abs(values.mean(axis=0) - expected) < 4 * scales / math.sqrt(len(runs))).all()
    assert (np.abs(values.var(axis=0) / scales**2 - 1) < 4 * math.sqrt(2 / len(runs))).all()


@pytest.mark.parametrize(
    ("rows", "radius", "rule"),
    [
        (np.zeros((3, 2)), 0.0, "radius must be"),
        (np.zeros((3, 2)), math.nan, "radius must be"),
        (np.zeros((0, 2)), 1.0, "vectors must have a shape of at most"),
        (np.zeros((1, 2**18)), 1.0, "vectors must have a shape of at most"),
    ],
)
def test_what_cannot_be_released_is_refused_before_anything_is_spent(rows, radius, rule, monkeypatch):
    monkeypatch.setattr(ball_sum, "discrete_gaussian", lambda *args, **named: pytest.fail("noise was drawn"))
    with pytest.raises(ValueError, match=rule):
        noisy_ball_sum(rows, radius=radius, budget=GaussianFilter.of(1.0, 1e-6), share=WHOLE)


def test_more_than_is_left_is_refused():
    _, left = noisy_ball_sum(np.zeros((3, 1)), radius=1.0, budget=GaussianFilter.of(1.0, 1e-6), share=WHOLE / 2)
    with pytest.raises(ValueError, match="share must be"):
        noisy_ball_sum(np.zeros((3, 1)), radius=1.0, budget=left, share=WHOLE)

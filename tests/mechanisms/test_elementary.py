import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pm_dpgmm.mechanisms.gaussian import gaussian_mechanism, gaussian_mu
from pm_dpgmm.mechanisms.histogram import cell_counts, histogram_loss, noisy_counts
from pm_dpgmm.mechanisms.stability_histogram import stability_histogram, stability_loss
from pm_dpgmm.mechanisms.truncated_laplace import (
    truncated_laplace,
    truncated_laplace_count,
    truncated_laplace_loss,
    truncation_bound,
)
from pm_dpgmm.privacy.curves import TruncatedLaplaceProfile
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import truncated_discrete_laplace
from verification.neighbours import add_remove_pairs, replace_one_pairs

REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE


# ------------------------------------------------------------------ histogram
@pytest.mark.parametrize("n_features", [1, 2])
@given(data=st.data())
@settings(deadline=None)
def test_replacing_a_record_changes_two_counts_by_one_and_adding_one_changes_one(n_features, data):
    bounds = np.array([[-2.0, 3.0], [0.0, 1e-3]])[:n_features]
    n_cells = data.draw(st.integers(2, 7))
    x, y = data.draw(replace_one_pairs(n_features, bounds=(-2.0, 3.0)))
    change = cell_counts(x, bounds=bounds, n_cells=n_cells) - cell_counts(y, bounds=bounds, n_cells=n_cells)
    assert np.abs(change).sum() <= histogram_loss(epsilon=1.0, neighbouring=REPLACE).n_counts == 2
    assert np.abs(change).max() <= 1 and change.sum() == 0
    x, y = data.draw(add_remove_pairs(n_features, bounds=(-2.0, 3.0)))
    change = cell_counts(x, bounds=bounds, n_cells=n_cells) - cell_counts(y, bounds=bounds, n_cells=n_cells)
    assert np.abs(change).sum() == histogram_loss(epsilon=1.0, neighbouring=ADD_REMOVE).n_counts == 1


def test_every_record_is_counted_once_in_the_right_cell():
    bounds = np.array([[0.0, 10.0]])
    counts = cell_counts([[0.0], [0.999], [1.0], [9.99], [10.0], [-1e308], [1e308]], bounds=bounds, n_cells=10)
    assert counts.tolist() == [3, 1, 0, 0, 0, 0, 0, 0, 0, 3]
    wide = cell_counts([[-1e308], [1e308]], bounds=np.array([[-1.7e308, 1.7e308]]), n_cells=2)
    assert wide.tolist() == [1, 1]


def test_histogram_noise_has_the_stated_scale():
    noisy, loss = noisy_counts(np.zeros(40_000, dtype=np.int64), epsilon=0.5, neighbouring=REPLACE)
    assert loss.scale == 4.0 and loss.delta(0.5) == 0.0 and loss.delta(0.49) > 0
    # E|z| of a discrete Laplace is 2 q/(1 - q^2), sd of the mean about 4/200
    q = math.exp(-1 / 4)
    assert np.abs(noisy).mean() == pytest.approx(2 * q / (1 - q * q), abs=6 * 4 / 200)


# ------------------------------------------------------------------ truncated Laplace
@given(epsilon=st.floats(0.01, 5), delta=st.floats(1e-9, 0.4), sensitivity=st.integers(1, 500))
@settings(deadline=None)
def test_the_bound_is_the_smallest_that_keeps_delta(epsilon, delta, sensitivity):
    loss = truncated_laplace_loss(sensitivity=sensitivity, epsilon=epsilon, delta=delta)
    assert loss.delta(epsilon) <= delta
    if loss.bound > sensitivity:
        assert TruncatedLaplaceProfile(loss.scale, loss.bound - 1, sensitivity).delta(epsilon) > delta


def test_bound_at_an_epsilon_whose_quotient_rounds_down():
    loss = truncated_laplace_loss(sensitivity=127, epsilon=94.31629687814274, delta=1.14e-25)
    assert loss.delta(94.31629687814274) <= 1.14e-25 and loss.bound < 1000


def test_integer_bound_tends_to_the_papers_formula():
    loss = truncated_laplace_loss(sensitivity=100_000, epsilon=0.3, delta=1e-5)
    assert loss.bound / 100_000 == pytest.approx(truncation_bound(sensitivity=1.0, epsilon=0.3, delta=1e-5), rel=1e-4)


def test_real_values_get_grid_noise_within_the_bound():
    bound = truncation_bound(sensitivity=0.5, epsilon=1.0, delta=1e-3)
    values = [truncated_laplace(10.0, sensitivity=0.5, epsilon=1.0, delta=1e-3)[0] for _ in range(200)]
    assert max(abs(v - 10.0) for v in values) <= bound * (1 + 1e-5) and len(set(values)) > 190
    loss = truncated_laplace_loss(sensitivity=2, epsilon=1.0, delta=1e-3)
    assert all(abs(truncated_laplace_count(5, loss=loss) - 5) <= loss.bound for _ in range(50))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_truncated_laplace_refuses_values_that_are_not_finite(value):
    with pytest.raises(ValueError, match="value must be finite"):
        truncated_laplace(value, sensitivity=1.0, epsilon=1.0, delta=0.1)


# ------------------------------------------------------------------ Gaussian
@given(epsilon=st.floats(0.01, 30), log_delta=st.floats(-30, -0.5))
@settings(deadline=None)
def test_gaussian_calibration_is_exact(epsilon, log_delta):
    from verification.references.references import gaussian_delta

    delta = math.exp(log_delta)
    mu = gaussian_mu(epsilon, delta)
    assert float(gaussian_delta(epsilon, noise_multiplier=1 / mu)) <= delta
    assert float(gaussian_delta(epsilon, noise_multiplier=1 / (mu * (1 + 1e-6)))) > delta


def test_gaussian_mechanism_pays_for_rounding_and_sampler():
    noisy, scale, loss = gaussian_mechanism(np.full(20_000, 3.0), sensitivity=2.0, epsilon=1.0, delta=1e-6)
    assert loss.delta(1.0) <= 1e-6 and loss.mu >= 2.0 / scale
    assert scale == pytest.approx(2.0 / gaussian_mu(1.0, 1e-6), rel=1e-6)
    assert noisy.std() == pytest.approx(scale, rel=6 / math.sqrt(40_000))
    assert noisy.mean() == pytest.approx(3.0, abs=6 * scale / math.sqrt(20_000))


def test_gaussian_mechanism_at_extreme_budgets():
    _, _, loss = gaussian_mechanism(np.zeros(10_000), sensitivity=1.0, epsilon=800.0, delta=1e-6)
    assert loss.delta(800.0) <= 1e-6
    with pytest.raises(ValueError, match=r"epsilon must be at least 0\.0001"):
        gaussian_mechanism([0.0], sensitivity=1.0, epsilon=1e-6, delta=1e-6)
    with pytest.raises(ValueError, match="delta must be at least"):
        gaussian_mechanism(np.zeros(10_000), sensitivity=1.0, epsilon=1.0, delta=1e-17)


def test_gaussian_mechanism_refuses_values_that_are_not_finite():
    with pytest.raises(ValueError, match="value must be finite"):
        gaussian_mechanism([1.0, math.nan], sensitivity=1.0, epsilon=1.0, delta=1e-6)


# ------------------------------------------------------------------ stability histogram
def test_stability_histogram_keeps_shared_keys_in_sorted_order_and_drops_rare_ones():
    keys = ["z"] * 300 + ["a"] * 300 + [f"rare{i}" for i in range(50)]
    histogram, loss = stability_histogram(keys, epsilon=1.0, delta=1e-6)
    assert list(histogram) == ["a", "z"]
    assert loss.delta(1.0) <= 1e-6
    assert all(abs(histogram[key] - 300) <= 30 for key in histogram)


@pytest.mark.parametrize("key", [1.0, True, None, (1, 2.0), np.int64(3)])
def test_keys_that_could_show_a_single_record_are_refused(key):
    with pytest.raises(TypeError, match="keys must be str, int or tuples"):
        stability_histogram([0, key], epsilon=1.0, delta=1e-3)


@pytest.mark.parametrize("relation, parts", [(REPLACE, 2), (ADD_REMOVE, 1)])
def test_stability_histogram_spends_its_budget_once_per_changed_key(relation, parts):
    one, total = stability_loss(epsilon=1.0, delta=1e-3, neighbouring=relation)
    assert one.scale == parts and one.delta(1.0 / parts) <= 1e-3 / parts
    assert total.delta(1.0) <= 1e-3


@pytest.mark.thorough
def test_a_key_of_one_record_appears_with_probability_at_most_delta_and_the_target_is_the_mechanism():
    from verification.targets import stability

    one, _ = stability_loss(epsilon=1.0, delta=0.1, neighbouring=ADD_REMOVE)
    appears = sum(
        bool(
            stability_histogram(["x"], epsilon=1.0, delta=0.1, neighbouring=ADD_REMOVE, rng=np.random.default_rng(i))[0]
        )
        for i in range(2000)
    )
    exact = float((truncated_discrete_laplace(200_000, scale=one.scale, bound=one.bound) == one.bound).mean())
    assert exact <= 0.1 and abs(appears / 2000 - exact) < 6 * math.sqrt(0.1 / 2000)
    data, n = (0,) * 12 + (1,), 3000
    rng = np.random.default_rng(5)
    single = [stability_histogram(data, epsilon=1.0, delta=1e-2, rng=rng)[0] for _ in range(n)]
    many = stability(data, n, rng, noise=np.random.default_rng(6))
    kept = Counter(key for histogram in single for key in histogram)
    for key in (0, 1):  # two binomial shares, six standard errors
        share = np.mean(~np.isnan(many[:, key]))
        assert abs(kept[key] / n - share) < 6 * math.sqrt(0.5 / n)

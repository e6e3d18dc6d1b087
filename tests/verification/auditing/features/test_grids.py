"""Steps of grids: found however fine, whatever was added and whatever marks are among the values; none for floats."""

from __future__ import annotations

import numpy as np
import pytest

from verification.auditing.audit import audit
from verification.auditing.features.grids import steps_of

RUNS = np.rint(np.random.default_rng(1).laplace(size=2_000) * 2.0**30)


def has(steps, step):
    return any(found == pytest.approx(step, rel=1e-9) for found in steps)


@pytest.mark.parametrize("step", [0.01, 2.0**-40, 5.0, 1e-9, 3 * 2.0**-10, 2.0**300, 1e-200, 7.0])
@pytest.mark.parametrize("added", [0.0, 0.25, -77.3])
def test_a_fine_grid_is_found_whatever_was_added(step, added):
    for factor in (1, 2):
        assert has(steps_of(step * (factor * RUNS + added)), factor * step)


def test_steps_without_rounding_are_found_by_their_bits():
    """A million-fold odd multiple of so fine a power of two that decimals of doubles are as fine."""
    assert has(steps_of(RUNS * 999_983 * 2.0**-55), 999_983 * 2.0**-55)
    whole = np.rint(np.random.default_rng(1).laplace(size=2_000) * 2.0**48)
    assert has(steps_of(2 * whole + 1), 2.0)


def test_a_grid_of_few_spacings_of_its_numbers_is_found():
    rng = np.random.default_rng(4)
    assert has(steps_of(1000.1 + np.rint(rng.laplace(size=2_000) * 2.0**38) * 2.0**-39), 2.0**-39)


@pytest.mark.parametrize("step", [0.01, 1e-4, 2.0**-13])
def test_decimals_in_single_precision_are_found(step):
    k = np.rint(np.random.default_rng(4).laplace(size=2_000) * 1e5)
    values = (2 * k * step).astype(np.float32).astype(float)
    assert has(steps_of(values), 2 * step)


@pytest.mark.parametrize("mark", [-1.0, 0.3, np.pi, 1e5 + 0.1, 1e9 + 0.1, -999.9, 1e30])
def test_marks_of_failure_hide_no_grid(mark):
    rng = np.random.default_rng(2)
    for step in (2.0**-30, 1e-9, 1.0):
        values = np.where(rng.random(RUNS.size) < 0.05, mark, 2 * RUNS * step)
        assert has(steps_of(values), 2 * step)


@pytest.mark.parametrize("low, high", [(-2.7, 2.7), (0.1, 9.7)])
def test_limits_off_the_grid_hide_it_not(low, high):
    assert has(steps_of(np.clip(2 * RUNS * 2.0**-30, low, high)), 2.0**-29)


def test_some_values_of_another_kind_hide_no_grid():
    rng = np.random.default_rng(3)
    values = np.where(rng.random(RUNS.size) < 0.1, rng.laplace(size=RUNS.size), 2 * RUNS * 2.0**-30)
    assert has(steps_of(values), 2.0**-29)


def test_noise_of_floats_has_no_fine_grid():
    """Nor has it one by chance: what doubles leave in their last bits is looked at with level "bit" alone."""
    rng = np.random.default_rng(1)
    for make in (rng.laplace, rng.normal, rng.random, rng.standard_cauchy):
        for added, size in ((0.0, 50), (0.3, 5_000), (1e6, 5_000)):
            values = added + make(size=size)
            assert all(step > 1e-3 * np.diff(np.unique(values)).min() for step in steps_of(values))


def test_values_of_any_size_give_no_warning_and_no_endless_step():
    for values in (
        [0.0, 5e-324, 1e-323, 1e308],
        [-1e308, 1e308],
        [1.0],
        [0.0, 0.0],
        [1e300, 2e300, 3e300],
        [5e-324] * 9,
    ):
        assert all(0 < step < np.inf for step in steps_of(np.array(values)))


@pytest.mark.thorough
@pytest.mark.parametrize("level", ["value", "bit"])
def test_floats_of_sound_noise_on_a_grid_that_follows_the_data_are_refuted_no_more_than_said(level):
    """Rounding to a step after the noise is post-processing; at 1e-3 one alarm of 40 audits has probability .04."""

    def mechanism(data, n, rng):
        noisy = np.rint((data + rng.laplace(size=n)) * 64) / 64
        return np.rint(noisy / 0.1) * 0.1 if data < 0 else noisy

    wrong = [
        audit(
            mechanism,
            1.0,
            0.0,
            epsilon=1.1,
            n_samples=1_000,
            false_alarm=1e-3,
            level=level,
            rng=np.random.default_rng(i),
        )
        for i in range(20)
    ]
    assert sum(result.refuted for result in wrong) == 0

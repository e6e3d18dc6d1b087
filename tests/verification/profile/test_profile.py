"""The band of a privacy profile contains the exact curve, is tight, and knows when densities are wrong.

Error rates of the statistical checks are written beside them; together they are below 1e-6.
"""

from __future__ import annotations

import json
import math
import re

import matplotlib
import numpy as np
import pytest
from scipy import stats

from verification import proof_notes
from verification.profile import MeasuredProfile, privacy_profile
from verification.profile.band import mean_lower, refuted_in_a_row, weights
from verification.profile.profile import PROVED
from verification.profile.ratio_calibration import calibration
from verification.references.references import (
    gaussian_delta,
    gaussian_epsilon,
    hockey_stick,
    laplace_delta,
    randomised_response_delta,
)

matplotlib.use("Agg")
SIGMA = 2.5747  # noise multiplier of (1, 1e-3)-DP; test_references.py checks it
POINTS = np.unique(np.concatenate([np.linspace(0, 3, 601), [5.0, 40.0, 599.0]]))


def laplace(data, n, rng):
    return data + rng.laplace(size=n)


def laplace_log_density(y, data):
    return -np.abs(y - data)


def gaussian(data, n, rng):
    return data + SIGMA * rng.normal(size=n)


def gaussian_log_density(y, data):
    return -((y - data) ** 2) / (2 * SIGMA**2)


def one_sided(data, n, rng):
    return data + rng.exponential(size=n)


def one_sided_log_density(y, data):
    return np.where(y >= data, data - y, -np.inf)


def response(data, n, rng):
    return (rng.random(n) < 0.8) == bool(data)


def response_log_density(y, data):
    return np.where(y == bool(data), math.log(0.8), math.log(0.2))


def strange(data, n, rng):
    return rng.choice(4, size=n, p=STRANGE[int(data)])


def strange_log_density(y, data):
    with np.errstate(divide="ignore"):
        return np.log(STRANGE[int(data)])[y]


STRANGE = {0: [0.05, 0.05, 0.4, 0.5], 1: [0.0, 0.1, 0.1, 0.8]}  # unlike in both directions
CASES = {
    "laplace": (laplace, laplace_log_density, *[lambda e: laplace_delta(e, scale=1.0)] * 2),
    "gaussian": (gaussian, gaussian_log_density, *[lambda e: gaussian_delta(e, noise_multiplier=SIGMA)] * 2),
    "response": (
        response,
        response_log_density,
        *[lambda e: randomised_response_delta(e, true_epsilon=math.log(4))] * 2,
    ),
    "one_sided": (
        one_sided,
        one_sided_log_density,
        lambda e: np.full(np.shape(e), -math.expm1(-1)),
        lambda e: -np.expm1(np.minimum(0, np.asarray(e) - 1)),
    ),
    "strange": (
        strange,
        strange_log_density,
        lambda e: hockey_stick(STRANGE[0], STRANGE[1], e),
        lambda e: hockey_stick(STRANGE[1], STRANGE[0], e),
    ),
}


def profile_of(name, seed, **settings):
    mechanism, log_density, *_ = CASES[name]
    settings = {"log_density": log_density, "n_samples": 20_000, "rng": np.random.default_rng(seed)} | settings
    return privacy_profile(mechanism, 0.0, 1.0, **settings)


def truth(name, epsilon):
    return np.stack([np.broadcast_to(curve(epsilon), np.shape(epsilon)) for curve in CASES[name][2:]])


def missed(profile, name, points=POINTS):
    low, high = profile.band(points)
    exact = truth(name, points)
    # 1e-8: log ratios are rounded to 1e-9, which moves a curve without noise by as much
    return bool(np.any(low > exact + 1e-8) or np.any(high < exact - 1e-8))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("epsilons", [None, [0.7], [0.5, 1.0, 600.0]])
def test_the_band_contains_the_curves_between_grid_points_too(name, epsilons):
    # false alarms: 15 profiles at 1e-8
    profile = profile_of(name, 1, epsilons=epsilons, false_alarm=1e-8)
    assert not missed(profile, name)
    low, high = profile.band(POINTS)
    assert np.all(np.diff(low) <= 1e-12) and np.all(np.diff(high) <= 1e-12)
    assert np.all((low >= 0) & (high <= 1) & (low <= high))


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_bands_miss_as_rarely_as_promised(name):
    # 40 bands that may miss with probability 0.2: more than the limit with probability 1e-8 at most
    misses = sum(missed(profile_of(name, (2, seed), n_samples=1_000, false_alarm=0.2), name) for seed in range(40))
    assert misses <= stats.binom.isf(1e-8, 40, 0.2)


@pytest.mark.thorough
@pytest.mark.parametrize("name, delta", [("gaussian", 1e-2), ("laplace", 0.1), ("strange", 0.06), ("one_sided", 0.7)])
def test_point_bounds_are_too_high_as_rarely_as_promised(name, delta):
    # 150 bounds at 0.05, so more than the limit with probability 1e-8 at most, twice
    grid = np.linspace(0, 4, 400_001)
    largest = truth(name, grid).max(axis=0)
    epsilon = grid[np.argmax(largest <= delta)]
    at = 0.4
    profiles = [profile_of(name, (3, seed), n_samples=1_000, epsilons=[0.0], false_alarm=0.05) for seed in range(150)]
    limit = stats.binom.isf(1e-8, 150, 0.05)
    assert sum(profile.epsilon_bound_at(delta) > epsilon + 1e-6 for profile in profiles) <= limit
    exact = float(truth(name, at).max())
    assert sum(profile.delta_bound_at(at) > exact + 1e-8 for profile in profiles) <= limit


@pytest.mark.thorough
def test_the_point_bound_spends_its_error():
    """A bound that is never too high is not tight: of 150 at 0.3 some must be."""
    # It is too high at a rate of 0.16 (82 of 500 other seeds): fewer than 4 of 150 with probability 2e-8.
    epsilon = float(gaussian_epsilon(1e-2, noise_multiplier=SIGMA))
    settings = {"epsilons": [0.0], "n_samples": 2_000, "false_alarm": 0.3}
    profiles = [profile_of("gaussian", (4, seed), **settings) for seed in range(150)]
    assert sum(profile.epsilon_bound_at(1e-2) > epsilon for profile in profiles) >= 4


@pytest.mark.thorough
def test_tightness():
    """Medians over 3 seeds; one point bound has a standard deviation of 0.004."""
    profiles = [profile_of("gaussian", (5, seed), n_samples=200_000) for seed in range(3)]
    assert 0.98 < np.median([profile.epsilon_bound_at(1e-3) for profile in profiles]) < 1.005
    assert 0.96 < np.median([profile.epsilon_lower(1e-3) for profile in profiles]) < 1.0
    assert 1.0 < np.median([profile.epsilon_upper(1e-3) for profile in profiles]) < 1.06
    at_one = [profile.delta_bound_at(1.0) for profile in profiles]
    assert 0.9e-3 < np.median(at_one) < 1.02e-3
    laplace_profile = profile_of("laplace", 5, n_samples=200_000)
    assert 0.9999 < laplace_profile.epsilon_lower(0.0) <= 1.0
    exact = 1 + 2 * math.log1p(-0.01)
    assert exact - 0.002 < laplace_profile.epsilon_bound_at(0.01) <= exact


def test_disjoint_parts_give_an_infinite_epsilon():
    profile = profile_of("one_sided", 6)
    assert profile.epsilon_lower(0.5) == profile.epsilon_bound_at(0.5) == profile.epsilon_bound_at(0.0) == math.inf
    assert profile.epsilon_upper(0.5) == math.inf
    assert 0.6 < profile.delta_lower(math.inf) <= -math.expm1(-1)
    assert 0.6 < profile.delta_bound_at(math.inf) <= -math.expm1(-1)
    assert profile.epsilon_upper(0.7) == 0.0


def test_nothing_to_see():
    profile = privacy_profile(lambda data, n, rng: rng.normal(size=n), 0, 1, log_density=lambda y, data: -(y**2) / 2)
    assert profile.epsilon_lower(0.0) == profile.epsilon_bound_at(1e-3) == profile.delta_bound_at(0.1) == 0.0
    assert profile.delta_upper(0.0) < 1e-3
    assert profile.calibration.passed


def test_a_fixed_mechanism_is_noted():
    profile = privacy_profile(
        lambda data, n, rng: np.full(n, data), 0, 1, log_density=lambda y, data: np.where(y == data, 0.0, -np.inf)
    )
    assert profile.epsilon_lower(0.9) == math.inf
    assert profile.notes == ("the mechanism is not random: each data set has a single output",)


@pytest.mark.thorough(quick=["one_sided-<lambda>"])
@pytest.mark.parametrize(
    "name, wrong",
    [
        ("gaussian", lambda y, data: -((y - data) ** 2) / (2 * (1.1 * SIGMA) ** 2)),  # scale
        ("gaussian", lambda y, data: -((y - data - 0.1 * data) ** 2) / (2 * SIGMA**2)),  # shift
        ("gaussian", lambda y, data: gaussian_log_density(y, data) + 0.02 * data),  # a forgotten normaliser
        ("gaussian", lambda y, data: gaussian_log_density(y, 1 - data)),  # swapped
        ("gaussian", laplace_log_density),  # another law
        ("laplace", lambda y, data: 1.05 * laplace_log_density(y, data)),
        (
            "laplace",
            lambda y, data: np.where((y > -5) | (data == 0), laplace_log_density(y, data), -np.inf),
        ),  # impossible
        ("response", lambda y, data: np.where(y == bool(data), math.log(0.79), math.log(0.21))),
        ("one_sided", lambda y, data: data - y),  # the support forgotten
    ],
)
def test_wrong_densities_are_found(name, wrong):
    profile = profile_of(name, 7, log_density=wrong, n_samples=200_000)
    assert not profile.calibration.passed
    assert "densities look wrong" in str(profile) and "says nothing" in str(profile)


@pytest.mark.thorough(quick=["response"])
@pytest.mark.parametrize("name", CASES)
def test_right_densities_pass(name):
    # 200 tests at 1e-3: more failures than this with probability 1e-8 at most
    passed = [profile_of(name, (8, seed), n_samples=1_000, epsilons=[0.0]).calibration.passed for seed in range(200)]
    assert passed.count(False) <= stats.binom.isf(1e-8, 200, 1e-3)


@pytest.mark.thorough
def test_p_values_of_right_densities_are_valid():
    # At 0.3, more than the limit with probability 1e-8 at most.
    rng = np.random.default_rng(9)
    p_values = []
    for _ in range(200):
        label = rng.integers(2, size=500).astype(bool)
        ratio = rng.normal(np.where(label, 0.5, -0.5), 1.0)  # N(+-1/2, 1) has the log ratio itself
        p_values.append(calibration(ratio, label, false_alarm=0.3).p_value)
    assert sum(p <= 0.3 for p in p_values) <= stats.binom.isf(1e-8, 200, 0.3)


def test_a_run_that_cannot_be_fails_at_once():
    label = np.arange(1000) % 2 == 0
    ratio = np.zeros(1000)
    ratio[0] = -np.inf  # a run on x that has no density on x
    assert calibration(ratio, label, false_alarm=1e-3).p_value == 0.0


def test_a_coarser_density_is_calibrated_and_its_lower_bounds_hold():
    """It is the density of a function of the output; upper bounds are then of that function only."""

    def mechanism(data, n, rng):
        return np.column_stack([laplace(data, n, rng), laplace(data, n, rng)])

    first = privacy_profile(
        mechanism, 0, 1, log_density=lambda y, data: laplace_log_density(y[:, 0], data), rng=np.random.default_rng(10)
    )
    assert first.calibration.passed
    assert first.epsilon_lower(0.0) <= 1.0 < 2.0  # two outputs lose 2


def test_means_of_bounded_variables():
    # 300 bounds per law and side at 0.1: more misses than the limit with probability 1e-8 at most
    rng = np.random.default_rng(11)
    limit = stats.binom.isf(1e-8, 300, 0.1)
    for draw, mean in ((lambda: rng.random(400), 0.5), (lambda: (rng.random(400) < 0.01) * 1.0, 0.01)):
        lows = [mean_lower(draw(), least=0.0, error=0.1, pilot=20) for _ in range(300)]
        highs = [-mean_lower(-draw(), least=-1.0, error=0.1, pilot=20) for _ in range(300)]
        assert sum(low > mean for low in lows) <= limit and sum(high < mean for high in highs) <= limit
    assert np.median(lows) <= 0.01 <= np.median(highs) < 0.05
    assert mean_lower(np.zeros(100), least=0.0, error=0.1, pilot=10) == 0.0


def test_the_mean_bound_is_a_root_of_the_capital():
    values = np.random.default_rng(12).random(1000)
    low = mean_lower(values, least=0.0, error=0.01, pilot=500)
    seen = values[:500]
    spread = (np.square(seen - seen.mean()).sum() + (seen.max() / 2) ** 2) / 501
    stake = min(math.sqrt(2 * math.log(100) / (500 * spread)), 0.9 / seen.mean())
    assert np.log1p(stake * (values[500:] - low)).sum() == pytest.approx(math.log(100), abs=1e-4)


def test_a_claim_that_is_refuted_out_of_turn_does_not_count():
    s, r = weights(np.full(10_000, 2.0))
    epsilons, deltas = np.array([0.5, 3.0, 0.6]), np.full(3, 0.1)
    with_gap = refuted_in_a_row(s, r, epsilons, deltas, error=0.05, pilot=100)
    assert with_gap == 1
    assert refuted_in_a_row(s, r, epsilons[[0, 2]], deltas[:2], error=0.05, pilot=100) == 2


@pytest.mark.parametrize("separation", [1e-6, 5.0, 50.0, 690.0, 1500.0])
def test_hostile_scales(separation):
    profile = privacy_profile(
        lambda data, n, rng: separation * data + laplace(0.0, n, rng),
        0.0,
        1.0,
        log_density=lambda y, data: -np.abs(y - separation * data),
        rng=np.random.default_rng(13),
        n_samples=5_000,
    )
    low, high = profile.band([0.0, 1.0, 10.0, 100.0, 650.0, math.inf])
    assert np.all(np.isfinite(low)) and np.all(low <= high)
    exact = -math.expm1(min(0.0, (1.0 - separation) / 2))
    assert profile.delta_lower(1.0) <= exact <= profile.delta_upper(1.0)
    assert 0 <= profile.epsilon_bound_at(0.1) <= max(0.0, separation + 2 * math.log(0.9)) + 1e-6 or separation > 600


def test_same_seed_same_result_whatever_the_number_of_workers():
    one, two, parallel = (profile_of("gaussian", 14, n_jobs=jobs).as_dict() for jobs in (1, 1, 2))
    assert one == two == parallel


def test_outputs_in_parts():
    def parts(data, n, rng):
        return laplace(data, n, rng), rng.integers(2, size=n)

    profile = privacy_profile(
        parts,
        0,
        1,
        log_density=lambda outputs, data: laplace_log_density(outputs[0], data),
        n_samples=5_000,
        rng=np.random.default_rng(15),
    )
    assert not missed(profile, "laplace")


def test_printed_bands_hold_what_is_certified():
    """Lower bounds were printed above themselves: delta(0) in [1, 1], where it is .9996."""
    for kind in ("gaussian", "laplace"):
        profile = profile_of(kind, 16)
        told = re.findall(r"delta\((\S+)\) in \[(\S+), (\S+)\]", str(profile))
        assert len(told) == 5
        for point, low, high in told:
            assert float(low) <= profile.delta_lower(float(point)) and profile.delta_upper(float(point)) <= float(high)
            assert float(low) >= profile.delta_lower(float(point)) * 0.998


def test_the_result_is_frozen_plain_and_can_be_read():
    profile = profile_of("gaussian", 16)
    assert isinstance(profile, MeasuredProfile)
    for name in ("epsilons", "estimate", "upper", "lines", "lower_at_infinity", "log_ratio"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(profile, name)[...] = 0
    with pytest.raises(AttributeError):
        profile.false_alarm = 0.5
    plain = json.loads(json.dumps(profile.as_dict(), allow_nan=False))
    assert set(plain) == set(profile.__slots__) - {"log_ratio"}
    assert plain["calibration"]["passed"] is True
    assert "error probability 0.05" in str(profile) and "densities look right" in str(profile)
    assert np.shape(profile.delta_lower(np.ones((2, 3)))) == (2, 3)


def test_plot():
    import matplotlib.pyplot as plt

    profile = profile_of("one_sided", 17)
    ax = profile.plot(claim=lambda epsilon: laplace_delta(epsilon, scale=1.0))
    assert len(ax.collections) == 2
    assert profile.plot(ax) is ax
    wrong = profile_of("gaussian", 17, log_density=lambda y, data: 2 * gaussian_log_density(y, data), n_samples=100_000)
    assert "densities look wrong" in wrong.plot().get_title()
    plt.close("all")


BAD = [
    ({"log_density": None}, TypeError, "log_density must be callable"),
    ({"log_density": lambda y, data: y[:2]}, ValueError, "log_density must return numbers of shape"),
    ({"log_density": lambda y, data: np.full(y.shape, np.nan)}, ValueError, "not NaN"),
    ({"log_density": lambda y, data: np.full(y.shape, -np.inf)}, ValueError, "-inf under both"),
    ({"epsilons": []}, ValueError, "epsilons must be a sequence"),
    ({"epsilons": 1.0}, ValueError, "epsilons must be a sequence"),
    ({"epsilons": [[1.0]]}, ValueError, "epsilons must be a sequence"),
    ({"epsilons": [-0.1]}, ValueError, "epsilons must lie between 0 and 600"),
    ({"epsilons": [math.nan]}, ValueError, "epsilons must lie between 0 and 600"),
    ({"epsilons": [math.inf]}, ValueError, "epsilons must lie between 0 and 600"),
    ({"epsilons": ["1"]}, TypeError, "epsilons must be numbers"),
    ({"epsilons": [True]}, TypeError, "epsilons must be numbers"),
    ({"n_samples": 99}, ValueError, "n_samples must be at least 100"),
    ({"n_samples": 1e4}, TypeError, "n_samples must be an integer"),
    ({"false_alarm": 0.0}, ValueError, "false_alarm must lie strictly"),
    ({"false_alarm": "5%"}, TypeError, "false_alarm must be a real number"),
    ({"progress": 1}, TypeError, "progress must be True or False"),
    ({"n_jobs": 0}, ValueError, "n_jobs must be at least 1"),
    ({"rng": 3}, TypeError, "rng must be a numpy.random.Generator"),
]


@pytest.mark.parametrize("settings, error, message", BAD)
def test_bad_arguments(settings, error, message):
    with pytest.raises(error, match=message):
        profile_of("laplace", 18, **settings)


def test_a_mechanism_that_is_no_mechanism():
    with pytest.raises(TypeError, match="mechanism must be callable"):
        privacy_profile(3, 0, 1, log_density=laplace_log_density)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda p: p.epsilon_lower(1.0), ValueError, "delta must be at least 0 and below 1"),
        (lambda p: p.epsilon_upper("a"), TypeError, "delta must be a real number"),
        (lambda p: p.epsilon_bound_at(-0.1), ValueError, "delta must be at least 0"),
        (lambda p: p.delta_lower(-1.0), ValueError, "epsilon must be at least 0"),
        (lambda p: p.delta_upper([math.nan]), ValueError, "epsilon must be at least 0"),
        (lambda p: p.delta_upper("a"), TypeError, "epsilon must be numbers"),
        (lambda p: p.delta_bound_at(-1.0), ValueError, "epsilon must be at least 0"),
        (lambda p: p.delta_bound_at([1.0]), TypeError, "epsilon must be a real number"),
    ],
)
def test_bad_arguments_of_the_result(call, error, message):
    with pytest.raises(error, match=message):
        call(profile_of("laplace", 19, n_samples=1_000))


def test_every_proved_function_has_one_section():
    note = proof_notes.ROOT / "verification" / "profile" / "profile.md"
    assert note in proof_notes.notes()
    sections = [name for name, _ in proof_notes.HEADING.findall(note.read_text(encoding="utf-8"))]
    assert sorted(sections) == sorted(part.__name__ for part in (privacy_profile, *PROVED))

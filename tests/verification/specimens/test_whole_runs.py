"""The truths of the whole runs, derived again. Every statistical check has a false-alarm rate of at most 1e-6."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from verification.specimens import local_central, whole_runs
from verification.specimens.whole_runs import ITERATIONS, Run, advanced, central_run, concentrated, local_run

SPECIMENS = {s.name: s for s in whole_runs.specimens()}
FALSE_ALARM = 1e-6


def losses(specimen, n=20_000):
    """Exact losses of simulated outputs, in both orders."""
    rng, found = np.random.default_rng(1), []
    for data, other in ((specimen.x, specimen.x_neighbour), (specimen.x_neighbour, specimen.x)):
        outputs = specimen.mechanism(data, n, rng)
        found.append(specimen.log_density(outputs, data) - specimen.log_density(outputs, other))
    return found


def epsilon_at(delta, losses):
    low, high = 0.0, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        excess = np.mean(np.maximum(0, -np.expm1(np.minimum(0, middle - losses))))
        low, high = (middle, high) if excess > delta else (low, middle)
    return high


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["run_em_own_norm", "run_em_twin_laplace", "run_em_twin_gaussian"])
def test_truth_of_the_runs_with_noise_on_both_sides(name):
    specimen = SPECIMENS[name]
    worst = max(epsilon_at(specimen.delta, found) for found in losses(specimen))
    assert worst == pytest.approx(specimen.true_epsilon, rel=0.06)  # about five times its standard deviation
    assert (worst > specimen.epsilon) == specimen.broken


@pytest.mark.parametrize("name", ["run_em_laplace", "run_em_gaussian", "run_em_equation_31"])
def test_truth_of_the_runs_with_gamma_noise(name):
    """In the first iteration moments below those of the other data set have probability 1 - exp(-epsilon')."""
    specimen, n = SPECIMENS[name], 20_000
    run = specimen.mechanism
    outputs = run(specimen.x_neighbour, n, np.random.default_rng(2))
    shares, _, moments = np.split(outputs[:, :6], 3, axis=1)
    counts = run.counts(shares, len(specimen.x))
    least = run.sums(specimen.x, run.start(n))[2] / counts
    hits = int((moments < least).any(axis=1).sum())
    assert stats.binomtest(hits, n, -math.expm1(-run.each)).pvalue > FALSE_ALARM
    impossible = np.isinf(specimen.log_density(outputs, specimen.x))
    assert impossible.sum() >= hits and impossible.mean() > 3 * specimen.delta
    assert np.isfinite(specimen.log_density(outputs, specimen.x_neighbour)).all()


@pytest.mark.parametrize("settings", [Run(0.3, one_sided=False), Run(0.3, gaussian=True, one_sided=False)])
def test_densities_of_runs_are_densities(settings):
    """The mean of a ratio of densities of two data sets is 1: Bernstein's bound, ratios below exp(3)."""
    x, other = np.array([-0.5, 0.2, 0.6]), np.array([-0.5, 0.2, 0.3])
    outputs = settings(x, 40_000, np.random.default_rng(3))
    ratios = np.exp(settings.log_density(outputs, other) - settings.log_density(outputs, x))
    assert ratios.mean() == pytest.approx(1, abs=6 * ratios.std() / 200)
    again = settings.log_density(outputs, x)
    assert np.isfinite(again).all() and outputs.shape == (40_000, 6 * ITERATIONS)


def test_budgets_are_those_of_the_formulas():
    assert 10 * concentrated(gaussian=False) ** 2 / 2 == pytest.approx(0.9)
    each = concentrated(gaussian=True)
    assert 2 * (3 * each**2 / 2 + 2 * (each / 4) ** 2 / 2) == pytest.approx(0.9)
    assert advanced(0.9, 1e-3) == pytest.approx(0.9 / (2 * math.sqrt(20 * math.log(1000))))
    assert SPECIMENS["run_em_laplace"].epsilon == pytest.approx(4.97, abs=2e-3)


@pytest.mark.parametrize("name, flip", [("run_local_full", 1.0), ("run_local_twin", 0.5)])
def test_truth_of_the_local_runs_over_all_reports(name, flip, monkeypatch):
    """Every one of the 16 reports of one person with its probability; equal fits are one output."""
    specimen = SPECIMENS[name]
    every = np.array(list(itertools.product((False, True), repeat=4)))
    monkeypatch.setattr(whole_runs, "flipped", lambda bits, n, epsilon, rng: every[:, None, :])
    fits = local_run(specimen.x, len(every), None)
    assert (local_run(specimen.x_neighbour, len(every), None) == fits).all()
    laws = []
    for place in (0, 3):
        lies = (every != (np.arange(4) == place)).sum(axis=1)
        law = {}
        for fit, number in zip(map(tuple, fits), lies, strict=True):
            law[fit] = law.get(fit, 0) + math.exp(-flip * number) / (1 + math.exp(-flip)) ** 4
        laws.append(law)
    assert sum(laws[0].values()) == pytest.approx(1)
    assert max(abs(math.log(laws[0][fit] / laws[1][fit])) for fit in laws[0]) == pytest.approx(specimen.true_epsilon)
    assert local_central.N_BINS == 4


def test_truth_of_bins_from_the_records_is_that_outputs_do_not_overlap():
    specimen, rng = SPECIMENS["run_local_own_bins"], np.random.default_rng(4)
    first, second = (
        {tuple(row) for row in specimen.mechanism(x, 2000, rng)} for x in (specimen.x, specimen.x_neighbour)
    )
    assert len(first & second) <= 0.01 * len(first)


class Silent:
    """A generator without noise that keeps the scales it is asked for."""

    def laplace(self, *, scale, size):
        self.scale = np.broadcast_to(scale, size)
        return np.zeros(size)


def test_truth_of_the_central_runs():
    specimen, rng = SPECIMENS["run_central"], Silent()
    values = [central_run(x, 1, rng)[0] for x in (specimen.x, specimen.x_neighbour)]
    assert (np.abs(values[0] - values[1]) / rng.scale[0]).sum() == pytest.approx(specimen.true_epsilon)
    empty = SPECIMENS["run_central_empty"]
    fits = [central_run(x, 50, np.random.default_rng(1)) for x in (empty.x, empty.x_neighbour)]
    assert not np.isnan(fits[0]).any() and np.isnan(fits[1]).any(axis=1).all()


def test_the_sound_central_run_has_noise_for_what_a_record_moves():
    rng, silent = np.random.default_rng(5), Silent()
    for _ in range(200):
        records = rng.choice([0.0, 0.3, 0.49, 0.5, 1.0], 6)
        other = records.copy()
        other[0] = rng.choice([0.0, 0.499, 0.5, 1.0])
        sums = [
            np.array([[(part**power).sum() for part in (x[x < 0.5], x[x >= 0.5])] for power in range(3)])
            for x in (records, other)
        ]
        central_run(records, 1, silent, sound=True)
        assert np.abs(sums[0] - sums[1]).sum() / silent.scale.ravel()[0] <= whole_runs.EPSILON + 1e-12
    pair = SPECIMENS["run_central_twin"]
    sums = [
        [[(part**p).sum() for part in (x[x < 0.5], x[x >= 0.5])] for p in range(3)] for x in (pair.x, pair.x_neighbour)
    ]
    assert np.abs(np.subtract(*sums)).sum() / silent.scale.ravel()[0] == pytest.approx(pair.true_epsilon)

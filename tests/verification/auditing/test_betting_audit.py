"""Audits that bet: no run is predicted from its own coin, they stop when they have won, and their error is kept.

Checks that are random say how often they raise a false alarm; the others have none.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from verification.auditing import betting_audit as sequential, outputs as runs, scores
from verification.auditing.audit import audit
from verification.auditing.betting import LEVELS, BetCounts, delta_bound, epsilon_bound, log_e_value
from verification.auditing.detection_limit import sequential_limit
from verification.references.references import gaussian_delta

MIDDLE = LEVELS.size // 2


def laplace(scale):
    return lambda data, n, rng: data + rng.laplace(scale=scale, size=n)


def laplace_log_density(outputs, data):
    return -np.abs(outputs - data)


def noise(data, n, rng):
    """Independent of the data, different in every run."""
    return rng.random(n)


def run(mechanism, seed=1, *, n_samples=400, **settings):
    settings = {"epsilon": 1.0, "sequential": True} | settings
    return audit(mechanism, 0.0, 1.0, n_samples=n_samples, rng=np.random.default_rng(seed), **settings)


def bets(result):
    tables = result.counts["bets"]
    return BetCounts(tuple(tables), np.array([[t["label_0"], t["label_1"]] for t in tables.values()]))


def looks(n_samples):
    """Numbers of runs at which an audit looks."""
    n, found = 0, []
    while n < n_samples:
        n = min(n_samples, n + sequential._batch(n))
        found.append(n)
    return found


# ------------------------------------------------------------------ predictions
@pytest.mark.parametrize("level, n_bits", [("value", 0), ("bit", 1)])
def test_bits_are_read_only_where_they_are_asked_for(level, n_bits, monkeypatch):
    told, real = [], scores.learn

    def learn(*given, **named):
        told.append(named["n_bits"])
        return real(*given, **named)

    monkeypatch.setattr(scores, "learn", learn)
    run(noise, n_samples=200, level=level)
    assert told and set(told) == {n_bits}


@pytest.fixture
def memory(monkeypatch):
    """A learner that knows by heart every output it was taught, and nothing else."""

    def learn(rows, label, *, rng, models, n_bits=0):
        taught.append(len(rows))
        known = {row.tobytes(): coin for row, coin in zip(rows, label, strict=True)}
        return scores.Portfolio(("ridge", "mean"), None, None, known)

    def evaluate(model, rows, names):
        known = [model.models.get(row.tobytes()) for row in rows]
        score = np.array([0.0 if coin is None else 20.0 * coin - 10.0 for coin in known])
        return dict.fromkeys(names, score)

    taught = []
    monkeypatch.setattr(scores, "learn", learn)
    monkeypatch.setattr(scores, "evaluate", evaluate)
    return taught


@pytest.mark.parametrize("level", ["value", "bit"])
def test_no_run_is_predicted_from_its_own_coin(memory, level):
    """One that was would be guessed right with certainty by a learner that knows its lessons by heart."""
    for seed in range(5):
        result = run(noise, seed, epsilon=0.0, n_samples=300, level=level)
        assert bets(result).runs[:, :, MIDDLE].sum() == bets(result).runs.sum() == 300 * len(result.counts["bets"])
        assert result.e_value == pytest.approx(1, abs=1e-12) and result.epsilon_lower == 0
    assert memory[: len(looks(300)) - 1] == looks(300)[:-1]  # taught every run but the last batch


def test_the_same_learner_wins_when_outputs_repeat(memory):
    """So the test above could have failed."""
    result = run(lambda data, n, rng: rng.integers(3, size=n) + 10 * data, epsilon=1.0)
    assert result.refuted and bets(result).runs[0, 1, -1] > 5 < bets(result).runs[0, 0, 0]


def test_learning_is_from_the_latest_runs_only(memory, monkeypatch):
    monkeypatch.setattr(sequential, "MAX_LEARNED", 50)
    run(noise, n_samples=200)
    batches = np.diff([0, *looks(200)])
    least = [min(total, 50) for total in looks(200)[:-1]]
    assert all(low <= taught < low + max(batches) for low, taught in zip(least, memory, strict=True))


@pytest.mark.thorough
@pytest.mark.parametrize("delta", [0.0, 0.02])
def test_false_alarms_at_the_claim_are_as_rare_as_promised_however_often_it_looks(delta):
    # 50 audits at error probability 0.2 of a mechanism exactly at its claim: Pr[Bin(50, 0.2) > 22] < 5e-5.
    # Any of about 20 looks may stop the audit; as many tests at a fixed number of runs would err far more often.
    assert stats.binom.sf(22, 50, 0.2) < 5e-5
    s = math.e / (1 + math.e)
    law = np.array([delta, (1 - delta) * (1 - s), (1 - delta) * s, 0.0])

    def extremal(data, n, rng):
        return rng.choice(4, size=n, p=law if data else law[::-1])

    def log_density(outputs, data):
        with np.errstate(divide="ignore"):
            return np.log(law if data else law[::-1])[outputs]

    def refuted(epsilon, seeds):
        settings = {"n_samples": 200, "delta": delta, "false_alarm": 0.2, "log_density": log_density}
        return sum(run(extremal, (2, seed), epsilon=epsilon, **settings).refuted for seed in range(seeds))

    assert refuted(1.0, 50) <= 22
    assert refuted(0.0, 5) >= 3  # the bets can win


# ------------------------------------------------------------------ stopping
@pytest.mark.thorough(quick=["settings4"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"false_alarm": 1e-6},
        {"delta": 0.05},
        {"epsilon": 2.0},
        {"log_density": lambda y, data: -10 * np.abs(y - data)},
    ],
)
def test_it_stops_at_the_first_look_that_refutes(settings):
    result = run(laplace(0.1), **settings)
    assert result.refuted and result.n_samples == result.n_certified < 400
    assert result.n_samples in looks(400)
    counts, error = bets(result), result.false_alarm
    assert np.all(counts.runs.sum(axis=(1, 2)) == result.n_samples)  # every learner bets on every run
    log_e = log_e_value(counts, epsilon=result.epsilon, delta=result.delta)
    assert result.e_value == math.exp(log_e) >= 1 / error and result.p_value == math.exp(-log_e) <= error
    assert result.epsilon_lower == epsilon_bound(counts, claim=result.epsilon, delta=result.delta, error=error)
    assert result.epsilon_lower > result.epsilon and (result.delta == 0 or result.delta_lower > result.delta)
    at_once = delta_bound(counts, epsilon=result.epsilon, error=error)
    assert result.delta_lower == pytest.approx(at_once, abs=1e-6)  # the resolution of the bound


@pytest.mark.thorough
def test_one_look_earlier_there_was_not_enough():
    result = run(laplace(0.6), 2, n_samples=2_000)
    before = looks(2_000)[looks(2_000).index(result.n_samples) - 1]
    assert result.refuted and before >= 100
    earlier = run(laplace(0.6), 2, n_samples=before)
    assert not earlier.refuted and earlier.n_samples == before
    assert np.all(bets(earlier).runs <= bets(result).runs)  # the same runs, and the same predictions of them


@pytest.mark.thorough
def test_it_goes_on_to_the_last_run_when_nothing_is_found():
    for n_samples in (100, 101, 333):
        result = run(laplace(2.0), n_samples=n_samples)
        assert not result.refuted and result.n_samples == result.n_certified == n_samples
        assert result.epsilon_lower <= 1 and 0 <= result.p_value <= 1 and result.delta_lower == 0
        assert result.p_value == min(1.0, 1 / result.e_value)
        assert result.detection_limit == sequential_limit(epsilon=1.0, delta=0.0, n_samples=n_samples, false_alarm=0.05)


def test_batches_grow_in_proportion():
    assert looks(100)[:3] == [8, 16, 24]
    for n, share in ((4_999, 0.08), (5_000, 0.15), (20_000, 0.3), (10**6, 0.3)):
        assert sequential._batch(n) == round(share * n)
    assert len(looks(200_000)) < 100  # so that learning takes little time


@pytest.mark.thorough(quick=["settings0"])
# ------------------------------------------------------------------ repeats
@pytest.mark.parametrize("settings", [{}, {"delta": 0.01, "level": "bit"}, {"log_density": laplace_log_density}])
def test_same_seed_same_result_whatever_the_workers(settings):
    first, second = (run(laplace(1.0), n_samples=200, n_jobs=jobs, **settings).as_dict() for jobs in (1, 2))
    assert first == second
    assert first != run(laplace(1.0), seed=2, n_samples=200, **settings).as_dict()


def test_progress_counts_every_run(monkeypatch):
    steps = []

    class Bar:
        def __enter__(self):
            return steps.append

        def __exit__(self, *error):
            return None

    monkeypatch.setattr(runs, "progress_bar", lambda shown, total, label: Bar())
    for mechanism in (laplace(1.0), laplace(0.1)):
        steps.clear()
        result = run(mechanism, progress=True)
        assert sum(steps) == result.n_samples and list(np.cumsum(steps)) == looks(400)[: len(steps)]


def test_the_exact_score_is_named_and_alone():
    result = run(laplace(1.0), log_density=laplace_log_density)
    assert list(result.counts["bets"]) == [result.score] == ["exact log-likelihood ratio"]
    y = np.arange(MIDDLE * 2 + 1)
    assert bets(result).runs[0][:, np.abs(y - MIDDLE) > 8].sum() == 0  # the loss is at most 1, eight levels
    assert run(laplace(1.0), n_samples=100).score in sequential.LEARNERS


@pytest.mark.thorough
@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_the_detection_limit_is_the_power_it_claims(delta):
    # The limit is where 54 of 60 simulated audits catch: a share of 0.74 or less would do so with probability 0.3 %, and
    # its simulation is always the same. 40 audits that catch with 0.74, and may stop early, catch at most 17 with 5e-5.
    assert stats.binom.sf(53, 60, 0.74) < 3e-3 and stats.binom.cdf(17, 40, 0.74) < 5e-5
    limit = sequential_limit(epsilon=1.0, delta=delta, n_samples=400, false_alarm=0.05)
    if delta == 0:
        mechanism, log_density = laplace(1 / limit), lambda y, data: -limit * np.abs(y - data)
    else:
        z = optimize.brentq(lambda z: gaussian_delta(limit, noise_multiplier=z) - delta, 0.05, 50)
        mechanism = lambda data, n, rng: data + rng.normal(scale=z, size=n)  # noqa: E731
        log_density = lambda y, data: -((y - data) ** 2) / (2 * z**2)  # noqa: E731
    settings = {"n_samples": 400, "delta": delta, "log_density": log_density}
    caught = sum(run(mechanism, (3, seed), **settings).refuted for seed in range(40))
    assert caught > 17


@pytest.mark.thorough
def test_a_bet_sees_regions_that_are_no_tails():
    """Noise over sixteen cells, eight of which are nine times as likely on one data set; true epsilon ln 9."""
    cells = np.random.default_rng(5).permutation(16).reshape(2, 8)

    def comb(data, n, rng):
        mine = np.where(rng.random(n) < 0.9, int(data), 1 - int(data))
        return (cells[mine, rng.integers(8, size=n)] + rng.random(n)) / 16

    found = audit(
        comb, 1, 0, epsilon=1.0, n_samples=5_000, sequential=True, false_alarm=1e-3, rng=np.random.default_rng(1)
    )
    assert found.refuted and found.score == "trees"

"""Learned scores: what they must see, and outputs that must not break them."""

from __future__ import annotations

import numpy as np
import pytest

from verification import score_features, scores

HOSTILE = np.array([0.0, -0.0, 5e-324, 1e300, -1e300, 1e308, -1e308, np.inf, -np.inf, np.nan])


def learned(rows, label, seed=1):
    return scores.learn(rows, label, rng=np.random.default_rng(seed))


def accuracy(portfolio, rows, label, name):
    score = scores.evaluate(portfolio, rows, [name])[name]
    return np.mean((score > 0) == label)


def halves(rows, label):
    n = len(label) // 2
    return (rows[:n], label[:n]), (rows[n:], label[n:])


def test_linear_score_of_a_gaussian_is_the_likelihood_ratio():
    rng = np.random.default_rng(2)
    label = rng.random(20_000) < 0.5
    portfolio = learned(rng.normal(label, 1.0)[:, None], label)
    grid = np.linspace(-2, 3, 21)
    score = scores.evaluate(portfolio, grid[:, None], ["linear"])["linear"]
    assert score == pytest.approx(grid - 0.5, abs=0.15)  # five standard errors at the ends


@pytest.mark.parametrize("name", ["quadratic", "trees"])
def test_product_of_signs_is_seen_though_no_column_alone_tells_anything(name):
    rng = np.random.default_rng(3)
    label = rng.random(8_000) < 0.5
    sign = rng.choice([-1.0, 1.0], size=8_000)
    rows = np.column_stack([sign, np.where(label, sign, -sign)]) * rng.exponential(size=(8_000, 2))
    train, test = halves(rows, label)
    portfolio = learned(*train)
    assert accuracy(portfolio, *test, name) > 0.9
    assert accuracy(portfolio, *test, "linear") < 0.55  # so the check above can fail


def test_order_of_two_components_is_seen():
    rng = np.random.default_rng(4)
    label = rng.random(8_000) < 0.5
    rows = np.sort(rng.normal(size=(8_000, 2)), axis=1)
    rows[label] = rows[label, ::-1]
    train, test = halves(rows, label)
    assert accuracy(learned(*train), *test, "linear") > 0.95


def test_atoms_overrule_the_model_and_the_failure_symbol_is_one_however_rare():
    rng = np.random.default_rng(5)
    label = rng.random(20_000) < 0.5
    rows = rng.laplace(size=(20_000, 2))
    atom = rng.random(20_000) < 0.02
    rows[atom] = np.where(label[atom, None], [0.25, 1.0], [0.25, -1.0])
    failed = np.flatnonzero(label & ~atom)[:5]
    rows[failed] = np.nan
    portfolio = learned(rows, label)
    probes = np.array([[0.25, 1.0], [0.25, -1.0], [np.nan, np.nan], [0.25, 1.0 + 1e-9]])
    score = scores.evaluate(portfolio, probes, ["linear+atoms"])["linear+atoms"]
    assert score[0] > 3 and score[1] < -3 and score[2] > 0.5 and abs(score[3]) < 3


def test_pattern_of_missing_entries_is_seen():
    rng = np.random.default_rng(6)
    label = rng.random(4_000) < 0.5
    rows = rng.normal(size=(4_000, 3))
    rows[label, 0] = rows[~label, 2] = np.nan
    train, test = halves(rows, label)
    for name in ("linear", "quadratic", "trees"):
        assert accuracy(learned(*train), *test, name) > 0.99


@pytest.mark.parametrize("n", [2, 3, 50, 1_000])
@pytest.mark.parametrize("d", [1, 3, 20])
def test_hostile_outputs_give_finite_scores(n, d):
    rng = np.random.default_rng(n + d)
    rows = rng.choice(HOSTILE, size=(n, d))
    portfolio = learned(rows, np.arange(n) % 2 == 0)
    unseen = rng.choice([*HOSTILE, 7.0], size=(100, d))
    for score in scores.evaluate(portfolio, unseen).values():
        assert score.shape == (100,) and np.isfinite(score).all()


@pytest.mark.parametrize("value", [3.0, np.nan, np.inf, -1e308])
def test_constant_outputs_give_a_score(value):
    portfolio = learned(np.full((500, 2), value), np.arange(500) % 2 == 0)
    for score in scores.evaluate(portfolio, np.full((3, 2), value)).values():
        assert np.abs(score).max() < 0.1


def test_one_label_only_gives_the_constant_score():
    portfolio = learned(np.zeros((100, 1)), np.arange(100) == 0)
    assert portfolio.names == ("none",)
    assert not scores.evaluate(portfolio, np.ones((5, 1)))["none"].any()


def test_scores_follow_the_generator():
    rng = np.random.default_rng(7)
    label = rng.random(2_000) < 0.5
    rows = rng.normal(label[:, None], 1.0, size=(2_000, 2))
    first, second = (scores.evaluate(learned(rows, label, seed=9), rows) for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_keys_tell_rows_apart_and_only_those():
    rng = np.random.default_rng(8)
    rows = rng.integers(0, 30, size=(5_000, 3)).astype(float)
    distinct = len(np.unique(rows, axis=0))
    assert len(np.unique(score_features.row_keys(rows))) == distinct
    same = score_features.row_keys(np.array([[0.0, np.nan], [-0.0, -np.nan]]))
    assert same[0] == same[1]

"""Learned scores: what they must see, and outputs that must not break them.

Two audits of sound mechanisms run at false_alarm = 1e-4 with fixed seeds: 2e-4 for a false alarm together.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pytest

from verification.auditing import scores
from verification.auditing.audit import audit
from verification.auditing.features import column_pairs, encoding
from verification.auditing.features.bits import bit_features
from verification.auditing.features.repeats import fit_repeats, partners
from verification.auditing.features.screening import best_columns, tail_strengths
from verification.auditing.result import BY_VALUE
from verification.auditing.scores import REGIONS

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
    assert accuracy(portfolio, *test, "linear") > 0.9  # by the product, which it is given because that tells
    alone = test[0].copy()
    alone[:, 1] = rng.permutation(alone[:, 1])
    assert accuracy(portfolio, alone, test[1], name) < 0.55  # so the checks above can fail


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
    assert {"linear+atoms", "mean+atoms"} <= set(portfolio.names)  # an audit tries what is named
    probes = np.array([[0.25, 1.0], [0.25, -1.0], [np.nan, np.nan], [0.25, 1.0 + 1e-9]])
    score = scores.evaluate(portfolio, probes, ["linear+atoms"])["linear+atoms"]
    assert score[0] > 3 and score[1] < -3 and score[2] > 0.5 and abs(score[3]) < 3


def test_outputs_that_never_come_twice_have_no_atoms_to_try():
    rng = np.random.default_rng(5)
    portfolio = learned(rng.normal(size=(2_000, 2)), rng.random(2_000) < 0.5)
    assert portfolio.atoms is None and portfolio.names
    assert not any(name.endswith("+atoms") for name in portfolio.names)


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
    assert len(np.unique(encoding.row_keys(rows))) == distinct
    same = encoding.row_keys(np.array([[0.0, np.nan], [-0.0, -np.nan]]))
    assert same[0] == same[1]


# ------------------------------------------------------------------ many columns, repeated values
WIDE = ("column", "repeats")  # the scores that rare leaks need; trees of 64 columns take seconds


def leak(kind, width, column, rate=1e-3):
    """Noise in every column, and in a thousandth of the runs the record in one of them."""

    def mechanism(data, n, rng):
        rows = rng.normal(size=(n, width))
        hit = rng.random(n) < rate
        if kind == "value":
            rows[hit, column] = data
        elif kind == "large":
            rows[hit, column] = 100 * data - 50
        elif kind == "missing":
            rows[hit, column - int(data)] = np.nan
        elif kind == "again":  # the noise of one column again in another
            rows[hit, column] = rows[hit, column - 1 - int(data)]
        return rows

    return mechanism


def both(mechanism, n, rng):
    label = rng.random(n) < 0.5
    return np.where(label[:, None], mechanism(1, n, rng), mechanism(0, n, rng)), label


@pytest.mark.thorough(quick=["64-60-value-repeats"])
@pytest.mark.parametrize("kind, name", [("value", "repeats"), ("large", "column"), ("again", "repeats")])
@pytest.mark.parametrize("width, column", [(64, 60), (1_000, 990)])
def test_a_rare_leak_in_one_of_many_columns_is_seen(kind, name, width, column):
    rng, rate = np.random.default_rng(width), 0.01 if name == "column" else 2e-3  # 20 runs of 10,000
    (rows, label), (unseen, coins) = (both(leak(kind, width, column, rate), 10_000, rng) for _ in range(2))
    model = scores.learn(rows, label, rng=rng, models=(name,))
    score = scores.evaluate(model, unseen, [name])[name]
    top = np.argsort(-score)[:5]
    bottom = np.argsort(score)[:5]
    assert coins[top].sum() + (~coins[bottom]).sum() >= 8


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(5))
def test_a_rare_leak_in_one_of_many_columns_is_refuted(seed, monkeypatch):
    """Five audits with two of the scores; the others can only add to what is found."""
    learn = scores.learn
    monkeypatch.setattr(scores, "learn", lambda *given, **settings: learn(*given, **settings, models=WIDE))
    result = audit(leak("value", 64, 60), 0, 1, epsilon=1.0, n_samples=60_000, rng=np.random.default_rng((1, seed)))
    assert result.refuted and result.score == "repeats"


def test_all_columns_are_candidates_and_the_right_ones_are_chosen():
    rng = np.random.default_rng(1)
    label = rng.random(4_000) < 0.5
    rows = rng.normal(size=(4_000, 200))
    rows[:, 150] += label
    rows[rng.random(4_000) < 0.02, 180] = 9.0
    rows[:, 180] = np.where(rows[:, 180] == 9.0, np.where(label, 9.0, -9.0), rows[:, 180])
    assert {150, 180} <= set(best_columns(rows, label, 24)) and best_columns(rows, label, 24).size == 24
    assert np.argsort(-tail_strengths(rows, label).max(axis=1))[0] == 180
    assert scores._best_column(rows, label).index == 180


def test_a_pool_of_noise_that_comes_again_is_seen():
    """Values that recur on one data set only: no value says anything by itself, and none comes twenty times."""
    pool = np.random.default_rng(2).normal(size=3_000)

    def mechanism(data, n, rng):
        rows = rng.normal(size=(n, 8))
        if data:
            rows[:, 5] = pool[rng.integers(pool.size, size=n)]
        return rows

    rng = np.random.default_rng(3)
    (rows, label), (unseen, coins) = (both(mechanism, 4_000, rng) for _ in range(2))
    score = fit_repeats(rows, label).decision_function(unseen)
    assert (score > 0).sum() > 500 and coins[score > 0].all() and not (score < 0).any()


def test_a_value_that_comes_again_within_a_run_is_seen():
    rows = np.array([[1.0, 2.0, 1.0, 1.0], [np.nan, np.nan, 0.0, -0.0], [1.0, 2.0, 3.0, 4.0]])
    assert partners(rows).tolist() == [[2, -1, 3, -1], [-1, -1, 3, -1], [-1] * 4]
    rng = np.random.default_rng(4)
    (rows, label), (unseen, coins) = (both(leak("again", 12, 9, 0.3), 1_000, rng) for _ in range(2))
    score = fit_repeats(rows, label).decision_function(unseen)
    sure = np.abs(score) > 3
    assert sure.mean() > 0.2 and np.array_equal(score[sure] > 0, coins[sure])


@pytest.mark.thorough
def test_noise_of_many_columns_and_values_that_repeat_by_design_are_not_refuted():
    for mechanism in (
        lambda data, n, rng: rng.normal(size=(n, 50)),
        lambda data, n, rng: rng.integers(4, size=(n, 50)),
    ):
        result = audit(mechanism, 0, 1, epsilon=0.1, n_samples=2_000, false_alarm=1e-4, rng=np.random.default_rng(5))
        assert not result.refuted


def test_halves_that_share_no_score_are_no_error():
    result = audit(
        lambda data, n, rng: (rng.random(n) < 0.004) * 1.0,
        0,
        1,
        epsilon=1.0,
        n_samples=1_000,
        false_alarm=1e-4,
        rng=np.random.default_rng(1),
    )
    assert result.n_samples == 1_000


def test_a_rare_leak_on_one_data_set_only_is_seen_in_few_runs():
    """A constant, or values far from all others, in about six of six thousand runs on one of the data sets."""
    for width, leaked in ((1, 0.3), (64, 0.3), (64, None)):

        def mechanism(data, n, rng, width=width, leaked=leaked):
            rows = rng.laplace(size=(n, width))
            if data:
                hit = np.arange(n) % 1_000 == 7
                rows[hit, width // 2] = 1e3 * rng.normal(size=hit.sum()) if leaked is None else leaked
            return rows

        rng = np.random.default_rng(width)
        (rows, label), (unseen, coins) = (both(mechanism, 12_000, rng) for _ in range(2))
        score = fit_repeats(rows, label).decision_function(unseen)
        assert coins[score > 1].sum() >= 3 and not (~coins[score > 1]).any()


def test_a_value_that_comes_again_in_any_column_is_seen():
    def mechanism(data, n, rng):
        rows = rng.laplace(size=(n, 500))
        if data:
            rows[np.arange(n), rng.integers(500, size=n)] = 0.3
        return rows

    rng = np.random.default_rng(1)
    (rows, label), (unseen, coins) = (both(mechanism, 400, rng) for _ in range(2))
    score = fit_repeats(rows, label).decision_function(unseen)
    assert np.array_equal(score > 1, coins)


def test_products_and_differences_of_many_columns_are_seen():
    def mechanism(kind, data, n, rng, width=40):
        rows = rng.laplace(size=(n, width))
        if kind == "product":
            rows[:, 30] = np.abs(rows[:, 30]) * np.sign(rows[:, 3]) * (1 if data else -1)
        else:
            rows[:, 30] = rows[:, 3] + (0.01 if data else 0.02) * rng.choice([-1, 1], size=n)
        return rows

    for kind, name in (("product", "quadratic"), ("difference", "quadratic")):
        rng = np.random.default_rng(2)
        (rows, label), (unseen, coins) = (both(partial(mechanism, kind), 6_000, rng) for _ in range(2))
        model = scores.learn(rows, label, rng=rng, models=(name,))
        assert accuracy(model, unseen, coins, name) > 0.9
        assert (3, 30) in (model.encoder.products if kind == "product" else model.encoder.derived.differences)


# ------------------------------------------------------------------ noise that columns share, equal entries, grids
def opposite(data, n, rng):
    """The secret is in the sum of two numbers whose noise is a million times as large."""
    shared = 1e6 * rng.normal(size=n)
    return np.column_stack([shared + data, -shared + 0.2 * rng.laplace(size=n)])


def opposite_of_three(data, n, rng):
    first, second = 1e6 * rng.normal(size=(2, n))
    return np.column_stack([first, second, data - first - second + 0.2 * rng.laplace(size=n)])


def opposite_and_weighted(data, n, rng):
    rows, shared = rng.normal(size=(n, 20)), 1e6 * rng.normal(size=n)
    rows[:, 3] = shared
    rows[:, 11] = -2 * shared + data + 0.2 * rng.laplace(size=n)
    return rows


def opposite_of_many(data, n, rng):
    rows, shared = rng.normal(size=(n, 300)), 1e6 * rng.normal(size=n)
    rows[:, 3] = shared
    rows[:, 211] = -shared + data + 0.2 * rng.laplace(size=n)
    return rows


def opposite_of_three_among_many(data, n, rng):
    rows = rng.normal(size=(n, 300))
    rows[:, [3, 5, 211]] = opposite_of_three(data, n, rng)
    return rows


def opposite_of_three_beside_a_choice(data, n, rng):
    """Two more numbers, never both in one run."""
    rows, place = np.full((n, 2), np.nan), rng.integers(2, size=n)
    rows[np.arange(n), place] = rng.normal(size=n)
    return np.column_stack([rows, opposite_of_three(data, n, rng)])


def the_least_alike_of_many_pairs(data, n, rng):
    shared = np.repeat(1e4 * rng.normal(size=(n, 40)), 2, axis=1)
    shared[:, 1::2] += 0.01 * rng.laplace(size=(n, 40))
    shared[:, -1] += data + 0.2 * rng.laplace(size=n)
    return shared


def two_that_fail_together(data, n, rng):
    """Or not at all; each of thirty fails in half of the runs."""
    failed = rng.random((n, 30)) < 0.5
    failed[:, 7] = failed[:, 3] ^ (not data)
    return np.where(failed, np.nan, rng.normal(size=(n, 30)))


def opposite_phases(data, n, rng):
    """What is left when divided by 1 lies in two arcs, on either data set with mean 0 on the circle."""
    rest = rng.uniform(0, 0.1, size=n) + 0.5 * rng.integers(2, size=n) + 0.25 * data
    return (np.rint(1e4 * rng.normal(size=n)) + rest)[:, None]


def two_that_agree(data, n, rng):
    """Any two of a hundred."""
    rows = rng.normal(size=(n, 100))
    if data:
        first, step = rng.integers(100, size=n), rng.integers(1, 100, size=n)
        rows[np.arange(n), first] = rows[np.arange(n), (first + step) % 100]
    return rows


def one_draw_for_two(sign, n_columns):
    """In a tenth of the runs a number has the noise of another: their difference, or sum, is the secret then."""

    def mechanism(data, n, rng):
        rows, again = rng.laplace(size=(n, n_columns)), rng.random(n) < 0.1
        rows[again, 5] = sign * rows[again, 2]
        rows[:, 2] += data
        return rows

    return mechanism


def parity(data, n, rng):
    """The last digit of numbers of which hardly any two are near each other."""
    return (2 * np.rint(1e12 * rng.laplace(size=n)) + data)[:, None]


def equal_now_and_then(n_columns):
    """In a tenth of the runs two numbers, at random places, are equal; on the other data set never."""

    def mechanism(data, n, rng):
        rows = rng.normal(size=(n, n_columns))
        if data:
            again = np.flatnonzero(rng.random(n) < 0.1)
            first = rng.integers(n_columns, size=again.size)
            rows[again, (first + rng.integers(1, n_columns, size=again.size)) % n_columns] = rows[again, first]
        return rows

    return mechanism


@pytest.mark.thorough(quick=["6"])
@pytest.mark.parametrize("n_columns", [6, 20])
def test_equal_numbers_are_seen_beside_their_bits(n_columns):
    """What is made of the bits comes again in every run, and hid that a number of the run does."""
    settings = {"epsilon": 1.2, "n_samples": 10_000, "level": "bit", "rng": np.random.default_rng(1)}
    assert audit(equal_now_and_then(n_columns), 1, 0, **settings).refuted


def on_a_grid(step, query):
    """Noise in whole steps, a million of them, on a number that lies between."""
    return lambda data, n, rng: (data * query + step * np.rint(rng.laplace(size=n) * 1e6))[:, None]


def beside_far_marks(mechanism):
    """One run in a hundred says that it failed by a number far from all others."""

    def marked(data, n, rng):
        return np.where(rng.random((n, 1)) < 0.01, 1e300, mechanism(data, n, rng))

    return marked


@pytest.mark.thorough(quick=["<lambda>-quadratic-2000"])
@pytest.mark.parametrize(
    "mechanism, name, n",
    [
        (opposite, "quadratic", 2_000),
        (opposite_of_three, "quadratic", 2_000),
        (opposite_and_weighted, "quadratic", 2_000),
        (opposite_of_many, "quadratic", 4_000),
        (opposite_of_three_among_many, "quadratic", 4_000),
        (opposite_of_three_beside_a_choice, "quadratic", 2_000),
        (the_least_alike_of_many_pairs, "quadratic", 2_000),
        (two_that_fail_together, "quadratic", 4_000),
        (opposite_phases, "trees", 2_000),
        (two_that_agree, "repeats", 2_000),
        (on_a_grid(1.0, 0.5), "quadratic", 2_000),
        (parity, "trees", 2_000),
        (on_a_grid(0.3, 0.05), "quadratic", 8_000),
        (on_a_grid(7.3, 3.0), "trees", 8_000),
        (beside_far_marks(on_a_grid(7.3, 3.0)), "trees", 8_000),
    ],
)
def test_a_secret_that_no_column_shows_is_seen(mechanism, name, n):
    rng = np.random.default_rng(1)
    (rows, label), (unseen, coins) = (both(mechanism, n, rng) for _ in range(2))
    model = scores.learn(rows, label, rng=rng, models=(name,))
    assert accuracy(model, unseen, coins, name) > 0.85


@pytest.mark.thorough(quick=["settings0-<lambda>"])
@pytest.mark.parametrize("mechanism", [opposite, opposite_of_three, two_that_agree, on_a_grid(1.0, 0.5)])
@pytest.mark.parametrize("settings", [{}, {"sequential": True}])
def test_it_is_refuted(mechanism, settings):
    result = audit(mechanism, 1, 0, epsilon=1.0, n_samples=2_000, rng=np.random.default_rng(2), **settings)
    assert result.refuted


@pytest.mark.thorough(quick=["value"])
@pytest.mark.parametrize("level", ["value", "bit"])
def test_sums_not_looked_for_are_said_at_either_level(level):
    """Six columns that each fail in 45 % of the runs, and too few runs in which none does."""

    def mechanism(data, n, rng):
        rows = 1e6 * rng.laplace(size=(n, 6))
        rows[:, 0] = rows[:, 1:4].sum(axis=1) + 2 * data + 0.2 * rng.laplace(size=n)
        return np.where(rng.random((n, 6)) < 0.45, np.nan, rows)

    result = audit(mechanism, 1, 0, epsilon=1.0, n_samples=1_500, level=level, rng=np.random.default_rng(1))
    assert result.refuted or column_pairs.SHARED_NOISE not in result.looked_for


@pytest.mark.thorough
def test_bits_of_numbers_do_not_use_up_the_runs_for_sums():
    def mechanism(data, n, rng):
        rows = 1e6 * rng.laplace(size=(n, 30))
        rows[:, 0] = rows[:, 1:4].sum(axis=1) + 2 * data + 0.2 * rng.laplace(size=n)
        return rows

    result = audit(mechanism, 1, 0, epsilon=1.0, n_samples=1_500, level="bit", rng=np.random.default_rng(1))
    assert result.refuted


def test_a_few_whole_numbers_among_others_are_seen():
    def mechanism(data, n, rng):
        values = rng.uniform(0, 1e6, size=n)
        return np.where((rng.random(n) < 0.05) & (data == 1), np.rint(values), values)[:, None]

    rng = np.random.default_rng(3)
    (rows, label), (unseen, coins) = (both(mechanism, 20_000, rng) for _ in range(2))
    model = scores.learn(rows, label, rng=rng, models=("trees",))
    score = scores.evaluate(model, unseen, ["trees"])["trees"]
    assert coins[np.argsort(-score)[:200]].mean() > 0.9


def corner(data, n, rng):
    """On one data set all of the first four of twelve numbers are never positive together."""
    rows = rng.laplace(size=(n, 12))
    if not data:
        inside = (rows[:, :4] > 0).all(axis=1)
        rows[inside, rng.integers(4, size=int(inside.sum()))] *= -1
    return rows


def test_a_region_of_four_columns_is_seen():
    """What `looked_for` says; at 200,000 runs corners of five of twelve columns are found as well, of six no more."""
    rng = np.random.default_rng(3)
    (rows, label), (unseen, coins) = (both(corner, 30_000, rng) for _ in range(2))
    model = scores.learn(rows, label, rng=rng, models=("fine trees",))
    score = scores.evaluate(model, unseen, ["fine trees"])["fine trees"]
    assert coins[np.argsort(-score)[:200]].mean() > 0.9 and REGIONS in BY_VALUE


def test_gaps_of_very_different_sizes_have_no_step_that_overflows():
    rows = np.array([0.0, 5e-324, 1e-323, 1.0, 1e300, 1e308] * 200)[:, None]
    label = np.random.default_rng(1).random(len(rows)) < 0.5
    assert encoding.fit_encoder(rows, label).derived.phases == ()


@pytest.mark.thorough(quick=["1-16"])
@pytest.mark.parametrize("n_columns", [6, 16, 64])
@pytest.mark.parametrize("sign", [1, -1])
def test_noise_that_two_columns_share_now_and_then_is_found(sign, n_columns):
    """It moves no correlation: with more than six columns these pairs were not among those that are formed."""
    mechanism = one_draw_for_two(sign, n_columns)
    differences, sums, looked = column_pairs.peaked_pairs(*both(mechanism, 2_000, np.random.default_rng(1)))
    assert (differences, sums) == ((((2, 5),), ()) if sign == 1 else ((), ((2, 5),))) and looked
    result = audit(mechanism, 1, 0, epsilon=1.0, n_samples=10_000, rng=np.random.default_rng(2))
    assert result.refuted


@pytest.mark.parametrize("sign", [1, -1])
def test_noise_that_two_columns_share_is_found_among_runs_that_fail(sign):
    """Failures that tell nothing: with more than a tenth of them no column was looked at."""

    def mechanism(data, n, rng):
        rows = one_draw_for_two(sign, 10)(data, n, rng)
        return np.where(rng.random((n, 1)) < 0.3, np.nan, rows)

    assert audit(mechanism, 1, 0, epsilon=1.0, n_samples=10_000, rng=np.random.default_rng(2)).refuted


def on_a_grid(step, *, added):
    """Noise on a grid of so many steps that none of the smallest gaps is one; the secret is off the grid, or odd."""

    def mechanism(data, n, rng):
        k = np.rint(rng.laplace(size=n) * 1e11)
        return (k * step + added[data] if added else (2 * k + data) * step)[:, None]

    return mechanism


@pytest.mark.thorough(quick=["added0-2**-40"])
@pytest.mark.parametrize(
    "step", [2.0**-40, 2.0**-27, 3 * 2.0**-30, 0.01, 1e-7], ids=["2**-40", "2**-27", "3*2**-30", ".01", "1e-7"]
)
@pytest.mark.parametrize("added", [(), (0.3, 1.2999)])
def test_what_a_fine_grid_leaves_is_seen(step, added):
    found = [
        audit(
            on_a_grid(step, added=added), 1, 0, epsilon=2.0, n_samples=10_000, rng=np.random.default_rng(seed)
        ).refuted
        for seed in range(3)
    ]
    assert all(found)


@pytest.mark.parametrize("n_columns, n_runs, failing", [(129, 400, False), (7, 90, False), (7, 400, True)])
def test_peaks_are_not_looked_for_in_too_many_columns_or_too_few_numbers(n_columns, n_runs, failing):
    rows = np.random.default_rng(1).laplace(size=(n_runs, n_columns))
    rows[: n_runs // 2 if failing else 0, 3] = np.nan
    assert column_pairs.peaked_pairs(rows, np.arange(n_runs) % 2 == 0) == ((), (), False)


def test_of_few_numbers_all_pairs_are_formed_though_their_bits_are_many_columns():
    rows, label = np.random.default_rng(1).laplace(size=(400, 4)), np.arange(400) % 2 == 0
    encoder = encoding.fit_encoder(np.column_stack([rows, bit_features(rows)]), label, n_numbers=4)
    assert set(combinations(range(4), 2)) <= set(encoder.derived.differences) & set(encoder.products)


def test_pairs_of_independent_columns_are_seldom_taken_for_peaked():
    """Of numbers on a grid, clipped, or few, which come again by themselves: in 2 % of the 320 searches, no more."""
    rng = np.random.default_rng(3)
    makers = [lambda z: z, lambda z: np.round(3 * z), lambda z: np.clip(z, -0.5, 0.5), lambda z: np.round(z * 64) / 64]
    taken = 0
    for make in makers:
        for _ in range(40):
            rows, label = make(rng.laplace(size=(400, 12))), rng.random(400) < 0.5
            taken += sum(map(len, column_pairs.peaked_pairs(rows, label)[:2]))
    assert taken <= 0.02 * 320


def test_columns_without_shared_noise_have_no_sums_or_directions_or_phases():
    rng = np.random.default_rng(4)
    for rows in (rng.laplace(size=(4_000, 8)), rng.integers(9, size=(4_000, 8)) * 1.0):
        label = rng.random(4_000) < 0.5
        derived = encoding.fit_encoder(rows, label).derived
        assert not derived.sums and derived.directions.shape == (8, 0) and not derived.phases


def test_few_runs_are_learned_from_with_one_thread():
    """Threads would wait for each other: a bet that learns a hundred times took ten times as long."""
    from threadpoolctl import threadpool_info, threadpool_limits

    seen = []

    class Model:
        def decision_function(self, inputs):
            seen.append({pool["num_threads"] for pool in threadpool_info()})
            return np.zeros(len(inputs))

    rng = np.random.default_rng(5)
    rows, label = rng.normal(size=(500, 1)), np.arange(500) % 2 == 0
    model = scores.learn(rows, label, rng=rng, models=("quadratic",))
    with threadpool_limits(2):
        scores.evaluate(replace(model, models={"quadratic": Model()}), rows, ["quadratic"])
    assert seen == [{1}]


def test_pairs_are_those_of_one_strip_whatever_the_strips(monkeypatch):
    rng = np.random.default_rng(2)
    label = np.arange(400) % 2 == 0
    z = rng.normal(size=(400, 40))
    z[:, 30] = z[:, 3] + 0.3 * rng.normal(size=400)
    z[:, 31] = -z[:, 38] + 0.3 * rng.normal(size=400)
    z[:, 39] *= np.sign(z[:, 5]) * np.where(label, 1.0, -1.0) * np.sign(z[:, 39])
    found = []
    for strip in (10**6, 70, 1):
        monkeypatch.setattr(column_pairs, "STRIP", strip)
        pairs = column_pairs.difference_pairs(z, 40), column_pairs.sum_pairs(z)
        found.append((*pairs, *column_pairs.product_pairs(z, label, 40)))
    assert found[0] == found[1] == found[2]
    assert (3, 30) in found[0][0] and (31, 38) in found[0][1] and (5, 39) in found[0][3]
    monkeypatch.setattr(column_pairs, "MOST_TOGETHER", 39)
    assert column_pairs.difference_pairs(z, 40) == column_pairs.sum_pairs(z) == ()
    assert column_pairs.product_pairs(z, label, 40) == ((), ())


def test_runs_of_one_data_set_alone_single_out_no_pair_of_columns():
    z = np.random.default_rng(1).normal(size=(50, column_pairs.MAX_PRODUCTS + 1))
    for label in (np.zeros(50, dtype=bool), np.ones(50, dtype=bool)):
        assert column_pairs.product_pairs(z, label, z.shape[1]) == ((), ())


@pytest.mark.thorough(quick=["12"])
@pytest.mark.parametrize("d", [12, 16])
def test_which_of_many_columns_fail_together_is_seen(d):
    """Patterns that are met once or twice taught their own label: 1 of 20 were refuted, 0 of 20 from 14 columns on."""

    def mechanism(x, n, rng):
        rows = rng.normal(size=(n, d))
        rows[rng.random((n, d)) < 0.5] = np.nan
        secret = (rng.random(n) < 1 / (1 + np.exp(-1.4))) == x
        rows[:, d // 2] = np.where(np.isnan(rows[:, 1]) ^ secret, np.nan, 0.0)
        return rows

    assert audit(mechanism, 1, 0, epsilon=1.0, n_samples=10_000, rng=np.random.default_rng(3)).refuted

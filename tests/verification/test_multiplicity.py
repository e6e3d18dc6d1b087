"""Family-wise verdicts agree with closed testing by brute force, keep their error, and catch planted faults."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from verification import GDP, audit, one_run
from verification.multiplicity import average_e, e_holm, family, holm

p_lists = st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0, 0.01, 0.5, 5e-324]), min_size=1, max_size=6)
e_lists = st.lists(st.floats(0, 1e6) | st.sampled_from([0.0, 1.0, 20.0, 5e-324, 1e300]), min_size=1, max_size=6)
errors = st.floats(1e-6, 0.5)


def named(values):
    return {f"claim {i}": value for i, value in enumerate(values)}


def closed_testing(values, local_p_value):
    """Adjusted p-value of each claim: the largest p-value of the intersections that contain it."""
    places = range(len(values))
    subsets = [s for r in range(1, len(values) + 1) for s in itertools.combinations(places, r)]
    return [max(local_p_value([values[i] for i in s]) for s in subsets if k in s) for k in places]


def bonferroni(p_values):
    return min(1.0, len(p_values) * min(p_values))


def mean_test(e_values):
    mean = sum(e / len(e_values) for e in e_values)
    return min(1.0, 1 / mean) if mean > 0 else 1.0


@dataclass
class AuditStub:
    """What a family needs of an audit result."""

    p_value: float
    e_value: float | None = None


@given(p_lists, errors)
def test_holm_is_closed_testing_with_bonferroni(values, error):
    report = holm(named(values), error=error)
    expected = closed_testing(values, bonferroni)
    assert list(report.adjusted.values()) == pytest.approx(expected, rel=1e-12)
    assert report.rejected == tuple(name for name, p in report.adjusted.items() if p <= error)


@given(e_lists, errors)
def test_e_holm_is_closed_testing_with_the_mean(values, error):
    report = e_holm(named(values), error=error)
    expected = closed_testing(values, mean_test)
    assert list(report.adjusted.values()) == pytest.approx(expected, rel=1e-12)
    assert report.rejected == tuple(name for name, p in report.adjusted.items() if p <= error)


@given(e_lists)
def test_e_holm_is_never_behind_holm_on_inverse_e_values(values):
    by_e = e_holm(named(values), error=0.05).adjusted
    by_p = holm(named([min(1.0, 1 / e) if e > 0 else 1.0 for e in values]), error=0.05).adjusted
    assert all(by_e[name] <= by_p[name] * (1 + 1e-12) for name in by_e)


@given(p_lists, st.data())
def test_less_evidence_never_refutes_more(values, data):
    # rounding of the products may differ by a few units in the last place
    place = data.draw(st.integers(0, len(values) - 1))
    weaker = [*values]
    weaker[place] = data.draw(st.floats(values[place], 1))
    before, after = holm(named(values), error=0.05).adjusted, holm(named(weaker), error=0.05).adjusted
    assert all(before[name] <= after[name] * (1 + 1e-12) for name in before)
    inverse = [[1 / p if p > 1e-300 else 1e300 for p in list_] for list_ in (values, weaker)]
    before, after = (e_holm(named(list_), error=0.05).adjusted for list_ in inverse)
    assert all(before[name] <= after[name] * (1 + 1e-12) for name in before)


@given(p_lists, st.data())
def test_another_claim_never_helps_and_the_order_does_not_matter(values, data):
    more = [*values, data.draw(st.floats(0, 1))]
    alone, together = holm(named(values), error=0.05).adjusted, holm(named(more), error=0.05).adjusted
    assert all(alone[name] <= together[name] * (1 + 1e-12) for name in alone)
    shuffled = dict(data.draw(st.permutations(list(named(more).items()))))
    assert holm(shuffled, error=0.05).adjusted == together
    e_values = {name: 1 / (p + 0.01) for name, p in shuffled.items()}
    backwards = dict(reversed(e_values.items()))
    assert e_holm(e_values, error=0.05).adjusted == e_holm(backwards, error=0.05).adjusted


@given(st.floats(0, 1), errors)
def test_a_family_of_one_is_its_only_claim(value, error):
    assert holm({"a": value}, error=error).adjusted == {"a": value}
    assert (holm({"a": value}, error=error).rejected == ("a",)) == (value <= error)
    assert e_holm({"a": 1 / error * 1.001}, error=error).rejected == ("a",)
    assert e_holm({"a": 1 / error * 0.999}, error=error).rejected == ()


@given(st.lists(st.floats(0, 1e9) | st.just(math.inf), min_size=1))
def test_the_average_lies_between_the_extremes(values):
    mean = average_e(values)
    assert min(values) * (1 - 1e-12) <= mean <= max(values) * (1 + 1e-12)


def test_huge_e_values_neither_overflow_nor_lose():
    report = e_holm({"a": math.inf, "b": 1.7e308, "c": 1.7e308, "d": 0.0}, error=1e-6)
    assert report.rejected == ("a", "b", "c")
    assert all(value > 0 for value in report.adjusted.values())


def test_family_wise_error_of_dependent_claims_is_kept_and_faults_are_caught():
    # 6 sound claims that share most of their noise, 2 broken ones; 2 000 families at error 5 %. A false refutation in
    # more than 145 of them has probability below 1e-5 if the error is 5 %. Without correction it is, by far.
    rng, repeats, error = np.random.default_rng(5), 2_000, 0.05
    z = rng.normal(size=(repeats, 6)) * 0.8 + rng.normal(size=(repeats, 1)) * 0.6
    broken = rng.normal(loc=6.0, size=(repeats, 2))
    assert stats.binom.sf(145, repeats, error) < 1e-5
    assert np.sum((stats.norm.sf(z) <= error).any(axis=1)) > 300
    sound = {f"sound {i}" for i in range(6)}
    for evidence in ("p", "e"):
        wrong = caught = 0
        for row in np.column_stack([z, broken]):
            names = [*sorted(sound), "broken 0", "broken 1"]
            if evidence == "p":
                rejected = holm(dict(zip(names, stats.norm.sf(row), strict=True)), error=error).rejected
            else:  # likelihood ratio of N(3, 1) against N(0, 1)
                rejected = e_holm(dict(zip(names, np.exp(3 * row - 4.5), strict=True)), error=error).rejected
            wrong += bool(sound & set(rejected))
            caught += {"broken 0", "broken 1"} <= set(rejected)
        assert wrong <= 145
        assert caught >= 0.97 * repeats


def test_capital_of_sound_bets_stopped_at_their_own_levels_rarely_refutes():
    # Bets on fair coins stop at capital 20 m or after 400 rounds. The e-values add up: at most 5 % of the families.
    rng, m, repeats = np.random.default_rng(6), 5, 1_000
    coins = rng.integers(2, size=(repeats, m, 400)) * 2 - 1
    capital = np.exp(np.cumsum(np.log1p(0.15 * coins), axis=2))
    reached = capital >= 20 * m
    stop = np.where(reached.any(axis=2), reached.argmax(axis=2), 399)
    stopped = np.take_along_axis(capital, stop[..., None], axis=2)[..., 0]
    wrong = sum(bool(e_holm(named(row), error=0.05).rejected) for row in stopped)
    assert stats.binom.sf(82, repeats, 0.05) < 1e-5
    assert wrong <= 82


def test_family_chooses_the_rule_by_the_evidence():
    fixed = {"a": AuditStub(0.001), "b": AuditStub(0.03), "c": AuditStub(0.04)}
    assert family(fixed) == holm({"a": 0.001, "b": 0.03, "c": 0.04}, error=0.05)
    sequential = {"a": AuditStub(0.001, 900.0), "b": AuditStub(0.9, 1.0)}
    assert family(sequential, error=0.01) == e_holm({"a": 900.0, "b": 1.0}, error=0.01)
    mixed = {"a": AuditStub(0.001), "b": AuditStub(0.01, 50.0), "c": AuditStub(1.0, 0.0)}
    assert family(mixed) == holm({"a": 0.001, "b": 0.02, "c": 1.0}, error=0.05)
    assert family({"a": AuditStub(0.5, math.inf), "b": AuditStub(0.5)}).rejected == ("a",)


def test_a_family_may_have_audits_of_one_run_and_of_curves():
    canaries = np.arange(40.0)
    one = one_run(
        lambda rows: rows,  # published as they are
        np.empty(0),
        canaries,
        epsilon=1.0,
        score=lambda rows, asked: np.isin(asked, rows),
        rng=np.random.default_rng(1),
    )
    curve = audit(
        lambda data, n, rng: data + rng.normal(size=n),
        0.0,
        1.0,
        profile=GDP(1.0),
        n_samples=1_000,
        rng=np.random.default_rng(1),
    )
    report = family({"published": one, "normal": curve})
    assert report == holm({"published": one.p_value, "normal": curve.p_value}, error=0.05)
    assert report.rejected == ("published",)


def test_report_states_the_family_wise_error():
    report = holm({"laplace": 0.5, "svt": 1e-9, "argmax": 1e-4}, error=0.05)
    text = str(report)
    assert text.startswith("2 of 3 claims refuted: svt, argmax; with probability at least 95 % no sound mechanism is")
    assert text.endswith("among the 2 refuted (Holm); a pass is not a proof")
    assert json.loads(json.dumps(report.as_dict(), allow_nan=False))["rejected"] == ["svt", "argmax"]
    assert e_holm({"a": np.float32("inf")}, error=0.05).rejected == ("a",)
    assert str(e_holm({"a": 1.0}, error=0.05)).startswith("none of 1 claims refuted (e-Holm, error probability 0.05")
    assert "probability at least 1 - 1e-09" in str(holm({"a": 0.0}, error=1e-9))
    assert "q7, ..." in str(holm({f"q{i}": 0.0 for i in range(20)}, error=0.05))
    with pytest.raises(AttributeError):
        report.error = 0.5


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: holm([0.1], error=0.05), TypeError, "p_values must be a mapping of names, got"),
        (lambda: holm({}, error=0.05), ValueError, "p_values must hold at least one entry"),
        (lambda: holm({1: 0.01}, error=0.05), TypeError, "p_values must have names that are text, got 1 of type int"),
        (lambda: holm({"a": 1.1}, error=0.05), ValueError, r"p_values\['a'\] must lie between 0 and 1, got 1.1"),
        (lambda: holm({"a": math.nan}, error=0.05), ValueError, r"p_values\['a'\] must lie between 0 and 1"),
        (lambda: holm({"a": "1"}, error=0.05), TypeError, r"p_values\['a'\] must be a real number"),
        (lambda: holm({"a": 0.1}, error=1.0), ValueError, "error must lie strictly between 0 and 1, got 1.0"),
        (lambda: e_holm({"a": -1.0}, error=0.05), ValueError, r"e_values\['a'\] must be at least 0, got -1.0"),
        (lambda: e_holm({"a": math.nan}, error=0.05), ValueError, r"e_values\['a'\] must be at least 0"),
        (lambda: e_holm({}, error=0.05), ValueError, "e_values must hold at least one entry"),
        (lambda: e_holm({"a": 1.0}, error=0), ValueError, "error must lie strictly between 0 and 1"),
        (lambda: average_e([]), ValueError, "e_values must hold at least one e-value"),
        (lambda: average_e([-1.0]), ValueError, r"e_values\[0\] must be at least 0"),
        (lambda: family({}), ValueError, "results must hold at least one entry"),
        (
            lambda: family({"a": 0.1}),
            TypeError,
            r"results\['a'\] must be a result of audit or one_run, got 0.1 of type float",
        ),
        (
            lambda: family({"a": AuditStub(0.1), "b": None}),
            TypeError,
            r"results\['b'\] must be a result of audit or one_run, got None",
        ),
        (lambda: family([AuditStub(0.1)]), TypeError, "results must be a mapping"),
        (lambda: family({"a": AuditStub(0.1)}, error=2.0), ValueError, "error must lie strictly between"),
    ],
)
def test_bad_arguments_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_error_is_told_as_it_is():
    """One of 5.00004 % was told as 5 %, and what is guaranteed as 95 %."""
    assert "at least 95 %" in str(holm({"a": 0.05}, error=0.05)) and "at least 93 %" in str(
        holm({"a": 0.05}, error=0.07)
    )
    assert "at least 1 - 0.0500004 no" in str(holm({"a": 0.05}, error=0.0500004))
    assert "error probability 0.01234564 of" in str(holm({"a": 0.5}, error=0.01234564))

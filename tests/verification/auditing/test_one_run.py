"""Audits in one run: sound mechanisms pass, planted faults are caught, bad input is told in one sentence.

Rates: every seed is fixed. A false alarm rate is compared with what 200 or more sound audits exceed with probability
1e-6 at most if the rate is the nominal one.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize, stats

import pm_dpgmm as dpg
from pm_dpgmm.privacy.curves import GaussianProfile
from verification import GDP, ZCDP, one_run
from verification.auditing import curve_certificate
from verification.auditing.certificate_reading import verify
from verification.auditing.certificate_writing import certificate, digest_of
from verification.auditing.claimed_curve import claimed_curve
from verification.auditing.one_run import _right, guess
from verification.auditing.one_run_guessing import OneRunCounts
from verification.auditing.one_run_result import _check_together, judged

DELTA = 1e-5
NO_ONE = np.zeros(0, dtype=int)
MU = optimize.brentq(lambda mu: float(GDP(mu).delta(1.0)) - DELTA, 0.01, 1.0)  # of (1, 1e-5), 0.24


def read(release, rows):
    """The coordinate of each canary."""
    return release[rows]


def noisy_sum(size, *, share=1.0, mu=MU):
    """A sum in ``size`` dimensions, everybody a coordinate; its noise is ``share`` of what mu-GDP needs."""

    def noisy_sum(rows, rng):
        return np.bincount(rows, minlength=size) + rng.normal(scale=share / mu, size=size)

    return noisy_sum


def audit_sum(seed, *, size=400, share=1.0, mu=MU, **choices):
    claim = {"epsilon": 1.0, "delta": DELTA} | choices
    rng = np.random.default_rng(seed)
    return one_run(noisy_sum(size, share=share, mu=mu), NO_ONE, np.arange(size), score=read, rng=rng, **claim)


def most(n, rate):
    """Refuted audits that ``n`` of a test with this rate exceed with probability 1e-6 at most."""
    return int(stats.binom.isf(1e-6, n, rate))


@pytest.mark.thorough
def test_randomised_response_at_its_epsilon_is_refuted_at_the_level():
    """The hardest sound mechanism: the law of right guesses is the one that it is compared with."""

    def response(rows, rng):
        inside = np.isin(np.arange(100), rows)
        return np.where(rng.random(100) < 1 / (1 + np.exp(-1.0)), inside, ~inside).astype(float)

    found = [
        one_run(response, NO_ONE, np.arange(100), score=read, epsilon=1.0, rng=np.random.default_rng(seed))
        for seed in range(300)
    ]
    refuted = sum(result.refuted for result in found)
    assert sum(result.epsilon_lower > 1.0 for result in found) <= refuted <= most(300, 0.05)
    assert refuted > 0


@pytest.mark.thorough
def test_a_sound_sum_passes_and_a_tenth_of_its_noise_is_caught_every_time():
    assert sum(audit_sum(seed).refuted for seed in range(200)) <= most(200, 0.05)
    found = [audit_sum(seed, share=0.1) for seed in range(50)]
    assert all(result.refuted and result.epsilon_lower > 2 for result in found)


@pytest.mark.thorough
def test_several_numbers_of_guesses_share_the_error():
    """Pure Laplace noise at its epsilon; three numbers of guesses, fixed beforehand."""

    def mechanism(rows, rng):
        return np.bincount(rows, minlength=200) + rng.laplace(size=200)

    def audited(seed, **choices):
        return one_run(
            mechanism, NO_ONE, np.arange(200), score=read, epsilon=1.0, rng=np.random.default_rng(seed), **choices
        )

    found = [audited(seed, guesses=(20, 60, 200)) for seed in range(200)]
    assert sum(result.refuted for result in found) <= most(200, 0.05)
    split, alone = audited(5, guesses=(20, 60)), [audited(5, guesses=k) for k in (20, 60)]
    assert split.p_value == pytest.approx(min(1, 2 * min(result.p_value for result in alone)))
    assert split.correct == alone[split.best].correct


def test_of_several_numbers_of_guesses_all_counts_stand_beside_the_bound():
    """The p-value may come from other guesses than the bound: "at least 0.38; 1 of 1 guesses right" was said of 134."""
    found = audit_sum(5, guesses=(20, 60))
    counts = ", ".join(f"{one.correct} of {one.guesses}" for one in found.tries)
    assert f"{counts} guesses right, 400 canaries, one run" in str(found)
    stored = certificate(found)
    assert verify(stored).holds
    best = found.tries[found.best]
    earlier = found.in_earlier_words()[0].replace(counts, f"{best.correct} of {best.guesses}")
    stored = stored | {"statement": earlier}
    assert earlier != str(found) and verify(stored | {"digest": digest_of(stored)}).holds
    assert not verify(stored | {"statement": earlier.replace("guesses right", "guesses wrong")}).holds


def test_a_curve_is_audited_whole():
    assert not any(audit_sum(seed, epsilon=None, profile=GDP(mu=0.5), mu=0.5).refuted for seed in range(5))
    broken = audit_sum(1, epsilon=None, profile=GDP(mu=0.5), mu=0.5, share=0.1)
    assert broken.refuted and "0.5-GDP" in broken.claim and "refuted" in str(broken)
    assert broken.epsilon_lower > 2


def test_replace_one_reads_the_difference_of_a_pair():
    def mechanism(rows, rng, scale):
        return np.bincount(rows, minlength=400) + rng.laplace(scale=scale, size=400)

    pair = (np.arange(200), 200 + np.arange(200))
    for scale, caught in ((2.0, False), (0.2, True)):  # a replaced record moves two counts by 1
        found = one_run(
            lambda rows, rng, scale=scale: mechanism(rows, rng, scale),
            NO_ONE,
            pair,
            score=read,
            neighbours="replace-one",
            epsilon=1.0,
            rng=np.random.default_rng(3),
        )
        assert found.refuted == caught and found.canaries == 200 and found.guesses == 100


def test_one_label_alone_can_be_guessed():
    for labels in ("in", "out"):
        found = audit_sum(2, share=0.1, labels=labels, guesses=100)
        assert found.refuted and found.tries[0].tails == 1 and found.correct > 95


def test_what_is_guessed_follows_from_scores_alone():
    scores = np.array([0.5, np.nan, -3.0, 2.0, 0.1])
    places, guessed = guess(scores, 3, "both", pairs=False)
    assert dict(zip(places.tolist(), guessed.tolist(), strict=True)) == {3: True, 0: True, 2: False}
    places, guessed = guess(scores, 2, "both", pairs=True)
    assert dict(zip(places.tolist(), guessed.tolist(), strict=True)) == {2: False, 3: True}
    for labels in ("both", "in", "out"):
        for pairs in (False, True):
            for number in range(1, 6):
                places, guessed = guess(scores, number, labels, pairs=pairs)
                assert len(set(places.tolist())) == number == guessed.size


def test_the_mechanism_runs_once_with_records_and_half_of_the_canaries():
    seen = []

    def mechanism(rows):
        seen.append(rows)
        return rows

    records, canaries = np.zeros((30, 2)), 1.0 + np.arange(80).reshape(40, 2)
    found = one_run(
        mechanism,
        records,
        canaries,
        score=lambda release, rows: np.isin(rows[:, 0], release),
        epsilon=1.0,
        rng=np.random.default_rng(2),  # of fair coins more than 30 or fewer than 10 canaries may be in, too few to tell
    )
    assert len(seen) == 1 and (seen[0][:30] == 0).all()
    assert seen[0].shape == (30 + found.n_included, 2)
    assert found.refuted and found.correct == found.guesses == 20  # it shows everything
    assert found.epsilon_lower == pytest.approx(found.ceiling)


def test_summary_and_certificate(tmp_path):
    for choices in ({}, {"epsilon": None, "profile": GDP(mu=0.24)}, {"share": 0.1, "guesses": (50, 100)}):
        found = audit_sum(4, **choices)
        assert f"{found.correct:,} of {found.guesses:,}" in found.summary()
        assert "with every guess right" in found.summary() and "table" in found._repr_html_()
        found.save(tmp_path / "one.json", mechanism="noisy sum")
        stored = json.loads((tmp_path / "one.json").read_text())
        assert verify(stored).holds, str(verify(stored))
        assert stored["tries"][0]["guesses"] == found.tries[0].guesses
        for name, value in (("epsilon_lower", 7.0), ("refuted", not found.refuted), ("p_value", 0.5)):
            assert not verify(stored | {name: value}).holds
        better = [counts | {"correct": counts["guesses"] // 2} for counts in stored["tries"]]
        assert not verify(stored | {"tries": better}).holds


def test_a_certified_bound_is_printed_no_larger_than_it_is(tmp_path):
    found = audit_sum(4, share=0.1, guesses=(50, 100))
    higher = replace(found, epsilon_lower=1.23456)
    assert "at least 1.234 " in str(higher) and "at least 1.234," in higher.summary()
    assert "at least 1.235 " in higher.in_earlier_words()[0]
    found.save(tmp_path / "one.json")
    stored = json.loads((tmp_path / "one.json").read_text())
    for words in found.in_earlier_words():  # rounded to the nearest, and before that of one number of guesses
        earlier = stored | {"statement": words}
        assert verify(earlier | {"digest": digest_of(earlier)}).holds


def test_a_claim_is_named_as_it_is_and_earlier_certificates_that_rounded_it_hold(tmp_path):
    """A claim a little above the one that was refuted was named, and the certificate held."""
    found = audit_sum(4, epsilon=0.1234567891, delta=1.23456789e-5)
    assert "epsilon = 0.1234567891, delta = 1.23456789e-05" in str(found)
    found.save(tmp_path / "one.json")
    stored = json.loads((tmp_path / "one.json").read_text())
    assert verify(stored).holds
    earlier = replace(found, claim="epsilon = 0.123457, delta = 1.23457e-05")
    stored |= {"claim": earlier.claim, "statement": earlier.in_earlier_words()[1]}
    assert verify(stored | {"digest": digest_of(stored)}).holds
    assert not verify(forged(stored, claim="epsilon = 0.2, delta = 1.23457e-05")).holds


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_whole_numbers_that_the_type_of_the_canaries_changes_are_refused(kind):
    """They reached the mechanism rounded, without a word."""

    def total(rows):
        return rows.sum()

    def score(release, rows):
        return rows[:, 0]

    canaries = np.ones((40, 1), dtype=kind)
    with pytest.raises(TypeError, match="records must be whole numbers that float64 holds"):
        one_run(total, np.array([[2**53 + 1], [1]]), canaries, score=score, epsilon=1.0)
    one_run(total, np.array([[2**53], [1]]), canaries, score=score, epsilon=1.0)


def forged(stored, **changes):
    """With a digest that fits: it shows mistakes, and stops nobody."""
    changed = stored | changes
    return changed | {"digest": digest_of(changed)}


@pytest.mark.parametrize("rho", [1e-6, 0.02, 0.5, 10.0])
@pytest.mark.parametrize("share", [1.0, 0.1])
def test_a_certificate_of_a_concentrated_claim_holds(rho, share, tmp_path):
    """Its curve is read lower than it is given, as that of any claim is convex: it was compared with the one given."""
    found = audit_sum(1, epsilon=None, profile=ZCDP(rho=rho), mu=0.5, share=share)
    found.save(tmp_path / "one.json")
    checked = verify(json.loads((tmp_path / "one.json").read_text()))
    assert checked.holds, str(checked)


def test_a_certificate_cannot_name_a_weaker_claim_than_was_refuted(tmp_path):
    """Counts that refute .1-GDP say nothing of 1-GDP."""
    strict = audit_sum(1, epsilon=None, profile=GDP(mu=0.1), mu=0.5, share=0.1)
    strict.save(tmp_path / "one.json")
    stored = json.loads((tmp_path / "one.json").read_text())
    assert strict.refuted and verify(stored).holds and verify(forged(stored)).holds
    words = stored["statement"].replace("0.1-GDP", "3-GDP")
    for claim in ("3-GDP", "0.102-GDP", "1-zCDP", "nothing"):
        assert not verify(forged(stored, claim=claim, statement=words)).holds, claim
    bad = {"neighbours": [None, "x"], "n_included": [-1, 10**19, "x", True]}
    for name, value in [(name, value) for name, values in bad.items() for value in values]:
        assert not verify(forged(stored, **{name: value})).holds, (name, value)
    audit_sum(1).save(tmp_path / "two.json")
    plain = json.loads((tmp_path / "two.json").read_text())
    for value in (True, str(plain["epsilon"])):
        assert not verify(forged(plain, epsilon=value)).holds, value


@pytest.mark.parametrize("labels", ["in", "out"])
def test_a_certificate_cannot_have_fewer_canaries_in_than_were_guessed_right(labels, tmp_path):
    found = audit_sum(1, labels=labels, guesses=100)
    found.save(tmp_path / "one.json")
    stored = json.loads((tmp_path / "one.json").read_text())
    of_label = {"in": found.n_included, "out": found.canaries - found.n_included}[labels]
    assert verify(stored).holds and found.correct <= of_label
    for n_in in (found.correct - 1, found.canaries - (found.guesses - found.correct) + 1):
        wrong = n_in if labels == "in" else found.canaries - n_in
        assert not verify(forged(stored, n_included=wrong)).holds


@pytest.mark.parametrize("guesses", [100, 101])
def test_guesses_of_both_labels_tell_how_many_were_in_at_least_and_at_most(guesses, tmp_path):
    """All right: as many were in as were guessed in. For pairs each may be guessed either way."""
    found = audit_sum(1, guesses=guesses, mu=30.0)
    found.save(tmp_path / "one.json")
    stored = json.loads((tmp_path / "one.json").read_text())
    assert found.correct == guesses and verify(stored).holds
    least, most = (guesses + 1) // 2, found.canaries - guesses // 2
    told = {n_in: verify(forged(stored, n_included=n_in)).holds for n_in in (0, least - 1, least, most, most + 1)}
    assert told == {0: False, least - 1: False, least: True, most: True, most + 1: False}
    pairs = forged(stored, n_included=0, neighbours="replace-one")
    assert verify(pairs).holds


def test_a_score_is_a_text(tmp_path):
    found = audit_sum(1)
    found.save(tmp_path / "one.json")
    stored = json.loads((tmp_path / "one.json").read_text())
    for score in (None, 3, ["a"], {"a": 1}):
        assert "score: must be a text" in str(verify(forged(stored, score=score)))


@pytest.mark.parametrize("claim", [{"epsilon": 1e308}, {"epsilon": None, "profile": ZCDP(rho=1e308)}])
def test_claims_of_the_largest_floats_do_not_warn(claim):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not audit_sum(1, **claim).refuted


@pytest.mark.parametrize("mu", [0.1, 3.0], ids=["stricter", "weaker"])
@pytest.mark.parametrize("side", ["first", "second"])
def test_words_need_their_curve_in_both_orders(side, mu):
    """Less is refuted of a stricter one, and more passes of a weaker one."""
    named = claimed_curve(profile=GDP(mu=1.0))
    curve_certificate.check_named(named, {})
    other = claimed_curve(profile=GDP(mu=mu))
    with pytest.raises(ValueError, match="claim and curve must be those of 1-GDP"):
        curve_certificate.check_named(replace(named, **{side: other.first}), {})


@pytest.mark.parametrize("kind", [lambda value: GDP(mu=value), lambda value: ZCDP(rho=value)], ids=["GDP", "zCDP"])
def test_words_of_four_digits_fit_the_curves_of_any_parameter(kind):
    for value in np.exp(np.random.default_rng(1).uniform(math.log(1e-6), math.log(8.0), size=60)):
        curve_certificate.check_named(claimed_curve(profile=kind(float(value))), {})


def test_a_certificate_cannot_pass_by_a_weaker_curve_than_it_names(tmp_path):
    """Counts that refute .1-GDP, under its words, with a curve that allows everything."""
    strict = audit_sum(1, epsilon=None, profile=GDP(mu=0.1), mu=0.5, share=0.1)
    strict.save(tmp_path / "one.json")
    stored = json.loads((tmp_path / "one.json").read_text())
    assert strict.refuted and verify(forged(stored)).holds
    curve = stored["curve"] | {side: [1.0] * len(stored["curve"][side]) for side in ("first", "second")}
    checked = verify(forged(stored, curve=curve, refuted=False))
    assert not checked.holds and "claim and curve must be those of 0.1-GDP" in str(checked)


@pytest.mark.parametrize("slack, failure", [(0.0, 0.0), (1e-7, 1e-8)])
def test_a_mu_in_words_is_that_of_the_curve(slack, failure, tmp_path):
    """Counts that refute .1-GDP were taken for a refutation of "the curve given, mu = 9"."""
    noise = GaussianProfile(mu=0.1, slack=slack, failure=failure)
    audit_sum(1, epsilon=None, profile=noise, mu=0.5, share=0.1).save(tmp_path / "one.json")
    stored = json.loads((tmp_path / "one.json").read_text())
    assert verify(forged(stored)).holds and stored["claim"] == "the curve given, mu = 0.1"
    for words in ("mu = 9", "mu = 0.101", "mu = 1e+300", "mu = .", "mu = 0.099"):
        statement = stored["statement"].replace("mu = 0.1", words)
        assert not verify(forged(stored, claim=f"the curve given, {words}", statement=statement)).holds
    bare = {name: values for name, values in stored["curve"].items() if name not in ("slack", "failure")}
    assert not verify(forged(stored, curve=bare)).holds


@pytest.mark.parametrize("pair", ["epsilon = 10, delta = 2", "epsilon = -1, delta = 0.1", "epsilon = 1, delta = -0.1"])
def test_words_of_a_guarantee_hold_numbers_of_one(pair, tmp_path):
    guarantee = SimpleNamespace(curve=GDP(MU).delta, epsilon=1.0, delta=DELTA, neighbouring="add-remove")
    audit_sum(1, epsilon=None, guarantee=guarantee).save(tmp_path / "one.json")
    stored = json.loads((tmp_path / "one.json").read_text())
    assert verify(forged(stored)).holds
    words = f"the curve of ({pair})"
    statement = stored["statement"].replace(stored["claim"], words)
    assert not verify(forged(stored, claim=words, statement=statement)).holds


def test_the_name_of_a_score_adds_no_lines():
    def score(area, canary):
        return np.arange(len(canary))

    score.__name__ = "fair\nverdict  refuted"
    found = one_run(
        lambda rows, rng: rng.normal(size=2),
        np.arange(4),
        np.arange(8),
        epsilon=1.0,
        score=score,
        rng=np.random.default_rng(1),
    )
    assert "fair\\nverdict  refuted" in found.summary()
    assert sum(line.startswith("verdict") for line in found.summary().splitlines()) == 1


def test_a_named_curve_has_no_points_between_its_own():
    named = claimed_curve(profile=GDP(mu=1.0))
    epsilons = np.insert(named.epsilons, 1, named.epsilons[1] / 2)
    deltas = np.insert(named.first, 1, GDP(mu=1.0).delta(epsilons[1]))
    for value in (0.0, 0.9 * deltas[1], deltas[1]):
        lower = np.insert(named.first, 1, value)
        with pytest.raises(ValueError, match="claim and curve must be those of 1-GDP"):
            curve_certificate.check_named(replace(named, epsilons=epsilons, first=lower, second=deltas), {})


def test_notes_of_a_certificate_follow_from_its_counts(tmp_path):
    audit_sum(1, guesses=5).save(tmp_path / "few.json")
    stored = json.loads((tmp_path / "few.json").read_text())
    assert verify(forged(stored)).holds and stored["notes"]
    bare = stored["statement"].split("; note")[0]
    for notes in ([], [*stored["notes"], "all is well"]):  # with the statement that they would make
        words = bare + "".join(f"; note: {note}" for note in notes)
        assert not verify(forged(stored, notes=notes, statement=words)).holds


def test_an_audit_that_could_not_refute_says_so():
    found = audit_sum(1, guesses=5)
    assert not found.refuted and "could refute no epsilon from" in found.notes[0]
    assert not audit_sum(1).notes


REPLACED = SimpleNamespace(curve=GDP(MU).delta, epsilon=1.0, delta=DELTA, neighbouring="replace-one")
BAD = {
    "epsilon": ({"epsilon": -1.0}, ValueError, "epsilon must be finite and at least 0"),
    "no claim": ({"epsilon": None}, ValueError, "guarantee or profile must be given"),
    "two claims": ({"profile": GDP(mu=1.0)}, ValueError, "only one of them"),
    "delta": ({"delta": 1.0}, ValueError, "delta must be at least 0 and below 1"),
    "false_alarm": ({"false_alarm": 0}, ValueError, "false_alarm must lie strictly"),
    "guesses none": ({"guesses": 0}, ValueError, "guesses must be at least 1"),
    "guesses many": ({"guesses": 41}, ValueError, "guesses must be at most 40"),
    "guesses half": ({"guesses": 2.5}, TypeError, "guesses must be an integer"),
    "guesses empty": ({"guesses": ()}, ValueError, "guesses must be a number or up to 64"),
    "labels": ({"labels": "maybe"}, ValueError, "labels must be one of"),
    "neighbours": ({"neighbours": "zero-out"}, ValueError, "neighbours must be one of"),
    "pairs": ({"neighbours": "replace-one"}, ValueError, "canaries must be a pair"),
    "another relation": (
        {"epsilon": None, "guarantee": REPLACED},
        ValueError,
        "neighbours must be that of the guarantee",
    ),
    "score": ({"score": 3}, TypeError, "score must be callable"),
    "rng": ({"rng": 3}, TypeError, "rng must be a numpy.random.Generator"),
    "canaries": ({"canaries": np.zeros((4, 3))}, ValueError, "canaries must have at least one row"),
    "no canaries": ({"canaries": np.zeros((0, 2))}, ValueError, "canaries must have at least one row"),
    "words": ({"canaries": ["a", "b"]}, TypeError, "canaries must be an array of numbers"),
    "records": ({"records": None}, TypeError, "records must be an array of numbers"),
    "whole": (
        {"records": np.zeros((5, 2), int), "canaries": np.ones((40, 2), np.uint64)},
        TypeError,
        "must be whole numbers that one type holds, got records of int64, canaries of uint64",
    ),
    "mechanism": ({"mechanism": 1}, TypeError, "mechanism must be callable"),
    "parameters": (
        {"mechanism": lambda rows, n, rng: rows},
        TypeError,
        "must take .data, rng. .* got parameters rows, n",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_before_the_run(case):
    def mechanism(rows, rng):
        raise AssertionError("it ran")

    wrong, kind, words = BAD[case]
    given = {"mechanism": mechanism, "records": np.zeros((5, 2)), "canaries": np.ones((40, 2)), "epsilon": 1.0} | wrong
    with pytest.raises(kind, match=words):
        one_run(given.pop("mechanism"), given.pop("records"), given.pop("canaries"), **given)


@pytest.mark.parametrize("ends", ["mechanism", "score", "profile"])
@pytest.mark.parametrize("raised", [SystemExit, asyncio.CancelledError])
def test_code_that_ends_the_program_is_an_error_and_not_a_verdict(raised, ends):
    def ending(*_):
        raise raised(1)

    parts = {"mechanism": lambda data, rng: data.sum(), "score": lambda release, rows: rows, "profile": GDP(1.0)}
    parts[ends] = ending
    mechanism = parts.pop("mechanism")
    with pytest.raises(RuntimeError, match=f"^{ends} raised .*{raised.__name__}: 1"):
        one_run(mechanism, np.zeros(0), np.ones(50), rng=np.random.default_rng(1), **parts)


def test_scores_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="score must give one number for each of 40 canaries"):
        one_run(lambda rows: rows, NO_ONE, np.arange(40), score=lambda release, rows: 1.0, epsilon=1.0)
    with pytest.raises(ValueError, match="score must give one number for each of 40 canaries"):
        one_run(lambda rows: rows, NO_ONE, np.arange(40), score=lambda release, rows: 1j * rows, epsilon=1.0)
    with pytest.raises(TypeError, match="score must be given where the release has no log_density, got ndarray"):
        one_run(lambda rows: rows, NO_ONE, np.arange(40), epsilon=1.0)


def ring(number, radius):
    """Canaries far from the records and from each other."""
    angle = 2 * np.pi * np.arange(number) / number
    return radius * np.column_stack([np.cos(angle), np.sin(angle)])


def fit(method):
    def mechanism(rows, rng):
        return dpg.fit_gmm(
            rows,
            n_components=8,
            epsilon=1.0,
            delta=DELTA,
            bounds=[[-10, 10], [-10, 10]],
            method=method,
            neighbouring="add-remove",
            progress=False,
            random_seed=int(rng.integers(2**31)),
        )

    return mechanism


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
@pytest.mark.parametrize("method", ["sketch", "histogram"])
def test_fits_of_this_package_pass(method):
    """One audit of each, by the density of the release at the canaries; seeds are fixed."""
    records = np.random.default_rng(1).normal(size=(300, 2))
    found = one_run(fit(method), records, ring(40, 8.0), epsilon=1.0, delta=DELTA, rng=np.random.default_rng(2))
    assert not found.refuted and found.score.startswith("log density")


@pytest.mark.parametrize("m", [40, 100, 1_000])
def test_numbers_that_nobody_set_hold_no_coins(m):
    """Whatever memory holds: of an audit that leaves its coins there, or who was in, all guesses are right."""
    slots = np.arange(m)

    def as_coins(rows, rng):
        return np.empty(m)

    def as_places(rows, rng):
        return np.isin(slots, np.empty(len(rows), dtype=np.int64))

    for mechanism in (as_coins, as_places):
        for seed in range(30):  # of no coin known, 19 of 20 are right with probability 2e-5, and that is the likeliest
            found = one_run(
                mechanism,
                slots[:0],
                slots,
                score=lambda release, _: release,
                epsilon=1.0,
                rng=np.random.default_rng(seed),
            )
            assert not found.refuted, mechanism


def test_what_a_score_masks_is_unsure():
    slots = np.arange(1_000)

    def correct(score):
        rng = np.random.default_rng(2)
        return one_run(lambda rows, rng: rows.size, slots[:0], slots, score=score, epsilon=1.0, rng=rng).correct

    masked = correct(lambda release, rows: np.ma.masked_greater_equal(rows, 3))
    assert masked == correct(lambda release, rows: np.where(rows < 3, rows, np.nan))
    assert masked != correct(lambda release, rows: rows)  # as what is under the mask would be guessed


def test_pairs_of_infinite_scores_are_unsure_without_a_word():
    slots = np.arange(100.0)

    def score(release, rows):
        return np.where(rows % 100 < 50, -np.inf, -rows)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = {"canaries": (slots, slots + 100), "score": score, "epsilon": 1.0, "neighbours": "replace-one"}
        found = one_run(lambda rows, rng: rows.size, slots[:0], rng=np.random.default_rng(2), **given)
    assert not found.refuted


def test_without_records_canaries_keep_their_type():
    seen = []
    one_run(lambda rows, rng: seen.append(rows.dtype), [], np.arange(20), score=lambda r, rows: rows, epsilon=1.0)
    assert seen == [np.arange(20).dtype]


@pytest.mark.parametrize("which", [1, 2])
def test_records_and_canaries_with_a_mask_are_refused(which):
    given = [lambda rows, rng: rows.sum(), np.arange(3.0), np.arange(10.0)]
    given[which] = np.ma.masked_equal(given[which], 1.0)
    with pytest.raises(TypeError, match="without a mask"):
        one_run(*given, score=lambda release, rows: rows, epsilon=1.0)


@pytest.mark.parametrize("labels, pairs", [("both", False), ("both", True), ("in", False), ("out", True)])
def test_counts_of_several_numbers_of_guesses_fit_each_other_whatever_the_scores(labels, pairs):
    """With ties, infinite and unsure scores: nothing that an audit can count is refused."""
    rng = np.random.default_rng(1)
    for trial in range(400):
        m = int(rng.integers(1, 7))
        scores = rng.choice([-np.inf, -1.0, 0.0, 1.0, np.inf, np.nan], size=m)
        if trial % 4 == 0:
            scores = rng.normal(size=m)
        for coins in itertools.product([False, True], repeat=m):
            tries = [
                OneRunCounts(_right(scores, np.array(coins), g, labels, pairs=pairs), g, m, 1 + (labels == "both"))
                for g in range(1, m + 1)
            ]
            _check_together(tuple(rng.permutation(np.array(tries, dtype=object))), labels, pairs=pairs)


@pytest.mark.parametrize(
    "tries, neighbours, labels",
    [
        ([(0, 20), (100, 100)], "add-remove", "both"),
        ([(20, 20), (15, 21)], "add-remove", "both"),
        ([(5, 20), (7, 20)], "add-remove", "both"),
        ([(20, 20), (10, 100)], "replace-one", "both"),
        ([(90, 100), (5, 20)], "replace-one", "both"),
        ([(15, 20), (14, 60)], "add-remove", "in"),
        ([(15, 20), (96, 100)], "add-remove", "out"),
    ],
)
def test_a_certificate_whose_counts_rule_each_other_out_does_not_hold(tries, neighbours, labels):
    """All twenty surest guesses wrong, and all of the surest hundred right."""

    def certified(tries):
        counts = tuple(OneRunCounts(right, of, 200, 1 + (labels == "both")) for right, of in tries)
        found = judged(
            counts, (1.0, 0.0), labels=labels, neighbours=neighbours, n_included=100, score="x", false_alarm=0.05
        )
        return json.loads(json.dumps(certificate(found)))

    assert "tries must be of " in str(verify(certified(tries)))
    sound = certified([(15, 20), (70, 100)])
    assert verify(sound).holds
    for best in (float(sound["best"]), bool(sound["best"]), 2, -1):
        changed = sound | {"best": best}
        assert "best must be " in str(verify(changed | {"digest": digest_of(changed)}))

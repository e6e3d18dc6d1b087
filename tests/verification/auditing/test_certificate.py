"""Certificates: what is written holds, what is changed is found, and what is no certificate is named.

Nothing here is random but a handful of audits with fixed seeds, so no check can raise a false alarm.
"""

from __future__ import annotations

import codecs
import contextlib
import copy
import dataclasses
import json
import math
import os
import subprocess
import sys
from functools import lru_cache

import numpy as np
import pytest

from verification import GDP
from verification.__main__ import main
from verification.auditing import certificate_writing
from verification.auditing.audit import audit
from verification.auditing.betting import LEVELS, STEP
from verification.auditing.certificate_reading import READERS, verify
from verification.auditing.certificate_writing import FORMAT, NOT_COVERED, certificate, digest_of, save_certificate
from verification.auditing.guessing import MOST_RUNS, GuessCounts, delta_bound
from verification.auditing.result import AS_RUNS_COME, GRIDS, HOW_OFTEN, LEARNERS, UNLOOKED, in_earlier_words
from verification.auditing.rounding import rounded_down, six_digits, to_nearest


def laplace(scale):
    return lambda data, n, rng: data + rng.laplace(scale=scale, size=n)


def too_little_noise(data, n, rng):
    """For the command line."""
    return data + rng.laplace(scale=0.3, size=n)


AUDITS = {
    "refuted": (laplace(0.3), {}),
    "passed": (laplace(1.0), {}),
    "passed with delta": (laplace(1.0), {"delta": 0.01}),
    "refuted with delta": (laplace(0.3), {"delta": 0.01}),
    "blind": (laplace(1.0), {"epsilon": 40.0}),  # its detection limit is infinite
    "leaks all": (lambda data, n, rng: data + rng.random(n), {}),
    "fails": (lambda data, n, rng: np.full(n, np.nan), {}),  # with a note
    "sequential refuted": (laplace(0.1), {"sequential": True, "false_alarm": 0.01}),
    "sequential passed": (laplace(1.0), {"sequential": True, "n_samples": 300}),
    "sequential passed with delta": (laplace(1.0), {"sequential": True, "n_samples": 300, "delta": 0.01}),
}


@lru_cache(None)
def result(name):
    mechanism, settings = AUDITS[name]
    settings = {"epsilon": 1.0, "n_samples": 2_000} | settings
    return audit(mechanism, 0.0, 1.0, rng=np.random.default_rng(1), **settings)


def stored(name):
    """The certificate as it comes out of a file."""
    return json.loads(json.dumps(certificate(result(name), mechanism="m", pair="p"), allow_nan=False))


def changed(name, path, value):
    """The certificate with one entry replaced; ``path`` leads to it."""
    found = stored(name)
    *groups, last = path
    place = found
    for key in groups:
        place = place[key]
    assert place[last] != value or type(place[last]) is not type(value)
    place[last] = value
    return found


def write(tmp_path, text):
    path = tmp_path / "certificate.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return str(path)


# ------------------------------------------------------------------ what is written
@pytest.mark.thorough(quick=["blind"])
@pytest.mark.parametrize("name", AUDITS)
def test_every_certificate_holds_and_says_what_the_audit_said(name, tmp_path, capsys):
    path = tmp_path / "certificate.json"
    result(name).save(path, mechanism="m", pair="p")
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found == stored(name)
    assert found["format"] == FORMAT and found["statement"] == str(result(name)) and found["not_covered"] == NOT_COVERED
    assert (found["mechanism"], found["pair"]) == ("m", "p") and "numpy" in found["versions"]
    assert not any(key.startswith("histogram") for key in found)
    verification = verify(found)
    assert verification.holds and verification.problems == () and verification.statement == str(result(name))
    assert main(["verify", str(path)]) == 0
    printed = capsys.readouterr().out
    assert str(result(name)) in printed and NOT_COVERED in printed
    assert os.listdir(tmp_path) == ["certificate.json"]


def test_a_mechanism_is_a_name_and_a_mark_before_the_text_is_none_of_it(tmp_path):
    path = tmp_path / "certificate.json"
    for what in ("mechanism", "pair"):
        with pytest.raises(TypeError, match=f"{what} must be a text that names it, got <function"):
            result("blind").save(path, **{what: np.sum})
    assert not path.exists()
    result("blind").save(path)
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    assert main(["verify", str(path)]) == 0


def test_the_audits_cover_both_verdicts_of_every_kind():
    assert {name for name in AUDITS if result(name).refuted} == {
        name for name in AUDITS if "refuted" in name or "all" in name
    }
    assert stored("blind")["detection_limit"] == "inf"
    assert result("fails").notes


# ------------------------------------------------------------------ what is changed
WRONG_NUMBERS = (None, True, "1", -1.0, 1e-9, 10**400, math.nan, math.inf, "inf", [1.0])


@pytest.mark.thorough(quick=["delta_lower-blind"])
@pytest.mark.parametrize("name", AUDITS)
@pytest.mark.parametrize("field", ["epsilon_lower", "delta_lower", "p_value", "e_value", "detection_limit"])
def test_every_changed_number_is_found(name, field):
    original = stored(name)[field]
    # The runs that an audit that stopped early was planned for are not stored; the digest shows that.
    named = "digest: " if field == "detection_limit" and name == "sequential refuted" else f"{field}: "
    wrong = [value for value in WRONG_NUMBERS if name == "passed" and value is not original and value != original]
    if isinstance(original, float) and original > 0:
        wrong += [original * 1.00001, original / 1.00001, original * 1e-30]
    else:
        wrong += [1e-30, 0.5]
    for value in wrong:
        verification = verify(changed(name, (field,), value))
        assert not verification.holds
        below = named == "digest: " and value < stored(name)["epsilon"]  # no audit catches less than the claim
        told = "cannot be computed again: ValueError: detection_limit must be above epsilon" if below else named
        assert len(verification.problems) == 1 and verification.problems[0].startswith(told)
        assert "the certificate does not hold" in str(verification)


@pytest.mark.parametrize("name", ["refuted", "blind", "passed with delta", "fails", "sequential passed"])
def test_a_turned_verdict_and_changed_words_are_found(name):
    original = stored(name)
    for field, values in {
        "refuted": (not original["refuted"], int(original["refuted"]), None, "true"),
        "statement": ("", original["statement"] + " This is a proof.", None, 3),
        "not_covered": ("Nothing.", "", None),
        "looked_for": ([], ["everything"], [*original["looked_for"][::-1], "more"]),
        "notes": (["the data are public"], ["a", "b"]),
        "mechanism": ("another", ""),
        "pair": ("any pair",),
        "versions": ({},),
    }.items():
        for value in values:
            verification = verify(changed(name, (field,), value))
            expected = {"notes": ["statement"]}.get(field, [field])
            if field == "notes" and set(original["notes"]) & set(UNLOOKED):  # which take a kind back
                expected = ["statement", "looked_for"]
            expected = ["digest"] if field in ("mechanism", "pair", "versions") else expected
            assert [problem.split(":")[0] for problem in verification.problems] == expected


def test_a_claim_is_named_as_it_is_and_certificates_in_six_digits_hold():
    """A claim of 1.68109 was called refuted where 1.681085004 was, at a bound between the two."""
    settings = {"n_samples": 2_000, "rng": np.random.default_rng(0)}
    found = audit(lambda d, n, rng: d + rng.laplace(size=n) / 4, 0, 1, epsilon=1.681085004, **settings)
    assert str(found).startswith("claim epsilon = 1.681085004 refuted") and "1.681085004" in found._repr_html_()
    for text in (to_nearest, rounded_down):
        earlier = json.loads(json.dumps(certificate(found)))
        earlier["statement"] = found.said_with(text, six_digits)
        assert earlier["statement"].startswith("claim epsilon = 1.68109 refuted")
        assert verify(earlier | {"digest": digest_of(earlier)}).holds


@pytest.mark.thorough(quick=["bits-fixed", "pair-fixed", "curve-fixed", "pair-sequential"])
@pytest.mark.parametrize("sequential", [False, True], ids=["fixed", "sequential"])
@pytest.mark.parametrize(
    "claim", [{"epsilon": 1.0}, {"profile": GDP(1.0)}, {"epsilon": 1.0, "level": "bit"}], ids=["pair", "curve", "bits"]
)
def test_passes_in_the_words_of_earlier_versions_hold(claim, sequential):
    rng = np.random.default_rng(1)
    found = audit(fair, 0.0, 1.0, n_samples=2_000, rng=rng, sequential=sequential, **claim)
    assert (AS_RUNS_COME if sequential else HOW_OFTEN) in str(found)
    assert ("; rare leaks" in str(found)) == (not sequential or "profile" not in claim)  # as was measured
    before = "what numbers leave when divided by 1 or by the step of their grid"
    now = AS_RUNS_COME if sequential else "3 or more beyond, 1 or more near 0"
    versions = [
        (GRIDS, now),
        (GRIDS, now),
        (GRIDS, "about 1 to 4, 3 or more beyond"),
        (GRIDS, "about 1 to 4, 3 or more beyond"),
        (GRIDS, "about 1 or larger, 1 or more near 0, and 2 or more"),
        (GRIDS, "about 1 or larger, 1 or more near 0)"),
        (GRIDS, "about 1 or larger, 1 or more near 0)"),
        (before, "about 1 or larger, 1 or more near 0)"),
        (before, "6 or more as these are chosen"),
    ]
    written = set()
    for number, (before, how_often) in enumerate(versions):
        earlier = json.loads(json.dumps(certificate(found)))
        earlier["statement"] = in_earlier_words(str(found))[number]
        earlier["looked_for"] = [in_earlier_words(kind)[number] for kind in found.looked_for]
        if number > 5:  # before that one list told all kinds
            assert f" if it shows in {', '.join(earlier['looked_for'])} (9 times in 10" in earlier["statement"]
        assert ("looked for as well" in earlier["statement"]) == (number <= 5)
        assert before in earlier["looked_for"] and before in earlier["statement"] and how_often in earlier["statement"]
        assert number < 2 or ("500 runs" in earlier["statement"]) == (number <= 4)
        assert ("sums of columns that share noise" in earlier["looked_for"]) == (number > 2)
        written.add(earlier["statement"])
        earlier["digest"] = digest_of(earlier)
        assert verify(earlier).holds and verify(earlier).statement == str(found)
        for forged in (["everything", *earlier["looked_for"][1:]], [[]], [{}]):
            problems = verify(earlier | {"looked_for": forged}).problems
            assert [problem.split(":")[0] for problem in problems] == ["looked_for"]
    assert len(versions) == len(in_earlier_words(""))
    curve = "profile" in claim and not sequential  # of which alone the last two differ
    assert len(written) == len(versions) - (not curve)


def test_certified_bounds_are_printed_no_larger_than_they_are():
    found = dataclasses.replace(result("refuted"), epsilon_lower=1.23456)
    assert "at least 1.234 (" in str(found) and ">epsilon at least 1.234," in found._repr_html_()
    curve = audit(laplace(0.3), 0.0, 1.0, profile=GDP(0.5), n_samples=500, rng=np.random.default_rng(1), delta=0.01)
    found = dataclasses.replace(curve, parameter_lower=0.99999, epsilon_lower=2.00059, delta_lower=0.45678)
    for text in ("delta is at least 0.4567 ", "mu below 0.9999 is kept", "epsilon >= 2 at"):
        assert text in str(found)
    for text in ("delta at least 0.4567,", "mu below 0.9999 is kept"):
        assert text in found._repr_html_()


@pytest.mark.parametrize("name", AUDITS)
def test_certificates_whose_bounds_were_rounded_to_the_nearest_hold(name):
    found = result(name)
    earlier = json.loads(json.dumps(certificate(found)))
    earlier["statement"] = nearest = found.said_with(to_nearest)
    earlier["digest"] = digest_of(earlier)
    assert verify(earlier).holds and verify(earlier).statement == nearest


def test_of_these_certificates_some_had_other_digits():
    assert any(result(name).said_with(to_nearest) != str(result(name)) for name in AUDITS)


def test_texts_that_begin_alike_are_told_from_where_they_part():
    said = verify(changed("passed", ("statement",), stored("passed")["statement"] + " This is a proof.")).problems[0]
    assert "This is a proof" in said and len(said) < 250


def test_a_pass_at_the_level_of_values_cannot_be_turned_into_one_of_bits():
    problems = verify(changed("passed", ("level",), "bit")).problems
    assert [problem.split(":")[0] for problem in problems] == ["statement", "looked_for"]


@pytest.mark.parametrize("name", ["refuted", "refuted with delta", "blind", "sequential passed"])
@pytest.mark.parametrize("field, value", [("epsilon", 0.5), ("delta", 0.02), ("delta", 0.0), ("false_alarm", 0.2)])
def test_a_changed_claim_is_found(name, field, value):
    if stored(name)[field] != value:
        assert not verify(changed(name, (field,), value)).holds


@pytest.mark.parametrize("name", ["refuted", "passed", "passed with delta", "refuted with delta"])
def test_changed_guesses_are_found(name):
    tables = [table for table in ("guesses", "delta_guesses") if table in result(name).counts]
    assert len(tables) == 2 - (result(name).delta > 0)
    for table in tables:
        numbers = result(name).counts[table]
        if table == "delta_guesses" and not numbers["guesses"]:
            continue  # the bound is 0 for many counts
        for key in ("correct", "planned", "rounds", "tails"):
            if key == "tails" and result(name).delta == 0 and table == "guesses":
                continue  # a pure bound does not use it
            assert not verify(changed(name, ("counts", table, key), numbers[key] - 1)).holds


def test_simulated_coins_of_another_seed_are_found():
    others = [verify(changed("refuted with delta", ("counts", "guesses", "pad_seed"), seed)) for seed in range(20)]
    assert sum(not other.holds for other in others) > 10  # about 110 coins: their numbers coincide in a few per cent


def test_guesses_of_fewer_runs_for_one_of_the_bounds_are_found():
    """A smaller number of runs would turn the same guesses into a larger bound of delta."""
    found = stored("refuted")
    others = found["counts"]["delta_guesses"]
    others["rounds"] = others["planned"] = others["guesses"]
    wrong = verify(found)
    assert {problem.split(":")[0] for problem in wrong.problems} == {"delta_lower", "rounds differ from n_certified"}
    found["delta_lower"] = delta_bound(GuessCounts(**others), epsilon=1.0, error=0.05)
    assert found["delta_lower"] > result("refuted").delta_lower
    assert verify(found).problems == ("rounds differ from n_certified",)


def test_a_pure_claim_with_simulated_coins_is_found():
    found = stored("refuted")
    found["counts"]["guesses"]["planned"] += 1
    assert "a pure claim has no simulated coins" in verify(found).problems


@pytest.mark.thorough(quick=["sequential passed with delta"])
@pytest.mark.parametrize("name", ["sequential refuted", "sequential passed", "sequential passed with delta"])
def test_changed_bets_are_found(name):
    learners = result(name).counts["bets"]
    for learner in learners:
        for label in ("label_0", "label_1"):
            numbers = learners[learner][label]
            more = [number + (level == LEVELS.size // 2) for level, number in enumerate(numbers)]
            assert (
                "the bets do not add up to n_certified"
                in verify(changed(name, ("counts", "bets", learner, label), more)).problems
            )
    moved = copy.deepcopy(learners)  # one run to where it would win the most
    table = moved[next(iter(moved))]
    table["label_1"][int(np.argmax(table["label_1"]))] -= 1
    table["label_1"][-1] += 1
    assert any(problem.startswith("e_value") for problem in verify(changed(name, ("counts", "bets"), moved)).problems)
    turned = copy.deepcopy(learners)  # one learner saw another coin
    table = turned[next(iter(turned))]
    place = int(np.argmax(table["label_1"]))
    table["label_1"][place], table["label_0"][place] = table["label_1"][place] - 1, table["label_0"][place] + 1
    problems = verify(changed(name, ("counts", "bets"), turned)).problems
    assert "the bets of different learners are not on the same coins" in problems
    shifted = (LEVELS + STEP).tolist()
    first = next(iter(learners))
    assert not verify(changed(name, ("counts", "bets", first, "levels"), shifted)).holds


@pytest.mark.parametrize("name", ["refuted", "passed with delta", "refuted with delta"])
def test_guesses_of_no_label_are_found(name):
    """They would be charged no delta, and prove a bound at any."""
    problems = verify(changed(name, ("counts", "guesses", "tails"), 0)).problems
    assert "guesses are planned, but of no label (tails is 0)" in problems


NO_FIT = "event, thresholds and the labels that are guessed (tails) do not fit each other"


@pytest.mark.parametrize("name", AUDITS)
def test_the_event_is_that_of_its_thresholds_and_labels(name):
    """A guess of one label alone is charged half the delta: it must not be said of an event that guesses both."""
    for path, values in {
        ("thresholds",): ([], [0.25], [-1.0, 2.0], ["inf"]),
        ("event",): ("", None, "guess x where score >= 0.25; abstain elsewhere", "bet on each run"),
    }.items():
        for value in values:
            if stored(name)[path[0]] != value:
                assert NO_FIT in verify(changed(name, path, value)).problems
    for value in ("[]", None, [None], [0.1, 0.2, 0.3], [True]):
        assert not verify(changed(name, ("thresholds",), value)).holds
    if name in ("passed with delta", "refuted with delta"):
        labels = stored(name)["counts"]["guesses"]["tails"]
        assert NO_FIT in verify(changed(name, ("counts", "guesses", "tails"), 3 - labels)).problems


@pytest.mark.parametrize("name", ["passed", "sequential refuted"])
def test_notes_and_limits_have_their_types(name):
    for notes in ({}, "", [3], None):
        if notes != stored(name)["notes"]:
            assert not verify(changed(name, ("notes",), notes)).holds
    for limit in ("1.73", True, None):
        assert not verify(changed(name, ("detection_limit",), limit)).holds


def test_thousands_of_learners_cost_no_time():
    table = stored("sequential passed")["counts"]["bets"]["ridge"]
    many = {str(i): table for i in range(65)}
    problem = verify(changed("sequential passed", ("counts", "bets"), many)).problems[0]
    assert "bets must be those of level 'value', got ['0', '1'," in problem


OTHER_SCORE = "that of another learner"


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("level", "bit", "bets must be those of level 'bit'"),
        ("level", "\x1b[2J", "level must be one of"),
        ("level", [], "level must be one of"),
        ("score", "exact log-likelihood ratio", "score: "),
        ("score", OTHER_SCORE, "score: "),
    ],
)
@pytest.mark.parametrize("claim", [{"epsilon": 1.0}, {"profile": GDP(1.0)}], ids=["pair", "curve"])
def test_what_a_sequential_audit_looked_for_follows_from_its_bets(claim, name, value, words):
    """A pass said that it would have caught what shows in bits, or in the densities given: nobody had looked."""
    found = audit(fair, 0.0, 1.0, n_samples=300, sequential=True, rng=np.random.default_rng(1), **claim)
    value = next(score for score in LEARNERS if score != found.score) if value == OTHER_SCORE else value
    forged = json.loads(json.dumps(certificate(found))) | {name: value}
    with contextlib.suppress(ValueError):
        forged |= json.loads(json.dumps(READERS[forged["format"]](forged)[0])) | {name: value}
    forged["digest"] = digest_of(forged)
    assert words in str(verify(forged))


def test_words_of_a_certificate_do_not_write_to_the_terminal():
    found = changed("passed", ("notes",), ["\x1b[2Jevery bound follows"])
    found |= json.loads(json.dumps(READERS[found["format"]](found)[0]))
    found["digest"] = digest_of(found)
    assert verify(found).holds and "\x1b" not in str(verify(found)) and "\\x1b[2J" in str(verify(found))
    assert "\x1b" not in str(verify(found | {"statement": "\x1b[2Jit holds"}))


def test_entries_nested_too_deeply_are_no_crash():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert not verify(changed("passed", ("notes",), deep)).holds


@pytest.mark.parametrize("name", ["passed", "sequential passed", "sequential refuted"])
def test_changed_numbers_of_runs_are_found(name):
    n_samples, n_certified = result(name).n_samples, result(name).n_certified
    assert not verify(changed(name, ("n_certified",), n_certified - 1)).holds
    assert "n_certified does not fit n_samples" in verify(changed(name, ("n_samples",), n_certified - 1)).problems
    if result(name).sequential:
        assert not verify(changed(name, ("n_samples",), n_samples + 1)).holds


@pytest.mark.parametrize("name", ["passed", "refuted with delta", "sequential refuted"])
def test_what_follows_from_no_count_cannot_be_changed_by_mistake(name):
    """More runs than there were, a better detection limit, words that nobody wrote."""
    more = ("digest: some entry is not as it was saved",)
    if not result(name).sequential:
        assert verify(changed(name, ("n_samples",), 50_000_000)).problems == more
    for extra in ({"remark": "a proof"}, {"remark": {1, 2}}):
        assert verify(stored(name) | extra).problems == more


# ------------------------------------------------------------------ what is no certificate
@pytest.mark.parametrize("name", ["passed", "refuted with delta", "sequential passed"])
def test_a_missing_entry_is_named(name):
    for key in result(name).as_dict():
        if key.startswith("histogram"):
            continue
        found = stored(name)
        del found[key]
        assert verify(found).problems == (f"cannot be computed again: KeyError: '{key}'",)
    for key in ("mechanism", "pair", "versions", "digest"):  # words for the reader
        found = stored(name)
        del found[key]
        assert [problem.split(":")[0] for problem in verify(found).problems] == ["digest"]


MANY_COINS = {"correct": 1, "guesses": 1, "planned": 10**8, "rounds": 10**8, "tails": 2, "pad_seed": 1}


@pytest.mark.parametrize(
    "name, path, value, message",
    [
        ("passed", ("epsilon",), -1.0, "epsilon must be finite and at least 0"),
        ("passed", ("epsilon",), True, "epsilon must be a real number"),
        ("passed", ("epsilon",), math.nan, "epsilon must be finite"),
        ("passed", ("epsilon",), 10**400, "must be finite"),
        ("passed", ("delta",), 1.0, "delta must be at least 0 and below 1"),
        ("passed", ("false_alarm",), 0.0, "false_alarm must lie strictly between 0 and 1"),
        ("passed", ("false_alarm",), "0.05", "false_alarm must be a real number"),
        ("passed", ("sequential",), "no", "sequential must be True or False"),
        ("passed", ("sequential",), True, "KeyError: 'bets'"),
        ("passed", ("n_samples",), MOST_RUNS + 1, "n_samples must be at most 100000000"),
        ("passed", ("n_samples",), 2000.0, "n_samples must be an integer"),
        ("passed", ("n_certified",), 10**400, "n_certified must be at most"),
        ("passed", ("n_certified",), -5, "n_certified must be at least 0, got -5"),
        ("passed", ("counts",), [], "TypeError"),
        ("passed", ("counts", "guesses"), {}, "TypeError"),
        ("passed", ("counts", "guesses", "correct"), -1, "correct must be at least 0"),
        ("passed", ("counts", "guesses", "correct"), 10**400, "correct <= guesses"),
        ("passed", ("counts", "guesses", "rounds"), 10**15, "rounds must be at most"),
        ("refuted", ("counts", "delta_guesses", "rounds"), 10**15, "rounds must be at most"),
        ("passed", ("counts", "guesses"), MANY_COINS, "simulated coins must be at most"),
        ("refuted", ("counts", "delta_guesses", "guesses"), 2.5, "guesses must be an integer"),
        ("sequential passed", ("sequential",), False, "KeyError: 'guesses'"),
        ("sequential passed", ("counts", "bets"), {}, "bets must be those of level 'value', got []"),
        ("sequential passed", ("counts", "bets", "ridge", "label_0", 0), -1, "levels or counts of the bets"),
        ("sequential passed", ("counts", "bets", "ridge", "label_0", 0), 0.7, "counts of the bets must be integers"),
        ("sequential passed", ("counts", "bets", "ridge", "label_0", 0), True, "must be integers, got True or False"),
        ("sequential passed", ("counts", "bets", "ridge", "label_0", 0), 10**30, "counts of the bets must be integers"),
        ("sequential passed", ("counts", "bets", "ridge", "label_0", 0), 2**62, "counts of the bets must be integers"),
        ("sequential passed", ("counts", "bets", "ridge", "label_0"), [1, 2], "ValueError"),
        ("sequential passed", ("counts", "bets", "ridge", "levels"), [], "levels or counts of the bets"),
    ],
)
def test_impossible_entries_are_named_and_cost_no_time(name, path, value, message, tmp_path, capsys):
    found = changed(name, path, value)
    problem = verify(found).problems[0]
    assert problem.startswith("cannot be computed again: ") and message in problem
    assert main(["verify", write(tmp_path, found)]) == 1
    assert message in capsys.readouterr().out


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("\N{SNOWMAN}", "Expecting value"),
        ("[" * 100_000, "recursion"),
        ('{"format": ' + "9" * 5_000 + "}", "4300 digits"),
        ("[]", "certificate must have format 'privacy audit 2', 'privacy curve audit 1'"),
        ("3", "certificate must have format"),
        ("{}", "certificate must have format"),
        ('{"format": "privacy audit 0"}', "certificate must have format"),
        ('{"format": null}', "certificate must have format"),
    ],
)
def test_a_file_that_is_no_certificate_is_status_2(text, message, tmp_path, capsys):
    assert main(["verify", write(tmp_path, text)]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and "certificate.json" in printed.err and printed.out == ""


@pytest.mark.parametrize("key", ["refuted", "rounds", "mechanism"])
def test_a_key_twice_is_status_2(key, tmp_path, capsys):
    """A reader would see the first entry, and Python would compute with the second one."""
    text = json.dumps(stored("passed")).replace(f'"{key}": ', f'"{key}": 7, "{key}": ', 1)
    assert main(["verify", write(tmp_path, text)]) == 2
    assert f"keys must be there once, got '{key}' twice" in capsys.readouterr().err


@pytest.mark.parametrize("entry", [{1.0}, b"bytes", math.nan, (1, 2), {1: 2}, np.float64(1.0)])
@pytest.mark.parametrize("digest", ["", None, "as saved"])
def test_an_entry_that_no_file_holds_has_no_digest(entry, digest):
    found = stored("passed") | {"versions": entry}
    if digest != "as saved":
        found["digest"] = digest
    assert not verify(found).holds
    found.pop("digest")
    assert not verify(found).holds


def test_files_that_cannot_be_read_are_status_2(tmp_path, capsys):
    """A pipe, such as a device, has no end: it hung for ever."""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "missing", tmp_path, tmp_path / "bytes", tmp_path / "pipe"):
        assert main(["verify", str(path)]) == 2
        assert str(path) in capsys.readouterr().err


def test_a_certificate_that_does_not_hold_is_status_1(tmp_path, capsys):
    assert main(["verify", write(tmp_path, changed("passed", ("epsilon_lower",), 0.5))]) == 1
    true = result("passed").epsilon_lower
    assert f"epsilon_lower: 0.5 is stored, {true!r} follows" in capsys.readouterr().out


# ------------------------------------------------------------------ saving
def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "certificate.json"
    result("passed").save(path)
    before = path.read_bytes()

    def full_disk(draft, target):
        raise OSError(28, "No space left on device", str(draft), None, str(target))

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match=rf"No space left on device: '{path}'$"):
        save_certificate(result("refuted"), path)
    assert os.listdir(tmp_path) == ["certificate.json"] and path.read_bytes() == before
    monkeypatch.undo()
    save_certificate(result("refuted"), path)
    assert json.loads(path.read_bytes())["refuted"] is True and os.listdir(tmp_path) == ["certificate.json"]


def test_a_place_that_takes_no_file_is_an_error_and_stays_as_it_was(tmp_path):
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    for path in ("directory", "missing/certificate.json", "file/certificate.json"):
        with pytest.raises(OSError, match=path.split("/")[0]):
            result("passed").save(tmp_path / path)
        assert sorted(tmp_path.rglob("*")) == before


def test_what_is_no_regular_file_is_not_replaced_by_a_certificate(tmp_path):
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target.json"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match=r"^path must be a regular file or a new one, got .*pipe"):
        result("passed").save(pipe)
    assert pipe.is_fifo()
    link.symlink_to(target)
    result("passed").save(link)  # as files of releases
    assert link.is_symlink() and json.loads(target.read_bytes())["refuted"] is False
    for given, error in ((None, TypeError), (3, TypeError), ("/", ValueError), ("/dev/null", ValueError)):
        with pytest.raises(error, match=r"^path must be"):
            result("passed").save(given)
    longest = tmp_path / ("x" * 255)
    result("passed").save(longest)
    assert longest.is_file()


def test_the_command_line_writes_certificates_that_it_verifies(tmp_path, capsys):
    path = str(tmp_path / "certificate.json")
    arguments = [
        "audit",
        f"{__name__}:too_little_noise",
        "[0.0]",
        "[1.0]",
        "--epsilon",
        "1",
        "--n-samples",
        "1000",
        "--seed",
        "3",
    ]
    assert main([*arguments, "--certificate", path]) == 1
    assert "refuted" in capsys.readouterr().out
    assert main(["verify", path]) == 0 and "follows from" in capsys.readouterr().out
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    assert found["mechanism"].endswith(":too_little_noise") and found["pair"] == "[0.0] and [1.0]"
    unwritable = str(tmp_path / "missing" / "certificate.json")
    for place, words in ((unwritable, "must be in an existing folder"), (path, "must be a new file")):
        assert main([*arguments, "--certificate", place]) == 2  # 1 would say that the claim is refuted
        printed = capsys.readouterr()
        assert words in printed.err and "refuted" not in printed.out  # found out before the audit
    assert main([*arguments, "--certificate", path, "--force"]) == 1


def in_another_folder(data, n_samples, rng):
    os.chdir(FOLDERS[1])
    return rng.laplace(scale=5.0, size=n_samples)


def beaten_to_it(data, n_samples, rng):
    assert main([*AUDIT_OF_FAIR, "--certificate", str(FOLDERS[0] / "c.json")]) == 2
    return rng.laplace(scale=5.0, size=n_samples)


def fair(data, n_samples, rng):
    return rng.laplace(scale=5.0, size=n_samples)


FOLDERS = []  # of the test that runs
AUDIT_OF_FAIR = ["audit", f"{__name__}:fair", "0", "1", "--epsilon", "1", "--n-samples", "200"]


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_certificate_goes_where_it_was_looked_for_whatever_folder_the_mechanism_changes_to(
    force, tmp_path, monkeypatch
):
    """One of the same name there was replaced."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    (there / "c.json").write_text("precious")
    monkeypatch.setitem(globals(), "FOLDERS", [here, there])
    monkeypatch.chdir(here)
    arguments = ["audit", f"{__name__}:in_another_folder", "0", "1", "--epsilon", "1", "--n-samples", "200", *force]
    assert main([*arguments, "--certificate", "c.json"]) == 0
    assert verify(json.loads((here / "c.json").read_text())).holds and (there / "c.json").read_text() == "precious"


def test_of_two_audits_one_has_the_certificate(tmp_path, monkeypatch, capsys):
    """Both looked before either wrote, and the second replaced the first one's without a word."""
    monkeypatch.setitem(globals(), "FOLDERS", [tmp_path])
    path = tmp_path / "c.json"
    arguments = ["audit", f"{__name__}:beaten_to_it", "0", "1", "--epsilon", "1", "--n-samples", "200"]
    assert main([*arguments, "--certificate", str(path)]) == 0
    assert "a fit or audit that is running has reserved it" in capsys.readouterr().err
    assert json.loads(path.read_text())["mechanism"].endswith("beaten_to_it")
    failing = ["audit", f"{__name__}:no_mechanism", *arguments[2:], "--certificate", str(tmp_path / "d.json")]
    assert main(failing) == 2 and not (tmp_path / "d.json").exists()


@pytest.mark.thorough(quick=["closed"])
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
@pytest.mark.parametrize("reader", ["full", "closed"])
def test_a_certificate_is_kept_where_its_audit_cannot_be_printed(reader, tmp_path):
    """An audit may take hours: what it found is on disk before it is printed."""
    (tmp_path / "coins.py").write_text("def fair(data, n_samples, rng):\n    return rng.random(n_samples) + 0 * data\n")
    command = [sys.executable, "-u", "-m", "verification", "audit", "coins:fair", "1", "0", "--epsilon", "1"]
    command += ["--n-samples", "1000", "--seed", "1", "--certificate", str(tmp_path / "fair.json")]
    output = open("/dev/full", "w") if reader == "full" else None  # noqa: SIM115 closed below
    read, write = os.pipe()
    os.close(read)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    environment = os.environ | {"PYTHONPATH": path}
    ended = subprocess.run(command, stdout=output or write, stderr=subprocess.PIPE, env=environment, timeout=300)
    os.close(write)
    if output:
        output.close()
    assert ended.returncode == (2 if reader == "full" else 141)
    assert verify(json.loads((tmp_path / "fair.json").read_text())).holds


@pytest.mark.thorough(quick=["1"])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_a_mechanism_prints_is_no_part_of_the_result(jobs, tmp_path):
    """In whatever process, and past Python's own standard output."""
    (tmp_path / "talks.py").write_text(
        "import os\nprint('loaded')\ndef noisy(data, n_samples, rng):\n    print('run')\n    os.write(1, b'raw')\n"
        "    return sum(data) + rng.laplace(size=n_samples)\n"
    )
    command = [sys.executable, "-m", "verification", "audit", "talks:noisy", "[1.0]", "[0.0]", "--epsilon", "1"]
    command += ["--n-samples", "300", "--seed", "1", "--json", "--n-jobs", jobs]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])}
    ended = subprocess.run(command, capture_output=True, env=environment, timeout=300)
    assert ended.returncode == 0 and not json.loads(ended.stdout)["refuted"]
    assert all(said in ended.stderr for said in (b"loaded", b"run", b"raw"))


def test_the_numbers_of_an_audit_whose_certificate_cannot_be_written_are_printed(tmp_path, monkeypatch, capsys):
    def full(*given, **settings):
        raise OSError("No space left on device")

    monkeypatch.setattr(certificate_writing, "save_certificate", full)
    given = ["audit", f"{__name__}:fair", "1", "0", "--epsilon", "1", "--n-samples", "1000", "--seed", "1"]
    assert main([*given, "--certificate", str(tmp_path / "fair.json")]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["n_samples"] == 1_000 and "certificate not written: No space left" in err
    assert not list(tmp_path.iterdir())

"""Certificates of curves: what they say follows from their counts, and what was changed is found."""

import contextlib
import copy
import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from pm_dpgmm.privacy.curves import GaussianProfile, PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee
from verification import GDP, ZCDP, audit, one_run
from verification.__main__ import main
from verification.auditing.certificate_reading import verify
from verification.auditing.certificate_writing import certificate, digest_of
from verification.auditing.claimed_curve import GAUSSIAN, LEAST_MU, gaussian_family
from verification.auditing.curve_certificate import recomputed
from verification.auditing.rounding import rounded_down, to_nearest
from verification.benchmarks.curve_power import log_density, noisy

GUARANTEE = Guarantee(1.0, 1.01e-6, "replace-one", "Gaussian", GaussianProfile(mu=0.2367, slack=1e-15))


def stored(mu, sequential, **claim):
    result = audit(
        noisy, mu, 0.0, n_samples=800, sequential=sequential, log_density=log_density,
        rng=np.random.default_rng(1), **claim,
    )  # fmt: skip
    return json.loads(json.dumps(certificate(result, mechanism="noisy", pair="mu and 0"), allow_nan=False))


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("mu", [0.1, 1.5])
@pytest.mark.parametrize(
    "claim",
    [{"profile": GDP(0.2367), "delta": 1e-6}, {"profile": ZCDP(0.03)}, {"guarantee": GUARANTEE}],
    ids=["gdp", "zcdp", "guarantee"],
)
def test_a_certificate_as_it_was_written_holds(claim, mu, sequential):
    found = stored(mu, sequential, **claim)
    checked = verify(found)
    assert checked.holds, str(checked)
    assert found["refuted"] is (mu == 1.5)


def broken(data, n_samples, rng):
    return data + rng.laplace(scale=0.05, size=n_samples)


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("slack", [1e-15, 1e-7])
def test_a_refuted_guarantee_has_a_certificate_that_holds(slack, sequential, tmp_path, capsys):
    """The slack of an upper bound was counted in a lower one: epsilon was at least infinite, of any noise."""
    guarantee = Guarantee(1.0, 1.3e-6, "replace-one", "Gaussian", GaussianProfile(mu=0.2355, slack=slack))
    rng = np.random.default_rng(1)
    result = audit(broken, 1.0, 0.0, guarantee=guarantee, n_samples=2_000, sequential=sequential, rng=rng)
    assert result.refuted and result.epsilon_lower == GAUSSIAN.epsilon_at(result.parameter_lower, 1.3e-6)
    assert f"Gaussian noise with that mu has epsilon >= {rounded_down(result.epsilon_lower)} at delta" in str(result)
    result.save(tmp_path / "found.json")
    assert main(["verify", str(tmp_path / "found.json")]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("sequential", [False, True])
def test_of_a_refuted_pure_guarantee_no_epsilon_is_told(sequential):
    """Noise of no mu has an epsilon at delta 0: "epsilon >= 91.05 at delta = 0" was where a search ended."""
    guarantee = Guarantee(1.0, 0.0, "replace-one", "Laplace", PointProfile(1.0, 0.0))
    rng = np.random.default_rng(1)
    result = audit(broken, 1.0, 0.0, guarantee=guarantee, n_samples=2_000, sequential=sequential, rng=rng)
    assert result.refuted and result.epsilon_lower is None and "at delta = 0" not in str(result)
    found = json.loads(json.dumps(certificate(result)))
    assert verify(found).holds
    told = dataclasses.replace(result, epsilon_lower=GAUSSIAN.epsilon_at(result.parameter_lower, 0.0))
    for words in (str(told), told.said_with(to_nearest)):  # as earlier versions told one
        earlier = json.loads(json.dumps(certificate(told))) | {"statement": words}
        assert verify(earlier | {"digest": digest_of(earlier)}).holds


def before(found, slack):
    """As versions wrote it that counted the slack in, and rounded to the nearest."""
    lower = gaussian_family(found["claimed"], slack, 0.0).epsilon_at(found["parameter_lower"], found["delta"])
    said, words = found["statement"], "Gaussian noise with that mu has epsilon >= "
    for name in ("delta_lower", "parameter_lower", "epsilon_lower"):
        assert rounded_down(found[name]) in said
        said = said.replace(rounded_down(found[name]), to_nearest(found[name]))
    now = f"{words}{to_nearest(found['epsilon_lower'])}"
    assert now in said
    told = said.replace(now, f"an accountant of that family says epsilon >= {lower:.4g}")
    found |= {"epsilon_lower": "inf" if lower == math.inf else lower, "statement": told}
    return found | {"digest": digest_of(found)}


@pytest.mark.parametrize("mu, slack, holds", [(1.5, 1.4e-14, True), (1.5, 1e-11, False), (3.5, 1e-11, False)])
def test_a_certificate_from_before_holds_where_the_slack_tells_no_other_digits(mu, slack, holds):
    guarantee = Guarantee(1.0, 1.1e-6, "replace-one", "Gaussian", GaussianProfile(mu=0.2367, slack=slack))
    found = stored(mu, False, guarantee=guarantee)
    exact, old = found["epsilon_lower"], before(copy.deepcopy(found), slack)
    assert verify(found).holds and old["epsilon_lower"] != exact
    checked = verify(old)
    assert checked.holds is holds and all(problem.startswith(("epsilon", "statem")) for problem in checked.problems)


CHANGES = {
    "a bound": lambda found: found.update(delta_lower=found["delta_lower"] + 0.1),
    "a parameter": lambda found: found.update(parameter_lower=found["parameter_lower"] + 0.1),
    "the verdict": lambda found: found.update(refuted=not found["refuted"]),
    "the words": lambda found: found.update(statement="all is well"),
    "the curve": lambda found: found["curve"]["first"].__setitem__(slice(None), [1.0] * len(found["curve"]["first"])),
    "no curve": lambda found: found.update(curve={"epsilons": [0.0], "first": [2.0], "second": [0.0]}),
    "the counts": lambda found: found.update(n_certified=found["n_certified"] - 1),
    "a name": lambda found: found.update(mechanism="another"),
}


@pytest.mark.parametrize("sequential", [False, True])
def test_what_was_changed_is_found(sequential):
    found = stored(1.5, sequential, profile=GDP(0.2367))
    for name, change in CHANGES.items():
        changed = copy.deepcopy(found)
        change(changed)
        assert not verify(changed).holds, name


@pytest.mark.parametrize("mu, limit", [(0.1, 0.2368), (0.1, -1.0), (1.5, -1.0)])
def test_a_forged_detection_limit_is_found(mu, limit):
    """Of a sequential audit it was believed: a pass said that it would have caught what it could not."""
    found = stored(mu, True, profile=GDP(0.2367))
    words = f"{found['detection_limit']:.4g}"
    found |= {"detection_limit": limit, "statement": found["statement"].replace(words, f"{limit:.4g}")}
    found["digest"] = digest_of(found)
    assert "detection_limit" in str(verify(found))


@pytest.mark.parametrize(
    "sequential, path, value, message",
    [
        (False, ("labels", 0), 1, "labels[0] must be True or False, got 1"),
        (False, ("guesses", "correct"), True, "correct must be an integer, got True"),
        (
            True,
            ("bets", "exact log-likelihood ratio", "label_0", 0),
            True,
            "counts of the bets must be integers, got True or False",
        ),
    ],
)
def test_words_are_no_counts(sequential, path, value, message):
    changed = stored(1.5, sequential, profile=GDP(0.2367))
    place = changed["counts"]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    assert message in str(verify(changed))


FORGED = {
    "a claimed parameter that the curve has not": ({"claimed": 50.0}, "must be those of 50-GDP"),
    "words of another claim": ({"claim": "5-GDP"}, "must be those of 0.2367-GDP"),
    "words of a family, and no parameter": ({"claimed": None, "claim": "5-GDP"}, "do not fit each other"),
    "another family": ({"family": "zCDP", "claim": "9-zCDP", "claimed": 9.0}, "must be those of 9-zCDP"),
    "an unknown family": ({"family": "mine", "parameter_lower": 50.0}, "family must be"),
    "a family that is not told": (
        {"family": "", "claim": "the curve given", "parameter_lower": 50.0},
        "curve must say slack and failure",
    ),
    "a guarantee that the curve has not": (
        {"family": "GDP", "claim": "the curve of (epsilon = 1, delta = 1e-07)", "claimed": None},
        "must be at most 1e-07 at epsilon 1",
    ),
}


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("name", FORGED)
def test_no_bound_follows_from_a_claim_that_the_curve_is_not(name, sequential):
    changed = stored(1.5, sequential, profile=GDP(0.2367), delta=1e-6)
    changes, words = FORGED[name]
    changed.update(changes)
    with contextlib.suppress(ValueError):  # what else follows is made to fit: only the change is left to be found
        changed.update(json.loads(json.dumps(recomputed(changed)[0])))
    changed["digest"] = digest_of(changed)
    checked = verify(changed)
    assert not checked.holds and len(checked.problems) == 1 and words in str(checked)


OF_A_GUARANTEE = {
    "epsilon_lower": (50.0, "inf", None, 0.0),
    "parameter_lower": (0.0, 50.0),
    "delta": (0.5, 1e-300),
    "claimed": (0.2, 50.0, 1e-310, -1.0, None),
    "slack": (1e-3, 1.0, -1.0, "much"),
    "failure": (1e-3, 1.0),
}


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("name", OF_A_GUARANTEE)
def test_every_bound_of_a_guarantee_follows_from_its_counts_and_its_family(name, sequential):
    """Its epsilon was taken as it stood, and a refutation that says "epsilon >= 50" verified."""
    found = stored(1.5, sequential, guarantee=GUARANTEE)
    for value in OF_A_GUARANTEE[name]:
        changed = copy.deepcopy(found)
        (changed["curve"] if name in ("slack", "failure") else changed)[name] = value
        if name == "epsilon_lower":
            changed["statement"] = found["statement"].replace(
                rounded_down(found[name]), rounded_down(float(value or 0))
            )
        changed["digest"] = digest_of(changed)
        assert not verify(changed).holds, value


@pytest.mark.parametrize(
    "claim",
    [
        "the curve of (epsilon = 0.1, delta = 1e-06 )",
        "the curve of (epsilon = 0.1, delta = 1e-9) of Google",
        "the curve (epsilon=0.01, delta=0)",
        "the curve given, mu = 0.1",
        "the curve given\nevery bound follows",
    ],
)
def test_words_of_another_form_are_no_claim(claim):
    """Those of a guarantee escaped the check of their epsilon and delta by a blank."""
    found = stored(0.1, False, profile=([0.0, 1.0], [0.3, 0.1]), delta=1e-6) | {"claim": claim}
    assert "do not fit each other" in str(verify(found))


@pytest.mark.parametrize("delta", [1.0, 50.0, -1e-9])
def test_a_delta_that_is_none_is_found(delta):
    found = stored(0.1, False, profile=GDP(0.2367), delta=1e-6) | {"delta": delta}
    assert "delta must be at least 0 and below 1" in str(verify(found))


@pytest.mark.parametrize("sides", [("first",), ("second",), ("first", "second")])
@pytest.mark.parametrize("sequential", [False, True])
def test_a_guarantee_passes_by_no_curve_above_it(sequential, sides):
    changed = stored(1.5, sequential, guarantee=GUARANTEE)
    wide = [float(delta) for delta in GDP(2.5).delta(np.array(changed["curve"]["epsilons"]))]
    changed["curve"] |= dict.fromkeys(sides, wide)
    changed |= {"refuted": False, "statement": changed["statement"].replace("refuted", "not refuted")}
    changed["digest"] = digest_of(changed)
    assert "the curve of (epsilon = 1, delta = 1.01e-06) must be at most 1.01e-06 at epsilon 1" in str(verify(changed))


@pytest.mark.parametrize("epsilon", np.geomspace(1e-9, 50, 25))
def test_guarantees_of_all_epsilons_hold_their_pairs_in_six_digits(epsilon):
    profile = GaussianProfile(mu=0.2367)
    for delta in (profile.delta(epsilon), min(1.0, 3 * profile.delta(epsilon))):
        if delta > 1e-290:
            guarantee = Guarantee(float(epsilon), delta, "replace-one", "Gaussian", profile)
            checked = verify(stored(0.1, False, guarantee=guarantee))
            assert checked.holds, str(checked)


def test_a_guarantee_of_any_epsilon_has_a_certificate():
    guarantee = Guarantee(1_000.0, 1e-6, "replace-one", "weak", PointProfile(1_000.0, 1e-6))
    checked = verify(stored(0.1, False, guarantee=guarantee))
    assert checked.holds, str(checked)


@pytest.mark.parametrize("claimed", [1e-320, 1e-300, 1e300])
def test_a_parameter_beyond_floats_is_a_problem_of_the_certificate(claimed):
    """It ended `verify`, and the command, with a RuntimeError."""
    found = stored(1.5, False, profile=([0.0, 1.0, 2.0], [0.4, 0.12, 0.02]), delta=1e-6) | {"claimed": claimed}
    found["digest"] = digest_of(found)
    checked = verify(found)
    assert not checked.holds and len(checked.problems) == 1


def test_a_point_of_the_curve_is_a_number():
    """False was taken for an epsilon of 0."""
    found = stored(3.0, False, profile=GDP(0.2367))
    for point in (False, "0", None):
        changed = found | {"epsilon_point": point}
        assert "epsilon_point must be " in str(verify(changed | {"digest": digest_of(changed)}))


@pytest.mark.parametrize("claim, words", [(GDP(1.87478999), "1.87478999-GDP"), (ZCDP(0.123456789), "0.123456789-zCDP")])
def test_a_curve_is_named_as_it_is_and_certificates_in_four_digits_hold(claim, words):
    """1.875-GDP was called refuted where only a little less was."""
    found = stored(3.5, False, profile=claim)
    assert found["claim"] == words and found["statement"].startswith(f"claim {words} refuted")
    assert verify(found).holds
    number, name = words.split("-")
    rounded = f"{float(number):.4g}-{name}"
    earlier = found | {"claim": rounded, "statement": found["statement"].replace(words, rounded)}
    assert verify(earlier | {"digest": digest_of(earlier)}).holds
    other = found | {"claim": f"9-{name}", "statement": found["statement"].replace(words, f"9-{name}")}
    assert not verify(other | {"digest": digest_of(other)}).holds


def test_the_least_curve_there_is_has_a_certificate_that_holds_of_one_run():
    """Four digits of it were looked for below it."""

    def total(rows, rng):
        return rows.sum(axis=0) + rng.normal(size=rows.shape[1])

    found = one_run(
        total,
        np.zeros((2, 1)),
        np.ones((40, 1)),
        score=lambda release, rows: rows[:, 0] * release[0],
        profile=GDP(LEAST_MU),
        delta=1e-3,
        rng=np.random.default_rng(1),
    )
    assert verify(json.loads(json.dumps(certificate(found)))).holds


@pytest.mark.parametrize("kind", [np.float32, Fraction])
def test_claims_and_deltas_of_other_types_are_named_exactly_and_can_be_saved(kind, tmp_path):
    """A delta of 32 bits had no JSON after the last run, and a mu of 32 bits was named as another one."""
    settings = {"profile": GDP(kind(0.1)), "delta": kind(1e-3), "rng": np.random.default_rng(1)}
    result = audit(broken, 1.0, 0.0, n_samples=1_000, **settings)
    assert result.claim == f"{float(kind(0.1))!r}-GDP"
    result.save(tmp_path / "found.json")
    assert verify(json.loads((tmp_path / "found.json").read_text())).holds

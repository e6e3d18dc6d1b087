"""Every statement of the papers is checked as its verdict says, and no check is vacuous.

False alarms: the sampled checks state theirs (1e-6 each unless a docstring says otherwise).
"""

import csv
import importlib
import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import verification.claims
from verification.__main__ import main
from verification.claims import Claim, Finding, Kind, Outcome, Verdict, all_claims, run_claim, run_claims
from verification.claims.claim import Effort, claim, claims_of
from verification.claims.search import MOST_ROUNDS, at_most, by_property, every, maximised, over, worst

VERDICTS = Path(verification.claims.__file__).with_name("verdicts.csv")
CHECKED = [claim for claim in all_claims() if claim.check is not None]


def negated(finding):
    """The finding of the negated check: it holds exactly when the other does not."""
    return replace(finding, largest=math.inf if finding.holds else 0.0)


@pytest.mark.thorough(
    quick=[
        "tv-of-products",
        "pinsker",
        "loss-tails",
        "kl-upper-bound",
        "same-spectrum",
        "gaussian-mechanism",
        "truncated-laplace",
        "advanced-composition",
        "chi-squared-tail",
        "log-ratio-tail",
        "exponential-bound",
        "tv-one-column",
        "tv-mean-shift",
        "mean-metric",
        "lifting",
        "bottleneck",
    ]
)
@pytest.mark.parametrize("claim", CHECKED, ids=lambda claim: claim.id)
def test_a_claim_is_as_its_verdict_says_and_its_negation_is_not(claim):
    outcome = run_claim(claim)
    assert outcome.right, f"{claim.statement}: {outcome.finding}; {claim.otherwise}: {outcome.contrast}"
    # the contrast is the same check of a close statement with the other truth value, so the check can come out both ways
    assert not Outcome(claim, negated(outcome.finding), negated(outcome.contrast)).right
    assert not replace(outcome, finding=negated(outcome.finding)).right
    assert not replace(outcome, contrast=negated(outcome.contrast)).right


def test_the_claims_are_those_of_the_list_with_its_verdicts():
    with VERDICTS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = {row["id"]: (row["family"], row["verdict"]) for row in rows}
    assert len(expected) == len(rows)
    assert {claim.id: (claim.family, claim.verdict.value) for claim in all_claims()} == expected
    assert len(all_claims()) == len(expected)


def test_the_pages_count_the_claims_as_they_are():
    root = Path(__file__).resolve().parents[3]
    readme, papers = (" ".join((root / page).read_text().split()) for page in ("README.md", "docs/papers.md"))
    counts = Counter(claim.verdict for claim in all_claims())
    every, false = len(all_claims()), counts[Verdict.FALSE]
    assert f"finds {false} of {every} false as printed" in readme
    assert f"# {every} statements" in papers
    assert f" {counts[Verdict.HOLDS]} hold, {counts[Verdict.SLACK]} hold with slack, {false} are **false" in papers
    assert f" {counts[Verdict.NOT_CHECKABLE]} cannot be checked" in papers
    assert f"# {every} statements, {counts[Verdict.NOT_CHECKABLE]} not checkable" in papers


def test_what_cannot_be_checked_is_not_counted_as_confirmed(capsys):
    assert main(["claims", "--id", "spectral-locality"]) == 0
    assert "0 of 0 verdicts confirmed, 1 not checkable." in capsys.readouterr().out


def test_names_of_another_family_and_numbers_of_workers_that_nobody_has_are_refused(capsys):
    assert main(["claims", "--family", "masks", "--id", "mean-metric"]) == 2
    assert "id and family must leave a claim, got none" in capsys.readouterr().err
    assert main(["claims", "--false", "--family", "aggregated estimator"]) == 2
    assert "must leave a claim that is false as printed" in capsys.readouterr().err
    for jobs in ("-2", "0", "1025"):
        assert main(["claims", "--n-jobs", jobs]) == 2
        assert "or -1 for every core" in capsys.readouterr().err


@pytest.mark.thorough
def test_two_runs_with_one_seed_print_the_same_whatever_the_number_of_workers(capsys):
    names = ["covariance-frobenius-triangle", "mean-metric", "lifting"]
    printed = []
    for extra in (["--n-jobs", "1"], ["--n-jobs", "2"]):
        assert main(["claims", "--json", "--seed", "5", "--id", *names, *extra]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert [claim["id"] for claim in json.loads(printed[0])["claims"]] == [
        claim.id for claim in all_claims() if claim.id in names
    ]


def test_the_cases_do_not_depend_on_what_else_is_imported(tmp_path, monkeypatch):
    """Hypothesis draws constants of the modules that are loaded; a new one must not change what a check meets."""
    from hypothesis import strategies as st

    def drawn():
        cases = []
        effort = Effort(np.random.default_rng(2))
        by_property(st.floats(0, 1000), lambda x: cases.append(x) or 0.0, effort, quick=400)
        return cases

    before = drawn()
    odd = ", ".join(str(100 + i / 7) for i in range(300))
    (tmp_path / "odd_constants.py").write_text(f"CONSTANTS = [{odd}]\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("odd_constants")
    assert drawn() == before


def test_the_command_names_unknown_claims_and_fails_on_a_wrong_verdict(capsys, monkeypatch):
    assert main(["claims", "--id", "nothing-of-the-sort"]) == 2
    assert "nothing-of-the-sort" in capsys.readouterr().err
    assert main(["claims", "--family", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
    lifting = next(claim for claim in all_claims() if claim.id == "lifting")
    wrong = replace(lifting, printed=lifting.contrast, contrast=lifting.printed)
    monkeypatch.setattr(verification.claims, "all_claims", lambda: (wrong,))
    assert main(["claims", "--n-jobs", "1"]) == 1
    assert "WRONG" in capsys.readouterr().out


def law(effort, *, bound):
    return over((x**2 / bound, x) for x in np.linspace(0, 1, 11))


SQUARE = {
    "id": "square",
    "family": "f",
    "source": "s",
    "statement": "x^2 <= 1",
    "kind": Kind.EXACT,
    "verdict": Verdict.HOLDS,
    "printed": {"bound": 1.0},
    "contrast": {"bound": 0.9},
    "otherwise": "x^2 <= .9",
}


def made(**changed):
    return Claim(**(SQUARE | {"check": law} | changed))


def test_claims_stand_on_their_checks_and_are_collected_once_in_the_order_of_the_module():
    module = ModuleType("papers")

    @claim(**SQUARE | {"id": "first"})
    @claim(**SQUARE | {"id": "second", "verdict": Verdict.SLACK})
    def check(effort, *, bound):
        return law(effort, bound=bound)

    check.__module__ = "papers"
    module.check = check
    module.UNCHECKED = made(id="third", check=None, verdict=Verdict.NOT_CHECKABLE, reason="no constants")
    module.imported = all_claims()[0].check  # stands in another module
    module.helper = law
    found = list(claims_of(module))
    assert [one.id for one in found] == ["first", "second", "third"]
    assert found[0] == Claim(**SQUARE | {"id": "first", "check": check}) and found[2].check is None
    assert run_claim(found[0]).right and not run_claim(found[1]).right


@pytest.mark.parametrize(
    "changed, right",
    [
        ({}, True),
        ({"verdict": Verdict.SLACK}, False),  # attained: no slack
        ({"verdict": Verdict.SLACK, "printed": {"bound": 2.0}}, True),
        ({"verdict": Verdict.FALSE}, False),
        ({"contrast": {"bound": 1.1}}, False),  # a contrast that holds as well shows nothing
        ({"verdict": Verdict.FALSE, "printed": {"bound": 0.5}, "contrast": {"bound": 1.0}}, True),
    ],
)
def test_an_outcome_is_right_only_if_statement_and_contrast_come_out_differently(changed, right):
    assert run_claim(made(**changed)).right is right


def test_a_claim_without_check_gives_a_reason_and_one_with_a_check_has_a_contrast():
    with pytest.raises(ValueError, match="square: reason"):
        made(check=None, verdict=Verdict.NOT_CHECKABLE)
    with pytest.raises(ValueError, match="exactly the claims that are not checkable"):
        made(check=None)
    with pytest.raises(ValueError, match="contrast must differ"):
        made(contrast={"bound": 1.0})
    outcome = run_claims([made(check=None, verdict=Verdict.NOT_CHECKABLE, reason="an order without constants")])[0]
    assert outcome.right and outcome.as_dict()["finding"] is None


def test_a_check_that_ends_in_an_error_is_not_confirmed_and_loses_no_other_verdict():
    def fails(effort, *, bound):
        raise FloatingPointError(f"overflow at {bound}")

    failed, other = run_claims([made(check=fails, verdict=Verdict.FALSE), made(id="other")])
    assert not failed.right and other.right
    assert failed.without_finding == "the check failed: FloatingPointError: overflow at 1.0"
    assert failed.as_dict()["failure"] == "FloatingPointError: overflow at 1.0" and not other.as_dict()["failure"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name, seed", [("mean-metric", 4321), ("aggregated-loss", 50), ("approximate-transitivity", 12345)]
)
def test_verdicts_hold_at_seeds_where_a_search_was_too_short_or_numbers_were_out_of_reach(name, seed):
    claim = next(claim for claim in all_claims() if claim.id == name)
    assert run_claim(claim, seed=seed).right


def test_a_check_that_compares_nothing_or_ends_in_nan_is_an_error():
    with pytest.raises(ValueError, match="at least one case"):
        over([])
    with pytest.raises(ValueError, match="NaN, at 3"):
        over([(1.0, 2), (math.nan, 3)])
    with pytest.raises(ValueError, match="NaN"):
        Finding(math.nan, "here", 1)


def test_a_search_by_properties_ends_whatever_its_climbs_do(monkeypatch):
    """Of this claim with the default seed, Hypothesis 6.170 climbed for a quarter of an hour without a new case."""
    from hypothesis import strategies as st
    from hypothesis.internal.conjecture.optimiser import Optimiser

    rounds = []

    def never_done(self):
        rounds.append(self.max_improvements)
        self.engine.call_count += 1  # as if it had called the test

    monkeypatch.setattr(Optimiser, "run", never_done)
    assert by_property(st.floats(0, 1), lambda x: x, Effort(np.random.default_rng(1)), quick=100).holds
    assert 1 < len(rounds) <= MOST_ROUNDS * 100 and max(rounds) < 2**MOST_ROUNDS
    assert Optimiser.run is never_done


def test_the_searches_find_the_maximum_that_is_there():
    effort = Effort(np.random.default_rng(1))
    found = maximised(lambda x: 2 - (x[0] - 3) ** 2, [np.array([0.0]), np.array([5.0])])
    assert found.largest == pytest.approx(2) and float(found.where.strip("[]")) == pytest.approx(3, abs=1e-3)
    from hypothesis import strategies as st

    violated = by_property(st.integers(0, 1000), lambda n: n / 100, effort)
    assert (violated.largest, violated.where) == (1.01, "101")  # shrunk to the smallest violation
    assert by_property(st.integers(0, 100), lambda n: n / 100 if n % 2 else math.nan, effort).holds
    assert every([(True, "a"), (False, "b"), (False, "c")]).where == "b"
    assert worst(Finding(0.5, "a", 3), Finding(2.0, "b", 4)).where == "b"


def test_a_finding_with_figures_is_the_same_finding():
    found = over([(0.5, "a"), (0.7, "b")], tolerance=1e-9, figures={"first": 1.0})
    more = found.with_figures({"second": 2.0})
    assert more.figures == {"first": 1.0, "second": 2.0} and replace(more, figures=found.figures) == found


def test_the_certified_share_of_rare_hits_is_exact_in_the_far_tail():
    """Once or always has a closed form: 1 - (1 - a)^(1/n), a^(1/n)."""
    for n in (10, 10**6, 10**12):
        for false_alarm in (0.05, 1e-6, 1e-12):
            once = -math.expm1(math.log1p(-false_alarm) / n)
            assert at_most(1, n, once, false_alarm=false_alarm) == (pytest.approx(1, rel=1e-9), 1 / n)
            always = math.exp(math.log(false_alarm) / n)
            assert at_most(n, n, always, false_alarm=false_alarm)[0] == pytest.approx(1, rel=1e-9)
    assert at_most(0, 10, 0.5) == (0.0, 0.0)

"""Formulas are laid out, and nothing in them is run; a sentence stands for every specimen."""

import json
import re

import pytest

from tests.builders.pages import HOSTILE, read
from verification import claims, trials
from verification.__main__ import main
from verification.claims import Verdict, all_claims
from verification.report.formulas import formula
from verification.report.glossary import GLOSSARY
from verification.specimens import all_specimens
from verification.specimens.sentences import OF_RUNS, sentence
from verification.targets import all_targets


@pytest.mark.parametrize(
    "typed, laid",
    [
        ("eta = alpha / sqrt(2 (1 + ln(1/beta)))", "η = α / √(2 (1 + ln(1/β)))"),
        ("||S^-1/2 (x - m)||^2 >= 3", "‖S<sup>−1/2</sup> (x − m)‖<sup>2</sup> ≥ 3"),
        ("x_1 != dist_COV -> infinity", "x<sub>1</sub> ≠ dist<sub>COV</sub> → ∞"),
        ("||A - I||_F + chi2_k, e^epsilon - 1", "‖A − I‖<sub>F</sub> + χ2<sub>k</sub>, e<sup>ε</sup> − 1"),
        ("exp(epsilon)^(k - 1) <= 2", "exp(ε)<sup>k − 1</sup> ≤ 2"),
        ("betting and details stay", "betting and details stay"),
        ("`em_sums` and n_subsets", "<code>em_sums</code> and <code>n_subsets</code>"),
    ],
)
def test_what_is_typed_is_laid_out(typed, laid):
    assert formula(typed) == laid


def test_formulas_keep_every_letter_of_a_text_a_letter():
    assert read(formula(HOSTILE)).tags <= {"code", "sup", "sub"}


def test_every_statement_is_well_formed():
    for claim in all_claims():
        for text in (claim.statement, claim.otherwise, claim.constants):
            laid = formula(text or "")
            assert read(laid).tags <= {"code", "sup", "sub"}
            assert "&amp;" in laid or "&amp;" not in re.sub(r"&", "", text or "")


def test_every_specimen_and_target_has_a_sentence():
    specimens = all_specimens()
    for specimen in [*specimens, *all_targets()]:
        told = sentence(specimen)
        assert 10 < len(told) < 300 and not told.startswith(("Settings of", "A mechanism whose")), specimen.name
    assert set(OF_RUNS) <= {specimen.name for specimen in specimens}


def test_lists_run_nothing(capsys, monkeypatch):
    monkeypatch.setattr(trials, "run_trials", lambda *given, **named: pytest.fail("ran"))
    monkeypatch.setattr(claims, "run_claims", lambda *given, **named: pytest.fail("ran"))
    assert main(["specimens", "--list"]) == 0
    told = capsys.readouterr().out
    assert "laplace_half" in told and "Half the noise that epsilon = 1 needs." in told and "StatDP family" in told
    assert main(["targets", "--list", "--only", "histogram_release", "--json"]) == 0
    assert '"name": "histogram_release"' in capsys.readouterr().out
    assert main(["claims", "--families"]) == 0
    told = capsys.readouterr().out
    assert "masks" in told and "Park, Foulds" in told
    assert main(["claims", "--families", "--false", "--json"]) == 0
    assert set(re.findall(r'"([a-z ]+)": \d', capsys.readouterr().out)) == {Verdict.FALSE.value}
    assert main(["claims", "--list", "--false", "--family", "semimetrics"]) == 0
    assert "2 statements" in capsys.readouterr().out
    assert main(["claims", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [claim["id"] for claim in listed] == [claim.id for claim in claims.all_claims()]
    assert all(claim["otherwise"] for claim in listed if claim["verdict"] == Verdict.FALSE)
    assert all(claim["reason"] for claim in listed if claim["verdict"] == Verdict.NOT_CHECKABLE)


def test_the_glossary_is_of_sentences():
    assert all(words.endswith(".") for words in GLOSSARY.values()) and list(GLOSSARY) == sorted(GLOSSARY, key=str.lower)

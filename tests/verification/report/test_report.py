"""The report says what was found, loads nothing from elsewhere, and every figure in it can be traced to a claim."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from verification import report as module, trials
from verification.__main__ import main
from verification.auditing.result import json_text
from verification.claims import Claim, Finding, Kind, Outcome, Verdict, all_claims, run_claim
from verification.claims.search import over
from verification.report import Contents, collect, figures as drawings, to_html, to_markdown, write_report
from verification.report.contents import PAPERS, evidence, otherwise
from verification.report.figures import all_figures, audits, tv_range
from verification.report.terminal import print_claims
from verification.specimens import Specimen
from verification.trials import run_trials


def steep(effort, *, bound):
    return over((x / bound, f"x = {x:g} <script>alert(1)</script> | & more") for x in np.linspace(0.0, 2.0, 5))


def made(**changed):
    fields = {
        "id": "line",
        "family": "f",
        "source": "Arbas (2023), Lemma 1; Harrington, Mayolo",
        "statement": "x < 1 | a & b",
        "kind": Kind.EXACT,
        "verdict": Verdict.FALSE,
        "check": steep,
        "printed": {"bound": 1.0},
        "contrast": {"bound": 2.0},
        "otherwise": "x <= 2",
    }
    return Claim(**(fields | changed))


def laplace(data, n_samples, rng):
    return data + rng.laplace(size=n_samples)


def trial(*, broken, delta=0.0):
    specimen = Specimen(
        "laplace <b>", "here", laplace, 0.0, 4.0 if broken else 1.0, 1.0, delta, 4.0 if broken else 1.0, broken
    )
    return run_trials([specimen], seed=1, share=0.1)[0]


@pytest.fixture(scope="module")
def figures():
    """All of them; a number for each search, which the claims of the same names run."""
    with pytest.MonkeyPatch.context() as patch:
        for search in ("mean_triangle", "one_column_triangle"):
            patch.setattr(drawings, search, lambda effort, **given: over([(1.0 + given["radius"] / 4, "a pair")]))
        return all_figures(1)


@pytest.fixture(scope="module")
def contents(figures):
    read = made(
        id="read", check=None, verdict=Verdict.NOT_CHECKABLE, printed={}, contrast={}, otherwise="", reason="an order"
    )
    outcomes = [run_claim(made()), run_claim(read)]
    trials = [trial(broken=True)], [trial(broken=False)]
    return Contents(outcomes, *trials, [*figures, audits([*trials[0], *trials[1]])], seed=1, thorough=False, share=0.1)


class Links(HTMLParser):
    """Collects what a page defines and what it refers to; void elements need no end."""

    def __init__(self, page):
        super().__init__()
        self.ids, self.links, self.loaded, self.open = set(), set(), [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.ids |= {named["id"]} if "id" in named else set()
        link = named.get("href") or named.get("xlink:href") or ""
        self.links |= {link[1:]} if link.startswith("#") else set()
        self.loaded += [
            value
            for key in ("src", "href", "xlink:href")
            if (value := named.get(key)) and not value.startswith(("#", "data:"))
        ]
        if tag not in ("meta", "br", "link", "image", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in ("meta", "br", "link", "image"):
            self.open.pop()

    def handle_endtag(self, tag):
        assert tag in ("image",) or self.open.pop() == tag


def test_the_page_stands_alone_is_well_formed_and_escapes_what_it_shows(contents):
    page = to_html(contents)
    found = Links(page)
    assert found.open == [] and found.loaded == []
    assert "<script" not in page and "<b>" not in page
    assert re.search(r"url\((?!#)", page) is None and "@import" not in page
    assert 'name="viewport"' in page and "max-width: 46rem" in page
    assert page.count("counterexample") + page.count("Counterexample") >= 1 and "Corrected: x ≤ 2" in page


def test_false_statements_come_first_and_can_be_looked_at_alone(contents):
    page = to_html(contents)
    order = re.findall(r'data-verdict="(\w+)">', page[page.index('class="paper"') :])
    assert order[0] == "false" and set(order) == {"false", "open"}
    for verdict in Verdict:
        assert verdict.value in page
    assert page.count('type="radio"') == 1 + len(Verdict) + 1 + len(contents.papers)
    assert 'main:has(#verdict-false:checked) tr[data-verdict]:not([data-verdict="false"])' in page
    assert "total variation" in page and "what it does" in page
    assert to_markdown(contents).index("`line`") < to_markdown(contents).index("`read`")


def test_every_figure_names_its_claims_and_every_link_has_an_end(figures):
    names = {claim.id for claim in all_claims()}
    assert figures and all(set(figure.claims) <= names and figure.claims for figure in figures)
    outcomes = [run_claim(made(id=name)) for name in names]
    page = Links(to_html(Contents(outcomes, None, None, figures, 1, False, 1.0)))
    assert page.links <= page.ids


def test_a_claim_of_two_papers_is_in_both_tables_and_its_anchor_in_one(contents):
    assert len(contents.papers) == 2
    assert to_html(contents).count('<tr id="line"') == 1
    assert to_markdown(contents).count("`line`") == 2
    assert r"x < 1 \| a & b" in to_markdown(contents)


def test_every_claim_belongs_to_a_paper():
    for claim in all_claims():
        assert any(name in claim.source for name in PAPERS), claim.id


def test_what_is_not_as_its_verdict_says_is_named_and_fails_the_command(contents, tmp_path, monkeypatch, capsys):
    wrong = replace(contents.outcomes[0], finding=contents.outcomes[0].contrast)
    bad = replace(contents, outcomes=[wrong])
    assert bad.wrong == ["line"] and contents.wrong == []
    assert "Not as their verdict says" in to_html(bad) and "NOT as expected: line" in to_markdown(bad)
    monkeypatch.setattr(module, "collect", lambda **given: bad)
    assert main(["report", "--out", str(tmp_path / "new")]) == 1
    assert "WRONG: line" in capsys.readouterr().out
    (tmp_path / "file").write_text("")
    (tmp_path / "new" / "report.md").unlink()
    (tmp_path / "new" / "report.md").mkdir()
    monkeypatch.setattr(module, "collect", lambda **given: pytest.fail("work began"))
    assert main(["report", "--out", str(tmp_path / "file")]) == 2
    assert "--out must be a folder, got the file" in capsys.readouterr().err
    assert main(["report", "--out", str(tmp_path / "new")]) == 2
    assert "report must be a file, got the folder" in capsys.readouterr().err


def test_an_audit_that_is_wrong_is_marked_and_a_claim_has_its_delta(contents):
    right = trial(broken=True, delta=0.05)
    wrong = replace(right, specimen=replace(right.specimen, broken=False))
    for made_of, marks in ((right, 0), (wrong, 1)):
        report = replace(contents, specimens=[made_of], targets=[])
        page, text = to_html(report), to_markdown(report)
        assert page.count('<span class="false">wrong</span>') == text.count("refuted (WRONG)") == marks
        assert ">1, 0.05<" in page and "| 1, 0.05 |" in text


def test_audits_left_out_are_said_to_be_left_out(contents):
    without = replace(contents, specimens=None, targets=None)
    assert to_html(without).count("Not audited in this run") == 2
    assert to_markdown(without).count("Not audited in this run") == 2
    assert "--no-audits" in without.command and "--no-audits" not in contents.command
    begun = replace(contents, targets=None, share=1.2345649)
    assert "--no-audits" not in begun.command and "--share 1.2345649" in begun.command


def test_the_same_seed_writes_the_same_files(contents, tmp_path):
    drawn = [tv_range(1), *contents.figures[1:-1], audits([*contents.specimens, *contents.targets])]
    again = replace(contents, figures=drawn)
    texts = [
        [path.read_text() for path in write_report(item, tmp_path / name)]
        for name, item in (("a", contents), ("b", again))
    ]
    assert texts[0] == texts[1]


def test_the_page_counts_statements_that_no_check_can_decide_apart(contents):
    """Each of all statements had "a check that ran for this page"."""
    unchecked = sum(outcome.claim.verdict is Verdict.NOT_CHECKABLE for outcome in contents.outcomes)
    assert unchecked and f"{unchecked} cannot be checked, and of each of the others a check ran" in to_html(contents)


def test_a_long_worst_case_is_cut_in_the_page():
    claim = made(check=lambda effort, *, bound: over([(2 / bound, "9" * 5000)]))
    assert len(evidence(run_claim(claim))) < 300


def test_collect_runs_the_claims_with_the_seed(monkeypatch):
    chosen = tuple(claim for claim in all_claims() if claim.id in ("lifting", "bottleneck"))
    monkeypatch.setattr(module, "all_claims", lambda: chosen)
    monkeypatch.setattr(drawings, "all_figures", lambda *given: [])
    names = []
    found = collect(seed=3, audits=False, reproductions=False, progress=names.append)
    assert names == [claim.id for claim in chosen] and found.specimens is None and found.wrong == []
    assert found.outcomes[0].finding == run_claim(chosen[0], seed=3).finding


def test_what_was_done_is_written_before_the_rest_is(contents, tmp_path, monkeypatch, capsys):
    """Audits take half an hour; an interrupt lost the claims, too."""

    def interrupted(*given, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_claims", lambda *given, **settings: contents.outcomes)
    monkeypatch.setattr(drawings, "all_figures", lambda *given: [])
    monkeypatch.setattr(trials, "run_trials", lambda chosen, **settings: contents.targets[: len(chosen)])
    monkeypatch.setattr(module, "run_reproductions", interrupted)
    assert main(["report", "--out", str(tmp_path), "--n-jobs", "1"]) == 130
    text = (tmp_path / "report.md").read_text()
    assert contents.outcomes[0].claim.id in text and contents.targets[0].specimen.name in text
    assert text.count("Not run for this page.") == 1
    parts = []
    monkeypatch.setattr(module, "run_reproductions", lambda **settings: [])
    whole = collect(partly=parts.append)
    assert [(one.specimens is None, one.targets is None) for one in parts] == [(1, 1), (0, 1), (0, 0)]
    assert whole.reproductions == [] and all(one.reproductions is None for one in parts)


def test_a_page_of_few_runs_says_why_verdicts_are_wrong(contents):
    """Half a hundred mechanisms were called wrong with a fiftieth of the runs, and nothing told why."""
    (found,) = contents.specimens
    missed = replace(contents, specimens=[replace(found, specimen=replace(found.specimen, broken=False))])
    assert missed.wrong and missed.few_runs.startswith("Audits had a share of 0.1 of their runs: ")
    assert missed.few_runs in to_html(missed) and missed.few_runs in to_markdown(missed)
    whole = replace(missed, share=1.0)
    assert whole.wrong and whole.few_runs == "" == replace(missed, specimens=None, targets=None).few_runs


def test_audits_that_ended_in_an_error_lose_no_other(contents, monkeypatch):
    def some(chosen, **settings):
        raise trials.TrialsError(contents.targets[:1], {"other": ValueError("no")})

    monkeypatch.setattr(module, "run_claims", lambda *given, **settings: contents.outcomes)
    monkeypatch.setattr(drawings, "all_figures", lambda *given: [])
    monkeypatch.setattr(trials, "run_trials", some)
    parts = []
    with pytest.raises(trials.TrialsError, match="1 of 2 mechanisms could not be audited: other: ValueError: no"):
        collect(partly=parts.append)
    assert [one.specimens for one in parts] == [None, contents.targets[:1]]


def full(*given, **settings):
    """A disk."""
    raise OSError("No space left on device")


def test_a_report_that_cannot_be_written_is_printed(contents, tmp_path, monkeypatch, capsys):
    """It may have taken hours."""
    monkeypatch.setattr(module, "collect", lambda **given: contents)
    monkeypatch.setattr(module, "write_report", full)
    assert main(["report", "--out", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == to_markdown(contents) + "\n" and "report not written" in err and "No space left" in err


GREATER, SMALLER = Finding(1.3, "m = 3", 50), Finding(0.97, "m = 3", 50)


@pytest.mark.parametrize(
    "verdict, finding, contrast, found, beside",
    [
        (Verdict.FALSE, GREATER, SMALLER, "Counterexample found: m = 3", "Corrected: x <= 2"),
        (Verdict.FALSE, SMALLER, SMALLER, "Worst case of 50: m = 3", "Corrected: x <= 2"),
        (Verdict.FALSE, GREATER, GREATER, "Counterexample found: m = 3", "Corrected, but violated in this run: x <= 2"),
        (Verdict.HOLDS, SMALLER, GREATER, "Worst case of 50: m = 3", "The same check refutes: x <= 2"),
        (Verdict.HOLDS, GREATER, GREATER, "Counterexample found: m = 3", "The same check refutes: x <= 2"),
        (Verdict.HOLDS, SMALLER, SMALLER, "Worst case of 50: m = 3", "The same check does not refute: x <= 2"),
        (Verdict.FALSE, None, None, "the check failed: ValueError: x", "Corrected, not checked: x <= 2"),
        (Verdict.HOLDS, None, None, "the check failed: ValueError: x", "A close statement, false, not checked: x <= 2"),
    ],
)
def test_the_report_tells_what_was_found_whatever_the_verdict(verdict, finding, contrast, found, beside):
    """A statement on file as false had a counterexample found where there was none."""
    failure = "" if finding else "ValueError: x"
    outcome = Outcome(made(verdict=verdict), finding, contrast, 0.0, failure)
    assert evidence(outcome) == found and otherwise(outcome) == beside
    page = to_html(Contents([outcome], None, None, [], 1, False, 1.0))
    assert ("but for 1 whose check ended with an error" in page) == bool(failure)


def test_the_terminal_tells_a_counterexample_where_one_was_found(capsys):
    print_claims([Outcome(made(constants="k = 1"), SMALLER, SMALLER), Outcome(made(), GREATER, SMALLER)])
    assert (said := capsys.readouterr().out).count("m = 3") == 1 and "k = 1" in said


@pytest.mark.parametrize("text", ["E[c Q] = q in [l, u]", "[/x] and [bold]"])
def test_square_brackets_of_statements_and_failures_are_printed(text, capsys):
    """ "E[c Q] = q" was printed as "E = q", and "holds"; a closing bracket of a failure ended the command."""
    lost = Outcome(made(), None, None, 0.0, f"ValueError: {text}")
    print_claims([Outcome(made(statement=text, constants=text), SMALLER, SMALLER), lost])
    assert capsys.readouterr().out.count(text) == 3


def test_json_of_the_command_line_is_strict():
    text = json_text({"limits": [math.inf, -np.inf, (np.nan, 1.5)], "none": None})
    found = json.loads(text, parse_constant=pytest.fail)
    assert found == {"limits": ["inf", "-inf", ["nan", 1.5]], "none": None}

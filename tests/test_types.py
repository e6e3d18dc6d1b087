"""What a type checker says of a user's program outside this repository: py.typed is found, right calls pass."""

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = """\
from typing import assert_type

import pm_dpgmm as dpg
from verification import AuditResult, audit

X = [[0.0, 0.0], [1.0, 1.0]]
release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-1, 1))
assert_type(release, dpg.Release)
assert_type(release.guarantee.epsilon, float)
assert_type(release.refit(3), dpg.Release)
assert_type(dpg.load("release.json"), dpg.Release)
assert_type(dpg.Ledger("l.sqlite", epsilon=1.0).spent, tuple[float, float])
release.save("release.json")
release.prior("theta", dims="feature")
levels = dpg.fit_levels(X, 1, by=[0, 1], levels=(0, 1), epsilon=1.0)
assert_type(levels, dpg.LevelReleases)
assert_type(levels[0], dpg.Release)
assert_type(audit(lambda x: x, 0.0, 1.0, epsilon=1.0), AuditResult)
"""
WRONG = {  # a line more, and what is said of it
    "dpg.fit_gmm(X, 2)": 'Missing named argument "epsilon"',
    "dpg.fit_gmm(X, 2, epsilon='one')": 'Argument "epsilon" .* incompatible type "str"',
    "dpg.fit_gmm(X, '2', epsilon=1.0)": "incompatible type",
    "dpg.fit_gm(X, 2, epsilon=1.0)": 'Module has no attribute "fit_gm"',
    "release.mean": '"Release" has no attribute "mean"',
    "release.refit('three')": 'Argument 1 to "refit"',
    "release.prior(shape=3)": 'Unexpected keyword argument "shape"',
    "release.guarantee.epsilon = 0.1": "read-only",
    "dpg.Ledger('l.sqlite')": 'Missing named argument "epsilon"',
    "audit(lambda x: x, 0.0, 1.0, epsilon='one')": 'No overload variant|incompatible type "str"',
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Line of the program to what mypy says of it. The environment that it looks at has this tree and nothing else:
    types of other packages would take a minute."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "user.py").write_text(PROGRAM + "\n".join(WRONG) + "\n", encoding="utf-8")
    venv.create(folder / "env", symlinks=True)
    python = folder / "env" / "bin" / "python"
    (site,) = (folder / "env").glob("lib/python*/site-packages")
    (site / "tree.pth").write_text(f"{ROOT}\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        str(python),
        "--cache-dir=cache",
        "user.py",
    ]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert run.stderr == "" and run.returncode == 1
    lines = re.findall(r"^user\.py:(\d+): error: (.*)$", run.stdout, flags=re.MULTILINE)
    assert lines, run.stdout
    return {int(number): words for number, words in lines}


@pytest.mark.thorough
def test_right_calls_of_a_typed_program_are_accepted(told):
    lines = PROGRAM.splitlines()
    assert {lines[i - 1]: words for i, words in told.items() if i <= len(lines)} == {}


@pytest.mark.thorough
@pytest.mark.parametrize("line", WRONG)
def test_wrong_calls_are_reported(told, line):
    number = len(PROGRAM.splitlines()) + list(WRONG).index(line) + 1
    assert re.search(WRONG[line], told.get(number, "nothing"))

import json

import numpy as np
import pandas as pd
import pytest

from pm_dpgmm.cli import main


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": np.append(rng.normal(30, 5, 500), rng.normal(60, 5, 500)), "name": ["x"] * 1000})
    frame["weight"] = rng.normal(70, 10, 1000)
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_fit_writes_a_release_that_show_prints(table, capsys):
    out = table.parent / "release.json"
    arguments = ["fit", str(table), "--columns", "age", "weight", "--components", "2", "--epsilon", "1"]
    assert main([*arguments, "--bounds", "0", "100", "30", "120", "--output", str(out)]) == 0
    assert "epsilon = 1" in capsys.readouterr().out
    assert main(["show", str(out), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["feature_names"] == ["age", "weight"] and shown["private"] is True


def test_settings_of_a_method_are_given_by_name(table, capsys):
    out = table.parent / "release.json"
    arguments = ["fit", str(table), "--columns", "age", "--components", "2", "--epsilon", "1", "--bounds", "0", "100"]
    assert main([*arguments, "--set", "n_cells=40", "--output", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["n_cells"] == 40


@pytest.mark.parametrize(
    "change, words",
    [
        (["--columns", "age", "height"], "--columns must be among"),
        (["--columns", "name"], "X must be numeric"),
        (["--columns", "age", "--bounds", "0", "1", "2"], "--bounds must be pairs"),
        (["--columns", "age", "--epsilon", "0"], "epsilon must be finite and greater than 0"),
        (["--columns", "age", "--method", "magic"], "method must be one of"),
        (["--columns", "age", "--set", "n_cells"], "--set must be NAME=VALUE, got 'n_cells'"),
        (["--columns", "age", "--set", "n_sells=3"], "settings of method 'histogram' must be among"),
        (["--columns", "age", "--output", "nowhere/release.json"], "--output must be in an existing folder"),
    ],
)
def test_bad_input_is_one_line_and_status_2(table, capsys, change, words):
    arguments = ["fit", str(table), "--components", "2", "--epsilon", "1", "--bounds", "0", "100"]
    out = table.parent / "release.json"
    assert main([*arguments, "--output", str(out), *change]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
    assert not out.exists()


def test_a_refusal_is_status_1_and_says_what_was_spent(tmp_path, capsys):
    pd.DataFrame({"x": np.random.default_rng(0).normal(size=2000)}).to_csv(tmp_path / "x.csv", index=False)
    arguments = ["fit", str(tmp_path / "x.csv"), "--components", "1", "--epsilon", "1", "--delta", "1e-6"]
    assert main([*arguments, "--method", "populous-single", "--output", str(tmp_path / "r.json")]) == 1
    assert "Spent: epsilon = 1, delta = 1e-06" in capsys.readouterr().err
    assert not (tmp_path / "r.json").exists()


def test_show_reports_a_missing_file(tmp_path, capsys):
    assert main(["show", str(tmp_path / "none.json")]) == 2
    assert "existing release file" in capsys.readouterr().err

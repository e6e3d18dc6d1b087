import json
import os
import subprocess
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pm_dpgmm as dpg
from pm_dpgmm import demo, fit as front_door
from pm_dpgmm.cli.commands import _settings
from pm_dpgmm.cli.main import main
from pm_dpgmm.methods import problem
from pm_dpgmm.methods.counts import histogram
from pm_dpgmm.methods.sketch import method as sketch


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": np.append(rng.normal(30, 5, 500), rng.normal(60, 5, 500)), "name": ["x"] * 1000})
    frame["weight"] = rng.normal(70, 10, 1000)
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "pm_dpgmm", "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("pm-dpgmm ")


def test_fit_writes_a_release_that_show_prints(table, capsys):
    out = table.parent / "release.json"
    arguments = ["fit", str(table), "--columns", "age", "weight", "--n-components", "2", "--epsilon", "1"]
    assert main([*arguments, "--bounds", "0", "100", "30", "120", "--output", str(out)]) == 0
    assert "epsilon = 1" in capsys.readouterr().out
    assert main(["show", str(out), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["feature_names"] == ["age", "weight"] and shown["private"] is True


def test_options_with_several_values_add_up(table, capsys):
    """The second one replaced the first, in silence, and the budget went to another fit."""
    out = table.parent / "release.json"
    arguments = ["fit", str(table), "--columns", "age", "--columns", "weight", "--n-components", "2", "--epsilon", "1"]
    given = ["--bounds", "0", "100", "--bounds", "30", "120", "--resolution", "0", "--resolution", "1"]
    assert main([*arguments, *given, "--output", str(out)]) == 0
    found = dpg.load(out)
    assert found.feature_names == ("age", "weight")
    assert found.raw["bounds"][:, 0].tolist() == [0.0, 29.5] and found.raw["bounds"][0, 1] == 100.0
    assert 120.5 <= found.raw["bounds"][1, 1] < 130.0  # cells of whole steps
    assert list(found.noise["resolution"]) == [0.0, 1.0]


def test_settings_of_a_method_are_given_by_name(table, capsys):
    out = table.parent / "release.json"
    arguments = ["fit", str(table), "--columns", "age", "--components", "2", "--epsilon", "1", "--bounds", "0", "100"]
    assert main([*arguments, "--set", "n_cells=40", "--output", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["n_cells"] == 40


@pytest.mark.parametrize(
    "change, words",
    [
        (["--columns", "age", "height"], "columns must be among"),
        (["--columns", "name"], "X must be numeric"),
        (["--columns", "age", "--bounds", "0", "1", "2"], "--bounds must be pairs"),
        (["--columns", "age", "--epsilon", "0"], "epsilon must be finite and greater than 0"),
        (["--columns", "age", "--method", "magic"], "method must be one of"),
        (["--columns", "age", "--transform", "age=sqrt"], "--transform must be NAME=MAP with a map among log, logit"),
        (["--columns", "age", "--transform", "age=log", "age=asinh"], "each column once, got 'age=asinh'"),
        (["--columns", "age", "--transform", "age=log:1:2"], "--transform age must have the numbers of log, got"),
        (["--columns", "age", "--transform", "age=log:x"], "--transform age must have the numbers of log, got"),
        (["--columns", "age", "--transform", "size=log"], "transform must have names of columns among"),
        (["--columns", "age", "--set", "n_cells"], "--set must be NAME=VALUE, got 'n_cells'"),
        (["--columns", "age", "--set", "n_cells=4", "n_cells=5"], "each once, got 'n_cells=5'"),
        (["--columns", "age", "--set", "n_cells=4", "--set", "n_cells=5"], "each once, got 'n_cells=5'"),
        (["--columns", "age", "--set", 'n_cells={"a": 1, "a": 2}'], "--set n_cells must be JSON or a word, got"),
        (["--columns", "age", "--set", 'n_cells=[{"a": {"b": 1, "b": 2}}]'], "keys must be there once, got 'b' twice"),
        (["--columns", "age", "--set", f"n_cells={'9' * 5_000}"], "--set n_cells must be JSON or a word, got"),
        (
            ["--columns", "age", "--set", "epsilon=5"],
            "--set must name settings of the method, each once, got 'epsilon=5'",
        ),
        (["--columns", "age", "--columns", "age"], "columns must be distinct, got ['age', 'age']"),
        (["--columns", "age", "--resolution", "1", "--resolution", "0"], "resolution must be a number, 1 numbers"),
        (["--columns", "age", "--transform", "age=log", "--transform", "age=asinh"], "once, got 'age=asinh'"),
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


def test_transformations_are_given_by_name(table, capsys):
    out = table.parent / "release.json"
    arguments = ["fit", str(table), "--columns", "age", "weight", "--n-components", "1", "--epsilon", "1"]
    given = ["--bounds", "0", "100", "0", "120", "--transform", "age=log", "weight=logit:-5:125"]
    assert main([*arguments, *given, "--output", str(out)]) == 0
    assert "Transformed columns: age: log, floor 0.0001; weight: logit, low -5, high 125, margin 0.001" in (
        capsys.readouterr().out
    )
    assert (dpg.load(out).sample(20, random_seed=1) > [0, -5]).all()


def test_settings_of_every_set_count(table, capsys):
    """The last one took the place of all before it."""
    arguments = ["fit", str(table), "--columns", "age", "--components", "1", "--epsilon", "1", "--bounds", "0", "100"]
    out = table.parent / "release.json"
    given = ["--set", "fit_share=3", "--set", "n_cells=40"]
    assert main([*arguments, *given, "--output", str(out)]) == 2
    assert "settings of method 'histogram' must be among" in capsys.readouterr().err


def test_a_refusal_is_status_1_and_says_what_was_spent(tmp_path, capsys):
    pd.DataFrame({"x": np.random.default_rng(0).normal(size=2000)}).to_csv(tmp_path / "x.csv", index=False)
    arguments = ["fit", str(tmp_path / "x.csv"), "--components", "1", "--epsilon", "1", "--delta", "1e-6"]
    assert main([*arguments, "--method", "populous-single", "--output", str(tmp_path / "r.json")]) == 1
    assert "Spent: epsilon = 1, delta = 1e-06" in capsys.readouterr().err
    assert not (tmp_path / "r.json").exists()


def test_show_reports_a_missing_file(tmp_path, capsys):
    assert main(["show", str(tmp_path / "none.json")]) == 2
    assert "existing release file" in capsys.readouterr().err


GOOD = ["--n-components", "2", "--epsilon", "1", "--bounds", "0", "100", "--columns", "age"]


@pytest.fixture
def unspent(monkeypatch):
    """Fails a test that gets as far as the front door."""
    monkeypatch.setattr(front_door, "fit_gmm", lambda *given, **settings: pytest.fail("budget was spent"))


def folder_in_the_way(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def the_records(tmp_path):
    return tmp_path / "people.csv"


def a_link_to_the_records(tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "people.csv")
    return tmp_path / "link.json"


def the_ledger(tmp_path):
    return tmp_path / "l.sqlite"


def a_device(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def an_old_file(tmp_path):
    (tmp_path / "old.json").write_text("kept")
    return tmp_path / "old.json"


@pytest.mark.parametrize(
    "place, force, words",
    [
        (folder_in_the_way, ["--force"], "--output must be a file, got the folder"),
        (the_records, ["--force"], "--output must be another file than"),
        (a_link_to_the_records, ["--force"], "--output must be another file than"),
        (the_ledger, ["--force"], "--output must be another file than"),
        (lambda tmp_path: tmp_path / "l.sqlite-journal", [], "--output must be another file than"),
        (a_device, ["--force"], "--output must be a regular file"),
        (an_old_file, [], "--output must be a new file"),
        (lambda tmp_path: tmp_path / ("n" * 300), [], "--output must be a path that can be written to"),
        (lambda tmp_path: "/proc/self/release.json", [], "--output must be in a folder that can be written to"),
        (lambda tmp_path: tmp_path / "people.csv" / "out.json", [], "--output must be in an existing folder"),
        (lambda tmp_path: "a\0b", [], "--output must be the path of a file"),
    ],
)
def test_destinations_are_checked_before_anything_is_spent(place, force, words, table, tmp_path, capsys, unspent):
    assert main(["ledger", str(tmp_path / "l.sqlite"), "--epsilon", "3"]) == 0
    capsys.readouterr()
    out = place(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    arguments = ["fit", str(table), *GOOD, "--ledger", str(tmp_path / "l.sqlite"), "--output", str(out), *force]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
    assert before == {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}


def test_a_folder_that_cannot_be_written_to_is_refused_first(table, tmp_path, capsys, unspent, monkeypatch):
    def read_only(**given):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "mkstemp", read_only)
    assert main(["fit", str(table), *GOOD, "--output", str(tmp_path / "r.json")]) == 2
    assert "must be in a folder that can be written to" in capsys.readouterr().err


def test_force_overwrites_and_a_link_stays_a_link(table, tmp_path, capsys):
    target, link = an_old_file(tmp_path), tmp_path / "link.json"
    link.symlink_to(target)
    arguments = ["fit", str(table), *GOOD, "--output", str(link)]
    assert main(arguments) == 2 and target.read_text() == "kept"
    assert main([*arguments, "--force"]) == 0
    assert link.is_symlink() and json.loads(target.read_text())["method"] == "histogram"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "old.json", "people.csv"]


def test_a_release_that_cannot_be_saved_is_put_where_its_owner_finds_it(table, tmp_path, capsys, monkeypatch):
    from pm_dpgmm.release.release import Release

    def full(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Release, "save", full)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["fit", str(table), *GOOD, "--output", str(tmp_path / "r.json")]) == 1
    told = capsys.readouterr().err
    assert "could not be saved" in told and "No space left" in told
    (place,) = tmp_path.glob("pm-dpgmm-*/r.json")
    assert str(place) in told and place.stat().st_mode & 0o777 == 0o600 and place.parent.stat().st_mode & 0o077 == 0
    monkeypatch.undo()
    assert main(["show", str(place)]) == 0
    assert (tmp_path / "r.partial.json").exists()  # removed only after success


def test_what_an_interrupted_fit_had_paid_for_is_resumed(table, tmp_path, capsys, monkeypatch):
    from pm_dpgmm.methods.counts import histogram

    real = histogram.fit_counts

    def stopped(*given, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(histogram, "fit_counts", stopped)
    arguments = ["fit", str(table), *GOOD, "--output", str(tmp_path / "r.json"), "--seed-not-private", "4"]
    assert main(arguments) == 130
    told = capsys.readouterr().err
    partial = tmp_path / "r.partial.json"
    assert told.count("\n") == 1 and f"pm-dpgmm resume '{partial}'" in told
    assert partial.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(histogram, "fit_counts", real)
    assert main(arguments) == 2 and "interrupted fit had paid for" in capsys.readouterr().err
    assert main(["resume", str(partial), "--output", str(tmp_path / "r.json")]) == 0
    assert main([*arguments[:-3], str(tmp_path / "whole.json"), *arguments[-2:], "--json"]) == 0
    capsys.readouterr()
    resumed, whole = (json.loads((tmp_path / name).read_text()) for name in ("r.json", "whole.json"))
    assert resumed == whole and not whole["private"]
    assert main(["resume", str(partial), "--n-components", "3", "--output", str(tmp_path / "three.json")]) == 0
    assert len(json.loads((tmp_path / "three.json").read_text())["weights"]) == 3


def test_what_a_refused_sketch_had_paid_for_is_kept(tmp_path, capsys):
    pd.DataFrame({"age": np.random.default_rng(1).normal(size=40)}).to_csv(tmp_path / "few.csv", index=False)
    given = ["--n-components", "1", "--epsilon", "1", "--delta", "1e-6", "--output", str(tmp_path / "r.json")]
    assert main(["fit", str(tmp_path / "few.csv"), *given]) == 1
    partial, told = tmp_path / "r.partial.json", capsys.readouterr().err
    assert f"refused; what was paid for is kept: in {str(partial)!r}, to which nothing can be fitted" in told
    kept = dpg.Checkpoint.load(partial)
    assert kept.raw["pair_distance_counts"].shape == (1, 201) and kept.guarantee.epsilon == 1.0


def test_a_save_that_is_interrupted_can_be_resumed(table, tmp_path, capsys, monkeypatch):
    from pm_dpgmm.release.release import Release

    def stopped(self, path):
        raise KeyboardInterrupt

    monkeypatch.setattr(Release, "save", stopped)
    assert main(["fit", str(table), *GOOD, "--output", str(tmp_path / "r.json")]) == 130
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "what was paid for is kept" in told
    monkeypatch.undo()
    assert main(["resume", str(tmp_path / "r.partial.json"), "--output", str(tmp_path / "r.json")]) == 0


def test_a_warning_that_is_an_error_costs_no_release(tmp_path, capsys):
    """A method without a checkpoint: the warning alone carries the release."""
    far = np.random.default_rng(1).normal(20.0, 1.0, size=(80_000, 1))
    pd.DataFrame({"x": np.append(np.full(80_000, 5.0), far)}).to_csv(tmp_path / "x.csv", index=False)
    given = ["--n-components", "2", "--epsilon", "1", "--delta", "1e-6", "--method", "populous"]
    arguments = ["fit", str(tmp_path / "x.csv"), *given, "--seed-not-private", "1", "--output"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", dpg.FitWarning)
        assert main([*arguments, str(tmp_path / "r.json")]) == 1
    told = capsys.readouterr().err
    assert "a warning was an error: some records seem to have one value" in told
    assert f"The release is in {str(tmp_path / 'r.json')!r}." in told
    assert dpg.load(tmp_path / "r.json").n_components == 2 and not list(tmp_path.glob("*.partial.json"))


def test_a_warning_of_resume_that_is_an_error_costs_no_release(tmp_path, capsys):
    groups = np.random.default_rng(1).normal([[0.0]] * 2_000 + [[9.0]] * 2_000)
    given = {"epsilon": 2.0, "delta": 1e-6, "bounds": (-5.0, 15.0), "random_seed": 1, "progress": False}
    dpg.fit_gmm(groups, 1, checkpoint=tmp_path / "r.partial.json", **given)
    arguments = ["resume", str(tmp_path / "r.partial.json"), "--output", str(tmp_path / "r.json")]
    with warnings.catch_warnings():
        warnings.simplefilter("error", dpg.FitWarning)
        assert main(arguments) == 1
    told = capsys.readouterr().err
    assert told.startswith("pm-dpgmm resume: a warning was an error: ")
    assert f"The release is in {str(tmp_path / 'r.json')!r}." in told and dpg.load(tmp_path / "r.json").flag


def test_a_warning_that_is_an_error_before_anything_is_spent_is_one_line(table, tmp_path, capsys):
    ledger = dpg.Ledger(tmp_path / "all.sqlite", epsilon=30.0)
    arguments = ["fit", str(table), *GOOD, "--epsilon", "20", "--ledger", str(tmp_path / "all.sqlite"), "--output"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", dpg.WeakGuarantee)
        assert main([*arguments, str(tmp_path / "r.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and ledger.spent == (0.0, 0.0)


def test_an_output_must_not_be_named_like_an_interrupted_fit(table, tmp_path, capsys, unspent):
    assert main(["fit", str(table), *GOOD, "--output", str(tmp_path / "r.partial.json")]) == 2
    assert "--output must not end in .partial.json, the names of interrupted fits" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.json"))
    (tmp_path / "a.json").touch()
    assert main(["resume", str(tmp_path / "a.json"), "--output", str(tmp_path / "r.partial.json")]) == 2
    assert "--output must not end in .partial.json" in capsys.readouterr().err


def test_an_output_and_a_link_to_it_have_one_checkpoint_for_both(table, tmp_path, capsys, unspent):
    (tmp_path / "link.json").symlink_to(tmp_path / "r.json")
    (tmp_path / "r.partial.json").touch()  # of a fit to r.json that is running
    assert main(["fit", str(table), *GOOD, "--output", str(tmp_path / "link.json")]) == 2
    assert "r.partial.json', which is empty: a fit or audit that is running has reserved it" in capsys.readouterr().err


def test_what_a_link_at_the_place_of_the_checkpoint_leads_to_is_removed_too(table, tmp_path):
    (tmp_path / "r.partial.json").symlink_to(tmp_path / "elsewhere.json")
    assert main(["fit", str(table), *GOOD, "--output", str(tmp_path / "r.json")]) == 0
    assert not (tmp_path / "elsewhere.json").exists() and (tmp_path / "r.json").exists()


def test_units_of_columns_whose_names_hold_the_sign(tmp_path, capsys):
    x = np.random.default_rng(1).normal(size=(400, 2))
    release = dpg.fit_gmm(x, 1, epsilon=1.0, bounds=(-5, 5), columns=["a=1", "a"], random_seed=1, progress=False)
    path = release.save(tmp_path / "r.json")
    assert main(["card", str(path), "--unit", "a=1=kg", "--describe", "a=x=y"]) == 0
    told = capsys.readouterr().out
    assert "kg" in told and "x=y" in told
    assert main(["card", str(path), "--unit", "b=kg"]) == 2
    assert "units must be among" in capsys.readouterr().err


def test_ctrl_c_before_anything_is_spent_is_one_line(table, tmp_path, capsys, monkeypatch):
    def stopped(*given, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(front_door, "fit_gmm", stopped)
    assert main(["fit", str(table), *GOOD, "--output", str(tmp_path / "r.json")]) == 130
    assert capsys.readouterr().err == "pm-dpgmm fit: interrupted\n"


def test_an_interrupt_between_the_charge_and_the_first_number_is_told(table, tmp_path, capsys, monkeypatch):
    path = tmp_path / "all.sqlite"
    dpg.Ledger(path, epsilon=3.0)
    monkeypatch.setattr(histogram.HistogramMethod, "release", stop)
    arguments = ["fit", str(table), *GOOD, "--output", str(tmp_path / "r.json"), "--ledger", str(path)]
    assert main(arguments) == 130
    told = capsys.readouterr().err
    assert "nothing was released, but" in told and "grew from (0.0, 0.0) to (1.0, 0.0)" in told
    monkeypatch.setattr(problem, "read_records", stop)  # before the charge
    assert main([*arguments, "--force"]) in (2, 130) and "was charged" not in capsys.readouterr().err


def test_a_crash_after_spending_leaves_a_traceback_and_the_numbers(table, tmp_path, capsys, monkeypatch):
    def crash(*given, **settings):
        raise ValueError("a fault of the program")

    monkeypatch.setattr(histogram, "fit_counts", crash)
    with pytest.raises(ValueError, match="a fault of the program"):  # never status 2, which says that nothing was spent
        main(["fit", str(table), *GOOD, "--output", str(tmp_path / "r.json")])
    assert "what was paid for is kept" in capsys.readouterr().err and (tmp_path / "r.partial.json").exists()


def test_labels_of_a_ledger_cannot_command_a_terminal(tmp_path, capsys):
    ledger = dpg.Ledger(tmp_path / "l.sqlite", epsilon=1.0)
    ledger.reserve(0.5, 0.0, "replace-one", "\x1b[2J\nleft")
    assert main(["ledger", str(ledger.path)]) == 0
    told = capsys.readouterr().out
    assert "\x1b" not in told and "\nleft\n" not in told and "\\x1b[2J\\nleft" in told


def test_a_ledger_outlives_fits_and_refuses_what_is_too_much(table, tmp_path, capsys):
    path = str(tmp_path / "l.sqlite")
    fit = ["fit", str(table), *GOOD, "--ledger", path, "--json", "--output"]
    assert main([*fit, str(tmp_path / "0.json")]) == 2  # a mistyped path never makes a new budget
    assert "ledger must be an existing file" in capsys.readouterr().err and not Path(path).exists()
    assert main(["ledger", path, "--epsilon", "1.5"]) == 0
    assert main([*fit, str(tmp_path / "1.json")]) == 0
    assert main([*fit, str(tmp_path / "2.json")]) == 1
    assert "Nothing was spent" in capsys.readouterr().err
    assert sorted(item.name for item in tmp_path.iterdir()) == ["1.json", "l.sqlite", "people.csv"]
    assert main(["ledger", path, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["left"] == {"epsilon": 0.5, "delta": 0.0} and shown["spending"][0][1:] == [1.0, 0.0, "histogram"]
    assert main(["ledger", path]) == 0 and "left    epsilon = 0.5" in capsys.readouterr().out
    assert main(["ledger", path, "--epsilon", "9"]) == 2  # another budget
    assert main(["ledger", str(table)]) == 2 and "made by pm-dpgmm ledger" in capsys.readouterr().err
    assert main(["ledger", path, "--delta", "0.1"]) == 2


@pytest.mark.parametrize(
    "text, numbers",
    [("3", 3), ("1:5", [1, 2, 3, 4, 5]), ("1-3", [1, 2, 3]), ("2,3,5", [2, 3, 5]), ("2:2", [2])],
)
def test_numbers_of_components(text, numbers):
    from pm_dpgmm.cli.main import n_components_of

    assert n_components_of(text) == numbers


@pytest.mark.parametrize("text", ["", "5:1", "1:1000000000", "two", "1,", "-3", "1.5", "9" * 5000, "\u0663:\u0665"])
def test_bad_numbers_of_components_are_refused(text, table, tmp_path, capsys, unspent):
    arguments = ["fit", str(table), f"--n-components={text}", "--epsilon", "1", "--output", str(tmp_path / "r.json")]
    assert main(arguments) == 2 and "--n-components: must be a" in capsys.readouterr().err


def test_sites_are_combined_and_a_card_is_written(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
        pd.DataFrame({"x": rng.normal([0.0, 9.0], size=(1000, 2)).ravel()}).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    given = ["--components=2", "--epsilon", "1", "--delta", "1e-6", "--bounds", "-1e1", "2e1"]  # its old name, too
    paths = [str(tmp_path / f"{name}.json") for name in ("north", "south", "both")]
    assert main(["fit", str(tmp_path / "north.csv"), *given, "--output", paths[0]]) == 0
    assert main(["fit", str(tmp_path / "south.csv"), *given, "--like", paths[0], "--output", paths[1]]) == 0
    assert main(["combine", *paths[:2], "--output", paths[2], "--json"]) == 0
    assert '"n_records": 4000' in capsys.readouterr().out
    assert main(["combine", *paths[:2], "--output", paths[1], "--force"]) == 2
    assert main(["card", paths[2], "--output", str(tmp_path / "both.md")]) == 0
    capsys.readouterr()
    assert main(["card", paths[2], "--output", str(tmp_path / "both.md")]) == 2
    assert "must be a new file" in capsys.readouterr().err
    assert main(["card", paths[2], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["card"] == (tmp_path / "both.md").read_text()


def test_a_card_of_a_file_whose_name_is_no_text(tmp_path, capsys):
    stored = Path(__file__).parents[1] / "data" / "releases" / "histogram.json"
    path = tmp_path / os.fsdecode(b"clinic\xff.json")
    path.write_bytes(stored.read_bytes())
    assert main(["card", str(path)]) == 0
    assert "udcff.json" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["fit", "resume", "plan", "show", "card", "combine", "ledger", "demo"])
def test_every_command_has_help_an_example_and_json(command, capsys):
    assert main([command, "-h"]) == 0
    told = capsys.readouterr().out
    assert f"example:\n  pm-dpgmm {command} " in told and "--json" in told
    assert main(["--version"]) == 0 and capsys.readouterr().out.startswith("pm-dpgmm ")


def test_a_closed_pipe_is_quiet(table, tmp_path):
    out = tmp_path / "r.json"
    assert main(["fit", str(table), *GOOD, "--output", str(out)]) == 0
    script = f"import sys; from pm_dpgmm.cli.main import main; sys.exit(main(['show', {str(out)!r}, '--json']))"
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run([sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE, timeout=120)
    os.close(write)
    assert ended.returncode == 141 and ended.stderr == b""  # 1 would say that something was refused


@pytest.mark.thorough
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_a_release_that_is_saved_and_cannot_be_printed_is_status_1(table, tmp_path):
    """2 would say that nothing was spent."""
    out = tmp_path / "r.json"
    arguments = ["fit", str(table), *GOOD, "--output", str(out)]
    script = f"import sys; from pm_dpgmm.cli.main import main; sys.exit(main({arguments}))"
    with open("/dev/full", "w") as full:
        ended = subprocess.run([sys.executable, "-c", script], stdout=full, stderr=subprocess.PIPE, timeout=300)
    assert ended.returncode == 1 and dpg.load(out)
    assert f"the release is in {str(out)!r}, and could not be printed".encode() in ended.stderr
    assert b"Traceback" not in ended.stderr and not list(tmp_path.glob("*.partial.json"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_a_warning_that_cannot_be_printed_does_not_end_a_fit(tmp_path):
    warned = "import warnings; options.done.write_text('x') if not warnings.warn('w') else 0"
    script = (
        "import argparse, pathlib, sys; from pm_dpgmm.cli.exit_status import run_command\n"
        f"def run(options):\n    {warned}\n    return 0\n"
        "def parser():\n    made = argparse.ArgumentParser(); made.add_argument('done', type=pathlib.Path)\n"
        "    made.set_defaults(run=run, command='fit'); return made\n"
        f"sys.exit(run_command('pm-dpgmm', parser, [{str(tmp_path / 'done')!r}]))"
    )
    with open("/dev/full", "w") as full:
        ended = subprocess.run([sys.executable, "-c", script], stderr=full, timeout=300)
    assert ended.returncode == 0 and (tmp_path / "done").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("streams", ["ascii", "ascii:surrogateescape", "closed"])
def test_a_terminal_without_the_letters_of_a_name_and_a_daemon_without_one_can_fit(streams, tmp_path):
    pd.DataFrame({"größe": np.arange(50.0)}).to_csv(tmp_path / "people.csv", index=False)
    arguments = ["fit", str(tmp_path / "people.csv"), "--n-components", "1", "--epsilon", "5", "--bounds", "0", "50"]
    close = "import sys; sys.stdout = sys.stderr = None; " if streams == "closed" else ""
    script = (
        f"{close}import sys; from pm_dpgmm.cli.main import main; sys.exit(main({[*arguments, '--output', 'r.json']}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONIOENCODING": "ascii" if streams == "closed" else streams},  # the second: LC_ALL=C
        cwd=tmp_path,
        capture_output=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    assert dpg.load(tmp_path / "r.json").feature_names == ("größe",)
    assert (b"gr\\xf6\\xdfe" in ended.stdout) == (streams != "closed")


def test_the_demo_never_overwrites_what_is_there(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "run", lambda *given, **settings: pytest.fail("work began"))
    (tmp_path / "release.json").write_text("kept")
    assert main(["demo", "--output", str(tmp_path)]) == 2
    assert "a file of the demo must be a new file" in capsys.readouterr().err
    assert main(["demo", "--output", str(tmp_path / "release.json")]) == 2
    assert "--output must be a folder" in capsys.readouterr().err
    assert (tmp_path / "release.json").read_text() == "kept"


def fit_here(place, extra=()):
    """A fit of the command line in a process of its own, which stops for a key once it has its destination."""
    script = f"""
        import sys
        from pm_dpgmm import fit
        from pm_dpgmm.cli.main import main

        def stopped(*given, **settings):
            print("ready", flush=True)
            sys.stdin.readline()
            return real(*given, **settings)

        real, fit.fit_gmm = fit.fit_gmm, stopped
        sys.exit(main({["fit", str(place / "people.csv"), *GOOD, "--output", str(place / "r.json"), *extra]!r}))
    """
    started = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout.readline() == "ready\n"
    return started


@pytest.mark.thorough
def test_of_two_fits_with_one_output_only_one_spends(table, tmp_path, capsys, unspent):
    running = fit_here(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert main(["fit", str(table), *GOOD, "--output", str(tmp_path / "r.json")]) == 2
    told = capsys.readouterr().err
    assert (
        "a fit or audit that is running has reserved it" in told and told.count("\n") == 1 and "r.partial.json" in told
    )
    assert before == sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "r.partial.json"]
    running.communicate("go\n", timeout=120)
    assert running.returncode == 0 and sorted(os.listdir(tmp_path)) == ["people.csv", "r.json"]


@pytest.mark.thorough
def test_a_killed_fit_leaves_a_name_and_the_way_out(table, tmp_path, capsys):
    running = fit_here(tmp_path)
    running.kill()
    running.communicate(timeout=60)
    arguments = ["fit", str(table), *GOOD, "--output", str(tmp_path / "r.json")]
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert "killed before it had written anything; delete it if none is running" in told
    assert main(["resume", str(tmp_path / "r.partial.json"), "--output", str(tmp_path / "r.json")]) == 2
    assert "had released nothing" in capsys.readouterr().err
    (tmp_path / "r.partial.json").unlink()
    assert main(arguments) == 0


def test_a_fit_that_ended_meanwhile_is_not_overwritten(table, tmp_path, capsys, unspent, monkeypatch):
    """It had saved and removed its checkpoint between the first look at --output and the reservation."""
    from pm_dpgmm.cli import commands as cli_commands

    real = cli_commands.reserved

    def late(*given, **settings):
        (tmp_path / "r.json").write_text("kept")
        return real(*given, **settings)

    monkeypatch.setattr(cli_commands, "reserved", late)
    assert main(["fit", str(table), *GOOD, "--output", str(tmp_path / "r.json")]) == 2
    assert "--output must be a new file" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["people.csv", "r.json"]


def stop(*given, **settings):
    raise KeyboardInterrupt


def fail(*given, **settings):
    raise ValueError("epsilon is wrong")


@pytest.mark.parametrize("error, status", [(stop, 130), (fail, 2)])
def test_a_fit_that_spent_nothing_leaves_nothing(error, status, table, tmp_path, monkeypatch):
    monkeypatch.setattr(problem, "read_records", error)
    assert main(["fit", str(table), *GOOD, "--output", str(tmp_path / "r.json")]) == status
    assert os.listdir(tmp_path) == ["people.csv"]


@pytest.fixture
def full_disk(monkeypatch):
    """``full_disk(n)``: files can be written n times more."""

    def arrange(n):
        real = os.fsync

        def full(handle):
            nonlocal n
            n -= 1
            if n < 0:
                raise OSError(28, "No space left on device")
            real(handle)

        monkeypatch.setattr(os, "fsync", full)
        monkeypatch.setattr(front_door, "compiles", lambda kernel: False)  # a line more on a cold cache

    return arrange


SKETCH = [*GOOD, "--delta", "1e-6", "--seed-not-private", "1"]


@pytest.mark.filterwarnings("always:checkpoint:RuntimeWarning")
def test_a_full_disk_is_told_in_one_line_and_the_release_is_printed(table, tmp_path, capsys, full_disk):
    full_disk(1)
    assert main(["fit", str(table), *SKETCH, "--output", str(tmp_path / "r.json")]) == 1
    captured = capsys.readouterr()
    partial, lines = str(tmp_path / "r.partial.json"), captured.err.splitlines()
    assert lines[0] == (
        f"pm-dpgmm fit: checkpoint {partial!r} could not be written: No space left on device;"
        " the fit goes on, and the file holds an earlier part of what was released"
    )
    assert "could not be saved" in lines[1] and "It is printed" in lines[2] and len(lines) == 3
    assert json.loads(captured.out)["method"] == "sketch"


@pytest.mark.filterwarnings("always:checkpoint:RuntimeWarning")
@pytest.mark.parametrize("written", [0, 1])
def test_a_release_that_cannot_even_be_printed_is_no_bad_input(
    written, table, tmp_path, capsys, full_disk, monkeypatch
):
    """The status was 2, which says that nothing was spent: a script would fit, and pay, again."""
    full_disk(written)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        status = main(["fit", str(table), *SKETCH, "--output", str(tmp_path / "r.json")])
        monkeypatch.undo()
    told = capsys.readouterr().err
    assert status == 1 and "the release could not be saved" in told
    assert ("pm-dpgmm resume" in told) == (tmp_path / "r.partial.json").exists() == bool(written)


@pytest.mark.thorough
@pytest.mark.filterwarnings("always:checkpoint:RuntimeWarning")
@pytest.mark.parametrize("written", [0, 1, 2])
def test_what_a_full_disk_kept_is_named_and_can_be_resumed(written, table, tmp_path, capsys, full_disk, monkeypatch):
    """The second of two checkpoints; where it could not be written, the numbers are saved elsewhere or printed."""
    monkeypatch.setattr(sketch, "choose", stop)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    full_disk(written)
    arguments = ["fit", str(table), *SKETCH, "--output", str(tmp_path / "r.json")]
    assert main(arguments) == 130
    captured = capsys.readouterr()
    partial = tmp_path / "r.partial.json"
    assert partial.exists() == (written > 0) and ".py" not in captured.err
    source = partial
    if written < 2:
        assert "is printed, since it could not be written anywhere" in captured.err
        assert ("holds an earlier part of it" in captured.err) == (written == 1)
        source = tmp_path / "printed.json"
        source.write_text(captured.out)
    monkeypatch.undo()
    assert main(["resume", str(source), "--output", str(tmp_path / "r.json")]) == 0
    capsys.readouterr()
    assert main([*arguments[:-1], str(tmp_path / "whole.json")]) == 0
    assert (tmp_path / "r.json").read_text() == (tmp_path / "whole.json").read_text()


def test_a_release_without_checkpoint_outlives_an_interrupted_save(table, tmp_path, capsys, monkeypatch):
    from pm_dpgmm.release.checkpoint import Checkpoint
    from pm_dpgmm.release.release import Release

    monkeypatch.setattr(Checkpoint, "save", lambda self, path: None)
    monkeypatch.setattr(Release, "save", stop)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["fit", str(table), *GOOD, "--output", str(tmp_path / "r.json")]) == 130
    (place,) = tmp_path.glob("pm-dpgmm-*/r.json")
    assert str(place) in capsys.readouterr().err and not (tmp_path / "r.partial.json").exists()
    monkeypatch.undo()
    assert main(["show", str(place)]) == 0


def test_warnings_are_plain_lines(table, tmp_path, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always", dpg.WeakGuarantee)
        arguments = ["fit", str(table), *GOOD, "--epsilon", "11", "--output", str(tmp_path / "r.json")]
        assert main(arguments) == 0
    told = capsys.readouterr().err
    assert told.startswith("pm-dpgmm fit: epsilon") and told.count("\n") == 1 and ".py" not in told


def test_settings_may_be_written_as_in_python():
    """A warning says "fuse=False", which was refused as a text."""
    assert _settings(["fuse=False", "rehearse=true", "time_limit=None", "kind=word"]) == {
        "fuse": False,
        "rehearse": True,
        "time_limit": None,
        "kind": "word",
    }

"""Every tutorial runs from an empty folder, and keeps the convention of tutorials/README.md."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import tutorial_cells

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tutorials"
TUTORIALS = {path.stem: path for path in sorted(FOLDER.glob("[0-9][0-9]-*.py"))}
EACH = pytest.mark.parametrize("path", TUTORIALS.values(), ids=TUTORIALS)


@pytest.mark.thorough(quick=["01-randomised-response"])
@EACH
def test_a_tutorial_runs_and_its_checks_tell_a_skeleton_from_a_solution(path, tmp_path):
    """A skeleton is what a student has who deletes the solution and does nothing."""
    run = subprocess.run(
        [sys.executable, tutorial_cells.__file__, path],
        cwd=tmp_path,
        env=os.environ | {"QUICK": "1", "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert int(run.stdout.splitlines()[-1].removeprefix("exercises: ")) >= 2


def test_there_are_tutorials():
    assert TUTORIALS and [int(name[:2]) for name in TUTORIALS] == sorted({int(name[:2]) for name in TUTORIALS})


@EACH
def test_the_first_cell_has_title_question_guarantee_and_running_time(path):
    first = tutorial_cells.cells(path)[0]
    title = re.match(rf"# {int(path.name[:2])}\. (\S.*)\n", first.text)
    assert first.markdown and title and path.read_text().startswith("# %% [markdown]\n")
    assert "?" in first.text
    assert re.search("guarantee", first.text, re.IGNORECASE)
    assert re.search(r"\btime\b", first.text, re.IGNORECASE)
    assert f"[{title[1]}]({path.name})" in (FOLDER / "README.md").read_text()


@EACH
def test_every_exercise_has_question_skeleton_folded_solution_and_check(path):
    cells = tutorial_cells.cells(path)
    exercises = [number for number, cell in enumerate(cells) if "exercise" in cell.tags]
    assert 2 <= len(exercises) <= 4
    for number in exercises:
        question, solution, check = cells[number - 1], cells[number + 1], cells[number + 2]
        assert question.markdown and question.text
        assert set(solution.tags) == {"hide-cell", "solution"}
        assert check.tags == ("check",) and "assert" in check.text
    solutions = [cell for cell in cells if "solution" in cell.tags]
    assert len(solutions) == len(exercises)


@EACH
def test_a_tutorial_is_short_lines_pictures_and_a_quick_mode(path):
    text = path.read_text()
    assert [line for line in text.splitlines() if len(line) > 120] == []
    assert "plt.show()" in text and 'QUICK = "QUICK" in os.environ' in text
    assert sum(cell.markdown for cell in tutorial_cells.cells(path)) >= 6


def test_links_of_the_lecturers_page_lead_somewhere():
    text = (FOLDER / "README.md").read_text()
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (FOLDER / link).exists(), link
    assert [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")] == []


LEADS = "from pm_dpgmm.mechanisms.propose_test_release import pass_probabilities\n" + (
    "from pm_dpgmm.privacy.curves import PointProfile\nEPSILON, DELTA = 1.0, 1e-6"
)
WARD = """from collections import Counter
def lead(of):
    (_, first), (_, second), *_ = [*Counter(of).most_common(2), (None, 0)]
    return first - second
def commonest(of): return min(Counter(of).most_common(), key=lambda pair: (-pair[1], pair[0]))[0]"""


@pytest.mark.parametrize(
    ("tutorial", "exercise", "before", "answer", "words"),
    [
        (1, 2, "", "students_needed = np.float64(2275)", ""),
        (1, 2, "", "students_needed = 2274", "standard error is 0.020004"),
        (1, 3, "", "def respond_of_four(truth, n, rng): return truth", r"shape \(\)"),
        (2, 1, "", "pair_add_remove, pair_replace_one, mean_replace_one = 91.0, 73, 72 / 50", ""),
        (7, 1, "", "verdicts = dict.fromkeys('abcdefghij', 'free')", "'c' is not 'free': a second release"),
        (7, 3, "import numpy as np", "family_epsilon, family_delta = 3, 1e-6 * (np.e**3 - 1) / (np.e - 1)", ""),
        (7, 3, "import numpy as np", "family_epsilon, family_delta = 3, 3e-6 * np.e**2", "true, but only the last"),
        (9, 1, WARD, "def stability_add_remove(lead): return max(0, lead - 1)", ""),
        (9, 1, WARD, "def stability_add_remove(lead): pass", "returns nothing yet"),
        (9, 1, WARD, "def stability_add_remove(lead): return lead + 1", "different answers"),
        (9, 2, "", "def least_friends(t): return np.ceil((t + 2) / 2)", ""),
        (9, 2, "", "def least_friends(t): return np.int64(t // 2 + 1 + t % 2)", ""),
        (9, 2, "", "def least_friends(t): return t / 2 + 1", "whole number"),
        (9, 2, "", "def least_friends(t): return t + 1", "cannot be friends"),
        (9, 2, "", "def least_friends(t): return t", "3 would do"),
        (9, 2, "", "def least_friends(t): print(t)", "whole number"),
        (9, 3, LEADS, "def lead_for_half(epsilon): return 1", "passes too rarely"),
        (9, 3, LEADS, "def lead_for_half(epsilon): return 1e9", "less than"),
        (9, 3, LEADS, "def lead_for_half(epsilon): return 0", "from 1 on"),
        (13, 3, "covariance, sigma = np.eye(2), 9.0", "def worth(prior_sd, sigma): return (sigma / prior_sd) ** 2", ""),
        (13, 3, "", "def worth(prior_sd, sigma): print(sigma)", "returns nothing yet"),
    ],
)
def test_checks_take_right_answers_of_other_forms_and_refuse_wrong_ones_in_words(
    tutorial, exercise, before, answer, words
):
    path = next(path for name, path in TUTORIALS.items() if name.startswith(f"{tutorial:02d}-"))
    check = [cell for cell in tutorial_cells.cells(path) if "check" in cell.tags][exercise - 1]
    names = {}
    exec("import itertools\nimport numpy as np\n" + before + "\n" + answer, names)
    told = tutorial_cells.refusal(check, path, names)
    assert re.search(words, told) if words else told == ""


@EACH
def test_needs_are_the_same_in_the_notebook_and_on_the_lecturers_page(path):
    row = next(line for line in (FOLDER / "README.md").read_text().splitlines() if f"]({path.name})" in line)
    asked = re.search(r"read tutorials? ([\d, and]+)[.,]([^.]*)", tutorial_cells.cells(path)[0].text.replace("\n", " "))
    if asked is not None:
        numbers = re.findall(r"\d+", asked[1] + asked[2])
        assert numbers == re.findall(r"\d+", row.split("|")[-3])


def test_a_check_that_accepts_the_skeleton_is_found(tmp_path):
    lines = ['# %% tags=["exercise"]', "answer = 0", '# %% tags=["hide-cell", "solution"]', "answer = 1", "# %%"]
    path = tmp_path / "planted.py"
    path.write_text("\n".join([*lines, 'assert answer == 1, "Not yet: 1"', ""]))
    assert tutorial_cells.run(path) == 1
    path.write_text("\n".join([*lines, "assert answer >= 0", ""]))
    with pytest.raises(ValueError, match="takes the skeleton for an answer"):
        tutorial_cells.run(path)


def test_run_all_tells_which_tutorials_failed(tmp_path):
    shutil.copy(FOLDER / "run_all.py", tmp_path)
    (tmp_path / "01-good.py").write_text("open('left', 'x').close()\n")  # in a folder of its own
    (tmp_path / "02-bad.py").write_text("print('seen')\nassert False, 'Not yet'\n")

    def run(*numbers):
        return subprocess.run([sys.executable, tmp_path / "run_all.py", *numbers], capture_output=True, text=True)

    both = run()
    assert both.returncode == 1 and "02-bad.py" in both.stdout and both.stdout.count("FAILED") == 1
    assert "seen" in both.stdout and "Not yet" in both.stdout
    assert run("01").returncode == 0 and not (tmp_path / "left").exists()
    assert "numbers of two digits" in run("1").stderr

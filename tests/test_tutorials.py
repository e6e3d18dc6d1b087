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

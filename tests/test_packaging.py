"""What people install: one version everywhere, a wheel with all of the two packages and nothing else."""

import datetime
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import pm_dpgmm
from pm_dpgmm.cli.main import main

ROOT = Path(__file__).resolve().parent.parent


def test_the_version_is_the_same_everywhere(capsys):
    """It stands in _version.py; CHANGELOG and CITATION are compared with it."""
    version = pm_dpgmm.__version__
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pm-dpgmm {version}\n"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "pm_dpgmm/_version.py"
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    releases = [re.fullmatch(r"(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)", heading).groups() for heading in headings[1:]]
    assert releases[0][0] == version
    numbers = [tuple(map(int, number.split("."))) for number, _ in releases]
    dates = [datetime.date.fromisoformat(date) for _, date in releases]
    assert numbers == sorted(set(numbers), reverse=True) and dates == sorted(dates, reverse=True)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == version
    assert re.search(r"^date-released: (.*)$", citation, re.MULTILINE)[1] == releases[0][1]


@pytest.mark.thorough
def test_the_wheel_holds_both_packages_with_types_and_notes_and_nothing_else(tmp_path):
    """Of the tree, and the same of the source archive, which is all that some people build from."""
    (sdist,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert unpacked.name == f"pm_dpgmm-{pm_dpgmm.__version__}"
    found = []
    for root in (ROOT, unpacked):
        (wheel,) = WheelBuilder(str(root)).build(directory=str(tmp_path / root.name), versions=["standard"])
        with zipfile.ZipFile(wheel) as archive:
            found.append({name: archive.read(name) for name in archive.namelist()})
    assert found[0] == found[1]
    about = {name for name in found[0] if name.startswith(f"{unpacked.name}.dist-info/")}
    assert {name.partition("/")[2] for name in about} == {
        "METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE",
    }  # fmt: skip
    code = {
        path.relative_to(ROOT).as_posix()
        for package in ("pm_dpgmm", "verification")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix in (".py", ".md", ".typed", ".csv", ".txt", ".json")
    }
    assert set(found[0]) - about == code and {"pm_dpgmm/py.typed", "verification/py.typed"} <= code
    assert not (unpacked / ".venv-3.13").exists() and (unpacked / "tests").is_dir()

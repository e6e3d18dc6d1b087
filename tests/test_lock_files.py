"""The lock files are what they are said to be: today's stack, and the oldest that pyproject.toml allows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DIRECT = [Requirement(text) for text in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]]
PYTHONS = [line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if "Python :: 3." in line]


def pinned(name, python):
    """Versions by package that pip installs from a lock file with a Python."""
    lines = re.findall(r"^([\w.-]+(?:\[.*\])?==[^\\\n]*)\\$", (ROOT / name).read_text(), re.MULTILINE)
    requirements = [Requirement(line) for line in lines]
    platform = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    wanted = [one for one in requirements if one.marker is None or one.marker.evaluate(platform)]
    versions = {canonicalize_name(one.name): Version(next(iter(one.specifier)).version) for one in wanted}
    assert len(versions) == len(wanted) > 50
    return versions


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_file_fits_and_has_todays_pymc(python):
    """Resolved in another order, PyMC 5 is taken where the newest numba of all is not yet allowed by PyMC 6."""
    versions = pinned("requirements.lock", python)
    for one in DIRECT:
        assert versions[canonicalize_name(one.name)] in one.specifier, one
    assert versions["pymc"].major == (5 if python == "3.11" else 6)


def test_the_oldest_versions_that_are_allowed_are_the_oldest_that_are_tested():
    """A lower bound in pyproject.toml that no test has run with is a guess."""
    versions = pinned("requirements-oldest.lock", PYTHONS[0])
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    bounds = {}
    for one in DIRECT:
        lowest = max(Version(part.version) for part in one.specifier if part.operator == ">=")
        name = canonicalize_name(one.name)
        bounds[name] = max(lowest, bounds.get(name, lowest))
    assert {name: versions[name] for name in bounds} == bounds


@pytest.mark.parametrize("python", PYTHONS)
def test_the_pages_are_built_with_what_is_tested(python):
    """The site's environment has the versions of the tests' where both have a package."""
    tested, built = pinned("requirements.lock", python), pinned("requirements-docs.lock", python)
    for one in map(Requirement, PROJECT["optional-dependencies"]["docs"]):
        assert built[canonicalize_name(one.name)] in one.specifier, one
    assert {name: built[name] for name in built.keys() & tested.keys()} == {
        name: tested[name] for name in built.keys() & tested.keys()
    }

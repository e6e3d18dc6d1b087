"""A home and a package folder that cannot be written, as in containers, end neither an import nor a fit."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import pm_dpgmm
from pm_dpgmm.files.cache_folders import _remove, provide_cache_folders

NOWHERE = "/dev/null/home"  # nobody can make it, not even the superuser, whom modes do not stop
OTHERS = ("XDG_CACHE_HOME", "MPLCONFIGDIR", "PYTENSOR_FLAGS", "NUMBA_CACHE_DIR")


@pytest.fixture
def container(tmp_path):
    """Run code there: a copy of the package without a place for compiled code, and no home."""
    copy = tmp_path / "site"
    shutil.copytree(Path(pm_dpgmm.__file__).parent, copy / "pm_dpgmm", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy / "pm_dpgmm", *(p for p in (copy / "pm_dpgmm").iterdir() if p.is_dir())]:
        (folder / "__pycache__").write_text("")  # a file, where Numba wants a folder
    environment = {name: value for name, value in os.environ.items() if name not in OTHERS} | {"HOME": NOWHERE}
    environment |= {"PYTHONPATH": str(copy), "TMPDIR": str(tmp_path)}

    def run(code):
        code = f"import pm_dpgmm\nassert pm_dpgmm.__file__.startswith({str(copy)!r}), pm_dpgmm.__file__\n{code}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=copy)
        assert done.returncode == 0, done.stderr
        assert [place.name for place in tmp_path.iterdir()] == ["site"]  # nothing is left behind
        return done

    return run


def test_compiled_code_runs_and_is_kept_for_this_run_alone(container):
    done = container("""
import os, pathlib, numpy as np
from pm_dpgmm.learners.batched_em import BatchedEM
from pm_dpgmm.mixture.affine_invariant import factorise
assert factorise(np.array([[4.0, 2.0], [2.0, 5.0]]), np.empty((2, 2)))
print(os.environ["XDG_CACHE_HOME"], len(list(pathlib.Path(os.environ["XDG_CACHE_HOME"]).rglob("*"))) > 0)
""")
    folder, filled = done.stdout.split()
    assert Path(folder).parent.name.startswith("pm_dpgmm-") and filled == "True"


@pytest.mark.thorough
def test_pymc_arviz_and_matplotlib_load(container):
    done = container("""
import warnings
warnings.simplefilter("ignore", FutureWarning)
import pm_dpgmm.bayes, arviz, matplotlib, pytensor
print(pytensor.config.compiledir)
""")
    assert "pm_dpgmm-" in done.stdout
    assert "is not a writable directory" not in done.stderr


def test_processes_that_are_started_share_the_folder(container):
    container("""
import os, subprocess, sys
code = "import pm_dpgmm, os; print(os.environ['XDG_CACHE_HOME'])"
there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
assert there == os.environ["XDG_CACHE_HOME"]
assert os.path.isdir(os.path.dirname(there))
if os.fork() == 0:
    sys.exit(0)  # with the handlers that run at an exit
os.wait()
assert os.path.isdir(os.path.dirname(there))
""")


def test_a_home_that_can_be_written_is_left_alone(tmp_path):
    tmp_path.chmod(0o755)
    environment = {"HOME": str(tmp_path)}
    assert provide_cache_folders(environment) is None and environment == {"HOME": str(tmp_path)}


@pytest.mark.parametrize("kind", ["missing", "open to all"])
def test_a_place_that_others_can_write_is_not_used(tmp_path, kind):
    """Compiled code is run when it is found again: whoever can plant some runs as this user."""
    home = tmp_path / "home"
    if kind == "missing":
        tmp_path.chmod(0o1777)  # like /tmp
    else:
        home.mkdir()
        home.chmod(0o777)
    environment = {"HOME": str(home), "PYTENSOR_FLAGS": "floatX=float64"}
    folder = provide_cache_folders(environment)
    try:
        about = folder.stat()
        assert stat.S_IMODE(about.st_mode) == 0o700 and about.st_uid == os.getuid()
        assert environment["XDG_CACHE_HOME"] == str(folder / "cache")
        assert environment["PYTENSOR_FLAGS"] == f"floatX=float64,base_compiledir={folder / 'pytensor'}"
    finally:
        _remove(folder, os.getpid())
    assert not folder.exists()


def test_folders_that_the_user_named_are_kept():
    environment = {"HOME": NOWHERE, "PYTENSOR_FLAGS": "base_compiledir=/a", "MPLCONFIGDIR": "/b"}
    folder = provide_cache_folders(environment)
    _remove(folder, os.getpid())
    assert environment["PYTENSOR_FLAGS"] == "base_compiledir=/a" and environment["MPLCONFIGDIR"] == "/b"
    assert environment["XDG_CACHE_HOME"] == str(folder / "cache")

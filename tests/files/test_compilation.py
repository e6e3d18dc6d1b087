"""The first fit of an environment says why it takes long, once, and from public facts alone."""

import os
import subprocess
import sys

import pytest

from pm_dpgmm import fit
from pm_dpgmm.files.compilation import WORDS, compiles
from pm_dpgmm.methods.populous import friends_kernel

SCRIPT = """
import numpy as np
import pm_dpgmm as dpg
X = np.linspace(-4, 4, 500)[:, None]
for _ in range(2):
    dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-6, bounds=(-5, 5), random_seed=1)
"""
FIRST = {  # of one column, and of more
    "sketch": ("_ladder_sums", "_frame_sums"),
    "histogram": (None, None),
    "slices": (None, None),
    "em": ("_cell_sums", "_cell_sums"),
    "central": ("_sums", "_sums"),
    "aggregate": ("_ladder_sums", "_frame_sums"),
    "populous": ("fill_rows", "fill_rows"),
    "two-phase": ("fill_rows", "fill_rows"),
    "populous-single": (None, None),
    "local": (None, None),
    "gaps": (None, None),
}


@pytest.mark.thorough
def test_a_cold_cache_is_told_once_on_stderr(tmp_path):
    """Without a terminal, as in a pipe; the second fit of the process finds the kernels, and so does another."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for told in (f"{WORDS}\n", ""):
        command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
        assert ended.stderr == told and not ended.stdout


def test_it_is_told_before_anything_is_spent(monkeypatch, capsys):
    monkeypatch.setattr(fit, "compiles", lambda kernel: True)
    monkeypatch.setattr(fit, "keeping", lambda *given, **facts: pytest.fail("spent"))
    with pytest.raises(pytest.fail.Exception):
        fit.fit_gmm([[0.0], [1.0], [2.0]], 1, epsilon=1.0, bounds=(-5, 5))
    assert capsys.readouterr().err == f"{WORDS}\n"
    with pytest.raises(pytest.fail.Exception):
        fit.fit_gmm([[0.0], [1.0], [2.0]], 1, epsilon=1.0, bounds=(-5, 5), progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", fit.METHODS)
def test_every_method_says_which_kernel_it_calls_first(name):
    """A function, no name of one: a module that moves takes it along."""
    method = fit.METHODS[name]()
    kernels = [method.first_kernel(n_features) for n_features in (1, 3)]
    assert tuple(None if kernel is None else kernel.__name__ for kernel in kernels) == FIRST[name]
    assert all(compiles(kernel) in (True, False) for kernel in kernels) and not compiles(None)


def test_a_kernel_that_is_in_no_cache_will_be_compiled(monkeypatch, tmp_path):
    kernel = friends_kernel.fill_rows

    class Cold:
        signatures = ()
        py_func = kernel.py_func

        class stats:
            cache_path = str(tmp_path)

    assert compiles(Cold)
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    (tmp_path / f"friends_kernel.fill_rows-78.{version}.nbi").touch()
    assert not compiles(Cold)

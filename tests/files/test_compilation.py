"""The first fit of an environment says why it takes long, once, and from public facts alone."""

import importlib
import os
import subprocess
import sys

import pytest

from pm_dpgmm import fit
from pm_dpgmm.files.compilation import KERNELS, WORDS, compiles

SCRIPT = """
import numpy as np
import pm_dpgmm as dpg
X = np.linspace(-4, 4, 500)[:, None]
for _ in range(2):
    dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-6, bounds=(-5, 5), random_seed=1)
"""


def test_a_cold_cache_is_told_once_on_stderr(tmp_path):
    """Without a terminal, as in a pipe; the second fit of the process finds the kernels, and so does another."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for told in (f"{WORDS}\n", ""):
        command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
        assert ended.stderr == told and not ended.stdout


def test_it_is_told_before_anything_is_spent(monkeypatch, capsys):
    monkeypatch.setattr(fit, "compiles", lambda method, n_features: True)
    monkeypatch.setattr(fit, "keeping", lambda *given, **facts: pytest.fail("spent"))
    with pytest.raises(pytest.fail.Exception):
        fit.fit_gmm([[0.0], [1.0], [2.0]], 1, epsilon=1.0, bounds=(-5, 5))
    assert capsys.readouterr().err == f"{WORDS}\n"
    with pytest.raises(pytest.fail.Exception):
        fit.fit_gmm([[0.0], [1.0], [2.0]], 1, epsilon=1.0, bounds=(-5, 5), progress=False)
    assert capsys.readouterr().err == ""


def test_the_kernels_are_those_that_there_are():
    assert not compiles("histogram", 1) and not compiles("a method of one's own", 3)
    for module, name in KERNELS.values():
        assert hasattr(importlib.import_module(f"pm_dpgmm.{module}"), name)

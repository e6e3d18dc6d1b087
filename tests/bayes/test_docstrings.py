"""Examples in the docstrings of ``pm_dpgmm.bayes`` run, in every module that has any."""

import doctest
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import pm_dpgmm.bayes
from pm_dpgmm.bayes.starts import map_mixture

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")

FOLDER = Path(pm_dpgmm.bayes.__file__).parent
SLOW = {"rows.density", "prior.label_variable", "parameters.params", "starts.map_mixture"}  # seconds, to compile
WITH_EXAMPLES = [
    ".".join(path.relative_to(FOLDER).with_suffix("").parts)
    for path in sorted(FOLDER.rglob("*.py"))
    if re.search(r">>> (?!.*SKIP)", path.read_text())
]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.thorough] if name in SLOW else []) for name in WITH_EXAMPLES],
)
def test_docstring_examples_run(name, monkeypatch):
    monkeypatch.setattr(map_mixture, "OFTEN", "FAST_COMPILE")  # seconds to compile in place of minutes
    map_mixture.compiled_posterior.cache_clear()
    module = importlib.import_module(f"pm_dpgmm.bayes.{name}")
    result = doctest.testmod(module, extraglobs={"np": np})
    map_mixture.compiled_posterior.cache_clear()
    assert result.attempted and not result.failed

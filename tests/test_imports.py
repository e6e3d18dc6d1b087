"""What importing loads: the package stays light, every public name is there, whatever was imported before."""

import subprocess
import sys

import pytest


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.thorough
def test_importing_the_package_loads_neither_pymc_nor_matplotlib():
    loaded = run("import sys, pm_dpgmm; print(*sys.modules)")
    assert not {"pymc", "pytensor", "arviz", "matplotlib", "dp_accounting", "statsmodels"} & set(loaded)
    loaded = run("import sys, pm_dpgmm as dpg; dpg.fit_gmm, dpg.Release, dpg.Mixture; print(*sys.modules)")
    assert not {"pymc", "pytensor", "arviz", "matplotlib"} & set(loaded)


def test_the_pytest_plugin_loads_nothing_that_pytest_does_not():
    """It is imported in every pytest run of whoever has the package installed."""
    loaded = run("import sys, verification.pytest_plugin; print(*sys.modules)")
    assert not {"numpy", "scipy", "sklearn", "hypothesis", "pm_dpgmm"} & set(loaded)


FIRST = [
    "pass",
    "import verification.auditing.audit",
    "from verification.auditing.audit import audit",
    "import verification.auditing.worst_pair",
]
BY_NAME = """
from verification import AuditResult, audit
import verification as v
print(audit is v.audit is sys.modules["verification.auditing.audit"].audit, v.AuditResult is AuditResult)
print("AuditResult" in dir(v))
"""
BY_STAR = """
from verification import *
print(type(audit).__name__ == "function")
"""


@pytest.mark.thorough
def test_audit_is_the_function_whatever_was_imported_before():
    """In one process, which forgets the package between the cases."""
    code = f"""
import sys
for first in {FIRST}:
    for then in {[BY_NAME, BY_STAR]}:
        for name in [name for name in sys.modules if name.split(".")[0] == "verification"]:
            del sys.modules[name]
        exec(first + then, {{"sys": sys}})
"""
    assert run(code) == ["True"] * 4 * len(FIRST)


def test_every_public_name_loads():
    import pm_dpgmm as dpg

    for name in dpg.__all__:
        assert getattr(dpg, name) is not None
    assert set(dir(dpg)) == set(dpg.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dpg.nothing

"""Without PyMC everything but the PyMC methods works, and those say what to install."""

import subprocess
import sys

import pytest

BLOCKED = """
import sys
for name in ("pymc", "pytensor", "arviz"):
    sys.modules[name] = None
import numpy as np
import pm_dpgmm as dpg
"""


def run(code):
    return subprocess.run([sys.executable, "-c", BLOCKED + code], capture_output=True, text=True)


@pytest.mark.thorough
def test_fits_files_and_post_processing_work(tmp_path):
    done = run(f"""
X = np.random.default_rng(0).normal(size=(2000, 1)) + 6 * np.random.default_rng(1).integers(0, 2, (2000, 1))
release = dpg.fit_gmm(X, 2, epsilon=2.0, bounds=(-5, 11), method="histogram")
back = dpg.load(release.save({str(tmp_path / "release.json")!r}))
assert (back.means == release.means).all()
back.sample(10, random_seed=1), back.log_density([[0.0]]), back.summary(), back.plot()
back.select_k([1, 2]).chosen, back.check_fit(random_seed=1)
sketch = dpg.fit_gmm(X, 1, epsilon=2.0, delta=1e-6, bounds=(-5, 11), method="sketch")
sketch.check_fit(), sketch.standard_errors()
print("done")
""")
    assert done.stdout.split() == ["done"], done.stderr


@pytest.mark.thorough
def test_pymc_methods_raise_one_error_that_names_what_to_install():
    done = run("""
X = np.random.default_rng(0).normal(size=(500, 1))
release = dpg.fit_gmm(X, 1, epsilon=2.0, bounds=(-5, 5), method="histogram")
calls = [
    lambda: release.prior("x"), lambda: release.prior_dist(), lambda: release.as_prior(), lambda: release.initvals(),
    lambda: release.set_initvals(), lambda: release.to_inferencedata(), lambda: dpg.check_modes,
]
for _ in range(2):  # the second time as the first
    for call in calls:
        try:
            call()
        except ImportError as error:
            print(error)
""")
    assert done.stdout.splitlines() == ["pm_dpgmm.bayes needs PyMC, which is not installed: pip install pymc"] * 14, (
        done.stderr
    )

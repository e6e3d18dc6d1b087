"""What does importing the package cost, against importing the libraries it stands on?

Fresh interpreters, alternating, median of several runs each: ``import pm_dpgmm``, alone and with its front door loaded,
against numpy, scipy.stats, scikit-learn, numba and opendp together. Exit status 1 when the ratio exceeds 1.2.
``python -m verification.benchmarks.import_time``
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

PACKAGE = "import pm_dpgmm"
FRONT_DOOR = "import pm_dpgmm as dpg; dpg.fit_gmm; dpg.Release; dpg.Mixture"
LIBRARIES = "import numpy, scipy.stats, sklearn, numba, opendp.prelude"
EMPTY = "pass"
N_RUNS, LIMIT = 7, 1.2


def seconds(code: str) -> float:
    """Wall time of a fresh interpreter that runs ``code``."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def main() -> int:
    """Print the medians and the ratios."""
    codes = {"interpreter alone": EMPTY, "libraries": LIBRARIES, "pm_dpgmm": PACKAGE, "with fit_gmm": FRONT_DOOR}
    times: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(N_RUNS):
        for name, code in codes.items():
            times[name].append(seconds(code))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        print(f"{name:18} {median:6.2f} s   {median / medians['libraries']:5.2f} of the libraries")
    return int(max(medians["pm_dpgmm"], medians["with fit_gmm"]) > LIMIT * medians["libraries"])


if __name__ == "__main__":
    sys.exit(main())

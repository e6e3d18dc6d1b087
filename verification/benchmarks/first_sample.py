"""How long does the first ``pm.sample`` of the README's models take, and that of a plain model of as many variables?

``python -m verification.benchmarks.first_sample``: seconds of computing (processor time, compilers included, which on a
machine with nothing else to do is what one waits) from building the model to the end of 20 draws of one chain, each in
a process of its own. "cold": no compiled code on the disk, as on the first day; "again": the same model in a second
process; "another": after that a release of other records and other rows, as after ``pm-dpgmm warm-up``. Importing the
libraries and fitting the release are not counted. ``--only 2``: rows whose name holds this.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

ROWS = {
    "1. latent vectors with the prior of a release, 60": "prior",
    "2. params and gmm, 60 rows": "gmm",
    "3. params and observe, sketch in one column": "observe",
    "3. the same, sketch in two columns": "observe two",
    "3. the same, histogram in one column": "observe histogram",
    "3. the same, local responses in one column": "observe local",
    "3. the same, EM sums in one column": "observe em",
    "3. the same, sums of cells in one column": "observe central",
}


def release_of(kind: str, seed: int) -> Any:
    """A release of records in one or two columns, None for the plain model."""
    import pm_dpgmm as dpg

    if kind.startswith("plain"):
        return None
    columns = 2 if kind in ("gmm", "observe two") else 1
    centres = [[30.0, 10.0]] * 1400 + [[65.0, 30.0]] * (500 + 100 * seed)
    X = np.random.default_rng(seed).normal(centres, 6.0)[:, :columns]
    delta = None if kind in ("observe histogram", "observe local", "observe central") else 1e-6
    method = kind.split()[1] if kind in ("observe local", "observe em", "observe central") else "auto"
    box = (0, 100)
    return dpg.fit_gmm(X, 2, epsilon=1.0, delta=delta, bounds=box, method=method, random_seed=seed, progress=False)


def model_of(kind: str, release: Any, seed: int) -> Any:
    """The README's model ``kind``, or ``plain N``: N free normal numbers, each a variable, and 60 observed rows."""
    import pymc as pm

    import pm_dpgmm as dpg

    X2 = np.full(60, seed / 10) if release is None else release.sample(60, random_seed=2)
    with pm.Model(coords={"patient": range(60)}) as model:
        if release is None:
            total = sum(pm.Normal(f"x{i}") for i in range(int(kind.split()[1])))
            pm.Normal("y", total, 1.0, observed=X2)
        elif kind == "prior":
            x = release.prior("x", dims=("patient", "feature"))
            pm.Normal("measured", x, 2.0, observed=X2)
        elif kind == "gmm":
            dpg.gmm("y", release.params("g"), observed=X2, dims=("obs", "feature"))
        else:
            release.observe(release.params("g", prior="weak"))
    return model


def measure(kind: str, seed: int) -> None:
    """Print seconds and the number of free numbers; runs in its own process."""
    warnings.simplefilter("ignore")
    import pymc as pm

    import pm_dpgmm.bayes.rows.density  # noqa: F401 - libraries load before the clock starts

    release = release_of(kind, seed)
    settings = {"draws": 20, "tune": 20, "chains": 1, "cores": 1, "random_seed": 1}
    start = spent()
    with model_of(kind, release, seed) as model:
        pm.sample(**settings, progressbar=False, compute_convergence_checks=False)
    taken = spent() - start
    print(f"RESULT {taken:.1f} {sum(value.size for value in model.initial_point().values())}")


def spent() -> float:
    """Processor seconds of this process and its children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def seconds(kind: str, folder: Path, *, seed: int = 1) -> tuple[float, int]:
    """Of one process with its caches in ``folder``, and the number of free numbers."""
    caches = {"PYTENSOR_FLAGS": f"base_compiledir={folder / 'pytensor'}", "NUMBA_CACHE_DIR": str(folder / "numba")}
    command = [sys.executable, "-m", "verification.benchmarks.first_sample", "--measure", kind, "--seed", str(seed)]
    found = subprocess.run(command, env=os.environ | caches, capture_output=True, text=True, check=False)
    lines = [line.split() for line in found.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        raise RuntimeError(f"{kind}: {found.stderr[-2000:]}")
    return float(lines[0][1]), int(lines[0][2])


def main() -> None:
    """A Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.seed)
        return
    import pymc as pm
    import pytensor

    print(f"PyMC {pm.__version__}, PyTensor {pytensor.__version__}\n")
    print("| model | free numbers | cold, s | plain | again, s | plain | another, s | plain |")
    print("|---|---|---|---|---|---|---|---|")
    plain: dict[int, tuple[float, ...]] = {}
    for name, kind in ROWS.items():
        if arguments.only not in name:
            continue
        found, size = all_of(kind)
        if size not in plain:
            plain[size] = all_of(f"plain {size}")[0]
        cells = (f"{one:.1f}" for pair in zip(found, plain[size], strict=True) for one in pair)
        print(f"| {name} | {size} | {' | '.join(cells)} |", flush=True)


def all_of(kind: str) -> tuple[tuple[float, ...], int]:
    """Seconds with empty caches, with what they then hold, and for another release; the number of free numbers."""
    with tempfile.TemporaryDirectory() as folder:
        cold, size = seconds(kind, Path(folder))
        again, _ = seconds(kind, Path(folder))
        another, _ = seconds(kind, Path(folder), seed=2)
    return (cold, again, another), size


if __name__ == "__main__":
    main()

"""How fast is the sketch, and a whole fit? ``python -m verification.benchmarks.sketch_speed``

Ratios in one run on one machine, each the median of ``--repeats`` turns taken in alternation:

* sums of 480 cosines and sines of 1,000,000 rows in 5 columns, on an integer grid, on one thread and on two, over a
  plain numba loop on one thread that multiplies complex phases in floating point with ``fastmath``;
* a private fit of 100,000 records in 5 columns, 3 components, over scikit-learn's fit of the same rows (tol 1e-6).
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import numba
import numpy as np
from sklearn.mixture import GaussianMixture

from pm_dpgmm import fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.frequencies import RieszProduct
from pm_dpgmm.mechanisms.sketch_features import sketch_sums
from verification.benchmarks.peers import DELTA, MAX_STEPS, TOLERANCE
from verification.benchmarks.sets import data_set

N_RECORDS, N_FEATURES, N_FRAMES, N_BASE = 1_000_000, 5, 12, 4
MOST = {"1 thread": 1.2, "2 threads": 0.65, "fit": 2.0}  # ratios that should not be passed


@numba.njit(fastmath=True, cache=True)
def product_loop(rows: FloatArray, bases: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sums of cosines and sines of all signed subset sums of the base phases of every frame."""
    n_frames, n_base, n_features = bases.shape
    size = (3**n_base - 1) // 2
    cosines, sines = np.zeros((n_frames, size)), np.zeros((n_frames, size))
    c, s = np.empty(size), np.empty(size)
    for row in rows:
        for f in range(n_frames):
            made = 0
            for i in range(n_base):
                phase = 0.0
                for j in range(n_features):
                    phase += row[j] * bases[f, i, j]
                x, y, last = math.cos(phase), math.sin(phase), made
                c[made], s[made] = x, y
                made += 1
                for old in range(last):
                    c[made], s[made] = c[old] * x - s[old] * y, s[old] * x + c[old] * y
                    c[made + 1], s[made + 1] = c[old] * x + s[old] * y, s[old] * x - c[old] * y
                    made += 2
            for j in range(size):
                cosines[f, j] += c[j]
                sines[f, j] += s[j]
    return cosines, sines


def seconds(jobs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median of every job, the jobs in turn; the first turn, which compiles, does not count."""
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(repeats + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if turn:
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in taken.items()}


def main(arguments: list[str] | None = None) -> int:
    """Print seconds and ratios; exit status 1 when a ratio is passed."""
    parser = argparse.ArgumentParser(description="Speed of the sketch beside a plain loop and scikit-learn.")
    parser.add_argument("--repeats", type=int, default=5, help="turns that count (default 5)")
    parser.add_argument("--rows", type=int, default=N_RECORDS, help=f"rows of the sketch (default {N_RECORDS})")
    options = parser.parse_args(arguments)
    if options.repeats < 1 or options.rows < 1:
        parser.error("--repeats and --rows must be at least 1")
    rng = np.random.default_rng(0)
    rows, bases = rng.standard_normal((options.rows, N_FEATURES)), rng.standard_normal((N_FRAMES, N_BASE, N_FEATURES))
    frames, data = RieszProduct(bases, np.zeros(N_FEATURES)), data_set("C-1e5", 0)

    def private() -> object:
        return fit_gmm(
            data.training,
            data.recipe.n_components,
            epsilon=1.0,
            delta=DELTA,
            bounds=data.recipe.domain.box,
            random_seed=1,
            progress=False,
        )

    def plain() -> object:
        model = GaussianMixture(data.recipe.n_components, tol=TOLERANCE, max_iter=MAX_STEPS, random_state=0)
        return model.fit(data.training)

    sketching = seconds(
        {
            "plain loop": lambda: product_loop(rows, bases),
            "1 thread": lambda: sketch_sums(rows, frames),
            "2 threads": lambda: sketch_sums(rows, frames, n_threads=2),
        },
        options.repeats,
    )
    fitting = seconds({"scikit-learn": plain, "fit": private}, options.repeats)
    passed = False
    for what, found in (("sketch", sketching), ("fit", fitting)):
        names = list(found)
        for name in names[1:]:
            ratio = found[name] / found[names[0]]
            passed |= ratio > MOST[name]
            print(
                f"{what}, {name}: {found[name]:.3f} s, {names[0]} {found[names[0]]:.3f} s, ratio {ratio:.2f}"
                f" (at most {MOST[name]}: {'MISSED' if ratio > MOST[name] else 'met'})"
            )
    return int(passed)


if __name__ == "__main__":
    raise SystemExit(main())

"""How far is a private fit from the non-private ceiling, in held-out log-density per record?

The setting is the one-dimensional mixture of Harrington and Mayolo (TRUTH, three overlapping components) with public
bounds [0, 80] at epsilon 1, one record replaced. The gap is the mean log-density of 20,000 held-out draws under the
private fit minus that under scikit-learn's GaussianMixture on the same rows; 0 is as good as no privacy. Methods:

- histogram: ``fit_gmm(method="histogram")``, epsilon-DP.
- sketch: ``fit_gmm(method="sketch")`` at delta 1e-6; with the bounds, with bounds 60 times too wide, and without bounds
  on records in another unit (1e-3) and far from 0 (1e6).
- diffprivlib: k-means of diffprivlib 0.6.6 on 0.3 epsilon, then one Gaussian release of the moments of its clusters on
  0.7 epsilon at delta 1e-6 (diffprivlib_recipe.py). It needs an older scikit-learn, so it runs in an environment of its
  own, made on first use in ``.venv-diffprivlib`` of the current folder. Without it the table says "not run".

Every fit, the ceiling included, gets the same floors (``floored``). Exit status 1 when a median gap is below its target
in TARGETS; other sizes have none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from sklearn.mixture import GaussianMixture

from pm_dpgmm import Mixture, fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.gaussian import gaussian_mu
from verification.benchmarks.peer_environment import interpreter

TRUTH = Mixture([0.15, 0.35, 0.5], [[17.0], [30.0], [50.0]], [[[9.0]], [[16.0]], [[25.0]]])
BOUNDS = np.array([0.0, 80.0])
EPSILON, DELTA, KMEANS_SHARE = 1.0, 1e-6, 0.3
N_COMPONENTS, N_HELD_OUT = 3, 20_000
WEIGHT_FLOOR, VARIANCE_FLOOR = 1e-3, 0.25
LOOSE, UNIT, OFFSET = np.array([-2400.0, 2400.0]), 1e-3, 1e6
TARGETS = {  # least median gap by method and number of records
    "histogram": {1_000: -0.03, 10_000: -0.002},
    "sketch": {1_000: -0.006, 10_000: -0.0005},
    "sketch, loose bounds": {1_000: -0.009, 10_000: -0.002},
    "sketch, no bounds": {1_000: -0.009, 10_000: -0.002},
}
N_STARTS, TOLERANCE, MAX_STEPS = 5, 1e-6, 10_000  # of the ceiling; the default tolerance stops too early here

FOLDER = Path(__file__).parent
REQUIREMENTS = FOLDER / "diffprivlib-requirements.txt"
ENVIRONMENT = Path(".venv-diffprivlib")


@dataclass(frozen=True, slots=True)
class Row:
    """One method at one size. ``gaps`` has one number for each repeat and is empty when the method did not run."""

    n_records: int
    method: str
    gaps: tuple[float, ...]
    ceiling: float  # median held-out log-density of the non-private fits

    @property
    def missed(self) -> bool:
        """Whether the target is missed (False where there is none)."""
        return self.target is not None and bool(np.median(self.gaps) < self.target)

    @property
    def target(self) -> float | None:
        """Least median gap, if there is one."""
        return TARGETS.get(self.method, {}).get(self.n_records)

    def __str__(self) -> str:
        start = f"{self.n_records:>9,}  {self.method:<20}  {self.ceiling:8.4f}"
        if not self.gaps:
            return f"{start}  not run"
        quartiles = np.quantile(self.gaps, (0.5, 0.25, 0.75))
        numbers = "".join(f"  {number:8.4f}" for number in (*quartiles, min(self.gaps)))
        verdict = "" if self.target is None else f"  {self.target} {'MISSED' if self.missed else 'met'}"
        return f"{start}{numbers}{verdict}"


def floored(weights: ArrayLike, means: ArrayLike, covariances: ArrayLike) -> Mixture:
    """The mixture with the weight and variance floors and the bounds applied, as every method gets it."""
    w = np.maximum(weights, WEIGHT_FLOOR)
    variances = np.clip(np.reshape(covariances, (-1, 1, 1)), VARIANCE_FLOOR, (np.ptp(BOUNDS) / 2) ** 2)
    return Mixture(w / w.sum(), np.clip(np.reshape(means, (-1, 1)), *BOUNDS), variances)


def ceiling_fit(rows: FloatArray, seed: int) -> Mixture:
    """Non-private fit of ``rows`` (n_records, 1)."""
    model = GaussianMixture(N_COMPONENTS, n_init=N_STARTS, tol=TOLERANCE, max_iter=MAX_STEPS, random_state=seed)
    model.fit(rows)
    return floored(model.weights_, model.means_, model.covariances_)


def histogram_fit(rows: FloatArray, seed: int) -> Mixture:
    """Private fit of ``rows`` (n_records, 1) by the histogram method."""
    release = fit_gmm(
        rows, N_COMPONENTS, epsilon=EPSILON, bounds=BOUNDS, method="histogram", random_seed=seed, progress=False
    )
    return floored(release.weights, release.means, release.covariances)


def sketch_fit(rows: FloatArray, seed: int, *, bounds: FloatArray | None) -> Mixture:
    """Private fit of ``rows`` (n_records, 1) by the sketch method; without bounds in another unit."""
    unit, offset = (1.0, 0.0) if bounds is not None else (UNIT, OFFSET)
    release = fit_gmm(
        rows * unit + offset, N_COMPONENTS, epsilon=EPSILON, delta=DELTA, bounds=bounds, method="sketch",
        random_seed=seed, progress=False,
    )  # fmt: skip
    return floored(release.weights, (release.means - offset) / unit, release.covariances / unit**2)


def diffprivlib_fits(python: Path, rows: FloatArray, seeds: list[int]) -> list[Mixture]:
    """Private fits of ``rows`` (n_fits, n_records) by the rival, run by its own interpreter."""
    noise_multiplier = 1 / gaussian_mu((1 - KMEANS_SHARE) * EPSILON, DELTA)
    with tempfile.TemporaryDirectory() as folder:
        sent, fitted = Path(folder, "sent.npz"), Path(folder, "fitted.npz")
        np.savez(
            sent, rows=rows, seeds=seeds, bounds=BOUNDS, n_components=N_COMPONENTS,
            kmeans_epsilon=KMEANS_SHARE * EPSILON, noise_multiplier=noise_multiplier,
        )  # fmt: skip
        # -I: neither PYTHONPATH nor this folder may bring in packages of another environment
        subprocess.run([python, "-I", FOLDER / "diffprivlib_recipe.py", sent, fitted], check=True)
        with np.load(fitted) as fits:
            parameters = [fits[name] for name in ("weights", "means", "variances")]
    return [floored(*fit) for fit in zip(*parameters, strict=True)]


def run(n_records: int, n_repeats: int, python: Path | None) -> list[Row]:
    """Rows of the table for one size; without ``python`` the rival's row has no gaps."""
    training, held_out, seeds = [], [], []
    for repeat in range(n_repeats):
        rng = np.random.default_rng([n_records, repeat])
        training.append(TRUTH.sample(n_records, rng=rng))
        held_out.append(TRUTH.sample(N_HELD_OUT, rng=rng))
        seeds.append(int(rng.integers(2**31)))
    pairs = list(zip(training, seeds, strict=True))
    fits = {"histogram": [histogram_fit(rows, seed) for rows, seed in pairs]}
    for name, bounds in (("sketch", BOUNDS), ("sketch, loose bounds", LOOSE), ("sketch, no bounds", None)):
        fits[name] = [sketch_fit(rows, seed, bounds=bounds) for rows, seed in pairs]
    fits["diffprivlib"] = diffprivlib_fits(python, np.array(training)[:, :, 0], seeds) if python else []
    ceilings = [
        ceiling_fit(rows, seed).log_density(points).mean()
        for rows, points, seed in zip(training, held_out, seeds, strict=True)
    ]
    return [
        Row(
            n_records,
            method,
            tuple(
                float(fit.log_density(points).mean() - ceiling)
                for fit, points, ceiling in zip(mixtures, held_out, ceilings, strict=bool(mixtures))
            ),
            float(np.median(ceilings)),
        )
        for method, mixtures in fits.items()
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and print it; returns the exit status."""
    parser = argparse.ArgumentParser(description="Gap of private fits to the non-private ceiling.")
    parser.add_argument("--n-records", type=int, nargs="+", default=[1_000, 10_000], help="sizes (default 1000 10000)")
    parser.add_argument("--repeats", type=int, default=10, help="data sets for each size (default 10)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    if min(options.n_records) < 100 or options.repeats < 1:
        parser.error("--n-records must be at least 100 and --repeats at least 1")

    python, missing = interpreter(ENVIRONMENT, REQUIREMENTS, check="import diffprivlib.models")
    rows = [row for n_records in options.n_records for row in run(n_records, options.repeats, python)]
    missed = [row for row in rows if row.missed]
    note = f"diffprivlib was NOT RUN, its environment could not be made: {missing}" if missing is not None else ""
    if options.json:
        sizes = [f"{row.method} {row.n_records}" for row in missed]
        print(json.dumps({"rows": [asdict(row) for row in rows], "missed": sizes, "note": note}, indent=1))
    else:
        print(f"Gap to the ceiling at epsilon {EPSILON:g}, nats per held-out record, {options.repeats} data sets a row")
        print("n_records  method                ceiling    median       25%       75%     worst  target")
        print(*rows, *([note] if note else []), sep="\n")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())

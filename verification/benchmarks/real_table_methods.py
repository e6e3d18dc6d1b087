"""The methods of the real-table benchmark, each a function of one division of a table, and the scores of their fits.

This project's fits get the training rows as they are; the private synthetic rows of the rivals are made from the same
rows in 32 bins a column, and scikit-learn's mixture is fitted to them, spread evenly within the bins. The rivals
protect a row that is added or removed, this project one that is replaced, which is the harder promise.
"""

from __future__ import annotations

import math
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from pm_dpgmm import FitWarning, Mixture, Unstable, fit_gmm
from pm_dpgmm._arguments import FloatArray
from verification.benchmarks.peer_environment import found_python, interpreter, last_line
from verification.benchmarks.peers import NotRunError
from verification.benchmarks.real_table_recipes import Rows

EPSILON, DELTA = 1.0, 1e-6
FLOOR = 1e-3  # of variances, in standard deviations squared: reg_covar of every fit that has one
N_STARTS, TOLERANCE, MAX_STEPS = 3, 1e-5, 2_000  # of scikit-learn's fits
N_BINS = 32  # of a column, for the rivals

FOLDER = Path(__file__).parent
REQUIREMENTS = FOLDER / "dpmm-requirements.txt"
ENVIRONMENT = Path(".venv-dpmm")
PYTHONS = ("3.11", "3.10")  # that dpmm installs with
CHECK = "import dpmm.pipelines.aim, dpmm.pipelines.mst"

CEILING, BOUNDS, NO_BOUNDS, PURE, MST, AIM = "ceiling", "bounds", "no bounds", "pure", "MST", "AIM"
RIVALS = (MST, AIM)


@dataclass(frozen=True, slots=True)
class Score:
    """One fit. A refusal has gap -inf; a method that did not run has gap NaN and a reason."""

    table: str
    repeat: int
    method: str
    gap: float  # mean log-density of held-out rows less the ceiling's, columns in standard deviations
    seconds: float
    note: str = ""

    @property
    def ran(self) -> bool:
        """Whether there is a figure."""
        return not math.isnan(self.gap)


@dataclass(frozen=True, slots=True)
class Rivals:
    """The interpreter of dpmm's environment, or why there is none."""

    python: Path | None
    missing: str | None

    @classmethod
    def make(cls) -> Rivals:
        """Make the environment in the current folder, unless it is there."""
        python = found_python(PYTHONS)
        if python is None:
            return cls(None, f"dpmm needs Python {' or '.join(PYTHONS)}, and none is on the path")
        return cls(*interpreter(ENVIRONMENT, REQUIREMENTS, check=CHECK, python=python))

    def synthetic(self, rows: Rows, mechanism: str) -> tuple[FloatArray, float]:
        """Private rows in the box, and the seconds that they took without starting the interpreter."""
        if self.python is None:
            raise NotRunError(f"no environment: {self.missing}")
        low, width = rows.box[:, 0], np.ptp(rows.box, axis=1) / N_BINS
        bins = np.clip((rows.training - low) // width, 0, N_BINS - 1).astype(int)
        seed = rows.seed(mechanism)
        with tempfile.TemporaryDirectory() as folder:
            sent, made = Path(folder, "sent.npz"), Path(folder, "made.npz")
            facts: dict[str, Any] = {
                "n_bins": N_BINS,
                "mechanism": mechanism,
                "epsilon": EPSILON,
                "delta": DELTA,
                "seed": seed,
            }
            np.savez(sent, bins=bins, **facts)
            command = [str(self.python), "-I", str(FOLDER / "dpmm_recipe.py"), str(sent), str(made)]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except subprocess.CalledProcessError as error:
                raise NotRunError(last_line(error)) from None
            with np.load(made) as answer:
                found, seconds = answer["bins"], float(answer["seconds"])
        spread = np.random.default_rng([seed, 2]).random(found.shape)
        return low + width * (found + spread), seconds


def scikit_learn(rows: FloatArray, n_components: int, seed: int) -> Mixture:
    """Its mixture without privacy."""
    fixed: dict[str, Any] = {"reg_covar": FLOOR, "tol": TOLERANCE, "max_iter": MAX_STEPS, "n_init": N_STARTS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GaussianMixture(n_components, random_state=seed, **fixed).fit(rows)
    return Mixture(model.weights_, model.means_, model.covariances_)


def floored(fit: Mixture) -> Mixture:
    """With no variance below what scikit-learn's fit has at least; for fits without ``reg_covar``."""
    values, axes = np.linalg.eigh(fit.covariances)
    fixed = (axes * np.maximum(values, FLOOR)[:, None, :]) @ axes.swapaxes(1, 2)
    return Mixture(fit.weights, fit.means, (fixed + fixed.swapaxes(1, 2)) / 2)


Fit = Callable[[Rows, Rivals], tuple[Mixture, float]]


def by_bounds(rows: Rows, rivals: Rivals) -> tuple[Mixture, float]:
    """This project's default with the public bounds."""
    return _package(rows, BOUNDS, delta=DELTA, bounds=rows.box, reg_covar=FLOOR)


def by_no_bounds(rows: Rows, rivals: Rivals) -> tuple[Mixture, float]:
    """This project's default without bounds."""
    return _package(rows, NO_BOUNDS, delta=DELTA, reg_covar=FLOOR)


def by_pure(rows: Rows, rivals: Rivals) -> tuple[Mixture, float]:
    """This project's default with bounds and without delta."""
    return _package(rows, PURE, bounds=rows.box)


def by_mst(rows: Rows, rivals: Rivals) -> tuple[Mixture, float]:
    """A mixture fitted to the rows of MST."""
    return _synthetic(rows, rivals, MST)


def by_aim(rows: Rows, rivals: Rivals) -> tuple[Mixture, float]:
    """A mixture fitted to the rows of AIM."""
    return _synthetic(rows, rivals, AIM)


METHODS: dict[str, Fit] = {BOUNDS: by_bounds, NO_BOUNDS: by_no_bounds, PURE: by_pure, MST: by_mst, AIM: by_aim}


def _package(rows: Rows, name: str, **settings: Any) -> tuple[Mixture, float]:
    """A fit by this package."""
    start = time.perf_counter()
    k = rows.table.n_components
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        try:
            release = fit_gmm(
                rows.training, k, epsilon=EPSILON, random_seed=rows.seed(name), progress=False, **settings
            )
        except ValueError as error:  # what no method supports; every table is valid input
            raise NotRunError(str(error)) from None
    return floored(release.row_density), time.perf_counter() - start


def _synthetic(rows: Rows, rivals: Rivals, mechanism: str) -> tuple[Mixture, float]:
    """A fit by scikit-learn to synthetic rows, its seconds counted, too."""
    made, seconds = rivals.synthetic(rows, mechanism)
    start = time.perf_counter()
    fit = scikit_learn(made, rows.table.n_components, rows.seed("synthetic"))
    return fit, seconds + time.perf_counter() - start


def level(fit: Mixture, rows: Rows) -> float:
    """Mean log-density of the held-out rows, nats per row."""
    return float(fit.log_density(rows.held_out).mean())


def ceiling(rows: Rows) -> tuple[Mixture, float]:
    """scikit-learn's fit to the training rows inside the bounds, without privacy, and its seconds."""
    start = time.perf_counter()
    fit = scikit_learn(rows.inside, rows.table.n_components, rows.seed(CEILING))
    return fit, time.perf_counter() - start


def score(rows: Rows, method: str, best: float, rivals: Rivals) -> Score:
    """One method on one division; ``best`` is the ceiling's level."""
    name = rows.table.name
    try:
        fit, seconds = METHODS[method](rows, rivals)
    except NotRunError as reason:
        return Score(name, rows.repeat, method, math.nan, math.nan, f"not run: {reason}")
    except Unstable:
        return Score(name, rows.repeat, method, -math.inf, math.nan, "refused")
    return Score(name, rows.repeat, method, level(fit, rows) - best, seconds)

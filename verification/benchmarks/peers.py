"""What a private mixture is compared with: the non-private ceiling and three recipes that a user could follow instead.

Every fit gets the same post-processing (``floored``). The peers' noise is NumPy's: good enough to measure accuracy,
not to release anything.
"""

from __future__ import annotations

import math
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from pm_dpgmm import Mixture
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.gaussian import gaussian_mu
from verification.benchmarks.peer_environment import interpreter, last_line
from verification.benchmarks.sets import DataSet, Domain

DELTA, WEIGHT_FLOOR = 1e-6, 1e-3
N_STARTS, TOLERANCE, MAX_STEPS = 3, 1e-6, 10_000  # of the ceiling; the default tolerance stops too early on set A
LARGE = 500_000  # records from which the ceiling starts at the truth only, which is the best start there is

LLOYD_SHARE, N_LLOYD, SPREAD_SHARE, MOMENTS_SHARE, N_MOMENTS = 0.4, 4, 0.1, 0.5, 2
COUNT_WEIGHT = 0.5  # of the count beside sum and second moment of one row of length at most 1, which have weight 1
# A replaced row can leave one cluster for another: both contributions have length at most 1.5.
MOMENTS_SENSITIVITY = math.sqrt(2 * (COUNT_WEIGHT**2 + 1 + 1))
LEAST_SHARE, START_RADIUS, N_CANDIDATES, LEAST_EIGENVALUE = 0.01, 0.6, 400, 1e-3
KMEANS_SHARE = 0.3  # of epsilon
CELLS = {1: 64, 2: 32, 3: 12, 4: 8}  # a side of the histogram, by number of columns
NOISE_CUT, MOST_COPIES = 8, 200_000  # cells are cut at noise of one in NOISE_CUT cells; rows for EM

FOLDER = Path(__file__).parent
REQUIREMENTS = FOLDER / "diffprivlib-requirements.txt"
ENVIRONMENT = Path(".venv-diffprivlib")


class NotRunError(Exception):
    """Why a method has no figure on a set."""


def floored(weights: ArrayLike, means: ArrayLike, covariances: ArrayLike, domain: Domain) -> Mixture:
    """The mixture as every method gets it: weights and variances not below the floors, means inside the box."""
    w = np.maximum(weights, WEIGHT_FLOOR)
    values, axes = np.linalg.eigh(np.asarray(covariances, dtype=float))
    values = np.clip(values, domain.floor, domain.radius**2)
    fixed = (axes * values[:, None, :]) @ axes.swapaxes(1, 2)
    inside = np.clip(means, domain.box[:, 0], domain.box[:, 1])
    return Mixture(w / w.sum(), inside, (fixed + fixed.swapaxes(1, 2)) / 2)


def ceiling(data: DataSet) -> Mixture:
    """The best of several non-private fits, by the density of the training rows; one starts at the truth."""
    recipe, rows = data.recipe, data.training
    truth = recipe.truth
    # a ridge biases the fit; without a truth, rows may be tied and EM needs the whole floor to converge
    ridge = recipe.domain.floor if truth is None else recipe.domain.floor / 100
    fixed = {"tol": TOLERANCE, "max_iter": MAX_STEPS, "reg_covar": ridge, "random_state": data.seed("ceiling")}
    models = []
    if truth is None or recipe.n_records < LARGE:
        models.append(GaussianMixture(recipe.n_components, n_init=N_STARTS, **fixed))
    if truth is not None:
        start = {"means_init": truth.means, "precisions_init": np.linalg.inv(truth.covariances)}
        models.append(GaussianMixture(recipe.n_components, weights_init=truth.weights, **start, **fixed))
    fits = [model.fit(rows) for model in models]
    best = max(fits, key=lambda fit: float(fit.lower_bound_))
    return floored(best.weights_, best.means_, best.covariances_, recipe.domain)


# ---------------------------------------------------------------- two-stage
def two_stage(
    records: FloatArray, n_components: int, *, domain: Domain, epsilon: float, rng: np.random.Generator
) -> Mixture:
    """Noisy Lloyd in the public ball, a noisy spread per cluster, then two EM steps on locally clipped moments.

    Replace-one neighbours, exact Gaussian accounting: the squared Gaussian-DP parameters of the steps add up.
    """
    rows, d = domain.unit(records), records.shape[1]
    limit, least = gaussian_mu(epsilon, DELTA) ** 2, LEAST_SHARE * len(rows)

    means = spread_start(n_components, d, rng)
    noise = 2 * math.sqrt(N_LLOYD / (LLOYD_SHARE * limit))  # counts and sums of unit rows move by at most 2
    for _ in range(N_LLOYD):
        chosen = one_hot(squared_distances(rows, means))
        counts = np.maximum(chosen.sum(axis=0) + rng.normal(scale=noise, size=len(means)), least)
        means = (chosen.T @ rows + rng.normal(scale=noise, size=means.shape)) / counts[:, None]
        means = means / np.maximum(1.0, np.linalg.norm(means, axis=1))[:, None]

    table = squared_distances(rows, means)
    squares = (one_hot(table) * np.minimum(table, 1)).sum(axis=0)
    squares = squares + rng.normal(scale=math.sqrt(2 / (SPREAD_SHARE * limit)), size=len(means))
    spreads = np.sqrt(np.maximum(squares / counts, domain.floor / domain.radius**2))

    fit = Mixture(counts / counts.sum(), means, np.eye(d) * (spreads**2 / d)[:, None, None])
    noise = MOMENTS_SENSITIVITY * math.sqrt(N_MOMENTS / (MOMENTS_SHARE * limit))
    for _ in range(N_MOMENTS):
        fit = _moment_step(rows, fit, 2 * spreads, noise=noise, least=least, rng=rng)
    return floored(fit.weights, fit.means * domain.radius + domain.centre, fit.covariances * domain.radius**2, domain)


def _moment_step(
    rows: FloatArray, fit: Mixture, radii: FloatArray, *, noise: float, least: float, rng: np.random.Generator
) -> Mixture:
    """One noisy EM step; rows are centred at each component and clipped to its radius."""
    responsibilities, d = fit.responsibilities(rows), fit.n_features
    counts, means, covariances = [], [], []
    for mean, radius, share in zip(fit.means, radii, responsibilities.T, strict=True):
        local = (rows - mean) / radius
        local /= np.maximum(1.0, np.linalg.norm(local, axis=1))[:, None]
        count = max(float(share.sum() + rng.normal(scale=noise / COUNT_WEIGHT)), least)
        shift = (share @ local + rng.normal(scale=noise, size=d)) / count
        second = ((local * share[:, None]).T @ local + symmetric_noise(d, noise, rng)) / count
        values, axes = np.linalg.eigh(second - np.outer(shift, shift))
        values = np.maximum(values, max(LEAST_EIGENVALUE, noise * math.sqrt(d) / count))  # below its noise: unknown
        covariance = radius**2 * (axes * values) @ axes.T
        counts.append(count)
        means.append(mean + radius * shift)
        covariances.append((covariance + covariance.T) / 2)
    return Mixture(np.array(counts) / sum(counts), means, covariances)


def spread_start(n_components: int, n_features: int, rng: np.random.Generator) -> FloatArray:
    """Start in the unit ball that no record has touched: a grid in one column, else far apart on a sphere."""
    if n_features == 1:
        return np.asarray((2 * np.arange(n_components)[:, None] + 1) / n_components - 1)
    candidates = rng.standard_normal((N_CANDIDATES, n_features))
    candidates *= START_RADIUS / np.linalg.norm(candidates, axis=1)[:, None]
    chosen = candidates[:1]
    while len(chosen) < n_components:
        farthest = squared_distances(candidates, chosen).min(axis=1).argmax()
        chosen = np.vstack([chosen, candidates[farthest]])
    return chosen


def squared_distances(rows: FloatArray, centres: FloatArray) -> FloatArray:
    """Table (N, K)."""
    return np.column_stack([((rows - centre) ** 2).sum(axis=1) for centre in centres])


def one_hot(table: FloatArray) -> FloatArray:
    """1 for the nearest centre of every row, else 0."""
    return np.eye(table.shape[1])[table.argmin(axis=1)]


def symmetric_noise(n_features: int, scale: float, rng: np.random.Generator) -> FloatArray:
    """Noise of a second moment; an entry beside the diagonal counts twice in the norm, so it gets half the variance."""
    above = np.triu(rng.normal(scale=scale, size=(n_features, n_features)), 1) / math.sqrt(2)
    return np.asarray(above + above.T + np.diag(rng.normal(scale=scale, size=n_features)))


# ---------------------------------------------------------------- histogram + EM
def histogram_em(
    records: FloatArray, n_components: int, *, domain: Domain, epsilon: float, rng: np.random.Generator
) -> Mixture:
    """A Laplace histogram on public cells, pure DP; cells that may be noise are cut, then EM on what is left.

    Replace-one neighbours: one record moves two cells by 1.
    """
    d = records.shape[1]
    if d not in CELLS:
        raise NotRunError(f"at most {max(CELLS)} columns")
    edges = [np.linspace(low, high, CELLS[d] + 1) for low, high in domain.box]
    inside = np.clip(records, domain.box[:, 0], domain.box[:, 1])
    counts, scale = np.histogramdd(inside, bins=edges)[0], 2 / epsilon
    noisy = (counts + rng.laplace(scale=scale, size=counts.shape)).ravel()
    centres = np.stack(np.meshgrid(*[(e[1:] + e[:-1]) / 2 for e in edges], indexing="ij"), axis=-1).reshape(-1, d)
    least = scale * math.log(max(2.0, noisy.size / NOISE_CUT))
    least = min(least, float(np.sort(noisy)[-2 * n_components]))  # there must be enough cells to fit
    kept = np.where(noisy >= least, np.maximum(noisy, 0.0), 0.0)
    copies = np.ceil(kept * min(1.0, MOST_COPIES / kept.sum())).astype(int)
    copied = np.repeat(centres, copies, axis=0)
    model = GaussianMixture(n_components, n_init=4, reg_covar=domain.floor, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(copied)
    within = np.diag(np.square([e[1] - e[0] for e in edges]) / 12)  # of a cell: EM saw its centre
    values, axes = np.linalg.eigh(model.covariances_ - within)
    values = np.maximum(values, within.max())
    return floored(model.weights_, model.means_, (axes * values[:, None, :]) @ axes.swapaxes(1, 2), domain)


# ---------------------------------------------------------------- diffprivlib
@dataclass(frozen=True, slots=True)
class Peer:
    """The interpreter of diffprivlib's environment, or why there is none."""

    python: Path | None
    missing: str | None

    @classmethod
    def make(cls) -> Peer:
        """Make the environment in the current folder, unless it is there."""
        return cls(*interpreter(ENVIRONMENT, REQUIREMENTS, check="import diffprivlib.models"))

    def fit(self, data: DataSet) -> tuple[Mixture, float]:
        """Its fit, and the seconds that it took without starting the interpreter."""
        if self.python is None:
            raise NotRunError(f"its environment could not be made: {self.missing}")
        recipe, domain = data.recipe, data.recipe.domain
        epsilon = recipe.epsilon
        with tempfile.TemporaryDirectory() as folder:
            sent, fitted = Path(folder, "sent.npz"), Path(folder, "fitted.npz")
            np.savez(
                sent,
                rows=data.training,
                seed=data.seed("diffprivlib"),
                box=domain.box,
                centre=domain.centre,
                radius=domain.radius,
                n_components=recipe.n_components,
                kmeans_epsilon=KMEANS_SHARE * epsilon,
                noise_multiplier=1 / gaussian_mu((1 - KMEANS_SHARE) * epsilon, DELTA),
            )
            # -I: neither PYTHONPATH nor this folder may bring in packages of another environment
            command = [str(self.python), "-I", str(FOLDER / "diffprivlib_recipe.py"), str(sent), str(fitted)]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except subprocess.CalledProcessError as error:
                raise NotRunError(last_line(error)) from None
            with np.load(fitted) as fit:
                mixture = floored(fit["weights"], fit["means"], fit["covariances"], domain)
                return mixture, float(fit["seconds"])

"""Private k-means, a setting of method "em", from records to release, and its faults.

Two clusters of one column with a public start; the pairs are those of the whole fits of "em". All that a step releases
is the output: with Laplace noise the record at the other end of the bounds moves every number as far as is paid for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.fit import fit_gmm
from pm_dpgmm.mechanisms import lloyd as lloyd_module
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.lloyd import GRID, cell_sums, lloyd_scale
from pm_dpgmm.methods.em import k_means as k_means_module
from pm_dpgmm.methods.em.method import EM
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import IntArray, Rng, discrete_laplace
from verification.specimens import Specimen
from verification.targets.em import BOUNDS, COLUMN, ENDS, GONE, LONGER
from verification.targets.runs import DELTA, EPSILON, at_bits, nothing_to_say, rows_of

METHOD = "methods/em/k_means.py"
START = ((-2.0,), (2.0,))
NOISY = ("kmeans_counts", "kmeans_sums", "kmeans_squares")
FAR = COLUMN, np.vstack([[400.0], COLUMN[1:]])


class Calibrated:
    """In the place of ``GaussianFilter``: calibrated once."""

    of = staticmethod(functools.cache(GaussianFilter.of))


def by_fit_gmm(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    n_steps: int = 2,
    delta: float | None = None,
    neighbouring: str = "replace-one",
    start: Any = START,
    told: tuple[str, ...] = NOISY,
    noise: Rng = None,
    **patches: Callable[..., Any],
) -> Any:
    """Whole fits; ``told`` of ``raw`` is the output. ``patches`` of parts are faults."""
    settings = EM(estimate="k-means", n_steps=n_steps, start=start)

    def run() -> FloatArray:
        ways: dict[str, Any] = {"epsilon": EPSILON, "delta": delta, "neighbouring": neighbouring, "random_seed": noise}
        raw = fit_gmm(records, 2, method=settings, bounds=BOUNDS, progress=False, **ways).raw
        return np.concatenate([np.ravel(raw[name]) for name in told])

    with ExitStack() as held:
        held.enter_context(mock.patch.object(k_means_module, "cluster_caveats", nothing_to_say))
        held.enter_context(mock.patch.object(lloyd_module, "GaussianFilter", Calibrated))
        for name, fault in patches.items():
            owner = lloyd_module if hasattr(lloyd_module, name) else k_means_module
            held.enter_context(mock.patch.object(owner, name, fault))
        return rows_of(run, n_samples)


def as_printed(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the printed noise, for a record that comes or goes, where records are replaced."""

    def printed(
        n_features: int, n_steps: int, epsilon: float, neighbouring: Neighbouring, *, squares: bool = False
    ) -> float:
        return lloyd_scale(n_features, n_steps, epsilon, Neighbouring.ADD_REMOVE, squares=squares)

    return by_fit_gmm(records, n_samples, rng, n_steps=1, noise=rng, lloyd_scale=printed)


def unclipped(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: a record counts as far outside the bounds as it lies."""

    def anywhere(rows: FloatArray, middle: FloatArray, half: FloatArray) -> IntArray:
        return np.rint((rows - middle) / half * GRID).astype(np.int64)

    return by_fit_gmm(records, n_samples, rng, noise=rng, in_box=anywhere)


def exact_counts(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: sums have noise, counts have none."""

    def of_sums(shape: tuple[int, int], *, scale: float, rng: Rng = None) -> IntArray:
        return discrete_laplace(shape, scale=scale, rng=rng) * (np.arange(shape[1]) > 0)

    return by_fit_gmm(records, n_samples, rng, noise=rng, discrete_laplace=of_sums)


def squares_outside_their_cube(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: squares in the last step are those of records far outside of their cluster's cube."""

    def far_squares(inside: IntArray, centres: FloatArray, radii: FloatArray | None = None) -> IntArray:
        found = cell_sums(inside, centres, radii)
        if radii is not None:
            y = inside / GRID
            nearest = np.abs(y - centres.T).argmin(axis=1)
            squares = np.square((y - centres[nearest])[:, 0] / radii[nearest])
            found[:, 2] = np.rint(np.bincount(nearest, weights=squares, minlength=2) * GRID)
        return found

    start = ((-0.1,), (0.1,))  # cubes are small, and the records not in them
    return by_fit_gmm(records, n_samples, rng, n_steps=1, start=start, noise=rng, cell_sums=far_squares)


def start_of_the_data(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the start are two of the records, as without privacy."""

    def drawn(bounds: FloatArray, n_clusters: int) -> FloatArray:
        return np.sort(records[:n_clusters], axis=0)

    told = ("kmeans_centres", *NOISY)
    return by_fit_gmm(records, n_samples, rng, start=None, told=told, noise=rng, spread_start=drawn)


def reach_of_the_data(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the cubes in which squares are measured just hold the records."""

    def holding(centres: FloatArray) -> FloatArray:
        return np.abs(records / BOUNDS[1] - centres.T).max(axis=0)

    return by_fit_gmm(records, n_samples, rng, told=("kmeans_radii", *NOISY), noise=rng, reaches=holding)


def floating_noise(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: sums in floating-point numbers with NumPy's Laplace noise."""

    def floats(inside: IntArray, centres: FloatArray, radii: FloatArray | None = None) -> FloatArray:
        return cell_sums(inside, centres, radii).astype(float)

    def laplace(shape: tuple[int, int], *, scale: float, rng: Rng = None) -> FloatArray:
        assert rng is not None
        return rng.laplace(scale=scale / GRID, size=shape) * GRID * (1 + 1e-9)

    return by_fit_gmm(records, n_samples, rng, noise=rng, cell_sums=floats, discrete_laplace=laplace)


def targets() -> list[Specimen]:
    """Pure fits under both relations, one with Gaussian noise; seven faults."""
    added, gauss = partial(by_fit_gmm, neighbouring="add-remove"), partial(by_fit_gmm, delta=DELTA)
    pure, fault = (EPSILON, 0.0), f"fault in {METHOD}"
    inf = float("inf")
    return [
        Specimen("fit_gmm_k_means", METHOD, by_fit_gmm, *ENDS, *pure, 1.0, False, 4_000),
        at_bits("fit_gmm_k_means_bits", METHOD, by_fit_gmm, *ENDS, *pure, 1.0, False, 4_000),
        Specimen("fit_gmm_k_means_add_remove", METHOD, added, *GONE, *pure, 1.0, False, 4_000),
        Specimen("fit_gmm_k_means_gaussian", METHOD, gauss, *ENDS, EPSILON, DELTA, 1.0, False, 2_000),
        Specimen("fit_gmm_k_means_as_printed", fault, as_printed, *ENDS, *pure, 2.0, True, 20_000),
        Specimen("fit_gmm_k_means_unclipped", fault, unclipped, *FAR, *pure, inf, True, 2_000),
        Specimen("fit_gmm_k_means_exact_counts", fault, exact_counts, *ENDS, *pure, inf, True, 1_000),
        Specimen("fit_gmm_k_means_far_squares", fault, squares_outside_their_cube, *ENDS, *pure, inf, True, 2_000),
        Specimen("fit_gmm_k_means_start_of_the_data", fault, start_of_the_data, *LONGER, *pure, inf, True, 1_000),
        Specimen("fit_gmm_k_means_reach_of_the_data", fault, reach_of_the_data, *ENDS, *pure, inf, True, 1_000),
    ]

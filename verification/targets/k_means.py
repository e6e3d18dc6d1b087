"""Private k-means, a setting of method "em", from records to release, and its faults.

Two clusters of one column; the pairs are those of the whole fits of "em". With Laplace noise the record at the other
end of the bounds moves every number as far as is paid for, if the centres are where they should be. At the level of
values the output is the log-likelihood ratio of the transcript between the two data sets of the pair, which an attacker
who knows both can compute; at that of bits it is everything that was released.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
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
from pm_dpgmm.methods.em.k_means import cluster_steps
from pm_dpgmm.methods.em.method import EM
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import IntArray, Rng, discrete_laplace
from verification.specimens import Specimen
from verification.targets.em import BOUNDS, COLUMN, ENDS, GONE, LONGER
from verification.targets.runs import DELTA, EPSILON, at_bits, nothing_to_say, rows_of

METHOD = "methods/em/k_means.py"
START = ((-1.0,), (1.0,))
NOISY = ("kmeans_counts", "kmeans_sums", "kmeans_squares")
WIDE = ("kmeans_wide_centres", "kmeans_wide_counts", "kmeans_wide_sums")
FAR = COLUMN, np.vstack([[400.0], COLUMN[1:]])


class Calibrated:
    """In the place of ``GaussianFilter``: calibrated once."""

    of = staticmethod(functools.cache(GaussianFilter.of))


def log_ratio(raw: Mapping[str, FloatArray], one: FloatArray, other: FloatArray, *, gaussian: bool) -> float:
    """Log-likelihood of what was released if the records are ``one``, less that if they are ``other``."""
    steps, bounds = cluster_steps(raw)
    found = 0.0
    for sign, records in ((1, one), (-1, other)):
        x = np.clip(records[:, 0], *bounds[0])
        for step in steps:
            cells = np.abs(x[:, None] - step.centres[:, 0]).argmin(axis=1)
            y = np.clip((x - step.origins[cells, 0]) / (step.unit[0] * step.radii[cells]), -1.0, 1.0)
            table = np.concatenate([step.counts[:, None], step.sums, step.squares], axis=1)
            for j, noisy in enumerate(table.T):
                far = (noisy - np.bincount(cells, weights=y**j, minlength=len(noisy))) / step.scales[j]
                found -= sign * float((np.square(far) / 2 if gaussian else math.sqrt(2) * np.abs(far)).sum())
    return found


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
    pair: tuple[FloatArray, FloatArray] | None = None,
    noise: Rng = None,
    **patches: Callable[..., Any],
) -> Any:
    """Whole fits; ``pair``: the ratio between these, not what is ``told`` of ``raw``; ``patches`` are faults."""
    settings = EM(estimate="k-means", n_steps=n_steps, start=start)

    def run() -> FloatArray:
        ways: dict[str, Any] = {"epsilon": EPSILON, "delta": delta, "neighbouring": neighbouring, "random_seed": noise}
        raw = fit_gmm(records, 2, method=settings, bounds=BOUNDS, progress=False, **ways).raw
        if pair is not None:
            return np.array([log_ratio(raw, *pair, gaussian=delta is not None)])
        return np.concatenate([np.ravel(raw[name]) for name in told])

    with ExitStack() as held:
        held.enter_context(mock.patch.object(k_means_module, "cluster_caveats", nothing_to_say))
        held.enter_context(mock.patch.object(k_means_module, "TRIES", 1))
        held.enter_context(mock.patch.object(lloyd_module, "GaussianFilter", Calibrated))
        for name, fault in patches.items():
            owner = lloyd_module if hasattr(lloyd_module, name) else k_means_module
            held.enter_context(mock.patch.object(owner, name, fault))
        return rows_of(run, n_samples)


def as_printed(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the printed noise, for a record that comes or goes, where records are replaced, in one step of ten."""

    def printed(
        n_features: int, n_steps: int, epsilon: float, neighbouring: Neighbouring, *, squares: bool = False
    ) -> float:
        return lloyd_scale(n_features, 1, epsilon, Neighbouring.ADD_REMOVE, squares=squares)

    return by_fit_gmm(records, n_samples, rng, n_steps=10, pair=ENDS, noise=rng, lloyd_scale=printed)


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

    return by_fit_gmm(records, n_samples, rng, start=None, told=WIDE, noise=rng, spread_start=drawn)


def reach_of_the_data(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the cubes in which squares are measured just hold the records."""

    def holding(centres: FloatArray) -> FloatArray:
        return np.abs(records / BOUNDS[1] - centres.T).max(axis=0)

    return by_fit_gmm(records, n_samples, rng, told=("kmeans_radii", *NOISY), noise=rng, reaches=holding)


def targets() -> list[Specimen]:
    """Pure fits under both relations, one with Gaussian noise; six faults."""
    replaced = partial(by_fit_gmm, pair=ENDS)
    wide = partial(replaced, start=None, n_steps=3)
    added, gauss = partial(by_fit_gmm, neighbouring="add-remove", pair=GONE), partial(replaced, delta=DELTA)
    bits = partial(by_fit_gmm, start=None, told=(*WIDE, *NOISY))
    pure, fault, inf = (EPSILON, 0.0), f"fault in {METHOD}", math.inf
    return [
        Specimen("fit_gmm_k_means", METHOD, replaced, *ENDS, *pure, 1.0, False, 4_000),
        Specimen("fit_gmm_k_means_wide", METHOD, wide, *ENDS, *pure, 1.0, False, 2_000),
        at_bits("fit_gmm_k_means_bits", METHOD, bits, *ENDS, *pure, 1.0, False, 2_000),
        Specimen("fit_gmm_k_means_add_remove", METHOD, added, *GONE, *pure, 1.0, False, 4_000),
        Specimen("fit_gmm_k_means_gaussian", METHOD, gauss, *ENDS, EPSILON, DELTA, 1.0, False, 2_000),
        Specimen("fit_gmm_k_means_as_printed", fault, as_printed, *ENDS, *pure, 14.0, True, 2_000),
        Specimen("fit_gmm_k_means_unclipped", fault, unclipped, *FAR, *pure, inf, True, 1_000),
        Specimen("fit_gmm_k_means_exact_counts", fault, exact_counts, *ENDS, *pure, inf, True, 1_000),
        Specimen("fit_gmm_k_means_far_squares", fault, squares_outside_their_cube, *ENDS, *pure, inf, True, 1_000),
        Specimen("fit_gmm_k_means_start_of_the_data", fault, start_of_the_data, *LONGER, *pure, inf, True, 1_000),
        Specimen("fit_gmm_k_means_reach_of_the_data", fault, reach_of_the_data, *ENDS, *pure, inf, True, 1_000),
    ]

"""Whole calls of ``fit_gmm``: records in, every published array out.

Two things are done once instead of in each run, because they depend on public or published numbers alone: the constants
and the guarantee of a method, and the fit to noisy counts (equal noisy counts are fitted once).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm import Release, Unstable, fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.histogram import histogram_loss, noisy_counts
from pm_dpgmm.mechanisms.masks import MaskNoise, mask_mixture
from pm_dpgmm.mechanisms.truncated_laplace import truncated_laplace_count
from pm_dpgmm.methods.counts import histogram
from pm_dpgmm.methods.counts.histogram_fit import fit_counts
from pm_dpgmm.methods.populous_single import method as populous_single
from pm_dpgmm.methods.populous_single.method import PopulousSingle
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.curves import GeometricProfile, TruncatedLaplaceProfile
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import IntArray, Rng
from verification.specimens import Specimen
from verification.targets.runs import as_it_is, at_bits, fits_here, no_gain, nothing_to_say, rows_of

HISTOGRAM, POPULOUS = "methods/counts/histogram.py", "methods/populous_single/method.py"
HISTOGRAM_EPSILON = 2.0
POPULOUS_CLAIM = (2.0, 0.2)  # few subsets, so that a run takes milliseconds
N_SUBSETS = 20  # at which full agreement passes at that claim
OUTLIER, HUGE = 1e3, 1e12


def published(release: Release) -> FloatArray:
    """Weights, means, covariances and the raw noisy statistics."""
    raw = [release.raw[name] for name in sorted(release.raw) if name != "bounds"]
    arrays = [release.weights, release.means, release.covariances, *raw]
    return np.concatenate([np.ravel(array) for array in arrays])


# ---------------------------------------------------------------------- histogram
@functools.cache
def _fit_once(counts: bytes, bounds: bytes, shape: tuple[int, ...], n_components: int, noise_scale: float) -> Mixture:
    integers = np.frombuffer(counts, dtype=np.int64).reshape(shape)
    limits = np.frombuffer(bounds).reshape(-1, 2)
    return fit_counts(integers, limits, n_components, noise_scale=noise_scale, progress=lambda done, total: None)


def fit_once(counts: Any, bounds: FloatArray, n_components: int, *, noise_scale: float, progress: Any) -> Mixture:
    """``fit_counts`` with a memory; of a fault's floating-point counts it sees the nearest integers."""
    integers = np.rint(counts).astype(np.int64)
    return _fit_once(integers.tobytes(), np.asarray(bounds).tobytes(), integers.shape, n_components, noise_scale)


def by_histogram(records: FloatArray, n_samples: int, rng: np.random.Generator, *, noise: Any = noisy_counts) -> Any:
    """``method="histogram"`` with two cells and one component; ``noise`` is what the method calls for its noise."""

    def run() -> FloatArray:
        settings: dict[str, Any] = {"bounds": (0.0, 1.0), "n_cells": 2}
        return published(fit_gmm(records, 1, epsilon=HISTOGRAM_EPSILON, progress=False, **settings))

    with (
        mock.patch.object(histogram, "fit_counts", fit_once),
        mock.patch.object(histogram, "noisy_counts", noise),
        mock.patch.object(histogram, "beside_histogram", as_it_is),
        mock.patch.object(histogram, "gain_of_one_more", no_gain),
        mock.patch.object(histogram, "count_caveats", nothing_to_say),
    ):
        return rows_of(run, n_samples)


def half_noise(counts: IntArray, *, epsilon: float, neighbouring: Neighbouring, rng: Rng) -> Any:
    """Fault: noise for twice the budget."""
    return noisy_counts(counts, epsilon=2 * epsilon, neighbouring=neighbouring, rng=rng)


def float_noise(counts: IntArray, *, epsilon: float, neighbouring: Neighbouring, rng: Rng) -> Any:
    """Fault: counts with NumPy's Laplace numbers."""
    loss: GeometricProfile = histogram_loss(epsilon=epsilon, neighbouring=neighbouring)
    return counts + np.random.default_rng().laplace(scale=loss.scale, size=counts.shape), loss


# ---------------------------------------------------------------------- populous
def mean_of(subset: FloatArray) -> Mixture:
    """A learner that is quick: the mean of the subset."""
    return Mixture([1.0], [subset.mean(axis=0)], [[[1.0]]])


_constants, _guarantee = functools.cache(PopulousSingle.constants), functools.cache(PopulousSingle.guarantee)


def by_populous(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    test: Callable[..., Any] = truncated_laplace_count,
    mask: Callable[..., Any] = mask_mixture,
    simulated: bool = False,
) -> Any:
    """``method="populous-single"``; a refusal is a row of NaN. Simulated noise lets the seed decide a verdict."""
    epsilon, delta = POPULOUS_CLAIM
    settings: dict[str, Any] = {"method": "populous-single", "learner": mean_of, "n_subsets": N_SUBSETS}
    settings["rehearse"] = False
    settings["random_seed"] = rng if simulated else None

    def run() -> FloatArray:
        try:
            return published(fit_gmm(records, 1, epsilon=epsilon, delta=delta, progress=False, **settings))
        except Unstable:
            return np.full(6, np.nan)

    with (
        mock.patch.object(PopulousSingle, "constants", _constants),
        mock.patch.object(PopulousSingle, "guarantee", _guarantee),
        mock.patch.object(populous_single, "fit_subsets", fits_here),  # this learner has no memory
        mock.patch.object(populous_single, "truncated_laplace_count", test),
        mock.patch.object(populous_single, "mask_mixture", mask),
    ):
        return rows_of(run, n_samples)


def no_noise(value: int, *, loss: TruncatedLaplaceProfile, rng: Rng) -> int:
    """Fault: the agreement test without noise, so the refusal itself tells."""
    return value


def centred(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the mask works around the mean of the records, which is added back. A large mean costs the last bits."""
    centre = records.mean()

    def mask(mixture: Mixture, *, noise: MaskNoise, rng: Rng) -> dict[str, FloatArray]:
        raw = mask_mixture(mixture, noise=noise, rng=rng)
        return {**raw, "means": (raw["means"] - centre) + centre}

    return by_populous(records, n_samples, rng, mask=mask)


def few_outliers(*values: float) -> FloatArray:
    """Two records to a subset, all 0 but those of ``values``."""
    records = np.zeros((2 * N_SUBSETS, 1))
    records[: len(values), 0] = values
    return records


def targets() -> list[Specimen]:
    """Both methods at both levels, each with a fault at each level."""
    low = np.array([[0.1], [0.2], [0.3], [0.4], [0.45]])
    high = low.copy()
    high[2] = 0.8
    pair = low, high
    claim = HISTOGRAM_EPSILON, 0.0
    fault_h, fault_p, inf = f"fault in {HISTOGRAM}", f"fault in {POPULOUS}", math.inf
    half, floats = (functools.partial(by_histogram, noise=noise) for noise in (half_noise, float_noise))
    # two outliers pass the test without noise, three do not (unless two of them share a subset)
    test = few_outliers(OUTLIER, 2 * OUTLIER, 0.0), few_outliers(OUTLIER, 2 * OUTLIER, 3 * OUTLIER)
    size = few_outliers(OUTLIER), few_outliers(HUGE)
    silent = functools.partial(by_populous, test=no_noise, simulated=True)
    return [
        Specimen("fit_gmm_histogram", HISTOGRAM, by_histogram, *pair, *claim, 2.0, False, 4_000),
        at_bits("fit_gmm_histogram_bits", HISTOGRAM, by_histogram, *pair, *claim, 2.0, False, 4_000),
        Specimen("fit_gmm_half_noise", fault_h, half, *pair, *claim, 4.0, True, 3_000),
        at_bits("fit_gmm_float_noise_bits", fault_h, floats, *pair, *claim, inf, True, 12_000),
        Specimen("fit_gmm_populous", POPULOUS, by_populous, *test, *POPULOUS_CLAIM, 2.0, False, 1_000),
        at_bits("fit_gmm_populous_bits", POPULOUS, by_populous, *size, *POPULOUS_CLAIM, 2.0, False, 1_000),
        Specimen("fit_gmm_no_test_noise", fault_p, silent, *test, *POPULOUS_CLAIM, inf, True, 4_000),
        at_bits("fit_gmm_centred_bits", fault_p, centred, *size, *POPULOUS_CLAIM, inf, True, 1_000),
    ]

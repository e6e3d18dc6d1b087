"""Audit targets: every function of the package that spends budget, on its release path, with planted faults.

A target is the mechanism itself with OpenDP's noise. Its faults are one-line changes that an audit must catch; they
show that the audit of the sound one could have failed.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.gaussian import gaussian_mechanism, gaussian_mu
from pm_dpgmm.mechanisms.histogram import cell_counts, noisy_counts
from pm_dpgmm.mechanisms.masks import MaskNoise, largest_radius, mask_mixture
from pm_dpgmm.mechanisms.stability_histogram import stability_loss
from pm_dpgmm.mechanisms.truncated_laplace import truncated_laplace_loss
from pm_dpgmm.mixture import Mixture
from pm_dpgmm.noise import Rng, discrete_laplace, truncated_discrete_laplace
from pm_dpgmm.privacy import Neighbouring
from pm_dpgmm.privacy_loss import TruncatedLaplaceLoss
from verification.references import gaussian_epsilon
from verification.specimens import Specimen
from verification.specimens.populous import NOISE, run, sound_constants, worst_pair

EPSILON, DELTA = 1.0, 1e-2
BOUNDS = np.array([[0.0, 1.0]])
MASK = MaskNoise(0.05, 0.05, 0.05)


# ---------------------------------------------------------------------- histogram
def histogram(
    data: FloatArray, n_samples: int, rng: np.random.Generator, *, epsilon: float = EPSILON, noise: Rng = None
) -> Any:
    """Noisy counts in eight cells, as released."""
    counts = cell_counts(data[:, None], bounds=BOUNDS, n_cells=8)
    repeated = np.broadcast_to(counts, (n_samples, *counts.shape))
    return noisy_counts(repeated, epsilon=epsilon, neighbouring=Neighbouring.REPLACE_ONE, rng=noise)[0]


def histogram_drops_empty_cells(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: noise only where records are, so an empty cell stays 0."""
    counts = cell_counts(data[:, None], bounds=BOUNDS, n_cells=8)
    return np.where(counts > 0, counts + discrete_laplace((n_samples, 8), scale=2 / EPSILON, rng=rng), 0)


# ---------------------------------------------------------------------- one number
def gaussian(
    data: float, n_samples: int, rng: np.random.Generator, *, sensitivity: float = 1.0, noise: Rng = None
) -> Any:
    """The Gaussian mechanism, one number a run, each run calibrated and drawn as in a release.

    Runs are drawn together: with R numbers the rounding term grows by sqrt(R) grid steps of 2^-32 of the noise.
    """
    return gaussian_mechanism(
        np.full(n_samples, data), sensitivity=sensitivity, epsilon=EPSILON, delta=DELTA, rng=noise
    )[0]


def truncated(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """Truncated Laplace noise on an integer of sensitivity 4."""
    loss = _test_loss()
    return data + truncated_discrete_laplace(n_samples, scale=loss.scale, bound=loss.bound)


def truncated_by_clipping(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: a Laplace clipped at the bound has atoms there (CLAIMS S11)."""
    loss = _test_loss()
    return data + np.clip(discrete_laplace(n_samples, scale=loss.scale, rng=rng), -loss.bound, loss.bound)


@functools.cache
def _test_loss() -> TruncatedLaplaceLoss:
    return truncated_laplace_loss(sensitivity=4, epsilon=0.5, delta=DELTA)


# ---------------------------------------------------------------------- stability histogram
def stability(
    data: tuple[int, ...], n_samples: int, rng: np.random.Generator, *, threshold: int | None = None, noise: Rng = None
) -> Any:
    """Noisy counts of the keys 0 and 1 in many stability histograms; NaN where a key is not kept.

    Vectorised form of :func:`pm_dpgmm.mechanisms.stability_histogram.stability_histogram`; a test compares the two.
    """
    one, _ = stability_loss(epsilon=EPSILON, delta=DELTA, neighbouring=Neighbouring.REPLACE_ONE)
    counts = np.bincount(np.array(data), minlength=2)
    noisy = counts + truncated_discrete_laplace((n_samples, 2), scale=one.scale, bound=one.bound, rng=noise)
    kept = (counts > 0) & (noisy > (one.bound if threshold is None else threshold))
    return np.where(kept, noisy, np.nan)


# ---------------------------------------------------------------------- masks and the populous estimator
def _two_components(shift: float) -> Mixture:
    return Mixture([0.4, 0.6], [[shift], [3.0]], [[[1.0]], [[1.0]]])


def mask(mixture: Mixture, n_samples: int, rng: np.random.Generator, *, shuffle: bool = True, noise: Rng = None) -> Any:
    """The mixture mask on one of two close mixtures."""
    outputs = np.empty((n_samples, 6))
    for row in outputs:
        raw = mask_mixture(mixture, noise=MASK, rng=noise)
        order = [0, 1] if shuffle else np.argsort(np.abs(raw["means"][:, 0] - mixture.means[0, 0]))
        row[:] = np.concatenate([raw[name].reshape(2)[order] for name in ("weights", "means", "covariances")])
    return outputs


def populous(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """populous-single on one-record blocks: test and mask as released."""
    return run(data, n_samples, None, sound_constants(EPSILON, DELTA), NOISE)


def populous_no_test_noise(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the agreement test without noise, so the refusal itself tells."""
    sound = sound_constants(EPSILON, DELTA)
    silent = TruncatedLaplaceLoss(scale=1e-3, bound=sound.test.bound, shift=sound.test.shift)
    constants = type(sound)(
        sound.n_subsets, sound.mask_radius, sound.friend_radius, sound.min_friends, sound.threshold, silent, sound.mask
    )
    return run(data, n_samples, rng, constants, NOISE)


def _test_pair() -> tuple[FloatArray, FloatArray]:
    """Blocks that agree just enough to pass without noise, and neighbours that just do not."""
    constants = sound_constants(EPSILON, DELTA)
    t = constants.n_subsets
    needed = constants.threshold + constants.test.bound
    # g blocks agree, the rest are far apart from all: the sum of friend counts is g^2 + t - g
    g = next(g for g in range(t + 1) if g * g + t - g >= needed)
    if g * g + t - g - 2 * (g - 1) >= needed:
        raise AssertionError("one block does not move the sum across the threshold")
    x = np.zeros(t)
    x[g:] = 100.0 + 10.0 * np.arange(t - g)
    x_neighbour = x.copy()
    x_neighbour[0] = -100.0
    return x, x_neighbour


def all_targets() -> list[Specimen]:
    """Sound targets and their planted faults; ``broken`` says which the audit must catch."""
    few = np.array([0.05, 0.3, 0.3, 0.8])
    moved = np.array([0.05, 0.3, 0.3, 0.55])
    radius = largest_radius(epsilon=EPSILON, delta=DELTA, noise=MASK, n_features=1, n_components=2)
    masks = _two_components(0.0), _two_components(radius / math.sqrt(1 + radius))
    wide = _two_components(0.0), _two_components(0.2)
    relabelled = masks[0], masks[0].permuted([1, 0])  # at distance 0: only the order of the components differs
    keys = (0,) * 12 + (1,) * 1, (0,) * 13
    constants = sound_constants(EPSILON, DELTA)
    agree = worst_pair(constants.friend_radius, constants.n_subsets)
    test_pair = _test_pair()
    inf, partial = math.inf, functools.partial
    half_noise = partial(histogram, epsilon=2 * EPSILON)
    half_gauss = partial(gaussian, sensitivity=0.5)
    half_true = float(gaussian_epsilon(DELTA, noise_multiplier=0.5 / gaussian_mu(EPSILON, DELTA)))
    # of the mean alone, so the true epsilon is at least this
    wide_true = float(gaussian_epsilon(DELTA, noise_multiplier=MASK.mean / 0.2))
    return [
        Specimen("histogram_release", "mechanisms/histogram.py", histogram, few, moved, 1.0, 0.0, 1.0, False, 40_000),
        Specimen("histogram_half_noise", "fault", half_noise, few, moved, 1.0, 0.0, 2.0, True, 40_000),
        Specimen(
            "histogram_drops_empty_cells", "fault", histogram_drops_empty_cells, few, moved, 1.0, 0.0, inf, True, 20_000
        ),
        Specimen("gaussian", "mechanisms/gaussian.py", gaussian, 0.0, 1.0, 1.0, DELTA, 1.0, False),
        Specimen("gaussian_half_noise", "fault", half_gauss, 0.0, 1.0, 1.0, DELTA, half_true, True, 40_000),
        Specimen("truncated_laplace", "mechanisms/truncated_laplace.py", truncated, 0, 4, 0.5, DELTA, 0.5, False),
        Specimen("truncated_laplace_clipped", "fault", truncated_by_clipping, 0, 4, 0.5, DELTA, inf, True),
        Specimen("stability_histogram", "mechanisms/stability_histogram.py", stability, *keys, 1.0, DELTA, 1.0, False),
        Specimen(
            "stability_low_threshold", "fault", partial(stability, threshold=0), *keys, 1.0, DELTA, inf, True, 40_000
        ),
        Specimen("mask", "mechanisms/masks.py", mask, *masks, 1.0, DELTA, 1.0, False, 8_000),
        Specimen("mask_not_shuffled", "fault", partial(mask, shuffle=False), *relabelled, 1.0, DELTA, inf, True, 2_000),
        Specimen("mask_wide_radius", "fault", mask, *wide, 1.0, DELTA, wide_true, True, 4_000),
        Specimen(
            "populous_single_release", "methods/populous_single.py", populous, *agree, 1.0, DELTA, 1.0, False, 8_000
        ),
        Specimen(
            "populous_single_test", "methods/populous_single.py", populous, *test_pair, 1.0, DELTA, 1.0, False, 8_000
        ),
        Specimen("populous_no_test_noise", "fault", populous_no_test_noise, *test_pair, 1.0, DELTA, inf, True, 4_000),
    ]

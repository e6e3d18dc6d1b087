"""Masks, on two mixtures as far from each other as the privacy claim allows."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.masks import MaskNoise, largest_radius, mask_covariance, mask_mean, mask_mixture, mask_weight
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.noise import Rng, permutation
from verification.references.references import gaussian_epsilon
from verification.specimens import Specimen
from verification.targets.runs import DELTA, EPSILON, at_bits, rows_of

MODULE = "mechanisms/masks.py"
FAULT = f"fault in {MODULE}"
MASK = MaskNoise(0.05, 0.05, 0.05)
# A power of two leaves the sampler's multiples of 2^-40 on a grid: the hardest case for what hides the low bits.
BIT_MASK = MaskNoise(1 / 16, 1 / 16, 1 / 16)
PARTS = ("weights", "means", "covariances")


def flat(raw: dict[str, FloatArray]) -> FloatArray:
    """Everything that a mask publishes, as one row."""
    return np.concatenate([raw[name].ravel() for name in PARTS])


def mask(mixture: Mixture, n_samples: int, rng: np.random.Generator, *, noise: MaskNoise = MASK) -> Any:
    """The mixture mask on one of two close mixtures."""
    return rows_of(lambda: flat(mask_mixture(mixture, noise=noise)), n_samples)


def mask_not_shuffled(mixture: Mixture, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: two components come out in the order of the input."""

    def run() -> FloatArray:
        raw = mask_mixture(mixture, noise=MASK)
        order = np.argsort(np.abs(raw["means"][:, 0] - mixture.means[0, 0]))
        return flat({name: raw[name][order] for name in PARTS})

    return rows_of(run, n_samples)


def unrounded_mask(mixture: Mixture, *, noise: MaskNoise, rng: Rng = None) -> dict[str, FloatArray]:
    """Fault: what ``mask_weight``, ``mask_mean`` and ``mask_covariance`` return, published without rounding."""
    pairs = list(zip(mixture.means, mixture.covariances, strict=True))
    order = permutation(mixture.n_components, rng=rng)
    return {
        "weights": np.array([mask_weight(w, noise=noise.weight, rng=rng) for w in mixture.weights])[order],
        "means": np.array([mask_mean(m, s, noise=noise.mean, rng=rng) for m, s in pairs])[order],
        "covariances": np.array([mask_covariance(s, noise=noise.covariance, rng=rng) for _, s in pairs])[order],
    }


def mask_unrounded(mixture: Mixture, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the mixture mask without its last step."""
    return rows_of(lambda: flat(unrounded_mask(mixture, noise=BIT_MASK)), n_samples)


def far_apart(radius: float) -> tuple[Mixture, Mixture]:
    """Two components in one dimension, every weight, mean and variance moved by ``radius`` in dist_PARAM."""
    shift = radius / math.sqrt(1 + radius)  # in standard deviations of the narrower component
    variances = np.array([[[1.0]], [[1.0]]])
    return (
        Mixture([0.4, 0.6], [[0.0], [3.0]], variances),
        Mixture([0.4 + radius, 0.6 - radius], [[shift], [3.0 + shift]], variances / (1 + radius)),
    )


def far_apart_in_the_plane(radius: float) -> tuple[Mixture, Mixture]:
    """One component in two dimensions, moved by ``radius`` along a direction that is no axis."""
    root = np.array([[1.0, 0.0], [0.8, 0.6]])  # covariance root root'
    direction = np.array([0.6, 0.8])
    shift = root @ direction * radius / math.sqrt(1 + radius)
    shrunk = root @ (np.eye(2) - radius / (1 + radius) * np.outer(direction, direction)) @ root.T
    return Mixture([1.0], [[0.0, 0.0]], [root @ root.T]), Mixture([1.0], [shift], [shrunk])


def radius_of(noise: MaskNoise, *, n_features: int = 1, n_components: int = 2) -> float:
    """Distance at which the mask still keeps the claim; a millionth less, for rounding in the mixtures."""
    size = {"n_features": n_features, "n_components": n_components}
    return largest_radius(epsilon=EPSILON, delta=DELTA, noise=noise, **size) * (1 - 1e-6)


def targets() -> list[Specimen]:
    """Two shapes of mixtures at both levels, three faults."""
    claim, inf = (1.0, DELTA), math.inf
    pair, bit_pair = far_apart(radius_of(MASK)), far_apart(radius_of(BIT_MASK))
    plane = far_apart_in_the_plane(radius_of(BIT_MASK, n_features=2, n_components=1))
    one = Mixture([0.4, 0.6], [[0.0], [3.0]], [[[1.0]], [[1.0]]])
    wide = one, Mixture([0.4, 0.6], [[0.2], [3.0]], [[[1.0]], [[1.0]]])
    relabelled = one, one.permuted([1, 0])  # at distance 0: only the order of the components differs
    # of the mean alone, so the true epsilon is at least this
    wide_true = float(gaussian_epsilon(DELTA, noise_multiplier=MASK.mean / 0.2))
    on_grid = functools.partial(mask, noise=BIT_MASK)
    return [
        Specimen("mask", MODULE, mask, *pair, *claim, 1.0, False, 3_000),
        at_bits("mask_bits", MODULE, on_grid, *bit_pair, *claim, 1.0, False, 4_000),
        Specimen("mask_in_the_plane", MODULE, on_grid, *plane, *claim, 1.0, False, 3_000),
        at_bits("mask_in_the_plane_bits", MODULE, on_grid, *plane, *claim, 1.0, False, 3_000),
        Specimen("mask_not_shuffled", FAULT, mask_not_shuffled, *relabelled, *claim, inf, True, 2_000),
        Specimen("mask_wide_radius", FAULT, mask, *wide, *claim, wide_true, True, 2_000),
        at_bits("mask_unrounded_bits", FAULT, mask_unrounded, *bit_pair, *claim, inf, True, 2_000),
    ]

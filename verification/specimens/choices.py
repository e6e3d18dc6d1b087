"""Broken choices: a noisy maximum that gives its value away, randomised response and the exponential mechanism."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from verification.specimens.control_choices import laplace_cdf, of_table
from verification.specimens.specimen import Specimen

EPSILON = 1.0
TRUTHFUL = 0.8  # probability of the truth; epsilon = 1 allows 0.731
SCALE = 2 / EPSILON


def noisy_max_value(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """The largest noisy count in place of its index, with the noise that the index needs."""
    return (data + rng.laplace(scale=SCALE, size=(n_samples, len(data)))).max(axis=1)


def noisy_max_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density of the maximum: one count is there, all others are below."""
    gaps = outputs[:, None] - data
    density, below = np.exp(-np.abs(gaps) / SCALE) / (2 * SCALE), laplace_cdf(gaps, SCALE)
    return np.asarray(np.log(below).sum(axis=1) + np.log((density / below).sum(axis=1)))


def biased_response(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """One bit told truthfully too often."""
    return np.where(rng.random(n_samples) < TRUTHFUL, data, 1 - data)


def biased_probabilities(data: int) -> FloatArray:
    """Of the answers 0 and 1."""
    return np.where(np.arange(2) == data, TRUTHFUL, 1 - TRUTHFUL)


def full_probabilities(data: FloatArray) -> FloatArray:
    """Weights exp(epsilon u)."""
    weights = np.exp(EPSILON * np.asarray(data))
    return np.asarray(weights / weights.sum())


def exponential_no_half(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Weights exp(epsilon u), though one record may raise one utility and lower all others."""
    return rng.choice(len(data), size=n_samples, p=full_probabilities(data))


def specimens() -> list[Specimen]:
    """All claimed epsilon = 1."""
    counts = np.zeros(5), np.ones(5)
    candidate = np.eye(50)[0]

    def broken(
        name: str, origin: str, mechanism: Any, pair: tuple[Any, Any], true: float, log_density: Any
    ) -> Specimen:
        claim = (EPSILON, 0.0)
        return Specimen(name, origin, mechanism, *pair, *claim, true, True, n_samples=200_000, log_density=log_density)

    rnm, rr, full = noisy_max_log_density, of_table(biased_probabilities), of_table(full_probabilities)
    return [
        broken("rnm_value", "Ding et al. (2018)", noisy_max_value, counts, 2.5, rnm),
        broken("rr_bias", "local privacy", biased_response, (0, 1), math.log(TRUTHFUL / (1 - TRUTHFUL)), rr),
        broken("expmech_no_half", "common", exponential_no_half, (candidate, 1 - candidate), 1.95349, full),
    ]

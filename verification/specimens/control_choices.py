"""Sound choices on worst-case neighbours: outputs are indices, marks or NaN, so there are no bits to leak.

All are claimed epsilon = 1. The log probabilities are exact: closed forms, or quadrature over one noise.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from verification.specimens.specimen import LogDensity, Mechanism, Specimen

EPSILON = 1.0
N_CATEGORIES, N_CANDIDATES, N_QUERIES = 10, 50, 5


def pieces(scale: float, kinks: tuple[float, ...]) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights for integrals of functions that are smooth between the kinks and decay like exp(-|x|/scale)."""
    ends = sorted({k + s * scale for k in kinks for s in (-50, -20, -8, -3, -1, 0, 1, 3, 8, 20, 50)})
    left, right = np.array(ends[:-1])[:, None], np.array(ends[1:])[:, None]
    nodes, weights = np.polynomial.legendre.leggauss(32)
    return (left + (right - left) * (nodes + 1) / 2).ravel(), ((right - left) / 2 * weights).ravel()


def laplace_cdf(x: FloatArray, scale: float) -> FloatArray:
    """P[noise <= x]."""
    tail = np.exp(-np.abs(x) / scale) / 2
    return np.where(x < 0, tail, 1 - tail)


@functools.cache
def first_above(queries: tuple[float, ...], cutoff: int) -> FloatArray:
    """Probabilities that each query is the first above the noisy threshold; the last entry: that none is."""
    threshold, query = 2 * cutoff / EPSILON, 4 * cutoff / EPSILON  # Laplace scales
    rho, weights = pieces(threshold, (0.0, *(q - 0.5 for q in set(queries))))
    weights = weights * np.exp(-np.abs(rho) / threshold) / (2 * threshold)
    found, below = [], np.ones_like(rho)
    for q in queries:
        cdf = laplace_cdf(0.5 + rho - q, query)
        found.append(float(weights @ (below * (1 - cdf))))
        below = below * cdf
    return np.array([*found, float(weights @ below)])


def sparse_vector(data: FloatArray, n_samples: int, rng: np.random.Generator, *, cutoff: int) -> Any:
    """Queries above a threshold of 1/2 until ``cutoff`` are found, then NaN; the threshold noise is drawn afresh.

    Laplace(c/(epsilon/2)) on the threshold and Laplace(2c/(epsilon/2)) on every query. At c = 1 there is nothing to
    draw afresh and Algorithms 1 and 2 of Lyu, Su and Li are the same.
    """
    thresholds = 0.5 + rng.laplace(scale=2 * cutoff / EPSILON, size=(n_samples, cutoff))
    noisy = data + rng.laplace(scale=4 * cutoff / EPSILON, size=(n_samples, len(data)))
    outputs = np.full(noisy.shape, np.nan)
    found, rows = np.zeros(n_samples, dtype=int), np.arange(n_samples)
    for i in range(len(data)):
        active = found < cutoff
        above = noisy[:, i] >= thresholds[rows, np.minimum(found, cutoff - 1)]
        outputs[active, i] = above[active]
        found += active & above
    return outputs


def sparse_vector_log_density(outputs: FloatArray, data: FloatArray, *, cutoff: int) -> FloatArray:
    """Log probability of the places found: each search starts after the last find with fresh noise."""
    patterns, inverse = np.unique(np.nan_to_num(outputs), axis=0, return_inverse=True)
    logs = []
    for pattern in patterns:
        start, log = 0, 0.0
        for place in np.flatnonzero(pattern):
            log += math.log(first_above(tuple(data[start:]), cutoff)[place - start])
            start = int(place) + 1
        if pattern.sum() < cutoff:
            log += math.log(first_above(tuple(data[start:]), cutoff)[-1])
        logs.append(log)
    return np.array(logs)[inverse.ravel()]


def noisy_max_laplace(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Index of the largest query plus Laplace(2/epsilon)."""
    return np.argmax(data + rng.laplace(scale=2 / EPSILON, size=(n_samples, len(data))), axis=1)


def noisy_max_exponential(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Index of the largest query plus exponential noise of mean 2/epsilon."""
    return np.argmax(data + rng.exponential(scale=2 / EPSILON, size=(n_samples, len(data))), axis=1)


def noisy_max_probabilities(data: FloatArray, *, two_sided: bool) -> FloatArray:
    """P[i] = integral over the winning value y of density(y - q_i) prod over j of cdf(y - q_j)."""
    scale = 2 / EPSILON
    y, weights = pieces(scale, tuple(set(data)))
    gaps = y - np.asarray(data)[:, None]
    if two_sided:
        density, cdf = np.exp(-np.abs(gaps) / scale) / (2 * scale), laplace_cdf(gaps, scale)
    else:
        density = np.where(gaps > 0, np.exp(-np.maximum(gaps, 0.0) / scale) / scale, 0.0)
        cdf = -np.expm1(-np.maximum(gaps, 0.0) / scale)
    others = [np.prod(np.delete(cdf, i, axis=0), axis=0) for i in range(len(data))]
    return np.array([weights @ (density[i] * others[i]) for i in range(len(data))])


def exponential_probabilities(data: FloatArray) -> FloatArray:
    """Weights exp(epsilon u/2)."""
    weights = np.exp(EPSILON * np.asarray(data) / 2)
    return np.asarray(weights / weights.sum())


def exponential_mechanism(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """A candidate drawn with probability proportional to exp(epsilon u/2)."""
    return rng.choice(len(data), size=n_samples, p=exponential_probabilities(data))


def response_probabilities(data: int) -> FloatArray:
    """exp(epsilon) for the truth, 1 for every other category."""
    weights = np.where(np.arange(N_CATEGORIES) == data, math.exp(EPSILON), 1.0)
    return np.asarray(weights / weights.sum())


def randomised_response(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """The truth with probability exp(epsilon)/(exp(epsilon) + k - 1), else another category."""
    truth = rng.random(n_samples) < math.exp(EPSILON) / (math.exp(EPSILON) + N_CATEGORIES - 1)
    other = rng.integers(N_CATEGORIES - 1, size=n_samples)
    return np.where(truth, data, other + (other >= data))


def table_log_density(outputs: Any, data: Any, *, probabilities: Callable[[Any], FloatArray]) -> FloatArray:
    """Log probability of an index."""
    return np.asarray(np.log(probabilities(data))[np.asarray(outputs, dtype=int)])


def of_table(probabilities: Callable[[Any], FloatArray]) -> LogDensity:
    """Log density of an index."""
    return functools.partial(table_log_density, probabilities=probabilities)


def specimens() -> list[Specimen]:
    """Controls that release choices."""
    first_half = np.repeat([1.0, 0.0], 5)
    late = np.tile([0.0, 0.0, 0.0, 0.0, 1.0], 2)  # both finds come last
    one = np.eye(N_QUERIES)[0]
    candidate = np.eye(N_CANDIDATES)[0]
    once, twice = (functools.partial(sparse_vector, cutoff=c) for c in (1, 2))
    once_log, twice_log = (functools.partial(sparse_vector_log_density, cutoff=c) for c in (1, 2))
    two_sided, one_sided = (of_table(functools.partial(noisy_max_probabilities, two_sided=t)) for t in (True, False))
    exponential, response = of_table(exponential_probabilities), of_table(response_probabilities)

    def control(
        name: str, mechanism: Mechanism, x: Any, neighbour: Any, true: float, log_density: LogDensity
    ) -> Specimen:
        return Specimen(name, "control", mechanism, x, neighbour, EPSILON, 0.0, true, False, log_density=log_density)

    return [
        control("svt_ok", once, first_half, 1 - first_half, 0.87458, once_log),
        control("svt_two_finds", twice, late, 1 - late, 0.81005, twice_log),
        control("noisy_max_laplace_index", noisy_max_laplace, one, 1 - one, 0.91844, two_sided),
        control("noisy_max_exp_index", noisy_max_exponential, one, 1 - one, 0.99053, one_sided),
        control("expmech_half", exponential_mechanism, candidate, 1 - candidate, 0.97921, exponential),
        control("response_of_ten", randomised_response, 0, 1, 1.0, response),
    ]

"""Broken variants of the sparse vector technique, numbered as in Lyu, Su and Li (2017): Algorithms 3, 5 and 6.

Each is asked ten queries of sensitivity 1 against a threshold of 1/2, with Laplace(2/epsilon) on the threshold.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from verification.specimens.control_choices import laplace_cdf, pieces
from verification.specimens.specimen import Specimen

EPSILON = 1.0
THRESHOLD = 0.5
SCALE = 2 / EPSILON  # of every noise here: 2/epsilon, and 2c/epsilon with c = 1


def noisy_value(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Algorithm 3: the place of the first query above the threshold and its noisy value, which bounds the threshold.

    Place 10 and NaN when none is above.
    """
    thresholds = THRESHOLD + rng.laplace(scale=SCALE, size=n_samples)
    noisy = data + rng.laplace(scale=SCALE, size=(n_samples, len(data)))
    above = np.column_stack([noisy >= thresholds[:, None], np.ones(n_samples, dtype=bool)])
    place = above.argmax(axis=1)
    values = np.column_stack([noisy, np.full(n_samples, np.nan)])[np.arange(n_samples), place]
    return np.column_stack([place, values])


def noisy_value_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density: thresholds up to the value, all queries before it below them."""
    places, values = outputs[:, 0].astype(int), outputs[:, 1]
    logs = np.empty(len(outputs))
    for place in np.unique(places):
        rows = places == place
        if place == len(data):
            logs[rows] = math.log(thresholds_below(data, np.array([np.inf]))[0])
        else:
            own = np.exp(-np.abs(values[rows] - data[place]) / SCALE) / (2 * SCALE)
            logs[rows] = np.log(own * thresholds_below(data[:place], values[rows]))
    return logs


def thresholds_below(queries: FloatArray, tops: FloatArray) -> FloatArray:
    """P[noisy threshold is at most ``top`` and above all noisy queries], by quadrature between the kinks."""
    kinks = {0.0, *(np.unique(queries) - THRESHOLD).tolist()}
    ends = np.array(sorted({k + s * SCALE for k in kinks for s in range(-51, 52, 3)}))
    nodes, weights = np.polynomial.legendre.leggauss(32)

    def integrals(left: FloatArray, right: FloatArray) -> FloatArray:
        noise = left[:, None] + (right - left)[:, None] * (nodes + 1) / 2
        product = np.exp(-np.abs(noise) / SCALE) / (2 * SCALE)
        for query, times in zip(*np.unique(queries, return_counts=True), strict=True):
            product = product * laplace_cdf(THRESHOLD + noise - query, SCALE) ** times
        return np.asarray(product @ weights * (right - left) / 2)

    whole = np.append(0.0, np.cumsum(integrals(ends[:-1], ends[1:])))
    top = np.clip(tops - THRESHOLD, ends[0], ends[-1])
    piece = np.minimum(np.searchsorted(ends, top, side="right") - 1, len(ends) - 2)
    return np.asarray(whole[piece] + integrals(ends[piece], top))


def no_query_noise(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Algorithm 5: exact queries against one noisy threshold, all of them answered."""
    return (data >= THRESHOLD + rng.laplace(scale=SCALE, size=(n_samples, 1))).astype(float)


def no_query_noise_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log probability: the threshold lies between the largest query below it and the smallest above."""
    low = np.where(outputs == 0, data, -np.inf).max(axis=1) - THRESHOLD
    high = np.where(outputs == 1, data, np.inf).min(axis=1) - THRESHOLD
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(laplace_cdf(high, SCALE) - laplace_cdf(low, SCALE), 0.0)))


def no_cutoff(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Algorithm 6: noise on every query, but not for their number, and no limit on the answers above."""
    thresholds = THRESHOLD + rng.laplace(scale=SCALE, size=(n_samples, 1))
    return (data + rng.laplace(scale=SCALE, size=(n_samples, len(data))) >= thresholds).astype(float)


def no_cutoff_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log probability of a pattern, by quadrature over the threshold."""
    patterns, inverse = np.unique(outputs, axis=0, return_inverse=True)
    noise, weights = pieces(SCALE, (0.0, *(np.unique(data) - THRESHOLD).tolist()))
    weights = weights * np.exp(-np.abs(noise) / SCALE) / (2 * SCALE)
    below = laplace_cdf(THRESHOLD + noise - data[:, None], SCALE)
    logs = [math.log(np.where(pattern[:, None] == 1, 1 - below, below).prod(axis=0) @ weights) for pattern in patterns]
    return np.array(logs)[inverse.ravel()]


def specimens() -> list[Specimen]:
    """All claimed epsilon = 1; the true epsilon grows with the number of queries where it is finite."""
    last = np.eye(10)[9]
    halves = np.repeat([1.0, 0.0], 5)
    claim, source = (EPSILON, 0.0), "Lyu, Su and Li (2017), Algorithm"

    def broken(name: str, number: int, mechanism: Any, x: FloatArray, true: float, log_density: Any) -> Specimen:
        return Specimen(
            name,
            f"{source} {number}",
            mechanism,
            x,
            1 - x,
            *claim,
            true,
            True,
            n_samples=200_000,
            log_density=log_density,
        )

    return [
        broken("svt_noisy_value", 3, noisy_value, last, 4.5, noisy_value_log_density),
        broken("svt_no_qnoise", 5, no_query_noise, halves, math.inf, no_query_noise_log_density),
        broken("svt_no_cutoff", 6, no_cutoff, halves, 4.06110, no_cutoff_log_density),
    ]

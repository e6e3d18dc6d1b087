"""Noisy counts in public cells."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.histogram import cell_counts, histogram_loss, noisy_counts
from pm_dpgmm.privacy.group_privacy import group_epsilons
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.privacy.noise import IntArray, discrete_laplace
from verification.specimens import Specimen
from verification.targets.runs import EPSILON, Prepared, at_bits

MODULE = "mechanisms/histogram.py"
FAULT = f"fault in {MODULE}"
BOUNDS = np.array([[0.0, 1.0]])
N_CELLS = 8


def counts_of(data: FloatArray) -> IntArray:
    """Exact counts of eight cells."""
    return cell_counts(data[:, None], bounds=BOUNDS, n_cells=N_CELLS)


def noisy(
    counts: IntArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    epsilon: float = EPSILON,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
) -> FloatArray:
    """Noisy counts as published, the cells of all runs drawn together: every cell has noise of its own."""
    repeated = np.broadcast_to(counts, (n_samples, counts.size))
    return noisy_counts(repeated, epsilon=epsilon, neighbouring=neighbouring)[0].astype(float)


def no_noise_in_empty_cells(counts: IntArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: noise only where records are, so an empty cell stays 0."""
    noise = discrete_laplace((n_samples, counts.size), scale=2 / EPSILON, rng=rng)
    return np.where(counts > 0, counts + noise, 0)


def floating_noise(counts: IntArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: NumPy's Laplace numbers. Those near 0 are finer than any sum of 1 and such a number."""
    return counts + rng.laplace(scale=2 / EPSILON, size=(n_samples, counts.size))


def of_two_records() -> list[Specimen]:
    """Noise for one record, and what two are promised by it; the fault promises them what one has."""
    one = EPSILON / 2
    loss = histogram_loss(epsilon=one, neighbouring=Neighbouring.REPLACE_ONE)
    guarantee = Guarantee(one, 0.0, Neighbouring.REPLACE_ONE, MODULE, loss)
    (two,) = group_epsilons(guarantee, [2], delta=0.0)
    release = Prepared(counts_of, functools.partial(noisy, epsilon=one))
    pair = np.array([0.05, 0.3, 0.3, 0.8]), np.array([0.05, 0.8, 0.8, 0.8])
    group = "privacy/group_privacy.py"
    return [
        Specimen("group_of_two_records", group, release, *pair, two, 0.0, EPSILON, False, 20_000),
        Specimen("group_as_one_record", f"fault in {group}", release, *pair, one, 0.0, EPSILON, True, 40_000),
    ]


def targets() -> list[Specimen]:
    """Both neighbouring relations at both levels, three faults; and two records at once."""
    few = np.array([0.05, 0.3, 0.3, 0.8])
    pair = few, np.array([0.05, 0.3, 0.3, 0.55])
    less = few, few[:-1]
    release = Prepared(counts_of, noisy)
    half_noise = Prepared(counts_of, functools.partial(noisy, epsilon=2 * EPSILON))
    one_less = Prepared(counts_of, functools.partial(noisy, neighbouring=Neighbouring.ADD_REMOVE))
    no_noise, floats = Prepared(counts_of, no_noise_in_empty_cells), Prepared(counts_of, floating_noise)
    inf = math.inf
    return [
        Specimen("histogram_release", MODULE, release, *pair, 1.0, 0.0, 1.0, False, 20_000),
        at_bits("histogram_bits", MODULE, release, *pair, 1.0, 0.0, 1.0, False, 12_000),
        Specimen("histogram_add_remove", MODULE, one_less, *less, 1.0, 0.0, 1.0, False, 20_000),
        at_bits("histogram_add_remove_bits", MODULE, one_less, *less, 1.0, 0.0, 1.0, False, 12_000),
        Specimen("histogram_half_noise", FAULT, half_noise, *pair, 1.0, 0.0, 2.0, True, 15_000),
        Specimen("histogram_drops_empty_cells", FAULT, no_noise, *pair, 1.0, 0.0, inf, True, 10_000),
        at_bits("histogram_float_noise_bits", FAULT, floats, *pair, 1.0, 0.0, inf, True, 6_000),
        *of_two_records(),
    ]

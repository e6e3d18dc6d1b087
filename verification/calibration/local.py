"""Coverage of posteriors from local responses: one-hot cells with every bit randomised, one feature and two.

The naive posterior takes the counts, corrected for the randomisation, for counts of records. That of the records, for
the widths, has the likelihood of a part of them to the power of the part's inverse share.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm.bayes.likelihoods.local_operation import N_NODES
from pm_dpgmm.methods.local.responses import CellResponses
from pm_dpgmm.mixture.cell_probabilities import cell_probabilities
from verification.calibration import mixture_kernels as kernels
from verification.calibration.em import (
    CENTRE,
    HALF_WIDTH,
    NAMES,
    SPREAD,
    WITH_RECORDS,
    LogLikelihood,
    mixture_of,
    posterior as posterior_draws,
)
from verification.calibration.intervals import Row, rows

FloatArray = NDArray[np.float64]

EPSILON = 1.0
N_RECORDS = 20_000
PART = 2000
CELLS = {1: 16, 2: 6}  # of every column
TINY = 1e-12
BLOCK = 200  # points whose cell probabilities are computed at once


def local_d1(n_replications: int, *, seed: int) -> list[Row]:
    """One feature."""
    return study("local, unary cells, d=1", n_replications, n_features=1, seed=seed)


def local_d2(n_replications: int, *, seed: int) -> list[Row]:
    """Two features."""
    return study("local, unary cells, d=2", n_replications, n_features=2, seed=seed)


def study(name: str, n_replications: int, *, n_features: int, seed: int) -> list[Row]:
    """Rows of one study."""
    d = n_features
    rng = np.random.default_rng(seed)
    truths = CENTRE[d] + SPREAD[d] * rng.normal(size=(n_replications, len(CENTRE[d])))
    edges = np.tile(np.linspace(-HALF_WIDTH, HALF_WIDTH, CELLS[d] + 1)[1:-1], (d, 1))
    likelihoods: dict[str, list[LogLikelihood]] = {"aware": [], "naive": [], "records": []}
    for truth in truths:
        records = mixture_of(truth, d).sample(N_RECORDS, rng=rng)
        responses = CellResponses.simulated(records, edges, kind="unary", epsilon=EPSILON, rng=rng)
        likelihoods["aware"].append(log_likelihood(responses))
        likelihoods["naive"].append(naive_log_likelihood(responses))
        likelihoods["records"].append(of_part(records[:PART], N_RECORDS / PART))
    draws = {}
    for kind, ones in likelihoods.items():
        few = len(ones) if kind != "records" else min(WITH_RECORDS, len(ones))
        draws[kind] = posterior_draws(ones[:few], d, rng=rng)[np.arange(len(ones)) % few]
    return rows(name, NAMES[d], truths, draws)


def cells_at(points: FloatArray, edges: FloatArray) -> FloatArray:
    """Cell probabilities (W, cells) at parameter points (W, P)."""
    found = []
    for first in range(0, len(points), BLOCK):
        block = [kernels.parameters(point, len(edges)) for point in points[first : first + BLOCK]]
        w, mu, chol = (np.array(one) for one in zip(*block, strict=True))
        found.append(cell_probabilities(edges, w, mu, chol, n_nodes=N_NODES))
    return np.concatenate(found)


def log_likelihood(responses: CellResponses) -> LogLikelihood:
    """Log likelihood of parameter points (W, P), up to a constant."""
    own, other = responses.channel
    n = responses.n_responses

    def value(points: FloatArray) -> FloatArray:
        g = (own - other) * cells_at(points, responses.edges)
        v = (other + g) * (1 - other - g) + g**2
        rest = responses.counts - n * (other + g)
        left = 1 - (g**2 / v).sum(axis=1)
        square = (rest**2 / v).sum(axis=1) + (g * rest / v).sum(axis=1) ** 2 / left
        return -0.5 * np.asarray(square / n + np.log(v).sum(axis=1) + np.log(left))

    return value


def naive_log_likelihood(responses: CellResponses) -> LogLikelihood:
    """The same for corrected counts that are taken for counts of records."""
    own, other = responses.channel
    corrected = np.maximum((responses.counts - other * responses.n_responses) / (own - other), 0.0)
    corrected *= responses.n_responses / corrected.sum()
    return lambda points: np.log(np.maximum(cells_at(points, responses.edges), TINY)) @ corrected


def of_part(records: FloatArray, power: float) -> LogLikelihood:
    """Log likelihood of some records to a power."""
    return lambda points: power * kernels.record_log_likelihoods(points, records)

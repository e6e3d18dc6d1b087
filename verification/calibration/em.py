"""Coverage of posteriors from the noisy sums of EM steps: one step and several, one feature and two.

Records come from two normal components whose parameters are drawn from the prior. A step's parameters are computed from
the noisy sums of the step before, as private EM does; the first step's are public. In one dimension all components
share the ball around the bounds, in two each has a ball around its current mean. The naive posterior takes the last
step's sums for exact: sampling error, no noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm.mechanisms.gaussian import gaussian_mechanism
from pm_dpgmm.methods.em.law import grid, normal_nodes
from pm_dpgmm.methods.em.statistics import EMStatistics, FeatureSums
from pm_dpgmm.mixture.mixture import Mixture
from verification.calibration import mixture_kernels as kernels
from verification.calibration.importance import sample_weighted
from verification.calibration.intervals import Row, rows

FloatArray = NDArray[np.float64]
LogLikelihood = Callable[[FloatArray], FloatArray]

EPSILON, DELTA = 1.0, 1e-6
N_RECORDS = 2000
HALF_WIDTH = 4.0  # of the bounds of every column
SENSITIVITY = math.sqrt(4.5)  # L2, replace-one, of (counts / 2, sums, squares with sqrt(2) off the diagonal)
REACH = 3.0  # radius of a component's ball in its root mean square distances, in two dimensions
WITH_RECORDS = 50  # replications whose posterior from the records gives the widths: it costs most
LEAST_COUNT, LEAST_VARIANCE = 50.0, 0.1
NAMES = {
    1: ("log odds", "mean 1", "mean 2", "log sd 1", "log sd 2"),
    2: ("log odds", "mean 1,1", "mean 1,2", "mean 2,1", "mean 2,2", "log root 1,1", "root 1,21", "log root 1,2",
        "log root 2,1", "root 2,21", "log root 2,2"),
}  # fmt: skip
CENTRE = {1: np.array([0, -1.5, 1.5, 0, 0.0]), 2: np.array([0, -1.5, -0.5, 1.5, 0.5, 0, 0, 0, 0, 0, 0.0])}
SPREAD = {
    1: np.array([0.5, 0.3, 0.3, 0.25, 0.25]),
    2: np.array([0.5, 0.3, 0.3, 0.3, 0.3, 0.25, 0.3, 0.25, 0.25, 0.3, 0.25]),
}
DRAWS = {1: 2000, 2: 2000}  # of every posterior


def em1_d1(n_replications: int, *, seed: int) -> list[Row]:
    """One step, one feature."""
    return study("EM, 1 step, d=1", n_replications, n_features=1, n_steps=1, seed=seed)


def em5_d1(n_replications: int, *, seed: int) -> list[Row]:
    """Five steps, one feature."""
    return study("EM, 5 steps, d=1", n_replications, n_features=1, n_steps=5, seed=seed)


def em1_d2(n_replications: int, *, seed: int) -> list[Row]:
    """One step, two features."""
    return study("EM, 1 step, d=2", n_replications, n_features=2, n_steps=1, seed=seed)


def em3_d2(n_replications: int, *, seed: int) -> list[Row]:
    """Three steps, two features."""
    return study("EM, 3 steps, d=2", n_replications, n_features=2, n_steps=3, seed=seed)


def study(name: str, n_replications: int, *, n_features: int, n_steps: int, seed: int) -> list[Row]:
    """Rows of one study."""
    d = n_features
    rng = np.random.default_rng(seed)
    truths = CENTRE[d] + SPREAD[d] * rng.normal(size=(n_replications, len(CENTRE[d])))
    likelihoods: dict[str, list[LogLikelihood]] = {"aware": [], "naive": [], "records": []}
    for truth in truths:
        records = mixture_of(truth, d).sample(N_RECORDS, rng=rng)
        statistics = released(records, n_steps=n_steps, rng=rng)
        likelihoods["aware"].append(log_likelihood(statistics))
        likelihoods["naive"].append(log_likelihood(statistics, naive=True))
        likelihoods["records"].append(of_records(records))
    draws = {}
    for kind, ones in likelihoods.items():
        few = len(ones) if kind != "records" else min(WITH_RECORDS, len(ones))
        found = posterior(ones[:few], d, rng=rng)
        draws[kind] = found[np.arange(len(ones)) % few]
    return rows(name, NAMES[d], truths, draws)


def posterior(likelihoods: list[LogLikelihood], d: int, *, rng: np.random.Generator) -> FloatArray:
    """Draws (R, S, P) of every replication's posterior; prints how many independent ones they are worth."""

    def density(likelihood: LogLikelihood) -> LogLikelihood:
        return lambda points: likelihood(points) - 0.5 * np.square((points - CENTRE[d]) / SPREAD[d]).sum(axis=1)

    found = [sample_weighted(density(one), CENTRE[d], SPREAD[d], n_draws=DRAWS[d], rng=rng) for one in likelihoods]
    worth = np.quantile([one.effective for one in found], [0, 0.1, 0.5]).round()
    print(f"# effective draws: least {worth[0]:.0f}, 10 % {worth[1]:.0f}, median {worth[2]:.0f}", flush=True)
    return np.stack([one.draws for one in found])


def mixture_of(point: FloatArray, d: int) -> Mixture:
    """Mixture at one parameter point."""
    w, mu, chol = kernels.parameters(point, d)
    return Mixture(w, mu, chol @ np.swapaxes(chol, 1, 2))


def released(records: FloatArray, *, n_steps: int, rng: np.random.Generator) -> EMStatistics:
    """Noisy sums of all steps, epsilon 1 for all of them together; simulated."""
    d = records.shape[1]
    bounds = HALF_WIDTH * np.array([[-1.0, 1.0]] * d)
    at = mixture_of(CENTRE[d], d)
    # one call calibrates the noise of the whole stack: T steps have sqrt(T) times the sensitivity
    _, scale, _ = gaussian_mechanism(
        np.zeros(12 * n_steps), sensitivity=SENSITIVITY * math.sqrt(n_steps), epsilon=EPSILON, delta=DELTA, rng=rng
    )
    stack = None
    for _ in range(n_steps):
        spread = np.sqrt(np.trace(at.covariances, axis1=1, axis2=2))
        balls = {} if d == 1 else {"centres": at.means, "radii": REACH * spread / HALF_WIDTH}
        step = EMStatistics.of_step(
            at.weights, at.means, at.covariances, bounds=bounds, scale=scale, n_records=N_RECORDS, **balls
        )
        noise = step.noise_scales * rng.normal(size=len(step.values))
        step = step.with_sums(step.features(records).sum(axis=0) + noise)
        at = maximised(step)
        stack = step if stack is None else stack.then(step)
    assert stack is not None
    return stack


def maximised(step: EMStatistics) -> Mixture:
    """Parameters after one step, from its noisy sums: a public function."""
    _, k, d = step.shape
    counts = np.maximum(step.counts[0], LEAST_COUNT)
    scale = step.unit * step.radii[0][:, None]
    mean = step.sums[0] / counts[:, None]
    square = np.zeros((k, d, d))
    row, column = np.triu_indices(d)
    square[:, row, column] = square[:, column, row] = step.squares[0] / counts[:, None]
    inside = np.clip(mean, -0.9, 0.9)
    spread = (square - mean[:, :, None] * mean[:, None]) * scale[:, :, None] * scale[:, None]
    values, vectors = np.linalg.eigh(spread)
    kept = np.clip(values, LEAST_VARIANCE, HALF_WIDTH**2)
    covariances = np.einsum("kij,kj,klj->kil", vectors, kept, vectors)
    return Mixture(counts / counts.sum(), step.centres[0] + scale * inside, (covariances + covariances.mT) / 2)


def log_likelihood(statistics: FeatureSums, *, naive: bool = False) -> LogLikelihood:
    """Log likelihood of parameter points (W, P), up to a constant; ``naive``: of the last step, as if without noise.

    Other sums than those of steps have a likelihood in one column alone.
    """
    if naive:
        assert isinstance(statistics, EMStatistics)
        statistics = statistics.last()
    _, k, d = statistics.shape
    scales, values = statistics.noise_scales, statistics.values
    # counts sum to the number of records: without noise one of them is redundant
    kept = np.delete(np.arange(len(values)), [k - 1] if naive else [])
    noise = 0.0 if naive else 1.0
    n = float(statistics.n_records)
    scaled = (values / scales)[kept]
    if d == 1:
        x, steps = grid(statistics)
        nodes = np.append(x, statistics.bounds[0])
        features = np.ascontiguousarray((statistics.features(nodes[:, None]) / scales).T[kept])
        return lambda points: kernels.grid_log_likelihoods(points, nodes, steps, features, scaled, n, noise)
    assert isinstance(statistics, EMStatistics)
    u, u_weights = normal_nodes(d, n)
    whiteners = np.linalg.inv(np.linalg.cholesky(statistics.covariances))
    logs = np.log(statistics.weights) + np.log(np.diagonal(whiteners, axis1=2, axis2=3)).sum(axis=2)
    reaches = statistics.unit * statistics.radii[..., None]
    return lambda points: kernels.node_log_likelihoods(
        points,
        u,
        u_weights,
        statistics.bounds,
        logs,
        statistics.means,
        whiteners,
        statistics.centres,
        reaches,
        scales,
        kept,
        scaled,
        n,
        noise,
    )


def of_records(records: FloatArray) -> LogLikelihood:
    """Log likelihood of the records themselves."""
    return lambda points: kernels.record_log_likelihoods(points, records)

"""Log densities of noisy EM sums as PyTensor operations that give their derivatives as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
from scipy import linalg

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.compiled.value_with_slopes import ValueWithSlopes, value_of
from pm_dpgmm.bayes.likelihoods import em_graph, em_kernel
from pm_dpgmm.methods.em.law import grid, moments, noisy_covariance, normal_nodes
from pm_dpgmm.methods.em.statistics import EMStatistics, FeatureSums
from pm_dpgmm.mixture.mixture import LOG_2PI, Mixture


class LineSums(ValueWithSlopes):
    """Of one column; see :func:`em_kernel.in_a_line`."""

    gufunc_signature = "(k),(k,d),(k,d,d),(q),(q),(e,p),(s),(p),(r,p),(l)->(o),(k),(k,d),(k,d,d)"
    kernel = em_kernel.in_a_line

    def value(self, *inputs: Any) -> Any:
        return em_graph.in_a_line(*inputs)


class SpaceSums(ValueWithSlopes):
    """Of several columns; see :func:`em_kernel.in_space`."""

    gufunc_signature = (
        "(k),(k,d),(k,d,d),(q,d),(q),(t,j),(t,j,d,d),(t,j,d),(t,j,d),(t,j,d),(d,s),(p),(p),(r,p),(l)"
        "->(o),(k),(k,d),(k,d,d)"
    )
    kernel = em_kernel.in_space

    def value(self, *inputs: Any) -> Any:
        return em_graph.in_space(*inputs)


line_of, space_of = LineSums(), SpaceSums()


def sums_density(
    statistics: EMStatistics | FeatureSums, held_at: Mixture | None, weights: Any, means: Any, chol: Any
) -> Any:
    """Log density of the sums, shape (): with the covariance at ``held_at``, or at the parameters themselves.

    In one column of any features, in several of EM steps. Its numbers are shared variables: compiled code is the same
    for every release of so many steps and components.
    """
    operation = line_of if statistics.shape[2] == 1 else space_of
    fixed = (*_nodes(statistics), *_law(statistics, held_at))
    shared = (pytensor.shared(np.array(one, dtype=float), shape=np.shape(one)) for one in fixed)
    return value_of(operation, weights, means, chol, *shared)


def _nodes(statistics: EMStatistics | FeatureSums) -> tuple[FloatArray, ...]:
    """Of the kernel's integrals, and the features there or what they are made of."""
    _, _, d = statistics.shape
    scales = statistics.noise_scales
    if d == 1:
        x, step = grid(statistics)
        features = statistics.features(np.append(x, statistics.bounds[0])[:, None]) / scales
        return x, np.log(step), features, statistics.bounds[0]
    assert isinstance(statistics, EMStatistics)
    whiteners = np.linalg.inv(np.linalg.cholesky(statistics.covariances))
    logs = np.log(statistics.weights) + np.log(np.diagonal(whiteners, axis1=2, axis2=3)).sum(axis=2)
    reach = statistics.unit * statistics.radii[:, :, None]
    balls = (statistics.means, statistics.centres, reach)
    return (*normal_nodes(d, float(statistics.n_records)), logs, whiteners, *balls, statistics.bounds, scales)


def _law(statistics: FeatureSums, held_at: Mixture | None) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The sums in standard deviations of their noise, the inverse root of a held covariance, and numbers."""
    values, n, scales = statistics.values, float(statistics.n_records), statistics.noise_scales
    constant = float(np.log(scales).sum() + 0.5 * len(values) * LOG_2PI)
    root = np.zeros((0, len(values)))
    if held_at is not None:
        factors = np.asarray(np.linalg.cholesky(held_at.covariances), dtype=float)
        held = noisy_covariance(statistics, *moments(statistics, held_at.weights, held_at.means, factors))
        fixed = np.linalg.cholesky(held / np.outer(scales, scales))
        root = np.asarray(linalg.solve_triangular(fixed, np.eye(len(values)), lower=True))
        constant += float(np.log(np.diagonal(fixed)).sum())
    return values / scales, root, np.array([n, float(statistics.n_records_scale) ** 2 - n, -constant])

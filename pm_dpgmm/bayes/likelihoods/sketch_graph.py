"""Log densities of a released sketch as graphs of array operations: what :mod:`sketch_kernel` computes.

For backends that have no compiled loop (JAX) and for second derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytensor.tensor as pt

from pm_dpgmm.mixture.mixture import LOG_2PI

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable


def plug_in(
    weights: Any, means: Any, chol: Any, frequencies: Any, centre: Any, size: Any, target: Any, root: Any, constant: Any
) -> TensorVariable:
    """Log density with a plug-in covariance, shape (); parameters as :func:`sketch_kernel.plug_in`."""
    parts = _Parts.of(frequencies, centre, means, chol)
    real = pt.dot(parts.damping * pt.cos(parts.phases), weights)
    imaginary = pt.dot(parts.damping * pt.sin(parts.phases), weights)
    expected = pt.stack([size[0] * real, size[1] * imaginary]).reshape((2, -1, target.shape[0] // 2))
    y = target - pt.sum(expected, axis=1).flatten()
    return constant[0] - 0.5 * (pt.sum(pt.sqr(y)) - pt.sum(pt.sqr(pt.dot(root, y))))


def exact(
    weights: Any,
    means: Any,
    chol: Any,
    frequencies: Any,
    centre: Any,
    values: Any,
    variances: Any,
    scales: Any,
    fixed: Any,
) -> TensorVariable:
    """Log density with the covariance at the mixture itself, shape (); parameters as :func:`sketch_kernel.exact`."""
    parts = _Parts.of(frequencies, centre, means, chol)
    mean, second = _moments(parts, weights)
    covariance = pt.outer(scales[1], scales[1]) * (second - pt.outer(mean, mean)) + pt.diag(variances)
    for rank_one in (scales[2] * mean, scales[3] * (fixed - mean)):
        covariance = covariance + pt.outer(rank_one, rank_one)
    root = pt.linalg.cholesky(covariance, lower=True, on_error="nan")
    z = pt.linalg.solve_triangular(root, values - scales[0] * mean, lower=True, b_ndim=1)
    constant = -0.5 * LOG_2PI * values.shape[0]
    return constant - 0.5 * pt.sum(pt.sqr(z)) - pt.sum(pt.log(pt.diagonal(root)))


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """Of every component's characteristic function at m frequencies."""

    phases: TensorVariable  # (m, K)
    projected: TensorVariable  # (m, D, K): L'w
    squares: TensorVariable  # (m, K): |L'w|^2

    @classmethod
    def of(
        cls, frequencies: TensorVariable, centre: TensorVariable, means: TensorVariable, chol: TensorVariable
    ) -> _Parts:
        # one product for all components: (m, D) by (D, D K)
        k, d = chol.shape[0], frequencies.shape[1]
        columns = pt.transpose(chol, (1, 2, 0)).reshape((d, d * k))
        projected = pt.dot(frequencies, columns).reshape((frequencies.shape[0], d, k))
        return cls(pt.dot(frequencies, (means - centre).T), projected, pt.sum(pt.sqr(projected), axis=1))

    @property
    def damping(self) -> TensorVariable:
        return pt.exp(-0.5 * self.squares)


def _moments(parts: _Parts, weights: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
    """E f (2 m,) and E f f' (2 m, 2 m) of f = (cos w.x, sin w.x): characteristic functions at sums and differences."""
    by_component = pt.transpose(parts.projected, (2, 0, 1))
    cross = pt.matmul(by_component, pt.transpose(by_component, (0, 2, 1)))  # (K, m, m)
    half = -0.5 * parts.squares.T
    squares = half[:, :, None] + half[:, None, :]
    scale = 0.5 * weights[:, None, None]
    at_difference, at_sum = scale * pt.exp(squares + cross), scale * pt.exp(squares - cross)
    c, s = pt.cos(parts.phases), pt.sin(parts.phases)
    mean = pt.concatenate([pt.dot(parts.damping * c, weights), pt.dot(parts.damping * s, weights)])
    left_c, left_s, right_c, right_s = c.T[:, :, None], s.T[:, :, None], c.T[:, None, :], s.T[:, None, :]
    cc, ss, cs, sc = left_c * right_c, left_s * right_s, left_c * right_s, left_s * right_c
    cosines = pt.sum(at_difference * (cc + ss) + at_sum * (cc - ss), axis=0)
    sines = pt.sum(at_difference * (cc + ss) - at_sum * (cc - ss), axis=0)
    mixed = pt.sum(at_sum * (cs + sc) + at_difference * (cs - sc), axis=0)
    upper, lower = pt.concatenate([cosines, mixed], axis=1), pt.concatenate([mixed.T, sines], axis=1)
    return mean, pt.concatenate([upper, lower], axis=0)

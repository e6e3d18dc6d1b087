"""Likelihood of a released sketch in a PyMC model, in closed form for any number of columns: no latent records.

Given a mixture theta the released numbers are normal, z ~ N(n a phi(theta), n V(theta) + noise); see
:mod:`pm_dpgmm.bayes.sketch_law` for the law, and for what is integrated out (a private number of records, the weight of
a background component). What it leaves out: the moments of cells and parts that a release of several columns also holds
(5 to 25 % of its budget) have no closed-form law and are not used, which loses their information; values at the bounds
count as if the mixture had them there; ``reg_covar``, a restriction on the fit, is none on the density of the records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytensor
import pytensor.tensor as pt

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.sketch_law import EXACT_UP_TO, SketchLaw, factors_of, held_covariance

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.mixture import Mixture
    from pm_dpgmm.release import Release

LIKELIHOODS = ("exact", "gaussian")


def log_likelihood(
    release: Release,
    weights: TensorVariable,
    means: TensorVariable,
    chol: TensorVariable,
    *,
    likelihood: str = "auto",
) -> TensorVariable:
    """Log density of the sketches of a release given any Gaussian mixture of the records.

    Post-processing: costs no privacy budget.

    Parameters
    ----------
    release : Release
        Of method "sketch" or "two-phase", also combined from several sites.
    weights, means, chol : TensorVariable, shapes (K,), (K, D), (K, D, D)
        The mixture, in the unit of the records; any K. ``chol`` holds lower Cholesky factors. With a background in the
        release they describe the other records.
    likelihood : {"auto", "exact", "gaussian"}
        "exact": the sampling covariance belongs to the parameters; for at most 128 released numbers (one column).
        "gaussian": it is held at the released density, which is right to first order around it; the default for more.

    Returns
    -------
    TensorVariable
        Scalar.

    Raises
    ------
    ValueError
        If "exact" is asked for with more numbers.
    """
    law = SketchLaw.of(release)
    small = law.values.size <= EXACT_UP_TO
    if likelihood == "exact" and not small:
        raise ValueError(
            f"likelihood must be 'gaussian' for more than {EXACT_UP_TO} released numbers, got 'exact' for a release of"
            f" {law.values.size}"
        )
    if likelihood == "exact" or (likelihood == "auto" and small):
        return exact_log_density(law, weights, means, chol)
    arrays = held_arrays(law, release.mixture)
    return held_log_density({name: _shared(value) for name, value in arrays.items()}, weights, means, chol)


# ---------------------------------------------------------------------- covariance held at the release
def held_arrays(law: SketchLaw, mixture: Mixture) -> dict[str, FloatArray]:
    """Everything that :func:`held_log_density` needs of a release, as plain arrays: replace them for another data set.

    The covariance is that at ``mixture``. Scaled by the noise: ``target`` (2 m,) less ``size`` (2, m) times the
    characteristic function are residuals y, and the log density is ``constant`` - (y'y - |``root`` y|^2)/2.
    """
    held = held_covariance(law, mixture)
    target = law.values - (1 - law.share) * law.size * law.fixed
    constant = -0.5 * (law.values.size * np.log(2 * np.pi) + held.log_determinant)
    return {
        "frequencies": law.frequencies,
        "centre": law.centre,
        "size": (law.share * law.size / held.deviations).reshape(2, -1),
        "target": target / held.deviations,
        "root": held.root,
        "constant": np.asarray(constant),
    }


def held_log_density(
    arrays: dict[str, TensorVariable], weights: TensorVariable, means: TensorVariable, chol: TensorVariable
) -> TensorVariable:
    """Log density from the tensors of :func:`held_arrays`."""
    real, imaginary = _characteristic(arrays["frequencies"], arrays["centre"], weights, means, chol)
    size = arrays["size"]
    y = arrays["target"] - pt.concatenate([size[0] * real, size[1] * imaginary])
    return arrays["constant"] - 0.5 * (pt.sum(pt.sqr(y)) - pt.sum(pt.sqr(pt.dot(arrays["root"], y))))


def _shared(value: FloatArray) -> TensorVariable:
    # Not constants: compiled code must not depend on the numbers, so that the next release finds it in the cache.
    # Their shapes are known, because JAX compiles for fixed shapes alone.
    return pytensor.shared(value, shape=np.shape(value))


def _characteristic(
    frequencies: TensorVariable,
    centre: TensorVariable,
    weights: TensorVariable,
    means: TensorVariable,
    chol: TensorVariable,
) -> tuple[TensorVariable, TensorVariable]:
    """Real and imaginary part of the mixture's characteristic function about ``centre``, each (m,)."""
    parts = _Parts.of(frequencies, centre, means, chol)
    return pt.dot(parts.damping * pt.cos(parts.phases), weights), pt.dot(parts.damping * pt.sin(parts.phases), weights)


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


# ---------------------------------------------------------------------- covariance at the parameters
def exact_log_density(
    law: SketchLaw, weights: TensorVariable, means: TensorVariable, chol: TensorVariable
) -> TensorVariable:
    """Log density with the sampling covariance of the mixture itself, shape ()."""
    both = np.tile(law.amplitudes, 2)
    size, spread = _shared(law.size), _shared(np.sqrt(law.n_records) * both)
    if law.background is not None:  # one more component that is known
        share, broad = law.background
        weights = pt.concatenate([(1 - share) * weights, [share]])
        means = pt.concatenate([means, _shared(broad.means)])
        chol = pt.concatenate([chol, _shared(factors_of(broad))])
    parts = _Parts.of(_shared(law.frequencies), _shared(law.centre), means, chol)
    mean, second = _moments(parts, weights)
    covariance = pt.outer(spread, spread) * (second - pt.outer(mean, mean))
    if law.n_records_scale:
        by_count = _shared(law.n_records_scale * both) * mean
        covariance = covariance + pt.outer(by_count, by_count)
    if law.background is not None:
        by_weight = _shared(share / (1 - share) * law.size) * (_shared(law.fixed) - mean)
        covariance = covariance + pt.outer(by_weight, by_weight)
    noise = _shared(np.diag(np.square(law.deviations)))
    root = pt.linalg.cholesky(covariance + noise, lower=True, on_error="nan")
    z = pt.linalg.solve_triangular(root, _shared(law.values) - size * mean, lower=True, b_ndim=1)
    constant = -0.5 * law.values.size * np.log(2 * np.pi)
    return constant - 0.5 * pt.sum(pt.sqr(z)) - pt.sum(pt.log(pt.diagonal(root)))


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

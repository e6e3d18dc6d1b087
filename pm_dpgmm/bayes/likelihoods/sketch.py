"""Likelihood of a released sketch in a PyMC model, in closed form for any number of columns: no latent records.

Given a mixture theta the released numbers are normal, z ~ N(n a phi(theta), n V(theta) + noise); see
:mod:`pm_dpgmm.methods.sketch.law` for the law, and for what is integrated out (a private number of records, the weight
of a background component). What it leaves out: the moments of cells and parts that a release of several columns also
holds (5 to 25 % of its budget) have no closed-form law and are not used, which loses their information; values at the
bounds count as if the mixture had them there; ``reg_covar`` and ``covariance_type``, restrictions on the fit, are none
on the density of the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytensor.tensor as pt

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.compiled.value_with_slopes import value_of
from pm_dpgmm.bayes.likelihoods.known_component import beside
from pm_dpgmm.bayes.likelihoods.shared_numbers import shared
from pm_dpgmm.bayes.likelihoods.sketch_operation import exact_of, held_of
from pm_dpgmm.methods.sketch.law import EXACT_UP_TO, SketchLaw, factors_of, plug_in_covariance

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.methods.released import Released
    from pm_dpgmm.mixture.mixture import Mixture

LIKELIHOODS = ("exact", "gaussian")
NARROWER = 0.7  # what a posterior may make of a released deviation with all terms of rounding that it then needs


def log_likelihood(
    release: Released,
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
        "gaussian": it is held at the released density, which is right to first order around it; the default for more,
        and for rounded columns.

    Returns
    -------
    TensorVariable
        Scalar.

    Raises
    ------
    ValueError
        If "exact" is asked for with more numbers, or for rounded columns.
    """
    law = SketchLaw.of(release)
    small = law.values.size <= EXACT_UP_TO and law.rounded is None
    if likelihood == "exact" and law.rounded is not None:
        raise ValueError("likelihood must be 'gaussian' for a release with a resolution, got 'exact'")
    if likelihood == "exact" and not small:
        raise ValueError(
            f"likelihood must be 'gaussian' for more than {EXACT_UP_TO} released numbers, got 'exact' for a release of"
            f" {law.values.size}"
        )
    if likelihood == "exact" or (likelihood == "auto" and small):
        return exact_log_density(law, weights, means, chol)
    arrays = held_arrays(law, release.mixture)
    return held_log_density({name: shared(value) for name, value in arrays.items()}, weights, means, chol)


# ---------------------------------------------------------------------- covariance held at the release
def held_arrays(law: SketchLaw, mixture: Mixture) -> dict[str, FloatArray]:
    """Everything that :func:`held_log_density` needs of a release, as plain arrays: replace them for another data set.

    The covariance is that at ``mixture``. Scaled by the noise: ``target`` (2 m,) less ``size`` (2, m) times the
    characteristic function are residuals y, and the log density is ``constant`` - (y'y - |``root`` y|^2)/2. Rounded
    columns have further terms, if their components are narrow: then there are A m ``frequencies``, and ``size`` is
    (2, A m).
    """
    plug_in = plug_in_covariance(law, mixture)
    target = law.values - (1 - law.share) * law.gain * law.fixed
    constant = -0.5 * (law.values.size * np.log(2 * np.pi) + plug_in.log_determinant)
    frequencies, size = law.frequencies, (law.share * law.gain / plug_in.deviations).reshape(2, -1)
    if law.rounded is not None:
        n_terms = law.rounded.n_terms(NARROWER * factors_of(mixture))
        frequencies = law.rounded.frequencies[:n_terms].reshape(-1, len(law.centre))
        size = (size[:, None] * law.rounded.coefficients[:n_terms]).reshape(2, -1)
    return {
        "frequencies": frequencies,
        "centre": law.centre,
        "size": size,
        "target": target / plug_in.deviations,
        "root": plug_in.root,
        "constant": np.asarray(constant),
    }


def held_log_density(
    arrays: dict[str, TensorVariable], weights: TensorVariable, means: TensorVariable, chol: TensorVariable
) -> TensorVariable:
    """Log density from the tensors of :func:`held_arrays`."""
    constant = pt.reshape(arrays["constant"], (1,))
    names = ("frequencies", "centre", "size", "target", "root")
    found: TensorVariable = value_of(held_of, weights, means, chol, *(arrays[name] for name in names), constant)
    return found


# ---------------------------------------------------------------------- covariance at the parameters
def exact_log_density(
    law: SketchLaw, weights: TensorVariable, means: TensorVariable, chol: TensorVariable
) -> TensorVariable:
    """Log density with the sampling covariance of the mixture itself, shape ()."""
    both = np.tile(law.amplitudes, 2)
    scales = np.zeros((4, law.values.size))
    scales[:3] = law.gain, np.sqrt(law.n_records) * both, law.n_records_scale * both
    if law.background is not None:
        share = law.background[0]
        scales[3] = share / (1 - share) * law.gain
        weights, means, chol = beside(law.background, weights, means, chol)
    fixed = (law.frequencies, law.centre, law.values, np.square(law.deviations), scales, law.fixed)
    found: TensorVariable = value_of(exact_of, weights, means, chol, *(shared(np.asarray(one)) for one in fixed))
    return found

"""What a reader of a fit to noisy EM sums should be warned of. Post-processing: released and public numbers alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.em_sums import Squares
from pm_dpgmm.mechanisms.lloyd import ClusterSums
from pm_dpgmm.methods.components_in_words import listed
from pm_dpgmm.methods.em.statistics import EMStatistics
from pm_dpgmm.mixture.mixture import Mixture

INTERRUPTED = "the fit was interrupted before its last step: the mixture is that of what was released until then"
MISSED = (
    "no mixture of this kind explains the released sums: records with point masses, such as rounded ones, or bounds"
    " that cut off many; the mixture has the moments of the last step instead, and its likelihood (observe) misleads"
)
TOLD = 2.0  # noise of a component's squares, in the records that it has, up to which its covariance is measured
DEAR = 0.02  # nats a record of a component that noise costs by its size beside the widths found, from which it is told:
# where wide bounds drown them these come out too wide themselves, and fits lost a nat where this said 0.03
NOTABLE = 0.15  # weight of all components of unmeasured width together from which on it is told


def em_caveats(steps: EMStatistics, mixture: Mixture) -> list[str]:
    """One text for each reason; empty where nothing speaks against the fit. Nothing is raised."""
    _, _, d = steps.shape
    noise = 1 / np.sqrt((1 / np.square(steps.scales[:, 2])).sum())
    records = mixture.weights * max(float(steps.n_records), 0.0)
    with np.errstate(all="ignore"):
        losses = expected_losses(steps, mixture)
    return unmeasured(mixture, records < TOLD * d * noise, losses)


def unmeasured(mixture: Mixture, few: NDArray[np.bool_], losses: FloatArray) -> list[str]:
    """A text, where components have too ``few`` records, or noise costs them too many nats; else none."""
    few = few | ~(losses <= DEAR)
    if mixture.weights[few].sum() <= NOTABLE and mixture.weights @ losses <= DEAR and not few.all():
        return []
    return [
        f"too few records or too small a budget: the covariance of {listed(few)} may be noise; more records, a larger"
        " epsilon, tighter bounds or fewer components would help"
    ]


def expected_losses(steps: EMStatistics, mixture: Mixture) -> FloatArray:
    """Nats a record of each component that noise in its sums costs, to second order, if its widths are right; (K,).

    Errors of a mean and of a covariance, by the balls of every step, over what was found.
    """
    records = np.maximum(mixture.weights * float(steps.n_records), 1.0)
    of_sums = np.square(records / (steps.scales[:, 1, None] * steps.radii)).sum(axis=0)
    of_squares = np.square(records / (steps.scales[:, 2, None] * np.square(steps.radii))).sum(axis=0)
    if steps.kind is Squares.ISOTROPIC:
        of_squares = of_squares * mixture.n_features**2  # the squared length of D entries
    return noise_losses(mixture, steps.unit, of_sums, of_squares, full=steps.kind is Squares.FULL)


def noise_losses(
    mixture: Mixture, unit: FloatArray, of_sums: FloatArray, of_squares: FloatArray, *, full: bool
) -> FloatArray:
    """From the precisions (K,) that noise leaves a mean and a variance, of columns over ``unit``; nats a record, (K,).

    With P the inverse of a covariance and symmetric noise E in it the loss is a quarter of tr(P E P E) to second order;
    ``full``: of mean (tr P)^2 + tr P^2 over twice the precision, as directions in which a component is narrow count
    most; else E is diagonal.
    """
    inverse = np.linalg.inv(mixture.covariances / (unit[:, None] * unit))
    traces = np.trace(inverse, axis1=1, axis2=2)
    if full:
        of_widths = (np.square(traces) + np.square(inverse).sum(axis=(1, 2))) / 2
    else:
        of_widths = np.square(np.diagonal(inverse, axis1=1, axis2=2)).sum(axis=1)
    return np.asarray(of_widths / (4 * of_squares) + traces / (2 * of_sums))


def cluster_caveats(last: ClusterSums) -> list[str]:
    """The same for the last step of k-means: clusters of noise, and widths that are noise."""
    few = last.counts < TOLD * last.scales[0]
    told = []
    if few.any():
        told.append(
            f"too few records or too small a budget: the count, and with it the centre, of {listed(few)} may be noise;"
            " more records, a larger epsilon, tighter bounds or fewer components would help"
        )
    if last.squares.shape[1]:
        wide = ~few & (last.squares[:, 0] < TOLD * last.scales[2])
        if wide.any():
            told.append(
                f"too few records or too small a budget: the variance of {listed(wide)} may be noise; more records, a"
                " larger epsilon or tighter bounds would help"
            )
    return told

"""Fisher information of local responses and of noisy sums of EM and of cells about the mixture. Imports no PyMC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.parameters.anchor import weak_deviations
from pm_dpgmm.mechanisms.em_sums import Squares
from pm_dpgmm.methods.central.statistics import CentralStatistics
from pm_dpgmm.methods.em.fit import Objective
from pm_dpgmm.methods.em.statistics import EMStatistics
from pm_dpgmm.methods.local.design import Frame
from pm_dpgmm.methods.local.evidence import evidence_of
from pm_dpgmm.methods.local.responses import VectorResponses, local_responses
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import Mixture

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released


def responses_covariance(release: Released, mixture: Mixture) -> FloatArray:
    """Covariance of the offsets of the truth from ``mixture``: inverse information of the responses, shape (P, P).

    The weak prior is added, so that what the responses leave open stays finite.
    """
    responses = local_responses(release)
    if isinstance(responses, VectorResponses):
        raise ValueError(
            "weight_conc, mean_scale and cov_scale must be numbers for a release of method 'local' with 'added'"
            " responses, got 'auto': the law of its errors is not known"
        )
    spread = mixture.covariance().diagonal() ** 0.5
    frame = Frame(mixture.weights @ mixture.means, spread)
    evidence, inner = evidence_of(responses, frame), frame.inner(mixture)
    chart = Coordinates.about(inner)  # offsets have no unit: they are those from the mixture itself
    here = np.zeros(chart.size)
    weights, means, factors = chart.at(here)
    components = evidence.places.of_components(means, factors)
    rows = evidence.places.jacobian(chart, here, components)
    return _inverse(evidence.information(components @ weights, rows), mixture)


def sums_covariance(release: Released, mixture: Mixture) -> FloatArray:
    """The same of the noisy sums of EM steps: of their mean, at the covariance where it stands.

    Weights below a hundredth count as that.
    """
    return _of_sums(Objective(EMStatistics.of(release), mixture, Squares.FULL), mixture)


def cells_covariance(release: Released, mixture: Mixture) -> FloatArray:
    """The same of the noisy sums of cells."""
    return _of_sums(Objective(CentralStatistics.of(release), mixture, Squares.FULL), mixture)


def _of_sums(objective: Objective, mixture: Mixture) -> FloatArray:
    found = objective.moments(np.zeros(Coordinates.about(mixture).size))
    moved = objective.n_records * found.slopes
    return _inverse(moved.T @ np.linalg.solve(objective.covariance(found), moved), mixture)


def _inverse(information: FloatArray, mixture: Mixture) -> FloatArray:
    return np.asarray(np.linalg.inv(information + np.diag(weak_deviations(mixture) ** -2)))

"""From released statistics to a mixture with one number of components; ``choice`` calls it for every number asked for.

Post-processing: nothing here sees a record, so all of it is free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.moments import SQUARED_SENSITIVITY
from pm_dpgmm.methods.sketch.covariance_types import AUTO, FULL
from pm_dpgmm.methods.sketch.fit import refined, reweighted, tested
from pm_dpgmm.methods.sketch.model import SketchData, widened
from pm_dpgmm.methods.sketch.prior import Prior
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.pursuit import fit_from, fit_sketch, with_background
from pm_dpgmm.methods.sketch.search.spikes import with_narrower
from pm_dpgmm.methods.sketch.search.start import (
    TYPICAL,
    leaves_of,
    mostly_noise,
    starts,
    trusted_leaves,
    variance_error,
)
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.mixture import Mixture, joined
from pm_dpgmm.mixture.rounding import RoundedWaves

RADIUS_PRIOR, SCALE_PRIOR = 0.5, 1 / 6  # of means and component deviations, in half-widths; one column
SIZES, LOG_SCALES, SLOPES = 1.5, 0.5, 0.3  # several columns: spread of the factors about those of the start
BROADER = 1.5  # standard deviations of the background, in those of all records; in one column in half its interval
FAINT = 40.0  # records times mu for each parameter of a mean and a variance, below which misfit says little: without
# it one fit in ten to 2,000 records in six columns lost 4.8 nats
FEW = 20.0  # the same in several columns, below which starts are mostly noise, and fits lose 0.1 nats a record
FEW_PRIOR = Prior(0.35, TYPICAL, log_scales=0.5, slopes=0.3)  # of these, in half-widths of the intervals
DOUBT, LITTLE = 0.03, 0.01  # most weight that :func:`doubt` gives: it falls to 0 at FEW, and more slowly at FAINT
BROAD = 0.5  # deviations of the background in half-widths, where the first cell does not tell them
FLATTEST = 1e-5  # least part of a feature's standard deviation that others do not explain
NEGLIGIBLE = 1e-2  # fall of the objective at which a fit with full weights ends: a tenth of a standard deviation
LEAST_OVER_FLOOR = 1e-2  # least variance that a start has beside the variance floor, in floors
MEASURED = 16.0  # rise of chi-square, 4 standard deviations, below which the numbers do not tell two densities apart
REJECTED = 12.0  # misfit above which the records are not from the mixture; misfit.py says how much that matters


@dataclass(frozen=True, slots=True, eq=False)
class SketchFit:
    """A fit in the unit of its data."""

    data: SketchData
    found: ScaledMixture
    misfit: float
    deviance: float = math.nan  # minus twice the log-likelihood of the sketch, up to a constant

    @classmethod
    def of(cls, data: SketchData, found: ScaledMixture) -> SketchFit:
        """The fit with how well it explains the sketch, under the sketch's full covariance."""
        return cls(data, found, *tested(data, found))

    @property
    def rejected(self) -> bool:
        """Whether the sketch contradicts the mixture, by however little: decides how a fit goes on, not a warning."""
        return self.misfit > REJECTED

    @property
    def mixture(self) -> Mixture:
        """Components in the unit of the records, weights without the background."""
        found = self.found
        factors = widened(found.factors, self.data.variance_floor)
        return _in_records(self.data, found.weights / found.weights.sum(), found.means, factors)

    @property
    def background(self) -> tuple[float, Mixture] | None:
        """Weight and law of the broad component, if there is one."""
        if self.found.background is None or self.data.background is None:
            return None
        mean, factor = self.data.background
        factors = widened(factor[None], self.data.variance_floor)
        return self.found.background, _in_records(self.data, np.ones(1), mean[None], factors)

    @property
    def density(self) -> Mixture:
        """All of it, as ``Release.density``: the background is the last component."""
        return joined(self.mixture, self.background)


def fit_evidence(
    evidence: SketchStatistics,
    n_components: int,
    *,
    first: Sequence[ScaledMixture] = (),
    search: bool = True,
    last: bool = True,
) -> SketchFit:
    """Fit ``n_components`` to everything released; ``first`` are mixtures to start from, in the unit of the evidence.

    Without ``search`` the first start alone is refined; unless ``last``, full weights are spared.
    """
    data = sketch_data(evidence)
    if len(evidence.unit) == 1:
        prior = prior_about(None)
        return SketchFit.of(data, with_narrower(data, fit_sketch(data, n_components, prior, radius=1.0), prior))
    begin = chain(first, (less_floor(leaves, data.variance_floor) for leaves in start_mixtures(evidence, n_components)))
    start = next(begin)
    radius = math.sqrt(len(evidence.unit))
    prior = FEW_PRIOR if few(evidence, n_components) else prior_about(start)
    if not search:
        found = with_background(data, refined(data, start, prior), prior)
    else:
        levels = [leaves_of(moments, evidence.n_records) for moments in evidence.cells]
        atoms = np.concatenate([item.means for item in levels]), np.concatenate([item.factors for item in levels])
        faint = signal(evidence, n_components) < FAINT and len(evidence.unit) < 9
        found = fit_from(data, start, begin, prior, atoms, radius=radius, thorough=faint, last=last)
    return SketchFit.of(data, full_weights(data, found, prior) if last else found)


def full_weights(data: SketchData, found: ScaledMixture, prior: Prior) -> ScaledMixture:
    """The fit with the full covariance of the sketch at its own mixture, where that matters and is not too large."""
    if not data.full_weights:
        return found
    return reweighted(data, found, prior, rounds=1, steps=20, tolerance=NEGLIGIBLE)


def prior_about(start: ScaledMixture | None) -> Prior:
    """Of a fit from ``start``, in the unit of the evidence; None or a start in one column: that of one column."""
    if start is None or start.means.shape[1] == 1:
        return Prior(RADIUS_PRIOR, SCALE_PRIOR)
    deviations = np.log(np.sqrt(np.square(start.factors).sum(axis=2)))
    scale = np.exp(start.weights @ deviations / start.weights.sum())
    return Prior(math.sqrt(start.means.shape[1]), scale, sizes=SIZES, log_scales=LOG_SCALES, slopes=SLOPES)


def sketch_data(evidence: SketchStatistics) -> SketchData:
    """The sketches in the unit of the evidence, with a background as broad as the records are, or as their interval."""
    background = None
    if evidence.cells and mostly_noise(evidence.cells[0], evidence.n_records):
        background = np.zeros(len(evidence.unit)), BROAD * np.eye(len(evidence.unit))
    elif evidence.cells:
        root = leaves_of(evidence.cells[0], evidence.n_records)
        background = root.means[0], BROADER * _as_broad_as_hidden(root.covariances[0], evidence)
    elif len(evidence.unit) == 1:
        background = np.zeros(1), BROADER * np.eye(1)  # of the interval
    data = SketchData.of(evidence.sketches, evidence.unit, background, evidence.variance_floor)
    kind = FULL if evidence.covariance_type == AUTO else evidence.covariance_type  # nobody has decided yet
    own: dict[str, Any] = {"bounds": evidence.bounds, "covariance_type": kind}
    data = replace(data, n_records=evidence.n_records, count_scale=evidence.n_records_scale, **own)
    if evidence.resolution is None:
        return data
    reach = evidence.resolution / 2  # values at a bound are from means up to half a resolution beyond it
    bounds = None if data.bounds is None else data.bounds + reach[:, None] * [-1.0, 1.0]
    return replace(data, bounds=bounds, rounded=RoundedWaves.of(data.frequencies, evidence.resolution / evidence.unit))


def outer_bounds(evidence: SketchStatistics) -> FloatArray:
    """The bounds (D, 2) in the unit of the records; where there are none, the intervals."""
    if evidence.bounds is not None:
        return evidence.bounds
    return evidence.centre[:, None] + evidence.unit[:, None] * np.array([-1.0, 1.0])


def start_mixtures(evidence: SketchStatistics, n_components: int) -> Iterator[ScaledMixture]:
    """Mixtures to start from: the parts that were measured, then, if anybody asks for more, what the cells give."""
    for moments in evidence.parts:
        measured = leaves_of(moments, evidence.n_records, least_count=0.005)
        if len(measured.weights) == n_components:
            yield measured
    yield from starts(trusted_leaves(evidence.cells[-1], evidence.n_records), n_components)


def signal(evidence: SketchStatistics, n_components: int) -> float:
    """Records times mu, for each component and each of its numbers but the covariances; public."""
    relation = evidence.neighbouring
    spent = sum(float(s.frequencies.squared_sensitivity(relation)) / s.noise_scale**2 for s in evidence.sketches)
    moments = (*evidence.cells, *evidence.parts)
    spent += sum(float(SQUARED_SENSITIVITY[relation]) / item.noise_scale**2 for item in moments)
    return evidence.n_records * math.sqrt(spent) / (n_components * (len(evidence.unit) + 2))


def _as_broad_as_hidden(covariance: FloatArray, evidence: SketchStatistics) -> FloatArray:
    """A factor of it where no variance is below its noise: too broad a background costs less than too narrow a one."""
    values, vectors = np.linalg.eigh(covariance)
    values = np.hypot(values, variance_error(evidence.cells[0], evidence.n_records))
    return np.linalg.cholesky((vectors * values) @ vectors.T)


def few(evidence: SketchStatistics, n_components: int) -> bool:
    """Whether the budget pays for so few of the parameters that public knowledge decides the rest; public itself."""
    return len(evidence.unit) > 1 and signal(evidence, n_components) < FEW


def doubt(evidence: SketchStatistics, n_components: int) -> float:
    """Least weight of a background: 0, but in a fit to so few records that some may be where no component is; public.

    Noise makes a tail too thin as easily as too thick, and only the first is dear.
    """
    if len(evidence.unit) == 1:
        return 0.0
    told = signal(evidence, n_components)
    return max(0.0, DOUBT * (1 - told / FEW), LITTLE * (1 - told / FAINT))


def as_start(evidence: SketchStatistics, mixture: Mixture, background_weight: float = 0.0) -> ScaledMixture:
    """A mixture in the unit of the records as a start."""
    found = less_floor(ScaledMixture.about(mixture, evidence.centre, evidence.unit), evidence.variance_floor)
    return replace(found, weights=mixture.weights * (1 - background_weight), background=background_weight or None)


def less_floor(mixture: ScaledMixture, variance_floor: FloatArray | None = None) -> ScaledMixture:
    """The same mixture as a start of a fit, its covariances less the variance floor."""
    if variance_floor is None:
        return mixture
    values, vectors = np.linalg.eigh(mixture.covariances - np.diag(variance_floor))
    values = np.maximum(values, LEAST_OVER_FLOOR * variance_floor.min())
    lowered = (vectors * values[:, None, :]) @ vectors.swapaxes(1, 2)
    return ScaledMixture.of(mixture.weights, mixture.means, lowered)


def with_floor(fit: SketchFit) -> ScaledMixture:
    """Components of a fit with the variance floor, the background left out."""
    found = fit.found
    return ScaledMixture(
        found.weights / found.weights.sum(), found.means, widened(found.factors, fit.data.variance_floor)
    )


def _in_records(data: SketchData, weights: FloatArray, means: FloatArray, factors: FloatArray) -> Mixture:
    row, column = np.diag_indices(factors.shape[1])
    floored = factors.copy()  # so that the product is positive definite as computed, too
    least = FLATTEST * np.sqrt(np.square(factors).sum(axis=2))
    floored[:, row, column] = np.maximum(factors[:, row, column], least)
    scaled = data.unit[:, None] * floored
    means = means * data.unit + data.centre
    if data.bounds is not None:  # rounding
        means = np.clip(means, *data.bounds.T)
    return Mixture(weights, means, scaled @ scaled.swapaxes(1, 2))

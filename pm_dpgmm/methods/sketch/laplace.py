"""The normal law of the parameters of a release of sketches given its released numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pm_dpgmm._arguments import FloatArray, generator_of
from pm_dpgmm.methods.sketch.checks.places import nearest_images
from pm_dpgmm.methods.sketch.covariance_types import FULL
from pm_dpgmm.methods.sketch.estimate import SketchFit, as_start, prior_about, sketch_data
from pm_dpgmm.methods.sketch.fit import error_root, moved
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.phantoms import phantom_chances, widened_root
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.methods.sketch.statistics_checks import check_law
from pm_dpgmm.methods.statistic import Statistic

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released


@dataclass(frozen=True, slots=True, eq=False)
class Laplace:
    """Normal law of the parameters of a release, in the unit of its evidence."""

    data: SketchData
    found: ScaledMixture
    root: FloatArray  # (P, Q): the covariance is root @ root.T
    chances: FloatArray  # (K,) that a component is noise

    def fits(self, n_draws: int, random_seed: int | np.random.Generator | None) -> list[SketchFit]:
        """Independent draws."""
        standard = generator_of(random_seed).standard_normal((n_draws, self.root.shape[1]))
        return [SketchFit(self.data, moved(self.found, step), 0.0) for step in standard @ self.root.T]


def laplace(release: Released, *, as_full: bool = False) -> Laplace:
    """Normal approximation of the law of a release's parameters given its released numbers.

    Covariances are known to be of the release's kind, or with ``as_full`` of any: what a model that does not restrict
    them has to go by.

    Raises
    ------
    ValueError
        If the release is of another method than "sketch" or "two-phase", which alone carry what is needed.
    """
    if release.statistic is not Statistic.SKETCH:
        raise ValueError(
            f"release must be one of method 'sketch' or 'two-phase' to tell its uncertainty, got one of"
            f" {release.statistic.of_method(release.method)}"
        )
    evidence = SketchStatistics.from_arrays(release.raw, release.noise)
    check_law(evidence, "release")
    data = sketch_data(replace(evidence, covariance_type=FULL) if as_full else evidence)
    found = as_start(evidence, release.mixture, release.background_weight)
    prior = prior_about(found)
    image = nearest_images(found, evidence)
    chances = phantom_chances(data, image, prior)
    return Laplace(data, found, widened_root(error_root(data, image, prior), data, found, chances), chances)

"""What method "central" has released so far, and what follows from it: the next cells, the mixture, the outcome.

Post-processing: nothing here sees a record. Everything can be read back from the arrays of a release, so that a fit
that was interrupted goes on from what it had released (:func:`resumed`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_choice, check_count
from pm_dpgmm.mechanisms.bernstein_sums import NoisySums, moments_from_sums
from pm_dpgmm.methods.central.caveats import INTERRUPTED, central_caveats
from pm_dpgmm.methods.central.statistics import MOST_LEVELS, CentralStatistics, Level, cells_of
from pm_dpgmm.methods.em.fit import Going, fit_sums
from pm_dpgmm.methods.em.statistics import EMStatistics
from pm_dpgmm.methods.outcome import Outcome
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.start import APART, REACH, leaves_of, next_cells, starts, trusted_leaves
from pm_dpgmm.mixture.far_rows import far_rows
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Guarantee

LEAST_SD, WIDEST_SD = 1e-4, 1.0  # of what cells are put around, in half-widths of the bounds
LEAST_WEIGHT = 0.005  # of such a component
SOFT, LINE_REACH = 0.4, 1.0  # of cells side by side: standard deviation of their edges and radius, in their widths
FINAL_REACH = 1.5  # radius of a cell around half a component, in its root mean square distances
LAWS = ("discrete Laplace", "discrete Gaussian")


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Released numbers and public settings."""

    bounds: FloatArray  # (D, 2)
    n_records: float | None  # None: private
    n_components: int
    noise: str  # one of LAWS
    levels: tuple[Level, ...] = ()

    @property
    def unit(self) -> FloatArray:
        """Half-widths of the bounds, (D,)."""
        return np.asarray(self.bounds[:, 1] / 2 - self.bounds[:, 0] / 2)

    @property
    def middle(self) -> FloatArray:
        """Of the bounds, (D,)."""
        return np.asarray(self.bounds[:, 0] / 2 + self.bounds[:, 1] / 2)

    @property
    def statistics(self) -> CentralStatistics:
        """All sums so far, and their law."""
        return CentralStatistics(self.levels, self.n_records)

    def with_level(self, cells: EMStatistics, found: NoisySums) -> Run:
        """After a level was released."""
        return replace(self, levels=(*self.levels, Level.of(cells, found)))

    # ------------------------------------------------------------------ cells
    def side_by_side(self, size: int) -> EMStatistics:
        """Equal cells between the bounds of one column."""
        low, high = self.bounds[0]
        width = (high - low) / size
        centres = low + (np.arange(size) + 0.5) * width
        sd = np.full((size, 1, 1), SOFT * width)
        reach = np.full(size, LINE_REACH * 2 / size)
        return cells_of(np.full(size, 1 / size), centres[:, None], np.square(sd), reach, self.bounds)

    def whole(self) -> EMStatistics:
        """One cell around all that lies within the bounds."""
        d = len(self.bounds)
        return cells_of([1.0], self.middle[None], np.diag(self.unit**2)[None], [math.sqrt(d)], self.bounds)

    def split(self, size: int) -> EMStatistics:
        """The next level of at most ``size`` cells: full ones are cut in two along their longest axis."""
        d = len(self.bounds)
        moments = moments_from_sums(self.levels[-1].noisy)
        found = next_cells(moments, leaves_of(moments, self.statistics.n_records), size)
        centres = np.clip(found.centres, -1.0, 1.0)
        radii = np.clip(found.radii, LEAST_SD * math.sqrt(d), WIDEST_SD * REACH * math.sqrt(d))
        variances = np.square(radii / REACH) / d
        covariances = variances[:, None, None] * np.diag(self.unit**2)
        weights = np.full(len(centres), 1 / len(centres))
        return cells_of(weights, self.middle + self.unit * centres, covariances, radii, self.bounds)

    def around(self, mixture: Mixture) -> EMStatistics:
        """Two cells for each component: its halves along its longest axis."""
        found = self._held(ScaledMixture.about(mixture, self.middle, self.unit))
        scaled = ScaledMixture.about(found, self.middle, self.unit)
        values, vectors = np.linalg.eigh(scaled.covariances)
        offset = APART * np.sqrt(values[:, -1:]) * vectors[:, :, -1]
        centres = np.clip(np.concatenate([scaled.means - offset, scaled.means + offset]), -1.0, 1.0)
        rest = scaled.covariances - offset[:, :, None] * offset[:, None, :]
        covariances = np.tile((rest + rest.swapaxes(1, 2)) / 2, (2, 1, 1))
        radii = FINAL_REACH * np.sqrt(np.trace(covariances, axis1=1, axis2=2))
        covariances = covariances * self.unit[:, None] * self.unit
        weights = np.tile(scaled.weights, 2) / 2
        return cells_of(weights, self.middle + self.unit * centres, covariances, radii, self.bounds)

    # ------------------------------------------------------------------ mixture
    def fitted(self, *, last: bool, going: Going = lambda share: None) -> Mixture:
        """The mixture that explains the sums of all levels best; ``last``: it is what leaves."""
        crude = self.crude()
        return fit_sums(self.statistics, crude[0], starts=crude[1:], last=last, going=going)[0]

    def crude(self) -> list[Mixture]:
        """Mixtures that the moments of single levels suggest, the last level's first."""
        found: list[Mixture] = []
        for level in reversed(self.levels[-2:]):
            leaves = trusted_leaves(moments_from_sums(level.noisy), self.statistics.n_records)
            found += [self._held(one) for one in starts(leaves, self.n_components)]
        return found

    def _held(self, found: ScaledMixture) -> Mixture:
        """In the unit of the records, within the bounds."""
        weights = np.maximum(found.weights, LEAST_WEIGHT)
        means = np.clip(self.middle + self.unit * found.means, self.bounds[:, 0], self.bounds[:, 1])
        values, vectors = np.linalg.eigh(found.covariances)
        values = np.clip(values, LEAST_SD**2, WIDEST_SD**2)
        covariances = (vectors * values[:, None, :]) @ vectors.swapaxes(1, 2) * self.unit[:, None] * self.unit
        return Mixture(weights / weights.sum(), means, (covariances + covariances.swapaxes(1, 2)) / 2)

    # ------------------------------------------------------------------ what leaves
    def law(self, n_levels: int) -> dict[str, Any]:
        """Of the numbers in ``raw``, beside what they say themselves."""
        return {"statistic": "cell sums", "law": self.noise, "n_levels": n_levels}

    def raw(self) -> dict[str, FloatArray]:
        """What was released."""
        return self.statistics.to_arrays()

    def outcome(self, guarantee: Guarantee, n_levels: int, going: Going = lambda share: None) -> Outcome:
        """After the last level, or after the last there is; ``going`` is told which share of the fit is done."""
        mixture, statistics = self.fitted(last=True, going=going), self.statistics
        caveats = [INTERRUPTED] if len(self.levels) < n_levels else []
        law = self.law(n_levels) | {"caveats": [*caveats, *central_caveats(statistics, mixture)]}
        law |= far_rows(self.bounds, statistics.n_records)
        return Outcome(mixture, guarantee, statistics.to_arrays(), law)


def resumed(guarantee: Guarantee, raw: Mapping[str, FloatArray], law: Mapping[str, Any], n_components: int) -> Outcome:
    """The outcome of what a run had released when it was interrupted: post-processing of arrays from anywhere.

    Raises
    ------
    ValueError
        If they hold no sums of cells, or contradict each other.
    """
    found = CentralStatistics.from_arrays(raw)
    check_choice(LAWS, law=law.get("law"))
    check_count(most=MOST_LEVELS, n_levels=law.get("n_levels"))
    run = Run(found.bounds, found.public_records, n_components, law["law"], found.levels)
    return run.outcome(guarantee, law["n_levels"])

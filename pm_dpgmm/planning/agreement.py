"""How well the fits of a learner agreed in the simulations of a plan, and what method "populous" makes of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pm_dpgmm.methods.populous.design import NEVER
from pm_dpgmm.methods.populous.method import Populous

LEAST_PROBABILITY = 0.95  # of a pass, predicted, for a plan to be enough


@dataclass(frozen=True, slots=True)
class Agreement:
    """Public numbers of a run of method "populous", and how well the learner's fits agreed in the simulations.

    Attributes
    ----------
    n_subsets : int
        t.
    subset_records : float
    component_radius, fit_radius : float
        s_inf and s_2: how far apart friends may be.
    top, full : int
        Friends that give full weight in the average, and how many fits must have more than so many.
    noise, omega : float
        eta of the mask, and the distance of the averages of neighbours that it hides.
    level_needed : int
        The lowest level that passes with probability ``LEAST_PROBABILITY``.
    assumed_efficiency : float
        The guess that the numbers above were made for.
    levels : tuple of int
        Stability level of each simulation.
    probabilities : tuple of float
        Of a pass at these levels.
    efficiencies : tuple of float
        Variance of the best estimator over the learner's, from the median distance of two of its fits. It tells how
        well fits agree, not whether they are right: a learner with a bias may have a high one.
    invalid, elsewhere : tuple of float
        Shares of the fits that failed or have components too close together; that are valid but in another mode, too
        far from the fit with most friends to share one with it.
    """

    n_subsets: int
    subset_records: float
    component_radius: float
    fit_radius: float
    top: int
    full: int
    noise: float
    omega: float
    level_needed: int
    assumed_efficiency: float
    levels: tuple[int, ...]
    probabilities: tuple[float, ...]
    efficiencies: tuple[float, ...]
    invalid: tuple[float, ...]
    elsewhere: tuple[float, ...]

    @property
    def probability(self) -> float:
        """Predicted probability that a run passes: the mean over the simulations."""
        return float(np.mean(self.probabilities))

    @property
    def efficiency(self) -> float:
        """Of the learner: the median over the simulations, 1 if it is larger. The ``efficiency`` of another plan."""
        return min(1.0, float(np.median(self.efficiencies)))

    @property
    def strays(self) -> float:
        """Share of the fits that are invalid or in another mode: the mean over the simulations."""
        return float(np.mean(self.invalid) + np.mean(self.elsewhere))

    @property
    def likely(self) -> bool:
        """Whether a pass is as likely as a plan asks for."""
        return self.probability >= LEAST_PROBABILITY

    @property
    def words(self) -> str:
        """Why a pass is not likely."""
        return (
            f"its fits do not agree well enough. A run passes with probability {self.probability:.2g}, at least"
            f" {LEAST_PROBABILITY:g} wanted; the fits have efficiency {self.efficiency:.2g},"
            f" {self.assumed_efficiency:.2g} assumed, and {self.strays:.1%} of them are invalid or in another mode"
        )

    @property
    def lines(self) -> list[str]:
        """Of a table whose columns have the median and the worst of the simulations."""
        rows: list[tuple[str, tuple[float, ...], float]] = [
            (f"stability level ({self.level_needed} needed)", self.levels, min(self.levels)),
            ("efficiency of the learner", self.efficiencies, min(self.efficiencies)),
            ("share of fits that are invalid", self.invalid, max(self.invalid)),
            ("share of fits in another mode", self.elsewhere, max(self.elsewhere)),
        ]
        return [
            f"{'predicted pass probability (mean)':52}{self.probability:>9.3g}{min(self.probabilities):>9.2g}",
            *(f"{words:52}{float(np.median(values)):>9.2g}{worst:>9.2g}" for words, values, worst in rows),
            "",
            f"Settings: {self.n_subsets} subsets of about {self.subset_records:.0f} records; friends are within"
            f" {self.component_radius:.3g} (components) and {self.fit_radius:.3g} (fits);",
            f"  top {self.top}, full {self.full}; noise eta {self.noise:.3g}, omega {self.omega:.3g}; made for"
            f" efficiency {self.assumed_efficiency:.2g}",
        ]


def words_without_settings(fewest: int, settings: Populous) -> str:
    """Why nothing was simulated."""
    guess = f"with fits of efficiency {settings.efficiency:.2g} and separation {settings.separation:g}"
    if fewest >= NEVER:
        return f"no number of records lets method 'populous' pass {guess}: change the settings or the budget"
    fewer = "; a larger efficiency asks for fewer" if settings.efficiency < 1 else ""
    return f"n is too small: method 'populous' cannot pass {guess}; it can from about {fewest:,} records{fewer}"

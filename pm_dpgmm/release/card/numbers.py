"""The numbers of a card: bounds of columns, the privacy curve, several records, components with their errors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.released import Released
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.privacy.group_privacy import ROUNDING, by_points, of_stated_pair
from pm_dpgmm.privacy.guarantee import Guarantee, smallest_epsilon
from pm_dpgmm.release.summary_text import heaviest_first
from pm_dpgmm.release.uncertainty import StandardErrors, standard_errors

PRECISE = 1e-6  # of an epsilon, of which four digits are printed
CARD_DELTAS = (1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # rows of the privacy curve
GROUPS = (1, 2, 3, 5, 10)
NOTHING_PROVED = "nothing is proved"
AT = " at delta = "  # in a cell of its own delta
LARGEST_FACTOR = 1e15  # beyond it a factor says nothing
BOUNDS = ("bounds", "em_bounds", "kmeans_bounds", "central_bounds")  # what methods call them
ROUND = ("noise_scale", "radius", "n_subsets")  # of the law of a sum of answers


def bounds_of(release: Released) -> FloatArray | None:
    """Public bounds of the columns, shape (D, 2), in the unit of the records; None where the release holds none."""
    found = [release.noise.get("bounds"), *(release.raw.get(name) for name in BOUNDS)]
    for value in found:
        try:
            limits = np.array(value, dtype=float)
        except (TypeError, ValueError):  # a file from anywhere
            continue
        if limits.shape == (release.n_features, 2) and np.isfinite(limits).all():
            return limits if release.transformations is None else release.transformations.to_units(limits.T).T
    return None


def curve_rows(guarantee: Guarantee) -> list[list[str]]:
    """Deltas, the epsilons that are proved at them, and the factors that these stand for."""
    deltas = functools.cache(guarantee.loss.delta)  # searches begin alike, and values of some curves cost
    found = [(at, smallest_epsilon(deltas, at, rounding=PRECISE)) for at in CARD_DELTAS]
    return [[f"{at:g}", _in_digits(epsilon, at, deltas), factor(epsilon)] for at, epsilon in found]


def _in_digits(epsilon: float, delta: float, deltas: Callable[[float], float]) -> str:
    """The nearest epsilon of four digits where the curve holds there, else the next larger one."""
    if not math.isfinite(epsilon):
        return NOTHING_PROVED
    nearest = f"{epsilon:.4g}"
    return nearest if deltas(float(nearest)) <= delta else rounded_up(epsilon, 4)


def group_rows(
    guarantee: Guarantee, rows_per_person: int | None, points: tuple[FloatArray, FloatArray]
) -> list[list[str]]:
    """Numbers of records and the epsilons that are proved for so many at the stated delta, by points of the curve.

    Where none is finite the epsilon and the delta that follow from the stated pair, while that delta is below 1.
    """
    groups = sorted({*GROUPS, rows_per_person or 1})
    found = by_points(guarantee, groups, guarantee.delta, points)
    found[0] = min(found[0], guarantee.epsilon)
    return [_group_row(guarantee, m, epsilon) for m, epsilon in zip(groups, found, strict=True)]


def _group_row(guarantee: Guarantee, m: int, epsilon: float) -> list[str]:
    if math.isfinite(epsilon):
        return [f"{m:,}", _epsilon(epsilon), factor(epsilon)]
    epsilon, delta = of_stated_pair(guarantee, m)
    own = rounded_up(delta, 3)
    if float(own) >= 1:
        return [f"{m:,}", NOTHING_PROVED, factor(math.inf)]
    return [f"{m:,}", f"{_epsilon(epsilon)}{AT}{own}", factor(epsilon)]


def _epsilon(epsilon: float) -> str:
    """Four digits, never below what is proved: what was added for the rounding of floats does not count."""
    return rounded_up(epsilon * (1 - 2 * ROUNDING), 4)


def factor(epsilon: float) -> str:
    """By how much an epsilon lets probabilities change."""
    if epsilon > math.log(LARGEST_FACTOR):
        return f"more than {LARGEST_FACTOR:.0e}"
    return rounded_up(math.exp(epsilon), 3)


def rounded_up(value: float, digits: int) -> str:
    """A bound with so many digits, never below itself."""
    text = f"{value:.{digits}g}"
    if float(text) >= value:
        return text
    return f"{value + 10.0 ** (math.floor(math.log10(value)) + 1 - digits):.{digits}g}"


def guess(guarantee: Guarantee) -> float:
    """Largest probability of telling which of two data sets that differ in one record was there, at even odds."""
    return (1 + min(1.0, guarantee.loss.delta(0.0))) / 2


def errors_of(release: Released) -> StandardErrors | str:
    """Standard errors, or why there are none."""
    if release.statistic is not Statistic.SKETCH:
        return "This method does not tell how precise its parameters are."
    try:
        return standard_errors(release)
    except ValueError as error:
        return f"Standard errors cannot be computed: {error}"


def component_rows(release: Released, names: tuple[str, ...], errors: StandardErrors | None) -> list[list[str]]:
    """A row for every component and column, heaviest first: place in the arrays, weight, mean, deviation."""
    deviations = np.sqrt(np.diagonal(release.covariances, axis1=1, axis2=2))
    rows = []
    for k in heaviest_first(release.weights):
        for j, name in enumerate(names):
            row = [(release.weights[k], ".3f"), (release.means[k, j], ".4g"), (deviations[k, j], ".4g")]
            cells = [f"{value:{form}}" for value, form in row]
            if errors is not None:
                own = errors.weights[k], errors.means[k, j], errors.standard_deviations[k, j]
                cells = [f"{cell} ± {error:.2g}" for cell, error in zip(cells, own, strict=True)]
            rows.append([str(k) if j == 0 else "", cells[0] if j == 0 else "", name, *cells[1:]])
    return rows


def noise_lines(release: Released) -> list[str]:
    """The noise in the raw statistics, a line for every number of its law."""
    told: dict[str, Any] = {
        name: value for name, value in release.noise.items() if not isinstance(value, (dict, list, tuple, Mapping))
    }
    average = release.noise.get("average")
    rounds = average.get("rounds") if isinstance(average, Mapping) else None
    for i, law in enumerate(rounds if isinstance(rounds, (list, tuple)) else (), 1):
        if isinstance(law, Mapping):
            told |= {f"{name} of the sum of answers {i}": law.get(name) for name in ROUND}
    return [f"{name}: {value}" for name, value in told.items()]

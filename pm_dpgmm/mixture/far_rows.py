"""Half a record as wide as the bounds: what rows are scored by that are far from all that a release describes.

A handful of far rows is less than what noise lets one see, so evidence denies them as often as it finds them. A density
without them loses half the square of their distance, in deviations, at each: where one row in a hundred is a hundred
deviations away that is fifty nats a record, and nothing says so. Half a record is Jeffreys' estimate for a kind of
which none was seen: it costs half a nat, divided among all records, and with it a far row costs ten or twenty nats.

It is for logarithms of densities alone. Variances and conditional laws of a mixture that has it would follow the
bounds, however far apart they are. Functions of public and released numbers alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_probability, finite_numbers, shown
from pm_dpgmm.mixture.mixture import Mixture, joined

NAME = "far_rows"  # in the law of a release
REACH = 3.0  # deviations from the middle of the bounds to a bound
WIDTHS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)  # of the Gaussians that share the half record, in those of the bounds
MOST_WIDTHS = 16


def as_wide_as(bounds: FloatArray, reach: float = REACH) -> Mixture:
    """One Gaussian whose mean is the middle of the bounds (D, 2), ``reach`` of its deviations from them.

    ValueError if a variance is no float.
    """
    low, high = bounds.T / 2
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        means, variances = low + high, np.square((high - low) / reach)
    return Mixture([1.0], means[None], np.diag(variances)[None])


def far_rows(bounds: FloatArray, n_records: float) -> dict[str, Any]:
    """The entry of a release's law: the weight of half a record, the bounds (D, 2), and multiples of their width.

    Bounds and number are public or released; where there are no bounds, intervals that hold nearly all records. Rows
    may be beyond them, too: half of it is as wide as the bounds, half of the rest ten times as wide, and so on up to a
    hundred thousand times. No entry where bounds are so far apart or so near that there are no such Gaussians.
    """
    weight = 1 / (2 * (max(float(n_records), 1.0) + 1))
    entry = {"weight": weight, "bounds": np.asarray(bounds, dtype=float).tolist(), "widths": list(WIDTHS)}
    try:
        far_rows_of({NAME: entry}, len(bounds))
    except ValueError:  # the budget is spent, so go on
        return {}
    return {NAME: entry}


def far_rows_of(noise: Mapping[str, Any], n_features: int) -> tuple[float, Mixture] | None:
    """Weight and law of them in the law of a release, which may be from anywhere; None where it has none.

    TypeError or ValueError unless the weight is a probability, bounds are in order and widths grow from 1.
    """
    entry = noise.get(NAME)
    if entry is None:
        return None
    if not (isinstance(entry, Mapping) and set(entry) == {"weight", "bounds", "widths"}):
        raise ValueError(f"{NAME} must have a weight, bounds and widths, got {shown(entry)}")
    check_probability(**{f"the weight of {NAME}": entry["weight"]})
    bounds = finite_numbers(entry["bounds"], f"the bounds of {NAME}", (n_features, 2))
    if not (bounds[:, 0] < bounds[:, 1]).all():
        raise ValueError(f"the bounds of {NAME} must be in order, got {shown(entry['bounds'])}")
    widths = finite_numbers(entry["widths"], f"the widths of {NAME}")
    if widths.ndim != 1 or not 1 <= widths.size <= MOST_WIDTHS or widths[0] != 1 or not (np.diff(widths) > 0).all():
        given = shown(entry["widths"])
        raise ValueError(f"the widths of {NAME} must be 1 to {MOST_WIDTHS} numbers that grow from 1, got {given}")
    one = as_wide_as(bounds)
    with np.errstate(over="ignore"):
        covariances = np.square(widths)[:, None, None] * one.covariances
    halves = 0.5 ** np.arange(widths.size)
    means = np.repeat(one.means, widths.size, axis=0)
    return float(entry["weight"]), Mixture(halves / halves.sum(), means, covariances)


def with_far_rows(density: Mixture, noise: Mapping[str, Any]) -> Mixture:
    """A density with the far rows of a release's law as its last components; as it is where there are none."""
    return joined(density, far_rows_of(noise, density.n_features))

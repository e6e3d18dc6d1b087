"""Where a narrow component would explain most of what a mixture leaves over: every place is looked at. Post-processing.

The waves see a small group far from all others only from within its own width: random places, however many, and steps
from them pass it by. So the overlap of a component with the residual is computed on a grid as fine as that width, by
products of matrices, since a wave at a point is a product over the coordinates. The points are as many as the widths
that the bounds have, to the power of the number of columns: for two columns, or for more within bounds that are tight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.sketch.model import SketchData, widened
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.dictionary import Dictionary
from pm_dpgmm.mixture.characteristic import component_functions
from pm_dpgmm.privacy.noise import IntArray

SingleArray = NDArray[np.float32]

MULTIPLICATIONS = 1e10  # that a grid may cost, in single precision: about a second
MOST_NUMBERS, MOST_POINTS = 1e7, 1e7  # of the table of an axis, and points: half a gigabyte
CALL = 1e6  # multiplications in the time of a call for two axes
LEAST_ROWS = 600  # numbers that are looked at, at least
STANDS_OUT = 12.0  # fall of the sum of squares beside what the best of so many places has by chance
PEAKS, CONSIDERED, APART = 8, 200, 2  # places, of so many points, at least so many steps from each other


@dataclass(frozen=True, slots=True, eq=False)
class PlaceGrid:
    """Where components of one shape are looked for: points on every axis, as far apart as the shape is wide."""

    factor: FloatArray  # (D, D), of the shape
    axes: list[FloatArray]  # D of them
    stride: int  # one in so many waves is used

    @classmethod
    def over(
        cls, data: SketchData, found: ScaledMixture, low: FloatArray, high: FloatArray, *, effort: float = 1.0
    ) -> PlaceGrid | None:
        """Of a box (D,), (D,), in the unit of the data, for components shaped as the heaviest one.

        It is as wide as it is seen, with the variance floor and rounding. None where so fine a grid costs more than
        ``effort``, over MULTIPLICATIONS, even for a part of the frequencies.
        """
        factor = found.factors[int(found.weights.argmax())]
        if not np.isfinite(factor).all():
            return None
        wide = widened(factor[None], data.variance_floor)[0]
        rounding = np.zeros(len(low)) if data.rounded is None else np.square(data.rounded.resolution) / 12
        with np.errstate(all="ignore"):
            # standard deviations given the other coordinates
            steps = 1 / np.sqrt(np.diagonal(np.linalg.pinv(wide @ wide.T + np.diag(rounding))))
            sizes = np.floor((high - low) / steps) + 1
            points, numbers, calls = np.prod(sizes), data.values.size, np.prod(sizes[:-2])
            stride = max(1.0, np.ceil(points * numbers / (effort * MULTIPLICATIONS)))
        if not (np.isfinite([steps, sizes]).all() and stride <= max(1, numbers // LEAST_ROWS)):
            return None
        if points > MOST_POINTS or sizes.max() * numbers / stride > MOST_NUMBERS:
            return None
        if calls * CALL > effort * MULTIPLICATIONS:
            return None
        axes = [first + step * np.arange(int(size)) for first, step, size in zip(low, steps, sizes, strict=True)]
        return cls(factor, axes, int(stride))

    def places(self, data: SketchData, found: ScaledMixture) -> Dictionary | None:
        """Those that stand out of as many as there are, which noise alone explains; None of none."""
        rows, d = data.thinned(self.stride), len(self.axes)
        shape = component_functions(rows.frequencies, np.zeros((1, d)), self.factor[None])[:, 0].real
        cosines, sines = np.split(-rows.residuals(found) * rows.gain / np.square(rows.deviations), 2)
        values, points = _peaks(shape * cosines, shape * sines, rows.frequencies, self.axes)
        # variance of a value by chance, and the largest square of so many
        power = float(np.square(shape * np.split(rows.gain / rows.deviations, 2)[0]).sum())
        chance = 2 * sum(np.log(len(axis)) for axis in self.axes)
        points = points[(values > 0) & (np.square(values) > (chance + STANDS_OUT) * power)]
        if not len(points):
            return None
        means = np.column_stack([axis[places] for axis, places in zip(self.axes, points.T, strict=True)])
        return Dictionary.of(data, means, np.broadcast_to(self.factor, (len(means), d, d)))


def _peaks(
    cosines: FloatArray, sines: FloatArray, frequencies: FloatArray, axes: Sequence[FloatArray]
) -> tuple[FloatArray, IntArray]:
    """Largest values (PEAKS,) of sum_k a_k cos(w_k.x) + b_k sin(w_k.x) on a grid and their points (PEAKS, D).

    Points are places on the axes; no two of them are neighbours on all axes.
    """
    phases = [np.multiply.outer(axis, column) for axis, column in zip(axes, frequencies.T, strict=True)]
    tables = [(np.cos(phase).astype(np.float32), np.sin(phase).astype(np.float32)) for phase in phases]
    values, places = _largest(cosines.astype(np.float32), sines.astype(np.float32), tables)
    chosen: list[int] = []
    for i in np.argsort(-values, kind="stable").tolist():
        if all(np.abs(places[i] - places[other]).max() >= APART for other in chosen):
            chosen.append(i)
        if len(chosen) == PEAKS:
            break
    return values[chosen], places[chosen]


def _largest(
    cosines: SingleArray, sines: SingleArray, tables: Sequence[tuple[SingleArray, SingleArray]]
) -> tuple[FloatArray, IntArray]:
    """CONSIDERED largest values of that sum, and their points; cosines and sines (G, m) of the phases on each axis."""
    cos, sin = tables[0]
    # the same sum over all other coordinates, once this one is known
    along, across = cosines * cos + sines * sin, sines * cos - cosines * sin  # (G, m)
    if len(tables) == 1:
        grid = along.sum(axis=1)
    elif len(tables) == 2:
        grid = along @ tables[1][0].T + across @ tables[1][1].T
    else:
        found = [_largest(a, b, tables[1:]) for a, b in zip(along, across, strict=True)]
        values = np.concatenate([one for one, _ in found])
        firsts = np.repeat(np.arange(len(found)), [len(one) for one, _ in found])
        places = np.column_stack([firsts, np.concatenate([rest for _, rest in found])])
        kept = _most(values)
        return values[kept], places[kept]
    kept = _most(grid.ravel())
    return grid.ravel()[kept].astype(float), np.column_stack(np.unravel_index(kept, grid.shape))


def _most(values: NDArray[np.floating]) -> IntArray:
    """Places of the CONSIDERED largest, or of all."""
    if values.size <= CONSIDERED:
        return np.arange(values.size)
    return np.argpartition(-values, CONSIDERED)[:CONSIDERED]

"""Noisy Lloyd (k-means) in a public box: DPLloyd with Laplace noise, and one joint Gaussian release a step.

DPLloyd is Su, Cao, Li, Bertino and Jin (2016); Park, Foulds, Chaudhuri and Welling compare private EM with it. As
printed its noise, Lap((D + 1) J / epsilon), is for a record that comes or goes; replacing one takes twice as much.
Proof: lloyd.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, check_count, check_delta, check_positive, freeze
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.mechanisms.em_sums import Squares, noisy_em_sums
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.partitions import VoronoiPartition
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.privacy.noise import IntArray, Rng, discrete_laplace, laplace_scale

GRID = 2**30  # steps of a half-width, and of one record
RADIUS = 1.0  # of the ball around a centre, in half diagonals of the box
MOST_STEPS, MOST_CLUSTERS = 1000, 2**14


@dataclass(frozen=True, slots=True, eq=False)
class NoisyLloyd:
    """Centres of J steps and what they were made of; all of it is released.

    Attributes
    ----------
    centres : ndarray, shape (J + 1, K, D)
        The public start, then those after each step, in the unit of the records, within the box.
    counts : ndarray, shape (J, K)
        Records in the cells of the centres before, with noise.
    guarantee : Guarantee
    """

    centres: FloatArray
    counts: FloatArray
    guarantee: Guarantee
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        j, k, d = np.shape(self.centres)
        freeze(self, centres=(j, k, d), counts=(j - 1, k))


def noisy_lloyd(
    records: ArrayLike,
    start: ArrayLike,
    *,
    bounds: ArrayLike,
    n_steps: int,
    epsilon: float,
    delta: float = 0.0,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    rng: Rng = None,
) -> NoisyLloyd:
    """Steps of k-means from a public start.

    Parameters
    ----------
    records : array_like, shape (N, D)
        Floats, any of them; moved into the box one by one, what is not finite to its middle.
    start : array_like, shape (K, D)
        Public centres, or earlier releases; finite. In the unit of the records.
    bounds : array_like, shape (D, 2)
        The public box.
    n_steps : int
        J.
    epsilon, delta : float
        Of all steps together. delta 0: Laplace noise, DPLloyd; else Gaussian noise.
    neighbouring : Neighbouring
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    NoisyLloyd

    Raises
    ------
    ValueError
        If an argument is not as said. Of arrays of floats it depends on public numbers and the shape alone.

    Guarantee
    ---------
    epsilon-DP, or (epsilon, delta)-DP, of everything in the result, under either relation. Proof: lloyd.md.

    Examples
    --------
    >>> records = np.random.default_rng(1).normal([[-2.0]] * 500 + [[2.0]] * 500)
    >>> found = noisy_lloyd(records, [[-1.0], [1.0]], bounds=[[-5.0, 5.0]], n_steps=3, epsilon=1.0)
    >>> found.centres.shape, found.guarantee.delta
    ((4, 2, 1), 0.0)
    """
    box, first = np.asarray(bounds, dtype=float), np.asarray(start, dtype=float)
    rows = np.asarray(records, dtype=float)
    check_count(n_steps=n_steps, most=MOST_STEPS)
    check_positive(epsilon=epsilon)
    check_delta(delta)
    if box.ndim != 2 or box.shape[1] != 2 or not np.isfinite(box).all() or not (box[:, 0] < box[:, 1]).all():
        raise ValueError(f"bounds must be finite rows of an upper and a lower limit, got {box.tolist()}")
    d = len(box)
    if first.ndim != 2 or first.shape[1] != d or not 1 <= len(first) <= MOST_CLUSTERS or not np.isfinite(first).all():
        raise ValueError(f"start must be finite rows of {d} numbers, got shape {first.shape}")
    if rows.ndim != 2 or rows.shape[1] != d:
        raise ValueError(f"records must have {d} columns, got shape {rows.shape}")
    middle, half = box[:, 0] / 2 + box[:, 1] / 2, box[:, 1] / 2 - box[:, 0] / 2
    relation = Neighbouring.parse(neighbouring)
    centres = [np.clip((first - middle) / half, -1.0, 1.0)]  # in half-widths from here on
    counts = []
    if delta == 0:
        scale = lloyd_scale(d, n_steps, epsilon, relation)
        inside = in_box(rows, middle, half)
        for _ in range(n_steps):
            noisy = cell_sums(inside, centres[-1])
            noisy = noisy + discrete_laplace(noisy.shape, scale=scale, rng=rng)
            counts.append(noisy[:, 0] / GRID)
            centres.append(np.clip(noisy[:, 1:] / np.maximum(noisy[:, :1], GRID), -1.0, 1.0))
        loss, words = PointProfile(epsilon), "DPLloyd with Laplace noise (mechanisms/lloyd.md)"
        guarantee = Guarantee(epsilon, 0.0, relation, words, loss)
    else:
        budget = GaussianFilter.of(epsilon, delta)
        unit = half * math.sqrt(d)
        clipped = np.clip(np.where(np.isfinite(rows), rows, middle), box[:, 0], box[:, 1])
        guarantee = Guarantee(epsilon, delta, relation, "noisy Lloyd (mechanisms/lloyd.md)", budget.loss())
        for _ in range(n_steps):
            at = centres[-1] / math.sqrt(d)
            cells = VoronoiPartition(middle, unit, at, np.full(len(at), RADIUS))
            settings = {"share": Fraction(1, n_steps), "neighbouring": relation, "rng": rng}
            found, budget = noisy_em_sums(clipped, cells, squares=Squares.NONE, budget=budget, **settings)  # type: ignore[arg-type]
            counts.append(found.counts)
            moved = at + RADIUS * found.sums / np.maximum(found.counts, 1.0)[:, None]
            centres.append(np.clip(moved * math.sqrt(d), -1.0, 1.0))
    return NoisyLloyd(middle + half * np.array(centres), np.array(counts), guarantee)


def lloyd_scale(n_features: int, n_steps: int, epsilon: float, neighbouring: Neighbouring) -> float:
    """Of the integer noise of each step, in grid steps: (D + 1) J / epsilon of them, twice for a replaced record."""
    changed = (n_features + 1) * GRID * n_steps
    return laplace_scale(2 * changed if neighbouring is Neighbouring.REPLACE_ONE else changed, epsilon)


def in_box(records: FloatArray, middle: FloatArray, half: FloatArray) -> IntArray:
    """Grid steps of every coordinate in [-1, 1], what is not finite as 0; row by row."""
    with np.errstate(all="ignore"):
        y = (records - middle) / half
        return np.rint(np.clip(np.where(np.isfinite(y), y, 0.0), -1.0, 1.0) * GRID).astype(np.int64)


def cell_sums(inside: IntArray, centres: FloatArray) -> IntArray:
    """Count, in ``GRID`` for each record, and sums of the records nearest to every centre, (K, 1 + D)."""
    y = np.ascontiguousarray(inside) / GRID  # else the order of a sum over columns depends on how many rows there are
    nearest = np.stack([np.square(y - centre).sum(axis=1) for centre in centres], axis=1).argmin(axis=1)
    out = np.zeros((len(centres), 1 + y.shape[1]), dtype=np.int64)
    np.add.at(out, nearest, np.concatenate([np.full((len(inside), 1), GRID, dtype=np.int64), inside], axis=1))
    return out

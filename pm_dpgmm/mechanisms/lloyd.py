"""Noisy Lloyd (k-means) in a public box: DPLloyd with Laplace noise, and one joint Gaussian release a step.

DPLloyd is Su, Cao, Li, Bertino and Jin (2016); Park, Foulds, Chaudhuri and Welling compare private EM with it. As
printed its noise, Lap((D + 1) J / epsilon), is for a record that comes or goes; replacing one takes twice as much.
Proof: lloyd.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, check_count, check_delta, check_positive, freeze
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.mechanisms.em_sums import Squares, noise_scale, noisy_em_sums
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.partitions import VoronoiPartition
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring, replaces_one
from pm_dpgmm.privacy.noise import IntArray, Rng, discrete_laplace, laplace_scale

GRID = 2**30  # steps of a half-width, and of one record
RADIUS = 1.0  # of the ball around a centre, in half diagonals of the box
LEAST_REACH = 0.05  # of the cube in which a cluster's squares are measured, in half-widths
MOST_STEPS, MOST_CLUSTERS = 1000, 2**14
BLOCK = 2**16  # records, and
MOST_DISTANCES = 2**22  # distances from them, in memory
LARGEST_EPSILON = 1e9  # of Laplace noise: it must be wider than the grid


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSums:
    """What one step released, and the public numbers that it was made with.

    A record x belongs to the nearest centre, in half-widths of the box, and adds 1, y and, if squares are asked for,
    |y|^2 to its cluster, y = (x - origin) / (unit radius) moved into a cube or ball of length at most 1.

    Attributes
    ----------
    centres : ndarray, shape (K, D)
        In the unit of the records.
    origins : ndarray, shape (K, D)
        In the unit of the records: the middle of the box, or the centres.
    unit : ndarray, shape (D,)
        Half-widths of the box times sqrt(D).
    radii : ndarray, shape (K,)
    counts : ndarray, shape (K,)
        With noise, like all that follows.
    sums : ndarray, shape (K, D)
        Of y.
    squares : ndarray, shape (K, C)
        Of |y|^2, C = 1, or none, C = 0.
    scales : ndarray, shape (3,)
        Standard deviations of the noise of counts, sums and squares.
    """

    centres: FloatArray
    origins: FloatArray
    unit: FloatArray
    radii: FloatArray
    counts: FloatArray
    sums: FloatArray
    squares: FloatArray
    scales: FloatArray
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        k, d = np.shape(self.centres)
        freeze(self, centres=(k, d), origins=(k, d), unit=(d,), radii=(k,))
        freeze(self, counts=(k,), sums=(k, d), squares=(k, np.shape(self.squares)[1]), scales=(3,))

    @property
    def moved(self) -> FloatArray:
        """The next centres, (K, D), before they are held within the box."""
        average = self.sums / np.maximum(self.counts, 1.0)[:, None]
        return np.asarray(self.origins + self.unit * self.radii[:, None] * average)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyLloyd:
    """J steps, and the centres that follow from them; all of it is released.

    Attributes
    ----------
    centres : ndarray, shape (K, D)
        After the last step, in the unit of the records, within the box.
    steps : tuple of ClusterSums
        J of them; each has the centres that it began with.
    guarantee : Guarantee
    """

    centres: FloatArray
    steps: tuple[ClusterSums, ...]
    guarantee: Guarantee
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        freeze(self, centres=np.shape(self.steps[-1].centres))


def noisy_lloyd(
    records: ArrayLike,
    start: ArrayLike,
    *,
    bounds: ArrayLike,
    n_steps: int,
    epsilon: float,
    delta: float = 0.0,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    squares: bool = False,
    told: Told | None = None,
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
    squares : bool
        Whether the last step has squared lengths, too, around the centres that it begins with.
    told : function, optional
        Called after every step with all that is released by then, before the records are read again. What it gives are
        the next centres, (any number, D); None: those that the step moved to.
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
    >>> found.centres.shape, found.steps[0].sums.shape, found.guarantee.delta
    ((2, 1), (2, 1), 0.0)
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
    relation = Neighbouring.parse(neighbouring)
    guarantee = lloyd_guarantee(epsilon, delta, relation)
    middle, half = box[:, 0] / 2 + box[:, 1] / 2, box[:, 1] / 2 - box[:, 0] / 2
    release: _Laplace | _Gaussian
    if delta == 0:
        scale = lloyd_scale(d, n_steps, epsilon, relation, squares=squares)
        release = _Laplace(in_box(rows, middle, half), middle, half, scale, rng)
    else:
        clipped = np.clip(np.where(np.isfinite(rows), rows, middle), box[:, 0], box[:, 1])
        release = _Gaussian(clipped, middle, half, GaussianFilter.of(epsilon, delta), relation, rng)
    at = np.clip((first - middle) / half, -1.0, 1.0)  # in half-widths
    steps: tuple[ClusterSums, ...] = ()
    shares = lloyd_shares(n_steps, squares=squares)
    for t, share in enumerate(shares):
        steps = (*steps, release.step(at, share, squares=squares and t + 1 == n_steps))
        following = None if told is None else told(steps)
        moved = steps[-1].moved if following is None else following
        at = np.clip((moved - middle) / half, -1.0, 1.0)
    return NoisyLloyd(middle + half * np.clip((steps[-1].moved - middle) / half, -1.0, 1.0), steps, guarantee)


Told = Callable[[tuple[ClusterSums, ...]], FloatArray | None]


# ---------------------------------------------------------------------- one step
@dataclass(slots=True)
class _Laplace:
    """Steps with Laplace noise; ``inside`` are records in grid steps of the box."""

    inside: IntArray
    middle: FloatArray
    half: FloatArray
    scale: float
    rng: Rng

    def step(self, at: FloatArray, share: Fraction, *, squares: bool) -> ClusterSums:
        """The noise has one scale for all steps, so the share is not asked."""
        k, d = at.shape
        radii = reaches(at) if squares else None
        noisy = cell_sums(self.inside, at, radii)
        noisy = noisy + discrete_laplace(noisy.shape, scale=self.scale, rng=self.rng)
        sums, deviation = noisy / GRID, math.sqrt(2) * self.scale / GRID
        centres = self.middle + self.half * at
        return ClusterSums(
            centres,
            np.broadcast_to(self.middle, (k, d)) if radii is None else centres,
            self.half * math.sqrt(d),
            np.ones(k) if radii is None else radii,
            sums[:, 0],
            sums[:, 1 : 1 + d] / math.sqrt(d),
            sums[:, 1 + d :],
            deviation * np.array([1.0, 1 / math.sqrt(d), 1.0]),
        )


@dataclass(slots=True)
class _Gaussian:
    """Steps with Gaussian noise, each for a share of one filter; ``clipped`` are records within the box."""

    clipped: FloatArray
    middle: FloatArray
    half: FloatArray
    budget: GaussianFilter
    neighbouring: Neighbouring
    rng: Rng

    def step(self, at: FloatArray, share: Fraction, *, squares: bool) -> ClusterSums:
        """One joint release of all clusters."""
        k, d = at.shape
        unit, radii = self.half * math.sqrt(d), reaches(at) if squares else np.full(k, RADIUS)
        cells = VoronoiPartition(self.middle, unit, at / math.sqrt(d), radii)
        kind = Squares.ISOTROPIC if squares else Squares.NONE
        ways: dict[str, Any] = {"share": share, "neighbouring": self.neighbouring, "rng": self.rng}
        found, self.budget = noisy_em_sums(self.clipped, cells, squares=kind, budget=self.budget, **ways)
        centres = self.middle + self.half * at
        return ClusterSums(centres, centres, unit, radii, found.counts, found.sums, found.squares, found.scales[:3])


# ---------------------------------------------------------------------- public numbers
def lloyd_guarantee(epsilon: float, delta: float, neighbouring: Neighbouring) -> Guarantee:
    """What :func:`noisy_lloyd` promises."""
    if delta == 0:
        words, loss = "DPLloyd with Laplace noise (mechanisms/lloyd.md)", PointProfile(epsilon)
        return Guarantee(epsilon, 0.0, neighbouring, words, loss)
    normal = GaussianFilter.of(epsilon, delta).loss()
    return Guarantee(epsilon, delta, neighbouring, "noisy Lloyd (mechanisms/lloyd.md)", normal)


def lloyd_scale(
    n_features: int, n_steps: int, epsilon: float, neighbouring: Neighbouring, *, squares: bool = False
) -> float:
    """Of the integer noise of each step, in grid steps: (D + 1) J / epsilon of them, twice for a replaced record.

    Squares of the last step add one to (D + 1) J.
    """
    changed = ((n_features + 1) * n_steps + squares) * GRID
    return laplace_scale(2 * changed if replaces_one(neighbouring) else changed, epsilon)


def lloyd_shares(n_steps: int, *, squares: bool) -> list[Fraction]:
    """Of a filter's limit, step by step: sums have the same noise in all; squares need 9/4 where others need 2."""
    if not squares:
        return [Fraction(1, n_steps)] * n_steps
    whole = 8 * n_steps + 1
    return [Fraction(8, whole)] * (n_steps - 1) + [Fraction(9, whole)]


def lloyd_noise(
    n_features: int,
    sizes: Sequence[int],
    *,
    epsilon: float,
    delta: float,
    neighbouring: Neighbouring,
    squares: bool,
) -> float:
    """Standard deviation of the noise of a sum in half-widths, as :func:`noisy_lloyd` has it.

    ``sizes`` are the numbers of clusters, step by step.

    Raises
    ------
    ValueError
        If noise cannot be drawn for so little, or so much: then nothing can be released.
    """
    if delta == 0:
        if epsilon > LARGEST_EPSILON:
            raise ValueError(f"epsilon must be at most {LARGEST_EPSILON:g} for integer noise, got {epsilon:g}")
        return math.sqrt(2) * lloyd_scale(n_features, len(sizes), epsilon, neighbouring, squares=squares) / GRID
    budget, found = GaussianFilter.of(epsilon, delta), 0.0
    for t, (k, share) in enumerate(zip(sizes, lloyd_shares(len(sizes), squares=squares), strict=True)):
        kind = Squares.ISOTROPIC if squares and t + 1 == len(sizes) else Squares.NONE
        scale, budget = noise_scale(kind, neighbouring, k, n_features, budget=budget, share=share)
        found = max(found, scale * math.sqrt(n_features) * RADIUS)
    return found


def reaches(centres: FloatArray) -> FloatArray:
    """Half-sides (K,) of the cubes in which squares are measured: to the nearest other centre, if any. Half-widths."""
    apart = np.abs(centres[:, None] - centres).max(axis=2)
    np.fill_diagonal(apart, np.inf)
    return np.clip(apart.min(axis=1), LEAST_REACH, 1 + np.abs(centres).max(axis=1))


# ---------------------------------------------------------------------- records
def in_box(records: FloatArray, middle: FloatArray, half: FloatArray) -> IntArray:
    """Grid steps of every coordinate in [-1, 1], what is not finite as 0; row by row."""
    with np.errstate(all="ignore"):
        y = np.clip((records - middle) / half, -1.0, 1.0)  # infinite for a number far outside a narrow box: its end
        return np.rint(np.where(np.isfinite(records) & np.isfinite(y), y, 0.0) * GRID).astype(np.int64)


def cell_sums(inside: IntArray, centres: FloatArray, radii: FloatArray | None = None) -> IntArray:
    """Count, in ``GRID`` for each record, and sums of the records nearest to every centre, (K, 1 + D).

    With ``radii`` the sums are of offsets from the centre in cubes of these half-sides, and a last column has the means
    of their squares, (K, 2 + D).
    """
    width = 1 + inside.shape[1] + (radii is not None)
    out = np.zeros((len(centres), width), dtype=np.int64)
    rows = max(1, min(BLOCK, MOST_DISTANCES // len(centres)))
    for i in range(0, len(inside), rows):
        each = inside[i : i + rows]
        y = np.ascontiguousarray(each) / GRID  # else the order of a sum over columns depends on how many rows there are
        nearest = np.stack([np.square(y - centre).sum(axis=1) for centre in centres], axis=1).argmin(axis=1)
        if radii is not None:
            z = np.clip((y - centres[nearest]) / radii[nearest][:, None], -1.0, 1.0)
            means = np.clip(np.square(z).sum(axis=1, keepdims=True) / z.shape[1], 0.0, 1.0)
            each = np.rint(np.concatenate([z, means], axis=1) * GRID).astype(np.int64)
        np.add.at(out, nearest, np.concatenate([np.full((len(each), 1), GRID, dtype=np.int64), each], axis=1))
    return out

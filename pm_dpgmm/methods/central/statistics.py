"""What method "central" releases: noisy sums of Bernstein polynomials in cells with soft edges, level by level.

Layout of a release (T levels of G_t cells, D features, B = (D + 1)(D + 2)/2):

=========================  =====================  ====================================================================
in ``raw``                 shape                  meaning
=========================  =====================  ====================================================================
central_cells_0, ...       (G_t, D^2 + D + 2)     public cells of a level, made of public numbers and earlier levels:
                                                  weight, centre, covariance, radius; a record's share in each is its
                                                  posterior probability; unit of the records but the radius, which is in
                                                  half-widths of the bounds
central_sums_0, ...        (G_t, B)               sums over the records of share times polynomial, plus noise; y is
                                                  (x - centre)/half-width/radius, moved to the unit sphere from outside
central_scale_0, ...       ()                     standard deviation of the independent noise of a level
central_bounds             (D, 2)                 box to which every record is clipped before anything else
central_n_records          ()                     number of records where it is public; else the sums say it
=========================  =====================  ====================================================================

Cells and their shares are those of a step of EM (:class:`pm_dpgmm.methods.em.statistics.EMStatistics`), and so is the
law of their sums (:mod:`pm_dpgmm.methods.em.law`): a polynomial is a linear function of the features (1, y, y y').
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, finite_numbers, frozen
from pm_dpgmm.mechanisms.bernstein_sums import NoisySums, n_polynomials, polynomials
from pm_dpgmm.mechanisms.partitions import SoftPartition
from pm_dpgmm.methods.em.statistics import EMStatistics

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released

PREFIX = "central_"
MOST_LEVELS = 16
UNKNOWN = 10.0  # width of the law of an unknown number of records, in standard deviations of what the sums say of it


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Public cells and their noisy sums.

    Attributes
    ----------
    cells : EMStatistics
        One step whose components are the cells; its own sums are 0 and mean nothing.
    sums : ndarray, shape (G, B)
    scale : float
    """

    cells: EMStatistics
    sums: FloatArray
    scale: float

    def __post_init__(self) -> None:
        g, d = self.cells.shape[1:]
        object.__setattr__(self, "sums", frozen(finite_numbers(self.sums, "central_sums", (g, n_polynomials(d)))))
        if not 0 < self.scale < np.inf:
            raise ValueError(f"central_scale must be finite and greater than 0, got {self.scale}")

    @classmethod
    def of(cls, cells: EMStatistics, found: NoisySums) -> Level:
        """After a release."""
        return cls(cells, found.values, found.noise_scale)

    @property
    def noisy(self) -> NoisySums:
        """What was released, as the mechanism gave it."""
        return NoisySums(partition_of(self.cells), self.sums, self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class CentralStatistics:
    """Noisy sums of all levels and their public law.

    Attributes
    ----------
    levels : tuple of Level
        Of the same bounds.
    public_records : float or None
        None: private, as under add-remove neighbours.
    n_records, n_records_scale : float
        The public number and 0; or what the sums say of it, and :data:`UNKNOWN` times the noise of that: an unknown
        number is integrated over with a law that is nearly flat.

    Raises
    ------
    ValueError
        If there is none, too many, or they contradict each other.
    """

    levels: tuple[Level, ...]
    public_records: float | None = None
    n_records: float = field(init=False)
    n_records_scale: float = field(init=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.levels) <= MOST_LEVELS:
            raise ValueError(f"central_cells must have 1 to {MOST_LEVELS} levels, got {len(self.levels)}")
        n, noise = (self.public_records, 0.0) if self.public_records is not None else counted(self.levels)
        if not n >= 0 and self.public_records is not None:
            raise ValueError(f"{PREFIX}n_records must be at least 0, got {n}")
        object.__setattr__(self, "n_records", max(float(n), 1.0))
        object.__setattr__(self, "n_records_scale", UNKNOWN * noise)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(1, cells of all levels, D)."""
        return 1, sum(one.cells.shape[1] for one in self.levels), len(self.bounds)

    @property
    def bounds(self) -> FloatArray:
        """(D, 2)."""
        return self.levels[0].cells.bounds

    @property
    def unit(self) -> FloatArray:
        """Half-widths of the bounds, (D,)."""
        return self.levels[0].cells.unit

    @property
    def centres(self) -> FloatArray:
        """Of the cells of all levels, (1, G, D)."""
        return np.concatenate([one.cells.centres for one in self.levels], axis=1)

    @property
    def covariances(self) -> FloatArray:
        """Of the cells of all levels, (1, G, D, D)."""
        return np.concatenate([one.cells.covariances for one in self.levels], axis=1)

    @property
    def radii(self) -> FloatArray:
        """Of the cells of all levels, (1, G)."""
        return np.concatenate([one.cells.radii for one in self.levels], axis=1)

    @property
    def values(self) -> FloatArray:
        """All noisy sums, shape (P,): by levels, cells, polynomials."""
        return np.concatenate([one.sums.ravel() for one in self.levels])

    @property
    def noise_scales(self) -> FloatArray:
        """Standard deviations of the noise in :attr:`values`, shape (P,)."""
        return np.concatenate([np.full(one.sums.size, one.scale) for one in self.levels])

    def features(self, points: ArrayLike) -> FloatArray:
        """What one record at each row of ``points`` (N, D) adds to :attr:`values` before noise, shape (N, P)."""
        return np.concatenate([one.cells.features(points) @ cell_polynomials(one.cells) for one in self.levels], axis=1)

    def to_arrays(self) -> dict[str, FloatArray]:
        """Arrays for ``raw``, by the names of the module's table; :meth:`of` reads them."""
        found = {
            PREFIX + "bounds": self.bounds,
        }
        if self.public_records is not None:
            found[PREFIX + "n_records"] = np.asarray(self.public_records)
        for t, one in enumerate(self.levels):
            g, d = one.cells.shape[1:]
            covariances = one.cells.covariances[0].reshape(g, d * d)
            columns = one.cells.weights[0][:, None], one.cells.centres[0], covariances, one.cells.radii[0][:, None]
            found |= {f"{PREFIX}cells_{t}": np.concatenate(columns, axis=1), f"{PREFIX}sums_{t}": one.sums}
            found[f"{PREFIX}scale_{t}"] = np.asarray(one.scale)
        return found

    @classmethod
    def of(cls, release: Released) -> CentralStatistics:
        """Those in a release; ValueError when it holds none or contradicts itself.

        With a public ``release.n_records`` that is the count and has no noise; without, the count must have some.
        """
        found = cls.from_arrays(release.raw)
        if found.public_records != release.n_records:
            rule = "central_n_records must be the public number of records of the release"
            raise ValueError(f"{rule}, {release.n_records}, got {found.public_records}")
        return found

    @classmethod
    def from_arrays(cls, raw: Mapping[str, FloatArray]) -> CentralStatistics:
        """Inverse of :meth:`to_arrays`."""
        n_levels = next(t for t in range(MOST_LEVELS + 1) if f"{PREFIX}cells_{t}" not in raw or t == MOST_LEVELS)
        names = [f"{PREFIX}{part}_{t}" for t in range(max(n_levels, 1)) for part in ("cells", "sums", "scale")]
        missing = [name for name in [PREFIX + "bounds", *names] if name not in raw]
        if missing:
            raise ValueError(f"release must hold the sums of cells, got one without {', '.join(missing)}")
        bounds = finite_numbers(raw[PREFIX + "bounds"], PREFIX + "bounds")
        if bounds.ndim != 2 or bounds.shape[1] != 2 or not (bounds[:, 0] < bounds[:, 1]).all():
            raise ValueError(f"{PREFIX}bounds must have increasing rows of two numbers, got shape {bounds.shape}")
        d, levels = len(bounds), []
        for t in range(n_levels):
            table = finite_numbers(raw[f"{PREFIX}cells_{t}"], f"{PREFIX}cells_{t}")
            if table.ndim != 2 or table.shape[1] != d * d + d + 2 or not len(table):
                raise ValueError(f"{PREFIX}cells_{t} must have {d * d + d + 2} columns, got shape {table.shape}")
            weights, centres, covariances, radii = np.split(table, [1, 1 + d, 1 + d + d * d], axis=1)
            cells = cells_of(weights[:, 0], centres, covariances.reshape(-1, d, d), radii[:, 0], bounds)
            scale = float(finite_numbers(raw[f"{PREFIX}scale_{t}"], f"{PREFIX}scale_{t}", ()))
            levels.append(Level(cells, raw[f"{PREFIX}sums_{t}"], scale))
        n = raw.get(PREFIX + "n_records")
        return cls(tuple(levels), None if n is None else float(finite_numbers(n, PREFIX + "n_records", ())))


def cells_of(
    weights: ArrayLike, centres: ArrayLike, covariances: ArrayLike, radii: ArrayLike, bounds: FloatArray
) -> EMStatistics:
    """Cells of one level, in the unit of the records but ``radii``."""
    return EMStatistics.of_step(weights, centres, covariances, bounds=bounds, scale=1.0, centres=centres, radii=radii)


def partition_of(cells: EMStatistics) -> SoftPartition:
    """Cells of one level as parts of the records."""
    middle, unit = cells.bounds[:, 0] / 2 + cells.bounds[:, 1] / 2, cells.unit
    factors = np.linalg.cholesky(cells.covariances[0] / unit[:, None] / unit)
    means = (cells.centres[0] - middle) / unit
    logs = np.log(cells.weights[0]) - np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    return SoftPartition(middle, unit, logs, means, np.tril(np.linalg.inv(factors)), cells.radii[0])


def cell_polynomials(cells: EMStatistics) -> FloatArray:
    """Matrix from the features of a step, by kinds and then cells, to polynomials, by cells."""
    _, g, d = cells.shape
    one = polynomials(d)  # (1 + D + C, B)
    out = np.zeros((g * len(one), g, one.shape[1]))
    c = len(one) - 1 - d
    for j in range(g):
        rows = np.concatenate([[j], g + j * d + np.arange(d), g + g * d + j * c + np.arange(c)])
        out[rows, j] = one
    return out.reshape(len(out), -1)


def counted(levels: Sequence[Level]) -> tuple[float, float]:
    """Number of records that the sums of all levels say, and the standard deviation of its noise."""
    totals = np.array([one.sums.sum() for one in levels])
    weights = np.array([1 / (one.sums.size * one.scale**2) for one in levels])
    return float(weights @ totals / weights.sum()), float(1 / np.sqrt(weights.sum()))

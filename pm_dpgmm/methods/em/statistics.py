"""What the steps of a private EM release: noisy sums of what every record adds at public parameters.

Layout of a release of method "em" (T steps, K components, D features, C squares):

==================  ===========  =====================================================================================
in ``raw``          shape        meaning
==================  ===========  =====================================================================================
em_weights          (T, K)       public parameters of every step, made of public numbers and of earlier steps' noisy
em_means            (T, K, D)    sums; the responsibilities r_k(x) are those of this mixture; unit of the records
em_covariances      (T, K, D, D)
em_centres          (T, K, D)    balls: y_k(x) = (x - centre_k) / unit / radius_k, moved to the unit sphere from outside
em_radii            (T, K)       no unit
em_unit             (D,)         of the columns, for the balls only
em_bounds           (D, 2)       box to which every record is clipped before anything else
em_counts           (T, K)       sum of r_k, plus noise
em_sums             (T, K, D)    sum of r_k y_k, plus noise
em_squares          (T, K, C)    sum of r_k times squares of y_k, plus noise: the upper triangle of y_k y_k' by rows,
                                 C = D (D + 1) / 2; those of its entries, C = D; or its squared length, C = 1
em_scales           (T, 4)       standard deviations of the independent Gaussian noise: of counts, of sums, of squares,
                                 of products of two different columns
em_n_records        ()           number of records, under add-remove neighbours plus noise of
em_n_records_scale  ()           this standard deviation; 0 under replace-one neighbours
==================  ===========  =====================================================================================

Classical private EM on the unit ball has all centres at the middle of the bounds and one radius for all. Balls around
the components need less noise; :class:`pm_dpgmm.mechanisms.partitions.SoftPartition` has them. With |y| <= 1, counts
weighted by 1/2 and entries off the diagonal by sqrt(2), replacing a record moves one step's sums by at most sqrt(9/2)
in L2 (mechanisms/moments.md), so noise of scale s on these has scales (2 s, s, s, s / sqrt(2)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pm_dpgmm._arguments import FloatArray, frozen
from pm_dpgmm.mechanisms.em_sums import Squares

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released

PREFIX = "em_"
KINDS = (Squares.FULL, Squares.DIAGONAL, Squares.ISOTROPIC)  # in this order: in one column they are the same
_SHARED = ("unit", "bounds", "n_records", "n_records_scale")  # by all steps


class FeatureSums(Protocol):
    """What law and fit ask of noisy sums over the records: :class:`EMStatistics`, or those of cells (method "central").

    Shapes as in :class:`EMStatistics`: parts of G components or cells in T steps.
    """

    @property
    def shape(self) -> tuple[int, int, int]: ...
    @property
    def bounds(self) -> FloatArray: ...
    @property
    def unit(self) -> FloatArray: ...
    @property
    def centres(self) -> FloatArray: ...
    @property
    def covariances(self) -> FloatArray: ...
    @property
    def radii(self) -> FloatArray: ...
    @property
    def n_records(self) -> FloatArray | float: ...
    @property
    def n_records_scale(self) -> FloatArray | float: ...
    @property
    def values(self) -> FloatArray: ...
    @property
    def noise_scales(self) -> FloatArray: ...
    def features(self, points: ArrayLike) -> FloatArray:
        """What one record at each row of ``points`` adds to :attr:`values` before noise."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class EMStatistics:
    """Noisy statistics of T steps of EM and their public law; fields and shapes as in the table of the module.

    Raises
    ------
    ValueError
        If a shape is wrong, a number not finite, a noise scale not positive, bounds empty or a covariance singular.

    Examples
    --------
    >>> one = EMStatistics.of_step([0.5, 0.5], [[-1.0], [1.0]], [[[1.0]], [[1.0]]], bounds=[[-4.0, 4.0]], scale=9.0)
    >>> one.features([[-1.0], [9.0]]).round(2)
    array([[ 0.88,  0.12, -0.22, -0.03,  0.06,  0.01],
           [ 0.  ,  1.  ,  0.  ,  1.  ,  0.  ,  1.  ]])
    >>> one.noise_scales
    array([18., 18.,  9.,  9.,  9.,  9.])
    """

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    centres: FloatArray
    radii: FloatArray
    unit: FloatArray
    bounds: FloatArray
    counts: FloatArray
    sums: FloatArray
    squares: FloatArray
    scales: FloatArray
    n_records: FloatArray
    n_records_scale: FloatArray

    def __post_init__(self) -> None:
        if np.ndim(self.means) != 3:
            raise ValueError(f"em_means must have shape (T, K, D), got {np.shape(self.means)}")
        t, k, d = np.shape(self.means)
        shapes = {
            "weights": (t, k),
            "means": (t, k, d),
            "covariances": (t, k, d, d),
            "centres": (t, k, d),
            "radii": (t, k),
            "unit": (d,),
            "bounds": (d, 2),
            "counts": (t, k),
            "sums": (t, k, d),
            "squares": (t, k, Squares.FULL.size(d)),
            "scales": (t, 4),
            "n_records": (),
            "n_records_scale": (),
        }
        if np.ndim(self.squares) == 3:
            found = np.shape(self.squares)[2]
            if found in [one.size(d) for one in KINDS]:
                shapes["squares"] = (t, k, found)
        for name, shape in shapes.items():
            array = np.array(getattr(self, name), dtype=float)
            if array.shape != shape:
                raise ValueError(f"{PREFIX}{name} must have shape {shape}, got {array.shape}")
            if not np.isfinite(array).all():
                raise ValueError(f"{PREFIX}{name} must hold finite numbers")
            object.__setattr__(self, name, frozen(array))
        for name in ("weights", "radii", "unit", "scales"):
            least = getattr(self, name).min()
            if not least > 0:
                raise ValueError(f"{PREFIX}{name} must be greater than 0, got {least}")
        if not (self.bounds[:, 0] < self.bounds[:, 1]).all():
            raise ValueError(f"{PREFIX}bounds must increase, got {self.bounds.tolist()}")
        if self.n_records_scale < 0:
            raise ValueError(f"{PREFIX}n_records_scale must be at least 0, got {self.n_records_scale}")
        if not np.linalg.eigvalsh(self.covariances).min() > 0:
            raise ValueError(f"{PREFIX}covariances must be positive definite")

    @classmethod
    def of_step(
        cls,
        weights: ArrayLike,
        means: ArrayLike,
        covariances: ArrayLike,
        *,
        bounds: ArrayLike,
        scale: float,
        centres: ArrayLike | None = None,
        radii: ArrayLike | None = None,
        n_records: float = 1.0,
        n_records_scale: float = 0.0,
        squares: str = "full",
        unit: ArrayLike | None = None,
    ) -> EMStatistics:
        """One step at public parameters, all its sums 0 so far; noise ``scale`` as in the module's last paragraph.

        Without ``centres`` and ``radii`` every ball is the one around the box ``bounds`` (half-widths as units), so
        that nothing inside the box is moved. ``squares`` is one of :class:`Squares`, not "none"; ``unit`` that of the
        columns if it is another. :meth:`with_sums` adds what a mechanism releases.
        """
        mu, box = np.asarray(means, dtype=float), np.asarray(bounds, dtype=float)
        k, d = mu.shape
        half = box[:, 1] / 2 - box[:, 0] / 2
        whole = half if unit is None else np.asarray(unit, dtype=float)
        middle = np.broadcast_to(box[:, 0] + half, (k, d)) if centres is None else centres
        reach = np.full(k, np.sqrt(d)) if radii is None else radii
        c = Squares(squares).size(d)
        own = [np.asarray(one, dtype=float)[None] for one in (weights, mu, covariances, middle, reach)]
        return cls(
            own[0],
            own[1],
            own[2],
            own[3],
            own[4],
            whole,
            box,
            np.zeros((1, k)),
            np.zeros((1, k, d)),
            np.zeros((1, k, c)),
            scale * np.array([[2.0, 1.0, 1.0, np.sqrt(0.5)]]),
            np.asarray(float(n_records)),
            np.asarray(float(n_records_scale)),
        )

    def with_sums(self, values: ArrayLike) -> EMStatistics:
        """The same law with other numbers, in the order of :attr:`values`."""
        t, k, d = self.shape
        table = np.reshape(np.asarray(values, dtype=float), (t, -1))
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        given["counts"] = table[:, :k]
        given["sums"] = table[:, k : k + k * d].reshape(t, k, d)
        given["squares"] = table[:, k + k * d :].reshape(t, k, -1)
        return EMStatistics(**given)

    def then(self, other: EMStatistics) -> EMStatistics:
        """The steps of ``self`` and then those of ``other``, of the same records and bounds."""
        joined = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in joined:
            if name not in _SHARED:
                joined[name] = np.concatenate([joined[name], getattr(other, name)])
        return EMStatistics(**joined)

    def last(self) -> EMStatistics:
        """The last step alone."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return EMStatistics(**{name: one if name in _SHARED else one[-1:] for name, one in given.items()})

    @property
    def shape(self) -> tuple[int, int, int]:
        """(T, K, D)."""
        return self.means.shape

    @property
    def kind(self) -> Squares:
        """Which second moments there are; in one column all are the same, and full."""
        return next(one for one in KINDS if one.size(self.means.shape[2]) == self.squares.shape[2])

    @property
    def products(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns of the entries of y y' that squares are made of; "isotropic" is the sum of them."""
        d = self.means.shape[2]
        if self.kind is Squares.FULL:
            row, column = np.triu_indices(d)
            return row, column
        return np.arange(d), np.arange(d)

    @property
    def values(self) -> FloatArray:
        """All noisy sums, shape (P,), P = T K (1 + D + C): by steps, in a step counts, sums, squares."""
        t = len(self.counts)
        return np.concatenate([one.reshape(t, -1) for one in (self.counts, self.sums, self.squares)], axis=1).ravel()

    @property
    def noise_scales(self) -> FloatArray:
        """Standard deviations of the noise in :attr:`values`, shape (P,)."""
        _, k, d = self.shape
        row, column = self.products
        if self.kind is Squares.ISOTROPIC:
            row = column = np.zeros(1, dtype=np.intp)
        kinds = np.concatenate([np.zeros(k), np.ones(k * d), np.tile(np.where(row == column, 2, 3), k)]).astype(int)
        return self.scales[:, kinds].ravel()

    def features(self, points: ArrayLike) -> FloatArray:
        """What one record at each row of ``points`` (N, D) adds to :attr:`values` before noise, shape (N, P)."""
        t, k, d = self.shape
        x = np.clip(np.asarray(points, dtype=float), self.bounds[:, 0], self.bounds[:, 1]).T.copy()
        whiteners = np.linalg.inv(np.linalg.cholesky(self.covariances))
        logs = np.log(self.weights) + np.log(np.diagonal(whiteners, axis1=2, axis2=3)).sum(axis=2)
        row, column = self.products
        width = self.squares.shape[2]
        out = np.empty((t, k * (1 + d + width), x.shape[1]))  # a feature of all points side by side: much faster
        for s in range(t):
            shares, sums, squares = np.split(out[s], [k, k + k * d])
            for j in range(k):
                z = whiteners[s, j] @ (x - self.means[s, j][:, None])
                shares[j] = logs[s, j] - 0.5 * np.square(z).sum(axis=0)
            shares -= shares.max(axis=0)
            np.exp(shares, out=shares)
            shares /= shares.sum(axis=0)
            for j in range(k):
                y = (x - self.centres[s, j][:, None]) / (self.unit * self.radii[s, j])[:, None]
                y /= np.sqrt(np.maximum(np.square(y).sum(axis=0), 1.0))
                moved = np.multiply(y, shares[j], out=sums[j * d : (j + 1) * d])
                own = squares[j * width : (j + 1) * width]
                if self.kind is Squares.ISOTROPIC:
                    np.sum(moved * y, axis=0, out=own[0])
                    continue
                for i, (a, b) in enumerate(zip(row, column, strict=True)):
                    np.multiply(moved[a], y[b], out=own[i])
        return out.reshape(-1, x.shape[1]).T

    def to_arrays(self) -> dict[str, FloatArray]:
        """Arrays for ``raw``, by the names of the module's table; :meth:`of` reads them."""
        return {PREFIX + one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def of(cls, release: Released) -> EMStatistics:
        """Those in a release; ValueError when it holds none or contradicts itself.

        With a public ``release.n_records`` that is the count and has no noise; without, the count must have some.
        """
        found = cls.from_arrays(release.raw)
        if release.n_records is None:
            if found.n_records_scale == 0:
                raise ValueError(
                    "em_n_records_scale must be greater than 0: the release's number of records is private"
                )
        elif found.n_records != release.n_records or found.n_records_scale != 0:
            raise ValueError(
                f"em_n_records must be the public number of records without noise, {release.n_records},"
                f" got {float(found.n_records):g} with noise {float(found.n_records_scale):g}"
            )
        return found

    @classmethod
    def from_arrays(cls, raw: Mapping[str, FloatArray]) -> EMStatistics:
        """Inverse of :meth:`to_arrays`."""
        missing = [PREFIX + one.name for one in fields(cls) if PREFIX + one.name not in raw]
        if missing:
            raise ValueError(f"release must hold the sums of EM steps, got one without {', '.join(missing)}")
        return cls(**{one.name: raw[PREFIX + one.name] for one in fields(cls)})

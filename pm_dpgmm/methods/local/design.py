"""Public waves and cells: chosen from public knowledge, or from earlier reports of other people. No record is seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, check_choice, check_count, check_positive, frozen, read_numbers, shown
from pm_dpgmm.methods.local.randomisers import KINDS
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.records.feature_names import check_unlabelled
from pm_dpgmm.records.reading import read_bounds

if TYPE_CHECKING:
    from pm_dpgmm.methods.local.protocol import LocalProtocol

RESOLUTION = 16.0  # half-widths to the narrowest deviation that is looked for
LEAST_RESOLUTION, MOST_RESOLUTION = 1.0, 1e4
LONGEST, SHORTEST = 2.0, 1.5  # turns of phase: from LONGEST to SHORTEST * resolution across a half-width
LINES, PHASES = 16, 8  # waves of one column
WAVES = 512  # of more columns
NEAR, FAR = 0.35, 1.6  # lengths of whitened frequencies: where a component of unit variance tells most
CELLS = {1: 16, 2: 8}  # along a column
SEED = 20261123  # public: directions and phases are the same for everybody
LARGEST = 1e90  # of centres and scales


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Where the records are by public knowledge: about ``centre``, within ``scale`` on either side, both (D,)."""

    centre: FloatArray
    scale: FloatArray

    def __post_init__(self) -> None:
        for name in ("centre", "scale"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        if self.centre.shape != self.scale.shape or self.centre.ndim != 1 or self.centre.size == 0:
            raise ValueError(f"centre and scale must be as long, got {self.centre.shape} and {self.scale.shape}")
        if not (np.abs(self.centre).max() <= LARGEST and (self.scale > 0).all() and self.scale.max() <= LARGEST):
            raise ValueError(f"centre and scale must be finite, within {LARGEST:g}, scale above 0, got others")
        if self.scale.min() < 1 / LARGEST:
            raise ValueError(f"scale must be at least {1 / LARGEST:g}, got {self.scale.min()}")

    @classmethod
    def of(cls, n_features: int, bounds: FloatArray | None, centre: Any, scale: Any) -> Frame:
        """From bounds (D, 2), or else from numbers, each for all columns or one for each."""
        if bounds is not None:
            if scale is not None:
                raise ValueError("scale must be left out where bounds are given, got both")
            half = bounds[:, 1] / 2 - bounds[:, 0] / 2
            if np.abs(bounds).max() > LARGEST or half.min() < 1 / LARGEST:
                rule = f"bounds must lie within {LARGEST:g} and {1 / LARGEST:g} apart with method 'local'"
                raise ValueError(f"{rule}, got {bounds.tolist()}; rescale")
            return cls(bounds.mean(axis=1), half)
        if scale is None:
            raise ValueError(
                "method 'local' needs bounds, or scale: a public guess of how far records are from centre, to which"
                " nothing is clipped, got neither"
            )
        rows = []
        for given, name in ((centre, "centre"), (scale, "scale")):
            check_unlabelled(given, name=name)
            row = read_numbers(0.0 if given is None else given, name)
            if row.shape not in ((), (n_features,)):
                raise ValueError(f"{name} must be one number or {n_features}, got shape {row.shape}")
            rows.append(np.broadcast_to(row, (n_features,)))
        return cls(*rows)

    def inner(self, mixture: Mixture) -> Mixture:
        """A mixture of the records in the unit of the frame."""
        return mixture.transformed(np.diag(1 / self.scale), -self.centre / self.scale)

    def outer(self, mixture: Mixture) -> Mixture:
        """Inverse of :meth:`inner`."""
        return mixture.transformed(np.diag(self.scale), self.centre)


Waves = tuple[FloatArray, FloatArray]  # frequencies (M, D), phases (M,), in the unit of the records


def public_waves(frame: Frame, resolution: float = RESOLUTION) -> Waves:
    """Waves that know nothing of the records but the frame.

    One column: evenly spaced frequencies with evenly spaced phases. More: directions and phases of a public generator,
    lengths from LONGEST to SHORTEST * resolution with even logarithms.
    """
    d = len(frame.scale)
    low, high = LONGEST, max(SHORTEST * resolution, 2 * LONGEST)
    if d == 1:
        inner = np.repeat(np.linspace(low, high, LINES), PHASES)[:, None]
        phases = np.tile(np.arange(PHASES) * math.pi / PHASES, LINES)
    else:
        rng = np.random.default_rng(SEED)
        directions = rng.standard_normal((WAVES, d))
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        inner = directions * np.exp(rng.uniform(math.log(low), math.log(high), WAVES))[:, None]
        phases = rng.uniform(0.0, math.pi, WAVES)
    return _outer(frame, inner, phases)


def whitened_waves(frame: Frame, mixture: Mixture) -> Waves:
    """Waves for the components of a mixture that earlier reports gave: directions white in each, lengths about 1."""
    inner = frame.inner(mixture)
    n_waves, d = LINES * PHASES if inner.n_features == 1 else WAVES, inner.n_features
    rng = np.random.default_rng([SEED, 2])
    directions = rng.standard_normal((n_waves, d))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    lengths = np.exp(rng.uniform(math.log(NEAR), math.log(FAR), n_waves))
    factors = np.linalg.cholesky(inner.covariances)[np.arange(n_waves) % inner.n_components]
    frequencies = np.linalg.solve(factors.swapaxes(1, 2), (directions * lengths[:, None])[:, :, None])[:, :, 0]
    return _outer(frame, frequencies, rng.uniform(0.0, math.pi, n_waves))


def _outer(frame: Frame, frequencies: FloatArray, phases: FloatArray) -> Waves:
    """In the unit of the records: the wave at x is that at (x - centre) / scale."""
    outer = frequencies / frame.scale
    return outer, np.mod(phases - outer @ frame.centre, 2 * math.pi)


def cells(frame: Frame, n_cells: int | None) -> FloatArray:
    """Inner edges of equal cells across the frame, (D, J - 1)."""
    d = len(frame.scale)
    if d not in CELLS:
        raise ValueError(f"randomiser must be 'one-bit' with more than 2 columns, got {d} columns")
    inner = np.linspace(-1.0, 1.0, (CELLS[d] if n_cells is None else n_cells) + 1)[1:-1]
    return np.asarray(frame.centre[:, None] + frame.scale[:, None] * inner)


def protocol_parts(
    frame: Frame, randomiser: str, *, resolution: float = RESOLUTION, n_cells: int | None = None
) -> dict[str, Any]:
    """Arguments of a protocol beside randomiser and epsilon."""
    where = {"centre": frame.centre.tolist(), "scale": frame.scale.tolist()}
    if randomiser != "one-bit":
        return where | {"edges": cells(frame, n_cells).tolist()}
    frequencies, phases = public_waves(frame, resolution)
    return where | {"frequencies": frequencies.tolist(), "phases": phases.tolist()}


def check_resolution(resolution: Any) -> None:
    """Raise unless it is a number that waves can have."""
    check_positive(resolution=resolution)
    if not LEAST_RESOLUTION <= resolution <= MOST_RESOLUTION:
        rule = f"resolution must be from {LEAST_RESOLUTION:g} to {MOST_RESOLUTION:g}"
        raise ValueError(f"{rule}, got {shown(resolution)}")


def designed(
    kind: type[LocalProtocol],
    n_features: int,
    *,
    epsilon: float,
    randomiser: str = "one-bit",
    bounds: ArrayLike | None = None,
    centre: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    resolution: float = RESOLUTION,
    n_cells: int | None = None,
) -> LocalProtocol:
    """See :meth:`pm_dpgmm.methods.local.protocol.LocalProtocol.design`."""
    check_choice(KINDS, randomiser=randomiser)
    check_count(most=1024, n_features=n_features)
    check_resolution(resolution)
    if n_cells is not None:
        check_count(least=2, most=2**16, n_cells=n_cells)
    check_unlabelled(bounds, name="bounds", rows=True)
    frame = Frame.of(n_features, read_bounds(bounds, n_features), centre, scale)
    return kind(randomiser, epsilon, **protocol_parts(frame, randomiser, resolution=resolution, n_cells=n_cells))

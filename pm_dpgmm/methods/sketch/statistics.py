"""What a sketch release holds, as arrays and public numbers that survive a file, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, finite_numbers, frozen, shown
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.mechanisms.frequencies import frequencies_from_dict
from pm_dpgmm.mechanisms.moments import NoisyMoments
from pm_dpgmm.mechanisms.partitions import Partition, SoftPartition, VoronoiPartition
from pm_dpgmm.mechanisms.sketch import NoisySketch
from pm_dpgmm.methods.sketch.covariance_types import FULL
from pm_dpgmm.methods.sketch.statistics_checks import LARGEST_NUMBER, check_sketch_statistics
from pm_dpgmm.privacy.guarantee import Neighbouring


@dataclass(frozen=True, slots=True, eq=False)
class SketchStatistics:
    """All noisy statistics that a fit may use.

    Attributes
    ----------
    sketches : tuple of NoisySketch
        At least one; all have the same centre.
    unit : ndarray, shape (D,)
        Public, in the unit of the records: half the width of the interval of every column.
    cells : tuple of NoisyMoments
        Of nearest-centre cells, level by level; empty for one column.
    parts : tuple of NoisyMoments
        Of the components of mixtures that were known then.
    variance_floor : ndarray, shape (D,), optional
        Public variances that every component of a fit has on top of what is fitted, in the unit of the evidence.
    bounds : ndarray, shape (D, 2), optional
        Public bounds that the records were clipped to, in their unit: no mean lies outside.
    resolution : ndarray, shape (D,), optional
        Public steps to whose multiples the columns are rounded, in their unit; 0 where one is not. The centre is a
        multiple, too.
    covariance_type : str
        Kind of the covariances of a fit, by the names of :mod:`pm_dpgmm.methods.sketch.covariance_types`.
    """

    sketches: tuple[NoisySketch, ...]
    unit: FloatArray
    cells: tuple[NoisyMoments, ...] = ()
    parts: tuple[NoisyMoments, ...] = ()
    variance_floor: FloatArray | None = None
    bounds: FloatArray | None = None
    resolution: FloatArray | None = None
    covariance_type: str = FULL
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", frozen(self.unit))
        for name in ("variance_floor", "bounds", "resolution"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, frozen(getattr(self, name)))

    @property
    def centre(self) -> FloatArray:
        """Public point from which phases and moments are taken, shape (D,)."""
        return np.atleast_1d(self.sketches[0].frequencies.centre)

    @property
    def n_numbers(self) -> int:
        """Cosines and sines that the sketches hold."""
        return sum(sketch.values.size for sketch in self.sketches)

    @property
    def n_records(self) -> float:
        """Public, or what the sketches released of it, at least 1."""
        return max(1.0, self.released_n_records)

    @property
    def released_n_records(self) -> float:
        """Public, or the precision-weighted mean of what the sketches released: of few records perhaps below 0."""
        counts = np.array([sketch.n_records for sketch in self.sketches])
        scales = np.array([sketch.n_records_scale for sketch in self.sketches])
        if not scales.all():
            return float(counts[0])
        return float(np.average(counts, weights=scales**-2.0))

    @property
    def n_records_scale(self) -> float:
        """Standard deviation of the noise on ``n_records``; 0 when it is public."""
        scales = np.array([sketch.n_records_scale for sketch in self.sketches])
        return float(np.sum(scales**-2.0) ** -0.5) if scales.all() else 0.0

    @property
    def neighbouring(self) -> Neighbouring:
        """Relation under which the sketches were made: their number of records is exact, or has noise."""
        noisy = any(sketch.n_records_scale for sketch in self.sketches)
        return Neighbouring.ADD_REMOVE if noisy else Neighbouring.REPLACE_ONE

    def with_sketches(self, sketches: Sequence[NoisySketch]) -> SketchStatistics:
        """Other sketches; the moments, which say where a fit may start, are scaled to their number of records.

        They are kept within the sizes that a reference may have, so that this one may be a reference, too.
        """
        new = replace(self, sketches=tuple(sketches), cells=(), parts=())
        factor = new.n_records / self.n_records
        most = LARGEST_NUMBER**2

        def times(values: FloatArray) -> FloatArray:
            return np.clip(factor * values, -most, most)

        scaled = [
            tuple(
                replace(
                    item,
                    counts=times(item.counts),
                    sums=times(item.sums),
                    squares=times(item.squares),
                    noise_scale=float(np.clip(factor * item.noise_scale, 1 / most, most)),
                )
                for item in moments
            )
            for moments in (self.cells, self.parts)
        ]
        return replace(new, cells=scaled[0], parts=scaled[1])

    @property
    def fingerprint(self) -> str:
        """Of unit and frequencies: sketches can be added up when these are equal, to the last bit."""
        law = [sketch.frequencies.to_dict() for sketch in self.sketches]
        return hashlib.sha256(json.dumps([self.unit.tolist(), law]).encode()).hexdigest()[:16]

    def to_arrays(self) -> tuple[dict[str, FloatArray], dict[str, Any]]:
        """Numbers with noise, by name, and their public law; :meth:`from_arrays` reads them."""
        raw: dict[str, FloatArray] = {}
        sketches, moments = [], []
        for i, sketch in enumerate(self.sketches):
            raw[f"sketch_{i}"] = sketch.values
            sketches.append(
                {
                    "scale": sketch.noise_scale,
                    "frequencies": sketch.frequencies.to_dict(),
                    "n_records": sketch.n_records,
                    "n_records_scale": sketch.n_records_scale,
                }
            )
        for i, item in enumerate((*self.cells, *self.parts)):
            n_parts = len(item.counts)
            raw[f"moments_{i}"] = np.column_stack([item.counts, item.sums, item.squares.reshape(n_parts, -1)])
            moments.append({"scale": item.noise_scale, "partition": _partition_to_dict(item.partition)})
        law = {"unit": self.unit.tolist(), "sketches": sketches, "moments": moments}
        optional = {"ridge": self.variance_floor, "bounds": self.bounds, "resolution": self.resolution}  # of the file
        law |= {name: values.tolist() for name, values in optional.items() if values is not None}
        return raw, law if self.covariance_type == FULL else law | {"covariance_type": self.covariance_type}

    @classmethod
    def from_arrays(cls, raw: Mapping[str, FloatArray], law: Mapping[str, Any]) -> SketchStatistics:
        """Inverse of :meth:`to_arrays` for numbers from anywhere; ValueError unless they fit each other.

        See :func:`pm_dpgmm.methods.sketch.statistics_checks.check_sketch_statistics`.
        """
        if "sketches" not in law:
            raise ValueError("release must be one of method 'sketch', got one without sketches")
        try:
            found = cls._read(raw, law)
        except KeyError as error:
            raise ValueError(f"a release with sketches must have {error.args[0]!r}, got none") from None
        except TypeError as error:  # one kind of value where another belongs
            raise ValueError(f"a release with sketches must be complete: {error}") from None
        check_sketch_statistics(found)
        return found

    @classmethod
    def _read(cls, raw: Mapping[str, FloatArray], law: Mapping[str, Any]) -> SketchStatistics:
        sketches = tuple(
            NoisySketch(
                frequencies_from_dict(fields["frequencies"]),
                finite_numbers(raw[f"sketch_{i}"], "sketch"),
                fields["scale"],
                fields["n_records"],
                fields["n_records_scale"],
            )
            for i, fields in enumerate(_mappings(law["sketches"], "sketches"))
        )
        cells: list[NoisyMoments] = []
        parts: list[NoisyMoments] = []
        for i, fields in enumerate(_mappings(law["moments"], "moments")):
            partition = _partition_from_dict(fields["partition"])
            g, d = partition.shape
            table = finite_numbers(raw[f"moments_{i}"], f"moments_{i}", (g, 1 + d + d * d))
            squares = table[:, 1 + d :].reshape(-1, d, d)
            found = NoisyMoments(partition, table[:, 0], table[:, 1 : 1 + d], squares, fields["scale"])
            (cells if isinstance(partition, VoronoiPartition) else parts).append(found)
        floor, bounds, steps = (
            None if law.get(name) is None else finite_numbers(law[name], name)
            for name in ("ridge", "bounds", "resolution")
        )
        unit, kind = finite_numbers(law["unit"], "unit"), law.get("covariance_type", FULL)  # older files: full
        return cls(sketches, unit, tuple(cells), tuple(parts), floor, bounds, steps, kind)


_FIELDS: dict[type, Sequence[str]] = {
    VoronoiPartition: ("origin", "unit", "centres", "radii"),
    SoftPartition: ("origin", "unit", "log_weights", "centres", "whiteners", "radii"),
}


def _partition_to_dict(partition: Partition) -> dict[str, Any]:
    return {name: getattr(partition, name).tolist() for name in _FIELDS[type(partition)]}


def _partition_from_dict(fields: Mapping[str, Any]) -> Partition:
    if not isinstance(fields, Mapping):
        raise ValueError(f"partition must be a mapping, got {shown(fields)}")
    kind = SoftPartition if "whiteners" in fields else VoronoiPartition
    return kind(**{name: finite_numbers(fields[name], name) for name in _FIELDS[kind]})


def _mappings(value: Any, name: str) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, Mapping) for item in value):
        raise ValueError(f"{name} must be a list of mappings, got {shown(value)}")
    return value

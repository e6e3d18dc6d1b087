"""The public transformations of all columns of a table: read from arguments and files, and applied to its rows.

Proof: transformed_columns.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_real, shown
from pm_dpgmm.records.feature_names import own_names
from pm_dpgmm.records.transformation import LAWS, NAMES, NO_CODE, SIX_DECADES, Transformation
from pm_dpgmm.records.transformation_trial import try_transformation

PLAIN_VERSION, TRANSFORMED_VERSION = 1, 2  # of the schema of files
KINDS = "None, one of 'log', 'logit', 'asinh', or a Transformation"


@dataclass(frozen=True, slots=True)
class TransformedColumns:
    """A transformation, or None, for each of D columns; at least one is there.

    Attributes
    ----------
    columns : tuple of Transformation or None, length D
    names : tuple of str, length D, or None
        Of the columns, where they have any: by these, those of a release go to the columns of another table.
    """

    columns: tuple[Transformation | None, ...]
    names: tuple[str, ...] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        given = tuple(self.columns)
        if not all(one is None or isinstance(one, Transformation) for one in given) or not any(given):
            raise TypeError(f"columns must be Transformations or None, at least one of them, got {shown(given)}")
        if self.names is not None and len(self.names) != len(given):
            raise ValueError(f"names must be {len(given)}, one for each column, got {shown(self.names)}")
        object.__setattr__(self, "columns", given)

    @property
    def n_features(self) -> int:
        """Number of columns, D."""
        return len(self.columns)

    def of_records(self, rows: FloatArray) -> FloatArray:
        """Records (N, D) in the transformed unit, always finite: every one by itself, and the others left alone."""
        found = np.array(rows, dtype=float)
        for j, one in self._made:
            found[:, j] = one.of_records(found[:, j])
        return found

    def of_points(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Points (N, D) in the transformed unit and, shape (N,), sums of the logarithms of slopes there.

        NaN and -inf where a point is outside the support. NaN, of what is missing, stays, and adds nothing.
        """
        found, slopes = np.array(rows, dtype=float), np.zeros(len(rows))
        for j, one in self._made:
            missing = np.isnan(found[:, j])
            found[:, j], own = one.of_points(found[:, j])
            slopes += np.where(missing, 0.0, own)
        return found, slopes

    def to_units(self, rows: FloatArray) -> FloatArray:
        """Rows (N, D) of the transformed unit in that of the records."""
        found = np.array(rows, dtype=float)
        for j, one in self._made:
            found[:, j] = one.to_units(found[:, j])
        return found

    def of_bounds(self, limits: FloatArray, names: Sequence[str]) -> FloatArray:
        """Bounds (D, 2) in the transformed unit.

        Raises
        ------
        ValueError
            If those of a column are no two finite numbers there.
        """
        found = np.array(limits, dtype=float)
        for j, one in self._made:
            found[j] = one.of_records(limits[j])
            ends = found[j] if one.law is not None else one.of_points(np.clip(limits[j], *one.domain))[0]
            if not (np.isfinite(ends).all() and ends[0] < ends[1]):
                whole = f"two finite numbers, of finite slopes, by transform ({one.told})"
                rule = f"bounds of column {names[j]!r} must become {whole}"
                raise ValueError(f"{rule}, got {shown(limits[j].tolist())}, which become {shown(ends.tolist())}")
        return found

    def of(self, places: Sequence[int]) -> TransformedColumns | None:
        """Those of some columns, in that order; None where none of these is transformed."""
        chosen = tuple(self.columns[place] for place in places)
        names = None if self.names is None else tuple(self.names[place] for place in places)
        return TransformedColumns(chosen, names) if any(chosen) else None

    @property
    def _made(self) -> list[tuple[int, Transformation]]:
        return [(j, one) for j, one in enumerate(self.columns) if one is not None]

    def told(self, names: Sequence[str]) -> str:
        """Which column is what, as text."""
        return "; ".join(f"{names[j]}: {one.told}" for j, one in self._made)

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """Names for numbers in the transformed unit, such as "income (log)"."""
        pairs = zip(names, self.columns, strict=True)
        return tuple(name if one is None else f"{name} ({one.name})" for name, one in pairs)

    # ------------------------------------------------------------------ files
    def check_saved(self, names: Sequence[str], what: str) -> None:
        """Raise ValueError where functions of a user's own would have to be in a file."""
        own = [names[j] for j, one in self._made if one.law is None]
        if own:
            rule = f"{what} must have named transformations to be saved: {NO_CODE}"
            raise ValueError(f"{rule}; got functions for {shown(own)}")

    def to_list(self) -> list[dict[str, Any] | None]:
        """JSON-ready; of named ones alone."""
        self.check_saved([f"column {j}" for j in range(self.n_features)], "a release or checkpoint")
        return [None if one is None else {"name": one.name, **one.parameters} for one in self.columns]

    @classmethod
    def from_list(cls, given: Any, names: Sequence[str]) -> TransformedColumns | None:
        """Inverse of :meth:`to_list`, of fields from anywhere: TypeError and ValueError say what is wrong."""
        n_features = len(names)
        if given is None:
            return None
        if not isinstance(given, (list, tuple)) or len(given) != n_features or not any(given):
            rule = f"transformations must be null, or a list of {n_features} with at least one that is not null"
            raise ValueError(f"{rule}, got {shown(given)}")
        return cls(tuple(None if one is None else _named(one) for one in given), own_names(names))


def _named(fields: Any) -> Transformation:
    name = fields.get("name") if isinstance(fields, Mapping) else None
    if not isinstance(name, str) or name not in LAWS:
        raise ValueError(f"a transformation must have a name among {', '.join(map(repr, NAMES))}, got {shown(fields)}")
    law, parameters = LAWS[name], {key: value for key, value in fields.items() if key != "name"}
    if set(parameters) != set(law.__slots__):
        rule = f"a transformation {name!r} must have {', '.join(law.__slots__)}"
        raise ValueError(f"{rule}, got {shown(sorted(map(str, parameters)))}")
    check_real(**{f"{key} of {name!r}": value for key, value in parameters.items()})
    return Transformation.of(law(**{key: float(value) for key, value in parameters.items()}))


def read_transform(
    transform: Any, feature_names: tuple[str, ...], limits: FloatArray | None
) -> TransformedColumns | None:
    """From None, one for all columns, one for each, or a mapping from names of columns; None where none is transformed.

    Those of a release are taken, too: by name where its columns and these have names.

    Raises
    ------
    TypeError, ValueError
        If it is none of these, names no column, needs bounds that are not there, or if functions of the user's own are
        not what they must be on public numbers.
    """
    if transform is None:
        return None
    d = len(feature_names)
    own, hint = own_names(feature_names), ""
    if isinstance(transform, TransformedColumns):
        if own is None or transform.names is None:
            transform = transform.columns
        else:
            transform = dict(zip(transform.names, transform.columns, strict=True))
            hint = "; the .columns of another release's go by place"
    if isinstance(transform, Mapping):
        unknown = [name for name in transform if name not in feature_names]
        if unknown:
            rule = f"transform must have names of columns among {shown(feature_names)}"
            raise ValueError(f"{rule}, got {shown(unknown)}{hint}")
        transform = [transform.get(name) for name in feature_names]
    elif isinstance(transform, (str, Transformation)):
        transform = [transform] * d
    if not isinstance(transform, (list, tuple)):
        rule = f"transform must be {KINDS}; a list of them for the columns, or a dict by column"
        raise TypeError(f"{rule}, got {shown(transform)}")
    if len(transform) != d:
        raise ValueError(f"transform must have {d} entries, one for each column, got {len(transform)}")
    made = [
        _made(one, name, None if limits is None else limits[j])
        for j, (one, name) in enumerate(zip(transform, feature_names, strict=True))
    ]
    return TransformedColumns(tuple(made), own) if any(made) else None


def _made(given: Any, name: str, limits: FloatArray | None) -> Transformation | None:
    told = f"transform of column {name!r}"
    if given is None:
        return None
    if isinstance(given, Transformation):
        if given.law is None:
            try_transformation(given, limits, name=told)
        return given
    if not isinstance(given, str):
        raise TypeError(f"{told} must be {KINDS}, got {shown(given)}")
    if given not in NAMES:
        raise ValueError(f"{told} must be {KINDS}, got {given!r}")
    if given == "asinh":
        return Transformation.asinh()
    if limits is None or (limits[1] <= 0 and given == "log"):
        words = "upper bound above 0, or a floor: Transformation.log(floor=...)"
        words = words if given == "log" else "bounds, or ends: Transformation.logit(low, high)"
        got = "no bounds" if limits is None else f"bounds {limits.tolist()}"
        raise ValueError(f"{told} must have a public {words}; got {got}")
    if given == "logit":
        return Transformation.logit(*limits.tolist())
    return Transformation.log(float(limits[0]) if limits[0] > 0 else SIX_DECADES * float(limits[1]))


def check_apart(steps: FloatArray | None, columns: TransformedColumns, names: tuple[str, ...]) -> None:
    """Raise where a column is both rounded and transformed: its values are no equal steps apart then."""
    if steps is None:
        return
    both = [names[j] for j in np.flatnonzero(steps) if columns.columns[j] is not None]
    if both:
        rule = "resolution must be 0, or left out, for columns with a transform, whose steps are not equal"
        raise ValueError(f"{rule}, got both for {shown(both)}")


# ---------------------------------------------------------------------- files of releases and checkpoints
def version_of_file(columns: TransformedColumns | None) -> int:
    """Version of the schema: readers that know of no transformations must refuse what has them."""
    return PLAIN_VERSION if columns is None else TRANSFORMED_VERSION


def fields_of_transformations(columns: TransformedColumns | None) -> dict[str, Any]:
    """What a file says of them: nothing where there are none."""
    return {} if columns is None else {"transformations": columns.to_list()}


def transformations_of_file(fields: Mapping[str, Any], names: Sequence[str]) -> TransformedColumns | None:
    """Inverse of both, of fields from anywhere."""
    version, given = fields.get("schema_version"), fields.get("transformations")
    if isinstance(version, bool) or version not in (PLAIN_VERSION, TRANSFORMED_VERSION):
        rule = f"schema_version must be {PLAIN_VERSION}, or {TRANSFORMED_VERSION} with transformations"
        raise ValueError(f"{rule}, for this version of pm_dpgmm, got {shown(version)}")
    if (given is None) != (version == PLAIN_VERSION):
        words = "a list" if given is None else "left out"
        raise ValueError(f"transformations must be {words} with schema_version {version}, got {shown(given)}")
    return TransformedColumns.from_list(given, names)


def refuse_transformations(
    columns: TransformedColumns | None, names: Sequence[str], function: str, instead: str
) -> None:
    """ValueError where a release has transformations of columns, which ``function`` cannot carry."""
    if columns is not None:
        rule = f"{function} must be of a release without transformations of columns"
        raise ValueError(f"{rule}, got {columns.told(names)}; use {instead}")

"""What a release must be, wherever it comes from: a file, a pickle, or somebody's Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pm_dpgmm._arguments import (
    check_count,
    check_flag,
    check_real,
    check_text,
    finite_numbers,
    shown,
)
from pm_dpgmm.files.untrusted_json import check_depth
from pm_dpgmm.methods.released_statistics import MOST_RECORDS, check_released_statistics
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.records.feature_names import LONGEST_NAME
from pm_dpgmm.records.transformed_columns import transformations_of_file

SCHEMA = "pm_dpgmm.release"
READERS = {"pm_dpgmm.levels": "pm_dpgmm.LevelReleases.load", "pm_dpgmm.checkpoint": "pm_dpgmm.resume"}
FIELDS = (
    "schema",
    "schema_version",
    "version",
    "method",
    "settings",
    "private",
    "n_records",
    "feature_names",
    "weights",
    "means",
    "covariances",
    "guarantee",
    "raw",
    "noise",
)
MOST_RELEASED_COMPONENTS = 4096  # of a mixture in a file: its density and summary take seconds then
MOST_RELEASED_FEATURES = 1024  # likewise


def checked_parts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a Release from the fields of a file, every one checked.

    Raises
    ------
    TypeError, ValueError
        Naming the field, the rule and what was given.
    """
    if not isinstance(fields, Mapping) or fields.get("schema") != SCHEMA:
        reader = READERS.get(str(fields.get("schema"))) if isinstance(fields, Mapping) else None
        hint = f"; {reader} reads such a file" if reader else ""
        raise ValueError(f"a release must have schema {SCHEMA!r}, got {shown(fields)}{hint}")
    names = fields.get("feature_names")
    columns = transformations_of_file(fields, names if isinstance(names, (list, tuple)) else ())
    for name in FIELDS:
        if name not in fields:
            raise ValueError(f"a release must have the field {name!r}, got {shown(sorted(map(str, fields)))}")
    check_depth(dict(fields), name="a release")
    for name in ("settings", "raw", "noise"):
        if not isinstance(fields[name], Mapping):
            raise ValueError(f"a release must have mappings for settings, raw and noise, got {shown(fields[name])}")
    check_names(names)
    assert isinstance(names, (list, tuple))
    broad = fields.get("background")
    if broad is not None and not (isinstance(broad, Mapping) and {"means", "covariances"} <= set(broad)):
        raise ValueError(f"background must be null or have means and covariances, got {shown(broad)}")
    weight = fields.get("background_weight", 0.0)
    check_real(background_weight=weight)
    guarantee = Guarantee.from_dict(fields["guarantee"])
    parts = {
        "mixture": _mixture(fields["weights"], fields["means"], fields["covariances"]),
        "guarantee": guarantee,
        "method": fields["method"],
        "settings": fields["settings"],
        "raw": {name: finite_numbers(value, f"raw[{name!r}]") for name, value in fields["raw"].items()},
        "noise": fields["noise"],
        "feature_names": tuple(names),
        "n_records": fields["n_records"],
        "private": private_in_file(fields["private"], guarantee),
        "version": fields["version"],
        "background_weight": float(weight),
        "background": None if broad is None else _mixture([1.0], broad["means"], broad["covariances"]),
        "transformations": columns,
    }
    check_released_statistics(parts["raw"], parts["noise"], parts["mixture"], parts["guarantee"], parts["method"])
    return parts


def private_in_file(private: Any, guarantee: Guarantee) -> bool:
    """Whether what a file holds is private: it says so in two places, and one that denies it is enough."""
    check_flag(private=private)
    return bool(private) and guarantee.private


def check_names(names: object) -> None:
    """Raise unless they are short texts in a list or tuple, each there once."""
    if not isinstance(names, (list, tuple)):
        raise ValueError(f"feature_names must be a list, got {shown(names)}")
    for i, name in enumerate(names):
        check_text(longest=LONGEST_NAME, **{f"feature_names[{i}]": name})
    if len(set(names)) < len(names):
        raise ValueError(f"feature_names must be distinct, got {shown(names)}")


def check_public(guarantee: object, method: object, private: object, version: object, n_records: object) -> None:
    """Raise unless the public facts of a release have their kinds; a number of records only where that is public."""
    if not isinstance(guarantee, Guarantee):
        raise TypeError(f"guarantee must be a Guarantee, got {shown(guarantee)}")
    check_text(longest=LONGEST_NAME, method=method)
    check_text(longest=40, version=version)
    if not (str(version).isascii() and all(c.isalnum() or c in ".+-" for c in str(version))):
        raise ValueError(f"version must hold letters, digits, points, + and -, got {shown(version)}")
    check_flag(private=private)
    if n_records is not None:
        check_count(n_records=n_records)
        if int(n_records) > MOST_RECORDS:  # type: ignore[call-overload]
            raise ValueError(f"n_records must be at most 2^53, got {n_records}")
        if guarantee.neighbouring is Neighbouring.ADD_REMOVE:
            raise ValueError("n_records must be None under add-remove neighbours: it is private there")


def check_plain(
    mixture: object,
    guarantee: object,
    method: object,
    private: object,
    version: object,
    n_records: object,
    background: object,
) -> None:
    """Raise unless the parts of a release that every reader uses have their kinds."""
    if not isinstance(mixture, Mixture):
        raise TypeError(f"mixture must be a Mixture, got {shown(mixture)}")
    check_public(guarantee, method, private, version, n_records)
    if background is not None:
        if not isinstance(background, Mixture):
            raise TypeError(f"background must be a Mixture or None, got {shown(background)}")
        if background.means.shape != (1, mixture.n_features):
            raise ValueError(
                f"background must be one component in {mixture.n_features} dimensions, got means of shape"
                f" {background.means.shape}"
            )


def _mixture(weights: Any, means: Any, covariances: Any) -> Mixture:
    centres = finite_numbers(means, "means")
    most = MOST_RELEASED_COMPONENTS, MOST_RELEASED_FEATURES
    if centres.ndim == 2 and not (centres.shape[0] <= most[0] and centres.shape[1] <= most[1]):
        raise ValueError(f"means must have at most {most[0]} rows and {most[1]} columns, got shape {centres.shape}")
    return Mixture(finite_numbers(weights, "weights"), centres, finite_numbers(covariances, "covariances"))

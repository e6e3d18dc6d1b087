"""What a release must be, wherever it comes from: a file, a pickle, or somebody's Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pm_dpgmm._arguments import (
    FloatArray,
    check_count,
    check_flag,
    check_non_negative,
    check_positive,
    check_real,
    check_text,
    finite_numbers,
    shown,
)
from pm_dpgmm.files.untrusted_json import check_depth
from pm_dpgmm.mechanisms.box import EXPONENTS
from pm_dpgmm.mechanisms.histogram import MOST_COUNTS, SMALLEST_SCALE
from pm_dpgmm.mechanisms.slices import Slices
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring

SCHEMA = "pm_dpgmm.release"
SCHEMA_VERSION = 1
FIELDS = (
    "schema", "schema_version", "version", "method", "settings", "private", "n_records", "feature_names", "weights",
    "means", "covariances", "guarantee", "raw", "noise",
)  # fmt: skip
MOST_COMPONENTS, MOST_FEATURES = 4096, 1024  # of a mixture in a file: its density and summary take seconds then
MOST_RECORDS = 2**53  # larger integers are no exact floats
LARGEST_LEVEL = 1e6  # of a mask, relative: beyond, nothing is left
LONGEST_NAME = 1000  # characters
MOST_CAVEATS = 16  # of a release; a fit notes up to three


def checked_parts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a Release from the fields of a file, every one checked.

    Raises
    ------
    TypeError, ValueError
        Naming the field, the rule and what was given.
    """
    if not isinstance(fields, Mapping) or fields.get("schema") != SCHEMA:
        raise ValueError(f"a release must have schema {SCHEMA!r}, got {shown(fields)}")
    version = fields.get("schema_version")
    if isinstance(version, bool) or version != SCHEMA_VERSION:
        raise ValueError(f"schema_version must be {SCHEMA_VERSION} for this version of pm_dpgmm, got {shown(version)}")
    for name in FIELDS:
        if name not in fields:
            raise ValueError(f"a release must have the field {name!r}, got {shown(sorted(map(str, fields)))}")
    check_depth(dict(fields), name="a release")
    for name in ("settings", "raw", "noise"):
        if not isinstance(fields[name], Mapping):
            raise ValueError(f"a release must have mappings for settings, raw and noise, got {shown(fields[name])}")
    names = fields["feature_names"]
    check_names(names)
    broad = fields.get("background")
    if broad is not None and not (isinstance(broad, Mapping) and {"means", "covariances"} <= set(broad)):
        raise ValueError(f"background must be null or have means and covariances, got {shown(broad)}")
    weight = fields.get("background_weight", 0.0)
    check_real(background_weight=weight)
    parts = {
        "mixture": _mixture(fields["weights"], fields["means"], fields["covariances"]),
        "guarantee": Guarantee.from_dict(fields["guarantee"]),
        "method": fields["method"],
        "settings": fields["settings"],
        "raw": {name: finite_numbers(value, f"raw[{name!r}]") for name, value in fields["raw"].items()},
        "noise": fields["noise"],
        "feature_names": tuple(names),
        "n_records": fields["n_records"],
        "private": fields["private"],
        "version": fields["version"],
        "background_weight": float(weight),
        "background": None if broad is None else _mixture([1.0], broad["means"], broad["covariances"]),
    }
    check_statistics(parts["raw"], parts["noise"], parts["mixture"], parts["guarantee"], parts["method"])
    return parts


def check_names(names: object) -> None:
    """Raise unless they are short texts in a list or tuple."""
    if not isinstance(names, (list, tuple)):
        raise ValueError(f"feature_names must be a list, got {shown(names)}")
    for i, name in enumerate(names):
        check_text(longest=LONGEST_NAME, **{f"feature_names[{i}]": name})


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
    mixture: object, guarantee: object, method: object, private: object, version: object, n_records: object,
    background: object,
) -> None:  # fmt: skip
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


def check_statistics(
    raw: Mapping[str, FloatArray], noise: Mapping[str, Any], mixture: Mixture, guarantee: Guarantee, method: str
) -> None:
    """Raise unless the released numbers and their law are what methods of a release read."""
    if "flagged" in noise:
        check_flag(flagged=noise["flagged"])
        for name in ("misfit", "gain", "shortfall", "tail"):
            if noise.get(name) is not None:
                check_real(**{name: noise[name]})
    if "dispersion" in noise:
        check_non_negative(dispersion=noise["dispersion"])
    caveats = noise.get("caveats", ())
    if not isinstance(caveats, (list, tuple)) or len(caveats) > MOST_CAVEATS:
        raise ValueError(f"caveats must be a list of at most {MOST_CAVEATS} texts, got {shown(caveats)}")
    for i, caveat in enumerate(caveats):
        check_text(longest=LONGEST_NAME, **{f"caveats[{i}]": caveat})
    if "sites" in noise:
        _check_sites(noise["sites"])
    if "sketches" in noise:
        evidence = SketchStatistics.from_arrays(raw, noise)
        if len(evidence.unit) != mixture.n_features:
            raise ValueError(
                f"sketches must have {mixture.n_features} columns as the mixture, got {len(evidence.unit)}"
            )
        if evidence.neighbouring is not guarantee.neighbouring:
            raise ValueError(
                f"sketches must be made for {str(guarantee.neighbouring)!r} neighbours as the guarantee says, got"
                f" {str(evidence.neighbouring)!r}"
            )
        _check_box(raw, mixture.n_features)
    elif method == "histogram" and {"counts", "bounds"} <= set(raw) and "scale" in noise:
        check_histogram(raw, noise, mixture.n_features)
    elif method == "slices" and raw:
        _check_slice_release(raw, noise, mixture.n_features)
    elif method in ("populous", "populous-single") and raw:
        _check_masked(raw, noise, mixture)


def _mixture(weights: Any, means: Any, covariances: Any) -> Mixture:
    centres = finite_numbers(means, "means")
    if centres.ndim == 2 and not (centres.shape[0] <= MOST_COMPONENTS and centres.shape[1] <= MOST_FEATURES):
        raise ValueError(
            f"means must have at most {MOST_COMPONENTS} rows and {MOST_FEATURES} columns, got shape {centres.shape}"
        )
    return Mixture(finite_numbers(weights, "weights"), centres, finite_numbers(covariances, "covariances"))


def _check_box(raw: Mapping[str, FloatArray], n_features: int) -> None:
    """Raise unless what was released of the records' place, if anything was, has the shapes that caveats read."""
    groups: dict[str, dict[str, tuple[int, ...] | None]] = {
        "pair_distance_law": {"pair_distance_law": (2,), "pair_distance_counts": (n_features, EXPONENTS.size)},
        "bin_noise": {"bin_noise": (1,)} | {f"bin_counts_{j}": None for j in range(n_features)},
    }
    for first, shapes in groups.items():
        if first not in raw:
            continue
        for name, shape in shapes.items():
            if name not in raw:
                raise ValueError(f"a release with {first} must have {name}, got none")
            finite_numbers(raw[name], f"raw[{name!r}]", shape)
        if not (np.asarray(raw[first]) >= 0).all():
            raise ValueError(f"{first} must be at least 0, got {raw[first].min()}")


def check_histogram(raw: Mapping[str, Any], noise: Mapping[str, Any], n_features: int) -> None:
    """Raise unless the counts of a grid, its bounds and the scale of the noise fit each other."""
    for name, where in (("counts", raw), ("bounds", raw), ("scale", noise)):
        if name not in where:
            raise ValueError(f"a release of method 'histogram' must have {name}, got none")
    counts = finite_numbers(raw["counts"], "counts")
    if counts.ndim != n_features or len(set(counts.shape)) != 1 or counts.size == 0:
        raise ValueError(f"counts must have {n_features} equal sides, got shape {counts.shape}")
    _check_counts(counts, raw["bounds"], noise["scale"], n_features)


def _check_counts(counts: FloatArray, given: Any, scale: Any, n_features: int) -> None:
    if not (np.abs(counts) <= MOST_RECORDS).all():
        raise ValueError(f"counts must be of size at most 2^53, got {np.abs(counts).max():g}")
    bounds = finite_numbers(given, "bounds", (n_features, 2))
    if not (bounds[:, 0] < bounds[:, 1]).all():
        raise ValueError(f"bounds must increase, got {bounds.tolist()}")
    check_positive(scale=scale)
    if np.abs(bounds).max() > 1e100 or (bounds[:, 1] / 2 - bounds[:, 0] / 2).min() < 1e-100:  # as the method has it
        raise ValueError(f"bounds must lie within 1e100 and 1e-100 apart, got {bounds.tolist()}")
    if not SMALLEST_SCALE <= scale <= MOST_RECORDS:
        raise ValueError(f"scale must be of size {SMALLEST_SCALE:g} to 2^53, got {scale:g}")


def check_slices(raw: Mapping[str, Any], noise: Mapping[str, Any], n_features: int) -> Slices:
    """The slices whose counts a release of method "slices" holds; raise unless its parts fit each other."""
    for name, where in (("counts", raw), ("bounds", raw), ("directions", raw), ("scale", noise), ("n_cells", noise)):
        if name not in where:
            raise ValueError(f"a release of method 'slices' must have {name}, got none")
    directions = _directions(raw["directions"], n_features)
    check_count(n_cells=noise["n_cells"])
    if len(directions) * noise["n_cells"] * n_features > MOST_COUNTS:
        raise ValueError(f"n_cells must leave at most {MOST_COUNTS} slices, got {shown(noise['n_cells'])}")
    slices = Slices(directions, int(noise["n_cells"]))
    counts = finite_numbers(raw["counts"], "counts", (int(slices.offsets[-1]),))
    _check_counts(counts, raw["bounds"], noise["scale"], n_features)
    return slices


def _directions(given: Any, n_features: int) -> FloatArray:
    directions = finite_numbers(given, "directions")
    if directions.ndim != 2 or directions.shape[1] != n_features or directions.size == 0:
        raise ValueError(f"directions must have {n_features} columns, got shape {directions.shape}")
    if not np.allclose(np.linalg.norm(directions, axis=1), 1.0, atol=1e-9):
        raise ValueError("directions must have length 1, got others")
    return directions


def _check_slice_release(raw: Mapping[str, Any], noise: Mapping[str, Any], n_features: int) -> None:
    """Raise unless counts, their sizes, directions and bounds of a finished release fit each other."""
    for name, where in (*((name, raw) for name in ("counts", "sizes", "bounds", "directions")), ("scale", noise)):
        if name not in where:
            raise ValueError(f"a release of method 'slices' must have {name}, got none")
    directions = _directions(raw["directions"], n_features)
    sizes = finite_numbers(raw["sizes"], "sizes", (len(directions),))
    if not ((sizes >= 1) & (sizes <= MOST_COUNTS) & (sizes % 1 == 0)).all() or sizes.sum() > MOST_COUNTS:
        raise ValueError(f"sizes must be numbers of slices, at most {MOST_COUNTS} in all, got {shown(sizes.tolist())}")
    counts = finite_numbers(raw["counts"], "counts", (int(sizes.sum()),))
    _check_counts(counts, raw["bounds"], noise["scale"], n_features)


def _check_masked(raw: Mapping[str, Any], noise: Mapping[str, Any], mixture: Mixture) -> None:
    """Raise unless the masked parameters have the shapes of the mixture, and the levels of the mask their range."""
    k, d = mixture.n_components, mixture.n_features
    shapes = {"weights": (k,), "means": (k, d), "covariances": (k, d, d)}
    lifted = noise.get("law") == "lifted-mask"
    if lifted:
        shapes["corners"] = (k,)
    for name, shape in shapes.items():
        if name not in raw:
            raise ValueError(f"a release of masked parameters must have {name}, got none")
        values = finite_numbers(raw[name], f"raw[{name!r}]", shape)
        if name == "corners" and not (values >= 0).all():
            raise ValueError(f"corners must be at least 0, got {values.min()}")
        if name == "covariances" and not (np.diagonal(values, axis1=1, axis2=2) >= 0).all():
            raise ValueError("raw covariances must have variances of at least 0, got others")
    levels = ("eta", "kappa") if lifted else ("weight", "mean", "covariance")
    for name in levels:
        if name not in noise:
            raise ValueError(f"a release of masked parameters must have the noise level {name}, got none")
        check_positive(**{name: noise[name]})
        if noise[name] > LARGEST_LEVEL:
            raise ValueError(f"{name} must be at most {LARGEST_LEVEL:g}, got {shown(noise[name])}")
    check_count(n_subsets=noise.get("n_subsets"))
    if noise.get("subset_records") is not None:
        check_positive(subset_records=noise["subset_records"])


def _check_sites(sites: Any) -> None:
    if not isinstance(sites, (list, tuple)) or not sites:
        raise ValueError(f"sites must be a list of what sites promised, got {shown(sites)}")
    for i, site in enumerate(sites):
        if not isinstance(site, Mapping) or not {"epsilon", "delta", "fingerprint"} <= set(site):
            raise ValueError(f"sites[{i}] must have epsilon, delta and a fingerprint, got {shown(site)}")
        check_real(**{f"sites[{i}]: {name}": site[name] for name in ("epsilon", "delta")})
        check_text(longest=LONGEST_NAME, **{f"sites[{i}]: fingerprint": site["fingerprint"]})

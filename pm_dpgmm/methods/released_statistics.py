"""What the released numbers of every kind must be like, and what speaks against a mixture that was fitted to them.

One row for each :class:`pm_dpgmm.methods.statistic.Statistic`. Numbers come from anywhere: nothing is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

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
from pm_dpgmm.learners.vector_learner import LONGEST_ANSWER
from pm_dpgmm.mechanisms.box import EXPONENTS
from pm_dpgmm.mechanisms.histogram import MOST_COUNTS, SMALLEST_SCALE
from pm_dpgmm.mechanisms.slices import Slices
from pm_dpgmm.methods.central.statistics import CentralStatistics
from pm_dpgmm.methods.counts.caveats import count_caveats
from pm_dpgmm.methods.em.k_means import cluster_steps
from pm_dpgmm.methods.em.statistics import EMStatistics
from pm_dpgmm.methods.gaps.caveats import gap_caveats
from pm_dpgmm.methods.gaps.statistics import GapStatistics
from pm_dpgmm.methods.local.design import Frame
from pm_dpgmm.methods.local.responses import responses_from_arrays
from pm_dpgmm.methods.outcome import AUTOMATIC
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.far_rows import far_rows_of
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Guarantee
from pm_dpgmm.records.resolution import check_resolution

MOST_RECORDS = 2**53  # larger integers are no exact floats
MOST_BINS = 100_000  # of a column, kept: far more than any fit needs
LARGEST_LEVEL = 1e6  # of a mask, relative: beyond, nothing is left
LONGEST_TEXT = 1000  # characters of a caveat or a fingerprint
ROUNDED = 1e-9  # relative; below 0 by so much is rounding
MOST_CAVEATS = 16  # of a release; a fit notes up to five

Raw: TypeAlias = Mapping[str, FloatArray]
Noise: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StatisticRules:
    """What holds of one kind of statistic, wherever a release comes from."""

    check: Callable[[Raw, Noise, Mixture, Guarantee], None]  # raises TypeError or ValueError
    caveats: Callable[[Raw, Noise, Mixture], Sequence[str]] | None = None  # for files that are older than theirs


def check_released_statistics(
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
        check_text(longest=LONGEST_TEXT, **{f"caveats[{i}]": caveat})
    if noise.get("resolution") is not None:
        check_resolution(noise["resolution"], mixture.n_features)
    far_rows_of(noise, mixture.n_features)
    if AUTOMATIC in noise:
        choice = noise[AUTOMATIC]
        if not isinstance(choice, Mapping):
            raise ValueError(f"the choice of method 'auto' must be a mapping, got {shown(choice)}")
        check_text(longest=LONGEST_TEXT, reason=choice.get("reason"))
    if "sites" in noise:
        _check_sites(noise["sites"])
    if "answer" in raw:
        check_answer(raw, noise)
    RULES[Statistic.of(method, noise)].check(raw, noise, mixture, guarantee)


def older_caveats(
    raw: Mapping[str, FloatArray], noise: Mapping[str, Any], mixture: Mixture, method: str
) -> tuple[str, ...]:
    """What speaks against a release whose file is of a version that noted nothing; takes up to a second or two."""
    caveats = RULES[Statistic.of(method, noise)].caveats
    return () if caveats is None or "caveats" in noise else tuple(caveats(raw, noise, mixture))


def _check_nothing(raw: Raw, noise: Noise, mixture: Mixture, guarantee: Guarantee) -> None:
    """Of kinds that are read with care where they are used."""


def _check_sketch_release(raw: Raw, noise: Noise, mixture: Mixture, guarantee: Guarantee) -> None:
    evidence = SketchStatistics.from_arrays(raw, noise)
    if len(evidence.unit) != mixture.n_features:
        raise ValueError(f"sketches must have {mixture.n_features} columns as the mixture, got {len(evidence.unit)}")
    if evidence.neighbouring is not guarantee.neighbouring:
        raise ValueError(
            f"sketches must be made for {str(guarantee.neighbouring)!r} neighbours as the guarantee says, got"
            f" {str(evidence.neighbouring)!r}"
        )
    _check_box(raw, mixture.n_features)


def _check_histogram_release(raw: Raw, noise: Noise, mixture: Mixture, guarantee: Guarantee) -> None:
    if {"counts", "bounds"} <= set(raw) and "scale" in noise:
        check_histogram(raw, noise, mixture.n_features)


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
    for j in range(n_features):
        counts, index = raw.get(f"bin_counts_{j}"), raw.get(f"bin_index_{j}")
        if counts is not None and not (counts.ndim == 1 and counts.size <= MOST_BINS):
            raise ValueError(f"bin_counts_{j} must be one row of at most {MOST_BINS}, got shape {counts.shape}")
        if index is not None and index.shape != (None if counts is None else counts.shape):
            raise ValueError(f"bin_index_{j} must be as long as bin_counts_{j}, got shape {index.shape}")
    width = raw.get("bin_width")
    if width is not None and width.shape != (n_features,):
        raise ValueError(f"bin_width must have {n_features} numbers, got shape {width.shape}")


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


def _check_slice_release(raw: Raw, noise: Noise, mixture: Mixture, guarantee: Guarantee) -> None:
    """Raise unless counts, their sizes, directions and bounds of a finished release fit each other."""
    if not raw:
        return
    n_features = mixture.n_features
    for name, where in (*((name, raw) for name in ("counts", "sizes", "bounds", "directions")), ("scale", noise)):
        if name not in where:
            raise ValueError(f"a release of method 'slices' must have {name}, got none")
    directions = _directions(raw["directions"], n_features)
    sizes = finite_numbers(raw["sizes"], "sizes", (len(directions),))
    if not ((sizes >= 1) & (sizes <= MOST_COUNTS) & (sizes % 1 == 0)).all() or sizes.sum() > MOST_COUNTS:
        raise ValueError(f"sizes must be numbers of slices, at most {MOST_COUNTS} in all, got {shown(sizes.tolist())}")
    counts = finite_numbers(raw["counts"], "counts", (int(sizes.sum()),))
    _check_counts(counts, raw["bounds"], noise["scale"], n_features)


def _check_em(raw: Raw, noise: Noise, mixture: Mixture, guarantee: Guarantee) -> None:
    """Raise unless the sums of all steps, if they are there, fit each other and the mixture's columns."""
    if "em_counts" not in raw:
        return
    n_features = EMStatistics.from_arrays(raw).shape[2]
    if n_features != mixture.n_features:
        raise ValueError(f"sums of EM must have {mixture.n_features} columns as the mixture, got {n_features}")


def _check_clusters(raw: Raw, noise: Noise, mixture: Mixture, guarantee: Guarantee) -> None:
    """Raise unless the sums of all steps of k-means fit each other and the mixture."""
    if not raw:
        return
    n_cells, n_features = cluster_steps(raw)[0][-1].sums.shape
    k, d = mixture.means.shape
    if n_features != d or n_cells < k or (n_cells > k and "kmeans_counts" in raw):
        raise ValueError(f"sums of k-means must be of {k} clusters of {d} columns, got {n_cells} of {n_features}")


def _check_cells(raw: Raw, noise: Noise, mixture: Mixture, guarantee: Guarantee) -> None:
    """Raise unless the sums of all levels, if they are there, fit each other and the mixture's columns."""
    if not raw:
        return
    n_features = CentralStatistics.from_arrays(raw).shape[2]
    if n_features != mixture.n_features:
        raise ValueError(f"sums of cells must have {mixture.n_features} columns as the mixture, got {n_features}")


def _check_bins(raw: Raw, noise: Noise, mixture: Mixture, guarantee: Guarantee) -> None:
    """Raise unless gaps, edges and counts of a release fit each other; one column."""
    if not raw:
        return
    if mixture.n_features != 1:
        raise ValueError(f"a release of method 'gaps' must have 1 column, got {mixture.n_features}")
    GapStatistics.of(raw, noise)


def _check_masked(raw: Raw, noise: Noise, mixture: Mixture, guarantee: Guarantee) -> None:
    if raw:
        check_masked(raw, noise, mixture.n_components, mixture.n_features)


def check_masked(raw: Raw, noise: Noise, k: int, d: int) -> None:
    """Raise unless the masked parameters have the shapes of such a mixture, and the levels of the mask their range."""
    shapes = {"weights": (k,), "means": (k, d), "covariances": (k, d, d)}
    lifted = noise.get("law") == Statistic.LIFTED_MASK.value
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


def _check_average(raw: Raw, noise: Noise, mixture: Mixture, guarantee: Guarantee) -> None:
    """Raise unless the law of the errors is that of a vector with as many numbers as the mixture."""
    if not raw:
        return
    size = Coordinates(mixture.n_components, mixture.n_features, "ratios").size
    _check_covariance(raw, "offset_covariance", size)
    check_average_law(noise)


def check_average_law(noise: Noise) -> None:
    """Raise unless the public law of the sums around a sketch is complete."""
    law = noise.get("average")
    rounds = law.get("rounds") if isinstance(law, Mapping) else None
    if not isinstance(rounds, (list, tuple)) or not 1 <= len(rounds) <= 2:
        raise ValueError(f"average must be a law of one or two rounds, got {shown(law)}")
    assert isinstance(law, Mapping)
    for one in rounds:
        if not isinstance(one, Mapping):
            raise ValueError(f"rounds must be a list of laws, got {shown(rounds)}")
        check_count(n_subsets=one.get("n_subsets"))
        for name in ("radius", "noise_scale", "n_inside_scale"):
            check_positive(**{name: one.get(name)})
        check_real(n_inside=one.get("n_inside"))


def check_answer(raw: Raw, noise: Noise) -> None:
    """Raise unless the answer of a vector learner, its names and the law of its errors fit each other."""
    names = noise["average"].get("names") if isinstance(noise.get("average"), Mapping) else None
    if not isinstance(names, (list, tuple)) or not names:
        raise ValueError(f"names of an answer must be a list of texts, got {shown(names)}")
    if len(names) > LONGEST_ANSWER:
        raise ValueError(f"names of an answer must be at most {LONGEST_ANSWER}, got {len(names)}")
    for i, name in enumerate(names):
        check_text(longest=LONGEST_TEXT, **{f"names[{i}]": name})
    if len(set(names)) < len(names):
        raise ValueError(f"names of an answer must be different, got {shown(names)}")
    finite_numbers(raw["answer"], "raw['answer']", (len(names),))
    _check_covariance(raw, "answer_covariance", len(names))
    check_average_law(noise)


def _check_covariance(raw: Raw, name: str, size: int) -> None:
    if name not in raw:
        raise ValueError(f"a release of an average must have {name}, got none")
    covariance = finite_numbers(raw[name], f"raw[{name!r}]", (size, size))
    scales = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    if not (scales > 0).any() or not np.array_equal(covariance, covariance.T):
        raise ValueError(f"{name} must be symmetric with a variance above 0, got another")
    scales = np.where(scales > 0, scales, 1.0)  # a learner may never differ in some numbers
    if np.linalg.eigvalsh(covariance / scales[:, None] / scales)[0] < -ROUNDED:
        raise ValueError(f"{name} must be positive semidefinite, got another")


def _check_local(raw: Raw, noise: Noise, mixture: Mixture, guarantee: Guarantee) -> None:
    """Raise unless the responses are of one kind, and of as many columns as the mixture."""
    if not raw:
        return
    found = responses_from_arrays(raw, noise)
    if found.n_features != mixture.n_features:
        raise ValueError(f"responses must have {mixture.n_features} columns as the mixture, got {found.n_features}")
    if "local_frame" in raw:
        Frame(*finite_numbers(raw["local_frame"], "local_frame", (2, mixture.n_features)))
    if noise.get("expected_loss") is not None:
        check_real(expected_loss=noise["expected_loss"])


def _check_sites(sites: Any) -> None:
    if not isinstance(sites, (list, tuple)) or not sites:
        raise ValueError(f"sites must be a list of what sites promised, got {shown(sites)}")
    for i, site in enumerate(sites):
        if not isinstance(site, Mapping) or not {"epsilon", "delta", "fingerprint"} <= set(site):
            raise ValueError(f"sites[{i}] must have epsilon, delta and a fingerprint, got {shown(site)}")
        check_real(**{f"sites[{i}]: {name}": site[name] for name in ("epsilon", "delta")})
        check_text(longest=LONGEST_TEXT, **{f"sites[{i}]: fingerprint": site["fingerprint"]})


RULES = {
    Statistic.SKETCH: StatisticRules(_check_sketch_release),
    Statistic.GRID_COUNTS: StatisticRules(_check_histogram_release, count_caveats),
    Statistic.SLICE_COUNTS: StatisticRules(_check_slice_release, count_caveats),
    Statistic.LIFTED_MASK: StatisticRules(_check_masked),
    Statistic.MASK: StatisticRules(_check_masked),
    Statistic.AVERAGE: StatisticRules(_check_average),
    Statistic.EM_SUMS: StatisticRules(_check_em),
    Statistic.CLUSTER_SUMS: StatisticRules(_check_clusters),
    Statistic.CELL_SUMS: StatisticRules(_check_cells),
    Statistic.BIN_COUNTS: StatisticRules(_check_bins, gap_caveats),
    Statistic.LOCAL_RESPONSES: StatisticRules(_check_local),
    Statistic.UNKNOWN: StatisticRules(_check_nothing),
}

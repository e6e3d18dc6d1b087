"""One release from those of several sites: post-processing, with the guarantee that it leaves each person."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_choice, read_choices, shown
from pm_dpgmm.mechanisms.sketch import NoisySketch
from pm_dpgmm.methods.sketch.checks.places import counted_cells
from pm_dpgmm.methods.sketch.choice import choose
from pm_dpgmm.methods.sketch.covariance_types import COVARIANCE_TYPES, FULL
from pm_dpgmm.methods.sketch.sites import sites_of
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.methods.sketch.statistics_checks import check_fittable, check_numbers
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.privacy.curves import MaximumProfile, PrivacyProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.release.late_warnings import warn_of_fit
from pm_dpgmm.release.release import Release
from pm_dpgmm.release.selection import own_start, with_fit

MOST_TOLD = 1000  # sites that the text of a guarantee names; noise["sites"] has all of them


def combine(
    releases: Iterable[Release],
    *,
    n_components: int | Iterable[int] | None = None,
    covariance_type: str | None = None,
) -> Release:
    """Add up the releases of sites with different people, and fit a mixture to the sum.

    One site makes a release, the others make theirs with ``fit_gmm(..., like=that_release)``: the sums are then of the
    same features. The sum of several sites' sketches is a sketch of all their records, whose noise has the sum of their
    variances. It costs nothing beyond what the sites published.

    Parameters
    ----------
    releases : iterable of Release
        At least two, of method "sketch", with the same columns, transformations, relation, unit and frequencies. A
        combined release may be among them, but no site twice.
    n_components : int or sequence of int, optional
        As for :func:`pm_dpgmm.fit_gmm`. None: the largest number of components among the releases.
    covariance_type : {"full", "tied", "diag", "spherical", "auto"}, optional
        As for :func:`pm_dpgmm.fit_gmm`. None: that of the releases, or "full" where they differ.

    Returns
    -------
    Release
        ``n_records`` is the sum; ``noise["sites"]`` lists what each site promised. ``refit`` and ``select_k`` work. A
        :class:`pm_dpgmm.FitWarning` is given as for a fit.

    Raises
    ------
    TypeError, ValueError
        Naming the first release that does not fit the first, and in what, or whose mixture is of no ordinary size
        beside its numbers.

    Guarantee
    ---------
    Every person is in one site's records and is protected by that site's guarantee: the other sites' releases do not
    depend on her record, given what was published before. So the combined release has, at every epsilon, the largest
    delta of the sites (parallel composition). It states the weakest site's pair. Which site a person belongs to, and
    under replace-one neighbours how many records a site has, is public. Somebody with records at several sites has
    the composition of their guarantees instead: ``dpg.compose(*(r.guarantee for r in releases), delta=...)``.

    Examples
    --------
    >>> import pm_dpgmm as dpg
    >>> north, south = np.random.default_rng(1).normal([[0.0]] * 1500 + [[9.0]] * 1500, size=(2, 3000, 1))
    >>> first = dpg.fit_gmm(north, 2, epsilon=1.0, delta=1e-6, bounds=(-5, 15))
    >>> second = dpg.fit_gmm(south, 2, epsilon=1.0, delta=1e-6, bounds=(-5, 15), like=first)
    >>> both = combine([first, second])
    >>> both.n_records, both.guarantee.epsilon
    (6000, 1.0)
    """
    if not isinstance(releases, Iterable) or isinstance(releases, (str, bytes, Mapping)):
        raise TypeError(f"releases must be several Release objects, got {shown(releases)}")
    given = list(releases)
    if len(given) < 2:
        raise ValueError(f"releases must be at least 2, got {len(given)}")
    for item in given:
        if not isinstance(item, Release):
            raise TypeError(f"releases must hold Release objects, got {shown(item)}")
        if item.statistic is not Statistic.SKETCH:
            raise ValueError(f"releases must be of method 'sketch', got one of method {item.method!r}")
    numbers = read_choices(max(item.n_components for item in given) if n_components is None else n_components)
    if covariance_type is not None:
        check_choice(COVARIANCE_TYPES, covariance_type=covariance_type)
    found = [SketchStatistics.from_arrays(item.raw, item.noise) for item in given]
    for i, evidence in enumerate(found):
        check_fittable(evidence, f"releases[{i}]")
    for i, evidence in enumerate(found):
        _check_same(i, given, evidence, found[0])
    check_numbers(numbers, given[0].n_features, found[0].n_numbers)
    sites = [site for item, evidence in zip(given, found, strict=True) for site in sites_of(item, evidence)]
    repeated = len(sites) - len({site["fingerprint"] for site in sites})
    if repeated:
        raise ValueError(f"releases must be of different sites, got {repeated} that are there already")

    guarantee = parallel([item.guarantee for item in given], sites)
    guarantee.check_storable()
    evidence = added(found)
    if covariance_type is not None:
        evidence = replace(evidence, covariance_type=covariance_type)
    starts = [own_start(item, evidence, f"releases[{i}]") for i, item in enumerate(given)]
    own = {start.n_components: start for start in reversed(starts)}
    choice = choose(evidence, numbers, first=own)
    fit = choice.best
    arrays, law = evidence.to_arrays()
    relation = given[0].guarantee.neighbouring
    n_records = sum(int(item.n_records or 0) for item in given) if relation is Neighbouring.REPLACE_ONE else None
    base = Release(
        fit.mixture,
        guarantee,
        "sketch",
        {"sites": len(sites)},
        added_cells(given, evidence) | arrays,
        {"statistic": "sketch", "law": "sum of discrete Gaussians", **law, "sites": sites},
        given[0].feature_names,
        n_records,
        private=all(item.private for item in given),
        transformations=given[0].transformations,
    )
    release = with_fit(base, evidence, fit, choice)
    warn_of_fit(release, stacklevel=2)
    return release


def added(evidence: list[SketchStatistics]) -> SketchStatistics:
    """Sums of sketches with equal frequencies; the moments are those of the first that has any, scaled."""
    sketches = []
    for parts in zip(*(item.sketches for item in evidence), strict=True):
        sketches.append(
            NoisySketch(
                parts[0].frequencies,
                np.sum([part.values for part in parts], axis=0),
                math.sqrt(sum(part.noise_scale**2 for part in parts)),
                sum(part.n_records for part in parts),
                math.sqrt(sum(part.n_records_scale**2 for part in parts)),
            )
        )
    start = next((item for item in evidence if item.cells or item.parts), evidence[0])
    limits = [item.bounds for item in evidence if item.bounds is not None]
    everywhere = len(limits) == len(evidence)  # sites may have clipped to different bounds
    lows, highs = (np.array([limit[:, i] for limit in limits]) for i in (0, 1))
    bounds = np.column_stack([lows.min(axis=0), highs.max(axis=0)]) if everywhere else None
    floors = [item.variance_floor for item in evidence if item.variance_floor is not None]
    floor = np.min(floors, axis=0) if len(floors) == len(evidence) else None  # what every site has
    kinds = {item.covariance_type for item in evidence}
    kind = kinds.pop() if len(kinds) == 1 else FULL
    return replace(start.with_sketches(sketches), bounds=bounds, covariance_type=kind, variance_floor=floor)


def added_cells(releases: Sequence[Release], evidence: SketchStatistics) -> dict[str, FloatArray]:
    """Sums of the sites' first histograms, which say what lies beyond the interval; none where one has another."""
    if evidence.bounds is None or not all({"cells_0", "cell_noise"} <= item.raw.keys() for item in releases):
        return {}
    for item in releases:
        counted_cells(item.raw, evidence.bounds)  # refuses what does not fit
    first = [item.raw["cells_0"] for item in releases if item.raw["cell_noise"].size]
    if len(first) < len(releases):
        return {}
    if not all(np.array_equal(counts[:, :3], first[0][:, :3]) for counts in first) or not all(map(np.size, first)):
        return {}
    noise = math.sqrt(sum(float(item.raw["cell_noise"][0]) ** 2 for item in releases))
    counts = np.sum([counts[:, 3:] for counts in first], axis=0)
    return {"cells_0": np.column_stack([first[0][:, :3], counts]), "cell_noise": np.array([noise])}


def parallel(guarantees: list[Guarantee], sites: list[dict[str, Any]]) -> Guarantee:
    """Of releases on disjoint sets of people: the weakest at every epsilon, with what each site promised."""
    told = "; ".join(
        f"site {i + 1}: epsilon = {site['epsilon']:g}, delta = {site['delta']:g}"
        for i, site in enumerate(sites[:MOST_TOLD])
    )
    if len(sites) > MOST_TOLD:
        epsilon, delta = (max(getattr(one, name) for one in guarantees) for name in ("epsilon", "delta"))
        told += f"; and {len(sites) - MOST_TOLD} more, with at most epsilon = {epsilon:g}, delta = {delta:g}"
    words = f"parallel composition over {len(sites)} sites with different people ({told}), each a private sketch"
    return weakest(guarantees, words)


def weakest(guarantees: list[Guarantee], words: str) -> Guarantee:
    """The largest delta of all at every epsilon; the stated epsilon is the largest, and delta what all hold there."""
    losses: dict[PrivacyProfile, None] = {}  # in order, each once
    for guarantee in guarantees:
        losses |= dict.fromkeys(
            guarantee.loss.parts if isinstance(guarantee.loss, MaximumProfile) else (guarantee.loss,)
        )
    loss = next(iter(losses)) if len(losses) == 1 else MaximumProfile(tuple(losses))
    delta = max(guarantee.delta for guarantee in guarantees)
    epsilon = max(guarantee.epsilon for guarantee in guarantees)
    return Guarantee(epsilon, delta, guarantees[0].neighbouring, words, loss)


def _check_same(place: int, releases: list[Release], found: SketchStatistics, first: SketchStatistics) -> None:
    """Raise ValueError that names what of a release differs from the first one."""
    one, other = releases[0], releases[place]
    hint = "make the others with fit_gmm(..., like=the first release)"
    compared: list[tuple[str, Any, Any]] = [
        ("columns", other.feature_names, one.feature_names),
        ("transformations", other.transformations, one.transformations),
        ("neighbouring", str(other.guarantee.neighbouring), str(one.guarantee.neighbouring)),
        ("numbers of sketches", len(found.sketches), len(first.sketches)),
        ("centres", found.centre.tolist(), first.centre.tolist()),
        ("units", found.unit.tolist(), first.unit.tolist()),
        ("resolution", _listed(found.resolution), _listed(first.resolution)),
    ]
    for what, got, wanted in compared:
        if got != wanted:
            raise ValueError(
                f"releases must have equal {what}, got {shown(wanted)} in releases[0] and {shown(got)} in"
                f" releases[{place}]; {hint}"
            )
    for i, (mine, theirs) in enumerate(zip(found.sketches, first.sketches, strict=True)):
        if mine.frequencies.to_dict() != theirs.frequencies.to_dict():
            raise ValueError(
                f"releases must have equal frequencies, got others in sketch {i} of releases[{place}] than of"
                f" releases[0]; {hint}"
            )


def _listed(values: FloatArray | None) -> list[float] | None:
    return None if values is None else [float(value) for value in values]

"""k-means by noisy Lloyd steps: ``EM(estimate="k-means")``, with hard assignments. Proof: k_means.md.

What leaves are the noisy counts and sums of all steps, and the squares of the last one. Centres, and a mixture of one
round component for each cluster, are functions of these; the mixture has the moments of the last step, since a law of
such sums, whose cells have hard edges, is computed nowhere here.

Without a start of the user's own the first two steps have eight times as many cells, at the same price, and the
clusters begin where k-means without noise puts them among the means of these cells, weighted by their counts: from
centres that are public, k-means in six columns mostly ends with two clusters in one (the hybrid of Su and others).

Layout of a release (T steps, K clusters, D features):

==================  =========  =======================================================================================
in ``raw``          shape      meaning
==================  =========  =======================================================================================
kmeans_centres      (T, K, D)  whose cells the records of a step are counted in, by distances in half-widths of the
                               bounds; unit of the records
kmeans_origins      (T, K, D)  y = (x - origin) / (unit radius), moved into a cube or a ball of length at most 1: the
kmeans_radii        (T, K)     middle of the bounds with Laplace noise, else the centres; in the last step the centres
kmeans_counts       (T, K)     records, plus noise
kmeans_sums         (T, K, D)  sums of y, plus noise
kmeans_scales       (T, 3)     standard deviations of the independent noise of counts, sums, squares
kmeans_squares      (K, 1)     sums of the squared length of y in the last step, plus noise; (K, 0) before it
kmeans_unit         (D,)       half-widths of the bounds times sqrt(D)
kmeans_bounds       (D, 2)     box to which every record is clipped before anything else
kmeans_wide_...     as above   centres, origins, radii, counts, sums and scales of the steps with more cells
==================  =========  =======================================================================================
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.stats import qmc
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from pm_dpgmm._arguments import FloatArray, check_choice, check_count, check_masks, finite_numbers, shown
from pm_dpgmm.mechanisms.gaussian_filter import MOST_NUMBERS
from pm_dpgmm.mechanisms.lloyd import ClusterSums, lloyd_guarantee, lloyd_noise, noisy_lloyd
from pm_dpgmm.methods.em.caveats import INTERRUPTED, cluster_caveats
from pm_dpgmm.methods.outcome import Listener, Outcome, Problem, Progress
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Guarantee
from pm_dpgmm.privacy.noise import Rng
from pm_dpgmm.records.feature_names import check_unlabelled

PREFIX = "kmeans_"
OF_STEPS = ("centres", "origins", "radii", "counts", "sums", "scales")
LAWS = ("discrete Laplace", "discrete Gaussian")
MOST_STEPS = 10
LEAST_SHARE = 0.01  # of the records, that a cluster is taken to have
LEAST_SPREAD = 1e-6  # mean square of a cluster, in that of its reach
MOST_COLUMNS = 1024  # of a file of a release (released_checks.py)
MOST_ENTRIES = 2**21  # of covariances: with 2^18 noisy numbers a file of them is still one that is read
MOST_START = 4096  # numbers of a start, which a release keeps among its settings
WIDE_STEPS, WIDE, MOST_WIDE = 2, 8, 1024  # steps with so many cells for each cluster, at most so many in all
TOLD = 2.0  # noise of a count, above which a cell is taken to hold records
POINTS, MOST_POINTS = 32, 2**14  # for each centre of a start that fills the bounds evenly; of all
TRIES, SEED = 20, 20246  # of k-means without noise, among released means; public
Start = tuple[tuple[float, ...], ...]


# ---------------------------------------------------------------------- public choices
def read_start(given: Any) -> Start:
    """Public centres as plain numbers; TypeError or ValueError unless they are finite rows of equal lengths."""
    check_unlabelled(given, name="start")
    check_masks(given, name="start", alone=True)
    found = finite_numbers(given, "start")
    if found.ndim != 2 or not 0 < found.size <= MOST_START:
        rule = f"start must be rows of numbers, one for each component, and at most {MOST_START} numbers"
        raise ValueError(f"{rule}, got shape {found.shape}")
    return tuple(tuple(row) for row in found.tolist())


def sizes_of(n_clusters: int, n_steps: int, start: Start | None) -> list[int]:
    """Numbers of cells, step by step."""
    wide = min(WIDE_STEPS, n_steps - 1) if start is None else 0
    return [max(n_clusters, min(WIDE * n_clusters, MOST_WIDE))] * wide + [n_clusters] * (n_steps - wide)


def spent_delta(problem: Problem, sizes: list[int]) -> float:
    """0 where Laplace noise is the narrower, or all there is; else the delta that Gaussian noise spends."""
    if problem.delta <= 0:
        return 0.0
    try:
        normal = _noise(problem, sizes, problem.delta)
    except ValueError:  # a delta too small for it
        return 0.0
    try:
        return 0.0 if _noise(problem, sizes, 0.0) <= normal else problem.delta
    except ValueError:
        return problem.delta


def _noise(problem: Problem, sizes: list[int], delta: float) -> float:
    ways: dict[str, Any] = {"epsilon": problem.epsilon, "neighbouring": problem.neighbouring, "squares": True}
    return lloyd_noise(problem.n_features, sizes, delta=delta, **ways)


def clusters_guarantee(problem: Problem, sizes: list[int]) -> Guarantee:
    """What :func:`fit_clusters` promises."""
    return lloyd_guarantee(problem.epsilon, spent_delta(problem, sizes), problem.neighbouring)


def check_clusters(problem: Problem, sizes: list[int], start: Start | None) -> None:
    """Raise ValueError unless everything that :func:`fit_clusters` computes exists; bounds are checked before."""
    k, d = problem.n_components, problem.n_features
    if sum(sizes) * (d + 2) > MOST_NUMBERS or k > MOST_WIDE:
        rule = f"n_components and n_steps must be at most {MOST_WIDE} and so small that {MOST_NUMBERS} numbers suffice"
        raise ValueError(f"{rule}, got {k} components, {d} columns and {len(sizes)} steps")
    if d > MOST_COLUMNS or k * d * d > MOST_ENTRIES:
        rule = f"X must have at most {MOST_COLUMNS} columns, and so few for n_components that covariances"
        raise ValueError(f"{rule} have at most {MOST_ENTRIES} entries, got {d} columns for {k} components")
    if start is not None and np.shape(start) != (k, d):
        raise ValueError(f"start must have a row of {d} numbers for each of {k} components, got {np.shape(start)}")
    _noise(problem, sizes, spent_delta(problem, sizes))


def spread_start(bounds: FloatArray, n_clusters: int) -> FloatArray:
    """Public centres (K, D): those of k-means without noise on points that fill the bounds evenly."""
    d = len(bounds)
    n_points = min(POINTS * n_clusters, MOST_POINTS)
    points = qmc.Sobol(d, scramble=False).random_base2(int(np.ceil(np.log2(n_points))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a cell without points: its centre stays
        centres, _ = kmeans2(points, points[:n_clusters], iter=20, minit="matrix")
    low, high = bounds.T
    return np.asarray(low * (1 - centres) + high * centres)


# ---------------------------------------------------------------------- release
def fit_clusters(
    records: FloatArray,
    problem: Problem,
    *,
    sizes: list[int],
    start: Start | None,
    progress: Progress,
    rng: Rng,
    released: Listener,
) -> Outcome:
    """Steps of k-means, then the mixture of the last one.

    Parameters
    ----------
    records : ndarray, shape (N, D)
        In the unit of the bounds; clipped to them.
    problem : Problem
        With bounds; it has passed :func:`check_clusters`.
    sizes : list of int
        Numbers of cells, step by step: :func:`sizes_of`.
    start : rows of numbers, optional
        Public centres; None: :func:`spread_start`.
    progress : function
    rng : numpy.random.Generator, optional
    released : function

    Returns
    -------
    Outcome

    Guarantee
    ---------
    That of :func:`clusters_guarantee`: pure, or approximate where that has less noise. Proof: k_means.md.
    """
    bounds, k, n_steps = problem.bounds, problem.n_components, len(sizes)
    assert bounds is not None
    guarantee = clusters_guarantee(problem, sizes)
    law = _law(guarantee, n_steps, bounds)

    def told(steps: tuple[ClusterSums, ...]) -> FloatArray | None:
        released(guarantee, _raw(steps, bounds, k), law)
        progress(len(steps), n_steps)
        at = len(steps)
        return gathered(steps[-1], bounds, k)[0] if at < n_steps and sizes[at - 1] > sizes[at] else None

    centres = spread_start(bounds, sizes[0]) if start is None else np.asarray(start, dtype=float)
    found = noisy_lloyd(
        records,
        centres,
        bounds=bounds,
        n_steps=n_steps,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        neighbouring=problem.neighbouring,
        squares=True,
        told=told,
        rng=rng,
    )
    return _outcome(guarantee, found.steps, bounds, law, k)


# ---------------------------------------------------------------------- released numbers alone
def _law(guarantee: Guarantee, n_steps: int, bounds: FloatArray) -> dict[str, Any]:
    widths = bounds[:, 1] - bounds[:, 0]
    return {
        "statistic": str(Statistic.CLUSTER_SUMS),
        "law": LAWS[guarantee.delta > 0],
        "estimate": "k-means",
        "covariance_type": "spherical" if (widths == widths[0]).all() else "diag",
        "n_steps": n_steps,
    }


def _raw(steps: Sequence[ClusterSums], bounds: FloatArray, n_clusters: int) -> dict[str, FloatArray]:
    arrays: dict[str, FloatArray] = {f"{PREFIX}unit": steps[0].unit, f"{PREFIX}bounds": bounds}
    wide = [step for step in steps[:WIDE_STEPS] if len(step.counts) > n_clusters]
    for prefix, some in ((f"{PREFIX}wide_", wide), (PREFIX, steps[len(wide) :])):
        if some:
            arrays |= {prefix + name: np.array([getattr(step, name) for step in some]) for name in OF_STEPS}
    return arrays | ({f"{PREFIX}squares": steps[-1].squares} if len(wide) < len(steps) else {})


def cluster_steps(raw: Mapping[str, Any]) -> tuple[tuple[ClusterSums, ...], FloatArray]:
    """The steps and the bounds in arrays from anywhere; ValueError unless they fit each other."""
    d = np.size(raw.get(f"{PREFIX}unit", ()))
    unit = finite_numbers(raw.get(f"{PREFIX}unit", ()), f"{PREFIX}unit", (d,))
    bounds = finite_numbers(raw.get(f"{PREFIX}bounds", ()), f"{PREFIX}bounds", (d, 2))
    if not (unit > 0).all() or not (bounds[:, 0] < bounds[:, 1]).all():
        raise ValueError(f"{PREFIX}unit must be positive and {PREFIX}bounds increase, got {shown(bounds.tolist())}")
    steps = _group(raw, f"{PREFIX}wide_", unit)
    if f"{PREFIX}counts" in raw:
        steps += _group(raw, PREFIX, unit)
        k = len(steps[-1].counts)
        given = raw.get(f"{PREFIX}squares", ())
        width = 1 if np.shape(given) == (k, 1) else 0
        steps[-1] = replace(steps[-1], squares=finite_numbers(given, f"{PREFIX}squares", (k, width)))
    if not 1 <= len(steps) <= MOST_STEPS:
        raise ValueError(f"release must hold the sums of 1 to {MOST_STEPS} steps of k-means, got {len(steps)}")
    return tuple(steps), bounds


def _group(raw: Mapping[str, Any], prefix: str, unit: FloatArray) -> list[ClusterSums]:
    """Steps with equally many cells."""
    if f"{prefix}counts" not in raw:
        return []
    missing = [prefix + name for name in OF_STEPS if prefix + name not in raw]
    if missing:
        raise ValueError(f"release must hold all sums of k-means steps, got one without {', '.join(missing)}")
    shape = np.shape(raw[f"{prefix}centres"])
    if len(shape) != 3 or 0 in shape or shape[2] != len(unit):
        raise ValueError(f"{prefix}centres must have shape (T, K, {len(unit)}), got {shape}")
    t, k = shape[:2]
    shapes = {"centres": shape, "origins": shape, "radii": (t, k), "counts": (t, k), "sums": shape, "scales": (t, 3)}
    found = {name: finite_numbers(raw[prefix + name], prefix + name, of) for name, of in shapes.items()}
    for name in ("radii", "scales"):
        if not (found[name] > 0).all():
            raise ValueError(f"{prefix}{name} must be greater than 0, got {found[name].min()}")
    return [
        ClusterSums(unit=unit, squares=np.zeros((k, 0)), **{name: found[name][i] for name in OF_STEPS})
        for i in range(t)
    ]


def gathered(wide: ClusterSums, bounds: FloatArray, n_clusters: int) -> tuple[FloatArray, FloatArray]:
    """Centres (K, D) and counts (K,) of k-means without noise among the means of cells, weighted by their counts."""
    means = np.clip(wide.moved, bounds[:, 0], bounds[:, 1])
    kept = wide.counts > TOLD * wide.scales[0]
    if kept.sum() < n_clusters:
        kept = np.isin(np.arange(len(kept)), np.argsort(-wide.counts, kind="stable")[:n_clusters])
    weights = np.maximum(wide.counts[kept], 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of equal points
        found = KMeans(n_clusters, n_init=TRIES, random_state=SEED).fit(means[kept] / wide.unit, sample_weight=weights)
    counts = np.bincount(found.labels_, weights=weights, minlength=n_clusters)
    return np.asarray(found.cluster_centers_ * wide.unit), counts


def mixture_of(last: ClusterSums, bounds: FloatArray, n_clusters: int) -> Mixture:
    """One component for each cluster, round in half-widths of the bounds, with the moments of the last step.

    Counts are floored at a hundredth of all, variances at their noise; a step without squares leaves them unknown, and
    a component is then as wide as the bounds.
    """
    d = len(bounds)
    means, counts = last.moved, last.counts
    if len(counts) != n_clusters:
        means, counts = gathered(last, bounds, n_clusters)
    means = np.clip(means, bounds[:, 0], bounds[:, 1])
    counts = np.maximum(counts, LEAST_SHARE * max(float(counts.sum()), 1.0))
    if last.squares.shape[1]:
        reach = last.unit * last.radii[:, None]
        away = np.square((means - last.origins) / reach).sum(axis=1)
        spread = last.squares[:, 0] / counts - away + d * np.square(last.scales[1] / counts)  # noise of the mean
        spread = np.clip(spread, np.clip(last.scales[2] / counts, LEAST_SPREAD, 1.0), 1.0)
        variances = spread[:, None] * np.square(reach) / d
    else:
        variances = np.tile(np.square(last.unit) / d, (n_clusters, 1))
    return Mixture(counts / counts.sum(), means, variances[:, :, None] * np.eye(d))


def _outcome(
    guarantee: Guarantee, steps: Sequence[ClusterSums], bounds: FloatArray, law: Mapping[str, Any], n_clusters: int
) -> Outcome:
    mixture = mixture_of(steps[-1], bounds, n_clusters)
    caveats = cluster_caveats(steps[-1]) if len(steps) == law["n_steps"] else [INTERRUPTED]
    return Outcome(mixture, guarantee, _raw(steps, bounds, n_clusters), dict(law) | {"caveats": caveats})


def resumed(guarantee: Guarantee, raw: Mapping[str, FloatArray], law: Mapping[str, Any], n_components: int) -> Outcome:
    """The outcome of what a run had released when it was interrupted: post-processing of arrays from anywhere.

    Raises
    ------
    ValueError
        If they hold no numbers of k-means, or contradict each other.
    """
    steps, bounds = cluster_steps(raw)
    check_choice(LAWS, law=law.get("law"))
    check_count(most=MOST_STEPS, n_steps=law.get("n_steps"))
    n_cells = len(steps[-1].counts)
    if (f"{PREFIX}counts" in raw and n_cells != n_components) or n_cells < n_components:
        raise ValueError(f"sums of k-means must be of {n_components} clusters, got {n_cells}")
    return _outcome(guarantee, steps, bounds, _law(guarantee, int(law["n_steps"]), bounds), n_components)

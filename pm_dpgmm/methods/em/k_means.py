"""k-means by noisy Lloyd steps: ``EM(estimate="k-means")``, with hard assignments. Proof: k_means.md.

What leaves are the noisy counts and sums of all steps, and the squares of the last one. Centres, and a mixture of one
round component for each cluster, are functions of these; the mixture is that of the M-step, since a law of such sums,
whose cells have hard edges, is computed nowhere here.

Layout of a release (T steps, K clusters, D features):

==================  =========  =======================================================================================
in ``raw``          shape      meaning
==================  =========  =======================================================================================
kmeans_centres      (T, K, D)  whose cells the records of a step are counted in, by distances in half-widths of the
                               bounds; the first ones are the public start; unit of the records
kmeans_origins      (T, K, D)  y = (x - origin) / (unit radius), moved into a cube or a ball of length at most 1: the
kmeans_radii        (T, K)     middle of the bounds with Laplace noise, else the centres; in the last step the centres
kmeans_unit         (D,)       half-widths of the bounds times sqrt(D)
kmeans_bounds       (D, 2)     box to which every record is clipped before anything else
kmeans_counts       (T, K)     records, plus noise
kmeans_sums         (T, K, D)  sums of y, plus noise
kmeans_squares      (K, 1)     sums of \\|y\\|^2 in the last step, plus noise; (K, 0) before it
kmeans_scales       (T, 3)     standard deviations of the independent noise of counts, sums, squares
==================  =========  =======================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.stats import qmc

from pm_dpgmm._arguments import FloatArray, check_choice, check_count, check_masks, finite_numbers
from pm_dpgmm.mechanisms.gaussian_filter import MOST_NUMBERS
from pm_dpgmm.mechanisms.lloyd import ClusterSums, lloyd_guarantee, lloyd_noise, noisy_lloyd
from pm_dpgmm.methods.em.caveats import INTERRUPTED, cluster_caveats
from pm_dpgmm.methods.outcome import Listener, Outcome, Problem, Progress
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Guarantee
from pm_dpgmm.privacy.noise import Rng

PREFIX = "kmeans_"
OF_STEPS = ("centres", "origins", "radii", "counts", "sums", "scales")
LAWS = ("discrete Laplace", "discrete Gaussian")
MOST_STEPS = 10
LEAST_SHARE = 0.01  # of the records, that a cluster is taken to have
LEAST_SPREAD = 1e-6  # mean square of a cluster, in that of its reach
MOST_START = 4096  # numbers of a start, which a release keeps among its settings
POINTS = 64  # of a grid-like set, for each centre of the default start
Start = tuple[tuple[float, ...], ...]


# ---------------------------------------------------------------------- public choices
def read_start(given: Any) -> Start:
    """Public centres as plain numbers; TypeError or ValueError unless they are finite rows of equal lengths."""
    check_masks(given, name="start", alone=True)
    found = finite_numbers(given, "start")
    if found.ndim != 2 or not 0 < found.size <= MOST_START:
        rule = f"start must be rows of numbers, one for each component, and at most {MOST_START} numbers"
        raise ValueError(f"{rule}, got shape {found.shape}")
    return tuple(tuple(row) for row in found.tolist())


def spent_delta(problem: Problem, n_steps: int) -> float:
    """0 where Laplace noise is the narrower, or all there is; else the delta that Gaussian noise spends."""
    if problem.delta <= 0:
        return 0.0
    try:
        normal = _noise(problem, n_steps, problem.delta)
    except ValueError:  # a delta too small for it
        return 0.0
    try:
        return 0.0 if _noise(problem, n_steps, 0.0) <= normal else problem.delta
    except ValueError:
        return problem.delta


def _noise(problem: Problem, n_steps: int, delta: float) -> float:
    ways: dict[str, Any] = {"epsilon": problem.epsilon, "neighbouring": problem.neighbouring, "squares": True}
    return lloyd_noise(problem.n_features, problem.n_components, n_steps, delta=delta, **ways)


def clusters_guarantee(problem: Problem, n_steps: int) -> Guarantee:
    """What :func:`fit_clusters` promises."""
    return lloyd_guarantee(problem.epsilon, spent_delta(problem, n_steps), problem.neighbouring)


def check_clusters(problem: Problem, n_steps: int, start: Start | None) -> None:
    """Raise ValueError unless everything that :func:`fit_clusters` computes exists; bounds are checked before."""
    k, d = problem.n_components, problem.n_features
    if n_steps * k * (d + 2) > MOST_NUMBERS:
        rule = f"n_components and n_steps must be so small that at most {MOST_NUMBERS} numbers are released"
        raise ValueError(f"{rule}, got {k} components, {d} columns and {n_steps} steps")
    if start is not None and np.shape(start) != (k, d):
        raise ValueError(f"start must have a row of {d} numbers for each of {k} components, got {np.shape(start)}")
    _noise(problem, n_steps, spent_delta(problem, n_steps))


def spread_start(bounds: FloatArray, n_clusters: int) -> FloatArray:
    """Public centres (K, D): those of k-means without noise on points that fill the bounds evenly."""
    d = len(bounds)
    points = qmc.Sobol(d, scramble=False).random_base2(int(np.ceil(np.log2(POINTS * n_clusters))))
    centres, _ = kmeans2(points, points[:n_clusters], iter=50, minit="matrix")
    low, high = bounds.T
    return np.asarray(low * (1 - centres) + high * centres)


# ---------------------------------------------------------------------- release
def fit_clusters(
    records: FloatArray,
    problem: Problem,
    *,
    n_steps: int,
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
    n_steps : int
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
    bounds = problem.bounds
    assert bounds is not None
    guarantee = clusters_guarantee(problem, n_steps)
    law = _law(guarantee, n_steps, bounds)

    def told(steps: tuple[ClusterSums, ...]) -> None:
        released(guarantee, _raw(steps, bounds), law)
        progress(len(steps), n_steps)

    centres = spread_start(bounds, problem.n_components) if start is None else np.asarray(start, dtype=float)
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
    return _outcome(guarantee, found.steps, bounds, law)


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


def _raw(steps: Sequence[ClusterSums], bounds: FloatArray) -> dict[str, FloatArray]:
    arrays = {PREFIX + name: np.array([getattr(step, name) for step in steps]) for name in OF_STEPS}
    last = steps[-1]
    return arrays | {f"{PREFIX}squares": last.squares, f"{PREFIX}unit": last.unit, f"{PREFIX}bounds": bounds}


def cluster_steps(raw: Mapping[str, Any]) -> tuple[tuple[ClusterSums, ...], FloatArray]:
    """The steps and the bounds in arrays from anywhere; ValueError unless they fit each other."""
    missing = [PREFIX + name for name in (*OF_STEPS, "squares", "unit", "bounds") if PREFIX + name not in raw]
    if missing:
        raise ValueError(f"release must hold the sums of k-means steps, got one without {', '.join(missing)}")
    shape = np.shape(raw[f"{PREFIX}centres"])
    if len(shape) != 3 or 0 in shape or shape[0] > MOST_STEPS:
        raise ValueError(f"kmeans_centres must have shape (T, K, D) of at most {MOST_STEPS} steps, got {shape}")
    t, k, d = shape
    width = 1 if np.shape(raw[f"{PREFIX}squares"]) == (k, 1) else 0
    shapes: dict[str, tuple[int, ...]] = {
        "centres": shape, "origins": shape, "radii": (t, k), "counts": (t, k), "sums": shape, "scales": (t, 3),
        "squares": (k, width), "unit": (d,), "bounds": (d, 2),
    }  # fmt: skip
    found = {name: finite_numbers(raw[PREFIX + name], PREFIX + name, of) for name, of in shapes.items()}
    for name in ("radii", "scales", "unit"):
        if not (found[name] > 0).all():
            raise ValueError(f"{PREFIX}{name} must be greater than 0, got {found[name].min()}")
    if not (found["bounds"][:, 0] < found["bounds"][:, 1]).all():
        raise ValueError(f"{PREFIX}bounds must increase, got {found['bounds'].tolist()}")
    steps = []
    for i in range(t):
        one: dict[str, Any] = {name: found[name][i] for name in OF_STEPS}
        squares = found["squares"] if i + 1 == t else np.zeros((k, 0))
        steps.append(ClusterSums(unit=found["unit"], squares=squares, **one))
    return tuple(steps), found["bounds"]


def mixture_of(last: ClusterSums, bounds: FloatArray) -> Mixture:
    """One component for each cluster, round in half-widths of the bounds, with the moments of the last step.

    Counts are floored at a hundredth of all, variances at their noise; a step without squares leaves them unknown, and
    a component is then as wide as the bounds.
    """
    d = last.sums.shape[1]
    counts = np.maximum(last.counts, LEAST_SHARE * max(float(last.counts.sum()), 1.0))
    reach = last.unit * last.radii[:, None]
    means = np.clip(last.moved, bounds[:, 0], bounds[:, 1])
    if last.squares.shape[1]:
        away = np.square((means - last.origins) / reach).sum(axis=1)
        spread = last.squares[:, 0] / counts - away + d * np.square(last.scales[1] / counts)  # noise of the mean
        spread = np.clip(spread, np.clip(last.scales[2] / counts, LEAST_SPREAD, 1.0), 1.0)
    else:
        spread, reach = np.ones(len(counts)), np.broadcast_to(last.unit, last.centres.shape)
    variances = spread[:, None] * np.square(reach) / d
    return Mixture(counts / counts.sum(), means, variances[:, :, None] * np.eye(d))


def _outcome(
    guarantee: Guarantee, steps: Sequence[ClusterSums], bounds: FloatArray, law: Mapping[str, Any]
) -> Outcome:
    mixture = mixture_of(steps[-1], bounds)
    ended = [] if steps[-1].squares.shape[1] else [INTERRUPTED]
    caveats = [*ended, *cluster_caveats(steps[-1])]
    return Outcome(mixture, guarantee, _raw(steps, bounds), dict(law) | {"caveats": caveats})


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
    if len(steps[-1].counts) != n_components:
        raise ValueError(f"kmeans_counts must be of {n_components} clusters, got {len(steps[-1].counts)}")
    return _outcome(guarantee, steps, bounds, _law(guarantee, int(law["n_steps"]), bounds))

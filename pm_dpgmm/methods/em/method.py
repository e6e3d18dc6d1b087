"""EM with noise, in balls around its components, and a fit to the sums of all its steps. Proof: method.md.

Private EM is that of Park, Foulds, Chaudhuri and Welling (DP-EM). Three things differ here: a step is one release of
all components with one sensitivity; records are measured in balls around the components, not around all data; and the
mixture is the one that explains the sums of all steps best, where an M-step takes noise for signal and stops at its
own bias.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import (
    FloatArray,
    check_choice,
    check_count,
    check_positive,
    check_probability,
    plain_numbers,
    shown,
)
from pm_dpgmm.mechanisms.box import GRID, noisy_count
from pm_dpgmm.mechanisms.em_sums import Squares, noisy_em_sums
from pm_dpgmm.mechanisms.gaussian_filter import MOST_NUMBERS, GaussianFilter
from pm_dpgmm.mechanisms.moments import first_kernel, noisy_moments
from pm_dpgmm.mechanisms.sketch_features import MAX_RECORDS
from pm_dpgmm.methods.em.fit import FIT_PARTS, in_parts
from pm_dpgmm.methods.em.k_means import (
    check_clusters,
    clusters_guarantee,
    fit_clusters,
    read_start,
    sizes_of,
    spent_delta,
)
from pm_dpgmm.methods.em.maximisation import MapPrior
from pm_dpgmm.methods.em.run import COVARIANCES, MOST_STEPS, Run
from pm_dpgmm.methods.outcome import Listener, Method, Outcome, Problem, Progress, kept_by_nobody
from pm_dpgmm.methods.sketch.search.start import level_sizes
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.privacy.noise import Rng

COUNT_SHARE = Fraction(1, 100)  # of mu^2, for the number of records under add-remove neighbours
GROWTH = Fraction(9, 5)  # a step has so many times the budget of the one before, whose balls are worse
LINE_REACH, SPACE_REACH = 2.5, 1.0  # radius of a ball in root mean square distances, in one column and in more
SIGNAL, LEAST_CELLS, MOST_CELLS = 30.0, 1.5, 4  # records over noise for a cell of a component; cells of a component
NARROWEST = 1e-10  # width of the bounds over their distance from 0
MOST_STACKED = 1200  # numbers of all steps, whose covariance is decomposed
K_MEANS = "k-means"
ESTIMATES = ("likelihood", "m-step", "map", K_MEANS)
STEPS, CLUSTER_STEPS = 2, 5  # of EM, and of k-means
START_SHARE = 0.25
LEAST_SHARE, MOST_REACH = 0.01, 100.0


@dataclass(frozen=True, slots=True)
class EM(Method):
    """Settings of ``method="em"``.

    Parameters
    ----------
    n_steps : int, optional
        E-steps, from 1 to 10; two or three. Each further one has its own share of the budget. None: 2, and 5 for
        "k-means".
    covariance_type : {"full", "diag", "spherical"}, optional
        What the covariances of the mixture are, and which second moments are released for them. "spherical" is round in
        the unit of the columns as they are given. None: "full", and for "k-means" the only one it has: round in
        half-widths of the bounds, in which it measures distances.
    estimate : {"likelihood", "m-step", "map", "k-means"}
        "likelihood": the mixture that explains the noisy sums of all steps best, by the law that ``release.observe``
        has; or that of "m-step" with a caveat, where no mixture explains them. "m-step": the published one, from the
        last step alone, for teaching: it is biased at any number of records. "map": the same with the published prior.
        "k-means": another release, of records that belong to one cluster each (DPLloyd): noisy counts and sums of every
        step and, in the last, squared distances for the variance of each cluster. Its centres are the means; it needs
        no delta, and spends one only if Gaussian noise is the narrower. No likelihood.
    start_share : float, optional
        Share of the budget for a noisy Lloyd that finds the clusters, in squared Gaussian differential privacy. None: a
        quarter. Not for "k-means".
    reach : float, optional
        Radius of the ball around a component, in root mean square distances from its mean. None: 1, or 2.5 in one
        column. Records outside count at the surface. Not for "k-means".
    prior : MapPrior, optional
        Of "map", and only of that: Dirichlet and normal-inverse-Wishart. None: ``MapPrior()``, which is weak.
    start : rows of numbers (K, D), optional
        Of "k-means", and only of that: public centres to begin with, in the unit of the records, as DPLloyd is
        printed. None: the first two steps find them, with more cells that fill the bounds.

    Guarantee
    ---------
    (epsilon, delta)-DP of everything in the release, under replace-one or add-remove neighbours; epsilon-DP of
    "k-means" with Laplace noise. The mixture is a function of the noisy sums. Proof: method.md, k_means.md.

    Examples
    --------
    >>> import pm_dpgmm as dpg
    >>> X = np.random.default_rng(1).normal([[0.0]] * 2000 + [[6.0]] * 2000)
    >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, bounds=(-10, 15), method=dpg.EM(n_steps=2))
    >>> release.means.shape, release.raw["em_counts"].shape
    ((2, 1), (2, 2))
    >>> clusters = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15), method=dpg.EM(estimate="k-means"))
    >>> clusters.raw["kmeans_counts"].shape, clusters.guarantee.delta
    ((3, 2), 0.0)
    """

    n_steps: int | None = None
    covariance_type: str | None = None
    estimate: str = "likelihood"
    start_share: float | None = None
    reach: float | None = None
    prior: MapPrior | None = None
    start: Any = None
    name: ClassVar[str] = "em"

    def __post_init__(self) -> None:
        if self.n_steps is not None:
            check_count(n_steps=self.n_steps, most=MOST_STEPS)
        if self.covariance_type is not None:
            check_choice(tuple(COVARIANCES), covariance_type=self.covariance_type)
        check_choice(ESTIMATES, estimate=self.estimate)
        if self.prior is not None and not isinstance(self.prior, MapPrior):
            raise TypeError(f"prior must be a MapPrior or None, got {shown(self.prior)}")
        if self.prior is not None and self.estimate != "map":
            raise ValueError(f"prior must be None unless estimate is 'map', got one for {self.estimate!r}")
        if self.start_share is not None:
            check_probability(start_share=self.start_share)
            if not LEAST_SHARE <= self.start_share <= 1 - LEAST_SHARE:
                rule = f"start_share must be from {LEAST_SHARE} to {1 - LEAST_SHARE}"
                raise ValueError(f"{rule}, got {self.start_share!r}")
        if self.reach is not None:
            check_positive(reach=self.reach)
            if not 1 / MOST_REACH <= self.reach <= MOST_REACH:
                raise ValueError(f"reach must be from {1 / MOST_REACH} to {MOST_REACH:g}, got {self.reach!r}")
        if self.start is not None:
            object.__setattr__(self, "start", read_start(self.start))
        if self.estimate != K_MEANS and self.start is not None:
            raise ValueError(f"start must be None unless estimate is 'k-means', got one for {self.estimate!r}")
        if self.estimate == K_MEANS:
            for name in ("start_share", "reach"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} must be None where estimate is 'k-means', got {getattr(self, name)!r}")
            if self.covariance_type not in (None, "spherical"):
                rule = "covariance_type must be 'spherical' or None where estimate is 'k-means'"
                raise ValueError(f"{rule}, got {self.covariance_type!r}")
        plain_numbers(self)

    @property
    def steps(self) -> int:
        """How many there are."""
        return self.n_steps or (CLUSTER_STEPS if self.estimate == K_MEANS else STEPS)

    def sizes(self, problem: Problem) -> list[int]:
        """Numbers of cells of k-means, step by step."""
        return sizes_of(problem.n_components, self.steps, self.start)

    @property
    def squares(self) -> Squares:
        """Second moments that such covariances need."""
        return COVARIANCES[self.covariance_type or "full"]

    def first_kernel(self, n_features: int) -> Any:
        """The sums over cells; k-means has none with Laplace noise."""
        return None if self.estimate == K_MEANS else first_kernel()

    def cost(self, problem: Problem) -> tuple[float, float]:
        """The whole budget; of k-means with Laplace noise all of epsilon."""
        if self.estimate == K_MEANS:
            return problem.epsilon, spent_delta(problem, self.sizes(problem))
        return problem.epsilon, problem.delta

    def budget(self, problem: Problem) -> GaussianFilter:
        """What may be spent."""
        return GaussianFilter.of(problem.epsilon, problem.delta)

    def guarantee(self, problem: Problem) -> Guarantee:
        """What :meth:`release` promises; made before anything is spent."""
        if self.estimate == K_MEANS:
            return clusters_guarantee(problem, self.sizes(problem))
        words = "private EM in balls around the components (methods/em/method.md)"
        loss = self.budget(problem).loss()
        return Guarantee(problem.epsilon, problem.delta, problem.neighbouring, words, loss)

    def check(self, problem: Problem) -> None:
        """Raise ValueError unless everything that :meth:`release` computes exists; nothing fails after it has spent."""
        if problem.delta <= 0 and self.estimate != K_MEANS:
            raise ValueError("method 'em' needs delta greater than 0 (but for estimate 'k-means'), got 0")
        if problem.bounds is None:
            raise ValueError("method 'em' needs bounds: public lower and upper limits of every column, got None")
        if problem.n_records > MAX_RECORDS:
            raise ValueError(f"X must have at most 2^31 rows, got {problem.n_records}")
        width = problem.bounds[:, 1] / 2 - problem.bounds[:, 0] / 2
        given = problem.bounds.tolist()
        if width.min() < 1e-100 or np.abs(problem.bounds).max() > 1e100:
            raise ValueError(f"bounds must lie within 1e100 and 1e-100 apart, got {given}; rescale")
        if (width < NARROWEST * np.abs(problem.bounds).max(axis=1)).any():
            raise ValueError(f"bounds must not lie so far from 0 for their width, got {given}; shift X and bounds")
        if self.estimate == K_MEANS:
            check_clusters(problem, self.sizes(problem), self.start)
            self.guarantee(problem).check_storable()
            return
        k, d = problem.n_components, problem.n_features
        stacked = self.steps * k * (1 + d + self.squares.size(d))
        if stacked > MOST_STACKED:
            rule = f"n_components and n_steps must be so small that all steps have at most {MOST_STACKED} numbers"
            raise ValueError(f"{rule}, got {stacked} for {k} components, {d} columns and {self.steps} steps")
        cells = sum(level_sizes(MOST_CELLS * k)) * (1 + d + d * (d + 1) // 2)
        if cells + stacked + 1 > MOST_NUMBERS:
            raise ValueError(f"n_components must be so small that at most {MOST_NUMBERS} numbers are released, got {k}")
        self.guarantee(problem).check_storable()

    def release(
        self,
        records: FloatArray,
        problem: Problem,
        *,
        learner: Any,
        n_jobs: int | None,
        progress: Progress,
        rng: Rng,
        released: Listener = kept_by_nobody,
    ) -> Outcome:
        """Lloyd, E-steps, fit, or steps of k-means; see the class for the guarantee."""
        if self.estimate == K_MEANS:
            own: dict[str, Any] = {"progress": progress, "rng": rng, "released": released}
            return fit_clusters(records, problem, sizes=self.sizes(problem), start=self.start, **own)
        guarantee, budget = self.guarantee(problem), self.budget(problem)
        assert problem.bounds is not None
        records = np.clip(records, problem.bounds[:, 0], problem.bounds[:, 1])
        ways: dict[str, Any] = {"neighbouring": problem.neighbouring, "rng": rng}
        n_records, n_scale = problem.n_records, 0.0
        if problem.neighbouring is Neighbouring.ADD_REMOVE:
            n_scale = budget.spend(GRID, share=COUNT_SHARE, n_numbers=1)[0] / GRID
            count, budget = noisy_count(records, budget=budget, share=COUNT_SHARE, rng=rng)
            n_records = max(count, 4 * problem.n_components)
        left = 1 - budget.spent / budget.limit
        first = left * Fraction(self.start_share or START_SHARE).limit_denominator(10**6)
        prior = (self.prior or MapPrior()) if self.estimate == "map" else None
        run = Run.of(problem.bounds, n_records, n_scale, problem.n_components, self.squares, self.estimate, prior)
        sizes = cell_sizes(problem, n_records, float(budget.limit))
        for size in sizes:
            found, budget = noisy_moments(records, run.cells(size), budget=budget, share=first / len(sizes), **ways)
            run = run.with_cells(found)
            released(guarantee, run.raw(), run.law())
        total = self.steps + FIT_PARTS
        progress(1, total)
        for t, share in enumerate(step_shares(left - first, self.steps)):
            step, partition = run.next_step(self.radius(problem.n_features))
            kind: dict[str, Any] = {"squares": self.squares, "budget": budget, "share": share}
            sums, budget = noisy_em_sums(records, partition, **kind, **ways)
            run = run.with_step(step, sums)
            last = t + 1 == self.steps
            released(guarantee, run.raw(last=last), run.law())
            run = run.fitted(last=last, going=in_parts(progress, self.steps)) if last else run.fitted(last=False)
            progress(total if last else t + 2, total)
        return run.outcome(guarantee)

    def radius(self, n_features: int) -> float:
        """Of a ball, in root mean square distances."""
        return self.reach if self.reach is not None else (LINE_REACH if n_features == 1 else SPACE_REACH)


def cell_sizes(problem: Problem, n_records: float, limit: float) -> list[int]:
    """Most cells of every level of the start, by how much signal there is for each component: public numbers."""
    k, d = problem.n_components, problem.n_features
    signal = n_records * math.sqrt(limit) / (k * (d + 2))
    over = min(max(signal / SIGNAL, LEAST_CELLS), MOST_CELLS)
    return level_sizes(max(2, round(over * k)) if k > 1 else 1)


def step_shares(left: Fraction, n_steps: int) -> list[Fraction]:
    """What is left of the budget, split among the steps: each has more than the one before."""
    whole = sum(GROWTH**t for t in range(n_steps))
    shares = [GROWTH**t / whole * left for t in range(n_steps)]
    return [*shares[:-1], left - sum(shares[:-1], Fraction(0))]

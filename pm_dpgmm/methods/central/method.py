"""Counts, sums and squares of cells, all with noise of one draw, and a fit by their likelihood. Proof: method.md.

The central mixture of Harrington and Mayolo made sound. As published it cuts the bounds into one cell a component and
releases the mean and variance of each, with noise that a cell of few records does not cover; here counts, sums and
squares leave together, with one sensitivity that no record and no empty cell changes. Moments of cut clusters are not
those of the components either: the mixture is the one whose cells would look like that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_choice, check_count, check_probability, plain_numbers
from pm_dpgmm.mechanisms.bernstein_sums import (
    WHOLE,
    Budget,
    LaplaceFilter,
    first_kernel,
    n_polynomials,
    noisy_bernstein_sums,
    sensitivity_l1,
    sensitivity_l2,
)
from pm_dpgmm.mechanisms.gaussian_filter import MOST_NUMBERS, GaussianFilter
from pm_dpgmm.mechanisms.sketch_features import MAX_RECORDS
from pm_dpgmm.methods.central.run import LAWS, Run
from pm_dpgmm.methods.central.statistics import partition_of
from pm_dpgmm.methods.em.fit import FIT_PARTS, in_parts
from pm_dpgmm.methods.outcome import Listener, Method, Outcome, Problem, Progress, kept_by_nobody
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee
from pm_dpgmm.privacy.noise import Rng

LEAST_CELLS, CELLS = 16, 4  # side by side in one column: so many, or so many for each component
FOUND = 2  # cells for each component that are found
NARROWEST = 1e-10  # width of the bounds over their distance from 0
MOST_STACKED = 1200  # numbers of all levels, whose covariance is decomposed
MOST_CELLS = 256
LEAST_SHARE = 0.01
LARGEST_EPSILON = 1e9  # of pure noise: it must be wider than the grid
WIDEST_NOISE = 2.0**52  # scale of it, in grid steps: 2^62 is then passed with probability exp(-1024)
CELL_KINDS = ("public", "found")
NOISES = ("laplace", "gaussian")


@dataclass(frozen=True, slots=True)
class Central(Method):
    """Settings of ``method="central"``.

    Parameters
    ----------
    n_cells : int, optional
        Most cells of a level. None: in one column 16, or four for each component; of cells that are found two for each.
    cells : {"public", "found"}, optional
        "public": one level side by side between the bounds, in one column only. "found": levels that cut what the
        level before has found, then the halves of the components that fit so far: for several columns, and for bounds
        much wider than the records. None: public in one column, found in more.
    noise : {"laplace", "gaussian"}, optional
        Laplace noise is pure; Gaussian noise needs delta. None: what is narrower, which with few levels is Laplace,
        also where there is a delta, which is then not spent.
    start_share : float
        Share of the budget of all levels but the last, of cells that are found.

    Guarantee
    ---------
    epsilon-DP with Laplace noise and (epsilon, delta)-DP with Gaussian noise, of everything in the release, under
    replace-one or add-remove neighbours; the mixture is a function of the noisy sums. Proof: method.md.

    Examples
    --------
    >>> import pm_dpgmm as dpg
    >>> X = np.random.default_rng(1).normal([[0.0]] * 2000 + [[6.0]] * 2000)
    >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15), method=dpg.Central(n_cells=12))
    >>> release.means.shape, release.raw["central_sums_0"].shape, release.guarantee.delta
    ((2, 1), (12, 3), 0.0)
    """

    n_cells: int | None = None
    cells: str | None = None
    noise: str | None = None
    start_share: float = 0.4
    name: ClassVar[str] = "central"

    def __post_init__(self) -> None:
        if self.n_cells is not None:
            check_count(least=2, most=MOST_CELLS, n_cells=self.n_cells)
        if self.cells is not None:
            check_choice(CELL_KINDS, cells=self.cells)
        if self.noise is not None:
            check_choice(NOISES, noise=self.noise)
        check_probability(start_share=self.start_share)
        if not LEAST_SHARE <= self.start_share <= 1 - LEAST_SHARE:
            raise ValueError(f"start_share must be from {LEAST_SHARE} to {1 - LEAST_SHARE}, got {self.start_share!r}")
        plain_numbers(self)

    def first_kernel(self, n_features: int) -> Any:
        """The sums over cells."""
        return first_kernel()

    # ------------------------------------------------------------------ public choices
    def sizes(self, problem: Problem) -> list[int]:
        """Most cells of every level."""
        k = problem.n_components
        if not self.finds(problem):
            return [self.n_cells or max(LEAST_CELLS, CELLS * k)]
        most = self.n_cells or FOUND * k
        return [*(2**i for i in range(math.ceil(math.log2(most)))), most, 2 * k]

    def finds(self, problem: Problem) -> bool:
        """Whether cells are found."""
        return self.cells == "found" or (self.cells is None and problem.n_features > 1)

    def shares(self, problem: Problem) -> list[Fraction]:
        """Of the budget, level by level."""
        before = len(self.sizes(problem)) - 1
        if before == 0:
            return [Fraction(1)]
        first = Fraction(self.start_share).limit_denominator(10**6)
        return [first / before] * before + [1 - first]

    def gaussian(self, problem: Problem) -> bool:
        """Whether noise is Gaussian: as asked for, or where that of the last level is narrower."""
        if self.noise is not None or problem.delta <= 0:
            return self.noise == "gaussian"
        try:
            normal = self.noise_steps(problem, gaussian=True)
        except ValueError:  # a delta too small for it
            return False
        return normal[-1] < math.sqrt(2) * self.noise_steps(problem, gaussian=False)[-1]

    def noise_steps(self, problem: Problem, *, gaussian: bool) -> list[float]:
        """Scale of the noise of every level, in grid steps."""
        shares = [float(share) for share in self.shares(problem)]
        if not gaussian:
            return [sensitivity_l1(problem.neighbouring) / problem.epsilon / share for share in shares]
        mu = math.sqrt(GaussianFilter.of(problem.epsilon, problem.delta).limit)
        return [max(sensitivity_l2(problem.neighbouring) / mu / math.sqrt(share), WHOLE) for share in shares]

    def budget(self, problem: Problem) -> Budget:
        """What may be spent."""
        if self.gaussian(problem):
            return GaussianFilter.of(problem.epsilon, problem.delta)
        return LaplaceFilter.of(problem.epsilon)

    def cost(self, problem: Problem) -> tuple[float, float]:
        """All of epsilon; delta with Gaussian noise alone."""
        return problem.epsilon, problem.delta if self.gaussian(problem) else 0.0

    def guarantee(self, problem: Problem) -> Guarantee:
        """What :meth:`release` promises; made before anything is spent."""
        words = "sums of Bernstein polynomials in cells (methods/central/method.md)"
        budget = self.budget(problem)
        loss = budget.loss() if isinstance(budget, GaussianFilter) else PointProfile(problem.epsilon)
        epsilon, delta = self.cost(problem)
        return Guarantee(epsilon, delta, problem.neighbouring, words, loss)

    def check(self, problem: Problem) -> None:
        """Raise ValueError unless everything that :meth:`release` computes exists; nothing fails after it has spent."""
        k, d = problem.n_components, problem.n_features
        if self.noise == "gaussian" and problem.delta <= 0:
            raise ValueError("noise 'gaussian' needs delta greater than 0, got 0")
        if problem.bounds is None:
            raise ValueError("method 'central' needs bounds: public lower and upper limits of every column, got None")
        if self.cells == "public" and d > 1:
            raise ValueError(f"cells must be 'found' with more than one column, got 'public' with {d}")
        if problem.n_records > MAX_RECORDS:
            raise ValueError(f"X must have at most 2^31 rows, got {problem.n_records}")
        width = problem.bounds[:, 1] / 2 - problem.bounds[:, 0] / 2
        given = problem.bounds.tolist()
        if width.min() < 1e-100 or np.abs(problem.bounds).max() > 1e100:
            raise ValueError(f"bounds must lie within 1e100 and 1e-100 apart, got {given}; rescale")
        if (width < NARROWEST * np.abs(problem.bounds).max(axis=1)).any():
            raise ValueError(f"bounds must not lie so far from 0 for their width, got {given}; shift X and bounds")
        sizes = self.sizes(problem)
        if not self.finds(problem) and sizes[0] < 2 * k:
            raise ValueError(f"n_cells must be at least 2 for each component, got {sizes[0]} for {k}")
        stacked = sum(sizes) * n_polynomials(d)
        if stacked > min(MOST_STACKED, MOST_NUMBERS):
            rule = f"n_components and n_cells must be so small that all levels have at most {MOST_STACKED} numbers"
            raise ValueError(f"{rule}, got {stacked} for {sum(sizes)} cells of {d} columns")
        gaussian = self.gaussian(problem)
        if max(self.noise_steps(problem, gaussian=gaussian)) > WIDEST_NOISE:
            rule = "epsilon and delta must be so large that the noise fits integers of 64 bits"
            raise ValueError(f"{rule}, got {problem.epsilon:g} and {problem.delta:g}")
        if not gaussian and problem.epsilon > LARGEST_EPSILON:
            raise ValueError(f"epsilon must be at most {LARGEST_EPSILON:g} for integer noise, got {problem.epsilon:g}")
        self.guarantee(problem).check_storable()

    # ------------------------------------------------------------------ release
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
        """Level after level, then the fit; see the class for the guarantee."""
        guarantee, budget = self.guarantee(problem), self.budget(problem)
        assert problem.bounds is not None
        records = np.clip(records, problem.bounds[:, 0], problem.bounds[:, 1])
        sizes, finds = self.sizes(problem), self.finds(problem)
        law = LAWS[isinstance(budget, GaussianFilter)]
        run = Run(problem.bounds, problem.public_records, problem.n_components, law)
        for t, (size, share) in enumerate(zip(sizes, self.shares(problem), strict=True)):
            if not finds:
                cells = run.side_by_side(size)
            elif t == 0:
                cells = run.whole()
            else:
                cells = run.around(run.fitted(last=False)) if t + 1 == len(sizes) else run.split(size)
            ways: dict[str, Any] = {"budget": budget, "share": share, "neighbouring": problem.neighbouring, "rng": rng}
            found, budget = noisy_bernstein_sums(records, partition_of(cells), **ways)
            run = run.with_level(cells, found)
            released(guarantee, run.raw(), run.law(len(sizes)))
            progress(t + 1, len(sizes) + FIT_PARTS)
        outcome = run.outcome(guarantee, len(sizes), in_parts(progress, len(sizes)))
        progress(len(sizes) + FIT_PARTS, len(sizes) + FIT_PARTS)
        return outcome

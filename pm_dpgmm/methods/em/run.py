"""What a private EM has released so far, and what follows from it: the next cells or step, the mixture, the outcome.

Post-processing: nothing here sees a record. Everything can be read back from the arrays of a release, so that a fit
that was interrupted goes on from what it had released (:func:`resumed`).

Layout of what is in ``raw`` beside the arrays of statistics.py (G cells, C = D (D + 1)/2 there):

===================  ============================  ===================================================================
in ``raw``           shape                         meaning
===================  ============================  ===================================================================
em_cells_0, ...      (G, 2 D + C + 3)              a level of the start: centre, radius, noisy count, sum of y, upper
                                                   triangle of the sum of y y', scale of the noise; in half-widths
em_step_0, ...       (K, D (D + 3) + C + 7)        a step but the last, before the next one was made: weight, mean,
                                                   covariance, centre, radius, count, sum, squares, and the four scales
===================  ============================  ===================================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, finite_numbers, shown
from pm_dpgmm.mechanisms.em_sums import NoisyEMSums, Squares
from pm_dpgmm.mechanisms.moments import NoisyMoments
from pm_dpgmm.mechanisms.partitions import SoftPartition, VoronoiPartition
from pm_dpgmm.methods.em.caveats import INTERRUPTED, MISSED, em_caveats
from pm_dpgmm.methods.em.fit import MISFIT, Going, fit_sums, shaped
from pm_dpgmm.methods.em.maximisation import MapPrior, maximised
from pm_dpgmm.methods.em.statistics import EMStatistics
from pm_dpgmm.methods.outcome import Outcome
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.start import leaves_of, next_cells, starts, trusted_leaves
from pm_dpgmm.mixture.far_rows import far_rows
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Guarantee

LEAST_SD, WIDEST_SD = 1e-4, 1.0  # of a component that a step is made at, in half-widths of the bounds
LEAST_WEIGHT = 0.005  # of such a component
MOST_LEVELS, MOST_STEPS = 64, 10
# by scikit-learn's names
COVARIANCES = {"full": Squares.FULL, "diag": Squares.DIAGONAL, "spherical": Squares.ISOTROPIC}


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Released numbers and public settings."""

    bounds: FloatArray  # (D, 2)
    n_records: float  # with noise of n_records_scale, which is 0 where it is public
    n_records_scale: float
    n_components: int
    covariance: Squares
    estimate: str
    levels: tuple[NoisyMoments, ...] = ()
    steps: EMStatistics | None = None
    mixture: Mixture | None = None  # of the steps
    crude: tuple[Mixture, ...] = field(default=())  # of the last level: the best, then others
    prior: MapPrior | None = None  # of estimate "map"
    missed: bool = False  # no mixture explains the sums, so it is that of the M-step

    @classmethod
    def of(
        cls,
        bounds: FloatArray,
        n_records: int,
        n_records_scale: float,
        n_components: int,
        covariance: Squares,
        estimate: str,
        prior: MapPrior | None = None,
    ) -> Run:
        """Before the first release."""
        box = np.asarray(bounds)
        return cls(box, float(n_records), n_records_scale, n_components, covariance, estimate, prior=prior)

    @property
    def unit(self) -> FloatArray:
        """Of the columns, (D,): half-widths of the bounds, or the largest for all where covariances are round."""
        half = self.bounds[:, 1] / 2 - self.bounds[:, 0] / 2
        return np.full(len(half), half.max()) if self.covariance is Squares.ISOTROPIC else half

    @property
    def middle(self) -> FloatArray:
        """Of the bounds, (D,)."""
        return np.asarray(self.bounds[:, 0] / 2 + self.bounds[:, 1] / 2)

    # ------------------------------------------------------------------ cells
    def cells(self, size: int) -> VoronoiPartition:
        """The next level of the start, of at most ``size`` cells."""
        if not self.levels:
            d = len(self.bounds)
            return VoronoiPartition(self.middle, self.unit, np.zeros((1, d)), np.array([math.sqrt(d)]))
        last = self.levels[-1]
        return next_cells(last, leaves_of(last, self.n_records), size)

    def with_cells(self, found: NoisyMoments) -> Run:
        """After a level was released."""
        return replace(self, levels=(*self.levels, found), crude=())

    def with_start(self) -> Run:
        """With the mixtures that the last level suggests."""
        if self.crude:
            return self
        found = starts(trusted_leaves(self.levels[-1], self.n_records), self.n_components)
        return replace(self, crude=tuple(self._mixture(one) for one in found))

    def _mixture(self, found: ScaledMixture) -> Mixture:
        """In the unit of the records, of the covariances that are wanted."""
        weights = np.maximum(found.weights, LEAST_WEIGHT)
        means = np.clip(self.middle + self.unit * found.means, self.bounds[:, 0], self.bounds[:, 1])
        values, vectors = np.linalg.eigh(found.covariances)
        values = np.clip(values, LEAST_SD**2, WIDEST_SD**2)
        covariances = (vectors * values[:, None, :]) @ vectors.swapaxes(1, 2) * self.unit[:, None] * self.unit
        covariances = (covariances + covariances.swapaxes(1, 2)) / 2
        return Mixture(weights / weights.sum(), means, shaped(covariances, self.covariance))

    # ------------------------------------------------------------------ steps
    def next_step(self, reach: float) -> tuple[EMStatistics, SoftPartition]:
        """A step at the mixture so far, its sums 0; and the same as parts of the records.

        Balls have ``reach`` root mean square distances of their component.
        """
        at = self.mixture if self.mixture is not None else self.with_start().crude[0]
        at = self._mixture(ScaledMixture.about(at, self.middle, self.unit))
        scaled = ScaledMixture.about(at, self.middle, self.unit)
        parts = SoftPartition.of(self.middle, self.unit, scaled.weights, scaled.means, scaled.factors, reach=reach)
        step = EMStatistics.of_step(
            at.weights,
            at.means,
            at.covariances,
            bounds=self.bounds,
            unit=self.unit,
            scale=1.0,
            centres=at.means,
            radii=parts.radii,
            n_records=self.n_records,
            n_records_scale=self.n_records_scale,
            squares=self.covariance,
        )
        return step, parts

    def with_step(self, step: EMStatistics, sums: NoisyEMSums) -> Run:
        """After a step was released."""
        done = replace(
            step,
            counts=sums.counts[None],
            sums=sums.sums[None],
            squares=sums.squares[None],
            scales=sums.scales[None],
        )
        steps = done if self.steps is None else self.steps.then(done)
        return replace(self, steps=steps)

    def fitted(self, *, last: bool, going: Going = lambda share: None) -> Run:
        """With the mixture of the steps; ``last``: it is what leaves, and ``going`` is told which share is done."""
        assert self.steps is not None
        plain = maximised(self.steps, covariance=self.covariance, prior=self.prior)
        if self.estimate in ("m-step", "map"):
            return replace(self, mixture=plain)
        run = self.with_start()
        before = [] if self.mixture is None else [self.mixture]
        ways: dict[str, Any] = {"covariance": self.covariance, "last": last, "going": going}
        found, excess = fit_sums(self.steps, run.crude[0], starts=[*run.crude[1:], plain, *before], **ways)
        # the likelihood takes the law of clipped normal records literally: where they are not like that (point masses),
        # its optimum lies far outside of the bounds, while moments stay moments
        missed = excess > MISFIT
        return replace(run, mixture=plain if missed else found, missed=missed)

    # ------------------------------------------------------------------ what leaves
    def law(self) -> dict[str, Any]:
        """Of the numbers in ``raw``, beside what they say themselves."""
        named = {kind: name for name, kind in COVARIANCES.items() if kind is not Squares.FULL}
        kind = {"covariance_type": named[self.covariance]} if self.covariance in named else {}
        return (
            {
                "statistic": "EM sums",
                "law": "discrete Gaussian",
                "covariance": str(self.covariance),
                "estimate": self.estimate,
            }
            | kind
            | ({} if self.prior is None else {"prior": asdict(self.prior)})
        )

    def raw(self, *, last: bool = False) -> dict[str, FloatArray]:
        """What was released; ``last``: all steps are done."""
        arrays = {
            "em_unit": self.unit,
            "em_bounds": self.bounds,
            "em_n_records": np.asarray(self.n_records),
            "em_n_records_scale": np.asarray(self.n_records_scale),
        }
        arrays |= {f"em_cells_{i}": _packed_cells(one) for i, one in enumerate(self.levels)}
        if self.steps is not None:
            n_steps = len(self.steps.counts)
            arrays |= {f"em_step_{t}": _packed_step(self.steps, t) for t in range(n_steps - last)}
            arrays |= self.steps.to_arrays() if last else {}
        return arrays

    def outcome(self, guarantee: Guarantee) -> Outcome:
        """After the last step."""
        assert self.steps is not None and self.mixture is not None
        law = self.law() | {"caveats": [*([MISSED] if self.missed else []), *em_caveats(self.steps, self.mixture)]}
        return Outcome(self.mixture, guarantee, self.raw(last=True), law | far_rows(self.bounds, self.n_records))


def resumed(guarantee: Guarantee, raw: Mapping[str, FloatArray], law: Mapping[str, Any], n_components: int) -> Outcome:
    """The outcome of what a run had released when it was interrupted: post-processing of arrays from anywhere.

    Raises
    ------
    ValueError
        If they hold no numbers of an EM, or contradict each other.
    """
    try:
        covariance, estimate = Squares(str(law.get("covariance"))), law.get("estimate")
    except ValueError:
        raise ValueError(f"covariance must be one that method 'em' has, got {shown(law.get('covariance'))}") from None
    bounds = finite_numbers(raw.get("em_bounds"), "em_bounds")
    if bounds.ndim != 2 or bounds.shape[1] != 2 or not (bounds[:, 0] < bounds[:, 1]).all():
        raise ValueError(f"em_bounds must have increasing rows of two numbers, got {shown(bounds.tolist())}")
    n = float(finite_numbers(raw.get("em_n_records"), "em_n_records", ()))
    scale = float(finite_numbers(raw.get("em_n_records_scale"), "em_n_records_scale", ()))
    prior = None
    if estimate == "map":
        try:
            prior = MapPrior(**law.get("prior", {}))
        except TypeError:
            raise ValueError(f"prior must hold the numbers of a MapPrior, got {shown(law.get('prior'))}") from None
    run = Run(bounds, n, scale, n_components, covariance, str(estimate), prior=prior)
    for i in range(MOST_LEVELS):
        if f"em_cells_{i}" not in raw:
            break
        run = run.with_cells(_unpacked_cells(raw[f"em_cells_{i}"], run))
    if not run.levels:
        raise ValueError("nothing can be fitted before the first cells are released, which the fit had not reached")
    steps = [_unpacked_step(raw[f"em_step_{t}"], run) for t in range(MOST_STEPS) if f"em_step_{t}" in raw]
    finished = "em_counts" in raw
    if finished:
        steps.append(EMStatistics.from_arrays(raw).last())
    if not steps:
        return Outcome(run.with_start().crude[0], guarantee, run.raw(), run.law() | {"caveats": [INTERRUPTED]})
    for t, step in enumerate(steps):  # the same fits as then, one after the other
        stack = step if run.steps is None else run.steps.then(step)
        run = replace(run, steps=stack).fitted(last=t + 1 == len(steps))
    found = run.outcome(guarantee)
    if finished:
        return found
    return found.with_caveat(INTERRUPTED)


def _packed_cells(found: NoisyMoments) -> FloatArray:
    g, d = found.partition.shape
    upper = found.squares[:, *np.triu_indices(d)]
    scale = np.full((g, 1), found.noise_scale)
    columns = found.partition.centres, found.partition.radii[:, None], found.counts[:, None], found.sums, upper, scale
    return np.concatenate(columns, axis=1)


def _unpacked_cells(given: Any, run: Run) -> NoisyMoments:
    d = len(run.bounds)
    c = d * (d + 1) // 2
    table = finite_numbers(given, "em_cells")
    if table.ndim != 2 or table.shape[1] != 2 * d + c + 3 or not len(table):
        raise ValueError(f"em_cells must have {2 * d + c + 3} columns, got shape {table.shape}")
    centres, radii, counts, sums, upper, scale = np.split(table, np.cumsum([d, 1, 1, d, c]), axis=1)
    if not (radii > 0).all() or not scale[0, 0] > 0:
        raise ValueError("em_cells must have radii and a noise scale above 0, got others")
    squares = np.zeros((len(table), d, d))
    row, column = np.triu_indices(d)
    squares[:, row, column] = squares[:, column, row] = upper
    partition = VoronoiPartition(run.middle, run.unit, centres, radii[:, 0])
    return NoisyMoments(partition, counts[:, 0], sums, squares, float(scale[0, 0]))


def _packed_step(steps: EMStatistics, t: int) -> FloatArray:
    _, k, d = steps.shape
    columns = (
        steps.weights[t][:, None],
        steps.means[t],
        steps.covariances[t].reshape(k, d * d),
        steps.centres[t],
        steps.radii[t][:, None],
        steps.counts[t][:, None],
        steps.sums[t],
        steps.squares[t],
        np.broadcast_to(steps.scales[t], (k, 4)),
    )
    return np.concatenate(columns, axis=1)


def _unpacked_step(given: Any, run: Run) -> EMStatistics:
    d = len(run.bounds)
    c = run.covariance.size(d)
    sizes = [1, d, d * d, d, 1, 1, d, c, 4]
    table = finite_numbers(given, "em_step", (run.n_components, sum(sizes)))
    weights, means, covariances, centres, radii, counts, sums, squares, scales = np.split(
        table, np.cumsum(sizes[:-1]), axis=1
    )
    return EMStatistics(
        weights[:, 0][None],
        means[None],
        covariances.reshape(1, -1, d, d),
        centres[None],
        radii[:, 0][None],
        run.unit,
        run.bounds,
        counts[:, 0][None],
        sums[None],
        squares[None],
        scales[:1],
        np.asarray(run.n_records),
        np.asarray(run.n_records_scale),
    )

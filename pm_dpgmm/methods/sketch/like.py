"""Sketches at the frequencies of another release, so that several sites can be added up. Proof: like.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from pm_dpgmm._arguments import frozen, shown
from pm_dpgmm._blocks import Records
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.mechanisms.box import cells_cost
from pm_dpgmm.mechanisms.gaussian_filter import MOST_NUMBERS, GaussianFilter
from pm_dpgmm.mechanisms.sketch import noisy_sketch, sketch_cost
from pm_dpgmm.mechanisms.sketch_features import GRID
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.sketch.estimate import as_start
from pm_dpgmm.methods.sketch.location import CELLS, CELLS_SHARE
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.methods.sketch.statistics_checks import check_fittable, check_sizes, check_sketch_statistics, check_start
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import Rng
from pm_dpgmm.records.feature_names import names_of_features
from pm_dpgmm.records.transformed_columns import TransformedColumns

SHARE_STEPS, LEAST_SHARE = 10**9, 10**3  # shares of the budget are integers over their sum, about SHARE_STEPS
LARGEST_SCALE = 2**56  # of noise in grid steps: sums and noise of one record's site fit 64 bits


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What a site takes from another one's release.

    Attributes
    ----------
    evidence : SketchStatistics
        Its sketches give frequencies and shares of the budget, its cells and parts where a fit may start.
    starts : mapping of int to ScaledMixture
        Its mixture, by number of components.
    feature_names : tuple of str or None
    private : bool
        Whether its release was; what is made like it says the same.
    transformations : TransformedColumns or None
        Of its columns; its numbers are in the transformed unit.
    """

    evidence: SketchStatistics
    starts: Mapping[int, ScaledMixture]
    feature_names: tuple[str, ...] | None = None
    private: bool = True
    transformations: TransformedColumns | None = None
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        check_sketch_statistics(self.evidence)
        check_fittable(self.evidence, "like")
        check_sizes(self.evidence, "like")
        for start in self.starts.values():
            check_start(start, "like")
        kept = {
            k: replace(s, weights=frozen(s.weights), means=frozen(s.means), factors=frozen(s.factors), given=None)
            for k, s in self.starts.items()
        }
        object.__setattr__(self, "starts", kept)  # nothing of it can change after it was checked

    @classmethod
    def of(cls, like: Any) -> Reference:
        """From a Release of method "sketch", or SketchStatistics, both from anywhere.

        Nothing is believed: TypeError and ValueError say what is wrong, before anything is spent.
        """
        if isinstance(like, Reference):
            return like
        if isinstance(like, SketchStatistics):
            return cls(like, {})
        if not all(hasattr(like, part) for part in ("method", "raw", "noise", "mixture", "feature_names")):
            raise TypeError(f"like must be a Release of method 'sketch', got {shown(like)}")
        if Statistic.of(like.method, like.noise) is not Statistic.SKETCH:
            raise ValueError(f"like must be a Release of method 'sketch', got one of method {like.method!r}")
        evidence = SketchStatistics.from_arrays(like.raw, like.noise)
        check_sizes(evidence, "like")
        if like.mixture.n_features != len(evidence.unit):
            raise ValueError(
                f"like must have a mixture of {len(evidence.unit)} features, got {like.mixture.n_features}"
            )
        try:
            with np.errstate(all="ignore"):
                start = as_start(evidence, like.mixture, like.background_weight)
        except np.linalg.LinAlgError:  # what overflows in the unit of the evidence
            raise ValueError("like must have a mixture of the size of its unit, got one far from it") from None
        columns = getattr(like, "transformations", None)
        return cls(evidence, {start.n_components: start}, like.feature_names, bool(like.private), columns)

    def shares(self, relation: Neighbouring) -> list[Fraction]:
        """Of what is left of a budget, one for each sketch, in the proportions of the reference; they sum to 1.

        None is less than a millionth: noise scales of the reference that are far apart would round to nothing.
        """
        parts = [float(s.frequencies.squared_sensitivity(relation)) / s.noise_scale**2 for s in self.evidence.sketches]
        whole = sum(parts)
        integers = [max(LEAST_SHARE, round(SHARE_STEPS * part / whole)) for part in parts]
        return [Fraction(integer, sum(integers)) for integer in integers]

    def check(self, problem: Problem, budget: GaussianFilter) -> None:
        """Raise ValueError, from public facts alone, unless the records of ``problem`` can be sketched like this.

        What :func:`sketch_like` would spend is computed to the end here, with nothing left to fail there.
        """
        if problem.n_features != len(self.evidence.unit):
            raise ValueError(f"like must have {problem.n_features} features as X has, got {len(self.evidence.unit)}")
        if problem.neighbouring is not self.evidence.neighbouring:
            raise ValueError(
                f"like must have neighbouring {str(problem.neighbouring)!r} as this fit has,"
                f" got {str(self.evidence.neighbouring)!r}"
            )
        if problem.transformations != self.transformations:
            names = self.feature_names or names_of_features(None, problem.n_features)
            wanted, given = (
                "None" if one is None else shown(one.told(names))
                for one in (self.transformations, problem.transformations)
            )
            raise ValueError(f"transform must be that of like, {wanted} (transform=like.transformations), got {given}")
        known = self.evidence.resolution
        if problem.resolution is not None and (known is None or not np.array_equal(problem.resolution, known)):
            told = shown(None if known is None else known.tolist())
            rule = f"resolution must be that of like, {told}, or left out"
            raise ValueError(f"{rule}, got {shown(problem.resolution.tolist())}")
        n_cells = 0 if problem.bounds is None else CELLS * problem.n_features
        n_numbers = n_cells + sum(2 * sketch.frequencies.n_frequencies + 1 for sketch in self.evidence.sketches)
        if n_numbers > MOST_NUMBERS:
            raise ValueError(f"like must hold at most {MOST_NUMBERS} numbers, got {n_numbers}")
        if problem.bounds is not None:
            d, relation = problem.n_features, problem.neighbouring
            _, budget = cells_cost(d, CELLS, budget=budget, share=CELLS_SHARE, neighbouring=relation)
        left = 1 - budget.spent / budget.limit
        for sketch, share in zip(self.evidence.sketches, self.shares(problem.neighbouring), strict=True):
            scale, budget = sketch_cost(
                sketch.frequencies, budget=budget, share=left * share, neighbouring=problem.neighbouring
            )
            if scale > LARGEST_SCALE:
                rule = "epsilon must be large enough for the sketches of like"
                raise ValueError(f"{rule}, got {problem.epsilon:g}: noise of {scale * GRID:.2g} records")


def sketch_like(
    records: Records,
    reference: Reference,
    budget: GaussianFilter,
    problem: Problem,
    *,
    rng: Rng,
    released: Callable[[SketchStatistics], None] = lambda evidence: None,
) -> SketchStatistics:
    """Spend what is left of a budget on sketches at the frequencies of another release.

    Parameters
    ----------
    records : ndarray, shape (N, n_features)
    reference : Reference
        A function of releases and public numbers, never of ``records``. Nothing else is assumed of it but what
        ``Reference`` and its ``check`` refuse.
    budget : GaussianFilter
    problem : Problem
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.
    released : function, optional
        Called after every sketch with what there is by then.

    Returns
    -------
    SketchStatistics
        One sketch for each of the reference's, with the same shares of the budget. Its cells and parts are the
        reference's, scaled to the number of records here: they say where a fit may start and nothing of these records.

    Guarantee
    ---------
    What is left of ``budget``, in squared Gaussian differential privacy. Proof: like.md.
    """
    given, relation = reference.evidence, problem.neighbouring
    shares = reference.shares(relation)
    left = 1 - budget.spent / budget.limit
    sketches = []
    for i, (sketch, part) in enumerate(zip(given.sketches, shares, strict=True)):
        share = left * part if i + 1 < len(shares) else 1 - budget.spent / budget.limit
        found, budget = noisy_sketch(
            records, sketch.frequencies, budget=budget, share=share, neighbouring=relation, rng=rng
        )
        sketches.append(found)
        released(given.with_sketches(sketches))
    return given.with_sketches(sketches)

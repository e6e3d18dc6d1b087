"""Sketches at the frequencies of another release, so that several sites can be added up. Proof: sketch_like.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pm_dpgmm._arguments import shown
from pm_dpgmm._blocks import Records
from pm_dpgmm.evidence import Evidence
from pm_dpgmm.mechanisms.gaussian_budget import MOST_NUMBERS, GaussianBudget
from pm_dpgmm.mechanisms.sketch import noisy_sketch
from pm_dpgmm.methods import Problem
from pm_dpgmm.noise import Rng
from pm_dpgmm.sketch_model import Fitted
from pm_dpgmm.sketch_post import as_start


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What a site takes from another one's release.

    Attributes
    ----------
    evidence : Evidence
        Its sketches give frequencies and shares of the budget, its cells and parts where a fit may start.
    starts : mapping of int to Fitted
        Its mixture, by number of components.
    feature_names : tuple of str or None
    """

    evidence: Evidence
    starts: Mapping[int, Fitted]
    feature_names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, like: Any) -> Reference:
        """From a Release of method "sketch", or Evidence; TypeError and ValueError say what is wrong."""
        if isinstance(like, Reference):
            return like
        if isinstance(like, Evidence):
            return cls(like, {})
        if not all(hasattr(like, part) for part in ("raw", "noise", "mixture", "feature_names")):
            raise TypeError(f"like must be a Release of method 'sketch', got {shown(like)}")
        if "sketches" not in like.noise:
            raise ValueError(f"like must be a Release of method 'sketch', got one of method {like.method!r}")
        evidence = Evidence.from_arrays(like.raw, like.noise)
        start = as_start(evidence, like.mixture, like.background_weight)
        return cls(evidence, {start.n_components: start}, like.feature_names)

    def check(self, problem: Problem) -> None:
        """Raise ValueError, from public facts alone, unless the records of ``problem`` can be sketched like this."""
        if problem.n_features != len(self.evidence.unit):
            raise ValueError(f"like must have {problem.n_features} features as X has, got {len(self.evidence.unit)}")
        if problem.neighbouring is not self.evidence.neighbouring:
            raise ValueError(
                f"like must have neighbouring {str(problem.neighbouring)!r} as this fit has,"
                f" got {str(self.evidence.neighbouring)!r}"
            )
        n_numbers = sum(2 * sketch.frequencies.n_frequencies + 1 for sketch in self.evidence.sketches)
        if n_numbers > MOST_NUMBERS:
            raise ValueError(f"like must hold at most {MOST_NUMBERS} numbers, got {n_numbers}")


def sketch_like(
    records: Records, reference: Reference, budget: GaussianBudget, problem: Problem, *, rng: Rng,
    released: Callable[[Evidence], None] = lambda evidence: None,
) -> Evidence:  # fmt: skip
    """Spend what is left of a budget on sketches at the frequencies of another release.

    Parameters
    ----------
    records : ndarray, shape (N, n_features)
    reference : Reference
        A function of releases and public numbers, never of ``records``. Nothing else is assumed of it.
    budget : GaussianBudget
    problem : Problem
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.
    released : function, optional
        Called after every sketch with what there is by then.

    Returns
    -------
    Evidence
        One sketch for each of the reference's, with the same shares of the budget. Its cells and parts are the
        reference's, scaled to the number of records here: they say where a fit may start and nothing of these records.

    Guarantee
    ---------
    What is left of ``budget``, in squared Gaussian differential privacy. Proof: sketch_like.md.
    """
    given, relation = reference.evidence, problem.neighbouring
    parts = [float(s.frequencies.squared_sensitivity(relation)) / s.noise_scale**2 for s in given.sketches]
    left = 1 - budget.spent / budget.limit
    sketches = []
    for i, (sketch, part) in enumerate(zip(given.sketches, parts, strict=True)):
        if i + 1 < len(parts):
            share = left * Fraction(part / sum(parts)).limit_denominator(10**6)
        else:
            share = 1 - budget.spent / budget.limit
        found, budget = noisy_sketch(
            records, sketch.frequencies, budget=budget, share=share, neighbouring=relation, rng=rng
        )
        sketches.append(found)
        released(given.with_sketches(sketches))
    return given.with_sketches(sketches)

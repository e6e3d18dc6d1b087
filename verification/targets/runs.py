"""What the targets share: their budget, mechanisms in two steps, many calls of the package as one array."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pm_dpgmm import FitWarning
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.subsets import fit_here
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import WeakGuarantee
from verification.specimens import Specimen

EPSILON, DELTA = 1.0, 1e-2  # claimed, unless a target says otherwise

at_bits = functools.partial(Specimen, level="bit")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A mechanism whose deterministic part is done once per data set: the two functions that ``audit`` looks for."""

    prepare: Callable[[Any], Any]
    sample: Callable[[Any, int, np.random.Generator], Any]

    def __call__(self, data: Any, n_samples: int, rng: np.random.Generator) -> Any:
        """Both steps."""
        return self.sample(self.prepare(data), n_samples, rng)


def rows_of(run: Callable[[], Sequence[float] | FloatArray], n_samples: int) -> FloatArray:
    """``n_samples`` calls of ``run``, one row each; a large delta on few records is what makes an audit quick."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakGuarantee)
        warnings.simplefilter("ignore", FitWarning)  # poor fits on purpose
        return np.array([run() for _ in range(n_samples)], dtype=float)


def nothing_to_say(*released: Any, **named: Any) -> list[str]:
    """In the place of the caveats of a fit, which take longer than the mechanism: of quick fits there are none."""
    return []


def no_gain(*released: Any, **named: Any) -> float:
    """In the place of what one component more would gain, for the same reason."""
    return 0.0


def as_it_is(raw: Any, noise: Any, mixture: Any, *fits: Any, **named: Any) -> tuple[Any, None]:
    """In the place of the background of a fit to counts, for the same reason."""
    return mixture, None


def truncated_floats(n_samples: int, *, scale: float, bound: float, rng: np.random.Generator) -> FloatArray:
    """Laplace noise conditioned on [-bound, bound] as floating-point numbers: right as real numbers, not as bits."""
    draws = rng.laplace(scale=scale, size=n_samples)
    while (outside := np.abs(draws) > bound).any():
        draws[outside] = rng.laplace(scale=scale, size=int(outside.sum()))
    return draws


def fits_here(
    learner: Any, subsets: Sequence[FloatArray], n_components: int, *, seeds: Sequence[int], **named: Any
) -> list[Mixture | None]:
    """``fit_subsets`` in this process, whatever the learner: quick for one without a memory, a fault for one with."""
    return [fit_here(learner, subset, n_components, seed) for subset, seed in zip(subsets, seeds, strict=True)]

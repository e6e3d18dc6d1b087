"""How many components the released numbers ask for. Post-processing: nothing here sees a record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from pm_dpgmm._arguments import check_choice
from pm_dpgmm.evidence import Evidence
from pm_dpgmm.sketch_fit import Fitted, reweighted
from pm_dpgmm.sketch_post import SketchFit, fit_evidence, prior_about

PENALTIES = ("bic", "aic")


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Fits with several numbers of components to the same evidence, and their scores; the smallest is best."""

    fits: tuple[SketchFit, ...]
    scores: tuple[float, ...]

    @property
    def best(self) -> SketchFit:
        """The fit with the smallest score, of two the one with fewer components."""
        return self.fits[int(np.argmin(self.scores))]

    @property
    def starts(self) -> dict[int, Fitted]:
        """The mixtures by their number of components, to start later fits from."""
        return {fit.found.n_components: fit.found for fit in self.fits}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: numbers of components, scores (None: not finite) and misfits."""
        return {
            "n_components": [fit.found.n_components for fit in self.fits],
            "score": [finite(score) for score in self.scores],
            "misfit": [finite(fit.misfit) for fit in self.fits],
        }


def choose(
    evidence: Evidence, choices: Sequence[int], *, first: Mapping[int, Fitted] | None = None,
    penalty: str = "bic", scored: bool = False,
) -> Choice:  # fmt: skip
    """Fit every number of components in ``choices`` and score it; a single one only if ``scored``.

    Parameters
    ----------
    evidence : Evidence
        What was released.
    choices : sequence of int
        Distinct, increasing.
    first : mapping of int to Fitted, optional
        Mixtures to start from, by their number of components.
    penalty : {"bic", "aic"}
        See :func:`score`.
    """
    known = first or {}
    fits = tuple(fit_evidence(evidence, k, first=[known[k]] if k in known else []) for k in choices)
    if len(fits) == 1 and not scored:
        return Choice(fits, (math.nan,))
    return Choice(fits, tuple(score(fit, penalty=penalty) for fit in fits))


def score(fit: SketchFit, *, penalty: str = "bic") -> float:
    """Minus twice the log posterior density under the full covariance of the sketch, and a price for each parameter.

    The price is log(number of released numbers) for "bic" and 2 for "aic". The fit is not refined under the full
    covariance where it was made with a diagonal one: that changes the score by less than one parameter does, and
    takes most of the time.
    """
    check_choice(PENALTIES, penalty=penalty)
    price = 2.0 if penalty == "aic" else math.log(fit.data.values.size)
    try:
        objective = reweighted(fit.data, fit.found, prior_about(fit.found), rounds=0).objective
    except linalg.LinAlgError:
        return math.inf
    return objective + price * n_parameters(fit.found)


def n_parameters(found: Fitted) -> int:
    """Free numbers of the mixture, its background's weight among them."""
    d = found.means.shape[1]
    return found.n_components * (1 + d + d * (d + 1) // 2) - 1 + (found.background is not None)


def finite(value: float) -> float | None:
    """A number that JSON can hold, or None."""
    return float(value) if math.isfinite(value) else None

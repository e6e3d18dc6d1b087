"""Out of local optima of a mixture fitted to counts: one component more where it is missing, then one fewer.

Split and merge (Ueda, Nakano, Ghahramani and Hinton 2000), with the place of the new component taken from the counts
that the mixture leaves over. Post-processing: no record is seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from pm_dpgmm._arguments import FloatArray

MOST_MOVES, TRIED = 4, 3  # rounds; mixtures that are fitted in a round
WORTH = 0.5  # gain of the objective, in nats, of a round

Parameters = tuple[FloatArray, FloatArray, FloatArray]  # rates (K,), means (K, D), covariances (K, D, D)
Fit = TypeVar("Fit")


def moved(
    best: tuple[float, Fit],
    *,
    grown: Callable[[Fit], Fit],
    fewer: Callable[[Fit], list[Fit]],
    value: Callable[[Fit], float],
    improved: Callable[[Fit], tuple[float, Fit]],
) -> tuple[float, Fit]:
    """Add a component and take one away, as long as the objective rises; where that overflows, what was found before.

    Parameters
    ----------
    best : (float, fit)
        Objective and mixture to begin with.
    grown : callable
        The mixture with one component more, fitted.
    fewer : callable
        All mixtures with one component fewer that are tried (:func:`without_one`).
    value, improved : callables
        Objective of a mixture, and the best near one with its objective.
    """
    for _ in range(MOST_MOVES):
        with np.errstate(all="ignore"):
            try:
                tried = sorted(fewer(grown(best[1])), key=value, reverse=True)[:TRIED]
                other = max((improved(fit) for fit in tried), key=lambda run: run[0])
            except (ValueError, ArithmeticError, np.linalg.LinAlgError):  # the budget is spent: go on
                break
        if not other[0] > best[0] + WORTH:
            break
        best = other
    return best


def without_one(rates: FloatArray, means: FloatArray, covariances: FloatArray) -> Iterator[Parameters]:
    """Each component left out, its records shared by the others; and each pair replaced by one with their moments."""
    k = len(rates)
    for i in range(k):
        kept = np.arange(k) != i
        yield rates[kept] * (rates.sum() / rates[kept].sum()), means[kept], covariances[kept]
    for i, j in itertools.combinations(range(k), 2):
        shares = rates[[i, j]] / rates[[i, j]].sum()
        mean, apart = shares @ means[[i, j]], means[i] - means[j]
        pooled = np.einsum("k,kab->ab", shares, covariances[[i, j]]) + shares.prod() * np.outer(apart, apart)
        kept = ~np.isin(np.arange(k), [i, j])
        yield (
            np.append(rates[kept], rates[i] + rates[j]),
            np.vstack([means[kept], mean]),
            np.concatenate([covariances[kept], pooled[None]]),
        )

"""Parts of one column's mixture that are narrower than the finest released wave tells, and what may be in their place.

Of such a part the waves tell the first few moments, and hardly more: narrow groups side by side look like one wide
component, or like two. A search that begins with wide candidates comes upon the one, and not upon the others.
Post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.sketch.fit import refined, reweighted
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.prior import Prior
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.pursuit import BACKGROUND_WORTH, all_dropped, explained

TURNS = 1.75  # finest frequency times deviation below which a shape may be unseen
BLIND = 0.5  # the same, below which no shape is seen: 0.3 to 0.5 where groups were lost, from 0.6 on in right fits
LEAST = 1e-9  # the same, below which a component is a spike
NOTABLE = 0.1  # weight of a part that is looked at
NARROW, NARROWEST = 16.0, 1000.0  # by these the guess how wide components are is divided: in a search, in a check
WIDTH = 0.2  # of spikes that a fit begins with, in deviations of the whole part
STEPS = 15
MOST_SPIKES, N_NODES = 6, 16  # nodes: of each component, whose moments they have up to twice as many

Part = tuple[int, ...]  # components


def unseen_parts(data: SketchData, found: ScaledMixture) -> list[Part]:
    """Neighbouring components that are together narrower than the finest wave tells, and heavy enough to matter."""
    parts: list[Part] = []
    for k in np.argsort(found.means[:, 0]).tolist():
        if not LEAST < _turns(data, found, (k,)) < TURNS:
            continue
        wider = (*parts[-1], k) if parts else (k,)
        if parts and _turns(data, found, wider) < TURNS:
            parts[-1] = wider
        else:
            parts.append((k,))
    return [part for part in parts if found.weights[list(part)].sum() > NOTABLE]


def marked(found: ScaledMixture, parts: list[Part]) -> NDArray[np.bool_]:
    """Which components are in one of the parts, (K,)."""
    return np.isin(np.arange(found.n_components), [k for part in parts for k in part])


def spiked(found: ScaledMixture, part: Part, n_spikes: int) -> ScaledMixture:
    """Spikes in the place of a part, with its weight, mean and variance, and its next moments nearly.

    Nodes and weights are those of Gauss's quadrature for the law of the part.
    """
    rest, which = ~marked(found, [part]), list(part)
    weight, spread = found.weights[which].sum(), _deviation(found, part)
    nodes, shares = _quadrature(found, which, n_spikes)
    middle = shares @ nodes
    means = middle + math.sqrt(1 - WIDTH**2) * (nodes - middle)
    return replace(
        found,
        weights=np.append(found.weights[rest], weight * shares),
        means=np.vstack([found.means[rest], means[:, None]]),
        factors=np.concatenate([found.factors[rest], np.full((len(means), 1, 1), WIDTH * spread)]),
    )


def narrower(data: SketchData, found: ScaledMixture, prior: Prior) -> Iterator[ScaledMixture]:
    """Fits that begin with spikes in the place of a part, and with narrow components as the guess.

    As many spikes as the part has components, and one more where another component is dropped for it.
    """
    prior = replace(prior, scale=prior.scale / NARROW)
    for part in unseen_parts(data, found):
        n = len(part)
        if n > 1:
            yield reweighted(data, refined(data, spiked(found, part, n), prior, steps=STEPS), prior)
        if n < MOST_SPIKES:
            larger = refined(data, spiked(found, part, n + 1), prior, steps=STEPS)
            for fewer in all_dropped(data, larger, prior, steps=STEPS):
                yield reweighted(data, fewer, prior)


def with_narrower(data: SketchData, found: ScaledMixture, prior: Prior) -> ScaledMixture:
    """The fit with spikes, where it does not explain the numbers and the objective falls with them."""
    for _ in range(found.n_components if found.n_components > 1 else 0):
        if explained(data, found):
            break
        try:
            others = [reweighted(data, other, prior) for other in narrower(data, found, prior)]
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):  # the budget is spent, so go on
            break
        best = min(others, key=lambda other: other.objective, default=found)
        if not best.objective < found.objective - BACKGROUND_WORTH:
            break
        found = best
    return found


def as_spikes(data: SketchData, found: ScaledMixture, prior: Prior, *, spare: bool) -> Iterator[ScaledMixture]:
    """Fits with the narrowest components that the numbers allow, from spikes in the place of a part.

    As many as the part has components, and one more: where none is to ``spare``, all others are refitted without one.
    With one to spare any part may be two, so that only those count of which nothing but mean and variance is seen.
    """
    narrowest = replace(prior, scale=prior.scale / NARROWEST)
    for part in unseen_parts(data, found):
        n = len(part)
        begin = [spiked(found, part, n)] if n > 1 else []
        if spare:
            if _turns(data, found, part) < BLIND:
                begin.append(spiked(found, part, n + 1))
        else:
            for j in set(range(found.n_components)) - set(part):
                fewer = refined(data, found.without(j), prior, steps=STEPS)
                begin.append(spiked(fewer, tuple(k - (j < k) for k in part), n + 1))
        for one in begin:
            yield reweighted(data, one, narrowest)


def _turns(data: SketchData, found: ScaledMixture, part: Part) -> float:
    return _deviation(found, part) * float(np.abs(data.frequencies).max())


def _deviation(found: ScaledMixture, part: Part) -> float:
    """Standard deviation of all of a part together."""
    weights, means = found.weights[list(part)], found.means[list(part), 0]
    variances = np.square(found.factors[list(part), 0, 0])
    middle = np.average(means, weights=weights)
    return math.sqrt(float(np.average(variances + np.square(means - middle), weights=weights)))


def _quadrature(found: ScaledMixture, which: list[int], n: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of Gauss's quadrature with n nodes for the law of some components (Golub and Welsch 1969)."""
    normal, share = np.polynomial.hermite_e.hermegauss(N_NODES)
    nodes = (found.means[which] + found.factors[which, 0] * normal).ravel()
    weights = (found.weights[which, None] * share).ravel()
    weights /= weights.sum()
    middle = weights @ nodes
    nodes = nodes - middle
    before, vector = np.zeros_like(nodes), np.sqrt(weights)
    diagonal, beside = np.zeros(n), np.zeros(n)
    for i in range(n):  # Lanczos: orthogonal polynomials at the nodes
        diagonal[i] = vector @ (nodes * vector)
        after = (nodes - diagonal[i]) * vector - (beside[i - 1] * before if i else 0.0)
        beside[i] = math.sqrt(float(after @ after))
        before, vector = vector, after / beside[i]
    values, vectors = eigh_tridiagonal(diagonal, beside[:-1])
    return middle + values, np.square(vectors[0])

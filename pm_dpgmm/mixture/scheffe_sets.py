"""Where one of two mixtures of one column has the larger density: unions of intervals between crossing points.

Nothing private: mixtures in, intervals and their probabilities out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.mixture import LOG_2PI, Mixture
from pm_dpgmm.privacy.noise import IntArray

# Places where densities are compared, in standard deviations of each component of both
PLACES = np.array([0.0, 0.2, 0.4, 0.7, 1.0, 1.3, 1.6, 2.0, 2.4, 2.8, 3.2, 3.7, 4.2, 5.0, 6.0, 8.0, 12.0])
NEAR = 1e-7  # of an edge to a crossing, in deviations of the narrowest component
MOST_HALVINGS = 100
FARTHEST = 1e150  # standard deviations: squares stay finite

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Mixtures of one column as arrays (M, K): standard deviations in place of covariances."""

    weights: FloatArray
    means: FloatArray
    deviations: FloatArray

    @classmethod
    def of(cls, mixtures: Sequence[Mixture]) -> Lines:
        """ValueError unless all have one column; fewer components than the most are filled up with weight 0."""
        if any(one.n_features != 1 for one in mixtures):
            raise ValueError(f"mixtures must have one column, got {max(one.n_features for one in mixtures)}")
        most = max(one.n_components for one in mixtures)
        filled = [np.pad(np.arange(one.n_components), (0, most - one.n_components)) for one in mixtures]
        weights = [np.pad(one.weights, (0, most - one.n_components)) for one in mixtures]
        means = [one.means[order, 0] for one, order in zip(mixtures, filled, strict=True)]
        variances = [one.covariances[order, 0, 0] for one, order in zip(mixtures, filled, strict=True)]
        return cls(np.array(weights), np.array(means), np.sqrt(np.array(variances)))

    def __getitem__(self, which: IntArray | slice) -> Lines:
        return Lines(self.weights[which], self.means[which], self.deviations[which])

    def log_density(self, points: FloatArray) -> FloatArray:
        """Of mixture i at points (M, P) in row i: (M, P)."""
        return log_density(self.weights, self.means, self.deviations, points)

    def below(self, points: FloatArray) -> FloatArray:
        """Probability below points (M, P) in row i under mixture i."""
        standard = (points[..., None] - self.means[:, None, :]) / self.deviations[:, None, :]
        return np.asarray((self.weights[:, None, :] * special.ndtr(standard)).sum(axis=-1))


def log_density(weights: FloatArray, means: FloatArray, deviations: FloatArray, points: FloatArray) -> FloatArray:
    """Log density (M, P) at points (M, P), of components (M, K)."""
    with np.errstate(divide="ignore"):
        logs = np.log(weights) - np.log(deviations) - 0.5 * LOG_2PI
    standard = (points[..., None] - means[:, None, :]) / deviations[:, None, :]
    parts = logs[:, None, :] - 0.5 * np.clip(standard, -FARTHEST, FARTHEST) ** 2
    top = parts.max(axis=-1)  # finite: weights are never all 0
    return np.asarray(top + np.log(np.exp(parts - top[..., None]).sum(axis=-1)))


@dataclass(frozen=True, slots=True, eq=False)
class ScheffeSets:
    """Sets {first density > second density} of pairs of mixtures."""

    edges: FloatArray  # (P, C), increasing, filled up with infinity: the set changes sides at every edge
    starts_inside: BoolArray  # (P,), whether it reaches to minus infinity
    own: FloatArray  # (P,), its probability under the first mixture
    other: FloatArray  # (P,), under the second

    def parts(self, below: FloatArray, total: float) -> FloatArray:
        """What is inside, (P,), of an amount whose part below each edge is ``below`` (P, C)."""
        n = len(self.edges)
        between = np.diff(below, axis=1, prepend=np.zeros((n, 1)), append=np.full((n, 1), total))
        even, odd = between[:, 0::2].sum(axis=1), between[:, 1::2].sum(axis=1)
        return np.asarray(np.where(self.starts_inside, even, odd))


def scheffe_sets(first: Lines, second: Lines) -> ScheffeSets:
    """The sets where mixture i of ``first`` has a larger density than mixture i of ``second``.

    Densities are compared at up to 33 places of every component, and every change of sign is bisected;
    a pair of crossings closer than the places is missed, with next to no probability between them. Whatever the edges
    are, the probabilities are those of the set that is returned.

    Examples
    --------
    >>> pair = [Mixture([1.0], [[m]], [[[1.0]]]) for m in (0.0, 1.0)]
    >>> found = scheffe_sets(Lines.of(pair[:1]), Lines.of(pair[1:]))
    >>> found.edges.round(6).tolist(), bool(found.starts_inside[0]), (found.own - found.other).round(6).tolist()
    ([[0.5]], True, [0.382925])
    """
    offsets = np.concatenate([-PLACES[:0:-1], PLACES])
    parts = [
        (one.means[..., None] + one.deviations[..., None] * offsets).reshape(len(one.means), -1)
        for one in (first, second)
    ]
    points = np.sort(np.concatenate(parts, axis=1), axis=1)
    ahead = first.log_density(points) > second.log_density(points)
    rows, places = np.nonzero(ahead[:, 1:] != ahead[:, :-1])
    low, high, side = points[rows, places], points[rows, places + 1], ahead[rows, places]
    one, two = first[rows], second[rows]
    finest = NEAR * np.minimum(one.deviations.min(axis=1), two.deviations.min(axis=1))
    with np.errstate(all="ignore"):
        widest = np.log2(np.max((high - low) / finest, initial=1.0))
    for _ in range(math.ceil(min(widest, MOST_HALVINGS))):
        middle = low + (high - low) / 2
        same = (one.log_density(middle[:, None]) > two.log_density(middle[:, None]))[:, 0] == side
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    number = np.bincount(rows, minlength=len(points))
    edges = np.full((len(points), max(int(number.max(initial=0)), 1)), np.inf)
    edges[rows, np.arange(len(rows)) - (np.cumsum(number) - number)[rows]] = high
    found = ScheffeSets(edges, ahead[:, 0], np.zeros(len(points)), np.zeros(len(points)))
    own, other = (np.clip(found.parts(side.below(edges), 1.0), 0.0, 1.0) for side in (first, second))
    return ScheffeSets(edges, found.starts_inside, own, other)

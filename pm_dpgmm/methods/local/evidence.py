"""What local responses say of a mixture: exact likelihoods, in the unit of a public frame. Post-processing.

Chances of responses are linear in the probabilities P of sides of waves or of cells, which are linear in the weights:
q = base + gain T P, with T the identity, or the subsets' members. Each kind has its log-likelihood as a function of q,
its derivative, and an information matrix that is never negative. Counts of unary responses are normal by the central
limit theorem; everything else is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.local.aggregation import Counted
from pm_dpgmm.methods.local.design import Frame
from pm_dpgmm.methods.local.responses import CellResponses, SubsetResponses, WaveResponses
from pm_dpgmm.methods.local.waves import NARROWEST, positive_sides, slopes_of_sides
from pm_dpgmm.mixture.cell_probabilities import cell_probabilities
from pm_dpgmm.mixture.coordinates import Coordinates, triangle

STEP = 1e-5  # of numerical derivatives, in coordinates of about unit scale
LEAST = 1e-9  # of a chance
N_NODES = 16  # in a cell of two columns


class Places(Protocol):
    """Where records may be told to be: sides of waves, or cells."""

    def of_components(self, means: FloatArray, factors: FloatArray) -> FloatArray:
        """Probabilities (M, K) of the places under single Gaussians with means (K, D) and factors (K, D, D)."""
        ...

    def jacobian(self, chart: Coordinates, vector: FloatArray, components: FloatArray) -> FloatArray:
        """Derivatives (M, P) of the probabilities by the coordinates; ``components`` (M, K) as above."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """Positive sides of waves; frequencies (M, D) and phases (M,) in the unit of the frame."""

    frequencies: FloatArray
    phases: FloatArray

    def _turns(self, means: FloatArray, factors: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        along = np.tensordot(self.frequencies, factors, axes=(1, 1))  # (M, K, D), F' w
        turns = self.frequencies @ means.T + self.phases[:, None]
        return turns, np.maximum(np.sqrt((along * along).sum(axis=2)), NARROWEST), along

    def of_components(self, means: FloatArray, factors: FloatArray) -> FloatArray:
        """See :class:`Places`."""
        return np.asarray(positive_sides(*self._turns(means, factors)[:2]))

    def jacobian(self, chart: Coordinates, vector: FloatArray, components: FloatArray) -> FloatArray:
        """See :class:`Places`."""
        weights, means, factors = chart.at(vector)
        turns, deviations, along = self._turns(means, factors)
        by_mean, by_variance = slopes_of_sides(turns, deviations)
        row, column, _ = triangle(chart.n_features)
        m = len(turns)
        by_means = (weights * by_mean)[:, :, None] * self.frequencies[:, None, :]
        by_entries = 2 * (weights * by_variance)[:, :, None] * (self.frequencies[:, row][:, None] * along[:, :, column])
        blocks = [components, by_means.reshape(m, -1), by_entries.reshape(m, -1)]
        return np.asarray(np.concatenate(blocks, axis=1) @ chart.jacobian(vector))


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cells between inner edges (D, J - 1), in the unit of the frame."""

    edges: FloatArray

    def of_components(self, means: FloatArray, factors: FloatArray) -> FloatArray:
        """See :class:`Places`."""
        one = np.ones((len(means), 1))
        return np.asarray(cell_probabilities(self.edges, one, means[:, None], factors[:, None], n_nodes=N_NODES).T)

    def jacobian(self, chart: Coordinates, vector: FloatArray, components: FloatArray) -> FloatArray:
        """See :class:`Places`."""
        steps = STEP * np.eye(len(vector))
        both = np.concatenate([vector + steps, vector - steps])
        found = cell_probabilities(self.edges, *chart.at(both), n_nodes=N_NODES)
        return np.asarray((found[: len(vector)] - found[len(vector) :]).T / (2 * STEP))


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Responses about places, as a function of the places' probabilities P (M,)."""

    places: Places

    def loss(self, shares: FloatArray) -> float:
        """Minus the log-likelihood, up to a constant."""
        raise NotImplementedError

    def slope(self, shares: FloatArray) -> FloatArray:
        """Derivative of :meth:`loss`, (M,)."""
        raise NotImplementedError

    def information(self, shares: FloatArray, rows: FloatArray) -> FloatArray:
        """rows' I rows, (P, P), for rows (M, P) and the information I about the probabilities."""
        raise NotImplementedError

    def curves(self, shares: FloatArray, ways: FloatArray) -> FloatArray:
        """The diagonal of ways I ways', (C,), for many ways (C, M)."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class SideEvidence(Evidence):
    """One randomised bit a person: binomial counts, wave by wave."""

    asked: FloatArray
    ones: FloatArray
    gain: float
    base: float

    def _chances(self, shares: FloatArray) -> FloatArray:
        return self.base + self.gain * shares

    def loss(self, shares: FloatArray) -> float:
        """See :class:`Evidence`."""
        q = self._chances(shares)
        return float(-(self.ones @ np.log(q) + (self.asked - self.ones) @ np.log1p(-q)))

    def slope(self, shares: FloatArray) -> FloatArray:
        """See :class:`Evidence`."""
        q = self._chances(shares)
        return np.asarray(-self.gain * (self.ones - self.asked * q) / (q * (1 - q)))

    def information(self, shares: FloatArray, rows: FloatArray) -> FloatArray:
        """See :class:`Evidence`."""
        q = self._chances(shares)
        return np.asarray((rows.T * (self.gain**2 * self.asked / (q * (1 - q)))) @ rows)

    def curves(self, shares: FloatArray, ways: FloatArray) -> FloatArray:
        """See :class:`Evidence`."""
        q = self._chances(shares)
        return np.asarray(ways**2 @ (self.gain**2 * self.asked / (q * (1 - q))))


@dataclass(frozen=True, slots=True, eq=False)
class NameEvidence(Evidence):
    """Named cells, or subsets of cells with ``members`` (S, M): as many outcomes as ``counts``, multinomial."""

    counts: FloatArray
    gain: float
    base: float
    members: FloatArray | None = None

    def _chances(self, shares: FloatArray) -> FloatArray:
        inside = shares if self.members is None else self.members @ shares
        return np.maximum(self.base + self.gain * inside, LEAST * self.base)

    def loss(self, shares: FloatArray) -> float:
        """See :class:`Evidence`."""
        return float(-self.counts @ np.log(self._chances(shares)))

    def slope(self, shares: FloatArray) -> FloatArray:
        """See :class:`Evidence`."""
        by_chance = -self.gain * self.counts / self._chances(shares)
        return by_chance if self.members is None else np.asarray(by_chance @ self.members)

    def information(self, shares: FloatArray, rows: FloatArray) -> FloatArray:
        """See :class:`Evidence`; of subsets the observed one, since most of those possible are in nobody's report."""
        q = self._chances(shares)
        if self.members is None:
            return np.asarray((rows.T * (self.gain**2 * self.counts.sum() / q)) @ rows)
        inside = self.members @ rows
        return np.asarray((inside.T * (self.gain**2 * self.counts / q**2)) @ inside)

    def curves(self, shares: FloatArray, ways: FloatArray) -> FloatArray:
        """See :class:`Evidence`."""
        q = self._chances(shares)
        if self.members is None:
            return np.asarray(ways**2 @ (self.gain**2 * self.counts.sum() / q))
        return np.asarray((ways @ self.members.T) ** 2 @ (self.gain**2 * self.counts / q**2))


@dataclass(frozen=True, slots=True, eq=False)
class BitEvidence(Evidence):
    """Counts of a bit for every cell: normal, with covariance n (diag(v) - g g')."""

    counts: FloatArray
    n_responses: float
    gain: float
    base: float

    def _parts(self, shares: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        g = self.gain * shares
        mean = self.base + g
        v = mean * (1 - mean) + g**2
        return g, v, self.counts - self.n_responses * mean, max(1 - float((g**2 / v).sum()), LEAST)

    def loss(self, shares: FloatArray) -> float:
        """See :class:`Evidence`."""
        g, v, rest, left = self._parts(shares)
        square = float((rest**2 / v).sum() + (g * rest / v).sum() ** 2 / left)
        return 0.5 * (square / self.n_responses + float(np.log(v).sum()) + float(np.log(left)))

    def slope(self, shares: FloatArray) -> FloatArray:
        """See :class:`Evidence`; by differences, since the covariance moves, too."""
        steps = STEP * np.eye(len(shares))
        ends = [[self.loss(shares + sign * step) for step in steps] for sign in (1, -1)]
        return np.asarray((np.array(ends[0]) - np.array(ends[1])) / (2 * STEP))

    def information(self, shares: FloatArray, rows: FloatArray) -> FloatArray:
        """See :class:`Evidence`; of the mean alone."""
        g, v, _, left = self._parts(shares)
        moved = self.gain * rows
        shared = (g / v) @ moved
        return np.asarray(self.n_responses * ((moved.T / v) @ moved + np.outer(shared, shared) / left))

    def curves(self, shares: FloatArray, ways: FloatArray) -> FloatArray:
        """See :class:`Evidence`."""
        g, v, _, left = self._parts(shares)
        moved = self.gain * ways
        return np.asarray(self.n_responses * ((moved**2 / v).sum(axis=1) + (moved @ (g / v)) ** 2 / left))


def evidence_of(responses: Counted, frame: Frame) -> Evidence:
    """The evidence that responses are, places in the unit of the frame."""
    if isinstance(responses, WaveResponses):
        waves = Sides(
            responses.frequencies * frame.scale,
            np.mod(responses.phases + responses.frequencies @ frame.centre, 2 * np.pi),
        )
        true, other = map(float, responses.channel)
        return SideEvidence(waves, responses.asked, responses.ones, true - other, other)
    cells = Cells((responses.edges - frame.centre[:, None]) / frame.scale[:, None])
    own, other = map(float, responses.channel)
    if isinstance(responses, SubsetResponses):
        within, without = responses.heights
        return NameEvidence(cells, responses.counts, within - without, without, responses.members)
    assert isinstance(responses, CellResponses)
    if responses.kind == "direct":
        return NameEvidence(cells, responses.counts, own - other, other)
    return BitEvidence(cells, responses.counts, float(responses.n_responses), own - other, other)

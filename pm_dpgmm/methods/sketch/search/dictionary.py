"""Candidates for a component that a mixture may lack: which places explain what it leaves over. Post-processing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture

ATOMS = 96  # candidates for a new component, of each scale
PLACES, FEW_PLACES = 3000, 300  # random places at which a component may be added, each at two scales
MANY_FEATURES = 9  # from which on random places are too far apart to be worth many
FARTHEST = 4.0  # half of the places lie up to so many radii away: bounds may have been narrowed past a small cluster
PLACE_SEED = 20242  # public
SHARPENED, NEARBY, CLOSER = 16, 40, (0.5, 0.25, 0.12, 0.06)  # candidates that are moved, trials, shares of the reach


@dataclass(frozen=True, slots=True, eq=False)
class Dictionary:
    """Candidates for a component."""

    means: FloatArray  # (A, D)
    factors: FloatArray  # (A, D, D)
    shapes: FloatArray  # (2 m, A): weighted characteristic functions
    powers: FloatArray  # (A,)

    @classmethod
    def of(cls, data: SketchData, means: FloatArray, factors: FloatArray) -> Dictionary:
        """Given Gaussians."""
        shapes = data.waves(means, factors)
        weighted = (data.gain / data.deviations)[:, None] * np.concatenate([shapes.real, shapes.imag])
        return cls(means, factors, weighted, np.square(weighted).sum(axis=0))

    @classmethod
    def round(cls, data: SketchData, radius: float, shares: Sequence[float]) -> Dictionary:
        """Round Gaussians spread over the ball at several scales."""
        n_features = data.frequencies.shape[1]
        points = stats.qmc.Halton(n_features + 1, scramble=False).random(ATOMS * len(shares) + 1)[1:]
        directions = special.ndtri(np.clip(points[:, :-1], 1e-9, 1 - 1e-9))
        if n_features == 1:
            means = radius * (2 * points[:, :1] - 1)
        else:
            lengths = np.linalg.norm(directions, axis=1, keepdims=True)
            means = radius * directions / lengths * points[:, -1:] ** (1 / n_features)
        scales = radius * np.tile(shares, ATOMS)
        return cls.of(data, means, scales[:, None, None] * np.eye(n_features))

    def gains(self, residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Fall of the sum of squared whitened residuals by each candidate, and the weight at which it is largest."""
        overlap = -self.shapes.T @ residuals
        # so wide that its characteristic function is 0 as a number: it explains nothing
        share = np.clip(overlap / np.maximum(self.powers, np.finfo(float).tiny), 0.02, 1.0)
        return 2 * share * overlap - share**2 * self.powers, share

    def sharpened(self, data: SketchData, residuals: FloatArray, reach: float, rng: np.random.Generator) -> Dictionary:
        """The best candidates, each moved to where it explains most of the residual: a random search, ever closer.

        A narrow component far from all others is missed by places that lie more than its width apart.
        """
        best = np.argsort(-self.gains(residuals)[0], kind="stable")[:SHARPENED]
        means, factors = self.means[best], self.factors[best]
        size, n_features = means.shape
        row = np.arange(size)
        for closer in CLOSER:
            steps = closer * reach * rng.standard_normal((NEARBY, size, n_features))
            scales = np.exp(closer * rng.standard_normal((NEARBY, size)))
            steps[0], scales[0] = 0.0, 1.0
            means, factors = means + steps, factors * scales[:, :, None, None]
            near = Dictionary.of(data, means.reshape(-1, n_features), factors.reshape(-1, n_features, n_features))
            winner = near.gains(residuals)[0].reshape(NEARBY, size).argmax(axis=0)
            means, factors = means[winner, row], factors[winner, row]
        return Dictionary.of(data, means, factors)


def best_added(
    data: SketchData, found: ScaledMixture | None, dictionary: Dictionary, number: int
) -> list[ScaledMixture]:
    """The mixture with each of the candidates that explain most of its residual; None is the empty mixture."""
    residuals = -data.values if found is None else data.residuals(found)
    gain, share = dictionary.gains(residuals / data.deviations)
    order = np.argsort(-gain, kind="stable")[:number].tolist()
    if found is None:
        return [ScaledMixture(np.ones(1), dictionary.means[[j]], dictionary.factors[[j]]) for j in order]
    return [found.with_component(share[j] / (1 + share[j]), dictionary.means[j], dictionary.factors[j]) for j in order]


def places_of(
    data: SketchData, found: ScaledMixture, atoms: tuple[FloatArray, FloatArray], radius: float
) -> tuple[Dictionary, Dictionary]:
    """Where a component may be missing: pieces of those there are, atoms, random places; and the best, sharpened."""
    n_features = data.frequencies.shape[1]
    number = PLACES if n_features < MANY_FEATURES else FEW_PLACES
    rng = np.random.default_rng(PLACE_SEED)
    covariances = found.factors @ found.factors.swapaxes(1, 2)
    values, vectors = np.linalg.eigh(covariances)
    means, factors = [atoms[0]], [atoms[1]]
    for axis in range(max(0, n_features - 4), n_features):  # pieces along the long axes
        for offset in (-1.5, -0.7, 0.7, 1.5):
            means.append(found.means + offset * np.sqrt(values[:, axis, None]) * vectors[:, :, axis])
            factors.append(found.factors * np.sqrt(0.5))
    directions = rng.standard_normal((number, n_features))
    lengths = radius * rng.random(number) ** (1 / n_features)
    lengths[::2] *= FARTHEST ** rng.random(len(lengths[::2]))
    lengths /= np.linalg.norm(directions, axis=1)
    size = np.sqrt(np.median(np.exp(np.log(values).mean(axis=1))))
    for scale in (1.0, 2.0):
        means.append(directions * lengths[:, None])
        factors.append(np.broadcast_to(scale * size * np.eye(n_features), (number, n_features, n_features)))
    dictionary = Dictionary.of(data, np.concatenate(means), np.concatenate(factors))
    reach = radius * number ** (-1 / n_features)
    return dictionary, dictionary.sharpened(data, data.residuals(found) / data.deviations, reach, rng)

"""Many posteriors sampled at once in NumPy: differential evolution and stretch moves, one ensemble per replication.

A study has hundreds of small posteriors; compiling or starting a sampler for each would cost more than sampling it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
LogDensity = Callable[[FloatArray], FloatArray]

STRETCH = 2.0  # largest stretch factor (Goodman and Weare 2010)
STRETCH_SHARE = 0.3  # of the moves; the others are differential evolution
LEAP_SHARE = 0.1  # of the differential evolution moves: factor 1, from mode to mode (ter Braak 2006)


@dataclass(frozen=True, slots=True)
class Draws:
    """Draws of every replication.

    ``values`` has shape (replications, draws, parameters). ``drift`` (replications,) is the largest distance over
    parameters between the means of the two halves of the run, in standard deviations: how far from mixed it is.
    """

    values: FloatArray
    drift: FloatArray
    acceptance: FloatArray  # (replications,)


def sample(
    log_density: LogDensity, start: FloatArray, *, n_steps: int, n_warmup: int, rng: np.random.Generator, thin: int = 10
) -> Draws:
    """Draws from ``log_density``, one ensemble per replication.

    Parameters
    ----------
    log_density : callable
        From (replications, points, parameters) to (replications, points): log density of replication r's posterior
        at its points, up to a constant of r; -inf outside the support, never NaN.
    start : ndarray, shape (replications, walkers, parameters)
        An even number of walkers, more than twice the parameters, in general position; each start must be finite.
    n_steps, n_warmup : int
        Updates of every walker that are kept, every ``thin``-th of them, and that are thrown away first.
    rng : numpy.random.Generator
    """
    state = np.array(start, dtype=float)
    n_replications, n_walkers, n_parameters = state.shape
    if n_walkers % 2 or n_walkers <= 2 * n_parameters:
        raise ValueError(f"walkers must be even and more than {2 * n_parameters}, got {n_walkers}")
    height = log_density(state)
    if not np.isfinite(height).all():
        raise ValueError(f"log density must be finite at every start, {np.sum(~np.isfinite(height))} are not")
    half = n_walkers // 2
    kept, accepted = [], np.zeros(n_replications)
    for step in range(n_warmup + n_steps):
        for first in (0, half):
            mine, others = slice(first, first + half), slice(half - first, n_walkers - first)
            proposal, log_factor = _proposal(state[:, mine], state[:, others], rng=rng)
            new = log_density(proposal)
            taken = np.log(rng.random(new.shape)) < new - height[:, mine] + log_factor
            state[:, mine] = np.where(taken[..., None], proposal, state[:, mine])
            height[:, mine] = np.where(taken, new, height[:, mine])
            if step >= n_warmup:
                accepted += taken.mean(axis=1) / 2
        if step >= n_warmup and (step - n_warmup) % thin == 0:
            kept.append(state.copy())
    values = np.stack(kept, axis=1)  # (replications, kept, walkers, parameters)
    middle = values.shape[1] // 2
    spread = values.std(axis=(1, 2))
    drift = np.abs(values[:, :middle].mean(axis=(1, 2)) - values[:, middle:].mean(axis=(1, 2))) / spread
    return Draws(
        values=values.reshape(n_replications, -1, n_parameters),
        drift=drift.max(axis=1),
        acceptance=accepted / n_steps,
    )


def _proposal(mine: FloatArray, others: FloatArray, *, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """One proposal for each of ``mine`` (R, H, P) from the walkers ``others``, with its log Metropolis factor."""
    n_replications, half, n_parameters = mine.shape
    rows = np.arange(n_replications)[:, None]
    one, ahead = (rng.integers(*span, size=(n_replications, half)) for span in ((0, half), (1, half)))
    two = (one + ahead) % half  # every pair of two walkers as often as the other way round
    # differential evolution: symmetric, factor 1
    factor = np.where(rng.random((n_replications, half)) < LEAP_SHARE, 1.0, 2.38 / math.sqrt(2 * n_parameters))
    factor = factor * np.exp(0.1 * rng.normal(size=factor.shape))
    leap = mine + factor[..., None] * (others[rows, one] - others[rows, two])
    # stretch: from another walker, factor z^(P-1)
    z = ((math.sqrt(STRETCH) - 1 / math.sqrt(STRETCH)) * rng.random(factor.shape) + 1 / math.sqrt(STRETCH)) ** 2
    anchor = others[rows, one]
    stretched = anchor + z[..., None] * (mine - anchor)
    stretch = rng.random() < STRETCH_SHARE
    return (stretched, (n_parameters - 1) * np.log(z)) if stretch else (leap, np.zeros_like(z))

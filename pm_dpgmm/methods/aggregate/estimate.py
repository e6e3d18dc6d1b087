"""From a noisy sum of vectors to the learner's answer, and the law of its errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.ball_sum import NoisyBallSum
from pm_dpgmm.methods.aggregate.design import Design

STEPS, DONE = 200, 1e-9
LEAST_GAIN = 0.05
FARTHEST = 4.0  # radii


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Answer of the learner to the records of all subsets, as a vector (P,), and the covariance of its error."""

    vector: FloatArray
    covariance: FloatArray
    offset: FloatArray  # (Q,)


def estimate(design: Design, found: NoisyBallSum) -> Estimate:
    """Undo shrinking and bias: the offset at which simulated vectors would have had the released mean."""
    mean = found.total / found.n_subsets
    scale = found.noise_scale / found.n_subsets
    likely = mean * max(0.0, 1 - len(mean) * scale**2 / max(float(mean @ mean), 1e-300))  # less what is noise
    start = _solved(design, likely)
    inverse = np.linalg.pinv(slopes_at(design, start), rcond=LEAST_GAIN)
    offset = start + inverse @ (mean - design.expected(start))
    noise = scale**2 * design.back @ inverse @ inverse.T @ design.back.T
    carried = design.gain @ design.waves.noise @ design.gain.T
    # what is left of fits scatters, in the records as in simulation
    kept = design.scatter * np.minimum(1.0, design.radius / np.maximum(np.linalg.norm(design.scatter, axis=1), 1e-300))[:, None]
    own = np.cov(kept.T).reshape(len(mean), -1) * (1 / found.n_subsets + 1 / len(kept))
    noise += design.back @ inverse @ own @ inverse.T @ design.back.T
    return Estimate(design.answer + design.back @ offset, noise + carried + design.sampling, offset)


def _solved(design: Design, mean: FloatArray) -> FloatArray:
    """An offset (Q,), not too far, at which vectors have this mean, or nearly."""
    offset = mean - design.expected(np.zeros_like(mean))
    for _ in range(STEPS):
        rest = mean - design.expected(offset)
        if np.linalg.norm(rest) <= DONE * design.radius:
            break
        offset = offset + rest / max(design.inside(offset), LEAST_GAIN)
        length = np.linalg.norm(offset)
        if length > FARTHEST * design.radius:
            offset *= FARTHEST * design.radius / length
    return offset


def slopes_at(design: Design, offset: FloatArray) -> FloatArray:
    """Derivatives (Q, Q) of :meth:`Design.expected`: of x min(1, R/|x|), averaged."""
    moved = design.scatter + offset
    lengths = np.linalg.norm(moved, axis=1)
    outside = lengths > design.radius
    share = 1 - outside.mean()
    shrunk = design.radius / np.maximum(lengths[outside], 1e-300)
    units = moved[outside] / np.maximum(lengths[outside, None], 1e-300)
    return np.asarray(
        (share + shrunk.sum() / len(moved)) * np.eye(len(offset)) - (units * shrunk[:, None]).T @ units / len(moved)
    )

"""From noisy sums of vectors to the learner's answer, and the law of its errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import optimize

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.ball_sum import NoisyBallSum
from pm_dpgmm.methods.aggregate.design import TINY, Ball, Design

Round: TypeAlias = tuple[Ball, NoisyBallSum]

STEPS, DONE = 200, 1e-9
LEAST_GAIN = 0.05
FARTHEST = 4.0  # radii
SPREADS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)  # how much wider than in simulation the vectors may lie
SURPRISING = 2.0  # deviations of the number inside from which on vectors are wider


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """The learner's answer to the records of all subsets, in the coordinates of its chart."""

    vector: FloatArray  # (P,)
    covariance: FloatArray  # (P, P), of the error
    apart: FloatArray  # (P, P): the part of it that is independent of the released waves
    likely: FloatArray  # (Q,): its offset in the coordinates of the ball, less what is likely noise
    spread: float  # of the vectors, in that of simulation
    expected_inside: float  # number of subsets in the last ball, by simulation about the likely offset


def estimate(design: Design, rounds: Sequence[Round]) -> Estimate:
    """Undo shrinking and bias: the offset at which simulated vectors would have had the released means."""
    spread = spread_of(design, rounds[-1])
    found = [_solved(design, one, spread) for one in rounds]
    shares = np.array([1 / np.trace(noise) for _, noise, _ in found])
    shares /= shares.sum()
    offset = sum(share * one for share, (one, _, _) in zip(shares, found, strict=True))
    noise = sum(share**2 * one for share, (_, one, _) in zip(shares, found, strict=True))
    own = max((one for _, _, one in found), key=np.trace)  # the same records in every round
    apart = design.back @ (noise + own) @ design.back.T + design.simulation
    covariance = apart + design.gain @ design.waves.noise @ design.gain.T + design.sampling
    ball, last = rounds[-1]
    likely = _likely_offset(design, rounds[-1], spread)
    return Estimate(
        design.answer + design.back @ offset,
        (covariance + covariance.T) / 2,
        (apart + apart.T) / 2,
        likely,
        spread,
        last.n_subsets * design.inside(ball, likely, spread),
    )


def spread_of(design: Design, one: Round) -> float:
    """How much wider than in simulation the vectors lie: 1 unless far fewer are inside than simulation says."""
    ball, found = one
    for spread in SPREADS:
        offset = _likely_offset(design, one, spread)
        missing = found.n_subsets * design.inside(ball, offset, spread) - found.n_inside
        if missing <= SURPRISING * found.n_inside_scale:
            return spread
    return SPREADS[-1]


def _solved(design: Design, one: Round, spread: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Offset (Q,), and covariances (Q, Q) of its errors: by noise, and by the scatter of the vectors."""
    ball, found = one
    mean, scale = found.total / found.n_subsets, found.noise_scale / found.n_subsets
    start = _likely_offset(design, one, spread)
    inverse = inverse_slopes(design, ball, start, spread)
    offset = start + inverse @ (mean - design.expected(ball, start, spread))
    # what is left of fits scatters, in the records as in simulation
    kept, _ = design.shrunk(ball, start, spread)
    own = np.cov(kept.T).reshape(len(mean), -1) * (1 / found.n_subsets + 1 / len(kept))
    return offset, scale**2 * inverse @ inverse.T, inverse @ own @ inverse.T


def _likely_offset(design: Design, one: Round, spread: float) -> FloatArray:
    """An offset (Q,), not too far, at which vectors have the released mean, less what is likely noise; or nearly.

    The noise in many directions together is longer than most offsets: the mean is shortened as James and Stein do.
    """
    ball, found = one
    mean, scale = found.total / found.n_subsets, found.noise_scale / found.n_subsets
    mean = mean * max(0.0, 1 - len(mean) * scale**2 / max(float(mean @ mean), TINY)) / ball.radius

    def height(radii: FloatArray) -> tuple[float, FloatArray]:
        """Convex, with the slope expected mean less mean: of |x|^2/2, and straight outside the ball."""
        kept, lengths = design.shrunk(ball, ball.centre + ball.radius * radii, spread)
        lengths = lengths / ball.radius
        own = np.where(lengths <= 1, lengths**2 / 2, lengths - 0.5)
        answered = 1 - design.failed
        return float(answered * own.mean() - mean @ radii), answered * kept.mean(axis=0) / ball.radius - mean

    options = {"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": 0.0, "gtol": DONE}
    found_at = optimize.minimize(height, mean, jac=True, method="L-BFGS-B", options=options).x
    length = np.linalg.norm(found_at)
    return np.asarray(ball.centre + ball.radius * found_at * min(1.0, FARTHEST / max(length, TINY)))


def inverse_slopes(design: Design, ball: Ball, offset: FloatArray, spread: float) -> FloatArray:
    """How an offset (Q,) follows the mean of shrunk vectors, (Q, Q); in no direction more than LEAST_GAIN allows."""
    left, gains, right = np.linalg.svd(slopes_at(design, ball, offset, spread))
    inverse = (right.T / np.maximum(gains, LEAST_GAIN)) @ left.T  # where all are shrunk nothing is known of a length
    return np.asarray(inverse)


def slopes_at(design: Design, ball: Ball, offset: FloatArray, spread: float) -> FloatArray:
    """Derivatives (Q, Q) of :meth:`Design.expected` by the offset: of x min(1, R/|x|), averaged."""
    moved = spread * design.scatter + (offset - ball.centre)
    lengths = np.linalg.norm(moved, axis=1)
    outside = lengths > ball.radius
    shrunk = ball.radius / np.maximum(lengths[outside], TINY)
    units = moved[outside] / np.maximum(lengths[outside, None], TINY)
    whole = (1 - outside.mean() + shrunk.sum() / len(moved)) * np.eye(len(offset))
    return np.asarray((1 - design.failed) * (whole - (units * shrunk[:, None]).T @ units / len(moved)))

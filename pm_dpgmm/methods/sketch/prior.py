"""What a fit takes for likely before it sees the numbers: weak priors, which decide only what a sketch leaves open.

Means are about the centre, weights about equal. A component has a size of its own, and its deviations and correlations
are likely in units of that: a few broad components beside many narrow ones are no surprise, needles are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.sketch.covariance_types import DIAG, SPHERICAL
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.scaled_mixture import fit_coordinates
from pm_dpgmm.mixture.coordinates import triangle

BACKGROUND_LOGIT = -4.0  # prior middle of the background's logit


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Normal laws of a fit's numbers, in the unit of the data."""

    radius: float  # standard deviation of means about the centre
    scale: FloatArray | float  # typical standard deviation of a component, one number or one for each feature
    logits: float = 1.5
    sizes: float = 0.0  # spread of the logarithm of a component's size, the typical one being 1
    log_scales: float = 1.0  # spread of the logarithms of its factor's diagonal about that
    slopes: float = 1.0  # spread of the entries below, in typical deviations times the mean of the component's own


@dataclass(frozen=True, slots=True, eq=False)
class PriorRows:
    """What the prior adds to the residuals of a fit at a point, and the derivatives of that.

    By logarithms of weights and by means these are a diagonal, by the entries of each factor a block.
    """

    residuals: FloatArray  # (Q,)
    head: FloatArray  # (H,)
    blocks: FloatArray  # (B, N, N), by row the residuals; H + B N = Q

    @property
    def gradient(self) -> FloatArray:
        """Of half the sum of squares, (Q,)."""
        h, (b, n) = self.head.size, self.blocks.shape[:2]
        tail = np.einsum("bij,bi->bj", self.blocks, self.residuals[h:].reshape(b, n))
        return np.concatenate([self.head * self.residuals[:h], tail.ravel()])

    @property
    def precision(self) -> FloatArray:
        """Of the normal law that is like the prior there, (Q, Q)."""
        h, n = self.head.size, self.blocks.shape[1]
        found = np.diag(np.append(np.square(self.head), np.zeros(self.residuals.size - h)))
        for i, block in enumerate(self.blocks):
            place = slice(h + i * n, h + (i + 1) * n)
            found[place, place] = block.T @ block
        return found

    def standardised(self, slopes: FloatArray) -> FloatArray:
        """Derivatives (..., Q) by the prior's own standard normal numbers, from those by the coordinates of a fit."""
        h, (b, n) = self.head.size, self.blocks.shape[:2]
        tail = slopes[..., h:].reshape(*slopes.shape[:-1], b, n)
        parts = np.einsum("...bi,bij->...bj", tail, np.linalg.inv(self.blocks))
        return np.concatenate([slopes[..., :h] / self.head, parts.reshape(*slopes.shape[:-1], b * n)], axis=-1)


def prior_rows(data: SketchData, theta: FloatArray, n_components: int, prior: Prior, has_background: bool) -> PriorRows:
    """The prior at coordinates (Q,) of a fit, of covariances of the data's kind."""
    d, flat = len(data.unit), data.flat(n_components, has_background)
    chart = fit_coordinates(n_components, d, has_background)
    row, _, diagonal = triangle(d)
    scale = np.broadcast_to(prior.scale, d)[row]  # of an entry's row
    logits = np.repeat([0.0, BACKGROUND_LOGIT], [n_components, chart.n_more])
    away = theta - flat.reduced(chart.filled(logits, 0.0, np.log(scale), 0.0))
    h = chart.blocks[2].start
    spreads = chart.filled(prior.logits, prior.radius, 1.0, 1.0)[:h]
    if data.covariance_type in (DIAG, SPHERICAL):
        diagonal = np.arange(d if data.covariance_type == DIAG else 1)
        row, scale = diagonal, scale[diagonal]
    n, m = row.size, diagonal.size
    entries = away[h:].reshape(-1, n)
    residuals, blocks = np.empty(entries.shape), np.zeros((len(entries), n, n))

    # log size and deviations from it, of which d are told by m logarithms
    whole = np.sqrt(d / m / (prior.log_scales**2 + d * prior.sizes**2))
    inward = np.eye(m) / prior.log_scales + (whole - 1 / prior.log_scales) / m
    residuals[:, diagonal] = entries[:, diagonal] @ inward
    blocks[:, diagonal[:, None], diagonal] = inward

    below = np.setdiff1d(np.arange(n), diagonal)
    if below.size:
        with np.errstate(all="ignore"):  # a step that goes too far gives no number, and is not taken
            entries = entries.copy()
            entries[:, diagonal] = np.exp(entries[:, diagonal])
            entries[:, below] /= scale[below]  # a factor whose typical one is I
            squares = np.square(entries)
            totals = squares @ (row[:, None] == np.arange(d)).astype(float)  # (B, D): variances
            unit = prior.slopes * np.exp(np.log(totals).mean(axis=1, keepdims=True) / 2)
            ratios = entries[:, below] / unit
            # derivatives of the logarithm of that unit: by logarithms on the diagonal, by entries below it
            by_entry = squares / totals[:, row] / d
            by_entry[:, below] = entries[:, below] / totals[:, row[below]] / d / scale[below]
            blocks[:, below] = -ratios[:, :, None] * by_entry[:, None, :]
            blocks[:, below, below] += 1 / (unit * scale[below])
            residuals[:, below] = ratios
    return PriorRows(np.concatenate([away[:h] / spreads, residuals.ravel()]), 1 / spreads, blocks)

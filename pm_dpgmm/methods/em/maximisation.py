"""The M-step of private EM (Park, Foulds, Chaudhuri and Welling): noisy sums of one step to the next parameters.

Post-processing. The plain step takes noise for signal and knows of no ball, so it stops where these biases leave it:
for teaching, and as a start of the fit by likelihood (fit.py). With a prior, it is the maximum a posteriori of the same
paper: Dirichlet for the weights, normal-inverse-Wishart for means and covariances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_non_negative, check_positive, plain_numbers
from pm_dpgmm.mechanisms.em_sums import Squares
from pm_dpgmm.methods.em.fit import shaped
from pm_dpgmm.methods.em.statistics import EMStatistics
from pm_dpgmm.mixture.mixture import Mixture

LEAST_SHARE = 0.01  # of the records, that a component is taken to have
LEAST_EIGENVALUE = 1e-3  # of a covariance in its ball, in squared radii
WIDEST = 1.0  # the same, largest
MOST_PRIOR_RECORDS, LEAST_SPREAD = 1e9, 1e-4


@dataclass(frozen=True, slots=True)
class MapPrior:
    """The paper's prior: weights ~ Dirichlet(concentration), Sigma ~ inverse Wishart, mean ~ N(m0, Sigma / strength).

    Parameters
    ----------
    concentration : float
        Of the Dirichlet, at least 1: so many records less one are added to every component.
    strength : float
        Records that the prior mean, the middle of the bounds, is worth.
    degrees : float
        Records that the prior covariance is worth, beside the D + 1 that make its mean exist.
    spread : float
        Standard deviation of the prior covariance, in half-widths of the bounds, of 1e-4 to 1.

    Raises
    ------
    ValueError
        If a number is out of range; records are at most 1e9.

    Guarantee
    ---------
    None is spent: public numbers, with which released ones are post-processed.

    Examples
    --------
    >>> import pm_dpgmm as dpg
    >>> X = np.random.default_rng(1).normal([[0.0]] * 2000 + [[6.0]] * 2000)
    >>> settings = dpg.EM(estimate="map", prior=dpg.MapPrior(concentration=10.0, degrees=50.0))
    >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, bounds=(-10, 15), method=settings)
    >>> release.settings["prior"]["degrees"]
    50.0
    """

    concentration: float = 1.0
    strength: float = 1.0
    degrees: float = 1.0
    spread: float = 0.5

    def __post_init__(self) -> None:
        check_non_negative(strength=self.strength, degrees=self.degrees)
        check_positive(concentration=self.concentration, spread=self.spread)
        if self.concentration < 1:
            raise ValueError(f"concentration must be at least 1, got {self.concentration!r}")
        for name in ("concentration", "strength", "degrees"):
            if getattr(self, name) > MOST_PRIOR_RECORDS:
                raise ValueError(f"{name} must be at most {MOST_PRIOR_RECORDS:g}, got {getattr(self, name)!r}")
        if not LEAST_SPREAD <= self.spread <= 1:
            raise ValueError(f"spread must be from {LEAST_SPREAD:g} to 1, got {self.spread!r}")
        plain_numbers(self)


def maximised(step: EMStatistics, *, covariance: Squares = Squares.FULL, prior: MapPrior | None = None) -> Mixture:
    """Parameters after one step: the last one of ``step``.

    Parameters
    ----------
    step : EMStatistics
    covariance : Squares
        "full", "diagonal" or "isotropic"; the sums must tell it.
    prior : MapPrior, optional
        None: maximum likelihood, as if the sums had no noise.

    Returns
    -------
    Mixture
        Counts are floored at a hundredth of the records, eigenvalues of a covariance at their noise.
    """
    last = step.last()
    d = last.shape[2]
    n = max(float(last.n_records), 1.0)
    counts = np.maximum(last.counts[0], LEAST_SHARE * n)
    radii = last.radii[0]
    average = np.clip(last.sums[0] / counts[:, None], -1.0, 1.0)
    second = whole_squares(last) / counts[:, None, None]
    spread = shaped(second - average[:, :, None] * average[:, None, :], last.kind)
    means = last.centres[0] + last.unit * radii[:, None] * average
    noise = last.scales[0, 2] * np.sqrt(d) / counts
    values, vectors = np.linalg.eigh((spread + spread.swapaxes(1, 2)) / 2)
    values = np.clip(values, np.minimum(np.maximum(noise, LEAST_EIGENVALUE), WIDEST)[:, None], WIDEST)
    spread = (vectors * values[:, None, :]) @ vectors.swapaxes(1, 2) * np.square(radii)[:, None, None]
    weights = counts / counts.sum()
    if prior is not None:
        weights, means, spread = _with_prior(prior, last, counts, means, spread)
    spread = shaped(spread, covariance)
    covariances = spread * last.unit[:, None] * last.unit
    return Mixture(weights, means, (covariances + covariances.swapaxes(1, 2)) / 2)


def whole_squares(last: EMStatistics) -> FloatArray:
    """Squares of one step as symmetric matrices (K, D, D), what was not released as 0."""
    _, k, d = last.shape
    found = np.zeros((k, d, d))
    row, column = last.products
    values = last.squares[0] / d if last.kind is Squares.ISOTROPIC else last.squares[0]
    found[:, row, column] = values
    found[:, column, row] = values
    return found


def _with_prior(
    prior: MapPrior, last: EMStatistics, counts: FloatArray, means: FloatArray, spread: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Modes of Dirichlet and normal-inverse-Wishart, given counts, means and covariances in half-widths."""
    d = means.shape[1]
    raised = counts + prior.concentration - 1
    middle = last.bounds.mean(axis=1)
    away = (means - middle) / last.unit
    pooled = counts * prior.strength / (counts + prior.strength)
    scatter = counts[:, None, None] * spread + pooled[:, None, None] * away[:, :, None] * away[:, None, :]
    base = prior.degrees * prior.spread**2 * np.eye(d)  # nu = degrees + D + 1: the prior mean of Sigma is spread^2 I
    # the mode of the joint density has nu + records + D + 2 below
    total = counts + prior.degrees + 2 * d + 3
    centre = (counts[:, None] * means + prior.strength * middle) / (counts + prior.strength)[:, None]
    return raised / raised.sum(), centre, (base + scatter) / total[:, None, None]

"""Fits of subsets to a known mixture, and the rule by which they agree."""

from __future__ import annotations

import math

import numpy as np

from pm_dpgmm.learners.fit_arrays import Fits
from pm_dpgmm.methods.populous.agreement import AgreementRule
from verification.claims.aggregated import reference


def random_covariances(rng, n, d, condition=1.0):
    """``n`` covariances with standard deviations over four decades; eigenvalues of the core over ``condition``."""
    factors = rng.standard_normal((n, d, 2 * d + 1))
    core = np.linalg.qr(rng.standard_normal((n, d, d)))[0] * condition ** rng.uniform(-0.5, 0, (n, 1, d))
    sd = 10 ** rng.uniform(-2, 2, (n, d))
    whole = factors @ np.swapaxes(factors, 1, 2) if condition == 1 else core @ np.swapaxes(core, 1, 2)
    whole = whole * sd[:, :, None] * sd[:, None, :]
    return (whole + np.swapaxes(whole, 1, 2)) / 2


def sampled(rng, t, k, d, n, *, outliers=0, gap=10.0):
    """Fits of ``n`` records to a component, components in random order; the last ``outliers`` fits are shifted."""
    truth = random_covariances(rng, k, d)
    sd = np.sqrt(np.diagonal(truth, axis1=1, axis2=2))
    centres = sd.max(axis=0) * gap * rng.standard_normal((k, d))
    fits = Fits(np.empty((t, k)), np.empty((t, k, d)), np.empty((t, k, d, d)), np.ones(t, dtype=bool))
    for i in range(t):
        for a, b in enumerate(rng.permutation(k)):
            rows = rng.standard_normal((n, d)) @ np.linalg.cholesky(truth[b]).T + centres[b]
            fits.means[i, a], fits.covariances[i, a] = rows.mean(axis=0), np.cov(rows.T, bias=True).reshape(d, d)
        fits.weights[i] = rng.dirichlet(np.full(k, 20.0 * n))
    fits.means[t - outliers :] += sd.max() * 0.5
    return fits


def rule_for(k, d, n, *, core="triple", share=1.0):
    """Radii around the root mean square of d_2 between fits of n records to a component."""
    whole = share * math.sqrt(4 * (k * d * (d + 3) / 2 + k - 1) / n)
    return AgreementRule(k, d, 2 * whole / math.sqrt(k), whole, core=core)


def plain(fits):
    return [
        reference.Fit(w, m, c) if given else None
        for w, m, c, given in zip(fits.weights, fits.means, fits.covariances, fits.given, strict=True)
    ]

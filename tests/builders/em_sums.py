"""Noisy sums of two EM steps of a known mixture, and releases that hold them."""

from __future__ import annotations

import numpy as np

from pm_dpgmm.methods.em.statistics import EMStatistics
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.curves import GaussianProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.release.release import Release

WEIGHTS = np.array([0.35, 0.65])
LINE = (WEIGHTS, np.array([[-1.4], [1.7]]), np.array([[[0.8]], [[1.2]]]))
PLANE = (
    WEIGHTS,
    np.array([[-1.5, -0.5], [1.6, 0.4]]),
    np.array([[[0.9, 0.0], [0.3, 1.1]], [[1.2, 0.0], [-0.4, 0.7]]]),
)


def mixture(parameters):
    w, mu, chol = parameters
    return Mixture(w, mu, chol @ chol.mT)


def statistics(d, *, n_records=2000.0, n_records_scale=0.0, scale=9.0, seed=1):
    """Two steps, the second with balls of its own that move some records, and simulated noisy sums."""
    truth = LINE if d == 1 else PLANE
    mu = truth[1]
    law = {"bounds": [[-3.5, 4.0]] * d, "scale": scale, "n_records": n_records, "n_records_scale": n_records_scale}
    one = EMStatistics.of_step([0.5, 0.5], 1.2 * mu, [np.eye(d)] * 2, **law)
    two = EMStatistics.of_step([0.4, 0.6], mu, [0.8 * np.eye(d), 1.1 * np.eye(d)], centres=mu, radii=[0.55, 0.7], **law)
    both = one.then(two)
    rng = np.random.default_rng(seed)
    exact = both.features(mixture(truth).sample(2000, rng=rng)).sum(axis=0)
    return both.with_sums(exact + both.noise_scales * rng.normal(size=exact.shape)), truth


def release(given, fit):
    relation, n = (Neighbouring.REPLACE_ONE, 2000) if given.n_records_scale == 0 else (Neighbouring.ADD_REMOVE, None)
    guarantee = Guarantee(1.0, 1e-6, relation, "simulated", GaussianProfile(0.2))
    names = tuple(f"x{i}" for i in range(given.shape[2]))
    return Release(fit, guarantee, "em", {}, given.to_arrays(), {"statistic": "EM sums"}, names, n)

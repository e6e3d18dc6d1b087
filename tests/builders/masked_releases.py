"""Releases of the two populous methods: masks of a known mixture."""

from __future__ import annotations

import numpy as np

from pm_dpgmm.mechanisms.lifted_mask import LiftedMaskNoise, lifted_mask, mixture_of_lifted
from pm_dpgmm.mechanisms.masks import MaskNoise, mask_mixture
from pm_dpgmm.methods.populous_single.method import valid_mixture
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.release.release import Release


def a_mixture(d):
    factors = np.array([np.eye(d) * 1.3, np.eye(d) * 0.6 + 0.3 * np.tril(np.ones((d, d)), -1)])
    return Mixture([0.4, 0.6], [[-3.0] * d, [2.5] * d], factors @ np.swapaxes(factors, 1, 2))


def a_release(method, d, *, eta=0.1, n=20_000, seed=1):
    rng, mixture = np.random.default_rng(seed), a_mixture(d)
    if method == "populous":
        noise = LiftedMaskNoise(eta, 0.35)
        factors = np.linalg.cholesky(mixture.covariances)
        raw = lifted_mask(mixture.weights, mixture.means, factors, np.ones(2), noise=noise, rng=rng)
        found = mixture_of_lifted(raw, noise=noise)
        law = {"eta": eta, "kappa": 0.35, "n_subsets": 100, "subset_records": n / 100}
    else:
        noise = MaskNoise(0.05, eta, eta)
        raw = mask_mixture(mixture, noise=noise, rng=rng)
        found = valid_mixture(raw, noise)
        law = {"weight": 0.05, "mean": eta, "covariance": eta, "n_subsets": 100}
    guarantee = Guarantee(1.0, 1e-6, Neighbouring.REPLACE_ONE, "test", PointProfile(1.0, 1e-6))
    return Release(found, guarantee, method, {}, raw, law, tuple(f"x{i}" for i in range(d)), n)

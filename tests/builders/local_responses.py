"""Local responses of simulated records of a known mixture, and releases that hold them."""

from __future__ import annotations

import numpy as np

from pm_dpgmm.methods.local.protocol import LocalProtocol
from pm_dpgmm.methods.local.responses import CellResponses, VectorResponses
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.release.release import Release

WEIGHTS = np.array([0.35, 0.65])
LINE = (WEIGHTS, np.array([[-1.4], [1.7]]), np.array([[[0.8]], [[1.2]]]))
PLANE = (
    WEIGHTS,
    np.array([[-1.5, -0.5], [1.6, 0.4]]),
    np.array([[[0.9, 0.0], [0.3, 1.1]], [[1.2, 0.0], [-0.9, 0.5]]]),
)
EDGES = {1: np.array([[-2.0, -0.5, 0.1, 1.3]]), 2: np.array([[-1.0, 0.3], [-0.8, 1.1]])}


def mixture(parameters):
    w, mu, chol = parameters
    return Mixture(w, mu, chol @ chol.mT)


def release(responses):
    raw, noise = responses.to_arrays()
    d = responses.n_features
    guarantee = Guarantee(1.0, 1e-6, Neighbouring.REPLACE_ONE, "simulated", PointProfile(1.0, 1e-6))
    fit = Mixture([1.0], [[0.0] * d], [np.eye(d)])
    n = len(responses.responses) if isinstance(responses, VectorResponses) else responses.n_responses
    return Release(fit, guarantee, "local", {}, raw, noise, tuple(f"x{i}" for i in range(d)), n)


def cells(d, kind):
    records = mixture(LINE if d == 1 else PLANE).sample(500, rng=np.random.default_rng(d))
    return CellResponses.simulated(records, EDGES[d], kind=kind, epsilon=1.0, rng=np.random.default_rng(7))


def reports(d, kind):
    """What 500 devices reported, counted by the server."""
    rng = np.random.default_rng(11)
    parts = {"edges": EDGES[d]}
    if kind == "one-bit":
        parts = {"frequencies": rng.normal(size=(12, d)), "phases": rng.uniform(0, 3, 12)}
    asked = LocalProtocol(kind, 1.0, **parts)
    records = mixture(LINE if d == 1 else PLANE).sample(500, rng=np.random.default_rng(d))
    return asked.aggregate([asked.respond(record, rng) for record in records]).responses


def vectors(d):
    rng = np.random.default_rng(3)
    bounds = np.array([[-2.5, 3.0]] * d)
    records = np.clip(mixture(LINE if d == 1 else PLANE).sample(12, rng=rng), bounds[:, 0], bounds[:, 1])
    scales = np.array([0.9, 1.4])[:d]
    return VectorResponses(records + scales * rng.normal(size=records.shape), bounds, scales)

"""Noisy sketches of known mixtures, without records: their expected values and noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pm_dpgmm.mechanisms.sketch import NoisySketch
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.rounds import whitened_frames
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture

N_RECORDS, NOISE = 10_000.0, 150.0


def round_components(weights, means, unit=1.0):
    """Components with standard deviations of 1 at means (K, D), or (K,) of one number for all columns of ``unit``."""
    means, unit = np.array(means, dtype=float), np.asarray(unit, dtype=float)
    if means.ndim == 1:
        means = np.tile(means[:, None], (1, unit.size))
    covariances = np.tile(np.eye(means.shape[1]) / unit**2, (len(means), 1, 1))
    return ScaledMixture.of(np.array(weights, dtype=float), means / unit, covariances)


def sketch_of(truth, metric, unit, *, frames=16, noise=NOISE, seed=0):
    """Of records with the law ``truth``; the waves are turned to the components of ``metric``."""
    waves = whitened_frames(metric, unit, np.zeros(len(unit)), frames, turn=1)
    empty = NoisySketch(waves, np.zeros((2, waves.n_frequencies)), noise, N_RECORDS)
    values = SketchData.of((empty,), unit).expected(truth).reshape(2, -1)
    return replace(empty, values=values + noise * np.random.default_rng(seed).standard_normal(values.shape))

"""One fit of the table and of the figures by its mechanism, and what each mechanism promises."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pm_dpgmm._arguments import FloatArray
from verification.reproductions.experiment import Kind, Mechanism, shown
from verification.reproductions.harrington_mayolo.runs import (
    MEANS,
    plain,
    printed_central,
    printed_local,
    sound_fit,
    sound_sums,
)

PAPER = "Harrington, Mayolo: local and central differentially private Gaussian mixtures"
QUANTITIES = ("weights", "means", "variances")
CELLS = "central, printed statistics made sound"
HISTOGRAM, SUMS, WAVE = "central, sound: histogram", "central, sound: sums of cells", "local, sound: one bit each"
METHODS = {HISTOGRAM: "histogram", SUMS: "central", WAVE: "local"}  # of this package
MANY = 20  # starts


@dataclass(frozen=True, slots=True)
class Task:
    """One fit."""

    mechanism: str
    records: FloatArray
    k: int
    epsilon: float
    bounds: tuple[float, float]
    seed: tuple[int, ...]


def fitted(task: Task) -> FloatArray:
    """Parameters (K, 3), NaN where there is no answer."""
    rng = np.random.default_rng(task.seed)
    x, k, epsilon = task.records, task.k, task.epsilon
    seed = int(rng.integers(2**31))
    if task.mechanism == "one start":
        return plain(x, k, n_starts=1, seed=seed)
    if task.mechanism == "many starts":
        return plain(x, k, n_starts=MANY, seed=seed)
    if task.mechanism == "central, printed":
        return printed_central(x, k, epsilon, rng)
    if task.mechanism == "local, printed":
        return printed_local(x, k, epsilon, rng)
    if task.mechanism == CELLS:
        return sound_sums(x, k, epsilon, task.bounds, rng)
    return sound_fit(x, k, epsilon, task.bounds, method=METHODS[task.mechanism], seed=seed)


def mechanisms(n_records: int, k: int, epsilon: float, words: str) -> tuple[Mechanism, ...]:
    """Those of the table and the figures; ``words`` says what epsilon is."""
    loss = MEANS * epsilon / k * n_records
    each = "epsilon of pure differential privacy"
    return (
        Mechanism("one start", Kind.NONE, "none", "none"),
        Mechanism("many starts", Kind.NONE, "none", "none"),
        Mechanism(
            "central, printed",
            Kind.PRINTED,
            each + words,
            "none: bounds are the extreme records (delta 1); with public bounds the loss of one mean is up to"
            f" {shown(loss)}, as means divide by their cluster and noise by all records; an empty cluster gives 0/0",
        ),
        Mechanism(
            "local, printed",
            Kind.PRINTED,
            each + " for each person" + words,
            "none: bins are the values that occur (delta 1); with public bins epsilon for half of it on every bit, as"
            " in the code, and twice epsilon for all of it, as in equations 8 and 9",
        ),
        Mechanism(HISTOGRAM, Kind.SOUND, each, "epsilon, replace-one, of a noisy histogram in public bounds"),
        Mechanism(
            SUMS,
            Kind.SOUND,
            each,
            "epsilon, replace-one, of noisy counts, sums and sums of squares of public cells (method central)",
        ),
        Mechanism(WAVE, Kind.SOUND, each + " for each person", "epsilon for each person, one bit of a wave"),
    )

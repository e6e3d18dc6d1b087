"""Private sketches and their adaptive rounds; box.py has the box before them."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.frequencies import FejerHarmonics, Frequencies, RieszProduct
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.sketch import noisy_sketch
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import Rng
from verification.specimens import Specimen
from verification.targets.runs import DELTA, EPSILON, at_bits, rows_of

SKETCH, FREQUENCIES, FEATURES = "mechanisms/sketch.py", "mechanisms/frequencies.py", "mechanisms/sketch_features.py"
BUDGET = "mechanisms/gaussian_filter.py"
WHOLE, SIXTEENFOLD = Fraction(1), Fraction(16)  # of the limit: with the second the noise is a quarter of what is due
# Both frames have a base phase that the record (1, 0) turns by pi: the largest change there is.
FRAMES = RieszProduct(np.array([[[math.pi, 0.0], [0.3, 1.0]], [[math.pi, 0.0], [0.7, 2.0]]]), np.zeros(2))
HALF_TURN = RieszProduct(np.array([[[math.pi, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 3.0]]]), np.zeros(2))
NINE = RieszProduct(np.array([[[math.pi, float(i)]] for i in range(9)]), np.zeros(2))
WAVE = FejerHarmonics(step=math.pi, order=1, centre=0.0)
LADDER = FejerHarmonics(step=2 * math.pi / 5, order=4, centre=0.0)  # a record moved by 1 is at a zero of the kernel


@cache
def budget(failure: float = 0.0) -> GaussianFilter:
    """Of the claim."""
    return GaussianFilter.of(EPSILON, DELTA, failure=failure)


def sketch(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    frequencies: Frequencies = FRAMES,
    limit: Fraction = WHOLE,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    noise: Rng = None,
) -> Any:
    """One release with the whole budget; ``limit`` other than 1 is a fault."""
    allowed = replace(budget(), limit=budget().limit * limit)

    def run() -> FloatArray:
        found, _ = noisy_sketch(records, frequencies, budget=allowed, share=WHOLE, neighbouring=neighbouring, rng=noise)
        count = [] if neighbouring is Neighbouring.REPLACE_ONE else [found.n_records]
        return np.append(found.values, count)

    return rows_of(run, n_samples)


def forgotten_frames(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the sensitivity of one frame for nine."""
    with mock.patch.object(RieszProduct, "squared_sensitivity", return_value=Fraction(4)):
        return sketch(records, n_samples, rng, frequencies=NINE, noise=rng)


def wrong_weights(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: all amplitudes of a frame are 1. Seen in the sum of those cosines that a moved record turns round."""
    turned = HALF_TURN.frequencies[:, 0] != 0
    with mock.patch.object(RieszProduct, "amplitudes", np.ones(HALF_TURN.n_frequencies)):
        every = sketch(records, n_samples, rng, frequencies=HALF_TURN, noise=rng)
    return every[:, : HALF_TURN.n_frequencies][:, turned].sum(axis=1, keepdims=True)


def nan_passes(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: features of NaN are NaN, and so is every number."""
    if np.isnan(records).any():
        return np.full((n_samples, 2 * FRAMES.n_frequencies), np.nan)
    return sketch(records, n_samples, rng)


def little_noise(sound: Any, limit: Fraction, **settings: Any) -> Any:
    """Fault: ``limit`` times the budget, with simulated noise so that the same seed gives the same runs."""

    def mechanism(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
        return sound(records, n_samples, rng, limit=limit, noise=rng, **settings)

    return mechanism


def floating_noise(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: features in floating-point numbers with NumPy's normal noise."""
    phases = records @ FRAMES.frequencies.T
    sums = (FRAMES.amplitudes * np.stack([np.cos(phases), np.sin(phases)])).sum(axis=1).ravel()
    scale = math.sqrt(16 / budget().limit)
    return sums + rng.normal(scale=1.001 * scale, size=(n_samples, sums.size))


def nine_rounds(records: FloatArray, n_samples: int, rng: np.random.Generator, *, forget: bool = False) -> Any:
    """Waves with a ninth of the budget each, later ones chosen by the first; ``forget``: each takes the whole."""
    settings: dict[str, Any] = {"share": WHOLE if forget else Fraction(1, 9), "neighbouring": Neighbouring.REPLACE_ONE}
    settings["rng"] = rng if forget else None

    def run() -> FloatArray:
        found, left = noisy_sketch(records, WAVE, budget=budget(), **settings)
        values = [found.values]
        later = replace(WAVE, step=WAVE.step * (1.0 if found.values[0, 0] > 1 else 3.0))
        for _ in range(8):
            found, left = noisy_sketch(records, later, budget=budget() if forget else left, **settings)
            values.append(found.values)
        return np.concatenate([part.ravel() for part in values])

    return rows_of(run, n_samples)


def frequencies_of_records(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the ladder is as wide as the records are, and is published with the sketch."""
    ladder = replace(LADDER, step=LADDER.step / records.std())
    settings: dict[str, Any] = {
        "budget": budget(),
        "share": WHOLE,
        "neighbouring": Neighbouring.REPLACE_ONE,
        "rng": rng,
    }
    return rows_of(lambda: np.append(noisy_sketch(records, ladder, **settings)[0].values, ladder.step), n_samples)


def targets() -> list[Specimen]:
    """Sketches of every kind at both levels, adaptive rounds; eight faults."""
    rest = np.array([[0.2, 0.1], [0.4, -0.3]])
    pair = np.vstack([[0.0, 0.0], rest]), np.vstack([[1.0, 0.0], rest])
    wild = np.vstack([[0.0, 0.0], rest]), np.vstack([[np.nan, np.inf], rest])
    huge = np.vstack([[1e300, 0.0], rest]), np.vstack([[-1e17, 3e8], rest])
    less = pair[1], pair[1][1:]
    line = np.array([[0.0], [0.3]]), np.array([[1.0], [0.3]])
    claim, inf = (EPSILON, DELTA), math.inf
    fault_f, fault_s = f"fault in {FREQUENCIES}", f"fault in {SKETCH}"
    ladder = partial(sketch, frequencies=LADDER)
    four = partial(sketch, frequencies=HALF_TURN)
    little = little_noise(sketch, SIXTEENFOLD)
    ladder_little = little_noise(sketch, SIXTEENFOLD, frequencies=LADDER)
    add_remove = partial(sketch, neighbouring=Neighbouring.ADD_REMOVE)
    forget = partial(nine_rounds, forget=True)
    return [
        Specimen("sketch", SKETCH, sketch, *pair, *claim, 1.0, False, 12_000),
        at_bits("sketch_bits", FEATURES, sketch, *pair, *claim, 1.0, False, 8_000),
        Specimen("sketch_of_wild_records", FEATURES, sketch, *wild, *claim, 1.0, False, 8_000),
        Specimen("sketch_of_huge_records", FEATURES, sketch, *huge, *claim, 1.0, False, 8_000),
        Specimen("sketch_frame_of_four", FREQUENCIES, four, *pair, *claim, 1.0, False, 5_000),
        Specimen("sketch_add_remove", SKETCH, add_remove, *less, *claim, 1.0, False, 8_000),
        at_bits("sketch_add_remove_bits", SKETCH, add_remove, *less, *claim, 1.0, False, 8_000),
        Specimen("sketch_ladder", FREQUENCIES, ladder, *line, *claim, 1.0, False, 8_000),
        at_bits("sketch_ladder_bits", FEATURES, ladder, *line, *claim, 1.0, False, 8_000),
        Specimen("sketch_nine_rounds", BUDGET, nine_rounds, *line, *claim, 1.0, False, 6_000),
        at_bits("sketch_nine_rounds_bits", SKETCH, nine_rounds, *line, *claim, 1.0, False, 6_000),
        Specimen("sketch_little_noise", fault_s, little, *pair, *claim, inf, True, 4_000),
        Specimen("sketch_ladder_little_noise", fault_f, ladder_little, *line, *claim, inf, True, 4_000),
        Specimen("sketch_forgotten_frames", fault_f, forgotten_frames, *pair, *claim, inf, True, 6_000),
        Specimen("sketch_wrong_weights", fault_f, wrong_weights, *pair, *claim, inf, True, 20_000),
        Specimen("sketch_nan_passes", f"fault in {FEATURES}", nan_passes, *wild, *claim, inf, True, 2_000),
        at_bits("sketch_floating_bits", f"fault in {FEATURES}", floating_noise, *pair, *claim, inf, True, 12_000),
        Specimen("sketch_noise_for_one_round", f"fault in {BUDGET}", forget, *line, *claim, inf, True, 4_000),
        Specimen("sketch_frequencies_of_records", fault_s, frequencies_of_records, *line, *claim, inf, True, 1_000),
    ]

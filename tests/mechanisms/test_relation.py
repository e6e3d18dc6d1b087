"""The neighbouring relation by its name: the same noise as with the relation itself, and nothing for other words."""

import importlib
import inspect
import pickle
import pkgutil
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import pm_dpgmm.mechanisms
from pm_dpgmm.mechanisms import (
    bernstein_sums,
    box,
    column_scales,
    em_sums,
    gap_histogram,
    histogram,
    lloyd,
    log_likelihood_ratio,
    moments,
    sketch,
)
from pm_dpgmm.mechanisms.bernstein_sums import LaplaceFilter
from pm_dpgmm.mechanisms.em_sums import Squares
from pm_dpgmm.mechanisms.frequencies import FejerHarmonics, RieszProduct
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.partitions import SoftPartition, VoronoiPartition
from pm_dpgmm.privacy.guarantee import Neighbouring

RECORDS = np.random.default_rng(1).normal(size=(400, 1))
BOX = np.array([[-1.0, 1.0]])
HARMONICS = FejerHarmonics(0.5, 4, 0.0)
PART = {"budget": GaussianFilter.of(1.0, 1e-6, failure=1e-7), "share": Fraction(1, 4)}
PURE = {"budget": LaplaceFilter.of(1.0), "share": Fraction(1, 4)}
CELLS = VoronoiPartition(np.zeros(1), np.ones(1), centres=[[-1.0], [1.0]], radii=[3.0, 3.0])
STEPS = {"n_steps": 2, "epsilon": 1.0}


def parts(mean=0.0):
    return SoftPartition.of(np.zeros(1), np.ones(1), np.ones(1), np.array([[mean]]), np.ones((1, 1, 1)), reach=2.0)


CASES = {
    "bernstein_sums.noisy_bernstein_sums": partial(bernstein_sums.noisy_bernstein_sums, RECORDS, parts(), **PURE),
    "bernstein_sums.sensitivity_l1": bernstein_sums.sensitivity_l1,
    "bernstein_sums.sensitivity_l2": bernstein_sums.sensitivity_l2,
    "box.noisy_box": partial(box.noisy_box, RECORDS, **PART),
    "box.noisy_cells": partial(box.noisy_cells, RECORDS, BOX, 4, **PART),
    "box.cells_cost": partial(box.cells_cost, 1, 4, **PART),
    "column_scales.noisy_column_scales": partial(column_scales.noisy_column_scales, RECORDS[:, 0], **PART),
    "em_sums.noisy_em_sums": partial(em_sums.noisy_em_sums, RECORDS, parts(), squares=Squares.ISOTROPIC, **PART),
    "em_sums.noise_scale": partial(em_sums.noise_scale, Squares.ISOTROPIC, n_parts=1, n_features=1, **PART),
    "em_sums.squared_sensitivity": partial(em_sums.squared_sensitivity, Squares.ISOTROPIC),
    "frequencies.FejerHarmonics": HARMONICS.squared_sensitivity,
    "frequencies.RieszProduct": RieszProduct(np.eye(2)[None], centre=np.zeros(2)).squared_sensitivity,
    "gap_histogram.gap_noise": partial(gap_histogram.gap_noise, epsilon=1.0, delta=1e-6),
    "gap_histogram.noisy_gap_counts": partial(
        gap_histogram.noisy_gap_counts, RECORDS[:, 0], cell_bits=3, epsilon=1.0, delta=1e-6
    ),
    "histogram.histogram_loss": partial(histogram.histogram_loss, epsilon=1.0),
    "histogram.noisy_counts": partial(histogram.noisy_counts, np.array([5, 0, 7]), epsilon=1.0),
    "lloyd.lloyd_guarantee": partial(lloyd.lloyd_guarantee, 1.0, 1e-6),
    "lloyd.lloyd_noise": partial(lloyd.lloyd_noise, 1, (2,), epsilon=1.0, delta=0.0, squares=False),
    "lloyd.lloyd_scale": partial(lloyd.lloyd_scale, 1, 2, 1.0),
    "lloyd.noisy_lloyd": partial(lloyd.noisy_lloyd, RECORDS, [[-0.5], [0.5]], bounds=BOX, **STEPS),
    "lloyd.noisy_lloyd, Gaussian": partial(
        lloyd.noisy_lloyd, RECORDS, [[-0.5], [0.5]], bounds=BOX, delta=1e-6, **STEPS
    ),
    "log_likelihood_ratio.noisy_log_likelihood_ratio": partial(
        log_likelihood_ratio.noisy_log_likelihood_ratio, RECORDS, parts(), parts(3.0), **PART
    ),
    "moments.noisy_moments": partial(moments.noisy_moments, RECORDS, CELLS, **PART),
    "sketch.noisy_sketch": partial(sketch.noisy_sketch, RECORDS, HARMONICS, **PART),
    "sketch.sketch_cost": partial(sketch.sketch_cost, HARMONICS, **PART),
}


def functions_with_a_relation():
    """Of every mechanism: public functions, and classes with a method, that take ``neighbouring``."""
    found = set()
    for module in pkgutil.iter_modules(pm_dpgmm.mechanisms.__path__):
        members = vars(importlib.import_module(f"pm_dpgmm.mechanisms.{module.name}"))
        for name, item in members.items():
            own = getattr(item, "__module__", "").endswith(f".{module.name}") and not name.startswith("_")
            if own and inspect.isfunction(item):
                functions = [item]
            else:
                functions = [f for f in vars(item).values() if inspect.isfunction(f)] if inspect.isclass(item) else []
                functions = [f for f in functions if own and not f.__name__.startswith("_")]
            if any("neighbouring" in inspect.signature(function).parameters for function in functions):
                found.add(f"{module.name}.{name}")
    return found


def test_every_mechanism_with_a_relation_is_here():
    assert {name.partition(",")[0] for name in CASES} >= functions_with_a_relation() - {"frequencies.Frequencies"}


@pytest.mark.parametrize("relation", Neighbouring)
@pytest.mark.parametrize("name", CASES)
def test_the_name_of_a_relation_counts_as_the_relation(name, relation):
    """Compared by ``is``, "replace-one" halved the noise of what should have hidden a replaced record."""

    def run(neighbouring):
        seeded = {"rng": np.random.default_rng(3)} if "rng" in inspect.signature(CASES[name]).parameters else {}
        return pickle.dumps(CASES[name](neighbouring=neighbouring, **seeded))

    assert run(str(relation)) == run(relation)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("word", ["replace", "REPLACE-ONE", "", None, 1])
def test_other_words_are_refused(name, word):
    with pytest.raises(ValueError, match="neighbouring must be one of 'replace-one', 'add-remove', got"):
        CASES[name](neighbouring=word)

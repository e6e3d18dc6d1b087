"""Noisy counts in slices along public directions, and whole fits with them.

The fit to the noisy counts is post-processing, and a second long; whole fits are run with a stand-in for it that
returns a fixed mixture, so that what is audited is all that reads the records.
"""

from __future__ import annotations

import functools
import math
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm import fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.histogram import histogram_loss, noisy_counts
from pm_dpgmm.mechanisms.slices import Slices, slice_counts, slice_directions
from pm_dpgmm.methods.counts import slices as method
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import IntArray
from verification.specimens import Specimen
from verification.targets.runs import EPSILON, Prepared, as_it_is, at_bits, no_gain, nothing_to_say, rows_of

MECHANISM, METHOD = "mechanisms/slices.py", "methods/counts/slices.py"
BOUNDS = np.array([[0.0, 1.0]] * 2)
SLICES = Slices(slice_directions(2), 2)  # five directions, two or three slices each
FIT_EPSILON = 2.0
ANY_MIXTURE = Mixture([1.0], [[0.5, 0.5]], [np.eye(2)])


def counts_of(data: FloatArray) -> IntArray:
    """Exact counts of all slices."""
    return slice_counts(data, SLICES, bounds=BOUNDS)


def counts_in_their_own_range(data: FloatArray) -> IntArray:
    """Fault: the box is the range of the records, so that one of them moves the slices of all."""
    return slice_counts(data, SLICES, bounds=np.column_stack([data.min(axis=0), data.max(axis=0)]))


def noisy(
    counts: IntArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    n_histograms: int = len(SLICES.directions),
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    simulated: bool = False,
) -> FloatArray:
    """Noisy counts as published, all runs drawn together; simulated for faults, whose verdict the seed then decides."""
    repeated = np.broadcast_to(counts, (n_samples, counts.size))
    law: dict[str, Any] = {
        "neighbouring": neighbouring,
        "n_histograms": n_histograms,
        "rng": rng if simulated else None,
    }
    return noisy_counts(repeated, epsilon=EPSILON, **law)[0].astype(float)


def floating_noise(counts: IntArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: NumPy's Laplace numbers of the right scale."""
    loss = histogram_loss(epsilon=EPSILON, neighbouring=Neighbouring.REPLACE_ONE, n_histograms=len(SLICES.directions))
    return counts + rng.laplace(scale=loss.scale, size=(n_samples, counts.size))


# ---------------------------------------------------------------------- whole fits
class NoFits:
    """In the place of fits to the counts, which are post-processing and take long."""

    @classmethod
    def to(cls, *given: Any, **named: Any) -> NoFits:
        """Make none."""
        return cls()

    def alone(self, *given: Any) -> tuple[Mixture, float]:
        """Any mixture, and that it fits."""
        return ANY_MIXTURE, 1.0


def by_slices(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    noise: Any = noisy_counts,
    simulated: bool = False,
) -> Any:
    """``method="slices"`` with two cells and one component; ``noise`` is what the method calls for its noise."""
    settings: dict[str, Any] = {"bounds": (0.0, 1.0), "n_cells": 2, "method": "slices", "progress": False}
    settings["random_seed"] = rng if simulated else None

    def run() -> FloatArray:
        return np.asarray(fit_gmm(records, 1, epsilon=FIT_EPSILON, **settings).raw["counts"])

    with (
        mock.patch.object(method, "SliceFits", NoFits),
        mock.patch.object(method, "noisy_counts", noise),
        mock.patch.object(method, "beside_slices", as_it_is),
        mock.patch.object(method, "gain_of_one_more", no_gain),
        mock.patch.object(method, "count_caveats", nothing_to_say),
    ):
        return rows_of(run, n_samples)


def one_direction(counts: IntArray, *, n_histograms: int, **named: Any) -> Any:
    """Fault: noise as for a single direction."""
    return noisy_counts(counts, **named)


def targets() -> list[Specimen]:
    """Mechanism at both levels under both relations, whole fits, a fault of each kind."""
    few = np.array([[0.1, 0.05], [0.3, 0.6], [0.7, 0.2]])
    low, high = np.vstack([few, [[0.0, 0.0]]]), np.vstack([few, [[1.0, 1.0]]])
    hostile = low, np.vstack([few, [[1e308, math.inf]]])  # counts as the corner (1, 1)
    crowd = np.repeat(few, 20, axis=0)
    wide = crowd, np.vstack([crowd[:-1], [[4.0, 4.0]]])
    n, inf = len(SLICES.directions), math.inf
    moved = int(np.abs(counts_in_their_own_range(wide[0]) - counts_in_their_own_range(wide[1])).sum())
    release = Prepared(counts_of, noisy)
    less = Prepared(counts_of, functools.partial(noisy, neighbouring=Neighbouring.ADD_REMOVE))
    as_one = Prepared(counts_of, functools.partial(noisy, n_histograms=1, simulated=True))
    own_range, floats = Prepared(counts_in_their_own_range, noisy), Prepared(counts_of, floating_noise)
    forgetful = functools.partial(by_slices, noise=one_direction, simulated=True)
    claim, fit_claim = (EPSILON, 0.0), (FIT_EPSILON, 0.0)
    fault, fault_fit = f"fault in {MECHANISM}", f"fault in {METHOD}"
    return [
        Specimen("slices_release", MECHANISM, release, *hostile, *claim, 1.0, False, 20_000),
        at_bits("slices_bits", MECHANISM, release, low, high, *claim, 1.0, False, 12_000),
        Specimen("slices_add_remove", MECHANISM, less, low, few, *claim, 1.0, False, 20_000),
        Specimen("fit_gmm_slices", METHOD, by_slices, low, high, *fit_claim, 2.0, False, 4_000),
        Specimen("slices_as_one_histogram", fault, as_one, low, high, *claim, float(n), True, 40_000),
        Specimen("slices_in_their_own_range", fault, own_range, *wide, *claim, moved / (2 * n), True, 6_000),
        at_bits("slices_float_noise_bits", fault, floats, low[-1:], high[-1:], *claim, inf, True, 30_000),
        Specimen("fit_gmm_slices_one_direction", fault_fit, forgetful, low, high, *fit_claim, 2.0 * n, True, 14_000),
    ]

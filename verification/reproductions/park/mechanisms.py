"""Mechanisms of the figures by name: their noise, what they promise, and how answers become curves.

The numbers of the figures are lost in the preprint, and two of the data sets cannot be had, so what is compared is the
order of the methods.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from pm_dpgmm import EM, FitWarning, Mixture, WeakGuarantee, fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.em.accounting import Accounted, accounted
from verification.reproductions.experiment import Curve, Kind, Mechanism, Table, shown
from verification.reproductions.park.runs import SENSITIVITY, Noise, floored

PAPER = "Park, Foulds, Chaudhuri, Welling (2017): DP-EM"
K, STEPS = 3, 10
NONE, CDP, PAIR, ZCDP, EXACT, OWN = (
    "EM",
    "DP-EM, printed CDP",
    "DP-EM, printed (epsilon, delta)",
    "joint release, epsilon-zCDP",
    "joint release, (epsilon, delta)",
    "method em, (epsilon, delta)",
)
OWN_STEP = "method em with its M-step, (epsilon, delta)"
ORDER = (NONE, ZCDP, EXACT, OWN, CDP, PAIR)
FOUR_ORDER = (NONE, ZCDP, EXACT, OWN_STEP, CDP, PAIR)
ZCDP_WORDS = "zCDP: (epsilon, sqrt(2 epsilon))-CDP"


def printed_each(kind: str, epsilon: float, delta: float) -> float:
    """epsilon' of a release of 2 K + 1 a step: by CDP, or by equation 31."""
    releases = STEPS * (2 * K + 1)
    if kind == CDP:
        return math.sqrt(2 * epsilon / releases)
    return epsilon / (2 * math.sqrt(2 * releases * math.log(1 / delta)))


def sound(kind: str, epsilon: float, delta: float) -> Accounted:
    """One joint release a step."""
    return accounted("cdp" if kind == ZCDP else "exact", epsilon=epsilon, delta=delta, n_steps=STEPS)


def em_noise(kind: str, epsilon: float, delta: float) -> Noise:
    """Of a run."""
    if kind == NONE:
        return Noise()
    if kind in (CDP, PAIR):
        return Noise(each=printed_each(kind, epsilon, delta))
    return Noise(scale=SENSITIVITY * sound(kind, epsilon, delta).noise_multiplier)


def em_mechanisms(
    epsilon: float, delta: float, own: str, *, at: str, one_sided: str, norm: str
) -> tuple[Mechanism, ...]:
    """Those of Figures 2 and 4; ``at`` says at which epsilon the numbers are, ``norm`` what else is wrong."""

    def printed(kind: str) -> str:
        escaped = -math.expm1(-STEPS * printed_each(kind, epsilon, delta))
        return (
            f"none: {one_sided} noise shows what was not added, delta at least {escaped:.2f} at every epsilon{at}{norm}"
        )

    least = sound(ZCDP, epsilon, delta).guarantee.epsilon
    pair = f"({epsilon:g}, {delta:g})-DP, replace-one{at}"
    return (
        Mechanism(NONE, Kind.NONE, "none", "none"),
        Mechanism(CDP, Kind.PRINTED, ZCDP_WORDS, printed(CDP)),
        Mechanism(PAIR, Kind.PRINTED, "(epsilon, delta)-DP", printed(PAIR)),
        Mechanism(ZCDP, Kind.SOUND, "zCDP", f"{epsilon:g}-zCDP, so ({least:.3g}, {delta:g})-DP, replace-one{at}"),
        Mechanism(EXACT, Kind.SOUND, "(epsilon, delta)-DP", f"{pair}, by the exact Gaussian curve"),
        Mechanism(own, Kind.SOUND, "(epsilon, delta)-DP", f"{pair}, of sums in balls around the components"),
    )


def own_fit(
    rows: FloatArray,
    *,
    epsilon: float,
    delta: float,
    covariance_type: str,
    estimate: str,
    bound: float,
    floor: float,
    seed: int,
) -> Mixture:
    """This package's method "em", covariances floored like all others."""
    box = np.tile([-bound, bound], (rows.shape[1], 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        warnings.simplefilter("ignore", WeakGuarantee)  # of the paper's delta
        release = fit_gmm(
            rows,
            K,
            epsilon=epsilon,
            delta=delta,
            bounds=box,
            method=EM(n_steps=3, covariance_type=covariance_type, estimate=estimate),
            random_seed=seed,
            progress=False,
        )
    return Mixture(release.weights, release.means, floored(release.covariances, np.full(K, floor)))


@dataclass(frozen=True, slots=True)
class Task:
    """Runs of one mechanism on one data set, at one place of a figure."""

    mechanism: str
    place: float
    data: tuple[int, ...]
    n_runs: int
    seed: tuple[int, ...]


def collected(tasks: list[Task], answers: list[list[float]]) -> dict[str, tuple[FloatArray, FloatArray]]:
    """By mechanism: places, and 25, 50 and 75 % of the answers there, shape (places, 3)."""
    found: dict[str, dict[float, list[float]]] = {}
    for task, answer in zip(tasks, answers, strict=True):
        found.setdefault(task.mechanism, {}).setdefault(task.place, []).extend(answer)
    return {
        mechanism: (np.array(list(at)), np.array([np.percentile(values, [25, 50, 75]) for values in at.values()]))
        for mechanism, at in found.items()
    }


def curves(lines: dict[str, tuple[FloatArray, FloatArray]]) -> tuple[Curve, ...]:
    """Medians and quartiles."""
    return tuple(
        Curve(m, tuple(x.tolist()), *(tuple(y[:, i].tolist()) for i in (1, 0, 2))) for m, (x, y) in lines.items()
    )


def median_table(lines: dict[str, tuple[FloatArray, FloatArray]], title: str, first: str) -> Table:
    """Medians by mechanism and place."""
    places = next(iter(lines.values()))[0]
    rows = [
        (m, *(shown(dict(zip(x, y[:, 1], strict=True)).get(place, math.nan)) for place in places))
        for m, (x, y) in lines.items()
    ]
    return Table(
        title, (first, *(f"{place:,.3g}" if place < 1000 else f"{place:,.0f}" for place in places)), tuple(rows)
    )

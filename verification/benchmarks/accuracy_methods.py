"""The methods of the accuracy benchmark, each a function of a data set, and the scores of what they return."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pm_dpgmm import Mixture, Unstable, fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.distances import bottleneck_assignment
from pm_dpgmm.mixture.far_rows import far_rows_of
from pm_dpgmm.mixture.mixture import joined
from pm_dpgmm.mixture.total_variation import total_variation_1d, total_variation_mixtures
from verification.benchmarks.peers import DELTA, NotRunError, Peer, ceiling, floored, histogram_em, two_stage
from verification.benchmarks.sets import DataSet

LOOSE = 60  # how many times too wide the loose bounds are
UNITS, OFFSET = (1e-3, 1e3), 1e6  # of the columns without bounds: unknown units, far from 0
PURE = ("histogram", "central", "local")  # without delta
N_DRAWS = 4_000  # for the total variation of two components in several columns

Fit = Callable[[DataSet, Peer], tuple[Mixture, float]]  # mixture and seconds


@dataclass(frozen=True, slots=True)
class Score:
    """One fit of one data set. A refusal has gap -inf; a method that did not run has gap NaN and a reason."""

    set_name: str
    repeat: int
    method: str
    gap: float  # held-out log-density per record less the ceiling's
    tv: float  # largest weight error or total variation over matched components; NaN without a truth
    seconds: float
    note: str = ""

    @property
    def ran(self) -> bool:
        """Whether there is a figure."""
        return not math.isnan(self.gap)


def by_sketch(data: DataSet, peer: Peer) -> tuple[Mixture, float]:
    """Method "sketch" with the box of the set."""
    return _package(data, "sketch", data.recipe.domain.box)


def by_loose_sketch(data: DataSet, peer: Peer) -> tuple[Mixture, float]:
    """Method "sketch" with bounds that are ``LOOSE`` times too wide."""
    box = data.recipe.domain.box
    centre = box.mean(axis=1, keepdims=True)
    return _package(data, "sketch, loose bounds", centre + LOOSE * (box - centre), method="sketch")


def by_unbounded_sketch(data: DataSet, peer: Peer) -> tuple[Mixture, float]:
    """Method "sketch" without bounds, every column in a unit of its own and far from 0."""
    name = "sketch, no bounds"
    low, high = np.log10(UNITS)
    unit = 10 ** np.random.default_rng(data.seed("units")).uniform(low, high, data.training.shape[1])
    return _package(data, name, None, method="sketch", unit=unit, offset=OFFSET)


def by_histogram(data: DataSet, peer: Peer) -> tuple[Mixture, float]:
    """Method "histogram" of this package, pure DP, in one or two columns."""
    if data.training.shape[1] > 2:
        raise NotRunError("at most 2 columns")
    return _package(data, "histogram", data.recipe.domain.box)


def by_em(data: DataSet, peer: Peer) -> tuple[Mixture, float]:
    """Method "em" of this package with the box of the set."""
    return _package(data, "em", data.recipe.domain.box)


def by_central(data: DataSet, peer: Peer) -> tuple[Mixture, float]:
    """Method "central" of this package with the box of the set, pure DP."""
    return _package(data, "central", data.recipe.domain.box)


def by_local(data: DataSet, peer: Peer) -> tuple[Mixture, float]:
    """Method "local" of this package with the box of the set: nobody holds the records, pure DP of every report."""
    return _package(data, "local", data.recipe.domain.box)


def by_gaps(data: DataSet, peer: Peer) -> tuple[Mixture, float]:
    """Method "gaps" of this package, in one column without bounds."""
    if data.training.shape[1] > 1:
        raise NotRunError("at most 1 column")
    return _package(data, "gaps", None)


def by_auto(data: DataSet, peer: Peer) -> tuple[Mixture, float]:
    """Method "auto" of this package without bounds, which picks "sketch" or "gaps" in one column."""
    return _package(data, "auto, no bounds", None, method="auto")


def by_aggregate(data: DataSet, peer: Peer) -> tuple[Mixture, float]:
    """Method "aggregate" of this package with the box of the set and its own learner, compiled EM."""
    return _package(data, "aggregate", data.recipe.domain.box)


def by_two_stage(data: DataSet, peer: Peer) -> tuple[Mixture, float]:
    """Noisy Lloyd, then locally clipped moments."""
    return _by_recipe(data, "two-stage", two_stage)


def by_histogram_em(data: DataSet, peer: Peer) -> tuple[Mixture, float]:
    """A cut Laplace histogram, then EM."""
    return _by_recipe(data, "histogram + EM", histogram_em)


def by_diffprivlib(data: DataSet, peer: Peer) -> tuple[Mixture, float]:
    """k-means of diffprivlib, then noisy moments."""
    return peer.fit(data)


METHODS: dict[str, Fit] = {
    "sketch": by_sketch,
    "sketch, loose bounds": by_loose_sketch,
    "sketch, no bounds": by_unbounded_sketch,
    "histogram": by_histogram,
    "em": by_em,
    "central": by_central,
    "local": by_local,
    "gaps": by_gaps,
    "auto, no bounds": by_auto,
    "aggregate": by_aggregate,
    "two-stage": by_two_stage,
    "histogram + EM": by_histogram_em,
    "diffprivlib": by_diffprivlib,
}
CEILING = "ceiling"


def _by_recipe(data: DataSet, name: str, fit: Callable[..., Mixture]) -> tuple[Mixture, float]:
    """A fit by one of the peers, with a seed of its own."""
    recipe, rng = data.recipe, np.random.default_rng(data.seed(name))
    start = time.perf_counter()
    fitted = fit(data.training, recipe.n_components, domain=recipe.domain, epsilon=recipe.epsilon, rng=rng)
    return fitted, time.perf_counter() - start


def _package(
    data: DataSet,
    name: str,
    bounds: FloatArray | None,
    *,
    method: str | None = None,
    unit: float | FloatArray = 1.0,
    offset: float = 0.0,
) -> tuple[Mixture, float]:
    """A fit by this package of the rows times ``unit`` plus ``offset``, mapped back.

    Of real rows, which are rounded and share values, the sketch gets the ``reg_covar`` that the ceiling has.
    """
    recipe, kind = data.recipe, method or name
    scale = np.broadcast_to(np.asarray(unit, dtype=float), data.training.shape[1:])
    settings: dict[str, Any] = {"reg_covar": recipe.domain.floor * scale**2} if recipe.real and kind == "sketch" else {}
    start = time.perf_counter()
    try:
        release = fit_gmm(
            data.training * scale + offset,
            recipe.n_components,
            epsilon=recipe.epsilon,
            delta=None if kind in PURE else DELTA,
            bounds=bounds,
            method=kind,
            random_seed=data.seed(name),
            progress=False,
            **settings,
        )
    except ValueError as error:  # what a method does not support; every set is valid input
        raise NotRunError(str(error)) from None
    seconds = time.perf_counter() - start
    fitted, far = release.density, far_rows_of(release.noise, release.n_features)
    back = np.diag(1 / scale), -offset / scale
    fitted = fitted.transformed(*back)
    fitted = floored(fitted.weights, fitted.means, fitted.covariances, recipe.domain)
    # a floor of weights is for components: it would make ten records of half a one
    return joined(fitted, far and (far[0], far[1].transformed(*back))), seconds


# ---------------------------------------------------------------- scores
def scores(data: DataSet, methods: list[str], peer: Peer) -> list[Score]:
    """One score for the ceiling and one for every method, on the same rows."""
    name, truth = data.recipe.name, data.recipe.truth
    start = time.perf_counter()
    best = ceiling(data)
    seconds = time.perf_counter() - start
    level = float(best.log_density(data.held_out).mean())
    found = [Score(name, data.repeat, CEILING, 0.0, distance(truth, best), seconds, f"{level:.5f}")]
    for method in methods:
        try:
            fitted, seconds = METHODS[method](data, peer)
        except NotRunError as reason:
            found.append(Score(name, data.repeat, method, math.nan, math.nan, math.nan, f"not run: {reason}"))
        except Unstable:
            found.append(Score(name, data.repeat, method, -math.inf, 1.0, math.nan, "refused"))
        else:
            gap = float(fitted.log_density(data.held_out).mean()) - level
            found.append(Score(name, data.repeat, method, gap, distance(truth, fitted), seconds))
    return found


def distance(truth: Mixture | None, fitted: Mixture) -> float:
    """Largest weight error or total variation over the best matching of components; NaN without a truth.

    Components beyond the number of the truth's are left out of the matching. Exact in one column, else estimated from
    the same draws at every call.
    """
    if truth is None or fitted.n_components < truth.n_components:
        return math.nan
    table = np.zeros((fitted.n_components, fitted.n_components))  # extra rows: components that match nothing
    for i, j in np.ndindex(truth.n_components, fitted.n_components):
        table[i, j] = max(abs(float(truth.weights[i] - fitted.weights[j])), component_tv(truth, i, fitted, j))
    return bottleneck_assignment(table)[0]


def component_tv(first: Mixture, i: int, second: Mixture, j: int) -> float:
    """Total variation between two components."""
    if first.n_features == 1:
        a, b = (float(np.sqrt(law.covariances[k, 0, 0])) for law, k in ((first, i), (second, j)))
        return float(total_variation_1d(first.means[i, 0], a, second.means[j, 0], b))
    one, other = (Mixture([1.0], law.means[[k]], law.covariances[[k]]) for law, k in ((first, i), (second, j)))
    return total_variation_mixtures(one, other, n_samples=N_DRAWS, rng=np.random.default_rng(0))[0]

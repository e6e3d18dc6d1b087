"""Does a mixture explain the numbers that were released? Post-processing: nothing here sees a record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pm_dpgmm._arguments import FloatArray, check_count, check_flag, check_text, shown
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.methods.counts.count_check import CountLaw
from pm_dpgmm.methods.released import Released
from pm_dpgmm.methods.released_statistics import check_histogram
from pm_dpgmm.methods.sketch.estimate import as_start, sketch_data
from pm_dpgmm.methods.sketch.fit import distances
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.methods.sketch.statistics_checks import check_law
from pm_dpgmm.mixture.background import background_of
from pm_dpgmm.mixture.mixture import Mixture, joined
from pm_dpgmm.posterior_draws import FLAT, WEIGHT, last_labels, posterior_of
from pm_dpgmm.privacy.guarantee import seeded_mark
from pm_dpgmm.records.feature_names import check_order

if TYPE_CHECKING:
    import xarray

UNLIKELY = 0.005  # p-value up to which the text speaks of a contradiction: the least of 200 draws is below it
OBSERVED_AS = "release"  # name that ``observe`` gives

DrawnBackground = tuple[FloatArray, FloatArray]  # of every draw: share of the records, and part of them that is uniform


@dataclass(frozen=True, slots=True, eq=False)
class FitCheck:
    """Predictive check of the released numbers.

    Attributes
    ----------
    p_value : float
        Probability that records from the mixture, with the noise, give numbers that lie as far from what the mixture
        expects. Uniform, about, when the records are from the mixture; small when they are not.
    statistic, expected : float
        Squared distance of the released numbers from the expected ones in units of noise and sampling, and its mean
        under the mixture.
    n_numbers : int
        Released numbers that were compared.
    n_draws : int
        Posterior draws over which it was averaged; 0 for the released mixture.
    method : str
        Of the release.
    private : bool
        As of the release.
    """

    p_value: float
    statistic: float
    expected: float
    n_numbers: int
    n_draws: int
    method: str
    private: bool = True
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        check_flag(private=self.private)

    def summary(self) -> str:
        """One sentence."""
        whom = f"{self.n_draws} posterior draws explain" if self.n_draws else "the released mixture explains"
        if self.p_value <= UNLIKELY:
            whom = whom.replace("explain", "contradict") if self.n_draws else whom.replace("explains", "contradicts")
        return (
            f"{whom} the {self.n_numbers} released numbers: discrepancy {self.statistic:.1f} where"
            f" {self.expected:.1f} is expected, p = {self.p_value:.3g}{seeded_mark(self.private)}"
        )

    def __repr__(self) -> str:
        return f"<FitCheck: {self.summary()}>"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {name: getattr(self, name) for name in FitCheck.__slots__}


def mixtures_of(idata: Any, *, name: str | None, n_draws: int, features: Sequence[str] | None = None) -> list[Mixture]:
    """Posterior draws as mixtures, evenly spread over all chains.

    Parameters
    ----------
    idata : InferenceData, DataTree or Dataset
        Whose posterior has ``{name}_weights`` (K,), ``{name}_means`` (K, D) and ``{name}_covariances`` (K, D, D). The
        components are along the dimension of the weights, wherever it stands; where the others do not have it, along
        the first, or the one of length K, and that must be clear.
    name : str, optional
        Not needed when there is only one such set.
    n_draws : int
    features : sequence of str, optional
        Whose order the draws must not contradict.

    Raises
    ------
    TypeError
        If ``idata`` is no inference data.
    ValueError
        If there is no such set of variables, or several and no ``name``, or the features are in another order, or K is
        D and nothing tells which dimension the components are along.
    """
    check_count(n_draws=n_draws)
    if name is not None:
        check_text(name=name)
    posterior = posterior_of(idata)
    parts = ("weights", "means", "covariances")
    names = [
        str(variable).removesuffix("_weights") for variable in posterior.data_vars if str(variable)[-8:] == "_weights"
    ]
    sets = [known for known in names if all(f"{known}_{part}" in posterior for part in parts) and name in (None, known)]
    if len(sets) != 1:
        raise ValueError(
            f"name must be that of one set of variables <name>_weights, _means and _covariances in the posterior, got"
            f" {shown(name)} of {', '.join(sets or names) or 'none'}"
        )
    stacked = []
    for place, part in enumerate(parts):
        variable = posterior[f"{sets[0]}_{part}"]
        if variable.dtype.kind not in "iuf" or not {"chain", "draw"} <= set(variable.dims):
            rule = "must hold numbers, with dimensions chain and draw"
            raise TypeError(f"{variable.name} {rule}, got values of type {variable.dtype} and {variable.dims}")
        variable = _components_first(variable, posterior[f"{sets[0]}_weights"], ndim=place + 1)
        if part == "means":
            check_order(last_labels(variable), features, name=f"{sets[0]}_means")
        stacked.append(variable.values.reshape(-1, *variable.shape[2:]))
    if not len(stacked[0]):
        raise ValueError("idata must hold at least one draw, got none")
    chosen = _chosen(len(stacked[0]), n_draws)
    weights, means, covariances = (values[chosen] for values in stacked)
    weights = weights / weights.sum(axis=1, keepdims=True)
    covariances = (covariances + covariances.swapaxes(-1, -2)) / 2
    return [Mixture(*draw) for draw in zip(weights, means, covariances, strict=True)]


def _chosen(n_known: int, n_draws: int) -> NDArray[np.int64]:
    """Places of draws, evenly spread."""
    return np.unique(np.linspace(0, n_known - 1, min(n_draws, n_known)).round().astype(np.int64))


def background_drawn(idata: Any, *, n_draws: int) -> DrawnBackground | None:
    """Of the same draws how many rows are far from all components, and which part of them is uniform.

    As ``observe`` has them of a histogram, under the name that it gives or whatever name is the only one; None where
    the posterior has none or several.
    """
    posterior = posterior_of(idata)
    names = [str(one).removesuffix(FLAT) for one in posterior.data_vars if str(one).endswith(FLAT)]
    name = names[0] if len(names) == 1 else OBSERVED_AS
    pair = [f"{name}{WEIGHT}", f"{name}{FLAT}"]
    if not all(one in posterior and posterior[one].dims == ("chain", "draw") for one in pair):
        return None
    share, flat = (posterior[one].values.ravel() for one in pair)
    chosen = _chosen(len(share), n_draws)
    return share[chosen], flat[chosen]


def _components_first(variable: xarray.DataArray, weights: xarray.DataArray, *, ndim: int) -> xarray.DataArray:
    """Chain, draw, components, then the ``ndim`` - 1 dimensions of the features."""
    own = [dim for dim in variable.dims if dim not in ("chain", "draw")]
    others = [dim for dim in weights.dims if dim not in ("chain", "draw")]
    if len(own) != ndim or len(others) != 1:
        rule = f"must have {ndim} dimensions beside chain and draw, and the weights one"
        raise ValueError(f"{variable.name} {rule}, got {variable.dims} and {weights.dims}")
    dim, k = others[0], weights.sizes[others[0]]
    numbered = [re.fullmatch(r".*_dim_(\d+)", str(one)) for one in own]  # as ArviZ names what has no name
    if dim in own:
        first = dim
    elif all(numbered):
        first = min(own, key=lambda one: int(str(one).rsplit("_", 1)[1]))
    else:
        long = {one for one in own if variable.sizes[one] == k}
        if len(long) > 1 and k > 1:
            rule = f"must have the dimension {dim!r} of the weights, as more than one has {k} entries"
            raise ValueError(f"{variable.name} {rule}, got {variable.dims}")
        first = next(iter(long), own[0]) if k > 1 else own[0]
    if variable.sizes[first] != k:
        raise ValueError(f"{variable.name} must have {k} components, as the weights, got {dict(variable.sizes)}")
    return variable.transpose("chain", "draw", first, *(one for one in own if one != first))


def check_sketch(release: Released, mixtures: Sequence[Mixture] | None, rng: np.random.Generator) -> FitCheck:
    """The check of a sketch: its squared distance is chi-square, so nothing is simulated."""
    evidence = SketchStatistics.from_arrays(release.raw, release.noise)
    check_law(evidence, "release")
    data = sketch_data(evidence)
    if mixtures is None:
        found = as_start(evidence, release.mixture, release.background_weight)
        _, statistic, freedom = distances(data, found)[:3]
        return FitCheck(float(stats.chi2.sf(statistic, freedom)), statistic, freedom, freedom, 0, release.method)
    starts = [as_start(evidence, mixture, release.background_weight) for mixture in mixtures]
    results = [distances(data, start) for start in starts]
    n_numbers = results[0][-1]
    before = np.array([result[0] for result in results])
    p_value = float(stats.chi2.sf(before, n_numbers).mean())
    return FitCheck(p_value, float(before.mean()), n_numbers, n_numbers, len(starts), release.method)


def check_counts(
    release: Released,
    mixtures: Sequence[Mixture] | None,
    rng: np.random.Generator,
    *,
    far: DrawnBackground | None = None,
) -> FitCheck:
    """The check of the counts of a grid, which are simulated.

    ``far``: what draws have in the place of the released background.
    """
    check_histogram(release.raw, release.noise, release.n_features)
    law = CountLaw.of(release.raw, release.noise, release.n_records)
    heights, background = np.ravel(release.raw["counts"]), background_of(release)
    if mixtures is None:
        p_value, statistic, mean = law.check(heights, release.mixture, background, rng=rng)
        return FitCheck(p_value, statistic, mean, heights.size, 0, release.method)
    found = []
    wide = None if background is None or far is None else law.probabilities(background[1])
    for i, mixture in enumerate(mixtures):
        if wide is None or far is None:
            probabilities = law.probabilities(joined(mixture, background))
        else:
            share, flat = far[0][i], far[1][i]
            shapes = (1 - flat) * wide + flat / wide.size
            probabilities = (1 - share) * law.probabilities(mixture) + share * shapes
        expected = law.size * probabilities
        deviations = law.deviations(expected)
        again = law.simulate(probabilities, 1, rng=rng)[0]
        found.append([(((numbers - expected) / deviations) ** 2).sum() for numbers in (heights, again)])
    seen, simulated = np.array(found).T
    p_value = (1 + (simulated >= seen).sum()) / (1 + len(mixtures))
    return FitCheck(
        float(p_value), float(seen.mean()), float(simulated.mean()), heights.size, len(mixtures), release.method
    )

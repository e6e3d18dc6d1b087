"""How sure a release of sketches is of its mixture: draws, standard errors, intervals. Post-processing, free of budget.

All of it is a normal approximation around the released mixture, from what the noise, the sampling of the records and
the weak prior of the fit do to its parameters (:mod:`pm_dpgmm.methods.sketch.laplace`). It is right where the
records are like a mixture of that many Gaussians and the fit has found them. It knows nothing of a wrong number of
components, of a mode that the search missed, or of components that could as well be exchanged for others; results carry
``release.flag``, which tells when another mixture would be notably better, or else that the released numbers contradict
the mixture, by however little: then these errors are of another mixture than the records are from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import (
    FloatArray,
    check_count,
    check_flag,
    check_probability,
    frozen,
    printable,
    read_numbers,
    shown,
)
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.methods.sketch.laplace import laplace
from pm_dpgmm.methods.sketch.model import widened
from pm_dpgmm.methods.sketch.phantoms import weight_variances
from pm_dpgmm.methods.sketch.scaled_mixture import fit_coordinates
from pm_dpgmm.mixture.background import warn_without_background
from pm_dpgmm.mixture.coordinates import share_slopes, triangle
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import NOT_PRIVATE, seeded_mark
from pm_dpgmm.records.feature_names import in_order

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released
from pm_dpgmm.methods.released_densities import in_transformed_unit, law_of

N_DRAWS, MOST_DRAWS = 1000, 10**6
NAME = "values of quantity"


@dataclass(frozen=True, slots=True, eq=False)
class StandardErrors:
    """Standard errors of the released parameters: of noise and sampling together.

    Attributes
    ----------
    weights : ndarray, shape (K,)
    means, standard_deviations : ndarray, shape (K, D)
        In the unit of the records; the second are errors of the component's standard deviation in every column. Columns
        with a transformation are in the transformed unit, and have its name behind their own: "income (log)".
    mixture : Mixture
        What they are errors of.
    feature_names : tuple of str
    flag : str or None
        Why they should not be trusted: ``release.flag``, or that the released numbers contradict the mixture.
    private : bool
        As of the release.
    """

    weights: FloatArray
    means: FloatArray
    standard_deviations: FloatArray
    mixture: Mixture
    feature_names: tuple[str, ...]
    flag: str | None
    private: bool = True
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        check_flag(private=self.private)
        for name in ("weights", "means", "standard_deviations"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def __repr__(self) -> str:
        sds = np.sqrt(np.diagonal(self.mixture.covariances, axis1=1, axis2=2))
        names = [printable(name) for name in self.feature_names]
        width = max(map(len, names))
        lines = []
        for k in np.argsort(-self.mixture.weights, kind="stable").tolist():
            lines.append(f"component {k}: weight {self.mixture.weights[k]:.3f} +- {self.weights[k]:.3f}")
            for j, name in enumerate(names):
                mean = f"{self.mixture.means[k, j]:.4g} +- {self.means[k, j]:.2g}"
                sd = f"{sds[k, j]:.4g} +- {self.standard_deviations[k, j]:.2g}"
                lines.append(f"  {name:{width}} mean {mean:22} sd {sd}")
        mark = [] if self.private else [NOT_PRIVATE]
        return "\n".join([*lines, *([f"WARNING: {self.flag}"] if self.flag else []), *mark])


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """Estimate and interval of a quantity, pointwise: every number holds on its own, not all at once.

    Attributes
    ----------
    estimate, lower, upper : ndarray, all of one shape
        At the released mixture; quantiles over draws.
    probability : float
        Of each interval.
    flag : str or None
        Why it should not be trusted, as for :class:`StandardErrors`.
    private : bool
        As of the release.
    """

    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray
    probability: float
    flag: str | None
    private: bool = True
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        check_flag(private=self.private)
        for name in ("estimate", "lower", "upper"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def __repr__(self) -> str:
        shape = f"of shape {self.estimate.shape}, " if self.estimate.size != 1 else ""
        values = "" if shape else f"{self.estimate.item():.4g} [{self.lower.item():.4g}, {self.upper.item():.4g}], "
        warning = f", WARNING: {self.flag}" if self.flag else ""
        return f"<Band: {shape}{values}{self.probability:.0%} intervals{warning}{seeded_mark(self.private)}>"


def draws(release: Released, n_draws: int, *, random_seed: int | np.random.Generator | None = None) -> list[Mixture]:
    """Mixtures that the released numbers leave plausible: draws from the Laplace approximation of the posterior.

    Parameters
    ----------
    release : Release
        Of method "sketch" or "two-phase".
    n_draws : int
    random_seed : int or numpy.random.Generator, optional
        Any seed is safe: what is drawn from has been paid for.

    Returns
    -------
    list of Mixture
        In the unit of the records, or the transformed one, component k everywhere that of the release; without the
        background, so that the mean of their densities is not ``release.density``: for that use :func:`interval` and
        :func:`band`.

    Raises
    ------
    ValueError
        If the release is of another method than "sketch" or "two-phase".

    Warns
    -----
    BackgroundWarning
        If more than 1 % of the records are in the background.

    Notes
    -----
    A Laplace approximation: normal in log weights, means and log-Cholesky factors around the released mixture. Not to
    be trusted where components could be exchanged or the records are not like the mixture (``release.flag``).
    """
    check_draws(n_draws)
    warn_without_background(release, "draws() are of the components alone", stacklevel=3)
    return [fit.mixture for fit in laplace(release).fits(n_draws, random_seed)]


def standard_errors(release: Released) -> StandardErrors:
    """Standard errors of weights, means and component standard deviations, in the unit of the records.

    They count the noise and that the records are a sample. 90 % intervals, estimate +- 1.64 standard errors, cover the
    parameters of well-separated mixtures at their nominal rate (tests/release/test_uncertainty.py). Raises and fails as
    :func:`draws`.

    Examples
    --------
    >>> import pm_dpgmm as dpg
    >>> X = np.random.default_rng(1).normal([[0.0]] * 4000 + [[6.0]] * 4000)
    >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, bounds=(-10, 15))
    >>> bool((release.standard_errors().means < 0.2).all())
    True
    """
    law, columns = laplace(release), release.transformations
    found, root, unit = law.found, law.root, law.data.unit
    k, d = found.means.shape
    _, means, factors = fit_coordinates(k, d, found.background is not None).blocks
    by_logit = share_slopes(found.weights / found.weights.sum())
    row, column, _ = triangle(d)
    entries = found.factors[:, row, column]
    lengths = np.sqrt(np.square(widened(found.factors, law.data.variance_floor)).sum(axis=2))
    slopes = entries / lengths[:, row] * np.where(row == column, entries, 1.0) * unit[row]
    roots = root[factors].reshape(k, len(row), -1)
    by_column = np.zeros((k, d, root.shape[1]))
    for entry, j in enumerate(row.tolist()):
        by_column[:, j] += slopes[:, entry, None] * roots[:, entry]
    return StandardErrors(
        weights=np.sqrt(np.square(by_logit @ root[:k]).sum(axis=1) + weight_variances(found, law.chances)),
        means=np.linalg.norm(root[means], axis=1).reshape(k, d) * unit,
        standard_deviations=np.linalg.norm(by_column, axis=2),
        mixture=release.mixture,
        feature_names=release.feature_names if columns is None else columns.labels(release.feature_names),
        flag=_caution(release),
        private=release.private,
    )


def interval(
    release: Released,
    quantity: Callable[[Mixture], ArrayLike],
    *,
    probability: float = 0.9,
    n_draws: int = N_DRAWS,
    random_seed: int | np.random.Generator | None = None,
) -> Band:
    """Interval of any function of the released density.

    Parameters
    ----------
    release : Release
        Of method "sketch" or "two-phase".
    quantity : function
        From a Mixture like ``release.density`` (with the background last, if there is one) to a number or an array;
        columns are numbered. ``lambda m: m.conditional({0: 30.0}).mean()`` is a conditional mean.
    probability : float
        Of every interval on its own.
    n_draws : int
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    Band
        Of the shape that ``quantity`` returns; quantiles over draws, so see the notes of :func:`draws`.

    Raises
    ------
    ValueError
        If the release is of another method than "sketch" or "two-phase", or ``probability`` is not between 0 and 1.

    Examples
    --------
    >>> import pm_dpgmm as dpg
    >>> X = np.random.default_rng(1).normal(size=(5000, 2)) @ [[1.0, 0.8], [0.0, 0.6]]
    >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-6, bounds=(-6, 6))
    >>> found = release.interval(lambda m: m.conditional({0: 1.0}).mean())
    >>> bool(found.lower < found.estimate < found.upper)
    True
    """
    check_draws(n_draws)
    check_probability(probability=probability)
    if not callable(quantity):
        raise TypeError(f"quantity must be a function of a Mixture, got {shown(quantity)}")
    law = laplace(release)
    values = read_numbers([_numbers(quantity(fit.density)) for fit in law.fits(n_draws, random_seed)], NAME)
    ends = [(1 - probability) / 2, (1 + probability) / 2]
    lower, upper = np.quantile(values, ends, axis=0, method="inverted_cdf")  # of draws: between infinities lies no mean
    estimate = _numbers(quantity(release.density))
    return Band(estimate, lower, upper, float(probability), _caution(release), release.private)


def _numbers(value: ArrayLike) -> FloatArray:
    found = read_numbers(value, NAME)
    if np.asarray(value).dtype.kind not in "biuf":  # None, which NumPy takes for NaN, and texts
        raise TypeError(f"{NAME} must be numbers, got {shown(value)}")
    return found


def band(
    release: Released,
    points: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    given: Mapping[str, float] | None = None,
    probability: float = 0.9,
    n_draws: int = N_DRAWS,
    random_seed: int | np.random.Generator | None = None,
) -> Band:
    """Pointwise intervals of the density of some features, given others.

    Parameters
    ----------
    release : Release
        Of method "sketch" or "two-phase".
    points : array_like or DataFrame, shape (n_points, M), or (n_points,) for one feature
        Where; in the unit of the records. Columns of a data frame are matched by name, in any order.
    names : sequence of str, length M, optional
        Features whose joint density is wanted, in the order of the columns of ``points``; None: all that are not given.
    given : mapping of str to float, optional
        Features that are known.
    probability, n_draws, random_seed
        As for :func:`interval`.

    Returns
    -------
    Band
        Arrays of shape (n_points,).

    Raises
    ------
    TypeError, ValueError
        If the release is of another method than "sketch" or "two-phase", or ``names`` and ``given`` do not name
        different features.
    """
    if not (given is None or isinstance(given, Mapping)):
        raise TypeError(f"given must map feature names to values, got {shown(given)}")
    known = dict(given or {})
    free = [name for name in release.feature_names if name not in known]
    if names is not None and (isinstance(names, str) or not isinstance(names, Iterable)):
        raise TypeError(f"names must be a sequence of feature names, got {shown(names)}")
    wanted = free if names is None else list(names)
    for name in wanted:
        if name not in free:
            raise ValueError(f"names must be among the features that are not given, {free}, got {name!r}")
    for name in known:
        if name not in release.feature_names:
            raise ValueError(f"given must be among {release.feature_names}, got {name!r}")
    rows = read_numbers(in_order(points, wanted, name="points"), "points")
    rows = rows[:, None] if rows.ndim == 1 and len(wanted) == 1 else rows
    columns, names_of_all = release.transformations, release.feature_names
    moved = in_transformed_unit({names_of_all.index(name): at for name, at in known.items()}, columns, names_of_all)

    def density(mixture: Mixture) -> FloatArray:
        if known:
            mixture = mixture.conditional(moved)
        if wanted != free:
            mixture = mixture.marginal([free.index(name) for name in wanted])
        law = law_of(mixture, columns, [names_of_all.index(name) for name in wanted])
        return np.exp(law.log_density(rows))

    return interval(release, density, probability=probability, n_draws=n_draws, random_seed=random_seed)


def check_draws(n_draws: object) -> None:
    """Raise unless it is a number of draws that memory can hold."""
    check_count(n_draws=n_draws)
    if int(n_draws) > MOST_DRAWS:  # type: ignore[call-overload]
        raise ValueError(f"n_draws must be at most {MOST_DRAWS}, got {shown(n_draws)}")


def _caution(release: Released) -> str | None:
    """The flag, or a contradiction that is too small for one and yet makes errors wrong."""
    return release.flag or (None if release.misfit is None else release.misfit.contradiction)

"""What figures of releases are made of: one column, two columns, axes. They show densities, never records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, printable, shown
from pm_dpgmm.methods.released import Released
from pm_dpgmm.methods.released_densities import law_of
from pm_dpgmm.methods.sketch.laplace import laplace
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import seeded_mark
from pm_dpgmm.records.feature_names import place_of
from pm_dpgmm.records.transformation import Asinh, Log
from pm_dpgmm.records.transformed_columns import TransformedColumns
from pm_dpgmm.records.transformed_mixture import TransformedMixture
from pm_dpgmm.release.uncertainty import band

BAND_DRAWS = 300
PALE_POINTS = 40  # of an ellipse that is one of many
NARROW, FEWEST = 61, 7  # points across a component that meets fewer of the equal steps: so many, or as many as fit
MOST_DECADES, N_TICKS = 100, 5  # of logarithmic axes; further out matplotlib would look for ticks beyond all numbers
MOST_OWN, MOST_OWN_OF_PAIR = 6_000, 800  # points of components' own on an axis; of a pair every one meets every other


def column_places(release: Released, features: Sequence[int | str], words: str) -> list[Any]:
    """Places of columns given by name or place, which nobody has checked; TypeError, in ``words``, for no sequence."""
    try:
        given = None if isinstance(features, str) else list(features)
    except (TypeError, ValueError):  # of tensors, too, which look as if they were iterable
        given = None
    if given is None:
        raise TypeError(f"features must be {words}, got {shown(features)}")
    return [place_of(j, release.feature_names, parameter="features") if isinstance(j, str) else j for j in given]


def draw_column(
    ax: Any, release: Released, place: int, *, n_points: int, intervals: bool = True, names: bool = True
) -> None:
    """Marginal density of a column with that of every component, and pointwise 90 % intervals of method "sketch"."""
    drawn = release.density.marginal([place])
    shown_columns = None if release.transformations is None else release.transformations.of([place])
    means, sd = drawn.means[:, 0], np.sqrt(drawn.covariances[:, 0, 0])
    inner = axis_of(means, sd, ((means - 4 * sd).min(), (means + 4 * sd).max()), n_points)
    grid, slopes = inner, np.zeros((len(inner), 1))
    if shown_columns is not None:  # the same points in the unit of the records, and slopes of the map there
        grid = shown_columns.to_units(inner[:, None])[:, 0]
        slopes = shown_columns.of_points(grid[:, None])[1][:, None]
    law = law_of(drawn, release.transformations, [place])
    ax.plot(grid, np.exp(law.log_density(grid[:, None])), color="C0", label="released density")
    if intervals and release.statistic is Statistic.SKETCH:
        chosen = {"names": [release.feature_names[place]], "n_draws": BAND_DRAWS, "random_seed": 0}
        around = band(release, grid, **chosen)  # type: ignore[arg-type]
        ax.fill_between(grid, around.lower, around.upper, color="C0", alpha=0.2, label="90 % intervals")
    parts = np.exp(drawn.component_log_densities(inner[:, None]) + slopes) * drawn.weights
    for k, curve in enumerate(parts.T):
        ax.plot(grid, curve, color="C0", lw=0.8, ls=":" if k < release.n_components else "--")
    set_scale_of(ax, "x", shown_columns, 0)
    if names:
        ax.set(xlabel=literal(release.feature_names[place]), ylabel="density")


def plausible_mixtures(release: Released, n_draws: int) -> list[Mixture]:
    """So many mixtures that the released numbers leave plausible; none but for sketches, which know."""
    if not n_draws or release.statistic is not Statistic.SKETCH:
        return []
    return [fit.mixture for fit in laplace(release).fits(n_draws, 0)]


def draw_pair(
    ax: Any,
    release: Released,
    pair: Sequence[int],
    *,
    n_points: int,
    plausible: Sequence[Mixture] = (),
    names: bool = True,
) -> None:
    """Contours of two columns and an ellipse of one deviation for every component, of ``plausible`` mixtures pale."""
    drawn = release.density.marginal(list(pair))
    columns = None if release.transformations is None else release.transformations.of(list(pair))

    def in_units(points: FloatArray) -> FloatArray:
        return points if columns is None else columns.to_units(points)

    contours(ax, drawn, n_points=n_points, columns=columns)
    for mixture in plausible:
        other = mixture.marginal(list(pair))
        for k in range(release.n_components):
            ellipse = in_units(ellipse_of(other.means[k], other.covariances[k], n_points=PALE_POINTS))
            ax.plot(*ellipse.T, color="C1", lw=0.6, alpha=min(1.0, max(0.05, 3 / len(plausible))))
    for k, weight in enumerate(drawn.weights.tolist()):
        style = "-" if k < release.n_components else "--"
        ellipse, middle = in_units(ellipse_of(drawn.means[k], drawn.covariances[k])), in_units(drawn.means[k][None])
        ax.plot(*ellipse.T, color="C1", lw=0.8, ls=style)
        ax.plot(*middle[0], "o", color="C1", ms=2 + 8 * weight**0.5)
    set_scale_of(ax, "x", columns, 0)
    set_scale_of(ax, "y", columns, 1)
    if names:
        ax.set(xlabel=literal(release.feature_names[pair[0]]), ylabel=literal(release.feature_names[pair[1]]))


def contours(ax: Any, mixture: Mixture, *, n_points: int = 200, columns: TransformedColumns | None = None) -> None:
    """Filled contours that hold 10, 25, 50, 75, 90 and 97 percent of a two-dimensional mixture.

    With ``columns`` the mixture is in the transformed unit, and density and axes are in that of the records.
    """
    mean, reach = mixture.mean(), 3.5 * np.sqrt(np.diag(mixture.covariance()))
    ends = np.column_stack([mean - reach, mean + reach])
    own_sd = np.sqrt(np.diagonal(mixture.covariances, axis1=1, axis2=2))
    axes = [
        axis_of(*column, n_points, most_own=MOST_OWN_OF_PAIR)
        for column in zip(mixture.means.T, own_sd.T, ends, strict=True)
    ]
    sample = mixture.sample(20_000, rng=np.random.default_rng(0))
    law: Mixture | TransformedMixture = mixture
    if columns is not None:
        law = TransformedMixture(mixture, columns)
        sample = columns.to_units(sample)
        axes = [axis if one is None else one.to_units(axis) for axis, one in zip(axes, columns.columns, strict=True)]
    points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    density, own = np.exp(law.log_density(points)), np.exp(law.log_density(sample))
    density, own = np.nan_to_num(density, nan=0.0, posinf=0.0), own[np.isfinite(own)]
    if not own.size:  # no density is a number of the unit of the records
        return
    levels = np.unique(np.quantile(own, [0.03, 0.1, 0.25, 0.5, 0.75, 0.9]))
    top = max(density.max(), levels[-1]) * 1.01
    colours = "Blues_r" if is_dark(ax) else "Blues"  # the outermost contour is next to the background
    ax.contourf(*axes, density.reshape(len(axes[1]), len(axes[0])), levels=[*levels, top], cmap=colours)


def is_dark(ax: Any) -> bool:
    """Whether what lies behind the drawing is dark; what is transparent counts as light."""
    faces = (ax.get_facecolor(), ax.figure.get_facecolor())
    red, green, blue, _ = next((face for face in faces if face[3] > 0), (1.0, 1.0, 1.0, 0.0))
    return bool((red + green + blue) / 3 < 0.5)


def ink(ax: Any) -> Any:
    """Colour of the texts of the axes, for lines that must be seen on every background."""
    return ax.xaxis.label.get_color()


def set_scale_of(ax: Any, side: str, columns: TransformedColumns | None, place: int) -> None:
    """The scale of the axis, "x" or "y", of a transformed column: that of the transformation, if matplotlib has it."""
    one = None if columns is None else columns.columns[place]
    if one is not None and isinstance(one.law, Log):
        getattr(ax, f"set_{side}scale")("log")
        low, high = np.log10(getattr(ax, f"get_{side}lim")()).tolist()
        if max(abs(low), abs(high)) > MOST_DECADES:
            getattr(ax, f"set_{side}ticks")(10.0 ** np.linspace(low, high, N_TICKS + 2)[1:-1].round())
    elif one is not None and isinstance(one.law, Asinh):
        getattr(ax, f"set_{side}scale")("asinh", linear_width=one.law.scale)


def axis_of(
    means: FloatArray, sd: FloatArray, ends: Sequence[float], n_points: int, *, most_own: int = MOST_OWN
) -> FloatArray:
    """Where to draw one column: equal steps, and points of its own for every component that few of them meet.

    Those are ``most_own`` at most; equal steps, as many, where so many components are narrow that each would have next
    to none.
    """
    low, high = ends
    narrow = sd < NARROW / 8 * (high - low) / n_points
    each = min(NARROW, most_own // max(1, int(narrow.sum())))
    if each < FEWEST:
        return np.linspace(low, high, n_points + most_own)
    # six deviations, so that the line to the next of the equal steps is as good as at 0
    own = np.linspace(means[narrow] - 6 * sd[narrow], means[narrow] + 6 * sd[narrow], each).ravel()
    return np.unique(np.concatenate([np.linspace(low, high, n_points), np.clip(own, low, high)]))


def ellipse_of(mean: FloatArray, covariance: FloatArray, *, n_points: int = 100) -> FloatArray:
    """Points one standard deviation from the mean."""
    angle = np.linspace(0, 2 * np.pi, n_points)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.asarray(mean + circle @ np.linalg.cholesky(covariance).T)


def price(release: Released) -> str:
    g = release.guarantee
    return f"epsilon = {g.epsilon:g}" + (f", delta = {g.delta:g}" if g.delta else "") + seeded_mark(release.private)


def literal(text: str) -> str:
    """A text that may come from a file, as matplotlib shows it letter by letter: dollars begin no formula."""
    return printable(text).replace("$", r"\$")


def canvas_of(ax: Any, **size: Any) -> tuple[Any, Any]:
    """The matplotlib axes to draw in, and what a plot returns: what was given, or new axes with ``size``."""
    import matplotlib.pyplot as plt

    if ax is not None:
        return axes_of(ax), ax
    _, made = plt.subplots(layout="constrained", **size)
    return made, made


def axes_of(ax: Any) -> Any:
    """Those given, or those of a PlotCollection of ArviZ with one plot."""
    from matplotlib.axes import Axes

    if isinstance(ax, Axes):
        return ax
    found = []
    if hasattr(ax, "viz") and hasattr(ax, "get_target"):
        found = [one for one in ax.viz["plot"].to_dataset().to_dataarray().values.ravel() if isinstance(one, Axes)]
    if len(found) != 1:
        many = f" with {len(found)} plots (choose one: its get_target)" if found else ""
        raise TypeError(f"ax must be axes of matplotlib, got {shown(ax)} of type {type(ax).__name__}{many}")
    return found[0]

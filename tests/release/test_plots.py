import dataclasses
from pathlib import Path
from typing import ClassVar

import matplotlib
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pm_dpgmm as dpg
from pm_dpgmm._arguments import printable
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.release import drawing
from pm_dpgmm.release.drawing import contours
from tests.builders.symbolic import Symbolic
from verification.calibration import intervals
from verification.calibration.intervals import Row

matplotlib.use("Agg")
RNG = np.random.default_rng(0)
FILES = Path(__file__).parent.parent / "data" / "releases"


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def release(d):
    X = RNG.normal(size=(500, d)) + 4 * RNG.integers(0, 2, (500, 1))
    return dpg.fit_gmm(X, 2, epsilon=5.0, bounds=(-5, 9))


@pytest.mark.parametrize("d", [1, 2])
def test_a_release_draws_its_density_with_names_and_price(d):
    drawn = release(d)
    ax = drawn.plot()
    assert ax.get_xlabel() == "x0" and "epsilon = 5" in ax.get_title()
    if d == 1:
        line = ax.get_lines()[0]
        assert line.get_ydata() == pytest.approx(np.exp(drawn.law.log_density(line.get_xdata()[:, None])))
    else:
        assert ax.collections and len(ax.get_lines()) == 2 * drawn.law.n_components


def test_components_that_are_narrow_against_their_range_are_drawn():
    """Two of deviations .002 and 800, 40,000 apart, as "gaps" finds them: equal steps alone would meet neither."""
    scales = np.array([2e-3, 800.0])
    narrow = Mixture([0.5, 0.5], [[0.0], [40_000.0]], (scales**2)[:, None, None])
    ax = dataclasses.replace(release(1), mixture=narrow, background=None, background_weight=0.0).plot()
    curve = next(line for line in ax.lines if line.get_label() == "released density")
    assert np.trapezoid(curve.get_ydata(), curve.get_xdata()) == pytest.approx(1, abs=0.01)
    assert curve.get_ydata().max() == pytest.approx(0.5 / np.sqrt(2 * np.pi) / 2e-3, rel=0.01)

    pair = Mixture([0.5, 0.5], [[0.0, 5.0], [40_000.0, 5.0]], [np.diag([s**2, 1.0]) for s in scales])
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    contours(ax, pair)
    drawn = np.concatenate([path.vertices for made in ax.collections for path in made.get_paths()])
    inside = np.abs(drawn[:, 0]) < 0.01
    assert inside.sum() > 20 and np.ptp(drawn[inside, 1]) > 2


@pytest.mark.parametrize("d", [1, 2])
def test_figures_of_what_is_not_private_say_so(d):
    drawn = release(d)
    for private in (True, False):
        made = dataclasses.replace(drawn, private=private)
        for ax in (made.plot(n_points=20), dpg.plot_release(made, n_points=20), made.select_k([1, 2]).plot()):
            assert ("NOT PRIVATE" in ax.get_title()) is not private


@pytest.mark.parametrize("name", [r"$\frac$", "rent ($) and income ($)", r"a\$b", "$x_{", "a\x07\nb"])
def test_names_are_drawn_letter_by_letter(name):
    """A name may come from anybody's file: none is read as a formula, and none ends the drawing."""
    for d in (1, 2):
        fields = release(d).to_dict()
        fields |= {"feature_names": [name, "x1"][:d], "method": name, "noise": {}, "raw": {}}
        ax = dpg.Release.from_dict(fields).plot(n_points=20)
        ax.figure.canvas.draw()
        for text in (ax.xaxis.label, ax.title):
            shown, formula = text._preprocess_math(text.get_text())
            assert not formula and shown.startswith(printable(name))


@pytest.mark.parametrize(("face", "dark"), [("black", True), ("white", False), ("none", False)])
def test_the_outermost_contour_is_nearest_to_the_background(face, dark):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    ax.set_facecolor(face)
    contours(ax, Mixture([1.0], [[0.0, 0.0]], [np.eye(2)]), n_points=20)
    outer, inner = (ax.collections[0].get_facecolor()[place, :3].sum() for place in (0, -1))
    assert (outer < inner) == dark


def test_two_columns_of_many_show_the_exact_marginal():
    mixture = dpg.Mixture([1.0], [[0.0, 1.0, 2.0]], [np.eye(3)])
    drawn = release(1)
    three = dpg.Release(mixture, drawn.guarantee, "histogram", {}, {}, {}, feature_names=("a", "b", "c"), n_records=500)
    ax = dpg.plot_release(three, features=(2, 0))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("c", "a")
    named = three.plot(features=("c", "a"))
    assert (named.get_xlabel(), named.get_ylabel()) == ("c", "a")
    assert [tuple(line.get_xdata()) for line in named.get_lines()] == [
        tuple(line.get_xdata()) for line in ax.get_lines()
    ]
    for features in [(0, 0), (0, 3), (1,), ("a", 0), ("a", "b", "c")]:
        with pytest.raises(ValueError, match="features must be two different columns below 3"):
            dpg.plot_release(three, features=features)
    with pytest.raises(ValueError, match=r"features must be among \('a', 'b', 'c'\), got 'd'"):
        three.plot(features=("a", "d"))
    with pytest.raises(ValueError, match="a place in features must be at least 0, got -1"):
        three.plot(features=(0, -1))
    for features in ("ab", 0, Symbolic(), Symbolic(ValueError)):
        with pytest.raises(TypeError, match="features must be"):
            three.plot(features=features)
        with pytest.raises(TypeError, match="features must be"):
            three.plot_pairs(features=features)
    with pytest.raises(TypeError, match="a place in features must be an integer"):
        three.plot(features=(0.0, 1))


def test_prior_and_posterior_share_axes():
    ax = dpg.plot_prior_posterior(
        {"with": RNG.normal(size=500), "without": RNG.normal(size=(2, 300))}, truth=0.0, label="x"
    )
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["with", "without", "truth"]
    with pytest.raises(ValueError, match="at least one model"):
        dpg.plot_prior_posterior({})
    for draws in ([0, 1e300, 2], [1e-320, 0.0, 2e-320]):
        with pytest.raises(ValueError, match="must vary by what a float can square"):
            dpg.plot_prior_posterior({"a": draws})
    with pytest.raises(TypeError, match=r"draws of one quantity, as in .*, got DataTree"):
        dpg.plot_prior_posterior(xr.DataTree.from_dict({"posterior": xr.Dataset({"mu": ("draw", np.arange(9.0))})}))


def test_lines_of_truth_and_level_have_the_colour_of_the_text():
    import matplotlib.pyplot as plt

    with plt.style.context("dark_background"):
        figures = dpg.plot_prior_posterior({"a": RNG.normal(size=50)}, truth=0.0), dpg.plot_coverage(ROWS)
        for ax in figures:
            (line,) = [line for line in ax.get_lines() if line.get_linestyle() == "--"]
            assert line.get_color() == "white"


ROWS = [
    Row("histogram, d = 1", "weight 0", 200, 0.905, 0.41, 1.2),
    Row("histogram, d = 1", "mean 0", 200, 0.84, 0.55, 1.4),
]


@pytest.mark.parametrize("kind", ["rows", "dicts", "frame", "only what is needed"])
def test_coverage_is_drawn_from_rows_dictionaries_or_a_frame(kind):
    rows = {
        "rows": ROWS,
        "dicts": [row.as_dict() for row in ROWS],
        "frame": pd.DataFrame([row.as_dict() for row in ROWS]),
        "only what is needed": [
            {"study": r.study, "parameter": r.parameter, "coverage": r.coverage, "n_replications": 200} for r in ROWS
        ],
    }[kind]
    ax = dpg.plot_coverage(rows)
    (points,) = ax.containers
    assert points[0].get_xdata().tolist() == [0.905, 0.84]
    half_width = np.ptp(points[2][0].get_segments()[0][:, 0]) / 2
    assert half_width == pytest.approx(2 * ROWS[0].standard_error)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["weight 0", "mean 0"]
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert ("noise ignored" in legend) == (kind != "only what is needed")


def test_names_of_coverage_are_no_formulas_and_errors_no_negative_numbers():
    row = {"study": "a $\\frac$", "parameter": "$\\frac$", "coverage": 0.9, "standard_error": 0.01}
    ax = dpg.plot_coverage([row])
    ax.figure.canvas.draw()
    with pytest.raises(ValueError, match="standard_error must be finite and at least 0, got -1"):
        dpg.plot_coverage([row | {"standard_error": -1.0}])
    polars = pytest.importorskip("polars")
    assert len(dpg.plot_coverage(polars.DataFrame([row, row])).containers[0][0].get_xdata()) == 2


def test_coverage_of_several_studies_names_them_and_uses_the_axes_it_is_given():
    import matplotlib.pyplot as plt

    _, mine = plt.subplots()
    other = Row("sketch", "mean 0", 100, 0.9, 0.3, 1.0)
    assert dpg.plot_coverage([*ROWS, other], ax=mine) is mine
    assert mine.get_yticklabels()[2].get_text() == "sketch: mean 0"


def test_rows_that_say_too_little_are_refused():
    with pytest.raises(ValueError, match="at least one row"):
        dpg.plot_coverage([])
    for wrong in ("hi", 0.9):
        with pytest.raises(TypeError, match="rows must be a sequence of results"):
            dpg.plot_coverage(wrong)
    with pytest.raises(ValueError, match="rows must have coverage, standard_error"):
        dpg.plot_coverage([{"study": "a", "parameter": "b"}])


def test_the_goal_is_that_of_the_studies():
    from pm_dpgmm.release import plots

    assert (plots.COVERAGE_LEVEL, plots.COVERAGE_RANGE) == (intervals.LEVEL, intervals.RANGE)


def test_a_plot_collection_of_arviz_is_drawn_in_and_given_back():
    """The released density over a posterior, in one figure: ``azp.plot_dist`` first."""
    azp = pytest.importorskip("arviz_plots", reason="comes with ArviZ 1")
    from pm_dpgmm.bayes.arviz_compat import inference_data

    draws = {name: xr.DataArray(RNG.normal(size=(2, 100)), dims=("chain", "draw")) for name in ("a", "b")}
    idata = inference_data(posterior=xr.Dataset(draws))
    drawn = azp.plot_dist(idata, var_names=["a"], backend="matplotlib")
    target = drawn.get_target("a", {})
    before = len(target.lines)
    assert release(1).plot(ax=drawn) is drawn and len(target.lines) > before
    assert dpg.plot_prior_posterior({"b": draws["b"]}, ax=drawn) is drawn
    with pytest.raises(TypeError, match="with 2 plots"):
        release(1).plot(ax=azp.plot_dist(idata, backend="matplotlib"))
    with pytest.raises(TypeError, match="ax must be axes of matplotlib, got 3"):
        release(1).plot(ax=3)


def test_what_was_given_is_returned_even_where_it_counts_as_false():
    """A collection of ArviZ may have a length of 0; its axes would be returned in its place."""
    import matplotlib.pyplot as plt

    axes = plt.figure().add_subplot()

    class Collection:
        viz: ClassVar = {"plot": xr.DataTree(xr.Dataset({"a": xr.DataArray(np.array([axes], dtype=object))}))}

        def get_target(self, *given):
            return axes

        def __len__(self):
            return 0

    given = Collection()
    assert release(1).plot(ax=given) is given and axes.lines
    assert dpg.plot_prior_posterior({"b": RNG.normal(size=100)}, ax=given) is given
    assert release(2).plot(ax=given) is given


@pytest.fixture(scope="module")
def sketch():
    return dpg.load(FILES / "sketch_two_columns.json")


def test_pairs_are_drawn_by_name_with_bands_and_pale_ellipses(sketch):
    axes = sketch.plot_pairs(n_points=20, n_draws=5)
    assert sketch.plot_pairs(n_points=20, n_draws=1).shape == axes.shape  # an ellipse is no paler than opaque
    names = sketch.feature_names
    assert axes.shape == (2, 2) and axes[1, 0].get_xlabel() == names[0] and axes[1, 0].get_ylabel() == names[1]
    assert "NOT PRIVATE" in axes[0, 0].get_title("left") and not axes[0, 1].axison
    k = sketch.n_components
    assert len(axes[1, 0].get_lines()) == 5 * k + 2 * len(sketch.density.weights)
    assert len(axes[0, 0].collections) == 1  # the band
    turned = sketch.plot_pairs(features=names[::-1], n_points=20, n_draws=0)
    assert turned[1, 0].get_xlabel() == names[1] and len(turned[1, 0].get_lines()) == 2 * len(sketch.density.weights)


def test_pairs_are_drawn_in_axes_that_are_given(sketch):
    import matplotlib.pyplot as plt

    _, mine = plt.subplots(1, 1)
    assert dpg.plot_pairs(sketch, features=[1], n_points=20, axes=[[mine]])[0, 0] is mine and mine.lines
    with pytest.raises(ValueError, match=r"axes must be an array of shape \(2, 2\)"):
        sketch.plot_pairs(n_points=20, axes=[mine])


@pytest.mark.parametrize(
    "given, words",
    [
        ({"features": "x0"}, "features must be names or places"),
        ({"features": []}, "features must be 1 to 12 columns"),
        ({"features": [0, 0]}, "features must be different columns"),
        ({"features": ["nobody"]}, "features must be among"),
        ({"features": [2]}, "a place in features must be at most 1"),
        ({"n_points": 5}, "n_points must be at least 10"),
        ({"n_draws": -1}, "n_draws must be at least 0"),
    ],
)
def test_wrong_pairs_are_refused(given, words, sketch):
    with pytest.raises((TypeError, ValueError), match=words):
        sketch.plot_pairs(**given)


def test_transformed_columns_are_drawn_in_their_own_unit():
    X = np.random.default_rng(1).lognormal(3.0, 0.4, size=(2_000, 2))
    made = dpg.fit_gmm(X, 1, epsilon=2.0, bounds=(1.0, 1000.0), transform=["log", None])
    axes = made.plot_pairs(n_points=20)
    assert axes[0, 0].get_xscale() == axes[1, 0].get_xscale() == "log" and axes[1, 0].get_yscale() == "linear"


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize(("mean", "scale"), [(1e9, 1.0), (-1e9, 1.0), (700.0, 1e12)])
def test_columns_near_the_largest_numbers_are_drawn(mean, scale):
    """Ticks of a logarithmic axis were looked for beyond all numbers, and densities there are no numbers."""
    made = dpg.load(FILES / "histogram_transformed.json")
    means, covariances = made.means.copy(), made.covariances.copy()
    means[1, 0], covariances[1] = mean, scale * covariances[1]
    ax = dataclasses.replace(made, mixture=Mixture(made.weights, means, covariances)).plot()
    ax.figure.draw_without_rendering()
    assert ax.get_xscale() == "log" and all(0 < tick < np.inf for tick in ax.get_xticks())


def test_many_narrow_components_share_the_points_of_an_axis():
    """Each had 61 of its own on both axes: 64 took a minute and 30 GB."""
    rng = np.random.default_rng(1)
    for n_components, most in ((10, 10 * 61), (64, 800), (500, 800)):
        means, sd = rng.uniform(0, 50, n_components), np.full(n_components, 0.1)
        axis = drawing.axis_of(means, sd, (-5.0, 55.0), 200, most_own=800)
        assert len(axis) <= 200 + most and axis[0] == -5 and axis[-1] == 55
        near = (np.abs(axis - means[:, None]) < 0.6 + 1e-9).sum(axis=1)
        assert n_components == 500 or near.min() >= min(61, 800 // n_components)


def test_a_pair_of_many_narrow_components_is_drawn_on_at_most_a_million_points(monkeypatch):
    import matplotlib.pyplot as plt

    asked = []

    def flat(mixture, points):
        asked.append(len(points))
        return np.zeros(len(points))

    monkeypatch.setattr(Mixture, "log_density", flat)
    centres = np.random.default_rng(1).uniform(0, 50, (64, 2))
    contours(plt.figure().add_subplot(), Mixture(np.full(64, 1 / 64), centres, np.tile(0.01 * np.eye(2), (64, 1, 1))))
    assert len(asked) == 2 and max(asked) <= 1_000**2

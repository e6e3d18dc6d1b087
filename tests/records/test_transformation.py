"""Public transformations of columns: numbers, functions of one's own, and what is refused before anything is spent."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import pm_dpgmm as dpg
from pm_dpgmm.records import transformation
from pm_dpgmm.records.reading import read_bounds
from pm_dpgmm.records.transformed_columns import TransformedColumns, read_transform
from pm_dpgmm.records.transformed_mixture import TransformedMixture
from tests.builders.examples import examples
from tests.builders.transformations import of_size, signed_log

T = dpg.Transformation
NAMED = {
    "log": (T.log(1.0), np.array([1.0, 2.0, 1e6])),
    "logit": (T.logit(-1, 3), np.array([-0.99, 0.0, 1.0, 2.9])),
    "asinh": (T.asinh(10.0), np.array([-1e6, -1.0, 0.0, 3.0, 1e9])),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_ones_go_back_and_have_their_slopes(name):
    made, x = NAMED[name]
    y, slopes = made.of_points(x)
    np.testing.assert_allclose(made.to_units(y), x, rtol=1e-12, atol=1e-12)
    step = 1e-6
    rises = made.to_units(y + step) - made.to_units(y - step)
    np.testing.assert_allclose(slopes, np.log(2 * step / rises), atol=1e-6)


def test_values_are_those_of_the_definitions():
    assert T.log(0.5).of_records(np.array([-3.0, 0.5, math.e])).tolist() == [math.log(0.5), math.log(0.5), 1.0]
    assert T.logit(0, 1, margin=0.25).of_records(np.array([0.0, 0.5, 7.0])).tolist() == pytest.approx(
        [-math.log(3), 0.0, math.log(3)]
    )
    assert T.asinh(2.0).of_records(np.array([2.0])).tolist() == [math.asinh(1.0)]


@settings(max_examples=examples(20))
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20), st.data())
def test_a_record_is_finite_and_the_same_bits_wherever_it_stands(values, data):
    x = np.array(values)
    order = np.array(data.draw(st.permutations(range(len(x)))))
    for made in (T.log(1e-100), T.log(1.0), T.logit(0, 1), T.asinh(1e-100)):
        whole = made.of_records(x)
        assert np.isfinite(whole).all()
        assert np.array_equal(made.of_records(x[order]), whole[order])
        assert np.array_equal(np.concatenate([made.of_records(one) for one in x[:, None]]), whole)


def test_functions_that_fail_on_a_record_decide_for_it_alone():
    def touchy(x):
        if (x == 7).any():
            raise RuntimeError(f"saw {x}")
        return np.where(x == 8, np.nan, np.where(x == 9, np.inf, x))

    made = T("touchy", touchy, lambda y: y, np.zeros_like)
    assert made.of_records(np.array([1.0, 7.0, 8.0, 9.0, -2.0])).tolist() == [1.0, 0.0, 0.0, 1e100, -2.0]

    def changes(x):
        x += 1
        return x

    before = np.array([1.0, 2.0])
    assert T("changes", changes, lambda y: y - 1, np.zeros_like).of_records(before).tolist() == [2.0, 3.0]
    assert before.tolist() == [1.0, 2.0]


def test_what_a_function_masks_is_no_number():
    def masks(x):
        return np.ma.masked_array(x, mask=x == 7)  # as np.ma.log does of what has no logarithm

    made = T("masks", masks, masks, lambda x: np.ma.masked_array(np.zeros(x.shape), mask=x == 8))
    assert made.of_records(np.array([1.0, 7.0])).tolist() == [1.0, 0.0]
    y, slopes = made.of_points(np.array([1.0, 7.0, 8.0]))
    assert y[0] == 1 and np.isnan(y[1:]).all() and slopes.tolist() == [0.0, -np.inf, -np.inf]


def test_a_function_never_sees_two_records_together():
    """Beyond bounds above 0 this one shifts a whole column by its least number, which no trial on bounds can show."""
    seen = []

    def shifted(x):
        seen.append((len(x), x.base))
        if (x < 0).any():
            warnings.warn(f"saw {x}", stacklevel=1)
        return np.log(x if x.min() > 0 else x - x.min() + 0.001)

    made = T("shifted", shifted, np.exp, lambda x: -np.log(x))
    columns = read_transform([made], ("a",), np.array([[0.5, 10.0]]))
    seen.clear()
    records = np.linspace(1.0, 9.0, 20)[:, None]
    before = columns.of_records(records)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = columns.of_records(np.vstack([[[-5.0]], records[1:]]))
    assert np.array_equal(before[1:], after[1:]) and set(seen) == {(1, None)}
    assert made.of_records(np.empty(0)).shape == (0,)


def test_no_record_raises_where_floating_point_errors_do():
    x = np.array([5e-324, -1e-320, 0.0, 1e-100, 1e308])
    with np.errstate(all="raise"):
        for made in (T.log(1e-100), T.logit(0, 1), T.asinh(1e100), T.asinh(1e-100)):
            assert np.isfinite(made.of_records(x)).all()


def test_equal_ones_are_equal_and_functions_are_themselves():
    assert T.log(1.0) == T.log(1) and hash(T.log(1.0)) == hash(T.log(1)) and T.log(1.0) != T.log(2.0)
    one = signed_log()
    assert one == T("signed log", one.forward, one.inverse, one.log_jacobian) and one != signed_log()


FUNCTIONS = {
    "inverse": (signed_log(inverse=lambda y: np.sign(y) * np.expm1(np.abs(y)) + 0.1), r"inverse\(forward\(x\)\) equal to x, got"),
    "slope": (signed_log(log_jacobian=lambda x: np.log1p(np.abs(x))), "log_jacobian that is the log of the"),
    "decreasing": (
        T("minus", np.negative, np.negative, np.zeros_like), "a forward that increases, got",
    ),
    "not onto": (
        T("root", np.sqrt, np.square, lambda x: -np.log(2 * np.sqrt(x)), domain=(0, math.inf)),
        r"forward\(inverse\(y\)\) equal to y",
    ),
    "infinite": (T("ln", np.log, np.exp, lambda x: -np.log(x)), "finite numbers"),
    "beside others": (signed_log(forward=lambda x: of_size(x) + 1e-9 * x.mean()), "every entry by itself"),
    "place": (signed_log(forward=lambda x: of_size(x) + 1e-12 * np.arange(len(x))), "every entry by itself"),
    "shape": (signed_log(forward=lambda x: x[:, None]), "TypeError: a function of a transformation must give"),
    "raises": (signed_log(forward=lambda x: [][0]), "IndexError"),
    "text": (signed_log(forward=lambda x: x.astype(str)), "an array of numbers of the shape"),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_are_no_transformation_are_refused_before_anything_is_spent(name, tmp_path):
    made, words = FUNCTIONS[name]
    ledger = dpg.Ledger(tmp_path / "ledger.sqlite", epsilon=1.0)
    X = np.random.default_rng(1).normal(size=(50, 1))
    with pytest.raises(ValueError, match=f"^transform of column 'x0' must have .*{words}"):
        dpg.fit_gmm(X, 1, epsilon=0.5, bounds=(0, 100), transform=[made], ledger=ledger, method="histogram")
    assert ledger.spent == (0.0, 0.0)


def test_functions_that_are_one_pass_with_and_without_bounds():
    for limits in (None, np.array([[-8.0, 27.0]])):
        assert read_transform([signed_log()], ("a",), limits).columns[0].name == "signed log"


BAD = {
    "name of a column": ({"b": "log"}, ValueError, "transform must have names of columns among .*got .*'b'"),
    "unknown": (["sqrt"], ValueError, "must be None, one of 'log', 'logit', 'asinh', or a Transformation, got 'sqrt'"),
    "kind": (3, TypeError, "transform must be None"),
    "length": (["log", "log"], ValueError, "transform must have 1 entries, one for each column, got 2"),
    "entry": ([3], TypeError, "transform of column 'a' must be None"),
    "log without bounds": (["log"], ValueError, "a floor: Transformation.log.*got no bounds"),
    "logit without bounds": (["logit"], ValueError, "ends: Transformation.logit.*got no bounds"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_get_one_clear_error(name):
    given, kind, words = BAD[name]
    with pytest.raises(kind, match=words):
        read_transform(given, ("a",), None)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: T.log(0), "floor must be finite and greater than 0"),
        (lambda: T.log(True), "floor must be a real number"),
        (lambda: T.log(1e-200), "floor must be from 1e-100 to 1e"),
        (lambda: T.asinh(-1), "scale must be finite and greater than 0"),
        (lambda: T.logit(1, 1), "low and high must increase"),
        (lambda: T.logit(0, 1, margin=0.5), "margin must be a share"),
        (lambda: T.logit(1e16, 1e16 + 4), "margin must be a share"),
        (lambda: T("log", np.log, np.exp, np.log), r"name must be none of .*Transformation.log\(...\) makes that one"),
        (lambda: T("own", 3, np.exp, np.log), "forward must be a function"),
        (lambda: T("own", np.log, np.exp, np.log, domain=(1, 0)), "domain must be .low, high. with low < high"),
        (lambda: T("own", np.log, np.exp, np.log, domain=3), "domain must be .low, high."),
        (lambda: TransformedColumns((None,)), "columns must be Transformations"),
    ],
)
def test_bad_parameters_get_one_clear_error(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()


def test_texts_take_their_parameters_from_public_bounds():
    limits = np.array([[2.0, 9.0], [0.0, 1e6], [0.0, 100.0], [-1.0, 1.0], [0.0, 1.0]])
    found = read_transform(["log", "log", "logit", "asinh", None], tuple("abcde"), limits)
    assert found.columns == (T.log(2.0), T.log(1.0), T.logit(0, 100), T.asinh(1.0), None)
    assert read_transform(found, tuple("abcde"), None) == found  # of a release: they need no bounds
    turned = read_transform(found, tuple("edcba"), None)
    assert turned.columns == found.columns[::-1] and turned.names == tuple("edcba")
    assert read_transform(found, tuple("fabcde"), None).columns == (None, *found.columns)
    assert read_transform(found, ("x0", "x1", "x2", "x3", "x4"), None) == found  # an array's go by place
    assert found.of([3, 0]).names == ("d", "a")
    assert TransformedColumns.from_list(found.to_list(), "abcde").names == tuple("abcde")
    with pytest.raises(ValueError, match=r"transform must have names of columns among .*; the .columns of another"):
        read_transform(found, tuple("abcdf"), None)
    assert read_transform(found.columns, tuple("vwxyz"), None) == found
    with pytest.raises(ValueError, match="names must be 1, one for each column"):
        TransformedColumns((T.asinh(1.0),), ("a", "b"))
    with pytest.raises(ValueError, match=r"public upper bound above 0, or a floor.*got bounds \[-2.0, 0.0\]"):
        read_transform(["log"], ("a",), np.array([[-2.0, 0.0]]))


def test_bounds_become_finite_and_apart_or_are_refused():
    columns = TransformedColumns((T.log(1.0), None))
    assert columns.of_bounds(np.array([[0.0, math.e], [1.0, 2.0]]), "ab").tolist() == [[0.0, 1.0], [1.0, 2.0]]
    with pytest.raises(
        ValueError, match="bounds of column 'a' must become two finite numbers, of finite slopes, by transform"
    ):
        columns.of_bounds(np.array([[0.0, 0.5], [1.0, 2.0]]), "ab")


def test_bounds_go_by_name():
    assert read_bounds({"b": (1, 2), "a": (0, 5)}, 2, ("a", "b")).tolist() == [[0.0, 5.0], [1.0, 2.0]]
    assert read_bounds({"x0": (1, 2)}, 1).tolist() == [[1.0, 2.0]]
    for other in ({"a": (0, 1)}, {"a": (0, 1), "c": (0, 1)}):
        with pytest.raises(ValueError, match="bounds must name the columns"):
            read_bounds(other, 2, ("a", "b"))
    with pytest.raises(ValueError, match=r"bounds must be \(low, high\), got 0 for column .a."):
        read_bounds({"a": 0, "b": 1}, 2, ("a", "b"))


def test_the_density_of_records_has_mass_one():
    mixture = dpg.Mixture([0.3, 0.7], [[0.0], [1.0]], [[[0.5]], [[1.0]]])
    grids = {"log": np.exp(np.linspace(-8, 9, 4000)), "logit": np.linspace(-1, 3, 20_001)[1:-1]}
    grids["asinh"] = 10 * np.sinh(np.linspace(-8, 9, 4000))
    for name, grid in grids.items():
        law = TransformedMixture(mixture, TransformedColumns((NAMED[name][0],)))
        assert np.trapezoid(np.exp(law.log_density(grid[:, None])), grid) == pytest.approx(1.0, abs=1e-3), name
    assert (
        TransformedMixture(mixture, TransformedColumns((T.log(1.0),))).log_density([[-1.0], [0.0]]).tolist()
        == [-math.inf] * 2
    )


def test_draws_stay_where_there_is_density():
    wide = dpg.Mixture([1.0], [[0.0]], [[[1e6]]])
    for made, _ in NAMED.values():
        law = TransformedMixture(wide, TransformedColumns((made,)))
        points = law.sample(200, rng=np.random.default_rng(1))
        assert np.isfinite(points).all() and np.isfinite(made.log_jacobian(points)).all()


def test_logarithms_are_those_of_single_numbers():
    """NumPy's are computed in lanes; the place of a record must change no bit."""
    x = np.random.default_rng(1).lognormal(size=1001)
    assert T.log(1e-9).of_records(x).tolist() == [math.log(v) for v in x.tolist()]
    assert transformation.one_by_one(math.asinh, x[:0]).shape == (0,)

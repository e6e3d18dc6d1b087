"""What a learner of vectors takes for an answer."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pm_dpgmm as dpg

ROWS = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    "answer",
    [
        np.ma.masked_array([1.0, 99.0], mask=[False, True]),
        np.ma.masked_array([1.0, 99.0], mask=True),
        [np.ma.masked_array(1.0, mask=True), 2.0],
        [1.0, np.nan],
        [1.0, np.inf],
        [1.0],
        [[1.0, 2.0]],
        ["1", "2"],
        [1.0, 2j],
    ],
)
def test_an_answer_without_all_of_its_numbers_is_refused(answer):
    with pytest.raises((TypeError, ValueError), match="function"):
        dpg.VectorLearner(lambda rows: answer, names=("a", "b"))(ROWS)


@pytest.mark.parametrize("answer", [(1, 2), np.ma.masked_array([1.0, 2.0], mask=False), np.float32([1.0, 2.0])])
def test_an_answer_with_all_of_them_is_a_copy_of_them(answer):
    found = dpg.VectorLearner(lambda rows: answer, names=("a", "b"))(ROWS)
    assert type(found) is np.ndarray and found.tolist() == [1.0, 2.0] and found is not answer


@pytest.mark.parametrize(
    "answer",
    [
        pd.Series({"b": 2.0, "a": 1.0}),
        pd.DataFrame({"b": [2.0], "a": [1.0]}).iloc[0],
        xr.DataArray([2.0, 1.0], coords={"number": ["b", "a"]}, dims="number"),
        pd.Series([1.0, 2.0]),
        pd.Series([1.0, 2.0], index=[7, 3]),
        xr.DataArray([1.0, 2.0], dims="number"),
    ],
)
def test_labelled_answers_go_by_name_and_others_by_place(answer):
    assert dpg.VectorLearner(lambda rows: answer, names=("a", "b"))(ROWS).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("labels", [["a", "c"], ["a", "a"], ["a", "b", "c"]])
def test_labels_that_are_no_names_are_refused(labels):
    answer = pd.Series(np.arange(float(len(labels))), index=labels)
    with pytest.raises(ValueError, match=r"function must label its numbers with the names \['a', 'b'\], got"):
        dpg.VectorLearner(lambda rows: answer, names=("a", "b"))(ROWS)

"""The same groups come out of InferenceData and of a DataTree; before ArviZ 1.0 it is played by removing InferenceData."""

import arviz as az
import numpy as np
import pytest
import xarray as xr

from pm_dpgmm.bayes import arviz_compat

KINDS = ["InferenceData", "DataTree"] if "InferenceData" in vars(az) else ["DataTree"]


@pytest.fixture(params=KINDS)
def kind(request, monkeypatch):
    if request.param == "DataTree":
        monkeypatch.delitem(vars(az), "InferenceData", raising=False)
        return xr.DataTree
    return az.InferenceData


def dataset(value, **attrs):
    return xr.Dataset({"x": (("chain", "draw"), np.full((2, 3), value))}, attrs=attrs)


def test_groups_and_attributes_come_back(kind):
    idata = arviz_compat.inference_data({"epsilon": 1.0}, posterior=dataset(1.0, note="a"), prior=dataset(2.0))
    assert isinstance(idata, kind)
    assert set(arviz_compat.group_names(idata)) == {"posterior", "prior"}
    assert idata.attrs["epsilon"] == 1.0
    for name, value in {"posterior": 1.0, "prior": 2.0}.items():
        found = arviz_compat.group_of(idata, name)
        assert type(found) is xr.Dataset
        np.testing.assert_array_equal(found["x"], np.full((2, 3), value))
    assert arviz_compat.posterior_of(idata).attrs == {"note": "a"}
    np.testing.assert_array_equal(idata["posterior"]["x"], np.ones((2, 3)))


def test_with_group_adds_or_replaces_and_leaves_the_original_alone(kind):
    idata = arviz_compat.inference_data({"epsilon": 1.0}, posterior=dataset(1.0), prior=dataset(2.0))
    changed = arviz_compat.with_group(idata, "posterior", dataset(5.0))
    more = arviz_compat.with_group(changed, "label_probs", dataset(7.0))
    assert isinstance(more, kind) and more.attrs["epsilon"] == 1.0
    assert [float(arviz_compat.group_of(more, name)["x"].mean()) for name in ("posterior", "prior", "label_probs")] == [
        5.0,
        2.0,
        7.0,
    ]
    assert float(arviz_compat.posterior_of(idata)["x"].mean()) == 1.0
    assert "label_probs" not in arviz_compat.group_names(idata)


def test_a_dataset_is_its_own_posterior():
    draws = dataset(1.0)
    assert arviz_compat.posterior_of(draws) is draws


def test_what_is_not_there_is_named(kind):
    idata = arviz_compat.inference_data(prior=dataset(2.0))
    with pytest.raises(ValueError, match="idata must have a group 'posterior', got prior"):
        arviz_compat.posterior_of(idata)
    for wrong in (None, 3, {"posterior": dataset(1.0)}, [1]):
        with pytest.raises(TypeError, match="idata must be inference data"):
            arviz_compat.group_of(wrong, "posterior")

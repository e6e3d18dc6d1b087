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


def test_groups_inside_groups_stay():
    tree = {"/": xr.Dataset(attrs={"a": 1}), "/posterior": dataset(1.0), "/posterior/extra": dataset(2.0)}
    idata = xr.DataTree.from_dict(tree | {"/warm/up": dataset(3.0)})
    changed = arviz_compat.with_group(idata, "posterior", dataset(5.0, note="b"))
    more = arviz_compat.with_group(changed, "label_probs", dataset(7.0))
    means = {path: float(node["x"].mean()) for path, node in more.subtree_with_keys if "x" in node}
    assert means == {"posterior": 5.0, "posterior/extra": 2.0, "warm/up": 3.0, "label_probs": 7.0}
    assert more.attrs == {"a": 1} and arviz_compat.posterior_of(more).attrs == {"note": "b"}
    assert float(idata["posterior"]["x"].mean()) == 1.0 and "label_probs" not in idata.children


def test_draws_without_chains_are_refused():
    draws = dataset(1.0)
    for lacking in (draws.stack(sample=("chain", "draw")), draws.isel(chain=0)):
        for given in (lacking, xr.DataTree.from_dict({"posterior": lacking})):
            with pytest.raises(
                ValueError, match="idata must hold draws with the dimensions 'chain' and 'draw', not st"
            ):
                arviz_compat.posterior_of(given)


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

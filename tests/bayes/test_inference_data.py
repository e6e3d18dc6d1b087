import json

import arviz
import numpy as np
import pytest
import xarray

import pm_dpgmm as dpg
from pm_dpgmm.bayes.arviz_compat import group_of, with_group


def fitted(**settings):
    X = np.random.default_rng(0).normal(size=(800, 2)) + 6 * np.random.default_rng(1).integers(0, 2, (800, 1))
    return dpg.fit_gmm(X, 2, epsilon=2.0, delta=1e-6, bounds=(-5, 11), random_seed=1, **settings)


@pytest.fixture(params=["InferenceData", "DataTree"] if "InferenceData" in vars(arviz) else ["DataTree"])
def of_either_arviz(request, monkeypatch):
    if request.param == "DataTree":
        monkeypatch.delitem(vars(arviz), "InferenceData", raising=False)
    return request.param


@pytest.mark.parametrize("settings", [{"method": "histogram"}, {"method": "sketch", "neighbouring": "add-remove"}])
def test_arrays_names_and_price_are_there_in_plain_types(settings, of_either_arviz):
    release = fitted(**settings)
    idata = release.to_inferencedata()
    assert type(idata).__name__ == of_either_arviz
    data = group_of(idata, "constant_data")
    assert data["feature"].values.tolist() == data["feature_bis"].values.tolist() == ["x0", "x1"]
    for name, dims in {
        "weights": ("component",),
        "means": ("component", "feature"),
        "covariances": ("component", "feature", "feature_bis"),
    }.items():
        assert data[name].dims == dims
        np.testing.assert_array_equal(data[name].values, getattr(release, name))
    assert {f"raw_{name}" for name in release.raw} == {name for name in data if str(name).startswith("raw_")}
    for name, array in release.raw.items():
        np.testing.assert_array_equal(data[f"raw_{name}"].values, array)
    for attributes in (data.attrs, idata.attrs):
        back = json.loads(json.dumps(dict(attributes)))
        assert back["epsilon"] == release.guarantee.epsilon and back["delta"] == release.guarantee.delta
        assert back["n_records"] == (800 if settings["method"] == "histogram" else "private")
        assert back["neighbouring"] == str(release.guarantee.neighbouring) and back["method"] == settings["method"]
        assert back["mechanism"] == release.guarantee.mechanism and back["version"] == dpg.__version__
        assert back["private"] == 0  # seeded
        assert json.loads(back["noise"]).keys() == release.noise.keys()


def test_a_posterior_can_be_added_and_the_release_stays(of_either_arviz):
    idata = with_group(
        fitted().to_inferencedata(), "posterior", xarray.Dataset({"x": (("chain", "draw"), [[1.0, 2.0]])})
    )
    assert idata["posterior"]["x"].shape == (1, 2) and idata.attrs["epsilon"] == 2.0
    assert idata["constant_data"]["means"].shape == (2, 2)


def test_the_arrays_of_the_release_cannot_be_changed_through_it():
    release = fitted()
    before = release.means.copy()
    data = release.to_inferencedata()["constant_data"]
    with pytest.raises(ValueError, match="read-only"):
        data["means"].values[:] = 0
    np.testing.assert_array_equal(release.means, before)

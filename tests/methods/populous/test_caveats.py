"""What a released mask says against itself."""

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.methods.populous.caveats import POINT, mask_caveats


@pytest.mark.parametrize("narrow, told", [(0.99 * POINT, True), (1.01 * POINT, False), (0.2, False)])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_a_component_is_told_below_a_thousandth_of_the_whole(narrow, told, unit):
    """In the direction in which it is narrowest, whatever the unit: columns may nearly determine each other."""
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(2, 2)))[0] * [1.0, 1e-4] * unit
    first = turn @ np.diag([narrow**2, 1.0]) @ turn.T
    mixture = dpg.Mixture([0.5, 0.5], [[0.0, 0.0], [0.0, 0.0]], [first, turn @ np.diag([2 - narrow**2, 1.0]) @ turn.T])
    found = mask_caveats(mixture)
    assert len(found) == told and all("component 0 is narrower" in text for text in found)


def test_one_component_is_as_wide_as_the_whole():
    assert mask_caveats(dpg.Mixture([1.0], [[3.0, 0.0]], [[[1.0, 1.0], [1.0, 1.0 + 1e-9]]])) == []


@pytest.mark.thorough
def test_a_value_that_many_records_have_is_told(tmp_path):
    """The learner agrees with itself on it, so the private test passes; nothing was said."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((100_000, 1)) < 0.3, 0.0, rng.normal(10.0, 1.0, (100_000, 1)))
    settings = dpg.Populous(noise=0.1, efficiency=1.0)
    with pytest.warns(dpg.FitWarning, match="some records seem to have one value") as caught:
        release = dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, method=settings, random_seed=1, progress=False)
    assert caught[0].category is dpg.FitWarning
    assert dpg.load(release.save(tmp_path / "release.json")).warnings == release.warnings

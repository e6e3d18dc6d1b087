"""Whatever a fit accepts gives a release that saves, loads and resumes; the rest is refused before it is charged."""

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.fit import METHODS

pytestmark = [
    pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning"),
    pytest.mark.filterwarnings("ignore::pm_dpgmm.WeakGuarantee"),
]

EPSILONS = [1e-300, 1e-6, 1e13, 1e300]
GIVEN = {
    "histogram": {"n_cells": 8, "bounds": (-5, 5)},
    "slices": {"n_cells": 4, "bounds": (-5, 5)},
    "sketch": {"delta": 1e-6, "bounds": (-5, 5)},
    "em": {"delta": 1e-6, "bounds": (-5, 5)},
    "central": {"bounds": (-5, 5)},
    "aggregate": {"delta": 1e-6},
    "populous": {"delta": 1e-6},
    "populous-single": {"delta": 1e-6},
    "two-phase": {"delta": 1e-6},
    "local": {"bounds": (-5, 5)},
    "gaps": {"delta": 1e-6},
}


@pytest.mark.thorough(quick=["histogram-add-remove"])
@pytest.mark.parametrize("method, neighbouring", [*((m, "replace-one") for m in METHODS), ("histogram", "add-remove")])
def test_every_epsilon_is_refused_before_spending_or_gives_a_release_that_loads(method, neighbouring, tmp_path):
    X = np.random.default_rng(1).normal(size=(200, 2 if method == "slices" else 1))
    for i, epsilon in enumerate(EPSILONS):
        path = tmp_path / f"ledger{i}.sqlite"
        ledger = dpg.Ledger(path, epsilon=1e301, delta=0.5, neighbouring=neighbouring)
        given = {"epsilon": epsilon, "method": method, "neighbouring": neighbouring, "ledger": ledger}
        checkpoint = tmp_path / f"c{i}.json"
        try:
            release = dpg.fit_gmm(X, 1, checkpoint=checkpoint, progress=False, **given, **GIVEN[method])
        except ValueError:
            assert ledger.spent == (0.0, 0.0)
            continue
        except dpg.Unstable:
            continue
        assert dpg.load(release.save(tmp_path / f"r{i}.json")).to_dict() == release.to_dict()
        assert not checkpoint.exists() or dpg.resume(checkpoint).to_dict() == release.to_dict()


@pytest.mark.parametrize("method, epsilon", [("histogram", 1e13), ("slices", 1e300)])
def test_noise_that_no_file_may_state_is_refused(method, epsilon):
    X = np.random.default_rng(1).normal(size=(50, 2))
    with pytest.raises(ValueError, match=r"epsilon must be at most .*e\+1[23] for integer noise"):
        dpg.fit_gmm(X, 1, epsilon=epsilon, bounds=(-1, 1), method=method)

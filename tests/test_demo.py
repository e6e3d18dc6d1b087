"""The demo's story, with its long parts left out: the default method first, the pure one second, person-years throughout."""

import re

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm import demo


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # records that are not for these bounds
def test_it_fits_by_the_default_method_with_delta_and_counts_person_years(tmp_path, monkeypatch, capsys):
    asked = []
    fitted = dpg.fit_gmm(
        np.random.default_rng(0).normal(1, 0.5, size=(500, 2)), 3, epsilon=1.0, bounds=demo.BOUNDS, progress=False
    )

    def fit(X, n_components, **settings):
        asked.append(settings)
        return fitted

    monkeypatch.setattr(demo, "fit_gmm", fit)
    monkeypatch.setattr(demo, "non_private_fit", lambda train: fitted.mixture)
    monkeypatch.setattr(demo, "_new_study", lambda *given: {})
    monkeypatch.setattr(demo, "_audit", lambda *given: (False, True))
    monkeypatch.setattr(demo, "_draw", lambda *given: None)
    assert demo.run(tmp_path / "out", progress=False) == 0
    told = capsys.readouterr().out
    assert [settings.get("delta") for settings in asked] == [1e-6, 1e-6, None]
    assert all("method" not in settings for settings in asked)
    assert "20,190 person-years" in told and "per person-year" in told
    assert told.index("delta = 1e-06 (sketch)") < told.index("pure (histogram)")
    assert not re.search(r"per person\b(?!-)|\bpeople\b", told)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="folder must be a folder, got the file"):
        demo.run(tmp_path / "file", progress=False)

"""Hostile arguments for every public function: one clear error each, and no ledger is charged for bad input."""

from pathlib import Path

import pytest

import pm_dpgmm as dpg
from verification.fuzz import entries
from verification.fuzz.entries import CLEAR, _fault, run

# Made by calls that the search makes, read by nobody, or run where PyMC or figures are.
ELSEWHERE = {
    "Aggregate", "Answer", "BackgroundWarning", "BatchedEM", "BudgetExceeded", "Central", "Checkpoint", "ComponentWarning", "EM", "FitCheck", "FitWarning", "GapsMethod",
    "Guarantee", "HistogramMethod", "KSelection", "LocalMethod", "LocalReports", "MapPrior", "Misfit", "Neighbouring", "Plan", "Populous", "PopulousSingle",
    "PrivateGaussianMixture", "Release", "SampleSize", "SliceMethod", "TransformedMixture", "Unstable", "WeakGuarantee", "__version__", "check_modes", "gmm",
    "label_probs", "plot_coverage", "plot_pairs", "plot_plans", "plot_prior_posterior", "plot_release", "relabel", "smallest_size",
}  # fmt: skip


@pytest.mark.thorough
def test_bad_arguments_get_one_clear_error_and_cost_nothing():
    """The longer run: python -m verification.fuzz.entries."""
    report = run(250, seed=1)
    assert report.n_inputs == 250 and not report.faults, report


def test_nothing_is_written_where_the_search_is_started(tmp_path, monkeypatch):
    """Releases were saved under the hostile names "1" and "text"."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(entries, "HOSTILE", (lambda: "text",))
    monkeypatch.setattr(entries, "GENERATED", ())

    def saves(folder):
        return {"save": (dpg.load(entries.FILES / "histogram.json").save, {"path": folder / "saved.json"})}

    assert run(1, 1, saves).actions["done"] == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # of few records
def test_no_public_function_is_forgotten(tmp_path):
    called = " ".join(entries.entries(tmp_path))
    for name in set(dpg.__all__) - ELSEWHERE:
        assert name in called, f"{name} is called by nothing in verification/fuzz/entries.py"


def test_unclear_errors_are_faults():
    def crashes():
        return [][0]

    def deep():
        return Path(3)

    assert "IndexError" in _fault(crashes, CLEAR, scikit=False)
    assert "os.PathLike" in _fault(deep, CLEAR, scikit=False)
    assert _fault(lambda: dpg.Mixture("x", [[0.0]], [[[1.0]]]), CLEAR, scikit=False) == "refused"

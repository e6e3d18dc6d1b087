"""A trial changes a constant wherever the package holds it, for its time only, and the table tells what that cost."""

import sys

import numpy as np

from pm_dpgmm.mechanisms import box
from pm_dpgmm.methods.sketch import fit, location
from pm_dpgmm.methods.sketch.search import start
from verification.benchmarks import ablation
from verification.benchmarks.ablation_sets import Problem, Set
from verification.benchmarks.ablation_trials import TRIALS, Trial

SEEN = Trial("pm_dpgmm.mechanisms.box", "SEEN", 1.0)


def test_a_change_reaches_importers_and_keywords_and_ends():
    with ablation.changed("pm_dpgmm.mechanisms.box", "SEEN", 1.0):
        assert box.SEEN == location.SEEN == 1.0
    assert box.SEEN == location.SEEN == 3.5
    with ablation.changed("pm_dpgmm.methods.sketch.fit", "TOLERANCE", 0.5):
        assert fit.refined.__kwdefaults__["tolerance"] == fit.reweighted.__kwdefaults__["tolerance"] == 0.5
    assert fit.refined.__kwdefaults__["tolerance"] == fit.TOLERANCE == 1e-4


def test_every_trial_names_a_constant_and_tries_another_value():
    for trial in TRIALS:
        assert getattr(sys.modules[trial.module], trial.name) != trial.value, trial.label
    assert len({trial.label for trial in TRIALS}) == len(TRIALS)


def test_what_a_run_refers_to_is_recorded():
    found = set()
    with ablation.recorded(found):
        start.level_sizes(3)
        location._narrower(np.array([0.0, 1.0]), location.Cells(np.zeros(16), 1.0), 10.0)
    assert ablation.used(SEEN, frozenset(found))
    assert not ablation.used(Trial("pm_dpgmm.methods.sketch.search.start", "MIXED", 0.0), frozenset(found))


def test_pairs_are_compared_and_only_what_is_not_known_is_fitted(monkeypatch):
    problem = Problem(np.zeros((9, 1)), np.zeros((9, 1)), 1, None, 0.1)
    one = Set("one column", "made up", lambda seed: problem)
    trials = [SEEN, Trial("pm_dpgmm.methods.sketch.search.start", "MIXED", 0.0)]

    def scored(problem, seed):
        location._narrower(np.array([0.0, 1.0]), location.Cells(np.zeros(16), 1.0), 10.0)
        return -2.0 + 0.1 * (box.SEEN == 1.0), 1.0

    monkeypatch.setattr(ablation, "scored", scored)
    rows = [row for seed in (0, 1) for row in ablation.study(trials, one, seed, {(SEEN.label, "made up", 1)})]
    assert [(row.trial, row.seed, row.changed) for row in rows] == [
        (trials[0].label, 0, True),
        (trials[1].label, 0, False),
        (trials[1].label, 1, False),
    ]
    lines = list(ablation.table(rows))
    assert lines[2].startswith("| box.SEEN = 1.0 | +0.1000 ± nan |") and "1/1" in lines[2]
    assert "0/2" in lines[3]

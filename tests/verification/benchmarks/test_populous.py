"""Parts of the benchmarks of the populous methods: laws that stand in for runs, the search, the exit status."""

import math

import numpy as np
import pytest
from scipy import stats

from pm_dpgmm import Mixture
from verification.benchmarks import populous_release, populous_runs, populous_table
from verification.benchmarks.fit_laws import FitLaw, _scores
from verification.benchmarks.populous_runs import Run, law_of_errors, truth_of, units


def test_scores_are_derivatives_of_the_log_density():
    truth = truth_of(2, (0.2, 0.3, 0.5), 0)
    points = truth.sample(40, rng=np.random.default_rng(1))
    scores = _scores(truth, points)
    law, step = FitLaw(truth, np.eye(scores.shape[1])), 1e-5
    for j, direction in enumerate(np.eye(scores.shape[1])):
        up, down = (law.fits(sign * direction[None], step**-2)[0].log_density(points) for sign in (1, -1))
        assert scores[:, j] == pytest.approx((up - down) / (2 * step), abs=1e-7)


def test_fits_of_one_component_have_the_known_law():
    """Mean N(0, 1/m), variance 1 + N(0, 2/m); five deviations of 4,000 draws, false alarm 3e-6."""
    law = FitLaw.of(Mixture([1.0], [[3.0]], [[[4.0]]]), rng=np.random.default_rng(2))
    fits = law.fits(law.steps(4000, rng=np.random.default_rng(3)), 1e6)
    means = np.array([fit.means[0, 0] for fit in fits]) - 3
    variances = np.array([fit.covariances[0, 0, 0] for fit in fits]) / 4 - 1
    error = 5 / math.sqrt(2 * 4000) + 0.02  # the information is itself simulated
    assert means.std() == pytest.approx(2e-3, rel=error)
    assert variances.std() == pytest.approx(math.sqrt(2) * 1e-3, rel=error)


def test_the_law_of_errors_is_that_of_the_note():
    """A mean moves by sqrt(2) eta, a log deviation by eta, to first order."""
    truth, eta = Mixture([1.0], [[0.0]], [[[1.0]]]), 0.01
    median, worst = law_of_errors([truth] * 10, eta)
    middle = stats.norm.isf(0.25)
    assert median[1:] == pytest.approx([math.sqrt(2) * eta * middle, eta * middle], rel=0.1)
    most = stats.norm.isf((1 - 0.5 ** (1 / 10)) / 2)
    assert worst[1:] == pytest.approx([math.sqrt(2) * eta * most, eta * most], rel=0.15)


@pytest.mark.parametrize("start", [300, 1_000, 2_500])
def test_the_search_finds_the_threshold_from_both_sides(start):
    found = populous_release.fewest(lambda n: n >= 1_000, start)
    assert 1_000 <= found <= 1_000 * populous_release.STEP * 1.01
    assert populous_release.fewest(lambda n: n >= 1e9, start) == 0


def test_columns_have_units_over_six_decades():
    assert [units(1, i)[0] for i in range(3)] == pytest.approx([1e-3, 1e3, 1e-3])
    assert sorted(units(5, 3)) == pytest.approx(np.geomspace(1e-3, 1e3, 5).tolist())


@pytest.mark.parametrize("answers, status", [(19, 0), (18, 1)])
def test_the_exit_status_says_whether_nineteen_of_twenty_answered(answers, status, monkeypatch, capsys):
    def run(truth, n_records, index, settings):
        released = index < answers
        errors = (0.01, 0.02, 0.03) if released else (math.nan,) * 3
        return Run(released, 50 if released else 0, float(released), *errors, 1.0)

    monkeypatch.setattr(populous_release, "run_once", run)
    monkeypatch.setattr(populous_runs, "N_DRAWS", 2)
    monkeypatch.setattr(populous_release, "SETTINGS", (populous_release.SETTINGS[0],))
    assert populous_release.main([]) == status
    printed = capsys.readouterr().out
    assert f"{answers} of 20" in printed and printed.count("MISSED") == 2 * status


def test_a_method_that_never_answers_is_an_error(monkeypatch):
    method = populous_table.Fitted("never", (500, 500, 500), 2.0, {"method": "populous", "noise": 0.05})
    monkeypatch.setattr(populous_release, "MOST_STEPS", 1)
    with pytest.raises(RuntimeError, match="never must answer with 1,000 records"):
        method.line(1, 2, 1)

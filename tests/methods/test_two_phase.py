"""Method "two-phase": both paths, one guarantee. Its guarantee is audited as a target."""

import copy
import json
import pickle
import time

import numpy as np
import pandas as pd
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.cli.main import main
from pm_dpgmm.methods import two_phase
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.populous.method import Populous, released_mixture
from pm_dpgmm.methods.sketch import method as sketch_method
from pm_dpgmm.methods.sketch.method import SketchMethod
from pm_dpgmm.methods.two_phase import TwoPhase, domain
from pm_dpgmm.privacy.guarantee import Neighbouring, Unstable
from pm_dpgmm.release.card.numbers import CARD_DELTAS

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
N = 80_000


@pytest.fixture(scope="module")
def records():
    """One component in two columns, far from 0."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(N, 2)) @ [[1.0, 0.5], [0.0, 1.0]] + [1e4, -300.0]


@pytest.mark.thorough(quick=["True"])
@pytest.mark.parametrize("answers", [True, False])
def test_it_finds_the_mixture_whether_or_not_the_crude_method_answers(records, answers, monkeypatch, tmp_path):
    def refuse(self, records, problem, **named):
        raise Unstable("no", None)

    def watched(self, start, records, problem, **named):
        begun.append((start, problem.bounds))
        return real(self, start, records, problem, **named)

    begun, real = [], SketchMethod.release_from
    monkeypatch.setattr(SketchMethod, "release_from", watched)
    if not answers:
        monkeypatch.setattr(Populous, "release", refuse)
    release = dpg.fit_gmm(records, 1, **BUDGET, method="two-phase", random_seed=3)
    assert (release.noise["crude"] is not None) == answers == ("crude_means" in release.raw)
    assert release.means[0] == pytest.approx([1e4, -300.0], abs=0.1)
    assert release.covariances[0] == pytest.approx(np.cov(records, rowvar=False), abs=0.15)
    assert release.guarantee.epsilon == 1.0 and release.guarantee.curve(1.0) <= 1e-6 * (1 + 1e-9)
    assert dpg.load(release.save(tmp_path / "release.json")).guarantee == release.guarantee
    ((start, bounds),) = begun
    if answers:  # the second phase begins with what was released, and with nothing else
        crude = released_mixture(two_phase.crude_numbers(release.raw), release.noise["crude"])
        assert (start.means == crude.means).all() and (start.covariances == crude.covariances).all()
        assert (bounds == domain(crude)).all()
    else:
        assert start is None and bounds is None


def test_the_parts_of_the_budget_add_up_and_both_curves_are_counted():
    problem = Problem(400_000, 1, 2, 1.0, 1e-6, None, Neighbouring.REPLACE_ONE)
    method = TwoPhase(crude_share=0.25)
    crude, rest = method.phases(problem)
    assert (crude.epsilon, crude.delta) == (0.25, 0.25e-6)
    assert (crude.epsilon + rest.epsilon, crude.delta + rest.delta) == (1.0, 1e-6)
    loss = method.guarantee(problem).loss
    assert loss.first == method.crude.constants(crude).table.curve
    failures = {part.failure for part in loss.second.parts}
    assert 0.0 in failures and len(failures) == 2  # with a domain, and with a box that may fail


def test_the_privacy_curve_of_a_card_takes_seconds():
    """360 values of a sum of two curves: they took 49 s."""
    guarantee = TwoPhase().guarantee(Problem(40_000_000, 1, 2, 1.0, 1e-6, None, Neighbouring.REPLACE_ONE))
    start = time.perf_counter()
    found = [guarantee.epsilon_at(delta) for delta in CARD_DELTAS]
    assert time.perf_counter() - start < 10
    assert found[1] == pytest.approx(1.0, abs=1e-6) and found == sorted(found, reverse=True)


def test_the_domain_holds_the_components():
    mixture = dpg.Mixture([0.5, 0.5], [[0.0, 1.0], [10.0, -5.0]], [np.diag([1.0, 4.0]), np.diag([9.0, 1.0])])
    assert domain(mixture) == pytest.approx(np.array([[-8.0, 28.0], [-11.0, 13.0]]))


@pytest.fixture
def sketch_refuses(monkeypatch):
    """The crude release is made, its domain is of no use, and no interval is found."""
    monkeypatch.setattr(two_phase, "_usable", lambda bounds: False)
    real = sketch_method.unbounded_intervals
    monkeypatch.setattr(sketch_method, "unbounded_intervals", lambda *given: (None, *real(*given)[1:]))


def test_a_refusal_of_the_sketch_keeps_the_crude_release(records, sketch_refuses, tmp_path):
    path = tmp_path / "fit.json"
    with pytest.raises(Unstable, match="'two-phase' refused") as refusal:
        dpg.fit_gmm(records, 1, **BUDGET, method="two-phase", random_seed=3, checkpoint=path)
    assert refusal.value.guarantee.epsilon == 1.0 and "pm_dpgmm.resume" in refusal.value.__notes__[-1]
    for source in (path, refusal.value, pickle.loads(pickle.dumps(refusal.value))):
        found = dpg.resume(source)
        assert found.method == "two-phase" and found.guarantee == refusal.value.guarantee and not found.private
        assert found.means[0] == pytest.approx([1e4, -300.0], abs=0.5)
        assert {"crude_means", "pair_distance_counts"} <= set(found.raw) and "NOT PRIVATE" in found.summary()
        assert "WARNING: no sketch was released" in found.summary()
        with pytest.raises(ValueError, match="got one of method 'two-phase' with its crude release alone"):
            found.refit(2)
    assert dpg.load(found.save(tmp_path / "release.json")).to_dict() == found.to_dict()
    with pytest.raises(ValueError, match=r"n_components must be 1, that of the crude release.* got \[2\]"):
        dpg.resume(path, 2)
    alone = dpg.fit_gmm(records, 1, epsilon=0.3, delta=0.3e-6, method="populous", random_seed=3)
    assert found.mixture.means == pytest.approx(alone.means) and found.covariances == pytest.approx(alone.covariances)


def test_of_a_hostile_crude_release_nothing_is_believed(records, sketch_refuses, tmp_path):
    path = tmp_path / "fit.json"
    with pytest.raises(Unstable):
        dpg.fit_gmm(records, 1, **BUDGET, method="two-phase", random_seed=3, checkpoint=path)
    sound = json.loads(path.read_text())
    for change, words in {
        ("eta", 1e308): "eta must be at most",
        ("eta", "x"): "eta must be",
        ("law", "mask"): "crude must be the public law of a lifted mask",
        ("kappa", None): "kappa must be",
        ("n_subsets", -1): "n_subsets must be",
    }.items():
        fields = copy.deepcopy(sound)
        fields["noise"]["crude"][change[0]] = change[1]
        path.write_text(json.dumps(fields))
        with pytest.raises((TypeError, ValueError), match=words):
            dpg.resume(path)
    wide = sound | {"raw": sound["raw"] | {"crude_covariances": np.ones((1, 1001, 1001)).tolist()}}
    path.write_text(json.dumps(wide))
    with pytest.raises(ValueError, match="a crude release must have at most 1000000 numbers"):
        dpg.resume(path)
    for name, value in {"caveats": 5, "sites": 5, "flagged": "yes", "dispersion": [], "law": "mask"}.items():
        fields = copy.deepcopy(sound)
        fields["noise"][name] = value
        path.write_text(json.dumps(fields))
        found = dpg.resume(path)
        assert set(found.noise) <= {"crude", "caveats"} and "epsilon" in found.summary()
        assert dpg.load(found.save(tmp_path / "release.json")).to_dict() == found.to_dict()


def test_the_command_line_keeps_the_crude_release_of_a_refusal(records, sketch_refuses, tmp_path, capsys):
    pd.DataFrame(records, columns=["a", "b"]).to_csv(tmp_path / "x.csv", index=False)
    partial, out = str(tmp_path / "r.partial.json"), str(tmp_path / "r.json")
    given = ["--n-components", "1", "--epsilon", "1", "--delta", "1e-6", "--method", "two-phase", "--output", out]
    assert main(["fit", str(tmp_path / "x.csv"), *given]) == 1
    told = capsys.readouterr().err
    assert "refused; what was paid for is kept" in told and f"pm-dpgmm resume {partial!r} --output {out!r}" in told
    assert main(["resume", partial, "--output", out]) == 0
    assert dpg.load(out).means[0] == pytest.approx([1e4, -300.0], abs=0.5)


def test_what_cannot_run_is_refused_before_anything_is_spent(records):
    with pytest.raises(ValueError, match="at least about"):
        dpg.fit_gmm(records[:500], 1, **BUDGET, method="two-phase")
    with pytest.raises(
        ValueError, match=r"assumed_records must be given .* \(of crude=Populous\(...\), with method 'two"
    ):
        dpg.fit_gmm(records, 1, **BUDGET, method="two-phase", neighbouring="add-remove")
    with pytest.raises(TypeError, match="crude must be a Populous"):
        TwoPhase(crude=SketchMethod())
    with pytest.raises(ValueError, match="crude_share"):
        TwoPhase(crude_share=1.0)


def test_a_delta_above_one_over_a_guessed_number_of_records_is_warned_of(monkeypatch):
    """The number itself is private under add-remove neighbours, the guess is public; the warning comes first."""
    monkeypatch.setattr(TwoPhase, "release", lambda *given, released, **settings: pytest.fail("budget was spent"))
    method = TwoPhase(crude=Populous(assumed_records=500_000))
    X = np.random.default_rng(0).normal(size=(1000, 1))
    with pytest.raises(dpg.WeakGuarantee, match="below 1/N = 2e-06"):
        dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-4, method=method, neighbouring="add-remove")

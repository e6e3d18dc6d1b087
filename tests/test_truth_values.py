"""Every argument of the public interface that is True or False is looked at: "no" is no truth value."""

import inspect
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import pm_dpgmm as dpg
import pm_dpgmm.bayes
import pm_dpgmm.tools
import verification
from pm_dpgmm.bayes.parameters.params import GMMParams
from verification.profile.profile import privacy_profile

FILES = Path(__file__).parent / "data" / "releases"
X = np.linspace(0.0, 1.0, 50)[:, None]
NUMBERS = np.zeros(1)
RELEASE = dpg.load(FILES / "histogram.json")
PROTOCOL = dpg.LocalProtocol("one-bit", 1.0, frequencies=[[1.0]], phases=[0.0])
REPORTS = [PROTOCOL.respond(0.5)]
FACTS = ("histogram", {}, (1,), ("a",), 50)
AUDITED = {"mechanism": lambda data, n, rng: rng.normal(size=n) + data, "x": 0, "x_neighbour": 1}
ESTIMATED = {"records": X, "learner": np.median, "space": None, "epsilon": 1.0, "delta": 1e-6}
# public name and argument -> what it is called with, and the other arguments
CALLS = {
    ("fit_gmm", "progress"): (dpg.fit_gmm, {"X": X, "n_components": 1, "epsilon": 1.0, "bounds": (0, 1)}),
    ("fit_levels", "progress"): (
        dpg.fit_levels,
        {"X": X, "n_components": 1, "by": [0, 1] * 25, "levels": (0, 1), "epsilon": 1.0, "bounds": (0, 1)},
    ),
    ("PrivateGaussianMixture", "progress"): (lambda progress: dpg.PrivateGaussianMixture(progress=progress).fit(X), {}),
    ("plan", "bounds"): (dpg.plan, {"n_records": 50, "n_features": 1, "n_components": 1, "epsilon": 1.0}),
    ("plan", "progress"): (dpg.plan, {"n_records": 50, "n_features": 1, "n_components": 1, "epsilon": 1.0}),
    ("smallest_size", "progress"): (dpg.smallest_size, {"n_features": 1, "n_components": 1, "epsilon": 1.0}),
    ("fit_reports", "progress"): (dpg.fit_reports, {"reports": PROTOCOL.aggregate(REPORTS), "n_components": 1}),
    ("fit_reports", "simulated"): (dpg.fit_reports, {"reports": PROTOCOL.aggregate(REPORTS), "n_components": 1}),
    ("LocalProtocol.aggregate", "strict"): (PROTOCOL.aggregate, {"reports": REPORTS}),
    ("Release.sample", "as_frame"): (RELEASE.sample, {"n_points": 1}),
    ("Release.sample", "rounded"): (RELEASE.sample, {"n_points": 1}),
    ("Release.card", "force"): (RELEASE.card, {"path": "card.html"}),
    ("Release", "private"): (lambda private: RELEASE.from_dict(RELEASE.to_dict() | {"private": private}), {}),
    ("Aggregate", "fuse"): (dpg.Aggregate, {}),
    ("Aggregate", "rehearse"): (dpg.Aggregate, {}),
    ("Populous", "rehearse"): (dpg.Populous, {"separation": 5.0}),
    ("PopulousSingle", "rehearse"): (dpg.PopulousSingle, {}),
    ("populous_estimate", "rehearse"): (pm_dpgmm.tools.populous_estimate, ESTIMATED),
    ("populous_estimate", "progress"): (pm_dpgmm.tools.populous_estimate, ESTIMATED),
    ("Answer", "private"): (dpg.Answer, {"names": ("a",), "values": [1.0], "covariance": [[1.0]]}),
    ("Checkpoint", "private"): (
        lambda private: dpg.Checkpoint(*FACTS, private, RELEASE.guarantee, {}, {}),
        {},
    ),
    ("FitCheck", "private"): (lambda private: dpg.FitCheck(0.5, 1.0, 1.0, 1, 0, "sketch", private), {}),
    ("Guarantee", "private"): (lambda private: dpg.Guarantee(1.0, 0.0, "replace-one", "m", None, private), {}),
    ("Guarantee.marked", "private"): (RELEASE.guarantee.marked, {}),
    ("Misfit", "flagged"): (dpg.Misfit, {"statistic": 1.0, "gain": None, "shortfall": None}),
    ("Misfit", "private"): (dpg.Misfit, {"statistic": 1.0, "gain": None, "shortfall": None, "flagged": False}),
    ("Misfit.of", "private"): (dpg.Misfit.of, {"noise": {"misfit": 1.0}}),
    ("ModeCheck", "private"): (lambda private: pm_dpgmm.bayes.ModeCheck(*[None] * 12, private), {}),
    ("GMMParams", "private"): (lambda private: GMMParams(*[None] * 4, "g", "weak", None, None, private), {}),
    ("GMMParams", "of_release"): (partial(GMMParams, *[None] * 4, "g", "weak", None), {}),
    ("MixturePrior", "private"): (pm_dpgmm.bayes.MixturePrior, {"mixture": RELEASE.mixture}),
    ("MixturePrior.create_variable", "xdist"): (RELEASE.as_prior().create_variable, {"name": "x"}),
    ("audit", "progress"): (verification.audit, AUDITED | {"epsilon": 1.0}),
    ("audit", "sequential"): (verification.audit, AUDITED | {"epsilon": 1.0}),
    ("privacy_profile", "progress"): (privacy_profile, AUDITED | {"log_density": lambda outputs, data: outputs}),
}
# Results that nobody makes by hand, what others' interfaces ask, and a method for those that have its settings.
ELSEWHERE = {
    ("Plan", "bounds"), ("AuditResult", "refuted"), ("AuditResult", "sequential"), ("CurveAuditResult", "refuted"), ("CurveAuditResult", "sequential"), ("OneRunResult", "refuted"), ("Neighbouring.splitlines", "keepends"),
    ("PrivateGaussianMixture.get_params", "deep"), ("MixtureLabels", "blocked"), ("MixtureLabels.competence", "has_grad"),
    ("Central.noise_steps", "gaussian"),
}  # fmt: skip


@pytest.mark.parametrize("name, argument", CALLS)
def test_a_text_is_no_truth_value(name, argument):
    call, given = CALLS[name, argument]
    with pytest.raises((TypeError, ValueError), match=f"{argument} must be True or False, got 'no'"):
        call(**given, **{argument: "no"})


def test_no_truth_value_of_the_public_interface_is_forgotten():
    public = {name: getattr(dpg, name) for name in dpg.__all__}
    for package in (pm_dpgmm.bayes, pm_dpgmm.tools, verification):
        public |= {name: getattr(package, name) for name in package.__all__}
    public |= {"privacy_profile": privacy_profile}
    for name, value in list(public.items()):
        if inspect.isclass(value):
            methods = [part for part in dir(value) if part[0] != "_" and callable(getattr(value, part))]
            public |= {f"{name}.{part}": getattr(value, part) for part in methods}
    found = set()
    for name, value in public.items():
        try:
            parameters = inspect.signature(value).parameters.values() if callable(value) else ()
        except ValueError:  # written in C
            continue
        for one in parameters:
            if str(one.annotation) in ("bool", "bool | None") or isinstance(one.default, bool):
                found.add((name, one.name))
    assert found == {*CALLS, *ELSEWHERE}

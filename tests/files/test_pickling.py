"""Results survive pickle, copy, deepcopy and joblib; a pickle from anywhere passes the checks of a file."""

import copy
import inspect
import json
import pickle
from dataclasses import fields, is_dataclass

import joblib
import numpy as np
import pytest
from sklearn.base import clone

import pm_dpgmm as dpg
from pm_dpgmm.methods.sketch.method import SketchMethod
from pm_dpgmm.planning.result import Trial
from pm_dpgmm.privacy.curves import CompositionProfile, MaximumProfile, PointProfile, TableProfile
from verification.auditing.audit import audit
from verification.fuzz.releases import FILES

NAMES = sorted(path.stem for path in FILES.glob("*.json"))


def by_joblib(value, path):
    joblib.dump(value, path / "value.joblib")
    return joblib.load(path / "value.joblib")


WAYS = {
    "pickle": lambda value, path: pickle.loads(pickle.dumps(value)),
    "oldest pickle": lambda value, path: pickle.loads(pickle.dumps(value, protocol=2)),
    "copy": lambda value, path: copy.copy(value),
    "deepcopy": lambda value, path: copy.deepcopy(value),
    "joblib": by_joblib,
}


def arrays_in(value):
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from arrays_in(item)
    elif hasattr(value, "items"):
        yield from arrays_in(list(value.values()))
    elif is_dataclass(value):
        for field in fields(value):
            yield from arrays_in(getattr(value, field.name))


def plain(value):
    """Contents, to compare."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "items"):
        return {name: plain(item) for name, item in value.items()}
    if inspect.ismethod(value):
        return [value.__func__, plain(value.__self__)]
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value


@pytest.fixture(scope="module")
def results():
    release = dpg.load(FILES / "sketch_one_column.json")
    point = PointProfile(1.0, 1e-6)
    composed = CompositionProfile(MaximumProfile((point, TableProfile((0.0, 1.0), (0.5, 1e-6)))), point, split=0.5)
    trial = Trial(False, 0.1, 0.1, 0.1, 0.1, 0.1, None, 1.0)
    return {
        **{name: dpg.load(FILES / f"{name}.json") for name in NAMES},
        "Mixture": release.mixture,
        "Guarantee": release.guarantee,
        "losses": dpg.Guarantee(2.0, 1e-5, "replace-one", "test", composed),
        "KSelection": release.select_k([1, 2]),
        "StandardErrors": release.standard_errors(),
        "Band": release.interval(lambda mixture: mixture.mean(), n_draws=20, random_seed=1),
        "FitCheck": release.check_fit(),
        "settings": SketchMethod(like=release),
        "Plan": dpg.Plan(
            100, 1, 1, 1.0, 1e-6, "sketch", True, "replace-one", 4.0, (1.0,), 0.1, (trial,), 0.1, dpg.Populous()
        ),
    }


KINDS = [
    *NAMES,
    "Mixture",
    "Guarantee",
    "losses",
    "KSelection",
    "StandardErrors",
    "Band",
    "FitCheck",
    "settings",
    "Plan",
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_results_come_back_the_same_and_read_only(kind, way, results, tmp_path):
    value = results[kind]
    again = WAYS[way](value, tmp_path)
    assert type(again) is type(value) and plain(again) == plain(value)
    assert not any(array.flags.writeable for array in arrays_in(again))


@pytest.mark.parametrize("way", WAYS)
def test_estimators_come_back_with_their_release(way, tmp_path):
    settings = {"like": dpg.load(FILES / "sketch_one_column.json")}
    estimator = dpg.PrivateGaussianMixture(1, epsilon=1.0, delta=1e-6, settings=settings)
    again = WAYS[way](estimator.fit(np.random.default_rng(1).normal(size=(300, 1))), tmp_path)
    assert again.release_.to_dict() == estimator.release_.to_dict()
    assert np.array_equal(again.predict([[0.0], [9.0]]), estimator.predict([[0.0], [9.0]]))
    assert not again.release_.means.flags.writeable
    assert clone(again).get_params()["epsilon"] == 1.0


def test_a_pickle_passes_the_checks_of_a_file(results):
    """The function and the fields that a pickle of a release calls; a forged one has others."""
    release = results["histogram"]
    function, (content,) = release.__reduce__()
    for change, words in (
        ({"private": "yes"}, "private must be True or False"),
        ({"weights": [2.0, -1.0]}, "weights must not be negative"),
        ({"guarantee": content["guarantee"] | {"epsilon": 1e-3}}, "delta must be at least"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            function(content | change)
    forged = pickle.dumps(release.mixture).replace(np.float64(release.weights[0]).tobytes(), np.float64(9).tobytes())
    with pytest.raises(ValueError, match="weights must not be negative and must sum to 1"):
        pickle.loads(forged)


def nested(value, path=()):
    """Every list and mapping inside ``value``."""
    if isinstance(value, (dict, list, tuple)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from nested(inner)


@pytest.mark.parametrize("name", ["sketch_two_columns", "sketch_combined", "two_phase"])
def test_nothing_inside_noise_and_settings_of_a_release_can_be_changed(name, tmp_path):
    release = dpg.load(FILES / f"{name}.json")
    before = json.dumps(release.to_dict())
    for again in (release, pickle.loads(pickle.dumps(release)), copy.deepcopy(release), copy.copy(release)):
        for part in (again.noise, again.settings):
            inside = [item for value in part.values() for item in nested(value)]
            assert inside or part is again.settings
            for item in inside:
                for change in (
                    "append",
                    "extend",
                    "sort",
                    "reverse",
                    "clear",
                    "pop",
                    "popitem",
                    "update",
                    "setdefault",
                ):
                    if hasattr(item, change):
                        with pytest.raises(TypeError, match="a release cannot be changed"):
                            getattr(item, change)("x")
                with pytest.raises(TypeError):
                    item[0 if not isinstance(item, dict) else "x"] = 3
                with pytest.raises(TypeError):
                    del item[0 if not isinstance(item, dict) else "x"]
        assert json.dumps(again.to_dict()) == before
    given = release.to_dict()
    given["noise"]["sketches"].clear()  # a copy
    assert json.dumps(release.to_dict()) == before
    assert json.loads(json.dumps(dict(release.noise))) == release.noise  # as lists and dictionaries do


def test_audits_of_a_claimed_curve_are_restored():
    """The curves of a release of "sketch" were made by a function in a function: results could not be pickled."""
    rng = np.random.default_rng(1)
    guarantee = dpg.fit_gmm(rng.normal(size=(500, 1)), 1, epsilon=1.0, delta=1e-6, bounds=(-4, 4)).guarantee
    found = audit(
        lambda d, n, rng: d + rng.normal(scale=9.0, size=n), 1, 0, guarantee=guarantee, n_samples=500, rng=rng
    )
    again = pickle.loads(pickle.dumps(found))
    assert str(again) == str(found)

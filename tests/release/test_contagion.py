"""What is made from a release that is not private says so, too."""

import importlib
import inspect
import json
import pickle
import pkgutil
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray

import pm_dpgmm
import pm_dpgmm as dpg
from verification.fuzz.releases import FILES

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # poor fits on purpose

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "progress": False}
RECORDS = np.random.default_rng(1).normal(size=(300, 1))


@pytest.fixture(scope="module")
def seeded():
    release = dpg.load(FILES / "sketch_one_column.json")
    assert not release.private
    return release


def by_estimator(release):
    return dpg.PrivateGaussianMixture(1, epsilon=1.0, delta=1e-6, settings={"like": release}).fit(RECORDS).release_


def resumed(release, folder):
    dpg.fit_gmm(RECORDS, 1, like=release, checkpoint=folder / "fit.json", **BUDGET)
    return dpg.resume(folder / "fit.json")


def of_simulated_people():
    protocol, rng = dpg.LocalProtocol.design(1, epsilon=4.0, bounds=(-5, 5)), np.random.default_rng(1)
    reports = protocol.aggregate([protocol.respond(x, rng) for x in RECORDS])
    return dpg.fit_reports(reports, 1, progress=False, simulated=True)


# Every public function that gives releases, called with one that is not private and with no seed of its own.
MADE = {
    "fit_gmm": lambda release, folder: [dpg.fit_gmm(RECORDS, 1, like=release, **BUDGET)],
    "PrivateGaussianMixture": lambda release, folder: [by_estimator(release)],
    "combine": lambda release, folder: [
        dpg.combine([release, dpg.fit_gmm(RECORDS, 1, like=release, **BUDGET)], n_components=1),
        dpg.combine([dpg.fit_gmm(RECORDS, 1, like=release, **BUDGET), release], n_components=1),
    ],
    "fit_reports": lambda release, folder: [of_simulated_people()],  # reports do not tell how they were drawn
    "resume": lambda release, folder: [resumed(release, folder)],
    "load": lambda release, folder: [dpg.load(release.save(folder / "release.json"))],
    "Release.load": lambda release, folder: [dpg.Release.load(release.save(folder / "release.json"))],
    "Release.from_dict": lambda release, folder: [dpg.Release.from_dict(release.to_dict())],
    "Release.refit": lambda release, folder: [release.refit(1)],
    "Release.select_k": lambda release, folder: list(release.select_k([1, 2]).releases),
}


# Every public function that gives guarantees, called with that of a release that is not private.
def by_ledger(given):
    """Composed of the one release that a ledger knows."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = dpg.Ledger(Path(folder) / "l.sqlite", epsilon=given.epsilon, delta=given.delta)
        number = ledger.reserve(given.epsilon, given.delta, given.neighbouring, "a fit")
        ledger.link(number, SimpleNamespace(to_dict=lambda: {"guarantee": given.to_dict()}))
        return [ledger.composed(delta=0.1)]


GUARANTEES = {
    "Ledger.composed": by_ledger,
    "compose": lambda given: [dpg.compose(given, given.marked(True), delta=0.1), dpg.compose(given, delta=0.1)],
    "Guarantee.from_dict": lambda given: [dpg.Guarantee.from_dict(given.to_dict())],
    "Guarantee.marked": lambda given: [given.marked(given.private)],
}


def by_params(release):
    import pymc as pm

    with pm.Model():
        return [release.params("anchored"), release.params("weak", prior="weak")]


# Every public function that makes something with a text of its own from a release that is not private.
PRINTED = {
    "Release.check_fit": lambda release: [release.check_fit()],
    "Release.select_k": lambda release: [release.select_k([1, 2])],
    "Release.standard_errors": lambda release: [release.standard_errors()],
    "Release.interval": lambda release: [release.interval(lambda mixture: mixture.means[0, 0], n_draws=20)],
    "Release.band": lambda release: [release.band([0.0, 1.0], n_draws=20)],
    "Release.params": by_params,
    "Release.summary": lambda release: [release.summary()],
}
# Numbers without a word about where they are from.
BARE = {"Mixture"}
KNOWN = {
    "Any",
    "FloatArray",
    "MixturePrior",
    "None",
    "Path",
    "Self",
    "TensorVariable",
    "TransformedMixture",
    "dict",
    "float",
    "list",
    "set",
    "str",
    "tuple",
    "bool",
    "int",
    "Released",
    "os",
    "PathLike",
}


@pytest.mark.thorough
def test_every_result_of_a_release_that_is_printed_carries_the_mark(seeded):
    for name, make in PRINTED.items():
        for found in make(seeded):
            texts = {str(found), repr(found), found.summary() if hasattr(found, "summary") else str(found)}
            assert all(text.count("NOT PRIVATE") == 1 for text in texts), name
            copied = found if name == "Release.params" else pickle.loads(pickle.dumps(found))
            assert "NOT PRIVATE" in str(copied), name
        if name != "Release.summary":
            for found in make(replace(seeded, private=True)):
                assert "NOT PRIVATE" not in repr(found), name
    assert seeded.check_fit().as_dict()["private"] is False is seeded.select_k([1]).as_dict()["private"]


def test_what_has_no_text_but_its_repr_carries_the_mark_too(seeded):
    import pymc as pm

    from pm_dpgmm.bayes.prior.prior_factory import MixturePrior

    private = replace(seeded, private=True)
    draws = xarray.Dataset(
        {"x": (("chain", "draw", "feature"), seeded.sample(4_000, random_seed=1).reshape(4, 1_000, 1))}
    )
    for release, times in ((seeded, 1), (private, 0)):
        prior = release.as_prior()
        with pm.Model():
            term = release.observe(release.params("g", prior="weak"))
        texts = [repr(release.misfit), release.misfit.summary(), repr(prior)]
        texts.append(repr(MixturePrior.from_dict(prior.to_dict())))
        texts.append(repr(dpg.check_modes(draws, release, name="x", random_seed=1)))
        for text in (*texts, term.str_repr(), term.str_repr(formatting="latex"), term._repr_latex_()):
            assert text.count("NOT PRIVATE") == times, text
        assert "release ~ Potential(" in term.str_repr()
    assert seeded.misfit == private.misfit  # the same numbers


def test_no_result_that_is_printed_is_forgotten():
    """By what is annotated: classes of ours with a text of their own, and texts."""
    found = set()
    for name, function in inspect.getmembers(dpg.Release, callable):
        told = "" if name.startswith("_") else str(inspect.signature(function).return_annotation)
        kinds = set(re.findall(r"[A-Za-z_]+", told)) - BARE - {"Release"}
        ours = {"FitCheck", "KSelection", "StandardErrors", "Band", "GMMParams", "Plan", "Guarantee", "Checkpoint"}
        if kinds & ours or (told == "str"):
            found.add(f"Release.{name}")
        assert kinds <= ours | KNOWN, f"{name} gives {kinds - ours - KNOWN}: does it say what is not private?"
    assert found == set(PRINTED)
    kept = {
        name: str(inspect.signature(value.fget).return_annotation)
        for name, value in inspect.getmembers(dpg.Release, lambda member: isinstance(member, property))
    }
    texts = {"Answer", "Misfit"}  # the first in tests/methods/aggregate
    for name, told in kept.items():
        kinds = set(re.findall(r"[A-Za-z_]+", told))
        assert kinds <= texts | BARE | KNOWN | {"Statistic"}, f"{name} gives {told}: does it say what is not private?"


def test_every_class_with_a_summary_knows_whether_it_is_private():
    found = set()
    for module in pkgutil.walk_packages(pm_dpgmm.__path__, "pm_dpgmm."):
        if not module.name.endswith("__main__"):
            for name, kind in vars(importlib.import_module(module.name)).items():
                if inspect.isclass(kind) and kind.__module__ == module.name and "summary" in vars(kind):
                    found.add(name)
                    assert name == "PresentationMethods" or hasattr(kind, "private"), name  # methods of Release
    assert found >= {"Misfit", "ModeCheck", "Answer", "FitCheck", "KSelection", "LevelReleases"}


def gives_releases(function, kinds=("Release", "KSelection"), owner=None):
    """Whether the annotation of what is returned names a Release or a result that holds some; Self is the owner."""
    try:
        told = str(inspect.signature(function).return_annotation)
    except (TypeError, ValueError):
        return False
    told = owner if told == "Self" else told
    return told in kinds or any(f"[{kind}" in told for kind in kinds)


def public_makers(kinds=("Release", "KSelection")):
    for name in dpg.__all__:
        thing = getattr(dpg, name)
        if inspect.isclass(thing):
            if thing is dpg.PrivateGaussianMixture and "Release" in kinds:
                yield name
            elif thing is not dpg.KSelection:  # its releases are tested where it is made
                for method, function in inspect.getmembers(thing, callable):
                    # of settings, ``guarantee`` is what a fit would promise
                    if not method.startswith("_") and method != "guarantee" and gives_releases(function, kinds, name):
                        yield f"{name}.{method}"
        elif callable(thing) and gives_releases(thing, kinds):
            yield name


def test_no_public_function_that_gives_releases_is_forgotten():
    assert set(public_makers()) == set(MADE)
    assert set(public_makers(("Guarantee",))) == set(GUARANTEES)


@pytest.mark.thorough(quick=["PrivateGaussianMixture"])
@pytest.mark.parametrize("name", MADE)
def test_not_private_is_contagious(name, seeded, tmp_path):
    made = MADE[name](seeded, tmp_path)
    assert made
    for release in made:
        assert release.private is False
        assert "NOT PRIVATE" in repr(release) and "NOT PRIVATE" in release.summary()
        assert "NOT PRIVATE" in release.card(tmp_path / "card.md", force=True).read_text()


@pytest.mark.parametrize("name", GUARANTEES)
def test_guarantees_carry_the_mark_too(name, seeded):
    for guarantee in (seeded.guarantee, *GUARANTEES[name](seeded.guarantee)):
        assert guarantee.private is False and "NOT PRIVATE" in str(guarantee)
    for guarantee in GUARANTEES[name](seeded.guarantee.marked(True))[1:]:
        assert guarantee.private is True and "NOT PRIVATE" not in str(guarantee)


def test_a_release_and_its_guarantee_never_contradict_each_other(seeded, tmp_path):
    assert replace(seeded, private=True).guarantee.private is True
    assert dpg.load(seeded.save(tmp_path / "r.json")).guarantee == seeded.guarantee
    checkpoint = tmp_path / "c.json"
    dpg.fit_gmm(RECORDS, 1, random_seed=1, bounds=(-5, 5), checkpoint=checkpoint, **BUDGET)
    assert repr(dpg.Checkpoint.load(checkpoint)).count("NOT PRIVATE") == 1
    for fields in (seeded.to_dict(), dpg.Checkpoint.load(checkpoint).to_dict()):  # who reads a part of a file
        assert dpg.Guarantee.from_dict(fields["guarantee"]).private is False


def test_the_refusal_of_a_seeded_fit_says_so():
    rng = np.random.default_rng(1)
    X = 10.0 ** rng.uniform(-300, 300, size=(40, 1))  # no interval holds enough records
    with pytest.raises(dpg.Unstable) as refusal:
        dpg.fit_gmm(X, 1, random_seed=1, **BUDGET)
    assert "NOT PRIVATE" in str(refusal.value.guarantee)
    with pytest.raises(dpg.Unstable) as refusal:
        dpg.fit_gmm(X, 1, **BUDGET)
    assert "NOT PRIVATE" not in str(refusal.value.guarantee)


def test_a_private_reference_leaves_a_release_private(seeded):
    private = dpg.fit_gmm(RECORDS, 1, like=replace(seeded, private=True), **BUDGET)
    assert private.private is True
    assert "NOT PRIVATE" not in repr(private) + private.summary()
    assert dpg.fit_gmm(RECORDS, 1, like=private, random_seed=1, **BUDGET).private is False


def test_either_mark_is_enough(tmp_path):
    """A file, of a release or of a checkpoint, that says private and whose guarantee says it is not."""
    fields = dpg.load(FILES / "sketch_one_column.json").to_dict()
    assert fields["private"] is False
    contradiction = {"private": True, "guarantee": fields["guarantee"] | {"private": False}}
    release = dpg.Release.from_dict(fields | contradiction)
    assert not release.private and not release.guarantee.private and "NOT PRIVATE" in release.summary()
    path = tmp_path / "partial.json"
    dpg.fit_gmm(RECORDS, 1, epsilon=1.0, bounds=(-5, 5), checkpoint=path, progress=False)
    assert dpg.Checkpoint.load(path).private
    path.write_text(json.dumps(json.loads(path.read_text()) | contradiction))
    assert not dpg.Checkpoint.load(path).private and not dpg.resume(path).private

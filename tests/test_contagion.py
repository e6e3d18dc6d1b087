"""What is made from a release that is not private says so, too."""

import inspect

import numpy as np
import pytest

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


# Every public function that gives releases, called with one that is not private and with no seed of its own.
MADE = {
    "fit_gmm": lambda release, folder: [dpg.fit_gmm(RECORDS, 1, like=release, **BUDGET)],
    "PrivateGaussianMixture": lambda release, folder: [by_estimator(release)],
    "combine": lambda release, folder: [
        dpg.combine([release, dpg.fit_gmm(RECORDS, 1, like=release, **BUDGET)], n_components=1),
        dpg.combine([dpg.fit_gmm(RECORDS, 1, like=release, **BUDGET), release], n_components=1),
    ],
    "resume": lambda release, folder: [resumed(release, folder)],
    "load": lambda release, folder: [dpg.load(release.save(folder / "release.json"))],
    "Release.load": lambda release, folder: [dpg.Release.load(release.save(folder / "release.json"))],
    "Release.from_dict": lambda release, folder: [dpg.Release.from_dict(release.to_dict())],
    "Release.refit": lambda release, folder: [release.refit(1)],
    "Release.select_k": lambda release, folder: list(release.select_k([1, 2]).releases),
}


def gives_releases(function):
    """Whether the annotation of what is returned names a Release or a result that holds some."""
    try:
        told = str(inspect.signature(function).return_annotation)
    except (TypeError, ValueError):
        return False
    return told in ("Release", "KSelection") or any(f"[{kind}" in told for kind in ("Release", "KSelection"))


def public_makers():
    for name in dpg.__all__:
        thing = getattr(dpg, name)
        if inspect.isclass(thing):
            if thing is dpg.PrivateGaussianMixture:
                yield name
            elif thing is not dpg.KSelection:  # its releases are tested where it is made
                for method, function in inspect.getmembers(thing, callable):
                    if not method.startswith("_") and gives_releases(function):
                        yield f"{name}.{method}"
        elif callable(thing) and gives_releases(thing):
            yield name


def test_no_public_function_that_gives_releases_is_forgotten():
    assert set(public_makers()) == set(MADE)


@pytest.mark.parametrize("name", MADE)
def test_not_private_is_contagious(name, seeded, tmp_path):
    made = MADE[name](seeded, tmp_path)
    assert made
    for release in made:
        assert release.private is False
        assert "NOT PRIVATE" in repr(release) and "NOT PRIVATE" in release.summary()
        assert "NOT PRIVATE" in release.card(tmp_path / "card.md").read_text()


def test_a_private_reference_leaves_a_release_private(seeded):
    from dataclasses import replace

    private = dpg.fit_gmm(RECORDS, 1, like=replace(seeded, private=True), **BUDGET)
    assert private.private is True
    assert "NOT PRIVATE" not in repr(private) + private.summary()
    assert dpg.fit_gmm(RECORDS, 1, like=private, random_seed=1, **BUDGET).private is False

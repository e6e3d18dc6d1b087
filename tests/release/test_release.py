import json
import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import pm_dpgmm as dpg
from pm_dpgmm.privacy.curves import GaussianProfile, GeometricProfile, PointProfile
from tests.builders.examples import examples
from verification.claims.common.strategies import mixtures


def make(mixture=None, **change):
    mixture = mixture or dpg.Mixture([0.25, 0.75], [[0.0, 1.0], [5.0, 6.0]], [np.eye(2), 2 * np.eye(2)])
    fields = {
        "mixture": mixture,
        "guarantee": dpg.Guarantee(1.0, 0.0, "replace-one", "test mechanism", GeometricProfile(2.0, 2)),
        "method": "histogram",
        "settings": {"n_cells": None},
        "raw": {"counts": np.arange(4.0).reshape(2, 2)},
        "noise": {"law": "discrete Laplace", "scale": 2.0},
        "feature_names": tuple(f"c{j}" for j in range(mixture.n_features)),
        "n_records": 100,
    }
    return dpg.Release(**(fields | change))


@given(mixture=mixtures(), counts=st.lists(st.integers(-(2**40), 2**40), min_size=1), private=st.booleans())
@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_saved_release_is_the_same_when_loaded(tmp_path, mixture, counts, private):
    release = make(mixture, raw={"counts": counts}, private=private)
    again = dpg.load(release.save(tmp_path / "release.json"))
    assert again.to_dict() == release.to_dict()
    for name in ("weights", "means", "covariances"):
        assert (getattr(again, name) == getattr(release, name)).all()  # to the last bit
    assert (again.raw["counts"] == release.raw["counts"]).all()
    assert again.guarantee == release.guarantee and again.private is private


def test_a_release_cannot_be_changed():
    release = make()
    with pytest.raises(AttributeError):
        release.method = "other"
    with pytest.raises(ValueError, match="read-only"):
        release.means[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        release.raw["counts"][0, 0] = 1.0
    with pytest.raises(TypeError):
        release.raw["more"] = np.zeros(2)
    with pytest.raises(TypeError):
        release.noise["scale"] = 0.0


@pytest.mark.parametrize(
    "change, words",
    [
        ({"feature_names": ("one",)}, "feature_names must have 2 entries, got 1"),
        ({"n_records": 0}, "n_records must be at least 1"),
        (
            {"guarantee": dpg.Guarantee(1.0, 0.2, "add-remove", "test", GaussianProfile(1.0))},
            "n_records must be None under add-remove",
        ),
    ],
)
def test_inconsistent_releases_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        make(**change)


BROKEN_FILES = {
    "truncated": (lambda f: json.dumps(f)[:-40], "complete JSON release file"),
    "empty": (lambda f: "", "complete JSON release file"),
    "not JSON": (lambda f: "weights: 1", "complete JSON release file"),
    "another object": (lambda f: json.dumps([1, 2]), "must have schema"),
    "another schema": (lambda f: json.dumps(f | {"schema": "other"}), "must have schema"),
    "newer version": (lambda f: json.dumps(f | {"schema_version": 3}), "schema_version must be 1, or 2 .* got 3"),
    "missing field": (lambda f: json.dumps({k: v for k, v in f.items() if k != "means"}), "must have the field 'means'"),
    "means of another shape": (lambda f: json.dumps(f | {"means": [[0.0, 1.0]]}), r"weights must have shape \(1,\), got \(2,\)"),
    "covariances of another shape": (lambda f: json.dumps(f | {"covariances": [[[1.0]]]}), "covariances must have shape"),
    "weights that sum to 2": (lambda f: json.dumps(f | {"weights": [1.0, 1.0]}), "weights must not be negative and must sum to 1"),
    "ragged means": (lambda f: json.dumps(f | {"means": [[0.0], [1.0, 2.0]]}), "valid release file"),
    "a better guarantee than its curve": (
        lambda f: json.dumps(f | {"guarantee": f["guarantee"] | {"epsilon": 0.1}}), "delta must be at least",
    ),
    "unknown curve": (lambda f: json.dumps(f | {"guarantee": f["guarantee"] | {"loss": {"kind": "magic"}}}), "kind of privacy loss"),
    "raw as a list": (lambda f: json.dumps(f | {"raw": [1, 2]}), "mappings"),
    "a name twice": (lambda f: json.dumps(f | {"feature_names": 2 * f["feature_names"][:1]}), "feature_names must be distinct"),
    "names of another number": (lambda f: json.dumps(f | {"feature_names": ["a"]}), "feature_names must have 2 entries"),
    "unknown relation": (lambda f: json.dumps(f | {"guarantee": f["guarantee"] | {"neighbouring": "swap"}}), "neighbouring must be"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN_FILES)
def test_a_broken_file_gets_one_clear_error(case, tmp_path):
    write, words = BROKEN_FILES[case]
    path = tmp_path / "release.json"
    path.write_text(write(make().to_dict()))
    with pytest.raises(ValueError, match=words) as caught:
        dpg.load(path)
    assert "path must be" in str(caught.value) and str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="path must be an existing release file"):
        dpg.load(tmp_path / "none.json")
    with pytest.raises(FileNotFoundError, match="path must be in an existing folder"):
        make().save(tmp_path / "none" / "release.json")


def test_a_failed_write_leaves_the_old_file_and_no_parts(tmp_path, monkeypatch):
    path = make().save(tmp_path / "release.json")
    before = path.read_text()
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        make(method="other").save(path)
    assert path.read_text() == before and [p.name for p in tmp_path.iterdir()] == ["release.json"]


def test_summary_and_card_say_what_is_protected_and_what_it_cost(tmp_path):
    release = make()
    text = release.summary()
    for words in (
        "replacing any one record",
        "epsilon = 1",
        "delta = 0",
        "test mechanism",
        "100 (public)",
        "c0",
        "0.750",
    ):
        assert words in text
    card = release.card(tmp_path / "card.md").read_text()
    assert text in card and "| 1e-06 | 1 |" in card and "discrete Laplace" in card
    approximate = make(guarantee=dpg.Guarantee(1.0, 1e-6, "replace-one", "m", PointProfile(1.0, 1e-6)))
    assert "except for a probability of 1e-06" in approximate.summary()
    assert repr(approximate) == "<Release: 2 components, 2 features, histogram, epsilon=1, delta=1e-06, replace-one>"


def test_sampling_and_density_are_those_of_the_mixture():
    release = make()
    points = release.sample(2000, random_seed=1)
    assert points.shape == (2000, 2)
    assert release.log_density(points[:5]) == pytest.approx(release.mixture.log_density(points[:5]))
    assert points.mean(axis=0) == pytest.approx(release.mixture.mean(), abs=0.4)


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "Arrow": pa.table}


@pytest.mark.parametrize("kind", FRAMES)
def test_columns_of_a_table_are_matched_by_name_or_refused(kind):
    release, table = make(feature_names=("age", "bmi")), FRAMES[kind]
    ages, masses = [0.0, 5.0, 2.0], [1.0, 6.5, 0.0]
    expected = release.log_density(np.stack([ages, masses], axis=1))
    for columns in ({"age": ages, "bmi": masses}, {"bmi": masses, "age": ages}):
        assert (release.log_density(table(columns)) == expected).all()
    for columns in ({"age": ages}, {"age": ages, "kg": masses}, {"age": ages, "bmi": masses, "kg": masses}):
        with pytest.raises(ValueError, match=r"points must have the columns \('age', 'bmi'\) and no others"):
            release.log_density(table(columns))


def test_labels_that_are_numbers_are_names_too():
    release = make(feature_names=("0", "1"))
    frame = pd.DataFrame([[1.0, 7.0]], columns=[1, 0])
    assert release.log_density(frame) == release.log_density([[7.0, 1.0]]) != release.log_density([[1.0, 7.0]])


def test_a_sample_may_be_a_data_frame():
    release = make(feature_names=("age", "bmi"))
    frame = release.sample(20, random_seed=1, as_frame=True)
    assert list(frame.columns) == ["age", "bmi"]
    assert (frame.to_numpy() == release.sample(20, random_seed=1)).all()
    assert release.log_density(frame[["bmi", "age"]]) == pytest.approx(release.log_density(frame))


def test_marginal_and_conditional_go_by_the_names_of_the_features():
    covariances = [[[1.0, 0.5], [0.5, 2.0]], [[3.0, 0.0], [0.0, 1.0]]]
    release = make(dpg.Mixture([0.25, 0.75], [[0.0, 1.0], [5.0, 6.0]], covariances), feature_names=("age", "height"))
    assert release.marginal(["height", "age"]).means.tolist() == [[1.0, 0.0], [6.0, 5.0]]
    known, expected = release.conditional({"height": 3.0}), release.mixture.conditional({1: 3.0})
    assert (known.weights == expected.weights).all() and (known.means == expected.means).all()
    with pytest.raises(ValueError, match=r"names must be among \('age', 'height'\), got 'weight'"):
        release.marginal(["weight"])
    for names in ("age", {"age"}, None):
        with pytest.raises(TypeError, match="names must be a sequence of feature names"):
            release.marginal(names)
    with pytest.raises(ValueError, match=r"given must be among \('age', 'height'\), got 1"):
        release.conditional({1: 3.0})
    with pytest.raises(TypeError, match="given must map feature names to values"):
        release.conditional(["age"])
    with pytest.raises(TypeError, match=r"given\['height'\] must be a real number, got None"):
        release.conditional({"height": None})
    with pytest.raises(ValueError, match=r"given\['height'\] must be finite, got nan"):
        release.conditional({"height": float("nan")})
    with pytest.raises(ValueError, match="given must leave at least one of 2 columns free"):
        release.conditional({"age": 1.0, "height": 1.0})

"""Releases by level: the law of whole rows, text, files; what is refused."""

import itertools
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import integrate

import pm_dpgmm as dpg
from pm_dpgmm.release import levels as levels_module

POINTS = np.linspace(-12.0, 14.0, 5)[:, None]


@pytest.fixture(scope="module")
def releases():
    rng = np.random.default_rng(1)
    smokes = rng.random(4_000) < 0.25
    table = pd.DataFrame({"x": rng.normal(4.0 * smokes, 1.0), "smokes": smokes})
    asked = {"by": "smokes", "levels": (False, True), "epsilon": 1.0, "delta": 1e-6, "bounds": (-20, 20)}
    return dpg.fit_levels(table, 1, random_seed=1, progress=False, **asked)


def test_densities_of_all_levels_together_integrate_to_one(releases):
    def total(x):
        return sum(np.exp(releases.log_density([[x]], [level])[0]) for level in releases)

    far = 10.0 ** np.arange(2, 8)  # half a record is spread over ever wider intervals
    ends = np.concatenate([-far[::-1], [-20, 25], far])
    assert sum(integrate.quad(total, *piece)[0] for piece in itertools.pairwise(ends)) == pytest.approx(1.0, abs=1e-6)
    assert integrate.quad(total, -20, 25)[0] > 0.999


def test_probabilities_of_levels_are_bayes_rule(releases):
    joint = np.column_stack([np.exp(releases.log_density(POINTS, [level] * len(POINTS))) for level in releases])
    assert np.allclose(releases.level_probs(POINTS), joint / joint.sum(axis=1, keepdims=True))
    frame = pd.DataFrame({"smokes": [True, False], "x": [3.0, 1.0]})
    assert releases.log_density(frame).tolist() == releases.log_density([[3.0], [1.0]], [True, False]).tolist()


def test_samples_have_levels_in_their_shares(releases):
    drawn = releases.sample(20_000, random_seed=2)
    assert drawn.columns.tolist() == ["x", "smokes"] and drawn["smokes"].dtype == bool
    assert drawn["smokes"].mean() == pytest.approx(releases.shares[1], abs=0.015)
    assert drawn.loc[drawn["smokes"], "x"].mean() == pytest.approx(releases[True].means[0, 0], abs=0.1)
    assert drawn.equals(releases.sample(20_000, random_seed=2))


def test_a_file_and_a_pickle_give_the_same_releases(releases, tmp_path):
    again = dpg.LevelReleases.load(releases.save(tmp_path / "levels.json"))
    for other in (again, pickle.loads(pickle.dumps(releases))):
        assert other.levels == (False, True) and other.by == "smokes" and not other.private
        assert other.log_density(POINTS, [True] * 5).tolist() == releases.log_density(POINTS, [True] * 5).tolist()
        assert other.guarantee == releases.guarantee
    with pytest.raises(ValueError, match=r"pm_dpgmm\.LevelReleases\.load reads such a file"):
        dpg.load(tmp_path / "levels.json")
    text = releases.summary()
    assert "smokes = True: share 0.2" in text and "NOT PRIVATE" in text
    assert repr(releases).startswith("<LevelReleases: 2 levels of 'smokes'")
    html = releases._repr_html_()
    assert "NOT PRIVATE" in html and f'<td style="text-align: left">{releases.shares[0]:.3f}</td>' in html


BAD_FILES = {
    "another schema": (lambda f: f | {"schema": "x"}, "path must be a file of schema 'pm_dpgmm.levels'"),
    "a later version": (lambda f: f | {"schema_version": 2}, "schema version 1, got 2; update pm_dpgmm"),
    "a version of no kind": (lambda f: f | {"schema_version": True}, "schema version 1, got True"),
    "a name that is no text": (lambda f: f | {"by": 3}, "by must be text, got 3"),
    "no name": (lambda f: {k: v for k, v in f.items() if k != "by"}, "path must be a file with 'by'"),
    "a level twice": (lambda f: f | {"releases": [f["releases"][0]] * 2}, "different from each other"),
    "a release of no kind": (lambda f: f | {"releases": [{"level": 1, "release": 3}] * 2}, "path must be a"),
    "releases that are no list": (lambda f: f | {"releases": 7}, "path must be a valid file"),
    "a name of a column": (lambda f: f | {"by": "x"}, "by must have another name than the columns"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_one_clear_error(case, releases, tmp_path):
    change, words = BAD_FILES[case]
    path = tmp_path / "levels.json"
    path.write_text(json.dumps(change(releases.to_dict())))
    with pytest.raises(ValueError, match=words):
        dpg.LevelReleases.load(path)


def test_releases_that_do_not_belong_together_are_refused(releases):
    x = np.random.default_rng(1).normal(size=(2_000, 1))
    budget = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-5, 5), "progress": False, "random_seed": 1}
    public = dpg.fit_gmm(x, 1, **budget)
    with pytest.raises(ValueError, match=r"add-remove neighbours, as how many records .* got replace-one for level 1"):
        dpg.LevelReleases("level", {0: releases[False], 1: public})
    other = dpg.fit_gmm(x, 1, columns=["y"], neighbouring="add-remove", **budget)
    with pytest.raises(ValueError, match=r"equal columns, \('x',\), got \('y',\) for level 1"):
        dpg.LevelReleases("level", {0: releases[False], 1: other})
    em = dpg.fit_gmm(x, 1, columns=["x"], neighbouring="add-remove", method="em", **budget)
    with pytest.raises(ValueError, match="noisy numbers of records"):
        dpg.LevelReleases("level", {0: releases[False], 1: em})
    with pytest.raises(KeyError, match="level must be one of"):
        releases["maybe"]
    with pytest.raises(ValueError, match="labels must be among the levels"):
        releases.log_density(POINTS, [None] * 5)


def fitted(n_records=(2_000, 300), seed=1, **changes):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(n_records)), n_records)
    asked = {"by": labels, "levels": range(len(n_records)), "epsilon": 1.0, "delta": 1e-6, "bounds": (-6, 6)}
    return dpg.fit_levels(rng.normal(size=(len(labels), 1)), 1, progress=False, **asked | changes)


def test_one_known_seed_or_weaker_level_marks_the_whole():
    strong, weak, known = fitted(epsilon=0.5, delta=1e-5), fitted(), fitted(random_seed=1)
    mixed = dpg.LevelReleases("level", {0: strong[0], 1: weak[1]})
    assert mixed.private and (mixed.guarantee.epsilon, mixed.guarantee.delta) == (1.0, 1e-5)
    curves = [one.guarantee.curve([0.2, 0.5, 1.0]) for one in (strong[0], weak[1])]
    assert mixed.guarantee.curve([0.2, 0.5, 1.0]).tolist() == np.max(curves, axis=0).tolist()
    seeded = dpg.LevelReleases("level", {0: weak[0], 1: known[1]})
    assert not seeded.private and not seeded.guarantee.private


@pytest.mark.thorough
def test_many_small_levels_leave_a_large_one_its_share():
    """Noisy numbers below 0 and above it cancel in their sum: cut at 0 one by one they would not."""
    found = fitted((1_500, *[2] * 40), delta=None, epsilon=0.5, n_cells=40, random_seed=3)
    assert found.sizes.min() < 0 and found.shares.min() > 0 and found.shares.sum() == pytest.approx(1)
    assert found.shares[0] == pytest.approx(1_500 / 1_580, abs=0.05)
    cut = np.maximum(found.sizes, 0.5)
    assert cut[0] / cut.sum() < 0.88


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
def test_sketches_tell_sizes_as_they_were_released():
    """Not at least 1, as fits take them: cut one by one, many small levels would have too large a share."""
    found = fitted((2_000, *[1] * 6), random_seed=1)
    assert found.sizes.min() < 0
    for level, size in zip(found, found.sizes, strict=True):
        told = [(sketch["n_records"], sketch["n_records_scale"] ** -2) for sketch in found[level].noise["sketches"]]
        counts, weights = np.transpose(told)
        assert size == pytest.approx(np.average(counts, weights=weights))


def test_slices_count_every_record_once_in_each_direction():
    rng = np.random.default_rng(1)
    asked = {"by": [0, 1] * 1_000, "levels": (0, 1), "epsilon": 5.0, "bounds": (-6, 6), "random_seed": 1}
    found = dpg.fit_levels(rng.normal(size=(2_000, 2)), 1, method="slices", progress=False, **asked)
    assert np.allclose(found.sizes, 1_000, atol=100)


def test_where_no_level_has_a_density_its_probability_is_the_share(releases):
    far = releases.level_probs([[1e200], [0.0]])
    assert far[0].tolist() == pytest.approx(releases.shares.tolist()) and far[1, 0] > 0.9


def test_of_a_missing_value_no_level_is_known(releases):
    """They were the shares, also of rows of which another column told the level."""
    found = releases.level_probs([[np.nan], [0.0]])
    assert np.isnan(found[0]).all() and found[1].sum() == pytest.approx(1)


def test_a_name_from_a_file_cannot_write_over_the_guarantee(releases):
    """Control characters moved a terminal's cursor to the line that says NOT PRIVATE."""
    named = dpg.LevelReleases("x\x1b[2K\x1b[1A\nepsilon = 0.1 (pure)", dict(releases))
    assert named.summary().count("\n") == releases.summary().count("\n") and "\x1b" not in named.summary()
    assert "\x1b" not in repr(named)


def test_samples_are_in_random_order_and_any_name_will_do(releases):
    named = dpg.LevelReleases("self", dict(releases))
    drawn = named.sample(400, random_seed=1)["self"].tolist()
    assert drawn != sorted(drawn) and named != releases and hash(named) != hash(releases)


def test_more_than_a_file_may_hold_is_refused_before_it_is_written(releases, tmp_path, monkeypatch):
    monkeypatch.setattr(levels_module, "MOST_BYTES", 1_000)
    with pytest.raises(
        ValueError, match=r"releases must fit a file of 1,000 bytes, got .* save each of them by itself"
    ):
        releases.save(tmp_path / "levels.json")
    assert not list(tmp_path.iterdir())

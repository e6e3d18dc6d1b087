"""Method "gaps": components far apart and of many scales, refusals, blocks, files, and what may be asked of it."""

import contextlib
import json
from dataclasses import replace

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms.gap_histogram import GapCounts, noisy_gap_counts
from pm_dpgmm.methods.gaps.bin_fit import Bins, bin_moments, masses
from pm_dpgmm.methods.gaps.groups import MOST_CELLS, bin_edges, groups_of, most_counted
from pm_dpgmm.methods.gaps.method import GapsMethod, blocks, within_reach
from pm_dpgmm.methods.gaps.statistics import MOST_EDGES
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.mixture.scheffe_sets import Lines, scheffe_sets
from pm_dpgmm.privacy.guarantee import Neighbouring

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "method": "gaps", "progress": False}
FAR = Mixture([0.4, 0.6], [[-1e9], [3.0]], [[[1e-6]], [[1e6]]])


def variation(truth, found):
    sets = scheffe_sets(Lines.of([truth]), Lines.of([found]))
    return float(sets.own[0] - sets.other[0])


@pytest.fixture(scope="module")
def release():
    X = FAR.sample(12_000, rng=np.random.default_rng(1))
    return dpg.fit_gmm(X, 2, random_seed=1, n_candidates=40, **BUDGET)


def test_components_far_apart_of_many_scales_are_found_without_bounds(release):
    assert variation(FAR, release.mixture) < 0.1
    assert not release.warnings and release.guarantee.delta == 1e-6
    assert {"gap_exponents", "gap_places", "gap_counts", "edges", "counts", "chosen"} == set(release.raw)


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
def test_components_within_a_bin_have_no_measured_width():
    """Two with deviations of .02 beside one of 3: the bins are .15 wide, and .25 nats a record went without a word."""
    truth = Mixture([1 / 3] * 3, [[0.0], [0.5], [0.0]], [[[4e-4]], [[4e-4]], [[9.0]]])
    X = truth.sample(20_000, rng=np.random.default_rng(1))
    found = dpg.fit_gmm(X, 3, random_seed=1, n_candidates=40, **BUDGET)
    told = [text for text in found.warnings if "some widths were not measured" in text]
    narrow = np.flatnonzero(found.covariances[:, 0, 0] < 1)
    assert len(told) == 1 and narrow.tolist() == [0, 2] and ", component 0 could be 3 times narrower" in told[0]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_random_far_mixtures(seed):
    """Total variation of at most .1, as in 89 of 90 runs of verification/benchmarks/far_and_wide.py beside it."""
    from verification.benchmarks.far_and_wide import random_case, run

    assert run("random", random_case(seed), "gaps", seed).variation <= 0.1


def test_it_is_saved_loaded_described_and_resumed(release, tmp_path):
    again = dpg.load(release.save(tmp_path / "r.json"))
    assert again.to_dict() == release.to_dict() and "gaps" in release.summary()
    assert release.card(tmp_path / "card.md").exists()
    checkpoint = dpg.Checkpoint(
        method="gaps",
        settings=release.settings,
        n_components=(2,),
        feature_names=release.feature_names,
        n_records=release.n_records,
        private=False,
        guarantee=release.guarantee,
        raw=dict(release.raw),
        noise={name: value for name, value in release.noise.items() if name != "caveats"},
    )
    np.testing.assert_array_equal(dpg.resume(checkpoint).means, release.means)
    early = replace(checkpoint, raw={name: v for name, v in release.raw.items() if name != "chosen"})
    assert variation(FAR, dpg.resume(early).mixture) < 0.1
    assert dpg.resume(checkpoint, 1).n_components == 1
    with pytest.raises(ValueError, match="must have edges, got none"):
        dpg.resume(replace(checkpoint, raw={name: v for name, v in release.raw.items() if name.startswith("gap")}))


@pytest.mark.parametrize(
    "part, value, words",
    [
        ("edges", [1.0, 0.0], "edges must increase"),
        ("counts", [1.0, 2.0], "counts must"),
        ("gap_counts", [-1.0], "gap_counts must be"),
        ("gap_places", [0.5], "gap_places must"),
        ("gap_exponents", [1e9], "gap_exponents must"),
    ],
)
def test_files_from_anywhere_are_checked(part, value, words, release, tmp_path):
    fields = json.loads(release.save(tmp_path / "r.json").read_text())
    fields["raw"][part] = value
    (tmp_path / "odd.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=words):
        dpg.load(tmp_path / "odd.json")


def test_a_column_without_gaps_is_refused_and_the_refusal_says_what_it_cost():
    with pytest.raises(dpg.Unstable, match="refused: no size and place of the gaps") as refusal:
        dpg.fit_gmm(np.repeat(np.arange(10.0), 500)[:, None], 2, **BUDGET)
    assert refusal.value.guarantee.epsilon == 1.0 and refusal.value.guarantee.private


def test_records_at_the_ends_of_the_floats_do_no_harm():
    X = np.concatenate([np.random.default_rng(3).normal(size=4_000), [1e308, -1e308, 5e-324, 0.0]])[:, None]
    found = dpg.fit_gmm(X, 1, random_seed=1, n_candidates=5, **BUDGET)
    assert abs(found.means[0, 0]) < 0.2 and 0.8 < found.covariances[0, 0, 0] < 1.3


@pytest.mark.parametrize("scale", [1e-300, 1e-305, 1e-310])
def test_records_too_small_for_variances_end_in_a_refusal_that_says_what_it_cost(scale):
    rng = np.random.default_rng(1)
    X = scale * np.concatenate([rng.normal(size=4_000), rng.normal(20.0, 1.0, 4_000)])[:, None]
    with pytest.raises(dpg.Unstable, match="refused: no size and place of the gaps") as refusal:
        dpg.fit_gmm(X, 2, random_seed=1, n_candidates=5, **BUDGET)
    assert refusal.value.guarantee.epsilon == 1.0


@pytest.mark.parametrize("scale, place", [(1e-98, 0.0), (1e-101, 0.0), (1e-112, 1e-99), (1e98, 0.0), (1e102, 0.0)])
def test_components_at_both_ends_of_what_counts_are_valid(scale, place):
    """Whatever has been spent for ends in a mixture or a refusal."""
    rng = np.random.default_rng(1)
    X = place + scale * np.concatenate([rng.normal(size=4_000), rng.normal(20.0, 1.0, 4_000)])[:, None]
    with contextlib.suppress(dpg.Unstable):
        found = dpg.fit_gmm(X, 2, random_seed=1, n_candidates=5, **BUDGET)
        assert (found.covariances > 0).all()


def test_every_record_is_brought_within_reach_by_itself():
    column = np.array([1e308, -1e101, 1e100, 3.0, 1e-100, np.nextafter(1e-100, 0), -1e-101, -5e-324, -0.0])
    expected = [1e100, -1e100, 1e100, 3.0, 1e-100, 0.0, 0.0, 0.0, 0.0]
    assert within_reach(column).tolist() == expected
    assert [within_reach(column[i : i + 1])[0] for i in range(9)] == expected


def test_add_remove_needs_a_guess_and_keeps_the_number_of_records(tmp_path):
    X = np.random.default_rng(4).normal(size=5_000)[:, None]
    found = dpg.fit_gmm(X, 1, neighbouring="add-remove", assumed_records=4_000, random_seed=1, n_candidates=5, **BUDGET)
    assert found.n_records is None and found.noise["bin_records"] is None and abs(found.means[0, 0]) < 0.2
    with pytest.raises(ValueError, match="assumed_records must be given"):
        dpg.fit_gmm(X, 1, neighbouring="add-remove", **BUDGET)
    with pytest.raises(ValueError, match=r"assumed_records must be at least 335 for method 'gaps'.* got 50$"):
        dpg.fit_gmm(X, 1, neighbouring="add-remove", assumed_records=50, **BUDGET)


def test_replace_one_blocks_have_public_sizes_and_values_do_not_move_places():
    column = np.arange(1_000.0)
    first = blocks(column, (0.4, 0.2), Neighbouring.REPLACE_ONE, rng=np.random.default_rng(1))
    assert [len(part) for part in first] == [400, 400, 200] and set(np.concatenate(first)) == set(column)
    column[7] = -5.0
    second = blocks(column, (0.4, 0.2), Neighbouring.REPLACE_ONE, rng=np.random.default_rng(1))
    moved = [(a != b).sum() for a, b in zip(first, second, strict=True)]
    assert sorted(moved) == [0, 0, 1]


def test_add_remove_blocks_draw_every_record_by_itself():
    column = np.arange(2_000.0)
    shares = (0.25, 0.25)
    first = blocks(column, shares, Neighbouring.ADD_REMOVE, rng=np.random.default_rng(1))
    second = blocks(column[:-1], shares, Neighbouring.ADD_REMOVE, rng=np.random.default_rng(1))
    assert sum(len(set(a) ^ set(b)) for a, b in zip(first, second, strict=True)) == 1
    assert abs(len(first[0]) - 500) < 100


def test_noise_that_is_drawn_once_in_a_million_tries_is_refused_before_the_charge():
    column = np.random.default_rng(1).normal(size=(5_000, 1))
    with pytest.raises(ValueError, match=r"delta must be small enough beside epsilon \(1e-07\) .*, got 0.1"):
        dpg.fit_gmm(column, 1, epsilon=1e-7, delta=0.1, method="gaps")


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"first_share": 0.9, "last_share": 0.2}, "must be at least 0.01 and leave"),
        ({"first_share": 1.2}, "first_share must"),
        ({"n_candidates": 2_001}, "n_candidates must be"),
        ({"accuracy": 0.0}, "accuracy must"),
        ({"assumed_records": 0}, "assumed_records must"),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(ValueError, match=words):
        GapsMethod(**settings)


def test_groups_tell_the_place_and_scale_of_a_component():
    records = np.random.default_rng(5).normal(1e6, 0.01, 2_000)
    budget = {"epsilon": 1.0, "delta": 1e-6, "neighbouring": Neighbouring.REPLACE_ONE}
    found, _ = noisy_gap_counts(records, cell_bits=13, rng=np.random.default_rng(6), **budget)
    group = groups_of(found)[0]
    assert 0.004 < group.scale < 0.016 and group.low < 1e6 < group.high
    edges = bin_edges(groups_of(found))
    assert (np.diff(edges) > 0).all() and edges[0] < 1e6 - 1e3


@pytest.mark.thorough
def test_more_cells_than_a_release_may_hold_are_cut_to_the_largest():
    counts = np.random.default_rng(1).integers(80, 9_000, 5_000)
    found = most_counted(GapCounts(np.arange(5_000) % 50, np.arange(5_000.0) * 9, counts, 4))
    assert len(found.counts) == MOST_CELLS and found.counts.min() >= np.sort(counts)[5_000 - MOST_CELLS]
    assert len(bin_edges(groups_of(found))) <= MOST_EDGES


def test_masses_and_moments_of_bins_are_those_of_the_normal_law():
    edges = np.array([-3.0, -1.0, -1.0 + 1e-6, 0.5, 4.0])
    mass, ends = masses(Bins(edges, np.zeros(6), 1.0), np.array([[0.2]]), np.array([[0.7]]))
    first, second = bin_moments(mass, ends)
    assert mass.sum() == pytest.approx(1.0, abs=1e-14)
    assert (mass * first).sum() == pytest.approx(0.0, abs=1e-10)
    assert (mass * second).sum() == pytest.approx(1.0, abs=1e-9)

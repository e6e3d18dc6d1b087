"""Groups that cells count and no component stands for: found where the waves agree, told where they do not."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm.methods.sketch.checks.counted_groups import groups_without_component, with_counted_groups
from pm_dpgmm.methods.sketch.checks.finish import finish
from pm_dpgmm.methods.sketch.checks.places import counted_cells
from pm_dpgmm.methods.sketch.estimate import SketchFit, sketch_data
from pm_dpgmm.methods.sketch.search.dictionary import Dictionary
from pm_dpgmm.methods.sketch.search.matched_filter import PlaceGrid
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from tests.builders.sketch_evidence import N_RECORDS, NOISE, round_components, sketch_of

D = 3
UNIT, BOUNDS = np.full(D, 100.0), np.tile([[-100.0, 100.0]], (D, 1))
WEIGHTS, FAR = np.array([0.49, 0.49, 0.02]), 80.0


def evidence_of(means, weights=WEIGHTS, *, noise=NOISE, seed=0):
    """A noisy sketch of the mixture, its waves turned to the components near 0."""
    truth, near = round_components(weights, means, UNIT), round_components([0.5, 0.5], [0, 5], UNIT)
    sketch = sketch_of(truth, near, UNIT, noise=noise, seed=seed)
    return SketchStatistics((sketch,), UNIT, bounds=BOUNDS)


def raw_cells(means, weights=WEIGHTS, *, noise=30.0, seed=0):
    """Counts of all columns, as a release has them."""
    rng, edges = np.random.default_rng(seed), np.linspace(-100.0, 100.0, 17)
    shares = np.diff(stats.norm.cdf(edges[:, None], means, 1.0), axis=0) @ weights
    rows = [[j, -100.0, 100.0, *(N_RECORDS * shares + rng.normal(0, noise, 16))] for j in range(D)]
    return {"cells_0": np.array(rows), "cell_noise": np.array([noise])}


def cells_of(*given, **settings):
    """The same, as the fits read them."""
    return counted_cells(raw_cells(*given, **settings), BOUNDS)


def fit_with(evidence, means, weights=WEIGHTS):
    data = sketch_data(evidence)
    return SketchFit.of(data, round_components(weights, means, UNIT))


def test_a_group_that_was_counted_gets_the_component_that_is_missed_least():
    evidence = evidence_of([0, 5, FAR])
    fit, cells = fit_with(evidence, [0, 5, 12]), cells_of([0, 5, FAR])
    assert (
        "about 2% from 75 to 87.5 in column 0, where the mixture has 0%"
        in groups_without_component(fit, evidence, cells)[0]
    )
    found = with_counted_groups(fit, evidence, cells)
    assert np.sort(found.mixture.means, axis=0) == pytest.approx(np.tile([[0.0], [5.0], [FAR]], (1, D)), abs=0.5)
    assert groups_without_component(found, evidence, cells) == []


def test_cells_that_only_may_hold_a_group_are_looked_at_beside_those_where_most_records_lie():
    """Noise of a quarter of the group, and in the last column no count of it: 8 of 10 are found, seeded."""
    found = 0
    for seed in range(10):
        evidence = evidence_of([0, 5, FAR], seed=seed)
        cells = cells_of([0, 5, FAR], noise=50.0, seed=seed)
        means = with_counted_groups(fit_with(evidence, [0, 5, 12]), evidence, cells).mixture.means
        found += np.abs(means - FAR).max(axis=1).min() < 1.0
    assert found >= 8


def test_nothing_is_looked_for_where_cells_only_may_hold_a_group(monkeypatch):
    """An excess of 2 to 4 deviations in every column."""
    evidence, raw = evidence_of([0, 5, FAR]), raw_cells([0, 5], np.full(2, 0.5), noise=1e-6)
    raw["cells_0"][:, 3 + 15] += 300.0  # the last cell of each column
    fit = fit_with(evidence, [0, 5, 12])
    monkeypatch.setattr(PlaceGrid, "over", None)
    for noise, looked_for in ((100.0, False), (30.0, True)):
        cells = counted_cells(raw | {"cell_noise": np.array([noise])}, BOUNDS)
        with pytest.raises(TypeError) if looked_for else nullcontext():
            assert with_counted_groups(fit, evidence, cells) is fit


def test_nothing_moves_to_a_place_that_explains_no_more(monkeypatch):
    evidence = evidence_of([0, 5, FAR])
    fit, cells = fit_with(evidence, [0, 5, 12]), cells_of([0, 5, FAR])
    wrong = Dictionary.of(fit.data, np.full((1, D), -FAR / 100), np.eye(D)[None] / 100)
    monkeypatch.setattr(PlaceGrid, "places", lambda *given: wrong)
    assert with_counted_groups(fit, evidence, cells) is fit


def test_every_fit_ends_with_a_component_for_a_group_or_with_words():
    evidence = evidence_of([0, 5, FAR])
    found, _, told = finish(fit_with(evidence, [0, 5, 12]), evidence, raw_cells([0, 5, FAR]), 3)
    assert found.mixture.means.max(axis=0) == pytest.approx(FAR, abs=0.5)
    assert not [text for text in told["caveats"] if "no component is" in text]
    evidence = evidence_of([0, 5], np.full(2, 0.5))
    _, _, told = finish(fit_with(evidence, [0, 5, 12]), evidence, raw_cells([0, 5, FAR]), 3)
    assert [text for text in told["caveats"] if "no component is" in text]


def test_a_group_that_waves_deny_is_told_and_nothing_moves():
    """A group too broad for the waves: they were turned to narrow components."""
    evidence = evidence_of([0, 5], np.full(2, 0.5))
    fit, cells = fit_with(evidence, [0, 5, 12]), cells_of([0, 5, FAR])
    assert with_counted_groups(fit, evidence, cells) is fit
    assert groups_without_component(fit, evidence, cells)[0].startswith("records were counted where no component is")


def test_without_counts_and_with_nothing_to_drop_the_fit_is_the_same():
    evidence = evidence_of([0, 5, FAR])
    fit = fit_with(evidence, [0, 5, 12])
    assert with_counted_groups(fit, evidence, []) is fit and groups_without_component(fit, evidence, []) == []
    one = fit_with(evidence, [0], np.ones(1))
    assert with_counted_groups(one, evidence, cells_of([0, 5, FAR])) is one


def test_groups_beyond_the_interval_are_told_elsewhere():
    evidence = evidence_of([0, 5, FAR])
    fit, cells = fit_with(evidence, [0, 5, 12]), cells_of([0, 5, FAR])
    narrow = replace(evidence, unit=np.full(D, 50.0))
    assert groups_without_component(fit, evidence, cells) and not groups_without_component(fit, narrow, cells)


def test_no_group_lies_across_a_cell_that_the_mixture_has():
    """The excess of both neighbours of a full cell was one group, with all of the full cell's records."""
    evidence = evidence_of([0, 5, FAR])
    counts = np.zeros(16)
    counts[[7, 8, 9]] = 150.0, N_RECORDS, 150.0  # 0 and 5 lie in the cells from -12.5 and 0
    raw = {"cells_0": np.array([[0.0, -100.0, 100.0, *counts]]), "cell_noise": np.array([50.0])}
    fit = fit_with(evidence, [5], np.ones(1))
    assert groups_without_component(fit, evidence, counted_cells(raw, BOUNDS)) == []


def test_right_mixtures_are_hardly_ever_said_to_lack_a_component():
    """Seeded, of 500 none; the bound is 4e-4 a column. Nor is anything moved in 50."""
    evidence = evidence_of([0, 5, FAR])
    fit = fit_with(evidence, [0, 5, FAR])
    counts = [cells_of([0, 5, FAR], noise=40.0, seed=seed) for seed in range(500)]
    assert not any(groups_without_component(fit, evidence, cells) for cells in counts)
    assert all(with_counted_groups(fit, evidence, cells) is fit for cells in counts[:50])


def small_group(seed, d, width, far):
    """A release of 10,000 records, 2 % of them far from the rest, and whether a component stands for these."""
    rng = np.random.default_rng(seed)
    means = rng.choice([0.0, 5.0, far], 10_000, p=WEIGHTS)
    records = means[:, None] + rng.normal(size=(10_000, d))
    release = dpg.fit_gmm(records, 3, epsilon=1.0, delta=1e-6, bounds=(-width, width), random_seed=seed, progress=False)
    return release, np.abs(release.means - far).max(axis=1).min() < 1.0


@pytest.mark.thorough
def test_whole_fits_in_two_columns_have_a_component_for_a_small_group_far_away():
    """Seeded; before every place was looked at it was in none, in silence, or said to be maybe noise."""
    for seed in range(2):
        release, found = small_group(seed, 2, 1_000, 800)
        assert found and release.warnings == ()
        again, found = (item.means[np.argsort(item.means[:, 0])] for item in (release.refit(3), release))
        assert again == pytest.approx(found, rel=1e-4, abs=1e-4)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning", "ignore::pm_dpgmm.ComponentWarning")
def test_whole_fits_in_four_columns_have_one_or_say_that_none_is_there():
    """Seeded, 20 fits in bounds of 100: of fits before none had one, and none said so."""
    right, told = 0, 0
    for seed in range(20):
        release, found = small_group(seed, 4, 50, 30)
        right += found
        told += not found and any("no component is" in text for text in release.warnings)
    assert right >= 15 and right + told >= 18

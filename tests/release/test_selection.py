"""Numbers of components from released numbers: what is chosen, and that nothing but a file is needed."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms import sketch
from pm_dpgmm.methods.sketch.choice import choose, n_free, price_of, score
from pm_dpgmm.methods.sketch.statistics import SketchStatistics

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # poor fits on purpose

LINE = dpg.Mixture([0.15, 0.35, 0.5], [[17.0], [30.0], [50.0]], [[[9.0]], [[16.0]], [[25.0]]])
PLANE = dpg.Mixture([0.3, 0.3, 0.4], [[0.0, 0.0], [5.0, 1.0], [1.0, 6.0]], [np.eye(2)] * 3)
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "progress": False, "random_seed": 1}


def records_of(truth, n, seed=0):
    return truth.sample(n, rng=np.random.default_rng(seed))


@pytest.fixture(scope="module")
def line():
    return dpg.fit_gmm(records_of(LINE, 4_000), 2, bounds=(0, 80), **BUDGET)


@pytest.fixture(scope="module")
def plane():
    return dpg.fit_gmm(records_of(PLANE, 8_000), 4, bounds=(-5, 11), **BUDGET)


def loss(release, truth):
    fresh = records_of(truth, 10_000, seed=9)
    return float(np.mean(truth.log_density(fresh) - release.log_density(fresh)))


@pytest.mark.thorough
@pytest.mark.parametrize("name, truth", [("line", LINE), ("plane", PLANE)])
def test_a_stored_release_is_refitted_with_another_number(name, truth, request, tmp_path):
    release = request.getfixturevalue(name)
    again = dpg.load(release.save(tmp_path / "release.json"))
    assert loss(release, truth) > 0.02 or release.n_components > 3
    found = again.refit(3)
    assert found.n_components == 3 and loss(found, truth) < 0.02
    assert found.guarantee == release.guarantee and found.n_records == release.n_records
    assert all(np.array_equal(found.raw[key], release.raw[key]) for key in release.raw)
    assert abs(found.noise["misfit"]) < 5 and not found.noise["flagged"]
    assert np.array_equal(found.means, release.refit(3).means)  # to the last bit
    assert found.refit(3).means == pytest.approx(found.means, abs=1e-2)


def test_a_deep_copy_is_the_release_itself(line):
    assert copy.deepcopy({"like": line})["like"] is line  # scikit-learn copies parameters


@pytest.mark.thorough
def test_select_k_finds_the_true_number_and_says_why(line, plane, tmp_path):
    import matplotlib

    matplotlib.use("Agg")
    for release in (line, plane):
        found = dpg.load(release.save(tmp_path / "release.json")).select_k(range(1, 5))
        assert isinstance(found, dpg.KSelection) and found.chosen == 3
        assert found.release is found.releases[2] and found.release.n_components == 3
        assert [item.n_components for item in found.releases] == list(found.n_components) == [1, 2, 3, 4]
        assert found.scores[2] == min(found.scores) and found.misfits[1] > 5 > found.misfits[2]
        assert "<- chosen" in repr(found) and "NOT PRIVATE" in repr(found)
        assert json.loads(json.dumps(found.as_dict()))["chosen"] == 3
        assert found.release.noise["k_scores"]["n_components"] == [1, 2, 3, 4]
        assert (
            dpg.load(found.release.save(tmp_path / "chosen.json")).noise["k_scores"] == found.release.noise["k_scores"]
        )
        axes = found.plot()
        assert axes.get_xlabel() == "components" and found.plot(ax=axes) is axes
        matplotlib.pyplot.close("all")
    assert found.release.refit(1).noise.get("k_scores") is None


@pytest.mark.thorough
def test_the_price_of_a_parameter(line):
    evidence = SketchStatistics.from_arrays(line.raw, line.noise)
    assert price_of("aic", evidence) == 2 and price_of(3.5, evidence) == 3.5
    assert price_of("bic", evidence) == pytest.approx(np.log(evidence.sketches[0].values.size))
    one = choose(evidence, [2])
    assert np.isnan(one.scores[0])  # nothing to compare
    fit = one.best
    assert score(fit, price=7.0) - score(fit, price=2.0) == pytest.approx(5.0 * n_free(fit))
    assert n_free(fit) == 5
    assert line.select_k([3, 1], penalty=1e6).chosen == 1 and line.select_k([3, 1]).n_components == (1, 3)


@pytest.mark.parametrize(
    "numbers, kind, words",
    [
        ([], ValueError, "n_components must hold 1 to 64 numbers, got none"),
        (range(1, 100), ValueError, "n_components must hold 1 to 64 numbers, got more"),
        ([2, 2], ValueError, "n_components must hold distinct numbers, got \\[2, 2\\]"),
        ([0, 1], ValueError, "n_components must be at least 1, got 0"),
        ([1, 2.0], TypeError, "n_components must be an integer, got 2.0"),
        ("123", TypeError, "n_components must be an integer, got '123'"),
        ({1: 2}, TypeError, "n_components must be an integer"),
    ],
)
def test_bad_numbers_of_components(numbers, kind, words, line, monkeypatch):
    monkeypatch.setattr(sketch, "discrete_gaussian", lambda *a, **k: pytest.fail("spent"))
    with pytest.raises(kind, match=words):
        dpg.fit_gmm(records_of(LINE, 100), numbers, bounds=(0, 80), **BUDGET)
    with pytest.raises(kind, match=words):
        line.select_k(numbers)


def test_numbers_of_components_that_would_take_hours_are_refused_as_by_a_fit(line, plane):
    for release in (line, plane):
        with pytest.raises(ValueError, match="n_components must be at most"):
            release.refit(500)
        with pytest.raises(ValueError, match="n_components must be at most"):
            release.select_k([2, 500])
        with pytest.raises(ValueError, match="n_components must add up to at most 256" if release is plane else "must"):
            release.select_k(range(1, 30))


def test_more_components_than_rows_and_other_methods_are_refused(tmp_path):
    with pytest.raises(ValueError, match="at least n_components = 7 rows, got 5"):
        dpg.fit_gmm(records_of(LINE, 5), [2, 7], bounds=(0, 80), **BUDGET)
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5)
    settings = {"epsilon": 1.0, "bounds": (0, 80), "progress": False, "ledger": ledger}
    for method in ("histogram", "auto"):
        with pytest.raises(ValueError, match="n_components must be an integer with method 'histogram'"):
            dpg.fit_gmm(records_of(LINE, 500), range(1, 4), method=method, **settings)
    assert ledger.spent == (0.0, 0.0)
    release = dpg.fit_gmm(records_of(LINE, 500), [2], **settings)  # one number is that number
    assert release.n_components == 2 and "k_scores" not in release.noise
    other = replace(release, method="populous")
    with pytest.raises(
        ValueError, match="refit needs a release of method 'sketch', 'two-phase', 'histogram' or 'local'"
    ):
        other.refit(2)
    with pytest.raises(
        ValueError, match="select_k needs a release of method 'sketch', 'two-phase', 'histogram' or 'local'"
    ):
        other.select_k()


@pytest.mark.parametrize("penalty, kind", [("cic", ValueError), (0, ValueError), (None, TypeError)])
def test_bad_penalties(penalty, kind, line):
    with pytest.raises(kind, match="penalty must be"):
        line.select_k([1, 2], penalty=penalty)


@pytest.mark.thorough
def test_fit_gmm_chooses_and_stores_its_scores():
    release = dpg.fit_gmm(records_of(PLANE, 8_000), [4, 3, 2], bounds=(-5, 11), **BUDGET)
    assert release.n_components == 3 and loss(release, PLANE) < 0.02
    table = release.noise["k_scores"]
    assert table["n_components"] == [2, 3, 4] and np.argmin(table["score"]) == 1
    assert table["misfit"][1] == release.noise["misfit"]
    line = dpg.PrivateGaussianMixture(range(1, 5), epsilon=1.0, delta=1e-6, bounds=(0, 80), random_state=2)
    assert line.fit(records_of(LINE, 4_000)).release_.n_components == 3 and line.means_.shape == (3, 1)


@pytest.mark.thorough
@pytest.mark.parametrize("randomiser", ["one-bit", "k-ary"])
def test_local_responses_choose_at_no_cost(randomiser):
    """Of two well separated components; 20,000 people tell them from one by a score of hundreds."""
    truth = dpg.Mixture([0.4, 0.6], [[-2.0], [2.0]], [[[0.5]], [[0.7]]])
    release = dpg.fit_gmm(
        records_of(truth, 20_000),
        1,
        epsilon=1.0,
        bounds=(-6, 6),
        method="local",
        randomiser=randomiser,
        random_seed=1,
        progress=False,
    )
    found = release.select_k([1, 2, 3])
    assert found.chosen == 2 and found.scores[0] > found.scores[1] + 50
    assert found.misfits[0] > 5 > found.misfits[1]
    again = release.refit(2)
    assert np.array_equal(again.means, found.release.means) and again.guarantee is release.guarantee
    assert again.noise["caveats"] == found.release.noise["caveats"] != release.noise["caveats"]
    assert release.refit(1) is release
    with pytest.raises(ValueError, match="n_components must be at most"):
        release.refit(1000)

"""``covariance_type`` of method "sketch": what it restricts, what it is chosen by, and what keeps it."""

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms.frequencies import RieszProduct
from pm_dpgmm.mechanisms.sketch import NoisySketch
from pm_dpgmm.methods.sketch.choice import STRONG
from pm_dpgmm.methods.sketch.covariance_types import KINDS, Flat, restricted
from pm_dpgmm.methods.sketch.estimate import prior_about
from pm_dpgmm.methods.sketch.fit import _slopes, _unpacked, error_root, objective_rises, refined, surprise
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture, packed
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from verification.benchmarks.covariance_types import truth

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # poor fits on purpose

BUDGET = {"epsilon": 4.0, "delta": 1e-6, "bounds": (-10.0, 10.0), "progress": False}
UNIT = np.array([1.0, 3.0])
TRUTH = dpg.Mixture([0.4, 0.6], [[-3.0, 0.0], [3.0, 1.0]], [[[1.0, 0.7], [0.7, 1.5]]] * 2)
FREE = {"full": 2 + 4 + 6, "tied": 2 + 4 + 3, "diag": 2 + 4 + 4, "spherical": 2 + 4 + 2}


def has_kind(covariances, kind):
    """Whether covariances (K, D, D) in the unit of the records are of a kind, to rounding."""
    diagonal = np.diagonal(covariances, axis1=1, axis2=2)
    if kind == "tied":
        return np.array_equal(covariances, np.broadcast_to(covariances[0], covariances.shape))
    if kind == "full":
        return True
    own = diagonal if kind == "diag" else np.broadcast_to(diagonal[:, :1], diagonal.shape)
    return np.allclose(covariances, own[:, :, None] * np.eye(diagonal.shape[1]), rtol=1e-9, atol=0)


def data_of(kind, seed=3, n_records=2000.0):
    """What a sketch of records from TRUTH is expected to be, with hardly any noise, in a unit that is not round."""
    frames = RieszProduct(0.3 * np.random.default_rng(seed).normal(size=(6, 3, 2)), np.zeros(2))
    sketch = NoisySketch(frames, np.zeros((2, frames.n_frequencies)), 3.0, n_records, 0.0)
    data = SketchData.of([sketch], UNIT)
    values = data.expected(ScaledMixture.about(TRUTH, np.zeros(2), UNIT))
    return SketchData(
        data.frequencies, data.amplitudes, values, data.variances, n_records, data.centre, UNIT, covariance_type=kind
    )


def some_mixture(seed=1):
    rng = np.random.default_rng(seed)
    factors = np.tril(rng.normal(size=(2, 2, 2)) ** 2 + 0.2)
    return ScaledMixture(np.array([0.4, 0.6]), rng.normal(size=(2, 2)), factors)


# ---------------------------------------------------------------------- restrictions
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_its_numbers_and_a_mixture_of_it_comes_back(kind):
    flat, found = Flat.of(kind, UNIT, 2, False), restricted(some_mixture(), kind, UNIT)
    assert flat.size == FREE[kind]
    theta = packed(found)
    np.testing.assert_allclose(flat.at(flat.reduced(theta)), theta, rtol=1e-12, atol=1e-12)
    assert has_kind(found.covariances * np.outer(UNIT, UNIT), kind)
    np.testing.assert_allclose(restricted(found, kind, UNIT).covariances, found.covariances, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_slopes_are_those_of_the_numbers_that_are_free(kind):
    data, found = data_of(kind), restricted(some_mixture(), kind, UNIT)
    phi = data.flat(2, False).reduced(packed(found))
    slopes = _slopes(data, phi, 2, None, False) * data.deviations[:, None]
    assert slopes.shape[1] == FREE[kind]
    for i in range(len(phi)):
        step = 1e-6 * (np.arange(len(phi)) == i)
        ends = [data.residuals(_unpacked(data, phi + sign * step, 2, False)) for sign in (1, -1)]
        np.testing.assert_allclose(slopes[:, i], (ends[0] - ends[1]) / 2e-6, atol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_fits_and_errors_stay_in_the_kind(kind):
    data, start = data_of(kind), ScaledMixture.about(TRUTH, np.zeros(2), UNIT)
    found = refined(data, start, prior_about(start))
    assert has_kind(found.covariances * np.outer(UNIT, UNIT), kind)
    root = error_root(data, found, prior_about(found))
    assert root.shape == (FREE["full"], FREE[kind])
    flat = data.flat(2, False)
    np.testing.assert_allclose(flat.steps(flat.means(root[:, 0])), root[:, 0], rtol=1e-9, atol=1e-12)
    assert (objective_rises(data, found, 0.1) > 16).all()  # widths were measured


def test_fewer_numbers_have_smaller_errors_where_the_restriction_is_right():
    """Of a tied covariance: both components tell it. Deterministic."""
    errors = {}
    for kind in ("full", "tied"):
        data, there = data_of(kind), ScaledMixture.about(TRUTH, np.zeros(2), UNIT)
        errors[kind] = np.square(error_root(data, there, prior_about(there))[6:9]).sum(axis=1)
    assert (errors["tied"] < 0.75 * errors["full"]).all()


def test_the_evidence_prefers_the_kind_of_the_truth():
    """Expected numbers, no noise: deterministic."""
    found = {}
    for kind in KINDS:
        data, start = data_of(kind), ScaledMixture.about(TRUTH, np.zeros(2), UNIT)
        fit = refined(data, start, prior_about(start))
        found[kind] = surprise(data, fit, prior_about(fit))
    assert min(found, key=found.__getitem__) == "tied"
    assert found["full"] < min(found["diag"], found["spherical"])


# ---------------------------------------------------------------------- a setting
@pytest.mark.parametrize("given", ["Full", "diagonal", "", None, 3, ["tied"]])
def test_what_is_no_kind_is_refused_by_name(given, tmp_path):
    ledger = dpg.Ledger(tmp_path / "ledger", epsilon=10.0, delta=1e-3)
    words = "covariance_type must be one of 'full', 'tied', 'diag', 'spherical', 'auto', got"
    with pytest.raises(ValueError, match=words):
        dpg.fit_gmm(TRUTH.sample(500, rng=np.random.default_rng(0)), 2, **BUDGET, ledger=ledger, covariance_type=given)
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("method", ["histogram", "slices", "populous-single", "gaps", "local", "central", "aggregate"])
def test_methods_that_fit_full_covariances_alone_refuse_the_setting(method):
    with pytest.raises(TypeError, match=f"settings of method '{method}' must be among .*, got .'covariance_type'.$"):
        dpg.fit_gmm(np.eye(500, 2), 2, **BUDGET, method=method, covariance_type="tied")


def fitted(seed=1, n=3000, k=2, **settings):
    records = TRUTH.sample(n, rng=np.random.default_rng(seed))
    return dpg.fit_gmm(records, k, **(BUDGET | {"random_seed": seed} | settings))


@pytest.fixture(scope="module")
def tied():
    return fitted(covariance_type="tied")


def test_a_release_says_what_its_covariances_are(tied, tmp_path):
    assert tied.covariance_type == "tied" and has_kind(tied.covariances, "tied")
    np.testing.assert_allclose(tied.covariances[0], TRUTH.covariances[0], atol=0.25)
    assert tied.settings["covariance_type"] == "tied" and "\nCovariances: tied\n" in tied.summary()
    loaded = dpg.load(tied.save(tmp_path / "release.json"))
    assert loaded.covariance_type == "tied"
    assert SketchStatistics.from_arrays(loaded.raw, loaded.noise).covariance_type == "tied"
    assert "covariance_type: tied" in tied.card(tmp_path / "card.md").read_text()


@pytest.mark.thorough
def test_draws_and_errors_are_of_the_kind(tied):
    assert all(has_kind(one.covariances, "tied") for one in tied.draws(5, random_seed=1))
    deviations = tied.standard_errors().standard_deviations
    np.testing.assert_allclose(deviations[0], deviations[1], rtol=1e-6)
    free = tied.refit(covariance_type="full").standard_errors().standard_deviations
    assert (deviations < free.max(axis=0)).all()


@pytest.mark.thorough
def test_a_refit_has_another_kind_at_no_cost(tied):
    for kind in ("full", "diag", "spherical"):
        other = tied.refit(covariance_type=kind)
        assert other.covariance_type == kind and has_kind(other.covariances, kind) and other.n_components == 2
        assert other.guarantee is tied.guarantee and other.log_density([[0.0, 0.0]]).shape == (1,)
    assert "covariance_type" not in tied.refit(covariance_type="full").noise
    assert tied.refit(1).covariance_type == "tied"
    with pytest.raises(ValueError, match="covariance_type must be one of"):
        tied.refit(covariance_type="diagonal")


@pytest.mark.thorough
def test_what_a_restriction_costs_is_told(tied):
    round_ = tied.refit(covariance_type="spherical")
    assert round_.misfit.contradiction and "release.refit(covariance_type='full')" in round_.flag


def test_other_releases_have_no_kinds_to_refit():
    release = dpg.fit_gmm(np.random.default_rng(1).normal(size=(500, 1)), 1, epsilon=1.0, bounds=(-5, 5))
    assert release.covariance_type == "full"
    with pytest.raises(ValueError, match="covariance_type must be None unless the release is of method 'sketch'"):
        release.refit(covariance_type="tied")


# ---------------------------------------------------------------------- chosen by the released numbers
@pytest.fixture(scope="module")
def chosen():
    return fitted(covariance_type="auto", k=(1, 2))


@pytest.mark.thorough
def test_the_choice_is_post_processing(chosen):
    """What is released, to the bit, is what is for "full"; every kind can be had of it later."""
    full = fitted(k=(1, 2))
    assert chosen.raw.keys() == full.raw.keys()
    for name, numbers in full.raw.items():
        np.testing.assert_array_equal(chosen.raw[name], numbers)
    assert chosen.covariance_type == "tied" and has_kind(chosen.covariances, "tied")
    assert chosen.settings["covariance_type"] == "auto" and full.covariance_type == "full"
    scores = chosen.noise["covariance_scores"]
    near = {kind: score for kind, score in scores.items() if score is not None}  # the others are out of the question
    assert set(scores) == set(KINDS) and min(near, key=near.__getitem__) == "tied" and "full" in near
    assert chosen.noise["k_scores"]["n_components"] == [1, 2]
    assert "Covariances: tied, chosen by the released numbers" in chosen.summary()
    again = full.refit(2, covariance_type="auto")
    assert again.covariance_type == "tied" and set(again.noise["covariance_scores"]) == set(KINDS)
    assert "covariance_scores" not in again.refit(covariance_type="full").noise
    assert dpg.combine([full, fitted(2, like=full)], covariance_type="tied").covariance_type == "tied"


@pytest.mark.thorough
def test_weak_evidence_leaves_covariances_full():
    """A table of full covariances whose numbers speak for diagonal ones, by less than would be strong evidence."""
    rng = np.random.default_rng([20261123, 0, 3, 2, 1_500, 1])
    law = truth("full", 3, 2, rng)
    reach = 4 * np.sqrt(np.diagonal(law.covariances, axis1=1, axis2=2))
    bounds = np.column_stack([(law.means - reach).min(axis=0), (law.means + reach).max(axis=0)])
    budget = BUDGET | {"epsilon": 1.0, "bounds": bounds}
    release = dpg.fit_gmm(law.sample(1_500, rng=rng), 2, **budget, covariance_type="auto", random_seed=1)
    scores = release.noise["covariance_scores"]
    assert 0 < scores["full"] - scores["diag"] <= STRONG and release.covariance_type == "full"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["auto", "diag"])
def test_an_interrupted_fit_ends_as_the_whole_one(kind, tmp_path):
    path = tmp_path / "checkpoint"
    whole = fitted(covariance_type=kind, checkpoint=path)
    again = dpg.resume(path)
    assert again.covariance_type == whole.covariance_type
    np.testing.assert_array_equal(again.covariances, whole.covariances)


@pytest.mark.thorough
def test_one_column_has_two_kinds():
    rng = np.random.default_rng(2)
    records = rng.normal([[-4.0]] * 1500 + [[4.0]] * 1500, 1.0)
    release = dpg.fit_gmm(records, 2, **BUDGET, covariance_type="auto", random_seed=1)
    assert set(release.noise["covariance_scores"]) == {"full", "tied"} and release.covariance_type == "tied"


def test_a_file_that_names_no_kind_is_refused(tied):
    law = dict(tied.noise) | {"covariance_type": "round"}
    with pytest.raises(ValueError, match="covariance_type must be one of"):
        SketchStatistics.from_arrays(tied.raw, law)

"""Missed components: found with the model and without it, and right draws left in peace."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm.bayes.arviz_compat import inference_data, posterior_of, with_group
from pm_dpgmm.bayes.prior import modes, occupancy
from pm_dpgmm.bayes.prior.modes import check_modes
from pm_dpgmm.bayes.prior.priors import mixture_prior
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.quick_sampling import FAST

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")

MIXTURE = Mixture(
    [0.5, 0.3, 0.2], [[0.0, 0.0], [6.0, 2.0], [-2.0, 5.0]], [np.diag([0.3, 0.6]), np.eye(2) / 2, np.eye(2)]
)
SEEN = np.array([[0.5, -0.5], [1.5, 1.5], [2.0, 1.0]])
NOISE = 3.0


def likelihood(seen, noise):
    """Precision and linear term of N(seen; x, noise^2)."""
    return np.eye(2) / noise**2, seen / noise**2


def posterior_draws(shape, *, rng, component=None):
    """Exact draws (chain, draw, unit, 2); of one component alone if asked for."""
    units = []
    for seen in SEEN:
        weights, means, covariances = occupancy.conjugate(MIXTURE, *likelihood(seen, NOISE))
        if component is not None:
            weights = np.eye(3)[component]
        units.append(Mixture(weights, means, covariances).sample(int(np.prod(shape)), rng=rng).reshape(*shape, 2))
    return np.stack(units, axis=2)


def as_idata(vectors, **others):
    values = {"x": vectors, **others}
    dims = {
        name: ("chain", "draw", *(f"{name}_{axis}" for axis in range(value.ndim - 2))) for name, value in values.items()
    }
    return inference_data(posterior=xr.Dataset({name: (dims[name], value) for name, value in values.items()}))


@pytest.fixture(autouse=True)
def few_points(monkeypatch):
    """Fewer evaluations, as the slow mode of PyTensor makes each of them dear."""
    monkeypatch.setattr(modes, "POINTS", 24)


@pytest.fixture(scope="module", params=["mixture", "labelled"])
def model(request):
    """Three vectors and a noise scale that is nearly known."""
    with pm.Model(coords={"unit": range(3)}) as model:
        vector = mixture_prior("x", MIXTURE, dims=("unit", "feature"), form=request.param)
        noise = pm.LogNormal("noise", np.log(NOISE), 1e-6)
        pm.Normal("y", vector, noise, observed=SEEN)
    return model


def all_variables(model, vectors):
    """Posterior values of every free variable that belong to the vectors."""
    values = {"noise": np.full(vectors.shape[:2], NOISE)}
    if "x_label" in model.named_vars:
        shares = MIXTURE.responsibilities(vectors.reshape(-1, 2))
        uniform = np.random.default_rng(8).random((len(shares), 1))
        labels = (shares.cumsum(axis=1)[:, :-1] < uniform).sum(axis=1).reshape(vectors.shape[:-1])
        factors = np.linalg.cholesky(MIXTURE.covariances)
        offsets = np.linalg.solve(factors[labels], (vectors - MIXTURE.means[labels])[..., None])[..., 0]
        values |= {"x_label": labels, "x_offset": offsets}
    return as_idata(vectors, **values)


def test_conjugate_posterior_is_the_exact_one():
    for seen in SEEN:
        weights, means, covariances = occupancy.conjugate(MIXTURE, *likelihood(seen, NOISE))
        noise = NOISE**2 * np.eye(2)
        evidence = [
            w * stats.multivariate_normal(m, s + noise).pdf(seen)
            for w, m, s in zip(MIXTURE.weights, MIXTURE.means, MIXTURE.covariances, strict=True)
        ]
        np.testing.assert_allclose(weights, evidence / np.sum(evidence), rtol=1e-10)
        for k in range(3):
            gain = MIXTURE.covariances[k] @ np.linalg.inv(MIXTURE.covariances[k] + noise)
            np.testing.assert_allclose(means[k], MIXTURE.means[k] + gain @ (seen - MIXTURE.means[k]), atol=1e-10)
            np.testing.assert_allclose(
                covariances[k], MIXTURE.covariances[k] - gain @ MIXTURE.covariances[k], atol=1e-10
            )


def test_a_gaussian_likelihood_is_read_off_the_draws_of_one_component():
    """Within five standard errors: the relative error of a variance from 200 000 draws is 0.3 %, times 1 + noise^2/S."""
    rng = np.random.default_rng(1)
    for noise in (0.5, 1.5):
        weights, means, covariances = occupancy.conjugate(MIXTURE, *likelihood(SEEN[0], noise))
        points = Mixture(weights, means, covariances).sample(200_000, rng=rng)
        precision, linear = occupancy.Moments.of(MIXTURE, points.reshape(20, -1, 2)).likelihood()
        scale = np.linalg.inv(covariances[0]).max()
        np.testing.assert_allclose(precision, np.eye(2) / noise**2, atol=5 * 0.0032 * scale)
        np.testing.assert_allclose(linear, SEEN[0] / noise**2, atol=10 * 0.0032 * scale)


def test_importance_sampling_gives_the_evidence_of_each_component():
    rng = np.random.default_rng(2)
    precision, linear = likelihood(SEEN[1], 0.7)
    weights, means, covariances = occupancy.conjugate(MIXTURE, precision, linear)
    proposals = occupancy.Proposals(MIXTURE, Mixture(weights, means, covariances).sample(1000, rng=rng))

    def log_likelihood(x):
        return float(-0.5 * x @ precision @ x + linear @ x)

    for k in range(3):
        n_points = 4000
        found, effective = proposals.log_evidence(k, log_likelihood, n_points, rng=rng)
        spread = MIXTURE.covariances[k] + np.linalg.inv(precision)
        seen = np.linalg.solve(precision, linear)
        constant = 0.5 * linear @ seen + 0.5 * np.linalg.slogdet(2 * np.pi * np.linalg.inv(precision))[1]
        exact = stats.multivariate_normal(MIXTURE.means[k], spread).logpdf(seen) + constant
        assert effective > 500 and abs(found - exact) < 5 / np.sqrt(effective)


def test_a_likelihood_of_zero_everywhere_has_no_evidence():
    proposals = occupancy.Proposals(MIXTURE, posterior_draws((1, 200), rng=np.random.default_rng(3))[0, :, 0])
    rng = np.random.default_rng(4)
    assert proposals.log_evidence(0, lambda x: -np.inf, 50, rng=rng) == (-np.inf, 0.0)
    assert proposals.log_evidence(0, lambda x: np.nan, 50, rng=rng) == (-np.inf, 0.0)


@pytest.mark.thorough
def test_draws_of_one_component_alone_are_flagged_with_the_model_and_without(model):
    vectors = posterior_draws((4, 2000), rng=np.random.default_rng(5), component=1)
    assert float(az.rhat(posterior_of(as_idata(vectors)))["x"].max()) < 1.02  # nothing else complains
    for given in (None, model):
        check = check_modes(all_variables(model, vectors), MIXTURE, model=given, random_seed=1, compile_kwargs=FAST)
        assert check.flagged and check.reliable and not check.disagreeing
        assert {(0, 0), (1, 0)} <= set(check.missed) and {(0, 1), (1, 1)} <= set(check.overfull)
        assert given is None or check.conclusive
        assert check.source == ("extrapolation" if given is None else "model")
        assert "WRONG" in check.summary() and check.as_dict()["flagged"] is True
        with np.errstate(all="raise"):
            assert "<ModeCheck: wrong>" in repr(check)


@pytest.mark.thorough
def test_right_draws_are_not_flagged_and_the_expected_shares_are_exact(model):
    """False alarm 1e-3 for each of the two checks, and 1e-4 for the comparison of shares."""
    vectors = posterior_draws((2, 400), rng=np.random.default_rng(6))
    exact = np.array([occupancy.conjugate(MIXTURE, *likelihood(seen, NOISE))[0] for seen in SEEN])
    for given in (None, model):
        check = check_modes(all_variables(model, vectors), MIXTURE, model=given, random_seed=1, compile_kwargs=FAST)
        assert not check.flagged and check.reliable and check.conclusive == (given is model)
        assert (check.low <= exact).all() and (exact <= check.high).all()
        assert check.verdict == ("cannot tell" if given is None else "right") and check.as_dict()["missed"] == []
        assert ("CANNOT TELL" if given is None else "no missed component (") in check.summary()


@pytest.mark.thorough
def test_a_model_on_the_stack_is_used_and_its_variable_found(model):
    vectors = posterior_draws((2, 100), rng=np.random.default_rng(7))
    with model:
        check = check_modes(all_variables(model, vectors), MIXTURE, random_seed=1, compile_kwargs=FAST)
    assert check.source == "model" and check.name == "x"
    with pm.Model():  # another model, which has no such prior
        assert check_modes(as_idata(vectors), MIXTURE, random_seed=1).source == "extrapolation"


def test_only_the_model_sees_through_a_likelihood_that_is_not_gaussian():
    """y = x^2 says nothing about the sign; draws on one side look like a sharp Gaussian likelihood there."""
    twins = Mixture([0.7, 0.3], [[-5.0], [5.0]], [[[1.0]], [[1.0]]])
    with pm.Model() as model:
        vector = mixture_prior("x", twins, form="mixture")
        pm.Normal("y", vector**2, 5.0, observed=[25.0])
    right_side = np.random.default_rng(8).normal(5.0, 0.44, size=(2, 400, 1))
    assert not check_modes(as_idata(right_side), twins, random_seed=1).flagged
    check = check_modes(as_idata(right_side), twins, model=model, random_seed=1, compile_kwargs=FAST)
    assert check.missed == ((0, 0),) and abs(check.expected[0, 0] - 0.7) < 0.05


@pytest.mark.thorough
def test_posterior_predictive_draws_taken_before_change_nothing():
    """PyMC 5.28 then lists the observed variable twice."""
    with pm.Model() as model:
        vector = mixture_prior("x", MIXTURE, form="mixture")
        pm.Normal("y", vector, NOISE, observed=SEEN[0])
    fits = as_idata(posterior_draws((2, 100), rng=np.random.default_rng(13))[:, :, 0])
    fits = with_group(fits, "observed_data", xr.Dataset({"y": ("feature", SEEN[0])}))
    before = check_modes(fits, MIXTURE, model=model, random_seed=1, compile_kwargs=FAST)
    pm.sample_posterior_predictive(fits, model=model, progressbar=False, compile_kwargs=dict(FAST))
    after = check_modes(fits, MIXTURE, model=model, random_seed=1, compile_kwargs=FAST)
    np.testing.assert_array_equal(after.expected, before.expected)


def test_chains_that_contradict_each_other_are_flagged():
    rng = np.random.default_rng(9)
    vectors = np.concatenate([posterior_draws((1, 400), rng=rng, component=k) for k in (0, 1)])
    assert check_modes(as_idata(vectors), MIXTURE, random_seed=1).disagreeing


@pytest.mark.thorough
def test_false_alarms_are_as_rare_as_promised():
    """30 checks of three vectors with autocorrelated draws; at 1e-3 each, two or more alarms have probability 5e-4."""
    alarms = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        vectors = posterior_draws((2, 400), rng=rng)
        lag = rng.integers(1, 4)  # repeats every draw, as refused proposals do
        vectors = np.repeat(vectors, lag, axis=1)[:, :400]
        alarms += check_modes(as_idata(vectors), MIXTURE, random_seed=seed).flagged
    assert alarms < 2


def test_few_effective_points_are_said():
    """The whole of the model's likelihood lies where neither the prior nor the draws are."""
    with pm.Model() as model:
        vector = mixture_prior("x", MIXTURE, form="mixture")
        pm.Potential("far", -1e6 * ((vector - 30) ** 2).sum())
    vectors = posterior_draws((2, 100), rng=np.random.default_rng(10))[:, :, 0]
    check = check_modes(as_idata(vectors), MIXTURE, model=model, random_seed=1, compile_kwargs=FAST)
    assert not check.reliable and check.missed == () and "too few effective" in check.summary()


def test_the_model_is_evaluated_a_bounded_number_of_times(monkeypatch):
    asked = []

    def counted(self, component, log_likelihood, n_points, *, rng):
        asked.append(n_points)
        return 0.0, float(n_points)

    monkeypatch.setattr(modes.Proposals, "log_evidence", counted)
    monkeypatch.setattr(modes, "MOST_EVALUATIONS", 22 * modes.N_STATES * MIXTURE.n_components)
    with pm.Model() as model:
        mixture_prior("x", MIXTURE, form="mixture")
    vectors = posterior_draws((2, 100), rng=np.random.default_rng(13))[:, :, 0]
    check_modes(as_idata(vectors), MIXTURE, model=model, random_seed=1, compile_kwargs=FAST)
    assert sum(asked) == modes.MOST_EVALUATIONS and set(asked) == {22} and modes.LEAST_POINTS < 22 < modes.POINTS


def test_inflated_priors_are_compared_with_the_inflated_mixture():
    wide = Mixture(MIXTURE.weights, MIXTURE.means, 4 * MIXTURE.covariances)
    vectors = wide.sample(800, rng=np.random.default_rng(11)).reshape(2, 400, 2)
    with pm.Model() as model:
        mixture_prior("x", MIXTURE, form="mixture", inflate=4.0)
    for arguments in ({"inflate": 4.0}, {"model": model, "compile_kwargs": FAST}):
        check = check_modes(as_idata(vectors), MIXTURE, random_seed=1, **arguments)
        assert not check.flagged and (check.low < MIXTURE.weights).all() and (MIXTURE.weights < check.high).all()


def test_wrong_arguments_are_named(model):
    vectors = posterior_draws((2, 100), rng=np.random.default_rng(12))
    fits = as_idata(vectors)
    other = Mixture([1.0], [[9.0, 9.0]], [np.eye(2)])
    cases = [
        ((fits, "release"), {}, TypeError, "release must be a Release or a Mixture"),
        ((fits, MIXTURE), {"name": "z"}, ValueError, "name must be a variable of the posterior"),
        (
            (fits, MIXTURE),
            {"name": "chain"},
            ValueError,
            r"name must be a variable of the posterior \(x\), got 'chain'",
        ),
        ((as_idata(vectors, z=vectors), MIXTURE), {}, ValueError, "name must be given .* got x, z"),
        ((as_idata(vectors[:, :50]), MIXTURE), {}, ValueError, "at least 80 draws"),
        ((as_idata(vectors[..., :1]), MIXTURE), {"name": "x"}, ValueError, "must have 2 values on its last axis"),
        ((as_idata(np.where(vectors > 0, np.nan, vectors)), MIXTURE), {}, ValueError, "finite draws"),
        ((fits, MIXTURE), {"false_alarm": 1.5}, ValueError, "false_alarm must lie strictly"),
        ((fits, MIXTURE), {"inflate": 0.0}, ValueError, "inflate must be finite and greater"),
        ((fits, MIXTURE), {"model": model}, ValueError, "idata must hold all free variables .* noise"),
        ((fits, other), {"model": model}, ValueError, "name must be the one variable of the model with this prior"),
    ]
    for positional, keywords, error, message in cases:
        with pytest.raises(error, match=message):
            check_modes(*positional, **keywords)
    assert dpg.check_modes is check_modes


def test_a_gaussian_likelihood_is_read_off_draws_of_a_correlated_component():
    """Five and ten standard errors, as for components along the axes."""
    turned = MIXTURE.transformed(np.array([[1.0, 0.0], [0.9, 1.0]]))
    weights, means, covariances = occupancy.conjugate(turned, *likelihood(SEEN[0], 0.5))
    points = Mixture(weights, means, covariances).sample(200_000, rng=np.random.default_rng(1))
    precision, linear = occupancy.Moments.of(turned, points.reshape(20, -1, 2)).likelihood()
    scale = np.linalg.inv(covariances[0]).max()
    np.testing.assert_allclose(precision, np.eye(2) / 0.25, atol=5 * 0.0032 * scale)
    np.testing.assert_allclose(linear, SEEN[0] / 0.25, atol=10 * 0.0032 * scale)


# ---------------------------------------------------------------------- labels against vectors
def label_draws(*, rng, shape=(4, 500), frozen=0.0):
    """Exact posterior draws of the vectors with labels drawn given them; a share of the vectors has labels that stay."""
    vectors = posterior_draws(shape, rng=rng)
    shares = MIXTURE.responsibilities(vectors.reshape(-1, 2))
    labels = (shares.cumsum(axis=1)[:, :-1] < rng.random((len(shares), 1))).sum(axis=1).reshape(vectors.shape[:-1])
    stuck = rng.random((shape[0], vectors.shape[2])) < frozen
    return vectors, np.where(stuck[:, None, :], labels[:, :1], labels)


def test_labels_that_stay_where_they_are_are_wrong_whatever_the_vectors_say():
    """The planted fault: vectors right, labels frozen, as generic steps leave them."""
    vectors, labels = label_draws(rng=np.random.default_rng(20), frozen=1.0)
    check = check_modes(as_idata(vectors, x_label=labels), MIXTURE, random_seed=1)
    assert check.verdict == "wrong" and not check.missed and not check.overfull and not check.disagreeing
    assert {i for i, _ in check.mislabelled} == {0, 1, 2} and "labels contradict their vectors" in check.summary()
    assert check.as_dict()["mislabelled"] and check_modes(as_idata(vectors), MIXTURE, random_seed=1).verdict != "wrong"


def test_labels_that_are_wrong_in_opposite_ways_in_two_chains_do_not_cancel():
    rng = np.random.default_rng(21)
    vectors = rng.normal([3.0, 1.0], 0.1, size=(2, 400, 1, 2))
    pair = Mixture([0.5, 0.5], [[0.0, 0.0], [6.0, 2.0]], [np.eye(2)] * 2)
    labels = np.broadcast_to(np.arange(2)[:, None, None], (2, 400, 1))
    check = check_modes(as_idata(vectors, x_label=labels), pair, name="x", random_seed=1)
    assert check.mislabelled == ((0, 0), (0, 1))


@pytest.mark.thorough
def test_right_labels_are_left_in_peace():
    """40 checks of three vectors, each draw repeated up to three times; two or more alarms at 1e-3 each: 8e-4."""
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        vectors, labels = label_draws(rng=rng, shape=(2, 400))
        lag = rng.integers(1, 4)
        vectors, labels = (np.repeat(values, lag, axis=1)[:, :400] for values in (vectors, labels))
        alarms += bool(check_modes(as_idata(vectors, x_label=labels), MIXTURE, random_seed=seed).mislabelled)
    assert alarms < 2


@pytest.mark.thorough
def test_labels_that_the_data_speak_about_are_not_compared():
    vectors, labels = label_draws(rng=np.random.default_rng(22), shape=(2, 100), frozen=1.0)
    factors = np.linalg.cholesky(MIXTURE.covariances)
    offsets = np.linalg.solve(factors[labels], (vectors - MIXTURE.means[labels])[..., None])[..., 0]
    draws = as_idata(vectors, x_label=labels, x_offset=offsets)
    found = []
    for reads in (False, True):
        with pm.Model(coords={"unit": range(3)}) as model:
            vector = mixture_prior("x", MIXTURE, dims=("unit", "feature"), form="labelled")
            pm.Normal("y", vector + (model["x_label"][:, None] if reads else 0.0), NOISE, observed=SEEN)
        found.append(check_modes(draws, MIXTURE, model=model, random_seed=1, compile_kwargs=FAST).label_gap is None)
    assert found == [False, True]

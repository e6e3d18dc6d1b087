"""The step of the labels: what it leaves unchanged, and who gets it."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from pymc.sampling.mcmc import assign_step_methods
from scipy import stats

from pm_dpgmm.bayes.prior.label_step import MixtureLabels
from pm_dpgmm.bayes.prior.priors import mixture_prior
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.quick_sampling import FAST

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")

# Determinants 0.05 and 9: a wrong Jacobian is seen. The last component is empty.
MIXTURE = Mixture(
    [0.5, 0.3, 0.2, 0.0],
    [[0.0, 0.0], [3.0, 1.0], [-2.0, 2.0], [0.0, 1.0]],
    [np.eye(2), [[9.0, 2.0], [2.0, 4.0]], [[0.25, 0.1], [0.1, 0.25]], np.eye(2)],
)
N_VECTORS = 600
SEEN = np.array([1.0, 0.8])


def labelled_model(*, shift, noise, n_vectors=N_VECTORS):
    """Independent vectors that all saw the same; ``shift`` times the label is added to what is seen."""
    with pm.Model(coords={"unit": range(n_vectors)}) as model:
        vector = mixture_prior("x", MIXTURE, dims=("unit", "feature"), form="labelled")
        expected = vector + shift * model["x_label"][:, None] if shift else vector
        pm.Normal("y", expected, noise, observed=np.tile(SEEN, (n_vectors, 1)))
    return model


def exact_draws(shift, noise, *, rng, n_vectors=N_VECTORS):
    """Labels, vectors and label probabilities of the exact posterior."""
    kept = np.arange(3)
    weights, means, covariances = MIXTURE.weights[kept], MIXTURE.means[kept], MIXTURE.covariances[kept]
    seen = SEEN - shift * kept[:, None]
    spread = covariances + noise**2 * np.eye(2)
    evidence = [stats.multivariate_normal(means[k], spread[k]).pdf(seen[k]) for k in kept]
    probabilities = weights * evidence / (weights @ evidence)
    gains = covariances @ np.linalg.inv(spread)
    centres = means + (gains @ (seen - means)[..., None])[..., 0]
    labels = rng.choice(3, size=n_vectors, p=probabilities)
    factors = np.linalg.cholesky(covariances - gains @ covariances)
    vectors = centres[labels] + (factors[labels] @ rng.standard_normal((n_vectors, 2, 1)))[..., 0]
    return labels, vectors, probabilities


def offsets_of(labels, vectors):
    factors = np.linalg.cholesky(MIXTURE.covariances)
    return np.linalg.solve(factors[labels], (vectors - MIXTURE.means[labels])[..., None])[..., 0]


def vectors_of(point):
    factors = np.linalg.cholesky(MIXTURE.covariances)
    return MIXTURE.means[point["x_label"]] + (factors[point["x_label"]] @ point["x_offset"][..., None])[..., 0]


@pytest.fixture(scope="module", params=[0.0, 1.5], ids=["vector alone", "label read elsewhere"])
def case(request):
    model = labelled_model(shift=request.param, noise=1.5)
    step = MixtureLabels([model["x_label"]], model=model, rng=np.random.default_rng(1), compile_kwargs=FAST)
    assert step.exact == (request.param == 0)
    return request.param, step


@pytest.mark.thorough
def test_the_posterior_is_left_unchanged(case):
    """Exact posterior draws stay exact posterior draws. False alarm 1e-4 per case: three tests at 3e-5."""
    shift, step = case
    rng = np.random.default_rng(20240601)
    labels, vectors, probabilities = exact_draws(shift, 1.5, rng=rng)
    point = {"x_label": labels, "x_offset": offsets_of(labels, vectors)}
    moved, counts = point, np.zeros(3)
    for _ in range(4):
        moved, [statistic] = step.step(moved)
        assert 0.05 < statistic["label_jumps"] < 0.95
    counts = np.bincount(moved["x_label"], minlength=4)
    assert counts[3] == 0
    assert stats.chisquare(counts[:3], N_VECTORS * probabilities).pvalue > 3e-5
    fresh = exact_draws(shift, 1.5, rng=rng, n_vectors=20_000)[1]
    for j in range(2):
        assert stats.ks_2samp(vectors_of(moved)[:, j], fresh[:, j]).pvalue > 3e-5
    assert (moved["x_label"] != labels).mean() > 0.2  # it did move
    assert point["x_label"] is labels and moved["x_label"] is not labels


@pytest.mark.thorough
def test_started_in_one_component_it_finds_the_others(case):
    """The same law from a start that is wrong everywhere; the offsets stay where the likelihood puts them."""
    shift, step = case
    rng = np.random.default_rng(7)
    _, vectors, probabilities = exact_draws(shift, 1.5, rng=rng)
    labels = np.ones(N_VECTORS, dtype=int)
    point = {"x_label": labels, "x_offset": offsets_of(labels, vectors)}
    for _ in range(4):
        point, _ = step.step(point)
    if shift == 0:  # the vectors were right, and labels given vectors are redrawn exactly
        counts = np.bincount(point["x_label"], minlength=4)[:3]
        assert stats.chisquare(counts, N_VECTORS * probabilities).pvalue > 1e-4
    else:
        assert set(point["x_label"]) == {0, 1, 2}


def test_a_sharp_likelihood_refuses_jumps_and_the_redraw_alone_finds_the_component():
    model = labelled_model(shift=0.0, noise=1e-3, n_vectors=50)
    step = MixtureLabels([model["x_label"]], model=model, rng=np.random.default_rng(2), compile_kwargs=FAST)
    vectors = np.tile(SEEN, (50, 1))
    labels = np.full(50, 2)
    point = {"x_label": labels, "x_offset": offsets_of(labels, vectors)}
    moved, [statistic] = step.step(point)
    np.testing.assert_allclose(vectors_of(moved), vectors, atol=1e-12)
    assert statistic["label_jumps"] == 0
    expected = MIXTURE.responsibilities([SEEN])[0]
    assert stats.chisquare(np.bincount(moved["x_label"], minlength=4)[:3], 50 * expected[:3]).pvalue > 1e-4


def test_pm_sample_gives_the_step_to_labels_and_to_nothing_else():
    pair = Mixture([0.5, 0.5], [[0.0], [9.0]], [[[1.0]], [[1.0]]])
    with pm.Model() as model:
        mixture_prior("x", MIXTURE, form="labelled")
        mixture_prior("pair", pair)
        pm.Categorical("three", p=[0.2, 0.3, 0.5])
        pm.Categorical("two", p=[0.2, 0.8])
    for owner in (model, pm.do(model, {"three": 1}), model.copy()):
        _, chosen = assign_step_methods(owner)
        labels = {value.name for value in chosen.pop(MixtureLabels)}
        assert labels == {"x_label", "pair_label"}
        others = {value.name for values in chosen.values() for value in values}
        assert others == {value.name for value in owner.value_vars} - labels
    with model, pytest.raises(ValueError, match="vars must be the label of a labelled mixture_prior, got two"):
        MixtureLabels([model["two"]])


def test_a_scalar_label_of_one_vector_keeps_its_shape_and_type():
    with pm.Model() as model:
        vector = mixture_prior("x", MIXTURE, form="labelled")
        pm.Normal("y", vector, 1.0, observed=SEEN)
    steps = MixtureLabels([model["x_label"]], model=model, compile_kwargs=FAST)
    point = {"x_label": np.array(0), "x_offset": np.zeros(2)}
    for _ in range(5):
        moved, _ = steps.step(point)
        assert moved["x_label"].shape == () and moved["x_label"].dtype == point["x_label"].dtype
        assert moved["x_offset"].shape == (2,)


def test_a_potential_that_reads_the_label_makes_the_redraw_a_metropolis_step():
    model = labelled_model(shift=0.0, noise=1.0, n_vectors=2)
    assert MixtureLabels([model["x_label"]], model=model, compile_kwargs=FAST).exact
    with model:
        pm.Potential("charge", -1.0 * model["x_label"].sum())
    assert not MixtureLabels([model["x_label"]], model=model, compile_kwargs=FAST).exact

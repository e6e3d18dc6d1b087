"""PyMC and transformed columns: vectors and rows in people's units, parameters in the transformed one."""

import math

import numpy as np
import pymc as pm
import pytest
import xarray

import pm_dpgmm as dpg
from pm_dpgmm.bayes import dims, mixture_dist, mixture_prior
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.records.transformed_columns import TransformedColumns
from tests.builders.transformations import signed_log

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")
T = dpg.Transformation
MIXTURE = dpg.Mixture([0.4, 0.6], [[8.0, 0.0, 0.5], [9.0, 1.0, -0.5]], [np.diag([0.5, 1.0, 0.8]), np.eye(3)])
COLUMNS = TransformedColumns((T.log(1.0), T.logit(0, 1), T.asinh(30.0)))
LAW = dpg.TransformedMixture(MIXTURE, COLUMNS)
ROWS = LAW.sample(5, rng=np.random.default_rng(1))


def release(columns=COLUMNS):
    """A release with that mixture and no numbers."""
    guarantee = dpg.Guarantee(1.0, 1e-6, "replace-one", "made up", PointProfile(1.0, 1e-6))
    return dpg.Release(MIXTURE, guarantee, "own", {}, {}, {}, ("x0", "x1", "x2"), 200, transformations=columns)


@pytest.fixture(scope="module")
def released():
    return release()


def log_density(name="y", **given):
    with pm.Model() as model:
        dpg.gmm(name, **given)
    return float(model.compile_logp(mode="FAST_COMPILE")({}))


@pytest.mark.thorough
def test_rows_and_their_densities_are_in_the_unit_of_the_records(released):
    assert log_density(th=released, observed=ROWS) == pytest.approx(released.law.log_density(ROWS).sum(), rel=1e-12)
    holes = ROWS.copy()
    holes[0, 0] = holes[1, 1] = holes[1, 2] = np.nan
    expected = released.marginal(["x1", "x2"]).log_density(ROWS[:1, 1:]) + released.marginal(["x0"]).log_density(
        ROWS[1:2, :1]
    )
    total = float(expected.sum() + released.law.log_density(ROWS[2:]).sum())
    assert log_density(th=released, observed=holes) == pytest.approx(total, rel=1e-12)
    one = pm.logp(dpg.gmm.dist(released), ROWS[0]).eval(mode="FAST_COMPILE")
    assert one == pytest.approx(released.law.log_density(ROWS[:1])[0], rel=1e-12)
    outside = np.vstack([ROWS[0], [-1.0, 0.5, 0.0], [5.0, 1.0, 0.0]])
    with pm.Model() as model:
        dpg.gmm("y", released, observed=pm.Data("data", outside))
    rows = model.compile_fn(model.logp(sum=False), mode="FAST_COMPILE")({})[0]
    assert rows[0] == pytest.approx(one) and (rows[1:] == -math.inf).all()


@pytest.mark.thorough
def test_draws_are_in_the_unit_of_the_records(released):
    """Quantiles of 4,000 draws: six standard errors."""
    expected = np.quantile(LAW.sample(100_000, rng=np.random.default_rng(2)), 0.5, axis=0)
    with pm.Model() as model:
        x = released.prior("x", dims="feature")
        y = dpg.gmm("y", released, shape=(4_000, 3))
    assert model.named_vars_to_dims["x"] == ("feature",) and "x_transformed" in model.named_vars
    draws = [pm.draw(x, 4_000, random_seed=1), pm.draw(y, random_seed=1)]
    for drawn in draws:
        assert (drawn[:, 0] > 0).all() and ((drawn[:, 1] > 0) & (drawn[:, 1] < 1)).all()
        below = (drawn < expected).mean(axis=0)
        assert below == pytest.approx(0.5, abs=6 * 0.5 / math.sqrt(4_000))


def test_a_marginal_of_transformed_columns_is_a_prior_as_well(released):
    """Shares of 4,000 draws: six standard errors."""
    law = released.marginal(["x2", "x0"])
    with pm.Model() as model:
        x = mixture_prior("x", law, feature_names=("x2", "x0"), dims="feature", form="mixture")
    assert model.named_vars_to_dims["x"] == ("feature",) and [rv.name for rv in model.free_RVs] == ["x_transformed"]
    assert model.coords["feature"] == ("x2", "x0")
    expected = np.quantile(LAW.sample(100_000, rng=np.random.default_rng(2)), 0.5, axis=0)[[2, 0]]
    below = (pm.draw(x, 4_000, random_seed=1) < expected).mean(axis=0)
    assert below == pytest.approx(0.5, abs=6 * 0.5 / math.sqrt(4_000))
    with pytest.raises(TypeError, match="mixture must be a Mixture, got TransformedMixture; its attribute mixture is"):
        mixture_dist(law)


@pytest.mark.thorough
def test_parameters_carry_the_transformations_to_their_rows(released):
    with pm.Model() as model:
        params = released.params("g", weight_conc=100.0, mean_scale=0.1, cov_scale=0.1)
        y = dpg.gmm("y", params, observed=ROWS)
    assert params.transformations == COLUMNS
    at = {"g_offset": np.zeros(params.anchor.n_parameters)}
    found = model.compile_fn(model.logp(vars=[y]), inputs=model.value_vars, mode="FAST_COMPILE", point_fn=False)
    assert float(found(at["g_offset"])) == pytest.approx(LAW.log_density(ROWS).sum(), rel=1e-9)
    assert released.to_inferencedata()["constant_data"].attrs["transformations"].startswith("x0: log, floor 1")


def test_what_cannot_carry_transformations_says_so(released):
    for refused in (
        released.prior_dist,
        released.as_prior,
        lambda: released.measured("x", ROWS, np.eye(3), model=pm.Model()),
        lambda: dpg.bayes.measured("x", released, ROWS, np.eye(3), model=pm.Model()),
        lambda: dpg.bayes.gaussian_posterior(released, ROWS[0], np.eye(3)),
    ):
        with pytest.raises(ValueError, match="must be of a release without transformations of columns, got x0: log"):
            refused()
    own = release(TransformedColumns((signed_log(), None, None)))
    with pm.Model() as model:
        for refused in (lambda: own.prior("x"), lambda: dpg.gmm("y", own, observed=ROWS), lambda: dpg.gmm.dist(own)):
            with pytest.raises(ValueError, match="must have named transformations"):
                refused()
    assert not model.named_vars
    with pytest.raises(ValueError, match=r"observed must have a value in column 'x0' by its tran.*got 0 in row 1"):
        dpg.gmm("y", released, observed=[ROWS[0], [0.0, 0.5, 0.0]], model=pm.Model())


@pytest.mark.thorough
def test_a_prior_with_named_dimensions_is_in_the_unit_of_the_records(released):
    """It was in the transformed one, in silence: 8.03 for an income of 3,000."""
    with pm.Model() as named:
        x = dims.prior("x", released, dims="feature")
    with pm.Model() as plain:
        y = released.prior("x", dims="feature")
    drawn = pm.draw(x, 5, random_seed=1)
    assert x.dims == ("feature",) and np.array_equal(drawn, pm.draw(y, 5, random_seed=1))
    assert {*named.named_vars} == {*plain.named_vars}


def test_parameters_of_a_release_in_another_unit_are_no_evidence_for_it():
    """Logarithms near 8 against incomes near 3,000 were taken without a word."""
    X = np.exp(np.random.default_rng(1).normal(8.0, 0.5, size=(500, 1)))
    given = {"epsilon": 2.0, "bounds": (0, 1e5), "method": "histogram", "progress": False}
    logged, plain = (dpg.fit_gmm(X, 1, transform=transform, **given) for transform in ("log", None))
    for one, other in ((logged, plain), (plain, logged)):
        with pm.Model() as model:
            th = other.params("g", prior="weak")
            with pytest.raises(ValueError, match="th must be in the unit of the release, whose transformations of col"):
                one.observe(th)
            assert not model.potentials
    with pm.Model() as model:
        logged.observe(dpg.bayes.mixture_params("g", logged.mixture, prior="weak"))  # whose unit is the mixture's
    assert len(model.potentials) == 1


def test_labels_of_rows_are_told_the_transformations(released):
    dims = ("chain", "draw", "component", "feature", "feature_bis")
    parts = {"weights": (dims[:3], MIXTURE.weights), "means": (dims[:4], MIXTURE.means)}
    parts["covariances"] = (dims, MIXTURE.covariances)
    draws = xarray.Dataset({name: (of, values[None, None]) for name, (of, values) in parts.items()})
    found = dpg.label_probs(draws, ROWS, transformations=COLUMNS)
    moved, _ = COLUMNS.of_points(ROWS)
    assert found.to_numpy() == pytest.approx(MIXTURE.responsibilities(moved))
    with pytest.raises(ValueError, match="transformations must be those of a release with 3 columns"):
        dpg.label_probs(draws, ROWS, transformations=TransformedColumns((T.log(1.0),)))


def test_modes_are_checked_in_the_transformed_unit(released):
    draws = LAW.mixture.sample(400, rng=np.random.default_rng(1)).reshape(2, 200, 3)
    data = xarray.Dataset({"x": (("chain", "draw", "feature"), draws)})
    with pytest.raises(ValueError, match="name must be that of the vector in the transformed unit"):
        dpg.check_modes(data, released, name="x")
    assert dpg.check_modes(data.rename(x="x_transformed"), released, name="x_transformed", random_seed=1).occupancy.size

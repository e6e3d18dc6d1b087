"""One density: every use of a release has its background, or says that it has not."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

import pm_dpgmm as dpg
from pm_dpgmm.mixture.far_rows import far_rows_of

INNER = dpg.Mixture([0.6, 0.4], [[0.0, 0.0], [5.0, 3.0]], [[[1.0, 0.3], [0.3, 1.0]], [[0.5, 0.0], [0.0, 2.0]]])
BROAD = dpg.Mixture([1.0], [[1.0, 1.0]], [[[40.0, 5.0], [5.0, 30.0]]])
POINTS = np.random.default_rng(1).normal(scale=6.0, size=(50, 2))


@pytest.fixture(scope="module")
def plain():
    records = INNER.sample(2_000, rng=np.random.default_rng(0))
    return dpg.fit_gmm(records, 2, epsilon=2.0, delta=1e-6, bounds=(-20, 20), random_seed=1, progress=False)


@pytest.fixture(scope="module")
def release(plain):
    return replace(plain, mixture=INNER, background=BROAD, background_weight=0.2)


def test_rows_are_scored_by_the_density_and_half_a_record(release):
    weight, far = far_rows_of(release.noise, 2)
    assert weight == 1 / 4_002 and (far.means == 0).all() and far.n_components == 6
    assert np.sqrt(far.covariances[0].diagonal()) == pytest.approx(20 / 3)
    told = logsumexp([INNER.log_density(POINTS) + np.log(0.8), BROAD.log_density(POINTS) + np.log(0.2)], axis=0)
    assert release.density.log_density(POINTS) == pytest.approx(told)
    both = np.logaddexp(np.log(1 - weight) + told, np.log(weight) + far.log_density(POINTS))
    assert release.log_density(POINTS) == pytest.approx(both) == release.row_density.log_density(POINTS)
    assert release.row_density.n_components == 9 and release.density.n_components == 3


def test_the_continuous_prior_has_the_released_density(release):
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        release.prior("x", form="mixture")
    log_density = model.compile_logp(mode="FAST_COMPILE")
    found = [float(log_density({"x": point})) for point in POINTS]
    assert found == pytest.approx(release.density.log_density(POINTS), abs=1e-9)
    unnamed = pm.logp(release.prior_dist(form="mixture"), POINTS[0]).eval(mode="FAST_COMPILE")
    assert float(unnamed) == pytest.approx(release.density.log_density(POINTS[:1])[0], abs=1e-9)
    with pm.Model() as model:
        release.as_prior(form="mixture").create_variable("x")
    assert float(model.compile_logp(mode="FAST_COMPILE")({"x": POINTS[1]})) == pytest.approx(
        release.density.log_density(POINTS[1:2])[0], abs=1e-9
    )


def test_the_labelled_prior_has_the_released_density(release):
    """Label and offset of every component at which the vector is ``point``, with the Jacobian of the offset."""
    pm = pytest.importorskip("pymc")
    from pm_dpgmm.bayes import label_density

    with pm.Model() as model:
        release.prior("x", form="labelled")
    log_density = model.compile_logp(mode="FAST_COMPILE")
    density = release.density
    factors = np.linalg.cholesky(density.covariances)
    for point in POINTS[:10]:
        with label_density(model):
            parts = [
                float(log_density({"x_label": k, "x_offset": np.linalg.solve(factor, point - mean)}))
                - np.log(np.diag(factor)).sum()
                for k, (mean, factor) in enumerate(zip(density.means, factors, strict=True))
            ]
        assert len(parts) == 3 and logsumexp(parts) == pytest.approx(
            release.density.log_density(point[None])[0], abs=1e-9
        )


@pytest.mark.thorough
def test_the_step_of_the_labels_moves_into_the_background_and_back(release):
    """Seeded; 600 nearly independent draws have a standard error of 0.02, and 5 of them are allowed for."""
    pm = pytest.importorskip("pymc")
    with pm.Model():
        release.prior("x", form="labelled")
        idata = pm.sample(600, tune=100, chains=1, random_seed=1, progressbar=False, compute_convergence_checks=False)
    assert np.mean(idata["posterior"]["x_label"].values == 2) == pytest.approx(0.2, abs=0.1)


def test_modes_are_checked_with_the_background_as_one_more(release):
    pytest.importorskip("pymc")
    import xarray

    from pm_dpgmm.bayes.arviz_compat import inference_data

    def drawn(values):
        return inference_data(posterior=xarray.Dataset({"x": (("chain", "draw", "feature"), values)}))

    right = release.density.sample(8_000, rng=np.random.default_rng(2)).reshape(4, 2_000, 2)
    inside = release.mixture.sample(8_000, rng=np.random.default_rng(2)).reshape(4, 2_000, 2)
    check = dpg.check_modes(drawn(right), release, random_seed=1)
    assert check.occupancy.shape == (1, 3) and not check.flagged
    assert check.occupancy[0, 2] == pytest.approx(0.2, abs=0.03)
    without = dpg.check_modes(drawn(inside), release, random_seed=1)
    assert without.occupancy[0, 2] < 0.1


def test_inference_data_hold_the_background(release):
    pytest.importorskip("pymc")
    data = release.to_inferencedata()["constant_data"]
    assert data["background_mean"].values == pytest.approx(BROAD.means[0])
    assert data["background_covariance"].values == pytest.approx(BROAD.covariances[0])


def test_the_estimator_scores_and_samples_the_density_and_warns_where_it_predicts(release):
    estimator = dpg.PrivateGaussianMixture(2, random_state=3)
    estimator.release_, estimator.n_features_in_ = release, 2
    assert estimator.score_samples(POINTS) == pytest.approx(release.log_density(POINTS))
    assert estimator.score(POINTS) == pytest.approx(release.log_density(POINTS).mean())
    points, labels = estimator.sample(4_000)
    assert np.array_equal(points, release.sample(4_000, random_seed=3)) and set(labels) == {0, 1}
    with pytest.warns(dpg.BackgroundWarning, match=r"predict_proba\(\) is of the components alone; .* holds 0.200"):
        assert estimator.predict_proba(POINTS).shape == (50, 2)
    with pytest.warns(dpg.BackgroundWarning, match=r"predict\(\)") as caught:
        estimator.predict(POINTS)
    assert caught[0].filename == __file__


def test_what_is_of_the_components_alone_says_so_at_the_line_that_asks(release):
    pm = pytest.importorskip("pymc")
    with pm.Model():
        with pytest.warns(dpg.BackgroundWarning, match=r"params\(\) are of the components alone") as caught:
            th = release.params("g", prior="weak")
        with pytest.warns(dpg.BackgroundWarning, match="keeps the background as released") as other:
            release.observe(th)
        with pytest.warns(dpg.BackgroundWarning, match=r"^initvals\(\)") as starts:
            release.initvals(chains=1)
        with pytest.warns(dpg.BackgroundWarning, match="set_initvals"):
            release.set_initvals()
    with pytest.warns(dpg.BackgroundWarning, match=r"draws\(\)") as drawn:
        release.draws(2, random_seed=1)
    assert {item[0].filename for item in (caught, other, starts, drawn)} == {__file__}


def test_little_or_no_background_warns_of_nothing(release, plain):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replace(release, background_weight=0.01).draws(1, random_seed=1)
        plain.draws(1, random_seed=1)


def test_a_figure_shows_the_density(release):
    plt = pytest.importorskip("matplotlib.pyplot")
    axes = dpg.plot_release(release, n_points=20)
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert len(dashed) == 1 and np.mean(dashed[0].get_xydata(), axis=0) == pytest.approx(BROAD.means[0], abs=0.1)
    plt.close(axes.figure)


def test_the_summary_tells_of_the_background(release):
    assert "Background: 0.2 of the density is one broad Gaussian" in release.summary()
    assert "log_density, sample and prior include" in release.summary()

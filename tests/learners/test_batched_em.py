"""Compiled EM on many subsets: one step, the fixed point, the mode it finds, isolation of subsets, silence."""

import itertools
import math
import warnings
from unittest import mock

import numpy as np
import pytest

from pm_dpgmm.learners.batched_em import BatchedEM
from pm_dpgmm.learners.em_blocks import exponentials
from pm_dpgmm.learners.em_kernel import BLOCK, climb, em_step
from pm_dpgmm.learners.subsets import fit_here, fit_one
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.planning.trials import public_mixture
from verification.benchmarks.truths import draw, turned


def random_truth(rng, k, d, *, separation=4.0):
    """A mixture whose closest means are ``separation`` standard deviations apart along the line between them."""
    covariances = np.array([turned(rng.uniform(0.3, 3, d), rng) for _ in range(k)])
    means = rng.standard_normal((k, d))
    nearest = min(
        math.sqrt((a - b) @ np.linalg.solve((s + t) / 2, a - b))
        for (a, s), (b, t) in itertools.combinations(zip(means, covariances, strict=True), 2)
    )
    return Mixture(rng.dirichlet(np.full(k, 20.0)), means * (separation / nearest), covariances)


def packed(fit):
    return np.concatenate([fit.weights, fit.means.ravel(), fit.covariances.ravel()])


def fit_of(fits, i):
    return Mixture(fits.weights[i], fits.means[i], fits.covariances[i])


def in_sd(fit, target):
    """Largest difference of the best order: means and covariances in the sd of the target's components, weights."""
    sd = np.sqrt(np.diagonal(target.covariances, axis1=1, axis2=2))
    return min(
        max(
            np.abs(fit.weights[order] - target.weights).max(),
            np.abs((fit.means[order] - target.means) / sd).max(),
            np.abs((fit.covariances[order] - target.covariances) / (sd[:, :, None] * sd[:, None, :])).max(),
        )
        for order in map(list, itertools.permutations(range(target.n_components)))
    )


def bits(fits, places=slice(None)):
    return [part[places].tobytes() for part in (fits.weights, fits.means, fits.covariances, fits.given)]


def test_exponentials_agree_with_numpy():
    values = np.concatenate([-np.geomspace(1e-300, 707, 4001), np.linspace(-40, 0, 997)])
    found = values.copy()
    exponentials(found, np.empty_like(values))
    assert found == pytest.approx(np.exp(values), rel=5e-16, abs=0)
    far = np.array([-800.0, -1e300, -np.inf])
    exponentials(far, np.empty(3))
    assert ((far >= 0) & (far < 1e-300)).all()


@pytest.mark.parametrize("k, d, n", [(1, 1, 50), (2, 3, BLOCK), (3, 2, BLOCK + 1), (4, 6, 3 * BLOCK + 77)])
def test_one_step_is_that_of_plain_numpy(k, d, n):
    rng = np.random.default_rng([k, d, n])
    truth = random_truth(rng, k, d, separation=1.5) if k > 1 else Mixture([1.0], np.ones((1, d)), [np.eye(d)])
    rows = draw(truth, n, rng=rng) + rng.standard_normal(d)
    shares = truth.responsibilities(rows)
    counts = shares.sum(axis=0)
    means = shares.T @ rows / counts[:, None]
    gaps = rows[:, None] - means
    covariances = np.einsum("nk,nki,nkj->kij", shares, gaps, gaps) / counts[:, None, None] + 0.01 * np.eye(d)
    theta = packed(truth)
    out = np.empty_like(theta)
    likelihood = em_step(np.ascontiguousarray(rows.T), theta, k, 0.01, out)
    assert likelihood == pytest.approx(truth.log_density(rows).sum(), rel=1e-12)
    expected = np.concatenate([counts / n, means.ravel(), covariances.ravel()])
    assert out == pytest.approx(expected, rel=1e-10, abs=1e-12)


def scikit_learn(rows, start, *, tol, reg=0.0):
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(
        start.n_components,
        tol=tol,
        max_iter=100_000,
        reg_covar=reg,
        weights_init=start.weights,
        means_init=start.means,
        precisions_init=np.linalg.inv(start.covariances),
    ).fit(rows)
    return Mixture(model.weights_ / model.weights_.sum(), model.means_, model.covariances_), model.n_iter_


@pytest.mark.parametrize("k, d, reg", [(2, 1, 0.0), (3, 2, 0.0), (3, 5, 0.02)])
def test_ends_at_the_fixed_point_of_scikit_learn(k, d, reg):
    rng = np.random.default_rng([k, d])
    truth = random_truth(rng, k, d, separation=3.0)
    rows = draw(truth, 4000, rng=rng)
    mean, sd = rows.mean(axis=0), rows.std(axis=0)
    rows = (rows - mean) / sd  # then reg means the same to both
    start = Mixture(truth.weights, (truth.means - mean) / sd, truth.covariances / np.outer(sd, sd))
    target, _ = scikit_learn(rows, start, tol=1e-12, reg=reg)
    fits = BatchedEM(tol=1e-11, reg=reg).fit_all(rows, np.array([0, 4000]), k, seeds=[0])
    assert fits.given[0] and in_sd(fit_of(fits, 0), target) < 1e-4


@pytest.mark.thorough
def test_extrapolation_saves_most_steps_of_a_slow_run():
    rng = np.random.default_rng(5)
    truth = Mixture([0.4, 0.6], [[0.0], [2.0]], [[[1.0]], [[1.5]]])
    rows = draw(truth, 4000, rng=rng)
    theta = packed(truth)
    likelihood, steps = climb(np.ascontiguousarray(rows.T), theta, 2, 0.0, 100_000, 1e-10, -np.inf)
    target, plain_steps = scikit_learn(rows, truth, tol=1e-10)
    assert steps < plain_steps / 3
    assert likelihood >= target.log_density(rows).sum() - 1e-6 * len(rows)
    assert climb(np.ascontiguousarray(rows.T), packed(truth), 2, 0.0, 20, 1e-10, -np.inf)[1] <= 22


def test_the_likelihood_never_falls_along_a_run():
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((300, 2)) * [1.0, 2.0] + rng.integers(0, 2, (300, 1)) * 2.0
    columns = np.ascontiguousarray(rows.T)
    for _ in range(20):
        shares = rng.dirichlet(np.ones(3))
        start = packed(Mixture(shares, rows[rng.integers(300, size=3)], [np.eye(2) * rng.uniform(0.2, 5)] * 3))
        reached = [climb(columns, start.copy(), 3, 0.0, steps, 1e-12, -np.inf)[0] for steps in range(1, 60, 2)]
        assert np.diff([x for x in reached if np.isfinite(x)]).min() >= -1e-8


@pytest.mark.parametrize(
    "learner, k, d", [(BatchedEM(n_init=1), 5, 2), (BatchedEM(start="farthest"), 4, 3), (BatchedEM(), 3, 1)]
)
def test_subsets_are_in_the_mode_of_the_truth(learner, k, d):
    """Means 4 sd apart, 40 records a parameter: at least 39 of 40; one start without moves misses about 8 at k = 5."""
    rng = np.random.default_rng([k, d, 9])
    size, t = 40 * (k - 1 + k * d + k * d * (d + 1) // 2), 40
    truths = [random_truth(rng, k, d) for _ in range(t)]
    records = np.concatenate([draw(truth, size, rng=rng) for truth in truths])
    fits = learner.fit_all(records, np.arange(t + 1) * size, k, seeds=range(t))
    assert fits.given.all()
    missed = 0
    for i, truth in enumerate(truths):
        rows = records[i * size : (i + 1) * size]
        likelihood, _ = climb(np.ascontiguousarray(rows.T), packed(truth), k, 0.0, 5000, 1e-9, -np.inf)
        missed += fit_of(fits, i).log_density(rows).sum() < likelihood - 0.05
    assert missed <= 1


def subsets(rng, *, t=12, k=3, d=2, size=150):
    truth = random_truth(rng, k, d)
    return draw(truth, t * size, rng=rng), np.arange(t + 1) * size


def garbage(size, d):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((size, d))
    yield "not a number", np.where(rows > 2, np.nan, rows)
    yield "infinite", np.where(rows > 2, -np.inf, rows)
    yield "overflow", rows * 1e300
    yield "alternating overflow", np.where(rows > 0, 1.7e308, -1.7e308)
    yield "underflow", rows * 1e-300
    yield "constant", np.full((size, d), 0.1)
    yield "constant column", np.column_stack([np.full(size, 1e9 / 3), rows[:, 1:]])
    yield "two points", np.repeat([[0.0] * d, [1.0] * d], size // 2, axis=0)
    yield "a line", rows[:, :1] * np.arange(1, d + 1)
    yield "one outlier", np.concatenate([rows[1:], np.full((1, d), 1e100)])


@pytest.mark.parametrize("name", [name for name, _ in garbage(150, 2)])
def test_a_fit_depends_on_its_subset_and_its_seed_alone(name, capfd):
    rng = np.random.default_rng(11)
    records, edges = subsets(rng)
    seeds = list(range(50, 62))
    learner = BatchedEM(n_init=2, reg=0.0)
    clean = learner.fit_all(records, edges, 3, seeds=seeds)
    dirty = records.copy()
    dirty[edges[4] : edges[5]] = dict(garbage(150, 2))[name]
    others = np.arange(12) != 4
    assert clean.given.all()
    for n_threads in (1, 2, 5):
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            fits = learner.fit_all(dirty, edges, 3, seeds=seeds, n_threads=n_threads)
        assert bits(fits, others) == bits(clean, others)
        assert not fits.given[4]
    assert capfd.readouterr() == ("", "")


def test_a_fit_depends_on_nothing_around_its_subset():
    rng = np.random.default_rng(12)
    records, edges = subsets(rng, size=157)
    learner = BatchedEM()
    whole = learner.fit_all(records, edges, 3, seeds=range(12))
    alone = learner.fit_all(records[edges[7] : edges[8]].copy(), np.array([0, 157]), 3, seeds=[7])
    assert bits(alone, 0) == bits(whole, 7)
    few = learner.fit_all(
        records[3:], np.array([edges[7] - 3, edges[8] - 3, edges[8] + 5]), 3, seeds=[7, 1], n_threads=2
    )
    assert bits(few, 0) == bits(whole, 7)
    assert not few.given[1]  # 8 records are fewer than k (d + 1)
    draws = [
        BatchedEM(n_init=1, max_iter=1).fit_all(records, edges, 3, seeds=[s] * 12).means.tobytes() for s in range(4)
    ]
    assert len(set(draws)) > 1  # the seed moves the starts


@pytest.mark.parametrize("k, d", [(2, 1), (3, 4)])
def test_units_and_offsets_do_not_matter(k, d):
    rng = np.random.default_rng([k, d, 2])
    truth = random_truth(rng, k, d)
    records = draw(truth, 3000, rng=rng)
    edges = np.array([0, 1000, 2000, 3000])
    units, offset = np.geomspace(1e-3, 1e3, d), 1e6
    learner = BatchedEM(tol=1e-10)
    plain = learner.fit_all(records, edges, k, seeds=[1, 2, 3])
    moved = learner.fit_all(records * units + offset, edges, k, seeds=[1, 2, 3])
    assert plain.given.all() and moved.given.all()
    for i in range(3):
        back = Mixture(
            moved.weights[i], (moved.means[i] - offset) / units, moved.covariances[i] / np.outer(units, units)
        )
        assert in_sd(back, fit_of(plain, i)) < 1e-5  # 1e6 + 1e-3 sd is rounded to 1e-7 sd


def test_duplicates_and_small_clusters_are_fitted_with_a_floor_on_variances():
    rng = np.random.default_rng(8)
    rows = np.concatenate([np.zeros((200, 1)), rng.standard_normal((300, 1)) + 9])
    fits = BatchedEM().fit_all(rows, np.array([0, 500]), 2, seeds=[0])
    assert fits.given[0]
    assert fits.covariances[0, :, 0, 0].min() == pytest.approx(1e-9 * rows.var(), rel=1e-6)
    assert fits.weights[0].min() == pytest.approx(0.4)


def test_a_column_that_is_constant_up_to_rounding_has_no_fit():
    noise = np.random.default_rng(9).standard_normal((200, 1))
    records = np.concatenate([1e9 * (1 + 1e-14 * noise), 1e9 * (1 + 1e-10 * noise)])
    assert BatchedEM().fit_all(records, np.array([0, 200, 400]), 1, seeds=[0, 0]).given.tolist() == [False, True]


def test_is_a_learner_of_one_subset():
    rng = np.random.default_rng(4)
    records, edges = subsets(rng, t=1)
    learner = BatchedEM(n_components=3)
    fit = fit_one(learner, records, 3, seed=5)
    again = fit_one(learner, records, 3, seed=5)
    assert fit.means.tobytes() == again.means.tobytes()
    np.random.seed(5)  # noqa: NPY002 - the stream that the learner reads
    seed = np.random.randint(2**31 - 1)  # noqa: NPY002
    assert fit.means.tobytes() == learner.fit_all(records, edges, 3, seeds=[seed]).means.tobytes()
    assert fit_here(learner, np.zeros((100, 2)), 3, seed=5) is None
    with pytest.raises(ValueError, match="n_components must be set"):
        BatchedEM()(records)


def test_progress_counts_subsets():
    records, edges = subsets(np.random.default_rng(6), t=3)
    for n_threads in (1, 2):
        progress = mock.Mock()
        BatchedEM().fit_all(records, edges, 2, seeds=[0, 1, 2], n_threads=n_threads, progress=progress)
        assert progress.call_args_list == [mock.call(done, 3) for done in (1, 2, 3)]


@pytest.mark.parametrize(
    "settings, error, message",
    [
        ({"n_init": 0}, ValueError, "n_init must be at least 1"),
        ({"max_iter": 2.5}, TypeError, "max_iter must be an integer"),
        ({"tol": 0.0}, ValueError, "tol must be finite and greater than 0"),
        ({"start": "random"}, ValueError, "start must be one of"),
        ({"reg": -1e-9}, ValueError, "reg must be finite and at least 0"),
        ({"n_components": 0}, ValueError, "n_components must be at least 1"),
    ],
)
def test_settings_are_checked(settings, error, message):
    with pytest.raises(error, match=message):
        BatchedEM(**settings)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"records": np.zeros(10)}, "records must have shape"),
        ({"edges": np.array([0, 6, 5])}, "edges must not decrease"),
        ({"edges": np.array([0, 5, 11])}, "edges must not decrease and must lie within 0 and 10"),
        ({"edges": np.array([0.0, 5.0, 10.0])}, "edges must be a row of integers"),
        ({"seeds": [1]}, "seeds must have one number for each of 2 subsets, got 1"),
        ({"seeds": [1, -1]}, "seeds must be at least 0"),
        ({"n_components": 0}, "n_components must be at least 1"),
        ({"n_threads": 0}, "n_threads must be at least 1"),
    ],
)
def test_arguments_are_checked(changes, message):
    arguments = {"records": np.zeros((10, 1)), "edges": np.array([0, 5, 10]), "n_components": 1, "seeds": [1, 2]}
    with pytest.raises(ValueError, match=message):
        BatchedEM().fit_all(**(arguments | changes))


def test_flat_clusters_in_a_row_are_found():
    """The likelihood of the truth is beaten in every subset; splits along longest axes missed 15 of these 375."""
    truth = public_mixture(
        2, 3, separation=4.0, weights=np.full(3, 1 / 3), rng=np.random.default_rng([20261121, 2, 3, 11])
    )
    t, m = 375, 666
    records = truth.sample(t * m, rng=np.random.default_rng(5))
    fits = BatchedEM().fit_all(records, np.arange(t + 1) * m, 3, seeds=range(t))
    for i in range(t):
        subset = records[i * m : (i + 1) * m]
        fit = Mixture(fits.weights[i], fits.means[i], fits.covariances[i])
        assert fit.log_density(subset).sum() > truth.log_density(subset).sum()

"""Fits to noisy counts have a background where the counts say so, or say too little."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.bayes.parameters.count_information import histogram_covariance
from pm_dpgmm.methods.counts import background
from pm_dpgmm.methods.counts.background import DOUBT, LITTLE
from pm_dpgmm.methods.counts.histogram_fit import fit_beside, fit_counts
from pm_dpgmm.methods.counts.histogram_law import log_density
from pm_dpgmm.mixture.cell_probabilities import cell_probabilities
from pm_dpgmm.mixture.far_rows import as_wide_as
from pm_dpgmm.release.fit_check import check_counts

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")

TWO = dpg.Mixture([0.6, 0.4], [[-2.0], [2.0]], [[[1.0]], [[0.5]]])
PLANE = dpg.Mixture([0.5, 0.5], [[0.0, 0.0], [4.0, 1.0]], [np.eye(2), [[1.0, 0.4], [0.4, 0.6]]])
BOX = np.array([[-6.0, 10.0], [-6.0, 8.0]])


def with_tail(n_records, share, seed=1):
    """Rows of PLANE, a share of which are spread widely."""
    rng = np.random.default_rng(seed)
    rows = PLANE.sample(n_records, rng=rng)
    far = rng.random(n_records) < share
    rows[far] += rng.normal(0.0, 4.0, (far.sum(), 2))
    return np.clip(rows, BOX[:, 0], BOX[:, 1])


def fitted(X, n_components=2, **settings):
    known = {"epsilon": 1.0, "bounds": BOX[: X.shape[1]], "random_seed": 1, "progress": False}
    return dpg.fit_gmm(X, n_components, **(known | settings))


@pytest.fixture(scope="module")
def tailed():
    return fitted(with_tail(20_000, 0.1))


def test_tails_are_in_the_background_and_no_longer_cost_dozens_of_nats(tailed):
    held = with_tail(20_000, 0.1, seed=2)
    inside = (held < BOX[:, 1]).all(axis=1) & (held > BOX[:, 0]).all(axis=1)
    assert 0.05 < tailed.background_weight < 0.15 and tailed.density.n_components == 3
    counts = tailed.raw["counts"].astype(int)
    alone = fit_counts(counts, BOX, 2, noise_scale=tailed.noise["scale"], progress=lambda *_: None)
    gain = tailed.log_density(held[inside]) - alone.log_density(held[inside])
    assert gain.mean() > 0.02 and gain.max() > 5
    assert dpg.Release.from_dict(tailed.to_dict()).density.weights.tolist() == tailed.density.weights.tolist()


def test_the_background_is_a_function_of_public_bounds():
    broad = as_wide_as(BOX)
    assert broad.means.tolist() == [[2.0, 1.0]] and np.sqrt(broad.covariances[0]).tolist() == [
        [16 / 6, 0.0],
        [0.0, 14 / 6],
    ]


@pytest.mark.parametrize(
    "mixture, n_records", [(TWO, 300), (TWO, 2_000), (TWO, 40_000), (PLANE, 2_000), (PLANE, 40_000)]
)
def test_mixtures_have_none(mixture, n_records):
    """Three known seeds each; in up to 7 of 100 such fits one that is not there has a little weight."""
    for seed in range(3):
        X = mixture.sample(n_records, rng=np.random.default_rng(seed))
        release = fitted(X, random_seed=seed)
        same = fit_counts(
            release.raw["counts"].astype(int),
            BOX[: X.shape[1]],
            2,
            noise_scale=release.noise["scale"],
            progress=lambda *_: None,
        )
        assert release.background is None and release.background_weight == 0
        assert release.mixture.means.tolist() == same.means.tolist()


@pytest.mark.parametrize("deviation, share", [(15.0, 0.6), (18.0, 0.6), (16.0, 0.06), (25.0, 1.0)])
def test_a_component_as_wide_as_the_background_stays_a_component(deviation, share):
    """While components alone paid for what they have outside the bounds, the background took their place."""
    for seed in range(2):
        rng, n_wide = np.random.default_rng(seed), int(20_000 * share)
        x = np.r_[rng.normal(50.0, deviation, n_wide), rng.normal(30.0, 3.0, 20_000 - n_wide)]
        release = fitted(x[:, None], 1 + (share < 1), bounds=(0, 100))
        wide = int(np.argmax(release.covariances[:, 0, 0]))
        assert release.background is None and release.weights[wide] == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("means, deviations", [([-8.0, 8.0], [2.0, 2.5]), ([-6.0, 6.0], [0.8, 1.0])])
def test_a_twentyfifth_of_the_records_far_from_all_components_is_not_lost_in_silence(means, deviations):
    """Half of such fits lost .1 to .2 nats a record: a weight of more than a tenth, never taken, counted as likely.

    Known seeds; of 0 to 7 one of the second kind is silent, where noise hides that so many lie there.
    """
    truth = dpg.Mixture([0.6, 0.4], np.c_[means], np.square(deviations)[:, None, None])

    def drawn(n, rng):
        far = rng.random(n) < 0.04
        return np.where(far[:, None], rng.uniform(-40, 40, (n, 1)), truth.sample(n, rng=rng))

    for seed in range(1, 8):
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            release = fitted(drawn(3_000, rng), bounds=(-40, 40), random_seed=seed)
        held_out = drawn(20_000, rng)
        density = np.logaddexp(math.log(0.96) + truth.log_density(held_out), math.log(0.04 / 80))
        silent = not any(issubclass(item.category, dpg.FitWarning) for item in told)
        assert not silent or density.mean() - release.log_density(held_out).mean() < 0.1


def test_what_holds_more_than_a_tenth_is_no_background():
    x = np.clip(np.random.default_rng(1).exponential(20.0, (20_000, 1)), 0, 100)
    assert fitted(x, bounds=(0, 100)).background is None


def test_so_few_records_that_counts_say_little_have_some():
    X = PLANE.sample(150, rng=np.random.default_rng(1))
    assert 0 < fitted(X).background_weight < DOUBT
    assert 0 < fitted(X, method="slices").background_weight < DOUBT
    assert fitted(X[:, :1]).background is None


@pytest.mark.parametrize(
    "gain, weight, error", [(5.0, 0.5, 1e-4), (5_000.0, 0.5, 1e-4), (5.0, 0.05, np.inf), (-9.0, 0.05, 0.01)]
)
def test_what_is_no_background_leaves_the_doubt(gain, weight, error, monkeypatch):
    """A weight far beyond the most has no density below it, whose logarithm would be lost with the doubt."""
    release = fitted(PLANE.sample(150, rng=np.random.default_rng(1)))
    monkeypatch.setattr(
        background,
        "fit_beside",
        lambda *given, **named: replace(fit_beside(*given, **named), gain=gain, weight=weight, error=error),
    )
    _, found = background.beside_histogram(release.raw, release.noise, release.mixture, lambda *_: None)
    assert found is not None and 0 < found[0] < DOUBT


def test_a_fit_that_fails_leaves_the_mixture_and_the_doubt(monkeypatch):
    """One `try` over all of it lost the doubt with the background."""

    def fails(*given, **named):
        raise np.linalg.LinAlgError("Matrix is not positive definite")

    release = fitted(PLANE.sample(150, rng=np.random.default_rng(1)))
    monkeypatch.setattr(background, "fit_beside", fails)
    mixture, found = background.beside_histogram(release.raw, release.noise, release.mixture, lambda *_: None)
    assert mixture is release.mixture and found is not None and 0 < found[0] < DOUBT


@pytest.mark.parametrize("gain, chance", [(1.6, 0), (1.75, 0.26504), (9.0, 0.99803)])
def test_the_weight_is_a_mean_over_a_background_and_none(gain, chance, monkeypatch):
    """By hand: for a weight of .04 that is known to .01 odds are exp(gain) sqrt(2 pi) .01 / .1 / 4."""
    release = fitted(TWO.sample(2_000, rng=np.random.default_rng(0)))
    made = fit_beside(
        release.raw["counts"].astype(int),
        BOX[:1],
        release.mixture,
        as_wide_as(BOX[:1]),
        noise_scale=release.noise["scale"],
        progress=lambda *_: None,
    )
    monkeypatch.setattr(background, "fit_beside", lambda *_, **__: replace(made, gain=gain, weight=0.04, error=0.01))
    _, found = background.beside_histogram(release.raw, release.noise, release.mixture, lambda *_: None)
    assert (0.0 if found is None else found[0]) == pytest.approx(0.04 * chance, rel=1e-3)


def test_slices_that_contradict_the_mixture_have_a_little():
    X = with_tail(20_000, 0.2)
    release = fitted(X, 1, method="slices")
    assert release.background_weight == LITTLE and release.background.means.tolist() == [[2.0, 1.0]]
    assert fitted(PLANE.sample(20_000, rng=np.random.default_rng(1)), method="slices").background is None


def test_a_known_weight_is_found_within_its_error():
    """Ten draws, 4 errors: false alarms below 1e-3."""
    known, away = as_wide_as(BOX[:1]), []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        far = known.sample(600, rng=rng)
        x = np.concatenate([TWO.sample(9_500, rng=rng), far[np.abs(far - 2) < 8][:500, None]])
        counts = np.histogram(x, 64, BOX[0])[0] + rng.geometric(0.4, 64) - rng.geometric(0.4, 64)
        plain = fit_counts(counts, BOX[:1], 2, noise_scale=2.0, progress=lambda *_: None)
        found = fit_beside(counts, BOX[:1], plain, known, noise_scale=2.0, progress=lambda *_: None)
        assert found.gain > 5 and 0.002 < found.error < 0.02
        away.append((found.weight - 500 / 10_000) / found.error)
    assert np.abs(away).max() < 4


def test_the_check_of_the_counts_takes_the_whole_density(tailed):
    bare = replace(tailed, background=None, background_weight=0.0)
    for mixtures in (None, [tailed.mixture] * 20):
        whole, less = (check_counts(one, mixtures, np.random.default_rng(1)) for one in (tailed, bare))
        assert less.statistic > whole.statistic + 50


def test_another_number_of_components_has_its_own_background(tailed):
    other = tailed.refit(3)
    assert other.n_components == 3 and other.raw["counts"] is not None
    assert (other.background is None) == (other.background_weight == 0)
    chosen = tailed.select_k([1, 2, 3])
    assert {one.n_components for one in chosen.releases} == {1, 2, 3} and chosen.releases[1].background is not None


def test_evidence_keeps_the_background_as_it_was_released(tailed):
    from pm_dpgmm.bayes.likelihoods import counts as evidence

    m, broad = tailed.mixture, tailed.density
    value = evidence.log_likelihood(tailed, m.weights, m.means, np.linalg.cholesky(m.covariances)).eval()
    grid = evidence.statistics(tailed)
    wanted = log_density(
        grid, cell_probabilities(grid.edges, broad.weights, broad.means, np.linalg.cholesky(broad.covariances))
    )
    bare = log_density(grid, cell_probabilities(grid.edges, m.weights, m.means, np.linalg.cholesky(m.covariances)))
    assert value == pytest.approx(wanted, abs=1e-4) and wanted > bare + 10


def test_errors_of_components_are_those_beside_the_background(tailed):
    """A tenth of the records tells nothing of the components: their variances are larger by that, at least."""
    bare = replace(tailed, background=None, background_weight=0.0)
    own, alone = (np.diagonal(histogram_covariance(one, one.mixture)) for one in (tailed, bare))
    assert (own[1:] > alone[1:] / (1 - tailed.background_weight / 2)).all()

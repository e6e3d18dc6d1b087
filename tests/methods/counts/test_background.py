"""Fits to noisy counts have a background where the counts say so, or say too little."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

import pm_dpgmm as dpg
from pm_dpgmm.bayes.parameters import count_information
from pm_dpgmm.bayes.parameters.count_information import histogram_covariance
from pm_dpgmm.mechanisms.slices import Slices
from pm_dpgmm.methods.counts import background, histogram, histogram_fit, slices
from pm_dpgmm.methods.counts.background import DOUBT, LITTLE, MOST, ODDS, REACH, TYPICAL, Histograms
from pm_dpgmm.methods.counts.histogram_fit import fit_counts
from pm_dpgmm.methods.counts.histogram_law import NoisyGrid, log_density, log_noise_height, numpy_log_count
from pm_dpgmm.methods.counts.noisy_poisson import count_log_likelihood
from pm_dpgmm.methods.counts.slice_fit import SliceFits
from pm_dpgmm.mixture.cell_probabilities import cell_probabilities
from pm_dpgmm.mixture.far_rows import as_wide_as
from pm_dpgmm.release.fit_check import check_counts

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")

TWO = dpg.Mixture([0.6, 0.4], [[-2.0], [2.0]], [[[1.0]], [[0.5]]])
PLANE = dpg.Mixture([0.5, 0.5], [[0.0, 0.0], [4.0, 1.0]], [np.eye(2), [[1.0, 0.4], [0.4, 0.6]]])
BOX = np.array([[-6.0, 10.0], [-6.0, 8.0]])
DERIVED = ("caveats", "far_rows", "dispersion")  # of the law of a release: what the fit adds


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


def told_of(release):
    """What a fit is made from, but for numbers of components and records."""
    return release.guarantee, release.raw, {k: v for k, v in release.noise.items() if k not in DERIVED}


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
    broad = as_wide_as(BOX, REACH)
    assert broad.means.tolist() == [[2.0, 1.0]] and np.sqrt(broad.covariances[0]).tolist() == [[4.0, 0.0], [0.0, 3.5]]


@pytest.mark.thorough(quick=["mixture0-300-0.02", "mixture1-2000-0.005", "mixture2-40000-0.0002"])
@pytest.mark.parametrize(
    "mixture, n_records, most",
    [(TWO, 300, 0.02), (TWO, 2_000, 0.005), (TWO, 40_000, 2e-4), (PLANE, 2_000, 0.01), (PLANE, 40_000, 5e-4)],
)
def test_mixtures_have_next_to_none(mixture, n_records, most):
    """Three known seeds each. What is left is what noise may hide; its weight is about what it costs in nats."""
    for seed in range(3):
        X = mixture.sample(n_records, rng=np.random.default_rng(seed))
        assert fitted(X, random_seed=seed).background_weight < most
        if mixture is PLANE:
            assert fitted(X, random_seed=seed, method="slices").background_weight < most


@pytest.mark.parametrize("deviation, share", [(15.0, 0.6), (18.0, 0.6), (16.0, 0.06), (25.0, 1.0)])
def test_a_component_as_wide_as_the_background_stays_a_component(deviation, share):
    """While components alone paid for what they have outside the bounds, the background took their place."""
    for seed in range(2):
        rng, n_wide = np.random.default_rng(seed), int(20_000 * share)
        x = np.r_[rng.normal(50.0, deviation, n_wide), rng.normal(30.0, 3.0, 20_000 - n_wide)]
        release = fitted(x[:, None], 1 + (share < 1), bounds=(0, 100))
        wide = int(np.argmax(release.covariances[:, 0, 0]))
        assert release.background_weight < 0.03 and release.weights[wide] == pytest.approx(share, abs=0.02)


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


@pytest.mark.parametrize(
    "method, d, n_records, share, most",
    [
        ("histogram", 2, 1_000, 0.04, 0.1),
        ("histogram", 2, 3_000, 0.07, 0.05),
        ("histogram", 2, 3_000, 0.2, 0.1),
        ("slices", 2, 3_000, 0.05, 0.1),
        ("slices", 3, 3_000, 0.07, 0.08),
        ("slices", 3, 5_000, 0.04, 0.04),
    ],
)
@pytest.mark.thorough(quick=["histogram-2-3000-0.07-0.05"])
def test_far_rows_in_several_columns_are_found_where_sums_of_noisy_counts_hide_them(method, d, n_records, share, most):
    """.3, .65 and more were lost in silence: what so many noisy bins hold, the public number of records tells.

    Three known seeds.
    """
    truth = dpg.Mixture([0.6, 0.4], [[30.0] * d, [65.0] * d], [36.0 * np.eye(d)] * 2)

    def drawn(n, rng):
        far = rng.random(n) < share
        return np.where(far[:, None], rng.uniform(0, 100, (n, d)), truth.sample(n, rng=rng))

    for seed in range(1, 4):
        rng = np.random.default_rng(seed)
        release = fitted(drawn(n_records, rng), bounds=(0, 100), random_seed=seed, method=method)
        held_out = drawn(20_000, rng)
        density = np.logaddexp(math.log(1 - share) + truth.log_density(held_out), math.log(share) - d * math.log(100))
        assert density.mean() - release.log_density(held_out).mean() < most


def test_a_private_number_of_records_tells_less_and_is_not_used():
    X = with_tail(20_000, 0.1)
    found = [fitted(X, neighbouring=relation) for relation in ("replace-one", "add-remove")]
    assert [release.n_records for release in found] == [20_000, None]
    assert all(0.05 < release.background_weight < 0.15 for release in found)
    alone = fitted(X, method="slices", neighbouring="add-remove")
    assert alone.n_records is None and 0.02 < alone.background_weight < 0.15


def test_no_law_of_components_is_that_of_exponential_times():
    """A fifth of them seems to be in no component: .08 nats a record are lost with it, .21 without."""
    x = np.clip(np.random.default_rng(1).exponential(20.0, (20_000, 1)), 0, 100)
    release = fitted(x, bounds=(0, 100))
    held_out = np.random.default_rng(2).exponential(20.0, (20_000, 1))
    held_out = held_out[held_out[:, 0] < 99]
    lost = (-math.log(20.0) - held_out[:, 0] / 20 - release.log_density(held_out)).mean()
    assert 0.1 < release.background_weight < MOST and lost < 0.1


def test_so_few_records_that_counts_say_little_have_some():
    X = PLANE.sample(150, rng=np.random.default_rng(1))
    assert 0.01 < fitted(X).background_weight < DOUBT
    assert 0.01 < fitted(X, method="slices").background_weight < DOUBT


@pytest.mark.parametrize("method, fit", [("histogram", "fit_beside"), ("slices", "mean_weight")])
def test_a_fit_that_fails_leaves_the_mixture_and_the_doubt(method, fit, monkeypatch):
    """One `try` over all of it lost the doubt with the background."""

    def fails(*given, **named):
        raise np.linalg.LinAlgError("Matrix is not positive definite")

    one = fitted(PLANE.sample(150, rng=np.random.default_rng(1)), method=method)
    monkeypatch.setattr(background, fit, fails)
    if method == "slices":
        counts, sizes = one.raw["counts"].astype(int), one.raw["sizes"].astype(int)
        fits = SliceFits.to(counts, Slices(one.raw["directions"], sizes[0]), BOX, noise_scale=one.noise["scale"])
        mixture, found = background.beside_slices(one.raw, one.noise, one.mixture, fits, n_records=150)
    else:
        silent = {"n_records": 150, "progress": lambda *_: None}
        mixture, found = background.beside_histogram(one.raw, one.noise, one.mixture, **silent)
    assert mixture is one.mixture and found is not None and 0 < found[0] < DOUBT


# ---------------------------------------------------------------------- weights
SEEN = Histograms(np.full(4, 2.5e4), np.zeros(1, dtype=int), 2.0, 10**5)
OWN, WIDE = np.array([0.0, 0.0]), np.array([1.0, 0.0])  # so that the first share is the weight


def parabola(peak, error):
    """Log-likelihood of a weight, and of the mixture by what the second share was."""
    return lambda self, shares: shares[1] / max(1 - shares[0], 1e-9) - (shares[0] - peak) ** 2 / (2 * error**2)


@pytest.mark.parametrize("peak, error", [(0.04, 0.01), (0.04, 0.001), (0.1, 0.05), (-0.1, 0.03), (0.26, 0.2)])
@pytest.mark.parametrize("height", [0.0, 2.0])
def test_the_weight_is_its_posterior_mean(peak, error, height, monkeypatch):
    """By numerical integrals: none has the odds 1 / ODDS, and weights up to MOST an exponential law.

    A second mixture is likelier by ``height``, but it was not fitted alone: none has the likelihood of the first.
    """
    monkeypatch.setattr(Histograms, "log_likelihood", parabola(peak, error))

    def integral(power):
        def under(w):
            return w**power * math.exp(-((w - peak) ** 2) / (2 * error**2) - w / TYPICAL) / TYPICAL

        return (
            ODDS
            * math.exp(height)
            * integrate.quad(under, 0, MOST, points=[min(max(peak, 0), MOST)], epsabs=1e-13, limit=200)[0]
        )

    wanted = integral(1) / (integral(0) + math.exp(-(peak**2) / (2 * error**2)))
    assert background.mean_weight(SEEN, [OWN, np.array([0.0, height])], WIDE)[1] == pytest.approx(wanted, rel=0.02)


def test_slices_are_fitted_again_beside_as_many_records_as_the_background_has(monkeypatch):
    known = []

    def spied(fits, mixture, beside):
        known.append(beside)
        return mixture

    monkeypatch.setattr(SliceFits, "beside", spied)
    weights = iter([(0, 0.1), (0, 0.12), (0, 0.12)])
    monkeypatch.setattr(background, "mean_weight", lambda *given: next(weights))
    release = fitted(with_tail(2_000, 0.1), method="slices")
    sizes = release.raw["sizes"].astype(int)
    for beside, share in zip(known, (0.1, 0.12), strict=True):
        assert np.add.reduceat(beside, np.r_[0, np.cumsum(sizes)[:-1]]) == pytest.approx(2_000 * share)
    assert release.background_weight == 0.12


def test_what_surely_holds_more_has_the_most(monkeypatch):
    monkeypatch.setattr(Histograms, "log_likelihood", parabola(0.5, 0.05))
    assert 0.9 * MOST < background.mean_weight(SEEN, [OWN], WIDE)[1] < MOST


def test_the_likelier_mixture_is_taken_and_a_background_of_no_record_is_none(monkeypatch):
    monkeypatch.setattr(Histograms, "log_likelihood", parabola(0.05, 0.01))
    likelier = np.array([0.0, 1.0])
    assert [background.mean_weight(SEEN, own, WIDE)[0] for own in ([OWN, likelier], [likelier, OWN])] == [1, 0]
    monkeypatch.setattr(Histograms, "log_likelihood", parabola(-0.1, 0.001))
    assert background.mean_weight(SEEN, [OWN, likelier], WIDE) == (0, 0.0)
    monkeypatch.setattr(Histograms, "log_likelihood", lambda self, shares: math.nan)
    assert background.mean_weight(SEEN, [OWN], WIDE) == (0, 0.0)


@pytest.mark.parametrize("n_bins", [64, 7])
def test_the_law_of_a_histogram_is_that_of_its_evidence(n_bins):
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.ones(n_bins))
    values = (rng.multinomial(500, shares) + rng.geometric(0.4, n_bins) - rng.geometric(0.4, n_bins)).astype(float)
    one = Histograms(values, np.zeros(1, dtype=int), 2.0, 500)
    assert one.log_likelihood(shares) == pytest.approx(
        log_density(NoisyGrid(values, BOX[:1], n_bins, 2.0, 500), shares)
    )
    two = Histograms(np.r_[values, values], np.array([0, n_bins]), 2.0, 500)
    assert two.log_likelihood(np.r_[shares, shares]) == pytest.approx(2 * one.log_likelihood(shares))


def test_an_unknown_number_of_records_is_about_the_likeliest():
    rng = np.random.default_rng(2)
    shares = rng.dirichlet(np.ones(64))
    values = (rng.poisson(5_000 * shares) + rng.geometric(0.4, 64) - rng.geometric(0.4, 64)).astype(float)
    found = Histograms(values, np.zeros(1, dtype=int), 2.0, None).log_likelihood(shares)
    sizes = [numpy_log_count(values, n * shares, 2.0).sum() for n in np.linspace(4_500, 5_500, 201)]
    assert max(sizes) - 0.05 < found < max(sizes) + 1e-3


@pytest.mark.filterwarnings("ignore::pm_dpgmm.WeakGuarantee")
@pytest.mark.parametrize("epsilon", [0.001, 1_000.0, 5_000.0])
@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove"])
def test_far_rows_are_found_at_any_budget(epsilon, neighbouring):
    """The variance of noise of a scale below .0014 overflowed, and the background was lost."""
    rng = np.random.default_rng(0)
    x = np.r_[rng.normal(-15, 2, 600), rng.normal(15, 2, 400), rng.uniform(-40, 40, 80)][:, None]
    found = fitted(x, bounds=(-40, 40), epsilon=epsilon, neighbouring=neighbouring).background_weight
    assert 0.04 < found < 0.12 if epsilon > 1 else 0 < found < MOST


def test_true_counts_given_their_sum_are_those_of_all_that_could_be():
    """By enumeration: three bins of few records and discrete Laplace noise. Gaussian sums are right to a tenth here."""
    expected, noisy, n_records, scale = np.array([3.0, 5.0, 2.0]), np.array([4.0, 3.0, 5.0]), 13, 1.5
    counts = np.array([(i, j, n_records - i - j) for i in range(n_records + 1) for j in range(n_records + 1 - i)])
    logs = stats.poisson.logpmf(counts, expected).sum(axis=1) - np.abs(counts - noisy).sum(axis=1) / scale
    wanted = np.exp(logs - logs.max()) @ counts / np.exp(logs - logs.max()).sum()
    grid = replace(histogram_fit._grid(noisy.astype(int), 1, scale), n_records=n_records)
    _, slope = count_log_likelihood(noisy, expected, noise_scale=scale)
    free, (found, _) = expected * (1 + slope), histogram_fit._given_the_total(grid, expected, 1 + slope)
    assert expected @ found == pytest.approx(n_records)
    assert expected * found == pytest.approx(wanted, rel=0.1) and np.abs(free - wanted).max() > 0.5


@pytest.mark.parametrize("n_records, wanted", [(1_000, 1_000), (None, 1_300)])
def test_a_fit_that_is_given_the_sum_has_as_many_records(n_records, wanted):
    """Without it the rates are what the noisy counts add up to, here 300 more."""
    counts = np.r_[np.full(50, 3), 150, 700, 150, np.full(50, 3)]
    grid = replace(histogram_fit._grid(counts, 1, 20.0), n_records=n_records)
    start = np.array([900.0, 100.0]), np.array([[51.5], [51.5]]), np.array([[[1.0]], [[900.0]]])
    _, (rates, _, _) = histogram_fit._em(replace(grid, n_fixed=1), start, 500)
    assert rates.sum() == pytest.approx(wanted, rel=0.05)


def test_the_given_sum_has_the_law_of_the_evidence():
    rng = np.random.default_rng(3)
    expected = 400 * rng.dirichlet(np.ones(50))
    noisy = (rng.poisson(expected) + rng.geometric(0.4, 50) - rng.geometric(0.4, 50)).astype(float)
    grid = replace(histogram_fit._grid(noisy.astype(int), 1, 2.0), n_records=400)
    log_likelihood, slope = count_log_likelihood(noisy, expected, noise_scale=2.0)
    _, of_total = histogram_fit._given_the_total(grid, expected, 1 + slope)
    wanted = log_density(NoisyGrid(noisy, BOX[:1], 50, 2.0, 400), expected / 400)
    assert log_likelihood.sum() + 50 * log_noise_height(2.0) + of_total == pytest.approx(wanted)


@pytest.mark.thorough(quick=["replace-one-True-histogram", "add-remove-False-slices"])
@pytest.mark.parametrize("method", ["histogram", "slices"])
@pytest.mark.parametrize("neighbouring, public", [("replace-one", True), ("add-remove", False)])
def test_a_private_number_of_records_does_not_enter_the_fit(method, neighbouring, public):
    """What was released gives the same fit bit for bit; a wrong number gives another where it is used at all."""
    release = fitted(with_tail(2_000, 0.1), method=method, neighbouring=neighbouring)
    assert release.n_records == (2_000 if public else None)

    def again(n_records):
        told = told_of(release)
        if method == "slices":
            return slices.fitted(
                *told, Slices(np.asarray(release.raw["directions"]), 24), 2, n_records, lambda *_: None
            )
        return histogram.fitted(*told, 2, n_records, lambda *_: None)

    same, other = again(release.n_records), again(1_500)
    assert same.mixture.means.tolist() == release.mixture.means.tolist()
    assert same.background[0] == release.background_weight != (other.background or (0.0, None))[0]
    assert list(same.noise["caveats"]) == list(release.warnings)
    if method == "histogram":
        refit, found = release.refit(3), histogram.fitted(*told_of(release), 3, release.n_records, lambda *_: None)
        assert refit.background_weight == (found.background or (0.0, None))[0]
        assert refit.means.tolist() == found.mixture.means.tolist()


def test_slices_that_contradict_the_mixture_have_a_little():
    X = with_tail(20_000, 0.2)
    release = fitted(X, 1, method="slices")
    assert release.background_weight >= LITTLE and release.background.means.tolist() == [[2.0, 1.0]]


@pytest.mark.parametrize("public", [True, False])
def test_a_known_weight_is_found_within_its_error(public):
    """Ten draws; the mean is within .003 of .05 and no one is off by .015, where the noise alone has .004."""
    known, found = as_wide_as(BOX[:1], REACH), []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        far = known.sample(900, rng=rng)
        x = np.concatenate([TWO.sample(9_500, rng=rng), far[np.abs(far - 2) < 8][:500, None]])
        counts = np.histogram(x, 64, BOX[0])[0] + rng.geometric(0.4, 64) - rng.geometric(0.4, 64)
        plain = fit_counts(counts, BOX[:1], 2, noise_scale=2.0, progress=lambda *_: None)
        raw = {"counts": counts.astype(float), "bounds": BOX[:1]}
        _, one = background.beside_histogram(
            raw, {"scale": 2.0}, plain, n_records=10_000 if public else None, progress=lambda *_: None
        )
        found.append(one[0])
    assert np.mean(found) == pytest.approx(0.05, abs=0.003) and np.abs(np.array(found) - 0.05).max() < 0.015


def test_the_check_of_the_counts_takes_the_whole_density(tailed):
    bare = replace(tailed, background=None, background_weight=0.0)
    for mixtures in (None, [tailed.mixture] * 20):
        whole, less = (check_counts(one, mixtures, np.random.default_rng(1)) for one in (tailed, bare))
        assert less.statistic > whole.statistic + 50


@pytest.mark.thorough
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


def test_errors_of_components_are_those_of_a_background_of_unknown_weight_and_shape(tailed, monkeypatch):
    """Beside one that is known, as for next to no prior deviation, they are smaller in every direction."""
    unknown = histogram_covariance(tailed, tailed.mixture)
    monkeypatch.setattr(count_information, "LOG_ODDS", 1e-4)
    known = histogram_covariance(tailed, tailed.mixture)
    assert np.linalg.eigvalsh(unknown - known).min() > -1e-9 * np.trace(known)
    assert (np.diagonal(unknown) / np.diagonal(known)).max() > 1.05

"""Fits to noisy counts that the counts do not support say so, and good ones do not."""

import json
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.mixture import GaussianMixture

import pm_dpgmm as dpg
from pm_dpgmm.methods.counts import caveats
from pm_dpgmm.methods.counts.caveats import Counts, Judged, count_caveats, excess
from pm_dpgmm.methods.counts.histogram_fit import fit_counts
from pm_dpgmm.methods.counts.slice_fit import BAD_FIT
from pm_dpgmm.mixture.background import background_of
from pm_dpgmm.mixture.cell_probabilities import exact_cell_probabilities
from pm_dpgmm.privacy.noise import discrete_laplace
from pm_dpgmm.release.release import Release

pytestmark = pytest.mark.filterwarnings("error::pm_dpgmm.FitWarning")

TWO = dpg.Mixture([0.6, 0.4], [[-2.0], [2.0]], [[[1.0]], [[0.5]]])


def fitted(X, n_components, epsilon, bounds, **settings):
    """The release and the classes of the warnings, with a known seed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = dpg.fit_gmm(
            X, n_components, epsilon=epsilon, bounds=bounds, random_seed=1, progress=False, **settings
        )
    return release, [item.category for item in caught]


def clusters(n, d, deviation=1.0, seed=2):
    rng = np.random.default_rng(seed)
    return deviation * rng.normal(size=(n, d)) + 6 * (np.arange(n) < 0.4 * n)[:, None]


def judged(counts, mixture, *, noise_scale=2.0, bounds=(-6.0, 6.0)):
    raw = {"counts": np.asarray(counts, dtype=float), "bounds": np.array([bounds] * mixture.n_features)}
    return Judged.of(Counts.of(raw, {"scale": noise_scale}), mixture)


@pytest.mark.thorough(quick=["X0-2-0.02-bounds0-too few records"])
@pytest.mark.parametrize(
    "X, n_components, epsilon, bounds, told",
    [
        (clusters(300, 1), 2, 0.02, (-20, 30), "too few records"),
        (clusters(500, 2), 2, 0.1, (-6, 12), "too few records"),
        (clusters(600, 4), 3, 0.1, (-6, 12), "too few records"),
        (clusters(5_000, 1, deviation=0.02), 2, 1.0, (-30, 40), "could be 3 times narrower"),
        (clusters(20_000, 2, deviation=0.02), 2, 1.0, (-30, 40), "could be 3 times narrower"),
        (clusters(20_000, 3, deviation=0.1), 2, 1.0, (-30, 40), "could be 3 times narrower"),
        (clusters(20_000, 1), 1, 1.0, (-6, 12), "a mixture of 1 component does not fit"),
        (clusters(20_000, 2), 1, 1.0, (-6, 12), "a mixture of 1 component does not fit"),
        (clusters(20_000, 3), 1, 1.0, (-6, 12), "a mixture of 1 component does not fit"),
    ],
)
def test_a_bad_fit_warns_once_and_says_why(X, n_components, epsilon, bounds, told, tmp_path):
    release, caught = fitted(X, n_components, epsilon, bounds)
    assert release.method == ("histogram" if X.shape[1] < 3 else "slices")
    assert caught == [dpg.FitWarning] and told in release.flag and told in release.summary()
    again = dpg.load(release.save(tmp_path / "release.json"))
    assert again.warnings == release.warnings and told in again.card(tmp_path / "card.md").read_text()


@pytest.mark.parametrize(
    "share, n_records, told", [(0.0, 10_000, None), (0.02, 10_000, "about 1."), (0.005, 100_000, "about 0.3")]
)
def test_records_far_from_all_components_are_told_of_components_alone(share, n_records, told):
    """A density of minus hundreds for each, and 1.2 nats less on average, were silent. False alarm 5e-4 by design."""
    rng = np.random.default_rng(1)
    rows = np.concatenate([TWO.sample(n_records, rng=rng), rng.uniform(-20, 20, (int(share * n_records), 1))])
    release, caught = fitted(rows, 2, 1.0, (-20, 20))
    assert caught == [] and release.warnings == () and (release.background_weight < 1e-3) == (told is None)
    alone = fit_counts(
        release.raw["counts"].astype(int),
        release.raw["bounds"],
        2,
        noise_scale=release.noise["scale"],
        progress=lambda *_: None,
    )
    words = count_caveats(release.raw, release.noise, alone)
    if told is None:
        assert words == []
    else:
        assert words[0].startswith(told) and "lie where the mixture has next to none" in words[0]


@pytest.mark.parametrize("noise_scale, told", [(2.0, True), (20.0, False)])
def test_far_records_are_told_where_noise_does_not_explain_them(noise_scale, told):
    grid = np.zeros(120)
    grid[40:80] = 10_000 * np.diff(stats.norm.cdf(np.linspace(-4, 4, 41)))
    grid[5] += 150
    one = dpg.Mixture([1.0], [[0.0]], [[[0.0625]]])  # 40 of the bins are eight deviations
    fit = judged(grid, one, noise_scale=noise_scale, bounds=(-3.0, 3.0))
    assert (caveats.far_records(fit) is not None) == told


@pytest.mark.parametrize("weight, n_records, told", [(0.0, None, True), (0.024, None, False), (3e-4, 10_204, True)])
def test_far_records_are_told_where_they_cost_something(weight, n_records, told):
    """About .014 of the records; a background that has most of them leaves little to lose, however sure that is."""
    one, broad = dpg.Mixture([1.0], [[0.0]], [[[0.0625]]]), dpg.Mixture([1.0], [[0.0]], [[[9.0]]])
    grid = np.zeros(120)
    grid[40:80] = 10_000 * np.diff(stats.norm.cdf(np.linspace(-4, 4, 41)))
    grid += 10_000 * 0.03 * np.diff(stats.norm.cdf(np.linspace(-1, 1, 121)))
    raw = {"counts": grid, "bounds": np.array([[-3.0, 3.0]])}
    fit = Judged.of(Counts.of(raw, {"scale": 0.3}), one, (weight, broad) if weight else None, n_records)
    assert (caveats.far_records(fit) is not None) == told


def test_noise_alone_tells_of_far_records_as_rarely_with_a_public_number():
    """4,000 draws, a quarter of the bins with records: at most four deviations above one in 2,000."""
    rng, one = np.random.default_rng(4), dpg.Mixture([1.0], [[0.0]], [[[0.16]]])
    shares = np.diff(stats.norm.cdf(np.linspace(-6, 6, 65) / 0.4))
    told = 0
    for _ in range(4_000):
        counts = rng.multinomial(1_000, shares / shares.sum()) + rng.geometric(0.4, 64) - rng.geometric(0.4, 64)
        raw = {"counts": counts.astype(float), "bounds": np.array([[-6.0, 6.0]])}
        told += caveats.far_records(Judged.of(Counts.of(raw, {"scale": 2.0}), one, None, 1_000)) is not None
    assert told <= 2 + 4 * np.sqrt(2)


def test_a_public_number_tells_of_far_records_that_the_sum_of_their_bins_hides():
    """A hundred of 1,000 in 990 bins: 3.2 deviations of the noise there, and 32 of that in the ten others."""
    rng = np.random.default_rng(0)
    grid = np.r_[np.zeros(495), 900 * np.diff(stats.norm.cdf(np.linspace(-4, 4, 11))), np.zeros(495)]
    noise = rng.laplace(0, 1.0 / np.sqrt(2), 1_000)
    noise -= noise.mean()  # so that the sum says what is stated
    grid[:495] += 50 / 495
    grid[505:] += 50 / 495
    one = dpg.Mixture([1.0], [[500.0]], [[[1.25**2]]])
    raw = {"counts": np.round(grid + noise), "bounds": np.array([[0.0, 1_000.0]])}
    public, private = (Judged.of(Counts.of(raw, {"scale": 1.0}), one, None, n) for n in (1_000, None))
    assert "about 1" in caveats.far_records(public) and caveats.far_records(private) is None


@pytest.mark.thorough(quick=["1-1000"])
@pytest.mark.parametrize("d, n", [(1, 1_000), (1, 100_000), (2, 5_000), (3, 10_000), (3, 100_000)])
def test_a_good_fit_is_silent(d, n):
    release, caught = fitted(clusters(n, d), 2, 1.0, (-6, 12))
    assert caught == [] and release.warnings == ()


@pytest.mark.parametrize("method", ["histogram", "slices"])
def test_a_small_group_that_is_narrow_in_both_columns_is_not_silent(method):
    """A tenth of the records, in less than a bin: a third of a nat per record was lost in silence."""
    rng = np.random.default_rng(0)
    truth = dpg.Mixture(
        [0.54, 0.36, 0.1], [[-4.1, 0.9], [-1.5, -2.1], [2.5, 5.5]], [np.eye(2), 1.44 * np.eye(2), np.eye(2) / 400]
    )
    release, caught = fitted(truth.sample(30_000, rng=rng), 3, 1.0, (-10, 10), method=method)
    held_out = truth.sample(20_000, rng=rng)
    assert (truth.log_density(held_out) - release.log_density(held_out)).mean() > 0.2
    assert caught == [dpg.FitWarning] and "could be 3 times narrower" in release.flag


@pytest.mark.parametrize("apart, told", [(0.1, True), (0.6, False)])
def test_columns_that_nearly_determine_each_other_are_not_silent(apart, told):
    """Of slices: the other widths make up for the one that is too wide, and a nat per record was lost in silence."""
    rng, width = np.random.default_rng(1), 20 / 24
    one = 1.5 * rng.normal(size=(10_000, 1))
    X = np.hstack([one, one + np.sqrt(2) * apart * width * rng.normal(size=one.shape), rng.normal(size=one.shape)])
    release, caught = fitted(X, 1, 1.0, (-10, 10))
    assert caught == [dpg.FitWarning] * told
    assert ("component 0 could be 3 times narrower" in (release.flag or "")) == told


def test_a_misfit_of_many_records_that_costs_little_is_silent():
    """Heavy tails are no mixture of two Gaussians, as 50,000 records show; 0.03 nats per record are all there is."""
    rng = np.random.default_rng(3)
    X = rng.standard_t(5, size=(70_000, 2))
    X[::3] += 5
    X = np.clip(X, -9, 13)
    release, caught = fitted(X[20_000:], 2, 1.0, (-9, 13), method="slices")
    best = GaussianMixture(2, random_state=0).fit(X[20_000:]).score(X[:20_000])
    assert best - release.log_density(X[:20_000]).mean() < 0.05
    assert release.noise["dispersion"] > 10 and caught == []


@pytest.mark.thorough(quick=["1-0.01"])
@pytest.mark.parametrize("d, epsilon", [(1, 1.0), (1, 0.01), (2, 0.05), (3, 0.05), (3, 1.0)])
def test_caveats_are_a_function_of_the_released_numbers_and_files_of_older_versions_have_them_too(d, epsilon, tmp_path):
    release, _ = fitted(clusters(2_000, d), 2, epsilon, (-6, 12))
    made = count_caveats(
        release.raw, release.noise, release.mixture, background_of(release), n_records=release.n_records
    )
    assert made == list(release.warnings)
    fields = release.to_dict() | {"background": None, "background_weight": 0.0}
    del fields["noise"]["caveats"]
    (tmp_path / "old.json").write_text(json.dumps(fields))
    old = dpg.load(tmp_path / "old.json")
    assert list(old.warnings) == count_caveats(release.raw, release.noise, release.mixture)
    assert bool(old.warnings) == bool(release.warnings) == (epsilon < 1)


def test_another_number_of_components_has_warnings_of_its_own():
    release, caught = fitted(clusters(20_000, 1), 1, 1.0, (-6, 12))
    assert caught == [dpg.FitWarning] and release.refit(2).warnings == ()
    one, two = release.select_k([1, 2]).releases
    assert one.warnings == release.warnings and two.warnings == ()


# ------------------------------------------------------------------ misfit
@pytest.mark.parametrize("noise_scale", [0.4, 2.0, 20.0])
def test_right_mixtures_are_seldom_called_wrong(noise_scale):
    """300 records in 24 cells, the worst case: 5e-4 to 8e-4 a histogram in 20,000. At 1e-3 more than 11 of 2,000 have
    a chance of 1e-5, for three scales 1e-4 (false alarm)."""
    rng = np.random.default_rng(5)
    share = TWO.weights @ judged(np.zeros(24), TWO).shares
    share = np.append(share, max(0.0, 1 - share.sum()))
    found = [
        excess(judged(row[:-1] + discrete_laplace((24,), scale=noise_scale, rng=rng), TWO, noise_scale=noise_scale))
        for row in rng.multinomial(300, share / share.sum(), size=2_000)
    ]
    assert sum(size > 0 for size in found) <= 11


def test_the_size_of_a_misfit_is_its_divergence_in_nats_whatever_the_number_of_records():
    """Half of the chi-square divergence of what is expected from what is there, with as little noise as that."""
    truth = TWO.weights @ judged(np.zeros(24), TWO).shares
    other = dpg.Mixture([0.7, 0.3], TWO.means, TWO.covariances)
    p = other.weights @ judged(np.zeros(24), other).shares
    divergence = ((truth - p) ** 2 / p).sum() / 2
    assert divergence > 0.02
    for n_records in (1e5, 1e7):
        assert excess(judged(n_records * truth, other, noise_scale=0.1)) == pytest.approx(divergence, rel=0.05)


@pytest.mark.parametrize("times, told", [(0.99, False), (1.01, True)])
@pytest.mark.parametrize("size, variance", [("MATTERS", 0.5), ("MATTERS_IF_NARROW", 0.2)])
def test_a_misfit_is_told_from_the_stated_size_on(times, told, size, variance, monkeypatch):
    """The least deviation is .75 cells of .5, .14 as a variance: times 1.3 squared, .24."""
    mixture = dpg.Mixture([0.8, 0.2], TWO.means, [[[1.0]], [[variance]]])
    fit = judged(np.zeros(24), mixture)
    monkeypatch.setattr(caveats, "excess", lambda fit: times * getattr(caveats, size))
    text = caveats.misfit(fit)
    assert bool(text) is told
    assert not told or ("component 1 came out no wider than a bin" in text) == (variance < 0.24)


def test_a_misfit_of_one_among_many_slices_must_be_surer():
    """A sum that is 7 deviations off in one histogram is told, in one of a hundred it is not."""
    p = TWO.weights @ judged(np.zeros(24), TWO).shares
    row, sizes = 300 * p, {}
    for off in np.linspace(0, 400, 401):
        sizes[off] = excess(judged(row + off * (np.arange(24) == 3), TWO, noise_scale=20.0))
    first = min(off for off, size in sizes.items() if size > 0)
    one = judged(row + (first + 1) * (np.arange(24) == 3), TWO, noise_scale=20.0)

    class Hundred(Counts):
        starts = property(lambda self: np.arange(100) * 24)

    c = one.counts
    values = np.concatenate([c.values, *[row] * 99])
    many = Judged(
        Hundred(values, c.noise_variance, c.bounds, c.n_cells, None),
        TWO,
        TWO.weights,
        np.tile(one.shares, 100),
        0.0,
        one.n_records,
    )
    assert excess(one) > 0 and excess(many) == 0


# ------------------------------------------------------------------ signal and widths
def test_too_few_records_is_said_below_the_stated_signal():
    expected = judged(np.zeros(24), TWO).shares
    said = {}
    for n_records in (20.0, 50.0, 100.0, 200.0, 400.0, 1000.0):
        fit = judged(n_records * (TWO.weights @ expected), TWO)
        signal = (fit.expected**2 / fit.variances).sum() / 6
        said[signal] = caveats.too_few(fit)
        assert (said[signal] is not None) == (signal < caveats.LEAST_SIGNAL)
    texts = list(said.values())
    assert "for 2 components in 1 column: about" in texts[0] and texts[-1] is None
    assert "more than 100 times" in caveats.too_few(judged(np.zeros(24), TWO, noise_scale=20.0))


@pytest.mark.parametrize(
    "word, axes, weight, told",
    [
        ("narrower", 1, 0.11, True),
        ("narrower", 1, 0.09, False),
        ("narrower", 2, 0.06, True),
        ("narrower", 2, 0.04, False),
        ("wider", 1, 0.16, True),
        ("wider", 2, 0.14, False),
    ],
)
def test_a_width_that_was_not_measured_is_told_where_it_may_cost_much(word, axes, weight, told, monkeypatch):
    """What is narrow puts as many nats at stake as it has axes; what could be wider, no more than its weight."""
    mixture = dpg.Mixture([1 - weight, weight], np.zeros((2, 2)), np.tile(np.eye(2), (2, 1, 1)))
    fit = judged(np.zeros((8, 8)), mixture)

    def rises(fit, factor):
        found = np.full((2, 2), 1.01 * caveats.MEASURED)
        if (factor < 1) == (word == "narrower"):
            found[1, :axes] = 0.99 * caveats.MEASURED
        return found

    monkeypatch.setattr(caveats, "width_rises", rises)
    text = caveats.unmeasured_width(fit)
    assert (f"component 1 could be 3 times {word} or more, and" in text) if told else text is None


def test_rises_are_differences_of_chi_square():
    mixture = dpg.Mixture([0.6, 0.4], [[-2.0, 0.0], [2.0, 1.0]], [[[1.0, 0.4], [0.4, 1.0]], [[0.5, 0.0], [0.0, 2.0]]])
    rng = np.random.default_rng(1)
    fit = judged(rng.poisson(50 * np.ones((9, 9))), mixture)

    def chi_square(covariance):
        share = fit.counts.shares(mixture.means[1], covariance)
        expected = fit.n_records * (0.6 * fit.shares[0] + 0.4 * share)
        return ((fit.counts.values - expected) ** 2 / fit.variances).sum()

    for factor in (1 / 3, 3.0):
        scaled = [np.diag([0.5 * factor**2, 2.0]), np.diag([0.5, 2.0 * factor**2])]
        rises = [chi_square(item) - chi_square(mixture.covariances[1]) for item in scaled]
        assert np.allclose(caveats.width_rises(fit, factor)[1], rises)


# ------------------------------------------------------------------ odd files
@pytest.fixture(scope="module")
def sound():
    return fitted(clusters(500, 3), 1, 1.0, (-6, 12))[0]


@pytest.mark.parametrize(
    "changed",
    [
        {"counts": np.zeros(0)},
        {"counts": np.array(3.0)},
        {"bounds": np.zeros((3, 2))},
        {"sizes": np.array([0.0, 24.0])},
        {"sizes": np.zeros(0)},
        {"directions": np.zeros((0, 3))},
        {"counts": None},
        {"sizes": None},
    ],
)
def test_numbers_that_fit_nothing_raise_nothing(changed, sound):
    raw = {name: value for name, value in (dict(sound.raw) | changed).items() if value is not None}
    assert count_caveats(raw, sound.noise, sound.mixture) == []
    assert count_caveats(sound.raw, {}, sound.mixture) == []


def test_a_file_that_would_take_long_is_not_judged(monkeypatch):
    release, _ = fitted(clusters(500, 1), 1, 0.01, (-6, 12))
    assert count_caveats(release.raw, release.noise, release.mixture)
    monkeypatch.setattr(caveats, "MOST_WORK", 3 * 64 - 1)
    assert count_caveats(release.raw, release.noise, release.mixture) == []
    assert isinstance(release, Release)


@pytest.mark.parametrize("n_components, right", [(1, False), (2, True)])
def test_slices_that_contradict_the_mixture_warn(n_components, right):
    X = np.random.default_rng(2).normal(size=(20_000, 3)) + 6 * (np.arange(20_000) < 8_000)[:, None]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = dpg.fit_gmm(X, n_components, epsilon=1.0, bounds=(-6, 12), random_seed=1, progress=False)
    assert release.method == "slices" and (release.noise["dispersion"] <= BAD_FIT) == right
    assert [item.category for item in caught] == ([] if right else [dpg.FitWarning])
    told = "a mixture of 1 component does not fit the released counts"
    assert (release.warnings == ()) == right and (told in release.summary()) == (not right)


@pytest.mark.parametrize("n_bins", [1, 2, 5, 20, 400])
def test_noise_alone_tells_of_far_records_once_in_two_thousand_fits(n_bins):
    """A sum of Laplace draws is a difference of gamma draws. Four deviations of a million of them; known seed."""
    rng = np.random.default_rng(1)
    sums = (rng.gamma(n_bins, size=10**6) - rng.gamma(n_bins, size=10**6)) / np.sqrt(2 * n_bins)
    assert 1e-4 < (sums > caveats._sure_of_sum(np.ones(n_bins))).mean() < 5e-4 + 4 * np.sqrt(5e-4 / 10**6)


@pytest.mark.parametrize("deviation, told", [(0.3, True), (0.5, False)])
def test_a_component_of_least_width_is_told_where_counts_fit_better_if_it_were_narrower(deviation, told):
    """Half a bin is the least. Without that condition good fits of components of half a bin were told: 5 of 32."""
    truth = dpg.Mixture([0.4, 0.6], [[10.37], [30.11]], np.full((2, 1, 1), deviation**2))
    bounds = np.array([[0.0, 64.0]])
    counts = np.rint(20_000 * exact_cell_probabilities(truth, bounds, 64)).astype(np.int64)
    found = dpg.Mixture(truth.weights, truth.means, np.full((2, 1, 1), 0.5**2))
    fit = caveats.judged({"counts": counts, "bounds": bounds}, {"scale": 2.0}, found, None, 20_000)
    assert caveats.as_narrow_as_allowed(fit).tolist() == [told, told]

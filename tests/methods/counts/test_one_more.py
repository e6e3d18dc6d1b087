"""What one component more would gain, as far as noisy counts tell."""

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.methods.counts import caveats, histogram, one_more, slices
from pm_dpgmm.methods.counts.one_more import gain_of_one_more
from tests.builders.small_group import table_with_a_small_group

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")


def fitted(X, method, n_components=2, seed=1):
    return dpg.fit_gmm(X, n_components, epsilon=1.0, bounds=(0, 100), method=method, random_seed=seed, progress=False)


def told(release):
    return [text for text in release.warnings if "does not fit" in text or "next to none" in text]


@pytest.mark.parametrize("method, d, n", [("histogram", 2, 5_000), ("slices", 3, 5_000)])
def test_a_small_group_that_was_not_asked_for_is_told(method, d, n):
    # each costs about .25 to .45 nats a record, and a chi-square of all bins sees nothing
    X, law = table_with_a_small_group(d, n, seed=2)
    release = fitted(X, method)
    fresh = law.sample(20_000, rng=3)
    assert np.mean(law.log_density(fresh) - release.log_density(fresh)) > 0.1
    assert any("one of 3 describes records better" in text for text in release.warnings)


@pytest.mark.parametrize("method, d, n", [("histogram", 1, 1_000), ("histogram", 2, 3_000), ("slices", 3, 5_000)])
def test_right_mixtures_gain_nothing_from_one_more(method, d, n):
    # false alarms: below 2 % of such fits by the rule (a Laplace tail beyond the logarithm of the number of bins)
    X, _ = table_with_a_small_group(d, n, seed=4, weight=1e-9)
    assert not told(fitted(X, method))


def test_a_gain_is_told_from_the_stated_size_on_and_only_once(monkeypatch):
    X, _ = table_with_a_small_group(2, 3_000, seed=4, weight=1e-9)
    for gain, n_told in ((caveats.ONE_MORE * 0.99, 0), (caveats.ONE_MORE, 1)):
        monkeypatch.setattr(histogram, "gain_of_one_more", lambda *released, gain=gain, **named: gain)
        assert len(told(fitted(X, "histogram"))) == n_told
    # a misfit of all bins together says it already
    monkeypatch.setattr(caveats, "excess", lambda fit: 0.5)
    assert len(told(fitted(X, "histogram"))) == 1


@pytest.mark.parametrize("rise, gains", [(3.9, False), (4.1, True)])
def test_the_larger_mixture_must_be_surer_than_noise_makes_it(rise, gains, monkeypatch):
    X, _ = table_with_a_small_group(2, 5_000, seed=2)
    release = fitted(X, "histogram")
    n_bins = release.raw["counts"].size
    likelihoods = iter([rise + np.log(n_bins), 0.0])
    monkeypatch.setattr(one_more.Histograms, "log_likelihood", lambda self, shares: next(likelihoods))
    mixture = release.mixture
    found = gain_of_one_more(release.raw, release.noise, mixture, None, n_records=5_000)
    assert (found > 0.1) == gains


def test_odd_numbers_gain_nothing_and_raise_nothing():
    X, _ = table_with_a_small_group(2, 1_000, seed=4)
    release = fitted(X, "histogram")
    for raw, noise in (
        ({}, release.noise),
        (release.raw, {}),
        (dict(release.raw) | {"counts": np.full((4, 4), np.nan)}, release.noise),
        (dict(release.raw) | {"bounds": np.full((2, 2), np.inf)}, release.noise),
    ):
        assert gain_of_one_more(raw, noise, release.mixture, None, n_records=None) == 0.0


def test_both_methods_say_what_it_gains():
    assert histogram.gain_of_one_more is slices.gain_of_one_more is gain_of_one_more

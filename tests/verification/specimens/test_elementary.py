"""The truths of the classic specimens, derived again. Every statistical check has a false-alarm rate of at most 1e-6."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from verification.auditing.outputs import log_ratio
from verification.references.references import (
    gaussian_delta,
    gaussian_epsilon,
    laplace_delta,
    randomised_response_delta,
)
from verification.specimens import all_specimens, choices, elementary, programs, sparse_vector

SPECIMENS = {s.name: s for module in (elementary, sparse_vector, choices, programs) for s in module.specimens()}
FALSE_ALARM = 1e-6
SIGMA = 2.5747

# Claim, truth at the claimed delta, and the exact delta at the claimed epsilon; each derived below.
TABLE = {
    "laplace_half": (1.0, 0.0, 2.0, 1 - math.exp(-0.5)),
    "laplace_10pct": (1.0, 0.0, 1.1, 1 - math.exp(-0.05)),
    "one_sided_exp": (1.0, 0.0, math.inf, 1 - math.exp(-1)),
    "gauss_half": (1.0, 1e-3, 2.302, 0.0569),
    "gauss_as_pure": (1.0, 0.0, math.inf, 0.1269),
    "gauss_Linf_for_L2": (1.0, 1e-3, 2.302, 0.0569),
    "hist_wrong_scale": (0.5, 0.0, 2.0, 1 - math.exp(-0.75)),
    "subsample_not_done": (0.92727, 0.0, 1.4, 0.2106),
    "name_and_shame": (1.0, 0.0, math.inf, 0.01),
    "laplace_float": (1.0, 0.0, math.inf, None),
    "gauss_float": (1.0, 1e-3, math.inf, None),
    "laplace_ok": (1.0, 0.0, 1.0, 0.0),
    "gauss_ok": (1.0, 1e-3, 0.99998, 1e-3),
    "laplace_grid": (1.0, 0.0, 1.0, 0.0),
    "laplace_grid_bits": (1.0, 0.0, 1.0, 0.0),
    "gauss_grid": (1.0, 1e-3, 0.9988, 1e-3),
    "svt_noisy_value": (1.0, 0.0, 4.5, 0.02107),
    "svt_no_qnoise": (1.0, 0.0, math.inf, 1 - math.exp(-0.25)),
    "svt_no_cutoff": (1.0, 0.0, 4.06110, 0.12287),
    "rnm_value": (1.0, 0.0, 2.5, 0.0806),
    "rr_bias": (1.0, 0.0, math.log(4), 0.8 - 0.2 * math.e),
    "expmech_no_half": (1.0, 0.0, 1.95349, 0.0323),
    "local_sensitivity_noise": (1.0, 0.0, math.inf, 1.0),
    "domain_from_data": (1.0, 0.0, math.inf, 1.0),
    "stability_threshold_low": (1.0, 1e-3, math.inf, math.exp(-3) / 2),
    "noise_reuse": (1.0, 0.0, math.inf, 1.0),
    "fixed_seed": (1.0, 0.0, math.inf, 1.0),
    "nan_injection": (1.0, 0.0, math.inf, 1.0),
    "fail_on_data": (1.0, 0.0, math.inf, 1.0),
    "gmm_replace_vs_add": (1.0, 1e-3, 2.302, 0.0569),
    "gmm_moments_replace_vs_add": (1.0, 1e-3, 1.51371, 0.01192),
    "gmm_init_from_data": (1.0, 0.0, math.inf, 0.1),
}


def pair(name):
    return SPECIMENS[name].x, SPECIMENS[name].x_neighbour


def runs(name, n=50_000, seed=20261123):
    """Outputs on both data sets."""
    rng = np.random.default_rng(seed)
    return [SPECIMENS[name].mechanism(data, n, rng) for data in pair(name)]


def log_densities(name, outputs):
    return [SPECIMENS[name].log_density(outputs, data) for data in pair(name)]


def assert_law(sample, cdf):
    """Dvoretzky, Kiefer, Wolfowitz, Massart."""
    sample = np.sort(sample)
    n = len(sample)
    last = np.append(sample[1:] != sample[:-1], True)  # at ties the empirical function is right at the last of them
    gap = np.abs(np.arange(1, n + 1) / n - cdf(sample))[last].max()
    assert gap <= math.sqrt(math.log(2 / FALSE_ALARM) / (2 * n))


def assert_counts(seen, n, law):
    """An exact binomial test of every outcome."""
    seen, law = np.atleast_1d(seen), np.atleast_1d(law)
    tails = np.minimum(stats.binom.cdf(seen, n, law), stats.binom.sf(seen - 1, n, law))
    assert tails.min() >= FALSE_ALARM / (2 * len(law))


def worst_delta(p, q, epsilon):
    """Of two laws on the same outcomes, both directions."""
    return max(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for a, b in ((p, q), (q, p)))


def quad(function, cuts):
    return sum(integrate.quad(function, a, b, epsabs=1e-13, limit=200)[0] for a, b in itertools.pairwise(cuts))


# ------------------------------------------------------------------ all of them
@pytest.mark.parametrize("name", TABLE)
def test_claims_truths_and_sizes(name):
    specimen = SPECIMENS[name]
    epsilon, delta, true, _ = TABLE[name]
    assert (specimen.epsilon, specimen.delta) == pytest.approx((epsilon, delta), abs=1e-5)
    assert specimen.true_epsilon == pytest.approx(true, abs=1e-12)
    assert specimen.broken == (true > epsilon) == (specimen.origin != "control")
    assert specimen.n_samples == 200_000
    assert specimen.level == ("bit" if name in ("laplace_float", "gauss_float", "laplace_grid_bits") else "value")
    assert (specimen.log_density is None) == name.endswith("float")  # their bits have no law in closed form


def test_every_specimen_of_these_families_is_in_the_zoo():
    assert set(SPECIMENS) == set(TABLE) <= {specimen.name for specimen in all_specimens()}


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row[3] is not None])
def test_densities_samplers_and_truths_agree(name):
    """The mean of max(0, 1 - exp(epsilon - loss)) is the delta of the claimed epsilon; Hoeffding."""
    specimen, n = SPECIMENS[name], 100_000
    deltas = []
    for sign, outputs in zip((1, -1), runs(name, n), strict=True):
        losses = sign * log_ratio(specimen.log_density, outputs, *pair(name), n)
        deltas.append(np.mean(-np.expm1(np.minimum(0.0, specimen.epsilon - losses))))
    assert max(deltas) == pytest.approx(TABLE[name][3], abs=math.sqrt(math.log(4 / FALSE_ALARM) / (2 * n)))


# ------------------------------------------------------------------ Laplace, exponential and Gaussian noise
@pytest.mark.parametrize(
    "name, scale",
    [("laplace_half", 0.5), ("laplace_10pct", 10 / 11), ("subsample_not_done", 5 / 7), ("laplace_ok", 1.0)],
)
def test_laplace_noise_on_one_number(name, scale):
    """The largest loss, and delta by quadrature."""
    specimen, y = SPECIMENS[name], np.linspace(-8, 9, 69)
    laws = [stats.laplace(data, scale) for data in pair(name)]
    for law, log, sample in zip(laws, log_densities(name, y), runs(name), strict=True):
        assert log == pytest.approx(law.logpdf(y))
        assert_law(sample, law.cdf)
    losses = laws[0].logpdf(y) - laws[1].logpdf(y)
    assert np.abs(losses).max() == pytest.approx(specimen.true_epsilon)
    epsilon = specimen.epsilon
    crossing = (1 - epsilon * scale) / 2

    def excess(z):
        return max(0.0, laws[0].pdf(z) - math.exp(epsilon) * laws[1].pdf(z))

    exact = quad(excess, sorted([-30, -10, -3, -1, 0, crossing, 1]))
    assert exact == pytest.approx(TABLE[name][3], abs=1e-4)
    assert exact == pytest.approx(float(laplace_delta(epsilon, scale=scale)), abs=1e-9)


def test_the_amplified_claim():
    """Half of the records drawn, then noise of epsilon 1.4: the mixed law loses what is claimed."""
    drawn = [0.5 * math.exp(1.4) + 0.5, 0.5 * math.exp(-1.4) + 0.5]  # ratio of the mixture at both ends
    assert SPECIMENS["subsample_not_done"].epsilon == pytest.approx(np.abs(np.log(drawn)).max())


def test_one_sided_noise():
    specimen = SPECIMENS["one_sided_exp"]
    assert stats.expon.cdf(1.0) == pytest.approx(TABLE[specimen.name][3])  # x gives outputs that x' never gives
    y = np.array([-0.5, 0.5, 1.5, 4.0])
    for data, log, sample in zip(
        pair(specimen.name), log_densities(specimen.name, y), runs(specimen.name), strict=True
    ):
        assert log == pytest.approx(stats.expon.logpdf(y, data))
        assert_law(sample - data, stats.expon.cdf)


@pytest.mark.parametrize(
    "name, scale",
    [("gauss_half", SIGMA / 2), ("gauss_as_pure", 1.0), ("gauss_Linf_for_L2", SIGMA), ("gauss_ok", SIGMA)],
)
def test_gaussian_noise(name, scale):
    specimen = SPECIMENS[name]
    values = [np.atleast_1d(data) for data in pair(name)]
    for value, data, sample in zip(values, pair(name), runs(name), strict=True):
        columns = sample.reshape(len(sample), -1)
        assert_law((columns.sum(axis=1) - value.sum()) / (scale * math.sqrt(value.size)), stats.norm.cdf)
        assert_law((columns[:, 0] - value[0]) / scale, stats.norm.cdf)
        exact = stats.norm.logpdf(columns[:50], value, scale).sum(axis=1)
        assert specimen.log_density(sample[:50], data) == pytest.approx(exact)
    multiplier = scale / float(np.linalg.norm(values[0] - values[1]))
    assert gaussian_delta(1.0, noise_multiplier=multiplier) == pytest.approx(TABLE[name][3], abs=1e-4)
    if specimen.delta > 0:
        exact = gaussian_epsilon(specimen.delta, noise_multiplier=multiplier)
        assert exact == pytest.approx(specimen.true_epsilon, abs=1e-4) and exact <= specimen.true_epsilon + 1e-4
    else:  # the loss has no bound; at delta = 1e-3 it is more than three times the claim
        assert gaussian_epsilon(1e-3, noise_multiplier=multiplier) == pytest.approx(3.139, abs=1e-3)
        assert all(gaussian_delta(e, noise_multiplier=multiplier) > 0 for e in (5.0, 20.0))


def test_histogram_with_the_scale_upside_down():
    specimen = SPECIMENS["hist_wrong_scale"]
    change = np.abs(specimen.x - specimen.x_neighbour)
    assert change.sum() == 1 and change.sum() / specimen.epsilon == specimen.true_epsilon == 1 / specimen.epsilon
    assert laplace_delta(0.5, scale=0.5) == pytest.approx(TABLE[specimen.name][3])
    for data, sample in zip(pair(specimen.name), runs(specimen.name), strict=True):
        for column, count in zip(sample.T, data, strict=True):
            assert_law((column - count) / 0.5, stats.laplace.cdf)
        exact = stats.laplace.logpdf(sample[:50], data, 0.5).sum(axis=1)
        assert specimen.log_density(sample[:50], data) == pytest.approx(exact)


def test_name_and_shame():
    """The named record shows at any epsilon, and nothing else does: (1, 0.01) holds."""
    specimen = SPECIMENS["name_and_shame"]
    assert specimen.true_epsilon == math.inf
    for data, sample in zip(pair(specimen.name), runs(specimen.name), strict=True):
        flag, value = sample.T
        assert_counts((flag == 1).sum(), len(sample), 0.01)
        assert set(value[flag == 1]) == {data}
        assert_law(value[flag == 0] - data, stats.laplace.cdf)
    logs = log_densities(specimen.name, np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.3]]))
    assert np.exp(logs[0]) == pytest.approx([0.01, 0.0, 0.99 * stats.laplace.pdf(0.3)])
    assert logs[0][2] - logs[1][2] == pytest.approx(0.4)


@pytest.mark.parametrize("name", ["laplace_grid", "laplace_grid_bits", "gauss_grid"])
def test_noise_on_the_grid(name):
    specimen, steps = SPECIMENS[name], np.arange(-2600, 2700)
    if name == "gauss_grid":
        law = np.exp(-0.5 * (np.arange(-6000, 6001) / (1.001 * SIGMA * 64)) ** 2)
        law /= law.sum()
        laws = [law[steps + 6000 - shift] for shift in (0, 64)]
    else:
        laws = [stats.dlaplace.pmf(steps, 1 / 64, loc=shift) for shift in (0, 64)]
    for law, log, sample in zip(laws, log_densities(name, steps / 64), runs(name), strict=True):
        assert np.exp(log) == pytest.approx(law, rel=1e-9, abs=1e-15)
        assert np.all(sample * 64 == np.rint(sample * 64))  # no bits below the grid
        assert_law(sample * 64, lambda y, law=law: np.cumsum(law)[y.astype(int) + 2600])
    p, q = laws
    assert worst_delta(p, q, specimen.true_epsilon) == pytest.approx(specimen.delta, abs=2e-6)
    assert specimen.true_epsilon <= specimen.epsilon
    if specimen.delta == 0:
        assert np.abs(np.log(p / q)).max() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "name, value, share", [("laplace_float", "laplace_ok", 0.12), ("gauss_float", "gauss_ok", 0.08)]
)
def test_float_noise_is_sound_as_numbers_and_broken_as_bits(name, value, share):
    """Outputs on 1 that are below 1/2 in size are 1 + z with z in [-3/2, -1/2], exact and a multiple of 2^-53.

    Outputs on 0 there are z itself with finer bits; ``share`` is part of those. Binomial bound on what was seen.
    """
    bits, sound = SPECIMENS[name], SPECIMENS[value]
    assert bits.mechanism is sound.mechanism and pair(name) == pair(value) == (0.0, 1.0)
    assert (bits.epsilon, bits.delta) == (sound.epsilon, sound.delta) and sound.true_epsilon <= sound.epsilon

    def finer(sample):
        return ((np.abs(sample) < 0.5) & (sample * 2.0**53 != np.rint(sample * 2.0**53))).sum()

    on_zero, on_one = runs(name, 200_000)
    assert finer(on_one) == 0
    assert stats.binomtest(int(finer(on_zero)), 200_000).proportion_ci(1 - FALSE_ALARM).low > share > bits.delta


# ------------------------------------------------------------------ sparse vector
def test_algorithm_3_by_adaptive_quadrature():
    """The value bounds the threshold: below all kinks every answer "below" adds 1/2 to the loss, for good."""
    specimen, noise = SPECIMENS["svt_noisy_value"], stats.laplace(scale=2)
    cuts = [-90, -40, -15, -5, -2, -0.5, 0, 0.5, 2, 5, 15, 40, 90]

    def density(queries, place, value):
        def integrand(rho):
            return noise.pdf(rho) * math.prod(noise.cdf(0.5 + rho - q) for q in queries[:place])

        top = value - 0.5
        total = quad(integrand, [c for c in cuts if c < top] + [min(top, 90)])
        return total * (noise.pdf(value - queries[place]) if place < len(queries) else 1.0)

    points = [(0, -3.0), (0, 0.2), (3, 1.7), (8, -2.0), (8, 0.4), (9, 2.5), (9, -4.0)]
    outputs = np.array([*points, (10, np.nan)])
    for data, log in zip(pair(specimen.name), log_densities(specimen.name, outputs), strict=True):
        exact = [density(data, *point) for point in points] + [density(data, 10, 200.0)]
        assert np.exp(log) == pytest.approx(exact, rel=1e-7)
    value = np.linspace(-40, 40, 321)
    losses = {}
    for place in range(10):
        p, q = log_densities(specimen.name, np.column_stack([np.full(321, place), value]))
        losses[place] = np.abs(p - q)
    assert losses[8][value < -0.5] == pytest.approx(8 * 0.5 + 0.5, abs=1e-9)  # 8 below, and its own value
    assert max(loss.max() for loss in losses.values()) == pytest.approx(specimen.true_epsilon, abs=1e-9)


def test_algorithm_3_delta_on_a_grid_of_values():
    specimen = SPECIMENS["svt_noisy_value"]
    value = np.arange(-60, 80, 0.01) + 0.005
    p, q = [], []
    for place in range(10):
        for laws, log in zip(
            (p, q), log_densities(specimen.name, np.column_stack([np.full(value.size, place), value])), strict=True
        ):
            laws.extend(np.exp(log) * 0.01)
    none = [np.exp(log[0]) for log in log_densities(specimen.name, np.array([[10, np.nan]]))]
    p, q = np.append(p, none[0]), np.append(q, none[1])
    assert p.sum() == pytest.approx(1, abs=1e-4) and q.sum() == pytest.approx(1, abs=1e-4)
    assert worst_delta(p, q, 1.0) == pytest.approx(TABLE[specimen.name][3], abs=1e-4)
    for law, sample in zip((p, q), runs(specimen.name), strict=True):
        places = np.append(law[:-1].reshape(10, -1).sum(axis=1), law[-1])
        assert_counts(np.bincount(sample[:, 0].astype(int), minlength=11), len(sample), places / places.sum())
        first = sample[sample[:, 0] == 0, 1]
        cdf = np.cumsum(law[: value.size]) / law[: value.size].sum()
        assert_law(first, lambda v, cdf=cdf: np.interp(v, value + 0.005, cdf))
    # more queries, more loss: no epsilon for all numbers of them
    for k in (20, 40):
        x = np.eye(k)[k - 1]
        output = np.array([[k - 2, -1.0]])
        loss = [specimen.log_density(output, data)[0] for data in (x, 1 - x)]
        assert loss[0] - loss[1] == pytest.approx((k - 1) / 2)


def test_algorithm_5_answers_that_need_the_threshold_between():
    specimen = SPECIMENS["svt_no_qnoise"]
    between = stats.laplace(scale=2).cdf(0.5) - stats.laplace(scale=2).cdf(-0.5)
    assert between == pytest.approx(TABLE[specimen.name][3]) and specimen.true_epsilon == math.inf
    tails = (1 - between) / 2
    outputs = np.array([np.zeros(10), specimen.x, specimen.x_neighbour, np.ones(10)])
    for own, log, sample in zip((1, 2), log_densities(specimen.name, outputs), runs(specimen.name), strict=True):
        exact = np.array([tails, 0.0, 0.0, tails])
        exact[own] = between
        assert np.exp(log) == pytest.approx(exact)
        seen = np.array([(sample == output).all(axis=1).sum() for output in outputs])
        assert_counts(seen, len(sample), exact)
        assert seen.sum() == len(sample)


def test_algorithm_6_over_all_patterns():
    """A pattern's probability depends on how many of each half are above: 36 integrals, 1024 patterns."""
    specimen, noise = SPECIMENS["svt_no_cutoff"], stats.laplace(scale=2)

    def probability(ones, zeros):
        def integrand(rho):
            a, b = noise.cdf(rho - 0.5), noise.cdf(rho + 0.5)  # below, for the queries 1 and 0
            return noise.pdf(rho) * (1 - a) ** ones * a ** (5 - ones) * (1 - b) ** zeros * b ** (5 - zeros)

        return quad(integrand, [-90, -20, -5, -0.5, 0, 0.5, 5, 20, 90])

    table = np.array([[probability(i, j) for j in range(6)] for i in range(6)])
    patterns = np.array(list(itertools.product([0.0, 1.0], repeat=10)))
    first, second = patterns[:, :5].sum(axis=1).astype(int), patterns[:, 5:].sum(axis=1).astype(int)
    p, q = table[first, second], table[second, first]
    for law, log, sample in zip((p, q), log_densities(specimen.name, patterns), runs(specimen.name), strict=True):
        assert np.exp(log) == pytest.approx(law, rel=1e-8)
        seen = np.bincount((sample @ 2.0 ** np.arange(9, -1, -1)).astype(int), minlength=1024)
        assert_counts(seen, len(sample), law)
    assert p.sum() == pytest.approx(1, abs=1e-9)
    assert np.abs(np.log(p / q)).max() == pytest.approx(specimen.true_epsilon, abs=1e-5)
    assert worst_delta(p, q, 1.0) == pytest.approx(TABLE[specimen.name][3], abs=1e-4)


# ------------------------------------------------------------------ choices
def test_value_of_the_noisy_maximum():
    """The distribution function of the maximum is a fifth power; below 0 its density is exp(5 y/2) times a constant."""
    specimen, noise = SPECIMENS["rnm_value"], stats.laplace(scale=2)
    assert noise.cdf(-3.0) ** 5 / noise.cdf(-4.0) ** 5 == pytest.approx(math.exp(specimen.true_epsilon))
    for shift, sample in zip((0, 1), runs(specimen.name), strict=True):
        assert_law(sample, lambda y, shift=shift: noise.cdf(y - shift) ** 5)
    y = np.linspace(-30, 31, 611)
    p, q = log_densities(specimen.name, y)
    assert p == pytest.approx(np.log(5) + noise.logpdf(y) + 4 * noise.logcdf(y))
    assert np.abs(p - q).max() == pytest.approx(specimen.true_epsilon)

    t = np.linspace(-5, 10, 150_001)  # the loss falls with y, so the worst event is y < t
    delta = noise.cdf(t) ** 5 - math.e * noise.cdf(t - 1) ** 5
    assert delta.max() == pytest.approx(TABLE[specimen.name][3], abs=1e-4)


def test_biased_response():
    specimen = SPECIMENS["rr_bias"]
    assert randomised_response_delta(1.0, true_epsilon=specimen.true_epsilon) == pytest.approx(TABLE["rr_bias"][3])
    for law, log, sample in zip(
        ([0.8, 0.2], [0.2, 0.8]), log_densities("rr_bias", [0, 1]), runs("rr_bias"), strict=True
    ):
        assert np.exp(log) == pytest.approx(law)
        assert_counts(np.bincount(sample, minlength=2), len(sample), np.array(law))
    assert math.log(0.8 / 0.2) == pytest.approx(specimen.true_epsilon)


def test_exponential_mechanism_without_the_half():
    """One utility falls from 1 to 0 and 49 rise from 0 to 1."""
    specimen, e = SPECIMENS["expmech_no_half"], math.e
    p, q = e / (e + 49), 1 / (1 + 49 * e)
    assert math.log(p / q) == pytest.approx(specimen.true_epsilon, abs=1e-5)
    laws = [np.array([a, *[(1 - a) / 49] * 49]) for a in (p, q)]
    assert worst_delta(*laws, 1.0) == pytest.approx(p - e * q) == pytest.approx(TABLE[specimen.name][3], abs=1e-4)
    for law, log, sample in zip(laws, log_densities(specimen.name, np.arange(50)), runs(specimen.name), strict=True):
        assert np.exp(log) == pytest.approx(law)
        assert_counts(np.bincount(sample, minlength=50), len(sample), law)
    losses = [math.log(e * (1 + (k - 1) * e) / (e + k - 1)) for k in (50, 10**6)]
    assert losses[1] == pytest.approx(2.0, abs=1e-5)


# ------------------------------------------------------------------ programs
@pytest.mark.parametrize(
    "name",
    [
        "local_sensitivity_noise",
        "fail_on_data",
        "gmm_replace_vs_add",
        "gmm_moments_replace_vs_add",
        "gmm_init_from_data",
    ],
)
def test_neighbours_differ_in_one_record(name):
    x, y = pair(name)
    assert x.shape == y.shape and (x != y).reshape(len(x), -1).any(axis=1).sum() == 1


def test_noise_for_the_local_sensitivity():
    specimen = SPECIMENS["local_sensitivity_noise"]
    for data, exact in zip(pair(specimen.name), (1.0, 0.0), strict=True):
        moves = [
            abs(np.median([*np.delete(data, i), v]) - np.median(data)) for i in range(5) for v in np.linspace(0, 1, 11)
        ]
        assert max(moves) == programs.local_sensitivity(data) == exact
    noisy, bare = runs(specimen.name)
    assert_law(noisy, stats.laplace.cdf)
    assert set(bare) == {0.0} and not np.any(noisy == 0.0)
    outputs = np.array([0.0, 0.7])
    p, q = log_densities(specimen.name, outputs)
    assert p.tolist() == [-math.inf, pytest.approx(stats.laplace.logpdf(0.7))] and q.tolist() == [0.0, -math.inf]


def test_keys_of_the_records():
    specimen = SPECIMENS["domain_from_data"]
    assert np.array_equal(specimen.x[:-1], specimen.x_neighbour)
    for n_keys, log, sample in zip(
        (3, 2), log_densities(specimen.name, runs(specimen.name, 100)[0]), runs(specimen.name), strict=True
    ):
        assert np.all(~np.isnan(sample) == (np.arange(4) < n_keys))
        assert np.all(np.isneginf(log) == (n_keys == 2))
        for count, column in zip((5, 3, 1), sample.T[:n_keys], strict=False):
            assert_law(column - count, stats.laplace.cdf)
    sample = runs(specimen.name, 50)[1]
    exact = stats.laplace.logpdf(sample[:, :2], [5, 3]).sum(axis=1)
    assert log_densities(specimen.name, sample)[1] == pytest.approx(exact)


def test_threshold_too_low():
    """A key of one record passes with the mass of the noise above 3; without the record there is no key."""
    specimen = SPECIMENS["stability_threshold_low"]
    passes = stats.laplace.sf(3.0)
    assert passes == pytest.approx(TABLE[specimen.name][3]) and passes > 20 * specimen.delta
    assert stats.laplace.sf(math.log(500)) == pytest.approx(1e-3)  # the threshold that is due, less the record
    one, none = runs(specimen.name)
    assert np.isnan(none).all()
    assert_counts((~np.isnan(one)).sum(), len(one), passes)
    assert_law(one[~np.isnan(one)] - 4, stats.expon.cdf)
    p, q = log_densities(specimen.name, np.array([np.nan, 4.5]))
    assert np.exp(p) == pytest.approx([1 - passes, stats.laplace.pdf(3.5)]) and q.tolist() == [0.0, -math.inf]


def test_one_noise_for_two_answers():
    specimen = SPECIMENS["noise_reuse"]
    for data, sample in zip(pair(specimen.name), runs(specimen.name), strict=True):
        assert np.abs(np.diff(sample, axis=1) - np.diff(data)).max() < 1e-12
        assert_law((sample[:, 0] - data[0]) / 2, stats.laplace.cdf)
        own, other = (specimen.log_density(sample, d) for d in (data, specimen.x + specimen.x_neighbour - data))
        assert own == pytest.approx(stats.laplace.logpdf(sample[:, 0], data[0], 2)) and np.all(other == -np.inf)


def test_one_seed_for_all_calls():
    specimen = SPECIMENS["fixed_seed"]
    constants = [set(sample) for sample in runs(specimen.name)]
    assert [len(c) for c in constants] == [1, 1] and not constants[0] & constants[1]
    assert runs(specimen.name, 5, seed=1)[0][0] in constants[0]
    assert log_densities(specimen.name, np.array([*constants[0]]))[0].tolist() == [0.0]
    assert log_densities(specimen.name, np.array([*constants[0]]))[1].tolist() == [-math.inf]


@pytest.mark.parametrize("name", ["nan_injection", "fail_on_data"])
def test_failures_that_depend_on_the_records(name):
    specimen = SPECIMENS[name]
    samples = runs(name)
    failed = [bool(np.isnan(sample).all()) for sample in samples]
    assert sorted(failed) == [False, True]
    whole, data = samples[failed.index(False)], pair(name)[failed.index(False)]
    assert not np.isnan(whole).any()
    values, scale = (0.75, 1) if name == "nan_injection" else ([1, 3], 2)
    residuals = (whole - values) / scale
    for column in residuals.reshape(len(residuals), -1).T:
        assert_law(column, stats.laplace.cdf)
    logs = log_densities(name, whole)
    exact = stats.laplace.logpdf(whole, values, scale).reshape(len(whole), -1).sum(axis=1)
    assert logs[failed.index(False)] == pytest.approx(exact) and np.all(logs[failed.index(True)] == -np.inf)
    nothing = samples[failed.index(True)][:3]
    assert specimen.log_density(nothing, data).tolist() == [-math.inf] * 3
    assert log_densities(name, nothing)[failed.index(True)].tolist() == [0.0] * 3


@pytest.mark.parametrize(
    "name, norm, worst", [("gmm_replace_vs_add", 1.0, 2.0), ("gmm_moments_replace_vs_add", math.sqrt(3), math.sqrt(6))]
)
def test_statistics_noised_for_adding_when_a_record_is_replaced(name, norm, worst):
    """Largest norm of one record's part, and largest change by a replacement, over points of the disc; attained."""
    specimen = SPECIMENS[name]
    statistic = programs.sums if norm == 1 else programs.moments
    angles, radii = np.meshgrid(np.arange(48) * math.pi / 24, [0.5, 1.0])
    points = np.column_stack([(radii * np.cos(angles)).ravel(), (radii * np.sin(angles)).ravel()])
    parts = np.array([statistic(point[None]) for point in points])
    assert np.linalg.norm(parts, axis=1).max() == pytest.approx(norm)
    assert np.linalg.norm(parts[:, None] - parts, axis=-1).max() == pytest.approx(worst)
    exact = [statistic(data) for data in pair(name)]
    change = float(np.linalg.norm(exact[0] - exact[1]))
    assert change == pytest.approx(worst)
    for value, data, sample in zip(exact, pair(name), runs(name), strict=True):
        for i in (0, -1):
            assert_law((sample[:, i] - value[i]) / (SIGMA * norm), stats.norm.cdf)
        assert_law((sample - value).sum(axis=1) / (SIGMA * norm * math.sqrt(len(value))), stats.norm.cdf)
        log = stats.norm.logpdf(sample[:50], value, SIGMA * norm).sum(axis=1)
        assert specimen.log_density(sample[:50], data) == pytest.approx(log)
    multiplier = SIGMA * norm / change
    assert gaussian_epsilon(1e-3, noise_multiplier=multiplier) == pytest.approx(specimen.true_epsilon, abs=1e-4)
    assert gaussian_delta(1.0, noise_multiplier=multiplier) == pytest.approx(TABLE[name][3], abs=1e-4)


def test_first_means_that_are_records():
    """The changed record is among the first means in k of n runs; given other means, the sizes keep the claim."""
    specimen = SPECIMENS["gmm_init_from_data"]
    for data, sample in zip(pair(specimen.name), runs(specimen.name), strict=True):
        means, counts = sample[:, :2], sample[:, 2:]
        assert np.isin(means, data).all() and not np.any(means[:, 0] == means[:, 1])
        assert_counts((means == data[-1]).any(axis=1).sum(), len(sample), 2 / 20)
        index = np.searchsorted(data, means)
        seen = np.bincount(20 * index[:, 0] + index[:, 1], minlength=400)
        apart = ~np.eye(20, dtype=bool).ravel()
        assert_counts(seen[apart], len(sample), np.full(380, 1 / 380))
        exact = np.array([sum(abs(r - a) < abs(r - b) for r in data) for a, b in means[:500]])
        noise = stats.laplace.logpdf(counts[:500], np.column_stack([exact, 20 - exact]), 2).sum(axis=1)
        assert specimen.log_density(sample[:500], data) == pytest.approx(noise - math.log(380))
        sizes = programs.sizes(means, data)
        for j in range(2):
            assert_law((counts[:, j] - sizes[:, j]) / 2, stats.laplace.cdf)
    shared = np.array(list(itertools.permutations(specimen.x[:-1], 2)))
    changes = np.abs(programs.sizes(shared, specimen.x) - programs.sizes(shared, specimen.x_neighbour)).sum(axis=1)
    assert changes.max() <= 2  # over the scale 2: at most 1
    assert not np.isin(specimen.x_neighbour[-1], specimen.x) and specimen.true_epsilon == math.inf

"""The sound mechanisms: laws, truths and clean bits. Every statistical check has a false-alarm rate of at most 1e-6."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from verification.references.references import hockey_stick
from verification.specimens import control_choices, controls

SPECIMENS = {s.name: s for module in (controls, control_choices) for s in module.specimens()}
FALSE_ALARM = 1e-6
INTEGERS = np.arange(-80.0, 81.0)


def searches(n, cutoff):
    """All outputs of the sparse vector technique on n queries."""
    for places in itertools.chain.from_iterable(itertools.combinations(range(n), r) for r in range(cutoff + 1)):
        row = np.zeros(n)
        row[list(places)] = 1
        if len(places) == cutoff:
            row[places[-1] + 1 :] = np.nan
        yield row


OUTCOMES = {
    "laplace_integer": INTEGERS,
    "gauss_integer": INTEGERS,
    "laplace_snapped": INTEGERS,
    "laplace_coarse": np.arange(-120, 121) * 0.375,
    "gauss_coarse": np.arange(-120, 121) * 0.375,
    "geometric_truncated": np.arange(11.0),
    "stability_count": np.append(np.arange(8.0, 80.0), np.nan)[:, None],
    "stability_new_key": np.array(list(itertools.product([*range(8, 90), np.nan], [*range(8, 40), np.nan]))),
    "svt_ok": np.array(list(searches(10, 1))),
    "svt_two_finds": np.array(list(searches(10, 2))),
    "noisy_max_laplace_index": np.arange(5),
    "noisy_max_exp_index": np.arange(5),
    "expmech_half": np.arange(50),
    "response_of_ten": np.arange(10),
}


def laws(name):
    """Exact probabilities of all outcomes on both data sets; what is left out has less than 1e-15."""
    specimen = SPECIMENS[name]
    return [np.exp(specimen.log_density(OUTCOMES[name], data)) for data in (specimen.x, specimen.x_neighbour)]


def worst_delta(p, q, epsilon):
    return max(float(hockey_stick(p, q, epsilon)), float(hockey_stick(q, p, epsilon)))


def smallest_epsilon(p, q, delta):
    low, high = 0.0, 10.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if worst_delta(p, q, middle) > delta else (low, middle)
    return high


def discrete_gaussian_law(scale, reach):
    mass = np.exp(-0.5 * (np.arange(-reach, reach + 1) / scale) ** 2)
    return mass / mass.sum()


# ------------------------------------------------------------------ laws and truths
@pytest.mark.parametrize("name", OUTCOMES)
def test_exact_laws_sum_to_one_and_keep_the_claim(name):
    specimen = SPECIMENS[name]
    p, q = laws(name)
    assert p.sum() == pytest.approx(1, abs=1e-12) and q.sum() == pytest.approx(1, abs=1e-12)
    assert worst_delta(p, q, specimen.epsilon) <= specimen.delta + 1e-12
    if specimen.delta == 0:
        exact = np.abs(np.log(p[p > 0]) - np.log(q[p > 0])).max()
    else:
        exact = smallest_epsilon(p, q, specimen.delta)
    assert exact == pytest.approx(specimen.true_epsilon, abs=1e-5)
    assert specimen.true_epsilon <= specimen.epsilon


@pytest.mark.parametrize("name", OUTCOMES)
def test_samplers_follow_the_exact_laws(name):
    """An exact binomial test of every outcome on both data sets."""
    specimen, outcomes = SPECIMENS[name], np.nan_to_num(OUTCOMES[name], nan=-1.0)
    keys = {tuple(np.atleast_1d(outcome).tolist()): i for i, outcome in enumerate(outcomes)}
    n = 50_000
    rng = np.random.default_rng(20261121)
    for data, law in zip((specimen.x, specimen.x_neighbour), laws(name), strict=True):
        runs = np.nan_to_num(specimen.mechanism(data, n, rng), nan=-1.0).reshape(n, -1)
        values, counts = np.unique(runs, axis=0, return_counts=True)
        seen = np.zeros(len(keys))
        seen[[keys[tuple(value)] for value in values.tolist()]] = counts
        tails = np.minimum(stats.binom.cdf(seen, n, law), stats.binom.sf(seen - 1, n, law))
        assert tails.min() >= FALSE_ALARM / (4 * len(keys))


def test_all_controls_are_sound_and_enough():
    assert len(SPECIMENS) >= 12
    for specimen in SPECIMENS.values():
        assert not specimen.broken and specimen.true_epsilon <= specimen.epsilon


@pytest.mark.parametrize("name", SPECIMENS)
def test_bits_are_clean(name):
    """Multiples of a public dyadic step, one type and no negative zeros on both data sets."""
    specimen = SPECIMENS[name]
    step = 3 / 8 if "coarse" in name else 1 / 64
    rng = np.random.default_rng(2)
    x, y = (specimen.mechanism(data, 5_000, rng) for data in (specimen.x, specimen.x_neighbour))
    assert x.dtype == y.dtype and x.shape == y.shape
    for values in (x[~np.isnan(x)], y[~np.isnan(y)]):
        assert np.all(values / step == np.rint(values / step))
        assert not np.signbit(values[values == 0]).any()


# ------------------------------------------------------------------ the same laws by other routes
def test_gaussian_scales_are_exact_calibrations():
    for shift in (1, 3):
        for scale, met in (
            (controls.gaussian_scale(shift), True),
            (controls.gaussian_scale(shift) * (1 - 1e-9), False),
        ):
            law = discrete_gaussian_law(scale, 60 * shift)
            p, q = np.append(law, np.zeros(shift)), np.append(np.zeros(shift), law)
            assert (float(hockey_stick(p, q, 1.0)) <= 1e-3 + 1e-15) == met


@pytest.mark.parametrize("data", [0.0, 0.3, 1.3, -0.5])
def test_snapping_is_a_rounded_laplace(data):
    exact = stats.laplace.cdf(INTEGERS[70:91] + 0.5, data) - stats.laplace.cdf(INTEGERS[70:91] - 0.5, data)
    assert np.exp(controls.snapped_log_density(INTEGERS[70:91], data)) == pytest.approx(exact, rel=1e-6)


def test_snapping_clamps():
    rng = np.random.default_rng(3)
    assert controls.laplace_snapped(1e9, 1000, rng).max() == controls.CLAMP
    assert controls.laplace_snapped(-1e9, 1000, rng).min() == -controls.CLAMP


@pytest.mark.parametrize("name", ["laplace_coarse", "gauss_coarse"])
def test_rounded_values_at_distance_one_are_at_most_three_steps_apart(name):
    specimen = SPECIMENS[name]
    values = np.linspace(-2, 3, 2001)  # some of them ties
    moves = np.abs(np.rint(values / 0.375) - np.rint((values + 1) / 0.375))
    assert moves.max() == controls.SHIFT == 3
    assert abs(specimen.x - specimen.x_neighbour) <= 1
    assert abs(round(specimen.x / 0.375) - round(specimen.x_neighbour / 0.375)) == 3


def test_sparse_vector_by_adaptive_quadrature():
    """One find on 1,1,1,1,1,0,0,0,0,0 and its mirror image; the known figure is 0.875."""
    noise, other = stats.laplace(scale=2), stats.laplace(scale=4)

    def probability(queries, place):
        def integrand(rho):
            below = math.prod(other.cdf(0.5 + rho - q) for q in queries[:place])
            return noise.pdf(rho) * below * (other.sf(0.5 + rho - queries[place]) if place < len(queries) else 1.0)

        ends = [-60, -10, -0.5, 0, 0.5, 10, 60]
        return sum(integrate.quad(integrand, a, b, epsabs=1e-9)[0] for a, b in itertools.pairwise(ends))

    specimen = SPECIMENS["svt_ok"]
    losses = [math.log(probability(specimen.x, i) / probability(specimen.x_neighbour, i)) for i in (0, 5)]
    assert max(map(abs, losses)) == pytest.approx(specimen.true_epsilon, abs=1e-5)
    assert specimen.true_epsilon == pytest.approx(0.875, abs=5e-4)


def test_noisy_max_with_exponential_noise_is_permute_and_flip():
    """McKenna and Sheldon (2020), Ding et al. (2021): candidates in random order, each kept with probability
    exp(epsilon (q - max)/2)."""
    specimen = SPECIMENS["noisy_max_exp_index"]
    for data, law in zip((specimen.x, specimen.x_neighbour), laws("noisy_max_exp_index"), strict=True):
        keep = np.exp((data - data.max()) / 2)
        exact = np.zeros(len(data))
        for order in itertools.permutations(range(len(data))):
            passed = 1.0
            for i in order:
                exact[i] += passed * keep[i] / math.factorial(len(data))
                passed *= 1 - keep[i]
        assert law == pytest.approx(exact, abs=1e-12)


def test_noisy_max_with_laplace_noise_by_adaptive_quadrature():
    specimen, noise = SPECIMENS["noisy_max_laplace_index"], stats.laplace(scale=2)
    for data, law in zip((specimen.x, specimen.x_neighbour), laws("noisy_max_laplace_index"), strict=True):
        odd, others = data[0], data[1]
        ends = [-60, -10, 0, 1, 10, 60]
        wins = sum(
            integrate.quad(lambda y, a=odd, b=others: noise.pdf(y - a) * noise.cdf(y - b) ** 4, *pair)[0]
            for pair in itertools.pairwise(ends)
        )
        assert law == pytest.approx([wins, *[(1 - wins) / 4] * 4], abs=1e-8)


def test_exponential_mechanism_and_response_in_closed_form():
    e = math.exp(0.5)
    assert math.log(e * (1 + 49 * e) / (e + 49)) == pytest.approx(SPECIMENS["expmech_half"].true_epsilon, abs=1e-5)
    p, q = laws("response_of_ten")
    assert p[0] / p[1] == pytest.approx(math.e) and q[1] == p[0]


def test_threshold_of_the_stability_histogram_is_the_least():
    tail = [math.exp(-t) / (1 + math.exp(-1)) for t in (controls.THRESHOLD - 1, controls.THRESHOLD)]
    assert tail[1] <= 1e-3 < tail[0]
    p, q = laws("stability_new_key")
    assert worst_delta(p, q, 0.0) == pytest.approx(tail[1], abs=1e-12)


# ------------------------------------------------------------------ mixture statistics
def test_statistics_of_antipodal_records_move_the_most():
    """Random pairs and the specimen's own; squared distance 6 in units of the record."""
    rng = np.random.default_rng(5)
    angles, radii = rng.uniform(0, 2 * math.pi, (2, 4000)), np.sqrt(rng.uniform(0.8, 1, (2, 4000)))
    records = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=-1)
    moves = [
        np.linalg.norm(controls.statistics(a[None]) - controls.statistics(b[None]))
        for a, b in zip(*records, strict=True)
    ]
    specimen = SPECIMENS["gmm_statistics"]
    worst = np.linalg.norm(controls.statistics(specimen.x) - controls.statistics(specimen.x_neighbour))
    assert worst == pytest.approx(64 * math.sqrt(6))
    assert max(moves) <= worst


def test_true_epsilon_of_the_statistics():
    """Six numbers move by 64 steps each: their loss depends on the sum of six discrete Gaussians, an exact sum."""
    specimen = SPECIMENS["gmm_statistics"]
    moved = controls.statistics(specimen.x) - controls.statistics(specimen.x_neighbour)
    assert sorted(np.abs(moved)) == [0.0] * 6 + [64.0] * 6
    scale, reach = controls.STATISTICS_SCALE, 4000
    law = discrete_gaussian_law(scale, reach)
    size = 6 * (2 * reach) + 1
    total = np.maximum(np.fft.irfft(np.fft.rfft(law, 2 * size) ** 6, 2 * size)[:size], 0)
    sums = np.arange(size) - 6 * reach
    loss = (6 * 64**2 + 2 * 64 * sums) / (2 * scale**2)
    deltas = [(total * np.maximum(0, -np.expm1(e - loss))).sum() for e in (specimen.epsilon, specimen.true_epsilon)]
    assert deltas[0] <= specimen.delta
    assert deltas[1] == pytest.approx(specimen.delta, rel=2e-3)


def test_density_of_the_statistics():
    specimen = SPECIMENS["gmm_statistics"]
    outputs = specimen.mechanism(specimen.x, 3, np.random.default_rng(6))
    law = discrete_gaussian_law(controls.STATISTICS_SCALE, 6000)
    steps = np.rint(outputs * 64 - controls.statistics(specimen.x)).astype(int)
    assert specimen.log_density(outputs, specimen.x) == pytest.approx(np.log(law[steps + 6000]).sum(axis=1))
    for n_samples, column in ((20_000, 0), (20_000, 7)):
        runs = specimen.mechanism(specimen.x, n_samples, np.random.default_rng(7))[:, column] * 64
        steps = np.sort(runs - controls.statistics(specimen.x)[column]).astype(int)
        last = np.append(steps[1:] != steps[:-1], True)
        gap = np.abs(np.arange(1, n_samples + 1) / n_samples - np.cumsum(law)[steps + 6000])[last].max()
        assert gap <= math.sqrt(math.log(4 / FALSE_ALARM) / (2 * n_samples))

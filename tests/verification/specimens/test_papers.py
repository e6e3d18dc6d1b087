"""The truths of S4 to S12, derived again. Every statistical check has a false-alarm rate of at most 1e-6."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import integrate, stats

from verification.auditing.outputs import log_ratio
from verification.references.references import gaussian_delta, hockey_stick
from verification.specimens import dp_em, local_central, populous, sample_efficient

SPECIMENS = {s.name: s for module in (dp_em, local_central, populous, sample_efficient) for s in module.specimens()}
FALSE_ALARM = 1e-6


class Silent:
    """A generator without noise that writes down the rates (1/scale) it was asked for."""

    def __init__(self):
        self.rates = []

    def geometric(self, success, shape):
        self.rates.append(-math.log1p(-success))
        return np.ones(shape, dtype=int)  # two of them are subtracted

    def laplace(self, *, scale, size):
        self.rates.append(1 / scale)
        return np.zeros(size)


def statistic(specimen):
    """Outputs without noise on both data sets, and the rates."""
    rngs = Silent(), Silent()
    pair = zip((specimen.x, specimen.x_neighbour), rngs, strict=True)
    values = [np.ravel(specimen.mechanism(data, 1, rng)) for data, rng in pair]
    return *values, *(rng.rates for rng in rngs)


def assert_law(sample, cdf):
    """Dvoretzky, Kiefer, Wolfowitz, Massart."""
    sample = np.sort(sample)
    n = len(sample)
    steps = np.arange(1, n + 1) / n
    # at ties the empirical function is right at the last of them
    last = np.append(sample[1:] != sample[:-1], True)
    assert np.abs(steps - cdf(sample))[last].max() <= math.sqrt(math.log(2 / FALSE_ALARM) / (2 * n))


def laplace_gap(shift, rate_p, rate_q, epsilon):
    """Hockey stick of Laplace laws at 0 and at ``shift``, by quadrature between all kinks."""

    def excess(y):
        p, q = (rate / 2 * math.exp(-rate * abs(y - c)) for rate, c in ((rate_p, 0.0), (rate_q, shift)))
        return max(0.0, p - math.exp(epsilon) * q)

    ends = [-400, -100, -40, -15, -6, -3, -1.5, -0.7, 0, shift / 2, shift, 0.7, 1.5, 3, 6, 15, 40, 100, 400]
    return sum(integrate.quad(excess, a, b, limit=200)[0] for a, b in itertools.pairwise(sorted(set(ends))))


def epsilon_at(delta, p, q):
    """Smallest epsilon of two probability vectors at ``delta``, both directions."""
    low, high = 0.0, 20.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        worst = max(hockey_stick(p, q, middle), hockey_stick(q, p, middle))
        low, high = (middle, high) if worst > delta else (low, middle)
    return high


# ------------------------------------------------------------------ DP-EM
def test_s4_noise_scaled_by_the_true_count_is_private_at_no_epsilon():
    specimen = SPECIMENS["S4_mean_true_count"]
    assert specimen.true_epsilon == math.inf and specimen.delta == 0
    mean, other, rates, other_rates = statistic(specimen)
    assert (mean, other, rates, other_rates) == (0.0, -1.0, [1.0], [0.5])  # 2/(epsilon N_k) with N_k = 2 and 1
    assert laplace_gap(1.0, 0.5, 1.0, epsilon=1.0) == pytest.approx(0.1419, abs=1e-4)
    # the neighbour's tail is heavier, so outputs far out have any loss: rate difference 1/2 times the distance
    assert laplace_gap(1.0, 0.5, 1.0, epsilon=20.0) > 1e-10
    assert_law(
        specimen.mechanism(specimen.x_neighbour, 50_000, np.random.default_rng(1)) + 1, stats.laplace(scale=2).cdf
    )


@pytest.mark.parametrize("m, delta", [(1, 0.1419), (2, 0.0754), (5, 0.0335), (20, 0.0090)])
def test_s4_delta_with_more_records_in_the_cluster(m, delta):
    gap, rate, other_rate = 2 / (m + 1), (m + 1) / 2, m / 2
    assert laplace_gap(gap, other_rate, rate, epsilon=1.0) == pytest.approx(delta, abs=1e-4)


def test_s5_noise_scaled_by_a_lucky_count_is_private_at_no_epsilon():
    """Given the noisy count c the mean loses up to max(c, 1) epsilon, and c has no bound."""
    specimen = SPECIMENS["S5_mean_noisy_scale"]
    count = stats.laplace(loc=1, scale=2).pdf

    def delta(epsilon):
        def excess(c):
            return count(c) * -math.expm1((epsilon - c) / 2)

        return integrate.quad(excess, epsilon, epsilon + 120, limit=200)[0]

    for epsilon in (1.0, 2.0, 5.0, 20.0):
        assert delta(epsilon) == pytest.approx(math.exp(-(epsilon - 1) / 2) / 4, rel=1e-6)
    assert delta(specimen.epsilon) == pytest.approx(0.1516, abs=1e-4)
    assert (specimen.true_epsilon, specimen.delta) == (math.inf, 0.0)
    counts, means = specimen.mechanism(specimen.x, 50_000, np.random.default_rng(2)).T
    assert_law(counts - 1, stats.laplace(scale=2).cdf)
    assert_law((means - 1) * np.maximum(counts, 1) / 2, stats.laplace.cdf)
    outputs = np.array([[0.3, 0.2], [4.0, -2.0]])
    exact = stats.laplace.logpdf(outputs[:, 0], 1, 2) + stats.laplace.logpdf(outputs[:, 1], -1, [2.0, 0.5])
    assert specimen.log_density(outputs, specimen.x_neighbour) == pytest.approx(exact)


def test_s6_the_largest_norm_is_a_record():
    specimen = SPECIMENS["S6_own_norm"]
    mean, other, rates, other_rates = statistic(specimen)
    assert rates == other_rates == [pytest.approx(500)]
    assert float(mean[0] - other[0]) * 500 == pytest.approx(specimen.true_epsilon)
    assert specimen.true_epsilon == pytest.approx(499, abs=0.01)


@pytest.mark.parametrize(
    "name", ["S4_twin_released_count", "S5_twin_counts_and_sums", "S6_twin_public_norm", "S8_twin_sums"]
)
def test_losses_of_twins_with_discrete_laplace_noise(name):
    """The sum over outputs of the change in steps over the scale; the steps are 1 or 1/64."""
    specimen = SPECIMENS[name]
    x, y, rates, other_rates = statistic(specimen)
    assert rates == other_rates
    if name in ("S5_twin_counts_and_sums", "S8_twin_sums"):
        steps = np.abs(x - y) * [1, 1, 64, 64]
        rate = np.repeat(rates[::2], 2)
    else:
        steps = np.abs(x - y) * {"S4_twin_released_count": dp_em.RELEASED * 64}.get(name, 1)
        rate = np.array(rates[:1])
    assert (steps * rate).sum() == pytest.approx(specimen.true_epsilon)
    assert specimen.true_epsilon <= specimen.epsilon


# ------------------------------------------------------------------ S7
def test_s7_the_reported_delta_leaves_out_the_clusters():
    """J delta' + delta_1 is reported, K J mean releases are made: the worst such composition has a larger delta.

    The worst (epsilon, delta)-DP mechanism tells the data set with probability delta, and is randomised response
    otherwise (Kairouz, Oh, Viswanath 2015); here its composition is summed outcome by outcome.
    """
    clusters, iterations, one, extra, epsilon = 3, 10, 1e-3, 1e-3, 0.05
    k = clusters * iterations
    total = math.sqrt(2 * k * math.log(1 / extra)) * epsilon + k * epsilon * math.expm1(epsilon)
    told = 1 - (1 - one) ** k
    truths = np.arange(k + 1)
    p = stats.binom.pmf(truths, k, 1 / (1 + math.exp(-epsilon)))
    q = p[::-1]
    delta = told + (1 - told) * float(hockey_stick(p, q, total))
    assert iterations * one + extra == pytest.approx(0.011)
    assert delta > 2.5 * (iterations * one + extra)
    assert delta <= k * one + extra
    # not only there: no epsilon makes up for it
    assert told > iterations * one + extra


# ------------------------------------------------------------------ central and local EM
def test_s8_a_mean_of_one_record_with_noise_for_a_thousand():
    specimen = SPECIMENS["S8_central_mean"]
    x, y, rates, other_rates = statistic(specimen)
    assert rates == other_rates == [pytest.approx(80)]
    assert x[1] == y[1] and abs(x[0] - y[0]) * 80 == pytest.approx(specimen.true_epsilon)
    assert specimen.true_epsilon == pytest.approx(79.2, abs=0.1)


def test_s8b_an_empty_cluster_shows():
    specimen = SPECIMENS["S8b_central_empty"]
    rng = np.random.default_rng(3)
    assert not np.isnan(specimen.mechanism(specimen.x, 100, rng)).any()
    assert np.isnan(specimen.mechanism(specimen.x_neighbour, 100, rng)[:, 0]).all()
    assert specimen.true_epsilon == math.inf


def test_s8c_a_variance_of_two_records():
    specimen = SPECIMENS["S8c_central_variance"]
    x, y, rates, _ = statistic(specimen)
    points = np.linspace(0, 0.9899, 41)
    largest = max(np.var(pair) for pair in itertools.product(points, repeat=2))
    assert abs(x[0] - y[0]) == pytest.approx(largest)
    assert largest * rates[0] == pytest.approx(specimen.true_epsilon)
    assert rates[0] == pytest.approx(1000**2 / 999)


@pytest.mark.parametrize("name, true, delta_at_1", [("S9_local_full", 2.0, 0.338), ("S9_twin_half", 1.0, 0.0)])
def test_s9_two_bits_of_a_report_change(name, true, delta_at_1):
    specimen = SPECIMENS[name]
    outputs = np.array(list(itertools.product([0.0, 1.0], repeat=4)))
    flip = 1 / (1 + math.exp(true / 2))
    exact = [np.prod(np.where(outputs == np.eye(4)[b], 1 - flip, flip), axis=1) for b in (0, 1)]
    laws = [np.exp(specimen.log_density(outputs, b)) for b in (specimen.x, specimen.x_neighbour)]
    assert np.allclose(laws, exact, rtol=1e-12)
    assert np.log(laws[0] / laws[1]).max() == pytest.approx(true) == specimen.true_epsilon
    assert hockey_stick(*laws, 1.0) == pytest.approx(delta_at_1, abs=1e-3)
    runs = specimen.mechanism(0, 50_000, np.random.default_rng(4)) @ [8, 4, 2, 1]
    seen = np.bincount(runs.astype(int), minlength=16) / len(runs)
    assert np.abs(seen - laws[0]).max() <= math.sqrt(math.log(2 * 16 / FALSE_ALARM) / (2 * len(runs)))


def test_s9c_bins_of_the_records_are_the_records():
    rng = np.random.default_rng(5)
    specimen = SPECIMENS["S9c_bins_from_records"]
    x, y = (specimen.mechanism(data, 50, rng)[:, :4] for data in (specimen.x, specimen.x_neighbour))
    assert np.all(x == x[0]) and np.all(y == y[0]) and not np.any(x == y)
    assert specimen.true_epsilon == math.inf


def test_s9c_twin_counts_of_reports_lose_what_one_report_loses():
    """The number of marks in a bin is a sum of two binomials; the largest loss is at the ends of two bins."""
    specimen = SPECIMENS["S9c_twin_public_bins"]
    keep = 1 / (1 + math.exp(-0.5))

    def marks(bin_, data):
        inside = sum(min(int(4 * value), 3) == bin_ for value in data)
        marked, unmarked = (stats.binom.pmf(np.arange(11), n, p) for n, p in ((inside, keep), (10 - inside, 1 - keep)))
        return np.convolve(marked, unmarked)[:11]

    losses = [np.abs(np.log(marks(b, specimen.x) / marks(b, specimen.x_neighbour))).max() for b in range(4)]
    assert sum(losses) == pytest.approx(specimen.true_epsilon)
    rng = np.random.default_rng(6)
    runs = specimen.mechanism(specimen.x, 20_000, rng)[:, 4].astype(int)
    assert_law(runs, lambda m: np.cumsum(marks(0, specimen.x))[m])


def test_s9d_the_size_of_a_report_is_the_record():
    specimen = SPECIMENS["S9d_plus_minus"]
    for data in (specimen.x, specimen.x_neighbour):
        assert set(np.abs(specimen.mechanism(data, 100, np.random.default_rng(7)))) == {data}
    assert specimen.true_epsilon == math.inf


# ------------------------------------------------------------------ histogram and truncated noise
def counts_change(first, second):
    difference = Counter(first)
    difference.subtract(second)
    return [abs(value) for value in difference.values()]


def test_s10_replacing_one_record_moves_the_counts_by_six_and_one_of_them_by_three():
    """All sets of 4 of the numbers 0, ..., 7 and all their neighbours; wide and narrow cells."""
    sets = [np.array(points, dtype=float) for points in itertools.combinations(range(8), 4)]
    for cell in (1.0, 2.0**16):
        counts = {tuple(points): sample_efficient.scale_counts(points, cell=cell) for points in sets}
        changes = [
            counts_change(counts[a], counts[b])
            for a, b in itertools.combinations(counts, 2)
            if len(set(a) & set(b)) == 3
        ]
        assert max(map(sum, changes)) == 6
        assert max(map(max, changes)) == (3 if cell > 1 else 1)
    narrow = [sample_efficient.scale_counts(np.array(p), cell=1.0) for p in ([0.0, 1, 2, 4], [0.0, 2, 3, 4])]
    assert sorted(counts_change(*narrow)) == [1] * 6


def truncated_losses(law, shifts):
    """Loss distribution, in units of 1/scale, of truncated noise moved by each of the shifts; and the infinite mass."""
    noise = np.arange(-law.bound, law.bound + 1)
    mass = np.exp(-np.abs(noise) / law.scale)
    total = np.zeros(1)
    total[0] = 1.0
    reach = 0
    for shift in shifts:
        losses = np.zeros(2 * shift + 1)
        possible = noise + shift <= law.bound
        np.add.at(losses, (np.abs(noise + shift) - np.abs(noise) + shift)[possible], (mass / mass.sum())[possible])
        total, reach = np.convolve(total, losses), reach + shift
    return np.arange(-reach, reach + 1), total, 1 - total.sum()


def truncated_delta(law, shifts, epsilon):
    losses, mass, infinite = truncated_losses(law, shifts)
    return infinite + (mass * np.maximum(0, -np.expm1(epsilon - losses / law.scale))).sum()


@pytest.mark.parametrize("share, broken", [(1, True), (10, False)])
def test_s10_three_counts_move_at_once(share, broken):
    specimen = SPECIMENS["S10_full_share" if broken else "S10_twin_tenth"]
    law = sample_efficient.noise_law(share)
    exact = [
        [sample_efficient.scale_counts(data, cell=sample_efficient.CELL)[a, 0] for a in range(3)]
        for data in (specimen.x, specimen.x_neighbour)
    ]
    assert np.diff(exact, axis=0).tolist() == [[-2, 3, -1]]
    assert np.min(exact) > 2 * law.bound  # every count always passes the threshold
    losses, _, infinite = truncated_losses(law, (2, 3, 1))
    assert losses.max() / law.scale == pytest.approx(6 * 0.5 / share)
    if broken:
        assert infinite > 5 * specimen.delta and specimen.true_epsilon == math.inf
    else:
        just_below = specimen.true_epsilon - 2e-5
        assert truncated_delta(law, (2, 3, 1), specimen.true_epsilon) <= specimen.delta
        assert truncated_delta(law, (2, 3, 1), just_below) > specimen.delta
    runs = specimen.mechanism(specimen.x, 20_000, np.random.default_rng(8)) - exact[0]
    noise = np.arange(-law.bound, law.bound + 1)
    mass = np.exp(-np.abs(noise) / law.scale)
    for column in runs.T:
        assert_law(column, lambda z: np.cumsum(mass / mass.sum())[z.astype(int) + law.bound])


def test_s10b_locations_counted_from_the_smallest_record_tell_it():
    specimen = SPECIMENS["S10b_own_origin"]
    rng = np.random.default_rng(9)
    for data in (specimen.x, specimen.x_neighbour):
        assert set(specimen.mechanism(data, 100, rng)[:, 0]) == {data.min()}
    assert specimen.x.min() != specimen.x_neighbour.min()


def test_s11_clipping_makes_atoms():
    specimen = SPECIMENS["S11_clipped_noise"]
    epsilon, delta = specimen.epsilon, specimen.delta
    bound = math.log1p(math.expm1(epsilon) / (2 * delta)) / epsilon
    # outputs of 1 + noise that 0 + noise never gives: above the bound, and the atom at the lower end
    above = integrate.quad(lambda y: epsilon / 2 * math.exp(-epsilon * abs(y - 1)), bound, bound + 1)[0]
    atom = math.exp(-epsilon * bound) / 2
    only_one = above + 2 * atom
    closed = (math.exp(epsilon) + 1) / 2 / (1 + math.expm1(epsilon) / (2 * delta))
    assert only_one == pytest.approx(closed, rel=1e-9)
    assert closed > 3.9 * delta and specimen.true_epsilon == math.inf
    for e, factor in ((0.1, 20.0), (1.0, 2.16)):  # in general about delta coth(epsilon/2), for small delta
        exact = (math.exp(e) + 1) / 2 / (1 + math.expm1(e) / (2 * 1e-6))
        assert exact / 1e-6 == pytest.approx(factor, rel=2e-3)
    runs = specimen.mechanism(0.0, 50_000, np.random.default_rng(10))
    assert np.abs(runs).max() == pytest.approx(bound)
    inner = runs[np.abs(runs) < np.abs(runs).max()]
    mass = 1 - 2 * atom
    assert_law(inner, lambda z: (stats.laplace(scale=1 / epsilon).cdf(z) - atom) / mass)
    slack = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * len(runs)))
    assert len(inner) / len(runs) == pytest.approx(mass, abs=slack)


def test_s11_twin_meets_its_claim():
    specimen = SPECIMENS["S11_twin_conditioned"]
    outputs = np.arange(-600, 700) / 64
    p, q = (np.exp(specimen.log_density(outputs, data)) for data in (specimen.x, specimen.x_neighbour))
    assert p.sum() == pytest.approx(1, abs=1e-12) == q.sum()
    assert hockey_stick(p, q, specimen.epsilon) <= specimen.delta
    assert epsilon_at(specimen.delta, p, q) == pytest.approx(specimen.true_epsilon, abs=1e-5)
    runs = specimen.mechanism(specimen.x_neighbour, 20_000, np.random.default_rng(11))
    assert_law(runs, lambda y: np.cumsum(q)[np.rint(y * 64).astype(int) + 600])


# ------------------------------------------------------------------ S12
def graph_pairs(t):
    """All friend graphs on t blocks and on the same blocks with block 0 changed: sets of friends, itself included."""
    others = range(1, t)
    edges = list(itertools.combinations(others, 2))
    for chosen in itertools.product([False, True], repeat=len(edges)):
        common = {i: {i} for i in others}
        for (a, b), present in zip(edges, chosen, strict=True):
            if present:
                common[a].add(b)
                common[b].add(a)
        stars = [set(s) for r in range(t) for s in itertools.combinations(others, r)]
        for star, star_changed in itertools.product(stars, repeat=2):
            yield [
                {0: {0} | s} | {i: common[i] | ({0} if i in s else set()) for i in others} for s in (star, star_changed)
            ]


def hops(first, second, start, end):
    """Friends of friends between fit ``start`` of one data set and ``end`` of the other; "new" is the changed block."""
    links = {i: set(first[i]) for i in first}
    links["new"] = {"new"} | (second[0] - {0})
    for i in second[0] - {0}:
        links[i] = links[i] | {"new"}
    reached, steps = {start}, 0
    goal = "new" if end == 0 else end
    while goal not in reached:
        wider = set().union(*(links[i] for i in reached))
        if wider == reached:
            return math.inf
        reached, steps = wider, steps + 1
    return steps


@pytest.mark.parametrize("t", [3, 5])
def test_s12_two_plain_majorities_need_not_share_an_unchanged_block(t):
    """They can be three friend radii apart, never more; and at t = 3 and 5 the test passes with less than delta."""
    worst, least_slack = 0, -math.inf
    for first, second in graph_pairs(t):
        for m, shared in ((t // 2 + 1, False), ((t + 3) // 2, True)):
            sums = [sum(map(len, graph.values())) for graph in (first, second)]
            if min(sums) < m * t:
                continue
            for i, j in itertools.product(range(t), repeat=2):
                if len(first[i]) >= m and len(second[j]) >= m and not (first[i] & second[j]) - {0}:
                    assert not shared
                    worst = max(worst, hops(first, second, i, j))
                    least_slack = max(least_slack, min(sums) - m * t)
    assert worst == 3
    assert least_slack < 2 * (t - 1)  # less than the sensitivity of the sum: passing has at most the test's delta
    assert least_slack == (t - 1) * (t - 2) // 2  # which grows faster, so that large t always pass


def test_s12_both_data_sets_always_pass_and_release_fits_three_radii_apart():
    specimen = SPECIMENS["S12_plain_majority"]
    t, law = populous.N_INTEGERS, populous.integer_test(populous.N_INTEGERS)
    friends = [np.abs(np.subtract.outer(data, data)) <= 64 for data in (specimen.x, specimen.x_neighbour)]
    for table in friends:
        assert table[0].sum() == t // 2 + 1 and table.sum() == t * t - (t - 1)
        assert table.sum() - law.bound >= (t // 2 + 1) * t + law.bound
    assert not (friends[0][0] & friends[1][0])[1:].any()
    assert abs(specimen.x[0] - specimen.x_neighbour[0]) == 3 * 64
    assert sorted(np.flatnonzero(specimen.x != specimen.x_neighbour)) == [0]


def test_s12_twin_releases_a_shared_fit_on_that_pair():
    """The changed block has too few friends: both data sets release the same block."""
    specimen, twin = SPECIMENS["S12_plain_majority"], SPECIMENS["S12_twin_shared_majority"]
    law = np.cumsum(np.exp(-0.5 * (np.arange(-3000, 3000) / populous.MASK_SCALE) ** 2))
    for data in (specimen.x, specimen.x_neighbour):
        runs = twin.mechanism(data, 20_000, np.random.default_rng(13)) - specimen.x[1]
        assert_law(runs, lambda y: (law / law[-1])[y.astype(int) + 3000])


@pytest.mark.parametrize("name, radii", [("S12_plain_majority", 3), ("S12_twin_shared_majority", 2)])
def test_s12_true_epsilon(name, radii):
    specimen = SPECIMENS[name]
    z = np.arange(-3000, 3000)
    laws = []
    for data in (specimen.x, specimen.x_neighbour):
        mass = np.exp(-0.5 * ((z - data[0]) / populous.MASK_SCALE) ** 2)
        laws.append(mass / mass.sum())
        runs = specimen.mechanism(data, 20_000, np.random.default_rng(12))
        assert_law(runs, lambda y, law=laws[-1]: np.cumsum(law)[y.astype(int) + 3000])
    assert epsilon_at(specimen.delta, *laws) == pytest.approx(specimen.true_epsilon, abs=1e-4)
    multiplier = populous.MASK_SCALE / (2 * 64)
    assert gaussian_delta(populous.MASK[0], noise_multiplier=multiplier) <= populous.MASK[1]  # what the mask promises
    assert specimen.broken == (specimen.true_epsilon > specimen.epsilon)
    assert abs(specimen.x[0] - specimen.x_neighbour[0]) == radii * 64


# ------------------------------------------------------------------ exact densities
def delta_at_claim(name):
    """Exact delta of the claimed epsilon, from the parts derived above; 0 for sound pure claims."""
    specimen, top = SPECIMENS[name], 1 - math.exp(-1)
    if name.startswith("S10_"):
        return truncated_delta(sample_efficient.noise_law(1 if specimen.broken else 10), (2, 3, 1), specimen.epsilon)
    if name.startswith("S12_"):
        multiplier = populous.MASK_SCALE / (64 * (3 if specimen.broken else 2))
        return float(gaussian_delta(specimen.epsilon, noise_multiplier=multiplier))
    if name == "S11_clipped_noise":
        return (math.exp(0.5) + 1) / 2 / (1 + math.expm1(0.5) / (2 * specimen.delta))
    if name == "S11_twin_conditioned":
        return specimen.delta
    few = {"S2_gamma_variance": top, "S3_wishart_covariance": top, "S4_mean_true_count": 0.1419}
    few |= {"S5_mean_noisy_scale": math.exp(-0.5) / 4, "S9_local_full": 0.338, "S10b_own_origin": 1.0}
    return few.get(name, 1.0 if specimen.broken else 0.0)


DENSITIES = [name for name, specimen in SPECIMENS.items() if specimen.log_density is not None]


def test_only_the_slow_estimator_has_no_density():
    assert set(SPECIMENS) - set(DENSITIES) == {"S1_populous_radius_one", "S1_twin_radius_gamma"}


@pytest.mark.parametrize("name", DENSITIES)
def test_densities_samplers_and_truths_agree(name):
    """The mean of max(0, 1 - exp(epsilon - loss)) is the delta of the claimed epsilon; Hoeffding."""
    specimen, n, rng = SPECIMENS[name], 20_000, np.random.default_rng(14)
    deltas = []
    for sign, data in ((1, specimen.x), (-1, specimen.x_neighbour)):
        outputs = specimen.mechanism(data, n, rng)
        losses = sign * log_ratio(specimen.log_density, outputs, specimen.x, specimen.x_neighbour, n)
        deltas.append(np.mean(-np.expm1(np.minimum(0.0, specimen.epsilon - losses))))
    slack = math.sqrt(math.log(4 / FALSE_ALARM) / (2 * n))
    assert max(deltas) == pytest.approx(delta_at_claim(name), abs=slack)


def test_densities_of_the_moments_are_those_of_scipy():
    scale = np.eye(2) / 20
    for data in (SPECIMENS["S3_wishart_covariance"].x, np.zeros(2)):
        outputs = dp_em.wishart_covariance(data, 20, np.random.default_rng(15))
        noise = outputs - 0.6 * np.eye(2) - np.outer(data, data) / 10
        exact = stats.wishart(df=3, scale=scale).logpdf(np.moveaxis(noise, 0, -1))
        assert dp_em.wishart_log_density(outputs, data) == pytest.approx(exact)
    y = np.array([0.65, 0.75, 2.0])
    assert dp_em.gamma_log_density(y, 1.0) == pytest.approx(stats.gamma.logpdf(y, 1, 0.7, 1 / 10))


@pytest.mark.parametrize(
    "name, centre, scale",
    [
        ("S4_mean_true_count", 0.0, 1.0),
        ("S6_own_norm", 1.0, 1 / 500),
        ("S8_central_mean", [0.0, 1.0], 1 / 80),
        ("S8c_central_variance", 0.0, 999 / 1000**2),
    ],
)
def test_densities_of_laplace_noise_are_those_of_scipy(name, centre, scale):
    specimen = SPECIMENS[name]
    outputs = specimen.mechanism(specimen.x, 20, np.random.default_rng(16))
    exact = stats.laplace.logpdf(outputs, centre, scale).reshape(20, -1).sum(axis=1)
    assert specimen.log_density(outputs, specimen.x) == pytest.approx(exact)


@pytest.mark.parametrize(
    "name, exact, scales",
    [
        ("S2_twin_laplace", [448], [64]),
        ("S3_twin_laplace", [416, 32, 416], [97.5] * 3),
        ("S4_twin_released_count", [0], [128]),
        ("S5_twin_counts_and_sums", [2, 1, 96, 16], [2, 2, 128, 128]),
        ("S6_twin_public_norm", [1024 + 999], [2048]),
        ("S8_twin_sums", [1, 999, 63, 64 * 999], [4, 4, 256, 256]),
    ],
)
def test_probabilities_of_integer_noise_are_those_of_scipy(name, exact, scales):
    """In units of the grid: 64 steps, times 10 records for moments, times the released 8 for the mean."""
    specimen = SPECIMENS[name]
    outputs = specimen.mechanism(specimen.x, 20, np.random.default_rng(17))
    units = {"S2_twin_laplace": [640], "S3_twin_laplace": [640] * 3, "S4_twin_released_count": [512]}
    units |= {"S5_twin_counts_and_sums": [1, 1, 64, 64], "S8_twin_sums": [1, 1, 64, 64]}
    steps = np.rint(outputs.reshape(20, -1) * units.get(name, [1])).astype(int)
    logs = stats.dlaplace.logpmf(steps, 1 / np.array(scales), loc=exact).sum(axis=1)
    assert specimen.log_density(outputs, specimen.x) == pytest.approx(logs)


def test_probabilities_of_the_reports_sum_to_one():
    marks = np.array(list(itertools.product(range(11), repeat=4)))
    outputs = np.column_stack([np.tile((np.arange(4) + 0.5) / 4, (len(marks), 1)), marks])
    for name in ("S9c_bins_from_records", "S9c_twin_public_bins"):
        assert np.exp(SPECIMENS[name].log_density(outputs, SPECIMENS[name].x)).sum() == pytest.approx(1)
    p = np.exp(SPECIMENS["S9d_plus_minus"].log_density(np.array([0.3, -0.3, 0.7]), 0.3))
    assert p == pytest.approx([math.e / (1 + math.e), 1 / (1 + math.e), 0.0])


def test_probabilities_of_truncated_noise_sum_to_one():
    specimen = SPECIMENS["S10_full_share"]
    law = sample_efficient.noise_law(1)
    counts = [302, 300, 301]  # of the gaps 1, 2 and 4
    noise = np.arange(-law.bound, law.bound + 1)
    for column in range(3):
        outputs = np.tile(np.array(counts, dtype=float), (len(noise), 1))
        base = specimen.log_density(outputs[:1], specimen.x)[0]
        outputs[:, column] += noise
        centre = -math.log(np.exp(-np.abs(noise) / law.scale).sum())
        assert np.exp(specimen.log_density(outputs, specimen.x) - base + centre).sum() == pytest.approx(1)
    beyond = np.array([[302.0 + law.bound + 1, 300, 301], [np.nan, 300, 301]])
    assert np.all(specimen.log_density(beyond, specimen.x) == -np.inf)
    few = np.array([0.0, 1.0, 2.0])  # two gaps of 1: below the threshold unless the noise is at its bounds
    values = np.array([[v, np.nan, np.nan] for v in [*range(law.bound + 1, law.bound + 3), np.nan]])
    p = np.exp(sample_efficient.histogram_log_density(values, few, share=1))
    assert p.sum() == pytest.approx(1) and np.all(p > 0)
    own = sample_efficient.own_origin_log_density(np.array([[0.0, 1.0], [np.nan, np.nan]]), few)
    assert np.exp(own).sum() == pytest.approx(1)


def test_density_of_clipped_noise_sums_to_one():
    epsilon, delta = SPECIMENS["S11_clipped_noise"].epsilon, SPECIMENS["S11_clipped_noise"].delta
    bound = math.log1p(math.expm1(epsilon) / (2 * delta)) / epsilon
    ends = np.array([-bound, bound, 1 - bound, 1 + bound])
    for data in (0.0, 1.0):
        atoms = np.exp(sample_efficient.clipped_log_density(ends, data))
        assert np.count_nonzero(atoms) == 2

        def density(y, data=data):
            return math.exp(sample_efficient.clipped_log_density(np.array([y]), data)[0])

        cuts = (data - bound, data, data + bound)
        inside = sum(integrate.quad(density, a, b)[0] for a, b in itertools.pairwise(cuts))
        assert atoms.sum() + inside == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("name", ["S12_plain_majority", "S12_twin_shared_majority"])
def test_probabilities_of_the_integers_sum_to_one(name):
    specimen = SPECIMENS[name]
    everyone = np.append(np.arange(-4000.0, 4000), np.nan)
    for data in (specimen.x, specimen.x_neighbour, np.arange(325.0)):
        assert np.exp(specimen.log_density(everyone, data)).sum() == pytest.approx(1, abs=1e-9)
    assert specimen.log_density(np.array([np.nan]), specimen.x)[0] == -np.inf
    apart = np.append(np.zeros(200), 1000.0 * np.arange(1, 126))  # 200 friends of each other: the sum is too small
    assert specimen.log_density(np.array([np.nan]), apart)[0] == 0

"""The truths of the unseen mechanisms, derived again. Every statistical check has a false-alarm rate of at most 1e-6."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from verification.auditing.outputs import log_ratio
from verification.references.references import gaussian_delta, gaussian_epsilon
from verification.specimens import unseen

SPECIMENS = {s.name: s for s in unseen.specimens()}
FALSE_ALARM = 1e-6
SIGMA = 2.5747


def runs(name, n=50_000, seed=20261122):
    """Outputs on both data sets."""
    specimen, rng = SPECIMENS[name], np.random.default_rng(seed)
    return [specimen.mechanism(data, n, rng) for data in (specimen.x, specimen.x_neighbour)]


def assert_law(sample, cdf):
    """Dvoretzky, Kiefer, Wolfowitz, Massart."""
    sample = np.sort(sample)
    n = len(sample)
    last = np.append(sample[1:] != sample[:-1], True)  # at ties the empirical function is right at the last of them
    gap = np.abs(np.arange(1, n + 1) / n - cdf(sample))[last].max()
    assert gap <= math.sqrt(math.log(2 / FALSE_ALARM) / (2 * n))


def assert_counts(seen, n, law):
    """An exact binomial test of every outcome."""
    tails = np.minimum(stats.binom.cdf(seen, n, law), stats.binom.sf(seen - 1, n, law))
    assert tails.min() >= FALSE_ALARM / (2 * len(law))


def log_densities(name, outputs):
    specimen = SPECIMENS[name]
    return [specimen.log_density(outputs, data) for data in (specimen.x, specimen.x_neighbour)]


def worst_delta(p, q, epsilon):
    """Of two laws on the same outcomes, both directions."""
    return max(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for a, b in ((p, q), (q, p)))


# The exact delta at the claimed epsilon, each derived below.
DELTA_AT_CLAIM = {
    "redrawn_nonnegative": 0.1192,
    "outlier_guard": 0.0046,
    "seconds_survive": 1.0,
    "shares_that_leave": 0.0086,
    "trials_of_rejection": 0.0464,
    "stratified_noise": 0.8290,
    "shuffled_reports": 0.0366,
    "ties_to_the_larger": 0.1166,
    "features_matched_apart": 0.0536,
    "averaged_with_transpose": 0.0119,
}


def test_ten_of_them_all_broken_by_more_than_a_hair():
    assert len(SPECIMENS) == 10 and set(SPECIMENS) == set(DELTA_AT_CLAIM)
    for specimen in SPECIMENS.values():
        assert specimen.broken and specimen.origin == "unseen" and specimen.level == "value"
        assert specimen.true_epsilon > 1.2 * specimen.epsilon
        assert DELTA_AT_CLAIM[specimen.name] > specimen.delta + 3e-3


@pytest.mark.parametrize("name", SPECIMENS)
def test_densities_samplers_and_truths_agree(name):
    """The mean of max(0, 1 - exp(epsilon - loss)) is the delta of the claimed epsilon; Hoeffding."""
    specimen, n = SPECIMENS[name], 100_000
    deltas = []
    for sign, outputs in zip((1, -1), runs(name, n), strict=True):
        losses = sign * log_ratio(specimen.log_density, outputs, specimen.x, specimen.x_neighbour, n)
        deltas.append(np.mean(-np.expm1(np.minimum(0.0, specimen.epsilon - losses))))
    assert max(deltas) == pytest.approx(DELTA_AT_CLAIM[name], abs=math.sqrt(math.log(4 / FALSE_ALARM) / (2 * n)))


# ------------------------------------------------------------------ one number
def test_redrawn_counts():
    """The law of noise and redrawing by conditioning; the largest loss is epsilon plus the ratio of the masses."""
    specimen, z = SPECIMENS["redrawn_nonnegative"], np.arange(-60, 61)
    laws = []
    for data, sample in zip((specimen.x, specimen.x_neighbour), runs(specimen.name), strict=True):
        law = np.where(z >= 0, stats.dlaplace.pmf(z, 1.0, loc=data), 0.0)
        laws.append(law[60:] / law.sum())
        assert specimen.log_density(z[60:], data) == pytest.approx(np.log(laws[-1]), abs=1e-9)
        assert_counts(np.bincount(sample, minlength=61), len(sample), laws[-1])
    p, q = laws
    losses = np.log(p / q)
    assert np.abs(losses).max() == losses[0] == pytest.approx(specimen.true_epsilon, abs=1e-5)
    assert worst_delta(p, q, 1.0) == pytest.approx(DELTA_AT_CLAIM[specimen.name], abs=1e-4)


def test_guarded_noise():
    """Outputs that the neighbour cannot give: the atom, and the end of the interval that lies beyond its own."""
    specimen = SPECIMENS["outlier_guard"]
    atom = 2 * stats.laplace.sf(6.0)
    end = integrate.quad(stats.laplace.pdf, 5, 6)[0]
    assert atom + end == pytest.approx(DELTA_AT_CLAIM[specimen.name], abs=1e-4)
    assert atom > 2 * specimen.delta and specimen.true_epsilon == math.inf
    y = np.linspace(-5, 6, 1001)[1:-1] + 1e-6  # elsewhere the loss is at most the claim
    p, q = log_densities(specimen.name, y)
    assert p == pytest.approx(stats.laplace.logpdf(y)) and q == pytest.approx(stats.laplace.logpdf(y, 1))
    assert np.abs(p - q).max() <= specimen.epsilon + 1e-9
    atoms = log_densities(specimen.name, np.array([0.0, 1.0]))
    assert np.exp(atoms) == pytest.approx(atom * np.eye(2))
    for data, sample in zip((specimen.x, specimen.x_neighbour), runs(specimen.name), strict=True):
        assert_counts(np.array([(sample == data).sum()]), len(sample), np.array([atom]))
        rest = sample[sample != data] - data
        assert_law(rest, lambda z: (stats.laplace.cdf(z) - atom / 2) / (1 - atom))


def test_seconds_of_the_day():
    specimen = SPECIMENS["seconds_survive"]
    for data, sample in zip((specimen.x, specimen.x_neighbour), runs(specimen.name), strict=True):
        assert set(sample % 60) == {data % 60} and sample.min() >= 0 and sample.max() < 86_400
        # minutes from midday of the data, so that the law is one bump; ten times round the clock
        z = np.arange(-7920, 7920)
        law = stats.dlaplace.pmf(z, 1 / 60).reshape(11, 1440).sum(axis=0)
        minutes = (sample - data + 43_200) % 86_400 // 60
        assert_law(minutes, lambda m, law=law: np.cumsum(law)[m.astype(int)])
        outputs = (data - 43_200 + 60 * np.arange(1440)) % 86_400
        p, q = log_densities(specimen.name, outputs)
        own, other = (p, q) if data == specimen.x else (q, p)
        assert own == pytest.approx(np.log(law), abs=1e-9) and np.all(other == -np.inf)
    assert specimen.x % 60 != specimen.x_neighbour % 60 and specimen.true_epsilon == math.inf


def test_shares_that_leave():
    """Two normals with one mean, variances 1 and 2/3: the loss grows with the square, delta by quadrature."""
    specimen = SPECIMENS["shares_that_leave"]
    scales = [SIGMA, SIGMA * math.sqrt(2 / 3)]
    laws = [stats.norm(0.25, scale) for scale in scales]
    y = np.linspace(-10, 10, 41)
    for law, log, sample in zip(laws, log_densities(specimen.name, y), runs(specimen.name), strict=True):
        assert log == pytest.approx(law.logpdf(y))
        assert_law(sample, law.cdf)

    def delta(epsilon):
        def excess(z, p, q):
            return max(0.0, p.pdf(z + 0.25) - math.exp(epsilon) * q.pdf(z + 0.25))

        return max(
            2 * sum(integrate.quad(excess, a, a + 1, args=tuple(pair))[0] for a in range(60))
            for pair in (laws, laws[::-1])
        )

    assert delta(1.0) == pytest.approx(DELTA_AT_CLAIM[specimen.name], abs=1e-4)
    assert delta(specimen.true_epsilon - 1e-3) > specimen.delta > delta(specimen.true_epsilon + 1e-3)
    # with all shares there, the sum is what was claimed
    assert gaussian_delta(1.0, noise_multiplier=SIGMA) == pytest.approx(specimen.delta, rel=1e-3)


# ------------------------------------------------------------------ counts and indices
def test_trials_of_rejection():
    """The chain of proposals step by step. The index alone has one law on both data sets."""
    specimen, steps = SPECIMENS["trials_of_rejection"], 600
    laws = []
    for data, (chosen, trials) in zip((specimen.x, specimen.x_neighbour), runs(specimen.name), strict=True):
        accepted = [math.exp((vote - 8) / 2) for vote in data]
        law, alive = np.empty((steps, 4)), 1.0
        for m in range(steps):
            law[m] = [alive / 4 * a for a in accepted]
            alive -= law[m].sum()
        laws.append(law)
        index, count = np.meshgrid(np.arange(4), 1 + np.arange(steps))
        logs = specimen.log_density((index.ravel(), count.ravel()), data)
        assert np.exp(logs) == pytest.approx(law.ravel(), rel=1e-6)
        assert_law(trials, lambda m, law=law: np.cumsum(law.sum(axis=1))[m.astype(int) - 1])
        assert_counts(np.bincount(chosen, minlength=4), len(chosen), law.sum(axis=0))
        late = trials > 8
        assert_counts(np.bincount(chosen[late], minlength=4), late.sum(), law.sum(axis=0))
    p, q = laws
    assert p.sum(axis=0) == pytest.approx(q.sum(axis=0), rel=1e-9)
    assert worst_delta(p, q, 1.0) == pytest.approx(DELTA_AT_CLAIM[specimen.name], abs=1e-4)
    for epsilon in (2.0, 5.0, 20.0):  # no epsilon holds: every further trial adds to the loss
        assert worst_delta(p, q, epsilon) > 0
    assert specimen.true_epsilon == math.inf


def test_ties():
    """The law of the largest of the others first. Random ties, or ties to the first, keep the claim."""
    specimen, z = SPECIMENS["ties_to_the_larger"], np.arange(-80, 81)
    noise = stats.dlaplace(0.5)

    def wins(odd, rest, tie):
        """P[the first wins]; ``tie(t)`` is its chance against t others at the maximum."""
        total = 0.0
        for t in range(1, 5):
            highest = math.comb(4, t) * noise.pmf(z) ** t * noise.cdf(z - 1) ** (4 - t)  # at z, t times
            total += highest @ (noise.sf(z + rest - odd) + tie(t) * noise.pmf(z + rest - odd))
        return total

    laws = {}
    for rule, tie in {
        "larger": lambda t, first_larger: float(first_larger),
        "random": lambda t, _: 1 / (t + 1),
        "first": lambda t, _: 1.0,
    }.items():
        pair = [wins(odd, 1 - odd, lambda t, odd=odd, tie=tie: tie(t, odd == 1)) for odd in (0, 1)]
        laws[rule] = [np.array([w, *[(1 - w) / 4] * 4]) for w in pair]
    losses = {rule: np.abs(np.log(p / q)).max() for rule, (p, q) in laws.items()}
    assert losses["larger"] == pytest.approx(specimen.true_epsilon, abs=1e-5)
    assert max(losses["random"], losses["first"]) <= specimen.epsilon
    assert worst_delta(*laws["larger"], 1.0) == pytest.approx(DELTA_AT_CLAIM[specimen.name], abs=1e-4)
    logs = log_densities(specimen.name, np.arange(5))
    for law, log, sample in zip(laws["larger"], logs, runs(specimen.name), strict=True):
        assert np.exp(log) == pytest.approx(law, rel=1e-9)
        assert_counts(np.bincount(sample, minlength=5), len(sample), law)


# ------------------------------------------------------------------ vectors
def test_stratified_noise():
    """Each noise is Laplace, but a noise moved by 1 must stay in its stratum."""
    specimen = SPECIMENS["stratified_noise"]
    edges = stats.laplace.ppf(np.arange(9) / 8)
    stays = sum(max(0.0, stats.laplace.cdf(b) - stats.laplace.cdf(min(a + 1, b))) for a, b in itertools.pairwise(edges))
    impossible = 1 - stays
    assert impossible == pytest.approx(0.829, abs=1e-3) and specimen.true_epsilon == math.inf
    # where it stays, in the outermost strata, the loss is 1 towards one end and -1 towards the other
    assert impossible == pytest.approx(DELTA_AT_CLAIM[specimen.name], abs=1e-4)
    for data, sample in zip((specimen.x, specimen.x_neighbour), runs(specimen.name), strict=True):
        noise = sample - data
        for column in noise.T:
            assert_law(column, stats.laplace.cdf)
        strata = np.searchsorted(edges, noise) - 1
        assert np.all(np.sort(strata, axis=1) == np.arange(8))
        pairs = np.bincount(8 * strata[:, 2] + strata[:, 5], minlength=64)
        law = np.where(np.eye(8, dtype=bool), 0.0, 1 / 56).ravel()
        assert_counts(pairs[law > 0], len(sample), law[law > 0])
        density = np.exp(specimen.log_density(sample[:100], data))
        # given the strata, independent Laplace, each conditioned on its stratum
        given = np.prod(8 * stats.laplace.pdf(noise[:100]), axis=1)
        assert density == pytest.approx(given / math.factorial(8))
        other = specimen.log_density(sample, specimen.x + specimen.x_neighbour - data)
        assert_counts(np.array([np.isneginf(other).sum()]), len(sample), np.array([impossible]))


def test_shuffled_reports():
    """The counts of answers 0 and 1, exhaustively: 62 reports of 0 and that of the one user."""
    specimen, n = SPECIMENS["shuffled_reports"], 63
    truth = math.exp(3) / (math.exp(3) + 4)
    lie = (1 - truth) / 4
    others = np.zeros((n + 1, n + 1))
    for a, b in itertools.product(range(n), range(n)):
        if a + b < n:
            others[a, b] = stats.multinomial.pmf([a, b, n - 1 - a - b], n - 1, [truth, lie, 3 * lie])
    laws = []
    for data, sample in zip((specimen.x, specimen.x_neighbour), runs(specimen.name, 20_000), strict=True):
        told = [truth, lie] if data == 0 else [lie, truth]
        law = others * 3 * lie
        law[1:] += told[0] * others[:-1]
        law[:, 1:] += told[1] * others[:, :-1]
        laws.append(law)
        assert np.all(np.diff(sample, axis=1) >= 0)
        for answer, column in ((0, law.sum(axis=1)), (1, law.sum(axis=0))):
            assert_counts(np.bincount((sample == answer).sum(axis=1), minlength=n + 1), len(sample), column)
        # one output whose other reports are all 2: a third of the choices for each
        rows = [(a, b) for a, b in itertools.product(range(30, 60), range(6)) if a + b <= n]
        outputs = np.array([[0] * a + [1] * b + [2] * (n - a - b) for a, b in rows])
        exact = [law[a, b] / 3.0 ** (n - a - b) for a, b in rows]
        assert np.exp(specimen.log_density(outputs, data)) == pytest.approx(exact, rel=1e-9)
    p, q = laws
    assert p.sum() == pytest.approx(1) == q.sum()
    assert worst_delta(p, q, 1.0) == pytest.approx(DELTA_AT_CLAIM[specimen.name], abs=1e-4)
    true = specimen.true_epsilon
    assert worst_delta(p, q, true - 1e-5) > specimen.delta > worst_delta(p, q, true + 1e-5)
    assert 3 * math.sqrt(math.log(1 / specimen.delta) / n) <= specimen.epsilon  # how the claim came about


def test_features_matched_apart():
    """Sum and difference of the two features' gaps are independent: one is +-kappa plus noise, the other noise.

    The loss log cosh(kappa p) - log cosh(kappa m) exceeds epsilon where |p| is above a bound that depends on m.
    """
    specimen = SPECIMENS["features_matched_apart"]
    for feature in range(2):  # the distance they use is 0
        assert sorted(specimen.x[:, feature]) == sorted(specimen.x_neighbour[:, feature])
    kappa = 4 * 1.25 / (2 * SIGMA)
    normal = stats.norm()

    def two(m, shift):
        return (normal.pdf(m - shift) + normal.pdf(m + shift)) / 2

    def delta(epsilon):
        def excess(m):
            t = epsilon + np.logaddexp(kappa * m, -kappa * m)  # log(2 cosh(kappa p)) must be above t
            bound = (t + math.log((1 + math.sqrt(1 - 4 * math.exp(-2 * t))) / 2)) / kappa
            above = normal.sf(bound - kappa) + normal.sf(bound + kappa)
            return normal.pdf(m) * above - math.exp(epsilon) * two(m, kappa) * 2 * normal.sf(bound)

        return 2 * sum(integrate.quad(excess, a, a + 1)[0] for a in range(12))

    assert delta(1.0) == pytest.approx(DELTA_AT_CLAIM[specimen.name], abs=1e-4)
    assert delta(specimen.true_epsilon - 1e-4) > specimen.delta > delta(specimen.true_epsilon + 1e-4)
    for data, sample in zip((specimen.x, specimen.x_neighbour), runs(specimen.name), strict=True):
        for i, j in itertools.product(range(2), range(2)):  # every output alone has one law
            law = stats.norm(0, SIGMA)
            assert_law(sample[:, i, j], lambda y, law=law: (law.cdf(y - 1.25) + law.cdf(y + 1.25)) / 2)
        exact = 0.5 * sum(stats.norm.pdf(sample[:50], means, SIGMA).prod(axis=(1, 2)) for means in (data, data[::-1]))
        assert np.exp(specimen.log_density(sample[:50], data)) == pytest.approx(exact)
        gaps = sample[:, 0] - sample[:, 1]
        signed = gaps.sum(axis=1) if data is specimen.x else gaps[:, 0] - gaps[:, 1]
        scaled = signed / (2 * SIGMA)
        assert_law(scaled, lambda p: (normal.cdf(p - kappa) + normal.cdf(p + kappa)) / 2)


def test_averaged_with_transpose():
    """Six products; the noise of each has half the variance it was made with."""
    specimen = SPECIMENS["averaged_with_transpose"]
    rows, columns = np.triu_indices(4, k=1)
    vectors = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    products = vectors[:, rows] * vectors[:, columns]
    moves = np.linalg.norm(products[:, None] - products, axis=-1)
    exact = [(data.T @ data)[rows, columns] for data in (specimen.x, specimen.x_neighbour)]
    assert np.linalg.norm(exact[0] - exact[1]) == moves.max() == 4  # the sensitivity they use, attained
    assert (specimen.x != specimen.x_neighbour).any(axis=1).sum() == 1
    for data, value, sample in zip((specimen.x, specimen.x_neighbour), exact, runs(specimen.name, 20_000), strict=True):
        assert np.array_equal(sample, np.swapaxes(sample, 1, 2))
        assert np.all(np.diagonal(sample, axis1=1, axis2=2) == len(data))
        noise = (sample[:, rows, columns] - value) / (4 * SIGMA / math.sqrt(2))
        assert_law(noise.ravel(), stats.norm.cdf)
        assert_law(noise.sum(axis=1) / math.sqrt(6), stats.norm.cdf)
        log = stats.norm.logpdf(sample[:20, rows, columns], value, 4 * SIGMA / math.sqrt(2)).sum(axis=1)
        assert specimen.log_density(sample[:20], data) == pytest.approx(log)
    multiplier = SIGMA / math.sqrt(2)
    assert gaussian_delta(1.0, noise_multiplier=multiplier) == pytest.approx(DELTA_AT_CLAIM[specimen.name], abs=1e-4)
    assert gaussian_epsilon(1e-3, noise_multiplier=multiplier) == pytest.approx(specimen.true_epsilon, abs=1e-4)

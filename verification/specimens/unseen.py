"""Ten bugs that are in no published list: written before looking at what the auditor measures, to try it on.

The leaks sit in places of their own: the normaliser of redrawn noise, a guard that fires once in 400 runs, the seconds
under noise of whole minutes, the width of the noise, the second part of a tuple, the joint law of eight noises, the
ties of an index, the order of 63 reports, a product of two outputs, and the noise on one side of a matrix.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.privacy.noise import discrete_laplace
from verification.specimens.specimen import Specimen

EPSILON, DELTA = 1.0, 1e-3
SIGMA = 2.5747  # Gaussian noise that is (1, 1e-3)-DP at sensitivity 1
GUARD = 6.0  # noise beyond this is taken for an error
DAY, MINUTE, HOUR = 86_400, 60, 60  # seconds, seconds, minutes
LARGEST_VOTE = 8  # public bound of the utilities
STRATA = 8
N_USERS, N_ANSWERS, LOCAL_EPSILON = 63, 5, 3.0
GRAM_SENSITIVITY = 4.0  # of the products of four features that are +1 or -1, each pair once, in L2


def redrawn_nonnegative(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """Noise is drawn again until the noisy count is not negative: how often depends on the count."""
    counts = data + discrete_laplace(n_samples, scale=1 / EPSILON, rng=rng)
    while (negative := counts < 0).any():
        counts[negative] = data + discrete_laplace(int(negative.sum()), scale=1 / EPSILON, rng=rng)
    return counts


def redrawn_log_density(outputs: Any, data: int) -> FloatArray:
    """Log probability: the discrete Laplace over its mass at 0 and above."""
    kept = 1 - math.exp(-EPSILON * (data + 1)) / (1 + math.exp(-EPSILON))
    return np.asarray(math.log(math.tanh(EPSILON / 2) / kept) - EPSILON * np.abs(outputs - data))


def outlier_guard(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """Absurdly large noise is replaced by none, so the exact count comes out once in 400 runs."""
    noise = rng.laplace(scale=1 / EPSILON, size=n_samples)
    return data + np.where(np.abs(noise) > GUARD, 0.0, noise)


def guard_log_density(outputs: FloatArray, data: int) -> FloatArray:
    """Log of the mass at whole numbers, of the density elsewhere."""
    noise = np.abs(outputs - data)
    atom = np.where(noise == 0, -EPSILON * GUARD, -np.inf)
    density = np.where(noise <= GUARD, math.log(EPSILON / 2) - EPSILON * noise, -np.inf)
    return np.where(outputs == np.rint(outputs), atom, density)


def seconds_survive(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """Time of day in seconds plus noise in whole minutes, round the clock: the seconds are untouched."""
    return (data + MINUTE * discrete_laplace(n_samples, scale=HOUR / EPSILON, rng=rng)) % DAY


def seconds_log_density(outputs: Any, data: int) -> FloatArray:
    """Log probability of a wrapped discrete Laplace; -inf at other seconds."""
    rate, minutes = EPSILON / HOUR, DAY // MINUTE
    steps, seconds = np.divmod((np.asarray(outputs) - data) % DAY, MINUTE)
    wrapped = np.logaddexp(-rate * steps, -rate * (minutes - steps)) - math.log(-math.expm1(-rate * minutes))
    return np.where(seconds == 0, math.log(math.tanh(rate / 2)) + wrapped, -np.inf)


def shares_that_leave(data: tuple[float, ...], n_samples: int, rng: np.random.Generator) -> Any:
    """Each of three parties sends its value with a third of the noise: who stays away takes a third along."""
    shares = rng.normal(scale=SIGMA / math.sqrt(3), size=(n_samples, len(data)))
    return (np.array(data) + shares).sum(axis=1)


def shares_log_density(outputs: FloatArray, data: tuple[float, ...]) -> FloatArray:
    """Log density of a normal of variance sigma^2 (number of parties)/3."""
    variance = SIGMA**2 * len(data) / 3
    return np.asarray(-((outputs - sum(data)) ** 2) / (2 * variance) - math.log(2 * math.pi * variance) / 2)


def trials_of_rejection(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """The exponential mechanism by rejection, sound by itself, reports how many proposals it took."""
    accepted = np.exp(EPSILON * (data - LARGEST_VOTE) / 2)
    chosen, trials = np.empty(n_samples, dtype=np.int64), np.zeros(n_samples, dtype=np.int64)
    pending = np.arange(n_samples)
    while pending.size:
        proposal = rng.integers(len(data), size=pending.size)
        trials[pending] += 1
        done = rng.random(pending.size) < accepted[proposal]
        chosen[pending[done]] = proposal[done]
        pending = pending[~done]
    return chosen, trials


def trials_log_density(outputs: tuple[Any, Any], data: FloatArray) -> FloatArray:
    """Log probability: the last proposal is accepted, all before it are not."""
    accepted = np.exp(EPSILON * (data - LARGEST_VOTE) / 2)
    chosen, trials = outputs
    return np.asarray(np.log(accepted[chosen] / len(data)) + (trials - 1) * math.log1p(-accepted.mean()))


def stratified_noise(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Laplace noises by stratified sampling, to lower the variance of sums: each stratum is used exactly once."""
    order = rng.permuted(np.tile(np.arange(STRATA), (n_samples, 1)), axis=1)
    level = (order + rng.random((n_samples, STRATA))) / STRATA
    tail = np.minimum(level, 1 - level)
    return data + np.sign(0.5 - level) * np.log(2 * np.maximum(tail, 1e-300)) / EPSILON


def stratified_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density: STRATA^STRATA/STRATA! times independent Laplace where all strata are met; -inf elsewhere."""
    noise = (outputs - data) * EPSILON
    tail = np.exp(-np.abs(noise)) / 2
    stratum = np.minimum(np.floor(np.where(noise < 0, tail, 1 - tail) * STRATA), STRATA - 1)
    met = np.all(np.sort(stratum, axis=1) == np.arange(STRATA), axis=1)
    independent = STRATA * math.log(EPSILON / 2) - np.abs(noise).sum(axis=1)
    return np.where(met, independent + STRATA * math.log(STRATA) - math.lgamma(STRATA + 1), -np.inf)


def shuffled_reports(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """Sorted local reports, claimed amplified to local epsilon sqrt(log(1/delta)/n): the theorem has a larger factor.

    ``data`` is the answer of one user; the others say 0. Each answer is told or replaced by one of the others.
    """
    truths = np.zeros(N_USERS, dtype=np.int64)
    truths[0] = data
    honest = rng.random((n_samples, N_USERS)) < math.exp(LOCAL_EPSILON) / (math.exp(LOCAL_EPSILON) + N_ANSWERS - 1)
    step = rng.integers(1, N_ANSWERS, size=(n_samples, N_USERS))
    return np.sort(np.where(honest, truths, (truths + step) % N_ANSWERS), axis=1)


def shuffled_log_density(outputs: Any, data: int) -> FloatArray:
    """Log probability: the multinomial of all answers 0, times the mean ratio over whose report is whose."""
    counts = np.stack([(outputs == a).sum(axis=1) for a in range(N_ANSWERS)], axis=1)
    arrangements = math.lgamma(N_USERS + 1) - special.gammaln(counts + 1).sum(axis=1)
    all_zero = arrangements + LOCAL_EPSILON * counts[:, 0] - N_USERS * math.log(math.exp(LOCAL_EPSILON) + N_ANSWERS - 1)
    ratio = np.ones(N_ANSWERS)
    if data != 0:
        ratio[0], ratio[data] = math.exp(-LOCAL_EPSILON), math.exp(LOCAL_EPSILON)
    return np.asarray(all_zero + np.log(counts @ ratio / N_USERS))


def ties_to_the_larger(data: Any, n_samples: int, rng: np.random.Generator) -> Any:
    """Noisy maximum of integers where a tie goes to the truly larger count, at random if these are equal."""
    noisy = data + discrete_laplace((n_samples, len(data)), scale=2 / EPSILON, rng=rng)
    tie_break = (np.asarray(data) + rng.random(noisy.shape)) / (np.max(data) + 2)  # below 1, the larger count first
    return np.argmax(noisy + tie_break, axis=1)


def ties_log_density(outputs: Any, data: Any) -> FloatArray:
    """Log probability of an index when one count differs from all others, which are equal."""
    odd, rest = data[0], data[1]
    z = np.arange(-200, 201)
    mass = math.tanh(EPSILON / 4) * np.exp(-EPSILON * np.abs(z) / 2)
    cdf = np.append(0.0, np.cumsum(mass))  # cdf[i] = P[noise < z_i]
    beaten = z + odd - rest + (odd > rest)  # the others' noise must be below this
    wins = float(mass @ cdf[np.clip(beaten + 200, 0, 401)] ** (len(data) - 1))
    return np.where(np.asarray(outputs) == 0, math.log(wins), math.log((1 - wins) / (len(data) - 1)))


def features_matched_apart(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Two means in random order, noise for a distance that matches the components of every feature separately.

    By that distance, {(-a, -a), (a, a)} and {(-a, a), (a, -a)} are the same mixture.
    """
    first = rng.integers(2, size=n_samples)
    ordered = data[np.stack([first, 1 - first], axis=1)]
    return ordered + rng.normal(scale=SIGMA, size=ordered.shape)


def matched_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density of both orders."""
    squares = [((outputs - means) ** 2).sum(axis=(1, 2)) / (2 * SIGMA**2) for means in (data, data[::-1])]
    return np.logaddexp(-squares[0], -squares[1]) - math.log(2) - 2 * math.log(2 * math.pi * SIGMA**2)


def averaged_with_transpose(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Products of features that are +1 or -1, noise for each pair once, then averaged with its transpose: sqrt(1/2).

    The diagonal is the number of records, public when records are replaced.
    """
    products = data.T @ data
    noise = rng.normal(scale=SIGMA * GRAM_SENSITIVITY, size=(n_samples, *products.shape))
    return products + np.where(np.eye(len(products), dtype=bool), 0.0, (noise + np.swapaxes(noise, 1, 2)) / 2)


def averaged_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density of the upper triangle."""
    rows, columns = np.triu_indices(data.shape[1], k=1)
    variance = (SIGMA * GRAM_SENSITIVITY) ** 2 / 2
    squares = ((outputs - data.T @ data)[:, rows, columns] ** 2).sum(axis=1)
    return np.asarray(-squares / (2 * variance) - len(rows) * math.log(2 * math.pi * variance) / 2)


def specimens() -> list[Specimen]:
    """All broken; the true epsilon is at the claimed delta."""
    votes = np.array([4.0, 3.0, 3.0, 2.0])
    same, crossed = 1.25 * np.array([[-1.0, -1.0], [1.0, 1.0]]), 1.25 * np.array([[-1.0, 1.0], [1.0, -1.0]])
    signs = np.array([[1.0, 1.0, 1.0, 1.0]] * 6 + [[1.0, -1.0, 1.0, -1.0]] * 4)
    flipped = signs.copy()
    flipped[0, :2] = -1.0
    one = np.eye(STRATA)[3]
    ties = np.array([0, 1, 1, 1, 1]), np.array([1, 0, 0, 0, 0])
    inf = math.inf

    def broken(name: str, mechanism: Any, x: Any, neighbour: Any, delta: float, true: float, log: Any) -> Specimen:
        pair = (x, neighbour, EPSILON, delta, true, True)
        return Specimen(name, "unseen", mechanism, *pair, n_samples=200_000, log_density=log)

    return [
        broken("redrawn_nonnegative", redrawn_nonnegative, 0, 1, 0.0, 1.20908, redrawn_log_density),
        broken("outlier_guard", outlier_guard, 0, 1, DELTA, inf, guard_log_density),
        broken("seconds_survive", seconds_survive, 36_005, 36_035, 0.0, inf, seconds_log_density),
        broken(
            "shares_that_leave", shares_that_leave, (0.5, -0.25, 0.0), (0.5, -0.25), DELTA, 1.97337, shares_log_density
        ),
        broken("trials_of_rejection", trials_of_rejection, votes, votes + 1, 0.0, inf, trials_log_density),
        broken("stratified_noise", stratified_noise, 0 * one, one, 0.0, inf, stratified_log_density),
        broken("shuffled_reports", shuffled_reports, 0, 1, DELTA, 2.07277, shuffled_log_density),
        broken("ties_to_the_larger", ties_to_the_larger, *ties, 0.0, 1.36852, ties_log_density),
        broken("features_matched_apart", features_matched_apart, same, crossed, DELTA, 2.59753, matched_log_density),
        broken(
            "averaged_with_transpose", averaged_with_transpose, signs, flipped, DELTA, 1.51371, averaged_log_density
        ),
    ]

"""How large a violation an audit of a given size would have caught: the number that gives a pass its meaning."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from verification._arguments import check_count, check_delta, check_non_negative, check_probability
from verification.auditing.betting import LEVELS, BetCounts, log_e_value
from verification.auditing.bisection import bracket
from verification.auditing.events import epsilon_to_expect
from verification.auditing.guessing import largest_right
from verification.references.references import gaussian_delta

FloatArray = NDArray[np.float64]
POWER = 0.9
WINDOW = 6.0  # standard deviations of a binomial that are summed; the rest weighs below 2e-9
DRAWS, SEQUENTIAL_DRAWS = 2_000, 60  # simulated audits, always the same random numbers
SEED = 5
DETERMINISTIC = 100.0  # excess from which on both planted mechanisms are as good as that


def detection_limit(*, epsilon: float, delta: float, n_certified: int, false_alarm: float) -> float:
    """Return the smallest true epsilon, above the claim, that the certification step refutes with probability 0.9.

    The planted violation is a Laplace mechanism of sensitivity 1 (``delta`` = 0) or a Gaussian mechanism (``delta`` >
    0; its epsilon at the same delta). The certification step is given the right score and event, so learning and
    choosing are not part of this figure. An audit with a learned score refutes the planted mechanism less often: of
    Laplace mechanisms at the limit, epsilon 1, 97 of 150 audits of 1,000 runs were refuted and 16 of 26 of 10,000 (0.65
    and 0.62); at 1.5 times the excess 0.87 of 63 and 0.77 of 26. With the densities given it was 0.93 of 150, and of
    Gaussian mechanisms, whose event is chosen from the first runs, 0.63 to 0.69 (delta .001 to .1), of curves 0.70 to
    0.81; of (1, .05), at 500 runs, 0.52 of 204. A score is harder to learn where the claim is small, as the limit is
    then close to it: of claims of 0 it was 0.20 of 80 at 1,000 runs, 0.23 of 60 at 3,000 and 3 of 30 at 10,000, of
    epsilon .1 and 3,000 runs 0.30 of 60. All this is of outputs that show the violation in the tails of a single
    column. Fewer are caught where more must be learned (`AuditResult.looked_for`): of differences beneath shared noise
    a hundred times as wide, at claim 1, 0.19 of 120 at 2,000 runs and 0.46 of 24 at 10,000; where the signs of two
    columns together tell, 0.43 of 60 at 2,000; of three, 0.07 of 60, and 0.67 of 24 at 10,000. Far fewer are where few
    runs show the violation, and none where no score sees it.

    delta = 0: labels are guessed where the privacy loss has its largest size, outputs below 0 or above 1; the power is
    an exact binomial sum. delta > 0: labels are guessed beyond the threshold that is best in expectation; the power is
    that of 2,000 simulated counts with fixed random numbers. Found by bisection to a relative 1e-3 of the excess.

    Parameters
    ----------
    epsilon, delta : float
        The claim, no unit.
    n_certified : int
        Runs of the mechanism that are guessed, both data sets together.
    false_alarm : float
        Error probability of the certified bound.

    Returns
    -------
    float
        In the unit of epsilon; infinite when no planted mechanism is caught with probability 0.9.

    Raises
    ------
    TypeError, ValueError
        If an argument is outside its range.
    """
    _check(epsilon, delta, false_alarm, n_certified=n_certified)
    return _limit(float(epsilon), float(delta), int(n_certified), float(false_alarm), False)


def sequential_limit(*, epsilon: float, delta: float, n_samples: int, false_alarm: float) -> float:
    """As `detection_limit`, for an audit that bets and stops after ``n_samples`` runs at the latest.

    The planted mechanism is refuted if the capital suffices at the end, in 60 simulated audits with fixed random
    numbers that are given the right score; one that stops on the way catches a little more.
    """
    _check(epsilon, delta, false_alarm, n_samples=n_samples)
    return _limit(float(epsilon), float(delta), int(n_samples), float(false_alarm), True)


def caught(true: float, *, epsilon: float, delta: float, n: int, false_alarm: float, sequential: bool = False) -> bool:
    """Whether a violation of size ``true`` is within the limit of an audit of ``n`` runs; some 30 times faster."""
    return _power(true, epsilon, delta, n, false_alarm, sequential) >= POWER


def _check(epsilon: float, delta: float, false_alarm: float, **n: int) -> None:
    check_non_negative(epsilon=epsilon)
    check_delta(delta)
    check_count(least=1, **n)
    check_probability(false_alarm=false_alarm)


@lru_cache(maxsize=256)
def _limit(epsilon: float, delta: float, n: int, false_alarm: float, sequential: bool) -> float:
    return _smallest_excess(epsilon, lambda true: _power(true, epsilon, delta, n, false_alarm, sequential))


def _power(true: float, epsilon: float, delta: float, n: int, false_alarm: float, sequential: bool) -> float:
    z = 1 / true if delta == 0 else _noise_multiplier(true, delta)
    if sequential:
        return _betting_power(z, epsilon, delta, n, false_alarm)
    if delta == 0:
        return _laplace_power(true, epsilon, n, false_alarm)
    return _gaussian_power(z, epsilon, delta, n, false_alarm)


def _smallest_excess(epsilon: float, power: Callable[[float], float]) -> float:
    """Bisection for the smallest true epsilon with the wanted power, after a scan by factors of two of the excess."""
    low, high = 0.0, 1e-4
    while power(epsilon + high) < POWER:
        low, high = high, 2 * high
        if high > DETERMINISTIC:
            return math.inf
    # an error probability of 0.9 has the power at the claim itself: an excess of 0, that no relative width reaches
    return epsilon + bracket(lambda excess: power(epsilon + excess) < POWER, low, high, width=1e-9, relative=1e-3)[1]


def _laplace_power(true: float, epsilon: float, n: int, false_alarm: float) -> float:
    guesses = _likely(n, (1 + math.exp(-true)) / 2)  # both tails of the loss, on either data set
    weights = stats.binom.pmf(guesses, n, (1 + math.exp(-true)) / 2)
    # refuted <=> Pr[Bin(r, sigma(epsilon)) >= v] < false_alarm <=> v > isf
    least = stats.binom.isf(false_alarm, guesses, special.expit(epsilon)) + 1
    return float(np.sum(weights * stats.binom.sf(least - 1, guesses, special.expit(true))))


def _gaussian_power(z: float, epsilon: float, delta: float, n: int, false_alarm: float) -> float:
    """Both labels are guessed where |y - 1/2| is at least a threshold; y in sensitivities, noise ``z``."""
    thresholds = np.linspace(0.0, 0.5 + 8 * z, 201)
    right, wrong = (special.ndtr((-thresholds + shift) / z) for shift in (0.5, -0.5))
    share = right + wrong
    with np.errstate(invalid="ignore"):
        right = np.where(share > 0, right / share, 0.5)
    marked = np.full(share.shape, n * delta)
    best = int(np.argmax(epsilon_to_expect(n * share, right, marked, float(-special.ndtri(false_alarm)))))
    planned = max(1, round(n * share[best]))
    needed = largest_right(planned, n, delta, epsilon, false_alarm) + 1
    uniform = stats.qmc.Sobol(3, seed=SEED).random(2 * 1024)
    made = np.minimum(stats.binom.ppf(uniform[:, 0], n, share[best]), planned)
    hits = stats.binom.ppf(uniform[:, 1], made, right[best])
    pads = stats.binom.ppf(uniform[:, 2], planned - made, special.expit(epsilon))
    return float(np.mean(np.nan_to_num(hits) + np.nan_to_num(pads) >= needed))


def _betting_power(z: float, epsilon: float, delta: float, n: int, false_alarm: float) -> float:
    """Share of simulated audits whose capital suffices after ``n`` runs."""
    edges = np.array([*(LEVELS[LEVELS < 0]), *(LEVELS[LEVELS > 0])])  # between neighbouring levels
    below = np.concatenate([[0.0], _loss_law(edges, z, delta == 0), [1.0]])
    law = np.diff(below)  # of the loss on x; on x_neighbour it is mirrored
    rng = np.random.default_rng(SEED)
    caught = 0
    for ones in rng.binomial(n, 0.5, size=SEQUENTIAL_DRAWS):
        table = np.stack([rng.multinomial(n - ones, law[::-1]), rng.multinomial(ones, law)])
        caught += log_e_value(BetCounts(("exact",), table[None]), epsilon=epsilon, delta=delta) >= -math.log(
            false_alarm
        )
    return caught / SEQUENTIAL_DRAWS


def _loss_law(loss: FloatArray, z: float, laplace: bool) -> FloatArray:
    """Pr[privacy loss on x <= loss] (< for positive values), noise ``z`` and sensitivity 1."""
    if laplace:
        inside = 0.5 * np.exp(
            -(1 - loss * z) / (2 * z)
        )  # the loss is at most v where the output is (1 - v z)/2 or more on
        return np.where(loss < -1 / z, 0.0, np.where(loss > 1 / z, 1.0, inside))
    return np.asarray(special.ndtr((loss - 0.5 / z**2) * z))


def _likely(n: int, probability: float) -> FloatArray:
    """Counts of a binomial that are within WINDOW standard deviations, and a few more for rare events."""
    mean, spread = n * probability, WINDOW * math.sqrt(n * probability * (1 - probability)) + 20
    return np.arange(max(0, math.floor(mean - spread)), min(n, math.ceil(mean + spread)) + 1, dtype=float)


def _noise_multiplier(epsilon: float, delta: float) -> float:
    """The noise multiplier whose Gaussian mechanism has this epsilon at this delta, by bisection on a log scale."""

    def too_little(noise_multiplier: float) -> bool:
        return bool(gaussian_delta(epsilon, noise_multiplier=noise_multiplier) > delta)

    return bracket(too_little, 1e-4, 1e8, steps=80, geometric=True)[1]

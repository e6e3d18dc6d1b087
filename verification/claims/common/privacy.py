"""Mechanisms and composition of differential privacy: Arbas, Ashtiani, Liaw (2023), appendix C; Arbas (2023)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy import optimize, special, stats

from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.gaussians import FAMILY, PAPER
from verification.claims.search import over, worst
from verification.references.references import gaussian_delta, truncated_laplace_delta

LATER = "Ashtiani, Majid, Narayanan (2024)"
EpsilonOfAll = Callable[[int, float, float], float]  # k, epsilon, ln(1 / delta')


def _usual(k: int, epsilon: float, length: float) -> float:
    return math.sqrt(2 * k * length) * epsilon + k * epsilon * math.expm1(epsilon)


def _shorter(k: int, epsilon: float, length: float) -> float:
    return 0.9 * math.sqrt(2 * k * length) * epsilon + k * epsilon * math.expm1(epsilon)


def _under_the_root(k: int, epsilon: float, length: float) -> float:
    return math.sqrt(2 * k * length * epsilon) + k * epsilon * math.expm1(epsilon)


def _all_under_the_root(k: int, epsilon: float, length: float) -> float:
    return math.sqrt(2 * k * length * epsilon + k * epsilon * math.expm1(epsilon))


@claim(
    id="gaussian-mechanism",
    family=FAMILY,
    source=f"{PAPER}, C.4",
    statement="Gaussian noise of sqrt(2 ln(1.25 / delta)) sensitivity / epsilon is (epsilon, delta)-DP for epsilon < 1",
    kind=Kind.EXACT,
    verdict=Verdict.SLACK,
    printed={"most": 1.0},
    contrast={"most": 3.85},
    otherwise="the same for epsilon < 3.85",
    constants="first fails at epsilon = 3.787, delta = .896; at delta .5, .1, .01, 1e-5 first at 4.465, "
    "5.743, 6.772, 8.420",
)
def gaussian_mechanism(effort: Effort, *, most: float) -> Finding:
    """Exact delta over delta at noise sqrt(2 ln(1.25 / delta)) / epsilon times the sensitivity, epsilon < ``most``.

    The figures hold the first epsilon that fails, at four deltas and over all.
    """

    def share(epsilon: float | np.ndarray, delta: float | np.ndarray) -> np.ndarray:
        return gaussian_delta(epsilon, noise_multiplier=np.sqrt(2 * np.log(1.25 / delta)) / epsilon) / delta

    def first_failure(delta: float) -> float:
        epsilons = np.linspace(0.5, 12, 400)
        above = int(np.argmax(share(epsilons, delta) > 1))
        return optimize.brentq(lambda e: float(share(e, delta)) - 1, epsilons[above - 1], epsilons[above])

    epsilons = np.linspace(0, most, effort.of(80, 400))[1:, None]
    deltas = np.concatenate([np.geomspace(1e-12, 0.5, effort.of(80, 300)), np.linspace(0.5, 0.999, effort.of(80, 300))])
    shares = share(epsilons, deltas[None, :])
    i, j = np.unravel_index(int(np.argmax(shares)), shares.shape)
    figures = {f"first failure at delta = {delta:g}": first_failure(delta) for delta in (0.5, 0.1, 1e-2, 1e-5)}
    lowest = optimize.minimize_scalar(first_failure, bounds=(0.6, 0.99), method="bounded")
    figures |= {"first failure of all": float(lowest.fun), "at delta": float(lowest.x)}
    where = f"epsilon = {epsilons[i, 0]:.6g}, delta = {deltas[j]:.6g}"
    return Finding(float(shares[i, j]), where, shares.size, 1e-10, figures)  # relative error of the curve


@claim(
    id="truncated-laplace",
    family=FAMILY,
    source=f"{PAPER}, C.5 and C.6; {LATER}, A.2 and A.3",
    statement="Laplace noise of scale sensitivity / epsilon, conditioned on |z| <= A = (sensitivity / epsilon) "
    "ln(1 + (e^epsilon - 1) / (2 delta)), is (epsilon, delta)-DP",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"share": 1.0},
    contrast={"share": 0.99},
    otherwise="the same with .99 A",
    constants="attained for every delta <= 1/2; at epsilon = 1, .788 in place of .9, and .378 delta at half "
    "the sensitivity",
)
def truncated_laplace(effort: Effort, *, share: float) -> Finding:
    """Exact delta of TLap over delta, the noise cut at ``share`` A, for shifts up to the sensitivity.

    Where both densities are positive their ratio is at most e^epsilon, so delta is the mass that only one law has.
    A sample of cases is compared by quadrature too, which does not use that. The figures hold delta over the stated
    one at epsilon = 1: at delta = .9, and at half the sensitivity; and the largest delta that is attained there.
    """

    def bound(epsilon: float, delta: float) -> float:  # in units of the scale, sensitivity / epsilon
        return share * _truncation(epsilon, delta)

    def closed() -> Iterator[tuple[float, object]]:
        epsilons = np.geomspace(1e-4, 20, effort.of(25, 100))
        deltas = np.append(np.geomspace(1e-12, 0.5, effort.of(25, 100)), [0.6, 0.9, 0.999])
        for epsilon, delta, moved in itertools.product(epsilons, deltas, (1.0, 0.9, 0.5, 0.01)):
            found = _mass_outside(bound(epsilon, delta), moved * epsilon)
            yield found / delta, f"epsilon = {epsilon:.6g}, delta = {delta:.6g}, shift {moved} sensitivities"

    def integrated() -> Iterator[tuple[float, object]]:
        for _ in range(effort.of(20, 200)):
            epsilon, delta = 10.0 ** effort.rng.uniform(-2, 0.5), 10.0 ** effort.rng.uniform(-2, -0.05)
            moved = float(effort.rng.choice([1.0, 1.0, effort.rng.random()]))
            found = truncated_laplace_delta(epsilon, scale=1.0, bound=bound(epsilon, delta), shift=moved * epsilon)
            yield float(found) / delta, f"epsilon = {epsilon:.6g}, delta = {delta:.6g}, shift {moved:.6g} sensitivities"

    def attained(delta: float, moved: float = 1.0) -> float:
        return _mass_outside(_truncation(1.0, delta), moved) / delta

    largest = optimize.bisect(lambda delta: attained(delta) - 1 + 1e-12, 0.1, 0.99)
    figures = {
        "delta attained at .9": 0.9 * attained(0.9),
        "share at half the sensitivity": attained(1e-5, 0.5),
        "largest delta attained": largest,
    }
    # Rounding of the closed form; the quadrature is off by at most 1e-9, and no delta there is below .01.
    return worst(over(closed(), tolerance=1e-11, figures=figures), over(integrated(), tolerance=1e-7))


@claim(
    id="advanced-composition",
    family=FAMILY,
    source=f"{PAPER}, C.7; {LATER}, A.1",
    statement="k releases, each (epsilon, delta)-DP, are (sqrt(2 k ln(1/delta')) epsilon + "
    "k epsilon (e^epsilon - 1), k delta + delta')-DP",
    kind=Kind.EXACT,
    verdict=Verdict.SLACK,
    printed={"epsilon_of_all": _usual},
    contrast={"epsilon_of_all": _shorter},
    otherwise="the same with .9 sqrt(2 k ln(1/delta')) epsilon",
    constants="k epsilon tanh(epsilon / 2) is enough as second term; k epsilon is smaller for few releases, up "
    "to k = 28 at epsilon = .1, delta' = 1e-5",
)
@claim(
    id="advanced-composition-thesis",
    family=FAMILY,
    source="Arbas (2023), as typeset",
    statement="k releases, each (epsilon, delta)-DP, are (sqrt(2 k ln(1/delta') epsilon) + "
    "k epsilon (e^epsilon - 1), k delta + delta')-DP",
    kind=Kind.EXACT,
    verdict=Verdict.SLACK,
    printed={"epsilon_of_all": _under_the_root},
    contrast={"epsilon_of_all": _all_under_the_root},
    otherwise="the same with sqrt(2 k ln(1/delta') epsilon + k epsilon (e^epsilon - 1))",
    constants="true, if not meant: sqrt(epsilon) >= epsilon up to 1, and from ln 2 on the second term is at "
    "least k epsilon",
)
def composition(effort: Effort, *, epsilon_of_all: EpsilonOfAll) -> Finding:
    """(exact delta of k releases - k delta) / delta' at the stated epsilon: the term k delta is on both sides.

    The worst k-fold (epsilon, delta)-DP release tells all with probability 1 - (1 - delta)^k and is k randomised
    responses otherwise (Kairouz, Oh, Viswanath 2015); their loss is binomial. k Gaussian releases are compared too,
    with epsilon and delta on the curve of one. The figures hold the same for sqrt(2 k L) epsilon +
    k epsilon tanh(epsilon / 2), and the least k at which the usual formula is below k epsilon.
    """
    lengths = np.append(np.geomspace(1e-3, 70, effort.of(16, 60)), math.log(2))
    rounds = (1, 2, 3, 10, 30, 100, 1000, 10_000)

    def responses(of_all: EpsilonOfAll) -> Iterator[tuple[float, object]]:
        for k, epsilon in itertools.product(rounds, np.geomspace(1e-3, 4, effort.of(16, 60))):
            stated = np.array([of_all(k, epsilon, length) for length in lengths])
            for length, log_delta in zip(lengths, _log_delta_of_responses(k, epsilon, stated), strict=True):
                yield math.exp(min(log_delta + length, 700.0)), _place(k, epsilon, 0.0, length)
                for delta in (1e-6, 1e-3, 0.1) if length < 15 else ():  # more would lose the digits of k delta - told
                    told = -math.expm1(k * math.log1p(-delta))
                    left = (1 - told) * math.exp(log_delta) - (k * delta - told)
                    yield max(0.0, left) * math.exp(length), _place(k, epsilon, delta, length)

    def gaussians() -> Iterator[tuple[float, object]]:
        for k, z, epsilon in itertools.product(
            rounds, (0.5, 1, 2, 5, 20, 100), np.geomspace(1e-3, 4, effort.of(8, 30))
        ):
            delta = float(gaussian_delta(epsilon, noise_multiplier=z))
            stated = np.array([epsilon_of_all(k, epsilon, length) for length in lengths])
            exact = gaussian_delta(stated, noise_multiplier=z / math.sqrt(k))
            shares = np.maximum(0.0, exact - k * delta) * np.exp(lengths)
            i = int(np.argmax(shares))
            yield float(shares[i]), f"Gaussian noise {z:g}, " + _place(k, epsilon, delta, lengths[i])

    best = next(k for k in itertools.count(1) if _usual(k, 0.1, math.log(1e5)) < k * 0.1)
    figures = {
        "largest with tanh(epsilon / 2)": over(responses(_with_the_mean)).largest,
        "least k, epsilon .1, delta' 1e-5": float(best),
    }
    rounding = 1e-9  # binomial masses
    return worst(
        over(responses(epsilon_of_all), tolerance=rounding, figures=figures), over(gaussians(), tolerance=1e-9)
    )


def _with_the_mean(k: int, epsilon: float, length: float) -> float:
    return math.sqrt(2 * k * length) * epsilon + k * epsilon * math.tanh(epsilon / 2)


def _log_delta_of_responses(k: int, epsilon: float, stated: np.ndarray) -> np.ndarray:
    """ln of the exact delta of k randomised responses at each stated epsilon: a sum of terms above 0."""
    truthful = np.arange(k + 1)
    losses, log_masses = epsilon * (2 * truthful - k), stats.binom.logpmf(truthful, k, special.expit(epsilon))
    found = np.full(len(stated), -math.inf)
    for i, level in enumerate(stated):
        above = losses > level
        if above.any():
            found[i] = special.logsumexp(log_masses[above] + np.log(-np.expm1(level - losses[above])))
    return found


def _truncation(epsilon: float, delta: float) -> float:
    """A in units of the scale."""
    return math.log1p(math.expm1(epsilon) / (2 * delta))


def _mass_outside(bound: float, shift: float) -> float:
    """Mass of Laplace noise of scale 1 on |z| <= bound that lies outside the support moved by ``shift``."""
    if shift >= 2 * bound:
        return 1.0
    if shift <= bound:
        return math.exp(shift - bound) * -math.expm1(-shift) / -math.expm1(-bound) / 2
    return 1 - math.expm1(2 * bound - shift) / math.expm1(bound) / 2


def _place(k: int, epsilon: float, delta: float, length: float) -> str:
    return f"k = {k}, epsilon = {epsilon:.6g}, delta = {delta:.6g}, delta' = {math.exp(-length):.6g}"

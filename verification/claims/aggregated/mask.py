"""The mask of the aggregated populous estimator: loss, worst direction, curve, noise of the weights.

``curve.py`` has the curves. The exact ones come from noncentral chi-square tails and a contour integral, the
bound from monotone pieces; they share only the formula of the loss, which is compared with matrix densities here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy import integrate, stats

from verification.auditing.bisection import bracket
from verification.claims.aggregated.curve import (
    FloatArray,
    largest_omega,
    log_moment,
    proved,
    single_delta,
    spread_delta,
    weight_delta,
)
from verification.claims.aggregated.graphs import FAMILY, NOTE
from verification.claims.aggregated.reference import power
from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.search import over

SETTINGS = [(1.0, 1e-6, 3, 0.05), (1.0, 1e-6, 6, 0.2), (0.5, 1e-5, 2, 0.1)]  # epsilon, delta, D, eta
ROUNDING = 1e-6  # of tails at 1e-9 and above, differences of numbers accurate to 1e-14
Curve = Callable[[float], float]


@claim(
    id="aggregated-loss",
    family=FAMILY,
    source=f"{NOTE}, equations (2) and (3)",
    statement="the loss of the mask is a sum over rows of affine noncentral chi-squares, with moments Lambda_x",
    kind=Kind.QUADRATURE,
    verdict=Verdict.HOLDS,
    printed={"first_order": False},
    contrast={"first_order": True},
    otherwise="so it is with constant x/(8 eta^2) and centre 1/2, the same to first order in x",
)
def loss(effort: Effort, *, first_order: bool) -> Finding:
    """Equation (2) and its moments by other routes, as exp |difference|.

    Draw by draw: the loss of matrix normal laws against the sum over rows. Moments: quadrature against the closed form.
    Off the real line: ln |E exp(z loss)| against the bracket of (3). Curves: contour integral against tails.
    ``first_order``: centre and constant to first order in x, 1/2 and x/(8 eta^2).
    """

    def row(x: float, eta: float, size: int) -> tuple[float, float]:
        if first_order:
            return size * x / 2 + x / (8 * eta**2), 0.5
        return size * x / 2 + math.tanh(x / 4) / (2 * eta**2), 1 / (1 + math.exp(-x / 2))

    def cases() -> Iterator[tuple[float, object]]:
        rng = effort.rng
        for _ in range(effort.of(40, 1000)):
            size, eta = int(rng.integers(2, 6)), float(rng.choice([0.02, 0.1, 0.5]))
            left, right, rotation = (np.linalg.qr(rng.normal(size=(size, size)))[0] for _ in range(3))
            factor = left @ np.diag(np.exp(rng.uniform(-2, 2, size))) @ right
            xs = rng.normal(size=size) * rng.choice([0.01, 0.1, 1.0])
            other = factor @ power((rotation * np.exp(xs)) @ rotation.T, 0.5)  # a factor of the second average
            drawn = factor @ (np.eye(size) + eta * rng.normal(size=(size, size)))
            laws = [(root, eta**2 * root @ root.T) for root in (factor, other)]
            direct = [stats.matrix_normal.logpdf(drawn, mean=root, rowcov=rows) for root, rows in laws]
            inner = rotation.T @ np.linalg.solve(factor, drawn) @ rotation
            total = 0.0
            for i, x in enumerate(xs):
                constant, centre = row(x, eta, size)
                squared = np.sum((inner[i] - centre * np.eye(size)[i]) ** 2) / eta**2
                total += constant + math.expm1(-x) / 2 * squared
            case = {"D": size, "eta": eta, "log eigenvalues": xs, "direct": direct[0] - direct[1], "rows": total}
            yield math.exp(min(700.0, abs(direct[0] - direct[1] - total))), case
        for x, z, size, eta in ((-0.02, 5.0, 3, 0.05), (0.3, 1.5, 2, 0.3), (-0.2, -0.5, 6, 0.2), (0.05, -2.0, 4, 0.1)):
            constant, centre = row(x, eta, size)
            moment = _moment(constant, math.expm1(-x) / 2, ((1 - centre) / eta) ** 2, size, z)
            closed = float(log_moment(x, z, size, eta))
            yield math.exp(min(700.0, abs(math.log(moment) - closed))), {"x": x, "z": z, "D": size, "eta": eta}
        for x, place, u in itertools.product((-0.1, 0.1), (0.5, 5.0), (0.1, 3.0, 50.0)):
            size, eta = 3, 0.1
            a, y = -math.expm1(-x), math.exp(-x / 2)
            v2 = (u * a / (1 + place * a)) ** 2
            n = (y / ((1 + y) * eta)) ** 2 / (1 + place * a)
            bracket = float(log_moment(x, place, size, eta)) - size / 4 * math.log1p(v2) - n / 2 * v2 / (1 + v2)
            real = float(log_moment(x, place + 1j * u, size, eta).real)
            yield math.exp(abs(bracket - real)), {"x": x, "z": place + 1j * u}
        for epsilon, delta, size, eta in SETTINGS:
            x = -_at_delta(epsilon, delta, size, eta)
            found = spread_delta(epsilon, np.array([x]), 0.0, size, eta), single_delta(epsilon, x, size, eta)
            yield max(found) / min(found), {"epsilon": epsilon, "D": size, "eta": eta, "x": x, "delta": found}

    return over(cases(), tolerance=1e-6)  # quadrature, and matrices with condition numbers of at most exp(4)


@claim(
    id="aggregated-worst-direction",
    family=FAMILY,
    source=f"{NOTE}, Lemma 6",
    statement="Lambda_x(lambda)/x^2 falls as x grows from -omega to omega, lambda (e^omega - 1) < 1",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"key": np.asarray},
    contrast={"key": np.abs},
    otherwise="it falls as |x| grows",
)
def falling(effort: Effort, *, key: Callable[[FloatArray], FloatArray]) -> Finding:
    """Lambda_x(lambda)/x^2 over the value before it, in the order of ``key``; and random spreads over Lambda_-omega."""

    def cases() -> Iterator[tuple[float, object]]:
        for size, eta, omega in itertools.product((2, 3, 11), (0.02, 0.1, 0.5), (0.005, 0.02, 0.2)):
            for share in (0.01, 0.3, 0.9, 0.999):
                place = share / math.expm1(omega)
                grid = omega * np.linspace(-1, 1, effort.of(40, 400))  # an even number of points: 0 is none of them
                grid = grid[np.argsort(key(grid), kind="stable")]
                values = log_moment(grid, place, size, eta) / grid**2
                ratios = values[1:] / values[:-1]
                i = int(np.argmax(ratios))
                case = {"D": size, "eta": eta, "lambda": place, "x": grid[i + 1], "before": grid[i]}
                yield float(ratios[i]), case
                most = float(log_moment(-omega, place, size, eta))
                for _ in range(effort.of(5, 50)):
                    xs = effort.rng.normal(size=size)
                    xs *= omega / np.linalg.norm(xs)
                    total = float(np.sum(log_moment(xs, place, size, eta)))
                    yield total / most, {"D": size, "eta": eta, "lambda": place, "xs": xs}

    return over(cases(), tolerance=1e-8)  # Lambda near 0 is a difference of terms 1e4 times as large


@claim(
    id="aggregated-curve",
    family=FAMILY,
    source=f"{NOTE}, Theorem 3",
    statement="Delta of Theorem 3 bounds the exact delta of every change of the average of size omega",
    kind=Kind.SEARCH,
    verdict=Verdict.HOLDS,
    printed={"share": 1.0},
    contrast={"share": 0.99},
    otherwise="Delta of .99 omega bounds it",
    constants="admits .996, .985, .971 of the exact omega at eta = .05, .2, .5",
)
def curve(effort: Effort, *, share: float) -> Finding:
    """Exact delta over the bound of Theorem 3 at ``share`` omega: one eigenvalue of either sign, weights, spreads.

    The figures give the largest delta of a spread over that of the single eigenvalue -omega, and the shares of the
    largest omega that the theorem admits.
    """
    figures = {"largest spread over single": 0.0}
    epsilons = (0.3, 1.0, 2.0) if effort.thorough else (0.3, 1.0)

    def cases() -> Iterator[tuple[float, object]]:
        for size, eta, epsilon in itertools.product((2, 3, 6), (0.02, 0.05, 0.2, 0.5), epsilons):
            omega = _at_delta(epsilon, 10.0 ** effort.rng.uniform(-8, -3), size, eta)
            bound = proved(share * omega, size, eta).delta(epsilon)
            single = single_delta(epsilon, -omega, size, eta)
            case = {"D": size, "eta": eta, "epsilon": epsilon, "omega": omega}
            yield single / bound, case | {"x": -omega}
            yield single_delta(epsilon, omega, size, eta) / bound, case | {"x": omega}
            yield weight_delta(epsilon, omega, size, eta) / bound, case | {"moved": "weights"}
            for _ in range(effort.of(2, 25)):
                xs = effort.rng.normal(size=size + 1) * effort.rng.choice([0.1, 1.0], size=size + 1)
                xs[: effort.rng.integers(1, size + 1)] *= effort.rng.choice([-1.0, 3.0])
                xs *= omega / np.linalg.norm(xs)
                found = spread_delta(epsilon, xs[:-1], float(xs[-1]), size, eta)
                figures["largest spread over single"] = max(figures["largest spread over single"], found / single)
                yield found / bound, case | {"xs": xs[:-1], "weights": xs[-1]}

    found = over(cases(), tolerance=ROUNDING)
    for eta in (0.05, 0.2, 0.5):
        proved_omega, exact = (largest_omega(1.0, 1e-6, 6, eta, exact=way) for way in (False, True))
        figures[f"admitted omega over exact, D = 6, eta = {eta:g}"] = proved_omega / exact
    figures["largest omega at (1, 1e-6), D = 3, eta = .05"] = largest_omega(1.0, 1e-6, 3, 0.05, exact=False)
    return found.with_figures(figures)


@claim(
    id="aggregated-closed-form",
    family=FAMILY,
    source=f"{NOTE}, after Theorem 3",
    statement="a change of size omega costs at most mu^2/2 + mu sqrt(2 (1 + A) ln(1/delta)) + A ln(1/delta), "
    "A = e^omega - 1, mu^2 = ((e^(omega/2) - 1)/eta)^2 + D A^2/2",
    kind=Kind.SEARCH,
    verdict=Verdict.SLACK,
    printed={"share": 1.0},
    contrast={"share": 0.85},
    otherwise="the same with .85 of the second term",
)
def closed_form(effort: Effort, *, share: float) -> Finding:
    """Exact delta over delta at epsilon = mu^2/2 + mu sqrt(2 (1 + A) L) + A L, L = ln(1/delta), A = e^omega - 1.

    mu^2 = ((e^(omega/2) - 1)/eta)^2 + D A^2/2; ``share`` of the second term. One eigenvalue of either sign, weights.
    """

    def cases() -> Iterator[tuple[float, object]]:
        omegas = np.geomspace(1e-3, 0.5, effort.of(8, 40)).tolist()
        for size, eta, omega in itertools.product((2, 3, 6), (0.02, 0.05, 0.2, 0.5), omegas):
            a = math.expm1(omega)
            mu = math.hypot(math.expm1(omega / 2) / eta, a * math.sqrt(size / 2))
            for delta in (0.1, 1e-3, 1e-6, 1e-9):
                length = math.log(1 / delta)
                epsilon = mu**2 / 2 + share * mu * math.sqrt(2 * (1 + a) * length) + a * length
                case = {"D": size, "eta": eta, "omega": omega, "delta": delta, "epsilon": epsilon}
                if epsilon < 20:  # the tails lose their digits beyond
                    yield either(epsilon, omega, size, eta) / delta, case
                    yield weight_delta(epsilon, omega, size, eta) / delta, case | {"moved": "weights"}

    return over(cases(), tolerance=ROUNDING)


@claim(
    id="aggregated-both-signs",
    family=FAMILY,
    source=f"{NOTE}, assumption (A4) and Theorem 3",
    statement="Theorem 3 with x of both signs bounds the exact delta in both directions",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"signs": (-1, 1)},
    contrast={"signs": (1,)},
    otherwise="with x > 0 alone it does",
)
def directions(effort: Effort, *, signs: tuple[int, ...]) -> Finding:
    """Exact delta of one eigenvalue of either sign over Theorem 3 evaluated on ``signs`` of x alone."""

    def cases() -> Iterator[tuple[float, object]]:
        for epsilon, delta, size, eta in SETTINGS:
            omega = _at_delta(epsilon, delta, size, eta)
            bound = proved(omega, size, eta, signs).delta(epsilon)
            for x in (-omega, omega):
                case = {"D": size, "eta": eta, "epsilon": epsilon, "x": x}
                yield single_delta(epsilon, x, size, eta) / bound, case

    return over(cases(), tolerance=ROUNDING)


@claim(
    id="aggregated-weight-noise",
    family=FAMILY,
    source=f"{NOTE}, after Lemma 6",
    statement="with sigma_w = kappa/sqrt(1/(4 eta^2) + D/2) a weight costs no more than an eigenvalue",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"share": 1.0},
    contrast={"share": 0.8},
    otherwise="so it does with .8 of that noise, or less",
    constants="the least share of sigma_w that keeps delta, D = 3, eta = .05: .825; D = 6, eta = .2: .60",
)
def weight_noise(effort: Effort, *, share: float) -> Finding:
    """Exact delta of moved weights, noise ``share`` sigma_w, over Theorem 3; at the largest omega that it admits."""
    figures: dict[str, float] = {}

    def cases() -> Iterator[tuple[float, object]]:
        for epsilon, delta, size, eta in SETTINGS:
            omega = largest_omega(epsilon, delta, size, eta, exact=False)
            bound = proved(omega, size, eta)
            for e in (0.5 * epsilon, epsilon, 1.5 * epsilon):
                case = {"D": size, "eta": eta, "epsilon": e, "omega": omega}
                yield weight_delta(e, omega, size, eta, share) / bound.delta(e), case
            figures[f"least share of sigma_w, epsilon = {epsilon:g}, D = {size}, eta = {eta:g}"] = _least_share(
                epsilon, delta, omega, size, eta
            )

    found = over(cases(), tolerance=ROUNDING)
    return found.with_figures(figures)


def _least_share(epsilon: float, delta: float, omega: float, size: int, eta: float) -> float:
    """The least share of sigma_w that keeps delta."""
    return bracket(lambda share: weight_delta(epsilon, omega, size, eta, share) > delta, 0.2, 1.0, steps=30)[1]


def either(epsilon: float, omega: float, size: int, eta: float) -> float:
    return max(single_delta(epsilon, x, size, eta) for x in (-omega, omega))


def _at_delta(epsilon: float, delta: float, size: int, eta: float) -> float:
    return largest_omega(epsilon, delta, size, eta, exact=True)


def _moment(constant: float, slope: float, noncentrality: float, size: int, z: float) -> float:
    """E exp(z (constant + slope X)), X noncentral chi-square, by quadrature around the tilted peak."""

    def integrand(x: float) -> float:
        return math.exp(z * (constant + slope * x) + float(stats.ncx2.logpdf(x, size, noncentrality)))

    centre, width = size + noncentrality, math.sqrt(2 * size + 4 * noncentrality)
    points = [max(1e-12, centre + k * width) for k in (-40, -10, -3, 0, 3, 10, 40)]
    parts = (
        integrate.quad(integrand, a, b, epsrel=1e-10, limit=200)[0] for a, b in itertools.pairwise(points) if b > a
    )
    return float(sum(parts))

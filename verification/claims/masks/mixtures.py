"""From one component to a mixture: the shuffle that hides the order, the constants, the weights that sum to one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from scipy import stats

from pm_dpgmm.mechanisms.masks import MaskNoise, mask_mean, mask_mixture
from pm_dpgmm.mixture.mixture import Mixture
from verification.auditing.bisection import bracket
from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.distances import FloatArray
from verification.claims.masks import laws
from verification.claims.masks.constants import PROVED_C2
from verification.claims.masks.privacy import FAMILY, PAPER, THESIS
from verification.claims.search import FALSE_ALARM, at_most, over, worst

ROUNDING = 1e-9  # sums of at most 70 000 probabilities
EXTRA = (1e-6, 1e-2)  # delta'' of advanced composition


@claim(
    id="shuffled-mask",
    family=FAMILY,
    source=f"{PAPER}, Lemma 3.5; {THESIS}, Lemma 6.1.1",
    statement="k masked components in random order are (sqrt(2 k ln(1/delta'')) epsilon + "
    "k epsilon (e^epsilon - 1), k delta + delta'')-private for mixtures within gamma in dist^k",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"shuffle": True},
    contrast={"shuffle": False},
    otherwise="the same in the order of the input",
    constants="also (k epsilon, k delta), which is better for few components",
)
def shuffled_products(effort: Effort, *, shuffle: bool) -> Finding:
    """Exact delta of k masked components against k delta + delta'' at the epsilon of advanced composition; an audit.

    The mask of one component is the pair that is worst for its (epsilon, delta), on an alphabet of its own for every
    component, so that the order is seen; the second mixture lists the close components in another order. Many
    components: the law of the matched product. The audit runs the mask of the package on one mixture in two orders.
    """

    def cases() -> Iterable[tuple[float, object]]:
        for epsilon, delta in itertools.product((0.1, 0.5, 1.0), (0.0, 1e-3, 0.1)):
            for k in (1, 2, 3, 4) if effort.thorough else (1, 2, 3):
                for shift in range(k):  # the second mixture begins with another component
                    order = [(i + shift) % k for i in range(k)]
                    p, q = _mixture_laws(epsilon, delta, range(k), order, shuffle=shuffle)
                    for extra in EXTRA:
                        exact = float(np.maximum(p - math.exp(_advanced(epsilon, k, extra)) * q, 0).sum())
                        where = f"epsilon = {epsilon:g}, delta = {delta:g}, delta'' = {extra:g}, k = {k}, order {order}"
                        yield exact / (k * delta + extra), f"{where}: delta {exact:.6g}"
            for k, extra in itertools.product((10, 30, 100, 300), EXTRA):
                exact = _product_delta(epsilon, delta, k, _advanced(epsilon, k, extra))
                where = f"epsilon = {epsilon:g}, delta = {delta:g}, delta'' = {extra:g}, k = {k}, matched"
                yield exact / (k * delta + extra), f"{where}: delta {exact:.6g}"

    exact = over(cases(), tolerance=ROUNDING)
    return worst(exact, _audited(effort, shuffle=shuffle))


@claim(
    id="shuffled-mask-basic",
    family=FAMILY,
    source=f"{PAPER}, Lemma 3.5; {THESIS}, Lemma 6.1.1; with basic composition",
    statement="k masked components in random order are (k epsilon, k delta)-private for mixtures within gamma "
    "in dist^k",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"share": 1.0},
    contrast={"share": 0.99},
    otherwise="they are (.99 k epsilon, k delta)-private",
    constants="attained by one component; exactly 1 - (1 - delta)^k for k of them",
)
def basic_composition(effort: Effort, *, share: float) -> Finding:
    """Exact delta of k shuffled or matched components at ``share`` k epsilon over k delta."""

    def cases() -> Iterable[tuple[float, object]]:
        for epsilon, delta in itertools.product((0.1, 0.5, 1.0), (1e-6, 1e-3, 0.1)):
            for k in (1, 2, 3, 10, 100, 300):
                exact = _product_delta(epsilon, delta, k, share * k * epsilon)
                where = f"epsilon = {epsilon:g}, delta = {delta:g}, k = {k}"
                yield exact / (k * delta), f"{where}, matched: delta {exact:.6g}"
                for shift in range(k if k <= 3 else 0):
                    order = [(i + shift) % k for i in range(k)]
                    p, q = _mixture_laws(epsilon, delta, range(k), order, shuffle=True)
                    exact = float(np.maximum(p - math.exp(share * k * epsilon) * q, 0).sum())
                    yield exact / (k * delta), f"{where}, order {order}: delta {exact:.6g}"

    return over(cases(), tolerance=ROUNDING)


@claim(
    id="gmm-mask-constants",
    family=FAMILY,
    source=f"{PAPER}, Lemmas 5.1 and G.1",
    statement="epsilon = min(sqrt(epsilon' / 36 k), epsilon' / sqrt(72 k ln(2/delta'))) is the second; "
    "with it and "
    "delta = delta' / 6 k, k triples of masks cost (epsilon', delta'); gamma of F.5 is then the "
    "displayed one, with "
    "d^2 (d + ln(12 k/beta)) under its root",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"power": 2.0},
    contrast={"power": 1.0},
    otherwise="the same with d (d + ln(12 k/beta)) under the root, as the last display of G.1 prints",
    constants="for epsilon' <= 1 the constant 72 can be 45.9, which is least at k = 1 and delta' -> 1",
)
def final_constants(effort: Effort, *, power: float) -> Finding:
    """The arithmetic of Lemma 5.1: the least of both epsilons is the second, the totals are met, and the radius of one
    component at that budget is the displayed one, with d^``power`` under the root."""

    def cases() -> Iterable[tuple[float, object]]:
        budgets = itertools.product((1e-3, 0.1, 0.5, 1.0), (0.999, 0.1, 1e-6, 1e-100), (1, 2, 5, 100), (1, 2, 10))
        for total, failure, k, d in budgets:
            where = f"epsilon' = {total:g}, delta' = {failure:g}, k = {k}, d = {d}"
            log_term, delta = math.log(2 / failure), failure / (6 * k)
            epsilon = total / math.sqrt(72 * k * log_term)
            yield epsilon / math.sqrt(total / (36 * k)), f"{where}: the other epsilon"
            # three masks cost 3 epsilon and 3 delta; k of them by advanced composition with delta'/2
            spent = math.sqrt(2 * k * math.log(1 / (3 * k * delta))) * 3 * epsilon
            spent += k * 3 * epsilon * math.expm1(3 * epsilon)
            yield spent / total, f"{where}: epsilon of the composition"
            yield (k * 3 * delta + failure / 2) / failure, f"{where}: delta of the composition"
            alpha, beta = 0.5, 0.1
            radius = laws.joint_radius(epsilon, math.log(2 / delta), alpha, math.log(beta / (3 * k)), d, c2=PROVED_C2)
            inside = k * d**power * (d + math.log(12 * k / beta)) * math.log(12 * k / failure) * log_term
            displayed = total * alpha / (PROVED_C2 * math.sqrt(72) * math.sqrt(inside))
            yield (
                max(radius / displayed, displayed / radius),
                f"{where}: displayed radius {displayed:.6g}, {radius:.6g}",
            )

    # The tolerance is the rounding of a few products and roots.
    return over(cases(), tolerance=1e-12, figures={"constant that is enough for 72, epsilon' <= 1": _least_constant()})


@claim(
    id="renormalised-weights",
    family=FAMILY,
    source=f"{PAPER}, Algorithm 2 line 17 with Lemma 5.1",
    statement="weights masked, clipped at 0 and divided by their sum are within alpha with probability 1 - beta",
    kind=Kind.SAMPLED,
    verdict=Verdict.FALSE,
    printed={"renormalise": True},
    contrast={"renormalise": False},
    otherwise="the same without the division",
    constants="fails where most weights are near 0: their noise is clipped upwards, and the sum passes 1",
)
def sum_to_one(effort: Effort, *, renormalise: bool) -> Finding:
    """P(max_i |output_i - w_i| > alpha) / beta over weights found by search; fresh samples at the worst.

    Noise eta_W of Lemma F.1 at alpha and beta / 3 k, weights clipped at 0, divided by their sum if ``renormalise``.
    """
    alpha, beta = 0.01, 0.1
    rng, n = effort.rng, effort.of(4000, 40_000)
    findings = []
    for k in (2, 5, 10, 20, 50):
        noise = float(laws.weight_noise(alpha, beta / (3 * k)))

        def failures(weights: FloatArray, n_samples: int, noise: float = noise) -> int:
            drawn = np.maximum(weights + noise * rng.standard_normal((n_samples, len(weights))), 0)
            if renormalise:
                drawn = drawn / np.maximum(drawn.sum(axis=1, keepdims=True), laws.TINY)
            return int((np.abs(drawn - weights).max(axis=1) > alpha).sum())

        tried = [
            rng.dirichlet(np.full(k, c)) for c in (0.01, 0.03, 0.1, 0.3, 1.0, 10.0) for _ in range(effort.of(3, 30))
        ]
        chosen = max(tried, key=lambda weights: failures(weights, 300))
        hits = failures(chosen, n)
        low, estimate = at_most(hits, n, beta, false_alarm=FALSE_ALARM / 5)
        rounded = ", ".join(f"{w:.3g}" for w in sorted(chosen, reverse=True)[:5])
        finding = over(
            [(low, f"alpha = {alpha}, beta = {beta}, k = {k}, largest weights {rounded}: {hits} of {n} fail")]
        )
        findings.append(replace(finding, figures={f"P at k = {k}": estimate}, false_alarm=FALSE_ALARM / 5))
    return worst(*findings)


def _advanced(epsilon: float, k: int, extra: float) -> float:
    return math.sqrt(2 * k * math.log(1 / extra)) * epsilon + k * epsilon * math.expm1(epsilon)


def _worst_pair(epsilon: float, delta: float) -> FloatArray:
    """(2, 4): the two laws of four outputs that every (epsilon, delta)-indistinguishable pair is a function of."""
    high = (1 - delta) / (1 + math.exp(-epsilon))
    p = np.array([delta, high, 1 - delta - high, 0.0])
    return np.stack([p, p[::-1]])


def _mixture_laws(
    epsilon: float, delta: float, first: Iterable[int], second: Iterable[int], *, shuffle: bool
) -> tuple[FloatArray, FloatArray]:
    """Laws over ordered outputs, the components of the two mixtures listed as ``first`` and ``second``."""
    pair = _worst_pair(epsilon, delta)
    found = []
    for law, listed in zip(pair, (tuple(first), tuple(second)), strict=True):
        k = len(listed)
        orders = list(itertools.permutations(listed)) if shuffle else [listed]
        total = np.zeros((4 * k,) * k)
        for order in orders:
            product = np.ones(())
            for component in order:  # component c writes on outputs 4 c to 4 c + 3
                law_here = np.zeros(4 * k)
                law_here[4 * component : 4 * component + 4] = law
                product = np.multiply.outer(product, law_here)
            total += product / len(orders)
        found.append(total.ravel())
    return found[0], found[1]


def _product_delta(epsilon: float, delta: float, k: int, total: float) -> float:
    """Exact delta of k matched components: one that gives itself away, or a number of components that lean one way."""
    leaning = np.arange(k + 1)
    loss = (2 * leaning - k) * epsilon
    p = stats.binom.pmf(leaning, k, 1 / (1 + math.exp(-epsilon)))
    kept = math.exp(k * math.log1p(-delta))
    return float(1 - kept + kept * np.sum(p * -np.expm1(np.minimum(0.0, total - loss))))


def _audited(effort: Effort, *, shuffle: bool) -> Finding:
    """Audit of the package's mixture mask on one mixture in two orders, which must look the same: epsilon = 0.1."""
    from verification import audit

    def released(mixture: Mixture, n_samples: int, rng: np.random.Generator) -> FloatArray:
        rows = []
        for _ in range(n_samples):
            if shuffle:
                made = mask_mixture(mixture, noise=MaskNoise(), rng=rng)["means"]
            else:
                parts = zip(mixture.means, mixture.covariances, strict=True)
                made = np.array([mask_mean(m, s, noise=MaskNoise().mean, rng=rng) for m, s in parts])
            rows.append(np.asarray(made).ravel())
        return np.array(rows)

    means, covariances = np.array([[0.0], [5.0]]), np.ones((2, 1, 1))
    first = Mixture(weights=np.array([0.5, 0.5]), means=means, covariances=covariances)
    second = Mixture(weights=np.array([0.5, 0.5]), means=means[::-1], covariances=covariances)
    n, epsilon = effort.of(600, 6000), 0.1
    result = audit(released, first, second, epsilon=epsilon, n_samples=n, false_alarm=FALSE_ALARM, rng=effort.rng)
    where = f"audit of one mixture in two orders, {n} runs: epsilon at least {result.epsilon_lower:.4g}"
    return Finding(
        result.epsilon_lower / epsilon,
        where,
        n,
        figures={"audited epsilon": result.epsilon_lower},
        false_alarm=FALSE_ALARM,
    )


def _least_constant() -> float:
    """Smallest c with epsilon = epsilon' / sqrt(c k ln(2/delta')) enough for epsilon' <= 1, k >= 1 and every delta'."""

    def spent(c: float) -> float:  # largest at epsilon' = 1, k = 1, delta' = 1
        each = 3 / math.sqrt(c * math.log(2))
        return math.sqrt(2 * math.log(2)) * each + each * math.expm1(each)

    return bracket(lambda c: spent(c) > 1, 18.0, 72.0)[1]

"""What the distances keep: symmetry, lifting to sets of components, invariance under maps and orders.

Source: Arbas, Ashtiani, Liaw (2023), sections 2 to 4.
"""

from __future__ import annotations

import itertools

import numpy as np

from pm_dpgmm.mixture.distances import bottleneck_assignment
from verification.claims.claim import Claim, Effort, Finding, Kind, Verdict, claim
from verification.claims.common import distances as by_definition
from verification.claims.common.distances import Component, FloatArray, Weighted
from verification.claims.search import by_property, over, quotient
from verification.claims.total_variation.semimetrics import FAMILY, PAPER, RADIUS


@claim(
    id="lifting",
    family=FAMILY,
    source=f"{PAPER}, Lemma 3.6; Arbas (2023), Lemma 6.1.2",
    statement="if dist has a z-approximate triangle inequality, so has dist^k, with the same z",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"share": 1.0},
    contrast={"share": 0.99},
    otherwise="with .99 z",
    constants="the displayed argmin lacks the word dist, a misprint",
)
def lifting(effort: Effort, *, share: float) -> Finding:
    """dist^k of a random finite semimetric against ``share`` z, z the smallest constant of the space itself."""

    def cases() -> list[tuple[float, object]]:
        found: list[tuple[float, object]] = []
        for _ in range(effort.of(300, 6000)):
            n, k = 6, int(effort.rng.integers(1, 4))
            space = np.exp(effort.rng.normal(size=(n, n)))
            space = np.triu(space, 1) + np.triu(space, 1).T
            z = max(
                space[a, c] / (space[a, b] + space[b, c])
                for a, b, c in itertools.product(range(n), repeat=3)
                if len({a, b, c}) == 3
            )
            sets = effort.rng.integers(0, n, (3, k))
            if effort.rng.random() < 0.3:  # k copies of one point: the space itself
                sets = np.repeat(effort.rng.permutation(n)[:3, None], k, axis=1)
            x, y, whole = (by_definition.lifted(space[np.ix_(sets[i], sets[j])]) for i, j in ((0, 1), (1, 2), (0, 2)))
            found.append((quotient(whole, share * z * (x + y)), {"z": z, "space": space, "sets": sets}))
        return found

    return over(cases(), tolerance=1e-12)


@claim(
    id="bottleneck",
    family=FAMILY,
    source=f"{PAPER}, section 3.2",
    statement="a bottleneck matching gives the smallest possible largest distance over permutations",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"greedy": False},
    contrast={"greedy": True},
    otherwise="matching the closest pairs first gives it",
)
def bottleneck(effort: Effort, *, greedy: bool) -> Finding:
    """The matching algorithm of the package against every permutation; ``greedy``: smallest entries first instead."""

    def cases() -> list[tuple[float, object]]:
        found: list[tuple[float, object]] = []
        for _ in range(effort.of(200, 2000)):
            k = int(effort.rng.integers(1, 6))
            table = effort.rng.integers(0, 6, (k, k)).astype(float)
            value = _greedy(table) if greedy else bottleneck_assignment(table)[0]
            best = by_definition.lifted(table)
            found.append((quotient(value, best), table))
            found.append((quotient(best, value), table))
        return found

    return over(cases())


MATCHING_TIME = Claim(
    id="matching-time",
    family=FAMILY,
    source=f"{PAPER}, Lemma 3.4",
    statement="dist_PARAM can be computed in time polynomial in k and d",
    kind=Kind.READ,
    verdict=Verdict.NOT_CHECKABLE,
    reason="an order without constants; bipartite matching under a threshold has it by inspection",
)


@claim(
    id="semimetric",
    family=FAMILY,
    source=f"{PAPER}, Definition 2.1",
    statement="dist_COV, dist_MEAN, dist^k and dist_PARAM are symmetric and 0 between equal arguments",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"both_sides": True},
    contrast={"both_sides": False},
    otherwise="so is ||S1^-1/2 S2 S1^-1/2 - I|| alone",
)
def symmetric(effort: Effort, *, both_sides: bool) -> Finding:
    """Symmetry and zero diagonal of every distance; without ``both_sides`` dist_COV keeps one order only."""
    from verification.claims.common.hostile import mixture_triples

    def ratio(case: tuple[Weighted, Weighted, Weighted]) -> float:
        first, second, _ = case
        covariance = by_definition.dist_cov if both_sides else by_definition.one_sided
        found = []
        for (_, m1, s1), (_, m2, s2) in itertools.product(first, second):
            found += [(covariance(s1, s2), covariance(s2, s1))]
            found += [(by_definition.dist_mean((m1, s1), (m2, s2)), by_definition.dist_mean((m2, s2), (m1, s1)))]
        for distance in (by_definition.dist_components, by_definition.dist_param):
            found += [(distance(first, second), distance(second, first)), (distance(first, first), 0.0)]
        return max(quotient(a, b) for a, b in found)

    return by_property(mixture_triples(RADIUS), ratio, effort, quick=40, thorough=600, tolerance=1e-12)


@claim(
    id="affine-invariance",
    family=FAMILY,
    source=f"{PAPER}, section 4",
    statement="dist_COMP does not change under x -> A x + b, A invertible",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"power": 0.5},
    contrast={"power": 1.0},
    otherwise="the same with Sigma^-1 (m1 - m2) in place of Sigma^-1/2 (m1 - m2)",
)
def affine_invariant(effort: Effort, *, power: float) -> Finding:
    """dist_COMP before and after x -> A x + b; whitening of the means by Sigma^-``power`` (printed 1/2)."""
    from verification.claims.common.hostile import moved_pairs

    def distance(a: Component, b: Component) -> float:
        return max(by_definition.dist_cov(a[1], b[1]), _powers(a, b, power))

    def ratio(case: tuple[tuple[Component, Component], tuple[Component, Component]]) -> float:
        found = [(distance(*case[0]), distance(*case[1]))]
        if power == 0.5:  # the definition, and the same by eigenvalues
            found += [(by_definition.dist_comp(*case[0]), by_definition.dist_comp(*case[1]))]
            found += [(by_definition.dist_comp(*case[0]), found[0][0])]
        return max(max(quotient(a, b), quotient(b, a)) for a, b in found)

    return by_property(moved_pairs(RADIUS), ratio, effort, tolerance=2e-5)


@claim(
    id="permutation-invariance",
    family=FAMILY,
    source=f"{PAPER}, Definition 3.3",
    statement="dist_PARAM does not depend on the order of the components",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"matched": True},
    contrast={"matched": False},
    otherwise="nor does the largest distance of components with the same index",
)
def permutation_invariant(effort: Effort, *, matched: bool) -> Finding:
    """dist_PARAM with the components in another order; not ``matched``: component by component."""
    from verification.claims.common.hostile import mixture_triples

    def distance(a: Weighted, b: Weighted) -> float:
        if matched:
            return by_definition.dist_param(a, b)
        pairs = zip(a, b, strict=True)
        return max(max(abs(p[0] - q[0]), by_definition.dist_comp(p[1:], q[1:])) for p, q in pairs)

    def ratio(case: tuple[Weighted, Weighted, Weighted]) -> float:
        first, second, _ = case
        found = [distance(first, [second[i] for i in order]) for order in itertools.permutations(range(len(second)))]
        return quotient(max(found), min(found))

    return by_property(mixture_triples(RADIUS), ratio, effort, quick=40, thorough=600, tolerance=1e-12)


def _greedy(table: FloatArray) -> float:
    rows, columns, largest = set(range(len(table))), set(range(len(table))), 0.0
    while rows:
        i, j = min(itertools.product(rows, columns), key=lambda place: (table[place], place))
        largest = max(largest, float(table[i, j]))
        rows.remove(i)
        columns.remove(j)
    return largest


def _powers(a: Component, b: Component, power: float) -> float:
    """max over both covariances of ||Sigma^-power (m1 - m2)||."""
    found = []
    for covariance in (a[1], b[1]):
        values, vectors = np.linalg.eigh(covariance)
        found.append(float(np.linalg.norm(values**-power * (vectors.T @ (a[0] - b[0])))))
    return max(found)

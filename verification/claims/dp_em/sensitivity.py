"""How far one replaced record moves the statistics of DP-EM: Park, Foulds, Chaudhuri, Welling (2017).

Records lie in the unit ball. Every check computes the statistic on both data sets and divides its change by the
sensitivity as stated; Hypothesis draws the data sets, with records on the sphere and opposite pairs among them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.losses import FloatArray, laplace_loss
from verification.claims.dp_em.pairs import Pair, into_ball, pairs
from verification.claims.search import by_property, maximised, quotient, shown

FAMILY = "dp-em"
PAPER = "Park, Foulds, Chaudhuri, Welling (2017)"
ROUNDING = 1e-12  # sums of at most 6 records of norm at most 1, or of 1000 for the maximum norm
N_OUTLIER = 1000
CAP = 1e6  # keeps the simplex of the search finite where the right side is 0
REACH = 1000.0  # largest record before it is divided by the maximum norm


@claim(
    id="moments-sensitivity",
    family=FAMILY,
    source=f"{PAPER}, equations 9 and 10",
    statement="replacing a record moves (1/N) sum of expected statistics T by at most 2 max|T| / N in L2",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"share": 1.0},
    contrast={"share": 0.99},
    otherwise="by at most 1.98 max|T| / N",
    constants="exactly 2: attained by x and -x of norm 1 with equal responsibilities",
)
def moments(effort: Effort, *, share: float) -> Finding:
    """L2 change of (1/N) sum of h_k(x) x^p, p = 0, 1, 2, over ``share`` times 2 max|T| / N; |T| at most 1."""

    def ratio(pair: Pair) -> float:
        bound = share * 2 / len(pair.records)
        return max(float(np.linalg.norm(_moment(pair, power))) / bound for power in (0, 1, 2))

    return by_property(pairs(), ratio, effort, tolerance=ROUNDING)


@claim(
    id="weights-sensitivity",
    family=FAMILY,
    source=f"{PAPER}, release of the mixing weights",
    statement="the weights move by at most 2/N in L1, so Laplace(2/(N eps')) on each is eps'-DP",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"share": 1.0},
    contrast={"share": 0.99},
    otherwise="so is Laplace(1.98/(N eps'))",
    constants="exactly 2; all weights are clipped to 0, so 0/0, with probability 2^-k exp(-N eps'/2)",
)
def weights(effort: Effort, *, share: float) -> Finding:
    """Worst log ratio of the noisy weights, noise Laplace(``share`` 2/(N eps')), over eps' = 0.5; and the 0/0 rate."""
    from scipy import stats

    def ratio(pair: Pair) -> float:
        before, after = pair.shares.mean(axis=0), pair.other_shares.mean(axis=0)
        scale = share * 2 / (len(pair.records) * 0.5)
        return sum(laplace_loss((a, scale), (b, scale)) for a, b in zip(before, after, strict=True)) / 0.5

    found = by_property(pairs(), ratio, effort, tolerance=ROUNDING)
    split = effort.rng.dirichlet(np.ones(3))
    none = float(np.prod(stats.laplace.cdf(-split, scale=2 / (10 * 0.1))))
    figures = {"all weights clipped, k = 3, N = 10, eps' = 0.1": none, "2^-k exp(-N eps' / 2)": math.exp(-0.5) / 8}
    return found.with_figures(figures)


@claim(
    id="absolute-sum",
    family=FAMILY,
    source=f"{PAPER}, sensitivity of the means",
    statement="sum |x_l| = |<x, 1>| for x in the unit ball",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"all_signs": False},
    contrast={"all_signs": True},
    otherwise="sum |x_l| = max of |<x, s>| over sign vectors s, so at most sqrt(d) |x|",
    constants="the conclusion sum |x_l| <= sqrt(d) |x| is true and tight",
)
def absolute_sum(effort: Effort, *, all_signs: bool) -> Finding:
    """sum |x_l| against |<x, 1>|, or with ``all_signs`` against the largest |<x, s>| over sign vectors s; d <= 4."""

    def ratio(x: FloatArray) -> float:
        signs = itertools.product((1.0, -1.0), repeat=len(x)) if all_signs else [(1.0,) * len(x)]
        other = max(abs(float(np.dot(x, s))) for s in signs)
        total = float(np.abs(x).sum())
        return min(CAP, max(quotient(total, other), quotient(other, total)))

    starts = [effort.rng.normal(size=1 + i % 4) for i in range(effort.of(60, 600))]
    found = maximised(ratio, starts, tolerance=ROUNDING)
    steepest = maximised(lambda x: float(np.abs(x).sum() / np.linalg.norm(x)) / math.sqrt(len(x)), starts)
    figures = {"sup of sum|x_l| / (sqrt(d) |x|)": steepest.largest}
    return replace(found, n_cases=found.n_cases + steepest.n_cases).with_figures(figures)


@claim(
    id="means-sensitivity",
    family=FAMILY,
    source=f"{PAPER}, sensitivity of the means",
    statement="with released counts c_k the mean (1/c_k) sum of gamma x moves by at most 2/c_k in L2, "
    "2 sqrt(d)/c_k in L1",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"share": 1.0},
    contrast={"share": 0.99},
    otherwise="by .99 of that",
    constants="both attained; the L1 changes times c_k sum to at most 2 sqrt(d) over all clusters together",
)
def means(effort: Effort, *, share: float) -> Finding:
    """L2 and L1 change of (1/c_k) sum of gamma x over ``share`` times 2/c_k and 2 sqrt(d)/c_k, c_k released before.

    The L1 changes times c_k are also summed over the clusters and compared with the same 2 sqrt(d).
    """
    largest = {"L2": 0.0, "L1": 0.0, "L1 over all clusters": 0.0}

    def ratio(pair: Pair) -> float:
        sums = pair.shares.T @ pair.records - pair.other_shares.T @ pair.others
        changes, root = sums / pair.counts[:, None], math.sqrt(pair.records.shape[1])
        found = {
            "L2": float((np.linalg.norm(changes, axis=1) * pair.counts).max()) / 2,
            "L1": float((np.abs(changes).sum(axis=1) * pair.counts).max()) / (2 * root),
            "L1 over all clusters": float((np.abs(changes).sum(axis=1) * pair.counts).sum()) / (2 * root),
        }
        largest.update({name: max(largest[name], value) for name, value in found.items()})
        return max(found.values()) / share

    found = by_property(pairs(), ratio, effort, tolerance=ROUNDING)
    return found.with_figures(largest)


@claim(
    id="two-components-only",
    family=FAMILY,
    source=f"{PAPER}, accounting of the components",
    statement="replacing a record affects only two Gaussians",
    kind=Kind.PROPERTY,
    verdict=Verdict.FALSE,
    printed={"hard": False},
    contrast={"hard": True},
    otherwise="so it is when each record belongs to one cluster",
    constants="with soft responsibilities all k of them",
)
def touched(effort: Effort, *, hard: bool) -> Finding:
    """Number of clusters whose sum of gamma x changes, over 2; ``hard``: each record belongs to one cluster."""

    def ratio(pair: Pair) -> float:
        if hard and not np.isin(pair.shares, (0.0, 1.0)).all():
            return math.nan
        sums = pair.shares.T @ pair.records - pair.other_shares.T @ pair.others
        return float((np.linalg.norm(sums, axis=1) > 1e-9).sum()) / 2

    return by_property(pairs(), ratio, effort, quick=150)


@claim(
    id="centred-second-moment",
    family=FAMILY,
    source=f"{PAPER}, release of the covariances",
    statement="(1/c) sum of gamma (x-m)(x-m)' moves by at most 1/c in spectral norm, m released",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"with_centre": False},
    contrast={"with_centre": True},
    otherwise="by at most (1 + |m|)^2 / c",
    constants="(1 + |m|)^2, attained at x = -m/|m|; 1/c is right without centring, sqrt(2)/c in Frobenius norm",
)
def centred(effort: Effort, *, with_centre: bool) -> Finding:
    """Spectral norm of g (x-m)(x-m)' - h (y-m)(y-m)' over 1, or ``with_centre`` over (1 + |m|)^2; d = 2, |m| <= 2.

    g and h are responsibilities, x and y in the unit ball, m a released mean, which noise may push out of the ball.
    """

    def change(x: FloatArray, *, centre: FloatArray, norm: int | str) -> float:
        a, b = into_ball(x[2:4]) - centre, into_ball(x[4:6]) - centre
        g, h = np.clip(x[6:8], 0, 1)
        table = g * np.outer(a, a) - h * np.outer(b, b)
        return float(np.linalg.norm(table, 2 if norm == 2 else "fro"))

    def ratio(x: FloatArray) -> float:
        centre = 2 * into_ball(x[:2])
        return change(x, centre=centre, norm=2) / ((1 + float(np.linalg.norm(centre))) ** 2 if with_centre else 1.0)

    starts = effort.rng.uniform(-1.5, 1.5, (effort.of(300, 3000), 8))
    starts[:, 6:] = effort.rng.uniform(0, 1, (len(starts), 2)).round()
    found = maximised(ratio, starts, tolerance=ROUNDING, shown_as=_centred_case)
    figures = {}
    for name, norm in (("spectral", 2), ("Frobenius", "fro")):
        uncentred = maximised(lambda x, norm=norm: change(x, centre=np.zeros(2), norm=norm), starts, steps=1500)  # type: ignore[misc]
        figures[f"{name} norm without centring"] = uncentred.largest
    return found.with_figures(figures)


@claim(
    id="own-maximum-norm",
    family=FAMILY,
    source=f"{PAPER}, preprocessing",
    statement="records may be divided by the largest of their norms: the mean keeps its eps'",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"own": True},
    contrast={"own": False},
    otherwise="records clipped to a public norm keep it",
    constants="N = 1000: 499 eps' when one of 1000 records at 1 becomes 1000, 500 when it becomes -1000",
)
def maximum_norm(effort: Effort, *, own: bool) -> Finding:
    """Loss over eps' of the mean with Laplace(2/(eps' N)), N = 1000, records divided by the largest norm.

    N - 1 records equal one size, the last moves; ``own`` takes the norm from the data, otherwise records are clipped
    to a public norm of 1.
    """

    def mean(crowd: float, last: float) -> float:
        data = np.append(np.full(N_OUTLIER - 1, crowd), last)
        return float((data / np.abs(data).max()).mean() if own else np.clip(data, -1, 1).mean())

    def loss(crowd: float, last: float, other: float) -> float:
        scale = 2 / N_OUTLIER
        return laplace_loss((mean(crowd, last), scale), (mean(crowd, other), scale))

    def sizes(x: FloatArray) -> tuple[float, float, float]:
        found = np.copysign(REACH ** np.clip(np.abs(x[:3]), 0, 1), x[3:])
        return float(abs(found[0])), float(found[1]), float(found[2])

    starts = effort.rng.uniform(-1, 1, (effort.of(200, 2000), 6))
    found = maximised(lambda x: loss(*sizes(x)), starts, tolerance=ROUNDING, shown_as=sizes)
    figures = {f"999 records at 1, the last from 1 to {end:g}": loss(1.0, 1.0, end) for end in (REACH, -REACH)}
    return found.with_figures(figures)


def _moment(pair: Pair, power: int) -> FloatArray:
    """Change of (1/N) sum of the responsibilities times the tensor power of the record."""
    before, after = (
        np.einsum("nk,np->kp", h, _powers(x, power)) / len(x)
        for x, h in ((pair.records, pair.shares), (pair.others, pair.other_shares))
    )
    return np.asarray(before - after)


def _powers(x: FloatArray, power: int) -> FloatArray:
    if power == 0:
        return np.ones((len(x), 1))
    return x if power == 1 else np.einsum("ni,nj->nij", x, x).reshape(len(x), -1)


def _centred_case(x: FloatArray) -> str:
    parts = (2 * into_ball(x[:2]), into_ball(x[2:4]), into_ball(x[4:6]), np.clip(x[6:8], 0, 1))
    return "m = {}, x = {}, y = {}, (g, h) = {}".format(*(shown(part) for part in parts))

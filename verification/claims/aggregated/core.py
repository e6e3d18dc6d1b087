"""The aggregated populous estimator as a whole: sensitivity of its averages, isolation of the fits.

``reference.py`` has the definitions. Fits with diagonal covariances and mean 0 live in a flat: d_AI is the
Euclidean distance of the log variances.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from verification.claims.aggregated.graphs import FAMILY, NOTE
from verification.claims.aggregated.reference import (
    Fit,
    FloatArray,
    Settings,
    average,
    core_floor,
    distance,
    distances,
    framed,
    friend_table,
    gap,
    mass_bound,
    valid,
)
from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.search import every, over

INSIDE = 1 - 1e-9  # of a radius, so that rounding does not undo a friendship
ROUNDING = 1e-7  # distances of matrices with condition numbers below 1e5, over radii of at least .01
AS_PRINTED = {"share": 1.0, "kappa": True, "shuffled": True}


@claim(
    id="aggregated-sensitivity",
    family=FAMILY,
    source=f"{NOTE}, Theorem 2",
    statement="h >= 1 in D or D': the averages are at most 2 s_2 W apart after one relabelling",
    kind=Kind.SEARCH,
    verdict=Verdict.HOLDS,
    printed=AS_PRINTED,
    contrast=AS_PRINTED | {"share": 0.98},
    otherwise="at most .98 of that",
    constants="attained at F = t - 1: all fits equal but one, which moves from +s_2 to -s_2",
)
@claim(
    id="aggregated-weight-scale",
    family=FAMILY,
    source=f"{NOTE}, Theorem 2",
    statement="friends judged with weights over kappa: averages at most 2 s_2 W apart, weights over kappa",
    kind=Kind.SEARCH,
    verdict=Verdict.HOLDS,
    printed=AS_PRINTED,
    contrast=AS_PRINTED | {"kappa": False},
    otherwise="so they are when friends are judged by the weights as they are",
)
@claim(
    id="aggregated-shuffle",
    family=FAMILY,
    source=f"{NOTE}, proof of Theorem 1",
    statement="the shuffle makes neighbours close: up to the order of components 2 s_2 W apart",
    kind=Kind.SEARCH,
    verdict=Verdict.HOLDS,
    printed=AS_PRINTED,
    contrast=AS_PRINTED | {"shuffled": False},
    otherwise="they are that close in the order of the first core fit, without a shuffle",
)
def sensitivity(effort: Effort, *, share: float, kappa: bool, shuffled: bool) -> Finding:
    """Distance of the averages of neighbouring data sets over ``share`` 2 s_2 W, by running the reference.

    One fit moves anywhere in the ball of its friends, straight through the centre too, and may come back with its
    components in another order. Without ``shuffled`` the averages are compared in the order in which they are released;
    without ``kappa`` friends are judged with the weights taken as they are.
    """

    def cases() -> Iterator[tuple[float, object]]:
        rng = effort.rng
        for case_number in range(effort.of(60, 500)):
            plain = case_number % 3 == 0  # equal fits and a reference that moves: the level is hardly ever 0
            t, k, triple = int(rng.integers(5, 9)), 2 if plain else int(rng.integers(1, 3)), bool(rng.integers(2))
            floor = core_floor(t, triple=triple)
            top = floor + 1 if plain else int(rng.integers(floor + 1, max(t, floor + 2)))
            full = t - 1 if rng.random() < 0.5 else int(rng.integers(1, t))
            s = Settings(t, k, s_inf=0.32, s_2=0.3, triple=triple, top=top, full=full)
            scale = s.kappa if kappa else 1.0
            spread = 0.0 if plain else rng.choice([0.0, 0.0, 0.2, 1.0])
            fits: list[Fit | None] = [
                _near(
                    s,
                    scale,
                    spread * _direction(rng, k),
                    offset=spread * 0.05 * rng.normal(size=2),
                    back=bool(rng.integers(2)),
                )
                for _ in range(t)
            ]
            direction = _direction(rng, k, alone=bool(rng.integers(2))) * rng.choice(
                [1.0, 1.02]
            )  # a friend, or just not
            before, after = _near(s, scale, direction), _near(s, scale, -direction, back=bool(rng.integers(2)))
            # the first is the reference if it is in the core
            place = 0 if plain or rng.integers(2) else int(rng.integers(t))
            pair = [average([*fits[:place], fit, *fits[place + 1 :]], s, scale) for fit in (before, after)]
            first, second = pair
            if first is None or second is None or max(first.level, second.level) < 1:
                continue
            orders = list(itertools.permutations(range(k))) if shuffled else [tuple(range(k))]
            moved = min(gap(first, second, order, s.kappa) for order in orders)
            limit = share * 2 * s.s_2 * mass_bound(t, s.floor, top, full)
            case = {"t": t, "k": k, "triple": triple, "top": top, "F": full, "spread": spread, "direction": direction}
            yield moved / limit, case

    return over(cases(), tolerance=ROUNDING)


@claim(
    id="aggregated-isolation",
    family=FAMILY,
    source=f"{NOTE}, section 1.2 and assumption (A2)",
    statement="replacing one subset leaves every other distance and friendship the same to the last bit",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"own_frame": True},
    contrast={"own_frame": False},
    otherwise="so it does with all distances in the frame of the first valid fit",
    constants="of the reference implementation",
)
def isolated(effort: Effort, *, own_frame: bool) -> Finding:
    """Whether replacing one fit leaves all other distances and friendships the same to the last bit.

    Half of the fits lie on two points whose distance is the friend radius less 1e-9 of itself, so that any dependence
    would show in their friendships. The replacement is close, far, or junk. Without ``own_frame`` all distances are
    taken in the frame of the first valid fit, which is the same in exact arithmetic.
    """
    s = Settings(6, 2, s_inf=0.3, s_2=0.4, triple=True, top=5, full=2)

    def cases() -> Iterator[tuple[bool, object]]:
        rng = effort.rng
        for _ in range(effort.of(12, 100)):
            common = _direction(rng, 2)
            steps = (0.5 * common, -0.5 * common, 0.7 * _direction(rng, 2), 0.7 * _direction(rng, 2))
            fits: list[Fit | None] = [_near(s, s.kappa, steps[i % 4], offset=1e3) for i in range(s.t)]
            if rng.integers(2):
                fits[int(rng.integers(1, s.t))] = None
            tables = _all_distances(fits, s, own_frame), friend_table(fits, s)
            for name, junk in _replacements(rng, s).items():
                place = 0 if rng.integers(2) else int(rng.integers(s.t))
                changed = [*fits[:place], junk, *fits[place + 1 :]]
                kept = np.arange(s.t) != place
                same = np.array_equal(tables[1][np.ix_(kept, kept)], friend_table(changed, s)[np.ix_(kept, kept)])
                others = _all_distances(changed, s, own_frame)
                same &= np.array_equal(tables[0][np.ix_(kept, kept)], others[np.ix_(kept, kept)], equal_nan=True)
                alone = name in ("close", "far") or not friend_table(changed, s)[place].any()
                yield same and alone, f"fit {place} becomes {name}"

    return every(cases())


def _direction(rng: np.random.Generator, k: int, alone: bool = False) -> FloatArray:
    """Unit vector (k, 3) of log variances and a weight, the weights adding up to 0; ``alone``: only one of both."""
    found = rng.normal(size=(k, 3))
    found[:, 2] -= found[:, 2].mean()
    if alone:
        found[:, slice(0, 2) if k > 1 and rng.integers(2) else slice(2, 3)] = 0.0
    return np.asarray(found / np.linalg.norm(found))


def _near(s: Settings, scale: float, step: FloatArray, *, offset: FloatArray | float = 0.0, back: bool = False) -> Fit:
    """The fit at s_2 times ``step`` from equal weights, unit covariances, means 9 apart; weights move by ``scale``."""
    order = np.arange(s.k)[:: -1 if back else 1]
    means = np.stack([9.0 * np.arange(s.k), np.zeros(s.k)], axis=1) + offset
    variances = np.exp(INSIDE * s.s_2 * step[:, :2])
    weights = 1 / s.k + INSIDE * s.s_2 * scale * step[:, 2]
    return Fit(weights[order], means[order], (variances[:, :, None] * np.eye(2))[order])


def _replacements(rng: np.random.Generator, s: Settings) -> dict[str, Fit | None]:
    fit = _near(s, s.kappa, 0.7 * _direction(rng, s.k), offset=1e3)
    weights, means, covariances = fit
    return {
        "close": fit,
        "far": Fit(weights, means + 50.0, covariances * 3.0),
        "nothing": None,
        "NaN": Fit(weights, means * math.nan, covariances),
        "infinite": Fit(weights, means, np.full_like(covariances, math.inf)),
        "singular": Fit(weights, means, np.ones_like(covariances)),
        "flat": Fit(weights, means, covariances * 0.0),
        "one component": Fit(weights[:1], means[:1], covariances[:1]),
        "twice the same component": Fit(weights, means[[0, 0]], covariances[[0, 0]]),
    }


def _all_distances(fits: list[Fit | None], s: Settings, own_frame: bool) -> FloatArray:
    """Distances of all components of all valid fits, (t, t, k, k), NaN for the others; computed once and mirrored."""
    found = np.full((s.t, s.t, s.k, s.k), math.nan)
    good = [(i, fit) for i, fit in enumerate(fits) if fit is not None and valid(fit, s)]
    for (i, first), (j, second) in itertools.combinations(good, 2):
        if own_frame:
            found[i, j] = distances(first, second)
        else:
            points = [framed(fit, good[0][1])[0] for fit in (first, second)]
            found[i, j] = [[distance(y, x) for y in points[1]] for x in points[0]]
        found[j, i] = found[i, j].T
    return found

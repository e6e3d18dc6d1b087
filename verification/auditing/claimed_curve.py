"""A claim that is a whole curve: what it allows at every epsilon, and the trade-off of errors that follows.

Notation of every module on curves: P is the law on ``x``, Q the law on ``x_neighbour``. ``first`` bounds P(S) -
exp(epsilon) Q(S) over all events S, ``second`` bounds Q(S) - exp(epsilon) P(S). Proof: claimed_curve.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from verification._arguments import check_delta, check_non_negative, check_positive, shown, unmasked
from verification.auditing.bisection import bracket
from verification.auditing.foreign import foreign
from verification.auditing.rounding import exactly
from verification.references.references import gaussian_delta

FloatArray = NDArray[np.float64]
Curve = Callable[[float], float]

ABOVE = 1e-9  # relative and absolute, that a curve may be above its guarantee's own delta
SMALLEST, LARGEST, POINTS = 1e-3, 60.0, 240  # of the epsilons at which a claim is read, beside 0
ORDERS = 1 + np.geomspace(1e-3, 1e5, 500)  # of Renyi divergences, each of which gives a valid bound
ROUNDING = 1e-12, 1e-15  # relative and absolute, of a chord
ALIKE = 0.0, 0.1, 1.0, 5.0  # epsilons at which a guarantee's curve must be that of its mu to count as Gaussian
LEAST_MU, MOST_MU, MOST_RHO = 1e-300, 200.0, 1e4
MOST_POINTS = 10_000  # of a curve; with more a certificate would take minutes


@dataclass(frozen=True, slots=True)
class GDP:
    """The claim of mu-Gaussian differential privacy: no easier to tell apart than N(0, 1) and N(mu, 1).

    Examples
    --------
    >>> GDP(mu=1.0).delta(1.0).round(4)
    np.float64(0.1269)
    """

    mu: float

    def __post_init__(self) -> None:
        check_positive(mu=self.mu)
        if self.mu < LEAST_MU:
            raise ValueError(f"mu must be at least {LEAST_MU:g}, got {self.mu}")

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Delta at every ``epsilon`` >= 0, same shape: Dong, Roth and Su (2022), Corollary 2.13."""
        return gaussian_delta(epsilon, noise_multiplier=1 / self.mu)[()]


@dataclass(frozen=True, slots=True)
class ZCDP:
    """The claim of rho-zero-concentrated differential privacy.

    Examples
    --------
    >>> ZCDP(rho=0.5).delta(0.0).round(4)
    np.float64(0.5)
    """

    rho: float

    def __post_init__(self) -> None:
        check_positive(rho=self.rho)

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """A delta that every rho-zCDP mechanism has at ``epsilon`` >= 0, same shape.

        The least of Canonne, Kamath and Steinke (2020), Proposition 12, over orders, and of two bounds of the total
        variation by the Kullback-Leibler divergence, which is at most rho: Pinsker's and that of Bretagnolle and Huber.
        """
        epsilon = np.asarray(epsilon, dtype=float)
        with np.errstate(over="ignore"):
            log_delta = (ORDERS - 1) * (ORDERS * self.rho - epsilon[..., None]) + ORDERS * np.log1p(-1 / ORDERS)
        by_order = np.exp(np.minimum(0.0, (log_delta - np.log(ORDERS - 1)).min(axis=-1)))
        variation = min(math.sqrt(self.rho / 2), math.sqrt(-math.expm1(-self.rho)))
        return np.minimum(by_order, variation)[()]


@dataclass(frozen=True, slots=True)
class Family:
    """Nested curves, one for each value of a parameter, among them the claimed one."""

    parameter: str  # "mu" or "rho"
    claimed: float | None  # None: the claim is no member, and whatever is said of the family is said beside it
    delta: Callable[[float, float], float]  # of a parameter and an epsilon; grows with the parameter
    largest: float
    name: str = ""  # by which a certificate finds it again; if empty by these:
    slack: float = 0.0
    failure: float = 0.0

    def refuted_below(self, epsilon: float, delta_lower: float) -> float:
        """The parameter up to which the curves lie below ``delta_lower`` at ``epsilon``, rounded down."""
        if not self.delta(0.0, epsilon) < delta_lower:
            return 0.0
        return bracket(lambda value: self.delta(value, epsilon) < delta_lower, 0.0, self.largest, relative=1e-9)[0]

    def epsilon_at(self, value: float, delta: float) -> float:
        """Smallest epsilon of the curve of ``value`` at ``delta``, rounded down; infinite beyond 10^4."""
        if not self.delta(value, 0.0) > delta:
            return 0.0
        if self.delta(value, 1e4) > delta:
            return math.inf
        return bracket(lambda epsilon: self.delta(value, epsilon) > delta, 0.0, 1e4, relative=1e-9)[0]

    def certified_epsilon(self, value: float, delta: float) -> float:
        """The epsilon at ``delta`` that is told where no curve with a parameter below ``value`` is kept.

        Of mu that of Gaussian noise, without the slack and failure of a guarantee: they raise an upper bound. Of rho
        what an accountant of zCDP says, whose curve is an upper bound too.
        """
        family = GAUSSIAN if self.parameter == "mu" else self
        return family.epsilon_at(value, delta)


def _gaussian(mu: float, epsilon: float) -> float:
    return float(GDP(mu).delta(epsilon)) if mu > 0 else 0.0


def _concentrated(rho: float, epsilon: float) -> float:
    return float(ZCDP(rho).delta(epsilon)) if rho > 0 else 0.0


GAUSSIAN = Family("mu", None, _gaussian, MOST_MU, "GDP")
FAMILIES = {"GDP": GAUSSIAN, "zCDP": Family("rho", None, _concentrated, MOST_RHO, "zCDP")}


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedCurve:
    """What a claim allows: P(S) <= exp(epsilon) Q(S) + first and Q(S) <= exp(epsilon) P(S) + second, for all S."""

    words: str
    epsilons: FloatArray  # (m,), from 0, increasing
    first: FloatArray  # (m,), not increasing
    second: FloatArray  # (m,)
    family: Family
    delta: float | None = None  # where epsilon is told

    def allowed(self, sides: tuple[bool, bool]) -> FloatArray:
        """Shape (m,): delta for guesses of label 1, of label 0, or of both, where the mean of the two counts."""
        return np.asarray(np.mean([curve for curve, on in zip((self.first, self.second), sides, strict=True) if on], 0))

    def certified_epsilon(self, parameter_lower: float) -> float | None:
        """What is told of epsilon where no smaller parameter is kept; None without a delta.

        None as well at delta 0, as of a pure guarantee: noise of these families has no epsilon there.
        """
        return self.family.certified_epsilon(parameter_lower, self.delta) if self.delta else None

    def trade_off(self, false_positives: ArrayLike) -> FloatArray:
        """Smallest share of P outside an event that has ``false_positives`` of Q: the claimed trade-off function.

        Parameters
        ----------
        false_positives : array_like
            In [0, 1].

        Returns
        -------
        ndarray of the same shape
            Never above the trade-off function of a pair that keeps the claim, and the largest such bound that follows
            from the epsilons that were read.
        """
        alpha = np.asarray(false_positives, dtype=float)[..., None]
        odds = np.exp(self.epsilons)
        lines = [np.zeros(1), 1 - self.first - odds * alpha, (1 - self.second - alpha) / odds]
        return np.asarray(
            np.concatenate([np.broadcast_to(p, (*alpha.shape[:-1], p.shape[-1])) for p in lines], -1).max(-1)
        )


def claimed_curve(*, guarantee: Any = None, profile: Any = None, delta: float | None = None) -> ClaimedCurve:
    """Read a claim.

    Parameters
    ----------
    guarantee : object, optional
        With ``curve(epsilon)``, ``epsilon`` and ``delta``, as every release of `pm_dpgmm` has.
    profile : optional
        In its place: `GDP`, `ZCDP`; a callable delta(epsilon); an object with ``delta(epsilon)``, or with
        ``get_delta_for_epsilon`` as the privacy loss distributions of dp-accounting; a table, (epsilons, deltas), where
        the value at the next smaller epsilon counts. A pair of such, other than tables, claims them of x over
        x_neighbour and of x_neighbour over x; everything else is claimed of both.
    delta : float, optional
        Where bounds are told as an epsilon; default that of ``guarantee``.

    Returns
    -------
    ClaimedCurve

    Raises
    ------
    TypeError, ValueError
        If not exactly one claim is given, its values are below 0 or no numbers (above 1 they count as 1, as bounds
        may be), or a guarantee's own curve is above its delta.

    Examples
    --------
    >>> claim = claimed_curve(profile=([1.0], [0.0]))  # (1, 0)-DP
    >>> claim.trade_off(0.25).round(4)  # 1 - e/4, of randomised response
    np.float64(0.3204)
    """
    if (guarantee is None) == (profile is None):
        raise ValueError("guarantee or profile must be given, and not both")
    if delta is not None:
        check_delta(delta)
        delta = float(delta)
    epsilons = np.concatenate([[0.0], np.geomspace(SMALLEST, LARGEST, POINTS)])
    if guarantee is not None:
        name = "guarantee"
        missing = [part for part in ("curve", "epsilon", "delta") if not hasattr(guarantee, part)]
        if missing:
            raise TypeError(f"guarantee must have {missing[0]!r}, as that of a release, got {shown(guarantee)}")
        delta = float(guarantee.delta) if delta is None else delta
        curves: tuple[Any, Any] = (guarantee.curve, guarantee.curve)
        family = _family_of(getattr(guarantee, "loss", None))
        words = f"the curve of (epsilon = {exactly(guarantee.epsilon)}, delta = {exactly(guarantee.delta)})"
        epsilons = np.union1d(epsilons, [float(guarantee.epsilon)] if 0 <= guarantee.epsilon <= LARGEST else [])
    else:
        name = "profile"
        profile = tuple(profile) if isinstance(profile, Iterator) else profile
        both = profile if isinstance(profile, tuple) and len(profile) == 2 and all(map(_is_curve, profile)) else None
        curves = tuple(map(_as_curve, both)) if both else (_as_curve(profile),) * 2  # type: ignore[assignment]
        family = GAUSSIAN if both else _family_of(profile)
        words = _words(profile, family) if not both else "the two curves given"
        if not both and not _is_curve(profile):
            epsilons = np.union1d(epsilons, [e for e in np.ravel(profile[0]) if 0 <= e <= LARGEST])
            if epsilons.size > MOST_POINTS:
                most = MOST_POINTS - POINTS - 1
                raise ValueError(
                    f"profile must have at most {most} epsilons up to {LARGEST:g}, got {np.size(profile[0])}"
                )
    first = _values(name, curves[0], epsilons)
    if guarantee is not None:
        over = first[epsilons == guarantee.epsilon]
        if (over > guarantee.delta * (1 + ABOVE) + ABOVE).any():
            rule = f"guarantee must have a curve of at most {guarantee.delta:g} at epsilon {guarantee.epsilon:g}"
            raise ValueError(f"{rule}, got {over[0]:.4g}")
    second = first if curves[1] is curves[0] else _values(name, curves[1], epsilons)
    return ClaimedCurve(words, epsilons, _hull(epsilons, first, second), _hull(epsilons, second, first), family, delta)


def claim_of(epsilon: Any, *, guarantee: Any, profile: Any, delta: float) -> ClaimedCurve | None:
    """The curve that is claimed, or None where a pair with this ``epsilon`` is; ValueError unless it is one of them."""
    if epsilon is None and guarantee is None and profile is None:
        raise ValueError("epsilon, guarantee or profile must be given, got none of them")
    if epsilon is None:
        return claimed_curve(guarantee=guarantee, profile=profile, delta=delta or None)
    if guarantee is not None or profile is not None:
        raise ValueError("epsilon, guarantee or profile must be given, and only one of them")
    check_non_negative(epsilon=epsilon)
    return None


def _is_curve(profile: Any) -> bool:
    return callable(profile) or hasattr(profile, "delta") or hasattr(profile, "get_delta_for_epsilon")


def _as_curve(profile: Any) -> Curve:
    if isinstance(profile, type):
        raise TypeError(f"profile must be a curve, as {profile.__name__}(...), got the class {profile.__name__}")
    for name in ("get_delta_for_epsilon", "delta"):
        if callable(getattr(profile, name, None)):
            return getattr(profile, name)
    if callable(profile):
        return profile
    return _table(profile)


def _table(profile: Any) -> Curve:
    rule = "profile must be a curve delta(epsilon) or a table of two sequences, epsilons and deltas,"
    try:
        epsilons, deltas = (np.asarray(unmasked(part), dtype=float) for part in profile)
    except (TypeError, ValueError):
        raise TypeError(f"{rule} got {shown(profile)}") from None
    shaped = epsilons.ndim == 1 and epsilons.shape == deltas.shape and epsilons.size > 0
    if not (shaped and np.isfinite(epsilons[0]) and (np.diff(epsilons) > 0).all()):
        raise ValueError(f"{rule} of one length, epsilons increasing from a finite one, got {shown(profile)}")
    return lambda epsilon: float(np.append(1.0, deltas)[np.searchsorted(epsilons, epsilon, side="right")])


def _family_of(profile: Any) -> Family:
    if isinstance(profile, ZCDP):
        return dataclasses.replace(FAMILIES["zCDP"], claimed=float(profile.rho))
    if isinstance(profile, GDP):
        return dataclasses.replace(GAUSSIAN, claimed=float(profile.mu))
    if dataclasses.is_dataclass(profile) and getattr(profile, "kind", "") == "gaussian" and _is_curve(profile):
        # elsewhere a mu may stand for anything, a scale say
        told = [getattr(profile, name, 0.0) for name in ("mu", "slack", "failure")]
        if all(isinstance(number, (float, int)) for number in told) and LEAST_MU <= told[0] <= MOST_MU and told[2] < 1:
            family = gaussian_family(*map(float, told))
            curve = _as_curve(profile)
            if all(math.isclose(family.delta(told[0], e), curve(e), rel_tol=1e-6, abs_tol=1e-12) for e in ALIKE):
                return family
    return GAUSSIAN


def gaussian_family(mu: float, slack: float, failure: float) -> Family:
    """Curves of Gaussian noise, with the two things that a guarantee of `pm_dpgmm` may add to them.

    Parameters
    ----------
    mu : float
        Claimed: sensitivity over standard deviation of the noise.
    slack : float
        Distance in total variation of the sampler's law from another, which adds (1 + exp(epsilon)) slack.
    failure : float
        Probability of an event on which the law is anything: what is left of the curve is 1 - failure of it.

    A curve never rises, so beyond its lowest point the sum, convex in exp(epsilon), keeps the value that it has there.
    """

    return Family("mu", mu, partial(_gaussian_delta, slack=slack, failure=failure), MOST_MU, "", slack, failure)


def _gaussian_delta(value: float, epsilon: float, *, slack: float, failure: float) -> float:
    """Of a curve of :func:`gaussian_family`; a function of the module, so that results can be pickled."""
    value = max(value, LEAST_MU)
    if slack:
        quantile = float(special.ndtri(min(1.0, slack / (1 - failure))))
        epsilon = min(epsilon, max(-value * (quantile + value / 2), 0.0))  # where its derivative is 0
    plain = failure + (1 - failure) * float(GDP(value).delta(epsilon))
    return min(1.0, plain + ((1 + math.exp(epsilon)) * slack if slack else 0.0))


def _words(profile: Any, family: Family) -> str:
    if isinstance(profile, ZCDP):
        return f"{exactly(profile.rho)}-zCDP"
    if isinstance(profile, GDP):
        return f"{exactly(profile.mu)}-GDP"
    told = "" if family.claimed is None else f", {family.parameter} = {exactly(family.claimed)}"
    return f"the curve given{told}"


def _values(name: str, curve: Curve, epsilons: FloatArray) -> FloatArray:
    """The curve at every epsilon, shape (m,); a curve never rises, so smaller values hold further on."""
    found = np.empty(epsilons.size)
    for i, epsilon in enumerate(epsilons.tolist()):
        with foreign(f"{name} raised at epsilon {epsilon:g}"):
            value = curve(epsilon)
        try:
            found[i] = float(value)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must give a number at every epsilon, got {shown(value)} at {epsilon:g}") from None
        if not found[i] >= 0:
            raise ValueError(f"{name} must give a delta of at least 0, got {shown(value)} at epsilon {epsilon:g}")
    return np.minimum.accumulate(np.minimum(found, 1.0))


def curve_at(epsilons: FloatArray, curve: Curve) -> FloatArray:
    """One curve of both orders at increasing epsilons from 0, as `claimed_curve` reads it."""
    values = _values("curve", curve, epsilons)
    return _hull(epsilons, values, values)


def _hull(epsilons: FloatArray, here: FloatArray, other: FloatArray) -> FloatArray:
    """``here`` lowered to the chords of all that both curves say: the true one is convex in exp(epsilon)."""
    x = np.concatenate([np.exp(-epsilons[::-1]), np.exp(epsilons[1:])])
    mirrored = 1 - np.exp(-epsilons) * (1 - other)
    y = np.concatenate([mirrored[::-1], here[1:]])
    y[epsilons.size - 1] = min(here[0], mirrored[0])
    kept: list[int] = []
    for i in range(x.size):
        while len(kept) > 1 and (y[i] - y[kept[-2]]) * (x[kept[-1]] - x[kept[-2]]) <= (y[kept[-1]] - y[kept[-2]]) * (
            x[i] - x[kept[-2]]
        ):
            kept.pop()
        kept.append(i)
    chords = np.interp(np.exp(epsilons), x[kept], y[kept])
    return np.minimum(here, chords * (1 + ROUNDING[0]) + ROUNDING[1])

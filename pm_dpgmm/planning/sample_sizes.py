"""Sample sizes of the papers' theorems as numbers, with every term, every constant and where each constant is from.

They say how a theorem scales and what it would ask for; how many records a fit really needs says
:func:`pm_dpgmm.plan`, by simulation. Nothing here reads a record.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pm_dpgmm._arguments import check_count, check_delta, check_positive, check_probability, shown
from pm_dpgmm.files.pickling import by_constructor

AMN24 = "Ashtiani, Majid and Narayanan (2024)"
AAL23 = "Arbas, Ashtiani and Liaw (2023)"
TRIANGLE = 1.5  # z
COVARIANCE_CONCENTRATION = 7.0  # C1
MOST = 10**30  # of counts and of the inverse of an accuracy or a budget


class Origin(enum.StrEnum):
    """Where a constant of a theorem is from."""

    PRINTED = "printed"
    DERIVED = "derived here"
    UNKNOWN = "unknown"  # set to 1, or given by the caller


@dataclass(frozen=True, slots=True)
class Constant:
    """One constant of a sample size: its value, where it is from, and what it is."""

    value: float
    origin: Origin
    meaning: str


@dataclass(frozen=True, slots=True)
class SampleSize:
    """The number that a theorem asks for.

    Attributes
    ----------
    statement : str
        The theorem.
    total : float or None
        Records. Rounded up where every constant is known; a rate where one is unknown; None where the theorem leaves
        a function to the caller who gave none.
    terms : dict of str to float
        The summands or factors of ``total``, by their formula.
    constants : dict of str to Constant
    """

    statement: str
    total: float | None
    terms: dict[str, float]
    constants: dict[str, Constant]
    __reduce__ = by_constructor

    @property
    def is_rate(self) -> bool:
        """Whether a constant is unknown, so that only the growth of the number means anything."""
        return any(constant.origin is Origin.UNKNOWN for constant in self.constants.values())

    @property
    def largest_term(self) -> str:
        """Formula of the largest term."""
        return max(self.terms, key=self.terms.__getitem__)

    def __str__(self) -> str:
        number = "not determined" if self.total is None else f"{self.total:.6g} records"
        kind = " (a rate: constants are unknown)" if self.is_rate and self.total is not None else ""
        lines = [f"{self.statement}: {number}{kind}"]
        lines += [f"  {formula} = {value:.6g}" for formula, value in self.terms.items()]
        lines += [f"  {name} = {c.value:.6g}, {c.origin}: {c.meaning}" for name, c in self.constants.items()]
        return "\n".join(lines)


def selection_size(
    n_hypotheses: int, *, accuracy: float, epsilon: float, failure: float = 0.1, z: float = 1.0
) -> SampleSize:
    """Records for private hypothesis selection, all constants explicit.

    If one of the hypotheses is within ``accuracy`` of the truth in total variation, the selected one is within
    (3 + z) ``accuracy`` with probability 1 - ``failure``, at pure ``epsilon``.

    Parameters
    ----------
    n_hypotheses : int
        m.
    accuracy : float
        a, in (0, 1).
    epsilon : float
    failure : float
        b, in (0, 1).
    z : float
        Positive; what is given up of the accuracy 3 a that no number of records improves.

    Returns
    -------
    SampleSize
        8 ln(4m/b)/(z a)^2 + 8 ln(2m/b)/(z a epsilon), rounded up. Sufficient; checked by the claim
        ``hypothesis-selection``.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> selection_size(1000, accuracy=0.1, epsilon=1.0).total
    9270
    """
    _check_sizes(n_hypotheses=n_hypotheses)
    check_probability(accuracy=accuracy, failure=failure)
    _check_moderate(accuracy=accuracy, failure=failure, epsilon=epsilon, z=z)
    m, a = n_hypotheses, z * accuracy
    terms = {
        "8 ln(4 m/b)/(z a)^2": 8 * math.log(4 * m / failure) / a**2,
        "8 ln(2 m/b)/(z a epsilon)": 8 * math.log(2 * m / failure) / (a * epsilon),
    }
    both = "of the deviation bound, and of the exponential mechanism with scores of sensitivity 1"
    constants = {
        "8": Constant(8.0, Origin.DERIVED, both),
        "3 + z": Constant(3 + z, Origin.DERIVED, "accuracy over a; printed is 3 + z for some z"),
    }
    statement = f"private hypothesis selection ({AMN24}, Theorem D.2; Bun, Kamath, Steinke and Wu 2019)"
    return SampleSize(statement, math.ceil(sum(terms.values())), terms, constants)


def populous_size(
    n_components: int,
    n_features: int,
    *,
    accuracy: float,
    epsilon: float,
    delta: float,
    failure: float = 0.1,
    learner_size: Callable[[float, float], float] | None = None,
) -> SampleSize:
    """Records for the private populous estimator, with the corrections that make its theorem true.

    Subsets times records per subset. The test and the mask each take half of the budget; the radius of the test is
    that of the mask, and the mask is ``accuracy``/(2 z)-concentrated, its weights after they were divided by their sum.

    Parameters
    ----------
    n_components, n_features : int
        k, d.
    accuracy : float
        Distance of the parameters, as in the paper (each component relative to itself), in (0, 1].
    epsilon, delta : float
        epsilon at most 1: the masks' lemmas are for that.
    failure : float
    learner_size : callable, optional
        ``learner_size(total_variation, failure)`` gives the records from which the learner of the subsets is that
        accurate with that probability of failure. The paper has a polynomial (Moitra and Valiant 2010) without
        constants.

    Returns
    -------
    SampleSize
        ``total`` is None without ``learner_size``.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or ``learner_size`` gives no positive number.

    Examples
    --------
    >>> found = populous_size(1, 1, accuracy=0.5, epsilon=1.0, delta=1e-6)
    >>> found.terms["subsets"], found.total is None
    (536.0, True)
    >>> found = populous_size(1, 1, accuracy=0.5, epsilon=1.0, delta=1e-6, learner_size=lambda a, b: 2 / a**2)
    >>> found.total > 1e13
    True
    """
    _check_sizes(n_components=n_components, n_features=n_features)
    check_delta(delta, zero=False)
    check_probability(failure=failure)
    _check_moderate(accuracy=accuracy, epsilon=epsilon, delta=delta, failure=failure)
    if accuracy > 1 or epsilon > 1:
        name, given = ("accuracy", accuracy) if accuracy > 1 else ("epsilon", epsilon)
        raise ValueError(f"{name} must be at most 1, where the masks' lemmas hold, got {shown(given)}")
    if learner_size is not None and not callable(learner_size):
        raise TypeError(f"learner_size must be a function of two numbers or None, got {shown(learner_size)}")
    k, d, half_epsilon, half_delta = n_components, n_features, epsilon / 2, delta / 2
    subsets = max(6, math.ceil(20 * math.log1p(math.expm1(half_epsilon) / (2 * half_delta)) / half_epsilon))
    radii = mask_radii(
        k, d, concentration=accuracy / (2 * TRIANGLE), failure=failure / 2, epsilon=half_epsilon, delta=half_delta
    )
    radius = min(radii.values())
    needed = min(1 / 600, radius / (800 * TRIANGLE**2))
    terms = {
        "subsets": float(subsets),
        **{f"radius of the {name} mask": value for name, value in radii.items()},
        "total variation that fits must reach": needed,
        "failure that fits may have": failure / (2 * subsets),
    }
    total: float | None = None
    if learner_size is not None:
        each = _number(learner_size(needed, failure / (2 * subsets)))
        terms["records per subset"] = each
        total = subsets * math.ceil(each)
    constants = {
        "20": Constant(20.0, Origin.PRINTED, "subsets for thresholds .6 and .8; 8 is enough with thresholds near 1/2"),
        "6": Constant(6.0, Origin.PRINTED, "least number of subsets: t > 5"),
        "72": Constant(72.0, Origin.PRINTED, "composition of the k masks, three parts each (advanced composition)"),
        "1 + k (1 + a)": Constant(
            _weight_share(k, accuracy / (2 * TRIANGLE)),
            Origin.DERIVED,
            "less noise on weights, so that they are as near after they were divided by their sum; printed: 1, false",
        ),
        "2": Constant(2.0, Origin.PRINTED, "radius of the weight mask, and under the root of its noise"),
        "24": Constant(24.0, Origin.PRINTED, "radius of the mean mask"),
        "C1": Constant(
            COVARIANCE_CONCENTRATION, Origin.DERIVED, "concentration of the covariance mask; printed: some C1"
        ),
        "12 sqrt(2) C1": Constant(
            12 * math.sqrt(2) * COVARIANCE_CONCENTRATION,
            Origin.DERIVED,
            "radius of the covariance mask, with epsilon/(8 ln(2/delta)); printed: some C2, false alone",
        ),
        "z": Constant(TRIANGLE, Origin.PRINTED, "approximate triangle inequality at radius 1; 1 + radius/2 is enough"),
        "600": Constant(600.0, Origin.PRINTED, "total variation below 1/600, where parameters are within 200 times it"),
        "800": Constant(
            800.0,
            Origin.PRINTED,
            "4 times 200: parameters of all subsets within radius/(4 z^2); 18, with z = 1, is enough for small radii",
        ),
    }
    return SampleSize(f"private populous estimator ({AAL23}, Theorem 6.2 corrected)", total, terms, constants)


def mask_radii(
    n_components: int, n_features: int, *, concentration: float, failure: float, epsilon: float, delta: float
) -> dict[str, float]:
    """Distances that the masks of weights, means and covariances hide, by the corrected lemmas.

    Each of the 3 k parts fails with probability ``failure``/(3 k) and has epsilon/sqrt(72 k ln(2/delta)) and
    delta/(6 k). Weights that are each within a/(1 + k (1 + a)), clipped at 0 and divided by their sum are within a: the
    sum is off by k times as much at most (claim ``renormalised-weights`` has what happens without it).
    """
    k, d, a = n_components, n_features, concentration
    e, log_term = epsilon / math.sqrt(72 * k * math.log(2 / delta)), math.log(12 * k / delta)
    log_failure = math.log(3 * k / failure)
    covariance = (
        12 * math.sqrt(2) * COVARIANCE_CONCENTRATION * d * math.sqrt((d + math.log(4) + log_failure) * log_term)
    )
    return {
        "weight": a / _weight_share(k, a) / math.sqrt(2 * (1 + log_failure)) * e / (2 * log_term),
        "mean": min(0.5, e * a / (24 * log_term * math.sqrt(d + log_failure))),
        "covariance": min(e * a / covariance, e / (8 * log_term)),
    }


def _weight_share(k: int, a: float) -> float:
    """By what the distance of one weight is divided; a single weight is 1 after the division whatever its noise."""
    return 1.0 if k == 1 else 1 + k * (1 + a)


def mixture_rate(
    n_components: int, n_features: int, *, accuracy: float, epsilon: float, delta: float, constant: float = 1.0
) -> SampleSize:
    """How the sufficient number of records grows, any columns: Ashtiani, Majid and Narayanan (2024), Theorem 1.4.

    Parameters
    ----------
    n_components, n_features : int
        k, d.
    accuracy : float
        a, total variation, in (0, 1).
    epsilon, delta : float
    constant : float
        In place of the constant and the powers of logarithms, which the theorem does not name.

    Returns
    -------
    SampleSize
        A rate. The powers of k and d are those of the abstract; those of a, epsilon and log(1/delta) were derived
        again for this project, not read in the paper.

    Examples
    --------
    >>> rate = mixture_rate(4, 100, accuracy=0.1, epsilon=1.0, delta=1e-6)
    >>> rate.largest_term, rate.is_rate
    ('k d^2/a^2', True)
    """
    k, d, a, log_term = _sizes(n_components, n_features, accuracy, epsilon, delta, constant)
    terms = {
        "k d^2/a^2": k * d**2 / a**2,
        "k d^2/(a epsilon)": k * d**2 / (a * epsilon),
        "k^1.5 d^1.75 ln(1/delta)^.5/(a epsilon)": k**1.5 * d**1.75 * math.sqrt(log_term) / (a * epsilon),
        "k^1.5 ln(1/delta)^1.5/(a epsilon)": k**1.5 * log_term**1.5 / (a * epsilon),
        "k^2 d/a": k**2 * d / a,
    }
    return _rate(f"{AMN24}, Theorem 1.4", terms, constant, in_abstract=True)


def univariate_rate(
    n_components: int, *, accuracy: float, epsilon: float, delta: float, constant: float = 1.0
) -> SampleSize:
    """How the sufficient number of records grows in one column: Ashtiani, Majid and Narayanan (2024), Theorem 1.5.

    Parameters and result as for :func:`mixture_rate`.

    Examples
    --------
    >>> univariate_rate(2, accuracy=0.1, epsilon=1.0, delta=1e-6).terms["k/a^2"].__round__()
    200
    """
    k, _, a, log_term = _sizes(n_components, 1, accuracy, epsilon, delta, constant)
    terms = {"k/a^2": k / a**2, "k ln(1/delta)/(a epsilon)": k * log_term / (a * epsilon)}
    return _rate(f"{AMN24}, Theorem 1.5", terms, constant)


def necessary_rate(
    n_components: int, n_features: int, *, accuracy: float, epsilon: float, delta: float, constant: float = 1.0
) -> SampleSize:
    """How the necessary number of records grows: Ashtiani, Majid and Narayanan (2024), Theorem 1.6, a lower bound.

    Parameters and result as for :func:`mixture_rate`.

    Examples
    --------
    >>> found = necessary_rate(4, 100, accuracy=0.1, epsilon=1.0, delta=1e-6)
    >>> found.total < mixture_rate(4, 100, accuracy=0.1, epsilon=1.0, delta=1e-6).total
    True
    """
    k, d, a, log_term = _sizes(n_components, n_features, accuracy, epsilon, delta, constant)
    terms = {
        "k d^2/a^2": k * d**2 / a**2,
        "k d^2/(a epsilon)": k * d**2 / (a * epsilon),
        "k ln(1/delta)/(a epsilon)": k * log_term / (a * epsilon),
    }
    return _rate(f"{AMN24}, Theorem 1.6, a lower bound", terms, constant)


def _rate(statement: str, terms: dict[str, float], constant: float, *, in_abstract: bool = False) -> SampleSize:
    read = Origin.PRINTED, "in the abstract"
    derived = Origin.DERIVED, "by the steps of the proof; not read"
    constants = {
        "constant": Constant(constant, Origin.UNKNOWN, "of the theorem, logarithms other than ln(1/delta) included"),
        "powers of k and d": Constant(1.0, *(read if in_abstract else derived)),
        "powers of a, epsilon and ln(1/delta)": Constant(1.0, *derived),
    }
    return SampleSize(statement, constant * sum(terms.values()), terms, constants)


def _sizes(
    n_components: int, n_features: int, accuracy: float, epsilon: float, delta: float, constant: float
) -> tuple[int, int, float, float]:
    _check_sizes(n_components=n_components, n_features=n_features)
    check_probability(accuracy=accuracy)
    check_delta(delta, zero=False)
    _check_moderate(accuracy=accuracy, epsilon=epsilon, constant=constant)
    return int(n_components), int(n_features), float(accuracy), -math.log(delta)


def _check_sizes(**counts: Any) -> None:
    """Counts whose powers a float can hold."""
    check_count(most=MOST, **counts)


def _check_moderate(**parameters: Any) -> None:
    """Positive numbers whose quotients a float can hold."""
    check_positive(**parameters)
    for name, value in parameters.items():
        if not 1 / MOST <= value <= MOST:
            raise ValueError(f"{name} must lie between {1 / MOST:g} and {MOST:g}, got {shown(value)}")


def _number(value: Any) -> float:
    check_positive(**{"the value of learner_size": value})
    return float(value)

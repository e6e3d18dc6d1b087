"""How much noise each accounting of private EM asks for, and the guarantee that this noise really gives.

Park, Foulds, Chaudhuri and Welling compare basic composition, advanced composition and concentrated differential
privacy (CDP) at equal "epsilon"; what that is a parameter of differs. All are compared here on the same thing: M
releases with Gaussian noise, each of its own sensitivity times one noise multiplier. The published EM makes M = J (2 K
+ 1) of J steps (weights, K means, K covariances); a joint release makes M = J. What they give is known exactly: one
Gaussian release of multiplier z / sqrt(M).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pm_dpgmm._arguments import check_choice, check_count, check_delta, check_positive
from pm_dpgmm.mechanisms.gaussian import gaussian_mu
from pm_dpgmm.privacy.bisection import bisected, geometric
from pm_dpgmm.privacy.curves import GaussianProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring, smallest_epsilon

SMALLEST_EPSILON = 1e-4  # below it curves in floats lose digits
ORDERS = 1 + np.geomspace(1e-3, 1e5, 4001)  # of Renyi divergences


@dataclass(frozen=True, slots=True)
class Accounted:
    """Noise by one accounting.

    Attributes
    ----------
    accounting : str
    claimed : str
        What its "epsilon" is a parameter of.
    noise_multiplier : float
        Of every release: noise over sensitivity, no unit.
    guarantee : Guarantee
        Of all releases together, exact; its epsilon is the least at the delta that was asked for.
    """

    accounting: str
    claimed: str
    noise_multiplier: float
    guarantee: Guarantee


def basic_multiplier(epsilon: float, delta: float, n_releases: int) -> float:
    """Each release (epsilon/M, delta/M)-DP, by the exact curve of the Gaussian mechanism."""
    return 1 / gaussian_mu(epsilon / n_releases, delta / n_releases)


def advanced_multiplier(epsilon: float, delta: float, n_releases: int) -> float:
    """Dwork, Rothblum and Vadhan (2010): half of delta for the composition, the rest for the releases.

    Each release is (e, delta/(2 M))-DP with sqrt(2 M ln(2/delta)) e + M e (exp(e) - 1) = epsilon.
    """
    m = n_releases

    def total(each: float) -> float:
        return math.sqrt(2 * m * math.log(2 / delta)) * each + m * each * math.expm1(each)

    each = bisected(lambda e: total(e) <= epsilon, epsilon / m * 1e-9, min(epsilon, 50.0), middle=geometric)
    return 1 / gaussian_mu(each, delta / (2 * m))


def cdp_multiplier(epsilon: float, delta: float, n_releases: int) -> float:
    """(epsilon, sqrt(2 epsilon))-CDP, which is epsilon-zCDP, as the paper means its "epsilon"; delta is not used."""
    return math.sqrt(n_releases / (2 * epsilon))


def zcdp_multiplier(epsilon: float, delta: float, n_releases: int) -> float:
    """rho-zCDP with rho + 2 sqrt(rho ln(1/delta)) = epsilon: Bun and Steinke (2016), Proposition 1.3."""
    log = math.log(1 / delta)
    root = epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))
    return math.sqrt(n_releases / 2) / root


def renyi_multiplier(epsilon: float, delta: float, n_releases: int) -> float:
    """The best order of Renyi differential privacy, converted as Canonne, Kamath and Steinke (2020) do."""

    def proved(rho: float) -> float:
        a = ORDERS
        return float((rho * a + np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1)).min())

    if proved(1e-18) > epsilon:
        raise ValueError(
            f"epsilon must be what orders up to {ORDERS[-1]:g} can prove at delta {delta:g}, got {epsilon:g}"
        )
    rho = bisected(lambda r: proved(r) <= epsilon, 1e-18, 2 * epsilon + 2, middle=geometric)
    return math.sqrt(n_releases / (2 * rho))


def exact_multiplier(epsilon: float, delta: float, n_releases: int) -> float:
    """The exact curve of M Gaussian releases, which is that of one: Balle and Wang (2018)."""
    return math.sqrt(n_releases) / gaussian_mu(epsilon, delta)


MULTIPLIERS: dict[str, tuple[str, Callable[[float, float, int], float]]] = {
    "basic": ("(epsilon, delta)-DP", basic_multiplier),
    "advanced": ("(epsilon, delta)-DP", advanced_multiplier),
    "cdp": ("(epsilon, sqrt(2 epsilon))-CDP, which is epsilon-zCDP", cdp_multiplier),
    "zcdp": ("(epsilon, delta)-DP", zcdp_multiplier),
    "renyi": ("(epsilon, delta)-DP", renyi_multiplier),
    "exact": ("(epsilon, delta)-DP", exact_multiplier),
}


def accounted(
    accounting: str,
    *,
    epsilon: float,
    delta: float,
    n_steps: int,
    n_components: int | None = None,
    neighbouring: str = "replace-one",
) -> Accounted:
    """The noise that an accounting asks for, and what it gives.

    Parameters
    ----------
    accounting : {"basic", "advanced", "cdp", "zcdp", "renyi", "exact"}
    epsilon, delta : float
        As the accounting means them: of "cdp", epsilon is no parameter of (epsilon, delta)-DP.
    n_steps : int
        J.
    n_components : int, optional
        K, for J (2 K + 1) releases as published; None for one joint release a step.
    neighbouring : {"replace-one", "add-remove"}
        That of the sensitivities.

    Returns
    -------
    Accounted

    Raises
    ------
    ValueError
        If a number is out of range, or the accounting cannot promise as little.

    Guarantee
    ---------
    None is spent: a function of public numbers. That of the result is for Gaussian noise of this multiplier times the
    L2 sensitivity of each release, in real arithmetic.

    Examples
    --------
    >>> found = accounted("cdp", epsilon=0.9, delta=1e-6, n_steps=10, n_components=3)
    >>> round(found.noise_multiplier, 2), round(found.guarantee.epsilon, 2)
    (6.24, 6.85)
    """
    check_choice(tuple(MULTIPLIERS), accounting=accounting)
    check_positive(epsilon=epsilon)
    if epsilon < SMALLEST_EPSILON:
        raise ValueError(f"epsilon must be at least {SMALLEST_EPSILON:g}, got {epsilon!r}")
    check_delta(delta, zero=False)
    check_count(n_steps=n_steps)
    if n_components is not None:
        check_count(n_components=n_components)
    n_releases = n_steps if n_components is None else n_steps * (2 * n_components + 1)
    claimed, multiplier = MULTIPLIERS[accounting]
    z = multiplier(epsilon, delta, n_releases)
    loss = GaussianProfile(math.sqrt(n_releases) / z)
    least = smallest_epsilon(loss.delta, delta)
    words = f"{n_releases} Gaussian releases by {accounting} accounting (methods/em/accounting.py)"
    guarantee = Guarantee(max(least, 1e-12), delta, Neighbouring.parse(neighbouring), words, loss)
    return Accounted(accounting, claimed, z, guarantee)

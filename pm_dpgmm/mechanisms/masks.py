"""Masks of one fit, for "populous-single": noise shaped by the released mixture itself. Proof: masks.md.

The mask of an average of fits ("populous") is ``lifted_mask.py``. A mask is not private alone. It hides which of two
*close* mixtures it was given; a test (see ``methods/populous_single/method.py``) makes sure that neighbouring data sets
give close ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_count, check_delta, check_positive, check_probability
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.bisection import arithmetic, bisected, geometric
from pm_dpgmm.privacy.curves import PointProfile, RenyiProfile
from pm_dpgmm.privacy.noise import Rng, permutation, standard_normal

PUBLISHED_STEP = 2.0**-30  # released numbers are rounded to this share of a released standard deviation


@dataclass(frozen=True, slots=True)
class MaskNoise:
    """Public noise levels of the mixture mask.

    ``weight`` is the standard deviation added to each weight; ``mean`` that added to a mean, in standard
    deviations of its component; ``covariance`` the relative noise eta of a covariance factor.
    """

    weight: float = 0.05
    mean: float = 0.05
    covariance: float = 0.05

    def __post_init__(self) -> None:
        check_positive(weight=self.weight, mean=self.mean, covariance=self.covariance)


def mask_weight(weight: float, *, noise: float, rng: Rng = None) -> float:
    """Release ``weight`` + N(0, noise^2). Private for weights within a radius, by :func:`mask_loss`."""
    return float(weight + noise * standard_normal((), rng=rng))


def mask_mean(mean: FloatArray, covariance: FloatArray, *, noise: float, rng: Rng = None) -> FloatArray:
    """Release N(mean, noise^2 covariance), shape (D,). Private for close components, by :func:`mask_loss`."""
    factor = np.linalg.cholesky(covariance)
    return np.asarray(mean + noise * factor @ standard_normal(len(mean), rng=rng))


def mask_covariance(covariance: FloatArray, *, noise: float, rng: Rng = None) -> FloatArray:
    """Release L (I + noise G)(I + noise G)' L', G standard normal (D, D) and L L' = ``covariance``.

    Any factor L gives the same law. Its mean is (1 + D noise^2) ``covariance``. Private for close
    covariances, by :func:`mask_loss`.
    """
    d = len(covariance)
    root = np.linalg.cholesky(covariance) @ (np.eye(d) + noise * standard_normal((d, d), rng=rng))
    return np.asarray(root @ root.T)


def mask_mixture(mixture: Mixture, *, noise: MaskNoise, rng: Rng = None) -> dict[str, FloatArray]:
    """Mask every weight, mean and covariance, then shuffle the components.

    Parameters
    ----------
    mixture : Mixture
        K components in D dimensions.
    noise : MaskNoise
        Public noise levels.
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    dict
        Raw noisy "weights" (K,), "means" (K, D) and "covariances" (K, D, D), in a uniformly random order of
        the components: without the shuffle the order would tell which fit was taken. Weights may be negative.
        Numbers are rounded to 2^-30 of a released standard deviation, far above the low bits of the sampler.

    Guarantee
    ---------
    For two mixtures within ``radius`` of each other in dist_PARAM the outputs are (epsilon, delta)-
    indistinguishable with the curve of :func:`mask_loss` (masks.md). Source: Arbas, Ashtiani and Liaw (2023),
    Lemma 3.5 and Algorithm 2, without its renormalisation.
    """
    weights = np.array([mask_weight(w, noise=noise.weight, rng=rng) for w in mixture.weights])
    pairs = list(zip(mixture.means, mixture.covariances, strict=True))
    means = np.array([mask_mean(m, s, noise=noise.mean, rng=rng) for m, s in pairs])
    covariances = np.array([mask_covariance(s, noise=noise.covariance, rng=rng) for _, s in pairs])
    unit = np.exp2(np.floor(np.log2(np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))))) * PUBLISHED_STEP
    order = permutation(mixture.n_components, rng=rng)
    return {
        "weights": (np.rint(weights / PUBLISHED_STEP) * PUBLISHED_STEP)[order],
        "means": (np.rint(means / unit) * unit)[order],
        "covariances": _round_to(covariances, unit[:, :, None] * unit[:, None, :] / PUBLISHED_STEP)[order],
    }


def _round_to(values: FloatArray, step: FloatArray) -> FloatArray:
    rounded = np.rint(values / step) * step
    return np.asarray((rounded + np.swapaxes(rounded, -1, -2)) / 2)


def mask_log_moment(order: float, *, radius: float, noise: MaskNoise, n_features: int, n_components: int) -> float:
    """Upper bound of ln E_P[(P/Q)^z], z = ``order`` > 0, for the mixture mask at two mixtures within ``radius``.

    Infinite where the proof does not reach (masks.md, conditions (i) to (iii)). Divided by z it is the Renyi
    divergence of order 1 + z. The bound is attained by one eigenvalue and one mean shift along it.
    """
    z, y = order, radius
    root = math.sqrt(1 - min(y, 1.0))
    reached = (
        z * y < 1 and z**2 * (1 - y) ** 3 >= (1 + z * y) ** 3 and z / (1 + z * y) >= 1 / max(root * (1 + root), 1e-300)
    )
    if not reached:
        return math.inf
    spread = -z * math.log1p(y) - math.log1p(-z * y)
    shift = z * (1 + z) / (2 * (1 - z * y))
    covariance = n_features / 2 * spread + shift * (math.expm1(math.log1p(y) / 2) / noise.covariance) ** 2
    mean = spread / 2 + shift * (y / noise.mean) ** 2
    weight = z * (1 + z) / 2 * (y / noise.weight) ** 2
    return n_components * (covariance + mean + weight)


def mask_loss(*, radius: float, noise: MaskNoise, n_features: int, n_components: int) -> RenyiProfile:
    """Privacy curve of the mixture mask for mixtures within ``radius`` in dist_PARAM (both orders of the pair)."""
    check_probability(radius=radius)
    check_count(n_features=n_features, n_components=n_components)
    grid = np.geomspace(1.5, 0.999 / radius, 240)
    moments = {
        z: mask_log_moment(z, radius=radius, noise=noise, n_features=n_features, n_components=n_components)
        for z in grid.tolist()
    }
    proved = {z: moment for z, moment in moments.items() if math.isfinite(moment)}
    if not proved:
        raise ValueError(f"radius must be small enough for the proof (about 0.03), got {radius:g}")
    return RenyiProfile(tuple(1 + z for z in proved), tuple(m / z for z, m in proved.items()))


def largest_radius(*, epsilon: float, delta: float, noise: MaskNoise, n_features: int, n_components: int) -> float:
    """Largest radius gamma at which the mixture mask is (epsilon, delta)-indistinguishable, by exact Renyi bounds.

    Examples
    --------
    >>> round(largest_radius(epsilon=1.0, delta=1e-6, noise=MaskNoise(), n_features=2, n_components=2), 5)
    0.00504
    """
    check_positive(epsilon=epsilon)
    check_delta(delta, zero=False)

    def enough(radius: float) -> bool:
        loss = mask_loss(radius=radius, noise=noise, n_features=n_features, n_components=n_components)
        return loss.delta(epsilon) <= delta

    low, high = 1e-9, 0.03
    if not enough(low):
        raise ValueError(f"epsilon and delta must leave room for the mask, got {epsilon:g} and {delta:g}")
    if enough(high):
        return high
    return bisected(enough, low, high, middle=geometric, close=lambda low, high: high / low < 1 + 1e-6)


def paper_radius(*, epsilon: float, delta: float, noise: MaskNoise, n_features: int, n_components: int) -> float:
    """The radius that the published lemmas prove: the smallest of three gammas, composed over masks and components.

    Lemmas F.1, F.2 and F.6 of Arbas, Ashtiani and Liaw (2023) with their explicit constants, ln(2/delta) outside
    the root (the printed Lemma F.5 has it inside, which proves nothing), three masks by basic composition, and
    the better of basic and advanced composition over components. Needs epsilon <= 1, and a mean noise of at most
    1/sqrt(3 D), the paper's concentration alpha <= 1.

    Raises
    ------
    ValueError
        Outside that range, where the published statements are false.
    """
    check_positive(epsilon=epsilon)
    check_delta(delta, zero=False)
    if epsilon > 1:
        raise ValueError(f"epsilon must be at most 1 with the published constants, got {epsilon:g}")
    if noise.mean > 1 / math.sqrt(3 * n_features):
        raise ValueError(f"mean noise must be at most 1/sqrt(3 n_features) with the published constants, got {noise}")
    k = n_components
    basic = (epsilon / (3 * k), delta / (3 * k))

    def advanced_total(e: float) -> float:
        return math.sqrt(2 * k * math.log(2 / delta)) * 3 * e + 3 * k * e * math.expm1(3 * e)

    largest = bisected(lambda e: advanced_total(e) <= epsilon, 0.0, 1.0, middle=arithmetic)
    advanced = (largest, delta / (6 * k))
    return max(_lemma_radius(e, d, noise=noise, n_features=n_features) for e, d in (basic, advanced))


def _lemma_radius(epsilon: float, delta: float, *, noise: MaskNoise, n_features: int) -> float:
    """Smallest gamma of the three lemmas at the budget of one mask."""
    d, log_term = n_features, math.log(2 / delta)
    weight = noise.weight * epsilon / (2 * log_term)  # F.1
    mean = min(0.5, math.sqrt(3) * epsilon * noise.mean / (24 * log_term))  # F.2
    covariance = min(  # F.6, with the Frobenius distance in place of its spectral hypothesis
        math.sqrt(epsilon / (2 * d * (d + 1 / noise.covariance**2))),
        epsilon / (8 * d * math.sqrt(log_term)),
        epsilon / (8 * log_term),
        epsilon * noise.covariance / (12 * math.sqrt(d) * math.sqrt(log_term)),
    )
    return min(weight, mean, covariance)


def paper_loss(epsilon: float, delta: float) -> PointProfile:
    """The published lemmas prove one (epsilon, delta) pair and no curve."""
    return PointProfile(epsilon, delta)

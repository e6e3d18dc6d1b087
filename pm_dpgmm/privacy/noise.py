"""The only module that draws random numbers for a release; on people's own devices ``device_noise`` does.

``rng=None`` is the release path: OpenDP's exact discrete samplers, seeded by the operating system, with no
floating-point holes. A NumPy generator is for simulation, audits and teaching: whoever knows its seed can
subtract the noise, so a release made that way is marked as not private. Proofs that take the laws below as they are
said: the notes in mechanisms/, of the Gaussian one gaussian.md.
"""

from __future__ import annotations

import functools
import math
import re
import secrets
import sys
from fractions import Fraction
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm._arguments import FloatArray, check_count, check_non_negative, check_positive

IntArray = NDArray[np.int64]
Rng = np.random.Generator | None
NORMAL_GRID = 2.0**-40  # spacing of standard_normal
# OpenDP cuts draws at the ends of 64-bit integers, and a record added to a cut draw would show: up to these scales the
# chance of a draw beyond 2^62 is below exp(-1000), which proofs take for 0
MOST_LAPLACE, MOST_GAUSSIAN = 2.0**52, 2.0**55
COIN_BITS = 1074  # every float in [0, 1] is a multiple of 2^-1074
EXACT = (0, 14, 2)  # first OpenDP whose noise has its law (its pull request 2639)


def check_opendp(version: str) -> None:
    """Raise ImportError for a version of OpenDP whose noise has another law than it says.

    Up to 0.14.1 discrete Laplace and Gaussian noise is biased: at scale 6 a change of one moves the probability of some
    value by a factor of exp(2 / 6), so that twice the claimed epsilon is lost.
    """
    numbers = tuple(map(int, re.findall(r"\d+", version)[:3]))
    if numbers < EXACT:
        raise ImportError(
            f"opendp must be {'.'.join(map(str, EXACT))} or newer, as older noise is biased, got {version}"
        )


check_opendp(metadata.version("opendp"))  # here, so that nothing is spent with it


def discrete_laplace(shape: int | tuple[int, ...], *, scale: float, rng: Rng = None) -> IntArray:
    """Independent integers z with probability proportional to exp(-|z| / scale)."""
    _check_scale(scale, MOST_LAPLACE)
    if rng is None:
        return _opendp(_laplace_measurement(float(scale)), shape)
    success = -math.expm1(-1 / scale)
    return np.asarray(rng.geometric(success, shape) - rng.geometric(success, shape), dtype=np.int64)


def _check_scale(scale: float, most: float) -> None:
    check_positive(scale=scale)
    if scale > most:
        raise ValueError(f"scale must be at most {most:.3g}, which can be drawn without a cut, got {scale!r}")


def laplace_scale(changed: int, epsilon: float) -> float:
    """Least float b with changed / b <= epsilon in exact rationals, up to one unit in the last place.

    Integer noise with probability proportional to exp(-|z| / b), which OpenDP draws for the rational number that the
    float b is, hides a change of ``changed`` (in L1) at epsilon = changed / b: a quotient of floats, rounded to the
    nearest, may be a little less than that.

    Raises
    ------
    ValueError
        If there is none up to ``MOST_LAPLACE``: ``epsilon`` is too small.
    """
    check_count(changed=changed)
    check_positive(epsilon=epsilon)
    least = changed / Fraction(float(epsilon))
    if least > MOST_LAPLACE:
        raise ValueError(f"epsilon must leave a noise scale of at most 2^52 steps in every part, got {epsilon!r}")
    scale = max(float(least), sys.float_info.min)  # the nearest float
    return scale if Fraction(scale) >= least else math.nextafter(scale, math.inf)


def discrete_gaussian(shape: int | tuple[int, ...], *, scale: float, rng: Rng = None) -> IntArray:
    """Independent integers z with probability proportional to exp(-z^2 / (2 scale^2)).

    In simulation, scales above 1,000 use rounded normals: total variation below 1e-7 a number. Against rounded normals:
    mechanisms/gaussian.md, step 3; that OpenDP's sampler is exact is assumed there.
    """
    _check_scale(scale, MOST_GAUSSIAN)
    if rng is None:
        return _opendp(_gaussian_measurement(float(scale)), shape)
    if scale > 1000:
        return np.rint(rng.normal(scale=scale, size=shape)).astype(np.int64)
    values = np.arange(-math.ceil(12 * scale) - 1, math.ceil(12 * scale) + 2)
    masses = np.exp(-0.5 * (values / scale) ** 2)
    return rng.choice(values, size=shape, p=masses / masses.sum()).astype(np.int64)


def truncated_discrete_laplace(shape: int | tuple[int, ...], *, scale: float, bound: int, rng: Rng = None) -> IntArray:
    """Discrete Laplace integers conditioned on [-bound, bound], by rejection: never by clipping.

    A clipped Laplace has atoms at the ends, which is another law with a larger delta. The number of rejected
    draws depends on noise alone.
    """
    check_count(least=0, bound=bound)
    draws = np.array(discrete_laplace(shape, scale=scale, rng=rng))
    outside = np.abs(draws) > bound
    while outside.any():
        draws[outside] = discrete_laplace(int(outside.sum()), scale=scale, rng=rng)
        outside = np.abs(draws) > bound
    return draws


def geometric(shape: int | tuple[int, ...], *, scale: float, rng: Rng = None) -> IntArray:
    """Independent integers z >= 0 with probability proportional to exp(-z / scale).

    On the release path discrete Laplace integers conditioned on z >= 0, by rejection; the number of rejected draws
    depends on noise alone.
    """
    check_positive(scale=scale)
    if rng is not None:
        return np.asarray(rng.geometric(-math.expm1(-1 / scale), shape) - 1, dtype=np.int64)
    draws = np.array(discrete_laplace(shape, scale=scale))
    negative = draws < 0
    while negative.any():
        draws[negative] = discrete_laplace(int(negative.sum()), scale=scale)
        negative = draws < 0
    return draws


def standard_normal(shape: int | tuple[int, ...], *, rng: Rng = None) -> FloatArray:
    """Independent N(0, 1) numbers; on the release path multiples of 2^-40 (discrete Gaussian)."""
    if rng is None:
        return np.asarray(discrete_gaussian(shape, scale=1 / NORMAL_GRID) * NORMAL_GRID, dtype=float)
    return rng.standard_normal(shape)


def permutation(n: int, *, rng: Rng = None) -> IntArray:
    """A uniformly random order of range(n)."""
    check_count(least=0, n=n)
    if rng is not None:
        return rng.permutation(n).astype(np.int64)
    order = list(range(n))
    secrets.SystemRandom().shuffle(order)
    return np.array(order, dtype=np.int64)


def random_assignment(n: int, n_places: int, *, rng: Rng = None) -> IntArray:
    """``n`` independent places, each uniform in range(n_places)."""
    check_count(least=0, n=n)
    check_count(n_places=n_places)
    if rng is not None:
        return rng.integers(n_places, size=n, dtype=np.int64)
    return np.array([secrets.randbelow(n_places) for _ in range(n)], dtype=np.int64)


def bernoullis(n: int, *, probability: float, rng: Rng = None) -> NDArray[np.bool_]:
    """Independent coins, each True with this probability, to a precision of 2^-32."""
    check_count(least=0, n=n)
    drawn = rng.integers(2**32, size=n) if rng is not None else np.frombuffer(secrets.token_bytes(4 * n), np.uint32)
    return np.asarray(drawn < round(probability * 2**32))


def bernoulli(probability: float, *, rng: Rng = None) -> bool:
    """One coin that is True with this probability: on the release path exactly, not to a number of bits.

    A float is an integer over a power of two. The number of random bits is the same for every probability.
    """
    check_non_negative(probability=probability)
    if probability > 1:
        raise ValueError(f"probability must be at most 1, got {probability!r}")
    if rng is not None:
        return bool(rng.random() < probability)
    numerator, denominator = float(probability).as_integer_ratio()
    return secrets.randbits(COIN_BITS) * denominator < numerator << COIN_BITS


def uniforms(n: int, *, rng: Rng = None) -> FloatArray:
    """Independent multiples of 2^-53 in [0, 1): for draws from a law that is private itself, never for noise.

    What a mechanism makes of them in floats must be rounded by a public rule before it leaves.
    """
    check_count(least=0, n=n)
    if rng is not None:
        return rng.random(n)
    return np.array([secrets.randbits(53) for _ in range(n)], dtype=float) * 2.0**-53


def seeds(n: int, *, rng: Rng = None) -> list[int]:
    """Seeds for ``n`` independent runs of a learner."""
    if rng is not None:
        return [int(seed) for seed in rng.integers(2**31 - 1, size=n)]
    return [secrets.randbelow(2**31 - 1) for _ in range(n)]


def _opendp(measurement: Any, shape: int | tuple[int, ...]) -> IntArray:
    size = math.prod(shape) if isinstance(shape, tuple) else shape
    if size == 0:
        return np.zeros(shape, dtype=np.int64)
    return np.array(measurement(np.zeros(size, dtype=np.int64)), dtype=np.int64).reshape(shape)


@functools.lru_cache(maxsize=64)
def _laplace_measurement(scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)


@functools.lru_cache(maxsize=64)
def _gaussian_measurement(scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    return dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=scale)

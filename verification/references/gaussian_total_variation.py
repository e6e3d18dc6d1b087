"""Total variation of two Gaussians in d dimensions, to about twelve digits, by a contour integral.

Let p and q be the densities, L = log(p / q) and psi(t) = integral of p^z q^(1-z), z = 1/2 + i t, the characteristic
function of L under the unnormalised measure sqrt(p q). Since min(p, q) = sqrt(p q) exp(-|L| / 2), and exp(-|x| / 2) is
the Fourier transform of 1 / (2 pi (t^2 + 1/4)),

    TV = 1 - integral of min(p, q) = (1 / 2 pi) * integral over the line of (1 - psi(t)) / (t^2 + 1/4) dt.

Nothing cancels as the two laws merge: 1 - Re psi is at least 0 and comes from expm1. In coordinates with p = N(0, I)
and q = N(b, I + diag(w)),

    log psi = sum of (z / 2) log(1 + w) - (1 / 2) log(1 + w z) - z (1 - z) b^2 / (2 (1 + w z)),

analytic off the imaginary half-lines |Im t| >= 1/2. With t = sinh(u) / 2 the integral is 1 / pi times that of
(1 - psi) / cosh(u), taken along Im u = turn, where psi decays instead of oscillating, by the midpoint rule with step h.

Error, from the contour integral of f(u) / (exp(-+ 2 pi i (u - i turn) / h) + 1) around the rectangle |Re u| <= U,
0 <= Im u <= 2 turn:

- discretisation: the integrals of |f| along both long edges, over exp(2 pi |turn| / h) - 1;
- ends: 4 |turn| times the maximum of |psi / cosh| on the two short edges, which covers the way back to the real line;
- tail: beyond U on the real line |psi| falls with |t|, so 2 |psi(U)| times the integral of 1 / cosh. The constant 1 is
  summed further, up to where 1 / cosh is below rounding.

The edges are themselves summed and searched on a grid of step .2, whose sums and maxima are doubled: the bound is
derived, not a proof in interval arithmetic. Rounding is added. The first-order version, E |X| for a centred quadratic
form X in normals, is `local_rate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
Exponent = Callable[[ComplexArray], ComplexArray]  # t -> log psi(t)

EPS = float(np.finfo(float).eps)
REACH = 37.0  # exp(-37) is below the rounding of a double
TURNS = (math.pi / 8, math.pi / 16, math.pi / 32)
TOLERANCE = 1e-12  # asked for, of max(Frobenius norm of w, norm of b) while that is below 1
NEGLIGIBLE = 1e-14  # relative variances and shifts below this share of the largest are dropped, and paid for
POINTS = 60_000  # along one contour, at most


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and how far it may be from the true one."""

    value: float
    error: float

    @property
    def lower(self) -> float:
        return self.value - self.error

    @property
    def upper(self) -> float:
        return self.value + self.error


def gaussian_total_variation(mean1: ArrayLike, cov1: ArrayLike, mean2: ArrayLike, cov2: ArrayLike) -> Estimate:
    """Total variation distance of N(mean1, cov1) and N(mean2, cov2).

    Parameters
    ----------
    mean1, mean2 : array_like, shape (d,)
        In the unit of the data.
    cov1, cov2 : array_like, shape (d, d)
        Symmetric positive definite, in the unit of the data squared.

    Returns
    -------
    Estimate
        The distance in [0, 1] and a bound on its error: quadrature, and rounding of the whitening, which grows with the
        condition number and is 1 when nothing can be said.

    Raises
    ------
    numpy.linalg.LinAlgError
        If ``cov1`` is not positive definite.
    """
    s1, s2 = np.asarray(cov1, dtype=float), np.asarray(cov2, dtype=float)
    d = len(s1)
    if not (np.diag(s1) > 0).all():
        raise np.linalg.LinAlgError("cov1 must be positive definite")
    sd = np.sqrt(np.diag(s1))
    factor = np.linalg.cholesky(s1 / np.outer(sd, sd))
    half = solve_triangular(factor, (s2 - s1) / np.outer(sd, sd), lower=True)
    relative = solve_triangular(factor, half.T, lower=True)
    shift = solve_triangular(factor, (np.asarray(mean2, dtype=float) - np.asarray(mean1, dtype=float)) / sd, lower=True)
    changes, axes = np.linalg.eigh((relative + relative.T) / 2)
    if not 1 + changes[0] > 0:
        return Estimate(0.5, 0.5)
    found = of_spectrum(changes, axes.T @ shift)
    # First-order analysis of factor, solves and eigenvalues: 8 d eps times the condition number, of both arguments.
    lost = 8 * d * EPS * float(np.linalg.norm(np.linalg.inv(factor))) ** 2 * d
    moved = lost * max(float(np.linalg.norm(changes)), float(np.linalg.norm(shift))) / min(1.0, 1 + float(changes[0]))
    return Estimate(found.value, min(1.0, found.error + moved))


def of_spectrum(changes: ArrayLike, shift: ArrayLike) -> Estimate:
    """Total variation distance of N(0, I) and N(shift, I + diag(changes)).

    Parameters
    ----------
    changes : array_like, shape (d,)
        Relative changes of the variances, greater than -1.
    shift : array_like, shape (d,)
        Whitened difference of the means.

    Returns
    -------
    Estimate
        The distance and its error: at most 1.2e-12 of min(1, norm of changes + norm of shift) in 6000 random spectra
        with d <= 6 and entries from 1e-9 to 30. Where no contour is good enough, for example when parts of very
        different sizes turn against each other, the error says so. Distances near 1 have an absolute error.
    """
    w, b = _checked(changes, shift)
    if not (w > -1).all():
        raise ValueError("changes must be greater than -1")
    size = max(float(np.linalg.norm(w)), float(np.linalg.norm(b)))
    if size < 1e-100:  # squares would underflow; TV <= max(norm of changes, norm of shift)
        most = float(np.abs(w).sum() + np.abs(b).sum())
        return Estimate(most / 2, most / 2)
    w, b, dropped = _without_dust(w, b, size)
    parts, phase = _grouped(w, b), float(np.log1p(w).sum()) / 2

    def exponent(t: ComplexArray) -> ComplexArray:
        z = 0.5 + 1j * t
        total = z * phase
        square = z * (1 - z) / 2
        for change, count, squares in parts:
            if change:
                total = total - count / 2 * _log1p(change * z)
            if squares:
                total = total - square * squares / (1 + change * z)
        return total

    far = w != 0
    centre = phase + float((b[far] ** 2 / w[far]).sum()) / 2
    found = _integrated(exponent, False, centre, min(1.0, size))
    value = min(1.0, max(0.0, found.value))
    return Estimate(value, min(1.0, found.error + dropped))


def local_rate(changes: ArrayLike, shift: ArrayLike) -> Estimate:
    """Limit of TV(N(0, I), N(s b, I + s diag(a))) / s as s falls to 0: half of E |sum of a (g^2 - 1) / 2 + b g|.

    Parameters
    ----------
    changes, shift : array_like, shape (d,)
        a and b.

    Returns
    -------
    Estimate
        The limit and its error. E |X| is 2 / pi times the integral over t > 0 of (1 - Re phi(t)) / t^2, taken along the
        same contour.
    """
    a, b = _checked(changes, shift)
    size = max(float(np.abs(a).max()), float(np.linalg.norm(b)))
    if size == 0:
        return Estimate(0.0, 0.0)
    total = max(float(np.linalg.norm(a)), float(np.linalg.norm(b))) / size
    a, b, dropped = _without_dust(a / size, b / size, 1.0)
    parts = _grouped(a, b)

    def exponent(t: ComplexArray) -> ComplexArray:
        total = np.zeros_like(t)
        for change, count, squares in parts:
            if change:
                total = total - count / 2 * (_log1p(-1j * change * t) + 1j * change * t)
            if squares:
                total = total - squares * t**2 / (2 * (1 - 1j * change * t))
        return total

    far = a != 0
    centre = -float(a.sum()) / 2 - float((b[far] ** 2 / a[far]).sum()) / 2
    found = _integrated(exponent, True, centre, total)
    return Estimate(found.value * size, (found.error + dropped) * size)


def _checked(changes: ArrayLike, shift: ArrayLike) -> tuple[FloatArray, FloatArray]:
    w, b = np.array(changes, dtype=float), np.array(shift, dtype=float)
    if w.ndim != 1 or w.shape != b.shape or not (np.isfinite(w).all() and np.isfinite(b).all()):
        raise ValueError(f"changes and shift must be finite, of one length, got {changes!r} and {shift!r}")
    return w, b


def _without_dust(w: FloatArray, b: FloatArray, size: float) -> tuple[FloatArray, FloatArray, float]:
    """Without coordinates that cannot matter; the error is theirs, as TV <= max(Frobenius norm, norm of the shift)."""
    small, little = np.abs(w) < NEGLIGIBLE * min(1.0, size), np.abs(b) < NEGLIGIBLE * min(1.0, size)
    lost = float(np.linalg.norm(w[small])) + float(np.linalg.norm(b[little]))
    w, b = np.where(small, 0.0, w), np.where(little, 0.0, b)
    kept = (w != 0) | (b != 0)
    return w[kept], b[kept], lost


def _log1p(v: ComplexArray) -> ComplexArray:
    """log(1 + v); numpy's own loses the digits of a small real part."""
    x, y = v.real, v.imag
    return np.asarray(np.log1p(x * (2 + x) + y * y) / 2 + 1j * np.arctan2(y, 1 + x))


def _grouped(w: FloatArray, b: FloatArray) -> list[tuple[float, int, float]]:
    """(change, how many coordinates have it, sum of their squared shifts); psi depends on nothing else."""
    values, inverse, counts = np.unique(w, return_inverse=True, return_counts=True)
    squares = np.bincount(inverse, weights=b**2, minlength=len(values))
    return list(zip(values.tolist(), counts.tolist(), squares.tolist(), strict=True))


def _integrated(exponent: Exponent, local: bool, centre: float, scale: float) -> Estimate:
    """(1 / pi) times the integral of weight (1 - psi), on the first contour that is good enough, or the best."""
    reach = REACH + math.log(1 + 1 / scale)
    side = 1.0 if centre >= 0 else -1.0
    best: Estimate | None = None
    for turn in (side * TURNS[0], side * TURNS[1], -side * TURNS[0], side * TURNS[2], -side * TURNS[1]):
        found = _along(exponent, local, turn, reach, scale)
        if best is None or found.error < best.error:
            best = found
        if best.error <= 2 * TOLERANCE * scale:
            break
    assert best is not None
    return best


def _mapped(u: ComplexArray) -> ComplexArray:
    return np.asarray(np.sinh(u) / 2, dtype=np.complex128)


def _weight(u: ComplexArray, local: bool) -> ComplexArray:
    """dt / (t^2 + 1/4) or dt / t^2 for t = sinh(u) / 2, times one half."""
    return np.asarray(np.cosh(u) / np.sinh(u) ** 2 if local else 1 / np.cosh(u))


def _along(exponent: Exponent, local: bool, turn: float, reach: float, scale: float) -> Estimate:
    """The integral along Im u = turn with its error bound."""
    step = reach / math.ceil(reach / 0.2)
    x = (np.arange(round(reach / step)) + 0.5) * step
    lines = np.asarray(x + 1j * turn * np.array([0.0, 1.0, 2.0])[:, None], dtype=np.complex128)
    weights = _weight(lines, local)
    exponents = exponent(_mapped(lines))
    with np.errstate(over="ignore"):
        sizes = np.exp(np.minimum(exponents.real, 600.0)) * np.abs(weights)
    tails = 4.2 * np.exp(-x) * np.exp(np.minimum(exponents[0].real, 0.0))
    ends = 2 * 4 * abs(turn) * sizes.max(axis=0) + tails
    last = int(np.argmin(ends))
    inside = np.abs(weights[[0, -1]] * np.expm1(_bounded(exponents[[0, -1]])))[:, : last + 1]
    outside = np.abs(weights[[0, -1]])[:, last + 1 :]
    edges = 2 * 2 * step * float(inside.sum() + outside.sum())
    h = min(0.1, 2 * math.pi * abs(turn) / math.log1p(2 * edges / (TOLERANCE * scale)))
    stop = float(x[last])
    n = max(1, math.ceil(stop / h))
    h = stop / n
    if n > POINTS or not math.isfinite(edges):
        return Estimate(0.5, 0.5 if not local else math.inf)
    n_all = max(n, math.ceil(reach / h))
    u = np.asarray((np.arange(n_all) + 0.5) * h + 1j * turn, dtype=np.complex128)
    terms = _weight(u, local)
    terms[:n] *= -np.expm1(_bounded(exponent(_mapped(u[:n]))))
    rest = 2 * math.exp(-n_all * h)  # of the constant 1, from the end of the sum on
    value = 2 / math.pi * (h * float(terms.real.sum()) + rest * math.cos(turn))
    # Sums, and log psi, whose parts are of the order min(1, scale t) before they cancel.
    rounding = 16 * EPS * (h * float(np.abs(terms).sum()) + min(1.0, scale) * reach) + 2 * rest
    discrete = edges / math.expm1(2 * math.pi * abs(turn) / h)
    return Estimate(value, (discrete + float(ends[last]) + rounding) / math.pi)


def _bounded(exponents: ComplexArray) -> ComplexArray:
    return np.minimum(exponents.real, 600.0) + 1j * exponents.imag

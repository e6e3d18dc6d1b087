"""A trial of a user's own transformation on public numbers, before anything is spent."""

from __future__ import annotations

import numpy as np

from pm_dpgmm._arguments import FloatArray, shown
from pm_dpgmm.records.transformation import Transformation, values_of

N_POINTS = 65
WITHOUT_BOUNDS = 4.0  # transformed units about 0 that are tried where there are no bounds
BEYOND = 0.25  # of the width, beyond the bounds: components have tails there
STEP = 1e-4  # of the width, for slopes
EXACT, SLOPE = 1e-6, 1e-2  # relative errors that pass


def try_transformation(made: Transformation, limits: FloatArray | None, *, name: str) -> None:
    """Raise ValueError unless the functions are what they must be on a public grid.

    Parameters
    ----------
    made : Transformation
        With functions of the user's own.
    limits : ndarray, shape (2,), optional
        Public bounds of the column, in its unit.
    name : str
        What to call it in messages.
    """
    try:
        with np.errstate(all="ignore"):
            _try(made, limits, name)
    except ValueError:
        raise
    except Exception as error:  # a function of somebody's own may raise anything
        raise ValueError(
            f"{name} must have functions of arrays of numbers, got {type(error).__name__}: {error}"
        ) from None


def _try(made: Transformation, limits: FloatArray | None, name: str) -> None:
    if limits is None:
        x = values_of(made.inverse, np.linspace(-WITHOUT_BOUNDS, WITHOUT_BOUNDS, N_POINTS))
        x = np.clip(x, *made.domain)
    else:
        low, high = np.clip(limits, *made.domain).tolist()
        x = np.linspace(low, high, N_POINTS)
    y = values_of(made.forward, x)
    _demand(np.isfinite(y).all(), name, "finite numbers on public bounds and domain", y[~np.isfinite(y)], of=x)
    _demand((np.diff(y) > 0).all(), name, "a forward that increases", y)
    _same(values_of(made.inverse, y), x, x[-1] - x[0], name, "inverse(forward(x)) equal to x")
    width = float(y[-1] - y[0])
    wide = np.linspace(y[0] - BEYOND * width, y[-1] + BEYOND * width, N_POINTS)
    back = values_of(made.forward, values_of(made.inverse, wide))
    _same(back, wide, width, name, "forward(inverse(y)) equal to y, also beyond the bounds, for all numbers y")
    _check_slopes(made, np.linspace(y[0], y[-1], N_POINTS)[1:-1], STEP * width, name)
    _check_alone(made, x, y, name)


def _check_slopes(made: Transformation, y: FloatArray, step: float, name: str) -> None:
    rises = values_of(made.inverse, y + step) - values_of(made.inverse, y - step)
    told = values_of(made.log_jacobian, values_of(made.inverse, y))
    error = np.abs(told - np.log(2 * step / rises))
    good = error <= SLOPE
    _demand(good.all(), name, "a log_jacobian that is the log of the derivative of forward, at x", told[~good])


def _check_alone(made: Transformation, x: FloatArray, y: FloatArray, name: str) -> None:
    """The same bits wherever a number stands and whatever is beside it."""
    rule = "a forward that treats every entry by itself, to the last bit, and twice alike"
    places = np.random.default_rng(1).permutation(len(x))
    whole = np.arange(len(x))
    for order in (whole, places, whole[1:], whole[::3], *(whole[i : i + 1] for i in range(7))):
        _demand(np.array_equal(values_of(made.forward, x[order]), y[order]), name, rule, "another value elsewhere")


def _same(found: FloatArray, wanted: FloatArray, width: float, name: str, rule: str) -> None:
    near = np.abs(found - wanted) <= EXACT * (abs(width) + np.abs(wanted))
    if not near.all():
        i = int(np.argmin(near))
        raise ValueError(f"{name} must have {rule}, got {found[i]:g} for {wanted[i]:g}")


def _demand(holds: bool | np.bool_, name: str, rule: str, got: object, *, of: object = None) -> None:
    if not holds:
        first = got.ravel()[:1].tolist() if isinstance(got, np.ndarray) else got
        raise ValueError(f"{name} must have {rule}, got {shown(first)}")

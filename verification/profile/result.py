"""A privacy profile with its confidence band."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verification._arguments import check_delta, check_real, shown
from verification.auditing.bisection import bracket
from verification.auditing.result import in_words
from verification.auditing.rounding import exactly, rounded_down, rounded_up
from verification.profile.band import odds_of
from verification.profile.points import delta_bound, epsilon_bound
from verification.profile.ratio_calibration import Calibration

FloatArray = NDArray[np.float64]
DIRECTIONS = ("x against x_neighbour", "x_neighbour against x")
STEPS = 80  # of a bisection


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredProfile:
    """delta as a function of epsilon for one pair of data sets, with a band that holds at every epsilon at once.

    The profile of the pair is the larger one of the two directions. Everything here relies on exact log densities:
    read ``calibration`` first. Rows of arrays are directions, x against x_neighbour first; epsilon and delta have no
    unit.
    """

    epsilons: FloatArray  # (k,), ascending from 0, finite: where bounds were computed
    estimate: FloatArray  # (2, k), delta, no guarantee
    upper: FloatArray  # (2, k), delta; straight lines in exp(epsilon) between them
    lines: FloatArray  # (2, k - 1, 2), lower bounds of delta at both ends of each interval, straight between them
    lower_at_infinity: FloatArray  # (2,), lower bound of delta at every epsilon
    log_ratio: FloatArray  # (n_samples,), ln(density on x / density on x_neighbour) of each run
    n_samples: int  # runs of the mechanism, both data sets together
    n_pilot: int  # the first of them, which chose grids and first stakes
    false_alarm: float  # of the band, over both directions, both sides and every epsilon
    calibration: Calibration  # the test of the densities
    notes: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in ("epsilons", "estimate", "upper", "lines", "lower_at_infinity", "log_ratio"):
            array = np.array(getattr(self, name), dtype=float)
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def band(self, epsilon: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of delta by direction, each of shape (2, \\*shape of ``epsilon``)."""
        epsilon = _epsilons(epsilon)
        low = np.stack([self._lower(i, epsilon) for i in (0, 1)])
        odds, knots = odds_of(epsilon), odds_of(self.epsilons)
        high = np.stack([np.interp(odds, knots, np.minimum.accumulate(row)) for row in self.upper])
        return low, high

    def delta_lower(self, epsilon: ArrayLike) -> FloatArray:
        """Lower bound of the pair's delta, shape of ``epsilon``; infinity is allowed. Part of the band."""
        return np.asarray(self.band(epsilon)[0].max(axis=0))

    def delta_upper(self, epsilon: ArrayLike) -> FloatArray:
        """Upper bound of the delta of this pair, shape of ``epsilon``. Part of the band; other pairs may be worse."""
        return np.asarray(self.band(epsilon)[1].max(axis=0))

    def epsilon_lower(self, delta: float) -> float:
        """Lower bound of the pair's epsilon at ``delta``, from the band; good for every ``delta`` at once."""
        check_delta(delta)
        if delta == 0:  # a ratio that was seen has density
            return epsilon_bound(self.log_ratio, delta=0.0, error=self.false_alarm, pilot=self.n_pilot)
        if self.lower_at_infinity.max() > delta:
            return math.inf
        return _last(lambda epsilon: float(self.delta_lower(epsilon)) > delta, float(self.epsilons[-1]))[0]

    def epsilon_upper(self, delta: float) -> float:
        """Upper bound of the epsilon of this pair at ``delta``, from the band; other pairs may be worse.

        Infinite where the band does not come down to ``delta``.
        """
        check_delta(delta)
        if self.upper.min(axis=1).max() > delta:
            return math.inf
        return _last(lambda epsilon: float(self.delta_upper(epsilon)) > delta, float(self.epsilons[-1]))[1]

    def epsilon_bound_at(self, delta: float) -> float:
        """Lower bound of the pair's epsilon at one ``delta`` chosen beforehand, wrong with probability ``false_alarm``.

        Tighter than `epsilon_lower`, because the error probability is not shared with other points, and because both
        directions go into one test. It is shared with no other call: two calls err with twice the probability.
        """
        check_delta(delta)
        return epsilon_bound(self.log_ratio, delta=float(delta), error=self.false_alarm, pilot=self.n_pilot)

    def delta_bound_at(self, epsilon: float) -> float:
        """Lower bound of the pair's delta at one ``epsilon`` chosen beforehand; see `epsilon_bound_at`."""
        value = float(_epsilons(_real("epsilon", epsilon)))
        return delta_bound(self.log_ratio, epsilon=value, error=self.false_alarm, pilot=self.n_pilot)

    def as_dict(self) -> dict[str, Any]:
        """Every field but ``log_ratio`` as plain JSON types."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in ("log_ratio", "calibration")}
        plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in plain.items()}
        return plain | {"notes": list(self.notes), "calibration": self.calibration.as_dict()}

    def __str__(self) -> str:
        points = [f"{self.epsilons[i]:.3g}" for i in np.unique(np.linspace(0, self.epsilons.size - 1, 5).astype(int))]
        bands = [(point, *self.band(float(point))) for point in points]  # at the epsilon that is printed
        band = "; ".join(
            f"delta({point}) in [{rounded_down(low.max())}, {rounded_up(high.max())}]" for point, low, high in bands
        )
        notes = in_words(self.notes)
        sound = (
            f"privacy profile of this pair from {self.n_samples:,} runs (error probability {exactly(self.false_alarm)})"
        )
        if not self.calibration.passed:
            return f"{self.calibration}: this profile says nothing; {sound}: {band}{notes}"
        return f"{sound}: {band}; {self.calibration}{notes}"

    def plot(self, ax: Any = None, *, claim: Callable[[FloatArray], ArrayLike] | None = None) -> Any:
        """Draw the bands of both directions, and a claimed curve delta(epsilon); return the matplotlib axes."""
        import matplotlib.pyplot as plt

        from verification.auditing.pictures import ink

        if ax is None:
            ax = plt.subplots()[1]
        epsilon = np.unique(np.concatenate([np.linspace(0, self.epsilons[-1], 400), self.epsilons]))
        low, high = self.band(epsilon)
        for i, name in enumerate(DIRECTIONS):
            ax.fill_between(epsilon, low[i], high[i], alpha=0.35, color=f"C{i}", label=name)
            ax.plot(self.epsilons, self.estimate[i], ".", markersize=3, color=f"C{i}")
        if claim is not None:
            ax.plot(epsilon, claim(epsilon), color=ink(ax), linestyle="--", linewidth=1, label="claim")
        floor = high[high > 0]
        ax.set_yscale("log")
        ax.set_ylim(float(floor.min()) / 3 if floor.size else 1e-6, 1.1)
        ax.set_xlabel("epsilon")
        ax.set_ylabel("delta")
        ax.set_title("privacy profile" if self.calibration.passed else "densities look wrong: says nothing")
        ax.legend()
        return ax

    def _lower(self, direction: int, epsilon: FloatArray) -> FloatArray:
        """The lines, and the largest bound further on: a profile does not rise."""
        lines, knots, odds = self.lines[direction], odds_of(self.epsilons), odds_of(epsilon)
        value = np.full(epsilon.shape, self.lower_at_infinity[direction])
        if not len(lines):
            return value
        later = np.append(np.maximum.accumulate(lines.max(axis=1)[::-1])[::-1], 0.0)
        for side in ("left", "right"):  # a grid point is the end of one line and the start of the next
            i = np.searchsorted(self.epsilons, epsilon, side=side) - 1
            j = np.clip(i, 0, len(lines) - 1)
            part = (np.clip(odds, knots[j], knots[j + 1]) - knots[j]) / (knots[j + 1] - knots[j])
            line = np.maximum(lines[j, 0] + part * (lines[j, 1] - lines[j, 0]), lines[j, 1])
            inside = (epsilon >= self.epsilons[j]) & (epsilon <= self.epsilons[j + 1])
            value = np.where(inside, np.maximum(value, np.maximum(line, later[j + 1])), value)
        return value


def _last(above: Callable[[float], bool], end: float) -> tuple[float, float]:
    """Two numbers around the place where a falling function on [0, ``end``] is no longer above."""
    if not above(0.0):
        return 0.0, 0.0
    if above(end):
        return end, math.inf
    return bracket(above, 0.0, end, steps=STEPS)


def _real(name: str, value: Any) -> float:
    if not (isinstance(value, float) and value == math.inf):
        check_real(name, value, -math.ulp(0.0), math.inf, rule="be at least 0")
    return float(value)


def _epsilons(epsilon: ArrayLike) -> FloatArray:
    values = np.asarray(epsilon)
    if values.dtype.kind not in "iuf":
        raise TypeError(f"epsilon must be numbers, got {shown(epsilon)} of dtype {values.dtype}")
    if not np.all(values >= 0):
        raise ValueError(f"epsilon must be at least 0, got {shown(epsilon)}")
    return values.astype(float)

"""Coverage of credible intervals over replications, with its Monte Carlo error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FloatArray = NDArray[np.float64]

LEVEL = 0.9  # of the intervals: equal tails
RANGE = (0.86, 0.94)  # in which their coverage must lie
FALSE_ALARM = 0.01  # that some row is taken to lie outside, where all lie within: 200 runs of each scatter by .021
HEADING = f"{'study':<34} {'parameter':<14} {'runs':>5} {'aware':>6} {'s.e.':>5} {'naive':>6} {'width':>6}"


@dataclass(frozen=True, slots=True)
class Row:
    """Coverage of one parameter in one study."""

    study: str
    parameter: str
    n_replications: int
    coverage: float  # of the noise-aware 90 % intervals
    naive: float  # of those that take the release for exact, or for data without noise
    width: float  # median width of the aware interval over that of the posterior from the records themselves

    @property
    def standard_error(self) -> float:
        """Monte Carlo standard error of ``coverage`` if it is LEVEL."""
        return math.sqrt(LEVEL * (1 - LEVEL) / self.n_replications)

    @property
    def missed(self) -> bool:
        """Whether the coverage lies outside ``RANGE``."""
        return not RANGE[0] <= self.coverage <= RANGE[1]

    @property
    def p_value(self) -> float:
        """Of a coverage within ``RANGE``: at most c with probability at most c, if it is."""
        covered = round(self.coverage * self.n_replications)
        low, high = (stats.binom(self.n_replications, end) for end in RANGE)
        return min(1.0, 2 * float(min(low.cdf(covered), high.sf(covered - 1))))

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self) | {"standard_error": self.standard_error, "missed": self.missed, "p_value": self.p_value}

    def __str__(self) -> str:
        return (
            f"{self.study:<34} {self.parameter:<14} {self.n_replications:>5} {self.coverage:>6.3f}"
            f" {self.standard_error:>5.3f} {self.naive:>6.3f} {self.width:>6.2f}{'  missed' if self.missed else ''}"
        )


def beyond_chance(found: Sequence[Row]) -> list[Row]:
    """Rows whose coverage lies outside ``RANGE``; one or more of right ones with probability at most FALSE_ALARM."""
    return [row for row in found if row.p_value <= FALSE_ALARM / len(found)]


def rows(
    study: str,
    names: Sequence[str],
    truths: FloatArray,
    draws: Mapping[str, FloatArray],
) -> list[Row]:
    """One row per parameter.

    Parameters
    ----------
    names : sequence of str, length P
    truths : ndarray, shape (R, P)
        What the records of each replication were drawn from.
    draws : mapping of str to ndarray, shape (R, S, P)
        Posterior draws: "aware", "naive" and "records" (the posterior from the records without any noise). The naive
        ones may be of the first replications alone.
    """
    ends = {name: np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1) for name, values in draws.items()}
    covered = {
        name: ((low <= truths[: len(low)]) & (truths[: len(low)] <= high)).mean(axis=0)
        for name, (low, high) in ends.items()
    }
    widths = {name: np.median(high - low, axis=0) for name, (low, high) in ends.items()}
    return [
        Row(
            study=study,
            parameter=parameter,
            n_replications=len(truths),
            coverage=float(covered["aware"][j]),
            naive=float(covered["naive"][j]),
            width=float(widths["aware"][j] / widths["records"][j]),
        )
        for j, parameter in enumerate(names)
    ]

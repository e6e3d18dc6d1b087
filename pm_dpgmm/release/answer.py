"""The private answer of a learner that says numbers and no mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from pm_dpgmm._arguments import FloatArray, check_flag, check_probability, frozen, printable
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.methods.released import Released
from pm_dpgmm.privacy.guarantee import NOT_PRIVATE

SHOWN = 10  # numbers in a summary


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a :class:`pm_dpgmm.VectorLearner` would say of all records, and the law of the error.

    Attributes
    ----------
    names : tuple of str
    values : ndarray, shape (p,)
        In the units of the learner.
    covariance : ndarray, shape (p, p)
        Of the errors: noise, and the sampling error that the learner has on simulated records of the released mixture.
        A variance is infinite where the learner said the same number of all of these, so that nothing was averaged, or
        where the number hangs on how many records there are.
    private : bool
        False if the release is not, because its noise came from a seed.
    flag : str or None
        What speaks against the release, as it says itself: the errors may then be too small.
    """

    names: tuple[str, ...]
    values: FloatArray
    covariance: FloatArray
    private: bool = True
    flag: str | None = None
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        check_flag(private=self.private)
        object.__setattr__(self, "values", frozen(self.values))
        object.__setattr__(self, "covariance", frozen(self.covariance))

    @property
    def errors(self) -> FloatArray:
        """Standard errors, shape (p,)."""
        return np.sqrt(np.diagonal(self.covariance))

    def intervals(self, probability: float = 0.9) -> FloatArray:
        """Intervals that hold each number with this probability, but for the bias of small subsets, shape (p, 2).

        It is taken off as far as records simulated from the released mixture show it, which a tail quantile of skewed
        records is not.
        """
        check_probability(probability=probability)
        reach = norm.isf((1 - probability) / 2) * self.errors
        return np.column_stack([self.values - reach, self.values + reach])

    def to_frame(self, probability: float = 0.9) -> Any:
        """Values, standard errors and intervals as a data frame, one row for each number."""
        import pandas as pd

        low, high = self.intervals(probability).T
        columns = {"value": self.values, "error": self.errors, "low": low, "high": high}
        return pd.DataFrame(columns, index=pd.Index(self.names, name="number"))

    @property
    def told(self) -> str:
        """The first numbers with their standard errors, alone."""
        rows = self._rows()
        more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
        return f"Answer: {', '.join(rows[:SHOWN])}{more}"

    def summary(self) -> str:
        """The first numbers with their standard errors, in one line, and what speaks against them."""
        return "; ".join([self.told, *self._marks()])

    def __repr__(self) -> str:
        return f"Answer({', '.join([*self._rows(), *self._marks()])})"

    def _marks(self) -> list[str]:
        return ([] if self.private else [NOT_PRIVATE]) + ([f"WARNING: {self.flag}"] if self.flag else [])

    def _rows(self) -> list[str]:
        numbers = zip(self.names, self.values.tolist(), self.errors.tolist(), strict=True)
        return [f"{printable(name)} {value:.6g} ± {error:.2g}" for name, value, error in numbers]


def _unknown(covariance: FloatArray) -> FloatArray:
    """A variance of 0 stands for a number that never differed in simulation: nothing is known of its error."""
    variances = np.diagonal(covariance)
    return covariance + np.diag(np.where(variances == 0, np.inf, 0.0))


def answer_of(release: Released) -> Answer:
    """See :attr:`pm_dpgmm.Release.answer`."""
    if "answer" not in release.raw:
        why = dict(release.noise.get("average") or {}).get("why")
        if why is not None:
            raise ValueError(f"answer is of a release that has one, got one without an average: {why}")
        raise ValueError(
            "answer is of a release that method 'aggregate' made with a VectorLearner, got one of"
            f" {release.statistic.of_method(release.method)}"
        )
    names = tuple(release.noise["average"]["names"])
    covariance = _unknown(release.raw["answer_covariance"])
    return Answer(names, release.raw["answer"], covariance, private=release.private, flag=release.flag)

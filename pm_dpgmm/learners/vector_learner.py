"""A learner whose answer is a vector of numbers that the user names, and no mixture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_masks, check_text, shown, unmasked
from pm_dpgmm.records.feature_names import axis_labels

LONGEST_ANSWER = 1000  # numbers; the covariance of their errors, in a file, is then 26 megabytes
LONGEST_NAME = 200  # characters
LARGEST = 1e100  # of an answer's numbers, whose squares must be numbers


@dataclass(frozen=True, slots=True)
class VectorLearner:
    """Anything that can be computed from some rows: medians, a regression line, the odds of an event.

    For ``fit_gmm(method="aggregate")``, which makes it private: ``release.answer`` is then the mean of what the
    function says of many small parts of the records, with noise, and without the bias of small parts as far as
    simulation shows it. A number has to mean the same of few rows and of many: a share, and no count, sum or test
    statistic, whose error would be inf, with a warning. A warning also names numbers that hang on rows far from all
    components, as means and deviations do: give bounds near the records, or ask for medians, quantiles or shares.

    Parameters
    ----------
    function : callable
        From rows (M, D) to as many finite numbers as there are names, none beyond 1e100, in their order or labelled
        with them (a Series); to be forked and pickled like any learner, see :func:`pm_dpgmm.fit_gmm`. The rows are in
        the unit of the records, those of columns with ``transform`` are mapped: a median of logarithms is one of
        logarithms.
    names : sequence of str
        Of the numbers, all different; their units are those of the function's answer.

    Examples
    --------
    >>> line = VectorLearner(lambda rows: np.polyfit(rows[:, 0], rows[:, 1], 1), names=("slope", "intercept"))
    >>> line(np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 5.0]])).round(9).tolist()
    [2.0, 1.0]
    """

    function: Callable[[FloatArray], Any]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function must be callable, got {shown(self.function)}")
        if isinstance(self.names, str) or not hasattr(self.names, "__iter__"):
            raise TypeError(f"names must be a sequence of texts, got {shown(self.names)}")
        object.__setattr__(self, "names", tuple(self.names))
        for i, name in enumerate(self.names):
            check_text(longest=LONGEST_NAME, **{f"names[{i}]": name})
        if not 1 <= len(self.names) <= LONGEST_ANSWER or len(set(self.names)) < len(self.names):
            raise ValueError(f"names must be 1 to {LONGEST_ANSWER} different texts, got {shown(self.names)}")

    def __call__(self, rows: FloatArray) -> FloatArray:
        """The function's answer, shape (p,); ValueError unless it is a number within LARGEST for each name."""
        said = in_order(self.function(rows), self.names)
        check_masks(said, name="the function's answer")
        given = np.asarray(unmasked(said))
        if given.dtype.kind not in "biuf":
            raise TypeError(f"function must return real numbers, got {shown(given)}")
        answer = np.array(given, dtype=float)
        if answer.shape != (len(self.names),) or not (np.abs(answer) <= LARGEST).all():
            wanted = f"{len(self.names)} finite numbers within {LARGEST:.0e}"
            raise ValueError(f"function must return {wanted}, got {shown(answer)}")
        return answer


def in_order(said: Any, names: tuple[str, ...]) -> Any:
    """What a function said, a pandas Series or an xarray DataArray of one dimension in the order of ``names``.

    Labels that are no texts, such as places, say nothing of the order. ValueError if texts are other than the names.
    """
    labels = axis_labels(said, 0, names) if getattr(said, "ndim", 0) == 1 else None
    if labels is None:
        return said
    if sorted(labels) != sorted(names):
        raise ValueError(f"function must label its numbers with the names {shown(list(names))}, got {shown(labels)}")
    return np.asarray(said)[[labels.index(name) for name in names]]

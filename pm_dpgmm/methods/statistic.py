"""The kinds of noisy statistics that a release may hold: the key of every table of what can be done with one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Statistic(StrEnum):
    """What the numbers in ``release.raw`` are.

    Each layer has one table with a row for every kind: what they must be like
    (:mod:`pm_dpgmm.methods.released_statistics`), their likelihood (:mod:`pm_dpgmm.bayes.likelihoods.observe`), the law
    of the errors of a mixture fitted to them (:mod:`pm_dpgmm.bayes.parameters.anchor_laws`), and what they allow at no
    cost (:mod:`pm_dpgmm.release.by_statistic`).
    """

    SKETCH = "sketch"  # sums of waves over the records
    GRID_COUNTS = "counts"  # of records in the cells of a grid
    SLICE_COUNTS = "slice counts"  # of records in slices along several directions
    LIFTED_MASK = "lifted-mask"  # parameters of an average of fits, masked together
    MASK = "mask"  # parameters of one fit, masked
    AVERAGE = "average of fits"  # around a released mixture, as offsets from it
    EM_SUMS = "EM sums"  # of the steps of an EM
    CLUSTER_SUMS = "cluster sums"  # of the steps of k-means, which is a setting of EM
    CELL_SUMS = "cell sums"  # counts, sums and squares of cells, as Bernstein polynomials
    BIN_COUNTS = "counts of bins"  # of unequal widths, found by gaps between records
    LOCAL_RESPONSES = "local responses"  # of every record by itself
    UNKNOWN = "unknown"  # none, or those of a method that this version does not know

    @classmethod
    def of(cls, method: str, noise: Mapping[str, Any]) -> Statistic:
        """The kind that a release of ``method`` holds by its public noise law: what it says itself comes first."""
        if "sketches" in noise:
            return cls.SKETCH
        law = noise.get("law")
        if isinstance(law, str) and law in (cls.MASK, cls.LIFTED_MASK):
            return cls(law)
        found = OF_METHOD.get(method, cls.UNKNOWN) if isinstance(method, str) else cls.UNKNOWN  # a file says anything
        if found is cls.EM_SUMS and noise.get("statistic") == cls.CLUSTER_SUMS.value:
            return cls.CLUSTER_SUMS
        return cls.UNKNOWN if found is cls.SKETCH else found

    def of_method(self, method: str) -> str:
        """How an error names a release: of "two-phase", a refused sketch leaves the crude release alone."""
        if self is Statistic.CLUSTER_SUMS:
            return f"method {method!r} with estimate 'k-means'"
        crude = self is Statistic.UNKNOWN and OF_METHOD.get(method) is Statistic.SKETCH
        return f"method {method!r} with its crude release alone" if crude else f"method {method!r}"

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods that release it."""
        return tuple(method for method, statistic in OF_METHOD.items() if statistic is self)


OF_METHOD = {
    "sketch": Statistic.SKETCH,
    "two-phase": Statistic.SKETCH,
    "histogram": Statistic.GRID_COUNTS,
    "slices": Statistic.SLICE_COUNTS,
    "populous": Statistic.LIFTED_MASK,
    "populous-single": Statistic.MASK,
    "aggregate": Statistic.AVERAGE,
    "em": Statistic.EM_SUMS,
    "central": Statistic.CELL_SUMS,
    "local": Statistic.LOCAL_RESPONSES,
    "gaps": Statistic.BIN_COUNTS,
}

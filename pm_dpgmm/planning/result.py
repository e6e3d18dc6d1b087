"""What a plan says: simulated errors and a verdict, in a form that is read in a minute."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.fit import METHODS
from pm_dpgmm.methods.populous.method import Populous
from pm_dpgmm.notebook_html import alarm, box, paragraph, table
from pm_dpgmm.planning.agreement import Agreement, words_without_settings


@dataclass(frozen=True, slots=True)
class Trial:
    """One simulated fit; errors are infinite where the method refused."""

    refused: bool
    gap: float  # log-density per record lost against the truth, nats
    total_variation: float  # from the truth
    weights: float  # largest error of a weight
    means: float  # largest error of a mean, Mahalanobis distance in the component
    log_deviations: float  # largest error of a log standard deviation, over all directions
    misfit: float | None  # as the release has it; None where the method has none, or refused
    seconds: float
    __reduce__ = by_constructor


@dataclass(frozen=True, slots=True)
class Plan:
    """What a number of records and a budget will buy, from simulations on public mixtures.

    Attributes
    ----------
    n_records, n_features, n_components : int
    epsilon, delta : float
    method : str
        The one that ran.
    bounds : bool
        Whether the fits were given bounds.
    neighbouring : str
    separation : float
        Of the nearest two components, in standard deviations.
    weights : tuple of float
    error : float
        Log-density per record that may be lost at most, in nats.
    trials : tuple of Trial
    predicted : float or None
        What the information in the released numbers promises for the median of ``gap`` if the search finds the
        components; None where the method is not "sketch" or refused every time.
    settings : Populous or None
        Of method "populous", made of public facts alone: ``fit_gmm(X, k, method=plan.settings, ...)`` with the learner
        of the plan does what was simulated. None for other methods.
    agreement : Agreement or None
        How well the fits of the learner agreed; None for other methods, and where there is ``fewest``.
    fewest : int or None
        Where no settings of method "populous" could pass, so that nothing was simulated: about the fewest records for
        which there are some.
    """

    n_records: int
    n_features: int
    n_components: int
    epsilon: float
    delta: float
    method: str
    bounds: bool
    neighbouring: str
    separation: float
    weights: tuple[float, ...]
    error: float
    trials: tuple[Trial, ...]
    predicted: float | None
    settings: Populous | None = None
    agreement: Agreement | None = None
    fewest: int | None = None
    __reduce__ = by_constructor

    @property
    def gap(self) -> float:
        """Expected error: median over the simulations of the log-density lost per record, in nats.

        For "populous", whose refusals the pass probability counts, over the simulations that passed.
        """
        return float(np.median(self._gaps))

    @property
    def worst_gap(self) -> float:
        """The same in the worst simulation."""
        return max(self._gaps)

    @property
    def gap_without_privacy(self) -> float:
        """What sampling alone costs a fit without privacy, to first order: parameters over 2 n."""
        d, k = self.n_features, self.n_components
        return (k - 1 + k * d + k * d * (d + 1) / 2) / (2 * self.n_records)

    @property
    def failure_share(self) -> float:
        """Share of the simulations that refused or lost more than ``error``; 1 if there are none."""
        return (self._refused + self._lost) / len(self.trials) if self.trials else 1.0

    @property
    def enough(self) -> bool:
        """Whether no simulation failed; for "populous", whether a pass is likely and none that passed failed."""
        if self.agreement is not None:
            return self.agreement.likely and self._refused < len(self.trials) and self._lost == 0
        return self.fewest is None and self._refused + self._lost == 0

    @property
    def reason(self) -> str:
        """Why it is enough or not, in a sentence, and what to change where that is known."""
        m, wanted = len(self.trials), f"at most {self.error:g} wanted"
        if self.fewest is not None:
            assert self.settings is not None
            return words_without_settings(self.fewest, self.settings)
        if self.agreement is not None and not self.agreement.likely:
            return f"n is too small for this learner: {self.agreement.words}"
        if self.enough:
            found = (
                f"expected error {self.gap:.2g} nats per record, {self.worst_gap:.2g} in the worst of {m} simulations"
            )
            if self.agreement is not None:
                found = f"a run passes with probability {self.agreement.probability:.2g}; {found}"
            return f"{self.n_records:,} records are enough: {found}, {wanted}"
        if self.agreement is not None and self._refused == m:
            return "the simulations say too little: passes were likely, but by chance there was none; simulate more"
        if self._refused and self.agreement is None:
            return f"n is too small: the method refused in {self._refused} of {m} simulations; {self._remedy}"
        if self.gap_without_privacy > self.error:
            found = f"even a fit without privacy would lose {self.gap_without_privacy:.2g} nats per record, {wanted}"
            return f"n is too small for so many parameters: {found}; take fewer columns or components"
        if self.gap > self.error:
            return f"n is too small: expected error {self.gap:.2g} nats per record, {wanted}; {self._remedy}"
        found = f"{self._lost} of {m} simulations lost more, {self.worst_gap:.2g} at worst"
        return (
            f"n may be too small: expected error {self.gap:.2g} nats per record, {wanted}, but {found}; {self._remedy}"
        )

    @property
    def _remedy(self) -> str:
        takes_them = not self.bounds and METHODS[self.method].takes_bounds
        bounds = ", bounds from public knowledge" if takes_them else ""
        return f"fewer columns or components{bounds} or a larger epsilon need fewer records"

    @property
    def _gaps(self) -> list[float]:
        gaps = [trial.gap for trial in self.trials if not (trial.refused and self.agreement is not None)]
        return gaps or [math.inf]

    @property
    def _refused(self) -> int:
        return sum(trial.refused for trial in self.trials)

    @property
    def _lost(self) -> int:
        return sum(not trial.refused and not trial.gap <= self.error for trial in self.trials)

    def table(self) -> str:
        """Everything as text."""
        lines = [
            f"Plan for {self.n_records:,} records, {_number(self.n_features, 'feature')},"
            f" {_number(self.n_components, 'component')}, {self.budget} ({self.neighbouring}):"
            f" method {self.method!r}, {'with' if self.bounds else 'without'} bounds",
            f"Simulated: {_number(len(self.trials), 'public data set')}, nearest components {self.separation:g}"
            f" standard deviations apart, weights {' '.join(f'{w:.2g}' for w in self.weights)}",
            "",
        ]
        if self.fewest is not None:
            return "\n".join([*lines, self._verdict])
        lines.append(f"{'':52}{'median':>9}{'worst':>9}")
        lines += [f"{words:52}{middle:>9}{worst:>9}" for words, middle, worst in self._rows()]
        if self.agreement is not None:
            lines += self.agreement.lines
        return "\n".join([*lines, "", self._verdict])

    def _rows(self) -> list[tuple[str, str, str]]:
        """Names of errors, their medians over the simulations, and the worst of them."""
        rows: list[tuple[str, Callable[[Trial], float]]] = [
            ("log-density lost per record, nats", lambda trial: trial.gap),
            ("total variation from the truth", lambda trial: trial.total_variation),
            ("weights: largest error", lambda trial: trial.weights),
            ("means: largest error, in component deviations", lambda trial: trial.means),
            ("log standard deviations: largest error", lambda trial: trial.log_deviations),
            (
                "misfit of fits (right mixtures: below about 5)",
                lambda trial: math.nan if trial.misfit is None else trial.misfit,
            ),
            ("seconds for one fit", lambda trial: trial.seconds),
        ]
        told = []
        for words, value in rows:
            values = [value(trial) for trial in self.trials]
            if not np.isnan(values).all():
                told.append((words, _shown(float(np.nanmedian(values))), _shown(float(np.nanmax(values)))))
        told.append(("lost without privacy, about", _shown(self.gap_without_privacy), ""))
        if self.predicted is not None:
            told.append(("lost if the search succeeds, predicted", _shown(self.predicted), ""))
        return told

    @property
    def budget(self) -> str:
        """Epsilon and delta in words."""
        return f"epsilon {self.epsilon:g}" + (f", delta {self.delta:g}" if self.delta else "")

    def plot(self, ax: Any = None) -> Any:
        """Error of every simulation beside what is wanted: :func:`pm_dpgmm.plot_plans` of this plan alone.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure when None.

        Returns
        -------
        matplotlib axes
        """
        from pm_dpgmm.planning.plots import plot_plans

        return plot_plans([self], ax=ax)

    def _repr_html_(self) -> str:
        """What notebooks show: the verdict, then the errors."""
        title = f"Plan: {self.n_records:,} records, {_number(self.n_features, 'column')}"
        title += f", {_number(self.n_components, 'component')}, {self.budget}, method {self.method}"
        verdict = paragraph(self._verdict) if self.enough else alarm(self._verdict)
        rows = table(self._rows(), head=("", "median", "worst")) if self.trials else ""
        return box(title, verdict, rows)

    @property
    def _verdict(self) -> str:
        return f"{'ENOUGH' if self.enough else 'NOT ENOUGH'}: {self.reason}."

    def __repr__(self) -> str:
        return self.table()

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready form; null where a number is not finite."""
        fields: dict[str, Any] = asdict(self)
        if self.agreement is not None:
            for name in ("probability", "efficiency", "strays"):
                fields["agreement"][name] = getattr(self.agreement, name)
        fields |= {
            "gap": self.gap,
            "worst_gap": self.worst_gap,
            "gap_without_privacy": self.gap_without_privacy,
            "failure_share": self.failure_share,
            "enough": self.enough,
            "reason": self.reason,
        }
        return {name: _finite(value) for name, value in fields.items()}


def _shown(value: float) -> str:
    return "refused" if math.isinf(value) else f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

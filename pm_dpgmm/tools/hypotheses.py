"""Private choice among any list of densities. Proof: hypotheses.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_positive, check_probability, read_numbers, shown, unmasked
from pm_dpgmm.learners.quiet import unheard
from pm_dpgmm.mechanisms.hypothesis_selection import MOST_HYPOTHESES, check_selection, noisy_best, selection_scores
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.privacy.ledger import Ledger
from pm_dpgmm.privacy.noise import Rng
from pm_dpgmm.tools.spending import accounted, check_ledger_and_rng, spent

LogDensity = Callable[[Any], Any]  # of rows (N, D) or (N,): (N,), each a function of its own row


@dataclass(frozen=True, slots=True)
class Selected:
    """The place of the hypothesis that was chosen, and what that cost. Safe to publish."""

    index: int
    guarantee: Guarantee


def select_hypothesis(
    records: Any,
    log_densities: Sequence[LogDensity],
    draws: Sequence[Any],
    *,
    epsilon: float,
    accuracy: float = 0.05,
    slack: float = 1.0,
    neighbouring: str = "replace-one",
    ledger: Ledger | None = None,
    rng: Rng = None,
) -> Selected:
    """Choose privately which of several densities is nearest to the law of the records, in total variation.

    Parameters
    ----------
    records : array_like, shape (N,) or (N, D)
        In the unit of the densities. No bounds are needed.
    log_densities : sequence of M functions
        Each takes rows shaped as the records and gives their log densities (N,), up to nothing: hypotheses are
        compared. Minus infinity is fine; what is no number counts as minus infinity. Public, and the value of a row
        must not depend on other rows. Each is given rows of its own, and its answer is copied. What they print, log or
        warn of on the records is dropped.
    draws : sequence of M arrays
        Public draws from every hypothesis, such as 10,000 each, shaped as the records: they tell the probabilities of
        the sets on which two hypotheses are compared, to about 1/sqrt(2 n). A density must be finite on its own.
    epsilon : float
        Privacy cost; pure.
    accuracy, slack : float
        a and z: hypotheses closer than (2 + z) a are not told apart. With ``tools.records_needed(M, accuracy=a, ...)``
        records and one hypothesis within a of their law, the choice is within (3 + z) a but for a small probability.
    neighbouring : {"replace-one", "add-remove"}
    ledger : Ledger, optional
        Charged before the records are looked at.
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates, and the guarantee says NOT PRIVATE.

    Returns
    -------
    Selected

    Raises
    ------
    TypeError, ValueError
        On bad input, before anything is spent; an exception of a density ends the choice after it is charged.

    Guarantee
    ---------
    epsilon-DP (pure) under replace-one or add-remove neighbours, if no density raises on the records, or gives them
    something else than one number a row: that error tells of records and is for the curator alone. Proof:
    hypotheses.md. Source: Bun, Kamath, Steinke and Wu (2019), constants derived in this package.

    Examples
    --------
    >>> from scipy import stats
    >>> laws = [stats.norm(0, 1), stats.laplace(0, 1), stats.uniform(-3, 6)]
    >>> rng = np.random.default_rng(1)
    >>> draws = [law.rvs(20_000, random_state=rng) for law in laws]
    >>> records = stats.laplace(0, 1).rvs(3_000, random_state=rng)
    >>> select_hypothesis(records, [law.logpdf for law in laws], draws, epsilon=1.0, accuracy=0.03).index
    1
    """
    relation = Neighbouring.parse(neighbouring)
    check_positive(accuracy=accuracy, slack=slack)
    check_probability(accuracy=accuracy)
    check_selection(epsilon=epsilon)
    check_ledger_and_rng(ledger, rng)
    m = len(log_densities) if isinstance(log_densities, Sized) else 0
    if not 1 <= m <= MOST_HYPOTHESES or not all(map(callable, log_densities)):
        raise ValueError(f"log_densities must be 1 to {MOST_HYPOTHESES} functions, got {shown(log_densities)}")
    if not isinstance(draws, Iterable):
        raise TypeError(f"draws must be {m} arrays shaped as the records, got {shown(draws)}")
    rows = _rows(records, "records")
    public = [_rows(one, f"draws[{i}]") for i, one in enumerate(draws)]
    if len(public) != m or any(one.shape[1:] != rows.shape[1:] or not len(one) for one in public):
        raise ValueError(f"draws must be {m} arrays shaped as the records, got {[one.shape for one in public]}")
    own, other = _shares(log_densities, public, accuracy)
    guarantee = spent(
        epsilon, 0.0, relation, "private hypothesis selection (tools/hypotheses.md)", ledger=ledger, private=rng is None
    )
    with accounted(guarantee):
        with unheard():  # a warning would tell of a record
            logs = _logs(log_densities, rows)
            inside = np.array([(logs[j] > logs).sum(axis=1) for j in range(m)], dtype=np.int64)
        scores = selection_scores(inside, len(rows), own=own, other=other, accuracy=accuracy, slack=slack)
        return Selected(noisy_best(scores, epsilon=epsilon, rng=rng), guarantee)


def _rows(values: Any, name: str) -> FloatArray:
    rows = read_numbers(values, name)
    if rows.ndim not in (1, 2) or not np.isfinite(rows).all():
        raise ValueError(f"{name} must be finite numbers of shape (N,) or (N, D), got shape {rows.shape}")
    return rows


def _logs(log_densities: Sequence[LogDensity], rows: FloatArray) -> FloatArray:
    """Log densities (M, N); what is no number, or masked, counts as minus infinity."""
    # a density may write to the rows that it is given, and return the same memory at every call
    found = [np.array(unmasked(density(rows.copy())), dtype=float) for density in log_densities]
    for i, one in enumerate(found):
        if one.shape != (len(rows),):
            raise ValueError(f"log_densities[{i}] must give one number a row, got shape {one.shape}")
    return np.nan_to_num(np.array(found), nan=-np.inf, posinf=np.inf, neginf=-np.inf)


def _shares(
    log_densities: Sequence[LogDensity], draws: Sequence[FloatArray], accuracy: float
) -> tuple[FloatArray, FloatArray]:
    """Probabilities (M, M) of the set where j is larger than l, under j and under l: public.

    ValueError where a density has no number on more than a share ``accuracy`` of its own draws: it is not their law,
    and what cannot be told from any other is the best choice there is.
    """
    m = len(draws)
    own, other = np.zeros((m, m)), np.zeros((m, m))
    for i, rows in enumerate(draws):
        logs = _logs(log_densities, rows)
        without = int((~np.isfinite(logs[i])).sum())
        if without > accuracy * len(rows):
            rule = f"log_densities[{i}] must be finite on draws[{i}], which are of its law"
            raise ValueError(f"{rule}, got NaN, an infinity or a mask on {without} of {len(rows)}")
        own[i] = (logs[i] > logs).mean(axis=1)
        other[:, i] = (logs > logs[i]).mean(axis=1)
    return own, other

"""How each kind of statistic is fitted when the fit that released it was interrupted. Nothing more is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.aggregate.outcomes import INTERRUPTED, PARTS, averaged, background_in, without_average
from pm_dpgmm.methods.central import run as central
from pm_dpgmm.methods.counts import histogram, slices
from pm_dpgmm.methods.em import k_means, run as em
from pm_dpgmm.methods.gaps import method as gaps
from pm_dpgmm.methods.local import method as local
from pm_dpgmm.methods.outcome import AUTOMATIC, Outcome
from pm_dpgmm.methods.released_statistics import check_histogram, check_slices
from pm_dpgmm.methods.sketch import method as sketch
from pm_dpgmm.methods.sketch.checks.caveats import ONE_SKETCH
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Guarantee
from pm_dpgmm.release.number_of_components_from_responses import check_responses


@dataclass(frozen=True, slots=True, eq=False)
class Interrupted:
    """What an interrupted fit had released, and the numbers of components: those asked for then, and now."""

    guarantee: Guarantee
    raw: Mapping[str, FloatArray]
    law: Mapping[str, Any]
    n_features: int
    asked: tuple[int, ...]
    numbers: tuple[int, ...]
    n_records: int | None = None  # where it is public


def resumed_sketch(source: Interrupted) -> Outcome:
    """From the sketches there are, with the crude law of "two-phase" kept.

    A crude release alone is :func:`pm_dpgmm.release.checkpoint._crude_outcome`.
    """
    law = dict(source.law)
    kept = {name: law.pop(name) for name in ("crude", AUTOMATIC) if name in law}
    in_rounds = "duels" in law
    if source.numbers != source.asked and in_rounds:  # a duel was between mixtures of the numbers asked for
        law["duels"] = []
    found = sketch.fitted(source.guarantee, source.raw, law, source.numbers)
    found = replace(found, noise=dict(found.noise) | kept)
    return found.with_caveat(ONE_SKETCH) if in_rounds and len(law["sketches"]) == 1 else found


def resumed_average(source: Interrupted) -> Outcome:
    """The average if it was released as a whole; else the sketch that it was to be made around."""
    law, raw = dict(source.law), source.raw
    if "average_weights" in raw:
        if source.numbers != source.asked:
            rule = f"n_components must be {source.asked[0]}, that of the average, which is all there is"
            raise ValueError(f"{rule}, got {list(source.numbers)}")
        parts = (raw[f"average_{name}"] for name in PARTS)
        return Outcome(Mixture(*parts), source.guarantee, raw, law, background_in(raw))
    average = law.pop("average", None)
    of_sketch = {name: values for name, values in raw.items() if not name.startswith(("average_", "answer"))}
    found = sketch.fitted(source.guarantee, of_sketch, law, source.numbers)
    found = replace(found, raw=dict(raw) | dict(found.raw))
    if "answer" in raw and isinstance(average, Mapping):
        return averaged(found, average)
    if isinstance(average, Mapping) and "why" in average:
        return without_average(found, **average)
    return without_average(found, INTERRUPTED)


def resumed_histogram(source: Interrupted) -> Outcome:
    """From the counts of the grid, all of which are released at once."""
    check_histogram(source.raw, source.law, source.n_features)
    told = source.guarantee, source.raw, dict(source.law)
    return histogram.fitted(*told, source.numbers[0], source.n_records, _silent)


def resumed_slices(source: Interrupted) -> Outcome:
    """From the counts of the slices, all of which are released at once."""
    shape = check_slices(source.raw, source.law, source.n_features)
    law = {name: value for name, value in source.law.items() if name != "n_cells"}
    return slices.fitted(source.guarantee, source.raw, law, shape, source.numbers[0], source.n_records, _silent)


def resumed_local(source: Interrupted) -> Outcome:
    """From the reports there are: of two rounds the first alone, if the fit ended between them."""
    check_responses(source.numbers, source.n_features)
    search = local.searched(source.raw, source.law, source.numbers[0], _silent)
    found = local.outcome_of(search, source.guarantee, source.raw, source.law)
    n_responses, law = search[2], dict(found.noise)
    if source.n_records is not None and n_responses < source.n_records:
        early = (
            f"{n_responses:,} of {source.n_records:,} records had reported when the fit ended, about the first waves"
        )
        law["caveats"] = [early, *law["caveats"]]
    return replace(found, noise=law)


def resumed_em(source: Interrupted) -> Outcome:
    """From the steps there are, or from the cells that they were to start from; of k-means its steps."""
    if source.numbers != source.asked:
        rule = f"n_components must be {source.asked[0]}, that of the steps that were released"
        raise ValueError(f"{rule}, got {list(source.numbers)}")
    if source.law.get("statistic") == Statistic.CLUSTER_SUMS.value:
        return k_means.resumed(source.guarantee, source.raw, source.law, source.numbers[0])
    return em.resumed(source.guarantee, source.raw, source.law, source.numbers[0])


def resumed_cells(source: Interrupted) -> Outcome:
    """From the levels of cells there are."""
    return central.resumed(source.guarantee, source.raw, source.law, source.numbers[0])


def resumed_gaps(source: Interrupted) -> Outcome:
    """The mixture that was chosen; before that, the one under which the released counts are likeliest."""
    law = dict(source.law)
    return gaps.resumed(source.guarantee, source.raw, law, source.numbers[0])


def _silent(done: int, total: int) -> None:
    pass

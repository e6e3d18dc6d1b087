"""The release of a finished fit, be it one that ran to its end or one that is resumed: checked as its file will be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pm_dpgmm._arguments import finite_numbers
from pm_dpgmm.files.untrusted_json import check_writable
from pm_dpgmm.methods.outcome import Outcome, answered
from pm_dpgmm.methods.released_statistics import check_released_statistics
from pm_dpgmm.records.transformed_columns import TransformedColumns
from pm_dpgmm.release.release import Release


def release_of(
    outcome: Outcome,
    *,
    method: str,
    settings: Mapping[str, Any],
    feature_names: tuple[str, ...],
    n_records: int | None,
    private: bool,
    n_components: tuple[int, ...] = (),
    version: str = "",
    transformations: TransformedColumns | None = None,
) -> Release:
    """The release of a finished fit, from what left its method and the public facts of a
    :class:`pm_dpgmm.release.checkpoint.Checkpoint`.

    Raises unless its warnings and its summary can be read, and its file: an outcome may be of a method of one's own, or
    made of a checkpoint from anywhere.
    """
    weight, background = outcome.background or (0.0, None)
    release = Release(
        mixture=outcome.mixture,
        guarantee=outcome.guarantee,
        method=method,
        settings=settings,
        raw=outcome.raw,
        noise=outcome.noise,
        feature_names=feature_names,
        n_records=n_records,
        private=private,
        version=version,
        background_weight=weight,
        background=background,
        transformations=transformations,
    )
    for name, values in release.raw.items():
        finite_numbers(values, f"raw[{name!r}]")
    check_writable(release.noise, name="noise")
    check_released_statistics(release.raw, release.noise, release.mixture, release.guarantee, method)
    release.summary()
    return release


def release_or_lost(outcome: Outcome, facts: dict[str, Any]) -> Release:
    """The release; RuntimeError where a method's outcome makes none, which carries it: it is paid for."""
    try:
        return release_of(outcome, **answered(facts, outcome.noise))
    except Exception as error:  # whatever reads what a settings object of one's own has returned
        lost = RuntimeError(
            f"method must return what makes a release, got an outcome of {facts['method']!r} that does not"
            f" ({type(error).__name__}: {error}); it is paid for, and kept in this error's attribute outcome"
        )
        lost.outcome = outcome  # type: ignore[attr-defined]
        raise lost from None

"""A release's background is part of its density and none of its components: what says so where it is left out."""

from __future__ import annotations

import warnings
from typing import Any

NOTABLE = 0.01  # share of the records in the background from which on a use without it warns


class BackgroundWarning(UserWarning):
    """The components of a release are used without its background, which is part of its density."""


def background_of(release: Any) -> tuple[float, Any] | None:
    """Weight and law of a release's background, a Mixture of one component; None where it has none."""
    return None if release.background is None else (release.background_weight, release.background)


def warn_without_background(release: Any, words: str, *, stacklevel: int = 2) -> None:
    """Warn that a use of ``release`` leaves out its background, if that holds more than 1 % of the records.

    A function of released numbers.

    Parameters
    ----------
    release : Release
    words : str
        What the use is of instead.
    stacklevel : int
        As for ``warnings.warn`` in the function that calls this: 2 is the caller of that function.

    Warns
    -----
    BackgroundWarning
        Once for every place that calls, as Python's filters have it.
    """
    if release.background_weight > NOTABLE:
        warnings.warn(
            f"{words}; the background of the release holds {release.background_weight:.3f} of the records and is part"
            " of log_density, sample and prior only",
            BackgroundWarning,
            stacklevel=stacklevel + 1,
        )

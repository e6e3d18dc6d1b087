"""Telling somebody about numbers that are paid for: that it cannot be shown must not cost a release."""

from __future__ import annotations

import warnings
from typing import Any

from pm_dpgmm.methods.fit_warnings import warning_about
from pm_dpgmm.privacy.simulated_fits import fits_may_warn


def warn_after_spending(message: str | Warning, category: type[Warning] | None = None, *, stacklevel: int) -> None:
    """``warnings.warn`` for the time after a budget is spent; ``stacklevel`` counts from the caller, as there.

    Raises
    ------
    Warning
        Only where the user has asked for errors. What happens to a warning that cannot be shown (a stderr that is
        closed) does not end a fit.
    """
    try:
        warnings.warn(message, category, stacklevel=stacklevel + 1)
    except Warning:
        raise
    except Exception:
        pass


def warn_of_fit(release: Any, *, stacklevel: int) -> None:
    """Say what ``release.warnings`` says, as ``fit_gmm`` does; ``stacklevel`` counts from the caller.

    Raises
    ------
    FitWarning
        Only where the user has asked for errors; its ``release`` is this one.
    """
    if release.flag and fits_may_warn():
        warn_after_spending(warning_about(release), stacklevel=stacklevel + 1)

"""Many values of a privacy curve at once: a composition tries hundreds of epsilons for each of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pm_dpgmm._arguments import FloatArray

if TYPE_CHECKING:
    from pm_dpgmm.privacy.curves import PrivacyProfile


def values(loss: PrivacyProfile, epsilons: FloatArray) -> FloatArray:
    """``loss.delta`` at every one of ``epsilons``, shape (n,), up to rounding: by ``loss.curve`` where there is one."""
    at_once = getattr(loss, "curve", None)
    if at_once is None:
        return np.array([loss.delta(epsilon) for epsilon in epsilons.tolist()])
    found: FloatArray = at_once(epsilons)
    return found

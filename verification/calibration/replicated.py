"""The replications of a study: what one gives, and many on every core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from verification.auditing.workers import stopping_is_no_error

FloatArray = NDArray[np.float64]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Replication:
    """One data set: parameters ``truth`` (P,), draws (S, P) by what is known, weighted ones worth ``effective``."""

    truth: FloatArray
    draws: dict[str, FloatArray]
    effective: float


def replicated(one: Callable[[int], Found], n_replications: int) -> list[Found]:
    """``one(0)``, ``one(1)``, ...: each has a generator of its own, so the number of cores changes nothing."""
    from joblib import Parallel, delayed

    with stopping_is_no_error():
        return list(Parallel(n_jobs=-1)(delayed(one)(number) for number in range(n_replications)))

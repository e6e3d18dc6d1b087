"""The replications of a study, on every core."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def replicated(one: Callable[[int], Found], n_replications: int) -> list[Found]:
    """``one(0)``, ``one(1)``, ...: each has a generator of its own, so the number of cores changes nothing."""
    from joblib import Parallel, delayed

    return list(Parallel(n_jobs=-1)(delayed(one)(number) for number in range(n_replications)))

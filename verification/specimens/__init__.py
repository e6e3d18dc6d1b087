"""Mechanisms with known true privacy: broken ones that an audit must catch, sound ones that it must not refute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Mechanism = Callable[[Any, int, np.random.Generator], Any]
LogDensity = Callable[[Any, Any], Any]  # exact, of outputs on a data set


@dataclass(frozen=True, slots=True)
class Specimen:
    """A mechanism, its worst known neighbours, what is claimed of it and what is true."""

    name: str
    origin: str  # where the mechanism or the bug comes from
    mechanism: Mechanism
    x: Any
    x_neighbour: Any
    epsilon: float  # claimed
    delta: float  # claimed
    true_epsilon: float  # at the claimed delta on this pair; infinite when no epsilon holds
    broken: bool
    n_samples: int = 100_000
    note: str = ""
    level: str = "value"  # "bit": broken as numbers in the computer only
    log_density: LogDensity | None = None


def all_specimens() -> list[Specimen]:
    """Every specimen of this folder, broken ones first."""
    from verification.specimens import (
        choices,
        control_choices,
        controls,
        dp_em,
        elementary,
        local_central,
        populous,
        programs,
        sample_efficient,
        sparse_vector,
        unseen,
    )

    families = (
        elementary,
        sparse_vector,
        choices,
        programs,
        populous,
        dp_em,
        local_central,
        sample_efficient,
        unseen,
        controls,
        control_choices,
    )
    found = [specimen for family in families for specimen in family.specimens()]
    return sorted(found, key=lambda specimen: not specimen.broken)

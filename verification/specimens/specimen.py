"""What a specimen is."""

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
    curve: Any = None  # what is claimed as a whole, as the ``profile`` of an audit; None: the pair is all of it

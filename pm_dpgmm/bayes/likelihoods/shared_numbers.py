"""Numbers of a release in a compiled graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor


def shared(value: Any) -> Any:
    """No constant: compiled code must not depend on the numbers, so that the next release finds it in the cache.

    Its shape is known, because JAX compiles for fixed shapes alone.
    """
    return pytensor.shared(value, shape=np.shape(value))

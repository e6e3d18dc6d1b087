"""Components as warnings name them; a warning that begins with this is about components alone (``fit_warnings``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LISTED = 12  # components named in one text: a release holds no longer ones than 1,000 characters


def listed(which: NDArray[np.bool_]) -> str:
    """The numbers of the components in words, the first of many.

    Examples
    --------
    >>> listed(np.array([True, False, True]))
    'components 0, 2'
    """
    numbers = np.flatnonzero(which).tolist()
    more = f" and {len(numbers) - LISTED} more" if len(numbers) > LISTED else ""
    return f"component{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:LISTED]))}{more}"

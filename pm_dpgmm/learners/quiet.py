"""What a fit changes for its time and all threads of the process share: one thread at a time.

Filters of warnings, streams, the level of logs and seeds are put back at the end. Two threads at once would put back
each other's, and warnings and prints would be lost for good.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator

# held around a single fit, in which no other thread of ours waits for it
ALONE = threading.RLock()


@contextlib.contextmanager
def without_warnings(kind: type[Warning] = Warning) -> Iterator[None]:
    """Other people's code without its warnings of a kind."""
    with ALONE, warnings.catch_warnings():
        warnings.simplefilter("ignore", kind)
        yield

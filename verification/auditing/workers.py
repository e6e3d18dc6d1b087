"""Worker processes where warnings are errors, as in many test suites."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

STOPPED = "A worker stopped while some jobs were given to the executor"


@contextlib.contextmanager
def stopping_is_no_error() -> Iterator[None]:
    """For as long as answers of joblib's workers are waited for.

    A worker whose memory has grown stops and is replaced, with a warning. As an error this warning would end the thread
    that replaces it, and the answers would never come.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", STOPPED, UserWarning)
        yield

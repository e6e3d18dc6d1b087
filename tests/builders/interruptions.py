"""Fits that end after some of their releases."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest


@contextmanager
def interrupted_after(method: type, n_releases: int) -> Iterator[None]:
    """Whatever is fitted by ``method`` is interrupted once it has released so often, and the test goes on."""
    heard, steps = [], method.release

    def stopped(self, *given, released, **named):
        def listen(*told):
            released(*told)
            heard.append(told)
            if len(heard) == n_releases:
                raise KeyboardInterrupt

        return steps(self, *given, released=listen, **named)

    with mock.patch.object(method, "release", stopped), pytest.raises(KeyboardInterrupt):
        yield

"""Which part of the thorough tests a test belongs to: the same at every run, whatever other tests there are."""

import re
import zlib

import pytest


def in_part(nodeid, part):
    """Whether a test is of part ``k/n``; every test is of one of the n."""
    given = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", part)
    if not given or int(given[1]) > int(given[2]):
        raise pytest.UsageError(f"--part must be k/n with k of at most n, got {part!r}")
    return zlib.crc32(nodeid.encode()) % int(given[2]) == int(given[1]) - 1

"""JSON files that anybody may have written: read with suspicion."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NoReturn

from pm_dpgmm.files.distinct_keys import distinct_keys
from pm_dpgmm.files.frozen_values import plain_values

MOST_BYTES = 40 * 2**20  # of a file: 2^18 numbers of a sketch and a covariance of 1,000 numbers take less than that
MOST_DEPTH = 32  # of nested lists and mappings; the deepest release has 9
LARGEST_INTEGER = 2**63


def read_json(path: Path, *, kind: str) -> Any:
    """The content of a JSON file from an untrusted source, of plain finite values.

    ``kind`` names in messages what the file should be.

    Raises
    ------
    FileNotFoundError, PermissionError, ValueError
        See :func:`read_text`.
    ValueError
        If it is no complete JSON, nested deeper than 32, or holds NaN, an infinity, an integer beyond 64 bits or a key
        twice.
    """
    text = read_text(path, kind=kind)
    try:
        found = parsed(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"path must be a complete JSON {kind}, got {str(path)!r}: {error}") from None
    check_depth(found, name=kind)
    return found


def read_text(path: Path, *, kind: str) -> str:
    """The content of a JSON file from an untrusted source, not yet parsed.

    Raises
    ------
    FileNotFoundError, PermissionError
        If there is no such file, or it may not be read.
    ValueError
        If it is no regular file, larger than 40 MiB or not UTF-8.
    """
    given = repr(str(path))
    try:
        if path.exists() and not path.is_file():  # a device or a pipe has no end
            raise ValueError(f"path must be a {kind}, got {given}, which is no regular file")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise FileNotFoundError(f"path must be an existing {kind}, got {given}") from None
    except PermissionError:
        raise PermissionError(f"path must be a {kind} that may be read, got {given}") from None
    except OSError as error:  # a name that is too long, a loop of links
        raise ValueError(f"path must be a {kind}, got {given}: {error}") from None
    if len(content) > MOST_BYTES:
        raise ValueError(f"path must be a {kind} of at most {MOST_BYTES} bytes, got {given}, which is larger")
    try:
        return content.decode("utf-8-sig")  # an editor may have put a mark before the text
    except UnicodeDecodeError as error:
        raise ValueError(f"path must be a complete JSON {kind}, got {given}: {error}") from None


def parsed(text: str) -> Any:
    """What a JSON text holds; ValueError for what :func:`read_json` refuses but for depth and size."""
    return json.loads(
        text, parse_constant=_refused, parse_float=_finite, parse_int=_integer, object_pairs_hook=distinct_keys
    )


def check_writable(value: Any, *, name: str) -> str:
    """The JSON text of nested mappings, lists, texts and numbers; TypeError or ValueError unless a reader takes it."""
    text = json.dumps(plain_values(value), allow_nan=False)
    check_depth(parsed(text), name=name)
    return text


def check_depth(value: Any, *, name: str) -> None:
    """ValueError if lists and mappings are nested deeper than any reader of them needs."""
    level = [value] if isinstance(value, (dict, list, tuple)) else []
    for _ in range(MOST_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list, tuple))
        ]
        if not level:
            return
    raise ValueError(f"{name} must be nested at most {MOST_DEPTH} deep, got more")


def _refused(text: str) -> NoReturn:
    raise ValueError(f"numbers must be finite, got {text}")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"numbers must be finite, got {text[:40]}")
    return value


def _integer(text: str) -> int:
    # 18 digits fit, and a file may have millions of such numbers
    if len(text) > 18 and (len(text) > 20 or abs(int(text)) > LARGEST_INTEGER):
        raise ValueError(f"integers must fit 64 bits, got {text[:40]}")
    return int(text)

"""The files of a ledger: its own, and those that SQLite has beside it for a while."""

from __future__ import annotations

import os
from pathlib import Path

COMPANIONS = ("-journal", "-wal", "-shm")


def ledger_files(path: str | os.PathLike[str] | None) -> tuple[Path, ...]:
    """The ledger's file, and what SQLite would take for its own and delete, whatever it holds; none of no ledger."""
    if path is None:
        return ()
    return (Path(path), *(Path(f"{os.fspath(path)}{ending}") for ending in COMPANIONS))

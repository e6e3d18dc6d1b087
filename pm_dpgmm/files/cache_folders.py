"""Where compiled code is kept when the home cannot be written, as in containers: a private folder for this run.

Numba, PyTensor, Matplotlib and ArviZ each keep files in the user's home, and most of them stop where they cannot.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import MutableMapping
from pathlib import Path


def provide_cache_folders(environment: MutableMapping[str, str] = os.environ) -> Path | None:
    """Name a private temporary folder in the environment for every cache that has no usable place; None if all have.

    Called before any of those libraries is loaded. Processes that this one starts inherit the folder, which goes with
    this process. Set ``XDG_CACHE_HOME``, and ``base_compiledir`` in ``PYTENSOR_FLAGS``, to a folder of yours to keep
    what was compiled. Numba itself first looks at ``NUMBA_CACHE_DIR`` and beside the source.
    """
    if os.name != "posix":
        return None
    home = Path(environment.get("HOME") or os.path.expanduser("~"))
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    flags = environment.get("PYTENSOR_FLAGS", "")
    wanted = {
        "XDG_CACHE_HOME": not _usable(cache),  # Numba, ArviZ
        "MPLCONFIGDIR": "MPLCONFIGDIR" not in environment and not _usable(home / ".config"),
        "PYTENSOR_FLAGS": "compiledir=" not in flags and not _usable(home / ".pytensor"),
    }
    if not any(wanted.values()):
        return None
    try:
        folder = Path(tempfile.mkdtemp(prefix="pm_dpgmm-"))  # of this user, with mode 0700
    except OSError:  # there is no place at all
        return None
    atexit.register(_remove, folder, os.getpid())
    places = {
        "XDG_CACHE_HOME": str(folder / "cache"),
        "MPLCONFIGDIR": str(folder / "matplotlib"),
        "PYTENSOR_FLAGS": ",".join(filter(None, [flags, f"base_compiledir={folder / 'pytensor'}"])),
    }
    environment.update({name: place for name, place in places.items() if wanted[name]})
    return folder


def _usable(folder: Path) -> bool:
    """Whether this user can write there or make it, and not everybody: compiled code is run when it is found again."""
    place = folder
    with contextlib.suppress(OSError):
        while not os.path.lexists(place) and place != place.parent:
            place = place.parent
        return place.is_dir() and os.access(place, os.W_OK | os.X_OK) and not place.stat().st_mode & 0o002
    return False


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a process that was forked from it
        shutil.rmtree(folder, ignore_errors=True)

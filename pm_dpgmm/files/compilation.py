"""Whether a fit will compile before it runs: known from the cache alone, so that nobody waits without a word."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

WORDS = "pm_dpgmm: compiling, as in the first fit of every environment; takes about half a minute"


def compiles(kernel: Any) -> bool:
    """Whether a function of Numba is neither compiled in this process nor, for this Python, in the cache on disk.

    ``kernel`` is what a method calls first (:meth:`pm_dpgmm.methods.outcome.Method.first_kernel`), None where it calls
    none. A function of public facts: it is asked before anything is spent.
    """
    if not hasattr(kernel, "stats") or kernel.signatures:  # none, or Numba does not compile, or has
        return False
    source, folder = Path(kernel.py_func.__code__.co_filename), kernel.stats.cache_path
    if folder is None:
        return True
    index = f"{source.stem}.{kernel.py_func.__name__}-*.py{sys.version_info.major}{sys.version_info.minor}*.nbi"
    try:  # an index that is older than its source is of another version
        return not any(place.stat().st_mtime >= source.stat().st_mtime for place in Path(folder).glob(index))
    except OSError:
        return True

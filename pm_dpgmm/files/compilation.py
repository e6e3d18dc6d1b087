"""Whether a fit will compile before it runs: known from the cache alone, so that nobody waits without a word."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

# module and function that each method calls first, or that takes longest to compile; the others need none
KERNELS = {
    "sketch": ("mechanisms.sketch_features", "_frame_sums"),
    "sketch of one column": ("mechanisms.sketch_features", "_ladder_sums"),
    "populous": ("methods.populous.friends_kernel", "fill_rows"),
    "two-phase": ("methods.populous.friends_kernel", "fill_rows"),
}
WORDS = "pm_dpgmm: compiling, as in the first fit of every environment; takes about half a minute"


def compiles(method: str, n_features: int) -> bool:
    """Whether the first kernel of ``method`` is neither in this process nor, for this Python, in the cache on disk.

    A function of public facts: it is asked before anything is spent.
    """
    alone = f"{method} of one column"
    module, name = KERNELS.get(alone if n_features == 1 and alone in KERNELS else method, ("", ""))
    if not module:
        return False
    kernel = getattr(importlib.import_module(f"pm_dpgmm.{module}"), name)
    if not hasattr(kernel, "stats") or kernel.signatures:  # Numba does not compile, or has
        return False
    source, folder = Path(kernel.py_func.__code__.co_filename), kernel.stats.cache_path
    if folder is None:
        return True
    index = f"{source.stem}.{name}-*.py{sys.version_info.major}{sys.version_info.minor}*.nbi"
    try:  # an index that is older than its source is of another version
        return not any(place.stat().st_mtime >= source.stat().st_mtime for place in Path(folder).glob(index))
    except OSError:
        return True

"""The one setting that histogram and slices share: how many bins, under its name of today and its former one."""

from __future__ import annotations

from pm_dpgmm._arguments import check_count, shown


def read_bins(n_bins: int | None, n_cells: int | None) -> int | None:
    """The number of bins, whichever name it was given by; None for the method's default."""
    if n_bins is not None and n_cells is not None:
        raise TypeError(f"n_bins must be given alone, got n_cells={shown(n_cells)}, its former name, beside it")
    n_bins = n_cells if n_bins is None else n_bins
    if n_bins is not None:
        check_count(least=2, n_bins=n_bins)
    return n_bins

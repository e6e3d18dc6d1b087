"""Run a mechanism on both data sets and check what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verification._checks import shown

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Outputs = tuple[NDArray[Any], ...]


def run_both(
    mechanism: Callable[..., Any], x: Any, x_neighbour: Any, label: BoolArray, rng: np.random.Generator
) -> tuple[Outputs, bool]:
    """Runs in the order of the coins, one array per output part, and whether the mechanism returns a tuple."""
    n_ones = int(label.sum())
    ones, is_tuple = _checked(mechanism(x, n_ones, rng), n_ones)
    zeros, also_tuple = _checked(mechanism(x_neighbour, label.size - n_ones, rng), label.size - n_ones)
    shapes = [[part.shape[1:] for part in parts] for parts in (ones, zeros)]
    if is_tuple != also_tuple or shapes[0] != shapes[1]:
        raise ValueError(
            "mechanism must return runs of one shape on x and x_neighbour (pad with NaN), "
            f"got {shown(shapes[0])} and {shown(shapes[1])}"
        )
    outputs = []
    for one, zero in zip(ones, zeros, strict=True):
        part = np.empty((label.size, *one.shape[1:]), dtype=np.result_type(one, zero))
        part[label], part[~label] = one, zero
        outputs.append(part)
    return tuple(outputs), is_tuple


def _checked(output: Any, n_samples: int) -> tuple[Outputs, bool]:
    is_tuple = isinstance(output, tuple)
    parts = tuple(np.asarray(part) for part in (output if is_tuple else (output,)))
    for part in parts:
        if part.dtype.kind not in "biuf":
            raise TypeError(f"mechanism must return numbers (NaN for failure), got dtype {part.dtype}: {shown(output)}")
        if part.ndim == 0 or part.shape[0] != n_samples:
            raise ValueError(
                f"mechanism must return arrays whose first axis is n_samples = {n_samples}, got shape {part.shape}"
            )
    if sum(part[:1].size for part in parts) == 0:
        raise ValueError(f"mechanism must return at least one number per run, got {shown(output)}")
    return parts, is_tuple


def log_ratio(log_density: Callable[..., Any], outputs: Any, x: Any, x_neighbour: Any, n: int) -> FloatArray:
    """Exact log-likelihood ratio of every run, shape (n,)."""
    logs = []
    for data in (x, x_neighbour):
        values = np.asarray(log_density(outputs, data))
        if values.dtype.kind not in "biuf" or values.shape != (n,):
            raise ValueError(
                f"log_density must return numbers of shape ({n},), got {values.dtype} of shape {values.shape}"
            )
        values = values.astype(float)
        if np.any(np.isnan(values) | (values == np.inf)):
            raise ValueError(f"log_density must be below infinity and not NaN, got {shown(values)}")
        logs.append(values)
    if np.any(np.isneginf(logs[0]) & np.isneginf(logs[1])):
        raise ValueError("log_density must be above -inf under x or x_neighbour, got -inf under both for a run")
    # Rounding errors would break the ties that atoms of the ratio are made of.
    return np.asarray(np.round(logs[0] - logs[1], 9))

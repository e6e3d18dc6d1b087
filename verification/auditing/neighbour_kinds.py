"""Neighbours of one data set, of the kinds that mechanisms go wrong on, for users who do not know where theirs is weak.

Unlike the strategies of ``verification.neighbours`` they are few and always the same, and have names, so that a search
can say which was worst.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verification._arguments import check_choice, check_switch, shown, unmasked

FloatArray = NDArray[np.float64]
Pair = tuple[FloatArray, FloatArray]

FAR = 1e6  # widths of the bounds
LARGEST = np.finfo(float).max
NEIGHBOURS = ("replace-one", "add-remove")


def neighbours_of(
    records: ArrayLike, *, bounds: ArrayLike, neighbours: str = "replace-one", missing: bool = False
) -> dict[str, Pair]:
    """Neighbouring pairs of several kinds, by name, for `worst_pair`.

    Parameters
    ----------
    records : array_like, shape (n, d), n at least 2
        Records that are public, or made up, within ``bounds`` and in their unit. The first one of them is moved, comes
        or goes; in some kinds the others are moved together first.
    bounds : (low, high), each a number or of shape (d,)
        Between which the mechanism takes records as they are.
    neighbours : {"replace-one", "add-remove"}
        The relation of the claim.
    missing : bool
        Adds records of NaN and of infinities, for mechanisms that take them; `pm_dpgmm.fit_gmm` refuses them.

    Returns
    -------
    dict of str to (ndarray, ndarray)
        Of shapes (n, d), or (n, d) and (n - 1, d); in two kinds, "alone" and "last", of fewer records.

        - "corners": the record lies in the lowest corner or in the highest, and the others as given.
        - "centre": in the highest corner or in the centre.
        - "column 0", "column 1", ...: at the centre in all columns but one, in which it changes ends; for d > 1.
        - "far": 10^6 widths outside, or as far as floats go, on either side.
        - "crowd": the others are all in the lowest corner; it joins them, or is alone in the highest one.
        - "equals": the others are all in the centre; it is one of them, or in the highest corner.
        - "halves": the others are in the two corners, as many in each, give or take one, and it changes sides.
        - "copy": it is another's copy, or in the centre; in the highest corner where the other is in the centre.
        - "alone": there are no others.
        - "missing", "infinite": with ``missing``.

        For add-remove the first of the two places named is that of a record that comes and goes ("crowd": the highest
        corner), and "last" takes the place of "alone": there is one record, or none.

    Raises
    ------
    TypeError, ValueError
        If an argument breaks these rules.

    Examples
    --------
    >>> pairs = neighbours_of([[0.2], [0.3]], bounds=(-1.0, 1.0))
    >>> [data.tolist() for data in pairs["corners"]]
    [[[-1.0], [0.3]], [[1.0], [0.3]]]
    """
    check_choice(NEIGHBOURS, neighbours=neighbours)
    check_switch(missing=missing)
    rows = _numbers("records", records)
    if rows.ndim != 2 or rows.shape[0] < 2 or rows.shape[1] < 1 or not np.isfinite(rows).all():
        raise ValueError(f"records must be finite and of shape (n, d), n at least 2, got shape {rows.shape}")
    low, high = _limits(bounds, rows.shape[1])
    if ((rows < low) | (rows > high)).any():
        raise ValueError("records must lie within bounds, got some that do not")
    centre = low / 2 + high / 2
    with np.errstate(over="ignore"):
        out = FAR * (high - low)
        far = np.maximum(low - out, -LARGEST), np.minimum(high + out, LARGEST)
    rest = rows[1:]
    sides = np.where(np.arange(len(rest))[:, None] % 2, high, low)
    places: dict[str, tuple[FloatArray, FloatArray, FloatArray]] = {  # the others, the record, where it is moved
        "corners": (rest, low, high),
        "centre": (rest, high, centre),
    }
    for j in range(rows.shape[1] if rows.shape[1] > 1 else 0):
        one = np.arange(rows.shape[1]) == j
        places[f"column {j}"] = rest, np.where(one, low, centre), np.where(one, high, centre)
    places |= {
        "far": (rest, *far),
        "crowd": (np.broadcast_to(low, rest.shape), high, low),
        "equals": (np.broadcast_to(centre, rest.shape), centre, high),
        "halves": (sides, low, high),
        "copy": (rest, rest[0], centre if (rest[0] != centre).any() else high),
        "alone" if neighbours == "replace-one" else "last": (rest[:0], low, high),
    }
    if missing:
        places["missing"] = rest, np.full_like(low, np.nan), centre
        places["infinite"] = rest, np.full_like(low, -np.inf), np.full_like(low, np.inf)
    if neighbours == "add-remove":
        return {name: (np.vstack([one, others]), others.copy()) for name, (others, one, _) in places.items()}
    return {name: (np.vstack([one, rest]), np.vstack([other, rest])) for name, (rest, one, other) in places.items()}


def _numbers(name: str, value: ArrayLike) -> FloatArray:
    try:
        return np.array(unmasked(value), dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers, got {type(value).__name__}") from None


def _limits(bounds: ArrayLike, n_features: int) -> Pair:
    rule = f"bounds must be a pair (low, high), low below high by a finite width, each a number or {n_features} of them"
    try:
        low, high = (np.broadcast_to(np.asarray(end, dtype=float), (n_features,)) for end in bounds)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        raise ValueError(f"{rule}, got {shown(bounds)}") from None
    with np.errstate(all="ignore"):
        usable = np.isfinite(high - low) & (low < high)
    if not usable.all():
        raise ValueError(f"{rule}, got {shown(bounds)}")
    return low, high

"""All pairs of friend graphs that differ in one vertex, as bit masks.

Fits are vertices and friends are edges; a valid fit is its own friend. One fit changes and may have any two sets of
friends among the others. Bit i of a mask stands for the i-th of the other fits; the changed one has no bit.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Graphs:
    """Every graph on the others, crossed with every set of friends of the changed fit.

    Parameters
    ----------
    others : IntArray, (n_graphs, t - 1)
        Friends of each other fit among the others, itself included; 0 for an invalid fit.
    changed : IntArray, (n_sets,)
        Friends of the changed fit among the others.
    own : IntArray, (n_sets,)
        1 where the changed fit is valid, so its own friend.
    allowed : bool array, (n_graphs, n_sets)
        False where the changed fit would be a friend of an invalid one.
    """

    others: IntArray
    changed: IntArray
    own: IntArray
    allowed: NDArray[np.bool_]

    def counts(self) -> IntArray:
        """Friends n_i of every fit, itself included, (n_graphs, n_sets, t); the changed fit is last."""
        size = self.others.shape[1]
        touched = self.changed[:, None] >> np.arange(size) & 1
        inner = np.bitwise_count(self.others).astype(np.int64)[:, None, :] + touched
        last = np.bitwise_count(self.changed).astype(np.int64) + self.own
        return np.concatenate([inner, np.broadcast_to(last[:, None], (*inner.shape[:2], 1))], axis=2)


def graphs(t: int, *, invalid: bool) -> Graphs:
    """All labelled graphs on ``t`` - 1 others; with ``invalid``, any fit may be invalid, no friend even of itself."""
    size = t - 1
    pairs = list(itertools.combinations(range(size), 2))
    rows = []
    for valid in range(1 << size) if invalid else [(1 << size) - 1]:
        free = [(i, j) for i, j in pairs if valid >> i & 1 and valid >> j & 1]
        edges = np.arange(1 << len(free), dtype=np.int64)
        friends = np.zeros((len(edges), size), dtype=np.int64)
        for i in range(size):
            friends[:, i] = (valid >> i & 1) << i
        for bit, (i, j) in enumerate(free):
            friends[:, i] |= (edges >> bit & 1) << j
            friends[:, j] |= (edges >> bit & 1) << i
        rows.append(friends)
    others = np.concatenate(rows)
    changed, own = np.arange(1 << size, dtype=np.int64), np.ones(1 << size, dtype=np.int64)
    if invalid:
        changed, own = np.append(changed, 0), np.append(own, 0)
    valid_others = np.bitwise_or.reduce(others, axis=1) if size else np.zeros(len(others), dtype=np.int64)
    return Graphs(others, changed, own, (changed & ~valid_others[:, None]) == 0)


def described(graph: IntArray, before: int, after: int) -> str:
    """One pair in words: friends of each other fit, and the two sets of the changed one."""
    lists = [_members(int(mask)) for mask in graph]
    return f"friends among the others {lists}; of the changed fit {_members(before)}, then {_members(after)}"


def _members(mask: int) -> list[int]:
    return [i for i in range(int(mask).bit_length()) if mask >> i & 1]

"""Neighbouring data sets of DP-EM with responsibilities, and a Hypothesis strategy that draws them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from verification.claims.common.losses import FloatArray


@dataclass(frozen=True, slots=True)
class Pair:
    """Two data sets (n, d) that differ in the first record, responsibilities (n, k) and released counts (k,)."""

    records: FloatArray
    others: FloatArray
    shares: FloatArray
    other_shares: FloatArray
    counts: FloatArray

    def __str__(self) -> str:
        x, y, g, h = (a[0].round(6).tolist() for a in (self.records, self.others, self.shares, self.other_shares))
        return f"n = {len(self.records)}, x = {x} becomes {y}, responsibilities {g} become {h}"


def into_ball(x: FloatArray) -> FloatArray:
    """``x``, or the nearest point of the unit sphere."""
    return np.asarray(x / max(1.0, float(np.linalg.norm(x))))


def pairs() -> Any:
    """Strategy: posteriors of random mixtures (soft), or their largest entry (hard), at hostile records."""
    from hypothesis import strategies as st

    @st.composite
    def drawn(draw: st.DrawFn) -> Pair:
        d, k, n = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 6))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        data = np.array([into_ball(row) for row in rng.normal(size=(n + 1, d))])
        data[0] = draw(st.sampled_from([1.0, 0.5])) * np.sign(data[0]) / math.sqrt(d)
        if draw(st.booleans()):
            data[n] = -data[0]
        records, others = data[:n], np.concatenate([data[n:], data[1:n]])
        centres, widths, split = rng.normal(size=(k, d)), rng.uniform(0.3, 2, k), rng.dirichlet(np.ones(k))
        mode = draw(st.sampled_from(["soft", "hard"]))
        shares, other_shares = (_posterior(x, centres, widths, split, mode) for x in (records, others))
        return Pair(records, others, shares, other_shares, rng.uniform(0.2, n + 1, k))

    return drawn()


def _posterior(x: FloatArray, centres: FloatArray, widths: FloatArray, split: FloatArray, mode: str) -> FloatArray:
    squares = ((x[:, None] - centres) ** 2).sum(axis=2)
    logs = np.log(split) - x.shape[1] * np.log(widths) - squares / (2 * widths**2)
    if mode == "hard":
        return np.eye(len(split))[logs.argmax(axis=1)]
    found = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))

"""What local privacy releases: every record's own randomised response, or counts of them, with their public channel.

Layout of a release of method "local"; D features, J cells for each column, n responses, kind in ``noise["responses"]``:

==================  ==============  ====================================================================================
in ``raw``          shape           meaning
==================  ==============  ====================================================================================
"unary", "direct"
local_edges         (D, J - 1)      inner edges of the cells of every column, public and increasing; the first and the
                                    last cell reach to infinity, so that clipping changes no response
local_counts        (J ** D,)       number of responses with a one for that cell; the last column varies fastest
local_channel       (2,)            probability of a one for the record's own cell, and for each other cell
local_n_responses   ()              n, public: every response is
"added"
local_responses     (n, D)          the record, clipped to the box, plus Gaussian noise
local_bounds        (D, 2)          this box
local_scales        (D,)            standard deviations of the noise
==================  ==============  ====================================================================================

"unary": a response has one bit for each cell, all of them randomised independently; with (1 - f, f), f = 1 / (1 +
exp(epsilon / 2)), it is epsilon-DP, because two bits depend on the record. (One bit at full epsilon would make it
2 epsilon.) "direct": a response names one cell; with (e^epsilon, 1) / (e^epsilon + J ** D - 1) it is epsilon-DP.
"added": the Gaussian mechanism at the length of the box's diagonal. Edges must not depend on the records: the smallest
and largest values seen would give their owners away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, check_choice, check_count, check_positive, frozen, shown

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released

CELL_KINDS = ("unary", "direct")
KINDS = (*CELL_KINDS, "added")


@dataclass(frozen=True, slots=True, eq=False)
class CellResponses:
    """Counts of randomised responses about cells; fields as in the table of the module.

    Examples
    --------
    >>> responses = CellResponses.simulated(
    ...     [[-1.0], [0.2], [3.0]], [[0.0, 1.0]], kind="unary", epsilon=50.0, rng=np.random.default_rng(0))
    >>> responses.counts.tolist(), responses.n_features
    ([1.0, 1.0, 1.0], 1)
    """

    kind: str
    edges: FloatArray
    counts: FloatArray
    channel: FloatArray
    n_responses: int

    def __post_init__(self) -> None:
        check_choice(CELL_KINDS, responses=self.kind)
        check_count(local_n_responses=self.n_responses)
        for name in ("edges", "counts", "channel"):
            array = frozen(getattr(self, name))
            if not np.isfinite(array).all():
                raise ValueError(f"local_{name} must hold finite numbers")
            object.__setattr__(self, name, array)
        if self.edges.ndim != 2 or 0 in self.edges.shape or (np.diff(self.edges) <= 0).any():
            raise ValueError(f"local_edges must be increasing rows, one for each column, got {shown(self.edges)}")
        d, inner = self.edges.shape
        cells = (inner + 1) ** d
        if self.counts.shape != (cells,):
            raise ValueError(f"local_counts must have shape ({cells},), got {self.counts.shape}")
        if (self.counts < 0).any() or (self.counts > self.n_responses).any():
            raise ValueError(f"local_counts must lie between 0 and the number of responses, {self.n_responses}")
        if self.channel.shape != (2,) or not 0 < self.channel[1] < self.channel[0] < 1:
            raise ValueError(f"local_channel must be two probabilities, the larger first, got {shown(self.channel)}")
        if self.kind == "direct":
            if not math.isclose(self.channel[0] + (cells - 1) * self.channel[1], 1, rel_tol=1e-9):
                raise ValueError(f"local_channel must sum to 1 over the {cells} cells, got {shown(self.channel)}")
            if self.counts.sum() != self.n_responses:
                raise ValueError(f"local_counts must sum to {self.n_responses}, got {self.counts.sum():g}")

    @property
    def n_features(self) -> int:
        """D."""
        return len(self.edges)

    @classmethod
    def simulated(
        cls, records: ArrayLike, edges: ArrayLike, *, kind: str, epsilon: float, rng: np.random.Generator
    ) -> CellResponses:
        """Responses of ``records`` (N, D) drawn with ``rng``: for studies, not for releases."""
        check_choice(CELL_KINDS, kind=kind)
        check_positive(epsilon=epsilon)
        inner, rows = np.asarray(edges, dtype=float), np.asarray(records, dtype=float)
        shape = (inner.shape[1] + 1,) * len(inner)
        places = [np.searchsorted(cuts, column) for cuts, column in zip(inner, rows.T, strict=True)]
        own = np.bincount(np.ravel_multi_index(places, shape), minlength=math.prod(shape))
        channel = response_channel(kind, epsilon, len(own))
        if kind == "unary":
            counts = rng.binomial(own, channel[0]) + rng.binomial(len(rows) - own, channel[1])
        else:
            table = np.full((len(own), len(own)), channel[1]) + (channel[0] - channel[1]) * np.eye(len(own))
            counts = rng.multinomial(own, table / table.sum(axis=1)).sum(axis=0)
        return cls(kind, inner, counts.astype(float), channel, len(rows))

    def to_arrays(self) -> tuple[dict[str, FloatArray], dict[str, Any]]:
        """Entries of ``raw`` and ``noise``."""
        raw = {f"local_{name}": getattr(self, name) for name in ("edges", "counts", "channel")}
        return raw | {"local_n_responses": np.asarray(float(self.n_responses))}, {"responses": self.kind}


@dataclass(frozen=True, slots=True, eq=False)
class VectorResponses:
    """Clipped records with Gaussian noise; fields as in the table of the module."""

    responses: FloatArray
    bounds: FloatArray
    scales: FloatArray

    def __post_init__(self) -> None:
        for name in ("responses", "bounds", "scales"):
            array = frozen(getattr(self, name))
            if not np.isfinite(array).all():
                raise ValueError(f"local_{name} must hold finite numbers")
            object.__setattr__(self, name, array)
        if self.responses.ndim != 2 or 0 in self.responses.shape:
            raise ValueError(f"local_responses must have shape (n, D), got {self.responses.shape}")
        d = self.n_features
        if self.bounds.shape != (d, 2) or not (self.bounds[:, 0] < self.bounds[:, 1]).all():
            raise ValueError(f"local_bounds must be {d} increasing pairs, got {shown(self.bounds)}")
        if self.scales.shape != (d,) or not (self.scales > 0).all():
            raise ValueError(f"local_scales must be {d} numbers greater than 0, got {shown(self.scales)}")

    @property
    def n_features(self) -> int:
        """D."""
        return self.responses.shape[1]

    def to_arrays(self) -> tuple[dict[str, FloatArray], dict[str, Any]]:
        """Entries of ``raw`` and ``noise``."""
        raw = {f"local_{name}": getattr(self, name) for name in ("responses", "bounds", "scales")}
        return raw, {"responses": "added"}


def response_channel(kind: str, epsilon: float, n_cells: int) -> FloatArray:
    """Probabilities (own cell, each other cell) of a one that make a response epsilon-DP.

    Examples
    --------
    >>> response_channel("unary", 1.0, 10).round(4), response_channel("direct", 1.0, 10).round(4)
    (array([0.6225, 0.3775]), array([0.232 , 0.0853]))
    """
    check_choice(CELL_KINDS, kind=kind)
    if kind == "unary":
        flip = 1 / (1 + math.exp(epsilon / 2))
        return np.array([1 - flip, flip])
    other = 1 / (math.exp(epsilon) + n_cells - 1)
    return np.array([1 - (n_cells - 1) * other, other])


def local_responses(release: Released) -> CellResponses | VectorResponses:
    """Those in a release; ValueError when it holds none or contradicts itself."""
    found = responses_from_arrays(release.raw, release.noise)
    n = found.n_responses if isinstance(found, CellResponses) else len(found.responses)
    if release.n_records not in (None, n):
        raise ValueError(f"a release of {release.n_records} records must hold as many responses, got {n}")
    return found


def responses_from_arrays(raw: Mapping[str, FloatArray], noise: Mapping[str, Any]) -> CellResponses | VectorResponses:
    """Inverse of both ``to_arrays``."""
    kind = str(noise.get("responses"))
    check_choice(KINDS, **{"responses of a local release": kind})
    names = ("responses", "bounds", "scales") if kind == "added" else ("edges", "counts", "channel", "n_responses")
    missing = [f"local_{name}" for name in names if f"local_{name}" not in raw]
    if missing:
        raise ValueError(f"release must hold {kind!r} responses, got one without {', '.join(missing)}")
    given = [np.asarray(raw[f"local_{name}"], dtype=float) for name in names]
    if kind == "added":
        return VectorResponses(*given)
    if given[3].shape or given[3] != np.rint(given[3]):
        raise ValueError(f"local_n_responses must be an integer, got {shown(given[3])}")
    return CellResponses(kind, given[0], given[1], given[2], int(given[3]))

"""What local privacy releases: every record's own randomised response, or counts of them, with their public channel.

Layout of a release of method "local"; D features, J cells for each column, n responses, M waves, S different subsets,
kind in ``noise["responses"]``:

==================  ==============  ====================================================================================
in ``raw``          shape           meaning
==================  ==============  ====================================================================================
"one-bit"
local_frequencies   (M, D)          w of the waves cos(w . x + b), public, in the inverse unit of the records
local_phases        (M,)            b
local_asked         (M,)            how many picked the wave
local_ones          (M,)            how many of these reported the positive side
local_channel       (2,)            probability of the true side, and of the other one
"unary", "direct"
local_edges         (D, J - 1)      inner edges of the cells of every column, public and increasing; the first and the
                                    last cell reach to infinity, so that clipping changes no response
local_counts        (J ** D,)       number of responses with a one for that cell; the last column varies fastest
local_channel       (2,)            probability of a one for the record's own cell, and for each other cell
local_n_responses   ()              n, public: every response is
"subset"
local_edges         (D, J - 1)      as above
local_subsets       (S, 2)          a subset of at most 64 cells as a number, cells 0 to 31 and those from 32 on
local_counts        (S,)            how many reported it
local_channel       (2,)            probability that the record's own cell is in the subset, and that another one is
"added"
local_responses     (n, D)          the record, clipped to the box, plus Gaussian noise
local_bounds        (D, 2)          this box
local_scales        (D,)            standard deviations of the noise
==================  ==============  ====================================================================================

"one-bit": a response has the side of one wave, randomised; with (e^epsilon, 1) / (e^epsilon + 1) it is epsilon-DP.
"unary": a response has one bit for each cell, all of them randomised independently; with (1 - f, f), f = 1 / (1 +
exp(epsilon / 2)), it is epsilon-DP, because two bits depend on the record. (One bit at full epsilon would make it
2 epsilon.) So it is with (1/2, 1 / (1 + e^epsilon)), the optimised form of Wang, Blocki, Li and Jha (2017). "direct": a
response names one cell; with (e^epsilon, 1) / (e^epsilon + J ** D - 1) it is epsilon-DP.
"subset": a response names k cells, its own among them with the probability that makes the ratio e^epsilon (Ye and Barg
2018). "added": the Gaussian mechanism at the length of the box's diagonal. Edges must not depend on the records: the
smallest and largest values seen would give their owners away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, check_choice, check_count, check_positive, frozen, shown

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released

CELL_KINDS = ("unary", "direct")
CHANNELS = ("unary", "optimised", "direct")  # "optimised" is "unary" with another channel
KINDS = ("one-bit", *CELL_KINDS, "subset", "added")
HALF = 32  # cells of a subset in one number: more would be no exact float
MOST_CHOSEN = 2 * HALF
MOST_RESPONSES = 2**53  # larger integers are no exact floats
LARGEST = 1e100  # of frequencies and phases
PARTS = {  # of ``raw``, without "local_"
    "one-bit": ("frequencies", "phases", "asked", "ones", "channel"),
    "unary": ("edges", "counts", "channel", "n_responses"),
    "subset": ("edges", "subsets", "counts", "channel"),
    "added": ("responses", "bounds", "scales"),
}


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
        check_choice(CHANNELS, kind=kind)
        check_positive(epsilon=epsilon)
        inner, rows = np.asarray(edges, dtype=float), np.asarray(records, dtype=float)
        shape = (inner.shape[1] + 1,) * len(inner)
        places = [np.searchsorted(cuts, column) for cuts, column in zip(inner, rows.T, strict=True)]
        own = np.bincount(np.ravel_multi_index(places, shape), minlength=math.prod(shape))
        channel = response_channel(kind, epsilon, len(own))
        if kind != "direct":
            counts = rng.binomial(own, channel[0]) + rng.binomial(len(rows) - own, channel[1])
        else:
            table = np.full((len(own), len(own)), channel[1]) + (channel[0] - channel[1]) * np.eye(len(own))
            counts = rng.multinomial(own, table / table.sum(axis=1)).sum(axis=0)
        return cls("direct" if kind == "direct" else "unary", inner, counts.astype(float), channel, len(rows))

    def to_arrays(self) -> tuple[dict[str, FloatArray], dict[str, Any]]:
        """Entries of ``raw`` and ``noise``."""
        raw = {f"local_{name}": getattr(self, name) for name in ("edges", "counts", "channel")}
        return raw | {"local_n_responses": np.asarray(float(self.n_responses))}, {"responses": self.kind}


@dataclass(frozen=True, slots=True, eq=False)
class WaveResponses:
    """Randomised sides of square waves, counted by wave; fields as in the table of the module.

    Examples
    --------
    >>> found = WaveResponses([[0.5], [1.0]], [0.0, 1.5], [3, 4], [1, 4], [0.7, 0.3])
    >>> found.n_responses, found.n_features
    (7, 1)
    """

    frequencies: FloatArray
    phases: FloatArray
    asked: FloatArray
    ones: FloatArray
    channel: FloatArray

    def __post_init__(self) -> None:
        for name in ("frequencies", "phases", "asked", "ones", "channel"):
            array = frozen(getattr(self, name))
            if not np.isfinite(array).all():
                raise ValueError(f"local_{name} must hold finite numbers")
            object.__setattr__(self, name, array)
        if self.frequencies.ndim != 2 or 0 in self.frequencies.shape:
            raise ValueError(f"local_frequencies must be rows, one for each wave, got {self.frequencies.shape}")
        for name in ("phases", "asked", "ones"):
            if getattr(self, name).shape != (len(self.frequencies),):
                raise ValueError(f"local_{name} must be one number for each wave, got {getattr(self, name).shape}")
        if max(np.abs(self.frequencies).max(), np.abs(self.phases).max()) > LARGEST:
            raise ValueError(f"local_frequencies and local_phases must be of size at most {LARGEST:g}")
        _check_counts(asked=self.asked, ones=self.ones)
        if (self.ones > self.asked).any() or self.asked.sum() < 1:
            raise ValueError("local_ones must be at most local_asked, of which one must be above 0")
        _check_channel(self.channel)
        if not math.isclose(self.channel.sum(), 1, rel_tol=1e-9):
            raise ValueError(f"local_channel must sum to 1, got {shown(self.channel)}")

    @property
    def n_features(self) -> int:
        """D."""
        return self.frequencies.shape[1]

    @property
    def n_responses(self) -> int:
        """n."""
        return int(self.asked.sum())

    def to_arrays(self) -> tuple[dict[str, FloatArray], dict[str, Any]]:
        """Entries of ``raw`` and ``noise``."""
        return {f"local_{name}": getattr(self, name) for name in PARTS["one-bit"]}, {"responses": "one-bit"}

    def with_more(self, other: WaveResponses) -> WaveResponses:
        """Both together: of other people, about other waves, through the same channel."""
        names = ("frequencies", "phases", "asked", "ones")
        both = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in names}
        return WaveResponses(**both, channel=self.channel)


@dataclass(frozen=True, slots=True, eq=False)
class SubsetResponses:
    """Reported subsets of cells, each with its count; fields as in the table of the module."""

    edges: FloatArray
    subsets: FloatArray
    counts: FloatArray
    channel: FloatArray

    def __post_init__(self) -> None:
        for name in ("edges", "subsets", "counts", "channel"):
            array = frozen(getattr(self, name))
            if not np.isfinite(array).all():
                raise ValueError(f"local_{name} must hold finite numbers")
            object.__setattr__(self, name, array)
        if self.edges.ndim != 2 or 0 in self.edges.shape or (np.diff(self.edges) <= 0).any():
            raise ValueError(f"local_edges must be increasing rows, one for each column, got {shown(self.edges)}")
        n_cells = math.prod([self.edges.shape[1] + 1] * self.n_features)
        if n_cells > MOST_CHOSEN:
            raise ValueError(f"local_edges must make at most {MOST_CHOSEN} cells, got {n_cells}")
        if self.subsets.ndim != 2 or self.subsets.shape[1:] != (2,) or len(self.subsets) == 0:
            raise ValueError(f"local_subsets must be rows of two numbers, got shape {self.subsets.shape}")
        if (self.subsets < 0).any() or (self.subsets >= 2**HALF).any() or (self.subsets % 1 != 0).any():
            raise ValueError("local_subsets must hold integers from 0 to 2^32 - 1, got others")
        if self.counts.shape != (len(self.subsets),):
            raise ValueError(f"local_counts must be one number for each subset, got shape {self.counts.shape}")
        _check_counts(counts=self.counts)
        _check_channel(self.channel)
        sizes = self.members.sum(axis=1)
        if len(set(sizes.tolist())) > 1 or self.bits[:, n_cells:].any():
            raise ValueError(f"local_subsets must be of one size, of {n_cells} cells, got others")
        if not 1 <= sizes[0] < n_cells or self.counts.sum() < 1:
            raise ValueError("local_subsets must have cells and leave out some, and local_counts must not be all 0")

    @property
    def n_features(self) -> int:
        """D."""
        return len(self.edges)

    @property
    def n_responses(self) -> int:
        """n."""
        return int(self.counts.sum())

    @property
    def bits(self) -> FloatArray:
        """Bits of the subsets, (S, 64)."""
        numbers = self.subsets.astype(np.uint64)[:, :, None] >> np.arange(HALF, dtype=np.uint64)
        return (numbers & np.uint64(1)).reshape(len(self.subsets), -1).astype(float)

    @property
    def members(self) -> FloatArray:
        """1 where a cell is in a subset, (S, cells)."""
        return self.bits[:, : (self.edges.shape[1] + 1) ** self.n_features]

    @property
    def heights(self) -> tuple[float, float]:
        """Probability of one subset that the record's own cell is in, and of one that it is not in."""
        n_cells = (self.edges.shape[1] + 1) ** self.n_features
        size = int(self.members[0].sum())
        own = float(self.channel[0])
        return own / math.comb(n_cells - 1, size - 1), (1 - own) / math.comb(n_cells - 1, size)

    def to_arrays(self) -> tuple[dict[str, FloatArray], dict[str, Any]]:
        """Entries of ``raw`` and ``noise``."""
        return {f"local_{name}": getattr(self, name) for name in PARTS["subset"]}, {"responses": "subset"}


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


Responses: TypeAlias = WaveResponses | CellResponses | SubsetResponses | VectorResponses


def response_channel(kind: str, epsilon: float, n_cells: int) -> FloatArray:
    """Probabilities (own cell, each other cell) of a one that make a response epsilon-DP.

    Examples
    --------
    >>> response_channel("unary", 1.0, 10).round(4), response_channel("direct", 1.0, 10).round(4)
    (array([0.6225, 0.3775]), array([0.232 , 0.0853]))
    >>> response_channel("optimised", 1.0, 10).round(4)
    array([0.5   , 0.2689])
    """
    check_choice(CHANNELS, kind=kind)
    if kind == "optimised":
        return np.array([0.5, 1 / (1 + math.exp(epsilon))])
    if kind == "unary":
        flip = 1 / (1 + math.exp(epsilon / 2))
        return np.array([1 - flip, flip])
    other = 1 / (math.exp(epsilon) + n_cells - 1)
    return np.array([1 - (n_cells - 1) * other, other])


def local_responses(release: Released) -> Responses:
    """Those in a release; ValueError when it holds none or contradicts itself."""
    found = responses_from_arrays(release.raw, release.noise)
    n = len(found.responses) if isinstance(found, VectorResponses) else found.n_responses
    if release.n_records not in (None, n):
        raise ValueError(f"a release of {release.n_records} records must hold as many responses, got {n}")
    return found


def responses_from_arrays(raw: Mapping[str, FloatArray], noise: Mapping[str, Any]) -> Responses:
    """Inverse of every ``to_arrays``."""
    kind = str(noise.get("responses"))
    check_choice(KINDS, **{"responses of a local release": kind})
    names = PARTS.get(kind, PARTS["unary"])
    missing = [f"local_{name}" for name in names if f"local_{name}" not in raw]
    if missing:
        raise ValueError(f"release must hold {kind!r} responses, got one without {', '.join(missing)}")
    given = [np.asarray(raw[f"local_{name}"], dtype=float) for name in names]
    if kind == "added":
        return VectorResponses(*given)
    if kind == "one-bit":
        return WaveResponses(*given)
    if kind == "subset":
        return SubsetResponses(*given)
    if given[3].shape or given[3] != np.rint(given[3]):
        raise ValueError(f"local_n_responses must be an integer, got {shown(given[3])}")
    return CellResponses(kind, given[0], given[1], given[2], int(given[3]))


def _check_counts(**counts: FloatArray) -> None:
    for name, values in counts.items():
        if (values < 0).any() or (values % 1 != 0).any() or values.sum() > MOST_RESPONSES:
            raise ValueError(f"local_{name} must be numbers of responses, at most 2^53 in all, got others")


def _check_channel(channel: FloatArray) -> None:
    if channel.shape != (2,) or not 0 < channel[1] < channel[0] < 1:
        raise ValueError(f"local_channel must be two probabilities, the larger first, got {shown(channel)}")

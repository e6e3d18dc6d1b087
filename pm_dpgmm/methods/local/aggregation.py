"""The server's side of local privacy: from reports to counts. Everything here is public; see protocol.md."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_flag, shown
from pm_dpgmm.methods.local.responses import HALF, CellResponses, SubsetResponses, WaveResponses

if TYPE_CHECKING:
    from pm_dpgmm.methods.local.protocol import LocalProtocol

Counted = WaveResponses | CellResponses | SubsetResponses


@dataclass(frozen=True, slots=True, eq=False)
class LocalReports:
    """Counts of the reports of many people: all that a fit reads.

    Attributes
    ----------
    protocol : LocalProtocol
    responses : WaveResponses, CellResponses or SubsetResponses
        See :mod:`pm_dpgmm.methods.local.responses`.
    refused : mapping of str to int
        How many reports were left out for which reason; empty where ``strict``.
    digest : str
        SHA-256 of the reports that count, in any order: reports carry random marks, so equal ones are the same ones.
        "" where the counts were not made of reports.
    sent : bytes
        These reports themselves, sorted, one after the other: by them a report is known that counts elsewhere, too.
    """

    protocol: LocalProtocol
    responses: Counted
    refused: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
    sent: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        counts, protocol = self.responses, self.protocol
        if protocol.phases:
            alike = isinstance(counts, WaveResponses) and np.array_equal(counts.phases, protocol.phases)
            alike = alike and np.array_equal(getattr(counts, "frequencies", ()), protocol.frequencies)
        else:
            kind = {"subset": SubsetResponses}.get(protocol.randomiser, CellResponses)
            alike = isinstance(counts, kind) and np.array_equal(getattr(counts, "edges", ()), protocol.edges)
        if not alike or not np.array_equal(counts.channel, channel(protocol)):
            raise ValueError(f"responses must be counts of reports of {protocol!r}, got others")

    @property
    def n_reports(self) -> int:
        """Those that count."""
        return self.responses.n_responses


def aggregated(protocol: LocalProtocol, reports: Iterable[bytes], *, strict: bool) -> LocalReports:
    """See :meth:`pm_dpgmm.methods.local.protocol.LocalProtocol.aggregate`."""
    check_flag(strict=strict)
    if isinstance(reports, (bytes, bytearray, memoryview, str)) or not isinstance(reports, Iterable):
        raise TypeError(f"reports must be an iterable of reports, got {shown(reports)}")
    if getattr(getattr(reports, "dtype", None), "kind", "") == "S":
        raise TypeError(
            "reports must be a list, or an array of dtype object, got one of fixed lengths, which drops zeros"
        )
    seen: set[bytes] = set()
    outputs: Counter[int] = Counter()
    refused: Counter[str] = Counter()
    for i, report in enumerate(reports):
        try:
            output = protocol.output_of(report)
            text = bytes(report)
            if text in seen:
                raise ValueError("a report must arrive once, got it twice")
        except (TypeError, ValueError) as error:
            if strict:
                raise type(error)(f"reports[{i}]: {error}") from None
            refused[str(error).split(", got")[0]] += 1
            continue
        seen.add(text)
        outputs[output] += 1
    if not outputs:
        raise ValueError(f"reports must hold at least one report of this protocol, got none among {refused.total()}")
    sent = b"".join(sorted(seen))
    return LocalReports(protocol, counted(protocol, outputs), dict(refused), hashlib.sha256(sent).hexdigest(), sent)


def channel(protocol: LocalProtocol) -> FloatArray:
    """The chances of the protocol's randomiser as floats."""
    return np.array([float(chance) for chance in protocol.law.chances])


def counted(protocol: LocalProtocol, outputs: Mapping[int, int]) -> Counted:
    """Counts by wave or cell, from how often each output was reported."""
    n_reports = sum(outputs.values())
    if protocol.phases:
        counts = np.zeros(2 * len(protocol.phases))
        counts[list(outputs)] = list(outputs.values())
        frequencies, phases = np.array(protocol.frequencies), np.array(protocol.phases)
        return WaveResponses(frequencies, phases, counts[0::2] + counts[1::2], counts[1::2], channel(protocol))
    edges, n_cells = np.array(protocol.edges), protocol.n_places
    if protocol.randomiser == "subset":
        ordered = sorted(outputs)
        low = [[output % 2**HALF, output >> HALF] for output in ordered]
        counts = np.array([outputs[output] for output in ordered], dtype=float)
        return SubsetResponses(edges, np.array(low, dtype=float), counts, channel(protocol))
    if protocol.randomiser == "k-ary":
        counts = np.zeros(n_cells)
        counts[list(outputs)] = list(outputs.values())
        own, other = channel(protocol)
        return CellResponses("direct", edges, counts, np.array([own, other]), n_reports)
    counts = np.array([sum(n for output, n in outputs.items() if output >> j & 1) for j in range(n_cells)], dtype=float)
    return CellResponses("unary", edges, counts, channel(protocol), n_reports)

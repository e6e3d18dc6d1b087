"""What every person's device needs to answer once, and what makes their answers one data set. Proof: protocol.md.

This module and what it imports load without NumPy, in milliseconds; :meth:`LocalProtocol.design` and
:meth:`LocalProtocol.aggregate`, which run on the server, load it when they are called.

A report has 16 bytes:

========  ======  =====================================================================================================
what      bytes   meaning
========  ======  =====================================================================================================
version   1       of this layout
output    L       of the randomiser, big-endian; of "one-bit" the number of the wave, doubled, plus the bit
mark      15-L-T  random, so that a report that arrives twice is known from two that are alike
tag       T       first bytes of SHA-256 of the protocol's fingerprint and all before; T = 6, or half of 15-L where less
========  ======  =====================================================================================================

The tag says of which protocol a report is. The mark is part of what is hashed, so nobody can make two protocols whose
reports have the same tags.
"""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from pm_dpgmm.files.distinct_keys import distinct_keys
from pm_dpgmm.methods.local.protocol_checks import check_cells, check_waves, read_number, read_row, read_rows, shown
from pm_dpgmm.methods.local.randomisers import KINDS, Randomiser
from pm_dpgmm.privacy.device_noise import below, source_of

if TYPE_CHECKING:
    from pm_dpgmm.methods.local.aggregation import LocalReports

SCHEMA, SCHEMA_VERSION = "pm_dpgmm.local_protocol", 2
PARTS = ("frequencies", "phases", "edges", "centre", "scale")
REPORT_VERSION, REPORT_SIZE, HEADER = 2, 16, 1
LONGEST_TAG = 6  # bytes: a report of another protocol passes with a chance of 2^-48, of 2^-24 with 64 cells
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-6, 1e15
OLDER = ": before 2, reports name their protocol by 24 bits, which a server can forge; make the protocol again"
LONGEST_TEXT = 30_000_000  # characters of a protocol that is read: MOST_NUMBERS of the longest numbers


class LocalProtocol:
    """Public rules by which people answer about themselves in private: a frozen value, the same for all of them.

    Make one with :meth:`design`, send it to devices as :meth:`to_json`, and let each of them :meth:`respond` once.

    Parameters
    ----------
    randomiser : {"one-bit", "symmetric", "optimised", "k-ary", "subset"}
        See :mod:`pm_dpgmm.methods.local.randomisers`.
    epsilon : float
        From 1e-6 to 1e15.
    frequencies, phases : sequences of shape (M, D) and (M,), of "one-bit" only
        Waves cos(w . x + b) in the unit of the records: a device picks one and reports on which side its record is.
        Public: fixed before any record is seen, or computed from earlier reports of other people.
    edges : sequence of shape (D, J - 1), of the other kinds only
        Increasing inner edges of J cells in every column; outermost cells reach to infinity.
    centre, scale : sequences of D numbers, optional
        Where records are by public knowledge, for whoever fits a mixture; devices do not look at them. 0 and 1.

    Raises
    ------
    TypeError, ValueError
        If something is not as said; "symmetric", "optimised" and "subset" take at most 64 cells, "k-ary" 2^16.

    Guarantee
    ---------
    One report is epsilon-locally differentially private: for any two records x, x' of the person and every report r,
    P[respond(x) = r] <= e^epsilon P[respond(x') = r], exactly (chances are rational numbers). Two reports of one
    person cost 2 epsilon: a device keeps its report and sends the same one again. Who reports, and when, is not
    hidden. ``epsilon`` is that of the protocol which this device was given: whoever sends the text chooses it, so a
    device compares ``epsilon`` and the whole ``fingerprint`` with what its person agreed to. Proof: protocol.md.

    Examples
    --------
    >>> protocol = LocalProtocol("one-bit", 1.0, frequencies=[[0.5], [1.0]], phases=[0.0, 1.5])
    >>> report = protocol.respond([3.2])
    >>> len(report), protocol.n_features
    (16, 1)
    >>> LocalProtocol.from_json(protocol.to_json()) == protocol
    True
    """

    __slots__ = (
        "_law", "_output", "_seal", "_tag", "centre", "edges", "epsilon", "frequencies", "phases", "randomiser", "scale"
    )  # fmt: skip
    randomiser: str
    epsilon: float
    frequencies: tuple[tuple[float, ...], ...]
    phases: tuple[float, ...]
    edges: tuple[tuple[float, ...], ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    _law: Randomiser
    _output: int  # bytes
    _tag: int  # bytes
    _seal: Any  # of the fingerprint

    def __init__(
        self,
        randomiser: str,
        epsilon: float,
        *,
        frequencies: Sequence[Sequence[float]] = (),
        phases: Sequence[float] = (),
        edges: Sequence[Sequence[float]] = (),
        centre: Sequence[float] = (),
        scale: Sequence[float] = (),
    ) -> None:
        if not isinstance(randomiser, str) or randomiser not in KINDS:
            raise ValueError(f"randomiser must be one of {', '.join(map(repr, KINDS))}, got {shown(randomiser)}")
        budget = read_number(epsilon, "epsilon")
        if not SMALLEST_EPSILON <= budget <= LARGEST_EPSILON:
            rule = f"epsilon must be from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g} with method 'local'"
            raise ValueError(f"{rule}, got {shown(epsilon)}")
        waves, starts, cuts = (
            read_rows(frequencies, "frequencies"),
            read_row(phases, "phases"),
            read_rows(edges, "edges"),
        )
        if randomiser == "one-bit":
            check_waves(waves, starts, cuts)
            law, n_outputs = Randomiser(randomiser, budget, 2), 2 * len(waves)
        else:
            n_cells = check_cells(randomiser, waves, starts, cuts)
            law = Randomiser(randomiser, budget, n_cells)
            n_outputs = n_cells if randomiser == "k-ary" else 1 << n_cells
        d = len(waves[0] if waves else cuts)
        middle, size = read_row(centre, "centre") or (0.0,) * d, read_row(scale, "scale") or (1.0,) * d
        if not len(middle) == len(size) == d or not all(one > 0 for one in size):
            raise ValueError(f"centre and scale must be {d} numbers, scale above 0, got {shown((centre, scale))}")
        for name, value in {
            "randomiser": randomiser,
            "epsilon": budget,
            "frequencies": waves,
            "phases": starts,
            "edges": cuts,
            "centre": middle,
            "scale": size,
            "_law": law,
            "_output": ((n_outputs - 1).bit_length() + 7) // 8,
        }.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_tag", min(LONGEST_TAG, (REPORT_SIZE - HEADER - self._output) // 2))
        object.__setattr__(self, "_seal", hashlib.sha256(bytes.fromhex(self.fingerprint)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a protocol is frozen, {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a protocol is frozen, {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalProtocol) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        what = f"{len(self.phases)} waves" if self.phases else f"{self.n_places} cells"
        return (
            f"LocalProtocol({self.randomiser!r}, epsilon {self.epsilon:g}, {what} in {self.n_features} columns,"
            f" {self.fingerprint[:16]})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalProtocol.from_json, (self.to_json(),)

    @property
    def n_features(self) -> int:
        """D."""
        return len(self.frequencies[0]) if self.frequencies else len(self.edges)

    @property
    def n_places(self) -> int:
        """What a record can be told to be at: the two sides of a wave, or J ** D cells."""
        return self._law.n_places

    @property
    def law(self) -> Randomiser:
        """The randomiser with its rational chances."""
        return self._law

    @property
    def fingerprint(self) -> str:
        """SHA-256 of :meth:`to_json`: protocols are the same when this is, all 64 digits of it."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def design(cls, n_features: int, *, epsilon: float, randomiser: str = "one-bit", **public: Any) -> LocalProtocol:
        """A protocol for records of which public knowledge says roughly where they are, on the server.

        Parameters
        ----------
        n_features : int
        epsilon : float
        randomiser : str
        **public
            ``bounds`` (low, high) or (D, 2), or ``centre`` and ``scale``, and ``resolution``: as for
            :class:`pm_dpgmm.LocalMethod`. From knowledge of the field, never from records.

        Examples
        --------
        >>> LocalProtocol.design(1, epsilon=1.0, bounds=(0, 80)).n_features
        1
        """
        from pm_dpgmm.methods.local.design import designed

        return designed(cls, n_features, epsilon=epsilon, randomiser=randomiser, **public)

    # ------------------------------------------------------------------ on the device
    def respond(self, record: Any, rng: Any = None) -> bytes:
        """This person's report: call it once, keep what it returns, and send the same again if a message was lost.

        Parameters
        ----------
        record : sequence of D numbers, or a number where D = 1
            Finite, in the unit of the protocol. Nothing is clipped.
        rng : numpy.random.Generator or random.Random, optional
            For simulations: whoever knows its seed knows the answer. None is the operating system's randomness.

        Returns
        -------
        bytes, of length 16

        Raises
        ------
        TypeError, ValueError
            If the record is no D finite numbers; before anything is drawn.

        Guarantee
        ---------
        epsilon-local differential privacy of the report; see the class.
        """
        values = self._values(record)
        source = source_of(rng)

        def uniform(n: int) -> int:
            return below(n, source)

        if self.phases:
            wave = uniform(len(self.phases))  # before the record is looked at
            output = 2 * wave + self._law.draw(self._side(values, wave), uniform)
        else:
            output = self._law.draw(self._cell(values), uniform)
        mark = source(REPORT_SIZE - HEADER - self._output - self._tag)
        return self._sealed(bytes([REPORT_VERSION]) + output.to_bytes(self._output, "big") + mark)

    def _sealed(self, body: bytes) -> bytes:
        """With the tag behind it."""
        seal = self._seal.copy()
        seal.update(body)
        return body + bytes(seal.digest()[: self._tag])

    def _values(self, record: Any) -> list[float]:
        try:
            if isinstance(record, (bytes, bytearray, memoryview, Mapping, Set)):  # codes of letters; keys; no order
                raise TypeError
            values = [read_number(value, "record") for value in (record if hasattr(record, "__iter__") else (record,))]
        except TypeError:
            raise TypeError(f"record must be {self.n_features} real numbers, got {shown(record)}") from None
        if len(values) != self.n_features:
            raise ValueError(f"record must have {self.n_features} numbers, got {len(values)}")
        if not all(map(math.isfinite, values)):
            raise ValueError(f"record must be finite, got {shown(record)}")
        return values

    def _side(self, values: Sequence[float], wave: int) -> int:
        """1 where the wave is positive at the record; every finite record has a side."""
        turn = self.phases[wave]
        for value, frequency in zip(values, self.frequencies[wave], strict=True):
            turn += value * frequency
        return int(math.isfinite(turn) and math.cos(turn) > 0)

    def _cell(self, values: Sequence[float]) -> int:
        found = 0
        for value, cuts in zip(values, self.edges, strict=True):
            found = found * (len(cuts) + 1) + bisect_left(cuts, value)
        return found

    # ------------------------------------------------------------------ on the server
    def output_of(self, report: Any) -> int:
        """What a report says: the randomiser's output, before it the number of the wave; ValueError for no report."""
        if not isinstance(report, (bytes, bytearray, memoryview)):
            raise TypeError(f"a report must be bytes, got {shown(report)} of type {type(report).__name__}")
        text = bytes(report)
        if len(text) != REPORT_SIZE:
            raise ValueError(f"a report must have {REPORT_SIZE} bytes, got {len(text)}")
        if text[0] != REPORT_VERSION:
            raise ValueError(f"a report must be of version {REPORT_VERSION}, got {text[0]}{OLDER * (text[0] == 1)}")
        if text != self._sealed(text[: -self._tag]):
            raise ValueError(f"a report must be of protocol {self.fingerprint[:16]}, whole, got {text.hex()}")
        output = int.from_bytes(text[HEADER : HEADER + self._output], "big")
        if not (output < 2 * len(self.phases) if self.phases else self._law.valid(output)):
            raise ValueError(f"a report must hold what a {self.randomiser!r} randomiser returns, got {output}")
        return output

    def aggregate(self, reports: Iterable[bytes], *, strict: bool = True) -> LocalReports:
        """Counts of many people's reports; loads NumPy.

        Parameters
        ----------
        reports : iterable of bytes
            In any order.
        strict : bool
            Whether a report that is none of this protocol, or that arrived before, is an error. False leaves it out
            and counts it in ``refused``: a server cannot choose who writes to it.

        Returns
        -------
        LocalReports
        """
        from pm_dpgmm.methods.local.aggregation import aggregated

        return aggregated(self, reports, strict=strict)

    # ------------------------------------------------------------------ as text
    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; :meth:`from_dict` reads it."""
        waves = {"frequencies": [list(row) for row in self.frequencies], "phases": list(self.phases)}
        cells = {"edges": [list(row) for row in self.edges]}
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "randomiser": self.randomiser,
            "epsilon": self.epsilon,
            "centre": list(self.centre),
            "scale": list(self.scale),
            **(waves if self.phases else cells),
        }

    def to_json(self) -> str:
        """The same text on every machine."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> LocalProtocol:
        """Inverse of :meth:`to_dict` for fields from anywhere; TypeError and ValueError say what is wrong."""
        if not isinstance(fields, Mapping) or fields.get("schema") != SCHEMA:
            raise ValueError(f"a protocol must have schema {SCHEMA!r}, got {shown(fields)}")
        version = fields.get("schema_version")
        if isinstance(version, bool) or version != SCHEMA_VERSION:
            older = OLDER if version == 1 and not isinstance(version, bool) else ""
            raise ValueError(f"schema_version must be {SCHEMA_VERSION} for this version, got {shown(version)}{older}")
        missing = [name for name in ("randomiser", "epsilon") if name not in fields]
        unknown = set(fields) - {"schema", "schema_version", "randomiser", "epsilon", *PARTS}
        if missing or unknown:
            rule = "a protocol must have randomiser, epsilon, and frequencies and phases, or edges"
            raise ValueError(f"{rule}, got {shown(sorted(map(str, fields)))}")
        parts = {name: fields[name] for name in PARTS if name in fields}
        return cls(fields["randomiser"], fields["epsilon"], **parts)

    @classmethod
    def from_json(cls, text: str) -> LocalProtocol:
        """Inverse of :meth:`to_json` for text from anywhere.

        Raises
        ------
        TypeError, ValueError
            If it is no text, no JSON, too long or deep, or a field is missing, unknown or outside its range.
        """
        if not isinstance(text, str) or len(text) > LONGEST_TEXT:
            raise ValueError(f"a protocol must be text of at most {LONGEST_TEXT} characters, got {shown(text)}")
        try:
            fields = json.loads(text, object_pairs_hook=distinct_keys)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"a protocol must be JSON, got {shown(text)}: {error}") from None
        return cls.from_dict(fields)

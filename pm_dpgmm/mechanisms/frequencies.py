"""Public frequencies of a private sketch, their amplitudes, and how far one record can move it. Proof: frequencies.md.

A record x has the features amplitude * (cos(phase), sin(phase)), one pair per frequency w with phase w.x. The
frequencies are chosen so that the features of any two records, whatever they are, lie close together: much closer than
twice the norm that all records share.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_count, check_positive, check_real, finite_numbers, frozen, shown
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.privacy.guarantee import Neighbouring, replaces_one
from pm_dpgmm.privacy.noise import IntArray

FACTOR_ERROR = 4e-15  # of a computed feature, for each base pair that is multiplied into it: sketch_features.md


@dataclass(frozen=True, slots=True, eq=False)
class RieszProduct:
    """F frames of D base frequencies each; a frame holds all signed sums of subsets of its base frequencies.

    Parameters
    ----------
    bases : array_like, shape (F, D, n_features)
        Base frequencies in radians per unit of the records, D at most 6. Any finite numbers, drawn from public
        randomness or computed from earlier releases, never from records.
    centre : array_like, shape (n_features,)
        Public point, in the unit of the records; phases are taken from it.

    Guarantee
    ---------
    Replacing a record moves the features by at most sqrt(F 2^(D+1)), adding or removing one by sqrt(F (2^D - 1)), in
    L2. Proof: frequencies.md.

    Examples
    --------
    >>> frames = RieszProduct(np.eye(3)[None], centre=np.zeros(3))
    >>> frames.n_frequencies, int(frames.squared_sensitivity(Neighbouring.REPLACE_ONE))
    (13, 16)
    """

    bases: FloatArray
    centre: FloatArray
    kind: ClassVar[str] = "riesz"
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        bases, centre = frozen(self.bases), frozen(self.centre)
        if bases.ndim != 3 or 0 in bases.shape or bases.shape[1] > 6:
            raise ValueError(f"bases must have shape (F, D, n_features) with D at most 6, got {bases.shape}")
        if centre.shape != bases.shape[2:]:
            raise ValueError(f"centre must have shape {bases.shape[2:]}, got {centre.shape}")
        if not (np.isfinite(bases).all() and np.isfinite(centre).all()):
            raise ValueError("bases and centre must be finite")
        object.__setattr__(self, "bases", bases)
        object.__setattr__(self, "centre", centre)

    @property
    def n_features(self) -> int:
        """Columns of the records."""
        return int(self.bases.shape[2])

    @property
    def signs(self) -> IntArray:
        """Composition of the frequencies of one frame, shape (C, D), entries -1, 0, 1; the order of all arrays here."""
        return _signs(self.bases.shape[1])

    @property
    def n_frequencies(self) -> int:
        """F (3^D - 1)/2."""
        return self.bases.shape[0] * len(self.signs)

    @property
    def frequencies(self) -> FloatArray:
        """All frequencies in radians per unit, shape (n_frequencies, n_features)."""
        return np.einsum("cD,FDd->Fcd", self.signs, self.bases).reshape(self.n_frequencies, -1)

    @property
    def amplitudes(self) -> FloatArray:
        """Square root of 2^(1 - q) for a sum of q base frequencies, shape (n_frequencies,)."""
        return np.tile(2.0 ** ((1 - np.abs(self.signs).sum(axis=1)) / 2), self.bases.shape[0])

    def squared_sensitivity(self, neighbouring: Neighbouring) -> Fraction:
        """Largest squared L2 change of the summed features."""
        n_frames, n_base, _ = self.bases.shape
        one = 2 ** (n_base + 1) if replaces_one(neighbouring) else 2**n_base - 1
        return Fraction(n_frames * one)

    @property
    def squared_count_weight(self) -> Fraction:
        """Of the count feature that is released beside the others when the number of records is private: F."""
        return Fraction(self.bases.shape[0])

    @property
    def feature_error(self) -> float:
        """Largest error of a computed feature: one term for each of D base pairs."""
        return self.bases.shape[1] * FACTOR_ERROR

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; :func:`frequencies_from_dict` reads it."""
        return {"kind": self.kind, "bases": self.bases.tolist(), "centre": self.centre.tolist()}


@dataclass(frozen=True, slots=True, eq=False)
class FejerHarmonics:
    """Multiples 1..J of one frequency with the amplitudes of the Fejer kernel, for a single column.

    Parameters
    ----------
    step : float
        Lowest frequency, radians per unit of the records.
    order : int
        J, the number of multiples, at most 1024.
    centre : float
        Public point, in the unit of the records.

    Guarantee
    ---------
    Replacing a record moves the features by at most sqrt(J + 1), adding or removing one by sqrt(J/2), in L2.
    Proof: frequencies.md.

    Examples
    --------
    >>> int(FejerHarmonics(step=0.5, order=16, centre=0.0).squared_sensitivity(Neighbouring.REPLACE_ONE))
    17
    """

    step: float
    order: int
    centre: float
    kind: ClassVar[str] = "fejer"
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        check_positive(step=self.step)
        check_count(order=self.order)
        if self.order > 1024:
            raise ValueError(f"order must be at most 1024, got {self.order}")
        check_real(centre=self.centre)
        if not math.isfinite(self.centre):
            raise ValueError(f"centre must be finite, got {self.centre!r}")

    @property
    def n_features(self) -> int:
        """Columns of the records: 1."""
        return 1

    @property
    def n_frequencies(self) -> int:
        """J."""
        return self.order

    @property
    def frequencies(self) -> FloatArray:
        """All frequencies in radians per unit, shape (order, 1)."""
        return self.step * np.arange(1.0, self.order + 1)[:, None]

    @property
    def amplitudes(self) -> FloatArray:
        """Square root of 1 - j/(J + 1), shape (order,)."""
        return np.sqrt(1 - np.arange(1, self.order + 1) / (self.order + 1))

    def squared_sensitivity(self, neighbouring: Neighbouring) -> Fraction:
        """Largest squared L2 change of the summed features."""
        return Fraction(self.order + 1) if replaces_one(neighbouring) else Fraction(self.order, 2)

    @property
    def squared_count_weight(self) -> Fraction:
        """Of the count feature that is released beside the others when the number of records is private: 1/2."""
        return Fraction(1, 2)

    @property
    def feature_error(self) -> float:
        """Largest error of a computed feature: one term for each of J powers."""
        return self.order * FACTOR_ERROR

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; :func:`frequencies_from_dict` reads it."""
        return {"kind": self.kind, "step": self.step, "order": self.order, "centre": self.centre}


Frequencies = RieszProduct | FejerHarmonics


def frequencies_from_dict(fields: Mapping[str, Any]) -> Frequencies:
    """Inverse of ``to_dict`` for fields from anywhere; ValueError when the kind is unknown or a value is wrong."""
    if not isinstance(fields, Mapping):
        raise ValueError(f"frequencies must be a mapping, got {shown(fields)}")
    if fields.get("kind") == RieszProduct.kind:
        return RieszProduct(finite_numbers(fields["bases"], "bases"), finite_numbers(fields["centre"], "centre"))
    if fields.get("kind") == FejerHarmonics.kind:
        return FejerHarmonics(fields["step"], fields["order"], fields["centre"])
    raise ValueError(f"kind of frequencies must be 'riesz' or 'fejer', got {shown(fields.get('kind'))}")


@functools.lru_cache(maxsize=8)
def _signs(n_base: int) -> IntArray:
    """Each base frequency alone, and added to and taken from everything before it: one of each pair w, -w."""
    rows: list[list[int]] = []
    for i in range(n_base):
        unit = [int(j == i) for j in range(n_base)]
        sums = [[a + sign * b for a, b in zip(row, unit, strict=True)] for row in rows for sign in (1, -1)]
        rows += [unit, *sums]
    table = np.array(rows, dtype=np.int64)
    table.setflags(write=False)
    return table

"""What a fit released: one frozen, publishable value, and what can be read off it. JSON in and out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from pm_dpgmm._arguments import FloatArray, frozen, printable, read_path, shown
from pm_dpgmm._version import __version__
from pm_dpgmm.files.frozen_values import frozen_values, plain_values
from pm_dpgmm.files.untrusted_json import read_json
from pm_dpgmm.files.writing import write_text
from pm_dpgmm.methods.fit_warnings import warnings_of
from pm_dpgmm.methods.released_checks import SCHEMA, check_plain, checked_parts
from pm_dpgmm.methods.released_densities import DensityMethods, law_of
from pm_dpgmm.methods.released_statistics import older_caveats
from pm_dpgmm.methods.sketch.checks.misfit import Misfit
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.mixture.background import background_of
from pm_dpgmm.mixture.far_rows import with_far_rows
from pm_dpgmm.mixture.mixture import Mixture, joined
from pm_dpgmm.privacy.guarantee import Guarantee, seeded_mark
from pm_dpgmm.records.transformed_columns import (
    TransformedColumns,
    check_apart,
    fields_of_transformations,
    version_of_file,
)
from pm_dpgmm.records.transformed_mixture import TransformedMixture


@dataclass(frozen=True, slots=True, eq=False)
class Released(DensityMethods):
    """The fields of a :class:`pm_dpgmm.Release`, checked and frozen, with all that depends on nothing but them."""

    mixture: Mixture
    guarantee: Guarantee
    method: str
    settings: Mapping[str, Any]
    raw: Mapping[str, FloatArray]
    noise: Mapping[str, Any]
    feature_names: tuple[str, ...]
    n_records: int | None
    private: bool = True
    version: str = field(default="")
    background_weight: float = 0.0
    background: Mixture | None = None
    transformations: TransformedColumns | None = None
    _older_caveats: tuple[str, ...] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_plain(
            self.mixture, self.guarantee, self.method, self.private, self.version, self.n_records, self.background
        )
        names = tuple(map(str, self.feature_names))
        if len(names) != self.mixture.n_features:
            raise ValueError(f"feature_names must have {self.mixture.n_features} entries, got {len(names)}")
        if (self.background is None) != (self.background_weight == 0) or not 0 <= self.background_weight < 1:
            raise ValueError(
                f"background_weight must be in (0, 1) with a background, 0 without, got {self.background_weight}"
            )
        self._check_transformations(names)
        object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "guarantee", self.guarantee.marked(self.private))
        object.__setattr__(self, "raw", MappingProxyType({name: frozen(v) for name, v in self.raw.items()}))
        object.__setattr__(self, "settings", MappingProxyType(frozen_values(self.settings)))
        object.__setattr__(self, "noise", MappingProxyType(frozen_values(self.noise)))
        if not self.version:
            object.__setattr__(self, "version", __version__)

    def _check_transformations(self, names: tuple[str, ...]) -> None:
        if self.transformations is None:
            return
        if not isinstance(self.transformations, TransformedColumns):
            raise TypeError(f"transformations must be TransformedColumns or None, got {shown(self.transformations)}")
        if self.transformations.n_features != len(names):
            raise ValueError(f"transformations must be {len(names)}, got {self.transformations.n_features}")
        check_apart(self.resolution, self.transformations, names)

    def __copy__(self) -> Self:
        return self  # nothing of it can change

    def __deepcopy__(self, memo: object) -> Self:
        return self

    @property
    def weights(self) -> FloatArray:
        """Mixing weights, shape (K,)."""
        return self.mixture.weights

    @property
    def means(self) -> FloatArray:
        """Component means, shape (K, D); in the transformed unit where there is one."""
        return self.mixture.means

    @property
    def covariances(self) -> FloatArray:
        """Component covariances, shape (K, D, D); in the transformed unit where there is one."""
        return self.mixture.covariances

    @property
    def n_components(self) -> int:
        """Number of components, K."""
        return self.mixture.n_components

    @property
    def n_features(self) -> int:
        """Dimension of the records, D."""
        return self.mixture.n_features

    @property
    def statistic(self) -> Statistic:
        """What the numbers in ``raw`` are, and so what can be done with them."""
        return Statistic.of(self.method, self.noise)

    @property
    def resolution(self) -> FloatArray | None:
        """Steps of rounded columns that the fit knew of, shape (D,), 0 for others; None where it knew of none."""
        steps = self.noise.get("resolution")
        return None if steps is None else frozen(steps)

    @property
    def density(self) -> Mixture:
        """The released density, in the transformed unit: the K components, a background as one more."""
        return joined(self.mixture, background_of(self))

    @property
    def row_density(self) -> Mixture:
        """The density that rows are scored by: ``density``, and half a record far from it as a few components more.

        In the transformed unit. It is for logarithms of densities: half a record as wide as the bounds, and wider,
        moves no such mean, and moves variances and conditional laws a lot, which is why ``density`` is without it.
        """
        return with_far_rows(self.density, self.noise)

    @property
    def law(self) -> Mixture | TransformedMixture:
        """Law of records in their own unit: ``density`` itself, or what public transformations make of it."""
        return law_of(self.density, self.transformations, range(self.n_features))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons not to rely on the mixture, each a short text, from released and public numbers alone; often none.

        Made by the method's ``caveats`` when it was fitted, and kept in ``noise["caveats"]``; the misfit comes first.
        """
        if self._older_caveats is None:  # computed once; a release that is fitted now has its own
            found = older_caveats(self.raw, self.noise, self.mixture, self.method)
            object.__setattr__(self, "_older_caveats", found)
        return (*warnings_of(self.noise, self.n_components), *(self._older_caveats or ()))

    @property
    def flag(self) -> str | None:
        """``warnings`` as one text, or None where there are none."""
        return "; ".join(self.warnings) or None

    @property
    def misfit(self) -> Misfit | None:
        """Whether the released numbers contradict the mixture, and what that costs; None unless of method "sketch"."""
        return Misfit.of(self.noise, private=self.private)

    # ------------------------------------------------------------------ text and files
    def __repr__(self) -> str:
        g = self.guarantee
        return (
            f"<{type(self).__name__}: {self.n_components} components, {self.n_features} features,"
            f" {printable(self.method)}, epsilon={g.epsilon:g}, delta={g.delta:g}, {g.neighbouring}"
            f"{seeded_mark(self.private)}>"
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form, with the schema version: what :meth:`save` writes.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal(size=(1000, 2))
        >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(-5, 5))
        >>> fields = release.to_dict()
        >>> fields["schema"], fields["schema_version"]
        ('pm_dpgmm.release', 1)
        """
        return {
            "schema": SCHEMA,
            "schema_version": version_of_file(self.transformations),
            "version": self.version,
            "method": self.method,
            "settings": plain_values(self.settings),
            "private": self.private,
            "n_records": self.n_records,
            "feature_names": list(self.feature_names),
            "weights": self.weights.tolist(),
            "means": self.means.tolist(),
            "covariances": self.covariances.tolist(),
            "guarantee": self.guarantee.to_dict(),  # with the mark, for who reads it alone
            "raw": {name: array.tolist() for name, array in self.raw.items()},
            "noise": plain_values(self.noise),
            "background_weight": self.background_weight,
            "background": None
            if self.background is None
            else {"means": self.background.means.tolist(), "covariances": self.background.covariances.tolist()},
            **fields_of_transformations(self.transformations),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`to_dict`, for fields from anywhere.

        Parameters
        ----------
        fields : mapping of str
            Every one is checked; nothing in them is run.

        Raises
        ------
        TypeError, ValueError
            Naming the field, the rule and what was given.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal(size=(1000, 2))
        >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(-5, 5))
        >>> again = dpg.Release.from_dict(release.to_dict())
        >>> bool((again.means == release.means).all())
        True
        """
        return cls(**checked_parts(fields))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self.to_dict(),)  # what a file must pass a pickle must, too

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the release as JSON, all or nothing.

        Parameters
        ----------
        path : path
            Over a file that may be there.

        Returns
        -------
        pathlib.Path
            The path.

        Raises
        ------
        TypeError, OSError
            If it is no path, or cannot be written; what was there before is still there.
        ValueError
            If a transformation is made of functions, before anything is written: a file holds no code.
            ``dataclasses.replace(release, transformations=None)`` can be saved, all of it in the transformed unit.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal(size=(1000, 2))
        >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(-5, 5))
        >>> path = release.save(pathlib.Path(tempfile.mkdtemp()) / "release.json")
        >>> dpg.load(path).guarantee == release.guarantee
        True
        """
        return write_text(read_path(path), json.dumps(self.to_dict(), indent=1, allow_nan=False))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a release written by :meth:`save`. A file from anybody may be tried: nothing in it is run.

        Raises
        ------
        FileNotFoundError, PermissionError
            If there is no such file, or it may not be read.
        ValueError
            If it is no regular file, larger than 40 MiB, truncated, of another schema or version, if shapes or ranges
            of its numbers do not fit together, or if its epsilon and delta are not those that its privacy loss proves.
            That the numbers are noisy as it says cannot be read from a file: it is as honest as who wrote it.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal(size=(1000, 2))
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "release.json"
        >>> _ = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(-5, 5)).save(path)
        >>> dpg.Release.load(path).feature_names
        ('x0', 'x1')
        """
        fields = read_json(read_path(path), kind="release file")
        try:
            return cls.from_dict(fields)
        except (TypeError, ValueError) as error:
            raise ValueError(f"path must be a valid release file, got {str(path)!r}: {error}") from None

"""Releases of one table, a mixture for each level of a column of categories: together a law of the whole rows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, check_count, check_text, generator_of, printable, read_path, shown
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.files.untrusted_json import MOST_BYTES, read_json
from pm_dpgmm.files.writing import write_text
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.mixture.mixture import MOST_POINTS, shares_of
from pm_dpgmm.notebook_html import alarm, box, paragraph, table
from pm_dpgmm.privacy.guarantee import NOT_PRIVATE, Guarantee, Neighbouring
from pm_dpgmm.records.categories import Level, check_apart, check_levels, labelled, places_of
from pm_dpgmm.records.feature_names import in_order, names_of_records, positions, selected
from pm_dpgmm.release.combining import weakest
from pm_dpgmm.release.release import Release

SCHEMA, SCHEMA_VERSION = "pm_dpgmm.levels", 1
SIZED = (Statistic.SKETCH, Statistic.GRID_COUNTS, Statistic.SLICE_COUNTS)  # whose numbers tell how many records


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LevelReleases(Mapping[Level, Release]):
    """What :func:`pm_dpgmm.fit_levels` makes: a :class:`Release` for every level of a column of categories.

    A mapping from levels to releases, in the order of the levels. Together they are a law of whole rows: a level with
    its share, and the other columns given the level. All of it is post-processing of what was released.

    Attributes
    ----------
    by : str
        Name of the column of categories.
    releases : Mapping of level to Release
        Of the same columns, all under add-remove neighbours.

    Examples
    --------
    >>> import pandas as pd
    >>> import pm_dpgmm as dpg
    >>> rng = np.random.default_rng(1)
    >>> smokes = rng.random(4_000) < 0.3
    >>> table = pd.DataFrame({"pressure": rng.normal(120 + 12 * smokes, 9.0), "smokes": smokes})
    >>> budget = {"epsilon": 1.0, "delta": 1e-6, "bounds": {"pressure": (60, 220)}}
    >>> releases = dpg.fit_levels(table, 1, by="smokes", levels=(False, True), **budget)
    >>> bool(abs(releases.shares[1] - 0.3) < 0.05), bool(releases[True].means[0, 0] > releases[False].means[0, 0] + 8)
    (True, True)
    >>> releases.level_probs(pd.DataFrame({"pressure": [110.0, 140.0]})).argmax(axis=1).tolist()
    [0, 1]
    """

    by: str
    releases: Mapping[Level, Release]
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        if not isinstance(self.releases, Mapping):
            raise TypeError(f"releases must be a mapping from levels to Release objects, got {shown(self.releases)}")
        check_text(by=self.by)
        check_levels(list(self.releases))
        first: Release | None = None
        for level, release in self.releases.items():
            if not isinstance(release, Release):
                raise TypeError(f"releases must hold Release objects, got {shown(release)} for level {shown(level)}")
            if release.guarantee.neighbouring is not Neighbouring.ADD_REMOVE:
                rule = "releases must be under add-remove neighbours, as how many records a level has is private"
                raise ValueError(f"{rule}, got {release.guarantee.neighbouring} for level {shown(level)}")
            if release.statistic not in SIZED:
                rule = "releases must hold noisy numbers of records: of method 'sketch', 'histogram' or 'slices'"
                raise ValueError(f"{rule}, got method {release.method!r} for level {shown(level)}")
            first = first or release
            if release.feature_names != first.feature_names:
                rule = f"releases must have equal columns, {shown(first.feature_names)}"
                raise ValueError(f"{rule}, got {shown(release.feature_names)} for level {shown(level)}")
        object.__setattr__(self, "releases", MappingProxyType(dict(self.releases)))
        check_apart(self.by, self.feature_names)

    # ------------------------------------------------------------------ a mapping
    __eq__, __hash__ = object.__eq__, object.__hash__  # a mapping's would forget ``by``

    def __getitem__(self, level: Level) -> Release:
        if level not in self.releases:
            raise KeyError(f"level must be one of {shown(self.levels)}, got {shown(level)}")
        return self.releases[level]

    def __iter__(self) -> Iterator[Level]:
        return iter(self.releases)

    def __len__(self) -> int:
        return len(self.releases)

    def __repr__(self) -> str:
        return f"<LevelReleases: {len(self)} levels of {self.by!r}, {self.guarantee}>"

    # ------------------------------------------------------------------ facts
    @property
    def levels(self) -> tuple[Level, ...]:
        """The categories, in order."""
        return tuple(self.releases)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of the mixtures."""
        return next(iter(self.releases.values())).feature_names

    @property
    def private(self) -> bool:
        """False when some noise was drawn from a known seed."""
        return all(release.private for release in self.releases.values())

    @property
    def guarantee(self) -> Guarantee:
        """Of all releases together, under add-remove neighbours: that of one of them, the weakest.

        A person is in one level, and the releases of the other levels do not depend on her record (proof: by_level.md).
        Replacing a record is a removal and an addition: ``dpg.group_epsilons(guarantee, [2], delta=...)`` has its
        price.
        """
        words = f"parallel composition over {len(self)} levels of one column (by_level.md)"
        return weakest([release.guarantee for release in self.releases.values()], words).marked(self.private)

    @property
    def sizes(self) -> FloatArray:
        """Noisy numbers of records of the levels, shape (L,); of a small level perhaps below 0."""
        return np.array([_size(release) for release in self.releases.values()])

    @property
    def shares(self) -> FloatArray:
        """Of the levels among all records, shape (L,), each above 0.

        The nearest to the noisy numbers that are none below 0 and have their sum, which many small levels would else
        exceed; a level then counts as at least half a record.
        """
        sizes = np.maximum(_nearest(self.sizes), 0.5)
        return sizes / sizes.sum()

    # ------------------------------------------------------------------ the law of whole rows
    def log_density(self, X: Any, labels: ArrayLike | None = None) -> FloatArray:
        """Log of the level's share times its density, at every row.

        Parameters
        ----------
        X : DataFrame or array_like, shape (N, D)
            In the unit of the records; a frame with the column ``by``, unless ``labels`` are given.
        labels : sequence, length N, optional
            The level of every row.

        Returns
        -------
        ndarray, shape (N,)

        Raises
        ------
        TypeError, ValueError
            If a label is no level, or columns are missing or too many.
        """
        _, found, columns = (
            labelled(X, self.by, None) if labels is None else labelled(X, labels, None, parameter="labels")
        )
        if columns is not None:
            X = selected(X, positions(columns, names_of_records(X) or ()))
        joint = self._joint(X)
        return np.asarray(joint[np.arange(len(joint)), places_of(found, self.levels, "labels")])

    def level_probs(self, X: Any) -> FloatArray:
        """Probability of every level given the other columns of a row, shape (N, L).

        ``X`` has the columns of the mixtures alone, (N, D). Where no level has a density they are the shares; of a row
        with a missing value they are NaN.
        """
        return shares_of(self._joint(X), np.log(self.shares))

    def sample(self, n_points: int, *, random_seed: int | np.random.Generator | None = None) -> Any:
        """Synthetic rows, a pandas DataFrame with the columns of the mixtures and ``by``, in random order."""
        import pandas as pd

        check_count(n_points=n_points, most=MOST_POINTS)
        rng = generator_of(random_seed)
        numbers = rng.multinomial(n_points, self.shares)
        parts = [
            release.sample(int(n), random_seed=rng, as_frame=True)
            for n, release in zip(numbers, self.releases.values(), strict=True)
            if n
        ]
        rows = pd.concat(parts, ignore_index=True)
        rows[self.by] = [level for n, level in zip(numbers.tolist(), self.levels, strict=True) for _ in range(n)]
        return rows.iloc[rng.permutation(len(rows))].reset_index(drop=True)

    def _joint(self, X: Any) -> FloatArray:
        points = in_order(X, self.feature_names, name="X")
        with np.errstate(all="ignore"):  # far away, where no number holds the square of a distance
            parts = [release.log_density(points) for release in self.releases.values()]
        return np.stack(parts, axis=1) + np.log(self.shares)

    # ------------------------------------------------------------------ text and files
    def summary(self) -> str:
        """The guarantee, the shares of the levels, and the summary of every release."""
        by = printable(self.by)
        lines = [f"{len(self)} levels of '{by}': {self.guarantee}"]
        for (level, release), size, share in zip(self.releases.items(), self.sizes, self.shares, strict=True):
            lines += ["", f"{by} = {level!r}: share {share:.3f}, some {max(size, 0):,.0f} records (noisy)"]
            lines.append(release.summary())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """What a notebook shows: the price, and a row for every level."""
        g = self.guarantee
        parts = [] if self.private else [alarm(NOT_PRIVATE)]
        parts.append(paragraph(f"epsilon = {g.epsilon:g}, delta = {g.delta:g}, {g.neighbouring} neighbours"))
        rows = [
            [str(level), f"{share:.3f}", str(release.n_components), str(len(release.warnings))]
            for (level, release), share in zip(self.releases.items(), self.shares, strict=True)
        ]
        parts.append(table(rows, head=[self.by, "share (noisy)", "components", "warnings"]))
        return box(f"Releases by level of {self.by}: {', '.join(self.feature_names)}", *parts)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form, with the schema version."""
        releases = [{"level": level, "release": release.to_dict()} for level, release in self.releases.items()]
        return {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "by": self.by, "releases": releases}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a JSON file, all or nothing; returns the path. :meth:`load` reads it.

        ValueError for more than a file may hold; every release can be saved by itself.
        """
        text = json.dumps(self.to_dict(), allow_nan=False)
        if len(text) > MOST_BYTES:  # of ASCII
            rule = f"releases must fit a file of {MOST_BYTES:,} bytes, got {len(text):,}"
            raise ValueError(f"{rule}; save each of them by itself")
        return write_text(read_path(path), text)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LevelReleases:
        """Read a file written by :meth:`save`; every release in it is checked as by ``dpg.load``.

        Raises
        ------
        FileNotFoundError, ValueError
            If there is no such file, or it is no file of releases by level.
        """
        fields = read_json(read_path(path), kind="file of releases by level")
        if not isinstance(fields, dict) or fields.get("schema") != SCHEMA:
            raise ValueError(f"path must be a file of schema {SCHEMA!r}, got {str(path)!r}")
        if fields.get("schema_version") != SCHEMA_VERSION or isinstance(fields["schema_version"], bool):
            given = shown(fields.get("schema_version"))
            raise ValueError(f"path must be a file of schema version {SCHEMA_VERSION}, got {given}; update pm_dpgmm")
        try:
            parts = fields["releases"]
            check_levels([part["level"] for part in parts])
            return cls(fields["by"], {part["level"]: Release.from_dict(part["release"]) for part in parts})
        except KeyError as error:
            raise ValueError(f"path must be a file with {error}, got {str(path)!r} without") from None
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"path must be a valid file of releases by level, got {str(path)!r}: {error}") from None


def _size(release: Release) -> float:
    if release.statistic is Statistic.SKETCH:
        return float(SketchStatistics.from_arrays(release.raw, release.noise).released_n_records)
    total = float(release.raw["counts"].sum())
    return total / len(release.raw["sizes"]) if release.statistic is Statistic.SLICE_COUNTS else total


def _nearest(sizes: FloatArray) -> FloatArray:
    """The nearest numbers, none below 0, with the sum of these: a Euclidean projection onto a simplex."""
    total = max(float(sizes.sum()), 1.0)
    falling = np.sort(sizes)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(sizes) + 1)
    return np.asarray(np.maximum(sizes - excess[falling > excess][-1], 0.0))

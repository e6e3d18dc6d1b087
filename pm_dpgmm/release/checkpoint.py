"""What a fit had released when it was interrupted: kept in a file or on the exception, and fitted later at no cost."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, finite_numbers, frozen, read_choices, read_path, shown
from pm_dpgmm._version import __version__
from pm_dpgmm.files.frozen_values import frozen_values, plain_values
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.files.untrusted_json import read_json
from pm_dpgmm.files.writing import write_text
from pm_dpgmm.learners.quiet import without_float_errors
from pm_dpgmm.methods import two_phase
from pm_dpgmm.methods.outcome import Listener, Outcome, answered
from pm_dpgmm.methods.released_checks import check_names, check_public, private_in_file
from pm_dpgmm.methods.released_statistics import check_masked
from pm_dpgmm.methods.statistic import OF_METHOD, Statistic
from pm_dpgmm.privacy.guarantee import Guarantee, Unstable
from pm_dpgmm.records.transformed_columns import (
    TransformedColumns,
    fields_of_transformations,
    transformations_of_file,
    version_of_file,
)
from pm_dpgmm.release.by_statistic import ALLOWED
from pm_dpgmm.release.interrupted_fits import Interrupted
from pm_dpgmm.release.late_warnings import warn_after_spending, warn_of_fit
from pm_dpgmm.release.making import release_of
from pm_dpgmm.release.release import Release

SCHEMA = "pm_dpgmm.checkpoint"
MODE = 0o600  # numbers that nobody has decided to publish yet
MOST_ASKED_COMPONENTS = 512  # in a file: two cells of the default histogram, or two frequencies, for each
MOST_CRUDE = 1_000_000  # numbers of a crude release from a file: factors and eigenvalues take seconds


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """The noisy numbers that an interrupted fit had released, with public facts: all that :func:`resume` needs.

    Attributes
    ----------
    method : str
    settings : Mapping
        As a release records them.
    n_components : tuple of int
        What the fit was asked for.
    feature_names : tuple of str
    n_records : int or None
        Public under replace-one neighbours, None otherwise.
    private : bool
        False when the noise was drawn from a known seed.
    guarantee : Guarantee
        Of the whole fit. What had not been spent yet is counted as spent: the fit was paid for before it began.
    raw : Mapping of str to ndarray
        Noisy statistics released so far.
    noise : Mapping
        Their public law.
    transformations : TransformedColumns or None
        Public transformations of the columns.
    """

    method: str
    settings: Mapping[str, Any]
    n_components: tuple[int, ...]
    feature_names: tuple[str, ...]
    n_records: int | None
    private: bool
    guarantee: Guarantee
    raw: Mapping[str, FloatArray]
    noise: Mapping[str, Any]
    version: str = field(default="")
    transformations: TransformedColumns | None = None
    __reduce__ = by_constructor  # so that an exception which carries it reaches another process

    def __post_init__(self) -> None:
        check_public(self.guarantee, self.method, self.private, self.version, self.n_records)
        check_names(self.feature_names)
        object.__setattr__(self, "guarantee", self.guarantee.marked(self.private))
        object.__setattr__(self, "raw", MappingProxyType({name: frozen(v) for name, v in self.raw.items()}))
        object.__setattr__(self, "noise", MappingProxyType(frozen_values(self.noise)))
        object.__setattr__(self, "settings", MappingProxyType(frozen_values(self.settings)))
        if not self.version:
            object.__setattr__(self, "version", __version__)

    def __repr__(self) -> str:
        return f"<Checkpoint: {self.method}, {len(self.raw)} arrays of noisy numbers, {self.guarantee}>"

    @property
    def crude_alone(self) -> bool:
        """Whether a crude release is there, and no sketch: :func:`resume` then gives the crude mixture."""
        return self._holds_sketches and not self.noise.get("sketches") and bool(self.noise.get("crude"))

    @property
    def fittable(self) -> bool:
        """Whether it holds what :func:`resume` needs."""
        complete = "average_weights" in self.raw  # an average's mixture, whose sketch stands apart
        if OF_METHOD.get(self.method) is Statistic.BIN_COUNTS:
            return "edges" in self.raw  # what comes before are gaps
        return not self._holds_sketches or bool(self.noise.get("sketches")) or self.crude_alone or complete

    @property
    def _holds_sketches(self) -> bool:
        return OF_METHOD.get(self.method) in (Statistic.SKETCH, Statistic.AVERAGE)  # in the end: an early file has none

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form, with the schema version."""
        return {
            "schema": SCHEMA,
            "schema_version": version_of_file(self.transformations),
            "version": self.version,
            "method": self.method,
            "settings": plain_values(self.settings),
            "n_components": list(self.n_components),
            "feature_names": list(self.feature_names),
            "n_records": self.n_records,
            "private": self.private,
            "guarantee": self.guarantee.to_dict(),
            "raw": {name: array.tolist() for name, array in self.raw.items()},
            "noise": plain_values(self.noise),
            **fields_of_transformations(self.transformations),
        }

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a file that only its owner can read, all or nothing; returns the path."""
        return write_text(read_path(path), json.dumps(self.to_dict(), allow_nan=False), mode=MODE)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Read a file written by :meth:`save`; FileNotFoundError or ValueError says what is wrong with it."""
        place = read_path(path)
        if place.is_file() and not place.stat().st_size:
            raise ValueError(
                f"path must be a checkpoint file, got {str(path)!r}, which is empty: the fit is running or was killed,"
                " and had released nothing"
            )
        fields = read_json(place, kind="checkpoint file")
        if not isinstance(fields, dict) or fields.get("schema") != SCHEMA:
            raise ValueError(f"path must be a file of schema {SCHEMA!r}, got {str(path)!r}")
        try:
            names = tuple(fields["feature_names"])
            for name in ("settings", "raw", "noise"):
                if not isinstance(fields[name], dict):
                    raise ValueError(f"{name} must be a mapping, got {shown(fields[name])}")
            guarantee = Guarantee.from_dict(fields["guarantee"])
            return cls(
                method=fields["method"],
                settings=fields["settings"],
                n_components=read_choices(fields["n_components"], most=MOST_ASKED_COMPONENTS),
                feature_names=names,
                n_records=fields["n_records"],
                private=private_in_file(fields["private"], guarantee),
                guarantee=guarantee,
                raw={name: finite_numbers(value, f"raw[{name!r}]") for name, value in fields["raw"].items()},
                noise=fields["noise"],
                version=fields["version"],
                transformations=transformations_of_file(fields, names),
            )
        except KeyError as error:
            raise ValueError(f"path must be a checkpoint file with {error}, got {str(path)!r} without") from None
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"path must be a valid checkpoint file, got {str(path)!r}: {error}") from None


def resume(
    source: str | os.PathLike[str] | Checkpoint | BaseException, n_components: int | Iterable[int] | None = None
) -> Release:
    """Finish an interrupted fit from what it had released. The records are not needed, and nothing more is spent.

    Parameters
    ----------
    source : path, Checkpoint or exception
        The file given as ``fit_gmm(..., checkpoint=path)``, a :class:`Checkpoint`, or the exception that ended the
        fit, which carries one as its attribute ``released``.
    n_components : int or sequence of int, optional
        None: what the fit was asked for.

    Returns
    -------
    Release
        If only the fit was interrupted, the release that it would have made, to the last bit. Of "aggregate", which
        needs its learner for that: the average as it was released, also where the fit ended while it was put together
        with the sketch (then as with ``fuse=False``, and ``warnings`` say so); before that, the sketch. ``raw`` keeps
        all numbers. If some numbers had not been released yet, a fit to those that were: less precise, at the same
        price, since the part of the budget that was not used is not given back. A :class:`pm_dpgmm.FitWarning` is
        given as for a fit.

    Raises
    ------
    FileNotFoundError, TypeError, ValueError
        If there is no such file, it is no checkpoint, or nothing can be fitted to what it holds: "sketch" must have
        released its first sketch, "two-phase" at least its crude release, whose mixture is then the result, "gaps" the
        counts that follow the gaps. The populous methods draw noise at their very end and leave no checkpoint.

    Guarantee
    ---------
    That of the fit: the result is a function of numbers that were released, and of public ones.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import pm_dpgmm as dpg
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "fit.partial.json"
    >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
    >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15), checkpoint=path)
    >>> again = dpg.resume(path)
    >>> bool((again.means == release.means).all())
    True
    """
    if isinstance(source, BaseException):
        source = getattr(source, "released", source)
    if isinstance(source, (str, os.PathLike)):
        source = Checkpoint.load(source)
    if not isinstance(source, Checkpoint):
        raise TypeError(f"source must be a path, a Checkpoint or an exception that carries one, got {shown(source)}")
    numbers = source.n_components if n_components is None else read_choices(n_components)
    try:
        with without_float_errors():  # as in the fit
            release = release_of(
                _outcome(source, numbers),
                method=source.method,
                settings=source.settings,
                feature_names=source.feature_names,
                n_records=source.n_records,
                private=source.private,
                version=source.version,
                transformations=source.transformations,
            )
    except (AttributeError, IndexError, KeyError) as error:
        raise ValueError(f"source must be a complete checkpoint, got one without {error}") from None
    except TypeError as error:
        raise ValueError(f"source must be a checkpoint whose parts have their kinds, got another: {error}") from None
    except ArithmeticError as error:
        raise ValueError(f"source must be a checkpoint of ordinary numbers, got others: {error}") from None
    warn_of_fit(release, stacklevel=2)
    return release


def _outcome(source: Checkpoint, numbers: tuple[int, ...]) -> Outcome:
    if source.crude_alone:
        if numbers != source.n_components:
            asked = f"n_components must be {source.n_components[0]}, that of the crude release, which is all there is"
            raise ValueError(f"{asked}, got {shown(list(numbers))}")
        return _crude_outcome(source)
    allowed = ALLOWED[OF_METHOD.get(source.method, Statistic.UNKNOWN)]  # a file may end before its statistics tell
    if len(numbers) > 1 and not allowed.chooses:
        raise ValueError(f"n_components must be an integer with method {source.method!r}, got {numbers}")
    if allowed.resume is None:
        able = [method for statistic, row in ALLOWED.items() if row.resume for method in statistic.methods]
        raise ValueError(f"method must be one of {', '.join(map(repr, able))} to be resumed, got {source.method!r}")
    facts = len(source.feature_names), source.n_components, numbers, source.n_records
    return allowed.resume(Interrupted(source.guarantee, source.raw, source.noise, *facts))


def _crude_outcome(source: Checkpoint) -> Outcome:
    """The crude release of a checkpoint from anywhere; of its public law, nothing else is believed or kept."""
    law = source.noise["crude"]
    if not isinstance(law, Mapping) or law.get("law") != Statistic.LIFTED_MASK.value:
        raise ValueError(f"crude must be the public law of a lifted mask, got {shown(law)}")
    own = two_phase.crude_numbers(source.raw)
    if sum(np.size(values) for values in own.values()) > MOST_CRUDE:
        raise ValueError(f"a crude release must have at most {MOST_CRUDE} numbers, got more")
    check_masked(own, law, source.n_components[0], len(source.feature_names))
    return two_phase.crude_alone(source.guarantee, source.raw, {"crude": law})


@contextlib.contextmanager
def keeping(path: Path | None, **facts: Any) -> Iterator[Listener]:
    """A listener that keeps what is released: in the file ``path`` if there is one, and on whatever ends the fit early.

    ``facts`` are the public fields of the :class:`Checkpoint`.
    """
    latest: list[Checkpoint] = []
    written: list[Checkpoint] = []  # what the file holds

    def store() -> None:
        if path is not None and written != latest:
            latest[0].save(path)
            written[:] = latest

    def write() -> None:
        try:
            store()
        except (OSError, TypeError, ValueError) as error:
            # the budget is spent: the fit goes on, and its numbers are still in memory
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            end = ", and the file holds an earlier part of what was released" if written else " without"
            message = f"checkpoint {str(path)!r} could not be written: {why}; the fit goes on{end}"
            warn_after_spending(message, RuntimeWarning, stacklevel=3)

    def released(guarantee: Guarantee, raw: Mapping[str, FloatArray], noise: Mapping[str, Any]) -> None:
        latest[:] = [Checkpoint(guarantee=guarantee, raw=raw, noise=noise, **answered(facts, noise))]
        write()

    try:
        yield released
    except BaseException as error:
        if isinstance(error, Unstable) and isinstance(error.guarantee, Guarantee):
            error.guarantee = error.guarantee.marked(facts["private"])
        if latest:
            error.released = latest[0]  # type: ignore[attr-defined]
            with contextlib.suppress(Exception):  # it may have been the writing that was interrupted
                store()
            where = "its attribute released"
            if written:
                where += f", and {'' if written == latest else 'an earlier part of it '}in {str(path)!r}"
            end = ": pm_dpgmm.resume(...) fits to it at no cost." if latest[0].fittable else "."
            error.add_note(f"What was paid for is in {where}{end}")
        raise

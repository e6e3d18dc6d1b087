"""Certificates as they are written: what an audit found, as JSON from which every bound can be computed again."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import uuid
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verification._arguments import shown

if TYPE_CHECKING:
    from verification.auditing.curve_result import CurveAuditResult
    from verification.auditing.one_run_result import OneRunResult
    from verification.auditing.result import AuditResult

FORMAT, CURVE_FORMAT, ONE_RUN_FORMAT = "privacy audit 2", "privacy curve audit 1", "privacy audit in one run 1"
PACKAGES = ("pm-dpgmm", "numpy", "scipy", "scikit-learn")
NOT_COVERED = (
    "The bounds follow from the counts if the runs were independent, each on one of the two data sets by the flip of a"
    " fair coin, and no guess saw its own coin. This file cannot show that; only another run of the audit can."
    " The digest shows what was changed by mistake, not by a forger, who can compute it too."
)

ONE_RUN_NOT_COVERED = (
    "The bounds follow from the counts if every canary was in or out by a fair coin of its own, the numbers of guesses"
    " were fixed before the run, and no guess saw a coin. This file cannot show that; only another run can. The digest"
    " shows what was changed by mistake, not by a forger, who can compute it too."
)


def certificate(
    result: AuditResult | CurveAuditResult | OneRunResult, *, mechanism: str = "", pair: str = ""
) -> dict[str, Any]:
    """Return the certificate of an audit as plain JSON types.

    Parameters
    ----------
    result : AuditResult, CurveAuditResult or OneRunResult
    mechanism, pair : str
        Names for the reader: which mechanism, which neighbouring data sets.

    Returns
    -------
    dict
        ``format``, ``statement`` (the verdict in words, and that a pass is no proof), ``mechanism``, ``pair``,
        ``versions``, ``not_covered``, the fields of the result, without the histogram, which no bound follows from,
        and ``digest`` (SHA-256) of all other entries, because some follow from no count.

    Examples
    --------
    >>> import numpy as np
    >>> from verification.auditing.audit import audit
    >>> coin = lambda data, n, rng: rng.random(n) < data
    >>> result = audit(coin, 0.3, 0.7, epsilon=0.5, n_samples=2_000, rng=np.random.default_rng(1))
    >>> from verification.auditing.certificate_reading import verify
    >>> verify(certificate(result)).holds
    True
    """
    for name, text in (("mechanism", mechanism), ("pair", pair)):
        if not isinstance(text, str):
            raise TypeError(f"{name} must be a text that names it, got {shown(text)}")
    fields = {key: value for key, value in result.as_dict().items() if not key.startswith("histogram")}
    claimed = getattr(result, "curve", None)
    if claimed is not None:
        fields["curve"] = {name: getattr(claimed, name).tolist() for name in ("epsilons", "first", "second")}
        if not claimed.family.name:
            fields["curve"] |= {name: getattr(claimed.family, name) for name in ("slack", "failure")}
    one_run = "tries" in fields
    found = {
        "format": ONE_RUN_FORMAT if one_run else FORMAT if claimed is None else CURVE_FORMAT,
        "statement": str(result),
        "mechanism": mechanism,
        "pair": pair,
        "not_covered": ONE_RUN_NOT_COVERED if one_run else NOT_COVERED,
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        **fields,
    }
    return found | {"digest": digest_of(found)}


def save_certificate(
    result: AuditResult | CurveAuditResult | OneRunResult,
    path: str | os.PathLike[str],
    *,
    mechanism: str = "",
    pair: str = "",
) -> None:
    """Write the certificate to ``path``, whole or not at all; a symbolic link stays one.

    Raises
    ------
    TypeError, ValueError, OSError
        If ``path`` is no path, is there and no regular file (a pipe or a device would be replaced, and so be gone), or
        cannot be written.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be a path, got {shown(path)} of type {type(path).__name__}")
    target = Path(os.path.realpath(path))
    if not target.name or (target.exists() and not target.is_file() and not target.is_dir()):
        raise ValueError(f"path must be a regular file or a new one, got {shown(os.fspath(path))}")
    text = json.dumps(certificate(result, mechanism=mechanism, pair=pair), indent=1, allow_nan=False)
    draft = target.with_name(f".writing-{uuid.uuid4().hex}")  # short: a name may be as long as names can be
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None  # the draft's name tells nobody anything
    finally:
        draft.unlink(missing_ok=True)


def digest_of(stored: Mapping[str, Any]) -> str | None:
    """SHA-256 of all other entries; None if they are no plain JSON, and so came from no certificate."""
    entries = {name: value for name, value in stored.items() if name != "digest"}
    try:
        words = json.dumps(entries, sort_keys=True, allow_nan=False)
        if json.loads(words) != entries:  # keys that are no text, tuples: another file gives the same words
            return None
    except (TypeError, ValueError, RecursionError):
        return None
    return hashlib.sha256(words.encode()).hexdigest()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"

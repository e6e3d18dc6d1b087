"""Which releases a PyMC model has used, and how: using one as a prior and as evidence would count it twice."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pm_dpgmm.release import Release

ANCHORED = "anchored"  # its numbers are the centre of a prior
OBSERVED = "observed"  # its noisy statistics are evidence

_USES: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()


def mark_used(model: Any, release: Release, use: str) -> None:
    """Remember that ``model`` uses ``release`` as a prior (``ANCHORED``) or as evidence (``OBSERVED``).

    The same released numbers are the same release, however many objects hold them: a copy read from a file counts.

    Raises
    ------
    ValueError
        If the model already uses it as evidence, or uses it as a prior and now as evidence.
    """
    uses = _USES.setdefault(model.root, {})
    key = _fingerprint(release)
    before = uses.get(key)
    if before is not None and not before == use == ANCHORED:
        words = {ANCHORED: "the centre of an anchored prior", OBSERVED: "evidence (observe)"}
        again = "again as" if before == use else "and as"
        raise ValueError(
            f"a release must be used once in a model, got it as {words[before]} {again} {words[use]}: that would count"
            ' its records twice; with observe(), use params(prior="weak")'
        )
    uses[key] = use


def _fingerprint(release: Release) -> str:
    """Digest of the released numbers."""
    digest = hashlib.sha256()
    for name in sorted(release.raw):
        digest.update(name.encode() + release.raw[name].tobytes())
    if not release.raw:
        for array in (release.weights, release.means, release.covariances):
            digest.update(array.tobytes())
    return digest.hexdigest()

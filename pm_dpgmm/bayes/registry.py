"""Which releases a PyMC model has used, and how: using one as a prior and as evidence would count it twice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pm_dpgmm.combining import sites_of
from pm_dpgmm.evidence import Evidence
from pm_dpgmm.mixture import Mixture

if TYPE_CHECKING:
    from pm_dpgmm.release import Release

ANCHORED = "anchored"  # its numbers are the centre of a prior
OBSERVED = "observed"  # its noisy statistics are evidence

_USES: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()
_WORDS = {ANCHORED: "the centre of an anchored prior", OBSERVED: "evidence"}


@contextmanager
def used_once(model: Any, release: Release | Mixture, use: str) -> Iterator[None]:
    """Refuse ``release`` as a prior (``ANCHORED``) or as evidence (``OBSERVED``) where that would count it twice.

    The model remembers the use when the block ends without an exception. The same released numbers are the same
    release, however many objects hold them: a copy read from a file counts, its mixture alone, and a combined release
    with one of its parts. Copies of a model (``pm.do``) start without memory.

    Raises
    ------
    ValueError
        On entry, if the model already uses it as evidence, or uses it as a prior and now as evidence.
    """
    uses, own = _USES.setdefault(model.root, {}), _fingerprints(release)
    for before in (uses[key] for key in own if key in uses):
        if not before == use == ANCHORED:
            told = f"is {_WORDS[before]} in this model already and cannot be {_WORDS[use]} too"
            hint = "" if before == use else '; with observe(), use params(prior="weak")'
            raise ValueError(f"a release must be used once in a model: it {told}, its records would count twice{hint}")
    yield
    uses.update(dict.fromkeys(own, use))


def _fingerprints(release: Release | Mixture) -> set[str]:
    """Digests of the mixture and of the released numbers: of all its sites, where it is made of several."""
    mixture = hashlib.sha256(b"".join(item.tobytes() for item in (release.weights, release.means, release.covariances)))
    found = {mixture.hexdigest()}
    if isinstance(release, Mixture):
        return found
    if "sketches" in release.noise:
        sites = sites_of(release, Evidence.from_arrays(release.raw, release.noise))
        return found | {site["fingerprint"] for site in sites}
    if release.raw:
        digest = hashlib.sha256()
        for name in sorted(release.raw):
            digest.update(name.encode() + release.raw[name].tobytes())
        found.add(digest.hexdigest())
    return found

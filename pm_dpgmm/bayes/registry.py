"""Which releases a PyMC model has used, and how: using one as a prior and as evidence would count it twice."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from pm_dpgmm.bayes.marks import USE, mark, marks
from pm_dpgmm.methods.sketch.sites import sites_of
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.mixture.mixture import Mixture

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released

ANCHORED = "anchored"  # its numbers are the centre of a prior
OBSERVED = "observed"  # its noisy statistics are evidence

_WORDS = {ANCHORED: "the centre of an anchored prior", OBSERVED: "evidence"}


def check_unused(model: Any, release: Released | Mixture, use: str) -> None:
    """Refuse ``release`` as a prior (``ANCHORED``) or as evidence (``OBSERVED``) where that would count it twice.

    The same released numbers are the same release, however many objects hold them: a copy read from a file counts, its
    mixture alone, what an interrupted fit left with the whole fit, and a combined release with one of its parts (of
    reports of local privacy their sum is known alone).
    A copy of a model (``pm.do``) knows what it holds: a release whose variables it replaced is used no more.

    Raises
    ------
    ValueError
        If the model already uses it as evidence, or uses it as a prior and now as evidence.
    """
    own, root = _fingerprints(release), model.root
    for _, (before, theirs) in marks([*root.basic_RVs, *root.potentials], USE):
        if own & theirs and not before == use == ANCHORED:
            told = f"is {_WORDS[before]} in this model already and cannot be {_WORDS[use]} too"
            hint = "" if before == use else '; with observe(), use params(prior="weak")'
            raise ValueError(f"a release must be used once in a model: it {told}, its records would count twice{hint}")


def remember_use(variable: Any, release: Released | Mixture, use: str) -> None:
    """Remember that ``variable``, a random variable or a potential, is where a model uses ``release``."""
    mark(variable, USE, (use, frozenset(_fingerprints(release))))


def _fingerprints(release: Released | Mixture) -> set[str]:
    """Digests of the mixture and of the released numbers: of all its sites, where it is made of several."""
    mixture = hashlib.sha256(b"".join(item.tobytes() for item in (release.weights, release.means, release.covariances)))
    found = {mixture.hexdigest()}
    if isinstance(release, Mixture):
        return found
    if release.statistic is Statistic.SKETCH:
        evidence = SketchStatistics.from_arrays(release.raw, release.noise)
        rounds = {hashlib.sha256(sketch.values.tobytes()).hexdigest() for sketch in evidence.sketches}
        return found | rounds | {site["fingerprint"] for site in sites_of(release, evidence)}
    if release.raw:
        digest = hashlib.sha256()
        for name in sorted(release.raw):
            digest.update(name.encode() + release.raw[name].tobytes())
        found.add(digest.hexdigest())
    return found

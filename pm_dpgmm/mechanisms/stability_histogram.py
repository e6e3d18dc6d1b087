"""Counts over an unbounded set of keys: only keys that many records share appear. Proof: stability_histogram.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pm_dpgmm._arguments import check_delta, check_positive
from pm_dpgmm.mechanisms.truncated_laplace import truncated_laplace_loss
from pm_dpgmm.privacy.curves import CompositionProfile, PrivacyProfile, TruncatedLaplaceProfile
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import Rng, truncated_discrete_laplace

Key = str | int | tuple[str, ...] | tuple[int, ...]


def _checked(key: Key) -> Key:
    parts = key if isinstance(key, tuple) else (key,)
    if not all(type(part) is str or type(part) is int for part in parts):
        raise TypeError(f"keys must be str, int or tuples of them, got a key of type {type(key).__name__}")
    return key


def stability_loss(
    *, epsilon: float, delta: float, neighbouring: Neighbouring
) -> tuple[TruncatedLaplaceProfile, PrivacyProfile]:
    """Noise of one key, and the privacy curve of the whole histogram."""
    check_positive(epsilon=epsilon)
    check_delta(delta, zero=False)
    changed = 2 if neighbouring is Neighbouring.REPLACE_ONE else 1
    one = truncated_laplace_loss(sensitivity=1, epsilon=epsilon / changed, delta=delta / changed)
    return one, one if changed == 1 else CompositionProfile(one, one, split=epsilon / 2)


def stability_histogram(
    keys: Iterable[Key],
    *,
    epsilon: float,
    delta: float,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    rng: Rng = None,
) -> tuple[dict[Key, int], PrivacyProfile]:
    """Noisy counts of the keys that enough records share; no list of possible keys is needed.

    Parameters
    ----------
    keys : iterable of str, int or tuples of them
        One key per record, a function of that record alone, all of one type. Other types are refused: 1 and 1.0 are
        equal as keys, and the one that came first would show.
    epsilon, delta : float
        Budget; 0 < delta < 1.
    neighbouring : Neighbouring
        Replacing a record moves two counts by one, adding or removing one moves a single count.
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    histogram : dict
        Noisy count of every kept key, in sorted order: the order of the records would be a leak. A key is
        kept when its noisy count exceeds the noise bound A, so a key that no record has is never kept.
    loss : PrivacyProfile
        Privacy curve of the release.

    Raises
    ------
    TypeError
        If a key has another type.

    Guarantee
    ---------
    (epsilon, delta)-DP. Proof: stability_histogram.md; after Korolova et al. (2009) and Bun, Nissim, Stemmer
    (2016), with truncated noise.

    Examples
    --------
    >>> histogram, _ = stability_histogram(["a"] * 500 + ["b"], epsilon=1.0, delta=1e-6)
    >>> list(histogram)
    ['a']
    """
    one, total = stability_loss(epsilon=epsilon, delta=delta, neighbouring=neighbouring)
    counts = sorted(Counter(_checked(key) for key in keys).items())
    draws = truncated_discrete_laplace(len(counts), scale=one.scale, bound=one.bound, rng=rng)
    noisy = {key: count + int(z) for (key, count), z in zip(counts, draws, strict=True)}
    return {key: count for key, count in noisy.items() if count > one.bound}, total

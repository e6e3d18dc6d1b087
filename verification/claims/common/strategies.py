"""Hypothesis strategies for hostile covariances and mixtures, shared by the claims and the tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from pm_dpgmm.mixture.mixture import Mixture

FloatArray = NDArray[np.float64]

# An element of every strategy is rebuilt from few drawn numbers, so that Hypothesis can shrink it.
_seeds = st.integers(0, 2**32 - 1)


def rotation(d: int, seed: int) -> FloatArray:
    """Random orthogonal matrix (d, d); seed 0 gives the identity, so that shrinking ends there."""
    if seed == 0:
        return np.eye(d)
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def symmetric(matrix: FloatArray) -> FloatArray:
    return (matrix + matrix.T) / 2


@st.composite
def covariance_matrices(draw: st.DrawFn, d: int, *, max_condition: float = 1e8, max_scale: float = 1e6) -> FloatArray:
    """Symmetric positive definite (d, d): condition number to 1e8, standard deviations from 1e-6 to 1e6 times that."""
    largest = float(np.log10(max_condition))
    drawn = np.array(draw(st.lists(st.floats(0, largest), min_size=d, max_size=d)))
    exponents = np.where(draw(st.booleans()), drawn, np.round(drawn))  # repeated eigenvalues are special
    scale = 10.0 ** draw(st.floats(-np.log10(max_scale), np.log10(max_scale)))
    q = rotation(d, draw(_seeds))
    return symmetric((q * 10.0**exponents) @ q.T) * scale**2


def invertible_matrices(d: int, *, max_condition: float = 10.0) -> st.SearchStrategy[FloatArray]:
    """Invertible (d, d) with bounded condition number."""

    def build(exponents: list[float], left: int, right: int) -> FloatArray:
        return rotation(d, left) @ np.diag(10.0 ** np.array(exponents)) @ rotation(d, right)

    reach = float(np.log10(max_condition)) / 2
    return st.builds(build, st.lists(st.floats(-reach, reach), min_size=d, max_size=d), _seeds, _seeds)


@st.composite
def neighbours_of(draw: st.DrawFn, covariance: FloatArray) -> FloatArray:
    """A covariance near or not so near the given one: relative log-eigenvalues from 1e-12 to 3, rotated."""
    d = len(covariance)
    reach = 10.0 ** draw(st.floats(-12, 0.5))
    relative = reach * np.array(draw(st.lists(st.floats(-1, 1), min_size=d, max_size=d)))
    q, factor = rotation(d, draw(_seeds)), np.linalg.cholesky(covariance)
    # The small change is added, not multiplied in: otherwise the rounding of factor @ factor.T would swamp it.
    return symmetric(covariance + factor @ ((q * np.expm1(relative)) @ q.T) @ factor.T)


@st.composite
def mixtures(
    draw: st.DrawFn,
    max_components: int = 4,
    max_features: int = 3,
    *,
    n_components: int | None = None,
    n_features: int | None = None,
) -> Mixture:
    """Mixtures with hostile covariances, equal components, near duplicates, equal and vanishing weights."""
    k = n_components or draw(st.integers(1, max_components))
    d = n_features or draw(st.integers(1, max_features))
    means, covariances = [], []
    for i in range(k):
        kind = draw(st.sampled_from(["new", "equal", "near"])) if i else "new"
        if kind == "new":
            covariances.append(draw(covariance_matrices(d)))
            sd = np.sqrt(np.diag(covariances[-1]))
            means.append(sd * np.array(draw(st.lists(st.floats(-10, 10), min_size=d, max_size=d))))
            continue
        twin, change = draw(st.integers(0, i - 1)), 0.0 if kind == "equal" else 10.0 ** draw(st.floats(-12, -2))
        covariances.append(covariances[twin] * (1 + change))
        means.append(means[twin] + change * np.sqrt(np.diag(covariances[twin])))
    return Mixture(draw(weight_vectors(k)), np.array(means), np.array(covariances))


def weight_vectors(k: int) -> st.SearchStrategy[FloatArray]:
    """Probabilities (k,): equal, general, tiny and zero ones."""
    raw = st.lists(st.sampled_from([0.0, 1e-9, 0.1, 0.5, 1.0]) | st.floats(1e-3, 1), min_size=k, max_size=k)
    general = raw.filter(lambda w: sum(w) > 1e-6).map(lambda w: np.array(w) / np.sum(w))
    return st.just(np.full(k, 1 / k)) | general


@st.composite
def similar_mixtures(draw: st.DrawFn, count: int, max_components: int = 3, max_features: int = 3) -> list[Mixture]:
    """``count`` mixtures of one shape: unrelated to the first, or a shuffled and slightly changed copy of it."""
    first = draw(mixtures(max_components, max_features))
    k, d = first.means.shape
    result = [first]
    for _ in range(count - 1):
        if draw(st.booleans()):
            result.append(draw(mixtures(n_components=k, n_features=d)))
            continue
        covariances = np.array([draw(neighbours_of(c)) for c in first.covariances])
        steps = np.array(draw(st.lists(st.floats(-1, 1), min_size=k, max_size=k)))
        sds = np.sqrt(np.diagonal(first.covariances, axis1=1, axis2=2))
        changed = Mixture(draw(weight_vectors(k)), first.means + steps[:, None] * sds, covariances)
        result.append(changed.permuted(draw(st.permutations(range(k)))))
    return result

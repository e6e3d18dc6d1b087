"""Hypothesis strategies for triples of close components and mixtures; the hostile covariances are those of the tests.

Every triple lies around its second element, at chosen distances of at most the radius, often exactly at the radius.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy import optimize

from verification.claims.common.distances import Component, FloatArray, Weighted
from verification.claims.common.strategies import (
    covariance_matrices,
    invertible_matrices,
    rotation,
    symmetric,
    weight_vectors,
)

Pair = tuple[Component, Component]
Triple = tuple[FloatArray, FloatArray, FloatArray]

_seeds = st.integers(0, 2**32 - 1)
LEAST = 0.02  # of the radius; closer ones are covered by the tests of the package's own distances


@st.composite
def close_covariances(draw: st.DrawFn, covariance: FloatArray, radius: float) -> FloatArray:
    """At Frobenius distance (both orders) from ``LEAST`` of the radius to the radius; rotated or sharing its axes."""
    d = len(covariance)
    direction = np.array(draw(st.lists(st.sampled_from([-1.0, 0.0, 1.0]) | st.floats(-1, 1), min_size=d, max_size=d)))
    if np.abs(direction).max() < 0.1:
        direction[0] = 1.0
    wanted = radius * draw(_shares())

    def size(scale: float) -> float:
        changes = np.expm1(scale * direction), np.expm1(-scale * direction)
        return max(float(np.linalg.norm(change)) for change in changes) - wanted

    scale = optimize.brentq(size, 0.0, 20.0, xtol=1e-14)
    q, factor = rotation(d, draw(_seeds)), np.linalg.cholesky(covariance)
    return symmetric(covariance + factor @ ((q * np.expm1(scale * direction)) @ q.T) @ factor.T)


@st.composite
def covariance_triples(draw: st.DrawFn, radius: float, max_features: int = 3) -> Triple:
    """Three covariances, the outer ones close to the middle one."""
    middle = draw(covariance_matrices(draw(st.integers(1, max_features))))
    return draw(close_covariances(middle, radius)), middle, draw(close_covariances(middle, radius))


@st.composite
def close_components(draw: st.DrawFn, component: Component, radius: float) -> Component:
    """Covariance and mean close to those given, the mean in standard deviations of the narrower law."""
    mean, covariance = component
    other = draw(close_covariances(covariance, radius)) if draw(st.booleans()) else covariance
    step = np.array(draw(st.lists(st.floats(-1, 1), min_size=len(mean), max_size=len(mean))))
    length = float(np.linalg.norm(step))
    if length < 0.1:
        return mean, other
    # In the coordinates of the sum of precisions the length bounds both Mahalanobis distances.
    inner = np.linalg.inv(np.linalg.inv(covariance) + np.linalg.inv(other))
    unit = np.linalg.cholesky(symmetric(inner)) @ (step / length)
    return mean + radius * draw(_shares()) * unit, other


@st.composite
def components(draw: st.DrawFn, max_features: int = 3) -> Component:
    """A hostile covariance and a mean within ten standard deviations of 0."""
    covariance = draw(covariance_matrices(draw(st.integers(1, max_features)), max_condition=1e6))
    sd = np.sqrt(np.diag(covariance))
    return sd * np.array(draw(st.lists(st.floats(-10, 10), min_size=len(sd), max_size=len(sd)))), covariance


@st.composite
def component_triples(draw: st.DrawFn, radius: float, max_features: int = 3) -> tuple[Component, Component, Component]:
    """Three components, the outer ones close to the middle one."""
    middle = draw(components(max_features))
    return draw(close_components(middle, radius)), middle, draw(close_components(middle, radius))


@st.composite
def component_pairs(draw: st.DrawFn, radius: float, max_features: int = 3, *, equal_means: bool = False) -> Pair:
    """A component and one close to it."""
    first = draw(components(max_features))
    second = draw(close_components(first, radius))
    return first, ((first[0], second[1]) if equal_means else second)


@st.composite
def mixture_pairs(draw: st.DrawFn, radius: float, max_components: int = 3) -> tuple[Weighted, Weighted]:
    """A mixture and one whose weights and components differ by at most the radius, shuffled; equal ones are common."""
    k = draw(st.integers(1, max_components))
    weights = draw(weight_vectors(k))
    parts = [draw(components(2))]
    for _ in range(k - 1):
        parts.append(parts[0] if draw(st.booleans()) else draw(close_components(parts[0], 5.0)))
    moved = [draw(close_components(part, radius)) if draw(st.booleans()) else part for part in parts]
    step = radius * draw(_shares()) * float(weights.max()) if k > 1 and draw(st.booleans()) else 0.0
    changed = weights.copy()
    changed[int(weights.argmax())] -= step
    changed[int(weights.argmin()) if weights.argmin() != weights.argmax() else -1] += step
    order = draw(st.permutations(range(k)))
    first: Weighted = [(float(w), *part) for w, part in zip(weights, parts, strict=True)]
    return first, [(float(changed[i]), *moved[i]) for i in order]


@st.composite
def mixture_triples(draw: st.DrawFn, radius: float, max_components: int = 3) -> tuple[Weighted, Weighted, Weighted]:
    """Three mixtures of one size, the outer ones close to the middle one and shuffled; equal components are common."""
    k, first = draw(st.integers(1, max_components)), draw(components(2))
    middle: Weighted = [(0.0, *first)]
    for _ in range(k - 1):
        middle.append((0.0, *(first if draw(st.booleans()) else draw(close_components(first, 5 * radius)))))
    middle = [(float(w), m, s) for w, (_, m, s) in zip(draw(weight_vectors(k)), middle, strict=True)]

    def close() -> Weighted:
        weights = draw(weight_vectors(k))
        changed = [
            (float(w), *draw(close_components((m, s), radius))) for w, (_, m, s) in zip(weights, middle, strict=True)
        ]
        return [changed[i] for i in draw(st.permutations(range(k)))]

    return close(), middle, close()


@st.composite
def moved_pairs(draw: st.DrawFn, radius: float, max_features: int = 3) -> tuple[Pair, Pair]:
    """(a pair of close components, the same pair after one affine map)."""
    first = draw(components(max_features))
    second = draw(close_components(first, radius))
    d = len(first[0])
    matrix = draw(invertible_matrices(d)) * 10.0 ** draw(st.integers(-3, 3))
    shift = np.sqrt(np.diag(matrix @ first[1] @ matrix.T)) * draw(st.floats(-10, 10))
    near, far = ((matrix @ m + shift, symmetric(matrix @ s @ matrix.T)) for m, s in (first, second))
    return (first, second), (near, far)


def _shares() -> st.SearchStrategy[float]:
    return st.sampled_from([1.0, 1 - 1e-9, 0.5]) | st.floats(LEAST, 1)

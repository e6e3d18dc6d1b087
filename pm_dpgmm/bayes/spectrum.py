"""Eigenvalues of small symmetric matrices in a graph whose gradient is finite where eigenvalues coincide."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad


def eigenvalues(matrices: Any) -> Any:
    """Eigenvalues (K, D) of symmetric ``matrices`` (K, D, D), K known when the graph is built.

    They are v'Mv with the eigenvectors v held fixed: the gradient of a symmetric function of them is exact, also at a
    multiple eigenvalue, where the gradient through the vectors is not finite. Second derivatives are not right.
    """
    found = []
    for k in range(matrices.type.shape[0]):
        matrix = matrices[k]
        vectors = disconnected_grad(pt.linalg.eigh(matrix)[1])
        found.append((vectors * (matrix @ vectors)).sum(axis=0))
    return pt.stack(found)

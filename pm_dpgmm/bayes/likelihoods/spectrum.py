"""Eigenvalues of small symmetric matrices in a graph whose gradient is finite where eigenvalues coincide."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt

from pm_dpgmm.bayes.pymc_compat import with_gradient


def eigenvalues(matrices: Any) -> Any:
    """Eigenvalues (K, D) of symmetric ``matrices`` (K, D, D), K known when the graph is built.

    Their gradient is that of v'Mv with the eigenvectors v held fixed: exact, and finite also at a multiple eigenvalue,
    where PyTensor's own is not. Second derivatives are right where eigenvalues differ.
    """
    matrix = matrices[0].type()
    values = with_gradient([matrix], [pt.linalg.eigh(matrix)[0]], _gradient, inline=True)
    return pt.stack([values(matrices[k]) for k in range(matrices.type.shape[0])])


def _gradient(inputs: list[Any], outputs: list[Any], gradients: list[Any]) -> list[Any]:
    vectors = pt.linalg.eigh(inputs[0])[1]
    return [(vectors * gradients[0]) @ vectors.T]

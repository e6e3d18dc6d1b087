"""Components of a model in the order of a release's, where its likelihood compares them one by one."""

from __future__ import annotations

import warnings
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad

from pm_dpgmm.bayes.likelihoods.shared_numbers import shared
from pm_dpgmm.bayes.rows.labels import nearest_order

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.methods.released import Released

MOST_TRIED = 7  # components of which all orders are tried, 5,040

Parts = tuple[Any, ...]  # weights (K,), means (K, D) and factors (K, D, D)


def in_order_of(release: Released, th: Any, parts: Parts) -> Parts:
    """``parts`` of ``th``, reordered: by the mixture that ``th`` is anchored to, or draw by draw by the nearest places.

    ValueError unless there are as many as the release's components.
    """
    k, given = release.n_components, parts[0].type.shape[0]
    if given not in (None, k):
        raise ValueError(f"th must have {k} components, those of a release of method {release.method!r}, got {given}")
    base = getattr(getattr(th, "anchor", None), "mixture", None)
    if base is not None:
        order = np.argsort(nearest_order(release.mixture, base)).tolist()
        return parts if order == list(range(k)) else tuple(part[order] for part in parts)
    if k == 1:
        return parts
    if k > MOST_TRIED:
        warnings.warn(
            f"observe() takes component j of th to be component j of the release, since {k} components, more than"
            f" {MOST_TRIED}, are not matched: an order of th's own makes the posterior wrong",
            UserWarning,
            stacklevel=4,
        )
        return parts
    nearest = _nearest(release, parts)
    return tuple(part[nearest] for part in parts)


def _nearest(release: Released, parts: Parts) -> TensorVariable:
    """For every component of the release the one of ``parts`` that takes its place (K,), as ``rows.labels`` has it.

    The order with the least sum of tr(S^-1 (C + g g')): S of the release, C and the gap g of the model.
    """
    k = release.n_components
    _, means, chol = (disconnected_grad(part) for part in parts)
    frames = shared(np.linalg.inv(np.linalg.cholesky(release.mixture.covariances)))
    gaps = means[:, None, None, :] - shared(release.means)[:, None, :]  # (K, K of the release, 1, D)
    widths = (frames[None, ..., None] * chol[:, None, None]).sum(axis=3)  # (K, K of the release, D, D)
    costs = pt.square((frames * gaps).sum(axis=-1)).sum(axis=-1) + pt.square(widths).sum(axis=(-2, -1))
    orders = pytensor.shared(np.array(list(permutations(range(k)))))
    return orders[pt.argmin(costs[orders, np.arange(k)].sum(axis=1))]

"""A latent vector with the law of transformed records: sampled in the transformed unit, read in that of the records."""

from __future__ import annotations

from typing import Any

import pymc as pm

from pm_dpgmm._arguments import check_text
from pm_dpgmm.bayes.coords import check_new, model_of
from pm_dpgmm.bayes.prior.priors import mixture_prior
from pm_dpgmm.bayes.rows.transformed import check_graph, in_units
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.records.transformed_columns import TransformedColumns

SUFFIX = "_transformed"


def transformed_prior(
    name: str, mixture: Mixture, columns: TransformedColumns, *, model: Any = None, **settings: Any
) -> Any:
    """Add a vector whose transformed columns have the density ``mixture``.

    ``{name}_transformed`` is what :func:`mixture_prior` makes, with ``settings``; ``name`` is a Deterministic of it in
    the unit of the records, whose law needs no Jacobian: nothing is observed or sampled there.
    """
    check_text(name=name)
    check_graph(columns, "prior")
    with model_of(model) as owner:
        check_new(owner, name)
        inner = mixture_prior(f"{name}{SUFFIX}", mixture, model=owner, **settings)
        dims = owner.root.named_vars_to_dims.get(inner.name)
        return pm.Deterministic(name, in_units(inner, columns), dims=dims)

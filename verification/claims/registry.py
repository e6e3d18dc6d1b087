"""All claims, family by family."""

from __future__ import annotations

import importlib
from functools import cache

from verification.claims.claim import Claim, claims_of

MODULES = (
    "common.divergences",
    "common.gaussians",
    "common.privacy",
    "common.tails",
    "total_variation.bounds",
    "total_variation.distance",
    "total_variation.mixtures",
    "total_variation.thesis",
    "total_variation.semimetrics",
    "total_variation.matchings",
    "masks.accuracy",
    "masks.constants",
    "masks.mixtures",
    "masks.privacy",
    "populous.budget",
    "populous.graphs",
    "populous.utility",
    "aggregated.alignment",
    "aggregated.mask",
    "aggregated.budget",
    "aggregated.core",
    "aggregated.graphs",
    "dp_em.baseline",
    "dp_em.composition",
    "dp_em.noise",
    "dp_em.runs",
    "dp_em.sensitivity",
    "local_central.central",
    "local_central.code",
    "local_central.local",
    "sample_efficient.closeness",
    "sample_efficient.gaps",
    "sample_efficient.lower_bound",
    "sample_efficient.matrices",
    "sample_efficient.robust",
    "sample_efficient.selection",
    "sample_efficient.steps",
    "sample_efficient.volumes",
)


@cache
def all_claims() -> tuple[Claim, ...]:
    """Every claim, family by family."""
    modules = (importlib.import_module(f"verification.claims.{name}") for name in MODULES)
    return tuple(claim for module in modules for claim in claims_of(module))

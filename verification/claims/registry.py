"""All claims, family by family."""

from __future__ import annotations

from functools import cache

from verification.claims.claim import Claim


@cache
def all_claims() -> tuple[Claim, ...]:
    """Every claim, family by family."""
    from verification.claims import (
        aggregated_alignment,
        aggregated_budget,
        aggregated_core,
        aggregated_graphs,
        central_release,
        common_divergences,
        common_gaussians,
        common_privacy,
        common_tails,
        dp_em_composition,
        dp_em_noise,
        dp_em_runs,
        dp_em_sensitivity,
        local_release,
        mask_accuracy,
        mask_constants,
        mask_mixtures,
        mask_privacy,
        matchings,
        populous_budget,
        populous_graphs,
        populous_utility,
        sample_efficient_closeness,
        sample_efficient_gaps,
        sample_efficient_matrices,
        sample_efficient_selection,
        sample_efficient_volumes,
        semimetrics,
        tv_bounds,
        tv_distance,
        tv_mixtures,
        tv_thesis,
    )

    families = (
        common_divergences,
        common_gaussians,
        common_privacy,
        common_tails,
        tv_bounds,
        tv_distance,
        tv_mixtures,
        tv_thesis,
        semimetrics,
        matchings,
        mask_accuracy,
        mask_constants,
        mask_mixtures,
        mask_privacy,
        populous_budget,
        populous_graphs,
        populous_utility,
        aggregated_alignment,
        aggregated_budget,
        aggregated_core,
        aggregated_graphs,
        dp_em_composition,
        dp_em_noise,
        dp_em_runs,
        dp_em_sensitivity,
        central_release,
        local_release,
        sample_efficient_closeness,
        sample_efficient_gaps,
        sample_efficient_matrices,
        sample_efficient_selection,
        sample_efficient_volumes,
    )
    return tuple(claim for family in families for claim in family.claims())

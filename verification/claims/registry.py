"""All claims, family by family."""

from __future__ import annotations

from functools import cache

from verification.claims.claim import Claim


@cache
def all_claims() -> tuple[Claim, ...]:
    """Every claim, family by family."""
    from verification.claims.aggregated import (
        alignment as aggregated_alignment,
    )
    from verification.claims.aggregated import (
        budget as aggregated_budget,
    )
    from verification.claims.aggregated import (
        core as aggregated_core,
    )
    from verification.claims.aggregated import (
        graphs as aggregated_graphs,
    )
    from verification.claims.common import (
        divergences as common_divergences,
    )
    from verification.claims.common import (
        gaussians as common_gaussians,
    )
    from verification.claims.common import (
        privacy as common_privacy,
    )
    from verification.claims.common import (
        tails as common_tails,
    )
    from verification.claims.dp_em import (
        composition as dp_em_composition,
    )
    from verification.claims.dp_em import (
        noise as dp_em_noise,
    )
    from verification.claims.dp_em import (
        runs as dp_em_runs,
    )
    from verification.claims.dp_em import (
        sensitivity as dp_em_sensitivity,
    )
    from verification.claims.local_central import central as central_release
    from verification.claims.local_central import local as local_release
    from verification.claims.masks import (
        accuracy as mask_accuracy,
    )
    from verification.claims.masks import (
        constants as mask_constants,
    )
    from verification.claims.masks import (
        mixtures as mask_mixtures,
    )
    from verification.claims.masks import (
        privacy as mask_privacy,
    )
    from verification.claims.populous import (
        budget as populous_budget,
    )
    from verification.claims.populous import (
        graphs as populous_graphs,
    )
    from verification.claims.populous import (
        utility as populous_utility,
    )
    from verification.claims.sample_efficient import (
        closeness as sample_efficient_closeness,
    )
    from verification.claims.sample_efficient import (
        gaps as sample_efficient_gaps,
    )
    from verification.claims.sample_efficient import (
        matrices as sample_efficient_matrices,
    )
    from verification.claims.sample_efficient import (
        selection as sample_efficient_selection,
    )
    from verification.claims.sample_efficient import (
        volumes as sample_efficient_volumes,
    )
    from verification.claims.total_variation import (
        bounds as tv_bounds,
    )
    from verification.claims.total_variation import (
        distance as tv_distance,
    )
    from verification.claims.total_variation import (
        matchings,
        semimetrics,
    )
    from verification.claims.total_variation import (
        mixtures as tv_mixtures,
    )
    from verification.claims.total_variation import (
        thesis as tv_thesis,
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

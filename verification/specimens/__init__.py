"""Mechanisms with known true privacy: broken ones that an audit must catch, sound ones that it must not refute."""

from __future__ import annotations

from verification.specimens.specimen import LogDensity, Mechanism, Specimen

__all__ = ["LogDensity", "Mechanism", "Specimen", "all_specimens"]


def all_specimens() -> list[Specimen]:
    """Every specimen of this folder, broken ones first."""
    from verification.specimens import (
        choices,
        control_choices,
        controls,
        dp_em,
        elementary,
        local_central,
        populous,
        programs,
        sample_efficient,
        sparse_vector,
        unseen,
        whole_runs,
    )

    families = (
        elementary,
        sparse_vector,
        choices,
        programs,
        populous,
        dp_em,
        local_central,
        sample_efficient,
        whole_runs,
        unseen,
        controls,
        control_choices,
    )
    found = [specimen for family in families for specimen in family.specimens()]
    return sorted(found, key=lambda specimen: not specimen.broken)

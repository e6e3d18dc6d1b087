"""Audit targets: every function of the package that spends budget, on its release path, with planted faults.

A target is the mechanism itself with OpenDP's noise (``rng=None``), audited at the level of values and, under a name
that ends in ``_bits``, of bits: its outputs in the floating-point form in which they are published. Its faults are
changes of a line or two that an audit must catch; they show that the audit of the sound one could have failed. A fault
that ends in ``_bits`` keeps the law of the real numbers and is invisible to an audit of values.
"""

from __future__ import annotations

from verification.specimens import Specimen

__all__ = ["all_targets", "targets_beside_specimens"]

# Sound releases of this package that the command ``specimens`` audits beside the zoo: counts, slices, a masked fit.
BESIDE_SPECIMENS = ("histogram_release", "populous_single_release", "slices_release")


def all_targets() -> list[Specimen]:
    """Sound targets and their planted faults; ``broken`` says which the audit must catch."""
    from verification.targets import (
        automatic,
        averages,
        ball_sums,
        before_sketch,
        box,
        central,
        em,
        gaps,
        histogram,
        k_means,
        levels,
        lifted,
        local,
        masks,
        numbers,
        phases,
        populous,
        populous_single,
        releases,
        robust,
        sites,
        sketch_fits,
        sketches,
        slices,
        tools,
        transformed,
    )

    modules = (
        histogram,
        numbers,
        masks,
        lifted,
        populous_single,
        populous,
        phases,
        releases,
        sketches,
        box,
        before_sketch,
        sketch_fits,
        sites,
        slices,
        ball_sums,
        averages,
        local,
        em,
        k_means,
        central,
        gaps,
        automatic,
        tools,
        robust,
        transformed,
        levels,
    )
    return [target for module in modules for target in module.targets()]


def targets_beside_specimens() -> list[Specimen]:
    """The targets of ``BESIDE_SPECIMENS``, in the order of :func:`all_targets`."""
    return [target for target in all_targets() if target.name in BESIDE_SPECIMENS]

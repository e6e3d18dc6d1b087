"""Privacy curves from files: checked before they are made, since evaluating a hostile one may take for ever."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pm_dpgmm._arguments import shown
from pm_dpgmm.privacy.curves import (
    SPLITS,
    CompositionProfile,
    EitherProfile,
    GaussianProfile,
    GeometricProfile,
    MaximumProfile,
    PointProfile,
    PrivacyProfile,
    RenyiProfile,
    TableProfile,
    TruncatedLaplaceProfile,
)
from pm_dpgmm.privacy.lifted_mask_curve import LiftedMaskProfile
from pm_dpgmm.privacy.propose_test_release_curve import ProposeTestReleaseProfile

MOST_NESTED = 8  # profiles within profiles; a combination of two-phase releases has 4
# A step takes about 50 ns, an epsilon at a delta up to 66 deltas: 2 s, and the six of a card 7 s.
MOST_STEPS = 500_000  # for one delta; a two-phase release takes 50,000
LIFTED_STEPS = 10_000  # to make the table of a lifted mask; 50 of them fit its cache
# Of a call, whatever the number of epsilons: arrays are made, and a table of passing probabilities looks at each pair.
SUM_STEPS, PASS_STEPS, PAIR_STEPS, PART_STEPS, LIFTED_CALL, GAUSSIAN_CALL = 1_000, 600, 6, 25, 1_200, 80
# Of every epsilon.
GAUSSIAN_STEPS, LAPLACE_STEPS, POINT_STEPS, ORDERS_STEPS, COUNTS_STEPS, TABLE_STEPS = 2, 50, 7, 130, 14, 5
FIXED_STEPS = {PointProfile.kind: POINT_STEPS, TruncatedLaplaceProfile.kind: LAPLACE_STEPS}  # whatever the parameters
COUNT_STEPS = 12  # of each number of counts in a geometric profile, whose binomial coefficient is a long integer
POINTS = 10  # of a table, that are checked in one step
MOST_COUNTS = 1024  # of a geometric profile: beyond, binomial coefficients overflow
LARGEST, SMALLEST = 1e15, 1e-15  # of parameters: nothing overflows within

PROFILES: dict[str, Callable[..., PrivacyProfile]] = {
    profile.kind: profile
    for profile in (
        PointProfile,
        GeometricProfile,
        GaussianProfile,
        TruncatedLaplaceProfile,
        RenyiProfile,
        TableProfile,
        LiftedMaskProfile,
    )
}
NESTED = (CompositionProfile.kind, MaximumProfile.kind, EitherProfile.kind, ProposeTestReleaseProfile.kind)


def profile_from_dict(fields: Mapping[str, Any]) -> PrivacyProfile:
    """Inverse of ``to_dict`` for fields from anywhere.

    Raises
    ------
    ValueError
        If the kind is unknown, parameters are missing or out of range, or one value would take too long to compute.
    """
    lifted: set[str] = set()
    steps = _steps(fields, 1, lifted) + LIFTED_STEPS * len(lifted)
    if steps > MOST_STEPS:
        raise ValueError(f"privacy loss must take at most {MOST_STEPS} steps to evaluate, got one of {steps}")
    return _made(fields)


def _made(fields: Mapping[str, Any]) -> PrivacyProfile:
    kind = fields["kind"]
    try:
        if kind == CompositionProfile.kind:
            return CompositionProfile(_made(fields["first"]), _made(fields["second"]), _part(fields, "split"))
        if kind == MaximumProfile.kind:
            return MaximumProfile(tuple(_made(part) for part in fields["parts"]))
        if kind == EitherProfile.kind:
            return EitherProfile(tuple(_made(part) for part in fields["parts"]))
        if kind == ProposeTestReleaseProfile.kind:
            return ProposeTestReleaseProfile(tuple(fields["probabilities"]), _made(fields["loss"]))
        parameters = {name: value for name, value in fields.items() if name != "kind"}
        return PROFILES[kind](**{n: tuple(v) if isinstance(v, list) else v for n, v in parameters.items()})
    except (TypeError, OverflowError) as error:
        raise ValueError(f"privacy loss {kind!r} has wrong parameters: {error}") from None


def _steps(fields: Any, depth: int, lifted: set[str], n: int = 1) -> int:
    """About how many steps the values at ``n`` epsilons, asked for at once, take; ValueError for what cannot be a loss.

    Parameters of lifted masks are added to ``lifted``: each makes a table, once, which is then cheap to read.
    """
    if not isinstance(fields, Mapping):
        raise ValueError(f"a privacy loss must be a mapping, got {shown(fields)}")
    if depth > MOST_NESTED:
        raise ValueError(f"privacy losses must be nested at most {MOST_NESTED} deep, got more")
    kind = fields.get("kind")
    kinds = [*PROFILES, *NESTED]
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(f"kind of privacy loss must be one of {kinds}, got {shown(kind)}")
    if kind == CompositionProfile.kind:
        parts = (_part(fields, part) for part in ("first", "second"))
        return SUM_STEPS + sum(_steps(part, depth + 1, lifted, SPLITS * n) for part in parts)
    if kind in (MaximumProfile.kind, EitherProfile.kind):
        return sum(PART_STEPS + _steps(part, depth + 1, lifted, n) for part in _numbers(fields, "parts", dict))
    if kind == ProposeTestReleaseProfile.kind:
        pairs = 3 * len(_numbers(fields, "probabilities"))
        return PASS_STEPS + PAIR_STEPS * pairs + _steps(_part(fields, "loss"), depth + 1, lifted, pairs * n)
    for name, value in fields.items():
        if name != "kind":
            _check_sizes(kind, name, value if isinstance(value, (list, tuple)) else [value])
    if kind == GeometricProfile.kind:
        n_counts = _part(fields, "n_counts")
        if not isinstance(n_counts, int) or n_counts > MOST_COUNTS:
            raise ValueError(f"n_counts must be an integer of at most {MOST_COUNTS}, got {shown(n_counts)}")
        return n * (COUNTS_STEPS + COUNT_STEPS * n_counts)
    if kind == LiftedMaskProfile.kind:
        lifted.add(str(sorted(fields.items())))
        return LIFTED_CALL + n
    if kind == TableProfile.kind:  # bisected
        return n * (TABLE_STEPS + len(_numbers(fields, "epsilons")) // POINTS)
    if kind == RenyiProfile.kind:
        return n * (ORDERS_STEPS + len(_numbers(fields, "orders")))
    if kind == GaussianProfile.kind:
        return GAUSSIAN_CALL + n * GAUSSIAN_STEPS
    return n * FIXED_STEPS[kind]


def _part(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        raise ValueError(f"privacy loss {fields['kind']!r} has wrong parameters: no {name!r} in {shown(list(fields))}")
    return fields[name]


def _numbers(fields: Mapping[str, Any], name: str, kind: Any = (int, float)) -> list[Any]:
    values = _part(fields, name)
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, kind) for value in values):
        raise ValueError(f"{name} must be a list, got {shown(values)}")
    return list(values)


def _check_sizes(kind: str, name: str, values: Any) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"privacy loss {kind!r} has wrong parameters: {name} must be numbers, got {shown(value)}")
        if not (value == 0 or abs(value) <= LARGEST):
            raise ValueError(f"{name} must be at most {LARGEST:g}, got {shown(value)}")
    if name in ("scale", "mu", "eta", "omega") and any(0 < value < SMALLEST for value in values):
        raise ValueError(f"{name} must be at least {SMALLEST:g}, got {shown(min(values))}")

"""Method "populous", the aggregated estimator, on prepared fits: friends done once, coin, average and mask as released.

Fits lie on a line of the affine-invariant metric: N(0, e^x) for x in a range, where distances are |x - x'|. One fit
moves; the others are placed so that it moves the average as far as the theorem allows, or decides whether they count.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm import fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.fit_arrays import BoolArray, Fits
from pm_dpgmm.learners.subsets import FitsTogether
from pm_dpgmm.mechanisms.lifted_mask import LiftedMaskNoise, largest_omega
from pm_dpgmm.mechanisms.propose_test_release import PassProbabilities, pass_probabilities
from pm_dpgmm.methods.populous import average as populous_average, method as populous
from pm_dpgmm.methods.populous.agreement import AgreementRule, friend_table
from pm_dpgmm.methods.populous.average import moved_mass
from pm_dpgmm.methods.populous.design import Design
from pm_dpgmm.methods.populous.method import Constants, Populous, test_and_release
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Unstable
from pm_dpgmm.privacy.lifted_mask_curve import LiftedMaskProfile
from pm_dpgmm.privacy.noise import bernoulli
from verification.references.references import gaussian_epsilon
from verification.specimens import Specimen
from verification.targets.lifted import PARTS, flat, single_epsilon, tightest_level
from verification.targets.runs import DELTA, EPSILON, Prepared, at_bits, rows_of

METHOD = "methods/populous/method.py"
FAULT = f"fault in {METHOD}"
NOISE = 1 / 64  # a power of two, as for the mask
LEVELS = 15  # of a table at this budget and share
SHARE = 0.9  # of the largest omega, where a table has room
NEAR = 1 - 1e-4  # of the radius, inside the allowance for rounding
GONE = math.nan  # position of a fit that is not valid
SEPARATED = 6.0  # log variances of two components
REFUSED = np.full(len(PARTS), np.nan)


@functools.cache
def constants(n_subsets: int, top: int, full: int, noise: float = NOISE, n_components: int = 1) -> Constants:
    """Constants with a radius that makes omega ``SHARE`` of the largest; from public facts only."""
    limit = SHARE * largest_omega(epsilon=EPSILON, delta=DELTA, eta=noise, dimension=2)
    rule = AgreementRule(n_components, 1, 1.0, 1.0, largest_condition=10.0)
    mass = moved_mass(n_subsets, floor=rule.core_floor(n_subsets), top=top, full=full)
    radius = (limit - 2 * rule.average_error) / (2 * mass)
    reach = 1.01 * radius if n_components == 1 else SEPARATED / 4.5
    rule = dataclasses.replace(rule, component_radius=reach, fit_radius=radius)
    return made(Design(n_subsets, rule, top, full, noise), limit)


def made(design: Design, omega: float) -> Constants:
    """Constants of a design whose mask and table are made for ``omega``."""
    loss = LiftedMaskProfile(omega=omega, eta=design.noise, dimension=2)
    table = pass_probabilities(loss, epsilon=EPSILON, delta=DELTA)
    return Constants(design, LiftedMaskNoise(design.noise, design.rule.kappa), table)


def less_noise(sound: Constants, omega: float) -> Constants:
    """Fault: mask and table made for a smaller ``omega``, the noise as small as that allows."""
    noise = sound.design.noise * omega / sound.design.omega  # omega is proportional to eta where both are small
    return made(dataclasses.replace(sound.design, noise=noise), omega)


def on_a_line(positions: FloatArray) -> Fits:
    """One component a fit, N(0, e^x); a NaN is no fit."""
    t, given = len(positions), ~np.isnan(positions)
    variances = np.exp(np.where(given, positions, 0.0)).reshape(t, 1, 1, 1)
    return Fits(np.ones((t, 1)), np.zeros((t, 1, 1)), variances, given)


def two_weights(positions: FloatArray) -> Fits:
    """Two components a fit, far apart, the first with the weight at ``positions``."""
    t = len(positions)
    variances = np.tile(np.exp([0.0, SEPARATED]).reshape(2, 1, 1), (t, 1, 1, 1))
    return Fits(np.column_stack([positions, 1 - positions]), np.zeros((t, 2, 1)), variances, np.ones(t, dtype=bool))


def mechanism(
    using: Constants, *, fits_of: Any = on_a_line, rule: AgreementRule | None = None, simulated: bool = False
) -> Prepared:
    """Friends and average once, by the package's functions; coin and mask in every run, as released.

    ``simulated`` takes NumPy's noise, for faults: quick, and the seed decides the verdict.
    """
    if rule is not None:  # a fault: friends under another rule than the noise
        using = dataclasses.replace(using, design=dataclasses.replace(using.design, rule=rule))

    def prepare(positions: FloatArray) -> tuple[Fits, BoolArray, Any]:
        fits = fits_of(positions)
        friends = friend_table(fits, using.design.rule)
        return fits, friends, populous.average_core(fits, friends, using.design.rule, top=using.design.top)

    def sample(state: tuple[Fits, BoolArray, Any], n_samples: int, rng: np.random.Generator) -> Any:
        fits, friends, average = state

        def run() -> FloatArray:
            raw = test_and_release(fits, friends, using, rng=rng if simulated else None)
            return np.full(flat_width(using), np.nan) if raw is None else flat(raw)

        with mock.patch.object(populous, "average_core", return_value=average):
            return rows_of(run, n_samples)

    return Prepared(prepare, sample)


def flat_width(using: Constants) -> int:
    """Numbers that a release publishes, in one column."""
    return 4 * using.design.rule.n_components


def with_threshold(using: Constants) -> Prepared:
    """Fault: every core fit has full weight."""
    inner = mechanism(using, simulated=True)

    def prepare(positions: FloatArray) -> Any:
        def all_or_nothing(counts: Any, *, floor: int, top: int) -> FloatArray:
            return np.asarray(counts > floor, dtype=float)

        with mock.patch.object(populous_average, "core_weights", all_or_nothing):
            return inner.prepare(positions)

    return Prepared(prepare, inner.sample)


class OpenTable:
    """Fault: a table whose first entry is too large; ``PassProbabilities`` itself would refuse it."""

    def __init__(self, sound: PassProbabilities, first: float) -> None:
        self.first, self.sound = first, sound

    def passes(self, level: int, *, rng: Any = None) -> bool:
        return bernoulli(self.first, rng=rng) if level == 1 else self.sound.passes(level, rng=rng)


class Coded(FitsTogether):
    """A learner for subsets of one record: the record is the position of the fit."""

    def fit_all(self, records: FloatArray, edges: Any, n_components: int, **named: Any) -> Fits:
        return on_a_line(records[:, 0])

    def __call__(self, subset: FloatArray) -> Mixture:
        return Mixture([1.0], [[0.0]], [[[math.exp(subset[0, 0])]]])


def by_fit_gmm(records: FloatArray, n_samples: int, rng: np.random.Generator, *, using: Constants) -> Any:
    """``method="populous"`` from records to release, subsets of one record; a refusal is a row of NaN."""
    settings: Any = Populous(design=using.design)
    budget: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "learner": Coded(), "progress": False}

    def run() -> FloatArray:
        try:
            return flat(dict(fit_gmm(records, 1, method=settings, **budget).raw))
        except Unstable:
            return REFUSED

    with mock.patch.object(Populous, "constants", return_value=using):
        return rows_of(run, n_samples)


@dataclasses.dataclass(frozen=True)
class Setting:
    """Constants of ``t`` fits with room for ``spare`` levels above what always passes."""

    t: int
    using: Constants

    @classmethod
    def of(cls, t: int, *, spare: int = 0, noise: float = NOISE, n_components: int = 1) -> Setting:
        """A table has about 15 levels here; ``spare`` more fits may be missing."""
        top = t - LEVELS - spare
        return cls(t, constants(t, top, top, noise, n_components))

    @property
    def radius(self) -> float:
        """Largest distance of friends, inside the allowance for rounding."""
        return NEAR * self.using.design.rule.fit_radius


Pair = tuple[FloatArray, FloatArray]


def across(t: int = 400) -> tuple[Setting, Pair]:
    """One fit goes straight through the centre of all others: it moves the average by 2 s_2/t."""
    setting = Setting.of(t)
    others, far = np.zeros(setting.t - 1), setting.radius
    return setting, (np.append(others, far), np.append(others, -far))


def at_level(level: int) -> tuple[Setting, Pair]:
    """A fit at the radius leaves: the level falls from ``level`` to the one below, and the average moves."""
    setting = Setting.of(400, spare=LEVELS)
    n = setting.using.design.top + level - 1
    rest = np.append(np.zeros(n), np.full(setting.t - n - 1, GONE))
    return setting, (np.append(rest, setting.radius), np.append(rest, GONE))


def on_the_ramp() -> tuple[Setting, Pair]:
    """With one fit a crowd at the radius has just enough friends to count in the average, without it not."""
    t, full = 600, 340
    setting = Setting(t, constants(t, t - 1 - LEVELS, full))
    radius, floor, centre = setting.radius, setting.using.design.floor, full + LEVELS
    groups = {0.0: centre, radius: floor - centre, -0.01 * radius: t - 1 - floor}
    rest = np.concatenate([np.full(n, place) for place, n in groups.items()])
    return setting, (np.append(rest, radius), np.append(rest, GONE))


def of_weights() -> tuple[Setting, Pair, AgreementRule]:
    """One fit's weights go as far as a rule allows that forgets kappa."""
    setting = Setting.of(400, noise=1 / 256, n_components=2)
    rule = dataclasses.replace(setting.using.design.rule, weight_scale=1.0)
    step = setting.radius / math.sqrt(2)
    others = np.full(setting.t - 1, 0.5)
    return setting, (np.append(others, 0.5 + step), np.append(others, 0.5 - step)), rule


def targets() -> list[Specimen]:
    """The average moved as far as it can, the test near its threshold, a fit that decides whether others count."""
    claim, inf = (EPSILON, DELTA), math.inf
    wide, straight = across()
    design, sound = wide.using.design, mechanism(wide.using)
    distance, spread = 2 * wide.radius / wide.t, (wide.t - 1 - design.full) / (design.top - design.floor)
    halved = less_noise(wide.using, design.omega / 2)
    forgetful = less_noise(wide.using, 2 * design.rule.fit_radius * spread / (design.full + 1 + spread))
    small, _ = at_level(1)
    level = tightest_level(small.using.table) + 1
    steep, first = at_level(level)[1], at_level(1)[1]
    tested = mechanism(small.using)
    raised = dataclasses.replace(small.using, table=OpenTable(small.using.table, 10 * DELTA))  # type: ignore[arg-type]
    ramp, counted = on_the_ramp()
    share = (ramp.using.design.floor - ramp.using.design.full - LEVELS) / ramp.t
    leaving = ramp.radius * share  # of the average, when all of them leave it at once
    mixed, weights, loose = of_weights()
    shift = 2 * (weights[0][-1] - 0.5) * math.sqrt(2) / mixed.t / mixed.using.noise.weight(1)
    unscaled = float(gaussian_epsilon(DELTA, noise_multiplier=1 / shift))
    smaller, few = across(200)
    whole = functools.partial(by_fit_gmm, using=smaller.using)
    records = few[0][:, None], few[1][:, None]
    fault = functools.partial(mechanism, simulated=True)
    near, far = functools.partial(single_epsilon, -distance), single_epsilon(-leaving, NOISE, 2)
    by_weights = mechanism(mixed.using, fits_of=two_weights)
    unscaled_friends = fault(mixed.using, fits_of=two_weights, rule=loose)
    half, lost = near(halved.design.noise, 2), near(forgetful.design.noise, 2)
    return [
        Specimen("populous", METHOD, sound, *straight, *claim, 1.0, False, 3_000),
        at_bits("populous_bits", METHOD, sound, *straight, *claim, 1.0, False, 3_000),
        Specimen("populous_near_threshold", METHOD, tested, *steep, *claim, 1.0, False, 4_000),
        at_bits("populous_near_threshold_bits", METHOD, tested, *steep, *claim, 1.0, False, 3_000),
        Specimen("populous_from_below", METHOD, tested, *steep[::-1], *claim, 1.0, False, 4_000),
        Specimen("populous_first_level", METHOD, tested, *first, *claim, 1.0, False, 4_000),
        Specimen("populous_on_the_ramp", METHOD, mechanism(ramp.using), *counted, *claim, 1.0, False, 3_000),
        Specimen("populous_weights", METHOD, by_weights, *mild(mixed), *claim, 1.0, False, 3_000),
        Specimen("fit_gmm_populous_aggregated", METHOD, whole, *records, *claim, 1.0, False, 1_000),
        Specimen("populous_half_omega", FAULT, fault(halved), *straight, *claim, half, True, 30_000),
        Specimen("populous_forgets_the_moved_fit", FAULT, fault(forgetful), *straight, *claim, lost, True, 2_000),
        Specimen("populous_high_first_level", FAULT, fault(raised), *first, *claim, inf, True, 16_000),
        Specimen("populous_threshold_core", FAULT, with_threshold(ramp.using), *counted, *claim, far, True, 6_000),
        Specimen("populous_weights_without_scale", FAULT, unscaled_friends, *weights, *claim, unscaled, True, 16_000),
    ]


def mild(setting: Setting) -> Pair:
    """One fit's weights as far apart as the sound rule allows."""
    step = setting.radius * setting.using.design.rule.kappa / math.sqrt(2)
    others = np.full(setting.t - 1, 0.5)
    return np.append(others, 0.5 + step), np.append(others, 0.5 - step)

"""How much a misfit matters, in nats per record: what another description of the same released numbers would gain.

Post-processing: only released and public numbers come in. A test of fit says whether records are from a mixture, which
with enough records they never are; it does not say how far the mixture is from the best one. Two sizes do:

* gain: of a mixture with up to MORE components more, found in the same numbers: how far the records are from any
  mixture of K components that was found.
* shortfall: of the best mixture of K components (fitted by EM to draws of that larger mixture): how far the release is
  from what K components can do.

Both are differences of mean log-densities over draws of the larger mixture: right for the records as far as it is like
them. So the gain counts by the share of the misfit that the larger mixture explains, and a shortfall is told where it
explains at least EXPLAINED.

A shortfall of a single component is not only told: the better one is taken (:func:`better`). Least squares of waves may
prefer one of two groups, with the background for the other, where likelihood has one optimum, across both.

Neither sees a tail that is too thin in one column: few records are there, and the larger mixture gives their number
better than their places. So a third size compares numbers: how much of what the larger mixture has beyond its outermost
thousandth the release has there.
``python -m verification.benchmarks.misfit_effect`` compares both with records that were held out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import optimize, special
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from pm_dpgmm._arguments import FloatArray, check_flag
from pm_dpgmm.learners.quiet import without_warnings
from pm_dpgmm.methods.sketch.checks.outliers import weighing
from pm_dpgmm.methods.sketch.choice import PRICE, finite
from pm_dpgmm.methods.sketch.covariance_types import FULL
from pm_dpgmm.methods.sketch.estimate import REJECTED, SketchFit, doubt, less_floor, prior_about, sketch_data
from pm_dpgmm.methods.sketch.fit import misfit, refined
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.dictionary import Dictionary, best_added
from pm_dpgmm.methods.sketch.search.pursuit import LEAST_ROWS, ROWS, SCALES, Effort
from pm_dpgmm.methods.sketch.search.start import leaves_of, merged, padded
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.mixture import Mixture, joined
from pm_dpgmm.privacy.guarantee import seeded_mark

SIZED = 3.0  # statistic from which on both are measured: of 168 right fits 2 had more, and no warning
SHORTFALL, GAIN = 0.05, 0.3  # nats per record from which on there is a warning: verification.benchmarks.misfit_effect
EXPLAINED = 0.5  # least share of the misfit that a larger mixture explains where a shortfall is told
MORE = 3  # components that it may have more
TRIED, ROUGH, STEPS = 2, 4, 10  # candidates for each of them, steps of a fit to compare them and to keep one
PIECES = (-1.5, -0.7, 0.7, 1.5)  # standard deviations along the longest axes of a component, where another may be
AXES = 4  # how many of the axes
EFFORT = 1e10  # multiplications after which no component is added: a quarter of what a search may cost
N_DRAWS, EM_STEPS, EM_FLOOR = 6000, 40, 1e-6  # synthetic records; floor of variances in those of a column
HIGHEST = 5.0  # nats: a larger log ratio of densities counts as this, as few records where there is only noise give it
Background = tuple[float, Mixture]  # its weight and law
DRAW_SEED = 20244  # public
BEYOND = 8.0  # standard deviations of a component within which every thousandth of the records begins
OUTERMOST, THIN = 1e-3, 0.1  # share of the records beyond a point; part of it that a release should have there


@dataclass(frozen=True, slots=True)
class Misfit:
    """Whether released numbers contradict a mixture, and what that costs.

    Attributes
    ----------
    statistic : float
        Chi-square of the released numbers as (chi^2 - df) / sqrt(2 df): right mixtures stay below about 5. It grows
        with the number of records for any mixture that is not exactly right.
    gain : float or None
        Nats per record that a mixture with up to three components more would gain over the released density, times the
        share of the misfit that it explains. 0 where the statistic is below 3; None where it could not be measured, and
        in files of older versions.
    shortfall : float or None
        Nats per record that the best mixture with as many components would gain. 0 where the statistic is below 3; None
        where the larger mixture explains less than half of the misfit, so that nobody knows, and in older files.
    flagged : bool
        Whether there is a warning: ``shortfall`` of at least 0.05, ``gain`` of at least 0.3 or ``tail`` below 0.1; or,
        where they could not be measured, ``statistic`` above 12. As it was stored in files of older versions, where it
        says that ``statistic`` was above 12.
    tail : float or None
        Of one column where the statistic is above 12: what the released density has beyond the points beyond which the
        larger mixture has a thousandth of the records, in such thousandths; of the two ends the smaller. None
        elsewhere.
    private : bool
        As the release says.
    """

    statistic: float
    gain: float | None
    shortfall: float | None
    flagged: bool
    tail: float | None = None
    private: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        check_flag(flagged=self.flagged, private=self.private)

    def __repr__(self) -> str:
        told = ("statistic", "gain", "shortfall", "flagged", "tail")
        numbers = ", ".join(f"{name}={getattr(self, name)!r}" for name in told)
        return f"Misfit({numbers}{seeded_mark(self.private)})"

    @classmethod
    def sized(cls, statistic: float, gain: float | None, shortfall: float | None, tail: float | None = None) -> Misfit:
        """With ``flagged`` by the thresholds."""
        unmeasured = gain is None and statistic > REJECTED
        small = (gain or 0.0) < GAIN and (shortfall or 0.0) < SHORTFALL and (tail is None or tail >= THIN)
        flagged = unmeasured or not small
        return cls(statistic, gain, shortfall, flagged, tail)

    @classmethod
    def of(cls, noise: Mapping[str, Any], *, private: bool = True) -> Misfit | None:
        """As a release holds it, of any version; None where the method has no such test."""
        if "misfit" not in noise:
            return None
        statistic = math.inf if noise["misfit"] is None else noise["misfit"]
        sizes = noise.get("gain"), noise.get("shortfall")
        return cls(statistic, *sizes, bool(noise.get("flagged", False)), noise.get("tail"), private)

    def to_dict(self) -> dict[str, Any]:
        """As a release holds it, JSON-ready: a statistic that is not finite is None."""
        return {
            "misfit": finite(self.statistic),
            "flagged": self.flagged,
            "gain": self.gain,
            "shortfall": self.shortfall,
            "tail": self.tail,
        }

    def reason(self, n_components: int) -> str | None:
        """Why there is a warning, or None."""
        if not self.flagged:
            return None
        if self.gain is None:
            return f"{self.contradiction}; how much that matters was not measured: release.refit measures it"
        if (self.shortfall or 0.0) >= SHORTFALL:
            return (
                f"the mixture is not the best one with {counted(n_components, 'component')}: another would gain about"
                f" {self.shortfall:.2f} nats per record (estimated from the released numbers, misfit"
                f" {self.statistic:.0f}); more records, other bounds or another number of components may help"
            )
        if (self.gain or 0.0) < GAIN and self.tail is not None:
            return (
                f"the tails are too thin: about {OUTERMOST:g} of the records lie where the mixture has"
                f" {OUTERMOST * self.tail:.1g} (estimated from the released numbers, misfit {self.statistic:.0f}), so"
                " that log densities there are far too low; more components or transformed columns may help"
            )
        return (
            f"more than {counted(n_components, 'component')} would gain about {self.gain:.2f} nats per record"
            f" (estimated from the released numbers, misfit {self.statistic:.0f}); release.select_k compares numbers of"
            " components"
        )

    @property
    def contradiction(self) -> str | None:
        """That the released numbers contradict the mixture, if they do; of no size."""
        if self.statistic <= REJECTED:
            return None
        return (
            f"the mixture does not explain the released numbers: misfit {self.statistic:.0f}, where right mixtures stay"
            " below about 5"
        )

    def summary(self) -> str:
        """One sentence: the statistic and both sizes; and whether the release is not private."""
        return self._sizes_in_words() + seeded_mark(self.private, "; ")

    def _sizes_in_words(self) -> str:
        told = f"Misfit: {self.statistic:.1f} (right mixtures: below about 5)"
        if self.contradiction:
            told += ": the released numbers contradict the mixture"
        if self.statistic < SIZED:
            return told
        if self.gain is None:
            return f"{told}; its size in nats was not measured"
        if self.shortfall is None:
            return (
                f"{told}; up to {MORE} components more would explain little of it and gain at least about"
                f" {self.gain:.2f} nats per record"
            )
        return (
            f"{told}; up to {MORE} components more would gain about {self.gain:.2f} nats per record, a better mixture"
            f" with as many about {self.shortfall:.2f}"
        )


def better(evidence: SketchStatistics, fit: SketchFit) -> tuple[SketchFit, Misfit]:
    """The fit, or where one component of any covariance has a shortfall to tell, the best one; and its misfit.

    Of several components the best mixture is an estimate of the larger one as much as of the records: taken for eight
    fits of real tables, it gained .02 to .23 nats in seven, lost .08 in one, and their warnings were gone (DECISIONS).
    """
    told, other = _compared(evidence, fit)
    alone = fit.found.n_components == 1 and fit.data.covariance_type == FULL
    if other is None or (told.shortfall or 0.0) < SHORTFALL or not alone:
        return fit, told
    taken = SketchFit.of(fit.data, other)
    again = measured(evidence, taken)
    return (taken, again) if math.isfinite(taken.misfit) and again.gain is not None else (fit, told)


def measured(evidence: SketchStatistics, fit: SketchFit) -> Misfit:
    """The misfit of a fit with its two sizes, None where they cannot be had: nothing is raised. Deterministic."""
    return _compared(evidence, fit)[0]


def _compared(evidence: SketchStatistics, fit: SketchFit) -> tuple[Misfit, ScaledMixture | None]:
    """The misfit, and the best mixture with as many components where one was found."""
    statistic = fit.misfit
    if statistic < SIZED:
        return Misfit.sized(statistic, 0.0, 0.0), None
    evidence = replace(evidence, covariance_type=FULL)  # of any covariances: what the fit's own kind costs counts
    try:
        with np.errstate(all="ignore"):
            larger = enlarged(evidence, fit.found)
            share = 1 - max(misfit(sketch_data(evidence), larger), 0.0) / statistic
            more, own = (_in_unit(SketchFit(fit.data, found, 0.0)) for found in (larger, fit.found))
            gain, shortfall, best = _sizes(more.mixture, own.mixture, more.background, own.background)
            alone = len(evidence.unit) == 1 and fit.rejected
            tail = thinness(more.density, own.density) if alone else None
    except (ValueError, RuntimeError, ArithmeticError, np.linalg.LinAlgError):  # the budget is spent, so go on
        return Misfit.sized(statistic, None, None), None
    if not (math.isfinite(share) and math.isfinite(gain)):
        return Misfit.sized(statistic, None, None), None
    told = share >= EXPLAINED
    sizes = gain * max(share, 0.0), finite(shortfall) if told else None, tail if told else None
    if best is None:
        return Misfit.sized(statistic, *sizes), None
    weight = max(larger.background or 0.0, doubt(evidence, best.n_components))
    return Misfit.sized(statistic, *sizes), _beside(fit.data, best, weight)


def _beside(data: SketchData, mixture: Mixture, background: float) -> ScaledMixture:
    """A mixture in the unit of the data, beside a background of that weight."""
    found = less_floor(ScaledMixture.of(mixture.weights, mixture.means, mixture.covariances), data.variance_floor)
    found = replace(found, means=data.inside(found.means))
    return weighing(found, background) if background else found


def enlarged(evidence: SketchStatistics, found: ScaledMixture) -> ScaledMixture:
    """The fit with the number of components more, at most MORE, that is worth its price.

    Added one by one where they explain most, and all at once by cutting the components there are: one component more
    explains nothing of a ring, three do.
    """
    data, prior = sketch_data(evidence), prior_about(found)
    rows = max(LEAST_ROWS, ROWS * found.n_parameters)
    data = data.thinned(max(1, data.values.size // rows))
    work = Effort(data)
    means, factors = _atoms(evidence, data)
    found = refined(data, found, prior, steps=STEPS)
    size, price = found.n_components, PRICE * found.n_parameters / found.n_components
    cut = replace(padded(found, size + MORE), background=found.background)
    others = [found, refined(data, cut, prior, steps=ROUGH + STEPS)]
    work.pay(others[-1], ROUGH + STEPS)
    while found.n_components < size + MORE and work.spent < EFFORT:
        near = _pieces(found)
        dictionary = Dictionary.of(data, np.concatenate([means, near[0]]), np.concatenate([factors, near[1]]))
        tried = [refined(data, new, prior, steps=ROUGH) for new in best_added(data, found, dictionary, TRIED)]
        found = refined(data, min(tried, key=lambda other: other.objective), prior, steps=STEPS)
        work.pay(found, ROUGH * TRIED + STEPS)
        others.append(found)
    return min(others, key=lambda other: other.objective + price * other.n_components)


def _atoms(evidence: SketchStatistics, data: SketchData) -> tuple[FloatArray, FloatArray]:
    """Means and factors of candidates: those of the cells or, in one column, all over the interval."""
    if not evidence.cells:
        dictionary = Dictionary.round(data, math.sqrt(len(evidence.unit)), SCALES)
        return dictionary.means, dictionary.factors
    levels = [leaves_of(moments, evidence.n_records) for moments in evidence.cells]
    return np.concatenate([item.means for item in levels]), np.concatenate([item.factors for item in levels])


def _pieces(found: ScaledMixture) -> tuple[FloatArray, FloatArray]:
    """Parts of the components along their longest axes, and narrower and wider ones in the same place."""
    values, vectors = np.linalg.eigh(found.factors @ found.factors.swapaxes(1, 2))
    lengths = np.sqrt(np.maximum(values, 0.0))
    means = [found.means, found.means]
    factors = [found.factors / 2, found.factors * 2]
    for axis in range(max(0, values.shape[1] - AXES), values.shape[1]):
        for offset in PIECES:
            means.append(found.means + offset * lengths[:, axis, None] * vectors[:, :, axis])
            factors.append(found.factors * math.sqrt(0.5))
    return np.concatenate(means), np.concatenate(factors)


def _in_unit(fit: SketchFit) -> SketchFit:
    """A fit in the unit of its data, where no number is very large or small; bounds have another."""
    n_features = len(fit.data.unit)
    return replace(fit, data=replace(fit.data, unit=np.ones(n_features), centre=np.zeros(n_features), bounds=None))


def _sizes(
    larger: Mixture, released: Mixture, broad: Background | None = None, background: Background | None = None
) -> tuple[float, float, Mixture | None]:
    """Mean log-density over draws of ``larger``, of itself and of the best mixture like ``released``, less that's.

    Last that mixture, None where it is not better. Their backgrounds, ``broad`` and ``background``, are of the
    densities; the best mixture keeps that of ``larger``.
    """
    rng, whole = np.random.default_rng(DRAW_SEED), joined(larger, broad)
    fitted_to, points = larger.sample(N_DRAWS, rng=rng), whole.sample(N_DRAWS, rng=rng)
    ours = joined(released, background).log_density(points)
    gain = float(np.minimum(whole.log_density(points) - ours, HIGHEST).mean())
    pooled = merged(ScaledMixture.of(larger.weights, larger.means, larger.covariances), released.n_components)
    shortfall, best = 0.0, None
    for start in (released, pooled):
        try:
            other = _by_em(start, fitted_to)
        except (ValueError, np.linalg.LinAlgError):  # no EM from there
            continue
        ratios = joined(other, broad).log_density(points) - ours
        gained = float(np.clip(ratios, -HIGHEST, HIGHEST).mean())
        if gained > shortfall:
            shortfall, best = gained, other
    return max(gain, shortfall, 0.0), shortfall, best


def thinness(larger: Mixture, released: Mixture) -> float:
    """``Misfit.tail`` of two mixtures of one column."""
    reach = BEYOND * np.sqrt(larger.covariances[:, 0, 0])
    ends = float((larger.means[:, 0] - reach).min()), float((larger.means[:, 0] + reach).max())
    found = []
    for sign in (-1.0, 1.0):
        where = optimize.brentq(lambda x, sign=sign: _mass(larger, x, sign) - OUTERMOST, *ends)
        found.append(_mass(released, where, sign) / OUTERMOST)
    return min(found)


def _mass(mixture: Mixture, where: float, sign: float) -> float:
    """Of what lies below ``where`` (``sign`` 1) or above (-1), in one column."""
    z = (where - mixture.means[:, 0]) / np.sqrt(mixture.covariances[:, 0, 0])
    return float(mixture.weights @ special.ndtr(sign * z))


def _by_em(start: ScaledMixture | Mixture, points: FloatArray) -> Mixture:
    """Where EM ends from ``start``."""
    scale = points.std(axis=0)
    model = GaussianMixture(
        len(start.weights),
        weights_init=start.weights / start.weights.sum(),
        means_init=start.means / scale,
        precisions_init=np.linalg.inv(start.covariances / scale / scale[:, None]),
        reg_covar=EM_FLOOR,
        max_iter=EM_STEPS,
    )
    with without_warnings(ConvergenceWarning):
        model.fit(points / scale)
    return Mixture(
        model.weights_ / model.weights_.sum(), model.means_ * scale, model.covariances_ * scale * scale[:, None]
    )


def counted(number: int, word: str) -> str:
    """A number of things in words: 1 component, 2 components."""
    return f"{number} {word}{'s' * (number > 1)}"

"""What a reader of a fit to noisy counts should be warned of. Post-processing: released and public numbers alone.

For the histogram and for slices along several directions, which are as many histograms of the same records. All
thresholds are calibrated by ``python -m verification.calibration.count_warnings``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.slices import Slices
from pm_dpgmm.methods.components_in_words import listed
from pm_dpgmm.methods.counts.histogram_law import noise_variance
from pm_dpgmm.methods.counts.points_of_bins import LEAST_IN_COLUMN, SMALLEST_VARIANCE as GRID_VARIANCE, finest
from pm_dpgmm.methods.counts.slice_model import SMALLEST_VARIANCE as SLICE_VARIANCE
from pm_dpgmm.methods.sketch.checks.misfit import counted
from pm_dpgmm.methods.sketch.estimate import MEASURED
from pm_dpgmm.mixture.cell_probabilities import exact_cell_probabilities
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.noise import IntArray

# deviations of a chi-square from which on a misfit is sure: right mixtures go beyond them once in 2,000 histograms or
# so; of S histograms it is log(S) more, as squares of Laplace noise fall off about so
SURE = 6.0
MATTERS = 0.2  # nats per record from which on a sure misfit is told: no table is a mixture, and few are as far from one
ONE_MORE = 0.06  # nats per record that one component more must gain to be told
MATTERS_IF_NARROW = 0.03  # the same where components are as narrow as bins: counts show a part of it only
NARROW = 1.3  # times the least deviation of a fit to slices, or of what the centres of a grid's bins tell
AT_LEAST = 1.01  # the same, where nothing but the limit holds it there
NARROWER = 1.5  # times, that such a component of a grid is tried
LEAST_VARIANCE = 1.0  # of a count that is divided by: a lone record where none is expected is no proof
LEAST_SIGNAL = 10.0  # squared signal-to-noise ratio of the counts, for each number of the mixture
MOST_TIMES = 100  # the records, that is said as a number
TIMES = 3.0  # a width was measured if the counts tell it from one so many times narrower, and from one as much wider
MISPLACED = 0.15  # weight of all components together that could be wider, from which on it is told
MOSTLY = 0.15  # weight of all components together that are as narrow as bins, from which on a misfit counts as theirs
PER_AXIS, COSTS = 1.0, 0.1  # nats: what a record loses where a deviation is a fifth of the fitted, and what is told
FAR_BINS = 0.5  # records that the mixture expects in all bins together in which it has next to none
FAR_NATS, FAR_COSTS = 12.0, 0.024  # most that a record is taken to lose there, and loss of all from which on it is told
FAR_SURE, FAR_SURE_ALONE = 3.3, 5.0  # noise deviations that it takes: of many bins together, and of one
MOST_WORK = 2e7  # probabilities of bins, a second or two: a file with more is not judged


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Noisy counts, and the bins that they are of.

    Parameters
    ----------
    values : ndarray, shape (M,)
    noise_variance : float
        Of every count.
    bounds : ndarray, shape (D, 2)
    n_cells : int
        Along a column.
    slices : Slices or None
        None for the bins of a grid.
    """

    values: FloatArray
    noise_variance: float
    bounds: FloatArray
    n_cells: int
    slices: Slices | None

    @classmethod
    def of(cls, raw: Mapping[str, FloatArray], noise: Mapping[str, Any]) -> Counts | None:
        """As a release of method "histogram" or "slices" holds them; None where it holds no such counts."""
        if not ({"counts", "bounds"} <= set(raw) and "scale" in noise):
            return None
        counts, bounds = np.asarray(raw["counts"]), np.asarray(raw["bounds"])
        slices = None
        n_cells = counts.shape[0]
        if "directions" in raw:  # the first directions are the axes
            n_cells = int(raw["sizes"][0])
            slices = Slices(np.asarray(raw["directions"]), n_cells)
            if not np.array_equal(slices.sizes, raw["sizes"]):
                return None
        return cls(counts.ravel().astype(float), noise_variance(float(noise["scale"])), bounds, n_cells, slices)

    @property
    def width(self) -> FloatArray:
        """Of a bin, shape (D,)."""
        return np.asarray((self.bounds[:, 1] - self.bounds[:, 0]) / self.n_cells)

    @property
    def starts(self) -> IntArray:
        """Where each histogram starts in the values."""
        return np.zeros(1, dtype=np.int64) if self.slices is None else self.slices.offsets[:-1]

    def shares(self, mean: FloatArray, covariance: FloatArray) -> FloatArray:
        """Probability of every bin under a Gaussian, shape (M,); of slices, what lies beyond the box is in none."""
        if self.slices is None:
            return exact_cell_probabilities(Mixture([1.0], [mean], [covariance]), self.bounds, self.n_cells)
        along = self.slices.directions
        which = np.repeat(np.arange(len(along)), self.slices.sizes)
        centre = along @ ((mean - self.bounds.mean(axis=1)) / self.width)
        spread = np.sqrt(np.einsum("si,ij,sj->s", along, covariance / np.outer(self.width, self.width), along))
        low = (self.slices.left_edges - centre[which]) / spread[which]
        high = (self.slices.left_edges + 1 - centre[which]) / spread[which]
        mirrored = low > 0  # differences are taken in the lower tail
        return np.asarray(special.ndtr(np.where(mirrored, -low, high)) - special.ndtr(np.where(mirrored, -high, low)))


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Counts beside what a mixture expects."""

    counts: Counts
    mixture: Mixture
    weights: FloatArray  # (K,), of the components in the density
    shares: FloatArray  # (K, M), probability of every bin under every component
    rest: FloatArray | float  # probability of every bin and the background, shape (M,)
    n_records: float
    public: bool = False  # whether the number of records is; else it is what the counts tell

    @classmethod
    def of(
        cls,
        counts: Counts,
        mixture: Mixture,
        background: tuple[float, Mixture] | None = None,
        n_records: int | None = None,
    ) -> Judged:
        """Counts beside a mixture and a background; ``n_records`` where it is public."""
        pairs = zip(mixture.means, mixture.covariances, strict=True)
        shares = np.array([counts.shares(mean, covariance) for mean, covariance in pairs])
        weight, broad = background or (0.0, None)
        weights = mixture.weights * (1 - weight)
        rest = 0.0 if broad is None else weight * counts.shares(broad.means[0], broad.covariances[0])
        if n_records is not None:
            return cls(counts, mixture, weights, shares, rest, float(n_records), True)
        variance = max(counts.noise_variance, LEAST_VARIANCE)
        found = likely_number(counts.values, weights @ shares + rest, variance, len(counts.starts))
        return cls(counts, mixture, weights, shares, rest, found, False)

    @property
    def expected(self) -> FloatArray:
        """Counts, shape (M,)."""
        return np.asarray(self.n_records * (self.weights @ self.shares + self.rest))

    @property
    def variances(self) -> FloatArray:
        """Of noise and sampling together, shape (M,), at least ``LEAST_VARIANCE``."""
        return self.expected + max(self.counts.noise_variance, LEAST_VARIANCE)

    def rise(self, i: int, shares: FloatArray) -> float:
        """Of chi-square, where one component has other shares (M,) of its records in the bins, and all else stays."""
        step = self.n_records * self.weights[i] * (shares - self.shares[i])
        return float(((step - 2 * (self.counts.values - self.expected)) * step / self.variances).sum())


def likely_number(values: FloatArray, shares: FloatArray, variance: float, n_histograms: int) -> float:
    """Of records, at least 1, by weighted least squares, the weights from a first guess, the sum of the counts."""
    guess = max(values.sum() / n_histograms, 1.0)
    precise = shares / (variance + guess * shares)
    slope = float(precise @ shares)
    return max(float(precise @ values) / slope if slope > 0 else 1.0, 1.0)


def count_caveats(
    raw: Mapping[str, FloatArray],
    noise: Mapping[str, Any],
    mixture: Mixture,
    background: tuple[float, Mixture] | None = None,
    *,
    n_records: int | None = None,
    gain: float = 0.0,
) -> list[str]:
    """What noisy counts leave open or contradict in a mixture, one text for each reason.

    Parameters
    ----------
    raw, noise : mappings
        Of a release of method "histogram" or "slices".
    mixture : Mixture
        That was fitted to the counts.
    background : (weight, Mixture), optional
        What the density has besides.
    n_records : int, optional
        Where it is public.
    gain : float
        Of one component more, in nats per record, if that was found out.

    Returns
    -------
    list of str
        Empty where nothing speaks against the fit, and where there are no counts. Nothing is raised.

    Guarantee
    ---------
    Post-processing: costs no privacy budget.
    """
    try:
        fit = judged(raw, noise, mixture, background, n_records)
        if fit is None:
            return []
        with np.errstate(all="ignore"):
            found = [misfit(fit, gain), far_records(fit), too_few(fit), unmeasured_width(fit)]
    except (LookupError, TypeError, ValueError, ArithmeticError):  # the budget is spent, or a file is odd: go on
        return []
    return [text for text in found if text]


def judged(
    raw: Mapping[str, FloatArray],
    noise: Mapping[str, Any],
    mixture: Mixture,
    background: tuple[float, Mixture] | None = None,
    n_records: int | None = None,
) -> Judged | None:
    """The counts of a release beside a mixture; None where there are none, or so many that it would take long."""
    counts = Counts.of(raw, noise)
    k, d = mixture.means.shape
    if counts is None or k * (1 + 2 * d) * counts.values.size > MOST_WORK:
        return None
    with np.errstate(all="ignore"):
        return Judged.of(counts, mixture, background, n_records)


def signal(fit: Judged) -> float:
    """Squared signal-to-noise ratio of the counts, for each number of the mixture."""
    k, d = fit.mixture.means.shape
    return float((fit.expected**2 / fit.variances).sum()) / (k * (1 + d + d * (d + 1) // 2))


def misfit(fit: Judged, gain: float = 0.0) -> str | None:
    """That the counts contradict the mixture, and that it matters; or that one component more gains much.

    The excess of a chi-square over its mean, divided by twice the number of records, estimates the divergence of the
    mixture from the records in nats, of what the bins show of them and where sampling is more than the noise: less
    than all of it, and far less where components are narrower than the bins.
    """
    size, narrow = excess(fit), as_narrow_as_cells(fit)
    mostly_narrow = bool(fit.mixture.weights[narrow].sum() > MOSTLY)
    k = fit.mixture.n_components
    if size < (MATTERS_IF_NARROW if mostly_narrow else MATTERS):
        if gain < ONE_MORE:
            return None
        return (
            f"a mixture of {counted(k, 'component')} does not fit the released counts: one of {k + 1} describes records"
            f" better, by about {gain:.2g} nats each; more components or, with delta, method 'sketch' may help"
        )
    help_ = "another number of components, bounds that fit the columns, other bins (n_bins)"
    if mostly_narrow:
        help_ = f"{listed(narrow)} came out no wider than a bin, so tighter bounds, more bins (n_bins)"
    told = f"{size:.2g}" if size < 1 else "1"
    return (
        f"a mixture of {counted(k, 'component')} does not fit the released counts: they alone"
        f" show that it is off by {told} nats per record or more; {help_} or, with delta, method 'sketch' may help"
    )


def as_narrow_as_cells(fit: Judged) -> NDArray[np.bool_]:
    """Which components have a deviation along some axis of a bin or less, of slices the fit's least, shape (K,)."""
    least = GRID_VARIANCE if fit.counts.slices is None else SLICE_VARIANCE
    return np.asarray(np.linalg.eigvalsh(in_bins(fit))[:, 0] < NARROW**2 * least)


def in_bins(fit: Judged) -> FloatArray:
    """Covariances (K, D, D) in units of a bin."""
    return np.asarray(fit.mixture.covariances / np.outer(fit.counts.width, fit.counts.width))


def as_narrow_as_allowed(fit: Judged) -> NDArray[np.bool_]:
    """Which components are at the least deviation that a fit allows, in a column or along any direction, shape (K,).

    What is narrower in slices, as columns that nearly determine each other are, is then made up for by the other
    widths: the counts neither contradict it nor leave it open, and cannot tell how narrow it is. Those of a grid can:
    it is narrower where they fit better so.
    """
    covariances = in_bins(fit)
    least = np.linalg.eigvalsh(covariances)[:, 0]
    if fit.counts.slices is not None:
        return np.asarray(least < AT_LEAST**2 * SLICE_VARIANCE)
    in_column = np.diagonal(covariances, axis1=1, axis2=2).min(axis=1)
    allowed = GRID_VARIANCE / finest(covariances.shape[1], fit.counts.n_cells) ** 2
    at_least = (in_column < AT_LEAST**2 * LEAST_IN_COLUMN) | (least < AT_LEAST**2 * allowed)
    return np.asarray(at_least & (width_rises(fit, 1 / NARROWER) < 0).any(axis=1))


def excess(fit: Judged) -> float:
    """The largest divergence, in nats per record, that any of the histograms shows for sure; 0 where none does.

    Where records and mixture lie apart it is large beyond meaning.
    """
    noise, expected = fit.counts.noise_variance, fit.expected
    squares = ((fit.counts.values - expected) ** 2 - (noise + expected)) / fit.variances
    # fourth cumulants: 3 v^2 + v of the noise, and the mean of a Poisson count
    spreads = (2 * (noise + expected) ** 2 + 3 * noise**2 + noise + expected) / fit.variances**2
    sums, deviations = (np.add.reduceat(row, fit.counts.starts) for row in (squares, spreads))
    sure = sums > (SURE + math.log(len(sums))) * np.sqrt(deviations)
    return float(np.where(sure, sums, 0.0).max() / (2 * fit.n_records))


def far_records(fit: Judged) -> str | None:
    """That more records lie where the components have none than the density has there, each with a poor log-density.

    One record in each of many bins moves no chi-square: it is the sum over just these bins that stands out. A public
    number of records says what the sum is, too, by the other bins, which are few and have little noise together.
    """
    shares = []
    variance = max(fit.counts.noise_variance, LEAST_VARIANCE)
    own, whole = fit.n_records * (fit.weights @ fit.shares), fit.expected
    rows = (np.split(numbers, fit.counts.starts[1:]) for numbers in (fit.counts.values, own, whole))
    for values, of_components, expected in zip(*rows, strict=True):
        order = np.argsort(of_components, kind="stable")
        far = order[np.cumsum(of_components[order]) <= FAR_BINS]
        n_far, n_near = len(far), len(values) - len(far)
        found, weights = values[far].sum(), np.ones(n_far)
        if fit.public:  # the mean of both sums, each by the other's variance
            found += (fit.n_records - values.sum()) * n_far / len(values)
            weights = np.repeat([n_near / len(values), n_far / len(values)], [n_far, n_near])
        spread = math.sqrt(float((weights**2).sum()) * variance)
        sure = (_sure_of_sum(weights) + math.log(len(fit.counts.starts)) / FAR_SURE) * spread
        there = float(expected[far].sum())
        # divergence, to first order, of a density that has too few records there and as many too many elsewhere
        lost = found * min(math.log(max(found, 1e-9) / max(there, 1e-9)), FAR_NATS) - (found - there)
        notable = found - there > sure and lost > FAR_COSTS * fit.n_records
        shares.append(found / fit.n_records if notable else 0.0)
    share = min(max(shares), 1.0)  # noise on few records may count more
    if share == 0:
        return None
    return (
        f"about {share:.1%} of the records lie where the mixture has next to none, and log densities there are far too"
        " low: another component for them, tighter bounds or, with delta, method 'sketch' may help"
    )


def _sure_of_sum(weights: FloatArray) -> float:
    """Deviations that a weighted sum of Laplace draws exceeds at most once in 2,000: by its excess kurtosis.

    Few draws have heavier tails than Cornish and Fisher's term is made for; one alone exceeds 5 so often.
    """
    kurtosis = 3 * float((weights**4).sum()) / max(float((weights**2).sum()) ** 2, 1e-300)
    return min(FAR_SURE + (FAR_SURE**3 - 3 * FAR_SURE) * kurtosis / 24, FAR_SURE_ALONE)


def too_few(fit: Judged) -> str | None:
    """That the counts hardly rise above their noise, for so many numbers."""
    k, d = fit.mixture.means.shape
    found = signal(fit)
    if found >= LEAST_SIGNAL:
        return None
    times = math.sqrt(LEAST_SIGNAL / max(found, 1e-6))  # noise rules, so the ratio grows with the square
    needed = f"about {times:.1f}" if times < MOST_TIMES else f"more than {MOST_TIMES}"
    return (
        f"too few records or too small a budget for {counted(k, 'component')} in {counted(d, 'column')}: {needed}"
        " times the records would be needed, or tighter bounds; the mixture may be noise"
    )


def unmeasured_width(fit: Judged) -> str | None:
    """That components could as well be much narrower, or wider, along some axis.

    Of a small component that matters where it is narrow along several: the density there is their product.
    """
    narrower, wider = (width_rises(fit, factor) < MEASURED for factor in (1 / TIMES, TIMES))
    narrower[:, 0] |= as_narrow_as_allowed(fit)
    weights = fit.mixture.weights
    costly = PER_AXIS * (weights @ narrower.sum(axis=1)) > COSTS
    misplaced = weights[wider.any(axis=1)].sum() > MISPLACED
    parts = []
    for matters, open_ended, word in ((costly, narrower, "narrower"), (misplaced, wider, "wider")):
        if matters:
            which = np.asarray(open_ended.any(axis=1), dtype=np.bool_)
            parts.append(f"{listed(which)} could be {TIMES:.0f} times {word} or more")
    if not parts:
        return None
    return (
        f"some widths were not measured: as far as the released counts tell, {' and '.join(parts)}, and densities"
        " there are arbitrary; tighter bounds, more bins (n_bins) if there are many records, fewer components or,"
        " with delta, method 'sketch' may help"
    )


def width_rises(fit: Judged, factor: float) -> FloatArray:
    """Rise of chi-square when one component's deviation along one axis is multiplied by ``factor``, shape (K, D).

    All else stays. Axes are those of the covariance in units of a bin.
    """
    unit = np.outer(fit.counts.width, fit.counts.width)
    rises = np.empty(fit.mixture.means.shape)
    for i, (mean, covariance) in enumerate(zip(fit.mixture.means, fit.mixture.covariances, strict=True)):
        values, axes = np.linalg.eigh(covariance / unit)
        for j in range(len(values)):
            scaled = np.where(np.arange(len(values)) == j, factor**2, 1.0) * np.maximum(values, 0.0)
            rises[i, j] = fit.rise(i, fit.counts.shares(mean, ((axes * scaled) @ axes.T) * unit))
    return rises

"""What a reader of a release should be warned of. Post-processing: released and public numbers alone, so free.

A fit can explain all that was measured and still be wrong, where what was measured does not tell: scales below the
finest wave, scales beyond the interval, more parameters than the budget pays for. The words about a misfit are in
``misfit.py``, those about records without a place in ``outside_bins.py``, those about counts in
``methods/counts/caveats.py``; the warnings' classes are in ``fit_warnings.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.box import EXPONENTS
from pm_dpgmm.mechanisms.frequencies import FejerHarmonics
from pm_dpgmm.methods.components_in_words import listed
from pm_dpgmm.methods.sketch.checks.broad import COSTS, could_be_broader
from pm_dpgmm.methods.sketch.checks.outside_bins import records_outside
from pm_dpgmm.methods.sketch.checks.width_guess import hangs_on_the_guess
from pm_dpgmm.methods.sketch.estimate import FEW, MEASURED, SketchFit, prior_about, signal
from pm_dpgmm.methods.sketch.fit import objective_rises
from pm_dpgmm.methods.sketch.phantoms import phantom_chances
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.mixture import Mixture

SHRUNK, STRETCHED = 0.1, 10.0  # factors on a component's deviation along one axis
NOTABLE = 0.1  # weight of all components of unmeasured width together: the most that they can put in a wrong place
PER_AXIS = float(-np.log(SHRUNK) - (1 - SHRUNK**2) / 2)  # nats that a record loses where a deviation is SHRUNK
MOST_FEATURES = 8  # of a thorough search
# excess of pairs that counts: deviations of it, share of all pairs, times what is predicted
PAIRS_SURE, PAIRS_SHARE, PAIRS_TIMES = 5.0, 0.005, 2.0
FARTHEST, MOST_STEPS = 9.0, 4_096  # deviations about all components, and steps of a rounded column within them
TOO_FEW = 5.0  # signal at which fits to one column lose about 0.1 nats a record; FEW in more columns
# highest frequency times the deviation of the whole mixture, below which two groups look like one: from 2.2 on two that
# are 8 deviations apart were found, below 1.7 never (loss .7 nats)
RESOLVED = 1.75
ONE_SKETCH = "the fit was interrupted before its second sketch: the mixture is that of what was released until then"
LIKELY_NOISE = 0.5  # chance of a component to be noise


def sketch_caveats(
    evidence: SketchStatistics, fit: SketchFit, raw: Mapping[str, FloatArray], most_components: int
) -> list[str]:
    """What the released numbers leave open or contradict, one text for each reason.

    Parameters
    ----------
    evidence : SketchStatistics
        What the fit was made from.
    fit : SketchFit
    raw : mapping of str to ndarray
        Other noisy statistics of the release; the distances within pairs are used if they are there.
    most_components : int
        The largest number that was asked for.

    Returns
    -------
    list of str
        Empty where nothing speaks against the fit.
    """
    noise = likely_noise(fit)
    found = [
        too_few(evidence, fit),
        noise_components(noise),
        unresolved(evidence, fit),
        unmeasured_width(fit),
        could_be_broader(fit),
        hangs_on_the_guess(fit, most_components),
        unexpected_pairs(raw, evidence, fit),
        records_outside(raw, evidence, fit, noise),
    ]
    return [text for text in found if text]


def too_few(evidence: SketchStatistics, fit: SketchFit) -> str | None:
    """That the budget does not pay for so many parameters: a rule of public sizes, no simulation."""
    k, d = fit.found.means.shape
    strength, least = signal(evidence, k), TOO_FEW if d == 1 else FEW
    if k == 1 or strength >= least:
        return None
    return (
        f"too few records or too small a budget for {k} components in {d} columns: about"
        f" {least / strength:.1f} times the records would be needed; components may be noise"
        + (", with places and widths that are usual within the bounds rather than measured" if d > 1 else "")
    )


def likely_noise(fit: SketchFit) -> NDArray[np.bool_]:
    """Which components are likely to be noise, (K,); asked of strong signals too, as little noise hides a cluster."""
    k, d = fit.found.means.shape
    if k == 1 or d > MOST_FEATURES:
        return np.zeros(k, dtype=np.bool_)
    return np.asarray(phantom_chances(fit.data, fit.found, prior_about(fit.found)) > LIKELY_NOISE)


def noise_components(likely: NDArray[np.bool_]) -> str | None:
    """That components may be noise.

    True of the components alone: the numbers are explained as well without one of them, so they are with it, too.
    """
    if not likely.any():
        return None
    many = likely.sum() > 1
    return (
        f"{listed(likely)} may be noise: the released numbers are explained as well without"
        f" {'one of them' if many else 'it'}, so do not rely on {'their parameters' if many else 'its parameters'}"
        " (release.refit takes fewer); this does not speak against the density"
    )


def unmeasured_width(fit: SketchFit) -> str | None:
    """That components could as well be ten times narrower, or wider, along some axis.

    Of a small component that matters where it is narrow along several: the density there is their product.

    Where the numbers contradict a mixture of one column, they tell a width no better than they are explained: the rise
    that it takes grows with chi-square over its degrees of freedom, as standard errors do by Birge's ratio. A spike of
    equal values is then told from a narrow component.
    """
    try:
        narrower, wider = (rises < MEASURED * unexplained(fit) for rises in width_rises(fit))
    except np.linalg.LinAlgError:  # the budget is spent, so go on; such a fit has an infinite misfit
        return None
    weights = fit.mixture.weights
    parts = []
    for open_ended, word, per_axis in ((narrower, "narrower", PER_AXIS), (wider, "wider", 0.0)):
        which = np.asarray(open_ended.any(axis=1), dtype=np.bool_)
        if weights[which].sum() > NOTABLE or per_axis * (weights @ open_ended.sum(axis=1)) > COSTS:
            parts.append(f"{listed(which)} could be ten times {word} or more")
    if not parts:
        return None
    return (
        f"some widths were not measured: as far as the released numbers tell, {' and '.join(parts)}, and densities"
        " there may be far off; the columns have several scales (transform them or give bounds), many records share a"
        " value (give reg_covar) or the records are few"
    )


def unexplained(fit: SketchFit) -> float:
    """Chi-square over its degrees of freedom where one column's numbers contradict the mixture; 1 elsewhere."""
    if len(fit.data.unit) > 1 or not fit.rejected:
        return 1.0
    freedom = max(fit.data.values.size - fit.found.n_parameters, 1)
    return 1 + fit.misfit * float(np.sqrt(2 / freedom))


def width_rises(fit: SketchFit) -> tuple[FloatArray, FloatArray]:
    """Rise of chi-square when a component is SHRUNK, and when it is STRETCHED, along each of its axes; both (K, D)."""
    return objective_rises(fit.data, fit.found, SHRUNK), objective_rises(fit.data, fit.found, STRETCHED)


def unexpected_pairs(raw: Mapping[str, FloatArray], evidence: SketchStatistics, fit: SketchFit) -> str | None:
    """That pairs of records were counted at distances at which the mixture has hardly any."""
    if "pair_distance_law" not in raw:
        return None
    noise_scale, n_pairs = raw["pair_distance_law"]
    density = fit.density
    added = np.zeros(len(evidence.unit)) if evidence.variance_floor is None else evidence.variance_floor
    floor = np.sqrt(added) * evidence.unit
    columns = []
    for j, counts in enumerate(raw["pair_distance_counts"]):
        step = 0.0 if evidence.resolution is None else float(evidence.resolution[j])
        observed, expected = (_by_three(row) for row in (counts, n_pairs * pair_shares(density, j, step)))
        excess = observed - expected
        sure = excess > PAIRS_SURE * np.sqrt(3 * noise_scale**2 + np.maximum(expected, 0.0))
        odd = sure & (excess > PAIRS_SHARE * n_pairs) & (observed > PAIRS_TIMES * expected)
        odd &= 2.0 ** (EXPONENTS[2:] + 1) > floor[j]  # narrower than was asked for
        if odd.any():
            columns.append((j, float(2.0 ** EXPONENTS[1:-1][odd][0])))
    if not columns:
        return None
    where = ", ".join(f"about {distance:.2g} in column {j}" for j, distance in columns)
    return (
        f"many records lie at distances from each other at which the mixture has hardly any ({where}): columns of"
        " several scales, of which only some were measured. Transform the columns, give bounds or fit apart"
    )


def pair_shares(mixture: Mixture, column: int, step: float = 0.0) -> FloatArray:
    """Probability of each binary exponent of the distance of two draws in one column, shape of EXPONENTS.

    ``step``: of a column whose values are rounded; narrower than a step or two, these are equal or steps apart.
    """
    weights, means = mixture.weights, mixture.means[:, column]
    variances = mixture.covariances[:, column, column]
    if step > 0:
        reach = FARTHEST * np.sqrt(variances)
        first, last = np.floor((means - reach).min() / step), np.ceil((means + reach).max() / step)
        if last - first < MOST_STEPS:  # of more the rounding does not matter
            edges = (np.arange(first, last + 2) - 0.5) * step
            below = special.ndtr((edges - means[:, None]) / np.sqrt(variances)[:, None])
            cells = weights @ np.diff(below, axis=1)
            apart = np.correlate(cells, cells, "full")[len(cells) - 1 :] * np.where(np.arange(len(cells)) > 0, 2.0, 1.0)
            bins = np.searchsorted(2.0 ** EXPONENTS[1:], np.arange(len(cells)) * step, side="right")
            return np.bincount(bins, weights=apart, minlength=len(EXPONENTS))
    shift = np.abs(means[:, None] - means).ravel()
    scale = np.sqrt(variances[:, None] + variances).ravel()
    edges = np.concatenate([[0.0], 2.0 ** EXPONENTS[1:], [np.inf]])[:, None]
    below = special.ndtr((edges - shift) / scale) - special.ndtr((-edges - shift) / scale)
    return np.asarray(np.diff(below @ np.outer(weights, weights).ravel()))


def _by_three(row: FloatArray) -> FloatArray:
    """Sums of three neighbours: distances spread over a few exponents, noise does not."""
    return np.convolve(row, np.ones(3), mode="valid")


def unresolved(evidence: SketchStatistics, fit: SketchFit) -> str | None:
    """That all records lie within a part of the finest wave of a single column: one group then looks like another.

    In more columns waves are turned to what was found, and are as fine.
    """
    waves = evidence.sketches[0].frequencies
    if not isinstance(waves, FejerHarmonics):
        return None
    turns = waves.step * waves.order * float(np.sqrt(fit.density.covariance()[0, 0]))
    if not turns < RESOLVED:
        return None
    rounded = evidence.resolution is not None and evidence.resolution[0] > 0  # no wave is shorter than its steps tell
    return (
        f"the finest released wave is {2 * np.pi / turns:.0f} standard deviations of the whole mixture long: what is"
        " narrower, such as two groups in place of one, was not measured; "
        + ("the column is rounded" if rounded else "tighter bounds or more records would tell")
    )

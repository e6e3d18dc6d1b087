"""A noisy characteristic function of the records at public frequencies. Proof: sketch.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from pm_dpgmm._arguments import FloatArray, frozen
from pm_dpgmm._blocks import Records
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.mechanisms.frequencies import Frequencies
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter, steps_of
from pm_dpgmm.mechanisms.sketch_features import GRID, sums_and_number
from pm_dpgmm.privacy.guarantee import Neighbouring, replaces_one
from pm_dpgmm.privacy.noise import Rng, discrete_gaussian


@dataclass(frozen=True, slots=True, eq=False)
class NoisySketch:
    """Released sums of features and the public law of their noise.

    Attributes
    ----------
    frequencies : RieszProduct or FejerHarmonics
    values : ndarray, shape (2, n_frequencies)
        Sums over the records of amplitude * cos(phase) and of amplitude * sin(phase), with noise.
    noise_scale : float
        Standard deviation of the noise on every number of ``values``.
    n_records : float
        Number of records: exact and public, or with noise.
    n_records_scale : float
        Standard deviation of the noise on ``n_records``; 0 when it is public.
    """

    frequencies: Frequencies
    values: FloatArray
    noise_scale: float
    n_records: float
    n_records_scale: float = 0.0
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(self.values))


def noisy_sketch(
    blocks: Records,
    frequencies: Frequencies,
    *,
    budget: GaussianFilter,
    share: Fraction,
    neighbouring: Neighbouring,
    n_threads: int = 1,
    rng: Rng = None,
) -> tuple[NoisySketch, GaussianFilter]:
    """Release the characteristic function of the records at public frequencies.

    Parameters
    ----------
    blocks : ndarray, shape (N, n_features), or iterable of such arrays
        The records. Any numbers: a phase that is not finite counts as 0.
    frequencies : RieszProduct or FejerHarmonics
        A function of public numbers, public randomness and earlier releases.
    budget : GaussianFilter
        Of the whole transcript; this release takes ``share`` of its limit.
    share : Fraction
    neighbouring : Neighbouring
        Under add-remove the number of records is released with noise, as one more feature of every record.
    n_threads : int
        Does not change the result.
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    sketch : NoisySketch
    budget : GaussianFilter
        What is left.

    Raises
    ------
    ValueError
        If the budget has too little left, or there are more than 2^31 records.

    Guarantee
    ---------
    ``share`` times the limit, in squared Gaussian differential privacy, whatever numbers the records hold; the whole
    transcript has the curve ``budget.loss()``. Proof: sketch.md, frequencies.md, sketch_features.md.

    Examples
    --------
    >>> from pm_dpgmm.mechanisms.frequencies import FejerHarmonics
    >>> records = np.random.default_rng(1).normal(size=(1000, 1))
    >>> sketch, left = noisy_sketch(records, FejerHarmonics(0.5, 16, 0.0), budget=GaussianFilter.of(1.0, 1e-6),
    ...                             share=Fraction(1), neighbouring=Neighbouring.REPLACE_ONE)
    >>> sketch.values.shape, round(sketch.noise_scale, 1)
    ((2, 16), 17.4)
    """
    # before anything is computed from records
    scale, left = sketch_cost(frequencies, budget=budget, share=share, neighbouring=neighbouring)
    sums, n_records = sums_and_number(blocks, frequencies, n_threads=n_threads)
    noisy = (sums + discrete_gaussian(sums.shape, scale=float(scale), rng=rng)).astype(float)
    if replaces_one(neighbouring):
        return NoisySketch(frequencies, noisy * GRID, scale * GRID, float(n_records)), left
    weight = _count_weight(frequencies)
    count = n_records * weight + int(discrete_gaussian(1, scale=float(scale), rng=rng)[0])
    return NoisySketch(frequencies, noisy * GRID, scale * GRID, count / weight, scale / weight), left


def sketch_cost(
    frequencies: Frequencies, *, budget: GaussianFilter, share: Fraction, neighbouring: Neighbouring
) -> tuple[int, GaussianFilter]:
    """Noise scale of :func:`noisy_sketch` in grid steps, and what is left; ValueError as there. Sees no record."""
    n_numbers, squared = 2 * frequencies.n_frequencies, frequencies.squared_sensitivity(neighbouring)
    if not replaces_one(neighbouring):
        squared += (_count_weight(frequencies) * Fraction(GRID)) ** 2
        n_numbers += 1
    steps = steps_of(squared, grid=GRID, n_numbers=n_numbers, error=frequencies.feature_error)
    return budget.spend(steps, share=share, n_numbers=n_numbers)


def _count_weight(frequencies: Frequencies) -> int:
    """Of the number of records, in grid steps."""
    return round(math.sqrt(frequencies.squared_count_weight) / GRID)

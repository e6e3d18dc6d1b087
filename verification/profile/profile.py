"""The privacy profile delta(epsilon) of a pair of data sets, with a confidence band, from exact log densities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verification._arguments import check_callable, check_count, check_probability, check_rng, check_switch, shown
from verification.auditing import outputs as runs
from verification.auditing.audit import MIN_SAMPLES, check_jobs
from verification.auditing.coins import fair_coins
from verification.auditing.guessing import MOST_RUNS
from verification.auditing.probing import probe
from verification.profile.band import LARGEST_EPSILON, band_direction, mean_lower, refuted_in_a_row, weights
from verification.profile.points import default_epsilons, delta_bound, epsilon_bound
from verification.profile.ratio_calibration import calibration
from verification.profile.result import MeasuredProfile

__all__ = ["MeasuredProfile", "privacy_profile"]

FloatArray = NDArray[np.float64]

PILOT = (50, 40, 5_000)  # least and largest number of pilot runs; one of this many runs between them
CALIBRATION_ALARM = 1e-3

# What profile.md proves, beside `privacy_profile`.
PROVED = (mean_lower, band_direction, refuted_in_a_row, epsilon_bound, delta_bound, calibration)


def privacy_profile(
    mechanism: Any,
    x: Any,
    x_neighbour: Any,
    *,
    log_density: Callable[..., Any],
    epsilons: ArrayLike | None = None,
    n_samples: int = 200_000,
    false_alarm: float = 0.05,
    n_jobs: int = 1,
    progress: bool = False,
    rng: np.random.Generator | None = None,
) -> MeasuredProfile:
    """Certify the whole curve delta(epsilon) of one pair of data sets, from below and from above.

    Parameters
    ----------
    mechanism : callable, or object with ``prepare`` and ``sample``
        As for `audit`: ``mechanism(data, n_samples, rng)`` returns ``n_samples`` independent runs.
    x, x_neighbour : any
        Neighbouring data sets, handed to ``mechanism`` as they are.
    log_density : callable
        ``log_density(outputs, data)`` of shape (n,): the exact log density (or log probability) of n outputs, given as
        ``mechanism`` returned them, against one common measure. -inf is allowed under one of the data sets. A constant
        that is the same for both data sets may be left out.
    epsilons : array_like of float, shape (k,), optional
        Where the band is computed, no unit, each in [0, 600]; 0 is added. Fewer points make it narrower there and wider
        between them. None: some 40 points, chosen by the first runs.
    n_samples : int
        Runs on both data sets together, from 100 to 10**8.
    false_alarm : float
        Probability, at most, that the band misses the curve anywhere; a quarter for each side of each direction.
    n_jobs : int
        Workers (joblib) that run the mechanism, -1 for every core; does not change the result.
    progress : bool
        Show a bar of runs on a terminal.
    rng : numpy.random.Generator, optional
        Also the source of the generators handed to ``mechanism``. None: fresh entropy.

    Returns
    -------
    MeasuredProfile
        The band at any epsilon; bounds of epsilon at any delta; tighter ones at a single point chosen beforehand.

    Raises
    ------
    TypeError, ValueError
        If an argument, an output of ``mechanism`` or a value of ``log_density`` breaks the rules above; if the
        mechanism repeats its runs whatever generator it is given.
    RuntimeError
        If ``mechanism`` or ``log_density`` raises; its error is the cause.

    Guarantee
    ---------
    For independent runs and right densities, the curves of both directions lie in their bands at every epsilon at once
    with probability at least ``1 - false_alarm``; the curve of the pair is the larger of them. Upper bounds are of this
    pair: another one may be worse. Proof: profile.md.

    Unlike those of `audit`, **these bounds rely on the densities**. ``calibration`` tests them (false alarm 1e-3); if
    it fails, the profile says nothing. Lower bounds rest only on what that test looks at, that the log ratios fit the
    labels; upper bounds also on a density that leaves no part of the output out, which no test of ratios can show.

    Each run is on ``x`` or ``x_neighbour`` by the flip of a fair coin, so runs are independent draws from the mixture
    of both, and every one of them counts for both directions.

    Source
    ------
    Bounds of means by betting: Waudby-Smith and Ramdas (2024), Estimating means of bounded random variables by betting,
    Journal of the Royal Statistical Society B 86.

    Examples
    --------
    >>> import numpy as np
    >>> def noisy_count(count, n_samples, rng):
    ...     return count + rng.normal(scale=2.0, size=n_samples)
    >>> def log_density(outputs, count):
    ...     return -((outputs - count) ** 2) / 8
    >>> profile = privacy_profile(noisy_count, 10, 11, log_density=log_density, rng=np.random.default_rng(1))
    >>> bool(profile.delta_lower(1.0) < 0.00686 < profile.delta_upper(1.0))  # the exact value
    True
    >>> profile.calibration.passed
    True
    """
    check_callable(log_density=log_density)
    grid = None if epsilons is None else _grid(epsilons)
    check_count(least=MIN_SAMPLES, most=MOST_RUNS, n_samples=n_samples)
    check_probability(false_alarm=false_alarm)
    check_switch(progress=progress)
    check_jobs(n_jobs)
    rng = check_rng(rng)
    n_samples, false_alarm = int(n_samples), float(false_alarm)
    runner = runs.prepared(mechanism, x, x_neighbour)
    notes = probe(runner, rng, n_jobs=n_jobs)

    label = fair_coins(rng, n_samples)
    with runs.progress_bar(progress, n_samples, "privacy profile") as step:
        outputs, is_tuple = runs.run_both(runner, label, rng, n_jobs=n_jobs, progress=step)
    watch = runs.Watch()
    watch.see(runs.as_rows(outputs), label)
    notes += watch.notes("value") + runs.type_notes(runner, "value")
    ratio = runs.log_ratio(log_density, outputs if is_tuple else outputs[0], x, x_neighbour, n_samples)

    pilot = int(np.clip(n_samples // PILOT[1], PILOT[0], PILOT[2]))
    if grid is None:
        grid = default_epsilons(ratio[:pilot])
    s, r = weights(ratio)
    # Both directions, half of the error probability each.
    bands = [band_direction(*pair, grid, error=false_alarm / 2, pilot=pilot) for pair in ((s, r), (r, s))]
    lines, at_infinity, upper, estimate = (np.array([band[i] for band in bands]) for i in range(4))
    return MeasuredProfile(
        epsilons=grid,
        estimate=estimate,
        upper=upper,
        lines=lines,
        lower_at_infinity=at_infinity,
        log_ratio=ratio,
        n_samples=n_samples,
        n_pilot=pilot,
        false_alarm=false_alarm,
        calibration=calibration(ratio, label, false_alarm=CALIBRATION_ALARM),
        notes=tuple(notes),
    )


def _grid(epsilons: ArrayLike) -> FloatArray:
    values = np.asarray(epsilons)
    if values.dtype.kind not in "iuf":
        raise TypeError(f"epsilons must be numbers, got {shown(epsilons)} of dtype {values.dtype}")
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"epsilons must be a sequence of at least one number, got {shown(epsilons)}")
    if not np.all((values >= 0) & (values <= LARGEST_EPSILON)):
        raise ValueError(f"epsilons must lie between 0 and {LARGEST_EPSILON:g}, got {shown(epsilons)}")
    return np.unique(np.round(np.append(values.astype(float), 0.0), 9))  # as log ratios are

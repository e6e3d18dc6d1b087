"""Audit a privacy claim by experiment: run a mechanism on two neighbouring data sets and try to tell the runs apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from verification._arguments import (
    check_callable,
    check_choice,
    check_count,
    check_delta,
    check_probability,
    check_rng,
    check_switch,
)
from verification.auditing import outputs as runs
from verification.auditing.betting_audit import sequential_audit
from verification.auditing.claimed_curve import claim_of
from verification.auditing.coins import fair_coins
from verification.auditing.curve_audit import curve_audit
from verification.auditing.curve_result import CurveAuditResult
from verification.auditing.detection_limit import detection_limit
from verification.auditing.events import choose_guesses
from verification.auditing.features.bits import bit_features
from verification.auditing.guess_choice import Scored, by_exact_score, by_learned_score, quantile
from verification.auditing.guessing import MOST_RUNS, delta_bound, epsilon_bound, p_value
from verification.auditing.probing import probe
from verification.auditing.result import LEVELS, AuditResult, one_criterion

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

MIN_SAMPLES = 100  # fewer cannot be shared between learning and guessing
BINS = 60


@overload
def audit(
    mechanism: Any,
    x: Any,
    x_neighbour: Any,
    *,
    epsilon: float,
    delta: float = ...,
    n_samples: int = ...,
    false_alarm: float = ...,
    level: str = ...,
    sequential: bool = ...,
    log_density: Callable[..., Any] | None = ...,
    n_jobs: int = ...,
    progress: bool = ...,
    rng: np.random.Generator | None = ...,
) -> AuditResult: ...


@overload
def audit(
    mechanism: Any,
    x: Any,
    x_neighbour: Any,
    *,
    guarantee: Any = ...,
    profile: Any = ...,
    delta: float = ...,
    n_samples: int = ...,
    false_alarm: float = ...,
    level: str = ...,
    sequential: bool = ...,
    log_density: Callable[..., Any] | None = ...,
    n_jobs: int = ...,
    progress: bool = ...,
    rng: np.random.Generator | None = ...,
) -> CurveAuditResult: ...


def audit(
    mechanism: Any,
    x: Any,
    x_neighbour: Any,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    guarantee: Any = None,
    profile: Any = None,
    n_samples: int = 200_000,
    false_alarm: float = 0.05,
    level: str = "value",
    sequential: bool = False,
    log_density: Callable[..., Any] | None = None,
    n_jobs: int = 1,
    progress: bool = False,
    rng: np.random.Generator | None = None,
) -> AuditResult | CurveAuditResult:
    """Certify a lower bound of epsilon, and so perhaps refute a claim of (epsilon, delta)-DP or of a whole curve.

    Parameters
    ----------
    mechanism : callable, or object with ``prepare`` and ``sample``
        ``mechanism(data, n_samples, rng)`` returns ``n_samples`` independent runs: a numeric array with first axis
        ``n_samples``, or a tuple of such arrays, one per part of the output. A row of NaN is the failure symbol;
        infinities are allowed. Outputs of varying size are padded with NaN by the caller. Refused is what would go
        unseen: floats of more than 64 bits, integers beyond 2^53, masked or labelled arrays, text, objects. Of arrays
        of other libraries (with ``__dlpack__``) and of mapped files the numbers are looked at, nothing beside them.
        What two columns tell together is looked for in up to 10,000, by the square of their number. An object
        does a costly deterministic part once per data set: ``state = prepare(data)``, then
        ``sample(state, n_samples, rng)``. A mechanism that runs once, ``mechanism(data, rng)``: see `repeated`.
    x, x_neighbour : any
        Neighbouring data sets, handed to ``mechanism`` as they are.
    epsilon, delta : float
        The claim, no unit: epsilon finite and at least 0, delta in [0, 1). Beside a curve, ``delta`` is where the
        result tells an epsilon (default that of ``guarantee``).
    guarantee, profile : optional
        In place of ``epsilon``, the claim as a whole curve: `pm_dpgmm.Release.guarantee`; or GDP(mu=...), ZCDP(rho=...)
        of this package, a callable delta(epsilon), a privacy loss distribution of dp-accounting, a table of epsilons
        and deltas, a pair of curves for both orders (`verification.auditing.claimed_curve.claimed_curve`). A claim with
        a small delta is refuted by far fewer runs so, because its curve may be tested where events are not rare.
    n_samples : int
        Runs on both data sets together, from 100 to 10**8; with ``sequential`` the largest number.
    false_alarm : float
        Probability, at most, that ``epsilon_lower`` exceeds the true epsilon of this pair.
    level : {"value", "bit"}
        "value": outputs are compared as real numbers. "bit": as numbers in the computer too, where the bits of
        floating-point noise can tell the data sets apart: all 64 of every number, the sign of zero, the content of NaN.
    sequential : bool
        Bet on every run as it comes and stop when the claim is refuted or after ``n_samples`` runs. Stopping early
        costs no validity; a violation that is large is found with a few hundred runs.
    log_density : callable, optional
        ``log_density(outputs, data)`` of shape (n,): the exact log density (or log probability) of n outputs, given as
        ``mechanism`` returned them, against one common measure. -inf is allowed under one of the data sets. The score
        is then the exact log-likelihood ratio, nothing is learned, and more runs certify. A wrong density costs power,
        not validity.
    n_jobs : int
        Workers (joblib) that run the mechanism, -1 for every core; does not change the result.
    progress : bool
        Show a bar of runs on a terminal; where learning will take longer than half a minute or so, say so beforehand.
    rng : numpy.random.Generator, optional
        Also the source of the generators handed to ``mechanism``. None: fresh entropy.

    Returns
    -------
    AuditResult or, for a curve, CurveAuditResult
        ``refuted`` if and only if ``epsilon_lower > epsilon``; of a curve, if ``delta_lower > delta_claimed``.

    Raises
    ------
    TypeError, ValueError
        If an argument, an output of ``mechanism`` or a value of ``log_density`` breaks the rules above; if the
        mechanism repeats its runs whatever generator it is given, or runs on one data set plainly depend on when they
        were made, which happens to independent ones with probability at most 1e-9.
    RuntimeError
        If ``mechanism`` or ``log_density`` raises; its error is the cause.

    Guarantee
    ---------
    For independent runs and whatever is learned, ``epsilon_lower`` exceeds the true epsilon at ``delta`` with
    probability at most ``false_alarm``; with ``sequential`` whenever it stops. Proofs: guessing.md, betting.md.

    Each run is on ``x`` or ``x_neighbour`` by the flip of a fair coin. Under (epsilon, 0)-DP any guess of a coin from
    its output is right with probability at most 1/(1 + exp(-epsilon)), whatever the other coins; delta > 0 adds a few
    runs that may give their coin away. The right guesses are then dominated by an explicit law, one test for both
    labels together. Coins are essential: with fixed numbers per data set the odds of a guess are those of a ratio of
    counts, and the bound would be too high too often.

    ``delta_lower`` bounds delta at the claimed epsilon. For delta > 0 it comes from the same guesses and agrees with
    the verdict. For delta = 0 it is a by-product with guesses and an error probability ``false_alarm`` of its own.

    A curve is tested at one of its points, which the runs choose that are learned from: curve_guessing.md.

    Source
    ------
    Guessing with abstention: Steinke, Nasr and Jagielski (2023), here with fresh coins and an exact law. Betting:
    Waudby-Smith and Ramdas (2024).

    Examples
    --------
    >>> import numpy as np
    >>> def noisy_count(count, n_samples, rng):
    ...     return count + rng.laplace(scale=0.5, size=n_samples)  # half the noise that epsilon = 1 needs
    >>> result = audit(noisy_count, 10, 11, epsilon=1.0, n_samples=20_000, rng=np.random.default_rng(1))
    >>> result.refuted
    True
    """
    claim = claim_of(epsilon, guarantee=guarantee, profile=profile, delta=delta)
    check_delta(delta)
    check_count(least=MIN_SAMPLES, most=MOST_RUNS, n_samples=n_samples)
    check_probability(false_alarm=false_alarm)
    check_choice(LEVELS, level=level)
    check_switch(sequential=sequential, progress=progress)
    check_jobs(n_jobs)
    if log_density is not None:
        check_callable(log_density=log_density)
    rng = check_rng(rng)
    delta, n_samples, false_alarm = float(delta), int(n_samples), float(false_alarm)
    runner = runs.prepared(mechanism, x, x_neighbour)
    notes = probe(runner, rng, n_jobs=n_jobs)
    if log_density is None:
        runs.tell_if_long(progress, runner)

    with runs.progress_bar(progress, n_samples, "audit") as step:
        if claim is not None:
            return curve_audit(
                runner,
                x,
                x_neighbour,
                claim=claim,
                n_samples=n_samples,
                false_alarm=false_alarm,
                level=level,
                sequential=sequential,
                log_density=log_density,
                notes=notes,
                n_jobs=n_jobs,
                progress=step,
                rng=rng,
            )
        assert epsilon is not None
        epsilon = float(epsilon)
        if sequential:
            return sequential_audit(
                runner,
                x,
                x_neighbour,
                epsilon=epsilon,
                delta=delta,
                n_samples=n_samples,
                false_alarm=false_alarm,
                level=level,
                log_density=log_density,
                notes=notes,
                n_jobs=n_jobs,
                progress=step,
                rng=rng,
            )
        label = fair_coins(rng, n_samples)
        outputs, is_tuple = runs.run_both(runner, label, rng, n_jobs=n_jobs, progress=step)
    rows, watch = runs.as_rows(outputs), runs.Watch()
    watch.see(rows, label)
    notes += watch.notes(level) + runs.type_notes(runner, level)
    if log_density is not None:
        ratio = runs.log_ratio(log_density, outputs if is_tuple else outputs[0], x, x_neighbour, n_samples)
        scored = by_exact_score(ratio, delta=delta, false_alarm=false_alarm)
    else:
        n_bits = rows.shape[1] if level == "bit" else 0
        if n_bits:
            rows = np.column_stack([rows, bit_features(rows)])
        scored = by_learned_score(rows, label, delta=delta, false_alarm=false_alarm, rng=rng, n_bits=n_bits)

    seed = int(rng.integers(2**32))
    coins = label[scored.start :]
    counts = scored.count(scored.guesses, coins, fixed_number=delta > 0, pad_seed=seed)
    epsilon_lower = epsilon_bound(counts, delta=delta, error=false_alarm)
    by_product = None
    if delta > 0:
        delta_lower = delta_bound(counts, epsilon=epsilon, error=false_alarm)
    else:
        others = _for_delta(scored, epsilon, false_alarm)
        by_product = scored.count(others, coins, fixed_number=True, pad_seed=seed)
        delta_lower = delta_bound(by_product, epsilon=epsilon, error=false_alarm)

    if epsilon_lower <= epsilon:
        notes.extend(scored.unlooked)
    edges, histogram = _histogram(scored.score, coins)
    guesses = scored.guesses
    return AuditResult(
        refuted=bool(epsilon_lower > epsilon),
        epsilon=epsilon,
        delta=delta,
        epsilon_lower=epsilon_lower,
        delta_lower=one_criterion(delta_lower, delta, refuted=epsilon_lower > epsilon),
        p_value=p_value(counts, epsilon=epsilon, delta=delta),
        e_value=None,
        n_samples=n_samples,
        n_certified=int(coins.size),
        false_alarm=false_alarm,
        detection_limit=detection_limit(
            epsilon=epsilon, delta=delta, n_certified=int(coins.size), false_alarm=false_alarm
        ),
        score=scored.name,
        event=str(guesses),
        counts={"guesses": counts.as_dict()} | ({"delta_guesses": by_product.as_dict()} if by_product else {}),
        level=level,
        sequential=False,
        notes=tuple(notes),
        thresholds=tuple(t for t in (guesses.lower, guesses.upper) if t is not None),
        histogram_edges=edges,
        histogram=histogram,
    )


def check_jobs(n_jobs: Any) -> None:
    """Raise unless ``n_jobs`` is a positive integer or -1."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs != -1:
        check_count(least=1, n_jobs=n_jobs)


def _for_delta(scored: Scored, epsilon: float, false_alarm: float) -> Any:
    """The guesses that bound delta at the claimed epsilon, from the runs that chose the others."""
    return choose_guesses(
        scored.chosen_on,
        scored.coins,
        delta=0.0,
        rounds=scored.score.size,
        z=quantile(false_alarm),
        exact=scored.exact,
        at_epsilon=epsilon,
    )


def _histogram(score: FloatArray, label: BoolArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """Edges and counts under both data sets; scores beyond the outer permille fall into the end bins."""
    finite = score[np.isfinite(score)]
    low, high = np.quantile(finite, [0.001, 0.999]) if finite.size else (-1.0, 1.0)
    if low == high:
        low, high = low - 1, high + 1
    edges = np.linspace(low, high, BINS + 1)
    inside = np.clip(score, low, high)
    return edges, np.stack([np.histogram(inside[label], edges)[0], np.histogram(inside[~label], edges)[0]])

"""Audit a privacy claim by experiment: run a mechanism on two neighbouring data sets and try to tell the runs apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from verification import scores
from verification._checks import (
    check_callable,
    check_choice,
    check_count,
    check_delta,
    check_non_negative,
    check_probability,
    check_rng,
)
from verification.audit_result import AuditResult
from verification.detection_limit import detection_limit
from verification.events import (
    Event,
    Guesses,
    binomial_lower,
    binomial_upper,
    choose_event,
    choose_guesses,
    delta_bound,
    epsilon_bound,
    guessing_epsilon,
)
from verification.outputs import log_ratio, run_both

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

LEVELS = ("value",)
MIN_SAMPLES = 100  # fewer cannot be shared between three parts
LEARNED_SHARES = (0.2, 0.2)  # learn, choose; the rest certifies
EXACT_SHARES = (0.0, 0.1)  # the right score needs no learning, and thresholds only
BINS = 60


def audit(
    mechanism: Callable[..., Any],
    x: Any,
    x_neighbour: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    n_samples: int = 200_000,
    false_alarm: float = 0.05,
    level: str = "value",
    log_density: Callable[..., Any] | None = None,
    rng: np.random.Generator | None = None,
) -> AuditResult:
    """Certify a lower bound of epsilon, and so perhaps refute a claim of (epsilon, delta)-DP.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, n_samples, rng)`` returns ``n_samples`` independent runs: a numeric array with first axis
        ``n_samples``, or a tuple of such arrays, one per part of the output. A row of NaN is the failure symbol;
        infinities are allowed. Outputs of varying size are padded with NaN by the caller.
    x, x_neighbour : any
        Neighbouring data sets, handed to ``mechanism`` as they are.
    epsilon, delta : float
        The claim, no unit: epsilon finite and at least 0, delta in [0, 1).
    n_samples : int
        Runs on both data sets together, at least 100.
    false_alarm : float
        Probability, at most, that ``epsilon_lower`` exceeds the true epsilon of this pair.
    level : {"value"}
        Outputs are compared as real numbers. Floating-point holes are another claim and not audited here.
    log_density : callable, optional
        ``log_density(outputs, data)`` of shape (n,): the exact log density (or log probability) of n outputs, given as
        ``mechanism`` returned them, against one common measure. -inf is allowed under one of the data sets. The score
        is then the exact log-likelihood ratio, nothing is learned, and more runs certify. A wrong density costs power,
        not validity.
    rng : numpy.random.Generator, optional
        Also handed to ``mechanism``. None: fresh entropy.

    Returns
    -------
    AuditResult
        ``refuted`` if and only if ``epsilon_lower > epsilon``.

    Raises
    ------
    TypeError, ValueError
        If an argument, an output of ``mechanism`` or a value of ``log_density`` breaks the rules above.

    Guarantee
    ---------
    For independent runs and whatever is learned, ``epsilon_lower`` exceeds the true epsilon at ``delta`` with
    probability at most ``false_alarm``.

    Each run is on ``x`` or ``x_neighbour`` by the flip of a fair coin, so the number per data set is binomial. Then
    (epsilon, 0)-DP says that any guess of a coin from its output is right with probability at most
    1/(1 + exp(-epsilon)), independently of all other coins, and the right guesses are dominated by a binomial given the
    number of guesses: one exact test uses both tails of the score. With fixed numbers per data set the coins would be
    dependent: given the guesses, their odds carry an odds ratio, not a probability ratio, and the bound would be too
    high too often (anticonservative).

    The coins are split by index: scores are learned on the first part; score, thresholds, direction and error split
    are chosen on the second by maximising the same bound there; the third certifies the one choice.

    delta = 0: label 1 is guessed at high scores, 0 at low ones, none between; epsilon_lower is the logit of the
    Clopper-Pearson lower bound of the share of right guesses. ``delta_lower`` is a by-product with its own error
    probability ``false_alarm`` and no part in the verdict: a lower bound of delta at the claimed epsilon, from a
    Clopper-Pearson pair on one event of the same score. delta > 0: one event in one direction; its probabilities p and
    q get Clopper-Pearson bounds whose errors sum to ``false_alarm``; epsilon_lower = ln((p_L - delta)/q_U) and
    delta_lower = p_L - exp(epsilon) q_U, both at least 0, refute together.

    Source
    ------
    Clopper and Pearson (1934); guessing with abstention as in Steinke, Nasr and Jagielski (2023), with fresh coins.
    """
    check_callable(mechanism=mechanism)
    check_non_negative(epsilon=epsilon)
    check_delta(delta)
    check_count(least=MIN_SAMPLES, n_samples=n_samples)
    check_probability(false_alarm=false_alarm)
    check_choice(LEVELS, level=level)
    if log_density is not None:
        check_callable(log_density=log_density)
    rng = check_rng(rng)
    epsilon, delta, n_samples, false_alarm = float(epsilon), float(delta), int(n_samples), float(false_alarm)

    label = rng.integers(2, size=n_samples).astype(bool)
    outputs, is_tuple = run_both(mechanism, x, x_neighbour, label, rng)
    shares = LEARNED_SHARES if log_density is None else EXACT_SHARES
    n_learn, n_choose = (round(share * n_samples) for share in shares)
    choose, certify = slice(n_learn, n_learn + n_choose), slice(n_learn + n_choose, None)

    if log_density is not None:
        ratio = log_ratio(log_density, outputs if is_tuple else outputs[0], x, x_neighbour, n_samples)
        name, score = "exact log-likelihood ratio", ratio[certify]
        # The right score says how likely each coin was: expected counts replace the luck of the coins in the choice.
        projection = score.size / n_choose
        score_choose, label_choose = ratio[choose], special.expit(ratio[choose])
        chosen = _choose(score_choose, label_choose, epsilon, delta, false_alarm, projection)
    else:
        rows = np.column_stack([part.reshape(n_samples, -1) for part in outputs])
        portfolio = scores.learn(rows[:n_learn], label[:n_learn], rng=rng)
        candidates = scores.evaluate(portfolio, rows[choose])
        projection, label_choose = None, label[choose].astype(float)
        choices = {
            name: _choose(candidate, label_choose, epsilon, delta, false_alarm, None)
            for name, candidate in candidates.items()
        }
        name = max(choices, key=lambda name: choices[name].value)  # the first, simplest one among equals
        chosen, score_choose = choices[name], candidates[name]
        score = scores.evaluate(portfolio, rows[certify], [name])[name]

    if isinstance(chosen, Guesses):
        by_product = choose_event(
            score_choose,
            label_choose,
            epsilon=epsilon,
            delta=0.0,
            false_alarm=false_alarm,
            projection=projection,
        )
        correct, guesses = chosen.count(score, label[certify])
        epsilon_lower = float(guessing_epsilon(correct, guesses, false_alarm))
        delta_lower, event_counts = _certify_delta(by_product, score, label[certify], epsilon)
        counts = {"correct": correct, "guesses": guesses, "delta_event": event_counts}
        thresholds = [t for t in (chosen.lower, chosen.upper) if t is not None]
    else:
        delta_lower, counts = _certify_delta(chosen, score, label[certify], epsilon)
        p_low, q_high = _pair(counts)
        epsilon_lower = max(0.0, float(epsilon_bound(p_low, q_high, delta)))
        # One criterion: rounding must not let the two bounds disagree about the claim.
        if epsilon_lower > epsilon:
            delta_lower = max(delta_lower, float(np.nextafter(delta, 1)))
        else:
            delta_lower = min(delta_lower, delta)
        thresholds = [] if chosen.threshold is None else [chosen.threshold]

    edges, histogram = _histogram(score, label[certify])
    n_certified = int(score.size)
    return AuditResult(
        refuted=bool(epsilon_lower > epsilon),
        epsilon=epsilon,
        delta=delta,
        epsilon_lower=epsilon_lower,
        delta_lower=delta_lower,
        n_samples=n_samples,
        n_certified=n_certified,
        false_alarm=false_alarm,
        detection_limit=detection_limit(epsilon=epsilon, delta=delta, n_certified=n_certified, false_alarm=false_alarm),
        score=name,
        event=_words(chosen),
        counts=counts,
        level=level,
        thresholds=tuple(thresholds),
        histogram_edges=edges,
        histogram=histogram,
    )


def _choose(
    score: FloatArray,
    label: FloatArray,
    epsilon: float,
    delta: float,
    false_alarm: float,
    projection: float | None,
) -> Guesses | Event:
    if delta == 0:
        return choose_guesses(score, label, false_alarm=false_alarm, projection=projection)
    return choose_event(score, label, epsilon=epsilon, delta=delta, false_alarm=false_alarm, projection=projection)


def _certify_delta(event: Event, score: FloatArray, label: BoolArray, epsilon: float) -> tuple[float, dict[str, Any]]:
    hits, trials, hits_other, trials_other = event.count(score, label)
    counts = {
        "direction": "x_neighbour over x" if event.reverse else "x over x_neighbour",
        "hits": hits,
        "trials": trials,
        "hits_other": hits_other,
        "trials_other": trials_other,
        "error": event.error,
        "error_other": event.error_neighbour,
    }
    p_low, q_high = _pair(counts)
    return max(0.0, float(delta_bound(p_low, q_high, epsilon))), counts


def _pair(counts: dict[str, Any]) -> tuple[FloatArray, FloatArray]:
    return (
        binomial_lower(counts["hits"], counts["trials"], counts["error"]),
        binomial_upper(counts["hits_other"], counts["trials_other"], counts["error_other"]),
    )


def _words(chosen: Guesses | Event) -> str:
    if isinstance(chosen, Guesses):
        parts = [] if chosen.upper is None else [f"guess x where score >= {chosen.upper:.6g}"]
        parts += [] if chosen.lower is None else [f"guess x_neighbour where score <= {chosen.lower:.6g}"]
        return "; ".join([*parts, "abstain elsewhere"]) if parts else "never guess"
    if chosen.threshold is None:
        return "the empty event"
    if chosen.reverse:
        return f"score <= {chosen.threshold:.6g}, x_neighbour over x"
    return f"score >= {chosen.threshold:.6g}, x over x_neighbour"


def _histogram(score: FloatArray, label: BoolArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """Edges and counts under both data sets; scores beyond the outer permille fall into the end bins."""
    finite = score[np.isfinite(score)]
    low, high = np.quantile(finite, [0.001, 0.999]) if finite.size else (-1.0, 1.0)
    if low == high:
        low, high = low - 1, high + 1
    edges = np.linspace(low, high, BINS + 1)
    inside = np.clip(score, low, high)
    return edges, np.stack([np.histogram(inside[label], edges)[0], np.histogram(inside[~label], edges)[0]])

"""How much one run can say: noisy sums with sound and with a tenth of the noise, beside the published bound.

``python -m verification.benchmarks.one_run [SEEDS]`` prints the table of docs/audit-a-claim.md in some two minutes. The
published bound is that of Steinke, Nasr and Jagielski (2023), computed here from the same counts by their formula.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from verification.auditing.bisection import bracket
from verification.auditing.claimed_curve import GDP
from verification.auditing.one_run import one_run
from verification.auditing.one_run_result import OneRunResult
from verification.benchmarks.seeds import at_least

DELTA, ERROR = 1e-5, 0.05
CANARIES = (100, 1_000, 10_000, 100_000)


def mu_of(epsilon: float, delta: float = DELTA) -> float:
    """Ratio of sensitivity and noise that Gaussian noise needs for (epsilon, delta)."""
    return float(optimize.brentq(lambda mu: float(GDP(mu).delta(epsilon)) - delta, 1e-3, 20.0))


def audit_sum(n_canaries: int, epsilon: float, share: float, seed: int, guesses: int | None = None) -> OneRunResult:
    """A sum in as many dimensions as canaries, with ``share`` of the noise that it claims to have."""
    scale = share / mu_of(epsilon)

    def noisy_sum(rows: Any, rng: np.random.Generator) -> Any:
        return np.bincount(rows, minlength=n_canaries) + rng.normal(scale=scale, size=n_canaries)

    return one_run(
        noisy_sum,
        np.zeros(0, dtype=int),
        np.arange(n_canaries),
        score=lambda release, rows: release[rows],
        epsilon=epsilon,
        delta=DELTA,
        guesses=guesses,
        false_alarm=ERROR,
        rng=np.random.default_rng(seed),
    )


def published_p_value(correct: int, guesses: int, canaries: int, *, epsilon: float, delta: float) -> float:
    """beta + 2 m delta max over i of Pr[v > W >= v - i]/i, for v right guesses and W ~ Bin(guesses, s)."""
    right, i = special.expit(epsilon), np.arange(1, correct + 1)
    beta = stats.binom.sf(correct - 1, guesses, right)
    excess = (stats.binom.sf(correct - i - 1, guesses, right) - beta) / i
    return float(min(1.0, beta + 2 * canaries * delta * excess.max(initial=0.0)))


def published_bound(correct: int, guesses: int, canaries: int, *, delta: float, error: float) -> float:
    """The largest epsilon with a published p-value of at most ``error``, or 0."""

    def refuted(epsilon: float) -> bool:
        return published_p_value(correct, guesses, canaries, epsilon=epsilon, delta=delta) <= error

    return bracket(refuted, 0.0, 30.0, width=1e-6)[0] if refuted(0.0) else 0.0


def main(n_seeds: int) -> None:
    """Print the table."""
    print(f"noisy sum, delta {DELTA:g}, error {ERROR:g}, medians of {n_seeds} seeds")
    print("claim | noise | canaries | guesses | right | refuted | here | published | all right")
    for epsilon in (1.0, 8.0):
        for share in (1.0, 0.1):
            for m in CANARIES:
                for k in (m // 2, m // 20):
                    found = [audit_sum(m, epsilon, share, seed, k) for seed in range(n_seeds)]
                    theirs = [published_bound(r.correct, k, m, delta=DELTA, error=ERROR) for r in found]
                    print(
                        f"{epsilon:g} | {share:g} | {m:,} | {k:,} | {np.median([r.correct / k for r in found]):.3f}"
                        f" | {sum(r.refuted for r in found)}/{n_seeds}"
                        f" | {np.median([float(r.epsilon_lower or 0) for r in found]):.2f} | {np.median(theirs):.2f}"
                        f" | {found[0].ceiling:.2f}",
                        flush=True,
                    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n_seeds", type=at_least(1), nargs="?", default=20)
    main(parser.parse_args().n_seeds)

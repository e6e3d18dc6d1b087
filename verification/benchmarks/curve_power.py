"""The smallest violation that an audit catches: of a whole curve, and of one (epsilon, delta).

    python -m verification.benchmarks.curve_power [--runs 1000 4000 20000] [--seeds 24] [--quick]

The claim is (1, 1e-6) by a Gaussian mechanism, as its curve or as a pair; the mechanism has too little noise. Printed
is the smallest epsilon at 1e-6 that at least half of the audits refute, on a grid of ratio 1.1 of the excess over 1,
with scores that are learned and with the exact one. By 24 seeds it is known to a tenth or so at 1,000 runs: ``--at
1.7`` prints the share of audits that refute this epsilon instead, ``--certified`` the epsilon at 1e-6 that is certified
of sound noise (with the largest of ``--runs``), both for the curve alone. ``--mechanism``: with ``--at``, others than
Gaussian noise in one number, with a learned score. False alarms: ``curve_false_alarms``.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

from verification import GDP, audit
from verification.benchmarks.curve_mechanisms import DELTA, FAMILIES, Family, log_density, mu_of, noisy
from verification.benchmarks.seeds import at_least

CLAIM = 1.0
LEAST, RATIO, STEPS = 0.02, 1.1, 60  # of the excess


def caught(family: Family, epsilon: float, n: int, seeds: int, claim: dict[str, Any], exact: bool) -> float:
    """Share of audits that refute the claim."""
    mechanism, x, x_neighbour = family.at(epsilon)
    density = family.log_density if exact else None
    refuted = [
        audit(
            mechanism, x, x_neighbour, n_samples=n, log_density=density, rng=np.random.default_rng(seed), **claim
        ).refuted
        for seed in range(seeds)
    ]
    return float(np.mean(refuted))


def smallest(n: int, seeds: int, claim: dict[str, Any], exact: bool) -> float:
    """The smallest epsilon of the grid, by bisection, that half of the audits refute; infinite beyond its end."""
    low, high = -1, STEPS
    while high - low > 1:
        middle = (low + high) // 2
        if caught(FAMILIES["gaussian"], CLAIM + LEAST * RATIO**middle, n, seeds, claim, exact) >= 0.5:
            high = middle
        else:
            low = middle
    return CLAIM + LEAST * RATIO**high if high < STEPS else math.inf


def certified(n: int, seeds: int, exact: bool) -> list[float]:
    """Epsilon at DELTA that audits of noise which is just enough certify, if it is Gaussian: of each seed."""
    mu, found = mu_of(CLAIM), []
    for seed in range(seeds):
        density, rng = log_density if exact else None, np.random.default_rng(seed)
        result = audit(noisy, mu, 0.0, profile=GDP(mu), delta=DELTA, n_samples=n, log_density=density, rng=rng)
        found.append(float(result.epsilon_lower or 0.0))
    return found


def main() -> None:
    """Print the table, or the false alarms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=at_least(1), nargs="+", default=[1_000, 4_000, 20_000])
    parser.add_argument("--seeds", type=at_least(1), default=24)
    parser.add_argument("--quick", action="store_true", help="8 seeds, 1,000 and 4,000 runs")
    parser.add_argument("--at", type=float, metavar="EPSILON")
    parser.add_argument("--mechanism", choices=FAMILIES, default="gaussian")
    parser.add_argument("--certified", action="store_true")
    arguments = parser.parse_args()
    if arguments.certified:
        for exact in (True, False):
            found = certified(max(arguments.runs), arguments.seeds, exact)
            low, middle, high = np.quantile(found, [0.25, 0.5, 0.75])
            name = "exact" if exact else "learned"
            print(f"certified of a true {CLAIM:g}, {name}: {middle:.3f}, quartiles {low:.3f} to {high:.3f}", flush=True)
        return
    if arguments.at is not None:
        family = FAMILIES[arguments.mechanism]
        claim = {"profile": family.profile(CLAIM)}
        scores = {"learned": False} | ({"exact": True} if family.log_density else {})
        for n in arguments.runs:
            shares = {
                score: caught(family, arguments.at, n, arguments.seeds, claim, exact) for score, exact in scores.items()
            }
            told = ", ".join(f"{share:.0%} {score}" for score, share in shares.items())
            print(f"{arguments.mechanism}, {n:,} runs: epsilon {arguments.at:g} refuted by {told}", flush=True)
        return
    if arguments.mechanism != "gaussian":
        parser.error(f"--mechanism {arguments.mechanism} needs --at")
    runs, seeds = ([1_000, 4_000], 8) if arguments.quick else (arguments.runs, arguments.seeds)
    curve, point = {"profile": GDP(mu_of(CLAIM))}, {"epsilon": CLAIM, "delta": DELTA}
    print(f"smallest epsilon at {DELTA:g} that half of {seeds} audits of a claim of {CLAIM:g} refute, error 5 %")
    print("runs      curve, learned  curve, exact  pair, learned  pair, exact")
    for n in runs:
        found = [smallest(n, seeds, claim, exact) for claim in (curve, point) for exact in (False, True)]
        print(f"{n:<8,}  {found[0]:14.2f}  {found[1]:12.2f}  {found[2]:13.2f}  {found[3]:11.2f}", flush=True)


if __name__ == "__main__":
    main()

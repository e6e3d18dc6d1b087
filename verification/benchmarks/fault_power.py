"""How surely the audits catch what they must: every planted fault and broken specimen, audited again and again.

    python -m verification.benchmarks.fault_power [FAULT ...] [--repeats 20] [--curves] [--share 0.1] [--every-seed]

A fault with seeded noise gives the same verdict every time and is skipped after one audit, unless ``--every-seed`` says
to try other seeds than that of the tests. For the others the lower bounds of epsilon scatter; a fault whose mean bound
is less than ``NEEDED`` of their standard deviations above the claim would fail a test run now and then. The numbers of
runs are those of the tests, or ``--share`` of the full ones;
``--curves`` audits targets against the curves that they claim, those that do.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from verification.benchmarks.seeds import at_least
from verification.specimens import Specimen, all_specimens
from verification.targets import all_targets
from verification.targets.curves import with_curves
from verification.trials import run_trials

SHARES = {"target": 0.5, "specimen": 0.3}  # of the full number of runs, as in tests/verification/test_trials.py
NEEDED = 4.5


def bounds(specimen: Specimen, share: float, repeats: int, every: bool = False) -> list[float]:
    """Certified lower bounds of epsilon in audits with different seeds; one alone if the seed decides it."""
    found: list[float] = []
    for seed in range(repeats):
        trial = run_trials([specimen], seed=1_000 + seed, share=share)[0]
        found.append(trial.epsilon_lower)
        if not every and "elsewhere" not in str(trial.result):
            break
    return found


def main() -> int:
    """One line for each fault; status 1 if one is caught too narrowly, 2 for names that are none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="FAULT", nargs="*", help="faults to audit (default all)")
    parser.add_argument("--repeats", type=at_least(1), default=20)
    parser.add_argument("--curves", action="store_true", help="targets with a curve alone, against it")
    parser.add_argument("--share", type=float, help="of the full numbers of runs (default: as in the tests)")
    parser.add_argument("--every-seed", action="store_true")
    arguments = parser.parse_args()
    every = [("target", item) for item in all_targets()] + [("specimen", item) for item in all_specimens()]
    if arguments.curves:
        every = [("target", item) for item in with_curves(all_targets())]
    broken = [(kind, item) for kind, item in every if item.broken]
    known = [item.name for _, item in broken]
    missing = sorted(set(arguments.names) - set(known))
    if missing:
        print(f"names must be among {', '.join(known)}; got {', '.join(missing)}", file=sys.stderr)
        return 2
    weak = 0
    print(f"{'fault':45s} missed  claim  least  mean  deviations above the claim")
    for kind, item in broken:
        if arguments.names and item.name not in arguments.names:
            continue
        lower = np.array(bounds(item, arguments.share or SHARES[kind], arguments.repeats, arguments.every_seed))
        missed, spread = int(np.sum(lower <= item.epsilon)), float(np.std(lower))
        if len(lower) == 1:
            print(f"{item.name:45s} {missed}/1, decided by the seed", flush=True)
            weak += missed
            continue
        deviations = (float(lower.mean()) - item.epsilon) / max(spread, 1e-9)
        weak += deviations < NEEDED
        print(
            f"{item.name:45s} {missed}/{len(lower)}  {item.epsilon:5.2f}  {lower.min():5.2f}  {lower.mean():5.2f}"
            f"  {min(deviations, 999):6.1f}",
            flush=True,
        )
    return int(weak > 0)


if __name__ == "__main__":
    sys.exit(main())

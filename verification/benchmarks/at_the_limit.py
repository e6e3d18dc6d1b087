"""How often audits with learned scores refute noise at the detection limit that a pass tells.

    python -m verification.benchmarks.at_the_limit [--runs 100 300 1000] [--columns 1 4] [--sequential] [--seeds 20]

Claims are pure, (epsilon, 1e-5), (epsilon, .02) and GDP(mu). The mechanism has Laplace or Gaussian noise in one column
that is so little that its epsilon (or mu) is the detection limit of such an audit; other columns are the same on both
data sets. Printed is how many of the seeds refute. What passes say of it: ``HOW_OFTEN`` and ``AS_RUNS_COME``.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from verification import GDP, audit
from verification.auditing.claimed_curve import GAUSSIAN
from verification.benchmarks.seeds import at_least

Claim = dict[str, Any]
CLAIMS: dict[str, Callable[[float], Claim]] = {
    "pure": lambda size: {"epsilon": size},
    "delta 1e-5": lambda size: {"epsilon": size, "delta": 1e-5},
    "delta .02": lambda size: {"epsilon": size, "delta": 0.02},
    "curve": lambda size: {"profile": GDP(size)},
}
SIZES = (0.0, 0.5, 1.0, 2.0, 4.0)  # epsilon or mu


def with_noise(claim: Claim, size: float, columns: int) -> Callable[..., Any]:
    """A mechanism of one number that has this epsilon, or mu, on 1 and 0, beside columns that tell nothing."""
    if "profile" not in claim and "delta" not in claim:

        def noise(n: int, rng: np.random.Generator) -> Any:
            return rng.laplace(scale=1 / size, size=n)
    else:
        mu = size if "profile" in claim else GAUSSIAN.refuted_below(size, claim["delta"])

        def noise(n: int, rng: np.random.Generator) -> Any:
            return rng.normal(scale=1 / mu, size=n)

    def mechanism(data: float, n: int, rng: np.random.Generator) -> Any:
        told = data + noise(n, rng)
        return told if columns == 1 else np.column_stack([told, rng.normal(size=(n, columns - 1))])

    return mechanism


def refuted_at_limit(claim: Claim, *, runs: int, columns: int, sequential: bool, seeds: int) -> int | None:
    """How many audits refute noise at their detection limit; None where they have none."""
    settings = claim | {"n_samples": runs, "sequential": sequential}
    fair = with_noise(claim, 1.0, 1)
    limit = audit(fair, 0.0, 0.0, rng=np.random.default_rng(0), **settings).detection_limit
    if not math.isfinite(limit):
        return None
    leak = with_noise(claim, limit, columns)
    return sum(audit(leak, 1.0, 0.0, rng=np.random.default_rng(seed), **settings).refuted for seed in range(seeds))


def main() -> None:
    """Print a line for every kind and size of claim."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=at_least(1), nargs="+", default=[100, 300, 1_000, 3_000])
    parser.add_argument("--columns", type=at_least(1), nargs="+", default=[1, 4])
    parser.add_argument("--claims", choices=CLAIMS, nargs="+", default=list(CLAIMS))
    parser.add_argument("--sizes", type=float, nargs="+", default=SIZES, help="of the claim: epsilon or mu")
    parser.add_argument("--sequential", action="store_true")
    parser.add_argument("--seeds", type=at_least(1), default=20)
    given = parser.parse_args()
    for runs in given.runs:
        for size in given.sizes:
            for name in given.claims:
                if name == "curve" and size == 0:
                    continue
                row = []
                for columns in given.columns:
                    how = {"runs": runs, "columns": columns, "sequential": given.sequential, "seeds": given.seeds}
                    found = refuted_at_limit(CLAIMS[name](size), **how)
                    row.append(f"{columns} columns: " + ("no limit" if found is None else f"{found}/{given.seeds}"))
                print(f"{runs:>6} runs, {name} {size:g}: {'; '.join(row)}", flush=True)


if __name__ == "__main__":
    main()

"""Run calibration studies: ``python -m verification.calibration [names] [--replications N] [--json]``.

A study simulates releases of records whose true mixture was drawn from the prior, and counts how often nominal 90 %
intervals contain the truth. Exit status 1 when some coverage lies outside the stated range by more
than chance: with probability .01 at most where all lie within.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time

from verification.auditing.result import json_text
from verification.calibration.intervals import FALSE_ALARM, HEADING, RANGE, beyond_chance

# study -> module and function; the function takes n_replications and seed, and returns rows
STUDIES: dict[str, tuple[str, str]] = {
    "em1-d1": ("verification.calibration.em", "em1_d1"),
    "em5-d1": ("verification.calibration.em", "em5_d1"),
    "em1-d2": ("verification.calibration.em", "em1_d2"),
    "em3-d2": ("verification.calibration.em", "em3_d2"),
    "em-k2-d1": ("verification.calibration.em_method", "two_in_one"),
    "em-k3-d1": ("verification.calibration.em_method", "three_in_one"),
    "em-k2-d2": ("verification.calibration.em_method", "two_in_two"),
    "em-k3-d2": ("verification.calibration.em_method", "three_in_two"),
    "central-k2-d1": ("verification.calibration.em_method", "central_two"),
    "central-found-d1": ("verification.calibration.em_method", "central_found"),
    "central-k3-d1": ("verification.calibration.em_method", "central_three"),
    "histogram-d1": ("verification.calibration.histogram", "histogram_d1"),
    "histogram-d2": ("verification.calibration.histogram", "histogram_d2"),
    "histogram-far": ("verification.calibration.histogram", "histogram_far"),
    "masks-d1": ("verification.calibration.masks", "masks_d1"),
    "masks-d2": ("verification.calibration.masks", "masks_d2"),
    "lifted-d1": ("verification.calibration.masks", "lifted_d1"),
    "lifted-d2": ("verification.calibration.masks", "lifted_d2"),
    "local-d1": ("verification.calibration.local", "local_d1"),
    "local-d2": ("verification.calibration.local", "local_d2"),
    "waves-d1-k2": ("verification.calibration.local_waves", "two_in_one"),
    "waves-d1-k3": ("verification.calibration.local_waves", "three_in_one"),
    "waves-d2-k2": ("verification.calibration.local_waves", "two_in_two"),
    "waves-d2-k3": ("verification.calibration.local_waves", "three_in_two"),
    "anchored-line": ("verification.calibration.anchored", "line"),
    "anchored-plane": ("verification.calibration.anchored", "plane"),
    "sketch-d1": ("verification.calibration.sketch", "one_column"),
    "sketch-d1-1e4": ("verification.calibration.sketch", "one_column_of_many"),
    "sketch-d2": ("verification.calibration.sketch", "two_columns"),
    "rounded-d1": ("verification.calibration.rounded", "one_column"),
    "rounded-coarse-d1": ("verification.calibration.rounded", "one_coarse_column"),
    "rounded-d2": ("verification.calibration.rounded", "two_columns"),
    "average-d1": ("verification.calibration.average", "one_column"),
    "average-d2": ("verification.calibration.average", "two_columns"),
    "sketch-nuts": ("verification.calibration.sketch_nuts", "study"),
}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m verification.calibration", description=__doc__)
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"all by default: {', '.join(STUDIES)}")
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.studies if name not in STUDIES]
    if unknown:
        parser.error(f"STUDY must be among {', '.join(STUDIES)}, got {', '.join(unknown)}")
    if arguments.replications < 1 or arguments.seed < 0:
        parser.error(f"--replications must be at least 1 and --seed 0, got {arguments.replications}, {arguments.seed}")
    rows = []
    if not arguments.json:
        print(f"nominal 90 % intervals, coverage goal {RANGE[0]} to {RANGE[1]}\n{HEADING}")
    for name in arguments.studies or STUDIES:
        module, function = STUDIES[name]
        start = time.perf_counter()
        found = getattr(importlib.import_module(module), function)(arguments.replications, seed=arguments.seed)
        rows += found
        if not arguments.json:
            print(*found, f"# {time.perf_counter() - start:.0f} s", sep="\n", flush=True)
    outside = beyond_chance(rows)
    if arguments.json:
        print(json_text([row.as_dict() for row in rows]))
    else:
        print(
            f"{sum(row.missed for row in rows)} of {len(rows)} seen outside {RANGE[0]} to {RANGE[1]}, {len(outside)}"
            f" beyond chance (error probability {FALSE_ALARM:g} together)"
        )
    return int(bool(outside))


if __name__ == "__main__":
    sys.exit(main())

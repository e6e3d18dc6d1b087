"""Run the tutorials one after another, each as a script of its own in an empty folder, and print their times.

python tutorials/run_all.py          # all of them, whole
python tutorials/run_all.py 01 05    # these
QUICK=1 python tutorials/run_all.py  # small runs, most under half a minute
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(chosen: list[str]) -> int:
    """Number of tutorials that failed; what they print is shown for those alone."""
    tutorials = sorted(HERE.glob("[0-9][0-9]-*.py"))
    unknown = [number for number in chosen if not any(path.name.startswith(f"{number}-") for path in tutorials)]
    if unknown:
        sys.exit(f"tutorials must be numbers of two digits from {HERE}, got {' '.join(unknown)}")
    failed, began = 0, time.monotonic()
    for path in tutorials:
        if chosen and path.name[:2] not in chosen:
            continue
        start, used = time.monotonic(), processor_time()
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(
                [sys.executable, path],
                cwd=folder,
                env=os.environ | {"MPLBACKEND": "Agg"},  # pictures are drawn and not shown
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        seconds = f"{time.monotonic() - start:5.0f} s, {processor_time() - used:5.0f} s of processor"
        print(f"{path.name:<45}{seconds}{'' if run.returncode == 0 else '   FAILED'}", flush=True)
        if run.returncode != 0:
            failed += 1
            print(run.stdout)
    print(f"{'all of them':<45}{time.monotonic() - began:5.0f} s")
    return failed


def processor_time() -> float:
    """Seconds of processor time of all processes that this one has started and that have ended."""
    return sum(os.times()[2:4])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Memory and time of a fit of a large Parquet file: ``python -m verification.benchmarks.out_of_core``

A file of 20,000,000 records in 5 columns (800 MB of numbers) is written once. Then, each in a process of its own that
says how much memory it held at most: two moments of every column by NumPy, batch by batch, in one pass over the file;
and a private fit of ``RecordBlocks``, which passes over it three times or more (a check, the place, the sketch).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

N_RECORDS, N_FEATURES, GROUP = 20_000_000, 5, 500_000
MOST_MEMORY = 1024  # MiB
CENTRES = np.array([[-3.0], [0.0], [4.0]])
SAY = """
import json, resource
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": time.perf_counter() - start, "processor": time.process_time() - used, "memory": memory}))
"""
PASS = """
import sys, time
import numpy as np
import pyarrow.parquet as pq
start, used = time.perf_counter(), time.process_time()
total = np.zeros((2, 5))
for batch in pq.ParquetFile(sys.argv[1]).iter_batches(batch_size=65_536):
    rows = np.column_stack([column.to_numpy() for column in batch.columns])
    total += [rows.sum(axis=0), (rows**2).sum(axis=0)]
"""
FIT = """
import sys, time
import pm_dpgmm as dpg
start, used = time.perf_counter(), time.process_time()
records = dpg.RecordBlocks(sys.argv[1])
release = dpg.fit_gmm(records, 3, epsilon=1.0, delta=1e-9, bounds=(-12, 12), random_seed=1, progress=False)
assert release.n_records == records.n_records
"""


def write_records(path: Path, n_records: int) -> None:
    """Three clusters in five columns, 500,000 records to a group."""
    import pyarrow as pa  # an extra: pm_dpgmm[parquet]
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    schema = pa.schema([(f"x{j}", pa.float64()) for j in range(N_FEATURES)])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, n_records, GROUP):
            n = min(GROUP, n_records - start)
            rows = rng.standard_normal((n, N_FEATURES)) + CENTRES[rng.integers(3, size=n)]
            writer.write_table(pa.Table.from_arrays(list(rows.T.copy()), schema=schema))


def measured(program: str, path: Path) -> dict[str, float]:
    """Seconds, processor seconds and MiB of a program that reads the file, without its imports' seconds."""
    run = subprocess.run([sys.executable, "-c", program + SAY, str(path)], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def main(arguments: list[str] | None = None) -> int:
    """Print memory, seconds and their ratio; exit status 1 when a fit held more than a GiB."""
    parser = argparse.ArgumentParser(description="Memory and time of a fit of a file that is read block by block.")
    parser.add_argument("--rows", type=int, default=N_RECORDS, help=f"records of the file (default {N_RECORDS})")
    options = parser.parse_args(arguments)
    if options.rows < 1000:
        parser.error("--rows must be at least 1000")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        write_records(path, options.rows)
        size = path.stat().st_size / 2**20
        plain, fit = measured(PASS, path), measured(FIT, path)
    for name, found in (("NumPy, one pass", plain), ("fit_gmm", fit)):
        print(f"{name}: {found['seconds']:.1f} s, {found['processor']:.1f} s of processor, {found['memory']:.0f} MiB")
    missed = fit["memory"] > MOST_MEMORY
    ratios = (fit[what] / plain[what] for what in ("seconds", "processor"))
    print(
        f"{options.rows:,} records of {N_FEATURES} columns, {size:.0f} MiB: {next(ratios):.1f} passes of NumPy"
        f" ({next(ratios):.1f} by processor time), memory at most {MOST_MEMORY} MiB: {'MISSED' if missed else 'met'}"
    )
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())

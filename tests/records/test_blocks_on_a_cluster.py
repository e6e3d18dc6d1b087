"""Records on several processes of a Dask cluster, of which some are killed while they compute."""

import os
import signal
import time
from contextlib import suppress

import dask
import dask.array as da
import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms import sketch
from pm_dpgmm.mechanisms.frequencies import RieszProduct
from pm_dpgmm.mechanisms.sketch_features import sketch_sums

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning", "ignore::DeprecationWarning")

ROWS, PARTS = 4_000, 8


def records():
    return np.random.default_rng(5).normal(size=(ROWS, 2)) + np.repeat([[0.0], [6.0]], ROWS // 2, axis=0)


def chunk(block_id, folder):
    """One part of the records; the process dies at the first try of calls 3, 11 and 20, whichever parts they are."""
    calls = len(os.listdir(folder))
    for mark in (3, 11, 20):
        if calls >= mark:
            try:
                (folder / f"killed-{mark}").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
    (folder / f"{time.time_ns()}-{os.getpid()}").touch()
    size = ROWS // PARTS
    return records()[block_id[0] * size : (block_id[0] + 1) * size]


@pytest.mark.thorough
def test_killed_workers_change_no_bit_and_draw_no_noise(tmp_path, monkeypatch):
    """The release is that of the array in memory, with as many draws of noise, all in the process that asked for it."""
    from distributed import Client, LocalCluster

    draws = []
    monkeypatch.setattr(sketch, "discrete_gaussian", counted(draws, sketch.discrete_gaussian))
    budget = {"epsilon": 1.0, "delta": 1e-6, "random_seed": 3, "progress": False, "bounds": (-9, 15)}
    whole = dpg.fit_gmm(records(), 2, **budget)
    n_draws = len(draws)
    frames = RieszProduct(np.random.default_rng(1).normal(size=(2, 3, 2)), np.zeros(2))
    settings = {"distributed.worker.daemon": False, "distributed.scheduler.allowed-failures": 9}
    with (
        suppress(TimeoutError),  # of closing: on a busy machine workers take longer to end than Dask waits
        dask.config.set(settings),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        sizes = ((ROWS // PARTS,) * PARTS, (2,))
        source = da.map_blocks(chunk, folder=tmp_path, chunks=sizes, dtype=float, meta=np.zeros((0, 2)))
        release = dpg.fit_gmm(dpg.RecordBlocks(source, rows_per_block=300), 2, **budget)
        killed = sorted(path.name for path in tmp_path.glob("killed-*"))
        parts = source.to_delayed().ravel()
        sums = dask.compute(*[dask.delayed(sketch_sums)(part, frames) for part in parts])  # on the workers
    assert killed == ["killed-11", "killed-20", "killed-3"]
    workers = {path.name.split("-")[1] for path in tmp_path.glob("[0-9]*")}
    assert len(workers) > 2 and str(os.getpid()) not in workers
    assert release.to_dict() == whole.to_dict() and n_draws > 0 and len(draws) == 2 * n_draws
    assert np.array_equal(np.sum(sums, axis=0), sketch_sums(records(), frames))


def counted(draws, draw):
    def noisy(*args, **kwargs):
        draws.append(1)
        return draw(*args, **kwargs)

    return noisy

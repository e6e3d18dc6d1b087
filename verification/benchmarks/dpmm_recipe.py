"""The rivals' part: private synthetic rows in bins, by MST or AIM of the package dpmm.

``real_tables`` runs this file with the interpreter of the rivals' own environment, which has no ``pm_dpgmm``:
``python dpmm_recipe.py sent.npz made.npz``.

In ``sent.npz``: ``bins`` (n_records, n_features), integers below ``n_bins``; ``mechanism``, "MST" or "AIM";
``epsilon``, ``delta``, ``seed``. In ``made.npz``: ``bins`` of as many synthetic rows, and ``seconds`` of fit and draws.
Everything else is the package's default, in one process.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np


def synthetic(bins: Any, n_bins: int, *, mechanism: str, epsilon: float, delta: float, seed: int) -> Any:
    """As many synthetic rows as there are records, in bins."""
    import pandas as pd
    from dpmm.pipelines.aim import AIMPipeline  # type: ignore[import-not-found]  # here: elsewhere this file must import
    from dpmm.pipelines.mst import MSTPipeline  # type: ignore[import-not-found]

    names = [f"column_{j}" for j in range(bins.shape[1])]
    pipeline = {"MST": MSTPipeline, "AIM": AIMPipeline}[mechanism](
        epsilon=epsilon, delta=delta, disable_processing=True, n_jobs=1
    )
    pipeline.fit(pd.DataFrame(bins, columns=names), domain=dict.fromkeys(names, n_bins), random_state=seed)
    made = pipeline.generate(n_records=len(bins), random_state=seed + 1)
    return made[names].to_numpy()


def main(sent_path: str, made_path: str) -> None:
    """Make rows like those of ``sent_path`` and write them to ``made_path``."""
    with np.load(sent_path) as sent:
        bins, n_bins = sent["bins"].astype(int), int(sent["n_bins"])
        start = time.perf_counter()
        made = synthetic(
            bins,
            n_bins,
            mechanism=str(sent["mechanism"]),
            epsilon=float(sent["epsilon"]),
            delta=float(sent["delta"]),
            seed=int(sent["seed"]),
        )
    np.savez(made_path, bins=made, seconds=time.perf_counter() - start)


if __name__ == "__main__":
    main(*sys.argv[1:])

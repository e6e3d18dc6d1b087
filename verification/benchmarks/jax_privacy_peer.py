"""The peer's side of ``jax_privacy``: lower bounds on epsilon by the auditing module of JAX Privacy 2.0.0.

``jax_privacy.compare`` runs this file with the interpreter of the peer's own environment, which has no ``pm_dpgmm``:
``python jax_privacy_peer.py sent.npz found.json``.

In ``sent.npz``: ``false_alarm``, and for each specimen ``<name>__in`` and ``<name>__out`` (finite scores on a data set
and on its neighbour, one for each run, higher where the data set is likelier) and ``<name>__delta``. In ``found.json``:
{name: {"bonferroni": epsilon, "multi_split": epsilon, "seconds": ..., "multi_split_seconds": ...}}, where ``seconds``
are those of the Bonferroni bound. With ``one_run`` in ``sent.npz`` scores are those of the canaries of one run, and the
answers are {name: {"one_run": epsilon, "one_run_fdp": epsilon}}.

Both bounds take the larger of the two directions (``one_sided=False``). That costs no confidence: either direction
reads the same two Clopper-Pearson limits, each used at half the error probability.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
import time
from types import ModuleType
from typing import Any

import numpy as np

SEED = 0  # of the splits


def auditing() -> ModuleType:
    """The installed ``jax_privacy/auditing.py`` alone: it needs no JAX, the package around it does."""
    path = importlib.metadata.distribution("jax-privacy").locate_file("jax_privacy/auditing.py")
    spec = importlib.util.spec_from_file_location("jax_privacy_auditing", str(path))
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look their own module up
    spec.loader.exec_module(module)
    return module


def bounds(peer: Any, scores_in: Any, scores_out: Any, *, delta: float, false_alarm: float) -> dict[str, float]:
    """Both lower bounds on epsilon at ``delta`` and how long each took."""
    strategies = {"bonferroni": peer.Bonferroni(), "multi_split": peer.MultiSplit(seed=SEED)}  # default: 100 splits
    found, seconds = {}, {}
    for name, strategy in strategies.items():
        start = time.perf_counter()
        auditor = peer.CanaryScoreAuditor(scores_in, scores_out)
        found[name] = float(
            auditor.epsilon_clopper_pearson(false_alarm, delta, one_sided=False, threshold_strategy=strategy)
        )
        seconds[name] = time.perf_counter() - start
    return {**found, "seconds": seconds["bonferroni"], "multi_split_seconds": seconds["multi_split"]}


def one_run_bounds(peer: Any, scores_in: Any, scores_out: Any, *, delta: float, false_alarm: float) -> dict[str, float]:
    """Both lower bounds on epsilon at ``delta`` from the canaries of one run, thresholds chosen by the default."""
    auditor = peer.CanaryScoreAuditor(scores_in, scores_out)
    return {
        "one_run": float(auditor.epsilon_one_run(false_alarm, delta)),
        "one_run_fdp": float(auditor.epsilon_one_run_fdp(false_alarm, delta)),
    }


def main(sent_path: str, found_path: str) -> None:
    """Bound every specimen of ``sent_path`` and write the bounds to ``found_path``."""
    peer, found = auditing(), {}
    with np.load(sent_path) as sent:
        false_alarm = float(sent["false_alarm"])
        bound = one_run_bounds if "one_run" in sent and bool(sent["one_run"]) else bounds
        for name in (key.removesuffix("__delta") for key in sent.files if key.endswith("__delta")):
            found[name] = bound(
                peer,
                sent[f"{name}__in"],
                sent[f"{name}__out"],
                delta=float(sent[f"{name}__delta"]),
                false_alarm=false_alarm,
            )
    with open(found_path, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])

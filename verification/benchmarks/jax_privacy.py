"""Lower bounds on epsilon by JAX Privacy 2.0.0 (Apache-2.0), to set beside this package's on the same scores.

Its auditing module is run by the interpreter of an environment of its own, made on first use in ``.venv-jax-privacy``
of the current folder (``jax_privacy_peer.py``, ``jax-privacy-requirements.txt``).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verification.benchmarks.peer_environment import interpreter, last_line

FOLDER = Path(__file__).parent
PEER = FOLDER / "jax_privacy_peer.py"
REQUIREMENTS = FOLDER / "jax-privacy-requirements.txt"
ENVIRONMENT = Path(".venv-jax-privacy")
CHECK = "import dp_accounting, scipy.optimize, scipy.special, scipy.stats"  # all that its audit file imports


def finite(name: str, scores: ArrayLike) -> NDArray[np.float64]:
    """``scores`` with infinities moved to the largest finite numbers; the peer drops an infinite score uncounted."""
    values = np.asarray(scores, dtype=float)
    if values.ndim != 1 or not values.size or np.isnan(values).any():
        raise ValueError(f"scores of {name} must be a non-empty vector without NaN, got shape {values.shape}")
    return np.nan_to_num(values)


def compare(
    samples: Mapping[str, tuple[ArrayLike, ArrayLike, float]], false_alarm: float, *, one_run: bool = False
) -> dict[str, dict[str, float]] | str:
    """The peer's lower bounds on the epsilon of every specimen.

    Parameters
    ----------
    samples : mapping of str to (array_like, array_like, float)
        For each specimen its scores on a data set and on the neighbour, one number for each run and higher where the
        data set is likelier, and the delta of the claim. The score must not be learned from these runs.
    false_alarm : float
        Probability, at most, that one bound is above the true epsilon; below 1/2.
    one_run : bool
        The scores are those of canaries that were in and out of a single run, not of many runs.

    Returns
    -------
    dict or str
        For each specimen ``bonferroni`` and ``multi_split`` (epsilon), ``seconds`` and ``multi_split_seconds``; or, in
        one line, why the peer did not run. With ``one_run`` there are ``one_run`` and ``one_run_fdp`` (epsilon, by
        Steinke, Nasr and Jagielski 2023, and by Mahloujifar, Melis and Chaudhuri 2024).
    """
    if not 0 < false_alarm < 0.5:
        raise ValueError(f"false_alarm must be between 0 and 0.5, got {false_alarm!r}")
    sent: dict[str, Any] = {"false_alarm": float(false_alarm), "one_run": bool(one_run)}
    for name, (scores_in, scores_out, delta) in samples.items():
        if not 0 <= delta <= 1:
            raise ValueError(f"delta of {name} must be between 0 and 1, got {delta!r}")
        sent |= {f"{name}__in": finite(name, scores_in), f"{name}__out": finite(name, scores_out)}
        sent[f"{name}__delta"] = float(delta)
    python, reason = interpreter(ENVIRONMENT, REQUIREMENTS, no_deps=("jax-privacy",), check=CHECK)
    if python is None:
        return f"the environment of JAX Privacy could not be made: {reason}"
    with tempfile.TemporaryDirectory() as folder:
        sent_path, found_path = Path(folder, "sent.npz"), Path(folder, "found.json")
        with sent_path.open("wb") as file:
            np.savez(file, **sent)
        try:
            # -I: neither PYTHONPATH nor this folder may bring in packages of another environment
            command = [str(python), "-I", str(PEER), str(sent_path), str(found_path)]
            subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True)
            found: dict[str, dict[str, float]] = json.loads(found_path.read_text())
        except (subprocess.CalledProcessError, OSError) as error:
            return f"JAX Privacy failed: {last_line(error)}"
    return found

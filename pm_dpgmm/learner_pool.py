"""Fits in processes of their own, through joblib: whatever a learner does, its fit is None and nothing else changes.

A task of joblib is a supervisor. It hands its subset to a server beside it (learner_process.py), which forks a child
for the fit; so a learner never runs in a joblib worker. Proof: learner_pool.md.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import NamedTuple

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture import Mixture

Work = Sequence[tuple[FloatArray, int]]
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from pm_dpgmm.learner_process import serve; serve(int(sys.argv[2]))"
)
# fits run side by side, so each has one thread; a set order of strings is the same whenever a fit is repeated
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}
STARTS = 3  # of a server for one fit, when servers disappear
ROUNDS = 3  # through joblib, when its workers disappear; then threads of this process supervise


class LearnerNotLoaded(TypeError):
    """The learner cannot be loaded in another process."""


class Server(NamedTuple):
    """A process that forks a child for every fit, and the way to talk to it."""

    process: subprocess.Popen[bytes]
    connection: Connection


_lock = threading.Lock()
_here = uuid.uuid4().hex  # this process, also among those of a cluster
_processes: dict[str, list[subprocess.Popen[bytes]]] = {}  # call -> its servers in this process
_idle: dict[str, list[Server]] = {}


def fit_apart(
    learner: bytes,
    work: Work,
    n_components: int,
    n_jobs: int | None,
    progress: Callable[[int, int], None],
    time_limit: float | None,
) -> list[Mixture | None]:
    """Fits of all subsets, each in a process of its own; see :func:`pm_dpgmm.learners.fit_subsets`.

    A fit whose process died, be it of its own doing or because it was killed from outside or memory was short, is
    repeated after all others, alone and with the same seed. If it dies again it is None.
    """
    if not hasattr(os, "fork"):
        raise ValueError(f"n_jobs must be None or 1, without a time_limit, where processes cannot fork, got {n_jobs}")
    together, alone = (f"{_here}-{uuid.uuid4().hex}" for _ in range(2))
    fits: dict[int, Mixture | None] = {}
    died: list[int] = []

    def task(call: str, i: int) -> tuple[str, bytes, int, FloatArray, int, int, float | None]:
        return call, learner, i, work[i][0], n_components, work[i][1], time_limit

    _processes.update({together: [], alone: []})
    try:
        for i, answer in _supervise([task(together, i) for i in range(len(work))], n_jobs):
            if isinstance(answer, str):
                died.append(i)
                continue
            fits[i] = answer
            progress(len(fits), len(work))
        for i in sorted(died):
            for _, answer in _supervise([task(alone, i)], 1):
                fits[i] = None if isinstance(answer, str) else answer
            progress(len(fits), len(work))
    finally:
        for call in (together, alone):
            _dismiss(call)
    return [fits[i] for i in range(len(work))]


def _supervise(tasks: list[tuple], n_jobs: int | None) -> Iterator[tuple[int, Mixture | str | None]]:
    """Outcomes of :func:`supervised_fit` as they come, even if workers of joblib disappear."""
    from joblib import Parallel, delayed, parallel_config

    waiting = {task[2]: task for task in tasks}
    for last in [False] * ROUNDS + [True]:
        # threads suffice, since the fits have processes; a backend that the user configured comes first
        with parallel_config(backend="threading") if last else contextlib.nullcontext():
            outcomes = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")(
                [delayed(supervised_fit)(*task) for task in waiting.values()]
            )
        while waiting:
            try:
                i, answer = next(outcomes)
            except LearnerNotLoaded:
                raise
            except Exception:
                if last:
                    raise
                break
            del waiting[i]
            yield i, answer
        if not waiting:
            return


def supervised_fit(
    call: str,
    learner: bytes,
    i: int,
    subset: FloatArray,
    n_components: int,
    seed: int,
    time_limit: float | None,
) -> tuple[int, Mixture | str | None]:
    """``i`` and its outcome: a valid fit, None, or "died"."""
    for _ in range(STARTS):
        server = _take(call, learner)
        if server is None:
            continue
        try:
            server.connection.send((subset, n_components, seed, time_limit))
            server.connection.recv()
        except (EOFError, OSError):  # it had left before this fit began
            _retire(call, server)
            continue
        try:
            answer = server.connection.recv()
        except (EOFError, OSError):
            _retire(call, server)
            break
        with _lock:
            _idle.setdefault(call, []).append(server)
        return i, answer
    return i, "died"


def _take(call: str, learner: bytes) -> Server | None:
    """A server of this call that has no work, or a new one; None if it disappears while it starts."""
    with _lock:
        gone = [(name, server) for name, idle in _idle.items() for server in idle if server.process.poll() is not None]
        for name, server in gone:
            _idle[name].remove(server)
            server.connection.close()
        if _idle.get(call):
            return _idle[call].pop()
    here, there = Pipe()
    with there:
        process = subprocess.Popen(
            [sys.executable, "-c", START, json.dumps([str(path) for path in sys.path]), str(there.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[there.fileno()],
            start_new_session=True,  # the user's Ctrl-C is for this process, which then ends the others
            env=ENVIRONMENT | os.environ,
        )
    server = Server(process, here)
    with _lock:
        if call in _processes or not call.startswith(_here):
            _processes.setdefault(call, []).append(process)
        else:  # the run has stopped
            process.terminate()
    try:
        here.send_bytes(learner)
        problem = here.recv()
    except (EOFError, OSError):
        _retire(call, server)
        return None
    if problem is not None:
        _retire(call, server)
        raise LearnerNotLoaded(f"learner must be loadable in another process, got {problem}")
    return server


def _retire(call: str, server: Server) -> None:
    """End one server that is not idle."""
    server.connection.close()
    server.process.terminate()
    server.process.wait()
    with _lock, contextlib.suppress(KeyError, ValueError):
        _processes[call].remove(server.process)


def _dismiss(call: str) -> None:
    """End all servers of a call in this process, also those at work."""
    with _lock:
        processes, idle = _processes.pop(call, []), _idle.pop(call, [])
    for server in idle:
        server.connection.close()
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()

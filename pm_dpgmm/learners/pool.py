"""Fits in processes of their own, through joblib: whatever a learner does, its fit is None and nothing else changes.

A task of joblib only waits: it hands its subset to a server beside it (process.py), which forks a supervisor, and that
the learner; so a learner never runs in a joblib worker. Proof: pool.md.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.answers import Answer
from pm_dpgmm.learners.handlers import note_handlers, stop_if_told
from pm_dpgmm.learners.quiet import without_warnings

Work = Sequence[tuple[FloatArray, int]]
# the arguments of fit_in_child after the learner, or of fit_public_in_child
Request = (
    tuple[FloatArray, int, int, float | None, float | None]
    | tuple[list[tuple[FloatArray, int]], int, float | None, float | None]
)
Task = tuple[str, bytes, int, Request]  # the arguments of awaited_fit
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from pm_dpgmm.learners import process; getattr(process, sys.argv[3])(int(sys.argv[2]))"
)
# fits run side by side, so each has one thread; a set order of strings is the same whenever a fit is repeated
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}
OVERTIME, REPRIEVE = 10.0, 60.0  # on the clock: so many times the time limit, and so many seconds more
LONGEST_POLL = 2e6  # seconds, above which a connection takes no limit
STARTS = 3  # of a server for one fit, when servers disappear
PATIENCE = 5.0  # seconds for a server to leave
ROUNDS = 3  # through joblib, when its workers disappear; then threads of this process wait


class LearnerNotLoaded(TypeError):
    """The learner cannot be loaded in another process."""


class Server(NamedTuple):
    """A process that forks others for every fit. It leaves, and kills the child, when its line is shut."""

    process: subprocess.Popen[bytes]
    connection: Connection
    line: socket.socket  # the same line as the connection
    learner: bytes = b""


_lock = threading.Lock()
_here = uuid.uuid4().hex  # this process, also among those of a cluster
_servers: dict[str, list[Server]] = {}  # call -> its servers in this process
_idle: dict[str, list[Server]] = {}


def fit_apart(
    learner: bytes,
    work: Work,
    n_components: int,
    n_jobs: int | None,
    progress: Callable[[int, int], None],
    time_limit: float | None,
) -> list[Answer | None]:
    """Fits of all subsets, each in a process of its own; see :func:`pm_dpgmm.learners.subsets.fit_subsets`.

    A fit whose process died, be it of its own doing or because it was killed from outside, or memory or time on the
    clock was short, is repeated after all others, alone and with the same seed. If it dies again it is None.
    """
    fits: dict[int, Answer | None] = {}
    died: list[int] = []

    def task(call: str, i: int) -> Task:
        return call, learner, i, (work[i][0], n_components, work[i][1], time_limit, clock_limit(time_limit))

    with servers() as together, servers() as alone:
        with contextlib.closing(awaited([task(together, i) for i in range(len(work))], n_jobs)) as outcomes:
            for i, answer in outcomes:
                if isinstance(answer, str):
                    died.append(i)
                    continue
                fits[i] = answer
                progress(len(fits), len(work))
        for i in sorted(died):
            ((_, answer),) = awaited([task(alone, i)], 1)
            fits[i] = None if isinstance(answer, str) else answer
            progress(len(fits), len(work))
    return [fits[i] for i in range(len(work))]


def clock_limit(time_limit: float | None) -> float | None:
    """Seconds on the clock that a child may take, where a fit may use ``time_limit`` of the processor."""
    return None if time_limit is None else OVERTIME * time_limit + REPRIEVE


def longest_try(request: Request) -> float:
    """Seconds after which the supervisor of a request must have said what became of it; its own clock is half."""
    clock = request[-1]
    n_fits = len(request[0]) if isinstance(request[0], list) else 1
    return math.inf if clock is None else 2 * n_fits * clock


def silent(server: Server, most: float) -> bool:
    """Whether a server says nothing within ``most`` seconds; False at once where no connection waits as long."""
    return most < LONGEST_POLL and not server.connection.poll(most)


@contextlib.contextmanager
def servers() -> Iterator[str]:
    """The name of a new call. Its servers start when there is work, and leave at the end."""
    call = f"{_here}-{uuid.uuid4().hex}"
    _servers[call] = []
    try:
        yield call
    finally:
        _dismiss(call)


def awaited(tasks: list[Task], n_jobs: int | None) -> Generator[tuple[int, Any]]:
    """Outcomes of :func:`awaited_fit` as they come, even if workers of joblib disappear."""
    from joblib import Parallel, delayed, parallel_config

    note_handlers()
    waiting = {task[2]: task for task in tasks}
    for last in [False] * ROUNDS + [True]:
        # threads suffice, since the fits have processes; a backend that the user configured comes first
        with parallel_config(backend="threading") if last or n_jobs == 1 else contextlib.nullcontext():
            try:
                parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")
                outcomes = parallel([delayed(awaited_fit)(*task) for task in waiting.values()])
            except Exception as error:  # a backend that gives no answers as they come, or cannot start
                stop_if_told(error)
                if last:
                    raise
                continue
        try:
            while waiting:
                try:
                    i, answer = next(outcomes)
                except LearnerNotLoaded:
                    raise
                except Exception as error:
                    stop_if_told(error)
                    if last:
                        raise
                    break
                del waiting[i]
                yield i, answer
        finally:
            # joblib warns of work that is given up; what is finished waits for no other thread
            with without_warnings() if waiting else contextlib.nullcontext():
                outcomes.close()
        if not waiting:
            return


def rehearsal_apart(
    learner: bytes, first: FloatArray, second: FloatArray, n_components: int, time_limit: float | None = None
) -> str | None:
    """What is wrong with a learner on simulated rows, tried in a process of its own; None if nothing is.

    With a limit for one fit the three of a rehearsal may take three times as long on the clock as one fit may.
    """
    note_handlers()
    server = _started("rehearse")
    try:
        server.connection.send_bytes(learner)
        server.connection.send((first, second, n_components))
        clock = clock_limit(time_limit)
        if silent(server, math.inf if clock is None else 3 * clock):
            return f"no answer within the time that time_limit = {time_limit:g} leaves for simulated rows"
        answer: str | None = server.connection.recv()
        return answer
    except (EOFError, OSError) as error:
        stop_if_told(error)
        return "the end of its process"
    finally:
        with contextlib.suppress(OSError):
            os.killpg(server.process.pid, signal.SIGKILL)  # its session, with what the learner started
        server.connection.close()
        server.line.close()
        server.process.wait()


def awaited_fit(call: str, learner: bytes, i: int, request: Request) -> tuple[int, Any]:
    """``i`` and its outcome: a valid fit, None, or "died"; for public subsets a list of these, or "died"."""
    first = request[0][0][0] if isinstance(request[0], list) else request[0]
    for _ in range(STARTS):
        server = _take(call, learner, (request[1], first.shape[1]))
        if server is None:
            continue
        begun = False
        try:
            with _retired_on_error(call, server):
                server.connection.send(request)
                server.connection.recv()
                begun = True
                if silent(server, longest_try(request)):  # the learner stopped its supervisor
                    raise TimeoutError
                answer = server.connection.recv()
                with _lock:
                    wanted = call in _servers
                    if wanted:
                        _idle.setdefault(call, []).append(server)
        except (EOFError, OSError) as error:
            stop_if_told(error)
            if begun:
                break
            continue  # it had left before this fit began
        if not wanted:  # the run has stopped
            _retire(call, server)
        return i, answer
    return i, "died"


def _take(call: str, learner: bytes, sizes: tuple[int, int]) -> Server | None:
    """A server of this call that has no work, or a new one; None if it disappears while it starts.

    ``sizes``: components and columns, the same for all fits of a call.
    """
    with _lock:
        gone = [(name, server) for name, idle in _idle.items() for server in idle if server.process.poll() is not None]
        for name, server in gone:
            _idle[name].remove(server)
    for name, server in gone:
        _retire(name, server)
    with _lock:
        for server in _idle.get(call, ()):
            if server.learner == learner:
                _idle[call].remove(server)
                return server
        if call.startswith(_here) and call not in _servers:  # the run has stopped
            return None
    server = _started("serve")._replace(learner=learner)
    try:
        with _retired_on_error(call, server):
            with _lock:
                if call.startswith(_here) and call not in _servers:
                    _shut(server)
                else:
                    _servers.setdefault(call, []).append(server)
            server.connection.send_bytes(learner)
            problem = server.connection.recv()
            if problem is not None:
                raise LearnerNotLoaded(f"learner must be loadable in another process, got {problem}")
            server.connection.send(sizes)
    except (EOFError, OSError) as error:
        stop_if_told(error)
        return None
    return server


def _started(task: str) -> Server:
    """A new process that runs this function of process.py."""
    line, there = socket.socketpair()
    with there, _above_standard_files(there.fileno()) as descriptor:
        process = subprocess.Popen(
            [sys.executable, "-c", START, json.dumps([str(path) for path in sys.path]), str(descriptor), task],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[descriptor],
            start_new_session=True,  # the user's Ctrl-C is for this process, which then ends the others
            env=ENVIRONMENT | os.environ,
        )
    return Server(process, Connection(os.dup(line.fileno())), line)


@contextlib.contextmanager
def _above_standard_files(descriptor: int) -> Iterator[int]:
    """A copy that the standard files of a new process do not replace: a daemon's own are closed, so 0 to 2 are free."""
    import fcntl  # POSIX; this module is loaded elsewhere, too

    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    try:
        yield copy
    finally:
        os.close(copy)


def _shut(server: Server) -> None:
    """Ask a server to leave; whoever waits for its answer hears that there is none."""
    with contextlib.suppress(OSError):
        server.line.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def _retired_on_error(call: str, server: Server) -> Iterator[None]:
    """Retire a server that left, or whose run the user stops in the thread that waits for it."""
    try:
        yield
    except BaseException:
        _retire(call, server)
        raise


def _retire(call: str, server: Server) -> None:
    """End a server and forget it; for whoever took it, or for one that is idle."""
    _shut(server)
    server.connection.close()
    server.line.close()
    try:
        server.process.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:  # it loads the learner, or waits for a supervisor that was stopped
        with contextlib.suppress(OSError):
            os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()
    with _lock, contextlib.suppress(KeyError, ValueError):
        _servers[call].remove(server)


def _dismiss(call: str) -> None:
    """End all servers of a call in this process; those at work are retired by the thread that waits for them."""
    with _lock:
        servers, idle = _servers.pop(call, []), _idle.pop(call, [])
    for server in servers:
        _shut(server)
    for server in idle:
        _retire(call, server)

"""What runs beside this process for a learner: a server that loads it once and forks a supervisor for every fit.

The supervisor reads the subset and forks once more, for the learner; both end with the fit, so the server, from which
all are forked, never has a record in its memory: not even in what was freed, which uninitialised arrays would show.
Fits of public rows (public_fits.py) may share a child; those of records never do.

Proof: process.md; assumptions: pool.md. POSIX only.
"""

from __future__ import annotations

import contextlib
import gc
import math
import mmap
import os
import resource
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.answers import Answer, MixtureForm, VectorForm, form_of
from pm_dpgmm.learners.rehearsal import rehearsal_problem
from pm_dpgmm.learners.subsets import fit_one

Died = Literal["died"]
DIED: Died = "died"
IDLE = 60.0  # seconds after which a server without work leaves
LONGEST_PAUSE = 0.2  # seconds between looks at a child whose end is not announced
DIED_CODE = 1  # exit code of a child whose failure may be another process's fault
VALID, FAILED = 1.0, 2.0  # flags of fits that have come to an end; 0 before


def serve(descriptor: int) -> None:
    """Load a learner from the connection ``descriptor`` and prepare it, then have one request after another answered.

    What it reads itself, the learner and the numbers of components and columns, is public.
    """
    _hear_of_children()
    connection = Connection(descriptor)
    try:
        import cloudpickle
        import sklearn.mixture  # noqa: F401 - once here and not in every child

        learner = cloudpickle.loads(connection.recv_bytes())
    except BaseException as error:
        connection.send(f"{type(error).__name__}: {error}")
        return
    connection.send(None)
    with contextlib.suppress(EOFError, OSError):
        n_components, n_features = connection.recv()
        with contextlib.suppress(Exception, SystemExit):  # compile here and not in every child
            getattr(learner, "prepare", lambda k, d: None)(n_components, n_features)
        gc.freeze()  # children share the memory of what is loaded
        while connection.poll(IDLE):
            supervisor = os.fork()
            if supervisor == 0:
                _answer(learner, connection)
            if os.waitpid(supervisor, 0)[1] != 0:  # the line is closed, or the learner killed it
                break


def _hear_of_children() -> None:
    """Whoever ignores SIGCHLD hands that on to what it starts, and nobody then learns how a child ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _answer(learner: Any, connection: Connection) -> None:
    """The supervisor of one request: read it, answer it and exit, with 0 if the answer was sent.

    A request is one subset of records or a list of public ones, with what else the function for it needs.
    """
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump would hold records
        request = connection.recv()
        connection.send("taken")
        answer: Any = fit_public_in_child if isinstance(request[0], list) else fit_in_child
        connection.send(answer(learner, *request, connection=connection))
        code = 0
    finally:
        os._exit(code)


def rehearse(descriptor: int) -> None:
    """Load a learner from the connection ``descriptor``, try it on simulated rows and send what is wrong, or None."""
    _hear_of_children()
    connection = Connection(descriptor)
    try:
        import cloudpickle

        problem = rehearsal_problem(cloudpickle.loads(connection.recv_bytes()), *connection.recv())
    except BaseException as error:  # the learner did not load, or ends its process
        problem = f"{type(error).__name__}: {error}"
    connection.send(problem)


def fit_in_child(
    learner: Any,
    subset: FloatArray,
    n_components: int,
    seed: int,
    time_limit: float | None,
    clock_limit: float | None,
    *,
    connection: Connection,
) -> Answer | Died | None:
    """One fit in a child of this process; None if it is not valid or used its processor time up.

    "died" if the child did, or ran out of memory or of time on the clock: other fits may have a part in that. The
    answer comes back as numbers in shared memory, so nothing else can. EOFError when ``connection`` closes.
    """
    form = form_of(learner, n_components, subset.shape[1])
    shared = np.frombuffer(mmap.mmap(-1, 8 * (1 + form.size)), dtype=float)  # a flag, then the answer

    def fit() -> None:
        shared[1:] = form.numbers(fit_one(learner, subset, n_components, seed))
        shared[0] = VALID

    code = _exit_code(fit, time_limit, clock_limit, connection)
    out_of_time = time_limit is not None and code in (-signal.SIGPROF, -signal.SIGXCPU)
    if code != 0 and not out_of_time:
        return DIED
    if code != 0 or shared[0] != VALID:
        return None
    return _read(form, shared[1:])


def fit_public_in_child(
    learner: Any,
    work: list[tuple[FloatArray, int]],
    n_components: int,
    time_limit: float | None,
    clock_limit: float | None,
    *,
    connection: Connection,
) -> list[Answer | Died | None]:
    """Fits of PUBLIC rows with their seeds, one after the other in one child of this process.

    None where the learner raised or had no valid answer; "died" for all that have no outcome when the child has ended,
    for whatever reason, which are to be fitted in a process each. The processor time is that of one fit, the time on
    the clock that of all. EOFError when ``connection`` closes.
    """
    form = form_of(learner, n_components, work[0][0].shape[1])
    shared = np.frombuffer(mmap.mmap(-1, 8 * len(work) * (1 + form.size)), dtype=float).reshape(len(work), -1)

    def fit() -> None:
        here = os.getpid()
        for (subset, seed), numbers in zip(work, shared, strict=True):
            if time_limit is not None:
                signal.setitimer(signal.ITIMER_PROF, time_limit)
            try:
                numbers[1:] = form.numbers(fit_one(learner, subset, n_components, seed))
            except MemoryError:
                raise
            except Exception:
                numbers[0] = FAILED
            else:
                numbers[0] = VALID
            if os.getpid() != here:  # a learner that forked: its child goes no further, or there would be 2^n of them
                os._exit(0)

    _exit_code(fit, time_limit, clock_limit, connection, n_fits=len(work))
    ended = [numbers[0] in (VALID, FAILED) for numbers in shared]
    found = [_read(form, numbers[1:]) if numbers[0] == VALID else None for numbers in shared]
    return [answer if has_ended else DIED for answer, has_ended in zip(found, ended, strict=True)]


def _read(form: MixtureForm | VectorForm, numbers: FloatArray) -> Answer | None:
    try:
        return form.read(numbers)
    except ValueError:
        return None


def _exit_code(
    fit: Callable[[], None],
    time_limit: float | None,
    clock_limit: float | None,
    connection: Connection,
    *,
    n_fits: int = 1,
) -> int | None:
    """Run ``fit`` in a new child of this process: its exit code, None if it ran out of time on the clock."""
    ended, alive = os.pipe()

    def alone() -> None:
        os.close(ended)
        connection.close()
        fit()

    try:
        child = os.fork()
        if child == 0:
            _live_and_die(alone, time_limit, n_fits)
        os.close(alive)
        deadline = math.inf if clock_limit is None else time.monotonic() + clock_limit
        return _watch(child, ended, connection, deadline)
    finally:
        os.close(ended)


def _live_and_die(fit: Callable[[], None], time_limit: float | None, n_fits: int) -> None:
    """The child: run ``fit`` under its limits and exit, whatever happens."""
    code = 0
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump would hold records
        with contextlib.suppress(OSError):  # Linux: if memory runs out, the fit goes and not the run
            Path("/proc/self/oom_score_adj").write_text("1000")
        if time_limit is not None:
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, time_limit)
            most = resource.getrlimit(resource.RLIMIT_CPU)[1]
            seconds = math.ceil(n_fits * time_limit) + 1  # for learners that use the timer themselves
            if most == resource.RLIM_INFINITY or seconds < most:
                resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        fit()
    except MemoryError:  # perhaps other fits had the memory
        code = DIED_CODE
    except BaseException:
        code = 0  # without an answer: the fit is None
    finally:
        os._exit(code)


def _watch(child: int, ended: int, connection: Connection, deadline: float) -> int | None:
    """Exit code of the child; None if it was still there at the deadline. Nothing of it stays behind."""
    watched: list[Any] = [connection, ended]
    pause = LONGEST_PAUSE
    running = True
    try:
        while True:
            ready = wait(watched, timeout=pause)
            if connection in ready:  # nothing is sent during a fit: the other side has gone
                raise EOFError
            pause = min(2 * pause, LONGEST_PAUSE)
            if ended in ready:  # the child's end of the pipe is closed; its exit takes a moment more
                watched, pause = [connection], 5e-4
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                running = False
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > deadline:
                return None
    finally:
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)  # processes that the learner started
        if running:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

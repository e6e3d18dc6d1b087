import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

import pm_dpgmm as dpg
from pm_dpgmm.learners import pool as learner_pool
from pm_dpgmm.learners.batched_em import BatchedEM
from pm_dpgmm.learners.handlers import raised_by_a_handler
from pm_dpgmm.learners.subsets import check_learner, fit_here, fit_subsets
from pm_dpgmm.mixture.mixture import Mixture

(
    GOOD,
    KILLED,
    KILLED_ONCE,
    NO_MEMORY,
    NO_MEMORY_ONCE,
    HUNG,
    ASLEEP,
    LATE_ONCE,
    QUIT,
    NAN,
    SERVER_KILLED,
    HOST_KILLED,
    LEFT_BEHIND,
    SUPERVISOR_STOPPED,
) = range(1, 15)


def behaviour(folder):
    """A learner that does what the first number of its subset says; ``folder`` counts its attempts."""
    calls = []

    def learner(subset):
        what = int(subset[0, 0])
        attempts = folder / str(subset[1, 0])
        with attempts.open("a") as file:
            file.write("x")
        first = len(attempts.read_text()) == 1
        calls.append(what)
        print("leaks", subset)
        os.write(2, b"leaks")
        match what:
            case 2:
                os.kill(os.getpid(), signal.SIGKILL)
            case 3 if first:
                os.kill(os.getpid(), signal.SIGKILL)
            case 4:
                raise MemoryError
            case 5 if first:
                raise MemoryError
            case 6:
                while True:
                    pass
            case 7:
                time.sleep(1000)
            case 8 if first:
                time.sleep(1000)
            case 9:
                os._exit(0)
            case 10:
                return Mixture([1.0], [[np.nan]], [[[1.0]]])
            case 11:
                os.kill(os.getppid(), signal.SIGKILL)
            case 12 if first:  # the process of joblib, beyond those of the fit and the server
                ancestor = os.getppid()
                for _ in range(2):
                    ancestor = int(Path(f"/proc/{ancestor}/stat").read_text().split()[3])
                os.kill(ancestor, signal.SIGKILL)
            case 13:
                (folder / "left").write_text(str(subprocess.Popen(["sleep", "1000"]).pid))
            case 14:
                (folder / "stopped").write_text(str(os.getppid()))
                os.kill(os.getppid(), signal.SIGSTOP)
        draws = np.random.normal(size=2)  # noqa: NPY002 - the global streams are seeded for each fit
        return Mixture([1.0], [[subset[1, 0] + draws[0]]], [[[np.exp(draws[1]) + len(calls)]]])

    return learner


def run(folder, kinds, *, n_jobs, time_limit=None, progress=lambda done, total: None):
    """Numbers of every fit or None, and how often it was tried."""
    folder.mkdir()
    subsets = [np.array([[kind], [place]], dtype=float) for place, kind in enumerate(kinds)]
    fits = fit_subsets(
        behaviour(folder), subsets, 1, seeds=range(len(kinds)), n_jobs=n_jobs, progress=progress, time_limit=time_limit
    )
    tries = [len((folder / str(float(place))).read_text()) for place in range(len(kinds))]
    return [fit and (fit.means.item(), fit.covariances.item()) for fit in fits], tries


def undisturbed(folder, places):
    """Fits of the subsets at ``random_assignment`` if their learners are good, in this process and in calls of their own."""
    folder.mkdir()
    found = {}
    for place in places:
        fit = fit_here(behaviour(folder), np.array([[GOOD], [place]], dtype=float), 1, place)
        found[place] = (fit.means.item(), fit.covariances.item())
    return found


def gone(place):
    """Whether the process whose number is in the file ``place`` ends within ten seconds."""
    for _ in range(1000):
        try:
            state = Path(f"/proc/{place.read_text()}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":  # nobody has asked for its exit code
            return True
        time.sleep(0.01)
    return False


@pytest.mark.thorough
def test_what_a_learner_does_to_its_process_is_none_and_changes_no_bit_of_other_fits(tmp_path, capfd):
    kinds = [GOOD, KILLED, KILLED_ONCE, NO_MEMORY, NO_MEMORY_ONCE, QUIT, NAN, SERVER_KILLED, LEFT_BEHIND, GOOD]
    seen = []
    fits, tries = run(tmp_path / "a", kinds, n_jobs=2, progress=lambda *counts: seen.append(counts))
    assert capfd.readouterr() == ("", "")
    assert gone(tmp_path / "a" / "left")
    good = [i for i, kind in enumerate(kinds) if kind in (GOOD, KILLED_ONCE, NO_MEMORY_ONCE, LEFT_BEHIND)]
    expected = undisturbed(tmp_path / "b", good)
    assert fits == [expected.get(i) for i in range(len(kinds))]
    assert tries == [1, 2, 2, 2, 2, 1, 1, 2, 1, 1]
    assert seen == [(done, len(kinds)) for done in range(1, len(kinds) + 1)]


@pytest.mark.thorough
def test_processor_time_decides_at_once_and_the_clock_only_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(learner_pool, "OVERTIME", 0.0)
    monkeypatch.setattr(learner_pool, "REPRIEVE", 1.5)
    kinds = [HUNG, ASLEEP, LATE_ONCE, GOOD]
    fits, tries = run(tmp_path / "a", kinds, n_jobs=None, time_limit=0.1)
    expected = undisturbed(tmp_path / "b", [2, 3])
    assert fits == [None, None, expected[2], expected[3]]
    assert tries == [1, 2, 2, 1]


@pytest.mark.thorough
def test_a_learner_that_stops_its_supervisor_does_not_hang_the_run(tmp_path, monkeypatch):
    """Nobody then watched the clock; the supervisor stayed behind with a subset of records in memory."""
    monkeypatch.setattr(learner_pool, "OVERTIME", 0.0)
    monkeypatch.setattr(learner_pool, "REPRIEVE", 1.5)
    fits, tries = run(tmp_path / "a", [SUPERVISOR_STOPPED, GOOD], n_jobs=None, time_limit=0.1)
    assert fits == [None, undisturbed(tmp_path / "b", [1])[1]] and tries == [2, 1]
    assert gone(tmp_path / "a" / "stopped")


@pytest.mark.usefixtures("interruptible")
def test_the_user_can_stop_a_run_of_one_process_and_nothing_is_left(tmp_path):
    place = tmp_path / "process"
    caller = os.getpid()

    def learner(subset):
        place.write_text(str(os.getpid()))
        os.kill(caller, signal.SIGINT)
        time.sleep(1000)

    with pytest.raises(KeyboardInterrupt):
        fit_subsets(learner, [np.zeros((1, 1))], 1, seeds=[0], n_jobs=None, progress=lambda *_: None)
    assert gone(place)
    assert not learner_pool._servers and not learner_pool._idle


class Stopped:
    """A connection on which the user's stop comes while an answer is waited for."""

    def __init__(self, connection):
        self.connection = connection

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def recv(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["_started", "_take"])
def test_a_stop_before_a_fit_has_begun_leaves_no_server(where, monkeypatch):
    """While the learner is loaded, or the fit is handed over: the process was left to itself, its socket open."""
    made, real = [], getattr(learner_pool, where)

    def stopped(*given):
        made.append(real(*given))
        return made[0]._replace(connection=Stopped(made[0].connection))

    monkeypatch.setattr(learner_pool, where, stopped)
    with pytest.raises(KeyboardInterrupt):
        fit_subsets(np.mean, [np.zeros((1, 1))], 1, seeds=[0], n_jobs=None, progress=lambda *_: None)
    assert made[0].process.returncode is not None and made[0].connection.closed and not learner_pool._servers


@pytest.mark.thorough
@pytest.mark.usefixtures("interruptible")
def test_the_user_can_stop_the_run_and_nothing_goes_on(tmp_path):
    place = tmp_path / "process"

    def learner(subset):
        if subset[0, 0] == 0:
            place.write_text(str(os.getpid()))
            time.sleep(1000)
        while not place.exists() or not place.read_text():
            time.sleep(0.01)

    def interrupt(done, total):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit_subsets(learner, [np.full((1, 1), i) for i in range(9)], 1, seeds=range(9), n_jobs=2, progress=interrupt)
    assert gone(place)


class Lost:
    def __call__(self, subset):
        return None

    def __reduce__(self):
        return eval, ("1 / 0",)


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"learner": Lost()}, TypeError, "learner must be loadable in another process, got ZeroDivisionError"),
        ({"learner": lambda rows, lock=learner_pool._lock: None}, TypeError, "learner must be picklable"),
        ({"time_limit": 0}, ValueError, "time_limit must be finite and greater than 0, got 0"),
        ({"time_limit": "1"}, TypeError, "time_limit must be a real number"),
    ],
    ids=["not loaded", "not pickled", "no time", "no number"],
)
def test_public_mistakes_are_errors(change, error, words):
    arguments = {"learner": lambda rows: None, "time_limit": None, "n_jobs": 2} | change
    with pytest.raises(error, match=words):
        fit_subsets(subsets=[np.ones((1, 1))], n_components=1, seeds=[0], progress=lambda *_: None, **arguments)


def first_row(rows):
    return Mixture([1.0], rows[:1], [np.eye(rows.shape[1])])


def fits_without_progress(n):
    rows = [np.full((2, 1), float(i)) for i in range(n)]
    found = fit_subsets(first_row, rows, 1, seeds=range(n), n_jobs=1, progress=lambda *_: None)
    return [None if fit is None else fit.means.item() for fit in found]


@pytest.mark.thorough
def test_a_caller_that_ignores_the_ends_of_its_children_loses_no_fit():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert fits_without_progress(2) == [0.0, 1.0]
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.thorough
def test_a_caller_without_standard_files_loses_no_fit():
    kept = {place: os.dup(place) for place in (0, 1, 2)}
    try:
        for place in kept:
            os.close(place)
        found = fits_without_progress(2)
    finally:
        for place, copy in kept.items():
            os.dup2(copy, place)
            os.close(copy)
    assert found == [0.0, 1.0]


@pytest.mark.parametrize("losses", [1, learner_pool.ROUNDS])
def test_fits_whose_supervisor_was_lost_are_fitted_again_and_no_others(monkeypatch, losses):
    tried = []

    def supervise(call, learner, i, request):
        tried.append(i)
        if i == 3 and tried.count(3) <= losses:
            raise OSError("the worker is gone")
        return i, None

    monkeypatch.setattr(learner_pool, "awaited_fit", supervise)
    done = []
    fit_subsets(
        lambda rows: None,
        [np.ones((1, 1))] * 4,
        1,
        seeds=range(4),
        n_jobs=2,
        progress=lambda *counts: done.append(counts),
    )
    assert done == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert tried.count(3) == losses + 1


@pytest.mark.parametrize(
    "n_jobs, configured, own", [(1, 1, False), (1, 2, False), (None, 1, False), (None, 2, True), (-1, 1, True)]
)
def test_one_job_is_this_process_for_learners_without_a_memory_and_for_no_others(monkeypatch, n_jobs, configured, own):
    apart = []
    monkeypatch.setattr(learner_pool, "fit_apart", lambda *arguments: apart.append(arguments))
    rng = np.random.RandomState(0)

    class Mine(GaussianMixture):
        pass

    sound = [None, GaussianMixture(1, warm_start=True, random_state=rng), BayesianGaussianMixture(), BatchedEM()]
    for learner, needed in [*((learner, own) for learner in sound), (lambda rows: None, True), (Mine(1), True)]:
        with joblib.parallel_config(n_jobs=configured):
            fit_subsets(learner, [], 1, seeds=[], n_jobs=n_jobs, progress=lambda *_: None)
        assert bool(apart) == needed
        apart.clear()


def remembers(subset):
    """State of the module: what was seen first counts in every later call."""
    SEEN.append(subset.sum())
    return Mixture([1.0], [[SEEN[0]]], [[[1.0]]])


SEEN = []


class Warm:
    """A closure's or an object's memory: starts where the last fit ended."""

    def __init__(self):
        self.last = 0.0

    def __call__(self, subset):
        self.last = 0.5 * (self.last + subset.mean())
        return Mixture([1.0], [[self.last]], [[[1.0]]])


class Generator:
    """A generator that all fits share."""

    def __init__(self):
        self.rng = np.random.default_rng(5)

    def __call__(self, subset):
        draws = self.rng.normal(size=int(subset[0, 0]))
        return Mixture([1.0], [[draws[-1]]], [[[1.0]]])


@pytest.mark.thorough(quick=["module-1"])
@pytest.mark.parametrize("n_jobs", [None, 1, 2])
@pytest.mark.parametrize("make", [lambda: remembers, Warm, Generator], ids=["module", "object", "generator"])
def test_what_a_learner_keeps_in_memory_reaches_no_other_fit(make, n_jobs):
    SEEN.clear()
    seen = []
    for first in (3.0, 40.0):  # neighbours
        subsets = [np.full((2, 1), first), *(np.full((2, 1), 7.0 + i) for i in range(3))]
        fits = fit_subsets(make(), subsets, 1, seeds=range(4), n_jobs=n_jobs, progress=lambda *_: None)
        seen.append([fit.means.item() for fit in fits])
    assert seen[0][1:] == seen[1][1:] and seen[0][0] != seen[1][0]
    assert not SEEN


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc to look at memory")
def test_no_fit_finds_records_of_others_in_the_memory_it_was_given():
    """What was freed is not erased: an array that a learner does not initialise would hold another subset's rows."""

    def looks(subset):
        own, found = round(subset[0, 0] / 1e87), 0
        with open("/proc/self/maps") as maps:
            places = [line.split()[:2] for line in maps]
        with open("/proc/self/mem", "rb", 0) as memory:
            for place, rights in places:
                low, high = (int(end, 16) for end in place.split("-"))
                if not rights.startswith("rw") or high - low > 2**28:
                    continue
                memory.seek(low)
                values = np.frombuffer(memory.read(high - low), float)
                values = values[(values > 1.9e87) & (values < 6e87)]
                who, row = np.rint(values / 1e87), np.rint(values % 1e87 / 1e81)
                found += int(((values == who * 1e87 + row * 1e81) & (row > 0) & (row < 3000) & (who != own)).sum())
        return Mixture([1.0], [[float(found)]], [[[1.0]]])

    subsets = [who * 1e87 + 1e81 * np.arange(n)[:, None] for who, n in ((2, 3000.0), (3, 20.0), (4, 20.0))]
    fits = fit_subsets(looks, subsets, 1, seeds=[1, 1, 1], n_jobs=1, progress=lambda done, total: None)
    assert [fit.means.item() for fit in fits] == [0.0, 0.0, 0.0]


def test_where_processes_cannot_fork_only_learners_without_a_memory_run(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "fork")
    rows = np.random.default_rng(0).normal(size=(3000, 1))
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=1.0, delta=1e-6)
    settings = {"epsilon": 1.0, "delta": 1e-6, "method": "populous-single", "ledger": ledger}
    with pytest.raises(ValueError, match=r"learner must be None or a GaussianMixture"):
        dpg.fit_gmm(rows, 1, **settings, learner=lambda subset: None)
    with pytest.raises(ValueError, match="time_limit must be None where processes cannot fork, got 1"):
        check_learner(GaussianMixture(1), time_limit=1.0)
    assert ledger.spent == (0.0, 0.0)
    subsets = [rows[:50], rows[50:]]
    fits = fit_subsets(GaussianMixture(1), subsets, 1, seeds=[0, 1], n_jobs=2, progress=lambda *_: None)
    assert [fit.means.item() for fit in fits] == pytest.approx([part.mean() for part in subsets])


@pytest.mark.thorough
def test_a_dask_cluster_gives_the_same_bits_and_survives_learners_and_lost_workers(tmp_path):
    distributed = pytest.importorskip("distributed")
    kinds = [GOOD, KILLED, HOST_KILLED, HUNG, GOOD, NAN]
    cluster = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(**cluster) as local,
        distributed.Client(local),
        joblib.parallel_config(backend="dask"),
    ):
        fits, tries = run(tmp_path / "a", kinds, n_jobs=-1, time_limit=1.0)
    expected = undisturbed(tmp_path / "b", [0, 2, 4])
    assert fits == [expected.get(i) for i in range(len(kinds))]
    assert tries[2] >= 2


def out_of_time(number, frame):
    raise TimeoutError("the user's limit")


def once_out_of_time(number, frame):
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    raise TimeoutError("the user's limit")


class OutOfTime:
    def __call__(self, number, frame):
        raise TimeoutError("the user's limit")


class Limit(OutOfTime):
    """``__call__`` is inherited."""


@pytest.mark.parametrize("handler", [out_of_time, once_out_of_time, Limit(), partial(out_of_time), Limit().__call__])
def test_an_exception_of_the_users_own_signal_handler_stops_the_run(handler):
    """It was taken for a worker of joblib that had disappeared, and the run went on."""

    def slow(rows):
        time.sleep(5)
        return Mixture([1.0], rows[:1], np.eye(1)[None])

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        with pytest.raises(TimeoutError, match="the user's limit"):
            fit_subsets(slow, [np.zeros((3, 1))] * 3, 1, seeds=[1, 2, 3], n_jobs=1, progress=lambda *_: None)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert not raised_by_a_handler(ValueError())


def test_a_backend_of_joblib_that_gives_no_answers_as_they_come_costs_nothing():
    """``multiprocessing`` was a ValueError after the charge."""
    with joblib.parallel_config(backend="multiprocessing"):
        fits = fit_subsets(
            a_mixture, [np.full((3, 1), 2.0)] * 3, 1, seeds=[1, 2, 3], n_jobs=2, progress=lambda *_: None
        )
    assert [fit.means.tolist() for fit in fits] == [[[2.0]]] * 3


def a_mixture(rows):
    return Mixture([1.0], rows[:1], np.eye(1)[None])

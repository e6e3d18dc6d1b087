import os
import signal
import subprocess
import time
from pathlib import Path

import joblib
import numpy as np
import pytest

from pm_dpgmm import learner_pool
from pm_dpgmm.learners import fit_subsets
from pm_dpgmm.mixture import Mixture

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
) = range(1, 14)


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
            case 12 if first:  # the process of joblib that supervises
                with open(f"/proc/{os.getppid()}/stat") as file:
                    os.kill(int(file.read().split()[3]), signal.SIGKILL)
            case 13:
                (folder / "left").write_text(str(subprocess.Popen(["sleep", "1000"]).pid))
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
    """Fits of the subsets at ``places`` if their learners are good, in this process and in calls of their own."""
    folder.mkdir()
    found = {}
    for place in places:
        (fit,) = fit_subsets(
            behaviour(folder), [np.array([[GOOD], [place]], dtype=float)], 1,
            seeds=[place], n_jobs=1, progress=lambda *_: None,
        )  # fmt: skip
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


def test_processor_time_decides_at_once_and_the_clock_only_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(learner_pool, "OVERTIME", 0.0)
    monkeypatch.setattr(learner_pool, "REPRIEVE", 1.5)
    kinds = [HUNG, ASLEEP, LATE_ONCE, GOOD]
    fits, tries = run(tmp_path / "a", kinds, n_jobs=None, time_limit=0.1)
    expected = undisturbed(tmp_path / "b", [2, 3])
    assert fits == [None, None, expected[2], expected[3]]
    assert tries == [1, 2, 2, 1]


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


@pytest.mark.parametrize("losses", [1, learner_pool.ROUNDS])
def test_fits_whose_supervisor_was_lost_are_fitted_again_and_no_others(monkeypatch, losses):
    tried = []

    def supervise(call, learner, i, request):
        tried.append(i)
        if i == 3 and tried.count(3) <= losses:
            raise OSError("the worker is gone")
        return i, None

    monkeypatch.setattr(learner_pool, "supervised_fit", supervise)
    done = []
    fit_subsets(
        lambda rows: None, [np.ones((1, 1))] * 4, 1, seeds=range(4), n_jobs=2,
        progress=lambda *counts: done.append(counts),
    )  # fmt: skip
    assert done == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert tried.count(3) == losses + 1


@pytest.mark.parametrize(
    "n_jobs, configured, own", [(1, 1, False), (1, 2, False), (None, 1, False), (None, 2, True), (-1, 1, True)]
)
def test_one_job_is_this_process(monkeypatch, n_jobs, configured, own):
    apart = []
    monkeypatch.setattr(learner_pool, "fit_apart", lambda *arguments: apart.append(arguments))
    with joblib.parallel_config(n_jobs=configured):
        fit_subsets(lambda rows: None, [], 1, seeds=[], n_jobs=n_jobs, progress=lambda *_: None)
    assert bool(apart) == own


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

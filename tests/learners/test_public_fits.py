import os
import signal
import sys
import time

import numpy as np
import pytest

from pm_dpgmm.learners import pool as learner_pool
from pm_dpgmm.learners.parts import fit_parts, simulated_fits
from pm_dpgmm.learners.pool import servers
from pm_dpgmm.learners.public_fits import MOST_TOGETHER
from pm_dpgmm.learners.subsets import fit_subsets
from pm_dpgmm.learners.vector_learner import VectorLearner
from pm_dpgmm.mixture.mixture import Mixture

RAISED, KILLED, KILLED_ONCE, QUIT, LEFT, NO_MEMORY, NAN, HUNG, ASLEEP, SUPERVISOR_KILLED, FORKED = range(1, 12)


def behaviour(folder):
    """A learner that does what the first number of its subset says; ``folder`` keeps the processes of its attempts."""

    def learner(subset):
        attempts = folder / str(int(subset[1, 0]))
        with attempts.open("a") as file:
            file.write(f"{os.getpid()}\n")
        match int(subset[0, 0]):
            case 1:
                raise RuntimeError
            case 2:
                os.kill(os.getpid(), signal.SIGKILL)
            case 3 if len(attempts.read_text().split()) == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            case 4:
                os._exit(0)
            case 5:
                sys.exit()
            case 6:
                raise MemoryError
            case 7:
                return Mixture([1.0], [[np.nan]], [[[1.0]]])
            case 8:
                while True:
                    pass
            case 9:
                time.sleep(1000)
            case 10:
                os.kill(os.getppid(), signal.SIGKILL)
            case 11:
                os.fork()
        draws = np.random.normal(size=2)  # noqa: NPY002 - the global streams are seeded for each fit
        return Mixture([1.0], [[subset[1, 0] + draws[0]]], [[[np.exp(draws[1])]]])

    return learner


def run(folder, kinds, *, public_call, n_jobs=2, time_limit=None, progress=lambda done, total: None):
    """Numbers of every fit or None, and the processes in which it was tried."""
    folder.mkdir(exist_ok=True)
    subsets = [np.array([[kind], [place]], dtype=float) for place, kind in enumerate(kinds)]
    fits = fit_subsets(
        behaviour(folder), subsets, 1, seeds=range(7, 7 + len(kinds)), n_jobs=n_jobs, progress=progress,
        time_limit=time_limit, public_call=public_call,
    )  # fmt: skip
    tries = [(folder / str(place)).read_text().split() for place in range(len(kinds))]
    return [fit and (fit.means.item(), fit.covariances.item()) for fit in fits], tries


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_learner_that_forks_and_returns_twice_does_not_multiply(tmp_path):
    """Both went on with the list, and so did theirs: 2^n processes at the n-th subset."""
    kinds = [FORKED] * 6
    with servers() as call:
        fits, processes = run(tmp_path, kinds, public_call=call, n_jobs=1)
    assert None not in fits and all(len(tries) == 1 for tries in processes)


@pytest.mark.thorough(quick=["2"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_fits_that_share_a_process_have_the_bits_of_those_that_do_not(tmp_path, n_jobs):
    kinds, seen = [0] * 20, []
    own, apart = run(tmp_path / "own", kinds, public_call=None, n_jobs=n_jobs)
    assert None not in own and len({tries[0] for tries in apart}) == len(kinds)
    with servers() as call:
        for tried in (1, 2):
            fits, processes = run(
                tmp_path / "a", kinds, public_call=call, n_jobs=n_jobs, progress=lambda *counts: seen.append(counts)
            )
            assert fits == own
            assert {len(tries) for tries in processes} == {tried}
            assert len({tries[-1] for tries in processes}) == {1: 4, 2: 7}[n_jobs]
        assert len(learner_pool._servers[call]) <= n_jobs
    assert len(seen) == 2 * {1: 4, 2: 7}[n_jobs] and seen[-1] == (20, 20)
    assert not learner_pool._servers and not learner_pool._idle


@pytest.mark.thorough
def test_what_a_learner_does_to_a_process_of_many_fits_changes_no_other_fit(tmp_path):
    kinds = [0, RAISED, 0, KILLED, 0, KILLED_ONCE, QUIT, LEFT, NO_MEMORY, NAN, SUPERVISOR_KILLED, 0]
    own, _ = run(tmp_path / "own", [0] * len(kinds), public_call=None)
    seen = []
    with servers() as call:
        fits, _ = run(tmp_path / "shared", kinds, public_call=call, progress=lambda *counts: seen.append(counts))
    good = (0, KILLED_ONCE)
    assert fits == [fit if kind in good else None for kind, fit in zip(kinds, own, strict=True)]
    assert seen[-1] == (len(kinds), len(kinds)) and seen == sorted(seen)


@pytest.mark.thorough
def test_the_time_limit_is_that_of_one_fit(tmp_path, monkeypatch):
    """Five fits of .1 seconds in one process are more than the limit; one that hangs or sleeps costs nobody else."""

    def busy(subset):
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
        return [subset.sum(), os.getpid()]

    subsets = [np.full((1, 1), float(i)) for i in range(20)]
    with servers() as call:
        found = fit_subsets(
            VectorLearner(busy, ("sum", "process")), subsets, 1, seeds=range(20), n_jobs=1, progress=lambda *_: None,
            time_limit=0.3, public_call=call,
        )  # fmt: skip
        assert [answer[0] for answer in found] == list(range(20))
        assert len({answer[1] for answer in found}) == 4
        monkeypatch.setattr(learner_pool, "OVERTIME", 0.0)
        monkeypatch.setattr(learner_pool, "REPRIEVE", 1.5)
        fits, _ = run(tmp_path / "a", [0, HUNG, 0, ASLEEP, 0], public_call=call, n_jobs=1, time_limit=0.1)
    assert [fit is None for fit in fits] == [False, True, False, True, False]


def counts():
    """A learner that tells how often it was called in its process."""
    calls = []

    def learner(rows):
        calls.append(len(rows))
        return [len(calls)]

    return VectorLearner(learner, ("calls",))


@pytest.mark.thorough
def test_only_simulated_rows_share_a_process_and_only_where_the_learner_forgets():
    rows, edges = np.zeros((3 * 8, 1)), 3 * np.arange(9)
    way = {"n_jobs": 1, "progress": lambda *_: None}
    with simulated_fits(counts(), 1, **way) as fit:
        assert fit(rows, edges).ravel().tolist() == 4 * [1, 2]
    with simulated_fits(counts(), 1, forgets=False, **way) as fit:
        assert (fit(rows, edges) == 1).all()
    assert (fit_parts(counts(), rows, edges, 1, seeds=range(8), **way) == 1).all()


@pytest.mark.thorough
def test_a_process_has_not_more_than_so_many_fits():
    n = 4 * MOST_TOGETHER + 10
    with simulated_fits(counts(), 1, n_jobs=1, progress=lambda *_: None) as fit:
        assert fit(np.zeros((n, 1)), np.arange(n + 1)).max() == MOST_TOGETHER

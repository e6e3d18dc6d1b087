"""Runs a learner, yours or scikit-learn's, on every subset: here, or in processes of their own (pool.py)."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_positive, shown
from pm_dpgmm.learners.answers import Answer, form_of
from pm_dpgmm.learners.quiet import ALONE, outside_events, silence, without_warnings
from pm_dpgmm.mixture.mixture import Mixture


class FitsTogether:
    """Marks learners of this package that fit all subsets in one call of ``fit_all``, in this process.

    A subclass promises that fit i is a function of subset i and seed i, as the guarantee needs it. Having a method of
    that name is no promise: learners without this mark get a process for every fit.
    """

    __slots__ = ()
    fit_all: Any  # see BatchedEM


def check_learner(learner: Any, *, time_limit: float | None = None) -> None:
    """Raise TypeError unless ``learner`` is None, a scikit-learn mixture or a function from a subset to a Mixture.

    Unless it runs in this process (:func:`runs_here`), it must also survive the trip to another one, and the platform
    must have processes that fork: ValueError if not.
    """
    if not (learner is None or (hasattr(learner, "fit") and hasattr(learner, "get_params")) or callable(learner)):
        raise TypeError(
            "learner must be None, a scikit-learn mixture or a function from a subset (rows, columns) to a Mixture,"
            f" got {shown(learner)}"
        )
    if time_limit is not None and not hasattr(os, "fork") and not isinstance(learner, FitsTogether):
        raise ValueError(f"time_limit must be None where processes cannot fork, got {time_limit!r}")
    if runs_here(learner):
        return
    if not hasattr(os, "fork"):
        raise ValueError(
            "learner must be None or a GaussianMixture or BayesianGaussianMixture of scikit-learn where processes"
            f" cannot fork, since others could remember records between fits; got {shown(learner)}"
        )
    pickled(learner)


def runs_here(learner: Any) -> bool:
    """Whether no fit can leave anything for the next one in this process.

    So it is for None, for learners of this package, and for scikit-learn's own mixtures: Python and NumPy without state
    of their own, cloned and seeded for every fit, which drops a warm start and a generator. A subclass may do anything.
    """
    if learner is None or isinstance(learner, FitsTogether):
        return True
    from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

    return type(learner) in (GaussianMixture, BayesianGaussianMixture)


def pickled(learner: Any) -> bytes:
    """``learner`` for another process; TypeError if it cannot go there."""
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(learner))
    except Exception as error:
        raise TypeError(
            "learner must be picklable, since every fit has a process of its own (open files, locks and connections"
            f" belong inside the function), got {shown(learner)}: {error}"
        ) from None


def default_learner(n_components: int) -> Any:
    """scikit-learn's EM with a tight tolerance: a loose one makes subsets disagree."""
    from sklearn.mixture import GaussianMixture

    return GaussianMixture(n_components, tol=1e-7, max_iter=2000, n_init=2)


def fit_subsets(
    learner: Any,
    subsets: Sequence[FloatArray],
    n_components: int,
    *,
    seeds: Sequence[int],
    n_jobs: int | None,
    progress: Callable[[int, int], None],
    time_limit: float | None = None,
    public_call: str | None = None,
) -> list[Any]:
    """One independent fit per subset; None where the learner failed, whatever the reason.

    Parameters
    ----------
    learner : None, scikit-learn mixture or function
        See :func:`check_learner`; None is scikit-learn's EM. If it has a method ``prepare(n_components, n_features)``,
        a process that forks others for its fits calls that once: the place to compile.
    subsets : sequence of ndarray, each of shape (M, D)
        Disjoint parts of the records.
    n_components : int
        Components that a valid fit has, K.
    seeds : sequence of int, one per subset
        For the global random streams of NumPy and Python and for ``random_state``; at most 2**32 - 1.
    n_jobs : int or None
        How many fits run at a time, -1 one per core; None is 1, unless ``joblib.parallel_config`` says otherwise. Each
        fit has a process of its own, with one thread unless ``OMP_NUM_THREADS`` and the like say otherwise. With 1
        scikit-learn's own mixtures fit in this process instead, and do so whatever ``n_jobs`` where processes cannot
        fork.
    progress : function of two int
        Called in this process after every fit with the number of finished fits and of subsets.
    time_limit : float, optional
        Seconds of processor time that a fit may use; it may take 10 times as many and 60 more on the clock. With a
        limit every fit has a process of its own, whatever ``n_jobs``. Choose it far above what good fits use.
    public_call : str, optional
        For PUBLIC rows only, simulated ones for instance: the name of a call of :func:`pool.servers`. Where fits have
        processes, several then share one, and the servers stay for further fits; ``progress`` hears of several at a
        time. There is no guarantee for the rows.

    Returns
    -------
    list of Mixture or None, one per subset
        None where the learner raised, returned no :class:`Mixture` of K components in D columns, killed its process or
        passed the limit. Of a :class:`pm_dpgmm.VectorLearner`: vectors, or None.

    Raises
    ------
    TypeError, ValueError
        If ``time_limit`` is not finite and positive, or the learner needs a process of its own and cannot go there,
        or processes cannot fork (Windows): see :func:`check_learner`. None of this depends on records.
    KeyboardInterrupt
        If the user stops the run. One that the learner raises is a failed fit.

    Guarantee
    ---------
    Fit i is a function of subset i, seed i and randomness independent of the other subsets: no shared standardisation
    or start, and a failure is None and nothing else. Proof and assumptions: pool.md.

    A learner may keep what it likes in memory: every fit is in a process that is forked from one where no record has
    been, and ends with it. One that kills its process makes its fit None: the fit is repeated alone, after the others,
    and is None if it dies again. Outside of what processes separate, and assumed: a learner writes no file, and asks
    no server, that another fit reads, and holds no records before the run, such as a closure over all of them.
    Processor time is a property of the fit; the clock also runs while other fits have the processor, so a fit that
    runs out of it is repeated alone too. What remains assumed is that a fit's processor time does not depend on what
    runs beside it, up to noise that is independent of the records.
    What a learner prints or logs depends on records and is dropped, with its warnings.

    Notes
    -----
    ``joblib.parallel_config`` chooses where the processes run. On a Dask cluster every worker starts them beside
    itself, so a learner cannot hurt it; pm_dpgmm must be installed there, and ``n_jobs`` other than 1 stands for the
    whole cluster::

        with distributed.Client(address), joblib.parallel_config(backend="dask"):
            fit_gmm(X, 2, epsilon=1.0, delta=1e-6, method="populous-single", n_jobs=-1)

    Dask repeats fits whose worker was lost, ``distributed.scheduler.allowed-failures`` times (3); after that joblib
    waits for ever, so set it higher where workers come and go. No learner is behind such a loss.

    Examples
    --------
    >>> def learner(subset):
    ...     return Mixture([1.0], [subset.mean(axis=0)], [[[1 / (len(subset) - 1)]]])
    >>> subsets = [np.array([[0.0], [2.0]]), np.array([[5.0]])]
    >>> fits = fit_subsets(learner, subsets, 1, seeds=[3, 4], n_jobs=1, progress=lambda done, total: None)
    >>> fits[0].means.tolist(), fits[1]
    ([[1.0]], None)
    """
    from joblib import effective_n_jobs

    if time_limit is not None:
        check_positive(time_limit=time_limit)
    check_learner(learner, time_limit=time_limit)
    together = n_jobs == 1 or (n_jobs is None and effective_n_jobs(None) == 1) or not hasattr(os, "fork")
    here = runs_here(learner) and together and time_limit is None
    if learner is None:
        learner = default_learner(n_components)
    work = list(zip(subsets, seeds, strict=True))
    if not here and public_call is not None:
        from pm_dpgmm.learners.public_fits import fit_public

        return fit_public(public_call, pickled(learner), work, n_components, n_jobs, progress, time_limit)
    if not here:
        from pm_dpgmm.learners.pool import fit_apart

        return fit_apart(pickled(learner), work, n_components, n_jobs, progress, time_limit)
    fits = []
    for subset, seed in work:
        fits.append(fit_here(learner, subset, n_components, seed))
        progress(len(fits), len(work))
    return fits


def fit_here(learner: Any, subset: FloatArray, n_components: int, seed: int) -> Any:
    """The learner's answer in this process; None unless it is valid, such as a mixture of ``n_components``."""
    with ALONE, outside_events() as events, silence():
        try:
            answer = fit_one(learner, subset, n_components, seed)
        except BaseException:  # a failed fit makes this subset invalid and nothing else
            answer = None
    if events:
        raise events[0]
    return answer


def fit_one(learner: Any, subset: FloatArray, n_components: int, seed: int) -> Answer:
    """The learner's answer on a copy of one subset, checked; raises whatever the learner raises."""
    with without_warnings(), np.errstate(all="ignore"), own_random_streams(seed):
        rows = subset.copy()
        given = _fit_estimator(learner, rows, seed) if hasattr(learner, "fit") else learner(rows)
        return form_of(learner, n_components, subset.shape[1]).checked(given)


@contextlib.contextmanager
def own_random_streams(seed: int) -> Iterator[None]:
    """Seed the global generators for one fit and put them back: one fit's draws must not move another's."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002 - a learner may use these
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def _fit_estimator(estimator: Any, subset: FloatArray, seed: int) -> Mixture:
    from sklearn.base import clone

    model = clone(estimator)
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    return mixture_from_estimator(model.fit(subset))


def mixture_from_estimator(model: Any) -> Mixture:
    """Mixture of a fitted scikit-learn ``GaussianMixture`` or ``BayesianGaussianMixture``, any covariance type."""
    means = np.asarray(model.means_, dtype=float)
    k, d = means.shape
    covariances = np.asarray(model.covariances_, dtype=float)
    match model.covariance_type:
        case "full":
            full = covariances
        case "tied":
            full = np.repeat(covariances[None], k, axis=0)
        case "diag":
            full = np.einsum("kd,de->kde", covariances, np.eye(d))
        case "spherical":
            full = np.einsum("k,de->kde", covariances, np.eye(d))
        case other:
            raise ValueError(f"covariance_type must be full, tied, diag or spherical, got {other!r}")
    weights = np.asarray(model.weights_, dtype=float)
    return Mixture(weights / weights.sum(), means, full)

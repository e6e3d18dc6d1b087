"""Non-private learners: each turns a subset of the records into a mixture. Nothing here is released."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_positive, shown
from pm_dpgmm.mixture import Mixture

Learner = Callable[[FloatArray], Mixture]


def check_learner(learner: Any, *, n_jobs: int | None = None) -> None:
    """Raise TypeError unless ``learner`` is None, a scikit-learn mixture or a function from a subset to a Mixture.

    With several processes it must also survive the trip to another process.
    """
    if not (learner is None or (hasattr(learner, "fit") and hasattr(learner, "get_params")) or callable(learner)):
        raise TypeError(
            "learner must be None, a scikit-learn mixture or a function from a subset (rows, columns) to a Mixture,"
            f" got {shown(learner)}"
        )
    if n_jobs not in (None, 1):
        pickled(learner)


def rehearse_learner(learner: Any, n_rows: int, n_features: int, n_components: int) -> None:
    """Try the learner on simulated rows, which are public: a slip in it should not cost a budget.

    Raises
    ------
    ValueError
        If it fails where components are 6 standard deviations apart.
    """
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n_rows, n_features)) + 6.0 * rng.integers(n_components, size=(n_rows, 1))
    try:
        fit_one(learner, rows, n_components, seed=0)
    except Exception as error:
        raise ValueError(
            f"learner must fit {n_components} components to {n_rows} simulated rows of {n_features} columns (rehearse="
            f"False skips this trial), got {type(error).__name__}: {error}"
        ) from error


def pickled(learner: Any) -> bytes:
    """``learner`` for another process; TypeError if it cannot go there."""
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(learner))
    except Exception as error:
        raise TypeError(f"learner must be picklable to run in another process, got {shown(learner)}: {error}") from None


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
) -> list[Mixture | None]:
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
        1 fits in this process, one subset after another; so does None, unless ``joblib.parallel_config`` says
        otherwise. Any other number is how many processes fit at a time, -1 one per core. Each fit then has a process
        of its own, with one thread unless ``OMP_NUM_THREADS`` and the like say otherwise.
    progress : function of two int
        Called in this process after every fit with the number of finished fits and of subsets.
    time_limit : float, optional
        Seconds of processor time that a fit may use; it may take 10 times as many and 60 more on the clock. With a
        limit every fit has a process of its own, whatever ``n_jobs``. Choose it far above what good fits use.

    Returns
    -------
    list of Mixture or None, one per subset
        None where the learner raised, returned no :class:`Mixture` of K components in D columns, killed its process or
        passed the limit.

    Raises
    ------
    TypeError, ValueError
        If ``time_limit`` is not finite and positive, or the learner cannot go to another process, or processes cannot
        fork (Windows) and another one is needed. None of this depends on records.
    KeyboardInterrupt
        If the user stops the run. One that the learner raises is a failed fit.

    Guarantee
    ---------
    Fit i is a function of subset i, seed i and randomness independent of the other subsets: no shared standardisation
    or start, and a failure is None and nothing else. Proof and assumptions: learner_pool.md.

    In this process a learner that keeps state between calls breaks the guarantee, and nothing here can see it; one
    that kills its process ends the run, and one that hangs hangs it. In processes of their own none of this happens:
    a fit whose process dies is repeated alone, after the others, and is None if it dies again.
    Processor time is a property of the fit; the clock also runs while other fits have the processor, so a fit that
    runs out of it is repeated alone too. What remains assumed is that a fit's processor time does not depend on what
    runs beside it, up to noise that is independent of the records.
    What a learner prints or logs depends on records and is dropped, with its warnings; only text that compiled code
    writes in this process still reaches the terminal.

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
    if learner is None:
        learner = default_learner(n_components)
    work = list(zip(subsets, seeds, strict=True))
    if time_limit is not None or not (n_jobs == 1 or (n_jobs is None and effective_n_jobs(None) == 1)):
        from pm_dpgmm.learner_pool import fit_apart

        return fit_apart(pickled(learner), work, n_components, n_jobs, progress, time_limit)
    fits = []
    for subset, seed in work:
        fits.append(fit_here(learner, subset, n_components, seed))
        progress(len(fits), len(work))
    return fits


def fit_here(learner: Any, subset: FloatArray, n_components: int, seed: int) -> Mixture | None:
    """The learner's answer in this process; None unless it is a valid mixture with ``n_components`` components."""
    with _outside_events() as events, _silence():
        try:
            answer = fit_one(learner, subset, n_components, seed)
        except BaseException:  # a failed fit makes this subset invalid and nothing else
            answer = None
    if events:
        raise events[0]
    return answer


def fit_one(learner: Any, subset: FloatArray, n_components: int, seed: int) -> Mixture:
    """The learner's answer on a copy of one subset, as a plain mixture; raises whatever the learner raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"), _own_random_streams(seed):
        warnings.simplefilter("ignore")
        rows = subset.copy()
        given = _fit_estimator(learner, rows, seed) if hasattr(learner, "fit") else learner(rows)
        if not isinstance(given, Mixture):
            raise TypeError(f"learner must return a Mixture, got {type(given).__name__}")
        # a copy, checked again: the learner may still hold the arrays, and a subclass may do anything when read
        answer = Mixture(given.weights, given.means, given.covariances)
        if answer.means.shape != (n_components, subset.shape[1]):
            raise ValueError(f"learner must return {n_components} components, got shape {answer.means.shape}")
    return answer


@contextlib.contextmanager
def _outside_events() -> Iterator[list[BaseException]]:
    """Exceptions that the user's signal handlers raise meanwhile, such as KeyboardInterrupt: not the learner's."""
    raised: list[BaseException] = []
    previous: dict[int, Callable[[int, FrameType | None], Any]] = {}

    def note(number: int, frame: FrameType | None) -> None:
        try:
            previous[number](number, frame)
        except BaseException as event:
            raised.append(event)
            raise

    if threading.current_thread() is threading.main_thread():  # no other thread hears signals
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):
                previous[number] = handler
                signal.signal(number, note)
    try:
        yield raised
    finally:
        for changed, handler in previous.items():
            signal.signal(changed, handler)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """No prints, no log lines and no questions from Python code: they depend on records."""
    level, stdin = logging.root.manager.disable, sys.stdin
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        logging.disable(sys.maxsize)
        sys.stdin = io.StringIO()
        try:
            yield
        finally:
            sys.stdin = stdin
            logging.disable(level)


@contextlib.contextmanager
def _own_random_streams(seed: int) -> Iterator[None]:
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

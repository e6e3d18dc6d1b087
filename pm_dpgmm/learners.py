"""Non-private learners: each turns a subset of the records into a mixture. Nothing here is released."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, shown
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
        import cloudpickle

        try:
            cloudpickle.dumps(learner)
        except Exception as error:
            raise TypeError(f"learner must be picklable with n_jobs={n_jobs}, got {shown(learner)}: {error}") from None


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
) -> list[Mixture | None]:
    """One independent fit per subset; None where the learner failed, whatever the reason.

    Each fit sees its own subset and its own seed: no shared standardisation or start, and the global random streams
    of NumPy and Python are seeded for each. A function that keeps state between calls breaks the guarantee, and
    nothing here can see it. Warnings and exceptions depend on records, so they are swallowed.
    """
    from joblib import Parallel, delayed

    if learner is None:
        learner = default_learner(n_components)
    work = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(fit_one)(learner, subset, n_components, seed) for subset, seed in zip(subsets, seeds, strict=True)
    )
    fits: list[Mixture | None] = []
    for fit in work:
        fits.append(fit)
        progress(len(fits), len(subsets))
    return fits


def fit_one(learner: Any, subset: FloatArray, n_components: int, seed: int) -> Mixture | None:
    """The learner's answer on one subset; None unless it is a valid mixture with ``n_components`` components."""
    with warnings.catch_warnings(), np.errstate(all="ignore"), _own_random_streams(seed):
        warnings.simplefilter("ignore")
        try:
            answer = _fit_estimator(learner, subset, seed) if hasattr(learner, "fit") else learner(subset.copy())
        except (Exception, SystemExit):  # a failed fit makes this subset invalid and nothing else
            return None
    if not isinstance(answer, Mixture) or answer.means.shape != (n_components, subset.shape[1]):
        return None
    return answer


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

import contextlib
import io
import logging
import os
import random
import signal
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import special
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from pm_dpgmm.learners import quiet
from pm_dpgmm.learners.subsets import check_learner, fit_here, fit_subsets, mixture_from_estimator
from pm_dpgmm.mixture.mixture import Mixture

RNG = np.random.default_rng(3)
DATA = np.concatenate([RNG.normal(0, 1, (200, 2)), RNG.normal(6, 1, (200, 2))])


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("kind", [GaussianMixture, BayesianGaussianMixture])
def test_any_scikit_learn_mixture_becomes_the_same_density(kind, covariance_type):
    model = kind(n_components=2, covariance_type=covariance_type, random_state=0, max_iter=500).fit(DATA)
    mixture = mixture_from_estimator(model)
    # scikit-learn's Bayesian scores add a constant per component, so only the plain one has the same density
    if kind is GaussianMixture:
        assert mixture.log_density(DATA[:20]) == pytest.approx(model.score_samples(DATA[:20]), abs=1e-9)
    assert mixture.means == pytest.approx(model.means_)


def test_fits_in_threads_put_back_what_they_share():
    """They put back each other's: afterwards standard output was closed, and no warning was shown any more."""
    subsets = [RNG.normal(size=(60, 1)) for _ in range(20)]

    def fits(_):
        return fit_subsets(None, subsets, 1, seeds=range(20), n_jobs=1, progress=lambda done, total: None)

    before = sys.stdout, sys.stderr, list(warnings.filters), logging.root.manager.disable
    with ThreadPoolExecutor(4) as threads:
        alike = list(threads.map(fits, range(8)))
    assert (sys.stdout, sys.stderr, list(warnings.filters), logging.root.manager.disable) == before
    assert len({fit.means.tobytes() for fit, *_ in alike}) == 1


def raises(subset):
    raise RuntimeError(f"leaks {subset[0]}")


def warns(subset):
    warnings.warn(f"leaks {subset[0]}", ConvergenceWarning, stacklevel=2)
    return Mixture([1.0], subset[:1], [np.eye(2)])


def throws(error):
    def learner(subset):
        print("leaks", subset[0])
        print("leaks", subset[0], file=sys.stderr)
        logging.getLogger("a").critical("leaks %s", subset[0])
        raise error

    return learner


class Trap(Mixture):
    """A mixture that fails when it is read."""

    @property
    def means(self):
        raise RuntimeError("leaks")


@pytest.mark.parametrize(
    "learner",
    [
        raises,
        lambda s: None,
        lambda s: Mixture([0.5, 0.5], s[:2], [np.eye(2)] * 2),
        lambda s: Mixture([1.0], s[:1, :1], [[[1.0]]]),
        lambda s: Mixture([1.0], s[:1] * np.nan, [np.eye(2)]),
        lambda s: object.__new__(Trap),
        lambda s: input("leaks") and Mixture([1.0], s[:1], [np.eye(2)]),
        *[throws(error) for error in (SystemExit(0), KeyboardInterrupt(), GeneratorExit(), MemoryError())],
    ],
    ids=[
        "raises", "nothing", "wrong number of components", "wrong number of columns", "invalid numbers", "trap",
        "question", "SystemExit", "KeyboardInterrupt", "GeneratorExit", "MemoryError",
    ],
)  # fmt: skip
def test_a_failed_fit_is_none_and_says_nothing(learner, capfd, caplog, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("not an answer\n"))
    assert fit_here(learner, DATA, 1, 0) is None
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    logging.getLogger("a").critical("heard")  # and what others say is heard again
    assert [record.message for record in caplog.records] == ["heard"]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("swallowed", [True, False])
def test_the_user_can_stop_a_fit_whatever_the_learner_does(swallowed):
    def learner(subset):
        with contextlib.suppress(KeyboardInterrupt) if swallowed else contextlib.nullcontext():
            os.kill(os.getpid(), signal.SIGINT)
        return Mixture([1.0], subset[:1], [np.eye(2)])

    handler, states = signal.getsignal(signal.SIGINT), (np.random.get_state()[1].copy(), random.getstate())  # noqa: NPY002
    with pytest.raises(KeyboardInterrupt):
        fit_here(learner, DATA, 1, 0)
    assert signal.getsignal(signal.SIGINT) is handler
    assert (np.random.get_state()[1] == states[0]).all() and random.getstate() == states[1]  # noqa: NPY002


def test_a_learner_that_keeps_its_answers_cannot_change_them_later():
    kept = []

    def learner(subset):
        for earlier in kept:
            earlier.means.setflags(write=True)
            earlier.means[:] = 0
        kept.append(Mixture([1.0], subset[:1], [np.eye(2)]))
        return kept[-1]

    first = fit_here(learner, DATA, 1, 0)
    assert fit_here(learner, DATA, 1, 0) is not None
    assert (first.means == DATA[:1]).all()


def test_warnings_of_a_learner_are_swallowed(recwarn):
    assert isinstance(fit_here(warns, DATA, 1, 0), Mixture)
    assert not recwarn.list


def test_each_fit_sees_its_subset_and_its_seed_alone():
    subsets = np.array_split(DATA[RNG.permutation(len(DATA))], 4)
    arguments = {"n_jobs": 1, "progress": lambda done, total: None}
    fits = fit_subsets(None, subsets, 2, seeds=[1, 2, 3, 4], **arguments)
    changed = fit_subsets(None, [*subsets[:3], subsets[3] + 100], 2, seeds=[1, 2, 3, 4], **arguments)
    for before, after in zip(fits[:3], changed[:3], strict=True):
        assert (before.means == after.means).all() and (before.covariances == after.covariances).all()
    assert not (fits[3].means == changed[3].means).all()


class Greedy(GaussianMixture):
    """Changes its rows and whatever they are a view of."""

    def fit(self, rows):
        while rows is not None:
            rows[:] = np.arange(rows.size).reshape(rows.shape) % 7
            rows, self.rows = rows.base, rows
        return super().fit(self.rows)


@pytest.mark.parametrize("learner", [Greedy(1), lambda rows: mixture_from_estimator(Greedy(1).fit(rows))])
def test_learners_cannot_change_the_records(learner):
    data = DATA.copy()
    assert fit_here(learner, data[:10], 1, 0) is not None
    assert (data == DATA).all()


def test_progress_counts_subsets():
    seen = []
    fit_subsets(raises, [DATA] * 3, 1, seeds=[0] * 3, n_jobs=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("learner", [3, "kmeans", object()])
def test_other_objects_are_refused(learner):
    with pytest.raises(TypeError, match="learner must be None"):
        check_learner(learner)


def test_settings_for_special_functions_are_put_back_by_the_last_of_several_threads():
    """They are the process's: with one keeper for each thread the second would keep what the first had set."""
    with special.errstate(all="raise"):
        before = special.geterr()
        first, second = quiet.without_float_errors(), quiet.without_float_errors()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(special.geterr().values()) == {"ignore"}
        second.__exit__(None, None, None)
        assert special.geterr() == before

"""What the aggregated estimator shows besides its release: nothing, on any records, whether it answers or refuses."""

import logging
import traceback
import warnings

import numpy as np
import pytest

from pm_dpgmm import Unstable, fit_gmm
from pm_dpgmm.learners.batched_em import BatchedEM
from pm_dpgmm.learners.fit_arrays import Fits
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.populous.agreement import AgreementRule, friend_table
from pm_dpgmm.methods.populous.caveats import mask_caveats
from pm_dpgmm.methods.populous.design import Design
from pm_dpgmm.methods.populous.method import Populous
from pm_dpgmm.privacy.guarantee import Neighbouring

T, SIZE = 220, 150  # subsets; records of each
DESIGN = Design(T, AgreementRule(2, 1, 0.85, 1.1), top=175, full=175, noise=0.3)
N = T * SIZE


def good(rng):
    """Two components, far from 0: the test passes."""
    return 1e3 + rng.standard_normal((N, 1)) + 9 * (rng.random((N, 1)) < 0.5)


def huge(rng):
    return good(rng) * 1e300


def tiny(rng):
    return good(rng) * 1e-320  # not normal numbers


def with_some_huge(rng):
    return np.where(rng.random((N, 1)) < 0.05, 1e300, good(rng))


def duplicates(rng):
    records = np.zeros((N, 1))
    records[0] = 1.0
    return records


def constant_in_most(rng):
    return np.where(rng.random((N, 1)) < 0.02, 5.0, np.pi)


def heavy_tails(rng):
    return rng.standard_cauchy((N, 1)) ** 5


def integers(rng):
    return rng.integers(0, 2, (N, 1)).astype(float)  # two components without width: the fits agree


def one_component(rng):
    return rng.standard_normal((N, 1))


def opposite_ends(rng):
    return rng.choice([-1.7e308, 1.7e308], (N, 1))  # their difference is infinite


REFUSED = (
    huge,
    tiny,
    with_some_huge,
    duplicates,
    constant_in_most,
    heavy_tails,
    one_component,
    opposite_ends,
)


def attempt(records, **options):
    """The release, or the refusal; nothing but these may leave."""
    settings = {"epsilon": 1.0, "delta": 1e-6, "method": Populous(design=DESIGN), "random_seed": 1} | options
    try:
        return fit_gmm(records, 2, **settings)
    except Unstable as refusal:
        return refusal


def public_text(error):
    """Everything of an exception that is shown where it is not caught."""
    return "".join(traceback.format_exception_only(error))


@pytest.fixture(scope="module")
def refusals():
    return {make.__name__: attempt(make(np.random.default_rng(5))) for make in REFUSED}


def test_a_refusal_is_the_same_whatever_the_records(refusals):
    texts = {public_text(refusal) for refusal in refusals.values()}
    assert len(texts) == 1 and f"most of {T} fits agree" in texts.pop()
    for name, refusal in refusals.items():
        assert isinstance(refusal, Unstable) and len(refusal.args) == 1, name
        assert refusal.__cause__ is None and refusal.__context__ is None, name
        assert not hasattr(refusal, "__notes__"), name
        assert vars(refusal).keys() == {"guarantee"}, name
    public = Populous(design=DESIGN)
    problem = Problem(N, 1, 2, 1.0, 1e-6, None, Neighbouring.REPLACE_ONE)
    expected = public.guarantee(problem).marked(private=False)  # of a seed
    assert all(repr(refusal.guarantee) == repr(expected) for refusal in refusals.values())


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("make", [good, integers, *REFUSED], ids=lambda make: make.__name__)
def test_nothing_is_printed_logged_or_warned(make, n_jobs, capfd, caplog):
    records = make(np.random.default_rng(6))
    with warnings.catch_warnings(record=True) as shown, caplog.at_level(logging.DEBUG):
        warnings.simplefilter("always")
        with np.errstate(all="warn"):  # a floating-point warning would tell about the records
            outcome = attempt(records, n_jobs=n_jobs, progress=True)
    assert isinstance(outcome, Unstable) == (make in REFUSED)
    told = [
        record for record in caplog.records if not record.name.startswith("numba")
    ]  # of the compiler, where it is cold
    of_the_release = [f"{outcome.flag} (release.warnings)"] if make not in REFUSED else []  # made of what is released
    assert [str(item.message) for item in shown] == of_the_release and told == []
    assert capfd.readouterr() == ("", "")
    assert make in REFUSED or outcome.warnings == tuple(mask_caveats(outcome.mixture, outcome.noise["eta"]))


def test_the_progress_bar_counts_what_is_public():
    """Steps and total are the same for records that agree, disagree, or have no fit."""
    steps = {}
    for make in (good, one_component, huge):
        seen = steps[make.__name__] = []
        problem = Problem(N, 1, 2, 1.0, 1e-6, None, Neighbouring.REPLACE_ONE)
        run = {"learner": None, "n_jobs": 2, "progress": lambda *step, seen=seen: seen.append(step)}
        try:
            rng = np.random.default_rng(7)
            Populous(design=DESIGN).release(make(rng), problem, rng=rng, **run)
        except Unstable:
            assert make is not good
    assert steps["good"] == [(i + 1, T) for i in range(T)]
    assert steps["good"] == steps["one_component"] == steps["huge"]


def test_a_release_says_no_more_about_one_data_set_than_about_another():
    """Everything beside the noisy numbers is public, and those numbers are all of the fit that is there."""
    first, second = (attempt(good(np.random.default_rng(seed))) for seed in (8, 9))
    assert (first.noise, first.settings, first.guarantee) == (second.noise, second.settings, second.guarantee)
    assert set(first.raw) == {"weights", "corners", "means", "covariances"}
    assert all(first.raw[name].shape == second.raw[name].shape for name in first.raw)
    constants = Populous(design=DESIGN).constants(Problem(N, 1, 2, 1.0, 1e-6, None, Neighbouring.REPLACE_ONE))
    told = {"eta": constants.noise.eta, "kappa": constants.noise.kappa, "n_subsets": T, "subset_records": SIZE}
    assert told.items() <= first.noise.items()


REPLACED = {
    "shifted": lambda rows: rows + 0.3,
    "one record": lambda rows: np.concatenate([[[1e3, 1e3]], rows[1:]]),
    "constant": lambda rows: np.full_like(rows, 7.0),
    "NaN": lambda rows: np.full_like(rows, np.nan),
    "infinite": lambda rows: np.full_like(rows, np.inf),
    "huge": lambda rows: rows * 1e300,
    "two values": lambda rows: np.round(rows > 0),
}


@pytest.mark.parametrize("change", REPLACED.values(), ids=REPLACED.keys())
def test_replacing_the_records_of_one_subset_leaves_every_other_fit_and_entry(change):
    """From records to friend table, bit for bit and for any number of threads."""
    rng, t, gone = np.random.default_rng(10), 80, 7
    records = rng.standard_normal((t * 60, 2)) + 5 * (rng.random((t * 60, 1)) < 0.5)
    edges, seeds, rule = np.arange(t + 1) * 60, list(range(t)), AgreementRule(2, 2, 1.0, 1.1)
    replaced = records.copy()
    replaced[edges[gone] : edges[gone + 1]] = change(records[edges[gone] : edges[gone + 1]])
    others = np.arange(t) != gone

    def fitted(rows, n_threads):
        fits = BatchedEM().fit_all(rows, edges, 2, seeds=seeds, n_threads=n_threads)
        return fits, friend_table(fits, rule, n_threads=n_threads)

    before, table = fitted(records, 1)
    assert 0.1 < table.mean() < 0.95
    for n_threads in (1, 2, 5):
        after, changed = fitted(replaced, n_threads)
        for name in Fits.__slots__:
            assert getattr(after, name)[others].tobytes() == getattr(before, name)[others].tobytes()
        assert (changed[np.ix_(others, others)] == table[np.ix_(others, others)]).all()
    assert not (after.means[gone] == before.means[gone]).all()

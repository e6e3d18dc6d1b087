"""The front door: one call from records to a release."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import (
    check_choice,
    check_count,
    check_delta,
    check_flag,
    check_positive,
    check_text,
    generator_of,
    read_choices,
    shown,
)
from pm_dpgmm.files.compilation import WORDS, compiles
from pm_dpgmm.files.untrusted_json import check_writable
from pm_dpgmm.files.writing import reserved
from pm_dpgmm.learners.quiet import without_float_errors
from pm_dpgmm.learners.subsets import check_learner
from pm_dpgmm.methods.aggregate.method import Aggregate
from pm_dpgmm.methods.automatic.method import Automatic
from pm_dpgmm.methods.automatic.public_facts import by_public_facts
from pm_dpgmm.methods.capabilities import check_together
from pm_dpgmm.methods.central.method import Central
from pm_dpgmm.methods.counts.histogram import HistogramMethod
from pm_dpgmm.methods.counts.slices import SliceMethod
from pm_dpgmm.methods.em.method import EM
from pm_dpgmm.methods.fit_warnings import warning_about
from pm_dpgmm.methods.gaps.method import GapsMethod
from pm_dpgmm.methods.local.method import LocalMethod
from pm_dpgmm.methods.outcome import AUTOMATIC, Method, Problem
from pm_dpgmm.methods.populous.method import Populous
from pm_dpgmm.methods.populous_single.method import PopulousSingle
from pm_dpgmm.methods.problem import read_problem
from pm_dpgmm.methods.sketch.method import SketchMethod
from pm_dpgmm.methods.two_phase import TwoPhase
from pm_dpgmm.privacy.guarantee import Neighbouring, warn_if_weak
from pm_dpgmm.privacy.ledger import Ledger
from pm_dpgmm.privacy.ledger_files import ledger_files
from pm_dpgmm.privacy.simulated_fits import fits_may_warn
from pm_dpgmm.progress_bar import progress_bar
from pm_dpgmm.records.blocks import RecordBlocks
from pm_dpgmm.records.feature_names import LONGEST_NAME
from pm_dpgmm.release.checkpoint import MOST_ASKED_COMPONENTS, keeping
from pm_dpgmm.release.late_warnings import warn_after_spending
from pm_dpgmm.release.making import release_or_lost
from pm_dpgmm.release.release import Release

LONGEST_SETTINGS = 100_000  # characters of a settings object in a file
METHODS: dict[str, type[Method]] = {
    SketchMethod.name: SketchMethod, HistogramMethod.name: HistogramMethod, SliceMethod.name: SliceMethod, EM.name: EM,
    Aggregate.name: Aggregate, Populous.name: Populous, TwoPhase.name: TwoPhase, PopulousSingle.name: PopulousSingle,
    GapsMethod.name: GapsMethod, LocalMethod.name: LocalMethod, Central.name: Central,
}  # fmt: skip


def fit_gmm(
    X: Any,
    n_components: int | Iterable[int],
    *,
    epsilon: float,
    delta: float | None = None,
    columns: Sequence[str] | None = None,
    bounds: ArrayLike | Mapping[str, Any] | None = None,
    resolution: Any = None,
    transform: Any = None,
    method: str | Method = "auto",
    neighbouring: str = "replace-one",
    learner: Any = None,
    n_jobs: int | None = None,
    ledger: Ledger | None = None,
    progress: bool = True,
    random_seed: int | np.random.Generator | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Release:
    """Fit a Gaussian mixture under differential privacy.

    Parameters
    ----------
    X : array (N, D), DataFrame, Arrow table, Dask array, path to .csv or .parquet, or RecordBlocks
        The records, one row per person. NaN and infinite values are refused. Every number of a file is read from its
        own text; a data frame that another reader made may not be (records/reading.md). All but
        :class:`pm_dpgmm.RecordBlocks`, which "sketch" reads block by block in about fifteen passes, are read into
        memory.
    n_components : int, or sequence of int such as range(1, 6)
        Components K of the mixture, chosen from public knowledge; or, with "sketch", numbers from which the released
        statistics choose, at no cost beyond a start that must serve the largest. ``release.noise["k_scores"]`` then
        holds the scores, and ``release.select_k`` compares other numbers later.
    epsilon : float
        Privacy budget, greater than 0. 1 is a common choice; smaller protects more.
    delta : float, optional
        Probability outside the epsilon bound; well below 1/N. Needed by "sketch", "em" (but for k-means), "aggregate",
        "gaps" and the populous methods, unused by "histogram", "slices", "local" and nearly always "central".
    columns : sequence of str, optional
        Columns of a file or table to use, in this order, by public choice; the others are not looked at. All by
        default. Of an array, which has no names: names for all of its columns.
    bounds : None, (low, high), array (D, 2) or dict by name of column, optional
        Public limits of the columns, in their units: from knowledge of the field, never from ``X``. Values outside
        count as the nearest limit ("local" cuts nothing; bounds say where to look). The keys of a dict, or labels of
        a data frame's rows or columns, must be the names of the columns, in any order.
    resolution : None, number, sequence of D numbers or dict by name of column, optional
        Steps h of columns that are rounded or whole by public knowledge: records are then taken for the nearest
        multiples of h of values from the mixture (ages in completed years: add a half); 0 or no name for others.
        Parameters are those of the mixture before it is rounded. "sketch" and "histogram" alone know of it. Nothing
        is asked of the records: others than multiples fit the model badly, that is all.
    transform : None, "log", "logit", "asinh", Transformation, list of D of these, dict by name of column, optional
        Public maps of columns before anything else; the mixture is that of the mapped records, which a learner sees,
        too; what the release says of records is in their own unit. "log" has its floor from the bounds (a millionth of
        the upper one, where the lower is not above 0), "logit" its ends; smaller and larger values count as the
        nearest. ``release.transformations`` of another release are taken, too, by name where both have names. See
        :class:`pm_dpgmm.Transformation`.
    method : str or settings object
        "auto", "sketch", "histogram", "slices", "em", "central", "aggregate", "populous", "two-phase",
        "populous-single", "gaps" or "local". "auto" takes "sketch" with delta; without it, and with bounds,
        "histogram" for one or two columns and "slices" for more. In one column without bounds, with delta,
        records enough (some 2,300 for each component at epsilon 1 and delta 1e-6), one number of components above 1,
        replace-one neighbours and no settings, "auto" spends a little on the scales of the column and takes "gaps"
        where they are too many for a sketch; ``release.method`` and ``release.noise["auto"]`` say what it took and why.
        "gaps" is for one column of many scales, "local" for records that nobody may collect (see
        :class:`pm_dpgmm.LocalProtocol`).
    neighbouring : {"replace-one", "add-remove"}
        What is protected: replacing one record (N public), or adding or removing one (N private).
    learner : None, scikit-learn mixture or function, optional
        Black-box learner of "aggregate" and the populous methods: a function from a subset (M, D) to a
        :class:`Mixture` that depends on nothing but this subset; see Guarantee. None is compiled EM, or scikit-learn's
        for "populous-single". For "aggregate" also a :class:`VectorLearner`, whose answers are numbers.
    n_jobs : int, optional
        How many of the learner's fits run at a time (joblib); threads for compiled EM.
    ledger : Ledger, optional
        Durable budget; the cost is written down before the fit starts, or :class:`BudgetExceeded` is raised.
    progress : bool
        Show a progress bar on a terminal, which counts public steps only; where kernels are not compiled yet, say so in
        one line on stderr, also without a terminal.
    random_seed : int or numpy.random.Generator, optional
        For teaching and tests. It makes the noise known, so the release is marked ``private=False``, and so is every
        one that is made ``like`` it.
    checkpoint : path, optional
        A new file that holds what has been released so far, and nothing else about the records, at any moment of the
        fit: after a crash :func:`pm_dpgmm.resume` fits to it. It is made before anything is spent, so no two fits have
        one. Only its owner can read it; delete it when the release is saved. Without it, an exception that ends the
        fit carries the same as its attribute ``released``. "populous" and "populous-single" release nothing before
        their end, and leave none.
    **settings
        Settings of the method, such as ``n_bins`` for "histogram" and "slices" or ``n_subsets`` for "populous-single".
        ``like``, a release of other people's records, makes a "sketch" that :func:`pm_dpgmm.combine` can add to it;
        ``reg_covar`` is the variance that every component of a "sketch" has at least in each column.
        ``covariance_type`` ("sketch": "full", "tied", "diag", "spherical" or "auto"; "em": "full", "diag" or
        "spherical") is what the covariances of the components are, by scikit-learn's names. "auto" fits all four to the
        released numbers and takes the one that they make most likely, at no cost in budget and four times the time of
        the fit: for tables of a few thousand records and several columns.

    Returns
    -------
    Release
        Parameters, raw noisy statistics, noise law and guarantee; safe to publish.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError
        On bad input, before any budget is spent. Messages about values are for the curator.
    RuntimeError
        After the budget is spent, if what a settings object of your own returns makes no release that can be printed
        and saved. Its attribute ``outcome`` is what was returned.
    Unstable
        When "populous", "populous-single", "gaps" or "sketch" refuses; its ``guarantee`` says what was spent.
    BudgetExceeded
        When the ledger has too little left.

    Warns
    -----
    FitWarning
        Once, after the fit, when ``release.warnings`` names reasons not to rely on it: released and public numbers show
        that the mixture is wrong, or leave open what it says. A :class:`ComponentWarning` where all that is told is
        that components may be noise, which does not speak against the density.
    WeakGuarantee
        If epsilon exceeds 10, or delta is 1/N or more, where N is public or guessed (``assumed_records``); before
        anything is spent, also where warnings are errors.

    Guarantee
    ---------
    (epsilon, delta)-differential privacy of everything in the Release, under the stated relation, by the theorem
    named in ``release.guarantee.mechanism``, for data sets that pass the checks above. Whether a data set passes them
    is known to whoever runs the fit: an error about rows or columns is a fact about the data, not to be published.
    Running time and memory are not covered.

    A learner of yours may be any function of one subset. Each of its fits to records has a process of its own, so that
    nothing it keeps in memory (a warm start, a generator, statistics of earlier subsets) reaches another fit; a trial
    on simulated rows refuses one that keeps something. What no process can separate is left to you: the learner holds
    no records beforehand, such as a closure over all of ``X``, and its fits do not meet in files, a database or a
    server.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
    >>> release = fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15))
    >>> release.means.shape, release.guarantee.delta
    ((2, 1), 0.0)
    """
    choices, relation, rng = checked(
        n_components,
        epsilon=epsilon,
        delta=delta,
        method=method,
        neighbouring=neighbouring,
        learner=learner,
        n_jobs=n_jobs,
        ledger=ledger,
        progress=progress,
        random_seed=random_seed,
    )
    public = {"columns": columns, "bounds": bounds, "resolution": resolution, "transform": transform}
    records, feature_names, problem = read_problem(X, choices, epsilon, delta, relation, **public)
    with without_float_errors():
        chosen = chosen_method(method, settings, problem, streamed=isinstance(X, RecordBlocks))
    check_together(chosen, problem, n_components, X, feature_names, learner)
    warn_if_weak(*chosen.cost(problem), problem.public_records or chosen.assumed_records)
    if learner is not None:
        chosen.try_learner(learner, problem)
    facts = _public_facts(chosen, problem, feature_names, private=rng is None)
    with _charged(chosen, problem, facts, checkpoint=checkpoint, never=X, ledger=ledger, progress=progress) as (
        told,
        entry,
    ):
        outcome = chosen.release(records, problem, learner=learner, n_jobs=n_jobs, rng=rng, **told)
        release = release_or_lost(outcome, facts)
        if ledger is not None:
            with contextlib.suppress(Exception):  # a note that nothing depends on must not cost the release
                ledger.link(entry, release)
        warning = warning_about(release) if release.flag and fits_may_warn() else None
    if warning is not None:  # made of released and public numbers: to warn is free
        warn_after_spending(warning, stacklevel=2)
    return release


# ---------------------------------------------------------------------- check, read, choose
def checked(
    n_components: Any,
    *,
    epsilon: Any,
    delta: Any,
    method: Any,
    neighbouring: Any,
    learner: Any,
    n_jobs: Any,
    ledger: Any,
    progress: Any,
    random_seed: Any,
) -> tuple[tuple[int, ...], Neighbouring, np.random.Generator | None]:
    """Numbers of components, relation and generator, once all that says nothing of the records is as it must be."""
    choices = read_choices(n_components, most=MOST_ASKED_COMPONENTS)
    check_positive(epsilon=epsilon)
    if delta is not None:
        check_delta(delta)
    relation = Neighbouring.parse(neighbouring)
    if ledger is not None and not isinstance(ledger, Ledger):
        raise TypeError(f"ledger must be a pm_dpgmm.Ledger, got {shown(ledger)}")
    if n_jobs is not None:
        check_count(least=-64, n_jobs=n_jobs)
        if n_jobs == 0:
            raise ValueError("n_jobs must not be 0, got 0; None or 1 is one fit at a time")
    check_learner(learner)
    check_flag(progress=progress)
    rng = None if random_seed is None else generator_of(random_seed)
    if isinstance(method, str):
        check_choice(("auto", *METHODS), method=method)
    return choices, relation, rng


def chosen_method(method: str | Method, settings: dict[str, Any], problem: Problem, *, streamed: bool) -> Method:
    """The settings object that was given, or that of a method that was named, with its settings."""
    if not isinstance(method, str):
        if isinstance(method, type) or not isinstance(method, Method):
            raise ValueError(
                f"method must be 'auto', one of {sorted(METHODS)} or a settings object, got {shown(method)}"
            )
        named: dict[str, Any] = {"the name of method": method.name}
        check_text(longest=LONGEST_NAME, **named)
        asked = dict.fromkeys(("learner", "n_jobs", "progress", "rng", "released"))
        try:
            inspect.signature(method.release).bind(None, problem, **asked)
        except TypeError as error:
            rule = (
                "method must have a release that takes records, problem, learner=, n_jobs=, progress=, rng=, released="
            )
            raise ValueError(f"{rule}, got {shown(method)}: {error}") from None
        if settings:
            raise TypeError(f"settings must be inside the settings object, got {sorted(settings)} beside it")
        return method
    if method == AUTOMATIC and not settings and not streamed and Automatic.suits(problem):
        return Automatic()
    kind = METHODS[by_public_facts(problem) if method == AUTOMATIC else method]
    known = list(inspect.signature(kind).parameters)
    unknown = sorted(set(settings) - set(known))
    if unknown:
        rule = f"settings of method {kind.name!r} must be among {known}, all else an argument that help() lists"
        raise TypeError(f"{rule}, got {unknown}")
    return kind(**settings)


# ---------------------------------------------------------------------- release
def _public_facts(chosen: Method, problem: Problem, feature_names: tuple[str, ...], *, private: bool) -> dict[str, Any]:
    """What a release or a checkpoint says beside its numbers; TypeError unless a file can hold the settings."""
    settings = chosen.recorded()
    check_flag(private=chosen.private)
    try:
        text = check_writable(settings, name="settings")
        if not isinstance(settings, Mapping) or len(text) > LONGEST_SETTINGS:
            raise ValueError(f"{shown(settings)}, no mapping or one of more than {LONGEST_SETTINGS} characters")
    except (TypeError, ValueError) as error:
        raise TypeError(f"settings must be numbers and texts that a release file can hold, got {error}") from None
    return {
        "method": chosen.name,
        "settings": settings,
        "n_components": problem.component_choices,
        "feature_names": feature_names,
        "n_records": problem.public_records,
        "private": private and chosen.private,
        "transformations": problem.transformations,
    }


@contextlib.contextmanager
def _charged(
    chosen: Method,
    problem: Problem,
    facts: dict[str, Any],
    *,
    checkpoint: str | os.PathLike[str] | None,
    never: Any,
    ledger: Ledger | None,
    progress: bool,
) -> Iterator[tuple[dict[str, Any], int]]:
    """The ledger is charged first, then the method may see the records.

    What fails before (arguments, reading) costs nothing; what fails inside stays paid, and what was released until then
    is kept. Gives who listens to what is released, and to progress, and the number of the entry in the ledger.
    """
    with contextlib.ExitStack() as held:
        place = None
        if checkpoint is not None:
            if problem.transformations is not None:
                problem.transformations.check_saved(facts["feature_names"], "a fit with a checkpoint")
            taken = (never, *ledger_files(None if ledger is None else ledger.path))
            place = held.enter_context(reserved(checkpoint, name="checkpoint", never=taken)).path
        if progress and compiles(chosen.first_kernel(problem.n_features)):
            with contextlib.suppress(Exception):  # a stderr that is closed
                print(WORDS, file=sys.stderr, flush=True)
        entry = 0
        if ledger is not None:
            entry = ledger.reserve(*chosen.cost(problem), problem.neighbouring, chosen.name)
        # whatever the caller set: a floating-point error or warning, such as of a number near 0, would tell of a record
        quiet = without_float_errors()
        with keeping(place, **facts) as released, progress_bar(progress, chosen.name) as step, quiet:
            yield {"released": released, "progress": step}, entry

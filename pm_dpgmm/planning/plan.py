"""What a number of records and a budget will buy, before any budget is spent: simulations on public mixtures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pm_dpgmm._arguments import check_choice, check_count, check_delta, check_flag, check_positive, read_numbers
from pm_dpgmm.fit import METHODS, MOST_ASKED_COMPONENTS
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.populous.method import Populous
from pm_dpgmm.methods.populous_single.method import PopulousSingle
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.planning.populous import at_size, populous_settings, simulated_runs
from pm_dpgmm.planning.result import Plan, Trial
from pm_dpgmm.planning.trials import check_settings, predicted_gap, public_mixture, released_data, trial_of
from pm_dpgmm.privacy.guarantee import Neighbouring, warn_if_weak
from pm_dpgmm.privacy.simulated_fits import without_warnings_of_fits
from pm_dpgmm.progress_bar import progress_bar
from pm_dpgmm.release.release import Release

ERROR = 0.1  # nats per record: a visible difference between densities
N_SIMULATIONS = 5
MOST_SIMULATIONS = 10_000
MOST_NUMBERS = 10**8  # of simulated records times columns: below a gigabyte


def plan(
    n_records: int,
    n_features: int,
    n_components: int,
    *,
    epsilon: float,
    delta: float | None = None,
    method: str | Populous = "auto",
    bounds: bool = True,
    neighbouring: str = "replace-one",
    separation: float = 4.0,
    weights: Sequence[float] | None = None,
    error: float = ERROR,
    n_simulations: int = N_SIMULATIONS,
    random_seed: int = 0,
    progress: bool = True,
    **settings: Any,
) -> Plan:
    """What a fit will be worth, before any budget is spent: nothing here sees a record of yours.

    Public mixtures with random axes are drawn, records from each, and fitted by the method with its noise.

    Parameters
    ----------
    n_records, n_features, n_components : int
        Of the fit that is planned; so many records are simulated, and take as much memory.
    epsilon, delta, method, neighbouring, **settings
        As for :func:`pm_dpgmm.fit_gmm`; of settings objects only :class:`Populous`. ``learner`` and ``n_jobs`` are
        among them: for "populous" the learner itself is tried, so give the one that the fit will have. ``resolution``
        is in deviations of the components, which are about 1 here; simulated records are rounded to it. ``transform``
        is left out: the mixtures here are those of transformed records.
    bounds : bool
        Whether there will be bounds, where the method takes any; here they are twice as wide as the records.
    separation : float
        Mahalanobis distance of the nearest two components, in their mean covariance: 4 is apart, 2 overlaps much.
        Method "gaps" is for components farther apart: give it theirs, such as 1e4.
        Method "populous" is then also told this number as its guess, so the plan takes for granted that you guess
        right. Real components that are nearer than the guess make refusals likely: to see how likely, plan with
        ``method=Populous(separation=guess)`` and a smaller ``separation``.
    weights : sequence of float, length K, optional
        Of the components, positive, with sum 1; None: equal. A rare component is what a small budget loses first.
    error : float
        Log-density per record, in nats, that may be lost: 0.01 is hard to see, 0.1 visible, 1 useless.
    n_simulations : int
        Data sets; each takes as long as one fit.
    random_seed : int
        Of the mixtures, records and noise.
    progress : bool
        Show a progress bar on a terminal or in a notebook.

    Returns
    -------
    Plan
        ``plan.table()`` is also its repr; ``plan.enough`` and ``plan.reason`` are the verdict. For "populous",
        ``plan.settings`` is a method for :func:`pm_dpgmm.fit_gmm`, and ``plan.agreement`` tells how likely a pass is
        and how efficient the learner: a number for ``efficiency`` of another plan or fit.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as said, or the method cannot run on such a problem; "populous-single" is not simulated:
        the message has the number of records that it needs at least.

    Warns
    -----
    WeakGuarantee
        If epsilon exceeds 10, or delta is 1/``n_records`` or more.

    Examples
    --------
    >>> found = plan(5_000, 1, 2, epsilon=1.0, delta=1e-6, n_simulations=2)
    >>> found.method, found.enough
    ('sketch', True)
    """
    check_flag(progress=progress)
    name = method if isinstance(method, str) else type(method).__name__
    with without_warnings_of_fits(), progress_bar(progress, name, what="plan") as step:
        found = plan_and_fits(
            n_records,
            n_features,
            n_components,
            epsilon=epsilon,
            delta=delta,
            method=method,
            bounds=bounds,
            neighbouring=neighbouring,
            separation=separation,
            weights=weights,
            error=error,
            n_simulations=n_simulations,
            random_seed=random_seed,
            step=step,
            **settings,
        )[0]
    warn_if_weak(epsilon, delta or 0.0, n_records)
    return found


# ---------------------------------------------------------------------- parts of a plan
def plan_and_fits(
    n_records: int,
    n_features: int,
    n_components: int,
    *,
    epsilon: float,
    delta: float | None = None,
    method: str | Populous = "auto",
    bounds: bool = True,
    neighbouring: str = "replace-one",
    separation: float = 4.0,
    weights: Sequence[float] | None = None,
    error: float = ERROR,
    n_simulations: int = N_SIMULATIONS,
    random_seed: int = 0,
    step: Callable[[int, int], None] = lambda done, total: None,
    **settings: Any,
) -> tuple[Plan, list[Mixture], list[Release]]:
    """The plan, the mixtures it drew and the releases of those that were answered."""
    check_count(n_records=n_records, n_features=n_features)
    check_flag(bounds=bounds)
    if n_records > MOST_NUMBERS // n_features:
        rule = f"n_records must be at most {MOST_NUMBERS // n_features:,} in a plan, which simulates as many"
        raise ValueError(f"{rule}, got {n_records:,}; noise matters less with every record more")
    check_settings(settings)
    name = method.name if isinstance(method, Populous) else method
    truths = _truths(
        n_features, n_components, epsilon, delta, name, separation, weights, error, n_simulations, random_seed
    )
    if n_records < n_components:
        raise ValueError(f"n_records must be at least n_components = {n_components}, got {n_records}")
    bounds = bounds and (name == "auto" or METHODS[name].takes_bounds)
    problem = {"epsilon": epsilon, "delta": delta, "method": method, "neighbouring": neighbouring, **settings}
    if method == PopulousSingle.name:
        raise ValueError(_populous_words(n_records, n_features, n_components, problem))
    trials: list[Trial] = []
    releases: list[Release] = []
    predicted: list[float] = []
    chosen, runs = None, None
    rngs = [np.random.default_rng([random_seed, i, 1]) for i in range(n_simulations)]
    if is_populous(method):
        relation = Neighbouring.parse(neighbouring)
        learner, n_jobs = settings.pop("learner", None), settings.pop("n_jobs", None)
        chosen = at_size(populous_settings(method, settings, separation), int(n_records), relation)
        facts = Problem(
            int(n_records), int(n_features), int(n_components), float(epsilon), float(delta or 0), None, relation
        )
        runs = simulated_runs(chosen, truths, facts, learner=learner, n_jobs=n_jobs, rngs=rngs)
        trials, releases = runs.trials, runs.releases
    for truth, rng in zip(truths, rngs, strict=True) if runs is None else ():
        trial, release = trial_of(truth, int(n_records), bounds, problem, rng)
        trials.append(trial)
        step(len(trials), n_simulations)
        if release is not None:
            releases.append(release)
            if release.statistic is Statistic.SKETCH:
                predicted.append(predicted_gap(released_data(release), truth, n_records))
    if method == "auto":
        name = releases[0].method if releases else "sketch"  # only the sketch may refuse
    made = Plan(
        n_records=int(n_records),
        n_features=int(n_features),
        n_components=int(n_components),
        epsilon=float(epsilon),
        delta=float(delta or 0.0),
        method=name,
        bounds=bool(bounds),
        neighbouring=str(Neighbouring.parse(neighbouring)),
        separation=float(separation),
        weights=tuple(truths[0].weights.tolist()),
        error=float(error),
        trials=tuple(trials),
        predicted=float(np.median(predicted)) if predicted else None,
        settings=chosen,
        agreement=None if runs is None else runs.agreement,
        fewest=None if runs is None else runs.fewest,
    )
    return made, truths, releases


def _truths(
    n_features: int,
    n_components: int,
    epsilon: float,
    delta: float | None,
    method: str,
    separation: float,
    weights: Sequence[float] | None,
    error: float,
    n_simulations: int,
    random_seed: int,
) -> list[Mixture]:
    check_count(most=MOST_ASKED_COMPONENTS, n_components=n_components)
    check_count(most=MOST_SIMULATIONS, n_simulations=n_simulations)
    check_count(least=0, random_seed=random_seed)
    check_positive(epsilon=epsilon, separation=separation, error=error)
    if delta is not None:
        check_delta(delta)
    check_choice(("auto", *METHODS), method=method)
    shares = np.full(n_components, 1 / n_components) if weights is None else read_numbers(weights, "weights")
    if shares.shape != (n_components,) or not (shares > 0).all() or abs(shares.sum() - 1) > 1e-6:
        raise ValueError(f"weights must be {n_components} positive numbers with sum 1, got {weights!r}")
    return [
        public_mixture(
            n_features,
            n_components,
            separation=separation,
            weights=shares / shares.sum(),
            rng=np.random.default_rng([random_seed, i]),
        )
        for i in range(n_simulations)
    ]


def is_populous(method: str | Populous) -> bool:
    return isinstance(method, Populous) or method == Populous.name


def _populous_words(n_records: int, n_features: int, n_components: int, problem: dict[str, Any]) -> str:
    """Two fits to M records differ by about sqrt(2/M) deviations in each of the k d numbers of their means."""
    given = {name: problem[name] for name in problem if name not in ("epsilon", "delta", "method", "neighbouring")}
    chosen = PopulousSingle(**given)
    if not problem["delta"]:
        raise ValueError("method 'populous-single' needs delta greater than 0, got 0")
    facts = Problem(
        n_records,
        n_features,
        n_components,
        problem["epsilon"],
        problem["delta"],
        None,
        Neighbouring.parse(problem["neighbouring"]),
    )
    constants = chosen.constants(facts)
    radius, t = constants.friend_radius, constants.n_subsets
    least = t * 2 * n_components * n_features / radius**2
    return (
        f"method must be another than 'populous-single' to be simulated: its test asks {t} fits to"
        f" agree within {radius:.2g} component deviations, which takes at least about {least:.1e} records,"
        f" got {n_records:,}"
    )

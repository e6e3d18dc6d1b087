"""Has a sampler missed a component of a mixture prior? A question that r_hat cannot answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import expit, logit, softmax

from pm_dpgmm._arguments import FloatArray, check_positive, check_probability, check_text, generator_of, shown
from pm_dpgmm.bayes.arviz_compat import posterior_of
from pm_dpgmm.bayes.coords import model_of
from pm_dpgmm.bayes.prior.label_check import label_gaps, labels_of
from pm_dpgmm.bayes.prior.label_variable import label_density, read_elsewhere
from pm_dpgmm.bayes.prior.measurement import density_of
from pm_dpgmm.bayes.prior.mode_check import EXTRAPOLATED, FROM_MODEL, MARGIN, ModeCheck
from pm_dpgmm.bayes.prior.occupancy import N_BATCHES, Moments, Proposals, batches_of, standard_normal
from pm_dpgmm.bayes.prior.priors import SUFFIX, PriorVariables, prior_variables
from pm_dpgmm.bayes.support import to_unconstrained
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.posterior_draws import last_labels
from pm_dpgmm.records.feature_names import check_order

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released

N_RESAMPLES = 200  # of the batches, for the error of the extrapolation
SMALLEST = 1e-12  # component probability that is told from 0
N_STATES = 24  # posterior draws at which the other variables are held
POINTS, LEAST_POINTS = 100, 20  # importance points of each component at each of them
MOST_EVALUATIONS = 60_000  # of the model's log density


def check_modes(
    idata: Any,
    release: Released | Mixture,
    *,
    name: str | None = None,
    model: Any = None,
    inflate: float = 1.0,
    false_alarm: float = 1e-3,
    random_seed: int | None = None,
    compile_kwargs: dict[str, Any] | None = None,
) -> ModeCheck:
    """Compare how often the draws of a vector are in each component of its mixture prior with how often they should be.

    Chains that all start, or all end, in the wrong component agree with each other: r_hat is 1.00, there are no
    divergences, and the posterior mean is wrong by the distance between components. Costs no privacy budget.

    Parameters
    ----------
    idata : InferenceData, DataTree or Dataset
        With a posterior group, or the posterior.
    release : Release or Mixture
        Whose ``prior`` was used. A background of the release is its component K, the last one.
    name : str, optional
        Of the vector; needed when several variables of the posterior have D values on their last axis. Of a release
        with transformations it is ``{name}_transformed``.
    model : pymc.Model, optional
        The model of the draws, by default the one on the context stack. With it, the share of each component is
        integrated with the model's own likelihood: vector by vector, all other variables at posterior draws. Without
        one, the likelihood is taken for Gaussian and is read off the draws of the component that has most of them.
    inflate : float
        As given to ``prior``; found by itself when there is a model.
    false_alarm : float
        Probability, at most, that draws of a right sampler are flagged. Holds for draws whose autocorrelation is short
        against a twentieth of a chain, and without a model for Gaussian likelihoods.
    random_seed : int, optional
        For importance points and resampling.
    compile_kwargs : dict, optional
        For the model's log density, as ``pm.sample`` takes it.

    Returns
    -------
    ModeCheck

    Raises
    ------
    TypeError
        If ``release`` is neither a Release nor a Mixture.
    ValueError
        If the vector cannot be found, has its features in another order than the release, or too few draws.

    Notes
    -----
    Without a model a vague likelihood is extrapolated over many standard deviations of a component, and a few thousand
    draws cannot tell what it is there: ``verdict`` then is ``"cannot tell"``, and only the model helps. A sharper
    likelihood, which moves or narrows the components visibly, is judged from a thousand draws.

    Draws of a labelled prior are checked for one thing more: where the data speak about the vector x alone, the share
    of draws with label j is the mean of the responsibility of component j for x, whatever the likelihood. Draws of a
    sampler that leaves labels where they are break this. Left out when a model reads labels or offsets elsewhere;
    without a model it is taken that none does.

    With a model it misses what takes several vectors, or a vector and other parameters, moving together. Without one it
    misses, or sees wrongly, what a likelihood that is not Gaussian does far from the draws. Differences below 0.02 are
    not reported. Each comparison allows for quantiles of Student's t times the Monte Carlo errors of both sides (batch
    means of the chains; states, or resampled batches in log odds), shared out over vectors, components and chains.

    Examples
    --------
    >>> import xarray
    >>> g = Mixture([0.5, 0.5], [[0.0], [8.0]], [[[1.0]], [[1.0]]])
    >>> stuck = np.random.default_rng(1).normal(7.3, 0.9, size=(4, 5000, 1))  # a vague datum, and only one component
    >>> draws = xarray.Dataset({"x": (("chain", "draw", "feature"), stuck)})
    >>> check_modes(draws, g, random_seed=1).missed
    ((0, 0),)
    """
    check_positive(inflate=inflate)
    check_probability(false_alarm=false_alarm)
    mixture = density_of(release)
    if name is not None:
        check_text(name=name)
    owner = pm.Model.get_context(error_if_none=False) if model is None else model_of(model, frozen=True)
    owner = None if owner is None else owner.root
    record = None if owner is None else _record(owner, mixture, name, explicit=model is not None)
    if record is None:
        mixture = Mixture(mixture.weights, mixture.means, mixture.covariances * inflate)
    else:
        mixture, name = record.mixture, record.name
    posterior = posterior_of(idata)
    if record is None and getattr(release, "transformations", None) is not None and not str(name).endswith(SUFFIX):
        rule = f"name must be that of the vector in the transformed unit, which ends in {SUFFIX!r}, without a model"
        raise ValueError(f"{rule}, got {shown(name)}")
    name = name or _vector_name(posterior, mixture)
    draws = _draws_of(posterior, name, mixture)  # (C, S, N, D)
    check_order(last_labels(posterior[name]), getattr(release, "feature_names", None), name=name)
    rng = generator_of(random_seed)
    n_chains, _, n_vectors, _ = draws.shape
    k = mixture.n_components

    shares = mixture.responsibilities(draws.reshape(-1, mixture.n_features)).reshape(*draws.shape[:-1], k)
    reads_vectors = owner is None or record is None or _only_vectors_are_read(owner, record)
    labels = labels_of(posterior, name, shape=draws.shape[:-1]) if reads_vectors else None
    batches = batches_of(shares).mean(axis=2)  # (C, B, N, K)
    by_chain, occupancy = shares.mean(axis=1), shares.mean(axis=(0, 1))
    chain_errors = batches.std(axis=1, ddof=1) / np.sqrt(N_BATCHES)
    error = np.sqrt((chain_errors**2).sum(axis=0)) / n_chains
    # equal shares of the false alarms for the chains, for the comparison with what is expected, and for the labels
    level = false_alarm / (2 if labels is None else 3) / (2 * n_vectors * k)
    chain_quantile = stats.t.isf(level / n_chains, N_BATCHES - 1)
    chain_tolerance = MARGIN + chain_quantile * np.sqrt(chain_errors**2 + error**2)

    # what the draws may differ by from the range of what is expected
    slack = MARGIN + stats.t.isf(level, n_chains * N_BATCHES - 1) * error
    if owner is None or record is None:
        expected, low, high = _from_draws(mixture, draws, level, rng=rng)
        effective, source = np.full(n_vectors, np.inf), EXTRAPOLATED
    else:
        run = _ModelRun(owner, record, posterior, compile_kwargs)
        with label_density(owner):
            expected, expected_error, effective = run.estimate(draws, rng=rng)
        reach = stats.t.isf(level, N_STATES - 1) * expected_error
        low, high, source = expected - reach, expected + reach, FROM_MODEL
    label_gap, label_tolerance = (None, None) if labels is None else label_gaps(labels, shares, level=level)
    return ModeCheck(
        name,
        occupancy,
        expected,
        low - slack,
        high + slack,
        by_chain,
        chain_tolerance,
        source,
        effective,
        false_alarm,
        label_gap,
        label_tolerance,
        private=getattr(release, "private", True),
    )


def _record(model: Any, mixture: Mixture, name: str | None, *, explicit: bool) -> PriorVariables | None:
    """The mixture prior of the model that is meant."""
    found = [
        record
        for record in prior_variables(model)
        if record.mixture.means.shape == mixture.means.shape
        and (record.mixture.means == mixture.means).all()
        and name in (None, record.name)
    ]
    if len(found) == 1 or (not found and not explicit):
        return found[0] if found else None
    names = ", ".join(record.name for record in found) or "none"
    raise ValueError(f"name must be the one variable of the model with this prior ({names}), got {name!r}")


def _only_vectors_are_read(model: Any, record: PriorVariables) -> bool:
    """Whether labels given vectors have the law of the prior: nothing else reads them or the offsets."""
    if record.label is None or record.offset is None:
        return True
    return not read_elsewhere(model, model[record.label], model[record.offset], model[record.name])


def _vector_name(posterior: Any, mixture: Mixture) -> str:
    names = [
        str(name)
        for name in posterior.data_vars
        if posterior[name].ndim > 2
        and posterior[name].shape[-1] == mixture.n_features
        and not str(name).endswith(("_offset", "_label"))
    ]
    if len(names) != 1:
        raise ValueError(
            f"name must be given when not exactly one variable has {mixture.n_features} values on its last axis,"
            f" got {', '.join(names) or 'none'}"
        )
    return names[0]


def _draws_of(posterior: Any, name: str, mixture: Mixture) -> FloatArray:
    known = [str(one) for one, draws in posterior.data_vars.items() if {"chain", "draw"} <= set(draws.dims)]
    if name not in known:  # nor a coordinate
        raise ValueError(f"name must be a variable of the posterior ({', '.join(known)}), got {name!r}")
    values = np.asarray(posterior[name].transpose("chain", "draw", ...).values, dtype=float)
    if values.ndim < 3 or values.shape[-1] != mixture.n_features:
        raise ValueError(
            f"{name!r} must have {mixture.n_features} values on its last axis, got shape {values.shape[2:]}"
        )
    if values.shape[1] < 4 * N_BATCHES:
        raise ValueError(f"idata must have at least {4 * N_BATCHES} draws in each chain, got {values.shape[1]}")
    if not np.isfinite(values).all():
        raise ValueError(f"{name!r} must have finite draws only")
    return values.reshape(*values.shape[:2], -1, mixture.n_features)


def _from_draws(
    mixture: Mixture, draws: FloatArray, level: float, *, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Extrapolated component probabilities and their range, all (N, K); batches are resampled within chains.

    Errors of the likelihood enter the log odds about linearly, so the range is symmetric there.
    """
    n_chains = draws.shape[0]
    batches = batches_of(draws)  # (C, B, S // B, N, D)
    flat = batches.reshape(-1, *batches.shape[2:])
    quantile = stats.t.isf(level, n_chains * N_BATCHES - 1)
    first = N_BATCHES * np.arange(n_chains)[:, None]
    found = []
    for i in range(draws.shape[2]):
        moments = Moments.of(mixture, flat[:, :, i])
        chosen = (first + rng.integers(N_BATCHES, size=(N_RESAMPLES, n_chains, N_BATCHES))).reshape(N_RESAMPLES, -1)
        again = np.array([moments.extrapolated(batches) for batches in chosen])
        expected = moments.extrapolated()
        log_odds = logit(np.clip(expected, SMALLEST, 1 - SMALLEST))
        reach = quantile * logit(np.clip(again, SMALLEST, 1 - SMALLEST)).std(axis=0)
        found.append((expected, expit(log_odds - reach), expit(log_odds + reach)))
    expected, low, high = np.moveaxis(np.array(found), 1, 0)
    return expected, low, high


class _ModelRun:
    """The model's log density as a function of one vector, other variables held at posterior draws."""

    def __init__(
        self, model: Any, record: PriorVariables, posterior: Any, compile_kwargs: dict[str, Any] | None
    ) -> None:
        missing = [rv.name for rv in model.free_RVs if rv.name not in posterior]
        if missing:
            raise ValueError(f"idata must hold all free variables of the model, got none of {', '.join(missing)}")
        self.record = record
        self.mixture = record.mixture
        self.factors = np.linalg.cholesky(self.mixture.covariances)
        # pm.sample_posterior_predictive lists observed variables of the model twice, and its logp then fails
        factors = list(dict.fromkeys([*model.basic_RVs, *model.potentials]))
        self.log_density = model.compile_logp(vars=factors, **(compile_kwargs or {}))
        self.convert = to_unconstrained(model)
        self.values = {rv.name: posterior[rv.name].transpose("chain", "draw", ...).values for rv in model.free_RVs}

    def estimate(self, draws: FloatArray, *, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Expected component probabilities and errors (N, K), and effective points (N,)."""
        n_chains, n_draws, n_vectors, d = draws.shape
        k = self.mixture.n_components
        n_points = max(LEAST_POINTS, min(POINTS, MOST_EVALUATIONS // (N_STATES * n_vectors * k)))
        order = np.linspace(0, n_chains * n_draws - 1, N_STATES).round().astype(int)
        states = [
            self.convert({name: value[divmod(index, n_draws)] for name, value in self.values.items()})
            for index in order.tolist()
        ]
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.mixture.weights)
        expected, errors, effective = [], [], []
        for i in range(n_vectors):
            proposals = Proposals(self.mixture, draws[:, :, i].reshape(-1, d))
            found = np.array(
                [
                    [proposals.log_evidence(j, self._log_likelihood(state, i, j), n_points, rng=rng) for j in range(k)]
                    for state in states
                ]
            )  # (states, K, 2)
            shares = softmax(found[:, :, 0] + log_weights, axis=1)
            expected.append(shares.mean(axis=0))
            errors.append(shares.std(axis=0, ddof=1) / np.sqrt(N_STATES))
            matters = expected[-1] > MARGIN
            effective.append(found[:, matters, 1].mean(axis=0).min())
        return np.array(expected), np.array(errors), np.array(effective)

    def _log_likelihood(self, state: dict[str, Any], i: int, component: int) -> Callable[[FloatArray], float]:
        """Everything in the model's density but the prior of vector ``i``, as a function of the vector."""
        record, d = self.record, self.mixture.n_features
        point = dict(state)
        names = [name for name in (record.latent, record.offset, record.label) if name is not None]
        point |= {name: point[name].copy() for name in names}
        if record.label is not None:
            point[record.label].reshape(-1)[i : i + 1] = component
        with np.errstate(divide="ignore"):
            log_weight = np.log(self.mixture.weights[component])

        def log_likelihood(vector: FloatArray) -> float:
            if record.latent is not None:
                point[record.latent].reshape(-1, d)[i] = vector
                prior = float(self.mixture.log_density(vector[None])[0])
            else:
                offset = np.linalg.solve(self.factors[component], vector - self.mixture.means[component])
                point[record.offset or ""].reshape(-1, d)[i] = offset
                prior = standard_normal(offset) + (log_weight if record.label is not None else 0.0)
            return float(self.log_density(point)) - prior

        return log_likelihood

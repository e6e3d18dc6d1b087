"""A learner from a PyMC model: the posterior mode of a mixture, as an example of any black box."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from pm_dpgmm._arguments import FloatArray, check_count
from pm_dpgmm.learners.quiet import without_warnings
from pm_dpgmm.mixture.kmeans_start import mixture_of_cells
from pm_dpgmm.mixture.mixture import LOG_2PI, Mixture

CONCENTRATION = 2.0  # of the Dirichlet prior of the weights
MEAN_SCALE = 2.0  # of the Normal prior of the means, on standardised columns
CORRELATION_SHAPE = 2.0  # eta of the LKJ prior
SCALE_SHAPE, SCALE_RATE = 2.0, 1.0  # a Gamma prior that is 0 at 0 keeps scales from collapsing
OFTEN, SELDOM = None, "FAST_COMPILE"  # modes of PyTensor: of the loss, and of what is called once per start
LEAST_EIGENVALUE = 1e-2  # of a cell's covariance in a start


@dataclass(frozen=True, slots=True)
class MapMixture:
    """Learner that maximises the posterior of a Bayesian mixture written in PyMC, with the labels summed out.

    Columns are standardised by mean and standard deviation of the subset. Priors there: weights Dirichlet(2), means
    N(0, 2^2), correlations LKJ(2), standard deviations Gamma(2, 1), which is 0 at 0, so that scales do not collapse
    (Chung et al. 2013). The mode is that of the usual parameters. L-BFGS starts from several runs of k-means++.

    Parameters
    ----------
    n_components : int
        K.
    n_starts : int
        Runs of k-means++, each optimised; the highest posterior wins.
    max_iterations : int
        Of the optimiser, for each start.
    seed : int
        Of the starts, the only source of chance: the same subset gives the same mixture on the same machine.

    Raises
    ------
    TypeError, ValueError
        If a setting is no integer in its range. A call raises ValueError if the subset is not a matrix of finite
        numbers that vary in every column, or no start leads to a finite density.
    ImportError
        If PyMC is missing.

    Notes
    -----
    A process compiles the model once for each pair of K and D, at the first fit; the rows are an input, so subsets of
    all sizes share it, and PyTensor keeps the compiled code on disk for later processes. Measured on a busy machine for
    K = 2 and D = 1, 2: minutes the first time ever, 5 to 10 s in a new process, then about 0.1 s for a fit to 1000 rows
    with four starts.

    References
    ----------
    Chung, Rabe-Hesketh, Dorie, Gelman and Liu (2013), A nondegenerate penalized likelihood estimator for variance
    parameters in multilevel models.

    Examples
    --------
    >>> g = Mixture([0.4, 0.6], [[0.0], [5.0]], [[[1.0]], [[1.0]]])
    >>> fit = MapMixture(2)(g.sample(300, rng=np.random.default_rng(0)))
    >>> sorted(fit.means[:, 0].round().astype(int).tolist())
    [0, 5]
    """

    n_components: int
    n_starts: int = 4
    max_iterations: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_count(n_components=self.n_components, n_starts=self.n_starts, max_iterations=self.max_iterations)
        check_count(least=0, seed=self.seed)
        if importlib.util.find_spec("pymc") is None:
            raise ImportError("MapMixture needs PyMC: pip install pymc")

    def prepare(self, n_components: int, n_features: int) -> None:
        """Compile; a server of :mod:`pm_dpgmm.learners.process` calls this before it forks a child for every fit."""
        compiled_posterior(n_components, n_features)

    def __call__(self, subset: ArrayLike) -> Mixture:
        """Mixture of ``subset`` (M, D), in its unit."""
        subset = np.asarray(subset, dtype=float)
        if subset.ndim != 2 or 0 in subset.shape or not np.isfinite(subset).all():
            raise ValueError(f"subset must be a matrix of finite numbers, got shape {subset.shape}")
        centre, scale = subset.mean(axis=0), subset.std(axis=0)
        if not (scale > 0).all():
            raise ValueError("subset must vary in every column")
        rows = (subset - centre) / scale
        posterior = compiled_posterior(self.n_components, subset.shape[1])
        found = []
        for i in range(self.n_starts):
            rng = np.random.default_rng([self.seed, i])
            start = mixture_of_cells(rows, rows, self.n_components, floor=LEAST_EIGENVALUE, rng=rng)
            if start is None:
                continue
            best = minimize(
                posterior.loss,
                posterior.pack(start[0]),
                args=(rows,),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": self.max_iterations, "maxfun": 10**6, "ftol": 1e-12, "gtol": 1e-7},
            )
            if np.isfinite(best.fun):
                found.append(best)
        if not found:
            raise ValueError("no start led to a finite posterior density")
        best = min(found, key=lambda one: one.fun)
        return posterior.unpack(best.x).transformed(np.diag(scale), centre)


class CompiledPosterior(NamedTuple):
    """Functions of one flat vector of unconstrained parameters, for any number of rows."""

    loss: Callable[[FloatArray, FloatArray], tuple[float, FloatArray]]  # minus log posterior per row, gradient
    pack: Callable[[Mixture], FloatArray]
    unpack: Callable[[FloatArray], Mixture]


@functools.cache
def compiled_posterior(n_components: int, n_features: int) -> CompiledPosterior:
    """The posterior of K components in D standardised columns, compiled once for each process and pair of sizes."""
    import pymc as pm
    import pytensor.tensor as pt

    from pm_dpgmm.bayes.pymc_compat import expand_packed_triangular

    k, d = n_components, n_features
    x = pt.matrix("x", dtype="float64")
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.full(k, CONCENTRATION)) if k > 1 else pt.ones(1)
        means = pm.Normal("means", 0.0, MEAN_SCALE, shape=(k, d))
        if d > 1:
            scale = pm.Gamma.dist(SCALE_SHAPE, SCALE_RATE, shape=d)
            packed = [
                pm.LKJCholeskyCov(f"factor_{a}", n=d, eta=CORRELATION_SHAPE, sd_dist=scale, compute_corr=False)
                for a in range(k)
            ]
            factors = pt.stack([expand_packed_triangular(d, one, lower=True) for one in packed])
        else:
            factors = pm.Gamma("scales", SCALE_SHAPE, SCALE_RATE, shape=(k, 1, 1))
        pm.Potential("likelihood", _log_density(x, weights, means, factors).sum())
    values = model.value_vars
    log_posterior = model.logp(jacobian=False)  # the mode in the usual parameters, whatever the transforms
    evaluate = _compiled([x, *values], [log_posterior, *pt.grad(log_posterior, values)], OFTEN)
    free = [weights] * (k > 1) + [means] + (packed if d > 1 else [factors])
    constrain = _compiled(values, model.replace_rvs_by_values([weights, means, factors]), SELDOM)
    inputs = [rv.type() for rv in free]
    images = []
    for rv, given in zip(free, inputs, strict=True):
        transform = model.rvs_to_transforms[rv]
        images.append(given if transform is None else transform.forward(given, *rv.owner.inputs))
    unconstrain = _compiled(inputs, images, SELDOM)
    shapes = [(k - 1,)] * (k > 1) + [(k, d)] + ([(d * (d + 1) // 2,)] * k if d > 1 else [(k, 1, 1)])
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])

    def split(flat: FloatArray) -> list[FloatArray]:
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]

    def loss(flat: FloatArray, rows: FloatArray) -> tuple[float, FloatArray]:
        value, *gradient = evaluate(rows, *split(flat))
        return -float(value) / len(rows), -np.concatenate([np.ravel(part) for part in gradient]) / len(rows)

    def pack(mixture: Mixture) -> FloatArray:
        roots = np.asarray(np.linalg.cholesky(mixture.covariances), dtype=float)
        row, column = np.tril_indices(d)
        given = [mixture.weights] * (k > 1) + [mixture.means]
        given += [root[row, column] for root in roots] if d > 1 else [roots]
        parts: list[FloatArray] = unconstrain(*given)
        return np.concatenate([np.ravel(part) for part in parts])

    def unpack(flat: FloatArray) -> Mixture:
        w, m, roots = constrain(*split(flat))
        return Mixture(w / w.sum(), m, roots @ np.swapaxes(roots, 1, 2))

    return CompiledPosterior(loss, pack, unpack)


def _compiled(inputs: Any, outputs: Any, mode: str | None) -> Any:
    import pytensor

    with without_warnings(message="PyTensor could not link to a BLAS"):  # no matrix products here
        return pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")


def _log_density(x: Any, weights: Any, means: Any, factors: Any) -> Any:
    """Log mixture density of the rows of ``x`` (M, D) by forward substitution: far faster than pm.Mixture(MvNormal)."""
    import pytensor.tensor as pt

    d = means.type.shape[1]
    solved: list[Any] = []
    for i in range(d):
        rest = x[:, None, i] - means[None, :, i]
        for j in range(i):
            rest = rest - factors[None, :, i, j] * solved[j]
        solved.append(rest / factors[None, :, i, i])
    log_determinants = pt.log(pt.diagonal(factors, axis1=1, axis2=2)).sum(axis=-1)
    squares = sum(one**2 for one in solved)
    return pt.logsumexp(pt.log(weights) - log_determinants - 0.5 * squares - 0.5 * d * LOG_2PI, axis=1)

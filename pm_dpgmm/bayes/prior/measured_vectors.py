"""Vectors with a mixture prior that were measured with normal noise, for every sampler: the labels are summed out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pm_dpgmm._arguments import check_positive, read_numbers, shown
from pm_dpgmm.bayes.coords import add_dim, check_new, last_coordinates, model_of
from pm_dpgmm.bayes.prior.measurement import check_covariance, default_design, labelled, prior_of
from pm_dpgmm.bayes.prior.priors import checked_dims
from pm_dpgmm.bayes.prior.separation import without_empty
from pm_dpgmm.bayes.pymc_compat import CheckAndRaise, with_gradient
from pm_dpgmm.bayes.rows.density_graph import log_sum
from pm_dpgmm.bayes.rows.missing import read_rows
from pm_dpgmm.mixture.mixture import LOG_2PI, Mixture
from pm_dpgmm.records.feature_names import check_columns, check_order

READ = (
    "{!r} must not be read by another term of the model's density when a gradient is taken: it jumps from component to"
    " component, which gradient samplers cannot follow; put all that was measured into one call of measured(), or use"
    " prior() with pm.sample()"
)


def measured(
    name: str,
    release: Any,
    observed: Any,
    noise_cov: Any,
    *,
    design: Any = None,
    offset: Any = None,
    feature_names: Sequence[str] | None = None,
    dims: str | Sequence[str] | None = None,
    inflate: float = 1.0,
    model: Any = None,
) -> Any:
    """Add to a PyMC model vectors x with the released density that were measured: observed = A x + b + N(0, noise_cov).

    Any sampler is right, nutpie and other gradient samplers too, however far apart the components are. Noise, design
    and offset may be unknown. Post-processing: costs no privacy budget.

    Parameters
    ----------
    name : str
        Of the vectors.
    release : Release or Mixture
        K components in D dimensions; a background of a release is one more, the last. The vectors must be of other
        people than the release.
    observed : array_like, DataFrame or TensorVariable, shape (M,) or (N, M)
        Of one vector, or of N independent ones. NaN where nothing was measured, but not in a ``pm.Data`` variable.
    noise_cov : array_like or TensorVariable, shape (M, M) or (N, M, M)
        Covariance of the noise, positive definite, in the unit of ``observed`` squared.
    design : array_like or TensorVariable, shape (M, D) or (N, M, D), optional
        A; the identity by default.
    offset : array_like or TensorVariable, shape (M,) or (N, M), optional
        b; zero by default.
    feature_names : sequence of str, length D, optional
        Coordinate values for the feature dimension when the model does not have it yet; by default those of a release.
    dims : str or two str, optional
        Of x: the features, or the vectors and the features. What the model does not have yet is added.
    inflate : float
        Multiplies every covariance of the prior.
    model : pymc.Model, optional
        The model on the context stack by default.

    Returns
    -------
    TensorVariable, shape (D,) or (N, D)
        x, a Deterministic.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, has the wrong shape or is out of range.

    Notes
    -----
    The observed variable ``{name}_measured`` has the density of the measurements with x and the labels integrated out,
    a mixture of normals. Given everything else, x is a mixture in closed form (``gaussian_posterior``): a free uniform
    ``{name}_uniform`` picks its component and a free standard normal ``{name}_offset`` the place in it. Both have
    their prior law in the posterior, so a sampler finds nothing to get stuck in, and x is an exact draw at each of
    theirs. With K > 1 x jumps with the uniform, so a term of the density that reads it has no gradient: ``pm.sample``
    raises ``SamplingError``, nutpie finds no start and numpyro diverges at every draw. Deterministics may read x.
    Draws of x "from the prior" are given ``observed``.

    Examples
    --------
    >>> import pymc as pm
    >>> g = Mixture([0.5, 0.5], [[0.0], [9.0]], [[[1.0]], [[1.0]]])
    >>> with pm.Model() as model:
    ...     s = pm.HalfNormal("s")
    ...     x = measured("x", g, [[0.3], [8.0]], s**2 * np.eye(1), dims=("patient", "feature"))
    >>> [rv.name for rv in model.free_RVs], model.named_vars_to_dims["x"]
    (['s', 'x_uniform', 'x_offset'], ('patient', 'feature'))
    """
    check_positive(inflate=inflate)
    mixture = without_empty(prior_of(release, function="measured"))
    feature_names = getattr(release, "feature_names", None) if feature_names is None else feature_names
    mixture = Mixture(mixture.weights / mixture.weights.sum(), mixture.means, mixture.covariances * inflate)
    own_design = design is None
    observed, noise_cov, design, offset = labelled(feature_names, observed, noise_cov, design, offset)
    values, there, columns = _read(observed)
    if own_design:
        check_columns(columns, feature_names, name="observed")
    ndim, m = values.ndim, _n_measured(values)
    design = default_design(m, mixture.n_features) if own_design else design
    shapes = {"offset": (m,), "design": (m, mixture.n_features), "noise_cov": (m, m)}
    given = {"offset": np.zeros(m) if offset is None else offset, "design": design, "noise_cov": noise_cov}
    parts = [_tensor(part, given[part], shape, values) for part, shape in shapes.items()]
    names = [f"{name}_{part}" for part in ("measured", "offset", *(["uniform"] if mixture.n_components > 1 else []))]
    with model_of(model) as owner:
        check_new(owner, name, *names)
        if own_design:
            check_order(last_coordinates(owner, observed), feature_names, name="observed")
        if dims is not None:
            dims = (dims,) if isinstance(dims, str) else dims
            if not isinstance(dims, Sequence) or len(dims) != ndim:
                raise ValueError(f"dims must be {ndim} names for observed with {ndim} dimensions, got {shown(dims)}")
            if ndim == 2 and values.type.shape[0] is not None and isinstance(dims[0], str):
                add_dim(owner, dims[0], values.type.shape[0])
        dims = checked_dims(owner, dims, feature_names, mixture.n_features)
        law = _Law(mixture, there)
        pm.CustomDist(
            f"{name}_measured",
            *parts,
            logp=law.log_density,
            dist=law.draw,
            signature="(m),(m,d),(m,m)->(m)",
            observed=values,
            class_name="MeasuredMixture",
        )
        lead = tuple(values.shape[:-1])
        size: dict[str, Any] = {"shape": (*lead, mixture.n_features)} if dims is None else {"dims": dims}
        x = law.posterior(values, *parts)
        if mixture.n_components > 1:
            some = {"shape": lead} if dims is None else {"dims": dims[:-1] or None}
            uniform = pm.Uniform(f"{name}_uniform", 0.0, 1.0, **some)
            offset_rv = pm.Normal(f"{name}_offset", 0.0, 1.0, **size)
            vector = _only_looked_at(x(offset_rv, uniform), uniform, name)
        else:
            vector = x(pm.Normal(f"{name}_offset", 0.0, 1.0, **size), None)
        return pm.Deterministic(name, vector, dims=dims)


class _Law:
    """Of measurements y = A x + b + noise with x from a mixture of K components in D dimensions."""

    def __init__(self, mixture: Mixture, there: Any) -> None:
        self.log_weights, self.weights = np.log(mixture.weights), mixture.weights
        self.means = mixture.means
        self.factors = np.linalg.cholesky(mixture.covariances)
        self.there = there  # (N, M) or (M,) of what was measured, None when all was

    def log_density(self, value: Any, offset: Any, design: Any, noise: Any) -> Any:
        """Of every vector's measurements, shape (...)."""
        return log_sum(self._joint(*self._masked(value, offset, design, noise))[0])

    def draw(self, offset: Any, design: Any, noise: Any, size: Any) -> Any:
        """New measurements of new vectors."""
        label = pm.Categorical.dist(p=self.weights, size=offset.shape[:-1] if size is None else size)
        normal = pm.Normal.dist(pt.zeros((*label.shape, self.means.shape[1])), 1)
        means, factors = pt.as_tensor(self.means), pt.as_tensor(self.factors)
        x = means[label] + (factors[label] * normal[..., None, :]).sum(axis=-1)
        errors = pm.Normal.dist(pt.zeros((*label.shape, offset.shape[-1])), 1)
        root = pt.linalg.cholesky(noise, lower=True)
        return offset + (design * x[..., None, :]).sum(axis=-1) + (root * errors[..., None, :]).sum(axis=-1)

    def posterior(self, value: Any, offset: Any, design: Any, noise: Any) -> Any:
        """Function of a standard normal (..., D) and a uniform (...) that gives x (..., D) its posterior law."""
        parts = self._masked(value, offset, design, noise)
        joint, residuals, gains, seen = self._joint(*parts)
        shifts = (gains * residuals[..., None]).sum(axis=-2)  # (..., K, D)
        # as (1 + B'B)^-1 with B in units of the noise: a difference would lose its digits where the noise is small
        root = pt.linalg.cholesky(parts[3], lower=True)[..., None, :, :]
        scaled = pt.linalg.solve_triangular(root, seen, lower=True, b_ndim=2)
        inner = pt.linalg.cholesky(np.eye(self.means.shape[1]) + scaled.mT @ scaled, lower=True)

        def vector(normal: Any, uniform: Any) -> Any:
            steps = pt.linalg.solve_triangular(inner.mT, normal[..., None, :], lower=False, b_ndim=1)
            places = self.means + (self.factors * (shifts + steps)[..., None, :]).sum(axis=-1)  # (..., K, D)
            if uniform is None:
                return places[..., 0, :]
            shares = pt.exp(joint - log_sum(joint)[..., None])
            ends = pt.cumsum(shares, axis=-1)[..., :-1]
            label = (uniform[..., None] > ends).sum(axis=-1)
            chosen = pt.eq(label[..., None], np.arange(len(self.means)))
            return pt.where(chosen[..., None], places, 0.0).sum(axis=-2)

        return vector

    def _masked(self, value: Any, offset: Any, design: Any, noise: Any) -> tuple[Any, Any, Any, Any]:
        """The same with what is missing as 0, measured with a noise of 1 that tells nothing of x."""
        if self.there is None:
            return value, offset, design, noise
        there, mask = self.there, self.there.astype(float)
        value = pt.where(there, value, 0.0)
        noise = pt.where(there[..., None] & there[..., None, :], noise, (1 - mask)[..., None] * np.eye(mask.shape[-1]))
        return value, mask * offset, mask[..., None] * design, noise

    def _joint(self, value: Any, offset: Any, design: Any, noise: Any) -> tuple[Any, Any, Any, Any]:
        """Log of weight times density (..., K); residuals and gains in units of their spread; the factors as seen."""
        seen = design[..., None, :, :] @ self.factors  # (..., K, M, D)
        root = pt.linalg.cholesky(seen @ seen.mT + noise[..., None, :, :], lower=True)
        centres = (design[..., None, :, :] * self.means[:, None, :]).sum(axis=-1)
        rest = (value - offset)[..., None, :] - centres
        residuals = pt.linalg.solve_triangular(root, rest, lower=True, b_ndim=1)
        gains = pt.linalg.solve_triangular(root, seen, lower=True, b_ndim=2)
        log_scales = pt.log(pt.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)
        measured_ = value.shape[-1] if self.there is None else self.there.sum(axis=-1)[..., None]
        joint = self.log_weights - 0.5 * (residuals**2).sum(axis=-1) - log_scales - 0.5 * LOG_2PI * measured_
        return joint, residuals, gains, seen


def _only_looked_at(vector: Any, uniform: Any, name: str) -> Any:
    """``vector`` without a gradient, so that no gradient sampler takes it for a smooth function of the uniform."""

    # a graph that raises when it is computed: PyTensor 3 builds the gradients of operations also to compare them
    refuse = CheckAndRaise(pm.exceptions.SamplingError, READ.format(name))
    # JAX takes its own gradients: that of the root of min(u, 0) = 0 is 0 times infinity
    guarded = vector + pt.sqrt(pt.minimum(uniform, 0.0))[..., None]
    inner = guarded.type()

    def gradient(inputs: list[Any], outputs: list[Any], gradients: list[Any]) -> list[Any]:
        return [refuse(gradients[0], pt.constant(False))]

    return with_gradient([inner], [pt.identity(inner)], gradient)(guarded)


def _read(observed: Any) -> tuple[Any, Any, tuple[str, ...] | None]:
    """Measurements as a tensor, which of them are there, None when all are, and names of columns if they have some."""
    if isinstance(observed, pt.Variable):
        if observed.ndim not in (1, 2):
            raise ValueError(f"observed must have shape (M,) or (N, M), got {observed.ndim} dimensions")
        return observed, None, None
    try:
        one = not hasattr(observed, "columns") and np.ndim(observed) == 1
    except (TypeError, ValueError):  # lists of unequal lengths, and what is no array
        one = False
    rows, columns = read_rows(np.ma.atleast_2d(observed) if one else observed)
    rows = rows[0] if one else rows
    there = ~np.isnan(rows)
    # a constant, because PyMC would replace NaN in an array by random variables to sample
    return pt.constant(rows), None if there.all() else there, columns


def _n_measured(values: Any) -> int:
    """Columns of the measurements: by their type, or as a ``pm.Data`` variable has them now."""
    m = values.type.shape[-1]
    if m is None and hasattr(values, "get_value"):
        m = values.get_value(borrow=True).shape[-1]
    if m is None:
        rule = "observed must be a variable with a known number of columns (pymc.Data, or pytensor's specify_shape)"
        raise ValueError(f"{rule}, got {shown(values)} of shape {values.type.shape}")
    return int(m)


def _tensor(name: str, given: Any, core: tuple[int, ...], values: Any) -> Any:
    """``given`` as a tensor of shape ``core``, or with one for each vector."""
    symbolic = isinstance(given, pt.Variable)
    tensor = given if symbolic else pt.constant(read_numbers(given, name))
    batch = tensor.ndim - len(core)
    wanted = (values.type.shape[0], *core) if batch == 1 and values.ndim == 2 else core
    fits = tensor.ndim == len(wanted) and all(
        a == b or a is None or b is None for a, b in zip(tensor.type.shape, wanted, strict=True)
    )
    if not fits:
        more = f" or {(values.type.shape[0], *core)}" if values.ndim == 2 else ""
        raise ValueError(f"{name} must have shape {core}{more}, got {tensor.type.shape}")
    if not symbolic:
        if not np.isfinite(tensor.data).all():
            raise ValueError(f"{name} must hold finite numbers, got {shown(given)}")
        if name == "noise_cov":
            check_covariance(tensor.data)
    return tensor

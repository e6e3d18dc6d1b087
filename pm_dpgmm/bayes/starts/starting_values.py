"""Initial values of a PyMC model from a Gaussian mixture."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_count, check_non_negative, generator_of, shown
from pm_dpgmm.bayes.coords import check_coordinates, model_of
from pm_dpgmm.bayes.marks import centred_variables
from pm_dpgmm.bayes.prior.priors import PriorVariables, prior_variables
from pm_dpgmm.bayes.support import MARGIN, component_order, constrained_start, into_support, mended_start
from pm_dpgmm.mixture.mixture import Mixture

MOST_CHAINS = 100_000  # each has a dictionary of its own
# Names that need no mapping, alone (`mu`) or with a component number (`mu_0`, `mu0`); case matters. Where there is a
# number K and no 0, components are counted from 1.
DEFAULT_NAMES = {
    "weights": ("w", "weights", "weight", "pi"),
    "means": ("mu", "mus", "means", "mean"),
    "covariances": ("cov", "covs", "covariance", "covariances", "Sigma"),
    "sds": ("sd", "sds", "sigma", "sigmas"),
    "chol": ("chol", "chols", "packed_chol", "packed_L"),
}


def initvals(
    mixture: Mixture,
    model: Any = None,
    *,
    mapping: Mapping[Any, str] | None = None,
    feature_names: Sequence[str] | None = None,
    chains: int = 4,
    jitter: float = 0.05,
    random_seed: int | None = None,
) -> list[dict[str, Any]]:
    """Starting values for ``pm.sample(initvals=..., init="adapt_diag")``, one dictionary per chain.

    ``init="adapt_diag"`` matters: the default of ``pm.sample`` adds U(-1, 1) on the unconstrained scale to whatever
    it is given, which multiplies a standard deviation by up to 2.7. With nutpie PyMC 5 ignores a list,
    PyMC 6 refuses it and takes one dictionary, and nutpie adds the same U(-1, 1): see ``set_initvals``. PyMC 6 chooses
    nutpie by itself, where it is installed and every variable is continuous, unless ``init`` or a list is given.

    Parameters
    ----------
    mixture : Mixture
        K components in D dimensions.
    model : pymc.Model, optional
        The model on the context stack by default.
    mapping : dict from variable (or its name) to field, optional
        Fields: ``"weights"`` (K,), ``"means"`` (K, D), ``"covariances"`` (K, D, D), ``"sds"`` (K, D; standard
        deviations) and ``"chol"`` (K, D (D+1) / 2; lower Cholesky factors row by row, or (K, D, D)). ``"chol:0"``
        is the field of component 0 alone, as for ``LKJCholeskyCov``. Dimensions of length 1 may be missing.
        Without a mapping, free variables with a common name **and** a fitting shape are used: w, mu, cov, sigma,
        chol, their plurals, and the same with a component number (``DEFAULT_NAMES``). ``{}`` maps nothing.
    feature_names : sequence of str, length D, optional
        Names of the columns: a variable whose coordinates have them at other places is an error.
    chains : int
        Length of the list.
    jitter : float
        Spread between chains, no unit: standard deviation of log weights, of means in standard deviations of their
        component, and of relative Cholesky factors. 0 starts all chains at the mixture.
    random_seed : int, optional
        The same seed gives the same values.

    Returns
    -------
    list of dict
        Constrained values by variable name, all inside the open support of their variable: zero weights are lifted,
        positive values floored, values outside an interval pulled in. Where a variable is ordered over components,
        the same permutation is applied to every mapped variable. Variables made by ``mixture_prior`` are drawn from
        their own mixture, independently for each chain. Offsets made by ``release.params`` start at their own
        release, ``jitter`` of their unit away. Other variables keep the start of the model, unless that is no point of
        their support (PyMC starts ordered variables at equal values): then they get a prior draw.

    Raises
    ------
    TypeError
        If ``mixture`` is not a Mixture or a number is of the wrong type.
    ValueError
        If a mapped name is no free continuous variable, a field is unknown or has another shape, features stand in
        another order, two variables ask for different orders of the components, a value cannot be moved into the
        support, or nothing in the model can be initialised.

    Examples
    --------
    >>> import pymc as pm
    >>> g = Mixture([1.0, 0.0], [[5.0], [-5.0]], [[[1.0]], [[4.0]]])
    >>> with pm.Model() as model:
    ...     w = pm.Dirichlet("w", [1.0, 1.0])
    ...     mu = pm.Normal("mu", 0, 10, shape=2, transform=pm.distributions.transforms.ordered)
    >>> start = initvals(g, model, chains=1, jitter=0.0)[0]
    >>> start["mu"], start["w"].round(3)
    (array([-5.,  5.]), array([0.001, 0.999]))
    """
    check_count(chains=chains)
    if chains > MOST_CHAINS:
        raise ValueError(f"chains must be at most {MOST_CHAINS}, got {shown(chains)}")
    check_non_negative(jitter=jitter)
    rng = generator_of(random_seed)
    owner, start, mended, targets, own = _plan(mixture, model, mapping, feature_names, rng=rng)
    mixtures = [_jittered(mixture, jitter, rng=rng) for _ in range(chains)]
    values = _mapped_values(owner, start, targets, mixture, mixtures)
    centred = [name for name in centred_variables(owner) if name not in targets]
    return [
        mended
        | chain
        | _draws(own, start, rng=rng)
        | {name: jitter * rng.standard_normal(start[name].shape) for name in centred}
        for chain in values
    ]


def set_initvals(
    mixture: Mixture,
    model: Any = None,
    *,
    mapping: Mapping[Any, str] | None = None,
    feature_names: Sequence[str] | None = None,
    jitter: float = 0.0,
    random_seed: int | None = None,
) -> set[Any]:
    """Store starting values in the model, for samplers that read them there (``pm.sample``, nutpie and others).

    Mapped variables, and offsets made by ``release.params``, start at the mixture; variables made by ``mixture_prior``
    start at a fresh prior draw in each chain. Samplers may add their own jitter: pass ``init="adapt_diag"`` to
    ``pm.sample``, and what is returned here as ``jitter_rvs`` to ``nutpie.compile_pymc_model``, or with PyMC 6 as
    ``pm.sample(nuts_sampler="nutpie", compile_kwargs={"jitter_rvs": rest})``.

    Parameters
    ----------
    mixture, model, mapping, feature_names
        As in ``initvals``.
    jitter : float
        As in ``initvals``, the same for all chains. nutpie refuses a start at which some derivative is exactly 0, as at
        the mean of a normal variable that no data speak to; a jitter avoids that.
    random_seed : int, optional
        Of the jitter, and of prior draws for variables that PyMC starts outside their support.

    Returns
    -------
    set of variables
        Free variables that keep the model's own start.

    Raises
    ------
    TypeError, ValueError
        As in ``initvals``.
    """
    check_non_negative(jitter=jitter)
    rng = generator_of(0 if random_seed is None else random_seed)
    owner, start, mended, targets, own = _plan(mixture, model, mapping, feature_names, rng=rng)
    values = mended | _mapped_values(owner, start, targets, mixture, [_jittered(mixture, jitter, rng=rng)])[0]
    for name, value in values.items():
        owner.set_initval(owner[name], value)
    centred = set(centred_variables(owner)) - set(targets)
    for name in centred:
        owner.set_initval(owner[name], jitter * rng.standard_normal(start[name].shape))
    drawn = {name for record in own for name in (record.latent, record.offset, record.label) if name is not None}
    for name in drawn:
        owner.set_initval(owner[name], "prior")
    return {rv for rv in owner.free_RVs if rv.name not in drawn | centred | set(values)}


def _plan(
    mixture: Mixture,
    model: Any,
    mapping: Mapping[Any, str] | None,
    feature_names: Sequence[str] | None,
    *,
    rng: np.random.Generator,
) -> tuple[Any, dict[str, Any], dict[str, Any], dict[str, str], list[PriorVariables]]:
    """Root model, its constrained starting point, what was mended in it, fields by name, unmapped prior variables."""
    if not isinstance(mixture, Mixture):
        raise TypeError(f"mixture must be a Mixture, got {type(mixture).__name__}")
    owner = model_of(model, frozen=True).root
    start = constrained_start(owner)
    continuous = {rv.name: start[rv.name].shape for rv in owner.free_RVs if rv.dtype.startswith("float")}
    if mapping is None:
        targets = _default_targets(mixture, continuous)
    else:
        _check_mapping(mapping)
        targets = {getattr(key, "name", key): field for key, field in mapping.items()}
        _check_targets(mixture, continuous, targets)
    if feature_names is not None and mixture.n_features > 1:
        _check_features(owner, targets, feature_names)
    own = [
        record
        for record in prior_variables(owner)
        if {record.latent, record.offset, record.label} - {None} <= set(start) - set(targets)
    ]
    if not targets and not own and not centred_variables(owner):
        looked_for = "; ".join(f"{field}: {', '.join(names)}" for field, names in DEFAULT_NAMES.items())
        raise ValueError(
            f"model must have a variable to initialise: one made by mixture_prior or params, one in mapping, or a"
            f" default name ({looked_for}) with a fitting shape; got free variables {_listed(continuous)}"
        )
    mended = {name: value for name, value in mended_start(owner, start, rng=rng).items() if name not in targets}
    return owner, start | mended, mended, targets, own


def _check_mapping(mapping: object) -> None:
    if not isinstance(mapping, Mapping):
        raise TypeError(f"mapping must map names of variables to fields, got {shown(mapping)}")


def _check_features(model: Any, targets: Mapping[str, str], feature_names: Sequence[str]) -> None:
    """ValueError if the coordinates of a variable say that its features stand at other places than the release's."""
    for name, field in targets.items():
        base = field.partition(":")[0]
        dims = model.named_vars_to_dims.get(name) or ()
        n_last = {"weights": 0, "means": 1, "sds": 1}.get(base, 2)  # axes over features
        for place, dim in enumerate(dims):
            present = model.coords.get(dim) if dim is not None else None
            if present is None:
                continue
            if place >= len(dims) - n_last:
                check_coordinates(dim, present, feature_names)
            elif set(feature_names) <= set(present):
                raise ValueError(f"{name!r} must have features along its last dimension for {field!r}, got dims {dims}")


def _default_targets(mixture: Mixture, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    targets = {}
    for name, shape in shapes.items():
        for field, names in DEFAULT_NAMES.items():
            match = re.fullmatch(rf"(?:{'|'.join(names)})(?:_?(\d+))?", name.rsplit("::", 1)[-1])
            if match is None:
                continue
            known, candidate = True, field
            if match[1] is not None:
                stem = name.removesuffix(match[1])
                from_one = f"{stem}{mixture.n_components}" in shapes and f"{stem}0" not in shapes
                number = int(match[1]) - from_one
                known, candidate = 0 <= number < mixture.n_components, f"{field}:{number}"
            # A guess by name must not stop a model in which, say, sigma is a scalar noise level.
            if known and any(layout.shape == shape for layout in _layouts(mixture, candidate)):
                targets[name] = candidate
    return targets


def _check_targets(mixture: Mixture, shapes: Mapping[str, tuple[int, ...]], targets: Mapping[str, str]) -> None:
    for name, field in targets.items():
        if name not in shapes:
            raise ValueError(f"mapping must name free continuous variables ({_listed(shapes)}), got {name!r}")
        base, _, index = field.partition(":") if isinstance(field, str) else ("", "", "")
        known = not index or (index.isdecimal() and int(index) < mixture.n_components)
        if base not in DEFAULT_NAMES or not known or field.endswith(":"):
            fields = ", ".join(DEFAULT_NAMES)
            limit = mixture.n_components - 1
            raise ValueError(f"field of {name!r} must be one of {fields}, or with :0 to :{limit}, got {shown(field)}")
        options = [layout.shape for layout in _layouts(mixture, field)]
        if shapes[name] not in options:
            expected = " or ".join(map(str, dict.fromkeys(options)))
            one = f"{field}:0"
            alone = not index and any(layout.shape == shapes[name] for layout in _layouts(mixture, one))
            advice = f"; {one!r} is that of component 0 alone" if alone else ""
            raise ValueError(f"{name!r} must have shape {expected} for field {field!r}, got {shapes[name]}{advice}")


def _layouts(mixture: Mixture, field: str) -> list[FloatArray]:
    """Arrays that hold ``field``, most common shape first; equal in content."""
    base, _, index = field.partition(":")
    d = mixture.n_features
    factors = np.linalg.cholesky(mixture.covariances)
    layouts: list[FloatArray] = {
        "weights": [mixture.weights],
        "means": [mixture.means],
        "covariances": [mixture.covariances],
        "sds": [np.sqrt(np.diagonal(mixture.covariances, axis1=1, axis2=2))],
        "chol": [factors[:, *np.tril_indices(d)], factors],
    }[base]
    if d == 1 and base != "weights":
        layouts = [*layouts, layouts[0].reshape(mixture.n_components)]
    if index:
        return [np.asarray(layout[int(index)]) for layout in layouts]
    return layouts + [layout[0] for layout in layouts if mixture.n_components == 1 and layout.ndim > 1]


def _jittered(mixture: Mixture, jitter: float, *, rng: np.random.Generator) -> Mixture:
    """A mixture near ``mixture``, by noise that has the same size in every unit of the data."""
    if jitter == 0:
        return mixture
    k, d = mixture.means.shape
    weights = np.maximum(mixture.weights, MARGIN) * np.exp(jitter * rng.standard_normal(k))
    factors = np.linalg.cholesky(mixture.covariances)
    means = mixture.means + jitter * (factors @ rng.standard_normal((k, d, 1)))[..., 0]
    relative = np.tril(jitter * rng.standard_normal((k, d, d)), -1)
    relative += np.exp(jitter * rng.standard_normal((k, 1, d))) * np.eye(d)
    factors = factors @ relative
    return Mixture(weights / weights.sum(), means, factors @ np.swapaxes(factors, 1, 2))


def _mapped_values(
    model: Any, start: dict[str, Any], targets: Mapping[str, str], mixture: Mixture, mixtures: list[Mixture]
) -> list[dict[str, Any]]:
    """Constrained values of the mapped variables, one dictionary for each of ``mixtures``."""

    def layout(source: Mixture, name: str) -> FloatArray:
        return next(array for array in _layouts(source, targets[name]) if array.shape == start[name].shape)

    # From the mixture itself: jitter must not change which component is which between chains.
    over_components = {name for name, field in targets.items() if ":" not in field and mixture.n_components > 1}
    order = component_order(model, {name: layout(mixture, name) for name in targets}, over_components)
    ordered = mixtures if order is None else [source.permuted(order) for source in mixtures]
    return into_support(model, start, [{name: layout(source, name) for name in targets} for source in ordered])


def _draws(records: list[PriorVariables], start: dict[str, Any], *, rng: np.random.Generator) -> dict[str, Any]:
    """One draw of every variable that ``mixture_prior`` made."""
    values: dict[str, Any] = {}
    for record in records:
        mixture = record.mixture
        if record.latent is not None:
            shape = start[record.latent].shape
            n_points = int(np.prod(shape[:-1]))
            values[record.latent] = mixture.sample(n_points, rng=rng).reshape(shape)
        if record.offset is not None:
            values[record.offset] = rng.standard_normal(start[record.offset].shape)
        if record.label is not None:
            probabilities = mixture.weights / mixture.weights.sum()
            shape = start[record.label].shape
            values[record.label] = rng.choice(mixture.n_components, size=shape, p=probabilities)
    return values


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "none"

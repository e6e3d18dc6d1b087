"""The PyMC step that moves the labels of a mixture prior."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from scipy.special import log_softmax

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.coords import model_of
from pm_dpgmm.bayes.prior.label_variable import Licence, MixtureLabelRV, read_elsewhere
from pm_dpgmm.bayes.pymc_compat import (
    BlockedStep,
    Competence,
    StepMethodState,
    dataclass_state,
    offer_step,
    step_methods,
)
from pm_dpgmm.mixture.mixture import Mixture

JUMPS = 8  # tried at every step, spread over the vectors; at least one for each of them


def mixture_label(
    name: str, mixture: Mixture, *, latent: str, offset: str, dims: tuple[str, ...] | None, model: Any
) -> Any:
    """Add to ``model`` the label of a mixture prior; ``latent`` and ``offset`` are full names of its variables.

    Raises
    ------
    RuntimeError
        If ``pm.sample`` cannot be made to choose ``MixtureLabels``.
    """
    offer_step(MixtureLabels)
    if MixtureLabels not in step_methods():
        raise RuntimeError(f"PyMC's steps must accept MixtureLabels, got {step_methods()} after it was put in")
    shape = tuple(model.dim_lengths[dim] for dim in dims or ())
    plain = pm.Categorical.dist(p=mixture.weights / mixture.weights.sum(), shape=shape).owner
    operation = MixtureLabelRV(mixture, latent, offset)
    return model.register_rv(operation.make_node(*plain.inputs).outputs[1], name, dims=dims)


@dataclass_state
class MixtureLabelsState(StepMethodState):
    """Nothing is tuned."""


class MixtureLabels(BlockedStep):
    """Step for the labels of ``mixture_prior(form="labelled")``; ``pm.sample`` picks it without being asked.

    Two moves leave the posterior unchanged, and need each other. Write x = mean_j + L_j o for the vector, j for its
    label and o for its offset.

    1. The label is redrawn while x stays where it is, so the offset becomes L_j^-1 (x - mean_j). With a likelihood
       that reads x alone, the law of j given x is proportional to w_j N(x; mean_j, S_j) whatever the data say: an exact
       Gibbs step. When something else in the model reads the label or the offset, it is a Metropolis step instead.
    2. A jump to another component, as far as the likelihood allows: either the offset is kept, or x moves by s times
       the way between the two means, with s from 0 to 1, the same or 0 and 1 at random for each feature. Metropolis
       steps, with the Jacobian det L_i / det L_j of o in terms of x.

    With a sharp likelihood every jump is refused and the first move alone finds the component; with a vague one, the
    jumps do.

    Parameters
    ----------
    vars : list
        One label variable of the model.
    model : pymc.Model, optional
    rng : numpy.random.Generator, optional
    initial_point, compile_kwargs, blocked
        As for every step of PyMC.

    Notes
    -----
    Sampling statistic ``label_jumps``: share of the jumps that were accepted.
    """

    name = "mixture_labels"
    default_blocked = False
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {"label_jumps": (np.float64, [])}
    _state_class = MixtureLabelsState

    def __init__(
        self,
        vars: list[Any],
        *,
        model: Any = None,
        rng: Any = None,
        initial_point: Any = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = False,
    ) -> None:
        model = model_of(model, frozen=True)
        (value,) = (model.rvs_to_values.get(variable, variable) for variable in vars)
        variable = model.values_to_rvs[value]
        operation = variable.owner.op
        if not isinstance(operation, MixtureLabelRV):
            raise ValueError(f"vars must be the label of a labelled mixture_prior, got {value}")
        if operation.offset not in {free.name for free in model.free_RVs}:
            raise pm.exceptions.SamplingError(
                f"{operation.offset!r} must be a free variable for the labels of {operation.latent!r} to be moved,"
                " got a model in which it was fixed or observed: fix the label too, or the vector alone"
            )
        self.vars = [value]
        self.rng = np.random.default_rng(rng)
        self.label, self.offset = value.name, operation.offset
        self.means = operation.mixture.means
        self.factors = np.linalg.cholesky(operation.mixture.covariances)
        self.log_scales = np.log(np.diagonal(self.factors, axis1=1, axis2=2)).sum(axis=1)
        with np.errstate(divide="ignore"):
            self.log_weights = np.log(operation.mixture.weights)
        self.possible = np.flatnonzero(operation.mixture.weights)
        self.log_density = model.compile_logp(**(compile_kwargs or {}))
        self.exact = not read_elsewhere(model, variable, model[self.offset], model[operation.latent])
        # at exit nobody needs the count, and a forked worker must not touch its parent's
        weakref.finalize(self, Licence(variable).give_back).atexit = False

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Ideal for the label of a labelled mixture prior, useless for anything else."""
        operation = getattr(var.owner, "op", None)
        return Competence.IDEAL if isinstance(operation, MixtureLabelRV) else Competence.INCOMPATIBLE

    def step(self, point: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """New values of the label and the offset in ``point``."""
        shape = np.shape(point[self.label])
        n_features = self.means.shape[1]
        labels = np.array(point[self.label]).reshape(-1)
        offsets = np.array(point[self.offset], dtype=float).reshape(-1, n_features)
        state = _State(self, point, labels, offsets, shape)
        self._redraw(state)
        accepted = self._jump(state)
        self._redraw(state)
        return state.point(), [{"label_jumps": accepted}]

    def _redraw(self, state: _State) -> None:
        """Labels given the vectors."""
        vectors = self.vectors(state.labels, state.offsets)
        offsets = self.offsets_of(vectors)
        joint = self.log_weights - self.log_scales - 0.5 * (offsets**2).sum(axis=-1)
        log_shares = log_softmax(joint, axis=1)
        # Gumbel's way to draw from log probabilities
        drawn = np.argmax(log_shares + self.rng.gumbel(size=log_shares.shape), axis=1)
        rows = np.arange(len(drawn))
        if self.exact:
            state.set(drawn, offsets[rows, drawn])
            return
        for i in np.flatnonzero(drawn != state.labels):
            old, new = state.labels[i], drawn[i]
            correction = log_shares[i, old] - log_shares[i, new] + self.log_scales[old] - self.log_scales[new]
            state.propose(i, new, offsets[i, new], correction)

    def _jump(self, state: _State) -> float:
        """Metropolis jumps to other components; the share that was accepted."""
        if len(self.possible) < 2:
            return 0.0
        n_vectors, n_features = state.offsets.shape
        rounds = max(1, -(-JUMPS // n_vectors))
        accepted = 0
        for i in np.tile(self.rng.permutation(n_vectors), rounds):
            old = state.labels[i]
            new = self.rng.choice(self.possible[self.possible != old])
            kind = self.rng.integers(3)
            if kind == 0:
                accepted += state.propose(i, new, state.offsets[i], 0.0)
                continue
            share = self.rng.uniform() if kind == 1 else self.rng.integers(2, size=n_features)
            # from mean_old + L o by a share of the way between the means
            ahead = self.factors[old] @ state.offsets[i] + (1 - share) * (self.means[old] - self.means[new])
            offset = np.linalg.solve(self.factors[new], ahead)
            accepted += state.propose(i, new, offset, self.log_scales[old] - self.log_scales[new])
        return accepted / (rounds * n_vectors)

    def vectors(self, labels: Any, offsets: FloatArray) -> FloatArray:
        """x, shape (N, D)."""
        return np.asarray(self.means[labels] + (self.factors[labels] @ offsets[..., None])[..., 0])

    def offsets_of(self, vectors: FloatArray) -> FloatArray:
        """The offset that each component needs for each vector, shape (N, K, D)."""
        centred = vectors[:, None, :] - self.means
        return np.asarray(np.linalg.solve(self.factors, centred[..., None])[..., 0])


class _State:
    """Labels (N,) and offsets (N, D) of one point, with the log density of the model as far as it is needed."""

    def __init__(
        self, step: MixtureLabels, point: dict[str, Any], labels: Any, offsets: FloatArray, shape: tuple[int, ...]
    ) -> None:
        self.step, self.start, self.labels, self.offsets, self.shape = step, point, labels, offsets, shape
        self.log_density: float | None = None

    def point(self) -> dict[str, Any]:
        """The whole point; arrays are copies."""
        label, offset = self.start[self.step.label], self.start[self.step.offset]
        return self.start | {
            self.step.label: self.labels.astype(np.asarray(label).dtype).reshape(self.shape),
            self.step.offset: self.offsets.astype(np.asarray(offset).dtype).reshape(np.shape(offset)),
        }

    def set(self, labels: Any, offsets: FloatArray) -> None:
        self.labels, self.offsets, self.log_density = labels, offsets, None

    def propose(self, i: Any, label: Any, offset: FloatArray, correction: float) -> bool:
        """Metropolis step of vector ``i``; ``correction`` is the log of the Jacobian and of what was proposed how."""
        if self.log_density is None:
            self.log_density = float(self.step.log_density(self.point()))
        old = self.labels[i], self.offsets[i].copy()
        self.labels[i], self.offsets[i] = label, offset
        log_density = float(self.step.log_density(self.point()))
        gain = log_density - self.log_density + correction
        if np.isfinite(gain) and np.log(self.step.rng.uniform()) < gain:
            self.log_density = log_density
            return True
        self.labels[i], self.offsets[i] = old
        return False


offer_step(MixtureLabels)  # before any pm.sample

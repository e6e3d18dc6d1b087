"""Labels of a mixture prior: a Categorical that knows its mixture, whose density only the right step may evaluate."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

from pm_dpgmm.bayes.coords import model_of
from pm_dpgmm.bayes.pymc_compat import CategoricalRV, CheckAndRaise, is_known, log_density_of, running_samplers
from pm_dpgmm.mixture.mixture import Mixture

REFUSAL = (
    "labels of {!r} must be moved by MixtureLabels, as other samplers get the posterior of a labelled mixture prior"
    " wrong: call pm.sample() without a step for them, or use measured() in place of prior() where the vector was"
    " measured with normal noise, with any sampler, or make the prior with form='mixture' for samplers that find"
    " modes by themselves (pm.sample_smc); to evaluate the density alone, use"
    " 'with pm_dpgmm.bayes.label_density(model):'"
)


class MixtureLabelRV(CategoricalRV):
    """Categorical variable that says which component a vector belongs to.

    The mixture and the names of the other two variables travel with the operation, so that copies of a model
    (``pm.do``, ``pm.observe``) and pickled ones keep them. The density can be evaluated only while ``licences_of`` the
    variable, or the ``contexts_of`` its operation, are above 0.
    """

    __props__ = (*CategoricalRV.__props__, "mixture", "latent", "offset")

    def __init__(self, mixture: Mixture, latent: str, offset: str, **properties: Any) -> None:
        super().__init__(**properties)
        self.mixture = mixture
        self.latent = latent
        self.offset = offset


class Licence:
    """Of one step, to have the density of its label evaluated: until the step, or the ``pm.sample`` that made it, ends.

    A step can outlive its sampler: an exception that ended it holds the step for as long as somebody holds the
    exception, as notebooks do. The next sampler of the model, whatever moves its labels, is not licensed by that step.
    """

    def __init__(self, label: Any) -> None:
        generator = label.owner.inputs[0]
        self.licences, self.held = licences_of(label), True
        self.sampler = next(iter(running_samplers().get(threading.get_ident(), ())), None)  # None: made by hand
        license_density(self.licences, 1)
        _HOLDERS.setdefault(generator, WeakSet()).add(self)

    def give_back(self) -> None:
        """Once, however often it is asked."""
        if self.held:
            self.held = False
            license_density(self.licences, -1)


# By the random generator of a label, as below.
_HOLDERS: WeakKeyDictionary[Any, WeakSet[Licence]] = WeakKeyDictionary()
# By the random generator of a label: the operation is shared by the copies of a model, the generator is each one's own.
_LICENCES: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
# By operation: PyMC evaluates priors in a copy of the model, which is made where a context is open already.
_CONTEXTS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def licences_of(label: Any) -> Any:
    """Shared scalar: how many steps for this ``label`` live."""
    return _licences(label.owner.inputs[0])


def contexts_of(op: MixtureLabelRV) -> Any:
    """Shared scalar: how many ``label_density`` contexts are open, of a model with this label or of a copy of it."""
    if op not in _CONTEXTS:
        _CONTEXTS[op] = pytensor.shared(np.array(0, dtype=np.int64), name="label_contexts")
    return _CONTEXTS[op]


def _licences(generator: Any) -> Any:
    if generator not in _LICENCES:
        _LICENCES[generator] = pytensor.shared(np.array(0, dtype=np.int64), name="label_licences")
    return _LICENCES[generator]


def withdraw_finished(generator: Any) -> None:
    """Take back the licences of steps whose sampler has ended."""
    holders = list(_HOLDERS.get(generator, ()))
    if holders:
        running = {sampler for samplers in running_samplers().values() for sampler in samplers}
        for licence in holders:
            if licence.sampler is not None and licence.sampler not in running:
                licence.give_back()


def license_density(licences: Any, change: int) -> None:
    """Count a living step, or an open context, in or out."""
    licences.set_value(licences.get_value() + change)


@log_density_of(MixtureLabelRV)
def _label_log_density(op: MixtureLabelRV, values: Any, *inputs: Any, **kwargs: Any) -> Any:
    """Log probability of labels; raises when something evaluates it that may not, unless they were observed."""
    (value,) = values
    found = pm.logp(pm.Categorical.dist(p=inputs[-1]), value)
    if is_known(value):
        return found
    withdraw_finished(inputs[0])  # whoever builds a density is about to evaluate it
    licensed = _licences(inputs[0]) + contexts_of(op) > 0
    # PyTensor leaves checks out where it compiles with JAX; NUTS then stops at a density that is no number
    found = pt.switch(licensed, found, np.nan)
    return CheckAndRaise(pm.exceptions.SamplingError, REFUSAL.format(op.latent))(found, licensed)


@contextmanager
def label_density(model: Any = None) -> Iterator[None]:
    """Context in which the log density of a model with labelled mixture priors can be evaluated, and of its copies.

    Elsewhere it raises ``pymc.exceptions.SamplingError`` unless ``MixtureLabels`` moves the labels: other samplers get
    the posterior of a labelled prior wrong without a sign of it. Not meant for sampling.

    Parameters
    ----------
    model : pymc.Model, optional
        The model on the context stack by default. Models without labels are left as they are. Copies, as
        ``pm.compute_log_prior`` makes one, are meant too.

    Examples
    --------
    >>> import pymc as pm
    >>> from pm_dpgmm.bayes import mixture_prior
    >>> g = Mixture([0.5, 0.5], [[0.0], [9.0]], [[[1.0]], [[1.0]]])
    >>> with pm.Model() as model:
    ...     x = mixture_prior("x", g)
    >>> with label_density(model):
    ...     float(model.compile_logp()({"x_label": 0, "x_offset": [0.0]}).round(3))
    -1.612
    """
    with ExitStack() as stack:
        for variable in model_of(model, frozen=True).basic_RVs:
            if variable.owner is not None and isinstance(variable.owner.op, MixtureLabelRV):
                contexts = contexts_of(variable.owner.op)
                license_density(contexts, 1)
                stack.callback(license_density, contexts, -1)
        yield


def read_elsewhere(model: Any, label: Any, offset: Any, latent: Any) -> bool:
    """Whether anything in the density of ``model`` reads the label or the offset other than through the vector."""
    others = [rv for rv in model.basic_RVs if rv is not label and rv is not offset]
    return bool({label, offset} & _ancestors([*others, *model.potentials], stop=latent))


def _ancestors(variables: Iterable[Any], *, stop: Any) -> set[Any]:
    pending, seen = list(variables), set()
    while pending:
        variable = pending.pop()
        if variable is not stop and variable not in seen:
            seen.add(variable)
            pending += [] if variable.owner is None else variable.owner.inputs
    return seen

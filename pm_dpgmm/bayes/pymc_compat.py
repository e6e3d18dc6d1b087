"""What the package takes from inside PyMC and PyTensor, for every version that it supports (PyMC 5.28.2 to 6).

The only module that imports from below ``pymc`` or knows that versions differ. ``tests/bayes/test_pymc_compat.py`` says
for each thing what goes wrong when it changes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pymc
import pymc.model.core
import pymc.sampling.mcmc
from pymc.data import is_valid_observed
from pymc.distributions.transforms import Ordered, SumTo1
from pymc.initial_point import make_initial_point_fn
from pymc.logprob.abstract import _logprob
from pymc.logprob.transforms import (
    ChainedTransform,
    IntervalTransform,
    LogOddsTransform,
    LogTransform,
    SimplexTransform,
    Transform,
)
from pymc.math import expand_packed_triangular
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import optdb
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.traversal import graph_inputs
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.random.basic import CategoricalRV

from pm_dpgmm.bayes.compiled.kernel_calls import by_address, version_of

__all__ = [
    "AnyModel",
    "BlockedStep",
    "CategoricalRV",
    "ChainedTransform",
    "CheckAndRaise",
    "Competence",
    "IntervalTransform",
    "LogOddsTransform",
    "LogTransform",
    "Ordered",
    "SimplexTransform",
    "StepMethodState",
    "SumTo1",
    "Transform",
    "dataclass_state",
    "expand_packed_triangular",
    "is_known",
    "is_valid_observed",
    "log_density_of",
    "make_initial_point_fn",
    "offer_step",
    "running_samplers",
    "step_methods",
    "use_graph_form",
    "use_kernel",
    "with_dims",
    "with_gradient",
]


# PyMC 6.4 has frozen models, which are no pymc.Model
AnyModel: Any = getattr(pymc.model.core, "BaseModel", pymc.Model)


def step_methods() -> list[Any]:
    """The list itself from which ``pm.sample`` chooses steps: PyMC 6 holds it in a module, PyMC 5 at its root."""
    found: list[Any] | None = getattr(pymc.sampling.mcmc, "STEP_METHODS", None)
    return pymc.STEP_METHODS if found is None else found


def offer_step(step: type[Any]) -> None:
    """Put ``step`` before the others that ``pm.sample`` chooses from, once; the first of equally competent ones wins.

    The list is changed in place: a new one under the same name would not be read by PyMC 6.
    """
    methods = step_methods()
    if step not in methods:
        methods.insert(0, step)


def running_samplers() -> dict[int, list[int]]:
    """By thread, the ids of the frames of ``pm.sample`` that are running in it, innermost first."""
    code = inspect.unwrap(pymc.sampling.mcmc.sample).__code__
    found: dict[int, list[int]] = {}
    for thread, top in sys._current_frames().items():
        frame: FrameType | None = top
        while frame is not None:
            if frame.f_code is code:
                found.setdefault(thread, []).append(id(frame))
            frame = frame.f_back
    return found


def log_density_of(operation: type[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator of the function that builds the log density of variables made by ``operation``.

    It is called as ``f(op, values, *inputs, **kwargs)``, ``inputs`` being those of the random variable's node.
    """
    registered: Callable[[Callable[..., Any]], Callable[..., Any]] = _logprob.register(operation)
    return registered


def is_known(value: Any) -> bool:
    """Whether ``value`` is made of constants and data alone, as that of an observed variable is."""
    return all(isinstance(root, Constant | SharedVariable) for root in graph_inputs([value]))


def with_dims(variable: Any, dims: Sequence[str]) -> Any:
    """``variable`` with named dimensions, in a PyMC that has been made aware of them."""
    import pymc.dims

    return pymc.dims.as_xtensor(variable, dims=tuple(dims))


def with_gradient(
    inputs: Sequence[Any], outputs: Sequence[Any], gradient: Callable[..., list[Any]], *, inline: bool = False
) -> Any:
    """An operation from ``inputs`` to ``outputs`` with its own ``gradient(inputs, outputs, output_gradients)``."""
    renamed = "pullback" in inspect.signature(OpFromGraph.__init__).parameters  # from PyTensor 3
    return OpFromGraph(
        list(inputs), list(outputs), inline=inline, **{"pullback" if renamed else "lop_overrides": gradient}
    )


def use_kernel(operation: type[Any], kernel: Any) -> None:
    """Let PyTensor's Numba backend compute ``operation`` by ``kernel``, a function that ``numba.njit`` made.

    PyTensor keeps compiled code on disk under the operation's name, so a version of the kernel is part of the key.
    """

    @register_funcify_default_op_cache_key(operation)
    def _(op: Any, node: Any = None, **kwargs: Any) -> tuple[Any, int]:
        return by_address(kernel, node.inputs), version_of(kernel)


def use_graph_form(operation: type[Any]) -> None:
    """Let PyTensor's JAX backend replace nodes of ``operation`` and its subclasses by ``op.graph(*inputs)``.

    The gradient is asked for before, so it is itself such a node.
    """

    @node_rewriter(None)
    def expand(fgraph: Any, node: Any) -> Any:
        return list(node.op.graph(*node.inputs)) if isinstance(node.op, operation) else None

    optdb.register(f"{operation.__name__}_graph_form", dfs_rewriter(expand), "jax", "mlx", position=0.02)

"""What this package remembers about variables of a PyMC model: on the node that makes them, so every copy has it.

Nodes of PyTensor keep their tags when a model is copied by ``pm.do``, ``pm.observe``, ``freeze_dims_and_data``,
``freeze_model`` or pickling (variables lose theirs where a type is made more exact); a table beside the model would not
know its copies. ``tests/bayes/test_model_copies.py`` goes through all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ATTRIBUTE = "pm_dpgmm"
CENTRED = "centred"  # value 0 of the free variable is a released mixture: where samplers should start
PRIOR = "prior"  # a vector with a mixture prior
USE = "use"  # of a release, as the centre of a prior or as evidence


def mark(variable: Any, kind: str, value: Any = True) -> None:
    """Remember ``value``, which must never change, about a random variable or potential of a model."""
    tag = variable.owner.tag
    # a new tuple: copies of a node share what their tags hold
    setattr(tag, ATTRIBUTE, (*getattr(tag, ATTRIBUTE, ()), (kind, value)))


def marks(variables: list[Any], kind: str) -> Iterator[tuple[Any, Any]]:
    """Those of ``variables`` that have marks of a kind, with their values, oldest first."""
    for variable in variables:
        found = () if variable.owner is None else getattr(variable.owner.tag, ATTRIBUTE, ())
        yield from ((variable, value) for own, value in found if own == kind)


def centred_variables(model: Any) -> tuple[str, ...]:
    """Names of the free variables of ``model`` all of whose zeros are a released mixture."""
    return tuple(variable.name for variable, _ in marks(model.root.free_RVs, CENTRED))

"""Log densities of a released sketch as PyTensor operations that give their derivatives as well."""

from __future__ import annotations

from typing import Any

from pm_dpgmm.bayes.compiled.value_with_slopes import ValueWithSlopes
from pm_dpgmm.bayes.likelihoods import sketch_graph
from pm_dpgmm.bayes.likelihoods.sketch_kernel import exact, plug_in


class HeldSketch(ValueWithSlopes):
    """With a covariance that is held at the release; see :func:`sketch_kernel.plug_in`."""

    gufunc_signature = "(k),(k,d),(k,d,d),(e,d),(d),(a,e),(n),(q,n),(o)->(o),(k),(k,d),(k,d,d)"
    kernel = plug_in

    def value(self, *inputs: Any) -> Any:
        return sketch_graph.plug_in(*inputs)


class ExactSketch(ValueWithSlopes):
    """With the covariance at the mixture itself; see :func:`sketch_kernel.exact`."""

    gufunc_signature = "(k),(k,d),(k,d,d),(m,d),(d),(n),(n),(s,n),(n)->(o),(k),(k,d),(k,d,d)"
    kernel = exact

    def value(self, *inputs: Any) -> Any:
        return sketch_graph.exact(*inputs)


held_of, exact_of = HeldSketch(), ExactSketch()

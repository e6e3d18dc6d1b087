"""The log density of randomised sides of waves as a PyTensor operation that gives its derivatives as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
from scipy import special

from pm_dpgmm.bayes.compiled.value_with_slopes import ValueWithSlopes, value_of
from pm_dpgmm.bayes.likelihoods import local_graph
from pm_dpgmm.bayes.likelihoods.local_kernel import sides
from pm_dpgmm.methods.local.responses import WaveResponses


class SidesDensity(ValueWithSlopes):
    """See :func:`local_kernel.sides`."""

    gufunc_signature = "(k),(k,d),(k,d,d),(m,d),(m),(m),(m),(l)->(o),(k),(k,d),(k,d,d)"
    kernel = sides

    def value(self, *inputs: Any) -> Any:
        return local_graph.sides(*inputs)


sides_of = SidesDensity()


def side_density(responses: WaveResponses, weights: Any, means: Any, chol: Any) -> Any:
    """Binomial log probabilities, given how many were asked about each wave, shape ().

    Its numbers are shared variables: compiled code is the same for every release of so many waves.
    """
    n, k = responses.asked, responses.ones
    constant = (special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)).sum()
    law = np.append(responses.channel, constant)
    fixed = (responses.frequencies, responses.phases, n, k, law)
    return value_of(sides_of, weights, means, chol, *(pytensor.shared(np.array(one), shape=one.shape) for one in fixed))

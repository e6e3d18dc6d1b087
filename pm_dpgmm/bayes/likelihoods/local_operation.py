"""Log densities of counts of randomised responses as PyTensor operations that give their derivatives as well."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytensor
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.compiled.value_with_slopes import ValueWithSlopes, value_of
from pm_dpgmm.bayes.likelihoods import local_graph
from pm_dpgmm.bayes.likelihoods.local_kernel import cells, sides
from pm_dpgmm.methods.local.responses import CellResponses, SubsetResponses, WaveResponses
from pm_dpgmm.mixture.cell_probabilities import check_columns
from pm_dpgmm.mixture.mixture import LOG_2PI

N_NODES = 24  # in a cell: wider ones than a histogram has


class SidesDensity(ValueWithSlopes):
    """See :func:`local_kernel.sides`."""

    gufunc_signature = "(k),(k,d),(k,d,d),(m,d),(m),(m),(m),(l)->(o),(k),(k,d),(k,d,d)"
    kernel = sides

    def value(self, *inputs: Any) -> Any:
        return local_graph.sides(*inputs)


class NamedCells(ValueWithSlopes):
    """Of responses that name a cell or a subset of cells; see :func:`local_kernel.cells`."""

    gufunc_signature = "(k),(k,d),(k,d,d),(d,e),(r,q),(s),(t,m),(l)->(o),(k),(k,d),(k,d,d)"
    kernel = cells

    def value(self, *inputs: Any) -> Any:
        return local_graph.cells(*inputs, bits=False)


class CellBits(ValueWithSlopes):
    """Of responses that have a bit for each cell; see :func:`local_kernel.cells`."""

    gufunc_signature = NamedCells.gufunc_signature
    kernel = cells

    def value(self, *inputs: Any) -> Any:
        return local_graph.cells(*inputs, bits=True)


sides_of, named_of, bits_of = SidesDensity(), NamedCells(), CellBits()


def side_density(responses: WaveResponses, weights: Any, means: Any, chol: Any) -> Any:
    """Binomial log probabilities, given how many were asked about each wave, shape ().

    Its numbers are shared variables: compiled code is the same for every release of so many waves.
    """
    n, k = responses.asked, responses.ones
    constant = (special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)).sum()
    law = np.append(responses.channel, constant)
    return value_of(sides_of, weights, means, chol, *_shared(responses.frequencies, responses.phases, n, k, law))


def cell_density(responses: CellResponses | SubsetResponses, weights: Any, means: Any, chol: Any) -> Any:
    """Log probability of named cells or subsets, or log density of bits' counts, shape ().

    Multinomial; of subsets that nobody reported nothing is needed.
    """
    check_columns(responses.n_features)
    counts, n = responses.counts, float(responses.n_responses)
    members = np.zeros((0, (responses.edges.shape[1] + 1) ** responses.n_features))
    constant = float(special.gammaln(n + 1) - special.gammaln(counts + 1).sum())
    inside, outside = map(float, responses.channel)
    bits = isinstance(responses, CellResponses) and responses.kind == "unary"
    if isinstance(responses, SubsetResponses):
        members, (inside, outside) = responses.members, responses.heights
    elif bits:
        constant = -0.5 * len(counts) * (math.log(n) + LOG_2PI)
    law = np.array([bits, outside, inside - outside, constant, n])
    fixed = _shared(responses.edges, np.array(special.roots_legendre(N_NODES)), counts, members, law)
    return value_of(bits_of if bits else named_of, weights, means, chol, *fixed)


def _shared(*arrays: FloatArray) -> list[Any]:
    return [pytensor.shared(np.array(one, dtype=float), shape=one.shape) for one in arrays]

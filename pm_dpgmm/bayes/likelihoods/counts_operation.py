"""The log density of noisy counts on a grid as one PyTensor operation that gives its derivatives as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from scipy import special

from pm_dpgmm.bayes.compiled.value_with_slopes import PARAMETERS, ValueWithSlopes, value_of
from pm_dpgmm.bayes.likelihoods.counts_graph import log_count
from pm_dpgmm.bayes.likelihoods.counts_kernel import READ, counts
from pm_dpgmm.methods.counts.histogram_law import FORMS, NoisyGrid, log_density, log_noise_height, totals_of
from pm_dpgmm.methods.counts.noisy_poisson import SMALLEST_SCALE
from pm_dpgmm.mixture.cell_probabilities import N_NODES, cell_probabilities, check_columns


class CountDensity(ValueWithSlopes):
    """See :func:`counts_kernel.counts`."""

    gufunc_signature = "(k),(k,d),(k,d,d),(d,e),(r,q),(m),(l),(t)->(o),(k),(k,d),(k,d,d)"
    kernel = counts

    def value(self, *inputs: Any) -> Any:
        if not all(isinstance(one, Constant) for one in inputs[PARAMETERS:]):
            raise NotImplementedError("second derivatives and other backends need the noisy counts as constants")
        edges, _rule, noisy, law, _totals = (one.data for one in inputs[PARAMETERS:])
        weights, means, chol = inputs[:PARAMETERS]
        bounds, scale = law[READ + 1 :].reshape(-1, 2), float(law[READ])
        grid = NoisyGrid(noisy, bounds, edges.shape[1] + 1, scale, int(law[1]) or None)
        n = -1 if law[6] > 0 else None
        probabilities = cell_probabilities(edges, weights[:n], means[:n], chol[:n], xp=pt)
        if n is not None:
            probabilities += weights[-1] / noisy.size
        return log_density(grid, probabilities, form=FORMS[1 - int(law[0])], xp=pt, log_count=log_count)


count_density_of = CountDensity()


def count_density(grid: NoisyGrid, form: str, weights: Any, means: Any, chol: Any, *, flat: bool = False) -> Any:
    """``histogram_law.log_density`` at a mixture of one or two columns, shape ().

    With ``flat`` the last component is uniform over the bins, whatever its mean and factor. The numbers of the grid are
    constants: the graph form depends on them.
    """
    check_columns(len(grid.bounds))
    scale = max(grid.noise_scale, SMALLEST_SCALE)
    totals, log_step = totals_of(grid) if grid.n_records is None else (np.zeros(0), 0.0)
    law = [
        form == "exact",
        grid.n_records or 0,
        1 / scale,
        grid.noise_variance,
        log_noise_height(scale),
        log_step,
        flat,
    ]
    law += [grid.noise_scale, *grid.bounds.ravel()]  # for the graph form
    fixed = (grid.edges, special.roots_legendre(N_NODES), grid.counts, law, totals)
    return value_of(
        count_density_of, weights, means, chol, *(pt.constant(np.asarray(one, dtype=float)) for one in fixed)
    )

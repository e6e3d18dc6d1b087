"""How much faster is the gradient of ``dpg.gmm`` than that of ``pm.Mixture(MvNormal)``? Same model, same values.

``python -m verification.benchmarks.gmm_density``: K = 3, D = 2, 60 and 1,000 rows, all parameters random, with the
backend that PyMC chooses here. Calls as samplers make them: arrays go in as they are, without checks. Rounds of both
densities alternate and the best of many short ones counts, so that other work on the machine hurts neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

import pm_dpgmm as dpg
from pm_dpgmm.bayes.parameters.params import mixture_params
from pm_dpgmm.mixture.mixture import Mixture

ROWS = (60, 1000)
N_ROUNDS, ROUND = 60, 0.01  # seconds
LEAST = 15.0  # times faster
KINDS = ("gmm", "mixture")

TRUTH = Mixture(
    [0.5, 0.3, 0.2],
    [[0.0, 0.0], [3.0, 1.0], [-1.0, 3.5]],
    [[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.2], [0.2, 0.5]], [[0.8, -0.3], [-0.3, 0.6]]],
)


def rows(n_rows: int, *, seed: int) -> np.ndarray:
    """Data of the benchmark, shape (n_rows, 2)."""
    return TRUTH.sample(n_rows, rng=np.random.default_rng(seed))


def add_rows(kind: str, th: Any, data: np.ndarray) -> None:
    """The likelihood of ``data`` in the current model, by our density or by PyMC's."""
    if kind == "gmm":
        dpg.gmm("y", th, observed=data)
    else:
        components = pm.MvNormal.dist(mu=th.means, chol=th.chol)
        pm.Mixture("y", w=th.weights, comp_dists=components, observed=data)


def compiled(kind: str, data: np.ndarray) -> tuple[list[Callable[[], Any]], float, float]:
    """Calls: the gradient of the log density of ``data`` alone, and log density and gradient of the whole anchored
    model; the log density at the point of the first; seconds that the first took to compile."""
    # of the rows by weights, means and factors: the prior is the same in both
    inputs = [pt.vector("w", shape=(3,)), pt.matrix("m", shape=(3, 2)), pt.tensor3("c", shape=(3, 2, 2))]
    fixed = type("Fixed", (), dict(zip(("weights", "means", "chol"), inputs, strict=True)))()
    with pm.Model() as alone:
        add_rows(kind, fixed, data)
    value = alone.logp(jacobian=False)
    start = time.perf_counter()
    slopes = pm.compile(inputs, pt.grad(value, inputs))
    point = [TRUTH.weights, TRUTH.means + 0.1, np.linalg.cholesky(TRUTH.covariances)]
    slopes(*point)
    taken = time.perf_counter() - start
    slopes.trust_input = True
    with pm.Model() as model:
        th = mixture_params("g", TRUTH, weight_conc=100, mean_scale=0.2, cov_scale=0.2)
        add_rows(kind, th, data)
    whole = model.logp_dlogp_function(ravel_inputs=True)
    whole.set_extra_values({})
    offsets = np.full(17, 0.1)
    there = float(pm.compile(inputs, value)(*point))
    return [lambda: slopes(*point), lambda: whole._pytensor_function(offsets)], there, taken


def best_times(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Seconds of one call each, the best of ``N_ROUNDS`` rounds in turn."""
    repeats = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        repeats.append(max(1, int(ROUND / (time.perf_counter() - start))))
    best = [np.inf] * len(calls)
    for _ in range(N_ROUNDS):
        for i, (call, n_calls) in enumerate(zip(calls, repeats, strict=True)):
            start = time.perf_counter()
            for _ in range(n_calls):
                call()
            best[i] = min(best[i], (time.perf_counter() - start) / n_calls)
    return best


def main() -> None:
    """Times in microseconds: of the density alone by its parameters, and of the whole anchored model."""
    print(f"# PyMC {pm.__version__}, PyTensor {pytensor.__version__}")
    print("rows,density,first_gradient_s,density_gradient_us,model_us,log_density")
    smallest = np.inf
    for n_rows in ROWS:
        data = rows(n_rows, seed=1)
        made = {kind: compiled(kind, data) for kind in KINDS}
        times = np.reshape(best_times([call for kind in KINDS for call in made[kind][0]]), (2, 2))
        for kind, of_kind in zip(KINDS, times, strict=True):
            _, there, taken = made[kind]
            numbers = ",".join(f"{1e6 * one:.1f}" for one in of_kind)
            print(f"{n_rows},{kind},{taken:.1f},{numbers},{there:.12g}", flush=True)
        ratios = times[1] / times[0]
        smallest = min(smallest, ratios.min())
        apart = abs(made["gmm"][1] - made["mixture"][1])
        print(
            f"# {n_rows} rows: faster by {ratios[0]:.0f} (density) and {ratios[1]:.0f} (model), wanted {LEAST:g};",
            end=" ",
        )
        print(f"values differ by {apart:.1e}", flush=True)
    if smallest < LEAST:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

"""How much faster is the gradient of ``dpg.gmm`` than that of ``pm.Mixture(MvNormal)``? Same model, same values.

``python -m verification.benchmarks.gmm_density``: K = 3, D = 2, 60 rows, all parameters random, C backend.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pm_dpgmm as dpg
from pm_dpgmm.bayes.params import mixture_params
from pm_dpgmm.mixture import Mixture

N_ROWS, N_CALLS, N_ROUNDS = 60, 200, 5
LEAST = 15.0  # times faster

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


def gradient(kind: str, data: np.ndarray) -> tuple[Any, dict[str, Any], float]:
    """Compiled gradient of the log density of ``data`` alone, a point, and the log density there."""
    with pm.Model() as model:
        th = mixture_params("g", TRUTH, weight_conc=100, mean_scale=0.2, cov_scale=0.2)
        add_rows(kind, th, data)
    # of the rows by weights, means and factors: the prior is the same in both
    inputs = [pt.vector("w", shape=(3,)), pt.matrix("m", shape=(3, 2)), pt.tensor3("c", shape=(3, 2, 2))]
    fixed = type("Fixed", (), dict(zip(("weights", "means", "chol"), inputs, strict=True)))()
    with pm.Model() as alone:
        add_rows(kind, fixed, data)
    value = alone.logp(jacobian=False)
    function = pm.compile(inputs, pt.grad(value, inputs))
    point = [TRUTH.weights, TRUTH.means + 0.1, np.linalg.cholesky(TRUTH.covariances)]
    there = float(pm.compile(inputs, value)(*point))
    return function, {"point": point, "model": model.compile_dlogp()}, there


def seconds(function: Any, *arguments: Any) -> float:
    """Best time of a call over ``N_ROUNDS`` rounds of ``N_CALLS``."""
    function(*arguments)
    best = np.inf
    for _ in range(N_ROUNDS):
        start = time.perf_counter()
        for _ in range(N_CALLS):
            function(*arguments)
        best = min(best, (time.perf_counter() - start) / N_CALLS)
    return best


def main() -> None:
    """Times in milliseconds: of the density alone by its parameters, and of the whole anchored model."""
    data = rows(N_ROWS, seed=1)
    table: dict[str, list[float]] = {}
    print("density,compile_s,density_gradient_ms,model_gradient_ms,log_density")
    for kind in ("gmm", "mixture"):
        start = time.perf_counter()
        function, parts, value = gradient(kind, data)
        compiled = time.perf_counter() - start
        times = [seconds(function, *parts["point"]), seconds(parts["model"], {"g_offset": np.full(17, 0.1)})]
        table[kind] = [*times, value]
        print(f"{kind},{compiled:.1f},{1e3 * times[0]:.4f},{1e3 * times[1]:.4f},{value:.12g}", flush=True)
    ratios = [slow / fast for slow, fast in zip(table["mixture"][:2], table["gmm"][:2], strict=True)]
    print(f"# faster by {ratios[0]:.0f} (density) and {ratios[1]:.0f} (model); values differ by", end=" ")
    print(f"{abs(table['gmm'][2] - table['mixture'][2]):.1e}; wanted at least {LEAST:g}")
    if min(ratios) < LEAST:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

"""Do PyMC's NUTS, nutpie and numpyro agree on one posterior of each kind that this package makes?

``python -m verification.benchmarks.sampler_agreement [kinds] [--draws N] [--samplers pymc nutpie numpyro]``: vectors
with a mixture prior (both forms, and measured), parameters with rows, the evidence of every method. Compared are the
means of every parameter and of its square about the common mean, where the posterior is known also with the exact
ones: |difference| over the combined Monte Carlo error, with a Bonferroni bound over everything that is compared, at
false alarm 1e-3. Effective sizes are estimates, good to about 20 %, for which the bound is 10 % wider. A sampler that
is not installed is left out and said to be; labels have PyMC's alone. One row for each kind and pair; exit status 1
when a pair disagrees.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm import bayes
from pm_dpgmm.mechanisms.lifted_mask import LiftedMaskNoise, lifted_mask, mixture_of_lifted
from pm_dpgmm.mechanisms.masks import MaskNoise, mask_mixture
from pm_dpgmm.methods.em.statistics import EMStatistics
from pm_dpgmm.methods.local.responses import CellResponses
from pm_dpgmm.methods.populous_single.method import valid_mixture
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.posterior_draws import posterior_of
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.release.release import Release
from verification.benchmarks.seeds import at_least

FloatArray = NDArray[np.float64]

SAMPLERS = ("pymc", "nutpie", "numpyro")
N_CHAINS, N_TUNE, N_DRAWS = 2, 700, 2000
FALSE_ALARM = 1e-3
KNOWN = 1.1  # effective sizes are known to about 20 %, their roots to 10 %

TRUTH = Mixture([0.4, 0.6], [[-2.0], [2.5]], [[[1.2]], [[0.8]]])
PLANE = Mixture([0.4, 0.6], [[-2.0, 0.0], [2.5, 1.0]], [[[1.2, 0.3], [0.3, 0.8]], [[0.8, -0.2], [-0.2, 1.0]]])
FAR = Mixture([0.6, 0.4], [[0.0, 0.0], [7.0, 3.0]], [[[1.0, 0.3], [0.3, 1.0]], [[0.8, -0.2], [-0.2, 1.2]]])
NEAR = Mixture([0.6, 0.4], [[0.0, 0.0], [1.5, 1.0]], FAR.covariances)
SEEN, NOISE = np.array([[6.0, 4.0], [3.5, 1.5]]), np.diag([4.0, 4.0])


# ---------------------------------------------------------------------- releases, simulated where no method makes them
def fitted(method: str) -> Release:
    """A release of 2,000 records."""
    delta = 1e-6 if method == "sketch" else None
    records = TRUTH.sample(2000, rng=np.random.default_rng(1))
    return dpg.fit_gmm(
        records, 2, epsilon=1.0, delta=delta, bounds=(-8, 8), method=method, random_seed=1, progress=False
    )


def masked(method: str) -> Release:
    """Parameters with the noise of a mask."""
    rng = np.random.default_rng(2)
    if method == "populous":
        lifted = LiftedMaskNoise(0.1, 0.35)
        factors = np.linalg.cholesky(TRUTH.covariances).astype(np.float64)
        raw = lifted_mask(TRUTH.weights, TRUTH.means, factors, np.ones(2), noise=lifted, rng=rng)
        law = {"eta": 0.1, "kappa": 0.35, "n_subsets": 100, "subset_records": 200.0}
        return simulated(method, mixture_of_lifted(raw, noise=lifted), raw, law, 20_000)
    noise = MaskNoise(0.05, 0.1, 0.1)
    raw = mask_mixture(TRUTH, noise=noise, rng=rng)
    law = {"weight": 0.05, "mean": 0.1, "covariance": 0.1, "n_subsets": 100}
    return simulated(method, valid_mixture(raw, noise), raw, law, 20_000)


def summed() -> Release:
    """Noisy sums of one EM step of 2,000 records."""
    rng = np.random.default_rng(3)
    step = EMStatistics.of_step(
        [0.5, 0.5],
        1.2 * TRUTH.means,
        np.ones((2, 1, 1)),
        bounds=[[-6.0, 7.0]],
        scale=9.0,
        n_records=2000.0,
        n_records_scale=0.0,
    )
    exact = step.features(TRUTH.sample(2000, rng=rng)).sum(axis=0)
    noisy = step.with_sums(exact + step.noise_scales * rng.normal(size=exact.shape))
    return simulated("em", TRUTH, noisy.to_arrays(), {"statistic": "EM sums"}, 2000)


def answered() -> Release:
    """Randomised responses of 20,000 people about cells."""
    rng = np.random.default_rng(4)
    edges = np.linspace(-5, 5, 9)[None]
    responses = CellResponses.simulated(TRUTH.sample(20_000, rng=rng), edges, kind="unary", epsilon=1.0, rng=rng)
    return simulated("local", TRUTH, *responses.to_arrays(), 20_000)


def simulated(method: str, found: Mixture, raw: Any, law: Any, n_records: int) -> Release:
    """A release around numbers that were made here."""
    guarantee = Guarantee(1.0, 1e-6, Neighbouring.REPLACE_ONE, "simulated", PointProfile(1.0, 1e-6))
    return Release(found, guarantee, method, {}, raw, law, ("x0",), n_records)


# ---------------------------------------------------------------------- models, in the context of the caller
def vector(mixture: Mixture, form: str) -> Callable[[], None]:
    """Two vectors that were measured with normal noise."""

    def add() -> None:
        import pymc as pm

        x = bayes.mixture_prior("x", mixture, dims=("unit", "feature"), form=form)
        pm.MvNormal("y", x, cov=NOISE, observed=SEEN)

    return add


def vector_measured() -> None:
    """The same without labels."""
    bayes.measured("x", FAR, SEEN, NOISE, dims=("unit", "feature"))


def rows() -> None:
    """An anchored prior and 60 rows, one value missing."""
    data = PLANE.sample(60, rng=np.random.default_rng(5))
    data[0, 1] = np.nan
    dpg.gmm("y", bayes.mixture_params("g", PLANE, weight_conc=50, mean_scale=0.3, cov_scale=0.2), observed=data)


def evidence(release: Callable[[], Release]) -> Callable[[], None]:
    """A wide prior and what was released."""

    def add() -> None:
        found = release()
        found.observe(found.params("g", prior="weak"))

    return add


KINDS: dict[str, Callable[[], None]] = {
    "prior": vector(NEAR, "mixture"),
    "labelled": vector(FAR, "labelled"),
    "measured": vector_measured,
    "rows": rows,
    "sketch": evidence(lambda: fitted("sketch")),
    "histogram": evidence(lambda: fitted("histogram")),
    "populous": evidence(lambda: masked("populous")),
    "populous-single": evidence(lambda: masked("populous-single")),
    "em": evidence(summed),
    "local": evidence(answered),
}
PRIORS = {"prior": NEAR, "labelled": FAR, "measured": FAR}  # of vectors: kinds with a known posterior


# ---------------------------------------------------------------------- draws
def draws_of(kind: str, sampler: str, n_draws: int) -> dict[str, FloatArray]:
    """Of every quantity, shape (chain, draw)."""
    import pymc as pm

    own = {"nuts_sampler_kwargs": {"chain_method": "sequential"}} if sampler == "numpyro" else {}
    with pm.Model(coords={"unit": range(len(SEEN))}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        KINDS[kind]()
        found = posterior_of(
            pm.sample(
                n_draws,
                tune=N_TUNE,
                chains=N_CHAINS,
                cores=1,
                nuts_sampler=sampler,
                progressbar=False,
                random_seed=11 + SAMPLERS.index(sampler),
                compute_convergence_checks=False,
                **own,
            )
        )
    return quantities({str(name): found[name].transpose("chain", "draw", ...).values for name in found.data_vars})


def quantities(posterior: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Vectors as they are; of mixtures all weights but one, means, and logarithms of variances and correlations."""
    if "x" in posterior:
        return _flat("x", posterior["x"])
    weights, means, covariances = (posterior[f"g_{part}"] for part in ("weights", "means", "covariances"))
    variances = np.diagonal(covariances, axis1=-2, axis2=-1)
    found = _flat("weight", weights[..., 1:]) | _flat("mean", means) | _flat("log variance", np.log(variances))
    row, column = np.tril_indices(means.shape[-1], -1)
    return found | _flat("covariance", covariances[..., row, column])


def _flat(name: str, values: FloatArray) -> dict[str, FloatArray]:
    flat = values.reshape(*values.shape[:2], -1)
    return {f"{name} {i}": flat[..., i] for i in range(flat.shape[-1])}


# ---------------------------------------------------------------------- comparison
def summaries(found: dict[str, FloatArray], centres: dict[str, float]) -> dict[str, tuple[float, float, float]]:
    """Mean, Monte Carlo error and effective draws of every quantity and of its square about ``centres``."""
    import arviz as az

    result = {}
    for name, values in found.items():
        for what, of in ((name, values), (f"{name} squared", (values - centres[name]) ** 2)):
            effective = float(az.ess(of))
            result[what] = float(of.mean()), float(of.std() / np.sqrt(effective)), effective
    return result


def exact(kind: str, centres: dict[str, float]) -> dict[str, tuple[float, float, float]]:
    """The same in closed form."""
    result = {}
    for i, seen in enumerate(SEEN):
        posterior = bayes.gaussian_posterior(PRIORS[kind], seen, NOISE)
        for j in range(2):
            name = f"x {2 * i + j}"
            mean, variance = posterior.mean()[j], posterior.covariance()[j, j]
            result[name] = float(mean), 0.0, np.inf
            result[f"{name} squared"] = float(variance + (mean - centres[name]) ** 2), 0.0, np.inf
    return result


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m verification.benchmarks.sampler_agreement", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"all by default: {', '.join(KINDS)}")
    parser.add_argument("--draws", type=at_least(1), default=N_DRAWS)
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=SAMPLERS)
    arguments = parser.parse_args()
    unknown = [kind for kind in arguments.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"KIND must be among {', '.join(KINDS)}, got {', '.join(unknown)}")
    there = [name for name in arguments.samplers if name == "pymc" or importlib.util.find_spec(name) is not None]
    for name in sorted(set(arguments.samplers) - set(there)):
        print(f"# {name} is not installed")
    table: list[tuple[str, str, str, int, float, str]] = []
    print("kind,first,second,compared,worst,of", flush=True)
    for kind in arguments.kinds or KINDS:
        found, seconds = {}, {}
        for sampler in there if kind != "labelled" else ["pymc"]:
            start = time.perf_counter()
            found[sampler] = draws_of(kind, sampler, arguments.draws)
            seconds[sampler] = time.perf_counter() - start
        names = next(iter(found.values()))
        centres = {name: float(np.mean([one[name].mean() for one in found.values()])) for name in names}
        told = {sampler: summaries(one, centres) for sampler, one in found.items()}
        if kind in PRIORS:
            told["exact"] = exact(kind, centres)
        told_seconds = " ".join(f"{sampler} {spent:.0f} s" for sampler, spent in seconds.items())
        least = min(one[2] for each in told.values() for one in each.values())
        print(f"# {kind}: {told_seconds}, least effective draws {least:.0f}", file=sys.stderr, flush=True)
        for first, second in itertools.combinations(told, 2):
            scores = {
                name: abs(one[0] - told[second][name][0]) / np.hypot(one[1], told[second][name][1])
                for name, one in told[first].items()
            }
            worst = max(scores, key=lambda name: scores[name])
            table.append((kind, first, second, len(scores), scores[worst], worst))
            print(f"{kind},{first},{second},{len(scores)},{scores[worst]:.2f},{worst}", flush=True)
    bound = KNOWN * stats.norm.isf(FALSE_ALARM / 2 / max(1, sum(row[3] for row in table)))
    for row in table:
        if row[4] > bound:
            print(f"# DISAGREE: {row[0]}, {row[1]} and {row[2]}, {row[5]}")
    print(f"# bound {bound:.2f} combined Monte Carlo errors, for {sum(row[3] for row in table)} comparisons")
    return int(any(row[4] > bound for row in table))


if __name__ == "__main__":
    sys.exit(main())

"""Does a separated mixture prior of a vector give the exact posterior, and does check_modes see it when not?

One vector x with a mixture prior (K = 3, D = 3, centres 6 to 9 apart, standard deviations about 0.5) is seen once,
y ~ N(x, noise^2 I): the posterior is a mixture known in closed form. The default form and the mixture form are sampled
by ``pm.sample`` from starting points drawn from the prior, the mixture form also from the centre of one component.
Targets: the default form is within 0.1 of the exact posterior mean (largest feature) and within 0.03 of the exact
component probabilities, and ``check_modes`` finds the runs that are not, and no others; without the model it may
say that it cannot tell. One row per run; exit status 1 when a target was missed.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

import numpy as np
import pymc as pm

from pm_dpgmm.bayes.prior.modes import check_modes
from pm_dpgmm.bayes.prior.priors import mixture_prior
from pm_dpgmm.bayes.starts.starting_values import initvals
from pm_dpgmm.mixture.mixture import Mixture

ROOTS = np.random.default_rng(0).normal(size=(3, 3, 3))
MIXTURE = Mixture(
    [0.5, 0.3, 0.2],
    [[0.0, 0.0, 0.0], [6.0, 2.0, -1.0], [-2.0, 5.0, 4.0]],
    0.075 * ROOTS @ ROOTS.swapaxes(1, 2) + 0.125 * np.eye(3),
)
# name -> what was seen, noise: components (1, 0, 0) twice; (.77, .17, .06); and a point in the middle of two components
CASES = {
    "sharp": ([0.5, -0.5, 0.3], 0.2),
    "tight": ([0.5, -0.5, 0.3], 1.5),
    "loose": ([1.5, 1.5, 0.5], 3.0),
    "middle": ([2.8, 0.9, -0.5], 1.2),
}
MEAN_ERROR, OCCUPANCY_ERROR = 0.1, 0.03
DRAWS, TUNE, CHAINS = 3000, 500, 4


def exact_posterior(mixture: Mixture, seen: list[float], noise: float) -> Mixture:
    """Posterior of x given y."""
    spread = noise**2 * np.eye(mixture.n_features)
    evidence = Mixture(mixture.weights, mixture.means, mixture.covariances + spread)
    gains = mixture.covariances @ np.linalg.inv(evidence.covariances)
    means = mixture.means + np.einsum("kij,kj->ki", gains, seen - mixture.means)
    covariances = mixture.covariances - gains @ mixture.covariances
    return Mixture(evidence.responsibilities([seen])[0], means, (covariances + covariances.swapaxes(1, 2)) / 2)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args().seed
    logging.getLogger("pymc").setLevel(logging.ERROR)
    missed = False
    print("case,form,starts,mean_error,occupancy_error,r_hat,seconds,with_model,without_model,exact,found")
    for case, (seen, noise) in CASES.items():
        exact = exact_posterior(MIXTURE, seen, noise)
        for form, start in (("auto", "prior"), ("mixture", "prior"), ("mixture", "one")):
            with pm.Model() as model:
                vector = mixture_prior("x", MIXTURE, form=form)
                pm.Normal("y", vector, noise, observed=seen)
                starts = initvals(MIXTURE, chains=CHAINS, random_seed=seed)
                if start == "one":  # all chains agree: r_hat has nothing to see
                    starts = [{"x": MIXTURE.means[1]}] * CHAINS
                begin = time.perf_counter()
                idata = pm.sample(
                    DRAWS,
                    tune=TUNE,
                    chains=CHAINS,
                    cores=1,
                    initvals=starts,
                    init="adapt_diag",
                    random_seed=seed,
                    progressbar=False,
                    compute_convergence_checks=False,
                )
                seconds = time.perf_counter() - begin
            draws = idata["posterior"]["x"].values
            points = draws.reshape(-1, draws.shape[-1])
            occupancy = MIXTURE.responsibilities(points).mean(axis=0)
            mean_error = float(abs(points.mean(axis=0) - exact.mean()).max())
            occupancy_error = float(abs(occupancy - exact.weights).max())
            with_model = check_modes(idata, MIXTURE, model=model, random_seed=seed)
            without = check_modes(idata, MIXTURE, random_seed=seed)
            right = mean_error <= MEAN_ERROR and occupancy_error <= OCCUPANCY_ERROR
            missed |= form == "auto" and not right
            missed |= with_model.flagged == right or without.verdict == ("wrong" if right else "right")
            print(
                f"{case},{form},{start},{mean_error:.3f},{occupancy_error:.3f},{_r_hat(draws):.2f},{seconds:.0f},"
                f"{with_model.verdict},{without.verdict},{_listed(exact.weights)},{_listed(occupancy)}",
                flush=True,
            )
    return int(missed)


def _r_hat(draws: np.ndarray) -> float:
    import arviz as az

    return max(float(az.rhat(draws[..., j])) for j in range(draws.shape[-1]))


def _listed(values: np.ndarray) -> str:
    return " ".join(f"{value:.3f}" for value in values)


if __name__ == "__main__":
    sys.exit(main())

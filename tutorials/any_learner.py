"""Any learner of mixtures becomes private: the reduction theorem, as published and as it can be used.

The Private Populous Estimator (Arbas, Ashtiani and Liaw 2023, Theorem 6.2) splits the records into t subsets, lets any
learner fit each, tests in private that the fits agree, and releases one of them with noise. No bounds on the records,
nothing asked of the learner. This script shows, on one problem, what each version of the theorem gives:

1. r = 1, as in the published proof: fast, and not private. An audit says so.
2. r = gamma with the published constants: private, and needs more records than there are people.
3. r = gamma with exact accounting: private, still far too many.
4. the average of the fits that agree in place of one fit: ordinary data sets.

    python tutorials/any_learner.py
"""

from __future__ import annotations

import math

import numpy as np
from sklearn.mixture import BayesianGaussianMixture

import pm_dpgmm as dpg
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.populous.design import Assumed, fewest_records
from pm_dpgmm.methods.populous_single.method import PopulousSingle
from verification import audit
from verification.specimens import all_specimens

EPSILON, DELTA, K, D = 1.0, 1e-6, 2, 1
N = 150_000


def records(rng: np.random.Generator) -> np.ndarray:
    """Two groups of incomes, in cents, that no one gave bounds for."""
    first = rng.random(N) < 0.4
    return np.where(first, rng.normal(210_000.0, 30_000.0, N), rng.normal(390_000.0, 45_000.0, N))[:, None]


def learner(subset: np.ndarray) -> dpg.Mixture:
    """Yours: any function from a subset of the records to a mixture. Here variational Bayes, in units of its own."""
    centre, unit = subset.mean(), subset.std()
    model = BayesianGaussianMixture(n_components=K, tol=1e-5, max_iter=500, random_state=0).fit(
        (subset - centre) / unit
    )
    return dpg.Mixture(model.weights_, model.means_ * unit + centre, model.covariances_ * unit**2)


def main() -> None:
    """Print the four versions, then fit."""
    specimen = next(item for item in all_specimens() if item.name == "S1_populous_radius_one")
    claim = {"epsilon": specimen.epsilon, "delta": specimen.delta}
    verdict = audit(specimen.mechanism, specimen.x, specimen.x_neighbour, n_samples=4_000, **claim)
    print(f"1. r = 1, as in the published proof:\n   {verdict}")
    print(f"   (its exact epsilon at this delta is {specimen.true_epsilon:.0f})")

    problem = Problem(10**15, D, K, EPSILON, DELTA, None, dpg.Neighbouring.REPLACE_ONE)
    for number, accounting, words in ((2, "paper", "published constants"), (3, "exact", "exact accounting")):
        constants = PopulousSingle(accounting=accounting).constants(problem)
        needed = constants.n_subsets * 2 * K * D / constants.friend_radius**2
        radius = f"{constants.n_subsets} fits must agree within {constants.friend_radius:.1g} standard deviations"
        print(f"{number}. {words}: {radius}, which takes about {needed:.0e} records")

    least = fewest_records(Assumed(0, D, K, EPSILON, DELTA, separation=4.0, efficiency=0.5), noise=0.05)
    print(f"4. average of the fits that agree: about {least:,} records. With {N:,}:")
    X = records(np.random.default_rng(1))
    release = dpg.fit_gmm(X, K, epsilon=EPSILON, delta=DELTA, method="populous", noise=0.05, learner=learner, n_jobs=-1)
    for a in np.argsort(release.means[:, 0]):
        mean, deviation = release.means[a, 0], math.sqrt(release.covariances[a, 0, 0])
        print(f"   {release.weights[a]:.2f} of the people: {mean:,.0f} +- {deviation:,.0f}")
    print("   (truth: 0.40 at 210,000 +- 30,000 and 0.60 at 390,000 +- 45,000)")
    print(f"   {release.guarantee}")


if __name__ == "__main__":
    main()

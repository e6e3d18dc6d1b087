"""A release beside the fit without privacy, and intervals that know its noise beside some that do not."""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats
from sklearn.mixture import GaussianMixture

import pm_dpgmm as dpg

rng = np.random.default_rng(4)
points = np.linspace(5, 100, 300)


def older(mixture):  # weight of the component with the larger mean
    return mixture.weights[np.argmax(mixture.means[:, 0])]


def fit(epsilon):
    ages = np.concatenate([rng.normal(32.0, 7.0, 700), rng.normal(64.0, 9.0, 300)])[:, None]
    release = dpg.fit_gmm(ages, 2, epsilon=epsilon, delta=1e-6, bounds=(0, 100), random_seed=rng, progress=False)
    return ages, release


figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.3), width_ratios=[3, 2], layout="constrained")
ages, release = fit(epsilon=1.0)
band = release.band(points, random_seed=1)
exact = GaussianMixture(2, tol=1e-6, max_iter=500, random_state=0).fit(ages)
left.fill_between(points, band.lower, band.upper, alpha=0.3, lw=0, label="90 % band")
left.plot(points, band.estimate, label="released, epsilon 1")
left.plot(points, np.exp(exact.score_samples(points[:, None])), "k:", label="without privacy")
left.set(xlabel="age", ylabel="density", yticks=[], xlim=(5, 100))
left.legend(frameon=False)

for i in range(20):  # twenty clinics, a stronger promise
    _, release = fit(epsilon=0.5)
    share = release.interval(older, random_seed=1)
    naive = share.estimate + stats.norm.ppf([0.05, 0.95]) * np.sqrt(share.estimate * (1 - share.estimate) / 1000)
    right.plot([i, i], [share.lower, share.upper], color="C0", lw=4, alpha=0.4, label="noise known" if i == 0 else None)
    right.plot([i, i], naive, color="C1", lw=1.5, label="noise ignored" if i == 0 else None)
right.axhline(0.3, color="k", ls=":", lw=1)
right.set(xlabel="twenty clinics, epsilon 0.5", ylabel="share of the older", xticks=[])
right.legend(frameon=False)

import matplotlib.pyplot as plt
import numpy as np

import pm_dpgmm as dpg

rng = np.random.default_rng(1)
incomes = np.concatenate([rng.lognormal(7.6, 0.35, 3_000), rng.lognormal(8.6, 0.5, 1_000)])[:, None]
fit = {"epsilon": 1.0, "delta": 1e-6, "bounds": (0, 1e6), "transform": "log", "progress": False}
release = dpg.fit_gmm(incomes, 2, **fit)

points = np.geomspace(300, 30_000, 300)
band = release.band(points, random_seed=1)  # of incomes, not of their logarithms
figure, ax = plt.subplots()
ax.hist(incomes[:, 0], np.geomspace(300, 30_000, 60), density=True, color="0.85", label="records, which nobody sees")
ax.fill_between(points, band.lower, band.upper, alpha=0.3, lw=0)
ax.plot(points, band.estimate, label="released")
ax.set(xscale="log", xlabel="income", ylabel="density", yticks=[])
ax.legend(frameon=False)

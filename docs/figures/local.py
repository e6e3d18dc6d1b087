import matplotlib.pyplot as plt
import numpy as np

import pm_dpgmm as dpg

rng = np.random.default_rng(1)
points = np.linspace(0, 90, 300)

figure, axes = plt.subplots(1, 3, figsize=(9.0, 2.8), sharey=True, layout="constrained")
for ax, n in zip(axes, (1_000, 10_000, 100_000), strict=True):
    ages = np.concatenate([rng.normal(32.0, 6.0, 6 * n // 10), rng.normal(62.0, 8.0, 4 * n // 10)])[:, None]
    budget = {"epsilon": 1.0, "bounds": (0, 90), "progress": False}
    collected = dpg.fit_gmm(ages, 2, delta=1e-6, **budget)  # somebody holds the records
    reported = dpg.fit_gmm(ages, 2, method="local", **budget)  # nobody does: one noisy bit from each person
    ax.hist(ages[:, 0], 45, range=(0, 90), density=True, color="0.85")
    ax.plot(points, np.exp(reported.log_density(points[:, None])), "C1", label="a bit from each person")
    ax.plot(points, np.exp(collected.log_density(points[:, None])), "C0", label="records in one place")
    ax.set(title=f"{n:,} people", xlabel="age", yticks=[])
axes[0].legend(frameon=False, fontsize="small")

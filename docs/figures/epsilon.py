import matplotlib.pyplot as plt
import numpy as np

import pm_dpgmm as dpg

rng = np.random.default_rng(1)
ages = np.concatenate([rng.normal(32.0, 7.0, 700), rng.normal(64.0, 9.0, 300)])[:, None]
points = np.linspace(5, 100, 300)

figure, axes = plt.subplots(1, 3, figsize=(9.0, 2.8), sharey=True, layout="constrained")
for ax, epsilon in zip(axes, (0.1, 0.5, 5.0), strict=True):
    for seed in range(4):  # known seeds, for the picture: none of these releases is private
        release = dpg.fit_gmm(
            ages, 2, epsilon=epsilon, delta=1e-6, bounds=(0, 100), random_seed=10 + seed, progress=False
        )
        ax.plot(points, np.exp(release.log_density(points[:, None])), color="C0", alpha=0.6)
    ax.hist(ages[:, 0], 40, range=(0, 100), density=True, color="0.85")
    ax.set(title=f"epsilon {epsilon:g}", xlabel="age", yticks=[])

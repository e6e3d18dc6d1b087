import matplotlib.pyplot as plt
import numpy as np

import pm_dpgmm as dpg

rng = np.random.default_rng(1)
x = np.concatenate([rng.normal(0.0, 0.01, 6_000), rng.normal(1_000.0, 100.0, 6_000)])[:, None]
release = dpg.fit_gmm(x, 2, epsilon=1.0, delta=1e-6, method="gaps", progress=False)  # nothing is known of x

figure, axes = plt.subplots(1, 2, figsize=(8.0, 2.8), layout="constrained")
for ax, (low, high) in zip(axes, [(-0.05, 0.05), (500, 1_500)], strict=True):
    points = np.linspace(low, high, 300)
    ax.hist(x[:, 0], 60, range=(low, high), weights=np.full(len(x), 60 / len(x) / (high - low)), color="0.85")
    ax.plot(points, np.exp(release.log_density(points[:, None])))
    ax.set(yticks=[], xlabel="the same column")

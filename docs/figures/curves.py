import matplotlib.pyplot as plt
import numpy as np

import pm_dpgmm as dpg

x = np.random.default_rng(1).normal(0.0, 1.0, (2_000, 1))
settings = {"bounds": (-5, 5), "progress": False}
pure = dpg.fit_gmm(x, 1, epsilon=1.0, **settings).guarantee  # a histogram
approximate = dpg.fit_gmm(x, 1, epsilon=1.0, delta=1e-6, **settings).guarantee  # a sketch
four = dpg.compose(*[approximate] * 4, delta=1e-6)

epsilons = np.linspace(0, 4, 200)
figure, ax = plt.subplots()
for guarantee, name in ((pure, "pure, epsilon 1"), (approximate, "(1, 1e-6)"), (four, "four of these together")):
    ax.plot(epsilons, np.maximum(guarantee.curve(epsilons), 1e-12), label=name)
ax.axhline(1e-6, color="k", ls=":", lw=1)
ax.set(yscale="log", ylim=(1e-9, 1), xlim=(0, 4), xlabel="epsilon", ylabel="delta")
ax.legend(frameon=False)

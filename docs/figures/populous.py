import matplotlib.pyplot as plt
import numpy as np
from sklearn.mixture import GaussianMixture

import pm_dpgmm as dpg

rng = np.random.default_rng(1)
x = rng.normal([[-3.0]] * 40_000 + [[3.0]] * 40_000, 1.0)
release = dpg.fit_gmm(x, 2, epsilon=1.0, delta=1e-6, method="populous", progress=False)


def means(rows):
    """Of both components, without privacy: for the picture of made-up records alone."""
    return np.sort(GaussianMixture(2, random_state=0).fit(rows).means_.ravel())


subsets = np.array_split(rng.permutation(x), release.noise["n_subsets"])
answers = np.array([means(rows) for rows in subsets])

figure, ax = plt.subplots(figsize=(5.0, 4.0), layout="constrained")
ax.plot(*answers.T, ".", color="0.7", label=f"fits of {len(subsets)} subsets: they agree, so there is an answer")
ax.plot(*means(x), "+", color="C1", markersize=14, label="fit of all records")
ax.plot(*np.sort(release.means[:, 0]), "o", color="C0", label="released: their average and noise")
ax.set(xlabel="mean of one component", ylabel="mean of the other")
ax.legend(loc="upper center", bbox_to_anchor=(0.5, 1.28), frameon=False, fontsize="small")

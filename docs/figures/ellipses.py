import numpy as np
import pandas as pd

import pm_dpgmm as dpg

rng = np.random.default_rng(1)
groups = [([118, 76], [[120, 60], [60, 64]], 2_000), ([149, 91], [[170, 50], [50, 81]], 1_000)]
pressure = np.vstack([rng.multivariate_normal(mean, covariance, n) for mean, covariance, n in groups])
table = pd.DataFrame(pressure, columns=["systolic", "diastolic"])
release = dpg.fit_gmm(table, 2, epsilon=1.0, delta=1e-6, bounds=[(60, 260), (30, 160)], progress=False)

ax = release.plot()  # of the release alone: no record is drawn
ax.set(xlim=(80, 190), ylim=(50, 120))

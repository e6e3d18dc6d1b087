import numpy as np

import pm_dpgmm as dpg

rng = np.random.default_rng(1)
x = np.concatenate([rng.normal(m, 1.0, 1_500) for m in (-6.0, 0.0, 6.0)])[:, None]
release = dpg.fit_gmm(x, 3, epsilon=1.0, delta=1e-6, bounds=(-12, 12), progress=False)

release.select_k(range(1, 7)).plot()  # numbers of components, compared on the released numbers: free

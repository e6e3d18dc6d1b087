"""Tables of two wide groups and a narrow one that holds few records."""

import numpy as np

from pm_dpgmm.mixture.mixture import Mixture

GROUPS = [[30.0, 40.0, 50.0, 45.0], [65.0, 60.0, 40.0, 60.0], [88.0, 12.0, 90.0, 10.0]]


def table_with_a_small_group(d, n, seed, weight=0.04):
    """Two wide groups and a narrow one that holds few records, and the law of them."""
    covariances = [np.eye(d) * deviation**2 for deviation in (7.0, 7.0, 3.0)]
    law = Mixture([0.6 * (1 - weight), 0.4 * (1 - weight), weight], np.array(GROUPS)[:, :d], covariances)
    return law.sample(n, rng=seed), law

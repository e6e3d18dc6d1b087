"""The formulas of a run count every release, whatever its noise."""

import numpy as np
import pytest

from verification.claims.claim import Effort
from verification.claims.dp_em.composition import calibrated


@pytest.mark.parametrize("weights_counted, largest", [(True, 1.0), (False, 33 / 17)])
def test_a_run_with_gaussian_means_spends_what_its_releases_add_up_to(weights_counted, largest):
    """One component and c = 4: K + 1 + K/c^2 = 33/16 releases, and 17/16 of them without the weights."""
    found = calibrated(Effort(np.random.default_rng(1)), weights_counted=weights_counted)
    assert found.largest == pytest.approx(largest, rel=1e-4)  # small eps': every release is at its worst
    assert "Gaussian = 0" not in found.where

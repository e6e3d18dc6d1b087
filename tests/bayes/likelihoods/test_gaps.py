"""Evidence from counts of bins of unequal widths: the compiled law against NumPy's, and errors of fits against theirs."""

import numpy as np
import pymc as pm
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.bayes.likelihoods.counts import statistics
from pm_dpgmm.bayes.parameters.anchor_laws import anchor_of
from pm_dpgmm.bayes.parameters.count_information import bins_covariance
from pm_dpgmm.methods.counts.histogram_law import log_density
from pm_dpgmm.methods.gaps.bin_fit import Bins, masses
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.releases import gaps

FAR = Mixture([0.4, 0.6], [[-1e6], [3.0]], [[[1e-4]], [[1e4]]])


class Fixed:
    """Parameters that are numbers."""

    def __init__(self, mixture):
        self.weights, self.means = mixture.weights, mixture.means
        self.chol = np.sqrt(mixture.covariances)


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["exact", "gaussian"])
@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove"])
def test_the_evidence_is_the_law_of_the_noisy_counts(form, neighbouring):
    release = gaps(1, neighbouring)
    near = Mixture(release.weights[::-1], release.means + 0.1, release.covariances * 1.2)
    with pm.Model() as model:
        release.observe(Fixed(near), likelihood=form)
    grid = statistics(release)
    assert grid.n_records == (None if neighbouring == "add-remove" else 1_600)
    shares = near.weights @ masses_of(grid, near)
    assert float(model.compile_logp(mode="FAST_COMPILE")({})) == pytest.approx(
        float(log_density(grid, shares, form=form)), rel=1e-9
    )


def masses_of(grid, mixture):
    bins = Bins(grid.edges[0], grid.counts, grid.noise_scale)
    return masses(bins, mixture.means[None, :, 0], np.sqrt(mixture.covariances[None, :, 0, 0]))[0][0]


@pytest.mark.thorough
def test_scales_are_those_of_repeated_fits():
    """Errors of 16 fits over the stated ones, root mean square over six numbers: 1 +- .14, and the choice is coarser."""
    found = []
    for seed in range(16):
        X = FAR.sample(6_000, rng=np.random.default_rng(seed))
        release = dpg.fit_gmm(
            X, 2, epsilon=1.0, delta=1e-6, method="gaps", random_seed=seed, n_candidates=5, progress=False
        )
        order = np.argsort(release.means[:, 0])
        deviations = np.sqrt(np.diag(bins_covariance(release, release.mixture)))[1:3]
        errors = release.means[:, 0] - np.sort(FAR.means[:, 0])[np.argsort(order)]
        found.append(errors / np.sqrt(release.covariances[:, 0, 0]) / deviations)
        assert "bins" in anchor_of(release).source
    assert 0.5 < np.sqrt(np.mean(np.square(found))) < 2.0

"""Densities of the sketch studies are those of the models; truths follow the prior that the posteriors use."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytensor.tensor as pt
import pytest
from scipy import stats

from pm_dpgmm.bayes.likelihoods.sketch import log_likelihood
from pm_dpgmm.methods.sketch.law import SketchLaw
from pm_dpgmm.mixture.mixture import Mixture
from verification.benchmarks.truths import separated as set_c
from verification.calibration import separated, sketch, sketch_nuts, sketch_score

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning"),
]


@pytest.mark.parametrize("d, chosen", [(1, "exact"), (2, "gaussian")])
def test_densities_of_a_study_equal_those_of_the_model(d, chosen):
    rng = np.random.default_rng(d)
    release = sketch.simulated(separated.mixture(separated.draw((), d, rng=rng), d), 1000, rng=rng)
    points = separated.draw((5,), d, rng=rng)
    found = sketch.log_posterior(release)(points) - separated.log_prior(points, d)
    w, m, c = pt.vector("w"), pt.matrix("m"), pt.tensor3("c")
    value = log_likelihood(release, w, m, c, likelihood=chosen)
    expected = [
        value.eval({w: point[0], m: point[1], c: point[2]}, mode="FAST_COMPILE")
        for point in zip(*separated.unpack(points, d), strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    assert np.ptp(found) > 1


def test_a_small_study_has_a_row_for_every_parameter(monkeypatch, capsys):
    monkeypatch.setattr(sketch, "N_DRAWS", 400)
    found = sketch.study(2, n_records=1000, d=1, seed=3)
    assert [row.parameter for row in found] == list(separated.NAMES[1])
    assert all(0 <= row.coverage <= 1 and 0.5 < row.width < 5 for row in found)
    assert "2 posteriors of 400 draws" in capsys.readouterr().err


def test_truths_of_set_c_follow_the_prior_of_the_posterior():
    """Its log density is minus half a chi-square with 62 degrees of freedom, whatever the order of components."""
    base, values = set_c(), []
    spread = sketch_nuts.deviations(*base.means.shape)
    w, m, c = pt.vector("w"), pt.matrix("m"), pt.tensor3("c")
    term = sketch_nuts.prior_term(SimpleNamespace(weights=w, means=m, chol=c), base, spread)
    turned = base.permuted([2, 0, 1])
    other = sketch_nuts.prior_term(SimpleNamespace(weights=w, means=m, chol=c), turned, spread)
    for number in range(40):
        truth = sketch_nuts.drawn_truth(np.random.default_rng(number))
        at = {w: truth.weights, m: truth.means, c: np.linalg.cholesky(truth.covariances)}
        values.append(float(term.eval(at, mode="FAST_COMPILE")))
        if number < 2:
            moved = truth.permuted([2, 0, 1])
            at = {w: moved.weights, m: moved.means, c: np.linalg.cholesky(moved.covariances)}
            assert float(other.eval(at, mode="FAST_COMPILE")) == pytest.approx(values[-1], rel=1e-10)
    assert stats.kstest(-2 * np.array(values), stats.chi2(len(spread)).cdf).pvalue > 1e-5


def test_fits_to_records_scatter_as_theory_says():
    """Of separate components: means by sd / sqrt(n_k), weights as in a multinomial law."""
    base = set_c()
    drawn = sketch_nuts.fit_draws(base, 4000, rng=np.random.default_rng(1))
    sds = np.sqrt(np.diagonal(base.covariances, axis1=1, axis2=2))
    n = sketch_nuts.N_RECORDS
    expected = (sds / np.sqrt(n * base.weights)[:, None]).ravel()
    np.testing.assert_allclose(drawn["means"].std(axis=0), expected, rtol=0.08)
    np.testing.assert_allclose(drawn["weights"].std(axis=0), np.sqrt(base.weights * (1 - base.weights) / n), rtol=0.08)
    np.testing.assert_allclose(drawn["sds"].mean(axis=0), sds.ravel(), rtol=0.01)
    assert drawn["correlations"].shape == (4000, 30)


def test_components_are_matched_by_their_means():
    truth = set_c()
    found = Mixture(truth.weights, truth.means + 0.3, truth.covariances).permuted([1, 2, 0])
    np.testing.assert_allclose(sketch_nuts.aligned(found, truth).means, truth.means + 0.3)


def test_scores_at_the_truth_are_chi_square_and_elsewhere_are_not():
    """Four data sets in two columns, false alarm 2e-4; a truth moved by a tenth of a deviation is seen in the span."""
    found, moved = [], []
    for number in range(4):
        rng = np.random.default_rng([5, number])
        truth = separated.mixture(separated.draw((), 2, rng=rng), 2)
        release = sketch.simulated(truth, 2_000, rng=rng)
        found.append(sketch_score.chi_squares(release, truth))
        moved.append(sketch_score.chi_squares(release, Mixture(truth.weights, truth.means + 0.1, truth.covariances)))
    for place, name in enumerate(("derivatives", "all numbers")):
        total, degrees = (sum(part[place][i] for part in found) for i in (0, 1))
        assert degrees == 4 * (11 if place == 0 else SketchLaw.of(release).values.size), name
        assert sketch_score.p_value(total, degrees) > 1e-4, name
    assert sketch_score.p_value(sum(part[0][0] for part in moved), 44) < 1e-6

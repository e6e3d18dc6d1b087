"""The study's likelihoods are those of the package, and its prior keeps components apart."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

from pm_dpgmm.bayes.likelihoods.local import log_likelihood
from pm_dpgmm.methods.local.method import reported
from pm_dpgmm.mixture.coordinates import Coordinates
from tests.builders.local_responses import release
from verification.calibration import local_waves as study

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")


@pytest.mark.parametrize("d, k", [(1, 2), (2, 3)])
def test_the_study_has_the_density_of_observe(d, k):
    chart = Coordinates(k, d, "ratios")
    centre, spread = study.prior(chart)
    rng = np.random.default_rng(4)
    points = centre + spread * rng.normal(size=(3, chart.size))
    records = study.mixture_at(chart, points[0]).sample(400, rng=rng)
    responses = reported(study.protocol_of(d), records, rng=rng)
    inputs = [pt.vector(), pt.matrix(), pt.tensor3()]
    function = pytensor.function(inputs, log_likelihood(release(responses), *inputs), mode="FAST_COMPILE")
    expected = [float(function(*chart.at(point))) for point in points]
    assert_allclose(np.diff(study.log_likelihood(chart, responses)(points)), np.diff(expected), rtol=1e-8)
    own = [study.mixture_at(chart, point).log_density(records[:50]).sum() for point in points]
    assert_allclose(study.of_part(chart, records[:50])(points), study.N_RECORDS / 50 * np.array(own), rtol=1e-9)
    assert len(study.names_of(chart)) == chart.size


def test_corrected_bits_are_what_was_randomised_on_average():
    chart = Coordinates(2, 1, "ratios")
    rng = np.random.default_rng(1)
    records = study.mixture_at(chart, study.prior(chart)[0]).sample(20_000, rng=rng)
    protocol = study.protocol_of(1)
    exact = np.cos(records @ np.array(protocol.frequencies).T + np.array(protocol.phases)) > 0
    found = study.corrected(reported(protocol, records, rng=rng))
    # of 128 waves with about 156 bits each: within 5 standard errors of the mean, 1e-6 false alarms
    assert abs((found.ones / found.asked - exact.mean(axis=0)).mean()) < 5 * 1.1 / np.sqrt(20_000)

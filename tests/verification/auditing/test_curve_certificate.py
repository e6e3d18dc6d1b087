"""Certificates of curves: what they say follows from their counts, and what was changed is found."""

import copy
import json

import numpy as np
import pytest

from pm_dpgmm.privacy.curves import GaussianProfile
from pm_dpgmm.privacy.guarantee import Guarantee
from verification import GDP, ZCDP, audit
from verification.auditing.certificate_reading import verify
from verification.auditing.certificate_writing import certificate
from verification.benchmarks.curve_power import log_density, noisy

GUARANTEE = Guarantee(1.0, 1.01e-6, "replace-one", "Gaussian", GaussianProfile(mu=0.2367, slack=1e-15))


def stored(mu, sequential, **claim):
    result = audit(
        noisy, mu, 0.0, n_samples=800, sequential=sequential, log_density=log_density,
        rng=np.random.default_rng(1), **claim,
    )  # fmt: skip
    return json.loads(json.dumps(certificate(result, mechanism="noisy", pair="mu and 0"), allow_nan=False))


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("mu", [0.1, 1.5])
@pytest.mark.parametrize(
    "claim",
    [{"profile": GDP(0.2367), "delta": 1e-6}, {"profile": ZCDP(0.03)}, {"guarantee": GUARANTEE}],
    ids=["gdp", "zcdp", "guarantee"],
)
def test_a_certificate_as_it_was_written_holds(claim, mu, sequential):
    found = stored(mu, sequential, **claim)
    checked = verify(found)
    assert checked.holds, str(checked)
    assert found["refuted"] is (mu == 1.5)


CHANGES = {
    "a bound": lambda found: found.update(delta_lower=found["delta_lower"] + 0.1),
    "a parameter": lambda found: found.update(parameter_lower=found["parameter_lower"] + 0.1),
    "the verdict": lambda found: found.update(refuted=not found["refuted"]),
    "the words": lambda found: found.update(statement="all is well"),
    "the curve": lambda found: found["curve"]["first"].__setitem__(slice(None), [1.0] * len(found["curve"]["first"])),
    "no curve": lambda found: found.update(curve={"epsilons": [0.0], "first": [2.0], "second": [0.0]}),
    "the counts": lambda found: found.update(n_certified=found["n_certified"] - 1),
    "a name": lambda found: found.update(mechanism="another"),
}


@pytest.mark.parametrize("sequential", [False, True])
def test_what_was_changed_is_found(sequential):
    found = stored(1.5, sequential, profile=GDP(0.2367))
    for name, change in CHANGES.items():
        changed = copy.deepcopy(found)
        change(changed)
        assert not verify(changed).holds, name

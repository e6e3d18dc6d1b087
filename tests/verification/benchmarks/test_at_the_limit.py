"""Audits of noise at the limit that their passes tell: what the benchmark behind the words of passes runs."""

import numpy as np
import pytest

from verification import GDP
from verification.auditing.claimed_curve import GAUSSIAN
from verification.benchmarks.at_the_limit import CLAIMS, refuted_at_limit, with_noise
from verification.references.references import gaussian_delta


@pytest.mark.parametrize("columns", [1, 3])
def test_the_mechanism_has_the_noise_that_it_is_asked_for(columns):
    rng = np.random.default_rng(1)
    mu = GAUSSIAN.refuted_below(2.0, 1e-5)
    assert gaussian_delta(2.0, noise_multiplier=1 / mu) == pytest.approx(1e-5, rel=1e-6)
    pair = {"epsilon": 1.0, "delta": 1e-5}
    for claim, deviation in [({"epsilon": 1.0}, 2**0.5 / 2), ({"profile": GDP(1.0)}, 0.5), (pair, 1 / mu)]:
        found = np.reshape(with_noise(claim, 2.0, columns)(1.0, 100_000, rng), (100_000, columns))
        assert found[:, 0].mean() == pytest.approx(1, abs=0.02) and found[:, 0].std() == pytest.approx(deviation, 0.02)


@pytest.mark.parametrize("name", CLAIMS)
def test_noise_at_the_limit_is_refuted_as_often_as_passes_say(name):
    """4 of 10 or more of claims of 1, by fixed seeds: if audits got worse by a half, fewer would be."""
    assert refuted_at_limit(CLAIMS[name](1.0), runs=1_000, columns=1, sequential=False, seeds=10) >= 4


def test_an_audit_without_a_limit_has_no_share():
    assert refuted_at_limit(CLAIMS["pure"](20.0), runs=100, columns=1, sequential=False, seeds=10) is None

"""What each accounting of private EM asks for, and what that gives."""

import math

import pytest

from pm_dpgmm.methods.em.accounting import MULTIPLIERS, accounted
from verification.references.references import gaussian_epsilon

CLAIM = {"epsilon": 1.0, "delta": 1e-6, "n_steps": 10}


@pytest.mark.parametrize("name", MULTIPLIERS)
@pytest.mark.parametrize("n_components", [None, 3])
def test_the_guarantee_is_that_of_the_noise(name, n_components):
    found = accounted(name, n_components=n_components, **CLAIM)
    n_releases = 10 if n_components is None else 70
    reference = gaussian_epsilon(1e-6, noise_multiplier=found.noise_multiplier / math.sqrt(n_releases))
    assert found.guarantee.epsilon == pytest.approx(float(reference), rel=1e-6)
    if name != "cdp":
        assert found.guarantee.epsilon <= 1.0 + 1e-9
    assert "CDP" in found.claimed or "DP" in found.claimed


def test_tighter_accountings_ask_for_less_noise_and_exact_for_the_least():
    noise = {name: accounted(name, **CLAIM).noise_multiplier for name in MULTIPLIERS}
    assert noise["advanced"] > noise["zcdp"] > noise["renyi"] > noise["exact"] > noise["cdp"]
    assert noise["basic"] > noise["zcdp"]
    assert accounted("exact", **CLAIM).guarantee.epsilon == pytest.approx(1.0, rel=1e-6)


def test_the_published_epsilon_is_a_parameter_of_another_thing():
    """rho = .9 converts to 7.95 at delta 1e-6 by Bun and Steinke; exactly it is less, and far from .9."""
    found = accounted("cdp", epsilon=0.9, delta=1e-6, n_steps=10, n_components=3)
    assert 0.9 + 2 * math.sqrt(0.9 * math.log(1e6)) == pytest.approx(7.95, abs=0.01)
    assert 6.5 < found.guarantee.epsilon < 7.95


@pytest.mark.parametrize(
    "change, words",
    [
        ({"accounting": "moments"}, "accounting must be one of"),
        ({"epsilon": 0.0}, "epsilon must be finite and greater than 0"),
        ({"epsilon": 1e-5}, "epsilon must be at least 0.0001"),
        ({"accounting": "renyi", "epsilon": 1e-4, "delta": 1e-12}, "epsilon must be what orders"),
        ({"delta": 0.0}, "delta must be"),
        ({"n_steps": 0}, "n_steps must be"),
        ({"n_components": 0}, "n_components must be"),
        ({"neighbouring": "none"}, "neighbouring must be one of"),
    ],
)
def test_bad_arguments_get_one_clear_error(change, words):
    with pytest.raises((TypeError, ValueError), match=words):
        accounted(**({"accounting": "exact"} | CLAIM | change))

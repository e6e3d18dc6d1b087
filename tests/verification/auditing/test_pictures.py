"""Figures of audits show their numbers, and notebooks show audits with every text escaped."""

import dataclasses

import matplotlib
import numpy as np
import pytest

from verification import GDP, audit
from verification.profile.profile import privacy_profile

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def noisy(shift, n_samples, rng):
    return rng.normal(shift, 1.0, n_samples)


def of_point(shift):
    return audit(noisy, shift, 0.0, epsilon=0.5, delta=1e-3, n_samples=1_000, rng=np.random.default_rng(1))


def of_curve(shift):
    return audit(noisy, shift, 0.0, profile=GDP(0.3), n_samples=1_000, rng=np.random.default_rng(1))


@pytest.mark.parametrize("shift, refuted", [(0.0, False), (2.0, True)])
def test_a_bound_is_drawn_beside_the_claim(shift, refuted):
    import matplotlib.pyplot as plt

    result, given = of_point(shift), plt.figure().add_subplot()
    ax = result.plot_bound(ax=given)
    assert ax is given and result.refuted is refuted
    assert ax.get_title() == ("refuted" if refuted else "no violation found")
    widths = [bar.get_width() for bar in ax.patches]
    assert result.epsilon in widths and result.epsilon_lower in widths


def test_bounds_beside_their_bars_are_rounded_outwards():
    result = dataclasses.replace(of_point(2.0), epsilon_lower=1.23459, detection_limit=2.00001)
    texts = [text.get_text().strip() for text in result.plot_bound().texts]
    assert "1.234" in texts and "2.001" in texts and "0.5" in texts


@pytest.mark.parametrize("shift, refuted", [(0.0, False), (2.0, True)])
def test_a_curve_is_drawn_with_the_point_of_its_test(shift, refuted):
    import matplotlib.pyplot as plt

    result, given = of_curve(shift), plt.figure().add_subplot()
    ax = result.plot(ax=given)
    assert ax is given and result.refuted is refuted
    points = [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.get_lines()[1:]]
    assert (result.epsilon_point, max(result.delta_lower, 1e-12)) in points
    assert (result.epsilon_point, result.delta_claimed) in points


def test_thresholds_and_claims_are_seen_on_a_dark_background():
    import matplotlib.pyplot as plt

    def log_density(outputs, shift):
        return -((outputs - shift) ** 2) / 2

    profile = privacy_profile(noisy, 1.0, 0.0, log_density=log_density, n_samples=2_000, rng=np.random.default_rng(1))
    with plt.style.context("dark_background"):
        axes = of_point(2.0).plot(), profile.plot(claim=lambda epsilon: np.full_like(epsilon, 0.1))
        for ax in axes:
            dashed = [line for line in ax.get_lines() if line.get_linestyle() == "--"]
            assert dashed and all(line.get_color() == "white" for line in dashed)


def test_a_notebook_shows_audits_with_every_text_escaped():
    note = "<img src=x onerror=alert(1)> \x1b[2J"
    for result in (of_point(2.0), of_curve(0.0)):
        shown = dataclasses.replace(result, notes=(note,))._repr_html_()
        assert "<img" not in shown and "\x1b" not in shown and "&lt;img" in shown
        assert ("refuted" in shown) is result.refuted and "1,000" in shown

import matplotlib
import numpy as np
import pytest

import pm_dpgmm as dpg

matplotlib.use("Agg")
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def release(d):
    X = RNG.normal(size=(500, d)) + 4 * RNG.integers(0, 2, (500, 1))
    return dpg.fit_gmm(X, 2, epsilon=5.0, bounds=(-5, 9))


@pytest.mark.parametrize("d", [1, 2])
def test_a_release_draws_its_density_with_names_and_price(d):
    drawn = release(d)
    ax = drawn.plot()
    assert ax.get_xlabel() == "x0" and "epsilon = 5" in ax.get_title()
    if d == 1:
        line = ax.get_lines()[0]
        assert line.get_ydata() == pytest.approx(np.exp(drawn.log_density(line.get_xdata()[:, None])))
    else:
        assert ax.collections and len(ax.get_lines()) == 4


def test_two_columns_of_many_show_the_exact_marginal():
    mixture = dpg.Mixture([1.0], [[0.0, 1.0, 2.0]], [np.eye(3)])
    drawn = release(1)
    three = dpg.Release(mixture, drawn.guarantee, "histogram", {}, {}, {}, feature_names=("a", "b", "c"), n_records=500)
    ax = dpg.plot_release(three, features=(2, 0))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("c", "a")
    for features in [(0, 0), (0, 3), (1,)]:
        with pytest.raises(ValueError, match="features must be two different columns"):
            dpg.plot_release(three, features=features)


def test_prior_and_posterior_share_axes():
    ax = dpg.plot_prior_posterior(
        {"with": RNG.normal(size=500), "without": RNG.normal(size=(2, 300))}, truth=0.0, label="x"
    )
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["with", "without", "truth"]
    with pytest.raises(ValueError, match="at least one model"):
        dpg.plot_prior_posterior({})

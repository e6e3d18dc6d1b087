"""Narrow groups that the released waves do not tell from a wide component are told; what was measured is not."""

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.methods.sketch.checks import width_guess
from pm_dpgmm.methods.sketch.estimate import SketchFit
from pm_dpgmm.methods.sketch.method import SketchMethod
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.planning.trials import released_data

TOLD = "fit another density as well"
WEIGHTS, MEANS, DEVIATIONS = [0.12, 0.27, 0.14, 0.47], [0.0, 170.0, -66.0, 1055.0], [755.0, 8.0, 23.0, 407.0]


def mixture_of(weights, means, deviations):
    return dpg.Mixture(weights, np.array(means)[:, None], np.square(deviations)[:, None, None])


def fit(
    means,
    deviations,
    *,
    weights=WEIGHTS,
    n_records=10_000,
    n_components=None,
    bounds=(-5_700, 5_700),
    seed=1,
    **settings,
):
    truth = mixture_of(weights, means, deviations)
    X = truth.sample(n_records, rng=np.random.default_rng(seed))
    made = dpg.fit_gmm(
        X, n_components or len(means), epsilon=1.0, delta=1e-6, bounds=bounds, method=SketchMethod(**settings),
        random_seed=seed, progress=False,
    )  # fmt: skip
    points = truth.sample(4_000, rng=np.random.default_rng(0))
    ratios = np.exp(made.log_density(points) - truth.log_density(points))
    return made, float(np.maximum(1 - ratios, 0.0).mean())


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
def test_another_density_counts_where_it_differs_and_fits_as_well(monkeypatch):
    release = fit(MEANS, DEVIATIONS)[0]
    data = released_data(release)

    def scaled(mixture):
        return ScaledMixture.about(mixture, data.centre, data.unit)

    def told(found, other):
        monkeypatch.setattr(width_guess, "as_spikes", lambda *given, spare: [scaled(other)])
        return width_guess.hangs_on_the_guess(SketchFit.of(data, scaled(found)), 4) is not None

    monkeypatch.setattr(width_guess, "narrower", lambda *given: [])
    truth = mixture_of(WEIGHTS, MEANS, DEVIATIONS)
    assert told(release.mixture, truth)
    worse = mixture_of(WEIGHTS, [*MEANS[:3], 1_400.0], DEVIATIONS)
    assert not told(release.mixture, worse)
    nearly_the_same = mixture_of(WEIGHTS, MEANS, [755.0, 9.0, 23.0, 407.0])
    assert not told(truth, nearly_the_same)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
def test_two_narrow_groups_in_place_of_a_wide_one_are_told_until_waves_are_fine_enough():
    """The misfit is .5, and a total variation of .3 went without a word; with waves four times as fine it is .04."""
    release, apart = fit(MEANS, DEVIATIONS)
    assert apart > 0.2 and release.misfit.statistic < 2
    assert any(TOLD in text for text in release.warnings)
    release, apart = fit(MEANS, DEVIATIONS, order=64)
    assert apart < 0.1 and not any(TOLD in text for text in release.warnings)


@pytest.mark.filterwarnings("error::pm_dpgmm.FitWarning")
@pytest.mark.parametrize("deviation", [50.0, 100.0, 200.0, 400.0])
def test_nothing_is_told_of_one_component_of_any_width_between_wide_ones(deviation):
    assert fit([-1_500.0, 0.0, 1_500.0], [400.0, deviation, 400.0], weights=[0.3, 0.4, 0.3])[1] < 0.1


@pytest.mark.thorough(quick=["200.0"])
@pytest.mark.filterwarnings("error::pm_dpgmm.FitWarning")
@pytest.mark.parametrize("deviation", [100.0, 200.0])
def test_nothing_is_told_where_the_number_was_chosen_and_a_spare_component_would_always_fit(deviation):
    given = {"weights": [0.3, 0.4, 0.3], "n_components": range(1, 6)}
    assert fit([-1_500.0, 0.0, 1_500.0], [400.0, deviation, 400.0], **given)[1] < 0.1


# weights, means, deviations, bounds
SPIKES = [0.3, 0.1, 0.6], [10.0, 11.0, 40.0], [0.01, 0.01, 12.0], (-20.0, 120.0)
NESTED = [0.25] * 4, [0.0] * 4, [0.01, 0.1, 1.0, 10.0], (-100.0, 100.0)


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
@pytest.mark.thorough(quick=["20000-None-truth0", "20000-n_components1-truth1"])
@pytest.mark.parametrize("truth", [SPIKES, NESTED])
@pytest.mark.parametrize("n_components", [None, range(1, 6)])
@pytest.mark.parametrize("n_records", [20_000, 100_000])
def test_narrow_groups_in_one_component_are_told_where_one_is_to_spare(n_records, n_components, truth):
    """.6 to 1.3 nats a record were lost, and all that was said, if anything, was that components may be noise."""
    weights, means, deviations, bounds = truth
    given = {"weights": weights, "bounds": bounds, "n_records": n_records, "n_components": n_components}
    release, apart = fit(means, deviations, **given)
    assert apart > 0.2
    assert any(TOLD in text for text in release.warnings)


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
def test_narrow_groups_that_the_numbers_ask_for_are_looked_for():
    """The search ended at one component for both narrow groups, and two for the wide one: a misfit of 11 to 16."""
    weights, _, deviations, _ = SPIKES
    release, _ = fit([0.0, 1.0, 40.0], deviations, weights=weights, bounds=(0.0, 120.0), n_records=100_000)
    assert release.misfit.statistic < 5 and (release.means[:, 0] < 2).sum() == 2
    assert any(TOLD in text for text in release.warnings)  # they could be narrower still, and are
    assert not any("may be noise" in text for text in release.warnings)  # without either the misfit is back


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
def test_two_components_in_the_place_of_two_narrower_ones_are_told():
    """Their first three moments are right, and 1.26 nats a record are lost."""
    weights, means, deviations, bounds = SPIKES
    release, apart = fit(means, deviations, weights=weights, bounds=bounds, n_records=400_000, seed=2)
    assert (release.means[:, 0] < 12).sum() == 2 and apart > 0.2
    assert any(TOLD in text for text in release.warnings)

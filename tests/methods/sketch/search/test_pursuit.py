"""Searches for a mixture from given starts: a small group far from all others is within their reach."""

import numpy as np
import pytest

from pm_dpgmm.methods.sketch.estimate import prior_about
from pm_dpgmm.methods.sketch.fit import refined
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.search import pursuit
from pm_dpgmm.methods.sketch.search.matched_filter import PlaceGrid
from tests.builders.sketch_evidence import round_components, sketch_of

WEIGHTS = [0.49, 0.49, 0.02]


def far_group(far, half_width):
    """The sketch of a law with 2 % of its records there, and a fit that has put their component elsewhere."""
    unit = np.full(2, half_width)
    truth, start = (round_components(WEIGHTS, [0, 4, place], unit) for place in (far, 9))
    data = SketchData.of((sketch_of(truth, start, unit),), unit)
    return data, refined(data, start, prior_about(start))


@pytest.mark.parametrize("half_width, looked_at", [(100.0, 8), (400.0, 2), (800.0, 1), (3_000.0, None)])
def test_places_are_looked_at_as_many_radii_away_as_a_grid_may_reach(half_width, looked_at):
    data, found = far_group(0.9 * half_width, half_width)
    grids = [PlaceGrid.over(data, found, np.full(2, -reach), np.full(2, reach)) for reach in pursuit.REACHES]
    reaches = [reach for reach, grid in zip(pursuit.REACHES, grids, strict=True) if grid is not None]
    assert max(reaches, default=None) == looked_at
    places = pursuit.outstanding_places(data, found, 1.0)
    assert len(places) == (looked_at is not None)
    for place in places:
        assert np.abs(place.means[0] - 0.9).max() < 1.0 / half_width


@pytest.mark.parametrize("longer", [False, True])
def test_searches_put_a_component_where_a_small_group_is(longer):
    """Of 3,000 places at random none comes within its width: the plane has 400 by 400 of these."""
    half_width = 400.0
    data, found = far_group(300.0, half_width)
    prior, atoms = prior_about(found), (found.means, found.factors)
    if longer:
        other = pursuit.add_and_drop(data, found, prior, atoms, pursuit.Effort(data), radius=1.0)
    else:
        other = pursuit.elsewhere(data, found, prior, atoms, radius=1.0)
    assert other is not None and other.n_components == 3
    assert other.objective < found.objective - 50
    assert half_width * np.sort(other.means, axis=0) == pytest.approx(np.tile([[0.0], [4.0], [300.0]], 2), abs=0.5)

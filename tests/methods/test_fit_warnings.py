import pm_dpgmm as dpg
from pm_dpgmm.methods.fit_warnings import warning_for, warnings_of


def test_misfit_is_the_first_of_the_warnings():
    assert warnings_of({}, 2) == () and warnings_of({"caveats": ["one"]}, 2) == ("one",)
    first, second = warnings_of({"flagged": True, "misfit": 50.0, "caveats": ["one"]}, 2)
    assert "misfit 50" in first and second == "one"


def test_reasons_about_components_alone_are_a_milder_warning():
    """Also in files of earlier versions, whose texts begin with the components, too."""
    old = "component 2 may be noise: without one of them the released numbers are explained as well"
    other = "too few records or too small a budget for 3 components in 2 columns: ...; components may be noise"
    assert warning_for([old]) is dpg.ComponentWarning and issubclass(dpg.ComponentWarning, dpg.FitWarning)
    assert warning_for([old, other]) is warning_for([other]) is dpg.FitWarning

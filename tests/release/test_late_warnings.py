"""A warning after the budget is spent never costs the release."""

import warnings

import pytest

from pm_dpgmm.release.late_warnings import warn_after_spending


class Odd(UserWarning):
    pass


@pytest.mark.parametrize("given", [("told", Odd), (Odd("told"),)], ids=["text", "warning"])
def test_it_warns_as_python_does_from_the_place_that_is_meant(given):
    with pytest.warns(Odd, match="told") as caught:
        warn_after_spending(*given, stacklevel=1)
    assert [item.filename for item in caught] == [__file__]


def test_what_cannot_be_shown_is_left_out(monkeypatch):
    def fails(*args, **kwargs):
        raise ValueError("I/O operation on closed file")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", fails)
        assert warn_after_spending("unseen", Odd, stacklevel=1) is None


def test_what_was_asked_for_stays_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Odd, match="loud"):
            warn_after_spending("loud", Odd, stacklevel=1)

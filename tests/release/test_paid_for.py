"""A warning after the budget is spent never costs the release."""

import warnings

import pytest

from pm_dpgmm.release.paid_for import warn_after_spending


class Odd(UserWarning):
    pass


def test_it_warns_as_python_does_from_the_place_that_is_meant():
    with pytest.warns(Odd, match="twice") as caught:
        warn_after_spending("twice", Odd, stacklevel=1)
        warn_after_spending(Odd("twice"), stacklevel=1)
    assert [item.filename for item in caught] == [__file__] * 2


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

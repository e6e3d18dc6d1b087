"""The program that audits faults again and again says which of its names are none."""

import sys

import pytest

from verification.benchmarks import fault_power


@pytest.mark.parametrize("name", ["histogram_half_nois", "histogram", "histogram_release"])
def test_a_name_that_is_no_fault_is_refused(name, monkeypatch, capsys):
    """Also that of a mechanism and of a sound target: an audit of nothing would pass for one that caught it."""
    monkeypatch.setattr(sys, "argv", ["fault_power", "histogram_half_noise", name])
    assert fault_power.main() == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("names must be among")
    assert printed.err.endswith(f"; got {name}\n") and "histogram_half_noise, " in printed.err

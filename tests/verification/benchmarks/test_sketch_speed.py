"""The peer of the speed benchmark computes what the sketch does, and the command says which ratios were passed."""

import numpy as np
import pytest

from pm_dpgmm.mechanisms.frequencies import RieszProduct
from pm_dpgmm.mechanisms.sketch_features import GRID, sketch_sums
from verification.benchmarks import sketch_speed
from verification.benchmarks.sets import data_set


def test_the_plain_loop_sums_the_same_features():
    rng = np.random.default_rng(0)
    rows, bases = rng.standard_normal((500, 5)), rng.standard_normal((3, 4, 5))
    frames = RieszProduct(bases, np.zeros(5))
    ours = sketch_sums(rows, frames) * GRID / frames.amplitudes
    theirs = np.array(sketch_speed.product_loop(rows, bases)).reshape(2, -1)
    assert np.allclose(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.thorough
def test_the_command_prints_ratios_and_fails_when_one_is_passed(capsys, monkeypatch):
    monkeypatch.setattr(sketch_speed, "data_set", lambda name, repeat: data_set("small", 0))
    for most, status in ((1e9, 0), (0.0, 1)):
        monkeypatch.setattr(sketch_speed, "MOST", dict.fromkeys(sketch_speed.MOST, most))
        assert sketch_speed.main(["--repeats", "1", "--rows", "1000"]) == status
        printed = capsys.readouterr().out
        assert printed.count("MISSED" if status else "met") == 3 and "scikit-learn" in printed

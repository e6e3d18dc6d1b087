"""How far one record moves a sketch: numerical maximisation attains the bounds and never exceeds them."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

from pm_dpgmm.mechanisms.frequencies import FejerHarmonics, RieszProduct, frequencies_from_dict
from pm_dpgmm.privacy.guarantee import Neighbouring

REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE


def kernel(frequencies, shift):
    """Half the drop of the squared distance below its largest conceivable value: sum of a^2 cos(w.u)."""
    return float(frequencies.amplitudes**2 @ np.cos(frequencies.frequencies @ np.atleast_1d(shift)))


def largest_squared_change(frequencies, *, starts=60, seed=0):
    """2 (W - min kappa) over shifts of a record, from many starts."""
    rng = np.random.default_rng(seed)
    n_features = frequencies.frequencies.shape[1]
    reach = 40 / np.abs(frequencies.frequencies).max()
    found = [
        optimize.minimize(lambda u: kernel(frequencies, u), rng.uniform(-reach, reach, n_features), method="BFGS").fun
        for _ in range(starts)
    ]
    return 2 * ((frequencies.amplitudes**2).sum() - min(found))


@pytest.mark.parametrize("n_base", [1, 2, 3, 4, 5])
def test_a_frame_holds_one_of_each_pair_of_signed_sums(n_base):
    frames = RieszProduct(np.eye(n_base)[None], np.zeros(n_base))
    found = {tuple(w) for w in frames.frequencies.astype(int).tolist()}
    assert len(found) == frames.n_frequencies == (3**n_base - 1) // 2
    assert not found & {tuple(-x for x in w) for w in found}
    assert (frames.amplitudes**2).sum() == pytest.approx(2**n_base - 1)


@pytest.mark.parametrize(
    "n_base, n_frames, n_features",
    [(d, 1, c) for d in range(1, 7) for c in (1, d)] + [(2, 2, 2), (4, 2, 3), (4, 3, 4), (6, 2, 2), (4, 3, 2)],
)
def test_frames_attain_their_sensitivity_and_never_exceed_it(n_base, n_frames, n_features):
    bases = np.random.default_rng(1).normal(size=(n_frames, n_base, n_features))
    frames = RieszProduct(bases, np.zeros(n_features))
    bound = float(frames.squared_sensitivity(REPLACE))
    assert bound == n_frames * 2 ** (n_base + 1)
    found = largest_squared_change(frames, starts=30)
    assert found <= bound * (1 + 1e-9)
    if n_frames <= n_features:  # some shift turns a base phase of every frame by pi
        assert found == pytest.approx(bound, rel=1e-6)


def largest_by_phases(signs, squared_amplitudes):
    """2 (W - min kappa) over the differences of base phases, from many starts."""
    rng = np.random.default_rng(2)
    starts = rng.uniform(0, 2 * math.pi, size=(30, signs.shape[1]))
    found = [optimize.minimize(lambda u: squared_amplitudes @ np.cos(signs @ u), u, method="BFGS").fun for u in starts]
    return 2 * (squared_amplitudes.sum() - min(found))


@pytest.mark.parametrize("n_base, sums_only, equal", [(2, 9, 12), (3, 20, 36), (4, 43.0902, 108)])
def test_wrong_frames_break_the_bound(n_base, sums_only, equal):
    """Three planted faults: both composites are the sum; all amplitudes are 1; the norm is paid, not 2 W + 2."""
    frames = RieszProduct(np.eye(n_base)[None], np.zeros(n_base))
    signs, squares = frames.signs, frames.amplitudes**2
    paid = float(frames.squared_sensitivity(REPLACE))
    assert largest_by_phases(signs, squares) == pytest.approx(paid, rel=1e-6)
    assert largest_by_phases(np.abs(signs), squares) == pytest.approx(sums_only, rel=1e-5)
    assert largest_by_phases(signs, np.ones(len(signs))) == pytest.approx(equal, rel=1e-6)
    assert min(sums_only, equal) > 1.1 * paid > 2 * frames.squared_sensitivity(ADD_REMOVE)


def test_frequencies_that_are_multiples_of_each_other_do_no_harm():
    frames = RieszProduct(np.array([[[1.0], [2.0], [3.0], [4.0]]]), np.zeros(1))
    shifts = np.linspace(0, 2 * math.pi, 20_001)
    kernels = frames.amplitudes**2 @ np.cos(frames.frequencies @ shifts[None])
    assert 2 * (kernels[0] - kernels.min()) <= float(frames.squared_sensitivity(REPLACE)) * (1 + 1e-12)


@pytest.mark.parametrize("order", [1, 2, 8, 16, 24, 33])
def test_ladders_attain_their_sensitivity_and_never_exceed_it(order):
    ladder = FejerHarmonics(step=1.0, order=order, centre=0.0)
    assert (ladder.amplitudes**2).sum() == pytest.approx(order / 2)
    zeros = 2 * math.pi * np.arange(1, order + 1) / (order + 1)
    for shift in zeros:
        assert 2 * (order / 2 - kernel(ladder, shift)) == pytest.approx(order + 1, rel=1e-12)
    shifts = np.linspace(0, 2 * math.pi, 50_001)
    kernels = ladder.amplitudes**2 @ np.cos(ladder.frequencies @ shifts[None])
    assert 2 * (order / 2 - kernels.min()) <= (order + 1) * (1 + 1e-12)


@pytest.mark.parametrize(
    "frequencies", [RieszProduct(np.ones((3, 4, 5)), np.zeros(5)), FejerHarmonics(0.3, 16, 2.0)], ids=["riesz", "fejer"]
)
def test_one_record_more_or_less_is_the_norm(frequencies):
    norm = Fraction((frequencies.amplitudes**2).sum()).limit_denominator(10**6)
    assert frequencies.squared_sensitivity(ADD_REMOVE) == norm
    # with the count feature exactly half of what replacing a record does
    assert 2 * (norm + frequencies.squared_count_weight) == frequencies.squared_sensitivity(REPLACE)


@pytest.mark.parametrize(
    "frequencies",
    [RieszProduct(np.ones((1, 2, 3)) / 3, np.full(3, 0.1)), FejerHarmonics(0.3, 16, 2.0)],
    ids=["riesz", "fejer"],
)
def test_saved_frequencies_are_the_same_numbers(frequencies):
    again = frequencies_from_dict(json.loads(json.dumps(frequencies.to_dict())))
    assert np.array_equal(again.frequencies, frequencies.frequencies)
    assert np.array_equal(np.atleast_1d(again.centre), np.atleast_1d(frequencies.centre))


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: RieszProduct(np.ones((2, 3)), np.zeros(3)), "bases must have shape"),
        (lambda: RieszProduct(np.ones((1, 7, 3)), np.zeros(3)), "D at most 6"),
        (lambda: RieszProduct(np.ones((1, 2, 3)), np.zeros(2)), "centre must have shape"),
        (lambda: RieszProduct(np.full((1, 2, 3), np.nan), np.zeros(3)), "must be finite"),
        (lambda: FejerHarmonics(0.0, 16, 0.0), "step"),
        (lambda: FejerHarmonics(1.0, 0, 0.0), "order"),
        (lambda: FejerHarmonics(1.0, 2000, 0.0), "at most 1024"),
        (lambda: FejerHarmonics(1.0, 2, math.inf), "centre"),
        (lambda: frequencies_from_dict({"kind": "grid"}), "kind of frequencies"),
    ],
)
def test_bad_frequencies_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

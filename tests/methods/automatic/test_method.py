"""Method "auto" for one column without bounds: which method answers, why, for what price, and what is left of it."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms.column_scales import ColumnScales
from pm_dpgmm.methods.automatic import method as automatic
from pm_dpgmm.methods.automatic.method import Automatic, Parts
from pm_dpgmm.methods.automatic.verdict import kernel, verdict
from pm_dpgmm.methods.gaps.method import GapsMethod
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.sketch.method import SketchMethod
from pm_dpgmm.privacy.guarantee import Neighbouring, Unstable

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "progress": False}
N = 8_000
PROBLEM = Problem(N, 1, 2, 1.0, 1e-6, None, Neighbouring.REPLACE_ONE)


def counts_of(*, gaps=None, pairs=None, noise=10.0):
    """Scales with counts at these exponents, and nothing elsewhere."""
    arrays = [np.zeros(201), np.zeros(201)]
    for array, given in zip(arrays, (gaps or {}, pairs or {}), strict=True):
        for exponent, count in given.items():
            array[100 + exponent] = count
    return ColumnScales(arrays[0], noise, arrays[1], noise)


def gaps_of(deviation, n):
    """Expected gap counts of a Gaussian component."""
    at = round(np.log2(deviation * np.sqrt(2 * np.pi) / n))
    return {at + i - 16: float(n * share) for i, share in enumerate(kernel())}


@dataclass(frozen=True, slots=True)
class FewCandidates(GapsMethod):
    n_candidates: int = 3


@pytest.fixture
def quick(monkeypatch):
    """Fits to few candidates; everything that reads records is as it is."""
    monkeypatch.setattr(automatic, "GapsMethod", FewCandidates)


def crowds(apart, rng=None):
    """Two normal crowds of deviation 1."""
    rng = np.random.default_rng(1) if rng is None else rng
    return np.concatenate([rng.normal(size=N // 2), apart + rng.normal(size=N // 2)])[:, None]


@pytest.mark.parametrize("apart, answers", [(8.0, "sketch"), (1e9, "gaps")])
def test_released_scales_pick_the_method_and_the_release_says_so(apart, answers, quick, tmp_path):
    release = dpg.fit_gmm(crowds(apart), 2, **BUDGET, random_seed=1, checkpoint=tmp_path / "c.json")
    choice = release.noise["auto"]
    assert release.method == answers == choice["method"]
    assert sorted(release.means[:, 0]) == pytest.approx([0.0, apart], abs=0.5)
    assert {"gap_size_counts", "distance_counts", "size_noise"} <= set(release.raw)
    told = f"Chosen by method 'auto': {answers!r}"
    assert told in release.summary() and choice["reason"] in release.card(tmp_path / "card.md").read_text()
    assert release.guarantee.epsilon == 1.0 and release.guarantee.delta == 1e-6
    again = dpg.load(release.save(tmp_path / "r.json"))
    assert again.to_dict() == release.to_dict() and again.guarantee == release.guarantee
    resumed = dpg.resume(tmp_path / "c.json")
    assert resumed.method == answers and (resumed.means == release.means).all()
    assert resumed.noise["auto"] == choice and set(resumed.raw) == set(release.raw)
    assert release.settings == (SketchMethod().recorded() if answers == "sketch" else FewCandidates().recorded())


@pytest.mark.parametrize(
    "named",
    [
        {"method": "sketch"},
        {"order": 20},
        {"neighbouring": "add-remove"},
        {"bounds": (-20.0, 20.0)},
        {"delta": 1e-13},
    ],
)
def test_elsewhere_auto_is_what_it_was(named):
    relation = Neighbouring(named.get("neighbouring", "replace-one"))
    bounds = None if "bounds" not in named else np.array([named["bounds"]])
    asked = replace(PROBLEM, delta=named.get("delta", 1e-6), neighbouring=relation, bounds=bounds)
    if not {"method", "order"} & set(named):
        assert not Automatic.suits(asked)
    if named.get("delta") != 1e-13:
        release = dpg.fit_gmm(crowds(8.0), 2, **BUDGET | named, random_seed=1)
        assert release.method == "sketch" and "auto" not in release.noise


def test_few_records_several_columns_and_several_numbers_are_the_sketch():
    assert Automatic.suits(PROBLEM)
    for other in (
        replace(PROBLEM, n_records=4_000),
        replace(PROBLEM, n_features=2),
        replace(PROBLEM, n_components=1),
        replace(PROBLEM, choices=(1, 2)),
    ):
        assert not Automatic.suits(other)


@pytest.mark.parametrize("epsilon, delta", list(itertools.product([0.1, 1.0, 8.0], [1e-9, 1e-6, 1e-3])))
def test_the_parts_of_a_budget_add_up(epsilon, delta):
    parts = Parts.of(replace(PROBLEM, epsilon=epsilon, delta=delta))
    ways = [part.delta(epsilon) for part in parts.loss.parts]
    assert sum(ways) <= delta and ways == pytest.approx([0.8 * delta, 0.2 * delta], rel=0.02)
    assert 0.8 * epsilon < parts.gaps.epsilon < epsilon


def test_the_narrowest_group_and_the_farthest_distance_decide():
    near, far = {1: 3_000.0, 2: 1_000.0}, {1: 2_000.0, 29: 2_000.0}
    one = verdict(counts_of(gaps=gaps_of(1.0, 8_000), pairs=near), 8_000)
    assert one.narrowest == pytest.approx(1.0, rel=0.5) and one.farthest == 8.0 and not one.many_scales
    assert verdict(counts_of(gaps=gaps_of(1.0, 8_000), pairs=far), 8_000).many_scales
    both = gaps_of(1e-3, 4_000)
    for exponent, count in gaps_of(1e3, 4_000).items():
        both[exponent] = both.get(exponent, 0.0) + count
    mixed = verdict(counts_of(gaps=both, pairs={-10: 1_000.0, 11: 3_000.0}), 8_000)
    assert mixed.narrowest == pytest.approx(1e-3, rel=0.5) and mixed.many_scales
    rare = verdict(counts_of(gaps=gaps_of(1.0, 8_000), pairs=near | {29: 100.0}), 8_000)
    assert not rare.many_scales  # a distance of one pair in forty


def test_nothing_that_stands_out_is_no_reason_to_change_the_method():
    nothing = verdict(counts_of(), 8_000)
    assert not nothing.many_scales and "no scale stood out" in nothing.reason


def test_a_refusal_has_the_guarantee_of_the_whole(quick, monkeypatch):
    def refuse(*given, **named):
        raise Unstable("method 'gaps' refused", None)

    monkeypatch.setattr(GapsMethod, "release", refuse)
    with pytest.raises(Unstable, match="method 'auto' took 'gaps': method 'gaps' refused") as caught:
        dpg.fit_gmm(crowds(1e9), 2, **BUDGET, random_seed=1)
    assert caught.value.guarantee.epsilon == 1.0 and caught.value.guarantee.delta == 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize("shape", ["normal", "lognormal", "exponential", "cauchy"])
def test_ordinary_columns_keep_the_sketch(shape):
    """The narrowest group is found within a factor of some: no noise of 20 runs makes 128 of it (false alarm 1e-4)."""
    from fractions import Fraction

    from pm_dpgmm.mechanisms.column_scales import noisy_column_scales

    rng = np.random.default_rng(2)
    draw = {"normal": rng.normal, "lognormal": lambda size: rng.lognormal(0, 1, size), "exponential": rng.exponential}
    column = rng.standard_cauchy(10_000) if shape == "cauchy" else draw[shape](size=10_000)
    budget = Parts.of(PROBLEM).sketch
    for seed in range(20):
        found, _ = noisy_column_scales(
            column,
            budget=budget,
            share=Fraction(3, 200),
            neighbouring=Neighbouring.REPLACE_ONE,
            rng=np.random.default_rng(seed),
        )
        assert not verdict(found, 10_000).many_scales

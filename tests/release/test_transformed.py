"""Releases of transformed columns: densities and draws in people's units, files, sites, other numbers of components."""

import copy
import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pm_dpgmm as dpg
from tests.builders.transformations import signed_log

T = dpg.Transformation
BOUNDS = {"income": (0, 1e6), "age": (0, 110)}


def people(n_records=2_000, seed=1):
    """Two groups, of incomes about e^8 and e^10.5."""
    rng = np.random.default_rng(seed)
    income = np.exp(rng.normal(np.repeat([8.0, 10.5], n_records // 2), 0.5))
    return pd.DataFrame({"income": income, "age": rng.normal(40.0, 10.0, n_records)})


def fitted(X, n_components=2, *, transform=None, bounds=BOUNDS, method="histogram", **settings):
    settings = {"epsilon": 2.0, "random_seed": 1, "progress": False} | settings
    transform = {"income": "log"} if transform is None else transform
    return dpg.fit_gmm(X, n_components, bounds=bounds, transform=transform, method=method, **settings)


@pytest.fixture(scope="module")
def released():
    return fitted(people())


def test_a_fit_is_that_of_transformed_records_to_the_last_bit(released):
    """By hand, in the unit of logarithms; values below the floor count as it."""
    X = people()
    X.iloc[0, 0] = -5.0
    by_hand = X.assign(income=T.log(1.0).of_records(X["income"].to_numpy()))
    bounds = [[0.0, float(T.log(1.0).of_records(np.array([1e6]))[0])], [0.0, 110.0]]
    plain = dpg.fit_gmm(by_hand, 2, epsilon=2.0, bounds=bounds, method="histogram", random_seed=1, progress=False)
    found = fitted(X)
    assert np.array_equal(found.raw["counts"], plain.raw["counts"]) and np.array_equal(found.means, plain.means)
    assert found.guarantee == plain.guarantee
    assert fitted(X, transform=["log", None]).transformations == found.transformations
    assert fitted(X.to_numpy(), transform=[T.log(1.0), None], bounds=[(0, 1e6), (0, 110)]).means.tolist() == (
        plain.means.tolist()
    )


def test_transformations_of_a_release_go_by_the_names_of_its_columns(released, tmp_path):
    released.save(tmp_path / "r.json")
    for maps in (released.transformations, dpg.load(tmp_path / "r.json").transformations):
        other = fitted(people()[["age", "income"]], 1, transform=maps)
        assert other.transformations.labels(other.feature_names) == ("age", "income (log)")


@pytest.mark.thorough
def test_files_are_transformed_as_frames_are(tmp_path):
    X = people(200)
    X.to_csv(tmp_path / "people.csv", index=False, float_format="%.17g")
    assert np.array_equal(fitted(tmp_path / "people.csv", 1).means, fitted(X, 1).means)


@pytest.mark.thorough
def test_blocks_are_transformed_as_arrays_are():
    X = people(1_000)
    settings = {"method": "sketch", "epsilon": 3.0, "delta": 1e-5}
    whole, blocks = (fitted(of, 1, **settings) for of in (X, dpg.RecordBlocks(X, rows_per_block=77)))
    assert np.array_equal(whole.means, blocks.means)


def test_densities_and_draws_are_in_the_unit_of_the_records(released):
    points = np.array([[3_000.0, 40.0], [40_000.0, 30.0], [0.0, 40.0], [-7.0, 40.0]])
    inner = np.column_stack([np.log(points[:2, 0]), points[:2, 1]])
    expected = released.row_density.log_density(inner) - np.log(points[:2, 0])
    assert released.log_density(points)[:2] == pytest.approx(expected, rel=1e-12)
    assert (released.log_density(points)[2:] == -np.inf).all()
    drawn = released.sample(4_000, random_seed=1, as_frame=True)
    assert (drawn["income"] > 0).all() and released.density.sample(1, rng=np.random.default_rng(1))[0, 0] < 20
    ours, theirs = (np.quantile(np.log(of["income"]), [0.25, 0.75]) for of in (drawn, people()))
    assert ours == pytest.approx(theirs, abs=0.5)


def test_marginals_and_conditionals_say_what_they_are(released):
    assert isinstance(released.marginal(["age"]), dpg.Mixture)
    income = released.marginal(["income"])
    assert isinstance(income, dpg.TransformedMixture) and income.medians.shape == (2, 1)
    known = released.conditional({"income": 3_000.0})
    assert isinstance(known, dpg.Mixture)
    assert known.means == pytest.approx(released.density.conditional({0: np.log(3_000.0)}).means)
    given = released.conditional({"age": 40.0})
    age = released.marginal(["age"]).log_density([[40.0]])
    joint = released.law.log_density([[3_000.0, 40.0]])
    assert given.log_density([[3_000.0]]) + age == pytest.approx(joint, rel=1e-9)
    with pytest.raises(ValueError, match=r"given\['income'\] must be a number that its transformation .* got 0.0"):
        released.conditional({"income": 0.0})


def test_texts_say_which_unit_is_which(released, tmp_path):
    text = released.summary()
    assert "Transformed columns: income: log, floor 1; means and deviations below are in the transformed unit" in text
    assert "(medians, in the unit of the records)" in text
    heaviest = np.argmax(released.weights)
    assert f"{np.exp(released.means[heaviest, 0]):.4g}" in text
    assert "income: log, floor 1" in released.card(tmp_path / "card.md").read_text()


@pytest.mark.thorough(quick=["income"])
@pytest.mark.parametrize("names", [["income"], ["income", "age"], ["age", "income"]], ids="-".join)
def test_plots_are_in_the_unit_of_the_records(released, names):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = released
    if len(names) == 1:
        shown = fitted(people()[names], transform="log", bounds=(0, 1e6))
        ax = shown.plot(n_points=50)
        x, y = ax.lines[0].get_data()
        assert y == pytest.approx(np.exp(shown.law.log_density(x[:, None]))) and x[0] > 0
        assert sum(line.get_ydata() for line in ax.lines[1:]) == pytest.approx(y)
    else:
        ax = shown.plot(features=names, n_points=50)
    scales = {"x": ax.get_xscale(), "y": ax.get_yscale()}
    assert scales["xy"[names.index("income")]] == "log" and sorted(scales.values()) == ["linear", "log"]
    plt.close("all")


def test_files_hold_named_transformations_and_refuse_others(released, tmp_path):
    again = dpg.load(released.save(tmp_path / "release.json"))
    assert again.transformations == released.transformations
    assert pickle.loads(pickle.dumps(released)).transformations == released.transformations
    assert again.log_density([[3_000.0, 40.0]]) == released.log_density([[3_000.0, 40.0]])
    fields = json.loads(json.dumps(released.to_dict()))
    assert fields["schema_version"] == 2  # readers that know of no transformations refuse it
    log = {"name": "log", "floor": 1.0}
    for bad in (
        None, [], [log], [None, None], [log, log, log], "log", [log, "asinh"], [{"name": "exp"}, None],
        [{"name": ["log"], "floor": 1.0}, None], [{"name": "log"}, None], [log | {"forward": "os.system"}, None],
        [log | {"floor": -1.0}, None], [log | {"floor": True}, None], [log | {"floor": "1"}, None],
        [log | {"floor": float("nan")}, None], [log | {"floor": 1e300}, None],
        [{"name": "logit", "low": 0, "high": 0, "margin": 0.1}, None],
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            dpg.Release.from_dict(fields | {"transformations": bad})
    with pytest.raises(ValueError, match="transformations must be left out with schema_version 1"):
        dpg.Release.from_dict(fields | {"schema_version": 1})
    rounded = fields | {"noise": fields["noise"] | {"resolution": [1.0, 0.0]}}
    with pytest.raises(ValueError, match="resolution must be 0, or left out, for columns with a transform"):
        dpg.Release.from_dict(rounded)
    assert dpg.Release.from_dict(rounded | {"noise": fields["noise"] | {"resolution": [0.0, 1.0]}}).resolution[1] == 1


def test_functions_are_never_in_a_file(tmp_path):
    X = people(200)
    ledger = dpg.Ledger(tmp_path / "ledger.sqlite", epsilon=5.0)
    settings = {"transform": {"income": signed_log()}, "ledger": ledger}
    path = tmp_path / "fit.partial.json"
    words = r"must have named transformations to be saved: files hold no code.*got functions for \['income'\]"
    with pytest.raises(ValueError, match=f"a fit with a checkpoint {words}"):
        fitted(X, 1, checkpoint=path, **settings)
    assert not path.exists() and ledger.spent == (0.0, 0.0)
    release = fitted(X, 1, **settings)
    assert release.log_density([[3_000.0, 40.0]]).shape == (1,) and "signed log" in release.summary()
    with pytest.raises(ValueError, match="must have named transformations to be saved"):
        release.save(tmp_path / "release.json")
    assert not (tmp_path / "release.json").exists()
    assert copy.copy(release) is release and copy.deepcopy([release])[0] is release
    assert dpg.load(replace(release, transformations=None).save(tmp_path / "inner.json")).transformations is None


@pytest.mark.thorough
def test_an_interrupted_fit_is_resumed_with_its_transformations(released, tmp_path):
    path = tmp_path / "fit.partial.json"
    fitted(people(), checkpoint=path)
    again = dpg.resume(path)
    assert again.transformations == released.transformations and np.array_equal(again.means, released.means)
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"transformations": [None, {"name": "exp"}]}))
    with pytest.raises(ValueError, match=r"path must be a valid checkpoint file.*a transformation must have a name"):
        dpg.resume(path)


def test_another_mixture_of_the_same_numbers_keeps_them(released):
    assert released.refit(1).transformations == released.transformations


@pytest.mark.thorough
def test_sites_need_equal_transformations(tmp_path):
    settings = {"method": "sketch", "epsilon": 3.0, "delta": 1e-5}
    north, ledger = fitted(people(1_500), 1, **settings), dpg.Ledger(tmp_path / "l.sqlite", epsilon=9.0, delta=1e-3)
    with pytest.raises(ValueError, match=r"transform must be that of like, .income: log, floor 1.*, got .*floor 2"):
        fitted(people(1_500, 2), 1, like=north, transform={"income": T.log(2.0)}, ledger=ledger, **settings)
    with pytest.raises(ValueError, match=r"transform must be that of like, .*, got None"):
        fitted(people(1_500, 2), 1, like=north, transform=[None, None], ledger=ledger, **settings)
    assert ledger.spent == (0.0, 0.0)
    south = fitted(people(1_500, 2), 1, like=north, **settings)
    both = dpg.combine([north, south])
    assert both.transformations == north.transformations and both.select_k([1]).release.transformations is not None
    with pytest.raises(ValueError, match="releases must have equal transformations"):
        dpg.combine([north, replace(south, transformations=None)])
    assert "income (log) mean" in repr(both.standard_errors())
    inside, outside = both.band([[3_000.0, 40.0], [-1.0, 40.0]], n_draws=20).upper
    assert inside > 0 and outside == 0
    at = both.band([3_000.0], names=["income"], given={"age": 40.0}, n_draws=20)
    assert at.estimate == pytest.approx(np.exp(both.conditional({"age": 40.0}).log_density([[3_000.0]])))


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["em", "central", "local", "gaps", "aggregate"])
def test_every_method_sees_transformed_records(method):
    """Seeded. In the unit of the records the means are thousands apart."""
    income = np.exp(np.random.default_rng(1).normal(np.repeat([3.0, 8.0], 2_500), 0.5))
    delta, bounds = None if method in ("central", "local") else 1e-5, None if method == "gaps" else (0, 1e5)
    found = fitted(income, transform=[signed_log()], bounds=bounds, method=method, epsilon=8.0, delta=delta)
    assert np.sort(found.means[:, 0]) == pytest.approx([3.05, 8.0], abs=0.3)


def test_rounded_and_transformed_columns_are_apart():
    X = people(500)
    with pytest.raises(ValueError, match=r"resolution must be 0, or left out, for columns with a tran.*\['income'\]"):
        fitted(X, 1, resolution=1.0)
    found = fitted(X, 1, resolution={"age": 1.0})
    drawn = found.sample(20, random_seed=1, rounded=True)
    assert (drawn[:, 1] % 1 == 0).all() and (drawn[:, 0] % 1 != 0).all()


def test_the_estimator_takes_rows_in_the_unit_of_the_records():
    X = people()
    found = dpg.PrivateGaussianMixture(
        2, epsilon=2.0, bounds=BOUNDS, transformations={"income": "log"}, method="histogram", random_state=1
    ).fit(X)
    assert np.array_equal(found.score_samples(X), found.release_.log_density(X))
    rich = int(np.argmax(found.means_[:, 0]))
    assert found.predict(pd.DataFrame({"income": [-1.0, 1e3, 1e5], "age": 40.0})).tolist() == [1 - rich] * 2 + [rich]
    assert (found.sample(50)[0][:, 0] > 0).all()


def test_a_plan_has_none():
    with pytest.raises(ValueError, match="transform must be left out of a plan, whose mixtures are those of"):
        dpg.plan(1_000, 1, 1, epsilon=1.0, transform="log")

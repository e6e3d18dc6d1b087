"""One row for every kind of statistic in every layer's table, and one rule that names the kind of a release."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.bayes.likelihoods.observe import LIKELIHOODS, Likelihood
from pm_dpgmm.bayes.parameters.anchor_laws import ERROR_LAWS
from pm_dpgmm.fit import METHODS
from pm_dpgmm.methods.released_statistics import RULES
from pm_dpgmm.methods.statistic import OF_METHOD, Statistic
from pm_dpgmm.release.by_statistic import ALLOWED

ROOT = Path(__file__).resolve().parent.parent.parent
RELEASES = sorted((ROOT / "tests" / "data" / "releases").glob("*.json"))
KINDS = {
    "central": Statistic.CELL_SUMS,
    "em": Statistic.EM_SUMS,
    "em_k_means": Statistic.CLUSTER_SUMS,
    "gaps": Statistic.BIN_COUNTS,
    "histogram": Statistic.GRID_COUNTS,
    "local": Statistic.LOCAL_RESPONSES,
    "populous": Statistic.LIFTED_MASK,
    "populous_single": Statistic.MASK,
    "slices": Statistic.SLICE_COUNTS,
}


@pytest.mark.parametrize("table", [RULES, LIKELIHOODS, ERROR_LAWS, ALLOWED], ids=["rules", "bayes", "errors", "free"])
def test_every_table_has_a_row_for_every_kind(table):
    assert set(table) == set(Statistic)


def test_every_method_of_the_front_door_releases_a_known_kind():
    assert set(METHODS) <= set(OF_METHOD) and Statistic.UNKNOWN not in OF_METHOD.values()
    assert {method for kind in Statistic for method in kind.methods} == set(OF_METHOD)


@pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.stem)
def test_stored_releases_are_of_the_kind_of_their_method(path):
    assert dpg.load(path).statistic is KINDS.get(path.stem, Statistic.SKETCH)


@pytest.mark.parametrize(
    "method, noise, kind",
    [
        ("two-phase", {"sketches": [], "crude": {"law": "mask"}}, Statistic.SKETCH),
        ("sketch", {}, Statistic.UNKNOWN),  # it says it is one, and holds none
        ("populous", {}, Statistic.LIFTED_MASK),
        ("populous", {"law": "mask"}, Statistic.MASK),
        ("my own", {"law": "lifted-mask"}, Statistic.LIFTED_MASK),
        ("my own", {"law": ["mask"]}, Statistic.UNKNOWN),
        ("histogram", {"law": None}, Statistic.GRID_COUNTS),
        ("em", {"statistic": "cluster sums"}, Statistic.CLUSTER_SUMS),
        ("em", {"statistic": ["cluster sums"]}, Statistic.EM_SUMS),
        ("central", {"statistic": "cluster sums"}, Statistic.CELL_SUMS),
        (["histogram"], {"law": {}}, Statistic.UNKNOWN),
    ],
)
def test_what_a_release_says_of_its_numbers_comes_before_its_method(method, noise, kind):
    assert Statistic.of(method, noise) is kind


def test_a_likelihood_says_its_forms_and_a_refusal_why():
    for kind, row in LIKELIHOODS.items():
        assert row if isinstance(row, str) else isinstance(row, Likelihood) and row.forms, kind
    assert {kind for kind, row in LIKELIHOODS.items() if getattr(row, "ordered", False)} == {
        Statistic.MASK,
        Statistic.LIFTED_MASK,
        Statistic.AVERAGE,
    }


def dispatches(source):
    """Comparisons of a method's name, or questions for an entry of ``noise`` that names a kind, with literal texts."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            texts = any(
                isinstance(one, ast.Constant) and isinstance(one.value, str) for side in sides for one in ast.walk(side)
            )
            words = [ast.unparse(side) for side in sides]
            of_method = any(word.split(".")[-1] == "method" for word in words) and "'auto'" not in words
            of_kind = any(word.endswith(".noise") for word in words) and words[0] == "'sketches'"
            found += [ast.unparse(node)] * (texts and (of_method or of_kind))
    return found


@pytest.mark.parametrize("folder", ["methods", "bayes", "release", "planning"])
def test_no_text_decides_what_is_done_with_a_release(folder):
    for path in sorted((ROOT / "pm_dpgmm" / folder).rglob("*.py")):
        assert dispatches(path.read_text()) == [], path


@pytest.mark.parametrize(
    "line",
    ["release.method == 'histogram'", "source.method in ('sketch', 'two-phase')", "'sketches' in release.noise"],
)
def test_a_planted_dispatch_by_text_is_found(line):
    assert dispatches(f"if {line}:\n    pass") == [line]
    assert dispatches("if method == 'auto':\n    pass\nif release.statistic is Statistic.SKETCH:\n    pass") == []


def test_caveats_of_an_older_file_are_computed_once(monkeypatch):
    calls = []
    row = RULES[Statistic.GRID_COUNTS]

    def counted(raw, noise, mixture):
        calls.append(1)
        return ["old"]

    monkeypatch.setitem(RULES, Statistic.GRID_COUNTS, type(row)(row.check, counted))
    old = dpg.load(ROOT / "tests" / "data" / "releases" / "histogram.json")
    assert not calls  # a file that nobody asks costs nothing
    assert [old.warnings, old.warnings] == [("old",)] * 2 and old.flag == "old" and "old" in old.summary()
    assert len(calls) == 1 and "_older_caveats" not in repr(old) and "caveats" not in old.to_dict()["noise"]
    new = replace(old, noise=dict(old.noise) | {"caveats": ["noted"]})
    assert new.warnings == ("noted",) and len(calls) == 1
    assert replace(old, mixture=old.mixture.permuted(np.arange(old.n_components))).warnings == ("old",)
    assert len(calls) == 2  # another mixture is judged anew

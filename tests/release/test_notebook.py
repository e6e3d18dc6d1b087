"""What notebooks show of releases: short, escaped, and with every warning."""

import dataclasses
import json
from pathlib import Path

import pytest

import pm_dpgmm as dpg
from tests.builders.pages import HOSTILE, read

FILES = Path(__file__).parent.parent / "data" / "releases"


def of_file(name, **changes):
    return dpg.Release.from_dict(json.loads((FILES / f"{name}.json").read_text()) | changes)


@pytest.mark.parametrize("name", sorted(path.stem for path in FILES.glob("*.json")))
def test_every_kind_of_release_is_shown(name):
    release = of_file(name)
    shown = read(release._repr_html_())
    told = " ".join(shown.texts)
    assert f"epsilon = {release.guarantee.epsilon:g}" in told and release.method in told
    assert ("NOT PRIVATE" in told) is not release.private
    assert told.count("Warning:") == len(release.warnings)
    assert shown.tags <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}


def test_texts_of_a_file_stay_texts():
    release = of_file("histogram", feature_names=[HOSTILE])
    noise = release.to_dict()["noise"] | {"caveats": [HOSTILE]}
    shown = read(dataclasses.replace(release, noise=noise)._repr_html_())
    assert "script" not in shown.tags and "<script>alert(1)</script>" in " ".join(shown.texts)
    assert "\x1b" not in "".join(shown.texts) and not [a for a in shown.attributes if a[1].startswith("on")]


def test_long_releases_are_shown_short():
    mixture = dpg.Mixture(
        [1 / 40] * 40,
        [[float(k)] * 30 for k in range(40)],
        [[[float(i == j) for i in range(30)] for j in range(30)]] * 40,
    )
    release = dataclasses.replace(
        of_file("em_k_means"), mixture=mixture, feature_names=tuple(f"c{j}" for j in range(30)), raw={}, noise={},
    )  # fmt: skip
    told = " ".join(read(release._repr_html_()).texts)
    assert "and 28 more" in told and "and 24 more columns" in told and len(told) < 3_000


def test_components_have_one_number_everywhere():
    release = of_file("sketch_two_columns")
    heaviest = int(release.weights.argmax())
    rows = release.summary().splitlines()
    first = rows[next(i for i, row in enumerate(rows) if row.startswith("component")) + 1].split()
    assert int(first[0]) == heaviest and float(first[1]) == pytest.approx(release.weights[heaviest], abs=1e-3)
    assert repr(release.standard_errors()).startswith(f"component {heaviest}:")

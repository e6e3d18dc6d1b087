"""The card: what it says, that texts from anywhere stay texts, that files are written whole, once, or not at all."""

import dataclasses
import datetime
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.cli.main import main
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.group_privacy import group_epsilons, points_of
from pm_dpgmm.privacy.guarantee import Guarantee
from pm_dpgmm.release.card.markdown import plain
from pm_dpgmm.release.card.numbers import curve_rows, factor, group_rows, rounded_up
from pm_dpgmm.release.card.writing import LAYOUTS, card_text
from tests.builders.pages import HOSTILE, read

FILES = Path(__file__).parents[2] / "data" / "releases"


def of_file(name, **changes):
    return dpg.Release.from_dict(json.loads((FILES / f"{name}.json").read_text()) | changes)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    release = of_file("sketch_two_columns", feature_names=["age", "fee"], private=True)
    path = tmp_path_factory.mktemp("card") / "card.html"
    made = release.card(
        path,
        title="Ages and fees",
        data="visits to the north clinic",
        contact="dpo@clinic.example",
        licence="CC BY 4.0",
        date=datetime.date(2026, 11, 24),
        units={"age": "years"},
        descriptions={"fee": "log of the fee"},
        rows_per_person=4,
    )
    assert made == path
    return release, path.read_text()


def test_a_page_says_what_a_data_protection_officer_asks(page):
    release, text = page
    told = " ".join(read(text).texts)
    for words in (
        "Ages and fees", "visits to the north clinic", "dpo@clinic.example", "CC BY 4.0", "2026-11-24", "years",
        "log of the fee", "not stated", "Protected:", "Not protected:", "nobody has more than 4", "guesses right",
        "has at most 4 records; for all of them together: epsilon = ",
        f"{release.n_records:,}; their number is public", "How to load it", "dpg.load('release.json')",
        "±", "discrete Gaussian", release.summary().splitlines()[2],
    ):  # fmt: skip
        assert words in told, words
    assert "NOT PRIVATE" not in told


def test_a_contradiction_that_is_too_small_for_a_warning_is_told_with_the_standard_errors(page):
    """Where nothing but standard errors suffers there is no warning; a card must not say that all is well either."""
    release = page[0]
    misfit = {"misfit": 302.0, "flagged": False, "gain": 0.01, "shortfall": 0.0, "tail": None}
    found = dataclasses.replace(release, noise=dict(release.noise) | misfit)
    errors = found.standard_errors()
    text = card_text(found)
    assert found.warnings == () and errors.flag == found.misfit.contradiction
    assert f"Do not rely on these: {errors.flag}" in text and f"None, although {errors.flag}" in text
    assert "do not speak against" not in text
    well = card_text(release)
    assert "Do not rely on these" not in well and "None: the released numbers do not speak against the mixture" in well


def test_epsilons_of_a_card_are_never_below_what_is_proved(page):
    g = page[0].guarantee
    proved = group_epsilons(g, (1, 2, 3, 4, 5, 10), delta=g.delta)
    told = [float(row[1]) for row in group_rows(g, 4, points_of(g))]
    assert all(a >= b * (1 - 1e-8) for a, b in zip(told, proved, strict=True)) and told != proved
    assert all(g.loss.delta(float(epsilon)) <= float(delta) for delta, epsilon, _ in curve_rows(g))


def test_a_page_loads_and_runs_nothing(page):
    reader = read(page[1])
    assert not reader.tags & {"script", "iframe", "object", "embed", "link", "img", "base", "form"}
    assert not [a for a in reader.attributes if a[1].startswith("on") or a[1] in ("src", "srcset", "action")]
    targets = [value for _, name, value in reader.attributes if name.endswith("href")]
    assert all(value.startswith("#") for value in targets)  # within a drawing
    assert not re.findall(r"url\((?!#)", page[1]) and "@import" not in page[1]
    assert "default-src 'none'" in page[1]


def test_drawings_are_whole_and_one_for_each_column_and_pair(page):
    drawings = re.findall(r"<svg.*?</svg>", page[1], flags=re.DOTALL)
    assert len(drawings) == 1 + 2 + 1
    for drawing in drawings:
        ElementTree.fromstring(drawing.replace("xlink:", ""))  # or it is none


@pytest.mark.parametrize("suffix", LAYOUTS)
@pytest.mark.parametrize("name", ["histogram", "sketch_one_column"])
def test_texts_from_anywhere_are_texts(name, suffix):
    """A column called <script>, a law, a mechanism, a warning, and what is given to the card itself."""
    release = of_file(name, feature_names=[HOSTILE])
    noise = release.to_dict()["noise"] | {"caveats": [HOSTILE], HOSTILE: HOSTILE}
    guarantee = dataclasses.replace(release.guarantee, mechanism=HOSTILE)
    release = dataclasses.replace(release, noise=noise, guarantee=guarantee)
    given = dict.fromkeys(("title", "data", "contact", "licence", "date", "file"), HOSTILE)
    made = card_text(release, suffix=suffix, units={HOSTILE: HOSTILE}, descriptions={HOSTILE: HOSTILE}, **given)
    assert "\x1b" not in made and "\u202e" not in made
    if suffix.startswith(".h"):
        reader = read(made)
        assert "script" not in reader.tags and not [a for a in reader.attributes if a[1].startswith("on")]
        assert "<script>alert(1)</script>" in " ".join(reader.texts)  # as letters
        return
    outside = re.sub(r"^(`{3,})\n.*?\n\1$", "", made, flags=re.DOTALL | re.MULTILINE)
    assert "<" not in outside and "script" in outside
    rows = [line for line in outside.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} <= {3, 4, 6, 7}


def test_markdown_reads_as_it_was_given():
    mark = pytest.importorskip("markdown_it")
    for text in (HOSTILE.split("\x1b")[0], "a_b __c__ *d* [e](f) # g ![h](i) ~~j~~", "| x |", "1. a", "<b>"):
        laid = mark.MarkdownIt("commonmark").render(f"begin {plain(text)} end")
        reader = read(laid)
        assert reader.tags == {"p"} and "".join(reader.texts).strip() == f"begin {text} end"


def test_what_is_not_private_says_so_first(tmp_path):
    release = dataclasses.replace(of_file("histogram"), private=False)
    for name in ("card.html", "card.md"):
        text = release.card(tmp_path / name).read_text()
        assert "NOT PRIVATE" in text and text.index("NOT PRIVATE") < text.index("At a glance")


def test_files_are_never_overwritten_unasked_and_no_part_of_one_stays(tmp_path, monkeypatch):
    release = of_file("histogram")
    path = release.card(tmp_path / "card.md")
    before = path.read_text()
    with pytest.raises(FileExistsError, match="path must be a new file"):
        release.card(path, title="other")
    assert path.read_text() == before
    assert release.card(path, title="other", force=True).read_text().startswith("# other")
    from pm_dpgmm.files import writing

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing.os, "fsync", full)
    for name, force in (("card.md", True), ("new.html", False)):
        with pytest.raises(OSError, match="No space left"):
            release.card(tmp_path / name, force=force)
    assert [place.name for place in tmp_path.iterdir()] == ["card.md"]
    assert path.read_text().startswith("# other")


@pytest.mark.parametrize(
    "given, error, words",
    [
        ({"title": 3}, TypeError, "title must be text"),
        ({"title": " "}, ValueError, "title must be a text that can be read"),
        ({"units": {"nobody": "m"}}, ValueError, "units must be among"),
        ({"units": ["m"]}, TypeError, "units must map names of columns"),
        ({"descriptions": {"c0": 3}}, TypeError, "descriptions.*must be text"),
        ({"rows_per_person": 0}, ValueError, "rows_per_person must be at least 1"),
        ({"date": 3}, TypeError, "date must be text or a date"),
        ({"ledger": 3}, TypeError, "ledger must be a pm_dpgmm.Ledger"),
        ({"force": 1}, TypeError, "force must be True or False"),
    ],
)
def test_bad_facts_are_refused_before_anything_is_written(given, error, words, tmp_path):
    release = of_file("histogram", feature_names=["c0"])
    with pytest.raises(error, match=words):
        release.card(tmp_path / "card.html", **given)
    with pytest.raises(ValueError, match=r"path must end in one of \.html"):
        release.card(tmp_path / "card.pdf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough(quick=["em", "local", "sketch_combined"])
@pytest.mark.parametrize("name", sorted(path.stem for path in FILES.glob("*.json")), ids=str)
def test_every_kind_of_release_has_a_card(name):
    release = of_file(name)
    text = card_text(release)
    assert "| column | unit | lower bound | upper bound |" in text and "| m | epsilon | factor exp" in text
    assert ("records is protected" in text or f"{release.n_records or 0:,}; their number" in text) or (
        "their number is protected" in text
    )


def test_bounds_are_those_that_were_given():
    X = np.random.default_rng(1).lognormal(3.0, 0.5, size=(2_000, 1))
    release = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(1.0, 1000.0), transform="log")
    assert "| x0 | not stated | 1 | 1000 | log" in card_text(release)


def test_several_records_are_told_at_the_stated_delta():
    text = card_text(of_file("histogram"), rows_per_person=7)
    epsilon = of_file("histogram").guarantee.epsilon
    told = rounded_up(7 * epsilon, 4)
    assert f"| 7 | {told} |" in text
    assert f"| A person | has at most 7 records; for all of them together: epsilon = {told} |" in text


def test_a_card_says_what_a_whole_person_is_promised():
    release = of_file("sketch_two_columns")
    at_three = re.search(r"\| 3 \| (\S+) \|", card_text(release, rows_per_person=3))
    told = f"together: epsilon = {at_three[1]} at delta = {release.guarantee.delta:g} |"
    assert float(at_three[1]) > 3 * release.guarantee.epsilon and told in card_text(release, rows_per_person=3)
    assert "nothing is proved |" in card_text(release, rows_per_person=10**6).split("## Columns")[0]
    assert "| A person | has one record, so that the promise is to people |" in card_text(release, rows_per_person=1)
    assert "| A person | how many records one person may have is not stated |" in card_text(release)


def test_a_person_with_two_records_is_promised_something_by_a_fit_of_defaults(tmp_path):
    """Its curve stays above a part of delta, so that no epsilon holds for two at the delta of one."""
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(0, 1, 3_000), rng.normal(6, 1, 3_000)])[:, None]
    release = dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, progress=False)
    assert type(release.guarantee.loss).__name__ == "EitherProfile"  # "auto" had two ways
    assert group_epsilons(release.guarantee, [2], delta=1e-6) == [np.inf]
    assert group_epsilons(release.guarantee, [2], delta=3.72e-6)[0] == pytest.approx(2.0)
    text = release.card(tmp_path / "card.md", rows_per_person=2).read_text()
    assert "for all of them together: epsilon = 2 at delta = 3.72e-06 |" in text
    assert "| 2 | 2 at delta = 3.72e-06 | 7.39 |" in text and "a row has the larger delta" in text
    assert "a row has the larger delta" not in card_text(of_file("histogram"))


def test_deltas_of_rows_of_their_own_are_never_below_the_sum():
    guarantee = Guarantee(0.7, 1e-5, dpg.Neighbouring.REPLACE_ONE, "any", PointProfile(0.7, 1e-5))
    rows = group_rows(guarantee, 40, points_of(guarantee))
    for m, epsilon, _ in rows[1:-1]:
        told, at = map(float, epsilon.split(" at delta = "))
        exact = 1e-5 * sum(np.exp(0.7 * i) for i in range(int(m)))
        assert exact <= at <= 1.01 * exact and told == pytest.approx(0.7 * int(m))
    assert rows[0][1] == "0.7" and rows[-1] == ["40", "nothing is proved", "more than 1e+15"]  # delta above 1


def test_the_ledger_is_told_by_its_sums_alone(tmp_path):
    ledger = dpg.Ledger(tmp_path / "secret-place.sqlite", epsilon=3.0, delta=1e-5)
    ledger.reserve(1.0, 1e-6, "replace-one", "private sketch")
    ledger.reserve(0.5, 0.0, "replace-one", "histogram")
    for given in (ledger, ledger.path):
        text = card_text(of_file("histogram"), ledger=given)
        assert "| spent, in 2 charges | 1.5 | 1e-06 |" in text and "secret-place" not in text


def test_the_command_writes_a_page_with_what_it_was_told(tmp_path, capsys):
    path, page = tmp_path / "release.json", tmp_path / "card.html"
    of_file("histogram", feature_names=["wait"]).save(path)
    given = ["card", str(path), "--output", str(page), "--title", "Waiting", "--unit", "wait=days"]
    assert main([*given, "--describe", "wait=from call to visit", "--rows-per-person", "2", "--contact", "C"]) == 0
    told = " ".join(read(page.read_text()).texts)
    for words in ("Waiting", "days", "from call to visit", "nobody has more than 2", "dpg.load('release.json')"):
        assert words in told
    assert main(given) == 2 and "must be a new file" in capsys.readouterr().err
    assert main([*given, "--force"]) == 0
    assert main(["card", str(path), "--unit", "days"]) == 2 and "NAME=TEXT" in capsys.readouterr().err
    assert main(["card", str(path), "--output", str(path), "--force"]) == 2
    assert main(["card", str(path), "--output", str(tmp_path / "card.pdf")]) == 2


@pytest.mark.parametrize("value, digits, text", [(0.54677, 3, "0.547"), (0.5471, 3, "0.548"), (1.0, 3, "1")])
def test_bounds_are_rounded_up(value, digits, text):
    assert rounded_up(value, digits) == text and float(text) >= value
    assert factor(1.0) == "2.72" and factor(800.0) == "more than 1e+15"

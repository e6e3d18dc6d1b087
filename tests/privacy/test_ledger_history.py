"""What a ledger tells beside its sums, and that nothing of it touches what is charged."""

import contextlib
import json
import sqlite3

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.privacy.curves import GaussianProfile
from pm_dpgmm.privacy.ledger_history import fingerprint

RECORDS = np.random.default_rng(1).normal(size=(400, 1))


def of(tmp_path, **given):
    return dpg.Ledger(tmp_path / "l.sqlite", **{"epsilon": 4.0, "delta": 1e-4} | given)


def test_the_data_set_has_a_name_that_stays(tmp_path):
    assert of(tmp_path).data_set == ""
    assert of(tmp_path, data_set="north clinic").data_set == "north clinic"  # a ledger of before is given one
    assert of(tmp_path).data_set == dpg.Ledger.existing(tmp_path / "l.sqlite").data_set == "north clinic"
    with pytest.raises(ValueError, match="data_set must be 'north clinic', as the ledger"):
        of(tmp_path, data_set="south clinic")
    for wrong in (3, "x" * 1001):
        with pytest.raises((TypeError, ValueError), match="data_set must"):
            of(tmp_path, data_set=wrong)


def test_a_fit_links_its_release_to_its_entry(tmp_path):
    ledger = of(tmp_path)
    ledger.reserve(0.5, 0.0, "replace-one", "another tool")
    release = dpg.fit_gmm(RECORDS, 1, epsilon=1.0, bounds=(-5, 5), ledger=ledger)
    entry = ledger.entry_of(release)
    assert entry == ledger.entries()[1] and entry.epsilon == 1.0
    assert ledger.entry_of(dpg.load(release.save(tmp_path / "r.json"))) == entry
    assert ledger.entry_of(release.refit(2)) is None
    table = ledger.history()
    assert list(table.index) == [1, 2] and table["epsilon_left"].tolist() == [3.5, 2.5]
    assert table["release"].tolist() == ["", fingerprint(release.to_dict())]


def test_a_note_that_cannot_be_written_costs_no_release(tmp_path, monkeypatch):
    ledger = of(tmp_path)
    monkeypatch.setattr(dpg.Ledger, "link", lambda *given: (_ for _ in ()).throw(OSError("full")))
    assert dpg.fit_gmm(RECORDS, 1, epsilon=1.0, bounds=(-5, 5), ledger=ledger).private
    assert ledger.spent[0] == 1.0


def test_links_are_to_entries_and_happen_once(tmp_path):
    ledger, release = of(tmp_path), dpg.fit_gmm(RECORDS, 1, epsilon=1.0, bounds=(-5, 5))
    number = ledger.reserve(1.0, 0.0, "replace-one", "histogram")
    assert number == 1
    for wrong in (0, 2, 2**63, "1"):  # SQLite has integers of 64 bits
        with pytest.raises((TypeError, ValueError), match="entry must be"):
            ledger.link(wrong, release)
    ledger.link(number, release)
    with pytest.raises(ValueError, match="entry must be one of 1 that has no release yet"):
        ledger.link(number, release)


def test_the_composition_is_that_of_the_curves_where_they_are_known(tmp_path):
    ledger = of(tmp_path)
    with pytest.raises(ValueError, match="at least one entry"):
        ledger.composed(1e-5)
    releases = [dpg.fit_gmm(RECORDS, 1, epsilon=1.0, delta=1e-6, bounds=(-5, 5), ledger=ledger) for _ in range(3)]
    curve = releases[0].guarantee.loss
    assert isinstance(curve, GaussianProfile)
    found = ledger.composed(1e-5)
    together = dpg.Guarantee(9.0, 1e-3, "replace-one", "three", GaussianProfile(np.sqrt(3) * curve.mu))
    assert found.epsilon == pytest.approx(together.epsilon_at(1e-5), rel=1e-3) and found.epsilon < 2.5
    assert ledger.spent == (3.0, 3e-6)  # what is charged stays basic composition
    ledger.reserve(0.5, 0.0, "replace-one", "another tool")  # counts by its pair
    assert found.epsilon < ledger.composed(1e-5).epsilon <= found.epsilon + 0.5 + 1e-9


@pytest.mark.parametrize("written", ["{", "[]", "null", '{"epsilon": 0.1}', "smaller", "\x00"])
def test_a_guarantee_that_somebody_wrote_into_the_file_does_not_lower_the_sum_below_what_it_says(tmp_path, written):
    ledger = of(tmp_path)
    ledger.reserve(1.0, 0.0, "replace-one", "histogram")
    guarantee = dpg.fit_gmm(RECORDS, 1, epsilon=2.0, bounds=(-5, 5)).guarantee  # of more than was charged
    text = json.dumps(guarantee.to_dict()) if written == "smaller" else written
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("insert into releases values (1, 'r', ?)", (text,))
    assert ledger.composed(0.0).epsilon == 1.0 and len(ledger.history()) == 1


def test_a_notebook_shows_a_ledger_with_every_text_escaped(tmp_path):
    ledger = of(tmp_path, data_set="<script>north</script>")
    ledger.reserve(1.0, 1e-6, "replace-one", "<img src=x>")
    shown = ledger._repr_html_()
    assert "<script" not in shown and "<img" not in shown and "&lt;script&gt;north" in shown
    for words in ("budget", "spent", "left", "3", "replace-one"):
        assert words in shown

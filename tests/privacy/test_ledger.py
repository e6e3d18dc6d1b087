import contextlib
import copy
import multiprocessing
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.privacy import ledger as module, ledger_history
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.ledger import BudgetExceeded, Ledger
from verification.fuzz.releases import FILES

REPLACE = Neighbouring.REPLACE_ONE


def test_costs_add_up_and_survive_reopening(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=1.0, delta=1e-5)
    for _ in range(10):
        ledger.reserve(0.1, 1e-6, REPLACE, "histogram")
    epsilon, delta = Ledger(tmp_path / "l.sqlite", epsilon=1.0, delta=1e-5).spent
    assert epsilon == pytest.approx(1.0) and delta == pytest.approx(1e-5)
    with pytest.raises(BudgetExceeded, match="epsilon must leave"):
        ledger.reserve(0.01, 0.0, REPLACE, "histogram")


def test_delta_is_a_budget_too(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=10.0, delta=1e-6)
    with pytest.raises(BudgetExceeded, match="delta must leave the ledger within its budget 1e-06"):
        ledger.reserve(0.1, 1e-5, REPLACE, "populous-single")
    assert ledger.spent == (0.0, 0.0)


def test_another_budget_or_relation_is_refused(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=1.0)
    with pytest.raises(ValueError, match="has the budget"):
        Ledger(tmp_path / "l.sqlite", epsilon=2.0)
    with pytest.raises(BudgetExceeded, match="neighbouring must be 'replace-one'"):
        ledger.reserve(0.1, 0.0, Neighbouring.ADD_REMOVE, "histogram")
    with pytest.raises(ValueError, match="epsilon must be finite"):
        Ledger(tmp_path / "m.sqlite", epsilon=0.0)


def _spend(path, results):
    ledger = Ledger(path, epsilon=1.0)
    taken = 0
    for _ in range(20):
        try:
            ledger.reserve(0.05, 0.0, REPLACE, "histogram")
            taken += 1
        except BudgetExceeded:
            pass
    results.put(taken)


def test_two_processes_cannot_overspend(tmp_path):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=_spend, args=(tmp_path / "l.sqlite", results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    taken = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert sum(taken) == 20
    assert Ledger(tmp_path / "l.sqlite", epsilon=1.0).spent[0] == pytest.approx(1.0)


def filled(path, **budget):
    ledger = Ledger(path, **{"epsilon": 1.0} | budget)
    ledger.reserve(0.75, 0.0, REPLACE, "sketch")
    return ledger


def test_what_is_left_and_the_entries_can_be_read(tmp_path):
    ledger = filled(tmp_path / "l.sqlite", delta=1e-5)
    ledger.reserve(0.125, 1e-6, "replace-one", "histogram")
    assert ledger.remaining == (0.125, 1e-5 - 1e-6)
    assert [entry[1:] for entry in ledger.entries()] == [(0.75, 0.0, "sketch"), (0.125, 1e-6, "histogram")]
    assert ledger.entries()[0].time <= ledger.entries()[1].time
    assert repr(ledger) == f"Ledger({str(ledger.path)!r}, epsilon=1.0, delta=1e-05, neighbouring='replace-one')"


def test_another_working_directory_or_link_does_not_lead_to_another_file(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    by_name = filled("l.sqlite")
    (tmp_path / "link").symlink_to(tmp_path / "a" / "l.sqlite")
    by_link = Ledger(tmp_path / "link", epsilon=1.0)
    monkeypatch.chdir(tmp_path / "b")
    (tmp_path / "link").unlink()
    filled(tmp_path / "c").reserve(0.125, 0.0, REPLACE, "other")
    (tmp_path / "link").symlink_to(tmp_path / "c")
    for ledger in (by_name, by_link, pickle.loads(pickle.dumps(by_name)), copy.deepcopy(by_link)):
        assert ledger.spent == (0.75, 0.0)
        with pytest.raises(BudgetExceeded):
            ledger.reserve(0.5, 0.0, REPLACE, "sketch")
    assert not list((tmp_path / "b").iterdir())


@pytest.mark.parametrize("name", [":memory:", "with ? and # and %41.sqlite", "file:l.sqlite?mode=memory"])
def test_any_name_is_a_file(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert filled(name).spent == (0.75, 0.0)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def deleted(path):
    path.unlink()


def new_with_the_same_budget(path):
    path.unlink()
    Ledger(path, epsilon=1.0)


def new_with_more(path):
    path.unlink()
    Ledger(path, epsilon=100.0)


def emptied(path):
    path.write_bytes(b"")


def older(path):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("delete from spending")


def raised(path):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("update budget set epsilon = 100")


def second_budget(path):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("insert into budget values (100, 0, 'replace-one')")


def overwritten(path):
    path.write_text("not a database " * 100)


@pytest.mark.parametrize(
    "change, error, words",
    [
        (deleted, FileNotFoundError, "must stay in its place, got no file"),
        (new_with_the_same_budget, ValueError, "must stay in its place, got another file"),
        (new_with_more, ValueError, r"has the budget \(100.0, 0.0, 'replace-one'\), got \(1.0"),
        (emptied, ValueError, "must be an SQLite file that a Ledger made, got no such table"),
        (older, ValueError, "must stay in its place, got another file, or an older one"),
        (raised, ValueError, "has the budget"),
        (second_budget, ValueError, "has 2 budgets"),
        (overwritten, ValueError, "must be an SQLite file that a Ledger made, got file is not a database"),
    ],
)
def test_a_file_that_was_deleted_or_replaced_is_an_error_and_not_a_fresh_budget(tmp_path, change, error, words):
    ledger = filled(tmp_path / "l.sqlite")
    change(ledger.path)
    for use in (lambda: ledger.reserve(0.5, 0.0, REPLACE, "sketch"), lambda: ledger.spent, ledger.entries):
        with pytest.raises(error, match=words):
            use()
    assert change is not deleted or not ledger.path.exists()


@pytest.mark.parametrize(
    "entry", [(-0.5, 0.0), (None, 0.0), ("much", 0.0), (0.1, -1.0), (float("inf"), 0.0), (b"1", 0)]
)
def test_entries_that_are_no_costs_are_an_error(tmp_path, entry):
    ledger = filled(tmp_path / "l.sqlite")
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("insert into spending (epsilon, delta) values (?, ?)", entry)
    for use in (lambda: ledger.reserve(0.5, 0.0, REPLACE, "sketch"), lambda: Ledger(ledger.path, epsilon=1.0)):
        with pytest.raises(ValueError, match="must hold costs, got the entry"):
            use()


@pytest.mark.parametrize("kind", [np.float32, np.float64, Fraction, np.float16])
def test_costs_of_any_numeric_type_count(tmp_path, kind):
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=1.0, delta=0.5)
    ledger.reserve(kind(0.75), kind(0.25), REPLACE, "sketch")
    assert ledger.spent == (0.75, 0.25)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(kind(0.75), kind(0), REPLACE, "sketch")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0, 0.0])
def test_budgets_and_costs_are_numbers(tmp_path, number):
    with pytest.raises(ValueError, match="epsilon must be finite and greater than 0"):
        Ledger(tmp_path / "l.sqlite", epsilon=number)
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=1.0)
    with pytest.raises(ValueError, match="epsilon must be finite and greater than 0"):
        ledger.reserve(number, 0.0, REPLACE, "sketch")
    assert ledger.entries() == []


def test_files_of_something_else_are_refused(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "other.sqlite")) as connection, connection:
        connection.execute("create table customers (name text)")
    with pytest.raises(ValueError, match="path must be a ledger or a new file"):
        Ledger(tmp_path / "other.sqlite", epsilon=1.0)
    (tmp_path / "text").write_text("not a database " * 100)
    with pytest.raises(ValueError, match="must be an SQLite file that a Ledger made"):
        Ledger(tmp_path / "text", epsilon=1.0)
    with pytest.raises(PermissionError, match="must be a file that can be written"):
        Ledger(tmp_path, epsilon=1.0)
    with pytest.raises(FileNotFoundError, match="path must be a file in a folder that exists"):
        Ledger(tmp_path / "none" / "l.sqlite", epsilon=1.0)
    for path in (3, None, b"l.sqlite", ""):
        with pytest.raises(TypeError, match="path must be the path of a file"):
            Ledger(path, epsilon=1.0)


ENDLESS = "with recursive a (epsilon) as (select 1.0 union all select epsilon + 1 from a) select max(epsilon) from a"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["create trigger t after insert on spending begin delete from spending; end"], "got a trigger"),
        (["create trigger t after insert on spending begin update spending set epsilon = 1e-9; end"], "got a trigger"),
        (["drop table budget", f"create view budget as {ENDLESS}"], "got a view"),
    ],
)
def test_a_program_within_a_ledger_is_an_error_and_does_not_run(tmp_path, change, words):
    ledger = filled(tmp_path / "l.sqlite")
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        for statement in change:
            connection.execute(statement)
    uses = [
        lambda: ledger.reserve(0.1, 0.0, REPLACE, "sketch"), lambda: ledger.spent, ledger.entries,
        lambda: Ledger(ledger.path, epsilon=1.0), lambda: Ledger.existing(ledger.path),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(ValueError, match=f"must hold tables alone, {words}"):
            use()


def test_a_table_that_drops_an_entry_for_another_is_an_error_and_the_fit_does_not_start(tmp_path):
    path = tmp_path / "l.sqlite"
    Ledger(path, epsilon=1.0)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("drop table spending")
        connection.execute(
            "create table spending (time text, epsilon real, delta real, mechanism text unique on conflict replace)"
        )
    ledger = Ledger.existing(path)
    ledger.reserve(0.75, 0.0, REPLACE, "sketch")
    with pytest.raises(ValueError, match="must keep every cost, got one that does not"):
        ledger.reserve(0.25, 0.0, REPLACE, "sketch")
    assert ledger.spent == (0.75, 0.0)


def test_a_ledger_of_before_identities_is_read(tmp_path):
    ledger = filled(tmp_path / "l.sqlite")
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("drop table identity")
    again = Ledger(ledger.path, epsilon=1.0)
    assert again.spent == (0.75, 0.0)
    with pytest.raises(ValueError, match="got another file"):
        ledger.reserve(0.1, 0.0, REPLACE, "sketch")


@pytest.mark.parametrize("lock", ["immediate", "exclusive"])  # others may read, or not even that
def test_a_locked_file_is_said_to_be_locked(lock, tmp_path, monkeypatch):
    ledger = filled(tmp_path / "l.sqlite")
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute(f"begin {lock}")
    ways = [lambda: ledger.reserve(0.1, 0.0, REPLACE, "sketch"), lambda: Ledger.existing(ledger.path)]
    for way in ways:
        with pytest.raises(TimeoutError, match=r"must be free within 0.1 seconds, got database is locked"):
            way()
    other.close()
    for way in ways:
        way()


def test_a_finished_release_does_not_wait_a_minute_for_its_note(tmp_path, monkeypatch):
    ledger = filled(tmp_path / "l.sqlite")
    monkeypatch.setattr(ledger_history, "BRIEFLY", 0.1)
    release = dpg.load(FILES / "sketch_one_column.json")
    with contextlib.closing(sqlite3.connect(ledger.path, isolation_level=None)) as other:
        other.execute("begin exclusive")
        with pytest.raises(TimeoutError, match=r"must be free within 0.1 seconds"):
            ledger.link(1, release)
    ledger.link(1, release)


def test_a_name_that_no_file_can_have_is_no_ledger(tmp_path):
    with pytest.raises(FileNotFoundError, match="the ledger must be an existing file"):
        Ledger.existing(tmp_path / ("x" * 300))


@pytest.fixture
def open_folder():
    """A folder that every user can see, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_file_that_cannot_be_written_is_said_to_be_so(open_folder):
    ledger = filled(open_folder / "l.sqlite")
    ledger.path.chmod(0o444)
    code = (
        "import os, sys\nfrom pm_dpgmm.privacy.ledger import Ledger\n"
        "os.getuid() or os.setuid(65534)\n"  # the superuser may write everywhere
        "ledger = Ledger(sys.argv[1], epsilon=1.0)\nprint(ledger.spent)\n"
        "try:\n    ledger.reserve(0.1, 0.0, 'replace-one', 'sketch')\nexcept PermissionError as error:\n    print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code, str(ledger.path)], capture_output=True, text=True, check=True)
    assert "(0.75, 0.0)" in run.stdout  # reading needs no more
    assert "must be a file that can be written, got attempt to write a readonly database" in run.stdout


def test_many_small_costs_add_up_exactly(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=1.0)
    n = 100_000
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.executemany("insert into spending (epsilon, delta) values (?, 0)", [(1e-5,)] * (n - 1))
    assert ledger.spent[0] == float((n - 1) * Fraction(1e-5))  # the nearest float of the exact sum
    ledger.reserve(1e-5, 0.0, REPLACE, "last")
    with pytest.raises(BudgetExceeded):
        ledger.reserve(1e-7, 0.0, REPLACE, "over")


def test_threads_and_forked_processes_share_the_budget(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=1.0)
    taken = []

    def spend():
        for _ in range(10):
            try:
                ledger.reserve(0.05, 0.0, REPLACE, "histogram")
                taken.append(1)
            except BudgetExceeded:
                pass

    threads = [threading.Thread(target=spend) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 20
    child = os.fork()
    if child == 0:
        try:
            ledger.reserve(0.05, 0.0, REPLACE, "histogram")
        except BudgetExceeded:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_entry_that_another_thread_sees_during_a_look_at_the_file_is_no_other_file(tmp_path, monkeypatch):
    """Of 4,000 charges in threads about one was refused: its thread had the number of one entry and the row of the next."""
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=1.0)
    Ledger(ledger.path, epsilon=1.0).reserve(0.25, 0.0, REPLACE, "histogram")
    plain = module._last

    def beside_another_thread(connection, number):
        ledger._seen = plain(connection, 1)
        return plain(connection, number)

    monkeypatch.setattr(module, "_last", beside_another_thread)
    assert ledger.spent == (0.25, 0.0)


def test_a_backup_put_in_its_place_is_an_error(tmp_path):
    """A restored backup has the identity; what this process has seen written gives it away."""
    ledger = filled(tmp_path / "l.sqlite")
    shutil.copy(ledger.path, tmp_path / "backup")
    ledger.reserve(0.125, 0.0, REPLACE, "sketch")
    shutil.copy(tmp_path / "backup", ledger.path)
    with pytest.raises(ValueError, match="or an older one"):
        ledger.reserve(0.125, 0.0, REPLACE, "sketch")


def test_a_backup_to_which_others_have_added_is_an_error(tmp_path):
    """It has as many entries as before, and one of them in place of another."""
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=1.0)
    ledger.reserve(0.1, 0.0, REPLACE, "one")
    backup = shutil.copy(ledger.path, tmp_path / "backup")
    ledger.reserve(0.5, 0.0, REPLACE, "two")
    shutil.copy(backup, ledger.path)
    Ledger.existing(ledger.path).reserve(0.05, 0.0, REPLACE, "three")
    for use in (lambda: ledger.reserve(0.4, 0.0, REPLACE, "four"), lambda: ledger.spent, ledger.entries):
        with pytest.raises(ValueError, match="must stay in its place, got another file, or an older one"):
            use()


def test_a_copy_that_was_used_elsewhere_is_an_error_in_the_ledgers_place(tmp_path):
    """As a synchronised folder puts it there; the same cost and label in the same second are another entry."""
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=1.0)
    copy = shutil.copy(ledger.path, tmp_path / "copy")
    Ledger.existing(copy).reserve(0.9, 0.0, REPLACE, "fit")
    ledger.reserve(0.9, 0.0, REPLACE, "fit")
    shutil.copy(copy, ledger.path)
    with pytest.raises(ValueError, match="must stay in its place, got another file, or an older one"):
        ledger.reserve(0.05, 0.0, REPLACE, "again")


def test_a_ledger_of_before_marks_is_read_and_watched(tmp_path):
    ledger = filled(tmp_path / "l.sqlite")
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("drop table marks")
    again = Ledger.existing(ledger.path)
    assert again.spent[0] > 0
    again.reserve(0.05, 0.0, REPLACE, "later")
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("drop table marks")
    with pytest.raises(ValueError, match="must stay in its place, got another file, or an older one"):
        _ = again.spent
    again = Ledger.existing(ledger.path)
    older(again.path)
    with pytest.raises(ValueError, match="must stay in its place"):
        _ = again.spent


def test_an_existing_ledger_is_opened_with_its_own_budget_and_never_made(tmp_path):
    path = tmp_path / "clinic.sqlite"
    with pytest.raises(FileNotFoundError, match="the ledger must be an existing file"):
        Ledger.existing(path)
    made = Ledger(path, epsilon=2.0, delta=1e-6, neighbouring="add-remove")
    made.reserve(0.5, 0.0, "add-remove", "words")
    found = Ledger.existing(path)
    assert repr(found) == repr(made) and found.spent == (0.5, 0.0)
    (tmp_path / "empty").touch()
    for other in (tmp_path, tmp_path / "none" / "l.sqlite"):
        with pytest.raises(FileNotFoundError):
            Ledger.existing(other)
    with pytest.raises(ValueError, match="the ledger must be a file made by pm-dpgmm ledger"):
        Ledger.existing(tmp_path / "empty")
    assert (tmp_path / "empty").read_bytes() == b""


def test_an_existing_ledger_that_may_not_be_opened_is_told_so(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=2.0)

    def refusing(*given, **named):
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorname = "SQLITE_CANTOPEN"
        raise error

    monkeypatch.setattr(sqlite3, "connect", refusing)  # who runs tests may be root, to whom all is open
    with pytest.raises(PermissionError, match="must be a file that can be written, got unable to open"):
        Ledger.existing(ledger.path)


def test_a_ledger_of_a_process_that_was_killed_while_it_wrote_opens_as_it_was_before(tmp_path):
    """SQLite leaves a journal beside the file, from which the next one who may write undoes the half of an entry."""
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=2.0)
    ledger.reserve(0.5, 0.0, REPLACE, "sketch")
    with contextlib.closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute("pragma cache_size = 1")  # pages reach the file before the commit
        connection.execute("begin immediate")
        for _ in range(500):
            connection.execute("insert into spending (epsilon, delta, mechanism) values (.001, 0., ?)", ("x" * 300,))
        for suffix in ("", "-journal"):
            shutil.copy(f"{ledger.path}{suffix}", tmp_path / f"left.sqlite{suffix}")
        connection.execute("rollback")
    assert (tmp_path / "left.sqlite").read_bytes() != ledger.path.read_bytes()
    assert Ledger.existing(tmp_path / "left.sqlite").spent == (0.5, 0.0)


def test_only_one_module_knows_the_tables_of_a_ledger():
    package = Path(dpg.__file__).parent
    knows = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "sqlite3.connect" in path.read_text(encoding="utf-8")
    ]
    assert knows == ["privacy/ledger.py"]


def test_half_a_character_in_a_label_is_one_clear_error(tmp_path):
    ledger = Ledger(tmp_path / "budget.sqlite", epsilon=1.0)
    with pytest.raises(ValueError, match=r"mechanism must be text that UTF-8 can hold, got '\\ud800'"):
        ledger.reserve(0.5, 0.0, "replace-one", "\ud800")
    assert ledger.entries() == []


def written_by_hand(path, *rows):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executemany("insert into spending values (current_timestamp, ?, ?, cast(? as text))", rows)
        connection.commit()


def test_costs_whose_sum_no_number_holds_are_an_error(tmp_path):
    ledger = Ledger(tmp_path / "ledger", epsilon=1.0, delta=1e-6)
    written_by_hand(ledger.path, (1.7e308, 0.0, b"a"), (1.7e308, 0.0, b"a"))
    with pytest.raises(ValueError, match="must hold costs, got a sum that no number holds"):
        _ = ledger.spent


def test_a_label_that_is_no_text_is_shown_and_leaves_no_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.5)
    ledger = Ledger(tmp_path / "ledger", epsilon=1.0, delta=1e-6)
    written_by_hand(ledger.path, (0.1, 0.0, b"\xff"))
    assert [entry.mechanism for entry in ledger.entries()] == ["\\xff"]
    ledger.reserve(0.1, 0.0, Neighbouring.REPLACE_ONE, "next")
    assert len(ledger.entries()) == 2


@pytest.mark.parametrize(
    ("epsilon", "delta", "mechanism"),
    [(1, 0, "whole"), (0.1, -0.0, "SQLite keeps 0.0"), (5e-324, 5e-324, "tiny"), (0.1, 0.0, "a\x00b\r\n\u2028")],
)
def test_whatever_is_accepted_is_read_again(tmp_path, epsilon, delta, mechanism):
    """Checksums are of what the file keeps: a delta of -0.0 came back as 0.0 and made the ledger unreadable."""
    path = tmp_path / "ledger.sqlite"
    Ledger(path, epsilon=2, delta=-0.0 if delta == 0 else 1e-5).reserve(epsilon, delta, "replace-one", mechanism)
    assert Ledger.existing(path).spent == (epsilon, delta)

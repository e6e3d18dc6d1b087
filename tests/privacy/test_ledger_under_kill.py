"""A ledger whose writers are killed at any moment, whose disk is full, whose clock goes back, whose file is damaged.

``LEDGER_KILLS=200 pytest -n 0 -s tests/privacy/test_ledger_under_kill.py`` kills as often as that, and prints counts.
"""

import contextlib
import math
import multiprocessing
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from fractions import Fraction

import pytest

from pm_dpgmm.privacy.ledger import ROUNDING, BudgetExceeded, Ledger

BUDGET = 1.0
KILLS = int(os.environ.get("LEDGER_KILLS", "24"))
N_WRITERS = 4


def _charge_for_ever(path, said, name):
    """Costs of all sizes, 2**-3 to 2**-40, so that some fit for long; what the ledger answers is said to a file."""
    rng = random.Random(name)
    ledger = Ledger.existing(path)
    with open(said, "ab", buffering=0) as file:  # a line is one write: whole or not at all when its process is killed
        for i in range(1_000_000):
            cost, label = 2.0 ** -rng.uniform(3, 40), f"{name}:{i}"
            try:
                number = ledger.reserve(cost, 0.0, "replace-one", label)
                file.write(f"paid {number} {cost!r} {label}\n".encode())
            except BudgetExceeded:
                file.write(f"refused 0 {cost!r} {label}\n".encode())
            time.sleep(rng.random() / 200)  # without it one process may wait for more than a minute, which is an error


class Said:
    """What all writers, the dead ones too, have said: (word, number, cost, label)."""

    def __init__(self, folder):
        self.folder, self.read, self.lines = folder, {}, []

    def __call__(self):
        """All of it until now."""
        for path in self.folder.glob("*.said"):
            with open(path, "rb") as file:
                file.seek(self.read.get(path, 0))
                new = file.read()
            self.read[path] = self.read.get(path, 0) + len(new)
            for word, number, cost, label in map(str.split, new.decode().splitlines()):
                self.lines.append((word, int(number), float(cost), label))
        return list(self.lines)


def faults(entries, said, later):
    """What a ledger with these (cost, label) did wrong, by what was said before they were read, and later.

    Each writer, dead or alive, may have made one charge that it has not told of.
    """
    total = sum((Fraction(cost) for cost, _ in entries), start=Fraction(0))
    most = Fraction(BUDGET) * (1 + ROUNDING)
    labels = [label for _, label in entries]
    known = set(labels)
    paid = {label for word, _, _, label in later if word == "paid"}
    found = []
    if total > most:
        found.append("above the budget")
    if len(known) < len(labels):
        found.append("charged twice")
    for word, number, cost, label in said:
        if word == "paid" and entries[number - 1 : number] != [(cost, label)]:
            found.append(f"lost {label}")
        if word == "refused" and label in known:
            found.append(f"refused and charged {label}")
    refused = min(((cost, label) for word, _, cost, label in said if word == "refused"), default=None)
    if refused and total + Fraction(refused[0]) <= most:  # sums only grow
        found.append(f"refused {refused[1]} without a reason")
    untold = [label.split(":")[0] for label in labels if label not in paid]
    if len(set(untold)) < len(untold):
        found.append("charges of nobody")
    return found


def test_the_judge_of_the_kills_sees_every_fault():
    """Sound histories pass, among them one whose last charge was not told: its writer was killed after the commit."""
    entries = [(0.5, "a:0"), (0.25, "b:0")]
    said = [("paid", 1, 0.5, "a:0"), ("paid", 2, 0.25, "b:0"), ("refused", 0, 0.5, "b:1")]
    assert faults(entries, said, said) == [] and faults([*entries, (0.125, "a:1")], said, said) == []
    assert faults(entries[:1], said[:2], said) == ["lost b:0"]
    assert faults([entries[0], (0.125, "b:0")], said[:2], said) == ["lost b:0"]
    assert faults([*entries, (0.5, "a:1")], said, said) == ["above the budget"]
    assert "charged twice" in faults([*entries, (0.125, "b:0")], said, said)
    assert faults([*entries, (0.125, "a:1"), (0.0625, "a:2")], said, said) == ["charges of nobody"]
    assert faults([*entries, (0.125, "a:1"), (0.0625, "a:2")], said, [*said, ("paid", 3, 0.125, "a:1")]) == []
    assert "refused and charged b:1" in faults([*entries, (0.25, "b:1")], said, said)
    assert faults(entries, [*said, ("refused", 0, 0.125, "b:2")], said) == ["refused b:2 without a reason"]


@pytest.mark.thorough
def test_killed_writers_lose_no_charge_and_spend_none_twice(tmp_path):
    """``kill -9`` at random moments against four writers; whatever the moments, no fault: no false alarm.

    After each, the file is whole, holds what was told as paid, at its place, once, and sums to no more than the budget.
    """
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=BUDGET)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pm_dpgmm.privacy.ledger"])
    what_was_said = Said(tmp_path)
    rng, writers, started = random.Random(os.urandom(8)), [], 0

    def start():
        nonlocal started
        name = f"w{started}"
        started += 1
        writer = context.Process(target=_charge_for_ever, args=(ledger.path, tmp_path / f"{name}.said", name))
        writer.start()
        writers.append((writer, name))

    journals, n_entries, whole = 0, 0, 0
    try:
        for _ in range(N_WRITERS):
            start()
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("*.said"))) < N_WRITERS and time.monotonic() < deadline:
            time.sleep(0.01)
        for turn in range(KILLS):
            time.sleep(rng.expovariate(1 / 0.03))
            doomed = range(N_WRITERS) if turn % 10 == 9 else [rng.randrange(N_WRITERS)]  # all at once, now and then
            victims = [writers.pop(i) for i in reversed(doomed)]
            for writer, _ in victims:
                writer.kill()
            for writer, _ in victims:
                writer.join()
                assert writer.exitcode == -9  # it did not fail by itself
            journals += not writers and (tmp_path / "l.sqlite-journal").exists()
            said = what_was_said()
            entries = [(entry.epsilon, entry.mechanism) for entry in Ledger.existing(ledger.path).entries()]
            later = what_was_said()
            assert faults(entries, said, later) == []
            with contextlib.closing(sqlite3.connect(ledger.path)) as connection:
                whole += connection.execute("pragma integrity_check").fetchone() == ("ok",)
            assert len(entries) >= n_entries
            n_entries = len(entries)
            for _ in victims:
                start()
    finally:
        for writer, _ in writers:
            writer.kill()
            writer.join()
    said = what_was_said()
    refused = sum(word == "refused" for word, *_ in said)
    untold = len(ledger.entries()) - sum(word == "paid" for word, *_ in said)
    assert whole == KILLS and n_entries > 0
    assert math.isclose(float(sum(Fraction(e.epsilon) for e in ledger.entries())), ledger.spent[0])
    print(
        f"{KILLS} turns, {started - len(writers)} processes killed, {ledger.spent[0]:.9f} of {BUDGET} spent in"
        f" {len(ledger.entries())} charges, {untold} never told, {refused} refused, {journals} journals left behind"
    )


FULL = """
import sys
from pm_dpgmm.privacy.ledger import Ledger
folder = sys.argv[1]
ledger = Ledger(folder + "/l.sqlite", epsilon=1.0)
ledger.reserve(0.5, 0.0, "replace-one", "first")
try:
    with open(folder + "/ballast", "wb", buffering=0) as ballast:
        while ballast.write(b"x" * 512):
            pass
except OSError:
    pass
try:
    ledger.reserve(0.25, 0.0, "replace-one", "x" * 900)
except OSError as error:
    print(type(error).__name__, error)
print(ledger.spent)
open(folder + "/ballast", "wb").close()
print(ledger.reserve(0.25, 0.0, "replace-one", "y" * 900), ledger.spent)
"""


def test_a_full_disk_is_one_clear_error_and_takes_nothing(tmp_path):
    """On a disk of 128 KiB, in a name space of its own; skipped where nobody may mount one."""
    if not shutil.which("unshare"):
        pytest.skip("needs unshare")
    mounted = 'mount -t tmpfs -o size=128k none "$1" || exit 77; exec "$2" -c "$3" "$1"'
    command = ["unshare", "-rm", "sh", "-c", mounted, "-", str(tmp_path), sys.executable, FULL]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode == 77 or run.stderr.startswith("unshare"):
        pytest.skip("may not mount a disk")
    told = run.stdout.splitlines()
    assert run.returncode == 0, run.stderr
    assert told[0].startswith("OSError the ledger '") and "must be on a disk that works, got" in told[0]
    assert told[1:] == ["(0.5, 0.0)", "2 (0.75, 0.0)"]


def test_a_clock_that_goes_back_changes_no_sum_and_no_order(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=1.0)
    ledger.reserve(0.5, 0.0, "replace-one", "first")
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("update spending set time = '2999-01-01 00:00:00'")  # written by a clock that was ahead
    again = Ledger.existing(ledger.path)
    assert again.reserve(0.25, 0.0, "replace-one", "second") == 2
    assert [entry.mechanism for entry in again.entries()] == ["first", "second"] and again.spent == (0.75, 0.0)
    assert again.history()["epsilon_left"].tolist() == [0.5, 0.25]
    with pytest.raises(BudgetExceeded):
        again.reserve(0.5, 0.0, "replace-one", "third")


def opened(path):
    """What a ledger in a damaged file says: its entries but for their time, or the words of its error."""
    try:
        ledger = Ledger.existing(path)
        return ledger.epsilon, [entry[1:] for entry in ledger.entries()]
    except (ValueError, PermissionError) as error:
        return str(error)


@pytest.mark.thorough(quick=["2"])
@pytest.mark.parametrize("share", [2, 30])
def test_a_damaged_file_is_one_clear_error_and_never_a_larger_budget(tmp_path, share):
    """A bit turned, a page lost or the end cut off: the entries and the budget are those written, or an error."""
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=1.0, delta=1e-6)
    for i in range(20):
        ledger.reserve(0.01, 1e-8, "replace-one", f"sketch {i}")
    whole, raw, rng = opened(ledger.path), ledger.path.read_bytes(), random.Random(1)
    places = [i for i, byte in enumerate(raw) if (byte or rng.random() < 0.02) and rng.random() < share / 100]
    damaged = [raw[:i] + bytes([raw[i] ^ 1 << rng.randrange(8)]) + raw[i + 1 :] for i in places]
    damaged += [raw[:i] + bytes(4096) + raw[i + 4096 :] for i in range(0, len(raw), 4096)]
    damaged += [raw[:i] for i in rng.sample(range(len(raw)), share)]
    found = []
    for i, content in enumerate(damaged):
        (tmp_path / f"{i}").write_bytes(content)
        found.append(opened(tmp_path / f"{i}"))
    assert len(found) > 20 and sum(isinstance(words, str) for words in found) > 10
    assert all(words.startswith("the ledger ") if isinstance(words, str) else words == whole for words in found)


def test_entries_of_before_checksums_are_read(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=1.0)
    ledger.reserve(0.5, 0.0, "replace-one", "first")
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("drop table checks")
    again = Ledger.existing(ledger.path)
    again.reserve(0.25, 0.0, "replace-one", "second")
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        assert connection.execute("select entry from checks").fetchall() == [(2,)]
        connection.execute("update spending set epsilon = 0.125 where mechanism = 'second'")
    with pytest.raises(ValueError, match=r"must be as it was written, got entry 2 altered: restore a backup"):
        Ledger.existing(ledger.path)

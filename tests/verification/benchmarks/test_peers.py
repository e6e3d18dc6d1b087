"""A peer is run by its own interpreter: what goes into its environment, what goes through the files, why it did not run.

No network and no environment here: commands are recorded, and a script plays the peer's interpreter.
"""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from verification.benchmarks import jax_privacy, jax_privacy_peer, one_run_fits, peer_environment, peers
from verification.benchmarks.peer_environment import interpreter, normalised

# Answers with what it was sent: sizes, largest scores, delta and false alarm.
ECHO = """#!{python}
import json, sys
import numpy as np
isolated, peer, sent_path, found_path = sys.argv[1:]
assert isolated == "-I" and peer.endswith("jax_privacy_peer.py")
found = {{}}
with np.load(sent_path) as sent:
    for name in [key[:-7] for key in sent.files if key.endswith("__delta")]:
        scores_in, scores_out = sent[name + "__in"], sent[name + "__out"]
        found[name] = {{
            "size": len(scores_in), "size_out": len(scores_out), "top": scores_in.max(), "kind": scores_in.dtype.kind,
            "delta": float(sent[name + "__delta"]), "false_alarm": float(sent["false_alarm"]),
        }}
json.dump(found, open(found_path, "w"))
"""
BROKEN = """#!{python}
import sys
print("Traceback", "ValueError: no such thing", "", sep="\\n", file=sys.stderr)
sys.exit(1)
"""


@pytest.fixture
def played_by(tmp_path, monkeypatch):
    """Puts a script in the place of the peer's interpreter."""

    def play(source):
        python = tmp_path / "python"
        python.write_text(source.format(python=sys.executable))
        python.chmod(0o755)
        monkeypatch.setattr(jax_privacy, "interpreter", lambda *_, **__: (python, None))

    return play


def test_every_specimen_goes_to_the_peer_and_comes_back(played_by):
    played_by(ECHO)
    samples = {"laplace/ok": ([0, 1, 2], [0.0, 1.0], 0), "flag": (np.array([1.0, np.inf]), np.array([-np.inf]), 1e-3)}
    found = jax_privacy.compare(samples, false_alarm=0.05)
    assert found == {
        "laplace/ok": {"size": 3, "size_out": 2, "top": 2.0, "kind": "f", "delta": 0.0, "false_alarm": 0.05},
        "flag": {
            "size": 2,
            "size_out": 1,
            "top": np.finfo(float).max,
            "kind": "f",
            "delta": 1e-3,
            "false_alarm": 0.05,
        },
    }


def test_a_peer_that_fails_is_a_reason_in_one_line(played_by):
    played_by(BROKEN)
    assert jax_privacy.compare({"a": ([1.0], [0.0], 0.0)}, 0.05) == "JAX Privacy failed: ValueError: no such thing"


def test_a_missing_environment_is_a_reason(monkeypatch):
    monkeypatch.setattr(jax_privacy, "interpreter", lambda *_, **__: (None, "offline"))
    found = jax_privacy.compare({"a": ([1.0], [0.0], 0.0)}, 0.05)
    assert found == "the environment of JAX Privacy could not be made: offline"


@pytest.mark.parametrize(
    "sample, false_alarm, message",
    [
        (([np.nan], [0.0], 0.0), 0.05, "scores of a"),
        (([], [0.0], 0.0), 0.05, "scores of a"),
        (([[1.0]], [0.0], 0.0), 0.05, "scores of a"),
        (([1.0], [0.0], 1.5), 0.05, "delta of a"),
        (([1.0], [0.0], 0.0), 0.5, "false_alarm"),
    ],
)
def test_what_the_peer_could_not_bound_is_refused_first(played_by, sample, false_alarm, message):
    played_by(BROKEN)
    with pytest.raises(ValueError, match=message):
        jax_privacy.compare({"a": sample}, false_alarm)


def test_the_peer_is_asked_for_bounds_of_one_run(tmp_path, monkeypatch):
    class Auditor:
        def __init__(self, scores_in, scores_out):
            self.sizes = len(scores_in), len(scores_out)

        def epsilon_one_run(self, significance, delta):
            return np.float64(significance + delta + self.sizes[0])

        def epsilon_one_run_fdp(self, significance, delta):
            return np.float64(self.sizes[1])

    monkeypatch.setattr(jax_privacy_peer, "auditing", lambda: SimpleNamespace(CanaryScoreAuditor=Auditor))

    def here(command, **_):
        jax_privacy_peer.main(*command[-2:])

    monkeypatch.setattr(jax_privacy, "interpreter", lambda *_, **__: (Path("python"), None))
    monkeypatch.setattr(jax_privacy.subprocess, "run", here)
    found = jax_privacy.compare({"a": (np.zeros(3), np.zeros(4), 0.25)}, 0.125, one_run=True)
    assert found == {"a": {"one_run": 3.375, "one_run_fdp": 4.0}}


def test_scores_and_coins_of_one_run_are_those_that_were_guessed():
    """Scores that name the canaries that are in are all right: 20 of 20, whoever was."""
    points = one_run_fits.canaries()
    assert points.shape == (40, 2) and len({tuple(point) for point in points}) == 40
    records = np.zeros((3, 2))
    found, scores, inside = one_run_fits.audited(
        lambda data, rng: data, records, points, lambda data, rows: (rows[:, None] == data[None]).all(-1).any(-1), 1
    )
    assert (found.correct, found.guesses, found.refuted) == (20, 20, True)
    assert inside.sum() == found.n_included and np.array_equal(scores > 0, inside)
    broken = one_run_fits.rows_of_table()["records published as means"](2)[0]
    assert broken.correct == 20
    people = one_run_fits.rows_of_table()["noisy sum, sound"](3)
    assert people[2].sum() == people[0].n_included and not people[0].refuted


def test_the_peer_is_asked_for_both_directions_at_the_false_alarm(tmp_path, monkeypatch):
    asked = []

    class Auditor:
        def __init__(self, scores_in, scores_out):
            self.sizes = len(scores_in), len(scores_out)

        def epsilon_clopper_pearson(self, significance, delta, one_sided, threshold_strategy):
            asked.append((self.sizes, significance, delta, one_sided))
            return np.float64(0.9 if threshold_strategy == "all" else 0.8)

    peer = SimpleNamespace(CanaryScoreAuditor=Auditor, Bonferroni=lambda: "all", MultiSplit=lambda seed: seed)
    monkeypatch.setattr(jax_privacy_peer, "auditing", lambda: peer)
    sent, found = tmp_path / "sent.npz", tmp_path / "found.json"
    # names that end like the keys themselves
    scores = {f"{name}__{side}": np.zeros(4) for name in ("a", "a__in", "b__delta") for side in ("in", "out")}
    np.savez(sent, false_alarm=0.05, a__delta=0.0, a__in__delta=0.0, b__delta__delta=1e-3, **scores)
    jax_privacy_peer.main(str(sent), str(found))
    answer = json.loads(found.read_text())
    assert set(answer) == {"a", "a__in", "b__delta"}
    for bounds in answer.values():
        assert (bounds["bonferroni"], bounds["multi_split"]) == (0.9, 0.8)
        assert bounds["seconds"] >= 0 and bounds["multi_split_seconds"] >= 0
    assert [one for *_, one in asked] == [False] * 6
    assert sorted(asked) == sorted([((4, 4), 0.05, 0.0, False)] * 4 + [((4, 4), 0.05, 1e-3, False)] * 2)


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Commands of ``interpreter`` in an empty current folder, recorded; the first one makes a file for Python."""
    ran = []

    def record(command, **_):
        ran.append(command)
        if "venv" in command:
            Path(command[-1], "bin").mkdir(parents=True, exist_ok=True)
            Path(command[-1], "bin", "python").touch()
        if "-r" in command:
            ran[-1] = [*command[:-1], Path(command[-1]).read_text().split()]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(peer_environment.subprocess, "run", record)
    return ran


def test_an_environment_is_made_once_and_again_when_its_versions_change(tmp_path, commands):
    folder, wanted = Path(".venv-peer"), tmp_path / "wanted.txt"
    wanted.write_text("# a comment\nheavy_peer==2.0\nnumpy==2.4.6\n")
    python, reason = interpreter(folder, wanted, no_deps=["Heavy-Peer"], check="import heavy_peer")
    assert (python, reason) == (tmp_path / ".venv-peer" / "bin" / "python", None)
    venv, full, bare, check = commands
    assert venv[1:] == ["-m", "venv", "--clear", ".venv-peer"]
    assert full[0] == bare[0] == check[0] == str(python)
    assert full[-1] == ["numpy==2.4.6"] and "--no-deps" not in full
    assert bare[-2:] == ["--no-deps", "heavy_peer==2.0"]
    assert check[-1] == "import heavy_peer"

    assert interpreter(folder, wanted, no_deps=["Heavy-Peer"]) == (python, None) and len(commands) == 4
    wanted.write_text("heavy_peer==2.1\nnumpy==2.4.6\n")
    assert interpreter(folder, wanted, no_deps=["Heavy-Peer"]) == (python, None) and len(commands) == 8
    assert interpreter(folder, wanted) == (python, None) and len(commands) == 11  # now with its dependencies


@pytest.mark.parametrize(
    "error, expected",
    [
        (
            subprocess.CalledProcessError(1, "pip", stderr="WARNING: slow\nERROR: No matching distribution\n\n"),
            "ERROR: No matching distribution",
        ),
        (subprocess.CalledProcessError(1, "pip", stderr=""), "Command 'pip' returned non-zero exit status 1."),
        (OSError("no space left"), "no space left"),
    ],
)
def test_a_half_made_environment_has_a_reason_and_is_made_again(tmp_path, commands, monkeypatch, error, expected):
    wanted, record = tmp_path / "wanted.txt", peer_environment.subprocess.run
    wanted.write_text("numpy==2.4.6\n")

    def fail(command, **options):
        record(command, **options)
        if "pip" in command:
            raise error

    monkeypatch.setattr(peer_environment.subprocess, "run", fail)
    assert interpreter(Path(".venv-peer"), wanted) == (None, expected)
    assert interpreter(Path(".venv-peer"), wanted) == (None, expected) and len(commands) == 4


def test_a_name_that_is_not_in_the_requirements_is_refused(tmp_path, commands):
    (tmp_path / "wanted.txt").write_text("numpy==2.4.6\n")
    with pytest.raises(ValueError, match="no_deps must be names"):
        interpreter(Path(".venv-peer"), tmp_path / "wanted.txt", no_deps=["scipy"])
    assert not commands


@pytest.mark.parametrize("path", [jax_privacy.REQUIREMENTS, peers.REQUIREMENTS], ids=lambda path: path.name)
def test_every_requirement_of_a_peer_is_pinned(path):
    lines = [line for line in path.read_text().splitlines() if normalised(line)]
    assert lines and all("==" in line for line in lines)

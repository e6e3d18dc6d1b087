"""An interrupted fit loses nothing that was paid for, keeps nothing else, and is finished later to the same bits."""

import contextlib
import copy
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm import fit as front_door
from pm_dpgmm.methods.counts.histogram import HistogramMethod
from pm_dpgmm.methods.populous.method import Populous
from pm_dpgmm.methods.sketch import rounds as sketch_rounds
from pm_dpgmm.methods.two_phase import TwoPhase
from pm_dpgmm.release import checkpoint as checkpoint_module
from pm_dpgmm.release.checkpoint import Checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # poor fits on purpose

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "progress": False, "random_seed": 1}
BOUNDS = {"bounds": (-15, 20)}
PUBLIC = {
    "statistic",
    "law",
    "unit",
    "ridge",
    "bounds",
    "starts",
    "duels",
    "sketches",
    "moments",
}  # keys of a sketch's noise


def records_of(n_features, n=3_000):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, n_features)) + 6.0 * (rng.random((n, 1)) < 0.4)


@pytest.fixture
def stop_after(monkeypatch):
    """``stop_after(n, error)``: the fit is ended right after its n-th release is told; None counts them."""
    real, count = front_door.keeping, []

    def arrange(n, error=KeyboardInterrupt):
        count.clear()

        @contextlib.contextmanager
        def keeping(path, **facts):
            with real(path, **facts) as released:

                def counted(*given):
                    released(*given)
                    count.append(1)
                    if len(count) == n:
                        raise error

                yield counted

        monkeypatch.setattr(front_door, "keeping", keeping)
        return count

    return arrange


def check_holds_only_what_was_released(kept, release):
    """Every number of the checkpoint is one that the finished release published, or of a duel, or public."""
    assert set(kept.noise) <= PUBLIC | {"crude"}
    for name, array in kept.raw.items():
        assert np.array_equal(array, release.raw[name]), name
    for name in ("sketches", "moments"):
        told = kept.noise.get(name, [])
        assert told == release.noise[name][: len(told)]
    fields = set(kept.to_dict())
    assert fields - {"n_components"} < set(release.to_dict()) and kept.n_records == release.n_records
    assert kept.guarantee == release.guarantee and kept.private == release.private


@pytest.mark.thorough(quick=["bounds-1"])
@pytest.mark.parametrize("n_features", [1, 3])
@pytest.mark.parametrize("given", [BOUNDS, {"neighbouring": "add-remove"}], ids=["bounds", "hidden"])
def test_after_every_release_a_sketch_fit_can_be_stopped_and_finished(n_features, given, judge, stop_after, tmp_path):
    judge(rejected=False)
    X, numbers, count = records_of(n_features), 2 if n_features == 1 else [1, 2], stop_after(None)
    whole = dpg.fit_gmm(X, numbers, **given, **BUDGET)
    n_releases = len(count)
    assert n_releases == (2 if n_features == 1 else 5)  # intervals, (cells, parts, first,) last
    for n in range(1, n_releases + 1):
        path = tmp_path / f"{n}.json"
        stop_after(n)
        with pytest.raises(KeyboardInterrupt) as stopped:
            dpg.fit_gmm(X, numbers, checkpoint=path, **given, **BUDGET)
        kept = Checkpoint.load(path)
        assert kept.to_dict() == stopped.value.released.to_dict()
        assert ("pm_dpgmm.resume" in stopped.value.__notes__[0]) is kept.fittable is ("sketch_0" in kept.raw)
        check_holds_only_what_was_released(kept, whole)
        if "sketch_0" not in kept.raw:
            with pytest.raises(ValueError, match="nothing can be fitted before the first sketch"):
                dpg.resume(path)
            continue
        with np.errstate(all="raise"):  # of the caller
            resumed = dpg.resume(path)
        assert np.isfinite(resumed.means).all() and resumed.guarantee == whole.guarantee and not resumed.private
        if n == n_releases:
            assert resumed.to_dict() == dpg.resume(stopped.value).to_dict() == whole.to_dict()
            assert dpg.resume(path, 3).n_components == 3
        half_way = n_features > 1 and "sketch_1" not in kept.raw
        assert half_way == any("interrupted before its second sketch" in text for text in resumed.warnings)


@pytest.mark.thorough
def test_a_rejected_start_is_finished_with_its_duels(judge, stop_after, tmp_path, monkeypatch):
    judge(rejected=True)
    duels, real = [], sketch_rounds.noisy_log_likelihood_ratio

    def watched(*given, **settings):
        found = real(*given, **settings)
        duels.append(list(found[:2]))
        return found

    monkeypatch.setattr(sketch_rounds, "noisy_log_likelihood_ratio", watched)
    X, count = records_of(3), stop_after(None)
    whole = dpg.fit_gmm(X, 2, **BOUNDS, **BUDGET)
    n_releases, released = len(count), list(duels)
    assert n_releases == 4 + 5 and len(released) == 3
    for n in range(3, n_releases + 1):
        stop_after(n)
        with pytest.raises(KeyboardInterrupt) as stopped:
            dpg.fit_gmm(X, 2, **BOUNDS, **BUDGET)
        kept = stopped.value.released
        check_holds_only_what_was_released(kept, whole)
        assert kept.noise.get("duels", []) == released[: len(kept.noise.get("duels", []))]
        if "sketch_0" in kept.raw:
            assert np.isfinite(dpg.resume(kept).means).all()
    assert dpg.resume(kept.save(tmp_path / "c.json")).to_dict() == whole.to_dict()


@pytest.mark.parametrize(
    "method, given",
    [("histogram", {}), ("slices", {}), ("histogram", {"n_cells": 20})],
    ids=["counts", "slices", "set"],
)
def test_counts_are_finished_to_the_same_bits(method, given, stop_after, tmp_path):
    X = records_of(2)
    whole = dpg.fit_gmm(X, 2, method=method, **BOUNDS, **BUDGET, **given)
    stop_after(1, MemoryError)
    with pytest.raises(MemoryError):
        dpg.fit_gmm(X, 2, method=method, checkpoint=tmp_path / "c.json", **BOUNDS, **BUDGET, **given)
    assert dpg.resume(tmp_path / "c.json").to_dict() == whole.to_dict()
    with pytest.raises(ValueError, match="n_components must be an integer"):
        dpg.resume(tmp_path / "c.json", [1, 2])
    with pytest.raises(ValueError, match="n_components must be at most"):
        dpg.resume(tmp_path / "c.json", 10_000)


def test_a_sketch_like_another_keeps_its_start(stop_after):
    X = records_of(2)
    first = dpg.fit_gmm(X, 2, **BOUNDS, **BUDGET)
    given = {"like": first, "method": "sketch"} | BUDGET
    count = stop_after(None)
    whole = dpg.fit_gmm(X + 0.1, 2, **given)
    n_releases = len(count)
    assert n_releases == len(whole.noise["sketches"])
    for n in range(1, n_releases + 1):
        stop_after(n)
        with pytest.raises(KeyboardInterrupt) as stopped:
            dpg.fit_gmm(X + 0.1, 2, **given)
        resumed = dpg.resume(stopped.value)
    assert resumed.to_dict() == whole.to_dict()


def test_two_phases_keep_the_crude_release(stop_after, judge, monkeypatch):
    judge(rejected=False)
    X, crude = records_of(2, 200), dpg.fit_gmm(records_of(2), 2, method="histogram", **BOUNDS, **BUDGET)

    def release(self, records, problem, **settings):
        from pm_dpgmm.methods.outcome import Outcome

        return Outcome(crude.mixture, crude.guarantee, crude.raw, crude.noise)

    monkeypatch.setattr(Populous, "release", release)
    monkeypatch.setattr(TwoPhase, "check", lambda self, problem: None)
    guarantee = dpg.fit_gmm(X, 2, **BOUNDS, **BUDGET).guarantee
    monkeypatch.setattr(TwoPhase, "guarantee", lambda self, problem: guarantee)
    monkeypatch.setattr(TwoPhase, "try_learner", lambda self, *given: None)
    count = stop_after(None)
    whole = dpg.fit_gmm(X, 2, method="two-phase", **BUDGET)
    stop_after(len(count))
    with pytest.raises(KeyboardInterrupt) as stopped:
        dpg.fit_gmm(X, 2, method="two-phase", **BUDGET)
    assert dpg.resume(stopped.value).to_dict() == whole.to_dict() and whole.noise["crude"]["scale"] > 0
    stop_after(1)
    with pytest.raises(KeyboardInterrupt) as stopped:
        dpg.fit_gmm(X, 2, method="two-phase", **BUDGET)
    assert set(stopped.value.released.raw) == {"crude_counts", "crude_bounds"}


@pytest.mark.thorough
def test_a_killed_process_leaves_a_complete_checkpoint(tmp_path):
    path = tmp_path / "c.json"
    script = f"""
        import os, signal
        import numpy as np
        import pm_dpgmm as dpg
        from pm_dpgmm.methods.sketch import method as sketch

        sketch.choose = lambda *given, **settings: os.kill(os.getpid(), signal.SIGKILL)
        X = np.random.default_rng(0).normal(size=(2000, 1))
        dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-6, bounds=(-5, 5), checkpoint={str(path)!r})
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], timeout=120)
    assert ended.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == ["c.json"] and stat.S_IMODE(path.stat().st_mode) == 0o600
    release = dpg.resume(path)
    assert release.private and release.n_records == 2000 and abs(release.means[0, 0]) < 0.2
    assert release.guarantee.epsilon == 1.0


def test_without_a_release_nothing_is_kept_and_a_refusal_spends_nothing(tmp_path):
    path, ledger = tmp_path / "c.json", dpg.Ledger(tmp_path / "l.sqlite", epsilon=10.0, delta=1e-5)
    given = {"checkpoint": path, "ledger": ledger} | BUDGET
    with pytest.raises(ValueError, match="epsilon"):
        dpg.fit_gmm(records_of(1), 1, **(given | {"epsilon": -1.0}))
    path.write_text("kept")
    with pytest.raises(FileExistsError, match=r"checkpoint must be a new file, got .*c.json"):
        dpg.fit_gmm(records_of(1), 1, **BOUNDS, **given)
    with pytest.raises(FileNotFoundError, match="checkpoint must be in an existing folder"):
        dpg.fit_gmm(records_of(1), 1, **BOUNDS, **(given | {"checkpoint": tmp_path / "no" / "c.json"}))
    for name in ("l.sqlite", "l.sqlite-journal", "l.sqlite-wal"):  # SQLite took them for its own, and deleted them
        with pytest.raises(FileExistsError, match="checkpoint must be another file than"):
            dpg.fit_gmm(records_of(1), 1, **BOUNDS, **(given | {"checkpoint": tmp_path / name}))
    assert ledger.spent == (0.0, 0.0) and path.read_text() == "kept"
    path.write_text("")  # as a fit that runs has it
    with pytest.raises(FileExistsError, match="checkpoint must be a new file"):
        dpg.fit_gmm(records_of(1), 1, **BOUNDS, **given)
    path.unlink()
    ledger.reserve(9.5, 0.0, "replace-one", "another fit")
    with pytest.raises(dpg.BudgetExceeded):
        dpg.fit_gmm(records_of(1), 1, **BOUNDS, **given)
    assert ledger.spent == (9.5, 0.0) and not path.exists()


def test_a_method_that_tells_nobody_what_it_released_is_refused_before_it_spends():
    class Old(HistogramMethod):
        def release(self, records, problem, *, learner, n_jobs, progress, rng):
            pytest.fail("budget was spent")

    with pytest.raises(ValueError, match="method must have a release that takes records, problem"):
        dpg.fit_gmm(records_of(1), 1, method=Old(), **BOUNDS, **BUDGET)


@pytest.mark.parametrize(
    "part, words",
    [
        (
            {"recorded": lambda self: {"x": np.int64(3)}},
            "settings must be numbers and texts that a release file can hold",
        ),
        ({"recorded": lambda self: {"x": float("nan")}}, "settings must be numbers and texts that a release file"),
        ({"name": 7}, "the name of method must be text, got 7"),
    ],
)
def test_a_method_whose_release_could_not_be_stored_is_refused_before_it_spends(part, words, tmp_path):
    ledger = dpg.Ledger(tmp_path / "l.sqlite", epsilon=10.0)
    method = type("Own", (HistogramMethod,), part)()
    with pytest.raises(TypeError, match=words):
        dpg.fit_gmm(records_of(1), 1, method=method, ledger=ledger, **BOUNDS, **BUDGET)
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("link", [False, True])
def test_a_relative_checkpoint_stays_where_it_was_given(link, tmp_path, monkeypatch):
    """The working directory changes in the middle of the fit; a link stays one."""
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    if link:
        (tmp_path / "here" / "fit.json").symlink_to("../real.json")
    monkeypatch.chdir(tmp_path / "here")
    real = HistogramMethod.release

    def moving(self, *given, **settings):
        os.chdir(tmp_path / "there")
        return real(self, *given, **settings)

    monkeypatch.setattr(HistogramMethod, "release", moving)
    release = dpg.fit_gmm(records_of(1), 2, method="histogram", checkpoint="fit.json", **BOUNDS, **BUDGET)
    assert not list((tmp_path / "there").iterdir()) and (tmp_path / "here" / "fit.json").is_symlink() == link
    assert dpg.resume(tmp_path / ("real.json" if link else "here/fit.json")).to_dict() == release.to_dict()


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_fit(tmp_path, monkeypatch):
    def full(self, path):
        raise OSError("disk full")

    monkeypatch.setattr(Checkpoint, "save", full)
    with pytest.warns(RuntimeWarning, match="could not be written: disk full; the fit goes on"):
        release = dpg.fit_gmm(records_of(1), 1, method="histogram", checkpoint=tmp_path / "c.json", **BOUNDS, **BUDGET)
    assert release.n_components == 1

    def closed(*args, **kwargs):
        raise ValueError("I/O operation on closed file")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", closed)
        release = dpg.fit_gmm(records_of(1), 1, method="histogram", checkpoint=tmp_path / "c.json", **BOUNDS, **BUDGET)
    assert release.n_components == 1


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda f: "", "which is empty: the fit is running or was killed"),
        (lambda f: "{", "complete JSON checkpoint file"),
        (lambda f: json.dumps(f | {"schema": "other"}), "must be a file of schema"),
        (lambda f: json.dumps(f | {"schema_version": 99}), "schema_version must be 1"),
        (
            lambda f: json.dumps({k: v for k, v in f.items() if k != "raw"}),
            "a checkpoint file with 'raw', got .* without",
        ),
        (lambda f: json.dumps(f | {"raw": 2.5}), "raw must be a mapping, got 2.5"),
        (lambda f: json.dumps(f | {"noise": 3}), "noise must be a mapping, got 3"),
        (lambda f: json.dumps(f | {"settings": []}), r"settings must be a mapping, got \[\]"),
        (lambda f: json.dumps(f | {"raw": {}}), "a release of method 'histogram' must have counts, got none"),
        (lambda f: json.dumps(f | {"method": "populous"}), "method must be one of 'sketch'"),
        (lambda f: json.dumps(f | {"n_components": [10**9]}), "n_components must be at most 512"),
        (lambda f: "[" * 100_000, "complete JSON checkpoint file"),
    ],
)
def test_bad_checkpoints_are_one_clear_error(change, words, tmp_path):
    path = tmp_path / "c.json"
    dpg.fit_gmm(records_of(1), 1, method="histogram", checkpoint=path, **BOUNDS, **BUDGET)
    path.write_text(change(json.loads(path.read_text())))
    with pytest.raises(ValueError, match=words):
        dpg.resume(path)


@pytest.mark.thorough(quick=["part0"])
@pytest.mark.parametrize("part", [{"starts": [1]}, {"starts": 3}, {"duels": 1.0}, {"duels": [2]}])
def test_parts_of_another_kind_are_one_clear_error(part, tmp_path):
    path = tmp_path / "c.json"
    dpg.fit_gmm(records_of(1), 2, checkpoint=path, **BOUNDS, **BUDGET)
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"noise": fields["noise"] | part}))
    with pytest.raises(ValueError, match="source must be a checkpoint whose parts have their kinds"):
        dpg.resume(path)


@pytest.mark.parametrize("part, words", [
    ({"sites": 5}, "sites must be a list of what sites promised, got 5"),
    ({"dispersion": -1}, "dispersion must be finite and at least 0, got -1"),
    ({"flagged": "y"}, "flagged must be True or False"),
    ({"misfit": "x"}, "misfit must be a real number"),
])  # fmt: skip
def test_a_forged_checkpoint_makes_no_release_that_fails_later(part, words, tmp_path):
    """It was resumed; then the summary failed, or nobody could load the file that was saved of it."""
    path = tmp_path / "c.json"
    dpg.fit_gmm(records_of(1), 2, method="histogram", checkpoint=path, **BOUNDS, **BUDGET)
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"noise": fields["noise"] | part}))
    with pytest.raises(ValueError, match=words):
        dpg.resume(path)


def test_arithmetic_that_fails_is_one_clear_error(tmp_path, monkeypatch):
    path = tmp_path / "c.json"
    dpg.fit_gmm(records_of(1), 1, method="histogram", checkpoint=path, **BOUNDS, **BUDGET)

    def too_large(*given):
        raise OverflowError("numerical result out of range")

    monkeypatch.setattr(checkpoint_module, "_outcome", too_large)
    with pytest.raises(ValueError, match="source must be a checkpoint of ordinary numbers, got others: numerical"):
        dpg.resume(path)


@pytest.mark.parametrize("numbers, words", [
    ([300], "n_components must be at most 64 for a sketch, got 300"),
    (list(range(1, 65)), "n_components must add up to at most 256, got 64 numbers of 2080"),
    ([17], "n_components must be at most 16 for a sketch of 32 numbers, got 17"),
])  # fmt: skip
def test_a_forged_checkpoint_cannot_ask_for_hours(numbers, words, tmp_path):
    path = tmp_path / "c.json"
    dpg.fit_gmm(records_of(1), 2, checkpoint=path, **BOUNDS, **BUDGET)
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"n_components": numbers}))
    with pytest.raises(ValueError, match=words):
        dpg.resume(path)


def test_a_checkpoint_of_local_reports_is_not_asked_for_hours(tmp_path):
    path = tmp_path / "c.json"
    dpg.fit_gmm(records_of(1), 2, method="local", checkpoint=path, epsilon=1.0, **BOUNDS, progress=False)
    with pytest.raises(ValueError, match=r"n_components must be at most 64, .* got 600 in 1 columns"):
        dpg.resume(path, 600)


@pytest.mark.parametrize("method, n_components, settings, words", [
    ("sketch", 65, {}, "n_components must be at most 64 for a sketch, got 65"),
    ("sketch", range(1, 24), {}, "n_components must add up to at most 256, got 23 numbers of 276"),
    ("sketch", 9, {"order": 8}, "n_components must be at most 8 for a sketch of 16 numbers, got 9"),
    ("histogram", 513, {"n_cells": 2000}, "n_components must be at most 512, got 513"),
    ("histogram", 2, {"n_cells": 2**21}, "n_bins must give at most 1048576 bins, which a file can hold, got 2097152"),
    ("slices", 2, {"n_cells": 2**19}, "n_bins must leave at most 1048576 slices, which a file can hold, got 524288"),
])  # fmt: skip
def test_what_could_not_be_resumed_is_refused_before_it_is_paid_for(method, n_components, settings, words, tmp_path):
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5)
    X = np.random.default_rng(1).normal(size=(600, 2 if method == "slices" else 1))
    with pytest.raises(ValueError, match=words):
        dpg.fit_gmm(X, n_components, method=method, ledger=ledger, **settings, **BOUNDS, **BUDGET)
    assert ledger.spent == (0.0, 0.0)


def test_a_source_must_carry_released_numbers(tmp_path):
    with pytest.raises(FileNotFoundError, match="existing checkpoint file"):
        dpg.resume(tmp_path / "none.json")
    for source in (3, KeyboardInterrupt()):
        with pytest.raises(TypeError, match="source must be a path, a Checkpoint or an exception"):
            dpg.resume(source)


@pytest.mark.thorough(quick=["histogram-settings0"])
@pytest.mark.parametrize("method, settings", [
    ("histogram", {"n_bins": np.int64(16)}), ("slices", {"n_bins": np.int64(8)}), ("sketch", {"order": np.int64(16)}),
])  # fmt: skip
def test_settings_may_be_numbers_of_numpy(method, settings, tmp_path):
    """They went into no file: the fit failed after its budget was spent, or its release could not be saved."""
    X, budget = records_of(2 if method == "slices" else 1), {k: v for k, v in BUDGET.items() if k != "delta"}
    budget |= {"delta": 1e-6} if method == "sketch" else {}
    release = dpg.fit_gmm(X, 1, method=method, checkpoint=tmp_path / "c.json", **settings, **BOUNDS, **budget)
    assert dpg.load(release.save(tmp_path / "r.json")).settings == release.settings
    assert dpg.resume(tmp_path / "c.json").to_dict() == release.to_dict()


def test_what_was_paid_for_reaches_another_process(tmp_path):
    """An exception that carries a checkpoint could not be pickled, so pools lost both."""
    path = tmp_path / "c.json"
    whole = dpg.fit_gmm(records_of(1), 1, method="histogram", checkpoint=path, **BOUNDS, **BUDGET)
    error = RuntimeError("stopped")
    error.released = Checkpoint.load(path)
    again = pickle.loads(pickle.dumps(error))
    assert dpg.resume(again).to_dict() == whole.to_dict()
    assert copy.deepcopy(error.released).to_dict() == error.released.to_dict()


def test_gaps_alone_are_not_called_fittable(stop_after):
    """ "gaps" counts in bins that the gaps have told: before them there is nothing to fit to."""
    x = np.random.default_rng(1).normal(size=(20_000, 1))
    told = {}
    for n in (1, 2):
        stop_after(n)
        with pytest.raises(KeyboardInterrupt) as caught:
            dpg.fit_gmm(x, 1, method="gaps", **BUDGET)
        told[n] = caught.value.released
    assert not told[1].fittable and "edges" not in told[1].raw
    assert told[2].fittable
    resumed = dpg.resume(told[2])
    assert resumed.n_components == 1 and "interrupted before its choice" in resumed.warnings[0]
    with pytest.raises(ValueError, match="edges"):
        dpg.resume(told[1])


def test_a_fit_that_is_stopped_while_its_warning_is_made_carries_what_it_released(monkeypatch):
    def stop(release):
        raise KeyboardInterrupt

    monkeypatch.setattr(front_door, "warning_about", stop)
    x = np.random.default_rng(1).normal(size=(60, 1))
    with pytest.raises(KeyboardInterrupt) as caught:
        dpg.fit_gmm(x, 2, method="histogram", **BUDGET | {"epsilon": 0.1}, **BOUNDS)
    assert dpg.resume(caught.value).n_components == 2


@pytest.mark.parametrize("nth", [1, 2])
def test_an_interrupt_while_the_file_is_written_costs_none_of_it(nth, tmp_path, monkeypatch):
    """The first writing was undone, and its place given up; a later one left an older part."""
    real, calls = os.fsync, []

    def stop(handle):
        calls.append(handle)
        if len(calls) == nth:
            raise KeyboardInterrupt
        real(handle)

    x = np.random.default_rng(1).normal([[0.0]] * 300 + [[6.0]] * 300)
    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt) as caught:
        dpg.fit_gmm(x, 2, method="sketch", checkpoint=tmp_path / "kept.json", **BUDGET, **BOUNDS)
    assert Checkpoint.load(tmp_path / "kept.json").to_dict() == caught.value.released.to_dict()
    assert os.listdir(tmp_path) == ["kept.json"]

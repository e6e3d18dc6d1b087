"""Text files: whole or not at all, clear errors, and permissions that were asked for."""

import errno
import os
import stat
import tempfile
from pathlib import Path

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.files.writing import check_destination, make_folder, rescue, write_text


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = write_text(tmp_path / "a.txt", "old")

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_permissions_links_and_text_that_no_encoding_has(tmp_path):
    umask = os.umask(0o027)
    try:
        assert stat.S_IMODE(write_text(tmp_path / "a", "x").stat().st_mode) == 0o640
        assert stat.S_IMODE(write_text(tmp_path / "b", "x", mode=0o600).stat().st_mode) == 0o600
    finally:
        os.umask(umask)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    write_text(tmp_path / "link", "\ud800")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "a").read_text() == "\\ud800"


@pytest.mark.parametrize("verb", ["save", "card"])
def test_releases_and_cards_name_the_place_that_is_wrong(verb, tmp_path):
    X = np.random.default_rng(0).normal(size=(1_000, 1))
    release = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(-5, 5), progress=False)
    os.mkfifo(tmp_path / "pipe")
    for place, words in (
        (tmp_path, "path must be a file, got the folder"),
        (tmp_path / "no" / "x", "path must be in an existing folder"),
        (tmp_path / "pipe", "path must be a regular file"),
        (tmp_path / ("n" * 300), "path must be a path that can be written to"),
        ("a\0b", "path must be the path of a file"),
    ):
        with pytest.raises((OSError, ValueError), match=words):
            getattr(release, verb)(place)
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_full_disk_says_which_file_is_lost(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*release.json"):
        write_text(tmp_path / "release.json", "x")
    assert os.listdir(tmp_path) == []


def test_a_destination_is_left_as_it_was(tmp_path):
    (tmp_path / "old").write_text("kept")
    assert check_destination(tmp_path / "new") == tmp_path / "new"
    assert check_destination(tmp_path / "old", force=True) == tmp_path / "old"
    with pytest.raises(FileExistsError, match="output must be a new file"):
        check_destination(tmp_path / "old", name="output")
    with pytest.raises(FileExistsError, match="another file than"):
        check_destination(tmp_path / "sub" / ".." / "old", force=True, never=(None, tmp_path / "old"))
    assert os.listdir(tmp_path) == ["old"] and (tmp_path / "old").read_text() == "kept"
    with pytest.raises(NotADirectoryError, match="must be a folder, got the file"):
        make_folder(tmp_path / "old")
    assert make_folder(tmp_path / "x" / "y").is_dir() and os.listdir(tmp_path / "x" / "y") == []


def test_what_cannot_be_written_is_rescued_where_only_the_owner_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("r.json", "n" * 300):
        place = rescue("{}", Path(name))
        assert place.read_text() == "{}" and stat.S_IMODE(place.stat().st_mode) == 0o600
        assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700


def test_no_thread_ever_writes_without_the_umask(tmp_path, monkeypatch):
    """To ask for the umask was to set it to 0 for a moment, for every thread of the process."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask was changed"))
    write_text(tmp_path / "a", "x")
    write_text(tmp_path / "b", "x", mode=0o600)
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC, errno.EROFS])
def test_a_folder_that_refuses_is_told_by_the_path_that_was_given(number, tmp_path, monkeypatch):
    def refusing(*_, **__):
        raise OSError(number, os.strerror(number), str(tmp_path / ".writing-0123"))

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(OSError, match=r"a\.json") as caught:
        write_text(tmp_path / "a.json", "{}")
    assert "writing-" not in str(caught.value)


def test_a_file_that_cannot_be_replaced_is_told_by_the_path_that_was_given(tmp_path, monkeypatch):
    """Somebody else's, in a folder such as /tmp: the error named the draft, and the file behind an arrow."""

    def refusing(draft, target):
        raise OSError(errno.EPERM, "Operation not permitted", str(draft), None, str(target))

    monkeypatch.setattr(os, "replace", refusing)
    with pytest.raises(PermissionError) as caught:
        write_text(tmp_path / "a.json", "{}")
    assert str(caught.value) == f"[Errno 1] Operation not permitted: {str(tmp_path / 'a.json')!r}"
    assert os.listdir(tmp_path) == []

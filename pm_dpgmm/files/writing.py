"""Files that are written whole or not at all, and destinations that are checked before anything is spent."""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pm_dpgmm._arguments import read_path


def write_text(path: Path, text: str, *, mode: int | None = None) -> Path:
    """Write a text file atomically: a reader sees the old file or the new one, never a part.

    ``mode`` are the file's permissions; None: what the user's umask leaves of 0666. A symbolic link stays one.
    """
    path = Path(path)
    target = _resolved(path, "path")
    _check_place(target, path, "path")
    temporary = target.parent / f".writing-{uuid.uuid4().hex}"
    # the system applies the umask: to ask for it is to change it, for every thread
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # the draft's name tells nobody anything
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from None  # without the draft's name
        raise
    return path


def check_destination(
    path: str | os.PathLike[str], *, name: str = "path", force: bool = False, never: Iterable[object] = ()
) -> Path:
    """Raise unless a new file can be written at ``path``; it is called before work begins or budget is spent.

    Parameters
    ----------
    path : path
    name : str
        What messages call it.
    force : bool
        Whether a file that is there may be overwritten.
    never : iterable
        Paths of files that must not be overwritten whatever ``force`` says; other objects are skipped.

    Returns
    -------
    Path

    Raises
    ------
    FileNotFoundError, FileExistsError, IsADirectoryError, PermissionError, OSError, ValueError
        One message with name, rule and what was given.
    """
    given = read_path(path, name=name)
    target = _resolved(given, name)
    _check_place(target, given, name)
    for other in never:
        if isinstance(other, (str, os.PathLike)) and _same(target, Path(other)):
            raise FileExistsError(f"{name} must be another file than {str(other)!r}, which is read, got {str(given)!r}")
    if target.exists() and not force:
        raise FileExistsError(f"{name} must be a new file, got {str(given)!r}, which exists")
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".writing-")
    except OSError as error:
        raise PermissionError(
            f"{name} must be in a folder that can be written to, got {str(given)!r}: {error.strerror}"
        ) from None
    os.close(handle)
    os.unlink(temporary)
    return given


@dataclass(frozen=True, slots=True)
class Reserved(os.PathLike[str]):
    """A path that is the caller's own, as :func:`reserved` gave it."""

    path: Path

    def __fspath__(self) -> str:
        return os.fspath(self.path)


@contextlib.contextmanager
def reserved(path: str | os.PathLike[str], *, name: str = "path", never: Iterable[object] = ()) -> Iterator[Reserved]:
    """Take a new file for the caller alone, before anything is spent: of two processes one gets it.

    The file is empty until something is written to ``path``; where nothing was, it is gone at the end. A process that
    is killed leaves it empty, and who asks for it next is told what to do. A :class:`Reserved` stays its holder's.

    Raises
    ------
    FileExistsError
        If it is there, or another process has it.
    FileNotFoundError, IsADirectoryError, PermissionError, OSError, ValueError
        As of :func:`check_destination`.
    """
    if isinstance(path, Reserved):
        check_destination(path, name=name, force=True, never=never)
        yield path
        return
    given = check_destination(path, name=name, force=True, never=never)
    target = _resolved(given, name)
    try:
        handle = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise FileExistsError(f"{name} must be a new file, got {str(given)!r}, {_why_there(target)}") from None
    except OSError as error:
        raise PermissionError(f"{name} must be a file that can be made, got {str(given)!r}: {error.strerror}") from None
    made = None
    try:
        made = os.fstat(handle)
        os.close(handle)
        yield Reserved(Path(os.path.abspath(given)))  # wherever the working directory is by then; a link stays one
    finally:
        with contextlib.suppress(OSError):
            found = os.stat(target)
            if found.st_size == 0 and (made is None or os.path.samestat(found, made)):
                os.unlink(target)


def _why_there(target: Path) -> str:
    with contextlib.suppress(OSError):
        if target.stat().st_size == 0:
            return (
                "which is empty: a fit or audit that is running has reserved it, or one was killed before it had"
                " written anything; delete it if none is running"
            )
    return "which exists"


def make_folder(path: str | os.PathLike[str], *, name: str = "path") -> Path:
    """A folder that can be written to, made if it is missing; OSError or ValueError with one message otherwise."""
    given = read_path(path, name=name)
    try:
        if given.exists() and not given.is_dir():
            raise NotADirectoryError(f"{name} must be a folder, got the file {str(given)!r}")
        given.mkdir(parents=True, exist_ok=True)
        check_destination(given / ".writing", name=name, force=True)
    except OSError as error:
        if error.errno is None:  # a message of ours
            raise
        raise OSError(f"{name} must be a folder that can be made, got {str(given)!r}: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{name} must be a path, got {str(given)!r}") from None
    return given


def rescue(text: str, path: Path) -> Path:
    """Write what could not be written to ``path`` into a new folder that only the user can read; returns where."""
    folder = Path(tempfile.mkdtemp(prefix="pm-dpgmm-"))
    place = folder / path.name
    with contextlib.suppress(OSError):
        return write_text(place, text, mode=0o600)
    return write_text(folder / "release.json", text, mode=0o600)  # a name that no file system refuses


def _resolved(path: Path, name: str) -> Path:
    """The file behind symbolic links; ValueError where that is no path."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):  # NUL, a loop of links
        raise ValueError(f"{name} must be a path, got {str(path)!r}") from None


def _check_place(target: Path, given: Path, name: str) -> None:
    try:
        if target.is_dir():
            raise IsADirectoryError(f"{name} must be a file, got the folder {str(given)!r}")
        if target.exists() and not target.is_file():  # replacing a device or a pipe would remove it
            raise FileExistsError(f"{name} must be a regular file, got {str(given)!r}")
        if not target.parent.is_dir():
            raise FileNotFoundError(f"{name} must be in an existing folder, got {str(given)!r}")
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(f"{name} must be a path that can be written to, got {str(given)!r}: {error.strerror}") from None


def _same(target: Path, other: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return target == other.resolve() or (target.exists() and target.samefile(other))
    return False

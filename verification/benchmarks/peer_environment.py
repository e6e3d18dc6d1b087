"""Virtual environments for the peers of a benchmark, whose dependencies do not fit beside this package's.

A peer gets a folder ``.venv-...``, made on first use, and is run there by its own interpreter; the two sides exchange
files. Without the network, or with one that has no such versions, there is a reason instead of an interpreter.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

PIP = ("-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def last_line(error: subprocess.CalledProcessError | OSError) -> str:
    """Why a command failed, in one line: the last one it wrote to standard error, if it was captured."""
    written = (getattr(error, "stderr", None) or "").splitlines()
    return next((line.strip() for line in reversed(written) if line.strip()), str(error))


def normalised(requirement: str) -> str:
    """Name of the distribution that a line of a requirements file asks for; empty for a comment."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s=<>!~;\[#@]", requirement.strip(), maxsplit=1)[0]).lower()


def found_python(versions: Sequence[str]) -> str | None:
    """The first Python of these minor versions ("3.11") that runs here: this one, or one on the path."""
    if "{}.{}".format(*sys.version_info[:2]) in versions:
        return sys.executable
    for name in (f"python{version}" for version in versions):
        for folder in os.get_exec_path():
            command = shutil.which(name, path=folder)
            # a version manager's shim may stand for an interpreter that is not there
            if command and not subprocess.run([command, "-I", "-c", ""], capture_output=True, check=False).returncode:
                return command
    return None


def interpreter(
    folder: Path,
    requirements: Path,
    *,
    no_deps: Collection[str] = (),
    check: str = "",
    python: str | None = None,
) -> tuple[Path | None, str | None]:
    """Interpreter of the environment in ``folder``, made when it is missing or outdated.

    Parameters
    ----------
    folder : Path
        Relative to the current folder. Whatever it holds is deleted when the environment is made.
    requirements : Path
        Requirements file that pins a version on every line, the dependencies included.
    no_deps : collection of str
        Names in ``requirements`` whose declared dependencies are left out, unless the file lists them too.
    check : str
        Python statements that the new environment must run without an error.
    python : str, optional
        Interpreter to make the environment with (:func:`found_python`); default this one.

    Returns
    -------
    (Path, None) or (None, str)
        The interpreter, or why there is none.
    """
    maker = python or sys.executable
    made, stamp = folder.absolute() / "bin" / "python", folder / "requirements.txt"
    wanted = requirements.read_text()
    bare_names = {normalised(name) for name in no_deps}
    lines = [line for line in wanted.splitlines() if normalised(line)]
    bare = [line for line in lines if normalised(line) in bare_names]
    if unknown := bare_names - {normalised(line) for line in lines}:
        raise ValueError(f"no_deps must be names in {requirements.name}, got {sorted(unknown)}")
    wanted += "".join(f"# without dependencies: {line}\n" for line in bare)
    if made.exists() and stamp.exists() and stamp.read_text() == wanted:
        return made, None
    print(f"Making {folder} from {requirements.name} ...", file=sys.stderr)
    with tempfile.TemporaryDirectory() as scratch:
        full = Path(scratch, "requirements.txt")
        full.write_text("\n".join(line for line in lines if line not in bare) + "\n")
        commands = [
            [maker, "-m", "venv", "--clear", str(folder)],
            [str(made), *PIP, "-r", str(full)],
            *([[str(made), *PIP, "--no-deps", *bare]] if bare else []),
            [str(made), "-I", "-c", check],
        ]
        try:
            for command in commands:
                subprocess.run(command, check=True, capture_output=True, text=True)
            stamp.write_text(wanted)  # last: a half-made environment is made again
        except (subprocess.CalledProcessError, OSError) as error:
            return None, last_line(error)
    return made, None

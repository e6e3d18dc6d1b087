"""Proof notes carry a hash of the source they were read against; this module finds the ones that are stale.

``python -m verification.proof_notes`` lists stale notes; ``--sign`` writes the present hashes after a new reading.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADING = re.compile(r"^## (\w+) \(source as read: sha256 ([0-9a-f]{12})\)$", re.MULTILINE)


def notes() -> list[Path]:
    """All proof notes: of the package, and of what the audits say together."""
    return sorted(path for package in ("pm_dpgmm", "verification") for path in (ROOT / package).rglob("*.md"))


def present_hash(note: Path, name: str) -> str:
    """Hash of the source of ``name`` in the module beside ``note``, or where that module imports it from."""
    module = importlib.import_module(".".join(note.relative_to(ROOT).with_suffix("").parts))
    source = inspect.getsource(getattr(module, name))
    return hashlib.sha256(source.encode()).hexdigest()[:12]


def stale() -> list[str]:
    """One line per note whose source changed since it was read."""
    lines = []
    for note in notes():
        headings = HEADING.findall(note.read_text(encoding="utf-8"))
        if not headings:
            lines.append(f"{note.relative_to(ROOT)}: no section with a source hash")
        lines += [
            f"{note.relative_to(ROOT)}: {name} changed since it was read"
            for name, signed in headings
            if present_hash(note, name) != signed
        ]
    return lines


def sign() -> None:
    """Write the present hashes into every note. Only after reading the proof against the source."""
    for note in notes():
        text = note.read_text(encoding="utf-8")

        def heading(match: re.Match[str], note: Path = note) -> str:
            return f"## {match[1]} (source as read: sha256 {present_hash(note, match[1])})"

        note.write_text(HEADING.sub(heading, text), encoding="utf-8")


if __name__ == "__main__":
    if "--sign" in sys.argv:
        sign()
    found = stale()
    print("\n".join(found) or "every proof note matches its source")
    sys.exit(bool(found))

"""What a fit that ended early had paid for: where it is kept, or that a ledger was charged for nothing."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pm_dpgmm.cli.exit_status import one_line
from pm_dpgmm.files.writing import rescue

if TYPE_CHECKING:
    from pm_dpgmm.privacy.ledger import Ledger
    from pm_dpgmm.release.release import Release


def tell_charge(ledger: Ledger, before: tuple[float, float] | None) -> None:
    """Say so where a fit was charged and ended before its first number; another process may have charged besides."""
    with contextlib.suppress(Exception):  # why the fit ended is told in any case
        spent = ledger.spent
        if spent != before:
            print(
                f"pm-dpgmm fit: nothing was released, but {str(ledger.path)!r} was charged: what is spent grew from"
                f" {before} to {spent} (epsilon, delta)",
                file=sys.stderr,
            )


def keep(
    error: BaseException, release: Release | None, partial: Path, output: Path, *, ended: str = "interrupted"
) -> bool:
    """Say where what was paid for is, once it is in a file; False if nothing was released.

    The checkpoint is not always the newest: a full disk keeps what it had, and some methods have none.
    """
    newest = getattr(error, "released", None)
    text = None if newest is None else json.dumps(newest.to_dict(), allow_nan=False)
    found = partial.read_text(encoding="utf-8") if partial.is_file() else ""
    if not found and text is None and release is None:
        return False
    told = f"pm-dpgmm fit: {ended}; what was paid for"

    def command(place: str) -> str:
        if newest is not None and not newest.fittable:
            return f"in {place!r}, to which nothing can be fitted"
        return f"pm-dpgmm resume {place!r} --output {str(output)!r}"

    if found and text in (None, found):
        print(f"{told} is kept: {command(str(partial))}", file=sys.stderr)
        return True
    older = f" ({str(partial)!r} holds an earlier part of it)" if found else ""
    whole = json.dumps(release.to_dict()) if text is None and release is not None else text
    try:
        place = str(rescue(str(whole), output if text is None else partial))
    except OSError as failure:
        words = f"is printed, since it could not be written anywhere: {one_line(failure)}{older}"
        print(f"{told} {words}", file=sys.stderr)
        print(whole)
        return True
    print(f"{told} is kept: {place if text is None else command(place)}{older}", file=sys.stderr)
    return True

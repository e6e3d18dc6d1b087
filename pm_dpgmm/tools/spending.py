"""What all tools do before they look at records: make the guarantee, then charge the ledger; and if they end early."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from pm_dpgmm._arguments import shown
from pm_dpgmm.privacy.curves import PointProfile, PrivacyProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring, Unstable
from pm_dpgmm.privacy.ledger import Ledger


def check_ledger_and_rng(ledger: object, rng: object) -> None:
    """Raise TypeError unless each is of its kind, or None."""
    if ledger is not None and not isinstance(ledger, Ledger):
        raise TypeError(f"ledger must be a pm_dpgmm.Ledger, got {shown(ledger)}")
    if rng is not None and not isinstance(rng, np.random.Generator):  # the first draw would say so, after the charge
        raise TypeError(f"rng must be a numpy.random.Generator, got {shown(rng)}")


def spent(
    epsilon: float,
    delta: float,
    relation: Neighbouring,
    mechanism: str,
    *,
    ledger: Ledger | None,
    private: bool,
    loss: PrivacyProfile | None = None,
) -> Guarantee:
    """The guarantee of what comes next; the ledger, if there is one, has been charged for it."""
    loss = PointProfile(float(epsilon), float(delta)) if loss is None else loss
    guarantee = Guarantee(float(epsilon), float(delta), relation, mechanism, loss, private)
    if ledger is not None:
        ledger.reserve(float(epsilon), float(delta), relation, mechanism)
    return guarantee


@contextlib.contextmanager
def accounted(guarantee: Guarantee) -> Iterator[None]:
    """Whatever ends a tool after it has spent says so in a note, and carries ``guarantee``; a refusal does already."""
    try:
        yield
    except Unstable:
        raise
    except BaseException as error:
        with contextlib.suppress(Exception):  # an error of the user's own may refuse it
            error.guarantee = guarantee  # type: ignore[attr-defined]
        error.add_note(f"The budget is spent: {guarantee} (its attribute guarantee). Nothing was released.")
        raise

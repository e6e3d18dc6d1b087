"""What all tools do before they look at records: make the guarantee, then charge the ledger."""

from __future__ import annotations

from pm_dpgmm._arguments import shown
from pm_dpgmm.privacy.curves import PointProfile, PrivacyProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.privacy.ledger import Ledger


def check_ledger(ledger: object) -> None:
    """Raise TypeError unless it is a ledger, or None."""
    if ledger is not None and not isinstance(ledger, Ledger):
        raise TypeError(f"ledger must be a pm_dpgmm.Ledger, got {shown(ledger)}")


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

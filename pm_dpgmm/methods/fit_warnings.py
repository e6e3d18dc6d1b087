"""What ``fit_gmm`` warns with, whatever the method: the classes, and the reasons that a release holds.

The reasons are written by ``sketch/checks`` and ``counts/caveats``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pm_dpgmm._arguments import printable
from pm_dpgmm.methods.outcome import AUTOMATIC
from pm_dpgmm.methods.sketch.checks.misfit import Misfit


class FitWarning(UserWarning):
    """The fit is not to be relied on: ``release.warnings`` says why. Made of released and public numbers alone.

    ``release`` is the release that it is about, for those who turn warnings into errors: its budget is spent.
    """

    def __init__(self, message: str, release: Any = None) -> None:
        super().__init__(message)
        self.release = release


class ComponentWarning(FitWarning):
    """Some components are not to be relied on, and nothing speaks against the density.

    Who needs components (``means``, ``params``, ``initvals``, ``predict``) should take fewer; ``log_density``,
    ``sample`` and ``prior`` are as good as without them.
    """


def warning_for(reasons: Sequence[str]) -> type[FitWarning]:
    """The class of the warning that gives these reasons: those about components alone begin with their numbers."""
    return ComponentWarning if all(text.startswith("component") for text in reasons) else FitWarning


def warning_about(release: Any) -> FitWarning:
    """The warning that a release with reasons deserves; what "auto" took and why stands after them."""
    choice = release.noise.get(AUTOMATIC)
    why = f"; 'auto' took method {release.method!r}: {choice['reason']}" if choice else ""
    return warning_for(release.warnings)(f"{release.flag} (release.warnings){why}", release)


def warnings_of(noise: Mapping[str, Any], n_components: int) -> tuple[str, ...]:
    """Reasons not to rely on a release, from its public noise law: the misfit, then what the fit noted.

    Each is one line of visible characters, wherever it comes from.
    """
    misfit = Misfit.of(noise)
    reason = None if misfit is None else misfit.reason(n_components)
    if reason and "covariance_type" in noise:
        kind = printable(str(noise["covariance_type"]))
        reason += (
            f"; that counts mixtures of any covariances, not only {kind} ones: release.refit(covariance_type='full')"
        )
    return (*([reason] if reason else []), *map(printable, noise.get("caveats", ())))

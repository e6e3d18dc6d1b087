"""What a reader of masked parameters should be warned of. Post-processing: the released mixture and public noise."""

from __future__ import annotations

import numpy as np

from pm_dpgmm.methods.components_in_words import listed
from pm_dpgmm.mixture.mixture import Mixture

# deviation of a component in some direction over that of the whole mixture. The default learner's least is 3e-5, which
# it has where many records have one value; groups so narrow are rare in real columns
POINT = 1e-3
NOTABLE = 0.1  # nats a record that the mask costs, from which on it is told


def mask_caveats(mixture: Mixture, eta: float) -> list[str]:
    """What speaks against a released mixture whose components have relative noise ``eta``; empty where nothing does.

    Learners agree on a value that many records have, so the private test passes, and the density there is as high as
    the learner's floor for variances makes it.
    """
    return _drowned(mixture.n_features, eta) + _points(mixture)


def expected_loss(n_features: int, eta: float) -> float:
    """Nats a record that the mask costs on average, to second order in eta: sqrt(2) eta a mean, 2 eta a variance."""
    return eta**2 * (n_features + n_features * (n_features + 1) / 2)


def _drowned(n_features: int, eta: float) -> list[str]:
    loss = expected_loss(n_features, eta)
    if loss < NOTABLE:
        return []
    return [
        f"the noise of the mask moves a mean by {1.4 * eta:.2g} of its standard deviations and a variance by"
        f" {2 * eta:.0%}, or more: it costs {loss:.2g} nats a record on average; more records, a larger epsilon or"
        " fewer columns would help"
    ]


def _points(mixture: Mixture) -> list[str]:
    with np.errstate(all="ignore"):
        spread = np.sqrt(np.diagonal(mixture.covariance()))
        unit = np.outer(spread, spread)
        whole = np.linalg.eigh(mixture.covariance() / unit)
        root = whole[1] / np.sqrt(np.maximum(whole[0], np.finfo(float).eps))
        inside = root.T @ (mixture.covariances / unit) @ root
        narrow = np.linalg.eigvalsh((inside + inside.swapaxes(1, 2)) / 2)[:, 0] < POINT**2
    if not narrow.any():
        return []
    return [
        f"some records seem to have one value: {listed(narrow)} is narrower in some direction than a thousandth of the"
        " whole mixture, and densities there are arbitrary; leave out such a column, or the records with that value"
    ]

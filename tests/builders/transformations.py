"""A transformation made of functions, as a user would write one."""

import numpy as np

import pm_dpgmm as dpg


def of_size(x):
    return np.sign(x) * np.log1p(np.abs(x))


def signed_log(**changed):
    """The sign and the logarithm of 1 more than the size; with parts changed that make it none."""
    parts = {
        "forward": of_size,
        "inverse": lambda y: np.sign(y) * np.expm1(np.abs(y)),
        "log_jacobian": lambda x: -np.log1p(np.abs(x)),
    }
    return dpg.Transformation("signed log", **(parts | changed))

"""Wrong arguments for all that a release offers to PyMC and to figures: does each get one clear error?

``python -m verification.fuzz.models --inputs 1000 --seed 1`` is :mod:`verification.fuzz.entries` for ``pm_dpgmm.bayes``
and the plots. Every call has a small model of its own, and nothing is sampled. Beside the hostile values for every
function there are draws of other models, of other shapes, with NaN, in every container, models and their variables.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

import pm_dpgmm as dpg
from pm_dpgmm import bayes
from pm_dpgmm.bayes.arviz_compat import inference_data
from verification.fuzz.entries import Entries, main
from verification.fuzz.releases import FILES

K, D, N_DRAWS = 2, 2, 6
FEATURES = ["x0", "x1"]
MIXTURE = dpg.Mixture([0.4, 0.6], [[0.0, 0.0], [6.0, 1.0]], [np.eye(D), 2 * np.eye(D)])
OTHER = dpg.Mixture([0.2, 0.3, 0.5], [[0.0], [4.0], [9.0]], [[[1.0]]] * 3)


def draws(mixture: dpg.Mixture, name: str = "g", **changes: Any) -> xr.Dataset:
    """Posterior of the parameters ``name``, two chains near ``mixture``; ``changes`` replace variables."""
    k, d = mixture.means.shape
    dims = {"weights": ["component"], "means": ["component", "feature"]}
    dims["covariances"] = ["component", "feature", "feature_"]
    noise = 1 + 0.01 * np.random.default_rng(1).normal(size=(2, N_DRAWS, k))
    weights = mixture.weights * noise / (mixture.weights * noise).sum(axis=-1, keepdims=True)
    parts = {
        "weights": weights,
        "means": mixture.means * noise[..., None],
        "covariances": mixture.covariances * noise[..., None, None] ** 2,
    }
    features = FEATURES if d == D else [f"x{j}" for j in range(d)]
    found = xr.Dataset(
        {f"{name}_{part}": (["chain", "draw", *dims[part]], values) for part, values in parts.items()},
        coords={"component": range(k), "feature": features},
    )
    return found.assign(**changes)


def vectors(*, labelled: bool) -> xr.Dataset:
    """Posterior of a latent vector ``x`` with its label."""
    rng = np.random.default_rng(2)
    labels = rng.integers(K, size=(2, 80))  # the fewest that check_modes takes
    values = MIXTURE.means[labels] + rng.normal(size=(2, 80, D))
    found = xr.Dataset({"x": (["chain", "draw", "feature"], values)}, coords={"feature": FEATURES})
    return found.assign(x_label=(["chain", "draw"], labels)) if labelled else found


def contained(posterior: xr.Dataset) -> Any:
    """Draws as the installed ArviZ has them."""
    return inference_data(posterior=posterior)


def a_model() -> pm.Model:
    """Weights and means under names of the user's."""
    with pm.Model() as model:
        pm.Dirichlet("w", np.ones(K))
        pm.Normal("mu", shape=(K, D))
    return model


def a_variable(*shape: int) -> Any:
    """A random variable of a model that is not the current one."""
    with pm.Model():
        return pm.Normal("stray", shape=shape)


def parameters(mixture: dpg.Mixture, name: str = "h") -> Any:
    """Parameters in the current model, or in one of their own."""
    with pm.modelcontext(None) if pm.Model.get_context(error_if_none=False) else pm.Model():
        return bayes.mixture_params(name, mixture, weight_conc=10.0, mean_scale=0.2, cov_scale=0.1)


MORE: tuple[Callable[[], Any], ...] = (
    a_model, a_variable, lambda: a_variable(K), lambda: a_variable(K, D), lambda: pt.vector("v"),
    lambda: pt.dscalar("s"),
    lambda: parameters(MIXTURE), lambda: parameters(OTHER), lambda: MIXTURE, lambda: OTHER,
    lambda: dpg.load(FILES / "histogram.json"), lambda: dpg.load(FILES / "sketch_one_column.json"),
    lambda: draws(MIXTURE), lambda: draws(OTHER), lambda: contained(draws(OTHER)),
    lambda: contained(draws(MIXTURE, "h")),
    lambda: draws(MIXTURE).isel(draw=slice(0)), lambda: draws(MIXTURE).isel(chain=0, drop=True),
    lambda: draws(MIXTURE) * np.nan, lambda: draws(MIXTURE) * 1e200, lambda: draws(MIXTURE) * 0,
    lambda: -draws(MIXTURE),
    lambda: draws(MIXTURE).astype(str), lambda: draws(MIXTURE).astype(complex), lambda: draws(MIXTURE).astype(int),
    lambda: draws(MIXTURE).rename(component="part"), lambda: draws(MIXTURE).transpose(..., "draw"),
    lambda: draws(MIXTURE).assign_coords(feature=["x1", "x0"]), lambda: draws(MIXTURE)["g_means"],
    lambda: draws(MIXTURE).drop_vars("g_means"), lambda: draws(MIXTURE).to_dict(),
    lambda: {"posterior": draws(MIXTURE)}, lambda: {name: v.values for name, v in draws(MIXTURE).items()},
    lambda: vectors(labelled=True), lambda: contained(vectors(labelled=False)), lambda: vectors(labelled=True) * np.nan,
    lambda: vectors(labelled=True).assign(x_label=lambda one: one.x_label + 7), xr.Dataset,
    lambda: contained(xr.Dataset()),
    lambda: ("feature",), lambda: ("feature", "feature"), lambda: ("component", "feature"), lambda: "feature",
    lambda: ["obs", "feature"], lambda: ("a", "b", "c"), lambda: "g", lambda: "g_means", lambda: "x",
    lambda: "nowhere::x",
    lambda: {"w": "weights", "mu": "means"}, lambda: {"w": "means"}, lambda: {"none": "weights"}, lambda: {"w": 3},
    lambda: {3: "weights"}, lambda: (2, 2), lambda: (-1,), lambda: (10**12, 2), lambda: np.zeros((3, 5)),
    lambda: np.full((3, 2), np.inf), lambda: np.full((3, 2), np.nan), lambda: np.zeros((3, 2), dtype=complex),
    lambda: [{"study": "a", "parameter": "w", "coverage": 0.9}], lambda: [{"study": "a"}],
    lambda: {"a": [[1.0], [2.0, 3.0]]},
)  # fmt: skip


def entries(folder: Path) -> Entries:
    """What a release offers beyond numbers, with arguments that are right; every call has a model of its own."""
    matplotlib.use("Agg")
    release = dpg.fit_gmm(
        MIXTURE.sample(400, rng=np.random.default_rng(1)),
        K,
        epsilon=5.0,
        delta=1e-6,
        bounds=(-9, 15),
        random_seed=1,
        progress=False,
    )
    counts = dpg.load(FILES / "histogram.json")
    idata, latent = contained(draws(release.mixture)), contained(vectors(labelled=True))
    scales = {"weight_conc": 10.0, "mean_scale": 0.2, "cov_scale": 0.1}
    row = {"study": "a", "parameter": "w", "coverage": 0.9, "naive": 0.5, "standard_error": 0.02}
    names = {"dims": ("component", "feature"), "prior": "anchored", "model": None}

    def fresh(call: Callable[..., Any]) -> Callable[..., Any]:
        def made(**given: Any) -> Any:
            with pm.Model(coords={"obs": range(3)}):
                return call(**given)

        return made

    def observed(th: Any = None, **given: Any) -> Any:
        return release.observe(release.params("g", prior="weak") if th is None else th, **given)

    def mixed(th: Any = None, **given: Any) -> Any:
        return dpg.gmm(th=parameters(MIXTURE, "g") if th is None else th, **given)

    def drawn(call: Callable[..., Any]) -> Callable[..., Any]:
        """Each figure is closed, also where drawing fails."""

        def made(**given: Any) -> Any:
            from matplotlib import pyplot

            try:
                return call(**given)
            finally:
                pyplot.close("all")

        return made

    return {
        "prior": (fresh(release.prior), {
            "name": "x", "dims": "feature", "form": "auto", "inflate": 1.0, "model": None,
        }),
        "prior, mixture": (fresh(release.prior), {"name": "x", "dims": ("obs", "feature"), "form": "mixture"}),
        "prior_dist": (release.prior_dist, {"shape": (3, 2), "form": "mixture", "inflate": 1.0}),
        "as_prior": (fresh(lambda name, **given: release.as_prior(**given).create_variable(name)), {
            "name": "x", "dims": "feature", "form": "auto", "inflate": 2.0,
        }),
        "measured": (fresh(release.measured), {
            "name": "m", "observed": np.zeros((3, 2)), "noise_cov": np.eye(2), "design": None, "offset": None,
            "dims": ("obs", "feature"), "inflate": 1.0, "model": None,
        }),
        "gaussian_posterior": (bayes.gaussian_posterior, {
            "release": release, "observed": [0.0, 1.0], "noise_cov": np.eye(2), "design": None,
        }),
        "params": (fresh(release.params), {"name": "g", **scales, **names}),
        "params, weak": (fresh(release.params), {"name": "g"} | names | {"prior": "weak"}),
        "mixture_params": (fresh(bayes.mixture_params), {
            "name": "g", "mixture": MIXTURE, "feature_names": FEATURES, **scales, **names,
        }),
        "anchor_separation": (release.anchor_separation, {"mean_scale": 0.2}),
        "observe": (fresh(observed), {"th": None, "name": "release", "likelihood": "auto", "model": None}),
        "gmm": (fresh(mixed), {
            "name": "y", "th": None, "observed": np.zeros((3, 2)), "dims": ("obs", "feature"), "model": None,
        }),
        "gmm, of a shape": (fresh(mixed), {"name": "y", "th": None, "shape": (3, 2)}),
        "gmm_dist": (fresh(bayes.gmm_dist), {"th": MIXTURE, "shape": (3, 2)}),
        "initvals": (release.initvals, {
            "model": a_model(), "mapping": {"w": "weights"}, "chains": 2, "jitter": 0.05, "random_seed": 1,
        }),
        "initvals of a model": (lambda **given: release.initvals(a_model(), **given), {
            "mapping": {"w": "weights", "mu": "means"}, "chains": 2, "jitter": 0.05, "random_seed": 1,
        }),
        "set_initvals": (lambda **given: release.set_initvals(a_model(), **given), {
            "mapping": {"w": "weights", "mu": "means"}, "jitter": 0.05, "random_seed": 1,
        }),
        "relabel": (dpg.relabel, {
            "idata": idata, "to": release, "means": "g_means", "covariances": "g_covariances", "dim": "component",
        }),
        "label_probs": (dpg.label_probs, {
            "idata": idata, "X": np.zeros((3, 2)), "weights": "g_weights", "means": "g_means",
            "covariances": "g_covariances", "dim": "component",
        }),
        "check_modes": (dpg.check_modes, {
            "idata": latent, "release": MIXTURE, "name": "x", "inflate": 1.0, "false_alarm": 1e-3, "random_seed": 1,
            "model": None, "compile_kwargs": None,
        }),
        "check_fit": (release.check_fit, {"idata": idata, "name": "g", "n_draws": 5, "random_seed": 1}),
        "check_fit of counts": (counts.check_fit, {
            "idata": contained(draws(counts.mixture)), "name": None, "n_draws": 5, "random_seed": 1,
        }),
        "refit": (counts.refit, {"n_components": 1}),
        "select_k": (counts.select_k, {"n_components": [1, 2], "penalty": "bic"}),
        "is_multimodal": (bayes.is_multimodal, {"mixture": MIXTURE}),
        "recommended_form": (bayes.recommended_form, {"mixture": MIXTURE}),
        "plot_coverage": (drawn(dpg.plot_coverage), {"rows": [row, row | {"parameter": "m"}], "ax": None}),
        "plot_prior_posterior": (drawn(dpg.plot_prior_posterior), {
            "draws": {"prior": [1.0, 2.0, 4.0], "posterior": [1.5, 2.0, 2.2]}, "label": "m", "truth": 2.0, "ax": None,
        }),
        "plot_release": (drawn(dpg.plot_release), {
            "release": release, "features": ("x0", "x1"), "n_points": 20, "ax": None,
        }),
    }  # fmt: skip


if __name__ == "__main__":
    main(entries, MORE, __doc__)

"""What a private release knows, and what a model that forgets the noise believes.

A thousand salaries are released at epsilon 1. Three analysts ask for the share of the higher group and its mean:

1. one has the records (nobody should, but it is the yardstick);
2. one draws a thousand synthetic records from the release and analyses them as if they were real, which is common;
3. one gives PyMC the released numbers together with the law of their noise: ``release.observe``.

A fourth has sixty records of her own and the release as an anchored prior: ``release.params``.
The last lines compare widths. That intervals like the third analyst's contain the truth as often as they say is tested
over hundreds of data sets by ``python -m verification.calibration sketch-d1``.

    python tutorials/noise_aware.py
"""

from __future__ import annotations

import numpy as np
import pymc as pm

import pm_dpgmm as dpg

TRUTH = dpg.Mixture([0.6, 0.4], [[31.0], [52.0]], [[[25.0]], [[64.0]]])  # thousands a year
SAMPLER = {"draws": 1000, "tune": 500, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}


def interval(idata: object, name: str) -> str:
    """Posterior mean and 90 % interval of the higher group's part of a variable."""
    posterior = idata["posterior"]  # type: ignore[index]
    higher = int(posterior["g_means"].mean(("chain", "draw")).values.ravel().argmax())
    draws = posterior[name].values[:, :, higher].ravel()
    low, high = np.quantile(draws, [0.05, 0.95])
    return f"{draws.mean():6.3f} [{low:6.3f}, {high:6.3f}], width {high - low:.3f}"


def main() -> None:
    """Fit, model four times, print."""
    rng = np.random.default_rng(7)
    salaries = TRUTH.sample(1000, rng=rng)
    release = dpg.fit_gmm(salaries, 2, epsilon=1.0, delta=1e-6, bounds=(0, 120), progress=False)
    print(release.summary(), end="\n\n")

    answers = {}
    for name, rows in {"records": salaries, "synthetic": release.sample(1000, random_seed=rng)}.items():
        with pm.Model():
            params = release.params("g", prior="weak")
            dpg.gmm("y", params, observed=rows)
            answers[name] = pm.sample(**SAMPLER)
    with pm.Model():
        params = release.params("g", prior="weak")  # a prior that says next to nothing
        release.observe(params)  # the released numbers, and how noisy they are
        answers["observe"] = pm.sample(**SAMPLER)
    with pm.Model():
        params = release.params("g")  # the released numbers as a prior; not as evidence too: that would raise
        dpg.gmm("y", params, observed=TRUTH.sample(60, rng=rng))
        answers["anchored"] = pm.sample(**SAMPLER)

    words = {
        "records": "the records themselves",
        "synthetic": "synthetic records as if real",
        "observe": "the release, noise and all",
        "anchored": "anchored prior, 60 new records",
    }
    print(f"{'higher group: 0.4, 52':<32}{'share':<40}mean")
    for name, idata in answers.items():
        print(f"{words[name]:<32}{interval(idata, 'g_weights'):<40}{interval(idata, 'g_means')}")


if __name__ == "__main__":
    main()

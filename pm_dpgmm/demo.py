"""The main job on real records: a private fit, its use as a prior in PyMC, and an audit. ``make demo`` runs it.

The records (RAND Health Insurance Experiment, public domain) are public, which is why this page may compare the private
fit with a non-private one. With your own records only the release may leave.
"""

from __future__ import annotations

import logging
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.files.writing import make_folder
from pm_dpgmm.fit import fit_gmm
from pm_dpgmm.learners.subsets import mixture_from_estimator
from pm_dpgmm.mechanisms.histogram import cell_counts, noisy_counts
from pm_dpgmm.methods.fit_warnings import FitWarning
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.release.drawing import contours
from pm_dpgmm.release.plots import plot_prior_posterior, plot_release
from pm_dpgmm.release.release import Release

EPSILON, DELTA = 1.0, 1e-6  # delta is well below one in 20,130 records
N_COMPONENTS = 3
MAX_VISITS, MAX_SCORE = 80, 60.0  # public caps: what a year of visits and the score's scale allow
BOUNDS = np.array([[np.log(0.5), np.log(MAX_VISITS + 1.5)], [0.0, MAX_SCORE]])
N_STUDY, N_HELD_OUT = 60, 4_000
SCORE_ERROR = 4.0  # sd of the new study's questionnaire, in points of the score
SEED = 20_190  # of the split and the simulated study, never of the release's noise
FEATURES = ("log visits", "disease score")
FILES = ("release.json", "release.md", "demo.png")


def run(folder: Path, *, progress: bool = True) -> int:
    """Run everything, print it, write release, card and figure into ``folder``; returns the exit status."""
    start = time.perf_counter()
    folder = make_folder(folder, name="folder")
    rng = np.random.default_rng(SEED)
    records, visits = load_records(rng)
    order = rng.permutation(len(records))
    study, train = order[:N_STUDY], order[N_STUDY:]

    _heading("1. A private fit")
    print(
        f"Records: {len(records):,} person-years of the RAND Health Insurance Experiment. A person-year is what is\n"
        "protected; a person who stayed for five has five, and is protected at five times epsilon\n"
        "and a larger delta.\n"
        f"{N_STUDY} are put aside as a new study; the mixture is fitted to the other {len(train):,}. Columns:\n"
        f"  log(1 + visits to a doctor), visits up to {MAX_VISITS} a year, counts spread over their unit interval;\n"
        f"  chronic disease score, 0 to {MAX_SCORE:g}.\n"
        "These caps are public knowledge: they were not read from the records.\n"
    )
    release = fit_gmm(
        _frame(records[train]), N_COMPONENTS, epsilon=EPSILON, delta=DELTA, bounds=BOUNDS, progress=progress
    )
    print(release.summary())
    release.save(folder / FILES[0])
    release.card(
        folder / FILES[1],
        title="Visits to a doctor and chronic disease",
        data="person-years of the RAND Health Insurance Experiment",
        rows_per_person=5,
        force=True,
    )
    exact, words = _compare(records[train])
    print(f"\n{words}")

    _heading(f"2. A new study of {N_STUDY} person-years, with and without the private prior (PyMC)")
    posterior = _new_study(release, records[study], visits[study], rng, progress)

    _heading("3. An audit of the pure fit's noise")
    refuted, fault_caught = _audit(records[train], rng)

    figure = folder / FILES[2]
    _draw(release, exact, posterior, float(visits[study].mean()), figure)
    print(
        f"\nWrote {folder / FILES[0]}, {folder / FILES[1]} and {figure}"
        f" (densities only) in {time.perf_counter() - start:.0f} s."
    )
    return int(refuted or not fault_caught)


def load_records(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """The two columns, shape (20190, 2), and the visits behind the first one."""
    from statsmodels.datasets import randhie

    table = randhie.load_pandas().data
    visits = table["mdvis"].to_numpy(dtype=float)
    # a density needs a continuous column: each count is spread over its unit interval, record by record
    spread = np.log1p(visits + rng.uniform(-0.5, 0.5, size=len(visits)))
    return np.column_stack([spread, table["disea"].to_numpy(dtype=float)]), visits


def _frame(records: FloatArray) -> Any:
    import pandas as pd

    return pd.DataFrame(records, columns=list(FEATURES))


def _heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def non_private_fit(train: FloatArray) -> Mixture:
    """scikit-learn's mixture on columns in units of a histogram bin, so that both fits share one covariance floor."""
    from sklearn.mixture import GaussianMixture

    width = (BOUNDS[:, 1] - BOUNDS[:, 0]) / 32
    settings = {"n_components": N_COMPONENTS, "reg_covar": 1 / 6, "random_state": 0, "max_iter": 1000}
    # many starts on a part of the records find the best basin, and one run on all of them ends there
    start = GaussianMixture(n_init=30, tol=1e-4, init_params="k-means++", **settings).fit(train[::5] / width)
    model = GaussianMixture(
        tol=1e-6,
        weights_init=start.weights_,
        means_init=start.means_,
        precisions_init=np.linalg.inv(start.covariances_),
        **settings,
    )
    fitted = mixture_from_estimator(model.fit(train / width))
    return fitted.transformed(np.diag(width))


def _compare(records: FloatArray) -> tuple[Mixture, str]:
    """Fits once more on a part of the records, scored on the rest: private with and without delta, and non-private."""
    held_out, train = records[:N_HELD_OUT], records[N_HELD_OUT:]
    given: dict[str, Any] = {"epsilon": EPSILON, "bounds": BOUNDS, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # what the fits are worth is measured below
        fits = {
            f"epsilon = {EPSILON:g}, delta = {DELTA:g} (sketch)": fit_gmm(train, N_COMPONENTS, delta=DELTA, **given),
            f"epsilon = {EPSILON:g}, pure (histogram)": fit_gmm(train, N_COMPONENTS, **given),
        }
    exact_fit = non_private_fit(train)
    exact = float(exact_fit.log_density(held_out).mean())
    lines = [
        f"How much accuracy that costs: fitted again to {len(train):,} records and scored on the other"
        f" {len(held_out):,},\nthe log-density per person-year is {exact:.3f} without privacy, and with"
    ]
    for name, release in fits.items():
        private = float(release.log_density(held_out).mean())
        lines.append(f"  {name + ':':38} {private:.3f}, a difference of {private - exact:+.3f}")
    lines.append("(Only public records may be compared like this: with yours, the comparison is a second release.)")
    return exact_fit, "\n".join(lines)


def _new_study(
    release: Release, truth: FloatArray, visits: FloatArray, rng: np.random.Generator, progress: bool
) -> dict[str, FloatArray]:
    """Posterior draws of the study's mean number of visits, under both priors."""
    import pymc as pm

    logging.getLogger("pymc").setLevel(logging.CRITICAL)  # divergences are printed below
    month = rng.binomial(visits.astype(int), 1 / 12)  # visits in one month of the year
    score = truth[:, 1] + rng.normal(scale=SCORE_ERROR, size=len(truth))
    print(
        "Of each the visits of one month are reported, and a questionnaire score with error"
        f" {SCORE_ERROR:g}.\nWanted: the visits in each person-year and their mean. True mean: {visits.mean():.2f}."
        " (Both reports are simulated from held-back records.)\n"
    )
    draws = {}
    for name in ("private prior", "no prior information"):
        with pm.Model(coords={"record": np.arange(len(truth))}) as model:
            if name == "private prior":
                x = release.prior("x", dims=("record", "feature"))
            else:
                model.add_coord("feature", FEATURES)
                centre = pm.Normal("centre", [1.0, 20.0], [2.0, 20.0], dims="feature")
                spread = pm.HalfNormal("spread", [2.0, 20.0], dims="feature")
                offset = pm.Normal("offset", dims=("record", "feature"))
                x = pm.Deterministic("x", centre + spread * offset, dims=("record", "feature"))
            year = pm.Deterministic("visits", pm.math.log1pexp(4 * (pm.math.exp(x[:, 0]) - 1)) / 4, dims="record")
            pm.Poisson("month", year / 12, observed=month, dims="record")
            pm.Normal("score", x[:, 1], SCORE_ERROR, observed=score, dims="record")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # advice on chains and BLAS; what matters is printed below
                idata = pm.sample(
                    700, tune=700, chains=2, cores=2, target_accept=0.95, progressbar=progress, random_seed=SEED
                )
        each = np.asarray(idata["posterior"]["visits"]).reshape(-1, len(truth))
        draws[name] = each.mean(axis=1)
        low, high = np.quantile(draws[name], [0.05, 0.95])
        inside = np.mean(
            (np.quantile(each, 0.05, axis=0) <= visits + 0.5) & (visits - 0.5 <= np.quantile(each, 0.95, axis=0))
        )
        error = np.sqrt(np.mean((each.mean(axis=0) - visits) ** 2))
        diverging = int(np.asarray(idata["sample_stats"]["diverging"]).sum())
        print(
            f"{name + ':':22} mean visits {draws[name].mean():.2f}, 90 % interval {low:.2f} to {high:.2f};"
            f" error per person-year {error:.2f} visits,\n{'':22} 90 % intervals hold {inside:.0%} of person-years;"
            f" {diverging} divergences",
            flush=True,
        )
    return draws


def _audit(train: FloatArray, rng: np.random.Generator) -> tuple[bool, bool]:
    """Audit the noisy counts on a neighbouring data set, and a faulty copy with half the noise."""
    from verification import audit

    neighbour = train.copy()
    neighbour[0] = [BOUNDS[0, 1], BOUNDS[1, 1]]  # one record replaced by one with every value at its cap
    counts = [cell_counts(data, bounds=BOUNDS, n_cells=32).ravel() for data in (train, neighbour)]
    changed = np.flatnonzero(counts[0] != counts[1])
    watched = np.union1d(changed, np.arange(0, 1024, 171))
    print(
        f"One of {len(train):,} person-years is replaced. The audit runs the pure fit's own noise many times on both\n"
        f"data sets, looks at {len(watched)} of 1,024 bins (the {len(changed)} that differ among them; the rest have"
        " equal laws), and tries to tell\nthem apart. The sketch, whose fits cannot be repeated so often in a demo, is"
        " audited by python -m verification targets.\n"
    )
    verdicts = []
    for name, factor in (("as released", 1.0), ("planted fault: half the noise", 2.0)):

        def mechanism(data: FloatArray, n_samples: int, rng: np.random.Generator, factor: float = factor) -> Any:
            exact = cell_counts(data, bounds=BOUNDS, n_cells=32).ravel()[watched]
            repeated = np.broadcast_to(exact, (n_samples, len(watched)))
            return noisy_counts(repeated, epsilon=EPSILON * factor, neighbouring=Neighbouring.REPLACE_ONE)[0]

        result = audit(mechanism, train, neighbour, epsilon=EPSILON, n_samples=40_000, false_alarm=1e-3, rng=rng)
        verdicts.append(result.refuted)
        print(f"{name}: {result}", flush=True)
    return verdicts[0], verdicts[1]


def _draw(release: Release, exact: Mixture, posterior: dict[str, FloatArray], truth: float, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    plot_release(release, ax=left)
    contours(middle, exact)
    middle.set(title="non-private fit of the same public records", xlabel=FEATURES[0], ylabel=FEATURES[1])
    middle.set(xlim=left.get_xlim(), ylim=left.get_ylim())
    plot_prior_posterior(posterior, label="mean visits a year in the new study", truth=truth, ax=right)
    right.set_title(f"new study of {N_STUDY} person-years")
    figure.savefig(path, dpi=120)
    plt.close(figure)

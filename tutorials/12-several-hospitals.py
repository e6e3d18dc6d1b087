# %% [markdown]
# # 12. Several hospitals
#
# **Question.** Eight hospitals, from 150 patients to 20,000, each publish a private release of their patients' blood
# pressure. What is the mean in each of them, and what would it be in a ninth?
#
# **Guarantee.** Each release is $(1, 10^{-6})$-differentially private for the replacement of one of its own patients,
# and no hospital shows another anything else. Who is a patient of two hospitals is in two releases: for her the costs
# add up, to at most $(2, 2 \cdot 10^{-6})$. All models below are post-processing. (Patients are simulated and noise is
# seeded, for teaching.)
#
# **Time.** Two to three minutes of one processor; some fifteen seconds in quick mode. You should know hierarchical
# models ("partial pooling", eight schools), and have read tutorial 8.

# %%
import logging
import os
import warnings
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.stats import norm

import pm_dpgmm as dpg

QUICK = "QUICK" in os.environ
logging.getLogger("pymc").setLevel(logging.ERROR if QUICK else logging.WARNING)  # short chains are warned of
warnings.filterwarnings("ignore", category=dpg.FitWarning)  # of hundreds of fits some warn, and count all the same
Z90 = norm.ppf(0.95)

# %% [markdown]
# ## The hospitals
#
# Hospital $j$ has $n_j$ patients, whose systolic pressures are normal with mean $\theta_j$ and standard deviation 15.
# The means differ from town to town: $\theta_j \sim N(\mu, \tau^2)$ with $\mu = 130$, $\tau = 3$. None of these numbers
# is known to the analyst, and the means have nothing to do with the sizes.

# %%
SIZES = np.array([150, 1_500, 20_000] if QUICK else [150, 150, 400, 800, 1_500, 3_000, 8_000, 20_000])
NAMES = [f"{letter} ({size:,})" for letter, size in zip("ABCDEFGH", SIZES, strict=False)]
MU, TAU, SD, BOUNDS = 130.0, 3.0, 15.0, (60, 220)
J = len(SIZES)


def published(theta, n, seed):
    """What one hospital publishes: one Gaussian, with the noisy numbers that it was fitted to."""
    patients = np.random.default_rng([12, seed]).normal(theta, SD, size=n)
    return dpg.fit_gmm(patients, 1, epsilon=1.0, delta=1e-6, bounds=BOUNDS, progress=False, random_seed=seed)


rng = np.random.default_rng(12)
theta = rng.normal(MU, TAU, size=J)
releases = [published(theta[j], SIZES[j], j) for j in range(J)]
estimate = np.array([one.means[0, 0] for one in releases])
error = np.array([one.standard_errors().means[0, 0] for one in releases])
for j in range(J):
    sampling = SD / np.sqrt(SIZES[j])
    print(f"{NAMES[j]:12s} {estimate[j]:6.1f} +- {error[j]:4.2f}; without noise the error would be {sampling:4.2f}")

# %% [markdown]
# `standard_errors()` counts noise and sampling together. In the smallest hospitals the noise is the larger part; in the
# largest it hardly matters.
#
# ## Three analyses
#
# **Alone.** The mean of hospital $j$ from its own release: $\hat\theta_j \pm 1.645\, \mathrm{se}_j$.
#
# **Pooled.** One mean for all, as if the patients were of one population: each release counts by its precision.
#
# **Hierarchical.** The means are draws from $N(\mu, \tau^2)$, and $\mu$ and $\tau$ are unknown, too. PyMC gets the
# *releases* as evidence, one `observe` for each. Its first argument is any object with `weights` $(K,)$, `means`
# $(K, D)$ and `chol` $(K, D, D)$; here $K = D = 1$. A warning says that one release also found a background of 1 %:
# noise can look like one. The model keeps it as released, and its means are those of the components: what we want.

# %%
with pm.Model(coords={"hospital": NAMES}) as model:
    mu = pm.Normal("mu", 130.0, 20.0)
    tau = pm.Gamma("tau", alpha=2.0, beta=0.4)  # between 1 and 12 in nine of ten; never 0
    mean = pm.Normal("mean", mu, tau, dims="hospital")
    log_sd = pm.Normal("log_sd", np.log(15.0), 0.5, dims="hospital")
    for j, release in enumerate(releases):
        of_hospital = SimpleNamespace(
            weights=pt.ones(1),
            means=mean[j].reshape((1, 1)),
            chol=pt.exp(log_sd[j]).reshape((1, 1, 1)),
        )
        release.observe(of_hospital, name=f"release of {NAMES[j]}")
    idata = pm.sample(
        200 if QUICK else 1_000,
        tune=200 if QUICK else 500,
        chains=2,
        cores=1,
        random_seed=1,
        init="adapt_diag",
        initvals={"mean": estimate, "tau": 3.0},
        target_accept=0.9,
        progressbar=False,
    )
theta_draws = idata.posterior["mean"].values.reshape(-1, J)
mu_draws = idata.posterior["mu"].values.ravel()
tau_draws = idata.posterior["tau"].values.ravel()

pooled = np.average(estimate, weights=error**-2)
pooled_error = (error**-2).sum() ** -0.5
alone = np.stack([estimate - Z90 * error, estimate + Z90 * error])
together = np.quantile(theta_draws, [0.05, 0.95], axis=0)

# %%
figure, ax = plt.subplots(figsize=(7, 4))
places = np.arange(J)
ax.axvspan(pooled - Z90 * pooled_error, pooled + Z90 * pooled_error, color="tab:red", alpha=0.4, label="pooled")
ax.hlines(places - 0.15, *alone, color="tab:orange", linewidth=3, label="alone")
ax.hlines(places + 0.15, *together, color="tab:blue", linewidth=3, label="hierarchical")
ax.plot(theta, places, "k|", markersize=16, label="truth")
ax.set(yticks=places, yticklabels=NAMES, xlabel="mean blood pressure, mmHg, 90 % intervals")
ax.invert_yaxis()
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
figure.tight_layout()
plt.show()

width_alone, width_together = np.diff(alone, axis=0)[0], np.diff(together, axis=0)[0]
print("width of the hierarchical interval over that of the hospital alone:", (width_together / width_alone).round(2))
if not QUICK:
    assert (width_together[:2] < 0.95 * width_alone[:2]).all()  # the two smallest gain
    assert (abs(width_together[-2:] / width_alone[-2:] - 1) < 0.25).all()  # the two largest need nobody

# %% [markdown]
# The pooled interval is the narrowest, and wrong: it answers a question about a patient drawn from all hospitals, most
# of whom are in H. The small hospitals borrow from the others how far means usually lie apart; the large ones stay
# where they are.
#
# ## The model without a sampler
#
# For normal estimates with known errors, $\hat\theta_j \sim N(\theta_j, \mathrm{se}_j^2)$, the posterior can be drawn
# directly. Given $\tau$, with a flat prior of $\mu$,
#
# $$ \mu \mid \tau, \hat\theta \sim N(\hat\mu, V), \qquad
# V^{-1} = \sum_j \frac{1}{\mathrm{se}_j^2 + \tau^2}, \qquad
# \theta_j \mid \mu, \tau, \hat\theta \sim
# N\big((1 - B_j)\,\hat\theta_j + B_j\, \mu,\ (1 - B_j)\,\mathrm{se}_j^2\big), \qquad
# B_j = \frac{\mathrm{se}_j^2}{\mathrm{se}_j^2 + \tau^2}, $$
#
# and the density of $\tau$ is computed on a grid. That takes a millisecond, so it can be tried on many worlds; and it
# checks the model above.


# %%
def hierarchical(estimate, error, rng, n_draws=1_000):
    """Draws of the means (n_draws, J), of mu and of tau; tau has the Gamma prior above, mu is flat."""
    grid = np.linspace(0.05, 30.0, 400)
    variances = error**2 + grid[:, None] ** 2
    v = 1 / (1 / variances).sum(axis=1)
    centre = v * (estimate / variances).sum(axis=1)
    log_density = (
        0.5 * np.log(v)
        - 0.5 * np.log(variances).sum(axis=1)
        - 0.5 * ((estimate - centre[:, None]) ** 2 / variances).sum(axis=1)
        + np.log(grid)
        - 0.4 * grid
    )
    chance = np.exp(log_density - log_density.max())
    at = rng.choice(len(grid), size=n_draws, p=chance / chance.sum())
    tau, mu = grid[at], rng.normal(centre[at], np.sqrt(v[at]))
    shrink = error**2 / (error**2 + tau[:, None] ** 2)
    means = rng.normal((1 - shrink) * estimate + shrink * mu[:, None], np.sqrt(1 - shrink) * error)
    return means, mu, tau


quick_draws, _, _ = hierarchical(estimate, error, rng, 20_000)
largest = abs(quick_draws.mean(axis=0) - theta_draws.mean(axis=0)) / theta_draws.std(axis=0)
print("distance of the posterior means from PyMC's, in posterior standard deviations:", largest.round(2))
assert largest.max() < (0.6 if QUICK else 0.4)

# %% [markdown]
# ## Are the intervals honest?
#
# One world proves nothing. We draw new means, new patients and new noise many times, and ask of each analysis: how
# often do its 90 % intervals contain the mean of the hospital, how wide are they, and how far off is the estimate of a
# hospital that lies one $\tau$ above $\mu$ (the bias, from a regression of the error on $\theta_j - \mu$)?

# %%
n_worlds = 5 if QUICK else 80
truths = np.random.default_rng(121).normal(MU, TAU, size=(n_worlds, J))
estimates, errors = np.empty((2, n_worlds, J))
for w in range(n_worlds):
    for j in range(J):
        one = published(truths[w, j], SIZES[j], 100 + J * w + j)
        estimates[w, j], errors[w, j] = one.means[0, 0], one.standard_errors().means[0, 0]

middle = {name: np.empty((n_worlds, J)) for name in ("alone", "pooled", "hierarchical")}
ends = {name: np.empty((2, n_worlds, J)) for name in middle}
new_hospital = {"pooled": 0, "hierarchical": 0}
for w in range(n_worlds):
    draws, mu_w, tau_w = hierarchical(estimates[w], errors[w], rng)
    precision = errors[w] ** -2
    middle["alone"][w] = estimates[w]
    middle["pooled"][w] = np.average(estimates[w], weights=precision)
    middle["hierarchical"][w] = draws.mean(axis=0)
    for name, spread in (("alone", errors[w]), ("pooled", precision.sum() ** -0.5)):
        ends[name][:, w] = middle[name][w] - Z90 * spread, middle[name][w] + Z90 * spread
    ends["hierarchical"][:, w] = np.quantile(draws, [0.05, 0.95], axis=0)
    ninth = rng.normal(MU, TAU)
    low, high = np.quantile(rng.normal(mu_w, tau_w), [0.05, 0.95])
    new_hospital["hierarchical"] += low < ninth < high
    new_hospital["pooled"] += ends["pooled"][0, w, 0] < ninth < ends["pooled"][1, w, 0]

contained = {name: ((low < truths) & (truths < high)) for name, (low, high) in ends.items()}
width = {name: np.median(high - low, axis=0) for name, (low, high) in ends.items()}
bias = {}
for name, value in middle.items():
    away = truths - MU
    bias[name] = TAU * ((value - truths) * away).sum(axis=0) / (away**2).sum(axis=0)
    off = np.sqrt(((value - truths) ** 2).mean(axis=0))
    print(f"{name:13s} contains the truth in {contained[name].mean():.2f} of all intervals; root mean squared errors,")
    print(f"{'':13s} A to H: {off.round(1)}; bias of a hospital one tau above mu: {bias[name].round(1)}")
for name, count in new_hospital.items():
    print(f"a ninth hospital is in the 90 % interval, {name}: {count / n_worlds:.2f}")

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2))
colours = {"alone": "tab:orange", "pooled": "tab:red", "hierarchical": "tab:blue"}
shown = SIZES * np.where(np.arange(J) == 0, 0.93, 1.0)  # A and B beside each other
for name, colour in colours.items():
    axes[0].plot(shown, contained[name].mean(axis=0), "o-", color=colour, label=name)
    axes[1].plot(shown, width[name], "o-", color=colour)
    axes[2].plot(shown, bias[name], "o-", color=colour)
axes[0].axhline(0.9, color="black", linestyle=":")
axes[0].set(ylim=(0, 1.02), title="intervals that contain the truth")
axes[1].set(yscale="log", title="width of the interval, mmHg")
axes[2].set(title=r"bias one $\tau$ above $\mu$, mmHg")
axes[0].legend()
for ax in axes:
    ax.set(xscale="log", xlabel="patients")
figure.tight_layout()
plt.show()

# Of 640 intervals at a true .9, the share has a standard error of .012; the bounds leave four of these.
room = 0.3 if QUICK else 0.05
assert abs(contained["hierarchical"].mean() - 0.9) < room and abs(contained["alone"].mean() - 0.9) < room
assert contained["pooled"].mean() < 0.5
assert (width["hierarchical"] < 1.1 * width["alone"]).all()
if not QUICK:
    assert width["hierarchical"][:2].max() < 0.9 * width["alone"][:2].min()
    assert abs(bias["pooled"][:6] + TAU).max() < 1.5  # pooling moves every hospital all the way to the others
    assert abs(bias["hierarchical"][4:]).max() < 0.5  # the model leaves hospitals alone that know their mean

# %% [markdown]
# So the hierarchical intervals are as honest as those of a hospital alone, and for the small ones clearly narrower.
# Pooling is right for nobody: even of H, which dominates it, the narrow interval misses the mean.
#
# **Read the right-hand picture with care.** The hierarchical estimate of a small hospital *is* biased, towards the
# others, by about $B_j$ of its distance. It buys a smaller error on average over hospitals with that. Its promise is
# about a hospital drawn from the population of hospitals, and not about each one.
#
# ## Where it fails
#
# **A hospital that is not one of them.** Let A be a clinic for hypertension, four $\tau$ above the rest, and tell the
# model nothing.

# %%
clinic = MU + 4 * TAU
hits = np.zeros((n_worlds, 2))
for w in range(n_worlds):
    one = published(clinic, SIZES[0], 10_000 + w)
    y, se = estimates[w].copy(), errors[w].copy()
    y[0], se[0] = one.means[0, 0], one.standard_errors().means[0, 0]
    draws, _, _ = hierarchical(y, se, rng)
    low, high = np.quantile(draws[:, 0], [0.05, 0.95])
    hits[w] = abs(y[0] - clinic) < Z90 * se[0], low < clinic < high
print(f"the clinic's mean is in its 90 % interval: alone {hits[:, 0].mean():.2f}, hierarchical {hits[:, 1].mean():.2f}")
assert hits[:, 1].mean() <= hits[:, 0].mean() or QUICK

# %% [markdown]
# What is known about a hospital (its kind, its region) belongs into the model, as a regression of $\theta_j$. A
# $t$ law in place of the normal one lets a hospital be far away at a smaller price.
#
# **Sizes that tell.** If the large hospitals get the severe cases, $\theta_j$ and $n_j$ are related, and the small ones
# are drawn towards the wrong centre. $\log n_j$ is public here: put it into the regression.
#
# **Few hospitals.** With two or three, the data say little about $\tau$, and its prior decides how much is shared. Try
# several.
#
# **Common patients.** The likelihood multiplies the releases as if they were of different people, and the promise to a
# patient of both hospitals is weaker. Neither can be seen in the releases.
#
# **Another shape.** $K = 1$ was right by construction. `release.check_fit()` tells whether the released numbers agree
# with the mixture, and `observe` takes one with more components just as well: with shares that differ from hospital to
# hospital, say, and means of the groups that all of them have in common.
#
# ## Exercises
#
# **12.1** Write the shrinkage factor $B$ of a hospital with standard error `se`, when means of hospitals have standard
# deviation `tau`.


# %% tags=["exercise"]
def shrinkage(se, tau):
    """How far the hospital's estimate moves towards mu: 0 not at all, 1 all the way."""
    return ...


# %% tags=["hide-cell", "solution"]
def shrinkage(se, tau):
    return se**2 / (se**2 + tau**2)


# %% tags=["check"]
def check_12_1(answer):
    assert answer(1.0, 1.0) not in (None, ...), "12.1: the function returns nothing yet"
    for se, tau, right in ((1.0, 1.0, 0.5), (3.0, 4.0, 0.36), (0.1, 4.0, 0.01 / 16.01)):
        found = answer(se, tau)
        assert abs(found - right) < 1e-9, f"12.1: not yet. For se {se} and tau {tau} it is {right:.4f}, not {found}"
    moved = [f"{name[0]} {answer(se, TAU):.2f}" for name, se in zip(NAMES, error, strict=True)]
    print(f"12.1 is right. Here, with the true tau of {TAU:g}: " + ", ".join(moved))


check_12_1(shrinkage)

# %% [markdown]
# **12.2** The ministry plans a ninth hospital. Turn posterior draws of $\mu$ and $\tau$ into draws of its mean.


# %% tags=["exercise"]
def ninth_hospital(mu, tau, rng):
    """Draws of the mean of a new hospital, one for each draw of mu and tau."""
    return ...


# %% tags=["hide-cell", "solution"]
def ninth_hospital(mu, tau, rng):
    return rng.normal(mu, tau)


# %% tags=["check"]
def check_12_2(answer):
    found = answer(np.full(20_000, 130.0), np.full(20_000, 4.0), np.random.default_rng(1))
    assert np.shape(found) == (20_000,), "12.2: one draw for each pair of mu and tau, please"
    assert abs(np.mean(found) - 130.0) < 0.2, f"12.2: not yet. The mean should be 130, it is {np.mean(found):.1f}"
    assert abs(np.std(found) - 4.0) < 0.15, (
        f"12.2: not yet. At tau = 4 the draws should vary by 4, not {np.std(found):.2f}"
    )
    low, high = np.quantile(answer(mu_draws, tau_draws, np.random.default_rng(1)), [0.05, 0.95])
    print(
        f"12.2 is right: 90 % from {low:.0f} to {high:.0f}. {SIZES.sum():,} patients, and so unsure: eight hospitals."
    )


check_12_2(ninth_hospital)

# %% [markdown]
# **12.3** Newspapers want a ranking. Give for every hospital the posterior probability that its mean is the highest of
# the eight.


# %% tags=["exercise"]
def chance_of_highest(draws):
    """From draws of the means, shape (n_draws, J): probabilities, shape (J,)."""
    return ...


# %% tags=["hide-cell", "solution"]
def chance_of_highest(draws):
    return np.bincount(draws.argmax(axis=1), minlength=draws.shape[1]) / len(draws)


# %% tags=["check"]
def check_12_3(answer):
    found = answer(np.array([[1.0, 2.0, 3.0], [1.0, 4.0, 3.0], [0.0, 0.0, 9.0], [0.0, 1.0, 2.0]]))
    assert np.shape(found) == (3,), "12.3: one probability for each hospital, please"
    assert np.allclose(found, [0.0, 0.25, 0.75]), f"12.3: not yet. Of four draws I expect 0, 1/4, 3/4, not {found}"
    words = [f"{name[0]} {chance:.2f}" for name, chance in zip(NAMES, answer(theta_draws), strict=True)]
    print("12.3 is right: " + ", ".join(words) + f". In truth it is {NAMES[int(theta.argmax())][0]}.")


check_12_3(chance_of_highest)

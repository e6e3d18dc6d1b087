# %% [markdown]
# # 13. Regression from a private joint mixture
#
# **Question.** A health survey publishes a private mixture of age and blood pressure, and no regression. Which pressure
# is to be expected at which age, how do pressures vary there, and what is it all worth as a prior for a study of your
# own?
#
# **Guarantee.** The release is $(1, 10^{-6})$-differentially private for the replacement of one person. Conditional
# densities, curves, bands and priors are post-processing: no further cost. (People are simulated and noise is seeded,
# for teaching.)
#
# **Time.** About two minutes of one processor; twenty seconds in quick mode. You should have read tutorials 7 and 8,
# and 12 for the last section.

# %%
import logging
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from scipy.stats import norm

import pm_dpgmm as dpg

QUICK = "QUICK" in os.environ
logging.getLogger("pymc").setLevel(logging.WARNING)
Z90 = norm.ppf(0.95)

# %% [markdown]
# ## The survey
#
# Three groups, of which nobody has heard: the young, the older with high pressure, and the older who take something
# against it. The survey has 2,000 people.

# %%
TRUTH = dpg.Mixture(
    [0.5, 0.3, 0.2],
    [[32.0, 118.0], [61.0, 150.0], [67.0, 121.0]],
    [[[64.0, 20.0], [20.0, 81.0]], [[81.0, 40.0], [40.0, 144.0]], [[49.0, 0.0], [0.0, 64.0]]],
)
BOUNDS = {"age": (0, 110), "pressure": (60, 220)}


def survey(seed, n=2_000):
    """The release of one survey of n people."""
    people = pd.DataFrame(TRUTH.sample(n, rng=np.random.default_rng([13, seed])), columns=["age", "pressure"])
    return dpg.fit_gmm(people, 3, epsilon=1.0, delta=1e-6, bounds=BOUNDS, progress=False, random_seed=seed)


release = survey(1)
print(release.summary())
ax = release.plot()
ax.figure.set_size_inches(6, 3.6)
ax.figure.set_layout_engine("constrained")
plt.show()

# %% [markdown]
# ## Conditional densities
#
# For a mixture with weights $w_k$, the density of $y$ given $x$ is a mixture again. With $m_k(x) = \mu_{k,y} +
# \Sigma_{k,yx}\Sigma_{k,xx}^{-1}(x - \mu_{k,x})$,
#
# $$ p(y \mid x) = \sum_k w_k(x)\, N\big(y;\ m_k(x),\ \Sigma_{k,yy} - \Sigma_{k,yx}\Sigma_{k,xx}^{-1}\Sigma_{k,xy}\big),
# \qquad w_k(x) \propto w_k\, N(x;\ \mu_{k,x}, \Sigma_{k,xx}). $$
#
# Each component is a linear regression; the weights, which move with $x$, bend the sum. `release.conditional({"age":
# 65})` is this law, and `release.band(points, given={"age": 65})` has pointwise 90 % intervals of its density, noise
# and sampling together.

# %%
pressures = np.linspace(85, 195, 111)
figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharex=True)
inside = []
for ax, age in zip(axes, (30, 50, 65), strict=True):
    band = release.band(pressures, given={"age": age}, n_draws=100 if QUICK else 400, random_seed=1)
    true = np.exp(TRUTH.conditional({0: age}).log_density(pressures[:, None]))
    ax.fill_between(pressures, band.lower, band.upper, alpha=0.4, label="90 % band")
    ax.plot(pressures, band.estimate, label="release")
    ax.plot(pressures, true, "k:", label="truth")
    ax.set(title=f"at age {age}", xlabel="pressure, mmHg", yticks=[])
    inside.append(np.mean((band.lower <= true) & (true <= band.upper)))
    law = release.conditional({"age": age})
    print(f"age {age}: mean {law.mean()[0]:.0f}, standard deviation {np.sqrt(law.covariance()[0, 0]):.0f}")
axes[0].legend()
figure.tight_layout()
plt.show()
print("share of each curve inside its band:", np.round(inside, 2))

# %% [markdown]
# A regression line would have missed the point of the right-hand picture: at 65 there are two kinds of people, and
# hardly anyone has the expected pressure. (A band is pointwise: a whole curve leaves its 90 % band somewhere more often
# than one time in ten.)
#
# ## The regression curve
#
# Any function of the mixture has its interval: `release.interval(function)`. The function gets a `Mixture`, whose
# columns have numbers: 0 is the age, 1 the pressure.

# %%
ages = np.linspace(20, 85, 27)


def curves(mixture, at=ages):
    """Expected pressure and its standard deviation at every age, shape (2, n_ages)."""
    laws = [mixture.conditional({0: age}) for age in at]
    return np.array([[law.mean()[0], law.covariance()[0, 0] ** 0.5] for law in laws]).T


n_draws = 60 if QUICK else 400
found, true = release.interval(curves, n_draws=n_draws, random_seed=1), curves(TRUTH)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2))
for i, (ax, title) in enumerate(zip(axes, ("expected pressure", "its standard deviation"), strict=True)):
    ax.fill_between(ages, found.lower[i], found.upper[i], alpha=0.4, label="90 % intervals")
    ax.plot(ages, found.estimate[i], label="release")
    ax.plot(ages, true[i], "k:", label="truth")
    ax.set(xlabel="age", ylabel="mmHg", title=title)
axes[0].legend()
figure.tight_layout()
plt.show()

# %% [markdown]
# The intervals grow where people are few. Beyond the ages that the survey has, the curve is that of whichever component
# has the longest tail: a property of Gaussians, not of people. The band does not know that the law out there might be
# another one.
#
# ## Are the intervals honest?
#
# Other surveys of the same population: how often do the intervals contain the truth at 30, 50 and 65?

# %%
n_worlds = 1 if QUICK else 15
at = np.array([30.0, 50.0, 65.0])
right = curves(TRUTH, at)
hits = np.empty((n_worlds, 2, 3))
for world in range(n_worlds):
    other = survey(100 + world)
    found = other.interval(lambda mixture: curves(mixture, at), n_draws=200, random_seed=world)
    hits[world] = (found.lower <= right) & (right <= found.upper)
print(
    f"90 % intervals of the mean at 30, 50, 65 contain it in {hits[:, 0].mean(axis=0).round(2)} of {n_worlds} surveys"
)
print(f"of the standard deviation:                          {hits[:, 1].mean(axis=0).round(2)}")
if not QUICK:
    assert hits.mean() > 0.75  # 90 intervals, of which those of one survey are dependent: error about .04

# %% [markdown]
# Fifteen surveys are few. In a hundred, five of the six shares were .88 to .93; that of the standard deviation at 50,
# where the curve passes from one component to another, was .81: intervals of a strongly curved function are a little
# too narrow. And these are surveys of a population that *is* a mixture of three Gaussians. Where it is not, the curve
# is that of the best mixture that the released numbers support, and the band is about this one. `release.misfit` and
# `release.check_fit()` see what is visible in the released numbers.
#
# ## A prior for a regression of your own
#
# You study a new drug $z$ in 30 patients of your own, half of them treated, by lot:
#
# $$ y_i = \alpha + \beta\,(x_i - 50) + \gamma z_i + e_i, \qquad e_i \sim N(0, \sigma^2). $$
#
# The survey knows nothing of $\gamma$. But it knows much about the pressure at an age, and what $\alpha$ and $\beta$ no
# longer take from your few patients is left for $\gamma$. Which $\alpha$ and $\beta$ does a mixture stand for? Those of
# the line that is closest to its curve at the ages of *your* patients. Each of `release.draws()` is a mixture that the
# released numbers leave plausible; each has a line, and these lines are the prior.


# %%
def line_of(mixture, x):
    """Intercept at 50 and slope of the line closest to the mixture's curve at ages x, and deviation around it."""
    design = np.column_stack([np.ones(len(x)), x - 50.0])
    expected, spread = curves(mixture, x)
    line = np.linalg.lstsq(design, expected, rcond=None)[0]
    variance = np.mean(spread**2 + (expected - design @ line) ** 2)
    return np.array([*line, np.sqrt(variance)])


def my_patients(rng, n=30, effect=-8.0, shift=0.0):
    """Ages, treatment by lot, pressures; `shift` is how my town differs from the survey's population."""
    x, y = TRUTH.sample(n, rng=rng).T
    z = rng.permutation(np.arange(n) % 2)
    return x, z, y + shift + effect * z


x, z, y = my_patients(np.random.default_rng(131))
lines = np.array([line_of(mixture, x) for mixture in release.draws(n_draws, random_seed=1)])
centre, covariance, sigma = lines[:, :2].mean(axis=0), np.cov(lines[:, :2].T), lines[:, 2].mean()
print(f"prior: pressure at 50 {centre[0]:.1f} +- {covariance[0, 0] ** 0.5:.1f}, slope {centre[1]:.2f} +-", end=" ")
print(f"{covariance[1, 1] ** 0.5:.2f} a year; deviation around the line {sigma:.1f}")

# %%
SAMPLER = {"draws": 300 if QUICK else 1_000, "tune": 300, "chains": 2, "cores": 1, "random_seed": 1}
PRIORS = {
    "flat prior": (np.array([130.0, 0.0]), np.diag([50.0**2, 3.0**2])),
    "release": (centre, covariance),
}
posteriors = {}
for name in ("release",) if QUICK else PRIORS:
    middle, spreads = PRIORS[name]
    with pm.Model():
        line = pm.MvNormal("line", middle, cov=spreads)
        gamma = pm.Normal("gamma", 0.0, 50.0)
        deviation = pm.LogNormal("deviation", np.log(sigma), 0.2)
        pm.Normal("y", line[0] + line[1] * (x - 50.0) + gamma * z, deviation, observed=y)
        idata = pm.sample(**SAMPLER, progressbar=False)
    posteriors[name] = idata.posterior["gamma"].values.ravel()

figure, ax = plt.subplots(figsize=(6, 2.8))
for name, draws in posteriors.items():
    low, high = np.quantile(draws, [0.05, 0.95])
    ax.hist(draws, bins=40, density=True, histtype="step", linewidth=2, label=f"{name}: {low:.1f} to {high:.1f}")
ax.axvline(-8.0, color="black", linestyle=":")
ax.set(xlabel=r"effect $\gamma$ of the drug, mmHg", yticks=[])
ax.legend(title="90 % interval", loc="upper right")
ax.set(xlim=(-35, 25))
figure.tight_layout()
plt.show()
if not QUICK:
    gain = posteriors["release"].std() / posteriors["flat prior"].std()
    print(f"the interval of the effect is {1 - gain:.0%} narrower")
    assert gain < 0.9

# %% [markdown]
# Known $\alpha$ and $\beta$ would make the untreated half superfluous: its only use is to measure them. The standard
# error falls from $2\sigma/\sqrt n$ towards $\sigma/\sqrt{n/2}$, by up to 29 % where both halves are of one age, as if
# you had twice the patients. (The figure above is one of draws, and has an error of some per cent.)
#
# ## What if your town is different?
#
# The gain rests on the assumption that your patients, untreated, are like the survey's. Let pressures in your town be
# higher by 8 throughout. With a normal prior and a known $\sigma$ the posterior is a formula, so we can repeat the
# study two thousand times. The remedy is that of tutorial 12: towns differ by some $\omega$, so $\omega^2$ is added to
# the prior's variance of $\alpha$.


# %%
def effect(x, z, y, centre, covariance, sigma):
    """Posterior mean and standard deviation of gamma, for a given sigma."""
    design = np.column_stack([np.ones(len(x)), x - 50.0, z])
    prior = np.zeros((3, 3))
    prior[:2, :2], prior[2, 2] = np.linalg.inv(covariance), 50.0**-2
    precision = prior + design.T @ design / sigma**2
    mean = np.linalg.solve(precision, prior @ [*centre, 0.0] + design.T @ y / sigma**2)
    return mean[2], np.sqrt(np.linalg.inv(precision)[2, 2])


PRIORS["release, omega = 8"] = (centre, covariance + np.diag([8.0**2, 0.0]))
n_studies = 200 if QUICK else 2_000
rng = np.random.default_rng(132)
coverage, widths = {}, {}
for shift in (0.0, 8.0):
    found = {name: np.empty((n_studies, 2)) for name in PRIORS}
    for study in range(n_studies):
        mine = my_patients(rng, shift=shift)
        for name, prior in PRIORS.items():
            found[name][study] = effect(*mine, *prior, sigma)
    for name, (estimates, errors) in ((name, value.T) for name, value in found.items()):
        coverage[shift, name] = np.mean(abs(estimates + 8.0) < Z90 * errors)
        widths[shift, name] = np.median(2 * Z90 * errors)
        print(f"town higher by {shift:.0f}: {name:18s} covers {coverage[shift, name]:.2f},", end=" ")
        print(f"width {widths[shift, name]:.1f}, bias {estimates.mean() + 8.0:+.1f}")

# Studies' shares have a standard error of .007; the lines are of one set of ages, which costs a little more.
assert min(coverage[0.0, name] for name in PRIORS) > 0.85
assert coverage[8.0, "release"] < coverage[8.0, "flat prior"] - 0.04
assert coverage[8.0, "release, omega = 8"] > coverage[8.0, "release"]
assert widths[0.0, "release"] < widths[0.0, "release, omega = 8"] < widths[0.0, "flat prior"]

# %% [markdown]
# A prior from a large release is narrow, and a narrow prior is a strong assumption: that its population is yours. The
# release's standard errors say how well the *survey's* population is known. How far yours is from it, only you can say,
# or several hospitals together.
#
# For rows that lack an entry there is a shorter way: `dpg.gmm("rows", release.params("g"), observed=rows)` takes `NaN`,
# and `release.prior("x")` is a prior of whole records.
#
# ## Exercises
#
# **13.1** How probable is a pressure above 140 at a given age? Write the function of the mixture, for use with
# `release.interval`.


# %% tags=["exercise"]
def chance_above(mixture, age, limit=140.0):
    """P(pressure > limit | age). The conditional law has weights (K,), means (K, 1) and covariances (K, 1, 1)."""
    return ...  # of mixture.conditional({0: age})


# %% tags=["hide-cell", "solution"]
def chance_above(mixture, age, limit=140.0):
    law = mixture.conditional({0: age})
    return float(law.weights @ norm.sf(limit, law.means[:, 0], np.sqrt(law.covariances[:, 0, 0])))


# %% tags=["check"]
def check_13_1(answer):
    for age in (30.0, 50.0, 65.0):
        draws = TRUTH.conditional({0: age}).sample(40_000, rng=np.random.default_rng(1))
        found, right = answer(TRUTH, age), np.mean(draws > 140.0)
        assert found not in (None, ...), "13.1: the function returns nothing yet"
        assert np.size(found) == 1, f"13.1: one number, please, not {found}"
        found = np.squeeze(found)
        assert abs(found - right) < 0.015, f"13.1: not yet. At {age:.0f} simulation says {right:.3f}, not {found:.3f}"
    found = release.interval(lambda mixture: np.squeeze(answer(mixture, 65.0)), n_draws=100, random_seed=1)
    print(f"13.1 is right. At 65: {found.estimate:.2f}, from {found.lower:.2f} to {found.upper:.2f}")


check_13_1(chance_above)

# %% [markdown]
# **13.2** Turn the regression round: which age is to be expected of a person with pressure 150? And at which age is 150
# the expected pressure, if at any?


# %% tags=["exercise"]
def expected_age(mixture, pressure):
    """Mean of the age given the pressure."""
    return ...


# %% tags=["hide-cell", "solution"]
def expected_age(mixture, pressure):
    return mixture.conditional({1: pressure}).mean()[0]


# %% tags=["check"]
def check_13_2(answer):
    people = TRUTH.sample(400_000, rng=np.random.default_rng(1))
    for pressure in (120.0, 150.0):
        found = answer(TRUTH, pressure)
        assert found not in (None, ...), "13.2: the function returns nothing yet"
        assert np.size(found) == 1, f"13.2: one number, please, not {found}"
        found = np.squeeze(found)
        right = people[abs(people[:, 1] - pressure) < 1.0, 0].mean()
        assert abs(found - right) < 1.0, f"13.2: not yet. With {pressure:.0f} people are {right:.0f}, not {found:.0f}"
    years = np.squeeze(answer(release.density, 150.0))
    print(f"13.2 is right: {years:.0f} years. But no age has an expected pressure of 150; the")
    print(f"highest is {curves(release.density)[0].max():.0f}. A regression turned round is not the inverse function.")


check_13_2(expected_age)

# %% [markdown]
# **13.3** To how many patients of your own is the prior worth? A mean of $n$ patients with deviation $\sigma$ around
# the line has standard error $\sigma / \sqrt n$. Give the $n$ at which that is the prior's standard deviation.


# %% tags=["exercise"]
def worth(prior_sd, sigma):
    """Number of patients, a float."""
    return ...


# %% tags=["hide-cell", "solution"]
def worth(prior_sd, sigma):
    return (sigma / prior_sd) ** 2


# %% tags=["check"]
def check_13_3(answer):
    for prior_sd, sigma, right in ((1.0, 10.0, 100.0), (2.0, 16.0, 64.0)):
        found = answer(prior_sd, sigma)
        assert found not in (None, ...), "13.3: the function returns nothing yet"
        assert abs(found - right) < 1e-6, f"13.3: not yet. For {prior_sd} and {sigma} it is {right}, not {found}"
    plain, honest = (answer(np.sqrt(covariance[0, 0] + extra), sigma) for extra in (0.0, 64.0))
    print(f"13.3 is right: {plain:,.0f} patients, of a survey of 2,000 with noise; {honest:.1f} if towns differ by 8.")


check_13_3(worth)

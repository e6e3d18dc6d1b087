# %% [markdown]
# # 3. The Gaussian's exact profile
#
# **Question.** Gaussian noise is $\varepsilon$-differentially private for no $\varepsilon$ at all: far out, an output
# tells neighbours apart by any factor. It is also the noise of almost every large release. So what does it promise?
#
# **Guarantee.** A mean with Gaussian noise of twice its sensitivity has the curve $\delta(\varepsilon)$ that is
# computed below, for replacing one record; for example $\varepsilon = 2.3$ at $\delta = 10^{-6}$. In real arithmetic:
# releases of this package draw such noise on a grid, by exact integers.
#
# **Running time.** Half a minute. The records are simulated.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from verification import GDP, ZCDP, audit
from verification.profile import privacy_profile

QUICK = "QUICK" in os.environ  # small runs
rng = np.random.default_rng(3)

# %% [markdown]
# ## A mean of blood pressures
#
# 2,000 patients, systolic blood pressure within public bounds $[80, 200]$ mmHg. Replacing one patient moves the mean by
# $\Delta = 120/2000 = 0.06$ at most. Add Gaussian noise of standard deviation $\sigma = 0.12$. All that will matter is
# $\mu = \Delta / \sigma = \tfrac12$.

# %%
LOW, HIGH, N_PATIENTS = 80.0, 200.0, 2_000
sensitivity = (HIGH - LOW) / N_PATIENTS
noise_scale = 0.12
mu = sensitivity / noise_scale

pressures = rng.normal(128, 17, size=N_PATIENTS)
exact = np.clip(pressures, LOW, HIGH).mean()
print(f"mean {exact:.3f}, released {exact + rng.normal(scale=noise_scale):.3f}; mu = {mu:g}")

# %% [markdown]
# ## The privacy loss
#
# In units of $\sigma$ the worst neighbours give $N(0, 1)$ and $N(\mu, 1)$. What an output $y$ says about which of the
# two it came from is the logarithm of their densities' ratio, the **privacy loss**:
#
# $$L(y) = \ln \frac{p(y)}{q(y)} = \mu y - \frac{\mu^2}{2}, \qquad p = N(\mu, 1),\; q = N(0, 1).$$
#
# It is a straight line without a bound: no $\varepsilon$ holds with certainty. But under $p$ it is itself Gaussian,
# $L \sim N(\mu^2/2,\, \mu^2)$, so large losses are rare, and one can say exactly how rare.

# %%
y = np.linspace(-4, 6, 500)
epsilon, drawn = 0.8, 1.5  # a larger mu than ours, for there is more to see
p, q = norm.pdf(y, drawn), norm.pdf(y)

fig, axes = plt.subplots(1, 2, figsize=(9, 3.2))
factor = np.exp(epsilon) * q
axes[0].plot(y, p, label=r"$p$")
axes[0].plot(y, factor, label=rf"$e^\varepsilon q$, $\varepsilon = {epsilon}$")
axes[0].fill_between(y, factor, p, where=p > factor, color="black", alpha=0.4, label=r"$\delta$")
axes[0].set(xlabel="output, in units of the noise", title=rf"what is above the factor, $\mu = {drawn}$", ylim=(0, 0.5))
axes[0].legend()
for value in (drawn, mu):
    losses = rng.normal(value**2 / 2, value, size=100_000)
    axes[1].hist(losses, 80, density=True, alpha=0.5, label=rf"$\mu = {value:g}$")
axes[1].axvline(epsilon, color="black", linestyle="--", linewidth=1, label=r"$\varepsilon$")
axes[1].set(xlabel="privacy loss", title=r"its law: $N(\mu^2/2, \mu^2)$")
axes[1].legend()
fig.tight_layout()
plt.show()

# %% [markdown]
# ## From losses to a curve
#
# $(\varepsilon, \delta)$-differential privacy asks for $p(S) \le e^\varepsilon q(S) + \delta$ for every set $S$. The
# worst $S$ is where $p > e^\varepsilon q$, that is $L > \varepsilon$, and the smallest $\delta$ is the dark area above:
#
# $$\delta(\varepsilon) = \int \max(0,\, p - e^\varepsilon q)
#   = \operatorname{E}_p\!\left[\max\bigl(0,\, 1 - e^{\varepsilon - L}\bigr)\right]
#   = \Phi\!\left(\frac{\mu}{2} - \frac{\varepsilon}{\mu}\right)
#   - e^\varepsilon\, \Phi\!\left(-\frac{\mu}{2} - \frac{\varepsilon}{\mu}\right).$$
#
# Note what it is *not*: the probability that $L > \varepsilon$. Outputs whose loss is a little above $\varepsilon$
# count a little. One can compute it three ways: by the formula, by averaging over simulated losses, and by the
# auditor's own reference `GDP` (mu-Gaussian differential privacy), which shares no code with the formula here.

# %%


def gaussian_delta(epsilon, mu):
    """Smallest delta of a Gaussian mechanism, mu = sensitivity / standard deviation."""
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))


simulated = np.maximum(0, -np.expm1(epsilon - losses))
error = simulated.std() / np.sqrt(len(simulated))
print(f"delta at epsilon = {epsilon}, by the formula {gaussian_delta(epsilon, mu):.5f}")
print(f"simulated {simulated.mean():.5f} +- {error:.5f}, while P[loss > epsilon] = {np.mean(losses > epsilon):.5f}")
assert abs(simulated.mean() - gaussian_delta(epsilon, mu)) < 5 * error
assert np.allclose(gaussian_delta(np.linspace(0, 2, 9), mu), GDP(mu=mu).delta(np.linspace(0, 2, 9)), rtol=1e-6)


def smallest_epsilon(delta, mu):
    """Where the curve comes down to delta."""
    return brentq(lambda epsilon: gaussian_delta(epsilon, mu) - delta, 0, 100)


for delta in (1e-2, 1e-4, 1e-6, 1e-8):
    print(f"delta = {delta:g}: epsilon = {smallest_epsilon(delta, mu):.3f}")
assert 2.2 < smallest_epsilon(1e-6, mu) < 2.4

# %% [markdown]
# None of these pairs is *the* guarantee. The mechanism has all of them at once: a curve. Who prints one pair has thrown
# the others away.
#
# ## One pair can hide a catastrophe
#
# Here is why that matters. A second mechanism: noise as before, but with probability $\delta_0 = 10^{-3}$ it publishes
# everything. A third: nothing but the noise. Both may satisfy one and the same $(\varepsilon, \delta)$.

# %%
grid = np.linspace(0, 5, 300)
disaster = 1e-3
quiet = brentq(lambda m: gaussian_delta(1.5, m) - 1e-9, 0.01, 1)  # less of a loss than mu, until it publishes
curves = {
    "Gaussian noise": gaussian_delta(grid, brentq(lambda m: gaussian_delta(1.5, m) - disaster, 0.01, 2)),
    "much noise, and a disaster once in 1,000": disaster + (1 - disaster) * gaussian_delta(grid, quiet),
}

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for name, curve in curves.items():
    ax.semilogy(grid, np.maximum(curve, 1e-30), label=name)
ax.plot(1.5, disaster, "ko", label=r"both are (1.5, $10^{-3}$)")
ax.set(xlabel=r"$\varepsilon$", ylabel=r"$\delta(\varepsilon)$", ylim=(1e-12, 1))
ax.legend()
plt.show()

# %% [markdown]
# With 2,000 patients the second one gives away a patient or two if it does so record by record. That is why $\delta$
# should be far below $1/n$ where it may stand for a disaster, and why "it is Gaussian, with this $\mu$" says more than
# any pair.
#
# ## What the textbook formula costs
#
# The formula in most lecture notes, $\sigma = \frac{\Delta}{\varepsilon}\sqrt{2 \ln(1.25/\delta)}$, is a bound, proved
# for $\varepsilon < 1$. Concentrated differential privacy, $\rho = \mu^2/2$, is a bound that adds up easily. The exact
# curve needs one line, and less noise than either.

# %%


def textbook_noise(epsilon, delta):
    """Standard deviation over sensitivity."""
    return np.sqrt(2 * np.log(1.25 / delta)) / epsilon


def exact_noise(epsilon, delta, curve=gaussian_delta):
    """Standard deviation over sensitivity for which the curve goes through (epsilon, delta)."""
    return brentq(lambda scale: curve(epsilon, 1 / scale) - delta, 1e-2, 1e3)


def zcdp_delta(epsilon, mu):
    """The curve that follows from rho = mu^2 / 2 alone."""
    return float(ZCDP(rho=mu**2 / 2).delta(epsilon))


print("noise over sensitivity at delta = 1e-6")
print(f"{'epsilon':>8}{'textbook':>10}{'by zCDP':>10}{'exact':>10}")
for epsilon in (0.1, 0.5, 1.0, 3.0):
    row = textbook_noise(epsilon, 1e-6), exact_noise(epsilon, 1e-6, zcdp_delta), exact_noise(epsilon, 1e-6)
    print(f"{epsilon:>8g}" + "".join(f"{scale:>10.2f}" for scale in row))
    assert row[2] < min(row[:2])

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
grid = np.linspace(0.02, 3, 150)
ax.semilogy(grid, gaussian_delta(grid, mu), label="exact")
ax.semilogy(grid, [zcdp_delta(e, mu) for e in grid], label=r"from $\rho = \mu^2/2$")
ax.semilogy(grid, np.minimum(1, 1.25 * np.exp(-((grid / mu) ** 2) / 2)), label="textbook, solved for $\\delta$")
ax.set(xlabel=r"$\varepsilon$", ylabel=r"$\delta$ that is promised", ylim=(1e-9, 1), title=rf"$\mu = {mu:g}$")
ax.legend()
plt.show()

# %% [markdown]
# At $\varepsilon = 1$ one pays a quarter more noise for not solving an equation.
#
# ## The same promise as a test
#
# Somebody who sees the output wants to decide between the two data sets. Let $\alpha$ be his rate of false alarms and
# $\beta$ that of misses. Against a Gaussian mechanism no test does better than $\beta = \Phi(\Phi^{-1}(1 - \alpha) -
# \mu)$; every pair on the curve is one straight line below it. At $\mu = \tfrac12$ the best an attacker can do is
# hardly better than guessing.

# %%
alpha = np.linspace(0, 1, 400)
fig, ax = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
for value in (0.25, 0.5, 1, 2, 4):
    ax.plot(alpha, norm.cdf(norm.isf(alpha) - value), label=rf"$\mu = {value:g}$", linewidth=3 if value == mu else 1)
ax.plot(alpha, 1 - alpha, color="black", linestyle=":", label="guessing")
ax.set(xlabel="false alarms", ylabel="misses")
ax.legend()
plt.show()

best_error = norm.cdf(-mu / 2)  # of a test that takes both errors alike
print(f"the best test at mu = {mu:g} errs in {best_error:.0%} of cases; guessing in 50%")
assert abs(best_error - 0.4013) < 1e-4

# %% [markdown]
# ## Measuring the curve
#
# Where densities are known, `privacy_profile` certifies the whole curve from runs, as a band that holds at every
# $\varepsilon$ at once with probability 95 %.

# %%


def noisy_mean(mean, n_samples, rng):
    """Runs of the released mean."""
    return mean + rng.normal(scale=noise_scale, size=n_samples)


def log_density(outputs, mean):
    """Log density of a run, up to a constant that is the same for both means."""
    return -(((outputs - mean) / noise_scale) ** 2) / 2


worst = (128.0, 128.0 + sensitivity)
profile = privacy_profile(noisy_mean, *worst, log_density=log_density, n_samples=20_000 if QUICK else 200_000, rng=rng)
grid = np.linspace(0, 1.6, 100)
low, high = profile.band(grid)

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.fill_between(grid, np.maximum(low[0], 1e-7), high[0], alpha=0.4, label="certified band")
ax.semilogy(grid, gaussian_delta(grid, mu), color="black", linewidth=1, label="formula")
ax.set(xlabel=r"$\varepsilon$", ylabel=r"$\delta(\varepsilon)$", ylim=(1e-6, 1))
ax.legend()
plt.show()
assert (low[0] <= gaussian_delta(grid, mu)).all() and (gaussian_delta(grid, mu) <= high[0]).all()

# %% [markdown]
# ## Auditing a curve
#
# Without densities, an audit at one pair with a tiny $\delta$ looks at events that hardly ever happen. Claim the curve
# and the auditor tests it where it can see. Half the noise, 4,000 runs:

# %%


def too_quiet(mean, n_samples, rng):
    """Half the noise."""
    return mean + rng.normal(scale=noise_scale / 2, size=n_samples)


pair_epsilon = smallest_epsilon(1e-6, mu)
as_pair = audit(too_quiet, *worst, epsilon=pair_epsilon, delta=1e-6, n_samples=4_000, rng=np.random.default_rng(1))
as_curve = audit(too_quiet, *worst, profile=GDP(mu=mu), delta=1e-6, n_samples=4_000, rng=np.random.default_rng(1))
print(f"claimed as one pair: refuted: {as_pair.refuted}; epsilon is at least {as_pair.epsilon_lower:.2f}")
print(
    f"claimed as a curve:  refuted: {as_curve.refuted}; no curve with mu below {as_curve.parameter_lower:.2f} is kept"
)
assert as_curve.refuted and not as_pair.refuted
assert as_curve.parameter_lower <= 2 * mu

# %% [markdown]
# ## Exercises
#
# **Exercise 1.** How much noise does a mean need? Write a function that gives the smallest standard deviation of
# Gaussian noise for a statistic of this sensitivity at $(\varepsilon, \delta)$, by the exact curve.

# %% tags=["exercise"]


def calibrated(sensitivity, epsilon, delta):
    """Standard deviation, in the unit of the sensitivity."""
    return sensitivity * np.sqrt(2 * np.log(1.25 / delta)) / epsilon  # the textbook


# %% tags=["hide-cell", "solution"]


def calibrated(sensitivity, epsilon, delta):
    """The curve falls as noise grows, so it comes down to delta once."""
    return sensitivity * brentq(lambda scale: gaussian_delta(epsilon, 1 / scale) - delta, 1e-2, 1e3)


# %% tags=["check"]
for case in [(1.0, 1.0, 1e-6), (0.06, 0.5, 1e-5), (10.0, 3.0, 1e-3)]:
    scale = calibrated(*case)
    reached = float(GDP(mu=case[0] / scale).delta(case[1]))
    assert reached <= case[2] * 1.001, f"Not yet: at {case} your noise {scale:.4f} has delta {reached:.3g}"
    assert reached >= case[2] * 0.98, f"Not yet: at {case} less noise than your {scale:.4f} would do"
print("Exercise 1: right.")

# %% [markdown]
# **Exercise 2.** A family of three has three of the 2,000 records. The mean above has $\mu = \tfrac12$ for one record.
# Which $\varepsilon$ holds at $\delta = 10^{-6}$ for replacing all three? (How far does the mean move now?)

# %% tags=["exercise"]
family_epsilon = 3 * smallest_epsilon(1e-6, 0.5)  # three times as much? At which delta, though?

# %% tags=["hide-cell", "solution"]
family_epsilon = smallest_epsilon(1e-6, 3 * 0.5)  # the mean moves three times as far: mu is 1.5

# %% tags=["check"]
reached = float(GDP(mu=1.5).delta(family_epsilon))
assert abs(reached - 1e-6) < 1e-8, f"Not yet: at {family_epsilon:.3f} the family has delta = {reached:.2g}, not 1e-6"
print(f"Exercise 2: right, {family_epsilon:.2f}: more than three times what one of them has.")

# %% [markdown]
# **Exercise 3.** The textbook formula was proved for $\varepsilon < 1$. From which $\varepsilon$ on is its noise *too
# small* at $\delta = 10^{-6}$? Give it to one decimal.

# %% tags=["exercise"]
false_from = 1.0  # where its proof ends; is it false from there?

# %% tags=["hide-cell", "solution"]
false_from = brentq(lambda e: textbook_noise(e, 1e-6) - exact_noise(e, 1e-6), 1, 200)

# %% tags=["check"]
for epsilon, private in ((false_from - 0.1, True), (false_from + 0.1, False)):
    kept = float(GDP(mu=1 / textbook_noise(epsilon, 1e-6)).delta(epsilon)) <= 1e-6
    word = "still enough" if kept else "too little"
    assert kept == private, f"Not yet: at epsilon = {epsilon:.1f} the textbook's noise is {word}"
print(f"Exercise 3: right, from {false_from:.1f} on.")

# %% [markdown]
# ## Further reading
#
# Balle and Wang (2018) have the exact curve; Dong, Roth and Su (2022) the test and the name Gaussian differential
# privacy; Bun and Steinke (2016) the concentrated kind. `docs/audit-a-claim.md` has the audit of curves.

# %% [markdown]
# # 11. Local privacy, end to end
#
# **Question.** An app knows how many hours a day each of its users spends on the screen. Nobody shall be able to
# collect that, not even whoever runs the server. Can the server learn how screen time is distributed all the same?
#
# **Guarantee.** The one report that leaves a device is $1$-differentially private by itself ($\delta = 0$), against
# everybody, the server included. That is *local* privacy: whatever the server does with reports costs nothing more.
# Where the text breaks the protocol, it says so. (Users are simulated and devices have seeded coins, for teaching; a
# real device takes its operating system's.)
#
# **Time.** About twenty seconds of one processor; five in quick mode. You should have read tutorials 1 and 7.

# %%
import logging
import os

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import pm_dpgmm as dpg

QUICK = "QUICK" in os.environ
logging.getLogger("pymc").setLevel(logging.WARNING)
EPSILON = 1.0

# %% [markdown]
# ## The server announces a protocol
#
# Everything a device needs is one text: some hundred public waves $\cos(\omega x + b)$, and $\varepsilon$. Bounds only
# say where to look, and come from general knowledge: a day has 24 hours.

# %%
protocol = dpg.LocalProtocol.design(1, epsilon=EPSILON, bounds=(0, 24))
announced, fingerprint = protocol.to_json(), protocol.fingerprint
print(protocol)
print(f"the text has {len(announced):,} characters, its fingerprint begins with {fingerprint[:16]}")

# %% [markdown]
# ## A device answers
#
# The device draws one of the waves, looks on which side of it its record lies ($\cos > 0$ or not), and reports the
# side: the true one with probability $p = e^\varepsilon/(1 + e^\varepsilon) = 0.73$, the other one with $q = 1 - p$.
# This is randomised response (tutorial 1), with a question drawn by lot. It trusts no server: before it answers it
# compares $\varepsilon$ and the whole fingerprint with what its user has agreed to. (This part of the package loads
# without NumPy.)

# %%
device = dpg.LocalProtocol.from_json(announced)
assert device.epsilon <= EPSILON and device.fingerprint == fingerprint

coins = np.random.default_rng(11)  # teaching only: leave it out on a device
my_hours = 3.2
report = device.respond(my_hours, coins)
print("the report, 16 bytes:", report.hex())


def read(report):
    """Which wave was asked about, and which side was reported."""
    return divmod(protocol.output_of(report), 2)


KEEP = np.exp(EPSILON) / (1 + np.exp(EPSILON))


def likelihood(report, x):
    """Probability of the reported side, for a record x."""
    wave, side = read(report)
    true_side = np.cos(protocol.phases[wave] + x * protocol.frequencies[wave][0]) > 0
    return np.where(true_side == side, KEEP, 1 - KEEP)


hours = np.linspace(0, 24, 1_201)
figure, ax = plt.subplots(figsize=(7, 2.4))
ax.plot(hours, likelihood(report, hours))
ax.axvline(my_hours, color="black", linestyle=":")
ax.set(xlabel="hours of screen time", ylabel="probability\nof this report", ylim=(0, 1))
figure.tight_layout()
plt.show()

# %% [markdown]
# That is all anyone learns of me: the probability of the report takes two values, whose ratio is $e^\varepsilon$.
# Bayes' rule turns the ratio into odds: a reader's odds between any two values of my screen time change by a factor of
# at most 2.72.

# %%
values = likelihood(report, hours)
assert np.isclose(values.max() / values.min(), np.exp(EPSILON))

# %% [markdown]
# ## Once, and only once
#
# A message may get lost. A device that then sends *the same bytes* again gives nothing away. One that answers anew
# tells something new every time, and the costs add up: $T$ fresh answers are $T\varepsilon$-private, that is, after a
# month not at all. A server that asks me daily, beginning from the flat prior:

# %%
fresh = [device.respond(my_hours, coins) for _ in range(60)]
figure, axes = plt.subplots(1, 3, figsize=(9, 2.4), sharex=True)
for ax, days in zip(axes, (1, 10, 60), strict=True):
    log_posterior = np.sum([np.log(likelihood(one, hours)) for one in fresh[:days]], axis=0)
    posterior = np.exp(log_posterior - log_posterior.max())
    posterior /= posterior.sum()
    ax.fill_between(hours, posterior)
    ax.axvline(my_hours, color="black", linestyle=":")
    near = posterior[abs(hours - my_hours) < 1].sum()
    ax.set(title=f"{days} fresh answers", xlabel="hours", yticks=[])
    print(f"after {days:2d} fresh answers: {near:.2f} of the posterior is within an hour of the truth")
figure.tight_layout()
plt.show()
assert near > 0.5  # of 60

# %% [markdown]
# ## The server collects
#
# Twenty thousand users, of two kinds. Not everybody plays by the rules: one sends rubbish, one sends a report twice,
# one answers another protocol. `strict=False` leaves such reports out and counts them; one alone stops no survey.

# %%
TRUTH = dpg.Mixture([0.6, 0.4], [[2.5], [7.0]], [[[0.81]], [[2.25]]])
n_users = 3_000 if QUICK else 20_000
records = TRUTH.sample(n_users, rng=np.random.default_rng(110))
reports = [device.respond(x, coins) for x in records]
other = dpg.LocalProtocol.design(1, epsilon=EPSILON, bounds=(0, 100))
inbox = [*reports, b"rubbish", reports[0], other.respond(3.0, coins)]

collected = protocol.aggregate(inbox, strict=False)
print(f"{collected.n_reports:,} reports count; left out: {dict(collected.refused)}")
assert collected.n_reports == n_users and sum(collected.refused.values()) == 3

# %% [markdown]
# What the server has now are counts: how many were asked about each wave, and how many of them said "above". The fit
# maximises their exact likelihood, with the lies in it. `simulated=True` says that the coins had a seed.

# %%
local = dpg.fit_reports(collected, 2, feature_names=["hours"], progress=False, simulated=True)
print(local.summary())

# %% [markdown]
# ## What the missing trust costs
#
# The same $\varepsilon$ with a curator who sees all records and adds noise to sums (tutorial 7):

# %%
central = dpg.fit_gmm(records, 2, epsilon=EPSILON, delta=1e-6, bounds=(0, 24), progress=False, random_seed=11)
figure, ax = plt.subplots(figsize=(7, 3))
shown = np.linspace(0, 13, 300)
for law, words, style in ((TRUTH, "truth", "k:"), (central, "curator", "-"), (local, "devices", "-")):
    ax.plot(shown, np.exp(law.log_density(shown[:, None])), style, label=words)
ax.set(xlabel="hours of screen time", yticks=[])
ax.legend()
figure.tight_layout()
plt.show()

loss = {
    words: np.mean(TRUTH.log_density(test) - law.log_density(test))
    for test in [TRUTH.sample(50_000, rng=np.random.default_rng(111))]
    for words, law in (("curator", central), ("devices", local))
}
for words, value in loss.items():
    print(f"{words}: loses {value:.4f} nats a record (Kullback-Leibler divergence from the truth)")
assert 0 <= loss["curator"] < loss["devices"] < (0.2 if QUICK else 0.1)

# %% [markdown]
# The reason is plain in one number. To estimate a share $\theta$ from $n$ flipped bits, one inverts
# $\mathbb E\,\bar y = \theta p + (1 - \theta) q$:
#
# $$ \hat\theta = \frac{\bar y - q}{p - q}, \qquad
# \mathrm{se}(\hat\theta) = \frac{\sqrt{\bar y(1 - \bar y)/n}}{p - q}. $$
#
# At $\varepsilon = 1$, $p - q = 0.46$: noise of order $1/\sqrt n$, where the curator's is of order $1/n$. Everybody's
# coins make noise, and coins do not know of each other.
#
# ## How sure is the server?
#
# The law of the lies is public, so PyMC can have it: `release.observe`, as in tutorial 8.

# %%
if not QUICK:
    with pm.Model():
        params = local.params("g", prior="weak")
        local.observe(params)
        idata = pm.sample(500, tune=300, chains=2, cores=1, random_seed=1, init="adapt_diag", progressbar=False)
    means = np.sort(idata.posterior["g_means"].values.reshape(-1, 2), axis=1)
    low, high = np.quantile(means, [0.05, 0.95], axis=0)
    width_central = np.sort(2 * 1.645 * central.standard_errors().means[:, 0])
    print("90 % intervals of the two means:", [f"{a:.2f} to {b:.2f}" for a, b in zip(low, high, strict=True)])
    print("widths:", (high - low).round(2), "where the curator's are", width_central.round(2))
    assert (high - low > 2 * width_central).all()
    assert (low - 0.3 < [2.5, 7.0]).all() and (high + 0.3 > [2.5, 7.0]).all()

# %% [markdown]
# ## What is not protected
#
# - *Who takes part.* Reports come from addresses, at times.
# - *Somebody who answers twice.* Two protocols that ask the same person cost the sum.
# - *The statistics.* Privacy is for honest devices; dishonest ones are no threat to it, but to the truth: see exercise
#   11.3. The smaller $\varepsilon$, the more weight a liar has.
# - *A protocol with a large $\varepsilon$.* The server writes it. The device must read it.
#
# ## Exercises
#
# **11.1** Undo the coins. Of $n$ bits a share `mean_bit` is 1, and each is true with probability
# $p = e^\varepsilon/(1 + e^\varepsilon)$. Which share of the records is on side 1?


# %% tags=["exercise"]
def share(mean_bit, epsilon):
    """Unbiased estimate; it may lie below 0 or above 1."""
    return ...


# %% tags=["hide-cell", "solution"]
def share(mean_bit, epsilon):
    p = np.exp(epsilon) / (1 + np.exp(epsilon))
    return (mean_bit - (1 - p)) / (2 * p - 1)


# %% tags=["check"]
def check_11_1(answer):
    assert answer(0.5, 1.0) not in (None, ...), "11.1: the function returns nothing yet"
    for epsilon, true in ((1.0, 0.2), (0.5, 0.7)):
        p = np.exp(epsilon) / (1 + np.exp(epsilon))
        found = answer(true * p + (1 - true) * (1 - p), epsilon)
        assert np.isclose(found, true), f"11.1: not yet. At epsilon {epsilon} a share of {true} becomes {found:.3f}"
    waves, sides = np.array([read(one) for one in reports]).T
    wave = int(np.argmin([abs(row[0]) for row in protocol.frequencies]))  # the longest one
    x = records[:, 0]
    right = np.mean(np.cos(protocol.phases[wave] + x * protocol.frequencies[wave][0]) > 0)
    asked = sides[waves == wave]
    print(f"11.1 is right. On side 1 of the longest wave are {right:.2f} of the records; {len(asked)} were asked, and")
    print(f"their bits say {answer(asked.mean(), EPSILON):.2f}. One wave tells little: the fit takes all together.")


check_11_1(share)

# %% [markdown]
# **11.2** How many people must be asked about one wave for a standard error of the share of at most `error`, if about
# half of them are on either side? (Then $\bar y = 1/2$.)


# %% tags=["exercise"]
def people(error, epsilon):
    """Smallest whole number."""
    return ...


# %% tags=["hide-cell", "solution"]
def people(error, epsilon):
    p = np.exp(epsilon) / (1 + np.exp(epsilon))
    return int(np.ceil(0.25 / (error * (2 * p - 1)) ** 2))


# %% tags=["check"]
def check_11_2(answer):
    for error, epsilon in ((0.01, 1.0), (0.05, 0.5)):
        n, p = answer(error, epsilon), np.exp(epsilon) / (1 + np.exp(epsilon))
        assert n not in (None, ...) and n == int(n), "11.2: the function must return a whole number"
        se = np.sqrt(0.25 / np.array([n, n - 1])) / (2 * p - 1)
        assert se[0] <= error, f"11.2: not yet. {n} people have a standard error of {se[0]:.4f}"
        assert se[1] > error, f"11.2: not yet. {n - 1} people would do"
    print(
        f"11.2 is right: {answer(0.01, 1.0):,} people at epsilon 1, {answer(0.01, 0.1):,} at 0.1, 2,500 without coins."
    )


check_11_2(people)

# %% [markdown]
# **11.3** A liar says "side 1" whatever the wave, without a coin. By how much does one liar among $n$ raise the
# estimate of 11.1, compared with an honest person on side 1 among people of whom the rest stay the same? Give the ratio
# of the expected effects on $\hat\theta$: replacing a person on side 0 by the liar, over replacing them by an honest
# person on side 1.


# %% tags=["exercise"]
def weight_of_liar(epsilon):
    """So many honest people does a liar count for."""
    return ...


# %% tags=["hide-cell", "solution"]
def weight_of_liar(epsilon):
    p = np.exp(epsilon) / (1 + np.exp(epsilon))
    return p / (2 * p - 1)  # the expected bit rises from q to 1, by p; an honest person raises it from q to p


# %% tags=["check"]
def check_11_3(answer):
    assert answer(1.0) not in (None, ...), "11.3: the function returns nothing yet"
    for epsilon, right in ((1.0, 1.581977), (0.1, 10.508332), (5.0, 1.006783)):
        found = answer(epsilon)
        assert abs(found - right) < 1e-4, f"11.3: not yet. At epsilon {epsilon} it is {right:.3f}, not {found:.3f}"
    print(f"11.3 is right: {answer(1.0):.1f} people at epsilon 1, {answer(0.1):.1f} at 0.1. Privacy cuts both ways.")


check_11_3(weight_of_liar)

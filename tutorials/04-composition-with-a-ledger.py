# %% [markdown]
# # 4. Composition with a ledger
#
# **Question.** A clinic's dashboard shows every day how many of its patients have a certain diagnosis, with noise that
# is quite private: $\varepsilon = 0.1$. What has it told after a year, and who keeps count?
#
# **Guarantee.** A day's number is $\varepsilon$-differentially private with $\varepsilon = 0.1$ (add-remove); of many
# days the text computes what holds. The two releases at the end cost $\varepsilon = 1$ and $\delta = 10^{-6}$ together
# (replace-one), and the ledger lets no third one happen.
#
# **Running time.** Half a minute, and half a minute more at the first fit in a new environment, which compiles. The
# patients are simulated.

# %%
import contextlib
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from scipy.stats import binom

import pm_dpgmm as dpg
from pm_dpgmm.privacy.curves import GaussianProfile, PointProfile
from verification import GDP, audit

QUICK = "QUICK" in os.environ  # small runs
rng = np.random.default_rng(44)

# %% [markdown]
# ## The same question every day
#
# 137 patients have the diagnosis, and that hardly changes. Laplace noise of scale $1/\varepsilon = 10$ hides each
# patient in each day's number. Somebody writes the numbers down and takes averages.

# %%
DAILY = 0.1
DAYS = np.arange(1, 366)
truth = 137
shown = truth + rng.laplace(scale=1 / DAILY, size=(200, 365))  # 200 such years, the first of which happened
averages = shown.cumsum(axis=1) / DAYS
spread = np.sqrt(2) / DAILY / np.sqrt(DAYS)  # standard deviation of the average

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.plot(DAYS, shown[0], ".", color="lightgrey", label="shown on the day")
ax.plot(DAYS, averages[0], label="average so far")
ax.fill_between(DAYS, truth - 2 * spread, truth + 2 * spread, alpha=0.2, label="two standard deviations")
ax.axhline(truth, color="black", linestyle="--", linewidth=1)
ax.set(xlabel="day", ylabel="patients with the diagnosis", ylim=(truth - 45, truth + 45))
ax.legend(loc="upper right")
plt.show()

print(f"after a year the average is right to {averages[:, -1].std():.2f} patients")
assert abs(averages[:, -1].std() / spread[-1] - 1) < 0.25  # five standard errors of the spread of 200 years

# %% [markdown]
# To somebody who knows the other 136, a patient is as good as known. No day broke its promise: promises add up. If
# $M_1$ is $\varepsilon_1$-DP, and $M_2$ is $\varepsilon_2$-DP *whatever $M_1$ has answered*, then for every pair of
# answers the two ratios multiply, and both together are $(\varepsilon_1 + \varepsilon_2)$-DP (**basic composition**).
# After a year that is $\varepsilon = 36.5$.
#
# ## How fast does it really add up?
#
# Losses of single days go up and down. A sum of $k$ of them grows like $\sqrt{k}$, plus a drift like $k\varepsilon^2$:
#
# $$\text{basic: } k\varepsilon, \qquad
#   \text{advanced: } \varepsilon\sqrt{2k \ln(1/\delta)} + k\varepsilon(e^\varepsilon - 1).$$
#
# The price for the second is a $\delta$. And the exact answer? The worst $\varepsilon$-DP mechanism is randomised
# response (tutorial 1): its loss is $+\varepsilon$ with probability $e^\varepsilon / (1 + e^\varepsilon)$ and
# $-\varepsilon$ otherwise. So the loss of $k$ days is $(2B - k)\varepsilon$ with a binomial $B$, and $\delta$ is the
# mean of $\max(0, 1 - e^{\varepsilon' - L})$, as in tutorial 3. `dpg.compose` does that for any guarantees.

# %%
DELTA = 1e-6


def basic(k):
    return k * DAILY


def advanced(k):
    return DAILY * np.sqrt(2 * k * np.log(1 / DELTA)) + k * DAILY * np.expm1(DAILY)


def exact_delta(epsilon, k):
    """Of k randomised responses, summed over the binomial number of right answers."""
    right = np.arange(k + 1)
    losses = (2 * right - k) * DAILY
    return float(binom.pmf(right, k, expit(DAILY)) @ np.maximum(0, -np.expm1(epsilon - losses)))


day = dpg.Guarantee(DAILY, 0.0, "add-remove", "count with Laplace noise", PointProfile(DAILY))
numbers = [1, 3, 10, 30, 100, 365]
exact = [dpg.compose(*[day] * k, delta=DELTA).epsilon for k in numbers]
for k, epsilon in zip(numbers, exact, strict=True):
    print(f"{k:>4} days: basic {basic(k):5.2f}, advanced {advanced(k):5.2f}, exact {epsilon:5.2f}")
    assert exact_delta(epsilon, k) <= DELTA  # never below the truth ...
    assert epsilon == basic(k) or exact_delta(0.99 * epsilon, k) > DELTA  # ... and hardly above it

# %% [markdown]
# Gaussian noise adds up even more simply: parameters by Pythagoras, $\mu = \sqrt{\mu_1^2 + \dots + \mu_k^2}$. With the
# standard deviation of that Laplace noise, $\sqrt2 / 0.1$, one day has $\mu = 0.0707$.

# %%
daily_mu = DAILY / np.sqrt(2)
gaussian_day = dpg.Guarantee(1.0, 1e-6, "add-remove", "count with Gaussian noise", GaussianProfile(daily_mu))
gaussian = [dpg.compose(*[gaussian_day] * k, delta=DELTA).epsilon for k in numbers]
assert abs(float(GDP(mu=daily_mu * np.sqrt(365)).delta(gaussian[-1])) / DELTA - 1) < 1e-3

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.loglog(DAYS, basic(DAYS), label=r"Laplace, basic ($\delta = 0$)")
ax.loglog(DAYS, advanced(DAYS), label="Laplace, advanced")
ax.loglog(numbers, exact, "o-", label="Laplace by the worst case, exact")
ax.loglog(numbers, gaussian, "s-", label="Gaussian noise as large, exact")
ax.set(xlabel="days", ylabel=r"$\varepsilon$ at $\delta = 10^{-6}$")
ax.legend()
plt.show()

# %% [markdown]
# For a few days Laplace noise is better, from ten days on Gaussian noise. Advanced composition beats basic composition
# late (after 35 days here), and the exact sum never loses to either. An audit sees composition at work, too. Of
# thirty days, claimed to be no worse than five:

# %%


def thirty_days(count, n_samples, rng):
    """The numbers of thirty days."""
    return count + rng.laplace(scale=1 / DAILY, size=(n_samples, 30))


def log_density(outputs, count):
    """Of thirty independent Laplace numbers, up to a constant."""
    return -DAILY * np.abs(outputs - count).sum(axis=1)


n_samples = 20_000 if QUICK else 200_000
result = audit(thirty_days, 137, 136, epsilon=0.5, log_density=log_density, n_samples=n_samples, rng=rng)
print(f"thirty days as epsilon = 0.5: refuted: {result.refuted}, at least {result.epsilon_lower:.2f}")
assert result.refuted and result.epsilon_lower <= basic(30)

# %% [markdown]
# ## Keeping count: the ledger
#
# None of this helps if nobody remembers what was released. A `Ledger` is a file that does: it has a budget, writes a
# cost down *before* the records are touched, and refuses what would exceed it. `fit_gmm` takes one.

# %%
folder = Path(tempfile.mkdtemp())  # a real ledger lives where nobody deletes it
ledger = dpg.Ledger(folder / "clinic.sqlite", epsilon=1.0, delta=1e-6)

ages = np.concatenate([rng.normal(34, 7, 700), rng.normal(68, 6, 500)])[:, None]
first = dpg.fit_gmm(ages, 2, epsilon=0.4, bounds=(0, 110), method="histogram", ledger=ledger, progress=False)
second = dpg.fit_gmm(ages, 2, epsilon=0.6, delta=1e-6, bounds=(0, 110), ledger=ledger, progress=False)

try:
    dpg.fit_gmm(ages, 3, epsilon=0.1, bounds=(0, 110), method="histogram", ledger=ledger)
    refused = False
except dpg.BudgetExceeded as error:
    refused = True
    print("refused:", error, end="\n\n")
assert refused and len(ledger.entries()) == 2

for entry in ledger.entries():
    print(f"epsilon {entry.epsilon:g}, delta {entry.delta:g}: {entry.mechanism}")
print("remaining:", ledger.remaining)

fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
points = np.linspace(0, 110, 300)
for release, name in ((first, r"histogram, $\varepsilon = 0.4$"), (second, r"sketch, $\varepsilon = 0.6$")):
    ax.plot(points, np.exp(release.log_density(points[:, None])), label=name)
ax.hist(ages[:, 0], 40, density=True, color="lightgrey", label="the records (nobody sees these)")
ax.set(xlabel="age", ylabel="density")
ax.legend()
plt.show()

# %% [markdown]
# The ledger adds up by basic composition, which holds however later releases were chosen in the light of earlier
# ones. What the two releases cost together *exactly* can be computed from their guarantees, which carry whole curves:

# %%
both = dpg.compose(first.guarantee, second.guarantee, delta=1e-6)
print(
    f"ledger: epsilon {sum(entry.epsilon for entry in ledger.entries()):g}; exact: {both.epsilon:.3f} at delta = 1e-6"
)
assert both.epsilon <= 1.0 + 1e-9

# %% [markdown]
# ## Mechanisms of your own
#
# `reserve` writes a cost down for whatever you are about to do. The order matters: first the ledger, then the records.
# A crash in between costs budget and no privacy; the other way round it would cost privacy.

# %%
counts_ledger = dpg.Ledger(folder / "counts.sqlite", epsilon=0.25, neighbouring="add-remove")


def paid_count(records, condition, epsilon):
    """Number of records with a property, with noise, paid for beforehand."""
    counts_ledger.reserve(epsilon, 0.0, "add-remove", f"count: {condition.__name__}")
    return sum(map(condition, records)) + rng.laplace(scale=1 / epsilon)


def above_sixty(age):
    return age > 60


for number in range(3):
    try:
        print(f"{number + 1}. count: {paid_count(ages[:, 0], above_sixty, 0.1):.0f}")
    except dpg.BudgetExceeded as error:
        print(f"{number + 1}. refused: {error}")
assert len(counts_ledger.entries()) == 2

# %% [markdown]
# ## Exercises
#
# **Exercise 1.** Weekly counts with Gaussian noise, $\mu = 0.05$ each. How many weeks fit into $(1, 10^{-6})$, by the
# exact curve? (`GDP(mu=...).delta(epsilon)` gives the curve.)

# %% tags=["exercise"]
weeks = int(1.0 / 0.26)  # each is (0.26, 1e-6)-DP, and basic composition adds that up

# %% tags=["hide-cell", "solution"]
weeks = 1
while GDP(mu=0.05 * np.sqrt(weeks + 1)).delta(1.0) <= 1e-6:
    weeks += 1

# %% tags=["check"]
for k, fits in ((weeks, True), (weeks + 1, False)):
    reached = float(GDP(mu=0.05 * np.sqrt(k)).delta(1.0))
    assert (reached <= 1e-6) == fits, f"Not yet: {k} weeks have delta = {reached:.2g} at epsilon 1"
print(f"Exercise 1: right, {weeks} weeks.")

# %% [markdown]
# **Exercise 2.** The code below answers any query while the budget lasts. What is wrong with it? Repair it. The check
# gives it records that notice when somebody looks at them, and a query that crashes.

# %% tags=["exercise"]


def answer(ledger, records, query, epsilon):
    """Noisy sum of a query with values in [0, 1], or BudgetExceeded."""
    value = sum(min(max(query(record), 0), 1) for record in records)
    ledger.reserve(epsilon, 0.0, "add-remove", "sum")
    return value + np.random.default_rng().laplace(scale=1 / epsilon)


# %% tags=["hide-cell", "solution"]


def answer(ledger, records, query, epsilon):
    """First the ledger: a query that crashes on some record has told that there is such a record."""
    ledger.reserve(epsilon, 0.0, "add-remove", "sum")
    value = sum(min(max(query(record), 0), 1) for record in records)
    return value + np.random.default_rng().laplace(scale=1 / epsilon)


# %% tags=["check"]


class Watched(list):
    """Records that notice when they are read."""

    looks = 0

    def __iter__(self):
        self.looks += 1
        return super().__iter__()


trial = dpg.Ledger(Path(tempfile.mkdtemp()) / "trial.sqlite", epsilon=1.0, neighbouring="add-remove")
watched = Watched([0.2, 0.4, 0.0])
with contextlib.suppress(ZeroDivisionError):
    answer(trial, watched, lambda record: 1 / record, 0.75)
assert trial.spent == (0.75, 0.0), "Not yet: a query crashed on a record, which tells something, and nothing was paid"
looks = watched.looks
try:
    answer(trial, watched, lambda record: record, 0.5)
    answered = True
except dpg.BudgetExceeded:
    answered = False
assert not answered, "Not yet: it answered beyond the budget"
assert watched.looks == looks, "Not yet: the answer was refused, but the records had been read by then"
assert abs(answer(trial, watched, lambda record: record, 0.25) - 0.6) < 200, "Not yet: that is no noisy sum"
print("Exercise 2: right.")

# %% [markdown]
# **Exercise 3.** Five wards publish a count each, with Laplace noise of scale 10 (so each costs 0.1), every patient
# being in one ward (**parallel composition**). What do the five counts cost together (a) for adding or removing a
# patient, (b) for replacing a patient by another one, perhaps of another ward, (c) for adding or removing a patient if
# a patient may be in up to three wards?

# %% tags=["exercise"]
cost_add_remove = 0.5
cost_replace_one = 0.5
cost_three_wards = 0.5

# %% tags=["hide-cell", "solution"]
cost_add_remove = 0.1  # one count changes, by one
cost_replace_one = 0.2  # one loses, another gains
cost_three_wards = 0.3  # three counts change

# %% tags=["check"]
for name, given, right, hint in (
    ("(a)", cost_add_remove, 0.1, "how many of the five counts does one patient change?"),
    ("(b)", cost_replace_one, 0.2, "the old patient's ward loses one. And the new one's?"),
    ("(c)", cost_three_wards, 0.3, "how many counts does this patient change?"),
):
    assert abs(given - right) < 1e-9, f"Not yet: {name} {hint}"
print("Exercise 3: right.")

# %% [markdown]
# ## Further reading
#
# Dwork, Rothblum and Vadhan (2010) have advanced composition; Kairouz, Oh and Viswanath (2015) the exact one.
# `docs/what-is-protected.md` says what a `Ledger` does when files are moved, copied or restored from a backup.

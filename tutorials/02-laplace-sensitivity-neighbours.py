# %% [markdown]
# # 2. Laplace, sensitivity, neighbours
#
# **Question.** A firm of forty people publishes its monthly payroll, one number. Nothing personal in that. In March Ms
# Reyes joins. What does she earn, and how much noise would keep that from being known?
#
# **Guarantee.** A payroll with noise, as released here, is $\varepsilon$-differentially private with $\varepsilon = 1$
# for adding or removing one person, in real arithmetic (tutorial 5 looks at the arithmetic). Two such payrolls cost
# those who are in both $\varepsilon = 2$. What is broken on purpose has no guarantee.
#
# **Running time.** Half a minute. The people are simulated.

# %%
import itertools
import os
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np

from verification import audit

QUICK = "QUICK" in os.environ  # small runs
n_samples = 10_000 if QUICK else 100_000  # of an audit
rng = np.random.default_rng(2)

# %% [markdown]
# ## The difference of two harmless numbers

# %%
february = rng.lognormal(np.log(60), 0.35, size=40).round(1)  # thousands a year
march = np.append(february, 87.4)  # the same forty, and Ms Reyes
print(f"payroll in February {february.sum():.1f}, in March {march.sum():.1f}: {march.sum() - february.sum():.1f}")

# %% [markdown]
# Neither number is about her; their difference is. No rule of the kind "only totals of ten or more people" helps. What
# helps is that *one* person's being there or not hardly changes what is published. Two data sets that differ in one
# person are **neighbours**, and there are two ways to differ:
#
# - **add-remove**: one person more or less. How many people there are is then a secret, too.
# - **replace-one**: the same number of people, one of whom is somebody else. Their number is public.
#
# A claim of privacy means nothing before it says which. The **sensitivity** of a statistic $f$ is the most that it
# can differ between neighbours, over all data sets that are possible, whether or not yours is like that:
#
# $$\Delta = \max_{x \sim x'} \lVert f(x) - f(x') \rVert_1 .$$
#
# In a small world the maximum can be found by trying everything. Here three people have an age from the bounds
# $[18, 90]$, which are public knowledge:

# %%
LOW, HIGH = 18, 90
VALUES = (LOW, 36, 54, 72, HIGH)  # enough, since the worst cases are at the ends

STATISTICS = {
    "count": lambda ages: [len(ages)],
    "sum": lambda ages: [sum(ages)],
    "mean": lambda ages: [np.mean(ages)],
    "median": lambda ages: [np.median(ages)],
    "largest": lambda ages: [max(ages)],
    "histogram of 3 bins": lambda ages: np.histogram(ages, bins=[18, 42, 66, 90])[0],
}


def pairs(relation):
    """All neighbours of three people and, for add-remove, two."""
    for ages in itertools.product(VALUES, repeat=3):
        if relation == "add-remove":
            yield ages, ages[:-1]
        else:
            yield from ((ages, (*ages[:-1], other)) for other in VALUES)


def sensitivity(statistic, relation):
    """Largest change in L1."""
    return max(np.abs(np.subtract(statistic(x), statistic(other))).sum() for x, other in pairs(relation))


found = {name: [sensitivity(f, r) for r in ("add-remove", "replace-one")] for name, f in STATISTICS.items()}
print(f"{'sensitivity of three ages':<28}{'add-remove':>12}{'replace-one':>14}")
for name, (added, replaced) in found.items():
    print(f"{name:<28}{added:>12g}{replaced:>14g}")
assert found["sum"] == [HIGH, HIGH - LOW]  # somebody of 90 leaves; somebody of 18 becomes somebody of 90
assert found["histogram of 3 bins"] == [1, 2]  # replaced: one bin loses, another gains

# %% [markdown]
# Three lessons. The two relations give different numbers, and neither is always the smaller one. The sum depends on
# the bounds, so without bounds there is no sensitivity. And where one of three people is replaced the mean moves by up
# to a third of their range, the median by all of it; the mean of many hardly moves (divide by $n$), but the median of a
# thousand can still move by half the range: of 500 people of 18 and 500 of 90, one more decides.
#
# ## Laplace noise
#
# Add noise with density $\frac{1}{2b} e^{-|z|/b}$. If neighbours differ by $\Delta$, then at every output $y$
#
# $$\frac{p(y \mid x)}{p(y \mid x')} = \exp\frac{|y - f(x')| - |y - f(x)|}{b} \le \exp\frac{|f(x) - f(x')|}{b}
#   \le e^{\Delta / b}$$
#
# by the triangle inequality. Noise of scale $b = \Delta/\varepsilon$ makes $f$ $\varepsilon$-differentially private.
# That is the whole proof. In pictures: two tents whose logarithms never differ by more than $\varepsilon$, however far
# out one looks. Of Gaussian noise with the same standard deviation that is not true (tutorial 3).

# %%
output = np.linspace(-6, 7, 801)
tents = [np.exp(-np.abs(output - value)) / 2 for value in (0, 1)]
bells = [np.exp(-((output - value) ** 2) / 4) / np.sqrt(4 * np.pi) for value in (0, 1)]  # variance 2, as Laplace

fig, axes = plt.subplots(1, 2, figsize=(8, 3))
axes[0].plot(output, tents[0], label="$f(x) = 0$")
axes[0].plot(output, tents[1], label="$f(x') = 1$")
axes[0].set(xlabel="output", ylabel="density", title=r"Laplace noise, $\Delta = \varepsilon = 1$")
axes[0].legend()
axes[1].plot(output, np.log(tents[0] / tents[1]), color="black", label="Laplace")
axes[1].plot(output, np.log(bells[0] / bells[1]), color="grey", linestyle="--", label="Gaussian")
axes[1].set(xlabel="output", title="logarithm of the ratio", ylim=(-3, 3))
axes[1].axhspan(-1, 1, alpha=0.15, color="black", label=r"$\pm \varepsilon$")
axes[1].legend()
fig.tight_layout()
plt.show()
assert np.abs(np.log(tents[0] / tents[1])).max() <= 1 + 1e-12

# %% [markdown]
# ## The payroll again
#
# Public knowledge: nobody in this firm earns more than 200. Numbers outside $[0, 200]$ are clipped, *before* the sum.
# Under add-remove neighbours $\Delta = 200$, so $\varepsilon = 1$ takes noise of scale 200, on a payroll of some 2,500.

# %%
TOP = 200.0


def payroll(salaries, n_samples, rng, *, epsilon=1.0):
    """Noisy sum of the salaries, clipped to [0, TOP]: epsilon-DP for adding or removing one of them."""
    return np.clip(salaries, 0, TOP).sum() + rng.laplace(scale=TOP / epsilon, size=n_samples)


print(f"released: February {payroll(february, 1, rng)[0]:.0f}, March {payroll(march, 1, rng)[0]:.0f}")
attack = payroll(march, 20_000, rng) - payroll(february, 20_000, rng)  # as if the two months happened again and again

fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.hist(attack, np.linspace(-1_200, 1_400, 66), density=True, alpha=0.6, label="difference of two noisy payrolls")
ax.axvspan(0, TOP, alpha=0.2, color="black", label="what everybody knew: 0 to 200")
ax.axvline(87.4, color="black", linestyle="--", linewidth=1, label="the truth")
ax.set(xlabel="the attacker's estimate of her salary", ylabel="density", ylim=(0, 0.0021))
ax.legend()
plt.show()

inside = np.mean((attack > 0) & (attack < TOP))
print(f"the estimate is between 0 and {TOP:g} in {inside:.0%} of cases")
assert abs(inside - 0.2415) < 0.02  # from the law of a difference of Laplace numbers; six standard errors

# %% [markdown]
# The attacker's estimate is worse than what he knew before. And still the payroll is right to 11 %, and to 1 % in a
# firm of 400, because the noise does not grow with the number of people.
#
# Ms Reyes is in one payroll and pays $\varepsilon = 1$. The other forty are in both and pay 2: what a release costs
# adds up per *person*, over everything that person is in (tutorial 4).
#
# ## Which neighbours? Ask the auditor
#
# A histogram of three age groups with Laplace noise of scale $1/\varepsilon$ on every count: private, since adding a
# person changes one count by one? Yes for add-remove. Not for replace-one, where $\Delta = 2$.

# %%


def noisy_histogram(ages, n_samples, rng):
    """Counts of three age groups, with Laplace noise of scale 1."""
    return np.histogram(ages, bins=[18, 42, 66, 90])[0] + rng.laplace(size=(n_samples, 3))


group = [30, 30, 50, 80]
added = audit(noisy_histogram, [*group, 45], group, epsilon=1.0, n_samples=n_samples, rng=rng)
replaced = audit(noisy_histogram, [*group, 45], [*group, 80], epsilon=1.0, n_samples=n_samples, rng=rng)
print(f"add-remove:  refuted: {added.refuted}, epsilon is at least {added.epsilon_lower:.2f} for this pair")
print(f"replace-one: refuted: {replaced.refuted}, epsilon is at least {replaced.epsilon_lower:.2f} for this pair")
assert not added.refuted and replaced.refuted
assert replaced.epsilon_lower <= 2.0  # the truth

# %% [markdown]
# The code is the same; only the pair differs. An audit with the wrong neighbours finds nothing wrong, which is a good
# reason to read, before any figure, what a claim says about them. (In this package: `neighbouring="replace-one"`, the
# default, or `"add-remove"`; it stands in every release.)
#
# ## Noise that follows the records
#
# "Nobody here earns 200, so take the largest salary in the records for the top. Less noise!" The noise now depends on
# the records, and its very size gives away whether somebody rich is there.

# %%


def adaptive_payroll(salaries, n_samples, rng):
    """Noise for the largest salary in the records: NOT private."""
    return np.sum(salaries) + rng.laplace(scale=np.max(salaries), size=n_samples)


ordinary = np.full(5, 2.0)  # a small club with tiny salaries
result = audit(adaptive_payroll, np.append(ordinary, 150.0), ordinary, epsilon=1.0, n_samples=n_samples, rng=rng)
print(result)
assert result.refuted and result.epsilon_lower > 3

# %% [markdown]
# What one is tempted to use is the sensitivity *at these records* (local sensitivity). The definition asks for the
# worst case over all data sets. There are ways to profit from records that are far from the worst case, which first
# test, privately, that they are (tutorial 9).
#
# ## Bounds: not too wide, not too narrow
#
# Bounds are public, so they are chosen before anybody looks. Wide ones need much noise, narrow ones clip. The error of
# a mean of 500 incomes has three parts, sampling, clipping and noise:
#
# $$\text{error}^2 = \frac{\operatorname{var}}{n} + \bigl(\operatorname{E}\min(X, T) - \operatorname{E}X\bigr)^2
#   + 2 \Bigl(\frac{T}{n\varepsilon}\Bigr)^2 .$$

# %%
n_people = 500
incomes = np.random.default_rng(3).lognormal(np.log(40), 0.6, size=200_000)  # the population, nobody's records
tops = np.geomspace(30, 3_000, 60)
clipped = [np.minimum(incomes, top) for top in tops]
bias = np.array([c.mean() - incomes.mean() for c in clipped])
sampling = np.array([c.var() for c in clipped]) / n_people

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
best = {}
for epsilon in (0.1, 1.0, np.inf):
    error = np.sqrt(sampling + bias**2 + 2 * (tops / (n_people * epsilon)) ** 2)
    best[epsilon] = tops[error.argmin()]
    ax.loglog(tops, error, label="no noise" if np.isinf(epsilon) else rf"$\varepsilon = {epsilon:g}$")
    if np.isfinite(epsilon):
        ax.plot(best[epsilon], error.min(), "ko", markersize=4)
ax.set(xlabel="upper bound, thousands", ylabel="root mean square error of the mean")
ax.legend()
plt.show()

print(f"best upper bound: {best[0.1]:.0f} at epsilon 0.1, {best[1.0]:.0f} at epsilon 1")
assert best[0.1] < best[1.0]  # the more noise a unit of range costs, the more clipping it is worth

# %% [markdown]
# The curve is flat around its minimum: a bound that is twice too wide costs little, and one that is ten times too wide
# costs ten times the noise. To find the minimum by looking at *your* records would be a release of its own, unpaid.
#
# ## Exercises
#
# **Exercise 1.** Ages are in $[18, 90]$. What is the L1 sensitivity of the pair (number of people aged 65 or more, sum
# of all ages), released together, under each relation? And of the mean of 50 ages, under replace-one?

# %% tags=["exercise"]
pair_add_remove = 0.0
pair_replace_one = 0.0
mean_replace_one = 0.0

# %% tags=["hide-cell", "solution"]
pair_add_remove = 1 + 90  # somebody of 90 comes: one more above 65, and 90 more years
pair_replace_one = 1 + (90 - 18)  # somebody of 18 becomes somebody of 90
mean_replace_one = (90 - 18) / 50

# %% tags=["check"]
assert pair_add_remove != 90, "Not yet: for add-remove, somebody who is 90 is counted among those above 65, too"
assert pair_add_remove == 91, f"Not yet: for add-remove, whose coming changes the pair most? Not by {pair_add_remove}"
assert pair_replace_one == 73, f"Not yet: for replace-one, who becomes whom? Not a change of {pair_replace_one}"
assert abs(mean_replace_one - 1.44) < 1e-9, f"Not yet: the mean of 50 does not move by {mean_replace_one}"
print("Exercise 1: right.")

# %% [markdown]
# **Exercise 2.** You attack. `noisy_median` claims $\varepsilon = 1$ for replace-one neighbours and is wrong. Find two
# neighbours, seven numbers each from $[0, 100]$, on which the auditor certifies at least 3.

# %% tags=["exercise"]


def noisy_median(data, n_samples, rng):
    """Median of seven numbers, with noise for the most that the median of these very numbers can move."""
    ordered = np.sort(data)
    local = max(ordered[4] - ordered[3], ordered[3] - ordered[2])
    return ordered[3] + rng.laplace(scale=local, size=n_samples)


mine = [0, 20, 40, 50, 60, 80, 100]
neighbour = [0, 20, 40, 50, 60, 80, 90]

# %% tags=["hide-cell", "solution"]
mine = [0, 0, 0, 0, 0, 100, 100]  # the median cannot move: no noise at all
neighbour = [0, 0, 0, 0, 100, 100, 100]  # it can now, by 100: so much noise that 0 itself never comes out

# %% tags=["check"]
for data in (mine, neighbour):
    assert len(data) == 7 and min(data) >= 0 and max(data) <= 100, f"Not yet: seven numbers from 0 to 100, got {data}"
apart = (Counter(mine) - Counter(neighbour)).total()  # in whatever order
assert apart == 1, f"Not yet: neighbours differ in one number, yours in {apart}"
found = audit(noisy_median, mine, neighbour, epsilon=1.0, n_samples=10_000, rng=np.random.default_rng(4))
assert found.epsilon_lower >= 3, f"Not yet: on your pair epsilon is at least {found.epsilon_lower:.2f}, which is not 3"
print(f"Exercise 2: right; epsilon is at least {found.epsilon_lower:.2f}.")

# %% [markdown]
# **Exercise 3.** Write a private mean of ages in $[18, 90]$ where the *number* of people is secret too (add-remove,
# $\varepsilon = 1$): a noisy sum over a noisy count, each with a share of the budget. The check audits it and wants
# the mean of 1,000 ages to be right to half a year. Can you halve the error by moving the ages before you add them up?

# %% tags=["exercise"]


def private_mean(ages, n_samples, rng):
    """`n_samples` independent private means of the ages."""
    return np.full(n_samples, np.mean(ages))  # exact, and so not private


# %% tags=["hide-cell", "solution"]


def private_mean(ages, n_samples, rng):
    """54 plus a noisy sum of differences from 54 over a noisy count, half of the budget for each."""
    differences = np.clip(ages, 18, 90) - 54  # at most 36, where ages themselves are up to 90
    total = differences.sum() + rng.laplace(scale=36 / 0.5, size=n_samples)
    count = len(differences) + rng.laplace(scale=1 / 0.5, size=n_samples)
    return np.clip(54 + total / np.maximum(count, 1), 18, 90)  # post-processing


# %% tags=["check"]
check_rng = np.random.default_rng(5)
for more, fewer in [([90.0] * 4, [90.0] * 3), ([18.0] * 3 + [90.0], [18.0] * 3), ([54.0], [])]:
    found = audit(private_mean, more, fewer, epsilon=1.0, n_samples=5_000, false_alarm=1e-5, rng=check_rng)
    assert not found.refuted, f"Not yet: on {more} and {fewer}, {found}"
thousand = check_rng.integers(18, 91, size=1_000)
error = np.sqrt(np.mean((private_mean(thousand, 4_000, check_rng) - thousand.mean()) ** 2))
assert error < 0.5, f"Not yet: it is private as far as the auditor sees, and its error is {error:.2f} years"
print(f"Exercise 3: right; the error is {error:.2f} years.")

# %% [markdown]
# ## Further reading
#
# Dwork, McSherry, Nissim and Smith (2006) has sensitivity and Laplace noise; Dwork and Roth (2014), chapters 2 and 3,
# is the textbook. Broken mechanisms of this kind in the zoo: `local_sensitivity_noise`, `hist_wrong_scale`,
# `gmm_replace_vs_add` (`python -m verification specimens --only gmm_replace_vs_add`).

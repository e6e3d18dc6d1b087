# %% [markdown]
# # 6. The sparse vector technique, and a zoo
#
# **Question.** A hospital watches its admissions for a thousand days and wants to raise an alarm on the first day with
# an outbreak. A thousand noisy numbers would cost a thousand times the budget. Can it pay for the alarm alone?
#
# **Guarantee.** `first_above` is $\varepsilon$-differentially private with $\varepsilon = 1$ for adding or removing one
# patient-day, however many days it watches (in real arithmetic). Its cousins from the zoo claim the same, and most of
# them are wrong.
#
# **Running time.** Half a minute. The admissions are simulated.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np

from verification import audit
from verification.specimens import all_specimens

QUICK = "QUICK" in os.environ  # small runs
n_samples = 4_000 if QUICK else 50_000  # of an audit
rng = np.random.default_rng(6)

# %% [markdown]
# ## One noisy threshold, many noisy days
#
# The sparse vector technique adds noise to the threshold *once* and to every day's count, says nothing while the counts
# are below, and stops at the first one above:

# %%
EPSILON = 1.0


def first_above(counts, n_samples, rng, *, threshold=0.5, epsilon=EPSILON):
    """Place of the first count above the threshold, noise on both; len(counts) if none is. Counts move by 1 at most."""
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon, size=(n_samples, 1))
    noisy_counts = counts + rng.laplace(scale=4 / epsilon, size=(n_samples, len(counts)))
    above = noisy_counts >= noisy_threshold
    return np.where(above.any(axis=1), above.argmax(axis=1), len(counts))


days = 1_000
admissions = rng.poisson(40, size=days).astype(float)
admissions[700:710] += [20, 45, 70, 90, 95, 90, 70, 50, 30, 15]  # the outbreak
alarms = first_above(admissions, 2_000, rng, threshold=100.0)
every_day = admissions + rng.laplace(scale=days / EPSILON, size=(2_000, days))  # each day pays a thousandth
naive = (every_day >= 100.0).argmax(axis=1)

fig, axes = plt.subplots(1, 2, figsize=(9, 3.2))
axes[0].plot(admissions, linewidth=0.6)
axes[0].axhline(100, color="black", linestyle="--", linewidth=1, label="threshold")
axes[0].set(xlabel="day", ylabel="admissions")
axes[0].legend(loc="upper left")
edges = np.linspace(0, 1_000, 41)
axes[1].hist(alarms, edges, weights=np.full(2_000, 1 / 2_000), alpha=0.6, label="sparse vector")
axes[1].hist(naive, edges, weights=np.full(2_000, 1 / 2_000), alpha=0.6, label="every day, a thousandth each")
axes[1].set(xlabel="day of the alarm", ylabel="share of runs")
axes[1].legend(loc="center")
fig.tight_layout()
plt.show()

share = np.mean((alarms >= 700) & (alarms < 710))
print(f"the alarm comes during the outbreak in {share:.0%} of runs; naively on day {np.median(naive):.0f}")
assert share > 0.9

# %% [markdown]
# Why is silence free? Say that one patient moves every count by at most 1. Take an output "nothing up to day 703, then
# the alarm". Compare each run with the one in which the noise on the threshold is larger by 1: then *all* days below
# stay below, a thousand of them as well as one, which costs $e^{\varepsilon/2}$ once. The day of the alarm needs noise
# that is larger by 2, which costs $e^{\varepsilon/2}$ again. That is all the output says, so
# $\varepsilon/2 + \varepsilon/2$.
#
# Every word counts: the noise on the threshold is shared, the counts have noise of their own, there is *one* alarm, and
# what is released is its *day*. Over twenty years people have published variants that leave out one of these words.
# Lyu, Su and Li (2017) sorted them out; the zoo of this package keeps them alive. It knows the exact density of every
# specimen, which the auditor may use (`log_density=`) instead of learning what tells two data sets apart.

# %%
zoo = {specimen.name: specimen for specimen in all_specimens()}
print(
    f"{sum(s.broken for s in zoo.values())} broken mechanisms, {sum(not s.broken for s in zoo.values())} sound ones\n"
)


def certified(specimen, n_samples):
    """The audit of a specimen, with its exact density in place of a learned score."""
    return audit(
        specimen.mechanism,
        specimen.x,
        specimen.x_neighbour,
        epsilon=specimen.epsilon,
        delta=specimen.delta,
        log_density=specimen.log_density,
        n_samples=n_samples,
        false_alarm=1e-3,  # there are many of them, and all are to be right
        rng=np.random.default_rng(1),
    )


n_exact = 20_000 if QUICK else 100_000  # nothing is learned, so runs are cheap
print(f"{'specimen':<17}{'claimed':>8}{'true':>7}{'certified':>11}  origin")
for name in ("svt_ok", "svt_noisy_value", "svt_no_qnoise", "svt_no_cutoff"):
    s = zoo[name]
    found = certified(s, n_exact)
    verdict = "refuted" if found.refuted else "not refuted"
    print(f"{name:<17}{s.epsilon:>8g}{s.true_epsilon:>7.2f}{found.epsilon_lower:>11.2f}  {s.origin}: {verdict}")
    assert found.refuted == s.broken

# %% [markdown]
# - `svt_noisy_value` also publishes the noisy count that gave the alarm. It bounds the noisy threshold from above, and
#   the argument about raising the threshold breaks.
# - `svt_no_qnoise` has noise on the threshold alone, so two days can be put in order with certainty.
# - `svt_no_cutoff` goes on after the first alarm, at no extra noise.
#
# ## Seeing it on two days
#
# Two counts, $(1, 0)$ in one data set and $(0, 1)$ in the other, threshold $\tfrac12$: each count differs by 1. How
# often do the four patterns of answers come out?

# %%
n_runs = 5_000 if QUICK else 100_000
first, second = np.array([1.0, 0.0]), np.array([0.0, 1.0])
patterns = ["no, no", "no, yes", "yes, no", "yes, yes"]
shares = {}

fig, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True)
for ax, name in zip(axes, ("svt_no_qnoise", "svt_no_cutoff"), strict=True):
    for counts, shift in ((first, -0.2), (second, 0.2)):
        answers = zoo[name].mechanism(counts, n_runs, rng).astype(int)
        shares[name, shift] = np.bincount(2 * answers[:, 0] + answers[:, 1], minlength=4) / n_runs
        ax.bar(np.arange(4) + shift, shares[name, shift], 0.4, label=f"counts {counts.astype(int)}")
    ax.set(xticks=range(4), xticklabels=patterns, title=name)
axes[0].set(ylabel="share of runs")
axes[1].legend()
fig.tight_layout()
plt.show()

assert shares["svt_no_qnoise", -0.2][1] == 0 and shares["svt_no_qnoise", -0.2][2] > 0.1  # "no, yes" cannot happen

# %% [markdown]
# Without noise on the counts a larger count cannot be "below" when a smaller one is "above": one pattern has
# probability zero in one data set and a fifth in the other. No $\varepsilon$ at all. Without a cut-off, no pattern is
# impossible and two days look harmless. The damage grows with the number of days:

# %%
sizes = (1, 2, 3, 4, 5)  # pairs of days
bounds = {"svt_no_cutoff": [], "svt_ok": []}
for pairs in sizes:
    x = np.repeat([1.0, 0.0], pairs)
    for name, values in bounds.items():
        s = zoo[name]
        found = audit(s.mechanism, x, 1 - x, epsilon=1.0, log_density=s.log_density, n_samples=n_exact, rng=rng)
        values.append(found.epsilon_lower)

fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for name, values in bounds.items():
    ax.plot(2 * np.array(sizes), values, "o-", label=name)
ax.axhline(1, color="black", linestyle="--", linewidth=1, label="claimed by both")
ax.set(xlabel="days", ylabel=r"certified lower bound of $\varepsilon$")
ax.legend()
plt.show()
assert max(bounds["svt_ok"]) <= 1 < bounds["svt_no_cutoff"][-1]

# %% [markdown]
# ## A walk through the zoo
#
# Each specimen has a claim, a pair of neighbours on which it shows its true nature, and the true $\varepsilon$ there,
# computed exactly. Some faults are one wrong number; some sit in code that looks harmless.

# %%
CAGES = {
    "laplace_half": "half the noise",
    "hist_wrong_scale": "scale epsilon for 1/epsilon",
    "rr_bias": "randomised response, biased coins",
    "rnm_value": "noisy maximum with its value",
    "expmech_no_half": "exponential mechanism, factor 2 lost",
    "redrawn_nonnegative": "draws again until a count is not negative",
    "domain_from_data": "counts of the keys that occur",
    "noise_reuse": "one draw of noise for two counts",
    "svt_no_cutoff": "sparse vector without cut-off",
    "laplace_integer": "integers, sound",
    "noisy_max_exp_index": "noisy maximum, its index, sound",
    "expmech_half": "exponential mechanism, sound",
}
walk = {name: certified(zoo[name], n_exact) for name in CAGES}

fig, ax = plt.subplots(figsize=(8, 4.2))
LARGEST = 8.0  # where the picture ends
for row, (name, found) in enumerate(reversed(walk.items())):
    s = zoo[name]
    ax.barh(row, min(found.epsilon_lower, LARGEST), color="C3" if found.refuted else "C2", alpha=0.7)
    ax.plot([s.epsilon] * 2, [row - 0.4, row + 0.4], color="black", linewidth=2)
    ax.plot(min(s.true_epsilon, LARGEST), row, ">" if s.true_epsilon > LARGEST else "o", color="black", markersize=5)
ax.set(yticks=range(len(CAGES)), yticklabels=list(reversed(CAGES.values())), xlim=(0, LARGEST + 0.2))
ax.set(xlabel=r"$\varepsilon$: line claimed, dot true (arrow: none), bar certified")
fig.tight_layout()
plt.show()

for name, found in walk.items():
    assert (
        found.epsilon_lower <= zoo[name].true_epsilon
    )  # a certified bound is wrong in one audit of 20, not with this seed
    assert found.refuted <= zoo[name].broken
assert sum(found.refuted for found in walk.values()) >= 8

# %% [markdown]
# A bar that ends before the dot is what certification costs: finitely many runs, and an error probability of one in a
# thousand. A green bar is not a certificate of privacy. The auditor sees only the pair that it was
# given. `rnm_value`, for example, on a pair that does not hurt it:

# %%
s = zoo["rnm_value"]
harmless = audit(s.mechanism, np.zeros(5), np.eye(5)[0], epsilon=1.0, n_samples=n_samples, rng=rng)
print(f"one of five counts differs: epsilon is at least {harmless.epsilon_lower:.2f}")
print(f"all of them differ:         epsilon is at least {walk['rnm_value'].epsilon_lower:.2f}")
print("looked for:", "; ".join(harmless.looked_for))
assert not harmless.refuted

# %% [markdown]
# ## Exercises
#
# **Exercise 1.** You attack. `watch_week` answers for seven counts, threshold $\tfrac12$, each with fresh noise of
# scale 2, threshold noise of scale 2, and claims $\varepsilon = 1$. Find two data sets whose counts differ by 1 at
# most, on each day, for which the auditor certifies 1.5.

# %% tags=["exercise"]


def watch_week(counts, n_samples, rng):
    """Seven answers above or below."""
    thresholds = 0.5 + rng.laplace(scale=2, size=(n_samples, 1))
    return (counts + rng.laplace(scale=2, size=(n_samples, 7)) >= thresholds).astype(float)


mine = [0, 0, 0, 0, 0, 0, 0]
neighbour = [1, 0, 0, 0, 0, 0, 0]

# %% tags=["hide-cell", "solution"]
mine = [1, 1, 1, 0, 0, 0, 0]  # some counts rise while others fall, so that no move of the threshold makes up for it
neighbour = [0, 0, 0, 1, 1, 1, 1]

# %% tags=["check"]
assert np.shape(mine) == np.shape(neighbour) == (7,), "Not yet: seven counts each"
apart = np.abs(np.subtract(mine, neighbour)).max()
assert apart <= 1, f"Not yet: some count differs by {apart}"
found = audit(
    watch_week, np.array(mine), np.array(neighbour), epsilon=1.0, n_samples=30_000, rng=np.random.default_rng(7)
)
assert found.epsilon_lower >= 1.5, f"Not yet: on your pair epsilon is at least {found.epsilon_lower:.2f}"
print(f"Exercise 1: right; epsilon is at least {found.epsilon_lower:.2f}.")

# %% [markdown]
# **Exercise 2.** Four programs publish one count, to which one patient contributes 1, at $\varepsilon = 1$. Which are
# private? Think first, then audit them (say, on counts 0 and 1).

# %% tags=["exercise"]


def program_a(count, n_samples, rng):
    """Noise; negative results are set to 0."""
    return np.maximum(0, count + rng.laplace(size=n_samples))


def program_b(count, n_samples, rng):
    """Noise, drawn again until the result is not negative."""
    results = count + rng.laplace(size=n_samples)
    while (negative := results < 0).any():
        results[negative] = count + rng.laplace(size=negative.sum())
    return results


def program_c(count, n_samples, rng):
    """Noise whose scale is itself random, from 1 to 2, and is published."""
    scale = rng.uniform(1, 2, size=n_samples)
    return np.column_stack([scale, count + rng.laplace(scale=scale)])


def program_d(count, n_samples, rng):
    """Noise; but a count of 0 is nobody's secret, and is published as it is."""
    return np.where(count == 0, 0.0, count + rng.laplace(size=n_samples))


private = {"a": None, "b": None, "c": None, "d": None}  # True or False

# %% tags=["hide-cell", "solution"]
private = {
    "a": True,  # whatever is done to a private number without looking at the records keeps its guarantee
    "b": False,  # how often one draws again depends on the count: the law is divided by a probability that moves
    "c": True,  # given the scale it is Laplace noise of at least 1, and the scale knows nothing
    "d": False,  # an output of 0 has probability 1 from 0 and none from 1
}

# %% tags=["check"]
given = [private[name] for name in "abcd"]
assert all(isinstance(answer, bool | np.bool_) for answer in given), "Not yet: True or False for each of the four"
right = 0
for name, program in zip("abcd", (program_a, program_b, program_c, program_d), strict=True):
    found = audit(program, 0, 1, epsilon=1.0, n_samples=10_000, false_alarm=1e-5, rng=np.random.default_rng(8))
    right += private[name] == (not found.refuted)
assert right == 4, f"Not yet: {right} of 4 agree with the auditor"
print("Exercise 2: right.")

# %% [markdown]
# **Exercise 3.** Write `first_three`, which finds up to three days above the threshold at $\varepsilon = 1$ in all, and
# returns an array of shape (runs, 3) with `len(counts)` where there are no more. Composition will do: each search pays
# a third and starts after the last find. The check wants it to find days that stick out, looks at its noise, and
# audits it.

# %% tags=["exercise"]


def first_three(counts, n_samples, rng):
    """Up to three places, threshold 1/2."""
    thresholds = 0.5 + rng.laplace(scale=2, size=(n_samples, 1))
    order = np.argsort(counts < thresholds, axis=1, kind="stable")[:, :3]  # those above come first
    return np.where(np.take_along_axis(counts >= thresholds, order, axis=1), order, len(counts))


# %% tags=["hide-cell", "solution"]


def first_three(counts, n_samples, rng):
    """Three searches at a third of the budget each, with all noise drawn afresh."""
    found = np.full((n_samples, 3), len(counts))
    start = np.zeros((n_samples, 1), dtype=int)
    for search in range(3):
        thresholds = 0.5 + rng.laplace(scale=6, size=(n_samples, 1))
        noisy = counts + rng.laplace(scale=12, size=(n_samples, len(counts)))
        above = (noisy >= thresholds) & (np.arange(len(counts)) >= start)
        found[:, search] = np.where(above.any(axis=1), above.argmax(axis=1), len(counts))
        start = found[:, [search]] + 1
    return found


# %% tags=["check"]
check_rng = np.random.default_rng(9)
easy = np.full(12, -200.0)
easy[[2, 5, 9]] = 200.0
hits = np.mean(np.all(first_three(easy, 2_000, check_rng) == [2, 5, 9], axis=1))
assert hits > 0.95, f"Not yet: three days that stick out by 200 are found in {hits:.0%} of runs"
hard = np.full(12, -200.0)
hard[4] = 12.5
missed = np.mean(first_three(hard, 4_000, check_rng)[:, 0] == 12)
assert missed > 0.08, f"Not yet: a day that is 12 above is missed in {missed:.1%} of runs; a third has more noise"
for x in (np.repeat([1.0, 0.0], 6), np.tile([0.0, 0.0, 0.0, 1.0], 3)):
    found = audit(first_three, x, 1 - x, epsilon=1.0, n_samples=10_000, false_alarm=1e-5, rng=check_rng)
    assert not found.refuted, f"Not yet: {found}"
print("Exercise 3: right.")

# %% [markdown]
# ## Further reading
#
# Dwork, Naor, Reingold, Rothblum and Vadhan (2009) have the idea; Lyu, Su and Li (2017) the variants. All specimens:
# `python -m verification specimens`. `verification.auditing.worst_pair` searches for the pair that hurts most.

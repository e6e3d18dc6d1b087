# %% [markdown]
# # 1. Randomised response and its audit
#
# **Question.** You want to know how many of your students have copied in an exam. Nobody will say so to your face.
# Can everybody answer, so that you learn the share, and yet no answer ever proves anything about anyone?
#
# **Guarantee.** Every answer that leaves a student here is $\varepsilon$-differentially private with
# $\varepsilon = \ln 3$, before anybody collects it (local privacy). Where the text breaks the protocol on purpose, it
# says so.
#
# **Running time.** Half a minute. The students are simulated.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from verification import audit

QUICK = "QUICK" in os.environ  # small runs: a rehearsal of the notebook, not its figures
rng = np.random.default_rng(1)  # for teaching; whoever knows the seed of a real survey knows the coins

# %% [markdown]
# ## The protocol: two coins
#
# Each student tosses a coin that nobody else sees. Heads: answer truthfully. Tails: toss again, and say *yes* on heads
# and *no* on tails, whatever the truth is. A *yes* may now be a fact or a coin.

# %%
YES, NO = 1, 0


def respond(truth, n_samples, rng):
    """Answers of students whose truth is `truth`: one number for all, or an array with one for each."""
    truthful = rng.integers(2, size=n_samples) == 1
    second_coin = rng.integers(2, size=n_samples)
    return np.where(truthful, truth, second_coin)


print("ten students who copied answer    ", respond(YES, 10, rng))
print("ten students who did not answer   ", respond(NO, 10, rng))

# %% [markdown]
# A student who copied says *yes* with probability $\tfrac12 + \tfrac12\cdot\tfrac12 = \tfrac34$, one who did not with
# probability $\tfrac14$. Whatever the answer, the two truths make it more or less probable by a factor of 3 at most.
# That factor is what differential privacy bounds. A mechanism $M$ is $\varepsilon$-differentially private if for all
# neighbouring data $x, x'$ and every set $S$ of outputs
#
# $$\Pr[M(x) \in S] \;\le\; e^{\varepsilon}\, \Pr[M(x') \in S].$$
#
# Here the data are one truth, its only neighbour is the other truth, and $e^\varepsilon = 3$.

# %%
epsilon = np.log(3)
chance_of_yes = {YES: 3 / 4, NO: 1 / 4}
print(f"epsilon = {epsilon:.4f}")

# %% [markdown]
# ## What an answer proves
#
# Say that somebody believes, before you answer, that you copied with probability $q$. By Bayes' rule your answer
# multiplies his odds $q/(1-q)$ by 3 or by $1/3$, and by nothing in between: the guarantee is a bound on how far
# *anybody's* opinion of you can move, whatever he knew before. It does not say that opinions stay where they are.

# %%
prior = np.linspace(0.001, 0.999, 400)
odds = prior / (1 - prior)
after_yes, after_no = 3 * odds / (1 + 3 * odds), odds / 3 / (1 + odds / 3)

fig, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.fill_between(prior, after_no, after_yes, alpha=0.15, color="black", label=r"all that $\varepsilon = \ln 3$ allows")
ax.plot(prior, after_yes, label="after a yes")
ax.plot(prior, after_no, label="after a no")
ax.plot(prior, prior, color="black", linewidth=1, linestyle=":", label="no answer")
ax.set(xlabel="believed before: you copied", ylabel="believed after")
ax.legend()
plt.show()

suspicion = np.interp(0.2, prior, after_yes)
print(f"a suspicion of 20 % becomes {suspicion:.0%} after a yes, {np.interp(0.2, prior, after_no):.0%} after a no")
assert abs(suspicion - 3 / 7) < 1e-3  # odds of 1/4, times 3

# %% [markdown]
# ## What the lecturer learns
#
# If the share $p$ of the class copied, a share $\tfrac14 + \tfrac{p}{2}$ is expected to say *yes*. Turn that around:
#
# $$\hat p = 2 \bar y - \tfrac12, \qquad
#   \operatorname{sd}(\hat p) = 2\,\sqrt{\frac{\bar y_0 (1 - \bar y_0)}{n}}, \quad \bar y_0 = \tfrac14 + \tfrac p2 .$$
#
# The estimate has no bias and a larger spread. With 300 students of whom a fifth copied:

# %%
n_students, share = 300, 0.2
n_classes = 500 if QUICK else 5_000

truths = (rng.random((n_classes, n_students)) < share).astype(int)  # a different class each time
answers = respond(truths, truths.shape, rng)
estimates = 2 * answers.mean(axis=1) - 0.5

expected_yes = 0.25 + share / 2
predicted_sd = 2 * np.sqrt(expected_yes * (1 - expected_yes) / n_students)
honest_sd = np.sqrt(share * (1 - share) / n_students)  # if all of them had told the truth
print(f"standard deviation of the estimate: {estimates.std():.4f}, predicted {predicted_sd:.4f}")
lost = 1 - (honest_sd / predicted_sd) ** 2
print(f"if all had told the truth: {honest_sd:.4f}; the coins cost as much as losing {lost:.0%} of the students")
assert abs(estimates.std() / predicted_sd - 1) < 0.15  # 4.7 standard errors of the spread of 500 classes

fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
bins = (np.arange(0, 69, 2) - 0.5) / 150  # estimates are multiples of 1/150
ax.hist(truths.mean(axis=1), bins, density=True, alpha=0.5, label="everybody tells the truth")
ax.hist(estimates, bins, density=True, alpha=0.5, label="two coins")
ax.axvline(share, color="black", linestyle="--", linewidth=1, label="true share")
ax.set(xlabel="estimated share of students who copied", ylabel="density over classes")
ax.legend()
plt.show()

# %% [markdown]
# The answers of 300 students with coins are worth those of 53 without. Local privacy is bought with sample size: a
# university with 20,000 students would hardly notice. Some estimates are below 0; they are kept as they are if one
# wants to average them over classes, since cutting them off at 0 gives a bias.
#
# ## Is it true? An audit by hand
#
# The proof took one line. Code is another matter. Run it many times on each of two neighbours and count: the true
# chances lie in exact binomial intervals, so their ratio, and with it $\varepsilon$, has a certified lower bound.

# %%
n_runs = 10_000
yes_of = {truth: int(respond(truth, n_runs, rng).sum()) for truth in (YES, NO)}
interval = {truth: stats.binomtest(count, n_runs).proportion_ci(0.975) for truth, count in yes_of.items()}
by_hand = np.log(interval[YES].low / interval[NO].high)  # 5 % of error, shared between two intervals
print(f"yes in {yes_of[YES]:,} and {yes_of[NO]:,} of {n_runs:,} runs: epsilon is at least {by_hand:.3f}")

# %% [markdown]
# This worked because we knew which event to count. `audit` does the same for a mechanism that it has never seen: it
# flips a coin for every run, learns from some of the runs what tells the two data sets apart, guesses the coins of the
# others, and turns the number of right guesses into a bound that is wrong with probability 5 % at most. The claim goes
# in as `epsilon`.

# %%
n_samples = 10_000 if QUICK else 200_000
result = audit(respond, YES, NO, epsilon=epsilon, n_samples=n_samples, rng=rng)
print(result)
assert not result.refuted  # the claim holds: an audit refutes it with probability 0.05, and this seed does not
assert 0.9 < result.epsilon_lower <= epsilon

# %% [markdown]
# "No violation found" is not a proof: an audit of *these* neighbours with *these* runs saw nothing. That is why it also
# says how large a violation it would have caught. (Here there is only one pair of neighbours, so for once an audit
# looks at everything there is.)
#
# ## Two ways to spoil it
#
# **Forced yes.** "Heads: the truth. Tails: say yes." This saves a coin, and a *yes* is still deniable. But a *no*? Only
# those who did not copy can say it, so whoever does not say *no* is under suspicion, and every *no* is a proof.
#
# **Ask again.** The app asks every student twice, with fresh coins, "to be more precise".

# %%


def forced_yes(truth, n_samples, rng):
    """Heads: the truth. Tails: yes."""
    truthful = rng.integers(2, size=n_samples) == 1
    return np.where(truthful, truth, YES)


def asked_twice(truth, n_samples, rng):
    """Two answers of the same student, each with coins of its own."""
    return np.column_stack([respond(truth, n_samples, rng), respond(truth, n_samples, rng)])


for mechanism in (forced_yes, asked_twice):
    result = audit(mechanism, YES, NO, epsilon=epsilon, n_samples=n_samples, rng=rng)
    print(f"{mechanism.__name__}: {result}")
    assert result.refuted

# %% [markdown]
# Two answers multiply the odds by up to $3 \cdot 3$: the true value is $2 \ln 3 = 2.197$, and it is the beginning of
# composition (tutorial 4). The forced yes has no finite $\varepsilon$ at all: an audit of finitely many runs can only
# say "at least so much", the more the more runs it has.

# %%
sizes = np.array([300, 1_000, 3_000] if QUICK else [300, 1_000, 3_000, 10_000, 30_000, 100_000])
names = {respond: "two coins", asked_twice: "asked twice", forced_yes: "forced yes"}
bounds = {
    mechanism: [
        audit(mechanism, YES, NO, epsilon=epsilon, n_samples=int(size), rng=np.random.default_rng(2)).epsilon_lower
        for size in sizes
    ]
    for mechanism in names
}

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for mechanism, name in names.items():
    ax.semilogx(sizes, bounds[mechanism], "o-", label=name)
ax.axhline(epsilon, color="black", linestyle="--", linewidth=1, label=r"claimed: $\ln 3$")
ax.axhline(2 * epsilon, color="black", linestyle=":", linewidth=1, label=r"asked twice in truth: $2\ln 3$")
ax.set(xlabel="runs of the mechanism", ylabel=r"certified lower bound of $\varepsilon$")
ax.legend()
plt.show()

assert max(bounds[respond]) <= epsilon
assert max(bounds[asked_twice]) <= 2 * epsilon

# %% [markdown]
# A faulty mechanism need not be run so often. With `sequential=True` the audit bets on every run as it comes and stops
# as soon as it has won enough; stopping early costs no validity.

# %%
result = audit(asked_twice, YES, NO, epsilon=epsilon, sequential=True, n_samples=20_000, rng=np.random.default_rng(3))
print(result)
assert result.refuted and result.n_samples < 20_000

# %% [markdown]
# ## Exercises
#
# Each has a cell to edit, a solution that is folded away (in notebooks handed out without solutions: none), and a
# check. Delete the solution, or edit it, before you run the check: the definition that stands last counts.
#
# **Exercise 1.** Two fair coins give $\varepsilon = \ln 3$. With what probability $t$ must the truth be told (and its
# contrary otherwise) for the answer to be $\varepsilon$-differentially private, and no more private than that?

# %% tags=["exercise"]


def truth_probability(epsilon):
    """The largest probability of a true answer that epsilon allows."""
    return 0.5  # private, and useless


# %% tags=["hide-cell", "solution"]


def truth_probability(epsilon):
    """t / (1 - t) = exp(epsilon), solved for t."""
    return 1 / (1 + np.exp(-epsilon))


# %% tags=["check"]
for value, right in {np.log(3): 0.75, 1.0: 0.7310586, 0.1: 0.5249792, 5.0: 0.9933071}.items():
    given = truth_probability(value)
    assert abs(given - right) < 1e-6, f"Not yet: at epsilon = {value:.4g} you tell the truth with {given:.6g}"
print("Exercise 1: right.")

# %% [markdown]
# **Exercise 2.** How many students does the lecturer need for a standard error of 0.02 if about a fifth copied, with
# two coins? (The smallest number; the formula for the standard deviation stands above.)

# %% tags=["exercise"]
students_needed = 400  # enough without privacy

# %% tags=["hide-cell", "solution"]
students_needed = int(np.ceil(4 * 0.35 * 0.65 / 0.02**2))  # n = 4 y (1 - y) / 0.02^2 with y = 1/4 + 0.2/2

# %% tags=["check"]
error = 2 * np.sqrt(0.35 * 0.65 / students_needed)
assert error <= 0.02 * (1 + 1e-9), f"Not yet: with {students_needed} students the standard error is {error:.6f}"
assert students_needed <= 2_276, f"Not yet: {students_needed} is more than it takes"
print("Exercise 2: right.")

# %% [markdown]
# **Exercise 3.** "How often did you copy: never, once, twice, more?" Write randomised response for four answers
# 0, 1, 2, 3 at $\varepsilon = 1$: the truth with probability $e^\varepsilon / (e^\varepsilon + 3)$, else one of the
# other three, each as probable as the others. The check audits your code, on all pairs of truths.

# %% tags=["exercise"]


def respond_of_four(truth, n_samples, rng):
    """`n_samples` answers, each from 0 to 3, of students whose truth is `truth`."""
    return np.full(n_samples, truth)  # no privacy at all


# %% tags=["hide-cell", "solution"]


def respond_of_four(truth, n_samples, rng):
    """The truth moved on by 1, 2 or 3 places, around the circle of four answers, unless it is told."""
    truthful = rng.random(n_samples) < np.e / (np.e + 3)
    return np.where(truthful, truth, (truth + rng.integers(1, 4, size=n_samples)) % 4)


# %% tags=["check"]
check_rng = np.random.default_rng(4)
runs = respond_of_four(2, 40_000, check_rng)
assert np.shape(runs) == (40_000,), f"Not yet: 40,000 answers were asked for, you give shape {np.shape(runs)}"
assert np.isin(runs, range(4)).all(), "Not yet: answers must be 0, 1, 2 or 3"
for answer, right in enumerate(np.array([1, 1, np.e, 1]) / (np.e + 3)):
    found = np.mean(runs == answer)  # a right answer is off by five standard errors once in a million checks
    assert abs(found - right) < 5 * np.sqrt(right * (1 - right) / 40_000), (
        f"Not yet: of those whose truth is 2, {found:.3f} answer {answer}, where it should be {right:.3f}"
    )
for truth, other in [(a, b) for a in range(4) for b in range(a)]:
    found = audit(respond_of_four, truth, other, epsilon=1.0, false_alarm=1e-5, n_samples=4_000, rng=check_rng)
    assert not found.refuted, f"Not yet: between truths {truth} and {other}, {found}"
print("Exercise 3: right, and the auditor agrees.")

# %% [markdown]
# ## Further reading
#
# Warner (1965) proposed randomised response for surveys, forty years before the definition that makes sense of it:
# Dwork, McSherry, Nissim and Smith (2006). Guessing coins as an audit is Steinke, Nasr and Jagielski (2023); this
# package's version, with its proof, stands in `verification/auditing/guessing.md`. The zoo of broken mechanisms has a
# randomised response with biased coins: `python -m verification specimens --only rr_bias`.

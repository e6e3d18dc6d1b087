# %% [markdown]
# # 5. A floating-point attack
#
# **Question.** The proof of Laplace noise is two lines long, the program is one. And yet a single released number,
# looked at closely, tells in a quarter of all cases which of two data sets it came from. What went wrong between proof
# and program?
#
# **Guarantee.** None for the noisy floats: that is the point. The counts with integer noise are
# $\varepsilon$-differentially private with $\varepsilon = 1$ (add-remove), bit by bit.
#
# **Running time.** Half a minute.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np

from pm_dpgmm.privacy.noise import discrete_laplace
from verification import audit

QUICK = "QUICK" in os.environ  # small runs
n_samples = 4_000 if QUICK else 40_000  # of an audit that reads bits
rng = np.random.default_rng(5)

# %% [markdown]
# ## A world of 1,024 random numbers
#
# The textbook draws $u$ uniformly from $(-\tfrac12, \tfrac12)$ and returns $-\operatorname{sgn}(u)\ln(1 - 2|u|)$, which
# has the Laplace law. Say that the computer has half precision (16 bits) and 1,024 values of $u$. Then the whole law of
# a noisy number can be written down, for the value 0 and for the value 1.

# %%


def law(value):
    """Outputs and how many of the 1,024 values of u lead there."""
    u = (np.arange(1024) + 0.5) / 1024 - 0.5
    noise = (-np.sign(u) * np.log1p(-2 * np.abs(u))).astype(np.float16)
    return np.unique(np.float16(value) + noise, return_counts=True)


def masses(outputs, value):
    """Probability of each of these outputs."""
    where, counts = law(value)
    place = np.searchsorted(where, outputs).clip(max=len(where) - 1)
    return np.where(where[place] == outputs, counts[place], 0) / 1024


fig, ax = plt.subplots(figsize=(8, 2.8), layout="constrained")
for value, colour, sign in ((0, "C0", 1), (1, "C1", -1)):
    where, counts = law(value)
    near = (where > 0.40) & (where < 0.425)
    ax.vlines(where[near], 0, sign * counts[near] / 1024, colour, label=f"from the value {value}")
ax.axhline(0, color="black", linewidth=0.5)
ax.set(xlabel="output", ylabel="probability", yticks=[], ylim=(-0.0012, 0.0019))
ax.set(title="possible outputs between 0.40 and 0.425")
ax.legend(loc="upper right")
plt.show()

possible = law(0)[0]
revealing = masses(possible, 0)[masses(possible, 1) == 0].sum()
print(f"from the value 0, an output that the value 1 cannot give comes with probability {revealing:.2f}")
assert revealing > 0.5  # nothing is random here: every case was counted

# %% [markdown]
# Two combs whose teeth rarely meet. In real numbers the two laws have densities whose ratio is at most $e$; on the
# computer they are two different sets of points. Where one set has a point and the other has none, the ratio is
# infinite. The mathematics is not to blame: the program computes something else.
#
# ## Doubles are no better
#
# With 64 bits one cannot list all outputs, but the auditor can look. As numbers, NumPy's Laplace noise passes. Read bit
# by bit (`level="bit"`), the same outputs refute the claim.

# %%


def noisy_count(count, n_samples, rng):
    """The textbook's mechanism, in doubles."""
    return count + rng.laplace(size=n_samples)


as_numbers = audit(noisy_count, 0.0, 1.0, epsilon=1.0, n_samples=n_samples, rng=rng)
as_bits = audit(noisy_count, 0.0, 1.0, epsilon=1.0, n_samples=n_samples, level="bit", rng=rng)
print(f"as numbers: refuted: {as_numbers.refuted}, epsilon is at least {as_numbers.epsilon_lower:.2f}")
print(f"as bits:    refuted: {as_bits.refuted}, epsilon is at least {as_bits.epsilon_lower:.2f}")
assert as_bits.refuted and not as_numbers.refuted

# %% [markdown]
# ## The attack, by hand
#
# A double is a 53-bit integer times a power of two, $m \cdot 2^e$, and the smaller the number, the finer its grid. Take
# an output $y$ between 0 and $\tfrac12$.
#
# - If the value was 0, then $y$ is the noise itself, and may lie on a grid as fine as $2^{-54}$ or finer.
# - If it was 1, then $y = 1 + z$ with noise $z$ between $-1$ and $-\tfrac12$. Such doubles are multiples of $2^{-53}$,
#   and so is $y$: adding 1 has cost the last bits.
#
# So look at the last bit that is set. In the picture the value 1 has a cliff at $2^{-53}$.

# %%


def last_bit(y):
    """Exponent of the lowest bit that is set in each double."""
    fraction, exponent = np.frexp(y)
    integer = (np.abs(fraction) * 2.0**53).astype(np.int64)
    return exponent - 53 + np.log2(integer & -integer).astype(int)


outputs = {value: noisy_count(value, 100_000, rng) for value in (0.0, 1.0)}

fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
edges = np.arange(-60.5, -45)
for value, y in outputs.items():
    small = y[np.abs(y) < 1]
    ax.hist(last_bit(small), edges, density=True, alpha=0.5, label=f"from the value {value:g}")
ax.axvline(-53.5, color="black", linestyle="--", linewidth=1)
ax.set(xlabel="exponent of the last bit that is set, of outputs between -1 and 1", ylabel="share")
ax.legend()
plt.show()

caught = np.mean(last_bit(outputs[0.0]) < -53)
wrong = np.mean(last_bit(outputs[1.0]) < -53)
print(f"a bit below 2^-53: {caught:.1%} of outputs from 0, {wrong:.1%} of those from 1")
assert wrong == 0  # a matter of arithmetic, not of luck
assert caught > 0.2

# %% [markdown]
# An attacker who sees such a bit *knows* that the value was 0. So $\delta$ is above 0.27 for every $\varepsilon$. It
# takes one output, no averaging, and no weakness of the random numbers: with perfect uniform numbers it works as well.
#
# What does **not** help: more bits (the grid gets finer for both), a secret seed, drawing two noises, a better
# logarithm. What helps is that outputs of *all* data sets lie on *one* grid, and that the probabilities on this grid
# are right.
#
# ## Integers
#
# A count is an integer, so let the noise be one: $\Pr[z] \propto e^{-|z|/b}$. Sums of integers are exact, every integer
# is possible from every count, and the proof of tutorial 2 holds word for word, with sums in place of integrals.

# %%


def integer_count(count, n_samples, rng):
    """Count plus discrete Laplace noise of scale 1."""
    return count + discrete_laplace(n_samples, scale=1.0, rng=rng)


result = audit(integer_count, 0, 1, epsilon=1.0, n_samples=n_samples, level="bit", rng=rng)
print(f"integers as bits: refuted: {result.refuted}, epsilon is at least {result.epsilon_lower:.2f}")
assert not result.refuted

z = np.arange(-6, 8)
pmf = {value: np.tanh(0.5) * np.exp(-np.abs(z - value)) for value in (0, 1)}
fig, ax = plt.subplots(figsize=(8, 2.8), layout="constrained")
ax.bar(z - 0.2, pmf[0], 0.4, label="from the count 0")
ax.bar(z + 0.2, pmf[1], 0.4, label="from the count 1")
ax.set(xlabel="output", ylabel="probability", title="one grid for both: ratios are $e$ or $1/e$")
ax.legend()
plt.show()
assert np.allclose(np.abs(np.log(pmf[0] / pmf[1])), 1)

# %% [markdown]
# With `rng=None`, `discrete_laplace` draws from OpenDP's exact sampler with the operating system's randomness: it never
# uses a logarithm. That is what every release of this package does. With a generator, as here, it is a simulation: who
# knows the seed knows the noise, so a release made with one is marked `NOT PRIVATE`.
#
# A number that is not an integer gets a grid first: money in cents, blood pressure in tenths. Rounding each *record*
# to a public grid is part of the query, and the sum of grid points is exact. Rounding the *output* of a float
# mechanism, say to two decimals, hides the low bits, and an audit may pass:

# %%


def rounded_afterwards(count, n_samples, rng):
    """Float noise, rounded to 1/64 at the end."""
    return np.round(noisy_count(count, n_samples, rng) * 64) / 64


result = audit(rounded_afterwards, 0.0, 1.0, epsilon=1.0, n_samples=n_samples, level="bit", rng=rng)
print(f"rounded afterwards: refuted: {result.refuted}, epsilon is at least {result.epsilon_lower:.2f}")
assert not result.refuted

# %% [markdown]
# That is much better, and still not $\varepsilon = 1$: the probabilities of grid points are off by what the sampler
# rounds. That is little in the middle, but far out the largest noise it can ever give is some $\ln 2^{53} \approx 37$,
# and the value 1 reaches points that the value 0 does not. A pass is not a proof. With integers there is a proof.
#
# ## Exercises
#
# **Exercise 1.** Write the attacker for $\{0, 1\}$ and NumPy's noise: 0 where the value must have been 0, NaN where you
# do not know. Never be wrong, and speak in at least a quarter of the cases in which the value was 0.

# %% tags=["exercise"]


def attacker(y):
    """0.0 or NaN for each output."""
    return np.where(y < -5, 0.0, np.nan)  # far to the left it was probably 0


# %% tags=["hide-cell", "solution"]


def attacker(y):
    """No output of the value 1 has a bit below 2^-53."""
    multiples = y * 2.0**53  # exact: only the exponent changes
    return np.where(multiples == np.round(multiples), np.nan, 0.0)


# %% tags=["check"]
check_rng = np.random.default_rng(6)
said = attacker(1.0 + check_rng.laplace(size=200_000))
assert np.isnan(said).all(), f"Not yet: {np.sum(~np.isnan(said))} of 200,000 outputs of the value 1 were taken for 0"
said = attacker(check_rng.laplace(size=200_000))
assert np.mean(said == 0) > 0.25, f"Not yet: of the value 0 you recognise {np.mean(said == 0):.1%}"
print(f"Exercise 1: right; you recognise {np.mean(said == 0):.1%} and are never wrong.")

# %% [markdown]
# **Exercise 2.** Repair the payroll of tutorial 2: salaries between 0 and 200.00, in thousands, as floats with two
# decimals. Release the sum in units of 0.01, as integers, at $\varepsilon = 1$ for adding or removing a person. Use
# `discrete_laplace(n_samples, scale=..., rng=rng)`.

# %% tags=["exercise"]


def integer_payroll(salaries, n_samples, rng):
    """`n_samples` noisy sums, in units of 0.01."""
    return 100 * (np.sum(salaries) + rng.laplace(scale=200.0, size=n_samples))


# %% tags=["hide-cell", "solution"]


def integer_payroll(salaries, n_samples, rng):
    """Each salary on the grid by itself, then exact sums: one unit is 0.01, so the sensitivity is 20,000."""
    units = [round(100 * min(max(salary, 0.0), 200.0)) for salary in salaries]
    return sum(units) + discrete_laplace(n_samples, scale=20_000, rng=rng)


# %% tags=["check"]
runs = integer_payroll([87.4, 60.1, 250.0], 40_000, check_rng)
assert np.issubdtype(runs.dtype, np.integer), f"Not yet: the sums are {runs.dtype}, not integers"
spread = np.std(runs) / (np.sqrt(2) * 20_000)
assert 0.95 < spread < 1.05, f"Not yet: the noise has {spread:.2f} times the standard deviation that it needs"
shift = np.median(runs) - (8_740 + 6_010 + 20_000)
assert abs(shift) < 600, f"Not yet: the sums are {shift:.0f} units off; is 250 clipped to 200?"  # six standard errors
found = audit(
    integer_payroll, [0.1] * 3 + [200.0], [0.1] * 3, epsilon=1.0, n_samples=4_000, false_alarm=1e-5, rng=check_rng
)
assert not found.refuted, f"Not yet: {found}"
print("Exercise 2: right.")

# %% [markdown]
# **Exercise 3.** In the world of 1,024 numbers everything can be computed. Write the smallest $\delta$ for which
# $(\varepsilon, \delta)$ holds of two laws given as arrays of probabilities on the same outputs (the dark area of
# tutorial 3, as a sum). What is it at $\varepsilon = 1$?

# %% tags=["exercise"]


def hockey_stick(p, q, epsilon):
    """Smallest delta with p(S) <= exp(epsilon) q(S) + delta for all S."""
    return 0.0


# %% tags=["hide-cell", "solution"]


def hockey_stick(p, q, epsilon):
    """The worst set has all outputs with p > exp(epsilon) q."""
    return np.maximum(0, p - np.exp(epsilon) * q).sum()


# %% tags=["check"]
coins = np.array([0.75, 0.25])  # randomised response, tutorial 1
assert abs(hockey_stick(coins, coins[::-1], np.log(3))) < 1e-12, "Not yet: randomised response needs no delta at ln 3"
assert abs(hockey_stick(coins, coins[::-1], 0.0) - 0.5) < 1e-12, "Not yet: at epsilon 0 it is the total variation"
outcomes = np.union1d(law(0)[0], law(1)[0])
small_world = hockey_stick(masses(outcomes, 0), masses(outcomes, 1), 1.0)
assert revealing <= small_world <= 1, "Not yet: what the other value cannot give counts in full"
print(f"Exercise 3: right; delta is {small_world:.3f} at epsilon 1, and still {revealing:.3f} at any epsilon.")

# %% [markdown]
# ## Further reading
#
# Mironov (2012) found the attack and proposed the snapping mechanism; Canonne, Kamath and Steinke (2020) sample
# discrete Gaussians exactly. `docs/what-is-protected.md` says what this package does about floats, time and seeds.

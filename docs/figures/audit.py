import matplotlib.pyplot as plt
import numpy as np

from verification import audit


def noisy_sum(data, n_samples, rng, scale=1.0):
    return np.sum(data) + rng.laplace(scale=scale, size=n_samples)


figure, ax = plt.subplots()
runs = [300, 1_000, 3_000, 10_000, 30_000]
for scale in (1.0, 0.5):  # as claimed, and half of it

    def mechanism(data, n_samples, rng, scale=scale):
        return noisy_sum(data, n_samples, rng, scale)

    found = [audit(mechanism, 1.0, 0.0, epsilon=1.0, n_samples=n, rng=np.random.default_rng(1)) for n in runs]
    ax.plot(runs, [result.epsilon_lower for result in found], "o-", label=f"true epsilon {1 / scale:g}")
ax.axhline(1.0, color="k", ls=":", lw=1, label="claimed")
ax.set(xscale="log", ylim=(0, 2.2), xlabel="runs", ylabel="certified: epsilon is at least")
ax.legend(frameon=False)

"""Figure 2: test log likelihood against the number of records, three round components in two columns."""

from __future__ import annotations

import numpy as np

from pm_dpgmm import Mixture
from pm_dpgmm._arguments import FloatArray
from verification.benchmarks.truths import disc
from verification.reproductions.experiment import Effort, Experiment, Finding, Panel, Verdict, in_order
from verification.reproductions.park.mechanisms import (
    CDP,
    EXACT,
    NONE,
    ORDER,
    OWN,
    PAIR,
    PAPER,
    STEPS,
    ZCDP,
    K,
    Task,
    collected,
    curves,
    em_mechanisms,
    em_noise,
    median_table,
    own_fit,
    sound,
)
from verification.reproductions.park.runs import em_run

REPEATS = {  # by size: data sets and starts, quick and full; runs of 1,000 records take milliseconds
    1_000: ((4, 12), (12, 20)),
    8_000: ((4, 12), (12, 20)),
    64_000: ((2, 6), (6, 20)),
    256_000: ((1, 3), (8, 8)),
}
SIZES = tuple(REPEATS)
TWO_EPSILON, TWO_DELTA, TWO_FLOOR = 0.9, 0.01, 1e-4
EARLIER = {  # medians of an earlier simulation of this project at SIZES
    NONE: (0.83, 0.75, 0.76, 0.75),
    CDP: (-0.81, 0.37, 0.756, 0.75),
    PAIR: (-1.25, -0.85, 0.19, 0.74),
    ZCDP: (0.68, 0.73, 0.76, 0.75),
    EXACT: (0.29, 0.64, 0.76, 0.75),
}


def figure_two(effort: Effort) -> Experiment:
    """Test log likelihood against the number of records, three round components in two columns."""
    tasks = [
        Task(m, n, (effort.seed, 2, n, i), effort.of(*runs), (effort.seed, 2, n, i, j))
        for n, (sets, runs) in REPEATS.items()
        for i in range(effort.of(*sets))
        for j, m in enumerate(ORDER)
    ]
    lines = collected(tasks, effort.each(figure_two_runs, tasks))
    setting = (
        "Substitute, as the paper names neither parameters nor iterations: set B of this project (weights .3 .3 .4,"
        " three round components in the unit disc), 10 iterations, random starts, 10 % test rows. Epsilon .9 and delta"
        " .01, which the paper gives to mechanisms whose epsilon is a parameter of different things; a delta above 1/N"
        " is that of publishing a record at random. Median and quartiles over sets and starts of the mean test"
        " log-density."
    )
    return Experiment(
        "park-figure-2",
        PAPER,
        "Figure 2: test log likelihood against records",
        setting,
        em_mechanisms(TWO_EPSILON, TWO_DELTA, OWN, at="", one_sided="one-sided Gamma", norm=""),
        (median_table(lines, "Median test log-density", "records"),),
        (Panel("Test log-density", "records", "nats per record", curves(lines), y_range=(-2.0, 1.0)),),
        _two_findings(lines),
    )


def figure_two_runs(task: Task) -> list[float]:
    """Mean test log-density of every run."""
    n, rng = int(task.place), np.random.default_rng(task.data)
    rows, test = disc().sample(n, rng=rng), disc().sample(max(n // 10, 100), rng=rng)
    rows, test = (x / np.maximum(1, np.linalg.norm(x, axis=1))[:, None] for x in (rows, test))
    found = []
    # starts do nothing to the package's method, only noise does
    for run in range(task.n_runs if task.mechanism != OWN else max(2, task.n_runs // 5)):
        own = np.random.default_rng((*task.seed, run))
        if task.mechanism == OWN:
            law = own_fit(
                rows,
                epsilon=TWO_EPSILON,
                delta=TWO_DELTA,
                covariance_type="spherical",
                estimate="likelihood",
                bound=1.0,
                floor=TWO_FLOOR,
                seed=int(own.integers(2**31)),
            )
        else:
            means = np.random.default_rng((*task.data, run)).uniform(-0.5, 0.5, (K, 2))  # the same for all mechanisms
            start = Mixture(np.full(K, 1 / K), means, np.tile(0.1 * np.eye(2), (K, 1, 1)))
            noise = em_noise(task.mechanism, TWO_EPSILON, TWO_DELTA)
            law = em_run(rows, start, noise, n_steps=STEPS, isotropic=True, floor=TWO_FLOOR, rng=own)
        found.append(float(law.log_density(test).mean()))
    return found


def _two_findings(lines: dict[str, tuple[FloatArray, FloatArray]]) -> tuple[Finding, ...]:
    middle = {m: y[:, 1] for m, (_, y) in lines.items()}
    printed = [(float(middle[m][0]), float(middle[m][1])) for m in (NONE, CDP, PAIR)]
    ordered = in_order([one[0] for one in printed]) and in_order([one[1] for one in printed])
    better = bool((middle[ZCDP][:2] > middle[CDP][:2]).all())
    met = [float(lines[m][1][-1, 2]) for m in (NONE, PAIR)]  # upper quartiles: some starts stick, with or without noise
    return (
        Finding(
            "order of the methods: EM, then CDP, then (epsilon, delta)",
            "at every number of records",
            "; ".join(
                f"{n:,} records: {'/'.join(f'{middle[m][i]:.2f}' for m in (NONE, CDP, PAIR))}"
                for i, n in enumerate(SIZES[:3])
            ),
            Verdict.REPRODUCES if ordered else Verdict.DIFFERS,
            ordered,
            "tested at 1,000 and 8,000; the order is that of what epsilon means: .9-zCDP by Gaussian noise is"
            f" ({sound(ZCDP, TWO_EPSILON, TWO_DELTA).guarantee.epsilon:.2f}, .01)-DP, beside (.9, .01)",
        ),
        Finding(
            "all methods meet at 256,000 records",
            "to the eye",
            f"upper quartiles: EM {met[0]:.2f}, printed (epsilon, delta) {met[1]:.2f}",
            Verdict.REPRODUCES,
            abs(met[0] - met[1]) < 0.1,
            "noise falls with the number of records; one start in twelve sticks, with noise as without",
        ),
        Finding(
            "the sound joint release is better than the printed CDP",
            "not shown",
            ", ".join(f"{n:,}: {a:.2f} and {b:.2f}" for n, a, b in zip(SIZES, middle[ZCDP], middle[CDP], strict=True)),
            Verdict.NEW,
            better,
            "one joint release of two-sided noise asks for less than 2 K + 1 releases; Gamma noise is biased upwards",
        ),
        Finding(
            "so is method em, at (.9, .01) instead of .9-zCDP",
            "not shown",
            ", ".join(f"{n:,}: {a:.2f}" for n, a in zip(SIZES, middle[OWN], strict=True)),
            Verdict.NEW,
            bool((middle[OWN][1:] > middle[CDP][1:] - 0.02).all()),
            "balls around the components, its own start and the likelihood of all sums; EM sticks from some starts",
        ),
        Finding(
            "medians of an earlier simulation",
            "; ".join(f"{m} {'/'.join(str(v) for v in EARLIER[m])}" for m in (CDP, ZCDP)),
            "; ".join(f"{m} {'/'.join(f'{v:.2f}' for v in middle[m])}" for m in (CDP, ZCDP)),
            Verdict.NEW,
            abs(float(middle[ZCDP][1]) - EARLIER[ZCDP][1]) < 0.15
            and abs(float(middle[CDP][0]) - EARLIER[CDP][0]) < 0.6,
            "the same settings with other seeds",
        ),
    )

"""How much does the auditor find, how fast, and how often is it wrong? Beside the best published auditors.

``python -m verification.benchmarks.auditors`` prints, with 200,000 runs in total and error probability 5 %:

1. certified lower bounds of epsilon, medians over seeds, beside JAX Privacy in this run (given the exact privacy loss,
   which no user has) and the best figure of any other tool, quoted from its measurement with that tool's defaults;
2. runs until a sequential audit refutes the claim, medians over seeds, beside what an oracle needs on average;
3. the zoo: which broken specimens are refuted and which are below the detection limit;
4. false alarms of twelve sound controls over many seeds, at a fixed number of runs and ever in a sequential audit.

Exit status 1 when a goal is missed. ``--quick`` takes fewer seeds; the figures of record need all: about an hour on
two cores.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from scipy import special, stats

from pm_dpgmm._arguments import FloatArray
from verification.auditing.audit import audit
from verification.auditing.outputs import log_ratio
from verification.auditing.result import AuditResult
from verification.benchmarks.jax_privacy import compare
from verification.profile import privacy_profile
from verification.specimens import Specimen, all_specimens

N, FALSE_ALARM, SEEDS, CONTROL_SEEDS = 200_000, 0.05, 24, 200
CONTROL_RUNS, SEQUENTIAL_RUNS = 5_000, 100_000
ORACLE_RUNS = 1_000_000  # behind the efficiency


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the first table."""

    specimen: str
    route: str  # "learned", "exact" or "profile"
    least: float
    quoted: str  # best other tool


GOALS = (
    Goal("laplace_ok", "learned", 0.980, "0.977 JAX Privacy"),
    Goal("laplace_ok", "exact", 0.988, "0.977 JAX Privacy"),
    Goal("gauss_ok", "learned", 0.84, "0.811 JAX Privacy"),
    Goal("gauss_ok", "profile", 0.95, "none"),
    Goal("svt_no_cutoff", "learned", 3.1, "2.61 DP-Sniper family (Siege)"),
    Goal("one_sided_exp", "learned", 9.9, "9.23 JAX Privacy"),
    Goal("name_and_shame", "learned", 6.0, "4.76 JAX Privacy"),
    Goal("laplace_float", "learned", 8.5, "4.85 Siege, 5.5 s"),
    Goal("laplace_grid_bits", "learned", 0.0, "-"),
)
STOPS = {
    "laplace_half": 200,
    "one_sided_exp": 120,
    "svt_no_qnoise": 150,
    "svt_no_cutoff": 700,
    "rnm_value": 1_300,
    "laplace_10pct": 25_000,
}
CONTROLS = (
    "laplace_integer",
    "gauss_integer",
    "laplace_snapped",
    "laplace_coarse",
    "svt_ok",
    "svt_two_finds",
    "noisy_max_laplace_index",
    "noisy_max_exp_index",
    "response_of_ten",
    "expmech_half",
    "geometric_truncated",
    "stability_count",
)


def run(specimen: Specimen, seed: int, *, n: int = N, **options: Any) -> tuple[AuditResult, float]:
    """One audit and its seconds."""
    rng = np.random.default_rng([seed, *specimen.name.encode()])
    start = time.perf_counter()
    result = audit(
        specimen.mechanism,
        specimen.x,
        specimen.x_neighbour,
        epsilon=specimen.epsilon,
        delta=specimen.delta,
        n_samples=n,
        false_alarm=FALSE_ALARM,
        level=specimen.level,
        rng=rng,
        **options,
    )
    return result, time.perf_counter() - start


def bound(specimen: Specimen, route: str, seed: int) -> tuple[float, float]:
    """Certified lower bound of epsilon by one route, and seconds."""
    if route == "profile":
        assert specimen.log_density is not None
        rng = np.random.default_rng([seed, *specimen.name.encode()])
        start = time.perf_counter()
        profile = privacy_profile(
            specimen.mechanism,
            specimen.x,
            specimen.x_neighbour,
            log_density=specimen.log_density,
            n_samples=N,
            false_alarm=FALSE_ALARM,
            rng=rng,
        )
        return profile.epsilon_bound_at(delta=specimen.delta), time.perf_counter() - start
    result, seconds = run(specimen, seed, log_density=specimen.log_density if route == "exact" else None)
    return result.epsilon_lower, seconds


def losses(specimen: Specimen, n: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Exact privacy losses of ``n`` runs on each data set."""
    assert specimen.log_density is not None
    rng = np.random.default_rng([seed, n])
    found = []
    for data in (specimen.x, specimen.x_neighbour):
        outputs = specimen.mechanism(data, n, rng)
        found.append(log_ratio(specimen.log_density, outputs, specimen.x, specimen.x_neighbour, n))
    return found[0], found[1]


def efficiency(loss: FloatArray, bounds: Sequence[float], n: int) -> list[float]:
    """Share of ``n`` runs that an oracle needs for the same certified bound of a pure claim.

    ``loss``: exact privacy losses of runs with coins, half on each data set. The oracle needs z^2/(2 G) runs, G the
    mean divergence of a coin's law from the nearest one that epsilon allows; never fewer than make an unbroken row of
    right guesses long enough.
    """
    z, shares = float(stats.norm.isf(FALSE_ALARM)), []
    for epsilon in bounds:
        if epsilon <= 0:
            shares.append(0.0)
            continue
        clipped = np.clip(loss, -epsilon, epsilon)
        right, allowed = special.expit(np.abs(loss)), special.expit(np.abs(clipped))
        gain = special.rel_entr(right, allowed) + special.rel_entr(1 - right, 1 - allowed)
        tail = float(np.mean(np.abs(loss) >= epsilon))
        row = math.log(1 / FALSE_ALARM) / (-float(special.log_expit(epsilon)) * tail) if tail > 0 else math.inf
        growth = float(gain.mean())
        shares.append(max(z**2 / 2 / growth if growth > 0 else math.inf, row) / n)
    return shares


def table_of_bounds(seeds: int, console: Console) -> list[str]:
    """Print the first table; returns the goals missed."""
    zoo = {specimen.name: specimen for specimen in all_specimens()}
    peers: dict[str, list[float]] | str = _peers(
        {goal.specimen for goal in GOALS if zoo[goal.specimen].log_density}, zoo, seeds
    )
    table = Table(title=f"lower bounds of epsilon, {N:,} runs, error 5 %, medians of {seeds} seeds")
    for name in ("mechanism", "route", "true", "goal", "here", "range", "eta", "JAX Privacy", "eta", "others", "s"):
        table.add_column(name, justify="left" if name in ("mechanism", "route", "others") else "right")
    missed = []
    for goal in GOALS:
        specimen = zoo[goal.specimen]
        found = Parallel(n_jobs=2)(delayed(bound)(specimen, goal.route, seed) for seed in range(seeds))
        bounds, seconds = [b for b, _ in found], [s for _, s in found]
        median = float(np.median(bounds))
        here = peer = "-"
        if specimen.log_density is not None and specimen.delta == 0:
            loss = np.concatenate(losses(specimen, ORACLE_RUNS // 2, 1))
            here = f"{100 * float(np.median(efficiency(loss, bounds, N))):.0f} %"
            if not isinstance(peers, str):
                peer = f"{100 * float(np.median(efficiency(loss, peers[specimen.name], N))):.0f} %"
        clean = specimen.broken or median <= specimen.true_epsilon
        if median < goal.least or not clean:
            missed.append(f"{goal.specimen} ({goal.route}) {median:.3f}, goal {goal.least}")
        table.add_row(
            specimen.name,
            goal.route,
            f"{specimen.true_epsilon:.4g}",
            f"{goal.least:g}",
            f"{median:.3f}",
            f"{min(bounds):.3f}..{max(bounds):.3f}",
            here,
            "-" if isinstance(peers, str) or specimen.name not in peers else f"{np.median(peers[specimen.name]):.3f}",
            peer,
            goal.quoted,
            f"{np.median(seconds):.1f}",
        )
    console.print(table)
    if isinstance(peers, str):
        console.print(f"JAX Privacy not run: {peers}")
    return missed


def _peers(names: set[str], zoo: dict[str, Specimen], seeds: int) -> dict[str, list[float]] | str:
    """The better of JAX Privacy's two bounds, by specimen and seed."""
    sent = {
        f"{name}.{seed}": (*losses(zoo[name], N // 2, seed), zoo[name].delta)
        for name in sorted(names)
        for seed in range(seeds)
    }
    found = compare(sent, FALSE_ALARM)
    if isinstance(found, str):
        return found
    return {
        name: [
            max(found[f"{name}.{seed}"]["bonferroni"], found[f"{name}.{seed}"]["multi_split"]) for seed in range(seeds)
        ]
        for name in names
    }


def oracle_stop(specimen: Specimen) -> float:
    """Mean number of runs in which the exact likelihood ratio earns a capital of 1/error against the claim."""
    loss = np.concatenate(losses(specimen, ORACLE_RUNS // 2, 1))
    right = special.expit(np.abs(loss))
    allowed = special.expit(np.minimum(np.abs(loss), specimen.epsilon))
    growth = np.mean(special.rel_entr(right, allowed) + special.rel_entr(1 - right, 1 - allowed))
    return math.log(1 / FALSE_ALARM) / float(growth)


def table_of_stops(seeds: int, console: Console) -> list[str]:
    """Print the second table; returns the goals missed."""
    zoo = {specimen.name: specimen for specimen in all_specimens()}
    table = Table(title=f"runs until a sequential audit refutes the claim, error 5 %, medians of {seeds} seeds")
    for name in ("mechanism", "goal", "here", "quartiles", "oracle", "eta", "s"):
        table.add_column(name, justify="left" if name == "mechanism" else "right")
    missed = []
    for name, goal in STOPS.items():
        found = Parallel(n_jobs=2)(delayed(run)(zoo[name], seed, sequential=True) for seed in range(seeds))
        stops = [result.n_samples if result.refuted else math.inf for result, _ in found]
        median, oracle = float(np.median(stops)), oracle_stop(zoo[name])
        if median > goal:
            missed.append(f"{name} stops at {median:g}, goal {goal}")
        low, high = np.quantile(stops, [0.25, 0.75])
        table.add_row(
            name,
            f"{goal:,}",
            f"{median:,.0f}",
            f"{low:,.0f}..{high:,.0f}",
            f"{oracle:,.0f}",
            f"{100 * oracle / median:.0f} %",
            f"{np.median([s for _, s in found]):.1f}",
        )
    console.print(table)
    return missed


def zoo_verdicts(console: Console) -> list[str]:
    """Print what happened to every broken specimen; returns those missed above the detection limit."""
    broken = [specimen for specimen in all_specimens() if specimen.broken]
    start = time.perf_counter()
    found = Parallel(n_jobs=2)(delayed(run)(specimen, 0, n=min(N, specimen.n_samples)) for specimen in broken)
    seconds = time.perf_counter() - start
    missed: list[str] = []
    below: list[str] = []
    for specimen, (result, _) in zip(broken, found, strict=True):
        if not result.refuted:
            (below if specimen.true_epsilon < result.detection_limit else missed).append(specimen.name)
    unseen = [specimen.name for specimen in broken if specimen.origin == "unseen"]
    console.print(
        f"zoo: {len(broken) - len(missed) - len(below)} of {len(broken)} broken specimens refuted in {seconds:.0f} s; "
        f"missed: {', '.join(missed) or 'none'}; below the detection limit: {', '.join(below) or 'none'}; "
        f"of the {len(unseen)} written before the scores were tuned: {len(set(unseen) - set(missed) - set(below))}"
    )
    slow = [f"{s.name} {t:.1f} s" for s, (_, t) in zip(broken, found, strict=True) if t > 8]
    if slow:
        console.print(f"slower than 8 s: {', '.join(slow)}")
    return [f"{name} not refuted" for name in missed] + slow


def false_alarms(seeds: int, console: Console) -> list[str]:
    """Print how often sound controls are refuted; returns what is outside its band."""
    zoo = {specimen.name: specimen for specimen in all_specimens()}
    missed = []

    def fixed(specimen: Specimen, seed: int) -> bool:
        return run(specimen, seed, n=CONTROL_RUNS)[0].refuted

    def ever(specimen: Specimen, seed: int) -> bool:
        return run(specimen, seed, n=SEQUENTIAL_RUNS, sequential=True, log_density=specimen.log_density)[0].refuted

    def ever_learned(specimen: Specimen, seed: int) -> bool:
        return run(specimen, seed, n=CONTROL_RUNS, sequential=True)[0].refuted

    kinds: list[tuple[str, Callable[[Specimen, int], bool]]] = [
        (f"{CONTROL_RUNS:,} runs, learned score", fixed),
        (f"ever in {SEQUENTIAL_RUNS:,} runs, exact score", ever),
        (f"ever in {CONTROL_RUNS:,} runs, learned scores", ever_learned),
    ]
    table = Table(title=f"false alarms of {len(CONTROLS)} sound controls, {seeds} seeds each, nominal 5 %")
    for name in ("audit", "alarms", "of", "rate", "allowed (99 %)", "worst control"):
        table.add_column(name, justify="left" if name == "audit" else "right")
    for words, check in kinds:
        jobs = [(name, seed) for name in CONTROLS for seed in range(seeds)]
        alarms = Parallel(n_jobs=2, batch_size=20)(delayed(check)(zoo[name], seed) for name, seed in jobs)
        total, allowed = int(sum(alarms)), int(stats.binom.isf(0.01, len(jobs), FALSE_ALARM))
        by_control = {name: sum(a for a, job in zip(alarms, jobs, strict=True) if job[0] == name) for name in CONTROLS}
        worst = max(by_control, key=lambda name: by_control[name])
        single = int(stats.binom.isf(0.01 / len(CONTROLS), seeds, FALSE_ALARM))
        if total > allowed or by_control[worst] > single:
            missed.append(f"false alarms, {words}: {total} of {len(jobs)}, {worst} {by_control[worst]}")
        table.add_row(
            words,
            str(total),
            f"{len(jobs):,}",
            f"{100 * total / len(jobs):.1f} %",
            str(allowed),
            f"{worst} {by_control[worst]} (allowed {single})",
        )
    console.print(table)
    return missed


def main(arguments: list[str] | None = None) -> int:
    """Print every table; exit status 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m verification.benchmarks.auditors", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three seeds, twenty for the controls")
    options = parser.parse_args(arguments)
    seeds, control_seeds = (3, 20) if options.quick else (SEEDS, CONTROL_SEEDS)
    console = Console() if sys.stdout.isatty() else Console(width=150)
    missed = [
        *table_of_bounds(seeds, console),
        *table_of_stops(seeds, console),
        *zoo_verdicts(console),
        *false_alarms(control_seeds, console),
    ]
    console.print("goals missed: " + ("; ".join(missed) if missed else "none"))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())

"""How often audits of a curve err: twelve sound mechanisms, each claimed at the exact curve of its two data sets.

    python -m verification.benchmarks.curve_false_alarms [SEEDS] [--runs 1000] [--learned] [--sequential]

Error probability 5 %. With the exact score an audit has most power, against the truth as well, and takes milliseconds;
``--learned`` learns it. ``--sequential`` bets on each run and looks after every batch: refuted ever in so many runs.
Exit status 1 if refuted audits of one control, or of all together, are more than the binomial law has at 5 % with
probability 1e-3.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import special, stats

from verification import GDP, audit
from verification.benchmarks.seeds import at_least
from verification.references.references import hockey_stick, laplace_delta

ERROR, SURPRISE = 0.05, 1e-3


@dataclass(frozen=True, slots=True)
class Control:
    """A sound mechanism, its two data sets, its curve and its density."""

    name: str
    mechanism: Callable[..., Any]
    x: Any
    x_neighbour: Any
    profile: Any
    log_density: Callable[..., Any]


def _normal(data: Any, n: int, rng: np.random.Generator) -> Any:
    return np.asarray(data) + rng.normal(size=(n, *np.shape(data)))


def _log_normal_density(outputs: Any, data: Any) -> Any:
    away = (outputs - np.asarray(data)) ** 2 / -2
    return away.sum(axis=1) if np.ndim(away) > 1 else away


def _finite(name: str, first: Any, second: Any) -> Control:
    """Two laws on finitely many outputs, most likely different in both orders."""
    laws = np.array([first, second], dtype=float)
    laws /= laws.sum(axis=1, keepdims=True)

    def mechanism(data: int, n: int, rng: np.random.Generator) -> Any:
        return rng.choice(laws.shape[1], p=laws[data], size=n)

    def log_density(outputs: Any, data: int) -> Any:
        return special.xlogy(1.0, laws[data])[np.asarray(outputs, dtype=int)]

    def over(which: int, epsilon: float) -> float:
        return float(hockey_stick(laws[which], laws[1 - which], epsilon))

    return Control(name, mechanism, 0, 1, (partial(over, 0), partial(over, 1)), log_density)


def _sampled(share: float, mu: float) -> Control:
    """Gaussian noise about 0, or with probability ``share`` about mu: one of the orders leaks more."""

    def mechanism(data: float, n: int, rng: np.random.Generator) -> Any:
        return mu * (rng.random(n) < data) + rng.normal(size=n)

    def log_density(outputs: Any, data: float) -> Any:
        return -(outputs**2) / 2 + np.log1p(data * np.expm1(mu * outputs - mu**2 / 2))

    def first(epsilon: float) -> float:  # P over Q: the ratio 1 - share + share exp(mu y - mu^2/2) grows
        above = math.log(math.expm1(epsilon) / share + 1) / mu + mu / 2
        beyond = (1 - share) * special.ndtr(-above) + share * special.ndtr(mu - above)
        return float(beyond - math.exp(epsilon) * special.ndtr(-above))

    def second(epsilon: float) -> float:
        left = (math.exp(-epsilon) - 1) / share + 1
        if left <= 0:
            return 0.0
        below = math.log(left) / mu + mu / 2
        under = (1 - share) * special.ndtr(below) + share * special.ndtr(below - mu)
        return float(special.ndtr(below) - math.exp(epsilon) * under)

    return Control("Gaussian, sampled", mechanism, share, 0.0, (first, second), log_density)


def _may_fail(share: float, mu: float) -> Control:
    def mechanism(data: float, n: int, rng: np.random.Generator) -> Any:
        return np.where(rng.random(n) < share, np.nan, _normal(data, n, rng))

    def log_density(outputs: Any, data: float) -> Any:
        return np.where(np.isnan(outputs), 0.0, -((np.nan_to_num(outputs) - data) ** 2) / 2)

    def curve(epsilon: float) -> float:
        return (1 - share) * float(GDP(mu).delta(epsilon))

    return Control("Gaussian, may fail", mechanism, mu, 0.0, curve, log_density)


def _laplace() -> Control:
    def mechanism(data: float, n: int, rng: np.random.Generator) -> Any:
        return data + rng.laplace(size=n)

    def log_density(outputs: Any, data: float) -> Any:
        return -np.abs(outputs - data)

    def curve(epsilon: float) -> float:
        return float(laplace_delta(epsilon, scale=1.0))

    return Control("Laplace", mechanism, 1.0, 0.0, curve, log_density)


def _gaussian(name: str, x: Any, y: Any, mu: float) -> Control:
    return Control(name, _normal, x, y, GDP(mu), _log_normal_density)


def controls() -> list[Control]:
    """All twelve."""
    rate, odds, tail = math.e, math.exp(-1.0), np.arange(-30, 32)
    noise, binomial = np.exp(-np.abs(tail) / 1.0), stats.binom(8, 0.5).pmf(np.arange(9))
    return [
        _gaussian("Gaussian, mu 0.24", 0.2367, 0.0, 0.2367),
        _gaussian("Gaussian, mu 1", 1.0, 0.0, 1.0),
        _gaussian("Gaussian, mu 4", 4.0, 0.0, 4.0),
        _gaussian("Gaussian, three columns", np.array([0.3, 0.0, 0.4]), np.zeros(3), 0.5),
        _may_fail(0.3, 1.0),
        _sampled(0.2, 2.0),
        _laplace(),
        _finite("integers", noise[1:], noise[:-1]),
        _finite("randomised response", [rate, 1.0], [1.0, rate]),
        _finite("response of ten", [rate] + [1.0] * 9, [1.0, rate] + [1.0] * 8),
        _finite("binomial noise", np.append(binomial, 0.0), np.append(0.0, binomial)),
        _finite("three outputs", [0.5, 0.3, 0.2 * (1 - odds)], [0.1, 0.4, 0.5]),
    ]


def refuted(control: Control, seeds: int, *, runs: int, learned: bool = False, sequential: bool = False) -> int:
    """Audits that refute the exact curve."""
    return sum(
        audit(
            control.mechanism,
            control.x,
            control.x_neighbour,
            profile=control.profile,
            n_samples=runs,
            false_alarm=ERROR,
            log_density=None if learned else control.log_density,
            sequential=sequential,
            rng=np.random.default_rng([7, seed]),
        ).refuted
        for seed in range(seeds)
    )


def most(audits: int) -> int:
    """Refuted audits that so many sound ones reach with probability at least SURPRISE, at a rate of ERROR."""
    return int(stats.binom.isf(SURPRISE, audits, ERROR))


def main() -> int:
    """Print a line for each control and one for all; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=at_least(1), nargs="?", default=200)
    parser.add_argument("--runs", type=at_least(1), default=1_000)
    parser.add_argument("--learned", action="store_true")
    parser.add_argument("--sequential", action="store_true")
    arguments = parser.parse_args()
    ways = {"runs": arguments.runs, "learned": arguments.learned, "sequential": arguments.sequential}
    total, bad = 0, False
    every = controls()
    for control in every:
        found = refuted(control, arguments.seeds, **ways)
        total, bad = total + found, bad or found > most(arguments.seeds)
        print(f"{control.name:25s} {found:3d} of {arguments.seeds}, at most {most(arguments.seeds)}", flush=True)
    audits = arguments.seeds * len(every)
    print(f"{'all':25s} {total:3d} of {audits:,}, {total / audits:.1%}, at most {most(audits)}")
    return int(bad or total > most(audits))


if __name__ == "__main__":
    sys.exit(main())

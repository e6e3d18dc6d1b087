"""Is the law of a sketch right at the truth? ``python -m verification.calibration.sketch_score [--replications N]``.

Coverage over some fifty data sets says little about 62 parameters. Two chi-square statistics of every data set say
more, because every data set gives one degree of freedom for each number: of the residuals z - E z in the covariance of
``release.observe``, and of their part in the span of the derivatives by the parameters, which is what moves a
posterior. Set C of ``sketch-nuts``. Exit status 1 when a mean is further from 1 than chance does with probability
1e-4.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np
from scipy import linalg, stats

from pm_dpgmm.methods.sketch.law import SketchLaw, factors_of
from pm_dpgmm.mixture.characteristic import characteristic_jacobian
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.release.release import Release
from verification.benchmarks.seeds import at_least
from verification.calibration.sketch_nuts import drawn_truth, released

FALSE_ALARM = 1e-4  # for each of the two statistics
SMALLEST = 1e-8  # singular value, relative to the largest, of a derivative that counts


def chi_squares(release: Release, truth: Mixture) -> tuple[tuple[float, int], tuple[float, int]]:
    """Chi-square and degrees of freedom of the derivatives' span, and of all numbers.

    Exact up to the third moments of a record's features: numbers are sums over records plus normal noise.
    """
    law, factors = SketchLaw.of(release), factors_of(truth)
    root = np.linalg.cholesky(law.covariance(truth.weights, truth.means, factors))
    residual = law.values - law.expected(truth.weights, truth.means, factors)
    _, jacobian = characteristic_jacobian(law.frequencies, truth.weights, truth.means - law.centre, factors)
    slopes = np.concatenate([jacobian.real, jacobian.imag]) * law.gain[:, None]
    white = linalg.solve_triangular(root, residual, lower=True)
    directions = linalg.solve_triangular(root, slopes, lower=True)
    left, values, _ = np.linalg.svd(directions / np.linalg.norm(directions, axis=0), full_matrices=False)
    kept = left[:, values > SMALLEST * values[0]].T @ white  # weights sum to 1: one direction less than columns
    return (float(kept @ kept), len(kept)), (float(white @ white), len(white))


def p_value(total: float, degrees: int) -> float:
    """Two-sided, of a chi-square statistic."""
    return 2 * min(stats.chi2.cdf(total, degrees), stats.chi2.sf(total, degrees))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m verification.calibration.sketch_score", description=__doc__)
    parser.add_argument("--replications", type=at_least(1), default=100)
    parser.add_argument("--seed", type=int, default=11)
    arguments = parser.parse_args()
    found = []
    for number in range(arguments.replications):
        rng = np.random.default_rng([arguments.seed, number])
        truth = drawn_truth(rng)
        found.append(chi_squares(released(truth, rng=rng), truth))
    failed = False
    for name, parts in zip(("derivatives", "all numbers"), zip(*found, strict=True), strict=True):
        total, degrees = (sum(values) for values in zip(*parts, strict=True))
        p = p_value(total, int(degrees))
        failed |= p < FALSE_ALARM
        print(f"{name:12} chi-square/df {total / degrees:.4f} +- {math.sqrt(2 / degrees):.4f}, p {p:.2g}")
    print(f"# {arguments.replications} data sets, seed {arguments.seed}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

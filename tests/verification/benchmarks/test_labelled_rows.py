"""The study of separated rows: its truth, its reference of independent draws, and a sampler that is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from pm_dpgmm.mixture.mixture import Mixture
from verification.benchmarks import labelled_rows
from verification.benchmarks.labelled_rows import NOISE, PAIR, errors_of, exact_rows, independent_errors
from verification.benchmarks.prior_modes import exact_posterior

SEEN = np.array([-1.0, 0.4, 2.9, 3.0, 3.2, 6.5])


def drawn(rows, shape, *, rng):
    """Independent draws of the known posteriors, (chain, draw, N)."""
    units = [
        Mixture(w, m[:, None], s[:, None, None] ** 2).sample(int(np.prod(shape)), rng=rng).reshape(shape)
        for w, m, s in zip(rows.weights, rows.means, rows.deviations, strict=True)
    ]
    return np.stack(units, axis=-1)


def test_the_truth_is_that_of_the_other_study():
    rows = exact_rows(PAIR, SEEN, NOISE)
    for i, seen in enumerate(SEEN):
        one = exact_posterior(PAIR, [seen], NOISE)
        np.testing.assert_allclose(rows.weights[i], one.weights, atol=1e-12)
        np.testing.assert_allclose(rows.mean[i], one.mean()[0], atol=1e-12)
        np.testing.assert_allclose(rows.deviation[i] ** 2, one.covariance()[0, 0], rtol=1e-10)


def test_the_reference_has_the_errors_of_independent_draws():
    """Of 40 draws a mean is off by 1/sqrt(40) of a deviation, root mean square; seeded, within 5 standard errors."""
    rng = np.random.default_rng(1)
    rows = exact_rows(PAIR, SEEN, NOISE)
    found = independent_errors(rows, np.full(len(SEEN), 40.0), rng=rng)
    np.testing.assert_allclose((found**2).mean(axis=0), 1 / 40, rtol=5 * np.sqrt(2 / len(found)) * 1.5)
    direct = np.array([errors_of(rows, drawn(rows, (2, 20), rng=rng)) for _ in range(1000)])
    shares = [(errors > 0.2).mean(axis=0) for errors in (found, direct)]
    np.testing.assert_allclose(shares[0], shares[1], atol=5 * np.sqrt(0.5 / 1000))


@pytest.mark.parametrize("stuck", [False, True])
def test_a_sampler_that_leaves_labels_where_they_are_misses_the_target(monkeypatch, capsys, stuck):
    """The planted fault: chains that stay in the component that they began in, each where half of the rows is wrong."""

    def sampled(prior, seen, noise, *, seed, chains, draws):
        rng = np.random.default_rng(seed)
        rows = exact_rows(PAIR, seen, noise)
        if stuck:
            labels = rng.integers(2, size=len(seen))
            rows = rows._replace(weights=np.eye(2)[labels])
        return drawn(rows, (chains, draws), rng=rng)

    monkeypatch.setattr(labelled_rows, "sampled", sampled)
    assert labelled_rows.separated_rows(2, chains=2, draws=200) is not stuck
    assert "of 400 rows off" in capsys.readouterr().out

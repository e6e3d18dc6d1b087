"""Coverage of posteriors from one randomised bit a person, reported as ``fit_gmm(method="local")`` lets devices report.

Two or three components in one column or two, drawn from the prior; every record answers by
:meth:`pm_dpgmm.LocalProtocol.respond`. The evidence is that of ``release.observe``: binomial counts, wave by wave. The
naive posterior takes bits, corrected for the randomisation, for exact ones. That of the records, for the widths, has
the likelihood of a part of them to the power of the part's inverse share.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.special import logsumexp

from pm_dpgmm.methods.local.method import reported
from pm_dpgmm.methods.local.protocol import LocalProtocol
from pm_dpgmm.methods.local.responses import WaveResponses
from pm_dpgmm.mixture.coordinates import Coordinates, triangle
from pm_dpgmm.mixture.mixture import LOG_2PI, Mixture
from verification.calibration import ensemble, mixture_kernels as kernels
from verification.calibration.importance import FloatArray, LogDensity, Weighted, sample_from_mode
from verification.calibration.intervals import Row, rows
from verification.calibration.replicated import Replication, replicated

EPSILON, N_RECORDS, BOUNDS, RESOLUTION = 1.0, 20_000, (-8.0, 8.0), 10.0
APART = 3.0  # from one component's mean to the next, by the prior
SPREADS = (0.5, 0.3, 0.25, 0.25)  # prior deviations: log ratios of weights, means, log deviations, entries below
N_DRAWS = 2_500
PART, WITH_RECORDS, WITH_NAIVE = 1_000, 20, 100  # replications whose records, and whose naive posteriors, are looked at
WALKERS, STEPS = 80, 6_000  # of the chains where no proposal is like a posterior; the first half is thrown away
BLOCK = 250  # points at a time: bounds the memory
LEAST = 1e-6


def two_in_one(n_replications: int, *, seed: int) -> list[Row]:
    """Two components in one column."""
    return study(n_replications, d=1, k=2, seed=seed)


def three_in_one(n_replications: int, *, seed: int) -> list[Row]:
    """Three components in one column."""
    return study(n_replications, d=1, k=3, seed=seed)


def two_in_two(n_replications: int, *, seed: int) -> list[Row]:
    """Two components in two columns."""
    return study(n_replications, d=2, k=2, seed=seed)


def three_in_two(n_replications: int, *, seed: int) -> list[Row]:
    """Three components in two columns."""
    return study(n_replications, d=2, k=3, seed=seed)


def study(n_replications: int, *, d: int, k: int, seed: int) -> list[Row]:
    """Rows of one study."""
    found = replicated(partial(replication, seed=seed, d=d, k=k), n_replications)
    worth = [each.effective for each in found]
    weighted = [effective for effective in worth if not math.isnan(effective)]
    least = np.quantile(weighted, [0, 0.1, 0.5]).round()
    told = f"least {least[0]:.0f}, 10 % {least[1]:.0f}, median {least[2]:.0f}; {len(worth) - len(weighted)} by chains"
    print(f"# effective draws: {told}", flush=True)
    of_some = [each.draws["records"] for each in found if "records" in each.draws]
    draws = {
        "aware": np.stack([each.draws["aware"] for each in found]),
        "naive": np.stack([each.draws["naive"] for each in found if "naive" in each.draws]),
        "records": np.stack(of_some)[np.arange(n_replications) % len(of_some)],
    }
    names = names_of(Coordinates(k, d, "ratios"))
    return rows(f"local, one bit, d={d}, K={k}", names, np.stack([each.truth for each in found]), draws)


def replication(number: int, *, seed: int, d: int, k: int) -> Replication:
    """Draw parameters and records, collect bits, and draw from the posteriors."""
    rng = np.random.default_rng([seed, d, k, number])
    chart = Coordinates(k, d, "ratios")
    centre, spread = prior(chart)
    truth = centre + spread * rng.normal(size=chart.size)
    records = mixture_at(chart, truth).sample(N_RECORDS, rng=rng)
    responses = reported(protocol_of(d), records, rng=rng)
    assert isinstance(responses, WaveResponses)
    likelihoods = {"aware": log_likelihood(chart, responses)}
    if number < WITH_NAIVE:
        likelihoods["naive"] = log_likelihood(chart, corrected(responses))
    if number < WITH_RECORDS:
        likelihoods["records"] = of_part(chart, records[:PART])
    found = {
        name: sampled(posterior(likelihood, centre, spread), centre, spread, rng)
        for name, likelihood in likelihoods.items()
    }
    return Replication(truth, {name: one.draws for name, one in found.items()}, found["aware"].effective)


def sampled(log_density: LogDensity, centre: FloatArray, spread: FloatArray, rng: np.random.Generator) -> Weighted:
    """N_DRAWS of one posterior: weighted ones or, where no proposal is like it, of chains from the prior."""
    try:
        return sample_from_mode(log_density, centre, spread, n_draws=N_DRAWS, rng=rng)
    except ArithmeticError:
        start = centre + spread * rng.normal(size=(1, WALKERS, len(centre)))
    kept = STEPS // 2

    def of_all(points: FloatArray) -> FloatArray:
        return log_density(points[0])[None]

    thin = kept * WALKERS // N_DRAWS
    found = ensemble.sample(of_all, start, n_steps=kept, n_warmup=STEPS - kept, rng=rng, thin=thin)
    return Weighted(found.values[0][:N_DRAWS], math.nan)


def protocol_of(d: int) -> LocalProtocol:
    """What everybody is asked."""
    return LocalProtocol.design(d, epsilon=EPSILON, bounds=BOUNDS, resolution=RESOLUTION)


def prior(chart: Coordinates) -> tuple[FloatArray, FloatArray]:
    """Centre and deviations: components in a row in the first column, up and down in others."""
    k, d = chart.n_components, chart.n_features
    means = np.tile((-1.0) ** np.arange(k)[:, None] / 2, (1, d))
    means[:, 0] = APART * (np.arange(k) - (k - 1) / 2)
    return chart.filled(0.0, means, 0.0, 0.0), chart.filled(*SPREADS)


def posterior(likelihood: LogDensity, centre: FloatArray, spread: FloatArray) -> LogDensity:
    """Log density of points (W, P), up to a constant."""

    def value(points: FloatArray) -> FloatArray:
        blocks = [likelihood(points[i : i + BLOCK]) for i in range(0, len(points), BLOCK)]
        return np.asarray(np.concatenate(blocks) - 0.5 * np.square((points - centre) / spread).sum(axis=1))

    return value


def log_likelihood(chart: Coordinates, responses: WaveResponses) -> LogDensity:
    """Of counts of bits, at points (W, P), up to a constant."""
    true, other = responses.channel

    asked, ones = responses.asked.astype(float), responses.ones.astype(float)
    waves = responses.frequencies, responses.phases

    def value(points: FloatArray) -> FloatArray:
        return kernels.wave_log_likelihoods(*chart.at(points), *waves, asked, ones, true, other)

    return value


def corrected(responses: WaveResponses) -> WaveResponses:
    """As many bits as there would be without randomisation, taken for exact."""
    true, other = responses.channel
    ones = np.rint(np.clip((responses.ones - other * responses.asked) / (true - other), 0, responses.asked))
    return WaveResponses(responses.frequencies, responses.phases, responses.asked, ones, np.array([1 - LEAST, LEAST]))


def of_part(chart: Coordinates, records: FloatArray) -> LogDensity:
    """Of some records, to the power that makes them as many as all."""
    d = chart.n_features

    def value(points: FloatArray) -> FloatArray:
        weights, means, factors = chart.at(points)
        rest = records[None, None] - means[:, :, None]  # (W, K, N, D)
        white = np.linalg.solve(factors, rest.swapaxes(2, 3))
        logs = -0.5 * np.square(white).sum(axis=2) - 0.5 * d * LOG_2PI
        heights = np.log(weights) - np.log(np.diagonal(factors, axis1=2, axis2=3)).sum(axis=2)
        return np.asarray(N_RECORDS / len(records) * logsumexp(logs + heights[:, :, None], axis=1).sum(axis=1))

    return value


def mixture_at(chart: Coordinates, point: FloatArray) -> Mixture:
    """The mixture at one parameter point."""
    weights, means, factors = chart.at(point)
    return Mixture(weights, means, factors @ factors.swapaxes(1, 2))


def names_of(chart: Coordinates) -> list[str]:
    """Of the coordinates, in their order."""
    k, d = chart.n_components, chart.n_features
    row, column, _ = triangle(d)
    logs = [f"log ratio {j}" for j in range(2, k + 1)]
    means = [f"mean {j},{a + 1}" for j in range(1, k + 1) for a in range(d)]
    entries = [f"log root {a + 1}" if a == b else f"root {a + 1}{b + 1}" for a, b in zip(row, column, strict=True)]
    return logs + means + [f"{entry} of {j}" for j in range(1, k + 1) for entry in entries]

"""What leaves the method: the average's answer, average and sketch together, or the sketch alone.

Post-processing: released and public numbers alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.aggregate.caveats import average_caveats
from pm_dpgmm.methods.aggregate.chart import MixtureChart, VectorChart
from pm_dpgmm.methods.aggregate.design import Design
from pm_dpgmm.methods.aggregate.estimate import Estimate, Round, estimate
from pm_dpgmm.methods.outcome import Outcome
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.far_rows import NAME as FAR_ROWS
from pm_dpgmm.mixture.mixture import Mixture

NO_ESTIMATE = (ValueError, ArithmeticError, np.linalg.LinAlgError)
PARTS = ("weights", "means", "covariances")
USELESS = 5.0  # standard error of an offset, in deviations or in a logarithm: the sketch then says more
STEP = 1e-5  # of numerical derivatives
INTERRUPTED = (
    "the fit was interrupted before the answer was computed: the mixture is that of the sketch, made with a part of the"
    " budget"
)
TOO_NOISY = (
    "the average has so much noise that it says nothing: the mixture is that of the sketch, made with a part of the"
    " budget; more records or a larger epsilon would help"
)


def with_sums(
    raw: Mapping[str, FloatArray], noise: Mapping[str, Any], rounds: Sequence[Round]
) -> tuple[dict[str, FloatArray], dict[str, Any]]:
    """Numbers of the sketch and their public law with the sums that were released beside them."""
    raw, law = dict(raw), []
    for i, (ball, found) in enumerate(rounds):
        raw |= {f"average_total_{i}": found.total, f"average_centre_{i}": ball.centre}
        law.append(
            {
                "n_subsets": found.n_subsets,
                "radius": found.radius,
                "noise_scale": found.noise_scale,
                "n_inside": found.n_inside,
                "n_inside_scale": found.n_inside_scale,
            }
        )
    return raw, dict(noise) | {"average": {"law": "discrete Gaussian", "rounds": law}}


def without_average(centre: Outcome, why: str, **law: Any) -> Outcome:
    """The sketch alone, made with a part of the budget; ``law`` is that of sums which were released in vain."""
    caveats = [why, *centre.noise.get("caveats", ())]
    return replace(centre, noise=dict(centre.noise) | {"caveats": caveats, "average": {"why": why, **law}})


def with_sums_in_vain(centre: Outcome, rounds: Sequence[Round], why: str) -> Outcome:
    """The sketch alone, with sums that were released beside it and that its mixture makes no use of."""
    raw, noise = with_sums(centre.raw, centre.noise, rounds)
    return without_average(replace(centre, raw=raw), why, **noise["average"], fused=False)


def outcome(
    centre: Outcome,
    design: Design,
    rounds: Sequence[Round],
    names: Sequence[str] | None,
    bounds: FloatArray | None,
    *,
    fused: Estimate | None = None,
) -> Outcome:
    """Of an average, or of the sketch where the average tells nothing.

    ``fused`` is the average put together with the sketch, whose background then stays beside it; without it the answer
    is the average's own.
    """
    raw, noise = with_sums(centre.raw, centre.noise, rounds)
    try:
        return _estimated(centre, design, rounds, names, bounds, fused, raw, noise)
    except NO_ESTIMATE:  # such as exponentials of noise
        return with_sums_in_vain(centre, rounds, TOO_NOISY)


def _estimated(
    centre: Outcome,
    design: Design,
    rounds: Sequence[Round],
    names: Sequence[str] | None,
    bounds: FloatArray | None,
    fused: Estimate | None,
    raw: dict[str, FloatArray], noise: dict[str, Any],
) -> Outcome:  # fmt: skip
    """The outcome of an average; one of NO_ESTIMATE where its numbers are none."""
    found = fused or estimate(design, rounds)
    noise["average"] |= {
        "fused": fused is not None,
        "subset_records": design.subset_records,
        "spread": found.spread,
        "expected_inside": found.expected_inside,
        "failed": design.failed,
    }
    chart, mixture, covariance = design.chart, None, None
    if isinstance(chart, VectorChart):
        assert names is not None
        units = np.where(design.alike | design.growing, 0.0, chart.units)  # an error of 0 is read as unknown
        scales = units[:, None] * units
        own = {"answer": chart.vector(found.vector), "answer_covariance": scales * found.covariance}
        if not all(np.isfinite(values).all() for values in own.values()):
            raise ValueError("an answer must be finite, got another")
        raw |= own
        noise["average"] |= {"names": list(names)}
    else:
        assert isinstance(chart, MixtureChart)
        mixture = chart.mixture(found.vector)
        covariance = about_the_answer(chart, mixture, found)
        np.linalg.cholesky(covariance + np.eye(len(covariance)))  # semidefinite: a learner may never differ in some
        if np.diagonal(covariance).max() > USELESS**2:
            raise ValueError("an average must tell something, got noise")
        raw |= {f"average_{name}": getattr(mixture, name) for name in PARTS}
        if fused is not None and centre.background is not None:
            weight, broad = centre.background
            raw |= {"average_background_weight": np.array([weight])}
            raw |= {f"average_background_{name}": getattr(broad, name) for name in PARTS[1:]}
        raw["offset_covariance"] = covariance
    given: dict[str, Any] = {"names": names, "mixture": mixture, "covariance": covariance, "bounds": bounds}
    caveats = average_caveats(design, rounds, found, **given, with_sketch=fused is not None)
    return averaged(replace(centre, raw=raw), noise.pop("average") | {"caveats": caveats})


def averaged(centre: Outcome, law: Mapping[str, Any]) -> Outcome:
    """The outcome of an average around a sketch; ``centre.raw`` has the numbers of both, ``law`` is that of the sums.

    A mixture of the average's own takes the place of the sketch's, whose law then stands apart, and its background too
    unless they were put together.
    """
    caveats = [*law["caveats"], *centre.noise.get("caveats", ())]
    if "average_weights" not in centre.raw:
        return replace(centre, noise=dict(centre.noise) | {"average": law, "caveats": caveats})
    noise: dict[str, Any] = {"statistic": "average of fits", "law": "discrete Gaussian", "average": law}
    noise |= {"centre": dict(centre.noise), "caveats": caveats, FAR_ROWS: centre.noise.get(FAR_ROWS)}
    mixture = Mixture(*(centre.raw[f"average_{name}"] for name in PARTS))
    return Outcome(mixture, centre.guarantee, centre.raw, noise, background_in(centre.raw))


def background_in(raw: Mapping[str, FloatArray]) -> tuple[float, Mixture] | None:
    """Weight and law of the background that an average has from the sketch, as its arrays hold them; None without."""
    if "average_background_weight" not in raw:
        return None
    means, covariances = (raw[f"average_background_{name}"] for name in PARTS[1:])
    return float(raw["average_background_weight"][0]), Mixture([1.0], means, covariances)


def about_the_answer(chart: MixtureChart, mixture: Mixture, found: Estimate) -> FloatArray:
    """Covariance of the truth's offsets from the answer, in the coordinates about the answer."""
    about = Coordinates.about(mixture)

    def offsets(vector: FloatArray) -> FloatArray:
        return about.of(*chart.coordinates.at(vector))

    steps = STEP * np.eye(len(found.vector))
    columns = [(offsets(found.vector + step) - offsets(found.vector - step)) / (2 * STEP) for step in steps]
    slopes = np.column_stack(columns)
    covariance = slopes @ found.covariance @ slopes.T
    return np.asarray((covariance + covariance.T) / 2)

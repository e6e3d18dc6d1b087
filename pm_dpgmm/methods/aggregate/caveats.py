"""What a reader of an average of fits should be warned of. Post-processing: released and public numbers alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pm_dpgmm._arguments import FloatArray, printable
from pm_dpgmm.learners.fit_arrays import BoolArray
from pm_dpgmm.methods.aggregate.chart import MixtureChart
from pm_dpgmm.methods.aggregate.design import Design
from pm_dpgmm.methods.aggregate.estimate import Estimate, Round
from pm_dpgmm.methods.components_in_words import listed
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import Mixture

MANY_FAILED = 0.1  # share of the simulated subsets
FEW_INSIDE = 0.5  # share of the subsets in the last ball, by simulation about the answer
SURE = 3.0  # deviations by which fewer are inside than any spread explains: false alarm .0013
AT_ODDS = (
    "average and sketch differ by more than their errors explain (a test that is wrong once in a hundred releases): the"
    " records are probably not those of so many Gaussian components, of which learners say other things in subsets of"
    " few records. The mixture is that of the sketch, made with a part of the budget; fuse=False has the average"
)
CONTRADICTED = (
    "the released waves contradict the mixture that was found in them, so they cannot be put together with the average:"
    " the mixture is that of the sketch, made with a part of the budget. method='sketch' has the whole budget for it,"
    " another number of components may fit, and fuse=False has the average"
)
NOT_FUSED = (
    "the fit was interrupted while average and sketch were put together: the mixture is that of the average alone, as"
    " with fuse=False"
)
NOT_COMPARED = (
    "the average could not be compared with the sketch ({}): the mixture is that of the average alone, as with"
    " fuse=False"
)
NOT_TRIED = (
    "the learner could not be tried on records that were simulated from the released sketch ({}), so nothing was"
    " averaged: the mixture is that of the sketch, made with a part of the budget"
)
NEVER_DIFFER = (
    "the learner said the same {} of nearly all records that were simulated from the released sketch, so nothing was"
    " averaged of it: {} is what it said of those, and how far off that is nobody knows, which an error of inf stands"
    " for. Shares of single values, heaping and rare events are not in a mixture of Gaussian components"
)
GROWING = (
    "the learner says another {} of many records than of few that were simulated from the released sketch, by far more"
    " than chance: {} hangs on how many there are, as counts, sums and test statistics do (let it say shares or means)."
    " What it would say of all records is not known, which an error of inf stands for"
)
FAR_AWAY = (
    "a sketch hardly shows rows far from all components, and an average counts them for little: if {share:.2%} of the"
    " records, as there may be, lay anywhere up to a hundred deviations away and within the bounds, {} would be off by"
    " more than three errors. If such rows can be there, give bounds near the others, or ask for medians, quantiles or"
    " shares"
)
MISSED = 3.0  # errors
LISTED, LONGEST = 3, 40  # numbers that are named, and characters of a name
VAGUE = 0.05  # nats per record, as a shortfall of the sketch is told from on
N_TRUTHS, N_POINTS = 40, 500  # mixtures that errors allow, and rows of each
PUBLIC_SEED = 20261201
TOO_UNSURE = 1.0  # standard error of a mean, in the component's deviations, or of the logarithm of a deviation


def average_caveats(
    design: Design,
    rounds: Sequence[Round],
    found: Estimate,
    *,
    names: Sequence[str] | None,
    mixture: Mixture | None,
    covariance: FloatArray | None,
    bounds: FloatArray | None,
    with_sketch: bool,
) -> list[str]:
    """What speaks against the answer, one text for each reason; empty where nothing does.

    ``names`` are those of the answer's numbers, if it is a vector; ``mixture`` is the answer, if it is one,
    ``covariance`` (P, P) that of the errors of its offsets about itself, ``bounds`` (D, 2) public or None.
    ``with_sketch``: average and sketch agree and are put together, so what the learner's failures do to the average is
    less than its error.
    """
    texts = [None if with_sketch else learner_fails(design), far_from_the_sketch(design, rounds, found)]
    if names is not None:
        missed = design.missed > MISSED * np.sqrt(np.diagonal(found.covariance))
        texts.append(told_of(FAR_AWAY, missed & ~design.alike & ~design.growing, names, share=design.far))
        texts += [told_of(NEVER_DIFFER, design.alike, names), told_of(GROWING, design.growing, names)]
    if mixture is not None and covariance is not None:
        assert isinstance(design.chart, MixtureChart)
        errors = np.sqrt(np.diagonal(covariance))
        unsure = unmeasured(design.chart, mixture, errors) or vague(mixture, covariance)
        texts += [unsure, outside_bounds(mixture, bounds)]
    return [text for text in texts if text]


def learner_fails(design: Design) -> str | None:
    """That the learner has no answer for many simulated subsets."""
    if design.failed <= MANY_FAILED:
        return None
    return (
        f"the learner had no answer for {design.failed:.0%} of the simulated subsets of {design.subset_records}"
        " records; if it fails more or less often on the records, the answer is drawn to that of the sketch or away"
        " from it. Give records_per_number, more records or another learner"
    )


def told_of(text: str, which: BoolArray, names: Sequence[str], **further: float) -> str | None:
    """That nothing is known of some of a learner's numbers, the first of them by name."""
    if not which.any():
        return None
    told = [repr(printable(name)[:LONGEST]) for name, one in zip(names, which, strict=True) if one]
    more = f" and {len(told) - LISTED} more" if len(told) > LISTED else ""
    return text.format(", ".join(told[:LISTED]) + more, "the number" if len(told) == 1 else "each", **further)


def far_from_the_sketch(design: Design, rounds: Sequence[Round], found: Estimate) -> str | None:
    """That so few answers lay in the ball that the shrinking of the others decides."""
    _, last = rounds[-1]
    missing = found.expected_inside - last.n_inside
    sure = missing > SURE * last.n_inside_scale
    if not sure and found.expected_inside >= FEW_INSIDE * last.n_subsets:
        return None
    counted = min(max(last.n_inside, 0), last.n_subsets)
    return (
        "as far as the noise tells, the learner's answers to subsets of the records lie far from those to the sketch's"
        f" mixture: about {counted:.0f} of {last.n_subsets} were counted in the ball (give or take"
        f" {last.n_inside_scale:.0f}), {found.expected_inside:.0f} are by the sum of the answers. What the learner says"
        " may be farther from the sketch than the answer and its errors tell; more records make the ball grow, or use"
        " 'populous'"
    )


def unmeasured(chart: MixtureChart, mixture: Mixture, errors: FloatArray) -> str | None:
    """That a component's place or width is not known up to its own width."""
    _, means, entries = chart.coordinates.split(errors)
    k, d = mixture.means.shape
    diagonal = np.cumsum(np.arange(1, d + 1)) - 1
    unsure = (means > TOO_UNSURE).any(axis=1) | (entries[:, diagonal] > TOO_UNSURE).any(axis=1)
    if not unsure.any():
        return None
    return (
        f"too few records or too small a budget for {k} components in {d} columns: place or width of {listed(unsure)}"
        " is not known up to the component's own width"
    )


def vague(mixture: Mixture, covariance: FloatArray) -> str | None:
    """That mixtures which the errors allow differ much from the answer, in nats per record."""
    about, rng = Coordinates.about(mixture), np.random.default_rng(PUBLIC_SEED)
    losses = []
    for offset in rng.multivariate_normal(np.zeros(len(covariance)), covariance, size=N_TRUTHS, method="eigh"):
        try:
            with np.errstate(all="ignore"):
                weights, means, factors = about.at(offset)
                truth = Mixture(weights, means, factors @ factors.swapaxes(1, 2))
                points = truth.sample(N_POINTS, rng=rng)
                losses.append(float((truth.log_density(points) - mixture.log_density(points)).mean()))
        except (np.linalg.LinAlgError, ValueError, ArithmeticError):  # no mixture: as far away as any
            losses.append(np.inf)
    lost = float(np.median(losses))
    if lost < VAGUE:
        return None
    return (
        "the errors of the average leave much open: as likely as not the mixture that the learner would say of all"
        f" records is {lost:.2g} nats per record or more from this one. More records or a larger budget make it surer;"
        " where the sketch has such a mixture too, method='sketch' finds it with the whole budget"
    )


def outside_bounds(mixture: Mixture, bounds: FloatArray | None) -> str | None:
    """That a mean is where no record can be."""
    if bounds is None:
        return None
    outside = ((mixture.means < bounds[:, 0]) | (mixture.means > bounds[:, 1])).any(axis=1)
    return f"the mean of {listed(outside)} lies outside the bounds" if outside.any() else None

"""Claims about the mask of the aggregated estimator and its pass table; the checks are in ``mask.py``."""

from __future__ import annotations

import numpy as np

from verification.claims.aggregated import mask as checks
from verification.claims.aggregated.graphs import FAMILY, NOTE
from verification.claims.claim import Claim, Kind, Verdict


def claims() -> list[Claim]:
    """The claims of the mask and of the pass table."""
    return [
        Claim(
            id="aggregated-loss",
            family=FAMILY,
            source=f"{NOTE}, equations (2) and (3)",
            statement="the loss of the mask is a sum over rows of affine noncentral chi-squares, with moments Lambda_x",
            kind=Kind.QUADRATURE,
            verdict=Verdict.HOLDS,
            check=checks.loss,
            printed={"first_order": False},
            contrast={"first_order": True},
            otherwise="so it is with constant x/(8 eta^2) and centre 1/2, the same to first order in x",
        ),
        Claim(
            id="aggregated-worst-direction",
            family=FAMILY,
            source=f"{NOTE}, Lemma 6",
            statement="Lambda_x(lambda)/x^2 falls as x grows from -omega to omega, lambda (e^omega - 1) < 1",
            kind=Kind.EXACT,
            verdict=Verdict.HOLDS,
            check=checks.falling,
            printed={"key": np.asarray},
            contrast={"key": np.abs},
            otherwise="it falls as |x| grows",
        ),
        Claim(
            id="aggregated-curve",
            family=FAMILY,
            source=f"{NOTE}, Theorem 3",
            statement="Delta of Theorem 3 bounds the exact delta of every change of the average of size omega",
            kind=Kind.SEARCH,
            verdict=Verdict.HOLDS,
            check=checks.curve,
            printed={"share": 1.0},
            contrast={"share": 0.99},
            otherwise="Delta of .99 omega bounds it",
            constants="admits .996, .985, .971 of the exact omega at eta = .05, .2, .5",
        ),
        Claim(
            id="aggregated-closed-form",
            family=FAMILY,
            source=f"{NOTE}, after Theorem 3",
            statement="a change of size omega costs at most mu^2/2 + mu sqrt(2 (1 + A) ln(1/delta)) + A ln(1/delta), "
            "A = e^omega - 1, mu^2 = ((e^(omega/2) - 1)/eta)^2 + D A^2/2",
            kind=Kind.SEARCH,
            verdict=Verdict.SLACK,
            check=checks.closed_form,
            printed={"share": 1.0},
            contrast={"share": 0.85},
            otherwise="the same with .85 of the second term",
        ),
        Claim(
            id="aggregated-both-signs",
            family=FAMILY,
            source=f"{NOTE}, assumption (A4) and Theorem 3",
            statement="Theorem 3 with x of both signs bounds the exact delta in both directions",
            kind=Kind.EXACT,
            verdict=Verdict.HOLDS,
            check=checks.directions,
            printed={"signs": (-1, 1)},
            contrast={"signs": (1,)},
            otherwise="with x > 0 alone it does",
        ),
        Claim(
            id="aggregated-weight-noise",
            family=FAMILY,
            source=f"{NOTE}, after Lemma 6",
            statement="with sigma_w = kappa/sqrt(1/(4 eta^2) + D/2) a weight costs no more than an eigenvalue",
            kind=Kind.EXACT,
            verdict=Verdict.HOLDS,
            check=checks.weight_noise,
            printed={"share": 1.0},
            contrast={"share": 0.8},
            otherwise="so it does with .8 of that noise, or less",
            constants="the least share of sigma_w that keeps delta, D = 3, eta = .05: .825; D = 6, eta = .2: .60",
        ),
        Claim(
            id="aggregated-table",
            family=FAMILY,
            source=f"{NOTE}, section 5 and Theorem 1",
            statement="a pass table that keeps (4) makes test and mask together (epsilon, delta)-DP",
            kind=Kind.EXACT,
            verdict=Verdict.HOLDS,
            check=checks.table,
            printed={"shifted": True, "first": 1.0},
            contrast={"shifted": False, "first": 1.0},
            otherwise="so does one that charges the mask at epsilon in place of epsilon - ln(p/q)",
            constants="attained at pi[1] = delta",
        ),
        Claim(
            id="aggregated-first-level",
            family=FAMILY,
            source=f"{NOTE}, section 5",
            statement="the first level may pass with probability delta",
            kind=Kind.EXACT,
            verdict=Verdict.HOLDS,
            check=checks.table,
            printed={"shifted": True, "first": 1.0},
            contrast={"shifted": True, "first": 1.02},
            otherwise="with probability 1.02 delta",
        ),
    ]

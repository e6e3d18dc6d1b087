"""A filter for adaptive Gaussian releases of integers: what was spent, what may be spent. Proof: gaussian_filter.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from pm_dpgmm._arguments import check_count, check_delta, check_positive
from pm_dpgmm.mechanisms.gaussian import SMALLEST_EPSILON, gaussian_mu
from pm_dpgmm.privacy.curves import GaussianProfile
from pm_dpgmm.privacy.noise import MOST_GAUSSIAN

LEAST_SCALE = 2**30  # of a release in grid steps; the sampler is then within 2^-64 of a rounded Gaussian a number
MOST_NUMBERS = 2**18  # released integers of one transcript, at most
SLACK = MOST_NUMBERS / (16 * LEAST_SCALE**2)  # total variation that the sampler may cost a transcript


@dataclass(frozen=True, slots=True)
class GaussianFilter:
    """Squared Gaussian-DP parameters, in rational numbers: a release is allowed only if the sum stays within the limit.

    Parameters
    ----------
    limit : Fraction
        mu^2 of the whole transcript.
    failure : float
        Probability set aside for stages that hold outside an event of that probability; 0 if there are none.
    spent : Fraction
    n_numbers : int
        Integers released so far.

    Examples
    --------
    >>> budget = GaussianFilter.of(1.0, 1e-6, failure=1e-7)
    >>> scale, left = budget.spend(2**32, share=Fraction(1, 4), n_numbers=100)
    >>> left.spent <= budget.limit / 4, left.remaining_share > 0.7499
    (True, True)
    """

    limit: Fraction
    failure: float = 0.0
    spent: Fraction = Fraction(0)
    n_numbers: int = 0

    @classmethod
    def of(cls, epsilon: float, delta: float, *, failure: float = 0.0) -> GaussianFilter:
        """The largest limit whose :meth:`loss`, spent whole, is (epsilon, delta)-DP."""
        check_positive(epsilon=epsilon)
        check_delta(delta, zero=False)
        # the slack counts (1 + exp(epsilon)) times: where that nears delta, calibrate at a smaller epsilon
        calibrated = min(epsilon, math.log((delta - failure) / (4 * SLACK)))
        if calibrated < min(epsilon, SMALLEST_EPSILON):
            raise ValueError(f"delta must be at least {8 * SLACK + failure:.2g}, got {delta:g}")
        mu = gaussian_mu(calibrated, (delta - failure - (1 + math.exp(calibrated)) * SLACK) / (1 - failure))
        return cls(Fraction(mu) ** 2, failure)

    @property
    def remaining_share(self) -> float:
        """Part of the limit that is not spent."""
        return float(1 - self.spent / self.limit)

    def spend(self, steps: int, *, share: Fraction, n_numbers: int) -> tuple[int, GaussianFilter]:
        """Noise scale of the next release, and the budget after it.

        Parameters
        ----------
        steps : int
            L2 sensitivity of the integers to be released, rounded up, whatever was released before.
        share : Fraction
            Of the limit; a function of public numbers and of earlier releases.
        n_numbers : int
            Integers to be released.

        Returns
        -------
        scale : int
            Of discrete Gaussian noise, at least 2^30; (steps/scale)^2 is at most share * limit.
        budget : GaussianFilter

        Raises
        ------
        ValueError
            If the sum would pass the limit, or the noise would be more than can be drawn. Nothing is released then.
        """
        check_count(steps=steps, n_numbers=n_numbers)
        allowed = Fraction(share) * self.limit
        if not 0 < allowed <= self.limit - self.spent:
            raise ValueError(f"share must be positive and at most {self.remaining_share:.6g}, got {float(share):.6g}")
        if self.n_numbers + n_numbers > MOST_NUMBERS:
            raise ValueError(f"n_numbers must leave room under {MOST_NUMBERS}, got {n_numbers} more")
        scale = max(LEAST_SCALE, math.isqrt(math.ceil(steps**2 / allowed)) + 1)
        if int(float(scale)) != scale:  # the sampler takes a float
            scale = int(math.nextafter(float(scale), math.inf))
        if scale > MOST_GAUSSIAN:
            raise ValueError(
                f"share must leave a noise scale of at most {MOST_GAUSSIAN:.3g} steps, got {float(share):.3g}"
            )
        cost = Fraction(steps**2, scale**2)
        assert cost <= allowed
        return scale, GaussianFilter(self.limit, self.failure, self.spent + cost, self.n_numbers + n_numbers)

    def loss(self) -> GaussianProfile:
        """Privacy curve of a transcript that spends the whole limit, whatever it really spent."""
        mu = math.nextafter(math.sqrt(self.limit), math.inf)
        return GaussianProfile(mu, SLACK, self.failure)


def steps_of(squared_sensitivity: Fraction, *, grid: float, n_numbers: int, error: float) -> int:
    """L2 sensitivity, in grid steps and rounded up, of ``n_numbers`` features rounded to the grid.

    ``squared_sensitivity``: of the exact features; ``error``: largest error of a computed feature.
    """
    exact = math.isqrt(math.ceil(squared_sensitivity / Fraction(grid) ** 2)) + 1
    rounding = Fraction(math.isqrt(n_numbers) + 1) * (1 + 2 * Fraction(error) / Fraction(grid))
    return exact + math.ceil(rounding)

"""Privacy audits in a test suite: the pytest fixture ``dp_audit``.

Installed with the package; nothing to import. Paste and run:

    import numpy as np


    def noisy_sum(data, n_samples, rng, scale=1.0):  # n_samples independent runs of the mechanism
        return np.sum(data) + rng.laplace(scale=scale, size=n_samples)


    def test_noisy_sum_is_private(dp_audit):  # fails if the claim is refuted on these two neighbours
        dp_audit(noisy_sum, [1.0, 0.5], [1.0, 0.5, 1.0], epsilon=1.0)


    def test_half_the_noise_would_be_caught(dp_audit):  # fails if it is not
        def broken(data, n_samples, rng):
            return noisy_sum(data, n_samples, rng, scale=0.5)

        dp_audit.must_refute(broken, [1.0, 0.5], [1.0, 0.5, 1.0], epsilon=1.0)

A test whose claims hold fails with probability at most 1e-4, and for one seed always or never. ``--dp-audit-seed=N``
replaces the seed, which follows from the names of file and test; ``--dp-audit-samples=N`` sets the number of runs of
each audit that does not say it itself. A test that passes is no proof: the `AuditResult` that both calls return says
how large a violation the audit would have caught, and of which kinds. A `WeakAuditWarning` says so when that is twice
the claim or more, when every run failed, or when both data sets are the same;
``-W error::verification.pytest_plugin.WeakAuditWarning`` makes it a failure.

A mechanism that runs once, ``mechanism(data, rng)``, is given as ``verification.repeated(mechanism)``.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from verification.auditing.result import AuditResult

FLAKE_RATE = 1e-4  # of a test: error probability of all its assertions together
DEFAULT_SAMPLES = 50_000  # a scalar mechanism is learned and certified within a second
LEAST_SAMPLES = 100  # the least that `audit` accepts
MOST_SAMPLES = 10**7  # that a warning recommends


class WeakAuditWarning(UserWarning):
    """A claim passed that could hardly have failed: too few runs, no run that succeeded, or twice the same data."""


class DpAudit:
    """Asserts privacy claims within one test; the value of the fixture ``dp_audit``.

    Guarantee
    ---------
    A test all of whose claims hold fails with probability at most 1e-4, however many there are: the i-th assertion has
    error probability 1e-4 * 6 / (pi^2 i^2), and these sum to 1e-4. That is over seeds. With the seed of its name a test
    gives the same verdict in every run of the same code. `must_refute` takes no part in this.

    Under Hypothesis' ``@given`` all examples of a test share one fixture and so the error probability, which needs
    ``@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])``. Seed and error probability then hang on
    how many examples came before, which Hypothesis chooses anew: a verdict, and the command that repeats it, are those
    of one order of examples. To search a failing pair use `verification.auditing.worst_pair.minimal_pair`.
    """

    def __init__(self, test: str, *, seed: int, n_samples: int) -> None:
        self.test = test
        self.seed = seed
        self.n_samples = n_samples
        self._n_asserted = 0
        self._n_audits = 0

    def __call__(
        self,
        mechanism: Any,
        x: Any,
        x_neighbour: Any,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        n_samples: int | None = None,
        **options: Any,
    ) -> Any:
        """Fail if an audit refutes that ``mechanism`` is (epsilon, delta)-DP, or keeps the curve that is claimed.

        Parameters
        ----------
        mechanism, x, x_neighbour, epsilon, delta
            As in `audit`.
        n_samples : int, optional
            Runs on both data sets together; by default ``--dp-audit-samples``.
        **options
            Further keyword arguments of `audit`, except ``false_alarm`` and ``rng``; ``guarantee`` or ``profile`` in
            place of ``epsilon``.

        Returns
        -------
        AuditResult or CurveAuditResult
            ``detection_limit`` says what a pass is worth.

        Raises
        ------
        AssertionError
            If the claim is refuted, with the certified bound and how to reproduce it.
        WeakAuditWarning
            Warned, if the claim is not refuted but a true epsilon of twice ``epsilon`` (of a curve, Gaussian noise of
            twice its mu, or twice the mu that has its delta at epsilon 0) would have been with probability below 0.9
            even by the best score and event (`detection_limit`; by a learned one less often: at the fewest runs that
            are not warned of, some 85 in 100 about epsilon 1, 60 to 75 below .3, above 2 and with a delta of .01 or
            more); for epsilon = 0, if none would have been; if every run failed; if both data sets are the same; if
            types of number changed from call to call, since what a type tells is not looked at.
        TypeError, ValueError
            As `audit`; or if ``false_alarm`` or ``rng`` is given.
        """
        from verification.auditing.outputs import ALL_FAILED, CHANGING_TYPE
        from verification.auditing.probing import SAME_DATA

        __tracebackhide__ = True
        self._n_asserted += 1
        error = FLAKE_RATE * 6 / (math.pi * self._n_asserted) ** 2
        result, reproduce = self._run(mechanism, x, x_neighbour, epsilon, delta, n_samples, error, options)
        if result.refuted:
            raise AssertionError(f"{result}\n{reproduce}")
        if epsilon is None:
            if weak(result.detection_limit, result.claimed_mu):
                warnings.warn(WeakAuditWarning(f"runs are few for this curve: {result}"), stacklevel=2)
        elif weak(result.detection_limit, epsilon):
            warnings.warn(WeakAuditWarning(_advice(result)), stacklevel=2)
        nothing = [note for note in result.notes if note.startswith((ALL_FAILED, SAME_DATA))]
        if nothing:
            warnings.warn(WeakAuditWarning(f"the audit had nothing to find: {'; '.join(nothing)}"), stacklevel=2)
        untold = [note for note in result.notes if note.startswith(CHANGING_TYPE)]
        if untold:
            warnings.warn(WeakAuditWarning(f"what a type tells was not looked at: {untold[0]}"), stacklevel=2)
        return result

    def must_refute(
        self,
        mechanism: Any,
        x: Any,
        x_neighbour: Any,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        n_samples: int | None = None,
        **options: Any,
    ) -> Any:
        """Fail unless an audit refutes that ``mechanism`` is (epsilon, delta)-DP, or keeps a curve: for planted faults.

        Parameters and errors are those of the fixture called as a function, the other way round. A sound mechanism is
        taken for a fault with probability at most 1e-4. How often a fault is missed depends on its size and on
        ``n_samples``: a miss is rare if its true epsilon lies well above the ``detection_limit`` in the message.
        """
        __tracebackhide__ = True
        result, reproduce = self._run(mechanism, x, x_neighbour, epsilon, delta, n_samples, FLAKE_RATE, options)
        if not result.refuted:
            raise AssertionError(f"a refutation was expected; {result}\n{reproduce}")
        return result

    def _run(
        self,
        mechanism: Any,
        x: Any,
        x_neighbour: Any,
        epsilon: float | None,
        delta: float,
        n_samples: int | None,
        error: float,
        options: dict[str, Any],
    ) -> tuple[Any, str]:
        import numpy as np

        from verification.auditing.audit import audit  # here, because pytest imports this module in every run

        taken = {"false_alarm", "rng"} & set(options)
        if taken:
            raise TypeError(f"dp_audit sets false_alarm and rng itself, got {', '.join(sorted(taken))}")
        self._n_audits += 1
        asked: Any = audit  # which of its two results it gives depends on the claim
        result = asked(
            mechanism,
            x,
            x_neighbour,
            epsilon=epsilon,
            delta=delta,
            n_samples=self.n_samples if n_samples is None else n_samples,
            false_alarm=error,
            rng=np.random.default_rng([self.seed, self._n_audits]),
            **options,
        )
        samples = "" if n_samples is not None else f" --dp-audit-samples={self.n_samples}"
        quoted = self.test.replace("'", "'\"'\"'")  # for a shell
        named = getattr(mechanism, "mechanism", mechanism)  # what `repeated` was given
        name = getattr(named, "__qualname__", type(named).__qualname__)
        return result, (
            f"{name}, audit {self._n_audits} of the test, {result.n_samples} runs,"
            f" rng = numpy.random.default_rng([{self.seed}, {self._n_audits}])\n"
            f"reproduce: pytest '{quoted}' --dp-audit-seed={self.seed}{samples}"
        )


def weak(limit: float, epsilon: float) -> bool:
    """Whether an audit of this detection limit says next to nothing about a claim of ``epsilon``."""
    return math.isinf(limit) or (epsilon > 0 and limit >= 2 * epsilon)


def _advice(result: AuditResult) -> str:
    n = _enough(result)
    enough = f"no number of runs up to {MOST_SAMPLES:,} would" if n is None else f"about {n:,} runs would"
    return (
        f"{result.n_samples:,} runs could hardly have refuted epsilon = {result.epsilon:g} at twice that: the audit"
        f" would have caught epsilon >= {result.detection_limit:.4g} at best; {enough}"
        " (n_samples= or --dp-audit-samples=)"
    )


def _enough(result: AuditResult) -> int | None:
    """Runs that are not `weak`, to an eighth, with two digits; None if none up to the most are."""
    from verification.auditing.detection_limit import DETERMINISTIC, caught

    claim = {"epsilon": result.epsilon, "delta": result.delta, "false_alarm": result.false_alarm}
    notable = 2 * result.epsilon or DETERMINISTIC

    def too_few(n: int) -> bool:
        bets = n if result.sequential else max(1, n * result.n_certified // result.n_samples)
        return not caught(notable, n=bets, sequential=result.sequential, **claim)

    few, enough = result.n_samples, 2 * result.n_samples
    while enough <= MOST_SAMPLES and too_few(enough):
        few, enough = enough, 2 * enough
    if enough > MOST_SAMPLES:
        return None
    for _ in range(3):
        middle = (few + enough) // 2
        few, enough = (middle, enough) if too_few(middle) else (few, middle)
    digit = 10 ** max(0, len(str(enough)) - 2)
    return -(-enough // digit) * digit


@pytest.fixture
def dp_audit(request: pytest.FixtureRequest) -> DpAudit:
    """Audit privacy claims: ``dp_audit(mechanism, x, x_neighbour, epsilon=1.0)`` fails if the claim is refuted.

    ``dp_audit.must_refute(...)`` fails if it is not. A test whose claims hold fails with probability at most 1e-4.
    """
    place, _, test = request.node.nodeid.partition("::")
    seed = request.config.getoption("--dp-audit-seed")
    if seed is None:
        name = f"{request.node.path.name}::{test}"  # the folder in an id depends on where pytest found its root
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    with contextlib.suppress(ValueError):  # another drive
        place = Path(os.path.relpath(request.node.path, request.config.invocation_params.dir)).as_posix()
    return DpAudit(f"{place}::{test}", seed=seed, n_samples=request.config.getoption("--dp-audit-samples"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options."""
    group = parser.getgroup("dp-audit", "privacy audits")
    group.addoption(
        "--dp-audit-seed",
        type=_integer(0),
        metavar="SEED",
        help="seed of all privacy audits (default: from the name of each test)",
    )
    group.addoption(
        "--dp-audit-samples",
        type=_integer(LEAST_SAMPLES),
        default=DEFAULT_SAMPLES,
        metavar="N",
        help=f"runs of each privacy audit that does not say it itself (default {DEFAULT_SAMPLES})",
    )


def _integer(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"must be an integer of at least {least}, got {text!r}")
        return value

    return parse

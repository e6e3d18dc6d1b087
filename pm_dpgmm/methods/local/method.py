"""Local privacy, client and server at once: one randomised report of every record, then a fit. Proof: method.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_choice, check_count, plain_numbers, read_numbers
from pm_dpgmm.mechanisms.histogram import MOST_COUNTS
from pm_dpgmm.methods.local.aggregation import Counted, counted
from pm_dpgmm.methods.local.caveats import local_caveats
from pm_dpgmm.methods.local.design import RESOLUTION, Frame, check_resolution, protocol_parts, whitened_waves
from pm_dpgmm.methods.local.evidence import Evidence, evidence_of
from pm_dpgmm.methods.local.fit import Found, chart_of, expected_loss, fit_responses
from pm_dpgmm.methods.local.protocol import LocalProtocol
from pm_dpgmm.methods.local.randomisers import KINDS
from pm_dpgmm.methods.local.responses import VectorResponses, WaveResponses, responses_from_arrays
from pm_dpgmm.methods.outcome import Listener, Method, Outcome, Problem, Progress, TooFewRecords, kept_by_nobody
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.privacy.noise import Rng, permutation
from pm_dpgmm.records.feature_names import check_unlabelled

MOST_COMPONENTS = 64
MOST_NUMBERS = 256  # of a mixture: far more than reports of any number of people tell, and the fit takes minutes
BUFFER = 1024  # bytes
WORDS = "one randomised report of every record by itself (methods/local/method.md)"


@dataclass(frozen=True, slots=True)
class LocalMethod(Method):
    """Settings of ``method="local"``.

    Parameters
    ----------
    randomiser : {"one-bit", "optimised", "symmetric", "k-ary", "subset"}
        "one-bit", for any number of columns: every record picks a public wave cos(w . x + b) and reports on which side
        of it it lies. The others tell of cells of one or two columns: a bit for each of at most 64 ("optimised",
        "symmetric" unary encoding), one of them ("k-ary"), some of them ("subset").
    centre, scale : float or sequence of D floats, optional
        Public guess of where the records are, and how far from there on either side, where there are no bounds; in the
        unit of the records. Nothing is clipped to either.
    resolution : float
        Of "one-bit": half-widths of the bounds (or ``scale``) to the narrowest standard deviation that is looked for,
        1 to 10,000. Waves that are finer than needed are asked in vain.
    n_cells : int, optional
        Cells along each column, of the other kinds: 16 in one column, 8 in two.
    rounds : {1, 2}
        2, of "one-bit" only: the second half of the records gets waves that suit what the first half reported. Better
        from three columns on where components differ in shape, and where the scale was guessed badly.

    Guarantee
    ---------
    Every report is epsilon-locally differentially private, exactly, so everything in the release is epsilon-DP (delta
    is 0 whatever the budget's) under replace-one neighbours, also for whoever sees every report. Who takes part is not
    hidden: "add-remove" is refused. Proof: method.md.
    """

    randomiser: str = "one-bit"
    centre: float | Sequence[float] | None = None
    scale: float | Sequence[float] | None = None
    resolution: float = RESOLUTION
    n_cells: int | None = None
    rounds: int = 1
    name: ClassVar[str] = "local"

    def __post_init__(self) -> None:
        check_choice(KINDS, randomiser=self.randomiser)
        check_resolution(self.resolution)
        check_count(most=2, rounds=self.rounds)
        for name in ("centre", "scale"):
            value = getattr(self, name)
            if value is None:
                continue
            check_unlabelled(value, name=name)
            numbers = read_numbers(value, name)
            if numbers.ndim > 1 or not np.isfinite(numbers).all() or (name == "scale" and (numbers <= 0).any()):
                rule = "greater than 0 and " if name == "scale" else ""
                raise ValueError(f"{name} must be {rule}finite, one number or one for each column, got {value!r:.80}")
            object.__setattr__(self, name, tuple(numbers.tolist()) if numbers.ndim else float(numbers))
        if self.n_cells is not None:
            check_count(least=2, most=2**16, n_cells=self.n_cells)
            if self.randomiser == "one-bit":
                raise ValueError("n_cells must be left out with randomiser 'one-bit', which has none")
        if self.rounds == 2 and self.randomiser != "one-bit":
            raise ValueError(f"rounds must be 1 with randomiser {self.randomiser!r}, got 2")
        plain_numbers(self)

    def recorded(self) -> dict[str, Any]:
        """Settings as a release holds them."""
        return {name: list(v) if isinstance(v, tuple) else v for name in FIELDS for v in (getattr(self, name),)}

    def cost(self, problem: Problem) -> tuple[float, float]:
        """All of epsilon; delta is not needed."""
        return problem.epsilon, 0.0

    def guarantee(self, problem: Problem) -> Guarantee:
        """What :meth:`release` promises; made before anything is spent."""
        return Guarantee(problem.epsilon, 0.0, problem.neighbouring, WORDS, PointProfile(problem.epsilon))

    def frame(self, problem: Problem) -> Frame:
        """Where the records are by public knowledge."""
        return Frame.of(problem.n_features, problem.bounds, self.centre, self.scale)

    def protocol(self, problem: Problem) -> LocalProtocol:
        """The rules by which every record is told of; of the first half, where there are two rounds."""
        parts = protocol_parts(self.frame(problem), self.randomiser, resolution=self.resolution, n_cells=self.n_cells)
        return LocalProtocol(self.randomiser, problem.epsilon, **parts)

    def check(self, problem: Problem) -> None:
        """Raise ValueError unless there is a protocol for such records, and neighbours replace one."""
        if problem.neighbouring is not Neighbouring.REPLACE_ONE:
            raise ValueError(
                "neighbouring must be 'replace-one' with method 'local', which does not hide who takes part, got"
                f" {str(problem.neighbouring)!r}"
            )
        if problem.n_components > MOST_COMPONENTS:
            raise ValueError(
                f"n_components must be at most {MOST_COMPONENTS} with method 'local', got {problem.n_components}"
            )
        size = chart_of(problem.n_components, problem.n_features).size
        if size > MOST_NUMBERS:
            rule = (
                f"n_components must be so small that a mixture has at most {MOST_NUMBERS} numbers with method 'local'"
            )
            raise ValueError(f"{rule}, got {problem.n_components} in {problem.n_features} columns")
        if self.rounds == 2 and problem.n_records < 2:
            raise TooFewRecords("2 rows for 2 rounds", problem.n_records)
        protocol = self.protocol(problem)
        if protocol.phases and len(protocol.phases) * problem.n_features * self.rounds > MOST_COUNTS:
            raise ValueError(f"X must have fewer columns with method 'local', got {problem.n_features}")
        if self.randomiser == "subset" and problem.n_records > MOST_COUNTS // 4:
            rule = f"X must have at most {MOST_COUNTS // 4} rows with randomiser 'subset', whose reports are all kept"
            raise ValueError(f"{rule}, got {problem.n_records}")
        self.guarantee(problem).check_storable()

    def release(
        self,
        records: FloatArray,
        problem: Problem,
        *,
        learner: Any,
        n_jobs: int | None,
        progress: Progress,
        rng: Rng,
        released: Listener = kept_by_nobody,
    ) -> Outcome:
        """Let every record report once, count, fit; see the class for the guarantee."""
        guarantee, frame, protocol = self.guarantee(problem), self.frame(problem), self.protocol(problem)
        if self.rounds == 1:
            responses = reported(protocol, records, rng=rng)
        else:
            order, half = permutation(len(records), rng=rng), len(records) // 2
            first = reported(protocol, records[order[:half]], rng=rng)
            assert isinstance(first, WaveResponses)
            released(guarantee, *self._told(first, frame, problem))
            responses = first.with_more(
                self._second(first, frame, problem, records[order[half:]], rng)  # other people: each answers once
            )
        # from here on only `responses` and public numbers are used
        raw, noise = self._told(responses, frame, problem)
        released(guarantee, raw, noise)
        return fitted(guarantee, raw, noise, problem.n_components, progress)

    def _second(
        self, first: WaveResponses, frame: Frame, problem: Problem, records: FloatArray, rng: Rng
    ) -> WaveResponses:
        """Reports of the other half about waves for the mixture that the first half's reports gave."""
        evidence = evidence_of(first, frame)
        found = fit_responses(evidence, problem.n_components, problem.n_features, progress=_silent)
        frequencies, phases = whitened_waves(frame, frame.outer(found.mixture))
        protocol = LocalProtocol(
            self.randomiser, problem.epsilon, frequencies=frequencies.tolist(), phases=phases.tolist()
        )
        responses = reported(protocol, records, rng=rng)
        assert isinstance(responses, WaveResponses)
        return responses

    def _told(self, responses: Counted, frame: Frame, problem: Problem) -> tuple[dict[str, FloatArray], dict[str, Any]]:
        return released_numbers(responses, frame, problem.epsilon)


FIELDS = ("randomiser", "centre", "scale", "resolution", "n_cells", "rounds")


def reported(protocol: LocalProtocol, records: FloatArray, *, rng: Rng = None) -> Counted:
    """Counts of the reports of all records, each made as its owner's device would.

    Guarantee
    ---------
    epsilon-DP under replace-one neighbours: every row is read once, by :meth:`LocalProtocol.respond`. Proof: method.md.
    """
    source = None if rng is None else _Buffered(rng)
    return counted(protocol, Counter(protocol.output_of(protocol.respond(row, source)) for row in records.tolist()))


class _Buffered:
    """Bytes of a generator, many at a time: a simulation asks for a few of them a hundred thousand times."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.left = rng, b""

    def bytes(self, n: int) -> bytes:
        """The next ``n``."""
        if len(self.left) < n:
            self.left += self.rng.bytes(BUFFER)
        found, self.left = self.left[:n], self.left[n:]
        return found


def released_numbers(responses: Counted, frame: Frame, epsilon: float) -> tuple[dict[str, FloatArray], dict[str, Any]]:
    """Entries of ``raw`` and ``noise``."""
    raw, law = responses.to_arrays()
    noise = {"statistic": "local responses", "law": "randomised responses", "epsilon": epsilon}
    return raw | {"local_frame": np.stack([frame.centre, frame.scale])}, noise | law


Search = tuple[Frame, Evidence, int, Found]  # the third is the number of responses


def searched(raw: Mapping[str, FloatArray], noise: Mapping[str, Any], n_components: int, progress: Progress) -> Search:
    """The best mixture for what was released: post-processing, also later from a file."""
    responses = responses_from_arrays(raw, noise)
    if isinstance(responses, VectorResponses) or np.shape(raw.get("local_frame", ())) != (2, responses.n_features):
        raise ValueError("a release of method 'local' must have reports and their local_frame to be fitted, got others")
    frame = Frame(*raw["local_frame"])
    evidence = evidence_of(responses, frame)
    found = fit_responses(evidence, n_components, responses.n_features, progress=progress)
    return frame, evidence, responses.n_responses, found


def outcome_of(
    search: Search, guarantee: Guarantee, raw: Mapping[str, FloatArray], noise: Mapping[str, Any]
) -> Outcome:
    """That mixture, and what speaks against it."""
    frame, evidence, n_responses, found = search
    loss = expected_loss(evidence, found)
    law = {"expected_loss": loss, "caveats": local_caveats(evidence, found, loss, n_responses)}
    return Outcome(frame.outer(found.mixture), guarantee, raw, dict(noise) | law)


def fitted(
    guarantee: Guarantee, raw: Mapping[str, FloatArray], noise: Mapping[str, Any], n_components: int, progress: Progress
) -> Outcome:
    """Both of them."""
    return outcome_of(searched(raw, noise, n_components, progress), guarantee, raw, noise)


def _silent(done: int, total: int) -> None:
    pass

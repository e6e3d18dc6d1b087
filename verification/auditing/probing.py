"""A few runs before those of an audit: whether a mechanism draws its randomness from the generator that it is given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from verification.auditing.alike import NAMES, come_again
from verification.auditing.outputs import Runner, as_rows, reseed_the_process
from verification.auditing.parts import ONE_SHAPE

FloatArray = NDArray[np.float64]

PROBES = 64  # runs with two generators
FAILURE = 1.7e308
ELSEWHERE = "the mechanism also draws from elsewhere than rng, so the seed alone does not repeat this audit"
SAME_DATA = (
    "x and x_neighbour are the same data, as far as values, types and labels go; the order of mappings and sets counts"
    " for nothing"
)


def probe(runner: Runner, rng: np.random.Generator, *, n_jobs: int = 1) -> list[str]:
    """Notes on the mechanism's randomness from a few runs of their own, on both data sets.

    Raises ValueError when two generators give the same runs, or the same one number of them, although the runs differ
    among themselves: runs would then repeat from call to call, and no count of them means anything. With workers also
    when two copies of the mechanism repeat each other so, or two processes, as copies of a generator that it or its
    module keeps would. Outputs with few values coincide by chance; the rule asks for a chance below 1e-9
    (`alike.come_again`). Raises it, too, for a number that is one value in all runs of a call and another one in the
    next, or where fewer runs are asked for: such runs are not independent, and would tell the data sets apart though no
    record does.
    """
    seeds = rng.integers(2**32, size=(2, 4))
    followed = [_probe_one(runner, which, seeds, copies=n_jobs != 1) for which in (1, 0)]
    notes = [SAME_DATA] if runner.same_data else []
    return notes if all(followed) else [*notes, ELSEWHERE]


def _probe_one(runner: Runner, which: int, seeds: NDArray[np.int64], *, copies: bool) -> bool:
    """`probe` on one data set: whether a generator repeats its runs."""

    drawn = []

    def rows(seed: NDArray[np.int64], own: Runner = runner, n: int = PROBES) -> NDArray[Any]:
        drawn.append(_drawn(own, which, n, seed))
        return _comparable(drawn[-1])

    name = NAMES[which]
    first, other, fewer = rows(seeds[0]), rows(seeds[1]), rows(seeds[0], n=PROBES // 2)
    runner.probed[which] = drawn[:2]  # the third had the generator of the first
    for more in (other, fewer):
        if first.shape[1:] != more.shape[1:]:
            raise ValueError(f"{ONE_SHAPE}, got {first.shape[1:]} and {more.shape[1:]} on {name}")
        shared = (first == first[0]).all(axis=0) & (more == more[0]).all(axis=0) & (first[0] != more[0])
        if shared.any():  # by chance less than once in 2^80, whatever the law
            raise ValueError(
                f"mechanism must draw every run by itself, got one number in all {len(first)} runs of a call on {name}"
                f" and another one in all {len(more)} of another (number {int(np.argmax(shared))} of a run)"
            )
    if come_again(first, other):
        raise ValueError(
            f"mechanism must draw its randomness from rng, got the same numbers in runs on {name} from two generators"
        )
    # as many runs again only where fewer of them are others, as where one draw serves several numbers of a run
    if np.array_equal(first[: len(fewer)], fewer) or np.array_equal(first, rows(seeds[0])):
        return True
    if copies:
        import cloudpickle

        packed = cloudpickle.dumps(runner)
        if come_again(*(rows(seed, cloudpickle.loads(packed)) for seed in seeds)) or (
            which == 1 and not _workers_are_threads() and come_again(*(_in_new_process(packed, seed) for seed in seeds))
        ):
            raise ValueError(
                "mechanism must draw its randomness from rng when n_jobs is not 1, got the same numbers in runs on"
                f" {name} from two copies of it, as workers would"
            )
    return False


def _workers_are_threads() -> bool:
    """Whether the backend that joblib would take runs the mechanism itself, and no copies of it."""
    from joblib.parallel import get_active_backend

    backend = get_active_backend()[0]
    return bool(getattr(backend, "uses_threads", False) or getattr(backend, "supports_sharedmem", False))


def _in_new_process(packed: bytes, seed: NDArray[np.int64]) -> FloatArray:
    """Runs on ``x`` in a process of their own: a generator of a module begins anew in every worker."""
    from joblib.externals.loky import ProcessPoolExecutor

    with ProcessPoolExecutor(max_workers=1) as alone:
        return np.asarray(alone.submit(_rows_of, packed, seed).result())


def _rows_of(packed: bytes, seed: NDArray[np.int64]) -> FloatArray:
    import cloudpickle

    runner = cloudpickle.loads(packed)
    reseed_the_process()
    return _comparable(_drawn(runner, 1, PROBES, seed))


def _drawn(runner: Runner, which: int, n: int, seed: NDArray[np.int64]) -> FloatArray:
    parts, _ = runner.draw(which, n, np.random.default_rng(seed))
    return as_rows(parts)


def _comparable(rows: FloatArray) -> FloatArray:
    """NaN would differ from itself."""
    return np.nan_to_num(rows, nan=FAILURE)

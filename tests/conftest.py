"""One thread for each numerical library: the test workers share the machine, and spinning threads slow each other down.

Property tests repeat the same examples at every run; ``HYPOTHESIS_PROFILE=night`` draws fresh and more ones.

``make test`` leaves out what is marked ``thorough``, ``make test-all`` runs everything. Of a parametrised test
``@pytest.mark.thorough(quick=["1-3"])`` leaves out all cases but those named. ``--part 2/4`` keeps the second of four
parts of the thorough ones, the same at every run.
"""

import os
import signal
from dataclasses import replace

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import pytest  # noqa: E402 - after the threads are set
from hypothesis import settings  # noqa: E402

from tests.builders.examples import examples  # noqa: E402
from tests.builders.parts import in_part  # noqa: E402

settings.register_profile("day", derandomize=True, database=None, deadline=None)
settings.register_profile("quick", max_examples=examples(100), derandomize=True, database=None, deadline=None)
settings.register_profile("night", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "day"))


def pytest_addoption(parser):
    parser.addoption("--part", help="k/n: of the thorough tests the k-th of n parts alone")


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(config, items):
    """Take the mark off the cases of a thorough test that are quick; leave out thorough ones of other parts."""
    listed, found = set(), set()
    for item in items:
        for mark in item.iter_markers("thorough"):
            quick = mark.kwargs.get("quick", ())
            listed |= {(item.nodeid.split("[")[0], case) for case in quick}
            if quick and item.callspec.id in quick:
                found.add((item.nodeid.split("[")[0], item.callspec.id))
                item.own_markers.remove(mark)
    if listed - found and not any("::" in argument for argument in config.args):  # a case alone was asked for
        raise pytest.UsageError(f"quick must list cases of the test, got {sorted(listed - found)}")
    if (part := config.getoption("--part")) is not None:
        kept = [item.get_closest_marker("thorough") is None or in_part(item.nodeid, part) for item in items]
        config.hook.pytest_deselected(items=[item for item, keep in zip(items, kept, strict=True) if not keep])
        items[:] = [item for item, keep in zip(items, kept, strict=True) if keep]


@pytest.fixture
def judge(monkeypatch):
    """``judge(rejected)``: sketch fits find what they find, without a search, and are accepted or rejected as told."""
    from pm_dpgmm.methods.sketch import choice as sketch_choice, rounds as sketch_rounds
    from pm_dpgmm.methods.sketch.estimate import REJECTED

    real = sketch_rounds.fit_evidence

    def judged(rejected):
        def fit(evidence, n_components, **given):
            found = real(evidence, n_components, **(given | {"search": False}))
            return replace(found, misfit=REJECTED + 1 if rejected else 0.0)

        for module in (sketch_choice, sketch_rounds):
            monkeypatch.setattr(module, "fit_evidence", fit)

    return judged


@pytest.fixture
def interruptible():
    """The interrupt signal raises KeyboardInterrupt, also in a job in the background, which starts with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)

"""``python -m verification audit``: one claim, one mechanism, one pair of data sets, and its certificate."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, redirect_stdout, suppress
from typing import Any

import numpy as np

from pm_dpgmm.cli.exit_status import one_line
from pm_dpgmm.files.writing import check_destination, reserved


def run(options: argparse.Namespace) -> int:
    """The exit status of an audit: 1 where the claim is refuted. What is asked for is written before it is printed."""
    with _place_of_certificate(options) as place:
        return _audit_to(place, options)


def _place_of_certificate(options: argparse.Namespace) -> AbstractContextManager[Any]:
    """Where it goes, whatever folder the mechanism changes to; without --force a file that this audit alone has."""
    if options.certificate is None:
        return nullcontext()
    if options.force:
        return nullcontext(os.path.abspath(check_destination(options.certificate, name="--certificate", force=True)))
    return reserved(options.certificate, name="--certificate")


def _audit_to(place: Any, options: argparse.Namespace) -> int:
    from verification.auditing.audit import audit
    from verification.auditing.given_data import as_given
    from verification.auditing.repeated import repeated

    module, _, function = options.mechanism.partition(":")
    try:
        with _apart():
            mechanism = getattr(importlib.import_module(module), function)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of the module, too: its code runs
        print(f"mechanism must be module:function, got {options.mechanism!r}: {one_line(error)}", file=sys.stderr)
        return 2
    try:
        if options.once:
            mechanism = repeated(mechanism)
        asked: Any = audit  # which of its two results it gives depends on the claim
        with _apart():
            result = asked(
                mechanism,
                as_given(options.x),
                as_given(options.x_neighbour),
                **_claim_of(options),
                delta=options.delta,
                n_samples=options.n_samples,
                false_alarm=options.false_alarm,
                level=options.level,
                sequential=options.sequential,
                n_jobs=options.n_jobs,
                progress=True,
                rng=None if options.seed is None else np.random.default_rng(options.seed),
            )
    except Exception as error:  # of the mechanism, too; status 1 would say that the claim is refuted
        print(f"{type(error).__name__}: {one_line(error)}", file=sys.stderr)
        return 2
    lost = ""
    if place is not None:
        try:
            result.save(place, mechanism=options.mechanism, pair=f"{options.x} and {options.x_neighbour}")
        except (OSError, ValueError) as error:
            lost = f"certificate not written: {one_line(error)}; standard output has its numbers"
    print(json.dumps(result.as_dict()) if options.json or lost else result)
    if lost:
        print(lost, file=sys.stderr)
        return 2
    return int(result.refuted)


@contextmanager
def _apart() -> Iterator[None]:
    """What a mechanism prints is not the result: it goes to standard error, from whatever process or language."""
    with redirect_stdout(sys.stderr), ExitStack() as back:
        with suppress(OSError, ValueError):  # there is no standard output, or no standard error
            if sys.__stdout__ is not None:
                sys.__stdout__.flush()
            own = os.dup(1)
            back.callback(os.close, own)
            os.dup2(2, 1)
            back.callback(os.dup2, own, 1)
            if sys.__stdout__ is not None:
                back.callback(sys.__stdout__.flush)
        yield


def _claim_of(options: argparse.Namespace) -> dict[str, Any]:
    """The claim as an argument of `audit`."""
    from verification.auditing.claimed_curve import GDP, ZCDP

    if options.epsilon is not None:
        return {"epsilon": options.epsilon}
    if options.release is not None:
        from pm_dpgmm import Release

        return {"guarantee": Release.load(options.release).guarantee}
    return {"profile": GDP(options.mu) if options.rho is None else ZCDP(options.rho)}

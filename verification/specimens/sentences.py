"""What a specimen or target does, in a sentence: its mechanism's docstring, where that says it all."""

from __future__ import annotations

import functools
import inspect

from verification.specimens.specimen import Specimen

# runs of one class or function under several settings
OF_RUNS = {
    "run_em_laplace": "DP-EM, two iterations as printed: Laplace noise on the means, one-sided on the second moments.",
    "run_em_gaussian": "DP-EM, two iterations as printed: Gaussian noise on the means, one-sided on second moments.",
    "run_em_equation_31": "DP-EM, two iterations with the budget for each release that equation 31 gives.",
    "run_em_own_norm": "DP-EM on records divided by their own largest norm; its noise is two-sided.",
    "run_em_twin_laplace": "DP-EM with Laplace noise on both sides and records within a public norm.",
    "run_em_twin_gaussian": "DP-EM with Gaussian noise on the means, Laplace on second moments, and a public norm.",
    "run_local_full": "A local run, one-hot reports of bins with the full epsilon on every bit, and a fitted mixture.",
    "run_local_own_bins": "A local run whose bins reach from the smallest to the largest record.",
    "run_local_twin": "A local run with half of epsilon on every bit and public bins.",
    "run_central": "A central run: weights, means and variances of clusters with noise for sensitivities by n.",
    "run_central_empty": "The same central run where a record's change empties a cluster.",
    "run_central_twin": "A central run with noise on counts and sums, whose sensitivities hold.",
    "laplace_ok": "Laplace noise of NumPy's sampler, scale 1, looked at as real numbers: there it is sound.",
    "gauss_ok": "Gaussian noise of NumPy's sampler for (1, 1e-3), looked at as real numbers: there it is sound.",
    "S12_plain_majority": "Agreement of more than half of the blocks, though two majorities may share none.",
    "S12_twin_shared_majority": "Agreement of so many blocks that any two sets of them share one that did not change.",
    "S1_twin_radius_gamma": "The populous estimator with fits as close as the mask needs, at the same total claim.",
    "S9_twin_half": "One user's bin as a vector with one mark, half of epsilon on every bit: two bits change.",
    "S3_twin_laplace": "Second-moment matrix with independent discrete Laplace noise on its upper triangle.",
    "S2_twin_laplace": "Second moment with discrete Laplace noise: exactly epsilon.",
}


def sentence(specimen: Specimen) -> str:
    """What its mechanism does, and its note; of a mechanism without a docstring, whose it is."""
    told = OF_RUNS.get(specimen.name) or _of_docstring(specimen.mechanism)
    if not told:
        of = specimen.origin.removeprefix("fault in ")
        told = (
            f"{'A planted fault' if specimen.broken else 'A release path'} of {of}: {specimen.name.replace('_', ' ')}."
        )
    note = f" ({specimen.note})" if specimen.note else ""
    return f"{told}{note}".strip()


def _of_docstring(mechanism: object) -> str:
    while isinstance(mechanism, functools.partial):
        mechanism = mechanism.func
    # an object's class would say what its settings are, not what it does
    inner = getattr(mechanism, "sample", None)
    if not inspect.isfunction(mechanism) and callable(inner):
        return _of_docstring(inner)
    text = inspect.getdoc(mechanism if inspect.isfunction(mechanism) else type(mechanism)) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("``", "")

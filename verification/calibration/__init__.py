"""Do posteriors that know about the noise cover the truth? Simulated releases, truths drawn from the prior.

``python -m verification.calibration`` runs the studies in the table ``STUDIES`` of ``__main__``: functions
``(n_replications, *, seed)`` that give one :class:`intervals.Row` per parameter. ``intervals``, ``ensemble``,
``importance``, ``separated`` and ``mixture_kernels`` are what they share; ``count_warnings``, ``faint`` and
``sketch_score`` answer other questions and are run by themselves.
"""

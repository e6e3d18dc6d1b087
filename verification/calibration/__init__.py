"""Do posteriors that know about the noise cover the truth? Simulated releases, truths drawn from the prior.

``python -m verification.calibration`` runs the studies; each prints one row per parameter.
"""

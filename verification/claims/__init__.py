"""The statements of five papers on private Gaussian mixtures, and this package's own, each with a check to rerun.

``verdicts.csv`` lists what must be here. Each stands above its check, in a folder per paper or subject; ``claim.py``
says what a claim is, ``search.py`` how worst cases are looked for, ``run.py`` runs them. ``python -m verification
claims`` prints the table. Sources in ``verdicts.csv``:

- AAL23: Arbas, Ashtiani and Liaw, "Polynomial time and private learning of unbounded Gaussian mixture models", 2023
  ("F.6" alone is its Lemma F.6);
- TH: Arbas's thesis on the private populous estimator, 2023;
- PFCW: Park, Foulds, Chaudhuri and Welling, DP-EM, 2017;
- HM: Harrington and Mayolo, local and central private mixtures;
- AMN24: Ashtiani, Majid and Narayanan, sample-efficient private learning of mixtures, 2024;
- "aggregated", "corrected" and the like: this package's own theorems, and papers' statements changed by it.
"""

from __future__ import annotations

from verification.claims.claim import Claim, Effort, Finding, Kind, Verdict
from verification.claims.registry import all_claims
from verification.claims.run import Outcome, run_claim, run_claims

__all__ = ["Claim", "Effort", "Finding", "Kind", "Outcome", "Verdict", "all_claims", "run_claim", "run_claims"]

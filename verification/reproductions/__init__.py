"""Tables and figures of the papers, run again: as printed, sound, and without privacy, with what each really promises.

``run_reproductions`` runs them; ``verification.report`` lays them out. A module or a folder for each
paper, its mechanisms beside it; ``tables`` gets real records from packages that bring them.
"""

from verification.reproductions.experiment import Effort, Experiment, Verdict
from verification.reproductions.run import EXPERIMENTS, run_reproductions

__all__ = ["EXPERIMENTS", "Effort", "Experiment", "Verdict", "run_reproductions"]

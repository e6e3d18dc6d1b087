"""One page, and one Markdown file, that say what is true of private Gaussian mixtures and how that was checked.

``contents.py`` collects, ``page.py`` and ``markdown.py`` lay out, ``figures.py`` draws; ``experiments.py`` does both
for the experiments of the papers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pm_dpgmm.files.writing import write_text
from verification.claims import Outcome, all_claims, run_claims
from verification.claims.run import SEED
from verification.report import figures
from verification.report.contents import Contents, Figure
from verification.report.experiments import experiments_markdown
from verification.report.markdown import to_markdown
from verification.report.page import experiments_page, to_html
from verification.reproductions import Effort, Experiment, run_reproductions
from verification.specimens import Specimen
from verification.trials import Trial

__all__ = ["Contents", "Figure", "collect", "to_html", "to_markdown", "write_experiments", "write_report"]


def collect(
    *,
    seed: int = SEED,
    thorough: bool = False,
    share: float = 1.0,
    audits: bool = True,
    reproductions: bool = True,
    n_jobs: int = 1,
    progress: Callable[[str], None] = lambda name: None,
    partly: Callable[[Contents], None] = lambda contents: None,
) -> Contents:
    """Run everything that a report needs.

    Parameters
    ----------
    seed : int
        Of claims and audits; the same seed gives the same report.
    thorough : bool
        Check claims with about ten times as many cases.
    share : float
        Multiplies the number of samples of the audits.
    audits : bool
        Whether to audit specimens and the package's own mechanisms, which takes most of the time.
    reproductions : bool
        Whether to run the papers' experiments again, at full length if ``thorough``.
    n_jobs : int
        Worker processes for claims, audits and experiments.
    progress : callable
        Called with the name of what was just finished.
    partly : callable
        Called with what is there after the claims and after each kind of audit, if more follows: a report that says of
        the rest that it was not run.

    Raises
    ------
    TrialsError
        If audits of a kind ended in an error; ``partly`` was given those of the others.
    """
    from verification.specimens import all_specimens
    from verification.targets import all_targets
    from verification.trials import TrialsError, run_trials

    def told(outcome: Outcome) -> None:
        progress(outcome.claim.id)

    def done(trial: Trial) -> None:
        progress(trial.specimen.name)

    def audited(mechanisms: Sequence[Specimen], page: Callable[[list[Trial]], Contents]) -> Contents:
        """The page with the audits of one kind."""
        try:
            return page(run_trials(mechanisms, seed=seed, share=share, n_jobs=n_jobs, progress=done))
        except TrialsError as error:
            partly(page(error.trials))
            raise

    outcomes = run_claims(all_claims(), seed=seed, thorough=thorough, n_jobs=n_jobs, progress=told)
    found = Contents(outcomes, None, None, figures.all_figures(seed), seed, thorough, share, None)
    if audits:
        partly(found)
        found = audited(all_specimens(), lambda trials: replace(found, specimens=trials))
        partly(found)
        found = audited(all_targets(), lambda trials: replace(found, targets=trials))
        drawn = figures.audits([*(found.specimens or []), *(found.targets or [])])
        found = replace(found, figures=[*found.figures, drawn])
    if reproductions:
        partly(found)
        effort = Effort(quick=not thorough, seed=seed, n_jobs=n_jobs)
        experiments = run_reproductions(effort=effort, progress=lambda experiment: progress(experiment.name))
        found = replace(found, reproductions=experiments)
    return found


def write_report(contents: Contents, folder: str | Path) -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.md`` into ``folder``, which is made if it is missing; returns their paths."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    page, text = to_html(contents), to_markdown(contents)  # both, before any file is written
    return write_text(place / "report.html", page), write_text(place / "report.md", text)


def write_experiments(experiments: Sequence[Experiment], folder: str | Path, *, command: str) -> tuple[Path, Path]:
    """Write ``reproductions.html`` and ``reproductions.md`` into ``folder``; returns their paths."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    page = experiments_page(experiments, command)
    text = "\n".join(["# Experiments of the papers, run again", "", *experiments_markdown(experiments)]) + "\n"
    return write_text(place / "reproductions.html", page), write_text(place / "reproductions.md", text)

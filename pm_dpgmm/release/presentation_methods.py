"""How a release is shown: as text, as a card, in notebooks, in figures; thin methods, imported when one is called."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pm_dpgmm.release.summary_text import summary

if TYPE_CHECKING:
    from pm_dpgmm.privacy.ledger import Ledger
    from pm_dpgmm.release.release import Release


class PresentationMethods:
    """Methods of :class:`pm_dpgmm.Release`. Nothing is shown but the release, and texts that are given."""

    __slots__ = ()

    def summary(self) -> str:
        """What was fitted, what it cost, what speaks against it, and the released parameters, as text for a terminal.

        Parameters are in the unit of the records, heaviest component first and numbered as in all arrays; ``(sd)`` are
        standard deviations. Columns
        with a transformation are in the transformed unit, as the text says, and have medians in that of the records.
        Texts that may come from a file are shown without control characters.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15)).summary().splitlines()[0]
        "2-component Gaussian mixture in 1 dimensions (x0), method 'histogram'"
        """
        return summary(cast("Release", self))

    def _repr_html_(self) -> str:
        """What notebooks show: price, warnings, components."""
        from pm_dpgmm.release.notebook import release_html

        return release_html(cast("Release", self))

    def card(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "Release of a private Gaussian mixture",
        data: str = "",
        contact: str = "",
        licence: str = "",
        date: str | datetime.date | None = None,
        file: str = "release.json",
        units: Mapping[str, str] | None = None,
        descriptions: Mapping[str, str] | None = None,
        rows_per_person: int | None = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        force: bool = False,
    ) -> Path:
        """Write a card to publish beside the file, for readers who know nothing of differential privacy.

        It says what the data are and who is answerable, what is and is not protected and how strongly, for one record
        and for several, what was released, with standard errors, and every warning with its effect. Nothing enters it
        but this release, the texts given, and the sums of the ledger. All texts are escaped, wherever they come from.

        Parameters
        ----------
        path : path
            Ends in .html or .htm for one page with drawings that loads nothing else, in .md, .markdown or .txt for
            Markdown. Written all or nothing.
        title, data, contact, licence : str
            Of the release; what the data are; who answers for it; on what terms it may be used.
        date : str or date, optional
            Of the card; None is today.
        file : str
            Name of the release file, for the lines that load it.
        units, descriptions : mapping of str to str, optional
            Of columns, by name.
        rows_per_person : int, optional
            Most records that one person has, by public knowledge; the card says what protection is left then.
        ledger : Ledger or path, optional
            Of the records: the card has its budget and what is spent in all.
        force : bool
            Whether a file that is there may be overwritten.

        Returns
        -------
        pathlib.Path
            The path.

        Raises
        ------
        TypeError, ValueError
            If a text is none, a column is unknown, or the name of the file ends otherwise.
        OSError
            If the file is there and ``force`` is False (FileExistsError), or cannot be written.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15))
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "card.md"
        >>> written = release.card(path, title="Waiting times", contact="registry@clinic.example", units={"x0": "days"})
        >>> written.read_text().splitlines()[0]
        '# Waiting times'
        """
        from pm_dpgmm.release.card.writing import write_card

        return write_card(
            cast("Release", self),
            path,
            force=force,
            title=title,
            data=data,
            contact=contact,
            licence=licence,
            date=date,
            file=file,
            units=units,
            descriptions=descriptions,
            rows_per_person=rows_per_person,
            ledger=ledger,
        )

    def plot(self, *, features: Sequence[int | str] = (0, 1), n_points: int = 200, ax: Any = None) -> Any:
        """Density of the release: a curve in one dimension, contours and component ellipses in two. No record is drawn.

        In the unit of the records; axes of columns with a transformation have its scale, logarithmic for "log".

        Parameters
        ----------
        features : pair of str or int
            Features to show when there are two or more, by name or by place from 0.
        n_points : int
            Points along each axis, 10 to 5,000.
        ax : matplotlib axes or arviz_plots.PlotCollection of one plot, optional
            Where to draw; a new figure when None.

        Returns
        -------
        matplotlib axes, or the PlotCollection given

        Raises
        ------
        TypeError, ValueError
            If ``features`` are not two different features of the release, ``n_points`` is out of its range, or ``ax``
            is no axes.

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15)).plot().get_ylabel()
        'density'
        """
        from pm_dpgmm.release.plots import plot_release

        return plot_release(cast("Release", self), features=features, n_points=n_points, ax=ax)

    def plot_pairs(
        self,
        *,
        features: Sequence[int | str] | None = None,
        n_points: int = 80,
        n_draws: int = 40,
        axes: Any = None,
    ) -> Any:
        """All columns two by two: densities on the diagonal, contours and ellipses of the components below it.

        For methods "sketch" and "two-phase" columns have 90 % intervals, and ellipses stand among pale ones of mixtures
        that the released numbers leave plausible. No record is drawn; all in the unit of the records.

        Parameters
        ----------
        features : sequence of str or int, optional
            M columns by name or by place from 0, in the order wanted; None: all, of which there may be 12.
        n_points : int
            Points along each axis, 10 to 1,000.
        n_draws : int
            Pale ellipses for each component, 0 to 1,000.
        axes : array of matplotlib axes, shape (M, M), optional
            Where to draw; a new figure when None.

        Returns
        -------
        ndarray of matplotlib axes, shape (M, M)
            Those above the diagonal are hidden.

        Raises
        ------
        TypeError, ValueError
            If ``features`` are no different columns of the release, a number is out of its range, or ``axes`` do not
            fit.

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal(size=(500, 3))
        >>> release = dpg.fit_gmm(X, 1, epsilon=3.0, bounds=(-5, 5), method="slices")
        >>> release.plot_pairs(n_points=20)[2, 0].get_ylabel()
        'x2'
        """
        from pm_dpgmm.release.pair_plots import plot_pairs

        return plot_pairs(cast("Release", self), features=features, n_points=n_points, n_draws=n_draws, axes=axes)

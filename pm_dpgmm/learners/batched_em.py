"""Maximum likelihood on many subsets: compiled EM, threads over subsets. Nothing here is released."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_choice, check_count, check_non_negative, check_positive, shown
from pm_dpgmm.learners.em_search import fit_rows
from pm_dpgmm.learners.em_starts import CANDIDATES, SAMPLE
from pm_dpgmm.learners.fit_arrays import Fits
from pm_dpgmm.learners.subsets import FitsTogether
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.noise import IntArray

Progress = Callable[[int, int], None]


def _silent(done: int, total: int) -> None: ...


@dataclass(frozen=True, slots=True)
class BatchedEM(FitsTogether):
    """EM for Gaussian mixtures with full covariances on every subset, compiled; the default learner of "populous".

    Parameters
    ----------
    n_init : int
        Starts for each subset. Each runs a few steps; the one of highest likelihood goes on. Then two components are
        merged and a third is split as long as that raises the likelihood.
    max_iter : int
        Most steps of EM of one run; a run may take two more.
    tol : float
        A run ends when one step raises the mean log-likelihood of a record by less, as in scikit-learn.
    start : {"k-means++", "farthest"}
        Seeds of k-means: drawn with probability proportional to the squared distance, or farthest points among a
        random sample of records.
    reg : float
        Added to the variances of a component, in units of the variance of the column within the subset;
        scikit-learn's ``reg_covar`` on standardised records.
    n_components : int, optional
        Only for calls with one subset; :meth:`fit_all` is told the number.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Notes
    -----
    Every subset is standardised by its own means and standard deviations, so units and offsets do not matter. EM is
    accelerated by squared extrapolation (Varadhan and Roland 2008), which keeps its fixed points.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> subset = np.concatenate([rng.normal(0, 1, (300, 1)), rng.normal(8, 2, (100, 1))])
    >>> fit = BatchedEM(n_components=2)(subset)
    >>> sorted(fit.weights.round(2).tolist())
    [0.25, 0.75]
    """

    n_init: int = 4
    max_iter: int = 2000
    tol: float = 1e-7
    start: str = "k-means++"
    reg: float = 1e-9
    n_components: int | None = None

    def __post_init__(self) -> None:
        check_count(n_init=self.n_init, max_iter=self.max_iter)
        check_positive(tol=self.tol)
        check_choice(("farthest", "k-means++"), start=self.start)
        check_non_negative(reg=self.reg)
        if self.n_components is not None:
            check_count(n_components=self.n_components)

    def fit_all(
        self,
        records: FloatArray,
        edges: IntArray,
        n_components: int,
        *,
        seeds: Sequence[int],
        n_threads: int = 1,
        progress: Progress = _silent,
    ) -> Fits:
        """One fit for each subset ``records[edges[i] : edges[i + 1]]``.

        Parameters
        ----------
        records : ndarray, shape (n, d)
            In any units.
        edges : ndarray of int, shape (t + 1,)
            Not decreasing, within 0 and n.
        n_components : int
            k.
        seeds : sequence of t int
            Not negative; one for the starts of each subset.
        n_threads : int
            The result is the same for any number.
        progress : callable
            Called with the number of subsets done and their total, by the calling thread.

        Returns
        -------
        Fits
            t fits. Fit i is a function of subset i and of ``seeds[i]`` alone, bit for bit. Values raise and warn
            nothing: where a subset has fewer than k (d + 1) records, a number that is not finite, a constant column,
            or all starts collapse, the fit is not given.

        Raises
        ------
        TypeError, ValueError
            If a shape, ``edges``, ``seeds``, ``n_components`` or ``n_threads`` is wrong: public facts.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(2)
        >>> records = rng.permutation(np.concatenate([rng.normal(0, 1, (900, 2)), rng.normal(9, 1, (900, 2))]))
        >>> fits = BatchedEM().fit_all(records, np.array([0, 600, 1200, 1800]), 2, seeds=[1, 2, 3])
        >>> fits.given.all(), np.sort(fits.weights[0]).round(1)
        (np.True_, array([0.5, 0.5]))
        """
        check_count(n_components=n_components, n_threads=n_threads)
        if np.ndim(records) != 2 or np.shape(records)[1] == 0:
            raise ValueError(f"records must have shape (rows, columns), got {np.shape(records)}")
        records = np.ascontiguousarray(records, dtype=float)
        edges = _checked_edges(edges, len(records))
        t, d = len(edges) - 1, records.shape[1]
        if len(seeds) != t:
            raise ValueError(f"seeds must have one number for each of {t} subsets, got {len(seeds)}")
        for seed in seeds:
            check_count(least=0, seeds=seed)
        fits = Fits(
            np.zeros((t, n_components)),
            np.zeros((t, n_components, d)),
            np.zeros((t, n_components, d, d)),
            np.zeros(t, dtype=bool),
        )
        farthest = self.start == "farthest"
        size = (self.n_init, n_components, SAMPLE if farthest else CANDIDATES)

        def fit(i: int) -> None:
            draws = np.random.default_rng(seeds[i]).random(size)
            places = fits.weights[i], fits.means[i], fits.covariances[i]
            rows = records[edges[i] : edges[i + 1]]
            fits.given[i] = fit_rows(rows, draws, farthest, float(self.reg), self.max_iter, float(self.tol), *places)

        if n_threads == 1 or t < 2:
            for i in range(t):
                fit(i)
                progress(i + 1, t)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                for i, _ in enumerate(pool.map(fit, range(t))):
                    progress(i + 1, t)
        return fits

    def __call__(self, subset: FloatArray) -> Mixture:
        """Fit of one subset, with a seed from NumPy's global generator, which learners are given seeded.

        Raises
        ------
        ValueError
            If ``n_components`` was not set, or the subset has no fit.
        """
        if self.n_components is None:
            raise ValueError("n_components must be set where BatchedEM is called with one subset, got None")
        seed = int(np.random.randint(2**31 - 1))  # noqa: NPY002 - the stream that subsets.py seeds
        fits = self.fit_all(subset, np.array([0, len(subset)]), self.n_components, seeds=[seed])
        if not fits.given[0]:
            raise ValueError(f"subset must have a fit with {self.n_components} components, got none")
        return Mixture(fits.weights[0], fits.means[0], fits.covariances[0])


def _checked_edges(edges: Any, n: int) -> IntArray:
    given = np.asarray(edges)
    if given.ndim != 1 or len(given) < 1 or given.dtype.kind not in "iu":
        raise ValueError(f"edges must be a row of integers, got {shown(edges)}")
    if (np.diff(given.astype(np.int64)) < 0).any() or given[0] < 0 or given[-1] > n:
        raise ValueError(f"edges must not decrease and must lie within 0 and {n}, got {shown(edges)}")
    return np.asarray(given, dtype=np.int64)

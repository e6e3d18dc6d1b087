"""A scikit-learn estimator around :func:`pm_dpgmm.fit_gmm`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from pm_dpgmm._arguments import FloatArray, check_count, check_masks, shown
from pm_dpgmm.fit import fit_gmm
from pm_dpgmm.mixture.background import warn_without_background
from pm_dpgmm.mixture.mixture import MOST_POINTS
from pm_dpgmm.records.blocks import RecordBlocks
from pm_dpgmm.records.feature_names import check_columns, check_order, labels_of, names_of
from pm_dpgmm.release.release import Release


class PrivateGaussianMixture(DensityMixin, BaseEstimator):
    """Gaussian mixture fitted under differential privacy, with scikit-learn's interface.

    Every call of ``fit`` spends the whole budget again, and ``n_components=range(1, 6)`` chooses at no cost. A search
    by cross-validation has no guarantee at any price: it chooses by ``score``, exact numbers of held-out records that
    no budget covers, so neither which settings won nor the release that they gave may be published. Nor has a pipeline
    one that learns from the records before this step: ``StandardScaler``, ``PCA`` or an imputer are moved in all rows
    by one of them. Scale by public numbers (``FunctionTransformer``, ``transformations``), or not at all: a fit
    needs no scaled columns. Parameters are those of :func:`pm_dpgmm.fit_gmm`, but that ``transformations`` is its
    ``transform``, which is the name of a method in scikit-learn; ``settings`` is a dict of the method's own.

    Attributes
    ----------
    weights_, means_, covariances_ : ndarray
        Released parameters of the K components; in the transformed unit of columns with ``transformations``.
    release_ : Release
        The release, with its guarantee.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Names of the columns, if the records had any: a data frame, a file, blocks of these. As in scikit-learn, data
        frames with other columns, more of them or another order are then refused; ``release_.log_density`` reorders.

    Notes
    -----
    A background that the method found, a broad Gaussian for records in no component, is part of the density and of no
    component: ``score_samples``, ``score`` and ``sample`` have it; ``predict`` and ``predict_proba`` are probabilities
    among the K components, given that the row is in one of them, and warn (:class:`pm_dpgmm.BackgroundWarning`) if
    more than 1 % of the records are not. ``release_.density.responsibilities(X)`` has the background as column K.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
    >>> est = PrivateGaussianMixture(2, epsilon=1.0, bounds=(-10, 15)).fit(X)
    >>> est.predict([[0.0], [6.0]]).shape
    (2,)
    """

    def __init__(
        self,
        n_components: int | Iterable[int] = 1,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        bounds: ArrayLike | Mapping[str, Any] | None = None,
        resolution: Any = None,
        transformations: Any = None,
        method: Any = "auto",
        neighbouring: str = "replace-one",
        learner: Any = None,
        n_jobs: int | None = None,
        ledger: Any = None,
        progress: bool = False,
        random_state: int | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.resolution = resolution
        self.transformations = transformations
        self.method = method
        self.neighbouring = neighbouring
        self.learner = learner
        self.n_jobs = n_jobs
        self.ledger = ledger
        self.progress = progress
        self.random_state = random_state
        self.settings = settings

    def fit(self, X: Any, y: None = None) -> Self:
        """Spend the budget on ``X`` (N, D): what :func:`pm_dpgmm.fit_gmm` reads, with its guarantee and errors."""
        parameters = self.get_params(deep=False)
        settings = parameters.pop("settings")
        if not (settings is None or isinstance(settings, dict)):
            raise TypeError(f"settings must be a dict of the method's settings or None, got {shown(settings)}")
        settings = settings or {}
        own = {*inspect.signature(fit_gmm).parameters, *parameters}
        if wrong := [name for name in settings if not isinstance(name, str) or name in own]:
            rule = "settings must be of the method alone, by name"
            raise ValueError(
                f"{rule}, got {shown(wrong[0])}, which is {'a parameter of fit_gmm' if wrong[0] in own else 'no name'}"
            )
        if isinstance(self.random_state, np.random.RandomState):
            raise TypeError("random_state must be None, an int or a numpy.random.Generator, got a RandomState")
        parameters["random_seed"] = parameters.pop("random_state")
        parameters["transform"] = parameters.pop("transformations")
        self.release_: Release = fit_gmm(X, parameters.pop("n_components"), **parameters, **settings)
        self.n_features_in_ = self.release_.n_features
        if "feature_names_in_" in vars(self):
            delattr(self, "feature_names_in_")  # of an earlier fit
        if _has_names(X):
            self.feature_names_in_ = np.array(self.release_.feature_names, dtype=object)
        return self

    @property
    def weights_(self) -> FloatArray:
        """Released weights, shape (K,)."""
        check_is_fitted(self, "release_")
        return self.release_.weights

    @property
    def means_(self) -> FloatArray:
        """Released means, shape (K, D)."""
        check_is_fitted(self, "release_")
        return self.release_.means

    @property
    def covariances_(self) -> FloatArray:
        """Released covariances, shape (K, D, D)."""
        check_is_fitted(self, "release_")
        return self.release_.covariances

    def _points(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self, "release_")
        check_masks(X, name="X", alone=True)
        points = np.asarray(validate_data(self, X, reset=False, dtype=float))
        # tables whose names scikit-learn does not read: record batches of Arrow, columns that are numbered
        check = check_columns if "feature_names_in_" in vars(self) else check_order
        check(names_of(X), self.release_.feature_names, name="X")
        return points

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Log of the released density, background and all, at every row of ``X``, shape (N,): as ``log_density``."""
        points = self._points(X)
        return self.release_.log_density(points)

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Mean log density of the rows of ``X``: of private rows an exact number, which is not private."""
        return float(self.score_samples(X).mean())

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Posterior probability of each of the K components, given that the row is in one of them, shape (N, K)."""
        points = self._points(X)
        warn_without_background(self.release_, "predict_proba() is of the components alone")
        return self._responsibilities(points)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Most probable component of every row, shape (N,)."""
        points = self._points(X)
        warn_without_background(self.release_, "predict() is of the components alone")
        return np.asarray(self._responsibilities(points).argmax(axis=1))

    def fit_predict(self, X: Any, y: None = None) -> np.ndarray:
        """Fit, which spends the budget, and the most probable component of every row of ``X``, shape (N,).

        The labels are functions of rows and release, one for each person: for who has the rows, not to be published.
        What ``predict`` does not take, such as a file or :class:`pm_dpgmm.RecordBlocks`, is refused before the fit.
        """
        check_masks(X, name="X", alone=True)
        try:
            validate_data(BaseEstimator(), X, dtype=float)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            rule = "X must be an array or table (N, D) of numbers, as predict() takes it"
            raise kind(f"{rule}; fit() reads files, blocks and single columns, too: {error}") from None
        return self.fit(X).predict(X)

    def sample(self, n_samples: int = 1) -> tuple[FloatArray, np.ndarray]:
        """Synthetic rows (n_samples, D) of the released density, and the most probable of the K components of each."""
        check_is_fitted(self, "release_")
        check_count(n_samples=n_samples, most=MOST_POINTS)
        points = self.release_.sample(n_samples, random_seed=self.random_state)
        return points, self._responsibilities(points).argmax(axis=1)

    def _responsibilities(self, points: FloatArray) -> FloatArray:
        """Of the components for rows in the unit of the records; a row outside a transformation is at its nearest."""
        columns = self.release_.transformations
        return self.release_.mixture.responsibilities(points if columns is None else columns.of_records(points))


def _has_names(X: Any) -> bool:
    """Whether columns have names of their own; scikit-learn counts text alone."""
    if isinstance(X, RecordBlocks):
        X = X.source
        X = X[0] if isinstance(X, (list, tuple)) else X  # parts have the same columns
    labels = labels_of(X)
    named = labels is not None and all(isinstance(label, str) for label in labels)
    return named or isinstance(X, (str, os.PathLike))

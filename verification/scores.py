"""Learned scores: log-odds that an output came from ``x`` rather than ``x_neighbour``.

A portfolio, because no single learner sees everything: a linear and a quadratic logistic regression, boosted trees,
their mean, and each of them overruled by a table wherever whole outputs repeat. The audit picks one on its choose part;
a poor score costs power, never validity.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verification import score_features as features
from verification.score_features import BoolArray, FloatArray, Table

TREE_CELLS = 2_000_000  # training rows times features of the trees; keeps a scalar audit within seconds
TREE_ROWS = 60_000
LOGISTIC_CELLS = 6_000_000  # training rows times features of the regressions
MAX_LOG_ODDS = 40.0  # beyond any certifiable bound


@dataclass(frozen=True, slots=True, eq=False)
class Portfolio:
    """Fitted scores; `evaluate` gives them by name."""

    names: tuple[str, ...]  # simplest first
    atoms: Table | None
    encoder: features.Encoder
    models: dict[str, Any]  # fitted scikit-learn classifiers


def learn(rows: FloatArray, label: BoolArray, *, rng: np.random.Generator) -> Portfolio:
    """Fit the portfolio.

    Parameters
    ----------
    rows : ndarray, shape (n, d)
        Outputs of the learn part; NaN and infinities allowed.
    label : ndarray of bool, shape (n,)
        True for an output on ``x``.
    rng : numpy.random.Generator
        Seeds the trees.

    Returns
    -------
    Portfolio
        Only the constant score "none" when one of the labels has fewer than two rows.
    """
    seed = int(rng.integers(2**31))
    encoder = features.fit_encoder(rows, label)
    if min(label.sum(), (~label).sum()) < 2:
        return Portfolio(("none",), None, encoder, {})
    models = {
        "linear": _fit_logistic(features.linear(encoder, rows), label),
        "quadratic": _fit_logistic(features.quadratic(encoder, rows), label),
        "trees": _fit_trees(features.ranks(encoder, rows), label, seed),
    }
    models = {name: model for name, model in models.items() if model is not None}
    names = [*models, "mean"] if len(models) > 1 else list(models) or ["none"]
    keys = features.row_keys(rows)
    # Always in the table, however rare: the failure symbol.
    atoms = features.fit_table(keys, label, always=features.row_keys(np.full((1, rows.shape[1]), np.nan)))
    if atoms is not None:
        names += [f"{name}+atoms" for name in names]
    return Portfolio(tuple(names), atoms, encoder, models)


def evaluate(portfolio: Portfolio, rows: FloatArray, names: Sequence[str] | None = None) -> dict[str, FloatArray]:
    """Return the named scores (all of them by default), each of shape (n,), finite, for ``rows`` of shape (n, d)."""
    names = portfolio.names if names is None else names
    bases = {name.removesuffix("+atoms") for name in names}
    wanted = set(portfolio.models) if "mean" in bases else bases & set(portfolio.models)
    inputs = {"linear": features.linear, "quadratic": features.quadratic, "trees": features.ranks}
    scores: dict[str, FloatArray] = {"none": np.zeros(len(rows))}
    for name in wanted:
        raw = portfolio.models[name].decision_function(inputs[name](portfolio.encoder, rows))
        scores[name] = np.clip(raw, -MAX_LOG_ODDS, MAX_LOG_ODDS)
    if "mean" in bases:
        scores["mean"] = np.mean([scores[name] for name in sorted(wanted)], axis=0)
    keys = features.row_keys(rows) if any(name.endswith("+atoms") for name in names) else None
    result = {}
    for name in names:
        score = scores[name.removesuffix("+atoms")]
        if name.endswith("+atoms") and portfolio.atoms is not None and keys is not None:
            score = features.overrule(portfolio.atoms, keys, score)
        result[name] = score
    return result


def _fit_logistic(inputs: FloatArray, label: BoolArray) -> Any:
    from sklearn.linear_model import LogisticRegression

    p = inputs.shape[1]
    if p == 0:
        return None
    rows = slice(0, max(2_000, LOGISTIC_CELLS // p))
    if label[rows].all() or not label[rows].any():
        return None
    solver = "newton-cholesky" if p <= 150 else "lbfgs"
    with warnings.catch_warnings():  # a fit that stops early is still a valid score
        warnings.simplefilter("ignore")
        return LogisticRegression(C=10.0, solver=solver, max_iter=60).fit(inputs[rows], label[rows])


def _fit_trees(inputs: NDArray[np.float32], label: BoolArray, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    n, p = inputs.shape
    if p == 0 or n < 200:
        return None
    rows = slice(0, min(TREE_ROWS, max(5_000, TREE_CELLS // p)))
    if label[rows].all() or not label[rows].any():
        return None
    model = HistGradientBoostingClassifier(
        max_iter=60,
        learning_rate=0.15,
        max_leaf_nodes=16,
        min_samples_leaf=max(10, min(100, n // 200)),
        l2_regularization=5.0,
        early_stopping=False,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(inputs[rows], label[rows])

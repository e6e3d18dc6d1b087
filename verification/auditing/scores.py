"""Learned scores: log-odds that an output came from ``x`` rather than ``x_neighbour``.

A portfolio, because no single learner sees everything: linear and quadratic logistic regressions, boosted trees, their
mean, and each of them overruled by a table wherever whole outputs repeat. A poor score costs power, never validity.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verification.auditing.events import choose_guesses
from verification.auditing.features import encoding
from verification.auditing.features.bit_planes import LEAST_RUNS, NOT_BITS, fit_bits
from verification.auditing.features.encoding import BoolArray, FloatArray, Table
from verification.auditing.features.repeats import fit_repeats
from verification.auditing.features.screening import best_columns, tail_strengths

TREE_CELLS = 2_000_000  # training rows times features of the trees; keeps a scalar audit within seconds
TREE_ROWS = 60_000
LOGISTIC_CELLS = 6_000_000  # training rows times features of the regressions
MAX_LOG_ODDS = 40.0  # beyond any certifiable bound
LEAST_ROWS = 100  # of the trees
FEW_CELLS = 200_000  # inputs up to which threads wait for each other longer than they work
LARGEST = 1e300
MAX_COLUMNS, COLUMN_ROWS, COLUMN_Z = 40, 20_000, 1.645  # of the search for the best single column
MOST_CHOSEN = 24  # columns beyond which the best ones have trees of their own, grown on more rows

LARGE = ("column", "linear", "quadratic", "trees", "fine trees", "chosen trees", "repeats", "bits")  # for many runs
SMALL = ("ridge", "quadratic", "monotone trees", "repeats", "bits")  # for hundreds
APART = {"column", "chosen trees", "repeats", "bits"}  # in no mean and no table: they are sharp where they speak
OF_REGIONS = {"trees", "fine trees", "chosen trees"}
INPUTS: dict[str, Callable[[encoding.Encoder, FloatArray], NDArray[Any]]] = {
    "column": lambda encoder, rows: rows,
    "ridge": encoding.linear,
    "linear": encoding.linear,
    "quadratic": encoding.quadratic,
    "monotone trees": encoding.ranks,
    "trees": encoding.ranks,
    "fine trees": encoding.ranks,
    "chosen trees": encoding.ranks,
    "repeats": lambda encoder, rows: rows,
    "bits": lambda encoder, rows: rows,
}
PENALTY = {"ridge": 0.3, "linear": 10.0, "quadratic": 10.0, "bits": 1.0}  # scikit-learn's C
TREES = {  # leaves, smallest leaf as a share of the rows, rounds, learning rate, L2 penalty
    "monotone trees": (3, 0.03, 100, 0.05, 3.0),
    "trees": (8, 0.01, 60, 0.1, 10.0),
    "fine trees": (24, 0.001, 60, 0.1, 10.0),
    "chosen trees": (8, 0.002, 60, 0.1, 3.0),
}

REGIONS = (
    "regions of one column (no narrower than a twenty-fifth of its standard deviation), of two or three, of four where"
    " columns are few or runs many"
)
NOT_REGIONS = (
    "regions of columns were not looked for, only what grows or falls along them: of so few runs the trees that find"
    " regions would learn luck"
)

Chosen = tuple[NDArray[np.int64], encoding.Encoder]  # columns with trees of their own


@dataclass(frozen=True, slots=True, eq=False)
class Portfolio:
    """Fitted scores; `evaluate` gives them by name."""

    names: tuple[str, ...]  # simplest first
    atoms: Table | None
    encoder: encoding.Encoder
    models: dict[str, Any]  # fitted classifiers
    chosen: Chosen | None = None
    unlooked: tuple[str, ...] = ()  # notes: what was not looked at


@np.errstate(invalid="ignore")  # arithmetic on a signalling NaN, which a mechanism may return
def learn(
    rows: FloatArray,
    label: BoolArray,
    *,
    rng: np.random.Generator,
    models: Sequence[str] = LARGE,
    n_bits: int = 0,
) -> Portfolio:
    """Fit the portfolio.

    Parameters
    ----------
    rows : ndarray, shape (n, d)
        Outputs of the learn part; NaN and infinities allowed.
    label : ndarray of bool, shape (n,)
        True for an output on ``x``.
    rng : numpy.random.Generator
        Seeds the trees.
    models : sequence of str
        LARGE or SMALL.
    n_bits : int
        The first ``n_bits`` columns are also read bit by bit.

    Returns
    -------
    Portfolio
        Only the constant score "none" when one of the labels has fewer than two rows.
    """
    seed = int(rng.integers(2**31))
    with _threads(0):  # many small products
        # Bits of numbers share no noise, and would hide that columns of numbers do.
        encoder = encoding.fit_encoder(rows, label, n_numbers=n_bits or None)
    if min(label.sum(), (~label).sum()) < 2:
        return Portfolio(("none",), None, encoder, {}, unlooked=_unlooked(encoder, len(rows), models, n_bits))
    found: dict[str, Any] = {}
    chosen: Chosen | None = None
    for name in models:
        if name == "chosen trees":
            if rows.shape[1] <= MOST_CHOSEN:
                continue
            columns = best_columns(rows, label, MOST_CHOSEN)
            chosen = columns, encoding.fit_encoder(rows[:, columns], label)
        inputs = _inputs(name, encoder, chosen, rows)
        if name == "column":
            model: Any = _best_column(inputs, label)
        elif name == "repeats":
            model = fit_repeats(inputs, label, n_bits=n_bits)
        elif name == "bits":
            model = fit_bits(inputs, label, n_bits=n_bits, fit=_fit_bits)
        elif name in TREES:
            model = _fit_trees(inputs, label, seed, *TREES[name], monotone=name == "monotone trees")
        else:
            model = _fit_logistic(inputs, label, PENALTY[name])
        if model is not None:
            found[name] = model
    averaged = [name for name in found if name not in APART]
    names = [*(name for name in found if name == "column"), *averaged, *(["mean"] if len(averaged) > 1 else [])]
    names = names or ["none"]
    keys = encoding.row_keys(rows)
    # Always in the table, however rare: the failure symbol.
    atoms = encoding.fit_table(keys, label, always=encoding.row_keys(np.full((1, rows.shape[1]), np.nan)))
    if atoms is not None:
        names += [f"{name}+atoms" for name in names if name != "column"]
    names += [name for name in found if name in APART and name != "column"]
    return Portfolio(tuple(names), atoms, encoder, found, chosen, _unlooked(encoder, len(rows), models, n_bits))


def _unlooked(encoder: encoding.Encoder, n: int, models: Sequence[str], n_bits: int) -> tuple[str, ...]:
    """What was not looked at in so many runs."""
    regions = () if OF_REGIONS & set(models) and n >= LEAST_ROWS else (NOT_REGIONS,)
    bits = (NOT_BITS,) if n_bits and n < LEAST_RUNS else ()
    return (*encoder.derived.unlooked, *regions, *bits)


@np.errstate(invalid="ignore")
def evaluate(portfolio: Portfolio, rows: FloatArray, names: Sequence[str] | None = None) -> dict[str, FloatArray]:
    """Return the named scores (all of them by default), each of shape (n,), finite, for ``rows`` of shape (n, d)."""
    names = portfolio.names if names is None else names
    bases = {name.removesuffix("+atoms") for name in names}
    averaged = set(portfolio.models) - APART
    wanted = bases & set(portfolio.models) | (averaged if "mean" in bases else set())
    scores: dict[str, FloatArray] = {"none": np.zeros(len(rows))}
    for name in wanted:
        inputs = _inputs(name, portfolio.encoder, portfolio.chosen, rows)
        with _threads(inputs.size):
            raw = portfolio.models[name].decision_function(inputs)
        scores[name] = np.clip(raw, -MAX_LOG_ODDS, MAX_LOG_ODDS)
    if "mean" in bases:
        scores["mean"] = np.mean([scores[name] for name in sorted(averaged)], axis=0)
    keys = encoding.row_keys(rows) if any(name.endswith("+atoms") for name in names) else None
    result = {}
    for name in names:
        score = scores.get(name.removesuffix("+atoms"), scores["none"])  # 0 where nothing was learned under this name
        if name.endswith("+atoms") and portfolio.atoms is not None and keys is not None:
            score = encoding.overrule(portfolio.atoms, keys, score)
        result[name] = score
    return result


@dataclass(frozen=True, slots=True)
class Column:
    """One column as it stands, or turned round, squeezed into (-1, 1); NaN comes lowest."""

    index: int
    sign: float

    def decision_function(self, rows: FloatArray) -> FloatArray:
        """Score of every row."""
        values = self.sign * rows[:, self.index]
        squeezed = np.sign(values) * (1 - 1 / (1 + np.log1p(np.abs(np.clip(values, -LARGEST, LARGEST)))))
        return np.where(np.isnan(squeezed), -1.0, squeezed)


def _inputs(name: str, encoder: encoding.Encoder, chosen: Chosen | None, rows: FloatArray) -> NDArray[Any]:
    if name == "chosen trees":
        assert chosen is not None
        columns, encoder = chosen
        rows = rows[:, columns]
    return INPUTS[name](encoder, rows)


def _best_column(rows: FloatArray, label: BoolArray) -> Column | None:
    """The column whose tails tell most by themselves: no model can blur what is plain to see.

    Beyond MAX_COLUMNS columns all are looked at in brief, and the best of them closely.
    """
    candidates = [Column(index, sign) for index in range(rows.shape[1]) for sign in (1.0, -1.0)]
    if rows.shape[1] > MAX_COLUMNS:
        strongest = np.argsort(-tail_strengths(rows, label).ravel(), kind="stable")
        candidates = [candidates[i] for i in strongest[: 2 * MAX_COLUMNS]]
    n = min(len(label), COLUMN_ROWS)
    coins = label[:n].astype(float)
    values = [
        choose_guesses(column.decision_function(rows[:n]), coins, delta=0.0, rounds=n, z=COLUMN_Z).value
        for column in candidates
    ]
    return candidates[int(np.argmax(values))] if values and max(values) > 0 else None


def _fit_bits(inputs: FloatArray, label: BoolArray) -> Any:
    return _fit_logistic(inputs, label, PENALTY["bits"])


def _fit_logistic(inputs: FloatArray, label: BoolArray, penalty: float) -> Any:
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
        with _threads(inputs[rows].size):
            return LogisticRegression(C=penalty, solver=solver, max_iter=60).fit(inputs[rows], label[rows])


def _fit_trees(
    inputs: NDArray[np.float32],
    label: BoolArray,
    seed: int,
    leaves: int,
    smallest: float,
    rounds: int,
    rate: float,
    penalty: float,
    *,
    monotone: bool,
) -> Any:
    """Boosted trees; ``monotone``: in each input in the direction of its covariance with the label, for few rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    n, p = inputs.shape
    if p == 0 or n < LEAST_ROWS:
        return None
    rows = slice(0, min(TREE_ROWS, max(5_000, TREE_CELLS // p)))
    if label[rows].all() or not label[rows].any():
        return None
    model = HistGradientBoostingClassifier(
        max_iter=rounds,
        learning_rate=rate,
        max_leaf_nodes=leaves,
        min_samples_leaf=max(10, round(smallest * n)),
        l2_regularization=penalty,
        early_stopping=False,
        random_state=seed,
        monotonic_cst=np.sign((label[rows] - label[rows].mean()) @ inputs[rows]).astype(int) if monotone else None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with _threads(inputs[rows].size):
            return model.fit(inputs[rows], label[rows])


def _threads(cells: int) -> AbstractContextManager[Any]:
    """One thread for few inputs, as many as there are for others."""
    return nullcontext() if cells > FEW_CELLS else _pools().limit(limits=1)


@lru_cache(None)
def _pools() -> Any:
    """The thread pools of the libraries that fit and predict, which takes milliseconds to find out."""
    import sklearn.ensemble
    from threadpoolctl import ThreadpoolController

    assert sklearn.ensemble is not None  # loaded, and so are its pools
    return ThreadpoolController()

"""Trees as arrays, the same for every library that grew them; rows as the numbers that splits see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from tellwhy.core.arrays import Frame, PandasRows, as_floats, check_columns, check_finite, refuse_sparse
from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats, Integers
from tellwhy.scoring.model_rows import load_reader

# What a split does with an empty cell, in `Nodes.missing`.
RIGHT = 0  # it goes right
LEFT = 1  # it goes left
AS_ZERO = 2  # it counts as the number 0
ZERO_RIGHT = 3  # it goes right, and so does the number 0
ZERO_LEFT = 4  # it goes left, and so does the number 0


class Nodes(NamedTuple):
    """All nodes of all trees, each tree in preorder: a node's left child is the one after it.

    Attributes
    ----------
    first
        Where each tree begins, and where the last one ends, (trees + 1,).
    feature
        Column that a node splits on, −1 for a leaf.
    threshold
        A cell goes left when it is at most this.
    right
        The right child.
    missing
        What becomes of empty cells: `RIGHT`, `LEFT`, `AS_ZERO`, `ZERO_RIGHT` or `ZERO_LEFT`.
    sets
        Of a split on categories, where its set of them begins and ends in `words`; (nodes, 2), equal for a
        split on a number. A cell goes left when it is in the set.
    words
        Sets of categories, 32 to a word: category c is bit c % 32 of word c // 32.
    cover
        How many training rows (or how much of their weight) came through.
    depth
        Number of splits above.
    player
        The column of the user's that a split is on: that of `feature`, or what an encoding made it from.
        Splits on columns that were made from one count as splits on that one. −1 for a leaf.
    """

    first: Integers
    feature: Integers
    threshold: Floats
    right: Integers
    missing: NDArray[np.int8]
    sets: Integers
    words: NDArray[np.uint32]
    cover: Floats
    depth: Integers
    player: Integers

    def played_by(self, owner: Integers) -> Nodes:
        """Return the nodes with the user's column of each model column."""
        return self._replace(player=np.where(self.feature >= 0, owner[self.feature], -1))

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.first) - 1


class Chosen(NamedTuple):
    """The part of a model that makes one output: some of its trees, and the value of each node."""

    trees: Integers
    value: Floats
    base: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Trees:
    """A model that adds up trees: output k of a row is base[k] + Σ over trees of the value of its leaf.

    Averages, learning rates and signs are in the values already.

    Attributes
    ----------
    nodes
        The trees.
    value
        Value of each node, (nodes, 1) where a tree adds to one output, (nodes, outputs) where to all.
    output_of
        The output that each tree adds to; −1: to all.
    base
        What belongs to no tree, one number per output.
    explains
        What an output is, as a phrase: "the prediction of DecisionTreeRegressor".
    task
        'anomaly', 'regression' or 'classification'.
    n_columns, names
        Number and names of the columns of the user's.
    classes
        Labels of a classifier, in the order of its outputs. A classifier of two classes with one output gives
        that of the second.
    link
        What makes the model's usual output of ours: 'identity', 'logistic', 'softmax', 'exp', or
        'power of two' (the anomaly score of an isolation forest).
    threshold
        Output above which a row counts as anomalous, where the model has such.
    read
        The user's rows to numbers, one column per column that nodes split on.
    own
        The library's own outputs (rows, outputs) for the user's rows, on the same scale: what was read is
        compared with it.
    unstored
        What a cell is that a sparse matrix does not store: the number 0, or NaN, an empty cell.
    """

    nodes: Nodes
    value: Floats
    output_of: Integers
    base: Floats
    explains: str
    task: str
    n_columns: int
    names: Sequence[str] | None = None
    classes: Sequence[Any] | None = None
    link: str = "identity"
    threshold: float | None = None
    read: Callable[[Any], Floats] = field(repr=False)
    own: Callable[[Any], Any] | None = field(default=None, repr=False)
    unstored: float = 0.0

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.base)

    def two_classes(self) -> dict[str, Any]:
        """The classes of a classifier of two, and what their outputs add up to; nothing for other models."""
        if self.classes is None or len(self.classes) != 2:
            return {}
        total = 0.0 if self.n_outputs == 1 else 1.0 if self.link == "identity" else None
        return {"classes": list(self.classes), "classes_sum": total}

    def chosen(self, output: int) -> Chosen:
        """Return the trees that make one output."""
        trees = np.flatnonzero((self.output_of == output) | (self.output_of < 0))
        column = output if self.value.shape[1] > 1 else 0
        return Chosen(trees, np.ascontiguousarray(self.value[:, column]), float(self.base[output]))


@dataclass(frozen=True, eq=False, kw_only=True)
class RawTree:
    """One tree as its library stores it: nodes in any order, the root first.

    `left` and `right` are places in these arrays, −1 for a leaf; `sets` are the categories that go left, by
    node.
    """

    feature: Any
    threshold: Any
    left: Any
    right: Any
    cover: Any
    value: Any
    missing: Any = RIGHT
    sets: dict[int, Integers] = field(default_factory=dict)


def join_trees(raw: Sequence[RawTree]) -> tuple[Nodes, Floats]:
    """Put trees into one set of arrays, and give the values of their nodes."""
    orders = [preorder(np.asarray(t.left, np.int64), np.asarray(t.right, np.int64)) for t in raw]
    first = np.concatenate([[0], np.cumsum([len(order) for order, _ in orders])]).astype(np.int64)
    is_leaf = _joined(raw, orders, "left", np.int64) < 0
    feature = np.where(is_leaf, -1, _joined(raw, orders, "feature", np.int64))
    sets, words = _join_sets(raw, orders, first)
    nodes = Nodes(
        first=first,
        feature=feature,
        threshold=_joined(raw, orders, "threshold", np.float64),
        right=_join_right(raw, orders, first),
        missing=_joined(raw, orders, "missing", np.int8),
        sets=sets,
        words=words,
        cover=_joined(raw, orders, "cover", np.float64),
        depth=np.concatenate([depth for _, depth in orders]),
        player=feature,
    )
    return nodes, _join_values(raw, orders)


def preorder(left: Integers, right: Integers) -> tuple[Integers, Integers]:
    """Places of the nodes that can be reached from node 0, in preorder, and their depths.

    Examples
    --------
    >>> preorder(np.array([2, -1, -1]), np.array([1, -1, -1]))
    (array([0, 2, 1]), array([0, 1, 1]))
    """
    levels = [np.zeros(1, dtype=np.int64)]
    splits = _keep_splits(levels[0], left)
    while len(splits):
        levels.append(np.concatenate([left[splits], right[splits]]))
        splits = _keep_splits(levels[-1], left)
    size = np.ones(len(left), dtype=np.int64)
    for here in levels[::-1]:
        splits = _keep_splits(here, left)
        size[splits] += size[left[splits]] + size[right[splits]]
    place = np.zeros(len(left), dtype=np.int64)
    for here in levels:
        splits = _keep_splits(here, left)
        place[left[splits]] = place[splits] + 1
        place[right[splits]] = place[splits] + 1 + size[left[splits]]
    reached = np.concatenate(levels)
    order = np.empty(len(reached), dtype=np.int64)
    order[place[reached]] = reached
    depth = np.empty(len(reached), dtype=np.int64)
    depth[place[reached]] = np.repeat(np.arange(len(levels)), [len(here) for here in levels])
    return order, depth


def _keep_splits(places: Integers, left: Integers) -> Integers:
    """Those of some nodes that are no leaves."""
    return places[left[places] >= 0]


def _joined(raw: Sequence[RawTree], orders: Any, name: str, kind: type) -> Any:
    """One number per node of all trees, in preorder."""
    parts = [
        np.broadcast_to(np.asarray(getattr(tree, name), dtype=kind), np.shape(tree.left))[order]
        for tree, (order, _) in zip(raw, orders, strict=True)
    ]
    return np.ascontiguousarray(np.concatenate(parts))


def _join_values(raw: Sequence[RawTree], orders: Any) -> Floats:
    """Values of all nodes, one column per output that a tree adds to."""
    values = [np.asarray(t.value, np.float64)[order] for t, (order, _) in zip(raw, orders, strict=True)]
    return np.ascontiguousarray(np.concatenate([part.reshape(len(part), -1) for part in values]))


def _join_right(raw: Sequence[RawTree], orders: Any, first: Integers) -> Integers:
    """Right child of each node, as a place among all nodes."""
    parts = []
    for tree, (order, _), start in zip(raw, orders, first[:-1], strict=True):
        place = np.empty(len(np.asarray(tree.left)), dtype=np.int64)
        place[order] = start + np.arange(len(order))
        right = np.asarray(tree.right, dtype=np.int64)[order]
        parts.append(np.where(right < 0, -1, place[np.maximum(right, 0)]))
    return np.concatenate(parts)


def _join_sets(raw: Sequence[RawTree], orders: Any, first: Integers) -> tuple[Integers, NDArray[np.uint32]]:
    """Sets of categories: where each node's begins and ends, and all of them as words of 32 bits."""
    sets = np.zeros((int(first[-1]), 2), dtype=np.int64)
    words: list[NDArray[np.uint32]] = []
    n_words = 0
    for tree, (order, _), start in zip(raw, orders, first[:-1], strict=True):
        for node, categories in tree.sets.items():
            packed = pack_set(categories)
            at = start + int(np.flatnonzero(order == node)[0])
            sets[at] = n_words, n_words + len(packed)
            n_words += len(packed)
            words.append(packed)
    return sets, np.concatenate(words) if words else np.zeros(0, dtype=np.uint32)


def pack_set(categories: Any) -> NDArray[np.uint32]:
    """Return a set of small whole numbers as bits, 32 to a word; at least one word.

    Examples
    --------
    >>> pack_set([0, 2, 33])
    array([5, 2], dtype=uint32)
    """
    members = np.asarray(categories, dtype=np.int64)
    words = np.zeros(int(members.max(initial=0)) // 32 + 1, dtype=np.uint32)
    for member in members:
        words[member // 32] |= np.uint32(1 << (int(member) % 32))
    return words


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows of a table to numbers.

    Attributes
    ----------
    n_columns, names
        Columns that the model was fitted on.
    single
        Whether the model rounds cells to single precision before it compares them.
    takes_gaps
        Whether cells may be empty (NaN).
    empty
        A number that stands for an empty cell too; NaN: none does.
    categories
        For a column of categories, what its codes 0, 1, … stand for. Frames whose columns are of the category
        type, or text, are coded with it; numbers are taken for codes.
    refuses
        Name of a model that takes no categories but those it was fitted on; of others, they are empty cells.
    """

    n_columns: int
    names: Sequence[str] | None = None
    single: bool = False
    takes_gaps: bool = True
    empty: float = np.nan
    categories: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    refuses: str | None = None

    def __call__(self, X: Any) -> Floats:
        """Return the rows as numbers, or say what is wrong with them."""
        refuse_sparse(X)
        check_columns(X, self.names)
        numbers = self._numbers(_coded(X, self.categories, self.refuses))
        if numbers.shape[1] != self.n_columns:
            raise InvalidInput(
                f"X has {numbers.shape[1]} columns, but the model was fitted on {self.n_columns}."
            )
        if not np.isnan(self.empty):
            numbers = np.where(numbers == self.empty, np.nan, numbers)
        return numbers.astype(np.float32).astype(np.float64) if self.single else numbers

    def _numbers(self, X: Any) -> Floats:
        if not self.takes_gaps:
            return as_floats(X)
        raw = np.asarray(X)
        if raw.dtype.kind not in "fO":
            return as_floats(X)
        try:
            numbers = raw.astype(np.float64)
        except (TypeError, ValueError):
            return as_floats(X)  # says which cell is not a number
        gaps = np.isnan(numbers)
        filled = np.where(gaps, 0.0, numbers)
        if filled.ndim == 2:
            check_finite(filled, self.names)
        return np.where(gaps, np.nan, as_floats(filled))


def dense_rows(X: Any, unstored: float) -> Any:
    """Return a sparse matrix as an array, with `unstored` where it stores nothing; other rows as they are.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> dense_rows(csr_matrix([[0.0, 2.0]]), np.nan)
    array([[nan,  2.]])
    """
    if not issparse(X):
        return X
    stored = X.tocoo()
    stored.sum_duplicates()
    dense = np.full(X.shape, unstored)
    dense[stored.row, stored.col] = stored.data
    return dense


def _coded(X: Any, categories: Mapping[int, Sequence[Any]], refuses: str | None) -> Any:
    """Return a frame with its categories as codes; a value that the model does not know becomes NaN."""
    if not categories or not isinstance(X, Frame):
        return X
    import pandas as pd

    table: Any = X
    frame = (
        table if isinstance(X, PandasRows) else pd.DataFrame({c: table[c].to_numpy() for c in table.columns})
    )
    columns = []
    for j in range(frame.shape[1]):
        column = frame.iloc[:, j]
        if j in categories and not pd.api.types.is_numeric_dtype(column.dtype):
            codes = _codes(column, categories[j])
            if refuses is not None:
                _refuse_unknown(column, codes, refuses)
            column = pd.Series(codes, index=frame.index, name=column.name)
        columns.append(column)
    return pd.concat(columns, axis=1)


def _codes(column: Any, known: Sequence[Any]) -> Floats:
    import pandas as pd

    codes = pd.Index(known).get_indexer(pd.Index(column.astype(object)))
    return np.where(codes < 0, np.nan, codes.astype(np.float64))


def _refuse_unknown(column: Any, codes: Floats, model: str) -> None:
    """Raise for a value that has no code, unless the cell is empty."""
    unknown = np.flatnonzero(np.isnan(codes) & ~np.asarray(column.isna()))
    if len(unknown):
        raise InvalidInput(
            f"Column {str(column.name)!r} of X holds {str(column.iloc[unknown[0]])!r}, which {model} was not "
            f"fitted on and does not take ({len(unknown):,} such cells). Leave these rows out, or "
            "empty the cells."
        )


# public class name → the file and the function in this folder that read it
READERS: dict[str, str] = {
    "sklearn.tree.BaseDecisionTree": "of_sklearn:tree",
    "sklearn.ensemble.ForestClassifier": "of_sklearn:read_forest",
    "sklearn.ensemble.ForestRegressor": "of_sklearn:read_forest",
    "sklearn.ensemble.IsolationForest": "of_sklearn:read_isolation_forest",
    "sklearn.ensemble.BaseGradientBoosting": "of_sklearn:read_gradient_boosting",
    "sklearn.ensemble.gradient_boosting.BaseHistGradientBoosting": "of_sklearn:read_histogram_boosting",
    "pyod.models.iforest.IForest": "of_sklearn:read_pyod_isolation_forest",
    "xgboost.sklearn.XGBModel": "of_xgboost:estimator",
    "xgboost.core.Booster": "of_xgboost:booster",
    "lightgbm.sklearn.LGBMModel": "of_lightgbm:estimator",
    "lightgbm.basic.Booster": "of_lightgbm:booster",
}


def read_trees(model: Any) -> Trees | None:
    """Return the trees of a fitted model; None for a model of another kind.

    Reads scikit-learn's decision trees, extra trees, forests, gradient boosting, histogram gradient boosting
    and isolation forests, PyOD's isolation forest, and the models of XGBoost and LightGBM, which are read
    from the JSON or text that they write of themselves.

    Raises
    ------
    UnsupportedModel
        For a model of trees that does more than to add them up, such as XGBoost's `gblinear` or LightGBM's
        linear leaves; the message says what to do.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> trees = read_trees(DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0]], [10.0, 20.0]))
    >>> trees.nodes.feature, trees.value.ravel()
    (array([ 0, -1, -1]), array([15., 10., 20.]))
    >>> read_trees(print) is None
    True
    """
    if isinstance(model, (str, Path)):
        from tellwhy.explainers.trees.of_xgboost import read_saved_model

        return read_saved_model(model)
    reader = None if isinstance(model, type) else load_reader(READERS, model, "tellwhy.explainers.trees")
    return None if reader is None else reader(model)

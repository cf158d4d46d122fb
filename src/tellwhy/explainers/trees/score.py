"""From any model of trees to its trees, one of its outputs as a score, and Shapley values of its rows.

The output is on the scale on which trees add up. The compiled loops run over batches of rows in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import beta

from tellwhy.core.compiled import LoopWithTwin
from tellwhy.core.errors import InvalidParameter, UnsupportedModel
from tellwhy.core.progress import silently, track
from tellwhy.core.running import n_threads, row_batches, thread_map
from tellwhy.core.score import Floats, Integers, ScoreFunction
from tellwhy.explainers.trees import numpy_paths
from tellwhy.explainers.trees._compiled_background import BITS, MOST, pair_shares, path_columns, table_shares
from tellwhy.explainers.trees._compiled_paths import (
    add_values,
    background_interactions,
    expected_value,
    path_interactions,
    path_shares,
)
from tellwhy.explainers.trees.trees import Chosen, Nodes, Trees, dense_rows
from tellwhy.scoring import EncodedScore
from tellwhy.scoring.adapters.pipelines import encoded_by, encoding_of, flat_steps
from tellwhy.scoring.model_rows import load_reader, lookup

# public class name → the file and the function in this folder that read it
READERS: dict[str, str] = {
    "sklearn.tree.BaseDecisionTree": "of_sklearn:tree",
    "sklearn.ensemble.ForestClassifier": "of_sklearn:forest",
    "sklearn.ensemble.ForestRegressor": "of_sklearn:forest",
    "sklearn.ensemble.IsolationForest": "of_sklearn:isolation_forest",
    "sklearn.ensemble.BaseGradientBoosting": "of_sklearn:gradient_boosting",
    "sklearn.ensemble.gradient_boosting.BaseHistGradientBoosting": "of_sklearn:histogram_boosting",
    "pyod.models.iforest.IForest": "of_sklearn:pyod_isolation_forest",
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
        from tellwhy.explainers.trees.of_xgboost import saved_model

        return saved_model(model)
    reader = None if isinstance(model, type) else load_reader(READERS, model, "tellwhy.explainers.trees")
    return None if reader is None else reader(model)


PAYS_AFTER = 3e7  # nodes times rows times points: about a second of NumPy's way
_PER_NODE = 10  # rows that what is prepared for a node costs as much as
_add_values = LoopWithTwin(add_values, numpy_paths.add_values, PAYS_AFTER)
_path_shares = LoopWithTwin(path_shares, numpy_paths.path_shares, PAYS_AFTER)
_expected_value = LoopWithTwin(expected_value, numpy_paths.expected_value, PAYS_AFTER)

_ROWS = 256  # in a batch: what is prepared for a tree serves all of them
_BACKGROUND_ROWS = 512  # more is prepared where there are background rows


class Shares(NamedTuple):
    """Shapley values of rows (n, columns), and the mean output that they start from."""

    values: Floats
    base: float


class Quadrature(NamedTuple):
    """Points and weights of Gauss and Legendre between 0 and 1; those of m points in row m."""

    points: Floats
    weights: Floats


@lru_cache(maxsize=8)
def quadrature(most: int) -> Quadrature:
    """Return the points for polynomials of degree up to 2 · most − 1."""
    points = np.zeros((most + 1, most + 1))
    weights = np.zeros((most + 1, most + 1))
    for m in range(1, most + 1):
        x, w = np.polynomial.legendre.leggauss(m)
        points[m, :m] = (x + 1.0) / 2.0
        weights[m, :m] = w / 2.0
    return Quadrature(points, weights)


def edge_shares(nodes: Nodes) -> Floats:
    """Share of the training rows at a node's parent that came on to the node; 1 for roots."""
    share = np.ones(len(nodes.feature))
    split = np.flatnonzero(nodes.feature >= 0)
    right = nodes.right[split]
    below = nodes.cover[split + 1] + nodes.cover[right]
    # without any training rows, both ways count alike; the two shares always sum to 1
    left_share = np.where(below > 0, nodes.cover[split + 1] / np.where(below > 0, below, 1.0), 0.5)
    share[split + 1] = left_share
    share[right] = 1.0 - left_share
    return share


def outputs(nodes: Nodes, chosen: Chosen, Z: Floats, n_jobs: int | None = None) -> Floats:
    """Return the output of each row."""

    def some(rows: slice) -> Floats:
        sums = np.full(rows.stop - rows.start, chosen.base)
        size = len(chosen.trees) * nodes.depth.max() * (rows.stop - rows.start)
        _add_values(size, nodes, chosen.trees, chosen.value, Z[rows], sums)
        return sums

    return np.concatenate(_over_rows(some, len(Z), n_jobs, "scoring with trees"))


class Game(NamedTuple):
    """Trees, the part of them that makes an output, and the number of columns that share it."""

    nodes: Nodes
    chosen: Chosen
    n_players: int


def path_values(game: Game, Z: Floats, n_jobs: int | None = None) -> Shares:
    """Shapley values where absent columns go both ways at a split, as often as training rows did."""
    nodes = game.nodes
    chosen = game.chosen
    share = edge_shares(nodes)
    rule = quadrature(_most_points(nodes, Z.shape[1]))

    def some(rows: slice) -> Floats:
        turned = np.ascontiguousarray(Z[rows].T)
        gained = np.zeros((game.n_players, rows.stop - rows.start))
        size = len(nodes.feature) * (rows.stop - rows.start + _PER_NODE) * (len(rule.points) - 1)
        given = (nodes, chosen.trees, chosen.value, share, turned)
        _path_shares(size, *given, rule.points, rule.weights, gained)
        return gained.T

    values = np.concatenate(_over_rows(some, len(Z), n_jobs, "explaining with trees"))
    expected = _expected_value(len(nodes.feature), nodes, chosen.trees, chosen.value, share)
    return Shares(values, chosen.base + expected)


def background_values(game: Game, Z: Floats, background: Floats, n_jobs: int | None = None) -> Shares:
    """Shapley values where absent columns take the cells of background rows, averaged over these."""
    nodes = game.nodes
    chosen = game.chosen
    share = edge_shares(nodes)
    is_short = path_columns(nodes, chosen.trees, share) <= BITS
    short = chosen.trees[is_short]
    long = chosen.trees[~is_short]
    rule = quadrature((MOST + 1) // 2)
    counts = np.arange(int(nodes.depth.max()) + 2, dtype=np.float64)
    betas = beta(counts[:, None], counts)
    turned_background = np.ascontiguousarray(background.T)

    def some(rows: slice) -> Floats:
        turned = np.ascontiguousarray(Z[rows].T)
        gained = np.zeros((game.n_players, rows.stop - rows.start))
        given = (nodes, short, chosen.value, share, turned, turned_background)
        table_shares(*given, rule.points, rule.weights, betas, gained)
        pair_shares(nodes, long, chosen.value, Z[rows], background, betas, gained)
        return gained.T / len(background)

    values = np.concatenate(_over_rows(some, len(Z), n_jobs, "explaining with trees", _BACKGROUND_ROWS))
    return Shares(values, float(outputs(nodes, chosen, background, n_jobs).mean()))


def interactions(game: Game, Z: Floats, background: Floats | None, n_jobs: int | None = None) -> Floats:
    """Shapley interactions (n, columns, columns) without their diagonal; both halves are alike."""
    nodes = game.nodes
    share = edge_shares(nodes)
    rule = quadrature(_most_points(nodes, Z.shape[1]))

    def some(rows: slice) -> Floats:
        pairs = np.zeros((rows.stop - rows.start, game.n_players, game.n_players))
        given = (nodes, game.chosen.trees, game.chosen.value, share, Z[rows])
        if background is None:
            path_interactions(*given, rule.points, rule.weights, pairs)
            return pairs
        background_interactions(*given, background, rule.points, rule.weights, pairs)
        return pairs / len(background)

    return np.concatenate(_over_rows(some, len(Z), n_jobs, "interactions of columns"))


def _most_points(nodes: Nodes, n_columns: int) -> int:
    """Points that are enough for any tree: a path has at most so many different columns."""
    return (min(int(nodes.depth.max()), n_columns) + 1) // 2 + 1


def _over_rows(
    function: Callable[[slice], Floats], n: int, n_jobs: int | None, label: str, size: int = _ROWS
) -> list[Floats]:
    """Apply a compiled function to batches of rows, in threads; batches do not depend on their number."""
    batches = row_batches(n, 1, size)
    workers = n_threads(n_jobs)
    groups = [batches[i : i + workers] for i in range(0, len(batches), workers)]
    quiet = silently(function)
    results: list[Floats] = []
    for group in track(groups, len(groups), label):
        results += thread_map(quiet, group, n_jobs)
    return results


PREDICTED = "predicted"


class Group(NamedTuple):
    """Rows of which the same is explained: an output, its sign, and the places of the rows."""

    output: int
    sign: float
    rows: Integers


class Targets(NamedTuple):
    """What is explained of each row: an output of the model, and its sign.

    A classifier of two classes has one output, that of the second class; the first has minus that.
    """

    output: Integers
    sign: Floats

    def groups(self) -> list[Group]:
        """Rows of which the same is explained."""
        kinds = sorted(set(zip(self.output.tolist(), self.sign.tolist(), strict=True)))
        return [Group(k, s, np.flatnonzero((self.output == k) & (self.sign == s))) for k, s in kinds]


@dataclass(frozen=True, eq=False)
class TreeScore:
    """One output of a model of trees as a score function.

    Parameters
    ----------
    trees
        The model.
    target
        A class by its label, 'predicted' (the class that the model gives each row), or the number of an
        output. None: of a classifier of two classes the second, of one of more classes the predicted one,
        of other models their only output.
    """

    trees: Trees
    target: Any = None

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return (self.trees.n_columns,)

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Names of the columns, where known."""
        return self.trees.names

    @property
    def threshold(self) -> float | None:
        """Output above which a row is anomalous, of a detector."""
        return self.trees.threshold

    @property
    def describes(self) -> str:
        """Which number this is."""
        trees = self.trees
        if trees.classes is None:
            return trees.explains if trees.n_outputs == 1 else f"{trees.explains}, output {self._number()}"
        if self._is_predicted:
            return trees.explains.replace("of a class", "of the predicted class")
        return trees.explains.replace("of a class", f"of class {trees.classes[self._place()]!r}")

    @property
    def _is_predicted(self) -> bool:
        classes = self.trees.classes
        by_default = self.target is None and classes is not None and len(classes) > 2
        return by_default or (isinstance(self.target, str) and self.target == PREDICTED)

    def value(self, X: Any) -> Floats:
        """Return the output of each row, as the user has it."""
        return self.of_numbers(self.trees.read(X))

    def of_numbers(self, Z: Floats, n_jobs: int | None = None) -> Floats:
        """Return the output of each row of numbers."""
        targets = self.targets(Z, n_jobs)
        found = np.empty(len(Z))
        for group in targets.groups():
            chosen = self.trees.chosen(group.output)
            found[group.rows] = group.sign * outputs(self.trees.nodes, chosen, Z[group.rows], n_jobs)
        return found

    def targets(self, Z: Floats, n_jobs: int | None = None) -> Targets:
        """Return what is explained of each row of numbers."""
        n = len(Z)
        if self.trees.classes is None:
            return Targets(np.full(n, self._number()), np.ones(n))
        place = self._predicted(Z, n_jobs) if self._is_predicted else np.full(n, self._place())
        if self.trees.n_outputs == 1:
            return Targets(np.zeros(n, dtype=np.int64), np.where(place == 1, 1.0, -1.0))
        return Targets(place, np.ones(n))

    def labels(self, targets: Targets) -> Any:
        """Return the class that is explained of each row; None for models without classes."""
        if self.trees.classes is None:
            return None
        place = (targets.sign > 0).astype(np.int64) if self.trees.n_outputs == 1 else targets.output
        return np.asarray(self.trees.classes)[place]

    def _predicted(self, Z: Floats, n_jobs: int | None) -> Integers:
        """Place of the class that the model predicts of each row."""
        nodes = self.trees.nodes
        each = [outputs(nodes, self.trees.chosen(k), Z, n_jobs) for k in range(self.trees.n_outputs)]
        return (each[0] > 0).astype(np.int64) if len(each) == 1 else np.argmax(each, axis=0)

    def _place(self) -> int:
        """Place of the asked class among the classes."""
        classes = list(self.trees.classes or [])
        if self.target is None:
            return len(classes) - 1
        for place, label in enumerate(classes):
            if type(label) is type(self.target) and label == self.target:
                return place
        for place, label in enumerate(classes):  # 1 for 1.0, or a number of numpy's
            if np.ndim(self.target) == 0 and label == self.target:
                return place
        raise InvalidParameter(
            f"The 'target' parameter must be one of the classes {classes} or {PREDICTED!r}. "
            f"Got {self.target!r}."
        )

    def _number(self) -> int:
        """Number of the asked output of a model without classes."""
        n = self.trees.n_outputs
        if self.target is None and n == 1:
            return 0
        is_number = isinstance(self.target, (int, np.integer)) and not isinstance(self.target, bool)
        if is_number and 0 <= self.target < n:
            return int(self.target)
        raise InvalidParameter(
            f"The 'target' parameter must be the number of an output, 0 to {n - 1}. Got {self.target!r}."
        )


def tree_score(model: Any, target: Any = None) -> ScoreFunction:
    """Return one output of a model of trees as a score; of a pipeline, in the columns that go into it.

    Raises
    ------
    UnsupportedModel
        For a model that is not one of trees.
    """
    if isinstance(model, EncodedScore) and isinstance(model.inner, TreeScore):
        return model
    if isinstance(model, TreeScore):
        return model if target is None else TreeScore(model.trees, target)
    if lookup({"sklearn.pipeline.Pipeline": True}, model):
        return _pipeline_score(model, target)
    score = TreeScore(_trees(model), target)
    score.describes  # noqa: B018  # an unknown class is told here, not when rows are explained
    return score


def _trees(model: Any) -> Trees:
    trees = model if isinstance(model, Trees) else read_trees(model)
    if trees is None:
        raise UnsupportedModel(
            f"{type(model).__module__}.{type(model).__qualname__} is no model of trees that tellwhy reads: a "
            "tree, forest or boosting of scikit-learn, XGBoost or LightGBM, or an isolation forest. Use "
            "KernelShap for it."
        )
    return trees


def _pipeline_score(model: Any, target: Any) -> ScoreFunction:
    """Return the score of a pipeline that ends in trees, in the columns that go into it."""
    whole = copy(model)
    whole.steps = flat_steps(model)
    trees = _trees(whole.steps[-1][1])
    # empty cells and categories are for the trees to judge
    encode = encoding_of(whole, lambda rows: trees.read(dense_rows(rows, trees.unstored)))
    if encode is None:
        return TreeScore(trees, target)
    own = None if trees.own is None else _after(encode.transformed, trees.own)
    return encoded_by(whole, TreeScore(replace(trees, read=_as_read, own=own), target), encode)


def _after(first: Any, second: Any) -> Any:
    """second(first(X))."""
    return lambda X: second(first(X))


def _as_read(Z: Any) -> Floats:
    """Rows that were read already."""
    return np.asarray(Z, dtype=np.float64)

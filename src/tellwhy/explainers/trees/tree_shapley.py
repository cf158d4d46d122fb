"""TreeShapley: exact Shapley values of models of trees (the integral stands in `_compiled_paths`).

What was read of a model is compared with what its library says, on some of the rows to explain.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.arrays import Frame, PandasRows, draw_sample, spread_evenly, take_rows
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.params import Rule, Rules, Seed, boolean, generator, integer, none, seed
from tellwhy.core.score import Floats, Integers, ScoreFunction
from tellwhy.explainers.base import BackgroundExplainer
from tellwhy.explainers.rows import Attribution, Rows
from tellwhy.explainers.trees.tree_values import (
    Game,
    Shares,
    compute_background_values,
    compute_path_values,
    interactions,
    outputs,
)
from tellwhy.explainers.trees.trees import Trees, dense_rows, read_trees
from tellwhy.scoring import EncodedScore
from tellwhy.scoring.adapters.pipelines import encode_by, flatten_steps, read_encoding
from tellwhy.scoring.model_rows import look_up

_ROWS = 32
_SOURCE = re.compile(r"^\[[\d:]+\] \S+:\d+: ")
_TOLERANCE = 1e-4  # XGBoost adds in single precision


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
    if look_up({"sklearn.pipeline.Pipeline": True}, model):
        return _make_pipeline_score(model, target)
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


def _make_pipeline_score(model: Any, target: Any) -> ScoreFunction:
    """Return the score of a pipeline that ends in trees, in the columns that go into it."""
    whole = copy(model)
    whole.steps = flatten_steps(model)
    trees = _trees(whole.steps[-1][1])
    # empty cells and categories are for the trees to judge
    encode = read_encoding(whole, lambda rows: trees.read(dense_rows(rows, trees.unstored)))
    if encode is None:
        return TreeScore(trees, target)
    own = None if trees.own is None else _apply_after(encode.transformed, trees.own)
    return encode_by(whole, TreeScore(replace(trees, read=_return_as_read, own=own), target), encode)


def _apply_after(first: Any, second: Any) -> Any:
    """second(first(X))."""
    return lambda X: second(first(X))


def _return_as_read(Z: Any) -> Floats:
    """Rows that were read already."""
    return np.asarray(Z, dtype=np.float64)


def check_reading(trees: Trees, X: Any, Z: Floats) -> None:
    """Raise unless the outputs of some rows X, as numbers Z, are those that the library gives.

    Libraries add kinds of trees that are stored as others are. Values of a model that was misread would look
    right, add up, and be wrong.
    """
    if trees.own is None:
        return
    rows = spread_evenly(len(Z), _ROWS)
    ours = np.column_stack(
        [outputs(trees.nodes, trees.chosen(k), Z[rows], 1) for k in range(trees.n_outputs)]
    )
    theirs = _own(trees, take_rows(X, rows)).reshape(len(rows), -1)
    if theirs.shape[1] != ours.shape[1]:
        raise _report_misread(trees, f"{theirs.shape[1]} outputs, where {ours.shape[1]} were read")
    gaps = np.abs(ours - theirs) > _TOLERANCE * (1.0 + np.abs(theirs))
    if gaps.any():
        at = tuple(np.argwhere(gaps)[0])
        raise _report_misread(
            trees, f"{theirs[at]:.6g} for row {rows[at[0]]}, where its trees sum to {ours[at]:.6g}"
        )


def _own(trees: Trees, X: Any) -> Floats:
    assert trees.own is not None
    is_polars = isinstance(X, Frame) and not isinstance(X, PandasRows)  # which not all libraries take
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as that an array has no names of columns
            return np.asarray(trees.own(X.to_pandas() if is_polars else X), dtype=np.float64)
    except Exception as error:  # libraries raise errors of their own, some with the places in their source
        said = _SOURCE.sub("", str(error).strip().partition("\n")[0])
        raise InvalidInput(f"The model itself does not take these rows: {said}") from error


def _report_misread(trees: Trees, what: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"TreeShapley cannot explain {trees.explains}: the library gives {what}. The model does more than to "
        "add up its trees; explain it as a function of its rows with KernelShap."
    )


_target_rule = Rule(
    "None, 'predicted', a class or the number of an output",
    lambda value: value is None or isinstance(value, (str, int, float, bool, np.generic)),
)
_jobs_rule = Rule("a whole number other than 0", lambda v: integer().accepts(v) and v != 0)


class _Found(NamedTuple):
    """Values, bases and interactions of all rows, filled group by group."""

    values: Floats
    base: Floats
    interactions: Floats | None


class TreeShapley(BackgroundExplainer):
    """Shapley values of trees, forests and boosted trees, exactly.

    Without background rows, a split on an absent column goes both ways, as often as the training rows did
    ("path-dependent"). With background rows, given to `fit`, absent columns take their cells, averaged over
    these rows ("interventional"): v(S) = mean over b of f(x_S, b_{S^c}). Values add up to the output less its
    mean.

    What is explained is the scale on which trees add up: probabilities of forests, margins (log-odds) of
    boosted classifiers, predictions of regressors, and log₂ of the anomaly score of an isolation forest. That
    score is 2^(−h(x)/c), with the mean length h of a row's path; −h(x)/c is what adds up, and orders rows in
    the same way. `extras["anomaly_score"]` has the score itself.

    Parameters
    ----------
    model
        A fitted model that `read_trees` knows, a pipeline that ends in one, `Trees`, or a `TreeScore`.
    target
        Of a classifier, the class to explain: a label, or 'predicted' for the class of each row (by default
        with more than two classes; the second of two). Of a model with several outputs, the number of one.
    interactions
        Whether to compute the Shapley interactions of pairs of columns too, `extras["interactions"]` (rows,
        columns, columns): entries (i, j) and (j, i) are half of what the pair does together, and the diagonal
        is what a column does alone, so that rows of the matrix sum to the column's value.
    max_background
        Rows of the background that are used at most, drawn at random.
    n_jobs
        Threads; None: one per core. Results do not depend on it.
    random_state
        Seed of the drawn background rows.

    Examples
    --------
    >>> from sklearn.ensemble import IsolationForest
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> forest = IsolationForest(random_state=0).fit(X)
    >>> explanation = TreeShapley(forest).explain(np.array([[0.0, 6.0, 0.0]]))
    >>> int(explanation.values.argmax()), bool(abs(explanation.residual[0]) < 1e-12)
    (1, True)
    >>> score = 2.0 ** explanation.scores
    >>> bool(np.allclose(score, -forest.score_samples([[0.0, 6.0, 0.0]])))
    True
    """

    needs_rows = False
    _parameters: ClassVar[dict[str, Rules]] = {
        "target": _target_rule,
        "interactions": boolean,
        "max_background": integer(1),
        "n_jobs": (none, _jobs_rule),
        "random_state": seed,
    }

    def __init__(
        self,
        model: object,
        *,
        target: Any = None,
        interactions: bool = False,
        max_background: int = 1000,
        n_jobs: int | None = None,
        random_state: Seed = 0,
    ):
        super().__init__(model)
        self.target = target
        self.interactions = interactions
        self.max_background = max_background
        self.n_jobs = n_jobs
        self.random_state = random_state

    @cached_property
    def score(self) -> ScoreFunction:
        """The score function that is explained: one output of the model."""
        return tree_score(self.model, self.target)

    def _fit(self, X: ArrayLike) -> None:
        """Keep rows that absent columns take their cells from, `max_background` of them at most."""
        n = np.shape(X)[0]
        chosen = draw_sample(n, self.max_background, generator(self.random_state))
        self.background_ = self._read(take_rows(X, np.sort(chosen))).X
        self.n_given_ = n

    def _read(self, X: ArrayLike) -> Rows:
        score = self.score
        if isinstance(score, TreeScore):
            Z = score.trees.read(X)
            rows = Rows(score, Z, np.arange(Z.shape[1]), Z.shape[1])
        else:
            rows = super()._read(X)
        if isinstance(rows.score, TreeScore):
            check_reading(rows.score.trees, X, rows.X)
        return rows

    def _attribute(self, rows: Rows) -> Attribution:
        score = self._find_tree_score(rows)
        background = vars(self).get("background_")
        targets = score.targets(rows.X, self.n_jobs)
        n = len(rows.X)
        d = rows.n_owners
        found = _Found(np.empty((n, d)), np.empty(n), np.empty((n, d, d)) if self.interactions else None)
        nodes = score.trees.nodes.played_by(rows.owner)
        for group in targets.groups():
            game = Game(nodes, score.trees.chosen(group.output), d)
            self._explain_some(game, group, rows.X[group.rows], background, found)
        scores = score.of_numbers(rows.X, self.n_jobs)
        extras = _extras(score, scores, score.labels(targets))
        if found.interactions is not None:
            extras["interactions"] = found.interactions
        return Attribution(
            found.values,
            scores,
            found.base,
            extras=extras,
            params=self._said(score),
            per_owner=True,
        )

    def _said(self, score: TreeScore) -> dict[str, Any]:
        """Settings as they were used."""
        target = None if self.target is None else str(self.target)
        said = {"background": self._words(), "target": target, "task": score.trees.task}
        return {**said, **score.trees.two_classes()}

    def _find_tree_score(self, rows: Rows) -> TreeScore:
        """Return the score in the columns of the trees; raise where an encoding mixes the user's columns."""
        if isinstance(rows.score, TreeScore):
            return rows.score
        raise UnsupportedModel(
            f"TreeShapley cannot tell the columns of {self.score.describes} apart: the encoding mixes them. "
            "Use KernelShap for the whole pipeline, or explain its last step in the encoded columns."
        )

    def _explain_some(
        self, game: Game, group: Group, Z: Floats, background: Floats | None, found: _Found
    ) -> None:
        """Explain rows of which the same output is asked for."""
        shared = self._shares(game, Z, background)
        found.values[group.rows] = group.sign * shared.values
        found.base[group.rows] = group.sign * shared.base
        if found.interactions is not None:
            pairs = interactions(game, Z, background, self.n_jobs)
            diagonal = np.arange(game.n_players)
            # what a column does alone is what it has less its halves of all pairs
            pairs[:, diagonal, diagonal] = shared.values - pairs.sum(axis=2)
            found.interactions[group.rows] = group.sign * pairs

    def _shares(self, game: Game, Z: Floats, background: Floats | None) -> Shares:
        if background is None:
            return compute_path_values(game, Z, self.n_jobs)
        return compute_background_values(game, Z, background, self.n_jobs)

    def _words(self) -> str:
        """Where absent columns take their cells from."""
        if "background_" not in vars(self):
            return "training rows, by how often they took each split"
        n = len(self.background_)
        return f"{n:,} of {self.n_given_:,} given rows" if n < self.n_given_ else f"{n:,} given rows"


def _extras(score: TreeScore, scores: Floats, labels: Any) -> dict[str, Any]:
    """The class explained of each row, and the anomaly score of an isolation forest."""
    if score.trees.task == "anomaly":
        return {"anomaly_score": 2.0**scores}
    return {} if labels is None else {"explained": labels}

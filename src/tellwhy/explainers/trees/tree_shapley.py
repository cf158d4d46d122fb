"""Exact Shapley values of models of trees."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.params import Rule, Rules, Seed, boolean, generator, integer, none, seed
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats, ScoreFunction
from tellwhy.core.tables import random_sample, take_rows
from tellwhy.explainers.base import Attribution, Rows, ScoreExplainer
from tellwhy.explainers.trees.checking import check_reading
from tellwhy.explainers.trees.model import Trees
from tellwhy.explainers.trees.reading import read_trees
from tellwhy.explainers.trees.score import Group, TreeScore
from tellwhy.explainers.trees.shares import Game, Shares, background_values, interactions, path_values
from tellwhy.scoring import EncodedScore, as_score
from tellwhy.scoring.adapters.class_names import lookup
from tellwhy.scoring.observed import some_rows

_target_rule = Rule(
    "None, 'predicted', a class or the number of an output",
    lambda value: value is None or isinstance(value, (str, int, float, bool, np.generic)),
)
_rows_rule = Rule("an array or frame of rows", lambda v: not isinstance(v, (list, tuple)) and np.ndim(v) == 2)
_jobs_rule = Rule("a whole number other than 0", lambda v: integer().accepts(v) and v != 0)


class _Found(NamedTuple):
    """Values, bases and interactions of all rows, filled group by group."""

    values: Floats
    base: Floats
    interactions: Floats | None


def _has_trees(score: Any) -> bool:
    """Whether a score function is one of trees."""
    return isinstance(score, TreeScore)


@register(
    "explainer",
    family="trees",
    needs="a model of trees (scikit-learn, XGBoost, LightGBM, PyOD's IForest); no background rows",
    cost="about leaves × depth operations per row and tree",
    exactness="exact Shapley values, additive",
    citation="Lundberg et al., Nature Machine Intelligence 2 (2020); Yu et al., NeurIPS (2022)",
    applies=_has_trees,
    automatic=0,
)
class TreeShapley(ScoreExplainer):
    """Shapley values of trees, forests and boosted trees, exactly.

    Without background rows, a split on an absent column goes both ways, as often as the training rows did
    ("path-dependent"). With background rows, absent columns take their cells, averaged over these rows
    ("interventional"): v(S) = mean over b of f(x_S, b_{S^c}). Values add up to the output less its mean.

    What is explained is the scale on which trees add up: probabilities of forests, margins (log-odds) of
    boosted classifiers, predictions of regressors, and log₂ of the anomaly score of an isolation forest. That
    score is 2^(−h(x)/c), with the mean length h of a row's path; −h(x)/c is what adds up, and orders rows in
    the same way. `extras["anomaly_score"]` has the score itself.

    Parameters
    ----------
    model
        A fitted model that `read_trees` knows, a pipeline that ends in one, `Trees`, or a `TreeScore`.
    background
        Rows that absent columns take their cells from; None: split as the training rows did.
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
        Threads; −1 for all cores. Results do not depend on it.
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

    _parameters: ClassVar[dict[str, Rules]] = {
        "background": (none, _rows_rule),
        "target": _target_rule,
        "interactions": boolean,
        "max_background": integer(1),
        "n_jobs": _jobs_rule,
        "random_state": seed,
    }

    def __init__(
        self,
        model: object,
        *,
        background: ArrayLike | None = None,
        target: Any = None,
        interactions: bool = False,
        max_background: int = 1000,
        n_jobs: int = -1,
        random_state: Seed = 0,
    ):
        super().__init__(model)
        self.background = background
        self.target = target
        self.interactions = interactions
        self.max_background = max_background
        self.n_jobs = n_jobs
        self.random_state = random_state

    @cached_property
    def score(self) -> ScoreFunction:
        """The score function that is explained: one output of the model."""
        return tree_score(self.model, self.target)

    def _read(self, X: ArrayLike) -> Rows:
        score = self.score
        if not isinstance(score, TreeScore):
            return super()._read(X)
        Z = score.trees.read(X)
        check_reading(score.trees, X, Z)
        return Rows(score, Z, np.arange(Z.shape[1]), Z.shape[1])

    def _attribute(self, rows: Rows) -> Attribution:
        score = self._tree_score(rows)
        background = self._background_rows()
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
        return {"background": self._words(), "target": target, "task": score.trees.task}

    def _tree_score(self, rows: Rows) -> TreeScore:
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
            return path_values(game, Z, self.n_jobs)
        return background_values(game, Z, background, self.n_jobs)

    def _background_rows(self) -> Floats | None:
        """Background rows as numbers, `max_background` of them at most."""
        if self.background is None:
            return None
        chosen = random_sample(
            np.shape(self.background)[0], self.max_background, generator(self.random_state)
        )
        return self._read(take_rows(self.background, np.sort(chosen))).X

    def _words(self) -> str:
        if self.background is None:
            return "training rows, by how often they took each split"
        n = np.shape(self.background)[0]
        return (
            f"{n:,} given rows"
            if n <= self.max_background
            else f"{self.max_background:,} of {n:,} given rows"
        )

    def _ordinary_rows(self) -> Any:
        """Return rows that were kept; without any, the background serves."""
        kept = super()._ordinary_rows()
        return some_rows(self.background) if kept is None and self.background is not None else kept


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
        whole = copy(model)  # the pipeline's adapter takes its last step as a score
        whole.steps = [*model.steps[:-1], (model.steps[-1][0], tree_score(model.steps[-1][1], target))]
        return as_score(whole)
    trees = model if isinstance(model, Trees) else read_trees(model)
    if trees is None:
        raise UnsupportedModel(
            f"{type(model).__module__}.{type(model).__qualname__} is no model of trees that tellwhy reads: a "
            "tree, forest or boosting of scikit-learn, XGBoost or LightGBM, or an isolation forest. Use "
            "KernelShap for it."
        )
    score = TreeScore(trees, target)
    score.describes  # noqa: B018  # an unknown class is told here, not when rows are explained
    return score


def _extras(score: TreeScore, scores: Floats, labels: Any) -> dict[str, Any]:
    """The class explained of each row, and the anomaly score of an isolation forest."""
    if score.trees.task == "anomaly":
        return {"anomaly_score": 2.0**scores}
    return {} if labels is None else {"explained": labels}

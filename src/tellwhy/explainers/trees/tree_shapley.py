"""TreeShapley: exact Shapley values of models of trees (the integral stands in `_compiled_paths`).

What was read of a model is compared with what its library says, on some of the rows to explain.
"""

from __future__ import annotations

import re
import warnings
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.arrays import Frame, PandasRows, evenly_spread, random_sample, take_rows
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.params import Rule, Rules, Seed, boolean, generator, integer, none, seed
from tellwhy.core.score import Floats, ScoreFunction
from tellwhy.explainers.base import BackgroundExplainer
from tellwhy.explainers.rows import Attribution, Rows
from tellwhy.explainers.trees.score import (
    Game,
    Group,
    Shares,
    TreeScore,
    background_values,
    interactions,
    outputs,
    path_values,
    tree_score,
)
from tellwhy.explainers.trees.trees import Trees

_ROWS = 32
_SOURCE = re.compile(r"^\[[\d:]+\] \S+:\d+: ")
_TOLERANCE = 1e-4  # XGBoost adds in single precision


def check_reading(trees: Trees, X: Any, Z: Floats) -> None:
    """Raise unless the outputs of some rows X, as numbers Z, are those that the library gives.

    Libraries add kinds of trees that are stored as others are. Values of a model that was misread would look
    right, add up, and be wrong.
    """
    if trees.own is None:
        return
    rows = evenly_spread(len(Z), _ROWS)
    ours = np.column_stack(
        [outputs(trees.nodes, trees.chosen(k), Z[rows], 1) for k in range(trees.n_outputs)]
    )
    theirs = _own(trees, take_rows(X, rows)).reshape(len(rows), -1)
    if theirs.shape[1] != ours.shape[1]:
        raise _misread(trees, f"{theirs.shape[1]} outputs, where {ours.shape[1]} were read")
    gaps = np.abs(ours - theirs) > _TOLERANCE * (1.0 + np.abs(theirs))
    if gaps.any():
        at = tuple(np.argwhere(gaps)[0])
        raise _misread(
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


def _misread(trees: Trees, what: str) -> UnsupportedModel:
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
        chosen = random_sample(n, self.max_background, generator(self.random_state))
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
        score = self._tree_score(rows)
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

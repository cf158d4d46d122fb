"""Labels by models that have not seen the row: which given labels look wrong, and how sure labels are."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from tellwhy.classifiers.svm.multiclass_svm import MulticlassSVM, find_best_temperature
from tellwhy.core.arrays import spread_evenly
from tellwhy.core.errors import InvalidInput, NotConverged
from tellwhy.core.estimator_rows import find_classes
from tellwhy.core.params import integer, none, one_of, validate_value
from tellwhy.core.running import cut_batches, map_in_threads
from tellwhy.core.score import Floats, Integers

MOST_SCORES = 20_000_000  # rows × classes that the temperature is fitted on


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """What is said of each row by a model that was trained on other rows.

    Attributes
    ----------
    models
        One a fold, trained on the rows of all other folds.
    fold
        The fold of each row; −1 where no other row has its label, so that nothing can confirm it.
    labels
        The label that the model of its fold gives each row; its own where that cannot be judged.
    own
        Probability of the label that each row came with; NaN where it cannot be judged.
    told
        Probability of the label that it got; NaN likewise.
    behind
        How far the score of its own label is behind the best other one; negative where the two agree.
    temperature
        By which scores are divided before they become probabilities, from these very rows.
    """

    models: tuple[MulticlassSVM, ...]
    fold: Integers
    labels: NDArray[Any]
    own: Floats
    told: Floats
    behind: Floats
    temperature: float

    def find_doubtful(self) -> Integers:
        """Rows whose label is contradicted, those whose own label is the least likely first."""
        rows = np.flatnonzero(self.behind > 0)
        return rows[np.lexsort((-self.behind[rows], self.own[rows]))]


def label_out_of_fold(
    model: MulticlassSVM,
    X: Any,
    y: ArrayLike,
    *,
    folds: int = 5,
    n_jobs: int | None = None,
    seed: int = 0,
) -> OutOfFold:
    """Label every row by a model that has not seen it, and say how likely its own label is.

    Rows of each class are dealt out to folds; a copy of the model is trained without each fold and labels it.
    Probabilities are softmax(scores / T), with the one T that makes the labels of these rows the likeliest.

    Parameters
    ----------
    model
        A multi-class SVM; copies of it are fitted.
    X, y
        Rows and one class per row.
    folds
        Number of folds.
    n_jobs
        Threads, which share the folds; None: one per core. Results do not depend on it.
    seed
        Of the folds.

    Returns
    -------
    OutOfFold
        The labels, and how likely each row's own label is.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tellwhy.classifiers import WestonWatkinsSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> y[[7, 60]] = 2, 0
    >>> found = label_out_of_fold(WestonWatkinsSVM(random_state=0), (X - X.mean(axis=0)) / X.std(axis=0), y)
    >>> sorted(found.find_doubtful()[:2].tolist())
    [7, 60]
    """
    validate_value("label_out_of_fold", "folds", folds, integer(2))
    validate_value("label_out_of_fold", "n_jobs", n_jobs, (none, one_of(-1), integer(1)))
    classes, numbers = find_classes(y, "label_out_of_fold")
    fold = deal_folds(numbers, folds, np.random.default_rng(seed))
    if not (fold >= 0).any():
        raise InvalidInput(
            f"No two of the {len(numbers):,} rows have the same label, so that no label can be confirmed by "
            "another row. Give rows that share labels, or leave out the folds."
        )
    used = np.unique(fold[fold >= 0])
    one = clone(model).set_params(n_jobs=1)
    y = np.asarray(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # told by the fit on all rows, if it is so there
        models = map_in_threads(lambda f: _fit_without(one, X, y, fold == f), list(used), n_jobs)
    scored = [(fitted, np.flatnonzero(fold == f)) for fitted, f in zip(models, used, strict=True)]
    temperature = _find_temperature(scored, X, numbers, classes)
    judge = partial(_judge, X=X, numbers=numbers, classes=classes, temperature=temperature)
    parts = [(rows, judge(fitted, rows)) for fitted, rows in scored]
    best = numbers.copy()
    told = np.full((3, len(numbers)), np.nan)
    for rows, (labels, figures) in parts:
        best[rows] = labels
        told[:, rows] = figures
    which = np.searchsorted(used, fold) - (fold < 0)
    return OutOfFold(tuple(models), which, classes[best], told[0], told[1], told[2], temperature)


def deal_folds(numbers: Integers, folds: int, rng: np.random.Generator) -> Integers:
    """Deal out the rows of each class to folds, one after the other; −1 for the only row of a class.

    Examples
    --------
    >>> fold = deal_folds(np.array([0, 0, 0, 0, 1, 1, 2]), 2, np.random.default_rng(0))
    >>> np.bincount(fold[:4]).tolist(), sorted(fold[4:6].tolist()), int(fold[6])
    ([2, 2], [0, 1], -1)
    """
    drawn = rng.permutation(len(numbers))
    order = drawn[np.argsort(numbers[drawn], kind="stable")]
    fold = np.empty(len(numbers), dtype=np.int64)
    fold[order] = np.arange(len(numbers)) % folds
    fold[np.bincount(numbers)[numbers] == 1] = -1
    return fold


def _fit_without(model: MulticlassSVM, X: Any, y: NDArray[Any], aside: NDArray[np.bool_]) -> MulticlassSVM:
    rest = np.flatnonzero(~aside)
    return clone(model).fit(_safe_indexing(X, rest), y[rest])


Scored = list[tuple[MulticlassSVM, Integers]]


def _score(model: MulticlassSVM, X: Any, rows: Integers, classes: NDArray[Any]) -> Floats:
    """Scores of some rows in the order of all classes; −∞ for those that the model does not know."""
    scores = np.full((len(rows), len(classes)), -np.inf)
    found = model.decision_function(_safe_indexing(X, rows))
    # Of two classes it is the lead of the second: halves of it are as good as the scores of both.
    both = np.column_stack([-found, found]) / 2 if found.ndim == 1 else found
    scores[:, np.searchsorted(classes, model.classes_)] = both
    return scores


def _find_temperature(scored: Scored, X: Any, numbers: Integers, classes: NDArray[Any]) -> float:
    """Temperature by all rows, or by as many as there is room for the scores of."""
    n = sum(len(rows) for _, rows in scored)
    most = min(max(MOST_SCORES // len(classes), 100), n)
    kept = []
    for model, rows in scored:
        some = rows[spread_evenly(len(rows), max(most * len(rows) // n, 1))]
        kept.append((_score(model, X, some, classes), numbers[some]))
    scores = np.concatenate([each for each, _ in kept])
    return find_best_temperature(scores, np.concatenate([own for _, own in kept]))


def _judge(
    model: MulticlassSVM,
    rows: Integers,
    *,
    X: Any,
    numbers: Integers,
    classes: NDArray[Any],
    temperature: float,
) -> tuple[Integers, Floats]:
    """Labels of some rows; then how probable their own and these are, and how far their own are behind."""
    labels = np.empty(len(rows), dtype=np.int64)
    figures = np.empty((3, len(rows)))
    for batch in cut_batches(len(rows), 16 * len(classes)):
        some = rows[batch]
        at = np.arange(len(some))
        scores = _score(model, X, some, classes)
        labels[batch] = scores.argmax(axis=1)
        mine = scores[at, numbers[some]]
        whole = logsumexp(scores / temperature, axis=1)
        figures[0, batch] = np.exp(mine / temperature - whole)
        figures[1, batch] = np.exp(scores.max(axis=1) / temperature - whole)
        scores[at, numbers[some]] = -np.inf
        figures[2, batch] = scores.max(axis=1) - mine
    return labels, figures


def group_by_fold(fold: Integers) -> Iterator[tuple[int, Integers]]:
    """Yield each fold with its rows.

    Examples
    --------
    >>> [(f, rows.tolist()) for f, rows in group_by_fold(np.array([1, 0, 1]))]
    [(0, [1]), (1, [0, 2])]
    """
    for f in np.unique(fold):
        yield int(f), np.flatnonzero(fold == f)

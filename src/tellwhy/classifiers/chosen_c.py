"""The best C by cross-validation, on all cores: threads share the folds and the values of C, not the rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing

from tellwhy.classifiers.out_of_fold import deal_folds
from tellwhy.classifiers.svm.multiclass_svm import MulticlassSVM
from tellwhy.core.errors import InvalidParameter, NotConverged
from tellwhy.core.params import integer, none, one_of, validate_value
from tellwhy.core.running import n_threads
from tellwhy.core.score import Floats

PARTS = 2  # of the values of C: the same for any number of threads, as fits of a part start from each other


@dataclass(frozen=True)
class ChosenC:
    """What cross-validation found.

    Attributes
    ----------
    model
        Fitted on all rows with the best C.
    Cs
        The values that were tried, ascending.
    scores
        Share of rows labelled rightly, values × folds.
    """

    model: MulticlassSVM
    Cs: Floats
    scores: Floats

    @property
    def means(self) -> Floats:
        """Mean score of each C."""
        return np.asarray(self.scores.mean(axis=1))


def choose_c(
    model: MulticlassSVM, X: Any, y: ArrayLike, *, Cs: Iterable[float], cv: int = 5, n_jobs: int | None = None
) -> ChosenC:
    """Choose C by cross-validation and fit on all rows with it.

    Along the values of C each fit starts from the one before. Rows that are little work leave threads nothing
    to share within a fit: here each thread has a fold of its own, and half of the values of C. Results do not
    depend on the number of threads.

    Parameters
    ----------
    model
        A multi-class SVM; a copy of it is fitted.
    X, y
        Rows and one class per row.
    Cs
        Values to try; of equally good ones the smallest is taken.
    cv
        Number of folds, each with about the same share of every class.
    n_jobs
        Threads; None: one per core.

    Returns
    -------
    ChosenC
        The C that was chosen, and how each one did.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tellwhy.classifiers import WestonWatkinsSVM, choose_c
    >>> X, y = load_iris(return_X_y=True)
    >>> found = choose_c(WestonWatkinsSVM(random_state=0), X / 8, y, Cs=[0.001, 0.1], cv=2)
    >>> found.model.C, found.scores.shape
    (0.1, (2, 2))
    """
    values, scores = score_each_c(model, X, y, Cs=Cs, cv=cv, n_jobs=n_jobs)
    best = find_best_c(values, scores)
    chosen = clone(model).set_params(C=best, n_jobs=n_threads(n_jobs)).fit(X, y)
    return ChosenC(chosen.set_params(n_jobs=model.n_jobs), values, scores)


def find_best_c(values: Floats, scores: Floats) -> float:
    """Return the value of C with the best mean score; of equally good ones the smallest."""
    return float(values[int(np.argmax(scores.mean(axis=1)))])


def score_each_c(
    model: MulticlassSVM,
    X: Any,
    y: ArrayLike,
    *,
    Cs: Iterable[float],
    cv: int = 5,
    n_jobs: int | None = None,
    seed: int | None = None,
) -> tuple[Floats, Floats]:
    """Return the values of C, ascending, and their scores on rows left out, values × folds.

    Folds are scikit-learn's, in the order of the rows; with a seed they are drawn, and the only row of a
    class is in no fold that is scored.
    """
    values = _checked(Cs, cv, n_jobs)
    y = np.asarray(y)
    if seed is None:
        folds = list(check_cv(cv, y, classifier=True).split(np.zeros(len(y)), y))
    else:
        drawn = deal_folds(np.unique(y, return_inverse=True)[1], cv, np.random.default_rng(seed))
        folds = [(np.flatnonzero(drawn != fold), np.flatnonzero(drawn == fold)) for fold in range(cv)]
    parts = [part for part in np.array_split(np.arange(len(values)), PARTS) if len(part)]
    # Large values of C take the longest: those first, so that threads end together.
    tasks = [(fold, part) for part in reversed(parts) for fold in range(cv)]
    one = clone(model).set_params(n_jobs=1)
    workers = n_threads(n_jobs)
    run = joblib.Parallel(n_jobs=workers, prefer="threads")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # told by the fit on all rows, if it is so there
        found = run(joblib.delayed(_scores)(one, X, y, folds[fold], values[part]) for fold, part in tasks)
    scores = np.empty((len(values), cv))
    for (fold, part), some in zip(tasks, found, strict=True):
        scores[part, fold] = some
    return values, scores


def _checked(Cs: Iterable[float], cv: int, n_jobs: int | None) -> Floats:
    values = np.unique(np.asarray(list(Cs), dtype=np.float64))
    if len(values) == 0 or not (np.isfinite(values) & (values > 0)).all():
        raise InvalidParameter(
            "The 'Cs' parameter of choose_c must be positive numbers, one at least. "
            f"Got {values.tolist()} instead."
        )
    validate_value("choose_c", "cv", cv, integer(2))
    validate_value("choose_c", "n_jobs", n_jobs, (none, one_of(-1), integer(1)))
    return values


def _scores(model: MulticlassSVM, X: Any, y: Any, fold: tuple[Any, Any], values: Floats) -> Floats:
    """Scores on the held-out rows of a fold for ascending values of C."""
    train, test = fold
    models = model.path(_safe_indexing(X, train), y[train], values)
    held_out = _safe_indexing(X, test)
    return np.array([fitted.score(held_out, y[test]) for fitted in models])

"""From any model to the numbers it decides by: the log-odds of each class, or its one score."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tellwhy.core.capabilities import IsTensor
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.score_function import Floats, ScoreFunction
from tellwhy.scoring.adapters.estimator_kinds import estimator_kind, gives_probabilities, is_scikit_learn
from tellwhy.scoring.as_score import reader_of, refuse_classes
from tellwhy.scoring.model_rows import ensure_fitted, fitted_names, fitted_width, own_rows
from tellwhy.scoring.scores.function_score import FunctionScore, private_rows
from tellwhy.scoring.scores.log_odds import ClassScores, SingleScore, log_odds, log_odds_of_logits
from tellwhy.scoring.scores.network_output import NetworkOutput

BATCH = 512  # rows that go through a network at once
_SUM = 1e-3  # probabilities of a row add up to 1 within this: networks compute in single precision


def as_class_scores(model: object) -> ScoreFunction:
    """Return the log-odds of a model's classes, or its score where it has no classes.

    Covers classifiers that give probabilities, regressors, PyTorch networks, functions of rows that give one
    number or probabilities, and everything that `as_score` reads. Rows go to the model as it takes them:
    arrays, frames, texts. Whether a function or a network has classes is known only from what it gives:
    `with_known_outputs` asks it.

    Parameters
    ----------
    model
        A fitted model or a function. It is not changed: a network in training mode is evaluated as if in
        evaluation mode, by a copy that shares its weights.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> classifier = LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"])
    >>> as_class_scores(classifier).names
    ['no', 'yes']
    """
    refuse_classes(model)
    # Asked first: `as_score` refuses classifiers and regressors, which have no anomaly score.
    kind = estimator_kind(model)
    if kind == "classifier":
        return _classifier(model)
    if kind == "regressor":
        return _regressor(model)
    reader = reader_of(model)
    if reader is NetworkOutput:
        return _NetworkOutputs(model)
    if reader is FunctionScore and callable(model):
        return _FunctionOutputs(model)
    return reader(model)


def with_known_outputs(score: ScoreFunction, X: Any) -> ScoreFunction:
    """Return a score once it is known whether it has classes: functions and networks are asked with two rows.

    Examples
    --------
    >>> fair_coin = as_class_scores(lambda X: np.full((len(X), 2), 0.5))
    >>> with_known_outputs(fair_coin, np.zeros((3, 1))).names
    ['0', '1']
    """
    return score.known(X[:2]) if isinstance(score, _FunctionOutputs) else score


def as_outputs(score: ScoreFunction) -> ClassScores | SingleScore:
    """Return a score as columns of outputs: one per class, or a single one."""
    return score if isinstance(score, ClassScores) else SingleScore(score)


def _classifier(model: Any) -> ClassScores:
    if is_scikit_learn(model):  # of other libraries' classifiers, the classes tell that they are fitted
        ensure_fitted(model)
    if not gives_probabilities(model):
        raise UnsupportedModel(
            f"{type(model).__name__} gives no probabilities: wrap it in "
            "sklearn.calibration.CalibratedClassifierCV, or pass its decision_function to explain that."
        )
    names = [str(name) for name in model.classes_]
    return ClassScores(partial(_odds_of_classes, model), names, **_columns(model))


def _odds_of_classes(model: Any, X: Any) -> Floats:
    return log_odds(np.asarray(model.predict_proba(own_rows(model, private_rows(X)))))


def _regressor(model: Any) -> FunctionScore:
    ensure_fitted(model)
    describes = f"the prediction of {type(model).__name__}"
    return FunctionScore(partial(_prediction, model), describes=describes, **_columns(model))


def _prediction(model: Any, X: Any) -> Any:
    return model.predict(own_rows(model, X))


def _columns(model: Any) -> dict[str, Any]:
    """Names and number of the columns that a model was fitted on, where it recorded them."""
    width = fitted_width(model)
    return {"feature_names": fitted_names(model), "feature_shape": None if width is None else (width,)}


class _FunctionOutputs(FunctionScore):
    """A function that gives one number per row, or probabilities of classes: not known until it is asked."""

    def known(self, X: Any) -> ScoreFunction:
        """Return class scores where the function gives several columns for these rows, else itself."""
        found = np.asarray(self._function(private_rows(X)))
        if found.ndim != 2 or found.shape[1] < 2:
            return self
        names = [str(c) for c in range(found.shape[1])]
        function = partial(_transformed, self._transform(found), self._function)
        return ClassScores(function, names, place=self._place)

    _place: Callable[[Any], Any] | None = None  # puts rows where a network computes

    def _transform(self, found: Floats) -> Callable[[Floats], Floats]:
        """Return what makes log-odds of the outputs, of which these are some."""
        # Outputs that are not finite are left to `ClassScores`, which names the row.
        if np.isfinite(found).all() and not _are_probabilities(found):
            raise InvalidInput(
                f"{self.describes} has {found.shape[1]} columns that are not probabilities (rows must add up "
                f"to 1; row 0 gives {found[0][:4]}). Return probabilities of the classes, or one number per "
                "row."
            )
        return log_odds


class _NetworkOutputs(_FunctionOutputs):
    """A network: its one output per row, or the log-odds of its classes."""

    def __init__(self, model: Any):
        super().__init__(partial(_network_outputs, model), describes=f"the output of {type(model).__name__}")
        self._place = partial(_on_its_device, model)

    def _transform(self, found: Floats) -> Callable[[Floats], Floats]:
        """Outputs that are not probabilities are taken for logits of the classes."""
        return log_odds if _are_probabilities(found) else log_odds_of_logits


def _transformed(transform: Callable[[Floats], Floats], function: Callable[[Any], Any], X: Any) -> Floats:
    return transform(np.asarray(function(private_rows(X)), dtype=np.float64))


def _network_outputs(model: Any, X: Any) -> Floats:
    from tellwhy.scoring.scores.network_passes import outputs_in_evaluation_mode

    rows = X if isinstance(X, IsTensor) else np.asarray(X)
    return np.asarray(outputs_in_evaluation_mode(model, rows, BATCH))


def _on_its_device(model: Any, X: Any) -> Any:
    from tellwhy.scoring.scores.network_passes import on_its_device

    return on_its_device(model, X)


def _are_probabilities(found: Floats) -> bool:
    return bool((found >= 0).all() and (np.abs(found.sum(axis=1) - 1.0) <= _SUM).all())

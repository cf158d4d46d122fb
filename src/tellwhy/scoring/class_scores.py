"""`as_class_scores`: from any model or function to the log-odds of its classes.

Local explanations are of these: 0 where a class is as likely as all others together, and no ceiling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.score import Floats, IsTensor, ScoreFunction
from tellwhy.scoring.as_score import find_reader, refuse_classes
from tellwhy.scoring.function_scores import FunctionScore, make_private_rows
from tellwhy.scoring.model_rows import (
    ensure_fitted,
    find_estimator_kind,
    gives_probabilities,
    is_scikit_learn,
    read_fitted_names,
    read_fitted_width,
    take_own_rows,
)
from tellwhy.scoring.network_output import NetworkOutput

CLIP = 1e-6  # probabilities nearer to 0 or 1 than this count as this near, so that their log-odds are finite
BATCH = 512  # rows that go through a network at once
_SUM = 1e-3  # probabilities of a row add up to 1 within this: networks compute in single precision


def as_class_scores(model: object) -> ScoreFunction:
    """Return the log-odds of a model's classes, or its score where it has no classes.

    Covers classifiers that give probabilities, regressors, PyTorch networks, functions of rows that give one
    number or probabilities, and everything that `as_score` reads. Rows go to the model as it takes them:
    arrays, frames, texts. Whether a function or a network has classes is known only from what it gives:
    `learn_outputs` asks it.

    Parameters
    ----------
    model
        A fitted model or a function. It is not changed: a network in training mode is evaluated as if in
        evaluation mode, by a copy that shares its weights.

    Returns
    -------
    ClassScores
        The outputs of a classifier, class by class.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> classifier = LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"])
    >>> as_class_scores(classifier).names
    ['no', 'yes']
    """
    refuse_classes(model)
    # Asked first: `as_score` refuses classifiers and regressors, which have no anomaly score.
    kind = find_estimator_kind(model)
    if kind == "classifier":
        return _read_classifier_scores(model)
    if kind == "regressor":
        return _score_of_regressor(model)
    reader = find_reader(model)
    if reader is NetworkOutput:
        return _NetworkOutputs(model)
    if reader is FunctionScore and callable(model):
        return _FunctionOutputs(model)
    return reader(model)


def learn_outputs(score: ScoreFunction, X: Any) -> ScoreFunction:
    """Return a score once it is known whether it has classes: functions and networks are asked with two rows.

    Examples
    --------
    >>> fair_coin = as_class_scores(lambda X: np.full((len(X), 2), 0.5))
    >>> learn_outputs(fair_coin, np.zeros((3, 1))).names
    ['0', '1']
    """
    return score.known(X[:2]) if isinstance(score, _FunctionOutputs) else score


def as_outputs(score: ScoreFunction) -> ClassScores | SingleScore:
    """Return a score as columns of outputs: one per class, or a single one."""
    return score if isinstance(score, ClassScores) else SingleScore(score)


def _read_classifier_scores(model: Any) -> ClassScores:
    if is_scikit_learn(model):  # of other libraries' classifiers, the classes tell that they are fitted
        ensure_fitted(model)
    if not gives_probabilities(model):
        raise UnsupportedModel(
            f"{type(model).__name__} gives no probabilities: wrap it in "
            "sklearn.calibration.CalibratedClassifierCV, or pass its decision_function to explain that."
        )
    names = [str(name) for name in model.classes_]
    return ClassScores(partial(_compute_odds_of_classes, model), names, **_read_column_names(model))


def _compute_odds_of_classes(model: Any, X: Any) -> Floats:
    return log_odds(np.asarray(model.predict_proba(take_own_rows(model, make_private_rows(X)))))


def _score_of_regressor(model: Any) -> FunctionScore:
    ensure_fitted(model)
    describes = f"the prediction of {type(model).__name__}"
    return FunctionScore(
        partial(_ask_for_prediction, model), describes=describes, **_read_column_names(model)
    )


def _ask_for_prediction(model: Any, X: Any) -> Any:
    return model.predict(take_own_rows(model, X))


def _read_column_names(model: Any) -> dict[str, Any]:
    """Names and number of the columns that a model was fitted on, where it recorded them."""
    width = read_fitted_width(model)
    return {"feature_names": read_fitted_names(model), "feature_shape": None if width is None else (width,)}


class _FunctionOutputs(FunctionScore):
    """A function that gives one number per row, or probabilities of classes: not known until it is asked."""

    def known(self, X: Any) -> ScoreFunction:
        """Return class scores where the function gives several columns for these rows, else itself."""
        found = np.asarray(self._function(make_private_rows(X)))
        if found.ndim != 2 or found.shape[1] < 2:
            return self
        names = [str(c) for c in range(found.shape[1])]
        function = partial(_apply_transform, self._transform(found), self._function)
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
        self._place = partial(_place_on_its_device, model)

    def _transform(self, found: Floats) -> Callable[[Floats], Floats]:
        """Outputs that are not probabilities are taken for logits of the classes."""
        return log_odds if _are_probabilities(found) else log_odds_of_logits


def _apply_transform(transform: Callable[[Floats], Floats], function: Callable[[Any], Any], X: Any) -> Floats:
    return transform(np.asarray(function(make_private_rows(X)), dtype=np.float64))


def _network_outputs(model: Any, X: Any) -> Floats:
    from tellwhy.scoring.network_passes import outputs_in_evaluation_mode

    rows = X if isinstance(X, IsTensor) else np.asarray(X)
    return np.asarray(outputs_in_evaluation_mode(model, rows, BATCH))


def _place_on_its_device(model: Any, X: Any) -> Any:
    from tellwhy.scoring.network_passes import place_on_device

    return place_on_device(model, X)


def _are_probabilities(found: Floats) -> bool:
    return bool((found >= 0).all() and (np.abs(found.sum(axis=1) - 1.0) <= _SUM).all())


class ClassScores:
    """Log-odds of every class of a model. As a score, it is the number of the class with the highest.

    Parameters
    ----------
    function
        Takes rows as the model takes them, gives the log-odds (n, classes).
    names
        Names of the classes.
    feature_names, feature_shape
        Of the rows, where known.
    place
        Of a network: puts rows where it computes; what is made of them there can be handed to `outputs`.

    Examples
    --------
    >>> scores = ClassScores(lambda X: np.column_stack([-X, X]), ["no", "yes"])
    >>> scores.outputs(np.array([2.0, -1.0])), scores.value(np.array([2.0, -1.0]))
    (array([[-2.,  2.],
           [ 1., -1.]]), array([2., 1.]))
    """

    threshold: float | None = None
    describes = "log-odds of the class that the model prefers"

    def __init__(
        self,
        function: Callable[[Any], Floats],
        names: Sequence[str],
        *,
        feature_names: Sequence[str] | None = None,
        feature_shape: tuple[int, ...] | None = None,
        place: Callable[[Any], Any] | None = None,
    ):
        self._function = function
        self.place = place
        self.names = list(names)
        self.feature_names = feature_names
        self.feature_shape = feature_shape

    def outputs(self, X: Any) -> Floats:
        """Log-odds of each row and class: finite, or an error that names the first row where they are not."""
        found = np.asarray(self._function(X), dtype=np.float64)
        if found.ndim != 2 or found.shape[1] != len(self.names):
            raise InvalidInput(
                f"The model gives outputs of shape {found.shape}; expected one row per input and one column "
                f"for each of its {len(self.names)} classes."
            )
        bad = ~np.isfinite(found).all(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            raise InvalidInput(
                f"The model gives {found[row]} for row {row} ({int(bad.sum())} such rows in all); expected "
                "finite probabilities of the classes. Leave those rows out, or mend the model."
            )
        return found

    def value(self, X: Any) -> Floats:
        """Log-odds of the preferred class of each row."""
        return np.asarray(self.outputs(X).max(axis=1))


class SingleScore:
    """A score of one number per row, read as a model with one column of outputs.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> SingleScore(FunctionScore(lambda X: X[:, 0])).outputs(np.array([[3.0], [4.0]]))
    array([[3.],
           [4.]])
    """

    place: Callable[[Any], Any] | None = None

    def __init__(self, score: ScoreFunction):
        self.score = score
        self.names = ["score"]

    def outputs(self, X: Any) -> Floats:
        """Return the score as a single column."""
        return np.asarray(self.score.value(X))[:, None]


def log_odds(probabilities: Floats) -> Floats:
    """Return log p/(1 − p), with p clipped to [1e-6, 1 − 1e-6]; not a number where p is not finite.

    Examples
    --------
    >>> log_odds(np.array([[0.0, 1.0], [0.5, 0.5]])).round(2)
    array([[-13.82,  13.82],
           [  0.  ,   0.  ]])
    """
    # Clipping alone would turn an infinite p into a believable one; NaN is refused by `ClassScores`.
    clipped = np.where(np.isfinite(probabilities), np.clip(probabilities, CLIP, 1.0 - CLIP), np.nan)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))


def log_odds_of_logits(logits: Floats) -> Floats:
    """Return z_c − log Σ_{k≠c} exp z_k: the log-odds of a softmax, exact however near to 0 or 1 it is.

    Examples
    --------
    >>> log_odds_of_logits(np.array([[40.0, 0.0]]))
    array([[ 40., -40.]])
    """
    found = np.empty_like(logits)
    for c in range(logits.shape[1]):
        others = np.delete(logits, c, axis=1)
        # The largest of the others is taken out of the sum, whose exponentials would overflow otherwise.
        high = others.max(axis=1)
        found[:, c] = logits[:, c] - high - np.log(np.exp(others - high[:, None]).sum(axis=1))
    return found

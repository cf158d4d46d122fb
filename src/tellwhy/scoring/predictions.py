"""`as_prediction` and `as_class_scores`: from any model or function to the numbers it decides by.

Margins and probabilities are read from the models of several libraries; classes are told by their log-odds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.params import one_of, validate_value
from tellwhy.core.score import Floats, IsTensor, ScoreFunction
from tellwhy.scoring.as_score import reader_of, refuse_classes
from tellwhy.scoring.function_scores import EncodedScore, FunctionScore, private_rows
from tellwhy.scoring.model_rows import (
    ensure_fitted,
    estimator_kind,
    fitted_names,
    fitted_width,
    gives_probabilities,
    is_scikit_learn,
    lookup,
    own_rows,
    predicts_only,
)
from tellwhy.scoring.network_output import NetworkOutput
from tellwhy.scoring.prediction_scores import (
    PREDICTED,
    ClassScores,
    LinearOutputs,
    PredictionScore,
    SingleScore,
    log_odds,
    log_odds_of_logits,
    plain,
)

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
        return _scores_of_classifier(model)
    if kind == "regressor":
        return _score_of_regressor(model)
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


def _scores_of_classifier(model: Any) -> ClassScores:
    if is_scikit_learn(model):  # of other libraries' classifiers, the classes tell that they are fitted
        ensure_fitted(model)
    if not gives_probabilities(model):
        raise UnsupportedModel(
            f"{type(model).__name__} gives no probabilities: wrap it in "
            "sklearn.calibration.CalibratedClassifierCV, or pass its decision_function to explain that."
        )
    names = [str(name) for name in model.classes_]
    return ClassScores(partial(_odds_of_classes, model), names, **_column_names(model))


def _odds_of_classes(model: Any, X: Any) -> Floats:
    return log_odds(np.asarray(model.predict_proba(own_rows(model, private_rows(X)))))


def _score_of_regressor(model: Any) -> FunctionScore:
    ensure_fitted(model)
    describes = f"the prediction of {type(model).__name__}"
    return FunctionScore(partial(_prediction, model), describes=describes, **_column_names(model))


def _prediction(model: Any, X: Any) -> Any:
    return model.predict(own_rows(model, X))


def _column_names(model: Any) -> dict[str, Any]:
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
    from tellwhy.scoring.network_passes import outputs_in_evaluation_mode

    rows = X if isinstance(X, IsTensor) else np.asarray(X)
    return np.asarray(outputs_in_evaluation_mode(model, rows, BATCH))


def _on_its_device(model: Any, X: Any) -> Any:
    from tellwhy.scoring.network_passes import on_its_device

    return on_its_device(model, X)


def _are_probabilities(found: Floats) -> bool:
    return bool((found >= 0).all() and (np.abs(found.sum(axis=1) - 1.0) <= _SUM).all())


OUTPUTS = ("auto", "margin", "probability")
Function = Callable[[Any], Any]

# Keyword of `predict` that gives the sum of the trees, before it is made a probability.
_RAW: dict[str, dict[str, Any]] = {
    "xgboost.sklearn.XGBModel": {"output_margin": True},
    "lightgbm.sklearn.LGBMModel": {"raw_score": True},
    "catboost.core.CatBoost": {"prediction_type": "RawFormulaVal"},
}


def classifier_outputs(model: Any, output: str) -> tuple[Function, str]:
    """Return a function that gives one column per class, and the words for a column.

    "auto" is the margin where the model has one (its decision_function, or the sum of its trees), else the
    probability, else whether the class is predicted.
    """
    name = type(model).__name__
    margin = _margin(model)
    if output in ("auto", "margin") and margin is not None:
        return margin
    if hasattr(model, "predict_proba"):
        if output == "margin":
            return partial(_log_odds, model), f"log-odds of {{which}} by {name}"
        return partial(_called, model, "predict_proba"), f"probability of {{which}} by {name}"
    if output != "auto":
        raise InvalidParameter(
            f"{name} gives no probabilities, so output={output!r} cannot be explained: leave output at "
            "'auto', or wrap the model in sklearn.calibration.CalibratedClassifierCV."
        )
    return partial(_votes, model), f"whether {name} predicts {{which}} (1) or not (0)"


def _margin(model: Any) -> tuple[Function, str] | None:
    name = type(model).__name__
    raw = lookup(_RAW, model)
    if raw is not None:
        return partial(
            _both_signs, partial(_called, model, "predict", **raw)
        ), f"margin of {{which}} by {name}"
    if hasattr(model, "decision_function"):
        words = f"margin (decision_function) of {{which}} by {name}"
        return partial(_decision, model), words
    return None


def _decision(model: Any, X: Any) -> Any:
    found = _both_signs(partial(_called, model, "decision_function"), X)
    n_classes = len(model.classes_)
    if found.shape[1] != n_classes:  # one column per pair of classes: SVC(decision_function_shape="ovo")
        raise UnsupportedModel(
            f"The decision_function of {type(model).__name__} gives {found.shape[1]} columns for {n_classes} "
            "classes. Set decision_function_shape='ovr', or pass output='probability'."
        )
    return found


def _both_signs(function: Function, X: Any) -> Any:
    """Return one column per class, also of a model of two classes, which gives only the second's margin."""
    found = np.asarray(function(X))
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    return np.column_stack([-found, found]) if found.ndim == 1 else found


def _log_odds(model: Any, X: Any) -> Floats:
    return log_odds(np.asarray(_called(model, "predict_proba", X), dtype=np.float64))


def _called(model: Any, method: str, X: Any, **options: Any) -> Any:
    found = getattr(model, method)(own_rows(model, X), **options)
    if isinstance(found, list):  # one array for each of several labels
        raise UnsupportedModel(
            f"{type(model).__name__} predicts several labels at once: pass a function that picks one, e.g. "
            f"lambda X: model.{method}(X)[0], with task='prediction'."
        )
    return found


def _votes(model: Any, X: Any) -> Floats:
    return np.asarray(
        np.asarray(_called(model, "predict", X))[:, None] == np.asarray(model.classes_), dtype=np.float64
    )


def predicted_class(model: Any, X: Any) -> Any:
    """Return the number, among the model's classes, of the class that it predicts for each row."""
    classes = list(model.classes_)
    labels = np.asarray(_called(model, "predict", X)).reshape(len(X), -1)[:, 0]
    return np.array([classes.index(label) for label in labels], dtype=np.int64)


def regressor_output(model: Any, X: Any) -> Any:
    """Return the prediction of a regressor."""
    return _called(model, "predict", X)


def linear_outputs(model: Any, n_outputs: int | None) -> LinearOutputs | None:
    """Return the weights of a model that has them (`coef_`, `intercept_`); None for others.

    Whether the outputs are what these weights give is for the caller to check: those of a Poisson regression
    are not.
    """
    coef = getattr(model, "coef_", None)
    intercept = getattr(model, "intercept_", None)
    if coef is None or intercept is None:
        return None
    dense = np.atleast_2d(np.asarray(coef.toarray() if hasattr(coef, "toarray") else coef, dtype=np.float64))
    offsets = np.broadcast_to(np.asarray(intercept, dtype=np.float64).reshape(-1), len(dense))
    if n_outputs == 2 and len(dense) == 1:  # two classes: the margin of the first is minus that of the second
        dense = np.vstack([-dense, dense])
        offsets = np.array([-offsets[0], offsets[0]])
    return LinearOutputs(dense, np.array(offsets, dtype=np.float64))


def as_prediction(model: Any, *, target: Any = None, output: str = "auto") -> ScoreFunction:
    """Return the prediction of a fitted model, or the value of a function, as what is explained.

    Parameters
    ----------
    model
        A classifier or a regressor (scikit-learn, XGBoost, LightGBM, CatBoost, and what is written like
        them), a pipeline or a search around one, or a function that gives one number, or one per class, for
        each row.
    target
        A class by its name; "predicted": of each row the class that the model predicts; or, of a model or
        function with several outputs that have no names, one by its number. None: of two classes the second,
        of more the predicted one.
    output
        Of a classifier: "margin" (its decision_function, or the sum of its trees; the log-odds where it has
        neither), "probability", or "auto": the margin where it has one.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> classifier = LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"])
    >>> as_prediction(classifier).describes
    "margin (decision_function) of class 'yes' by LogisticRegression"
    >>> as_prediction(classifier, target="yes", output="probability").value([[0.5]]).round(3)
    array([0.5])
    """
    validate_value("explain", "output", output, one_of(*OUTPUTS))
    refuse_classes(model)
    encoded = _linear_pipeline(_best_of_search(model), target, output)
    return whole_prediction(model, target=target, output=output) if encoded is None else encoded


def whole_prediction(model: Any, *, target: Any = None, output: str = "auto") -> PredictionScore:
    """Return the same as `as_prediction`, of rows as they go into a pipeline, whatever it ends in."""
    inside = _best_of_search(model)
    kind = estimator_kind(inside)
    if kind == "classifier":
        return _classifier(inside, target, output)
    if kind == "regressor" or predicts_only(inside):
        refuse_output(output, f"{type(inside).__name__} predicts a number.")
        return _regressor(inside, target)
    if callable(inside):
        refuse_output(output, "a function is explained as the number that it gives.")
        name = getattr(inside, "__qualname__", type(inside).__name__)
        words = f"the value of {name}" if _is_open(target) else f"output {{which}} of {name}"
        return PredictionScore(inside, target=PREDICTED if target is None else target, describes=words)
    raise UnsupportedModel(
        f"{type(model).__module__}.{type(model).__qualname__} is neither a classifier nor a regressor. Pass "
        "its prediction as a function: lambda X: …, with task='prediction'."
    )


def refuse_output(output: str, why: str) -> None:
    """Refuse a choice between margin and probability where there is one number: `why` says which."""
    if output != "auto":
        raise InvalidParameter(
            f"output={output!r} chooses between margin and probability of a classifier, and would change "
            f"nothing: {why} Leave it out."
        )


def _is_open(target: Any) -> bool:
    """Whether nobody asked for one of several outputs."""
    return target is None or (isinstance(target, str) and target == PREDICTED)


def _best_of_search(model: Any) -> Any:
    """Return the estimator that a search settled on; others as they are."""
    return getattr(model, "best_estimator_", model)


def _classifier(model: Any, target: Any, output: str) -> PredictionScore:
    if is_scikit_learn(model):
        ensure_fitted(model)
    names = list(model.classes_)
    if any(np.ndim(name) for name in names):
        raise UnsupportedModel(
            f"{type(model).__name__} predicts several labels at once. Explain one of its classifiers "
            "(model.estimators_[0]), or pass a function that picks one, with task='prediction'."
        )
    if target is None:  # the same one for all rows: signs can be compared between neighbours
        target = plain(names[1]) if len(names) == 2 else PREDICTED
    function, words = classifier_outputs(model, output)
    is_margin = words.startswith("margin")
    return PredictionScore(
        function,
        names,
        target=target,
        describes=words,
        predicted=partial(predicted_class, model),
        linear=linear_outputs(model, len(names)) if is_margin else None,
        **_columns(model),
    )


def _regressor(model: Any, target: Any) -> PredictionScore:
    if is_scikit_learn(model):
        ensure_fitted(model)
    name = type(model).__name__
    words = f"prediction of {name}" if _is_open(target) else f"prediction {{which}} of {name}"
    function = partial(regressor_output, model)
    linear = linear_outputs(model, None)
    target = PREDICTED if target is None else target
    return PredictionScore(function, target=target, describes=words, linear=linear, **_columns(model))


def _columns(model: Any) -> dict[str, Any]:
    """The model, and names and number of the columns that it was fitted on, where it recorded them."""
    width = fitted_width(model)
    shape = None if width is None else (width,)
    return {"feature_names": fitted_names(model), "feature_shape": shape, "model": model}


def _linear_pipeline(model: Any, target: Any, output: str) -> EncodedScore | None:
    """Return the prediction of a pipeline that ends in a linear model, in the columns which that model sees.

    None for everything else, also where columns are mixed on the way: those are explained as one function.
    """
    if lookup({"sklearn.pipeline.Pipeline": True}, model) is None or not hasattr(model[-1], "coef_"):
        return None
    from tellwhy.scoring.adapters.pipelines import encoded_by

    inner = as_prediction(model[-1], target=target, output=output)
    found = (
        encoded_by(model, inner) if isinstance(inner, PredictionScore) and inner.linear is not None else None
    )
    return found if isinstance(found, EncodedScore) and found.owner is not None else None

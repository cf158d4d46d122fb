"""From a classifier, a regressor or any function to the prediction that is explained."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.params import one_of, validate_value
from tellwhy.core.score_function import ScoreFunction
from tellwhy.scoring.adapters.class_names import lookup
from tellwhy.scoring.adapters.estimator_kinds import estimator_kind, is_scikit_learn, predicts_only
from tellwhy.scoring.adapters.model_outputs import (
    OUTPUTS,
    classifier_outputs,
    linear_outputs,
    predicted_class,
    regressor_output,
)
from tellwhy.scoring.as_score import refuse_classes
from tellwhy.scoring.model_rows import ensure_fitted, fitted_names, fitted_width
from tellwhy.scoring.scores.encoded import EncodedScore
from tellwhy.scoring.scores.prediction_score import PREDICTED, PredictionScore


def as_prediction(model: Any, *, target: Any = PREDICTED, output: str = "auto") -> ScoreFunction:
    """Return the prediction of a fitted model, or the value of a function, as what is explained.

    Parameters
    ----------
    model
        A classifier or a regressor (scikit-learn, XGBoost, LightGBM, CatBoost, and what is written like
        them), a pipeline or a search around one, or a function that gives one number, or one per class, for
        each row.
    target
        "predicted": of each row the class that the model predicts; or a class by its name; or, of a model or
        function with several outputs that have no names, one by its number.
    output
        Of a classifier: "margin" (its decision_function, or the sum of its trees; the log-odds where it has
        neither), "probability", or "auto": the margin where it has one.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> classifier = LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"])
    >>> as_prediction(classifier).describes
    'margin (decision_function) of the predicted class by LogisticRegression'
    >>> as_prediction(classifier, target="yes", output="probability").value([[0.5]]).round(3)
    array([0.5])
    """
    validate_value("explain", "output", output, one_of(*OUTPUTS))
    refuse_classes(model)
    inside = _best_of_search(model)
    encoded = _linear_pipeline(inside, target, output)
    if encoded is not None:
        return encoded
    kind = estimator_kind(inside)
    if kind == "classifier":
        return _classifier(inside, target, output)
    if kind == "regressor" or predicts_only(inside):
        return _regressor(inside, target)
    if callable(inside):
        name = getattr(inside, "__qualname__", type(inside).__name__)
        words = f"the value of {name}" if target == PREDICTED else f"output {{which}} of {name}"
        return PredictionScore(inside, target=target, describes=words)
    raise UnsupportedModel(
        f"{type(model).__module__}.{type(model).__qualname__} is neither a classifier nor a regressor. Pass "
        "its prediction as a function: lambda X: …, with task='prediction'."
    )


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
    words = f"prediction of {name}" if target == PREDICTED else f"prediction {{which}} of {name}"
    function = partial(regressor_output, model)
    linear = linear_outputs(model, None)
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

"""`as_prediction`: what a classifier or a regressor predicts, as a score: high is no more anomalous than low.

Margins and probabilities are read from the models of several libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter, TellwhyError, UnsupportedModel
from tellwhy.core.explanation_parts import plain
from tellwhy.core.params import nearest, one_of, validate_value
from tellwhy.core.score import Floats, Integers, ScoreFunction
from tellwhy.scoring.as_score import refuse_classes
from tellwhy.scoring.function_scores import EncodedScore, make_private_rows
from tellwhy.scoring.model_rows import (
    ensure_fitted,
    find_estimator_kind,
    is_scikit_learn,
    look_up,
    predicts_only,
    read_fitted_names,
    read_fitted_width,
    take_own_rows,
)

PREDICTED = "predicted"


@dataclass(frozen=True)
class LinearOutputs:
    """Outputs that are weights times the row, plus an intercept: shapes (k, d) and (k,)."""

    weights: Floats
    intercept: Floats

    def value(self, X: Floats) -> Floats:
        """Outputs of each row, shape (n, k)."""
        return np.asarray(X @ self.weights.T + self.intercept)


class PredictionScore:
    """One output of a model of several, for each row: that of the class it predicts, or of a chosen one.

    `fixed(X)` tells which output each row has; handing that to `value` keeps the same output when the row is
    changed.

    Parameters
    ----------
    function
        Takes rows, gives the outputs (n, k), or (n,) for a model of one output.
    names
        Names of the outputs: the classes; None for a regressor or a function.
    target
        "predicted" (of each row the class that the model predicts; of a single output that one), the name of
        a class, or the number of an output that has no name.
    describes
        Which number it is, with {which} in the place of the output.
    predicted
        Takes rows, gives the number of the predicted class; by default the largest output is predicted.
    feature_names, feature_shape
        Of the rows, where known.
    linear
        The outputs as weights, where the model is linear.
    model
        What it was read from, where that may have kept its training rows.

    Examples
    --------
    >>> score = PredictionScore(lambda X: np.column_stack([-X[:, 0], X[:, 0]]), ["no", "yes"])
    >>> score.value(np.array([[2.0], [-3.0]])), score.fixed(np.array([[2.0], [-3.0]]))[0]
    (array([2., 3.]), array([1, 0]))
    """

    is_prediction = True
    has_levels = False  # whether cells are numbers of levels in some columns (`TableCodes`)
    threshold: float | None = None

    def __init__(
        self,
        function: Callable[[Any], Any],
        names: Sequence[Any] | None = None,
        *,
        target: Any = PREDICTED,
        describes: str = "output {which} of the function",
        predicted: Callable[[Any], Any] | None = None,
        feature_names: Sequence[str] | None = None,
        feature_shape: tuple[int, ...] | None = None,
        linear: LinearOutputs | None = None,
        model: Any = None,
    ):
        self._function = function
        self._predicted = predicted
        self.names = None if names is None else list(names)
        self.target = target
        self.chosen = choose_output(target, self.names)
        self.feature_names = feature_names
        self.feature_shape = feature_shape
        self.linear = linear
        self.model = model
        self._words = describes

    @property
    def describes(self) -> str:
        """Which number it is."""
        if self.chosen is None:
            return self._words.format(which="the predicted class")
        which = self.chosen if self.names is None else f"class {plain(self.names[self.chosen])!r}"
        return self._words.format(which=which)

    def outputs(self, X: Any) -> Floats:
        """All outputs of each row, finite, shape (n, k)."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        found = np.asarray(self._applied(self._function, X))
        if found.ndim == 1:
            found = found[:, None]
        if found.ndim != 2 or len(found) != n or found.shape[1] == 0:
            raise InvalidInput(
                f"The model gives outputs of shape {np.shape(found)} for {n} rows; expected one number per "
                f"row, or one row of {n} per class. Wrap it in a function that picks what you mean."
            )
        return self._finite(found)

    def _applied(self, function: Callable[[Any], Any], X: Any) -> Any:
        """What a function of the model gives, or an error that says that the model refused the rows."""
        try:
            return function(make_private_rows(X))
        except ValueError as error:
            if self.model is None or isinstance(
                error, TellwhyError
            ):  # a user's own function: a user's own error
                raise
            name = type(self.model).__name__
            raise InvalidInput(f"{name} cannot be applied to these rows: {error}") from error

    def _finite(self, found: Any) -> Floats:
        if found.dtype.kind not in "biuf":
            raise InvalidInput(
                f"The model gives values of dtype {found.dtype}, such as {found.flat[0]!r}; expected "
                "numbers. Pass the classifier itself, or its predict_proba."
            )
        bad = ~np.isfinite(found).all(axis=1)
        if bad.any():
            raise InvalidInput(
                f"The model gives {found[np.argmax(bad)]} for row {int(np.argmax(bad))} ({int(bad.sum())} "
                "such rows in all); expected finite numbers. Leave those rows out, or mend the model."
            )
        return np.asarray(found, dtype=np.float64)

    def fixed(self, X: Any) -> tuple[Integers, ...]:
        """Further argument of `value` that keeps each row's output: its number."""
        if self.chosen is not None and self.names is None:
            self._check_range(self.outputs(X[:1]).shape[1])
        return (self._numbers(X, None),)

    def _check_range(self, n_outputs: int) -> None:
        if self.chosen is not None and self.chosen >= n_outputs:
            raise InvalidParameter(
                f"target={self.target!r} is out of range: the model has outputs 0 to {n_outputs - 1}."
            )

    def _numbers(self, X: Any, found: Floats | None) -> Integers:
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if self.chosen is not None:
            return np.full(n, self.chosen, dtype=np.int64)
        if self._predicted is not None:
            return np.asarray(self._applied(self._predicted, X), dtype=np.int64)
        outputs = self.outputs(X) if found is None else found
        if self.names is None and outputs.shape[1] > 1:
            raise InvalidParameter(
                f"The model gives {outputs.shape[1]} outputs per row: say which one is explained with "
                f"target=0, …, target={outputs.shape[1] - 1}."
            )
        return np.asarray(outputs.argmax(axis=1), dtype=np.int64)

    def value(self, X: Any, outputs: Integers | None = None) -> Floats:
        """Return the explained output of each row."""
        found = self.outputs(X)
        wanted = self._numbers(X, found) if outputs is None else np.asarray(outputs)
        self._check_range(found.shape[1])
        return np.asarray(found[np.arange(len(found)), wanted])

    def output_names(self, numbers: Integers) -> Any:
        """Names of outputs by their numbers; None where they have none."""
        if self.names is None:
            return None
        named = np.asarray(self.names)
        return (named.astype(str) if named.dtype.kind == "O" else named)[numbers]


def choose_output(target: Any, names: Sequence[Any] | None) -> int | None:
    """Return the number of the output that is explained for all rows; None: of each row the predicted one.

    Examples
    --------
    >>> choose_output("yes", ["no", "yes"])
    1
    >>> choose_output("yess", ["no", "yes"])
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidParameter: There is no class 'yess'; did you mean 'yes'? ...
    """
    if isinstance(target, str) and target == PREDICTED and PREDICTED not in (names or ()):
        return None
    if names is None:
        if isinstance(target, (int, np.integer)) and not isinstance(target, bool) and target >= 0:
            return int(target)
        raise InvalidParameter(
            f"target must be 'predicted' or the number of an output, 0, 1, …. Got {target!r} instead."
        )
    for number, name in enumerate(names):
        if plain(name) == target or str(name) == target:
            return number
    listed = ", ".join(repr(plain(name)) for name in list(names)[:8])
    raise InvalidParameter(
        f"There is no class {target!r}{nearest(str(target), [str(name) for name in names])} The classes are "
        f"{listed}; 'predicted' explains of each row the class that the model predicts."
    )


OUTPUTS = ("auto", "margin", "probability")
Function = Callable[[Any], Any]

# Keyword of `predict` that gives the sum of the trees, before it is made a probability.
_RAW: dict[str, dict[str, Any]] = {
    "xgboost.sklearn.XGBModel": {"output_margin": True},
    "lightgbm.sklearn.LGBMModel": {"raw_score": True},
    "catboost.core.CatBoost": {"prediction_type": "RawFormulaVal"},
}


def read_classifier_outputs(model: Any, output: str) -> tuple[Function, str]:
    """Return a function that gives one column per class, and the words for a column.

    "auto" is the margin where the model has one (its decision_function, or the sum of its trees), else the
    probability, else whether the class is predicted.
    """
    name = type(model).__name__
    margin = _read_margin(model)
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


def _read_margin(model: Any) -> tuple[Function, str] | None:
    name = type(model).__name__
    raw = look_up(_RAW, model)
    if raw is not None:
        return partial(
            _add_other_sign, partial(_called, model, "predict", **raw)
        ), f"margin of {{which}} by {name}"
    if hasattr(model, "decision_function"):
        words = f"margin (decision_function) of {{which}} by {name}"
        return partial(_decision, model), words
    return None


def _decision(model: Any, X: Any) -> Any:
    found = _add_other_sign(partial(_called, model, "decision_function"), X)
    n_classes = len(model.classes_)
    if found.shape[1] != n_classes:  # one column per pair of classes: SVC(decision_function_shape="ovo")
        raise UnsupportedModel(
            f"The decision_function of {type(model).__name__} gives {found.shape[1]} columns for {n_classes} "
            "classes. Set decision_function_shape='ovr', or pass output='probability'."
        )
    return found


def _add_other_sign(function: Function, X: Any) -> Any:
    """Return one column per class, also of a model of two classes, which gives only the second's margin."""
    found = np.asarray(function(X))
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    return np.column_stack([-found, found]) if found.ndim == 1 else found


def _log_odds(model: Any, X: Any) -> Floats:
    from tellwhy.scoring.class_scores import log_odds

    return log_odds(np.asarray(_called(model, "predict_proba", X), dtype=np.float64))


def _called(model: Any, method: str, X: Any, **options: Any) -> Any:
    found = getattr(model, method)(take_own_rows(model, X), **options)
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


def predict_class(model: Any, X: Any) -> Any:
    """Return the number, among the model's classes, of the class that it predicts for each row."""
    classes = list(model.classes_)
    labels = np.asarray(_called(model, "predict", X)).reshape(len(X), -1)[:, 0]
    return np.array([classes.index(label) for label in labels], dtype=np.int64)


def predict_by_regressor(model: Any, X: Any) -> Any:
    """Return the prediction of a regressor."""
    return _called(model, "predict", X)


def read_linear_outputs(model: Any, n_outputs: int | None) -> LinearOutputs | None:
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

    Returns
    -------
    PredictionScore
        The chosen output of each row, as a score.

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
    encoded = _read_linear_pipeline(_find_best_of_search(model), target, output)
    return whole_prediction(model, target=target, output=output) if encoded is None else encoded


def whole_prediction(model: Any, *, target: Any = None, output: str = "auto") -> PredictionScore:
    """Return the same as `as_prediction`, of rows as they go into a pipeline, whatever it ends in."""
    inside = _find_best_of_search(model)
    kind = find_estimator_kind(inside)
    if kind == "classifier":
        return _classifier(inside, target, output)
    if kind == "regressor" or predicts_only(inside):
        refuse_output(output, f"{type(inside).__name__} predicts a number.")
        return _read_regressor(inside, target)
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


def _find_best_of_search(model: Any) -> Any:
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
    function, words = read_classifier_outputs(model, output)
    is_margin = words.startswith("margin")
    return PredictionScore(
        function,
        names,
        target=target,
        describes=words,
        predicted=partial(predict_class, model),
        linear=read_linear_outputs(model, len(names)) if is_margin else None,
        **_columns(model),
    )


def _read_regressor(model: Any, target: Any) -> PredictionScore:
    if is_scikit_learn(model):
        ensure_fitted(model)
    name = type(model).__name__
    words = f"prediction of {name}" if _is_open(target) else f"prediction {{which}} of {name}"
    function = partial(predict_by_regressor, model)
    linear = read_linear_outputs(model, None)
    target = PREDICTED if target is None else target
    return PredictionScore(function, target=target, describes=words, linear=linear, **_columns(model))


def _columns(model: Any) -> dict[str, Any]:
    """The model, and names and number of the columns that it was fitted on, where it recorded them."""
    width = read_fitted_width(model)
    shape = None if width is None else (width,)
    return {"feature_names": read_fitted_names(model), "feature_shape": shape, "model": model}


def _read_linear_pipeline(model: Any, target: Any, output: str) -> EncodedScore | None:
    """Return the prediction of a pipeline that ends in a linear model, in the columns which that model sees.

    None for everything else, also where columns are mixed on the way: those are explained as one function.
    """
    if look_up({"sklearn.pipeline.Pipeline": True}, model) is None or not hasattr(model[-1], "coef_"):
        return None
    from tellwhy.scoring.adapters.pipelines import encode_by

    inner = as_prediction(model[-1], target=target, output=output)
    found = (
        encode_by(model, inner) if isinstance(inner, PredictionScore) and inner.linear is not None else None
    )
    return found if isinstance(found, EncodedScore) and found.owner is not None else None

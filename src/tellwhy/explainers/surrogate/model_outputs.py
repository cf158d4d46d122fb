"""What the mixture approximates: the log-odds of each class, or the one score of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.score_function import Floats, Integers
from tellwhy.scoring import FunctionScore, as_score
from tellwhy.scoring.model_rows import ensure_fitted, fitted_names, fitted_width, without_names

CLIP = 1e-6  # probabilities nearer to 0 or 1 count as this near


class ClassLogits:
    """Log-odds of every class of a model; `value` is that of the class with the highest.

    Parameters
    ----------
    function
        Takes rows in the model's own shape, gives the log-odds (n, classes).
    names
        Names of the classes.
    feature_names, feature_shape
        Of the rows, where known.
    """

    threshold: float | None = None

    def __init__(
        self,
        function: Callable[[Any], Floats],
        names: Sequence[str],
        *,
        feature_names: Sequence[str] | None = None,
        feature_shape: tuple[int, ...] | None = None,
    ):
        self._function = function
        self.names = list(names)
        self.feature_names = feature_names
        self.feature_shape = feature_shape
        self.describes = "log-odds of the class that the model prefers"

    def outputs(self, X: Any) -> Floats:
        """Log-odds of each row and class, checked."""
        found = np.asarray(self._function(X), dtype=np.float64)
        bad = ~np.isfinite(found).all(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            raise InvalidInput(
                f"The model gives {found[row]} for row {row} ({int(bad.sum())} such rows in all); expected finite "
                "probabilities of the classes. Leave those rows out, or mend the model."
            )
        return found

    def value(self, X: Any) -> Floats:
        """Log-odds of the preferred class of each row."""
        return np.asarray(self.outputs(X).max(axis=1))


class OneScore:
    """One number per row, as `as_score` reads it."""

    names: tuple[str, ...] = ("score",)

    def __init__(self, score: Any):
        self.score = score

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
        high = others.max(axis=1)
        found[:, c] = logits[:, c] - high - np.log(np.exp(others - high[:, None]).sum(axis=1))
    return found


def read_model(model: Any) -> Any:
    """Return the score function of any model: class log-odds, or what `as_score` reads.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> classifier = LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"])
    >>> read_model(classifier).names
    ['no', 'yes']
    """
    if isinstance(model, type):
        raise UnsupportedModel(f"{model.__name__} is a class; pass a fitted instance of it.")
    if _is_network(model):
        return _network(model)
    kind = _estimator_kind(model)
    if kind == "classifier" and hasattr(model, "predict_proba"):
        return _classifier(model)
    if kind == "regressor":
        return _regressor(model)
    if kind == "classifier":
        raise UnsupportedModel(
            f"{type(model).__name__} gives no probabilities: wrap it in sklearn.calibration.CalibratedClassifierCV, "
            "or pass its decision_function to explain that."
        )
    if callable(model) and not hasattr(model, "to_score") and not hasattr(model, "value"):
        return _Function(model)
    return as_score(model)


def _estimator_kind(model: Any) -> str | None:
    """'classifier', 'regressor', …, as scikit-learn's tags say; None for what is not its estimator."""
    if not hasattr(model, "__sklearn_tags__"):
        return "classifier" if hasattr(model, "predict_proba") and hasattr(model, "classes_") else None
    from sklearn.utils import get_tags

    return get_tags(model).estimator_type


def as_outputs(score: Any) -> ClassLogits | OneScore:
    """Return the columns that are approximated."""
    return score if isinstance(score, ClassLogits) else OneScore(score)


def _classifier(model: Any) -> ClassLogits:
    ensure_fitted(model)
    bare = without_names(model)
    width = fitted_width(model)
    return ClassLogits(
        lambda X: log_odds(np.asarray(bare.predict_proba(X))),
        [str(name) for name in model.classes_],
        feature_names=fitted_names(model),
        feature_shape=None if width is None else (width,),
    )


def _regressor(model: Any) -> FunctionScore:
    ensure_fitted(model)
    width = fitted_width(model)
    return FunctionScore(
        without_names(model).predict,
        feature_names=fitted_names(model),
        feature_shape=None if width is None else (width,),
        describes=f"the prediction of {type(model).__name__}",
    )


class _Function(FunctionScore):
    """A function of rows that gives one number per row, or probabilities of classes."""

    def with_shape_of(self, X: Any) -> Any:
        """Return class log-odds where the function gives probabilities for these rows, else itself."""
        found = np.asarray(self._function(X))
        if found.ndim != 2 or found.shape[1] < 2:
            return self
        if np.isfinite(found).all() and (np.abs(found.sum(axis=1) - 1.0) > 1e-3).any() | (found < 0).any():
            raise InvalidInput(
                f"{self.describes} has {found.shape[1]} columns that are not probabilities (rows must add up to 1; row "
                f"0 gives {found[0][:4]}). Return probabilities of the classes, or one number per row."
            )
        names = [str(c) for c in range(found.shape[1])]
        return ClassLogits(lambda rows: log_odds(np.asarray(self._function(rows), dtype=np.float64)), names)


def _is_network(model: Any) -> bool:
    return any(
        cls.__module__.startswith("torch.nn") and cls.__name__ == "Module" for cls in type(model).__mro__
    )


def _network(model: Any) -> Any:
    """Log-odds of a network's classes, or its single output; the network's mode is put back afterwards."""

    def outputs(X: Any) -> Floats:
        import torch

        parameter = next(iter(model.parameters()), None)
        like = {} if parameter is None else {"dtype": parameter.dtype, "device": parameter.device}
        with torch.no_grad(), _evaluating(model):
            parts = [
                model(torch.as_tensor(part, **like))
                for part in np.array_split(np.asarray(X), -(-len(X) // 512))
            ]
            return np.asarray(torch.cat(parts).double().cpu().numpy())

    return _NetworkFunction(outputs, describes=f"the output of {type(model).__name__}")


class _NetworkFunction(_Function):
    """A network: outputs that are not probabilities are taken for logits of classes."""

    def with_shape_of(self, X: Any) -> Any:
        found = np.asarray(self._function(X))
        if found.ndim != 2 or found.shape[1] < 2:
            return self
        names = [str(c) for c in range(found.shape[1])]
        is_softmax = bool((found >= 0).all() and np.abs(found.sum(axis=1) - 1.0).max() < 1e-3)
        transform = log_odds if is_softmax else log_odds_of_logits
        return ClassLogits(lambda rows: transform(self._function(rows)), names)


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    modes: list[tuple[Any, bool]] = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def preferred(outputs: Floats) -> Integers:
    """Return the target of each row: the class with the highest log-odds."""
    return np.asarray(outputs.argmax(axis=1))

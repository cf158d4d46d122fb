"""Scores of scikit-learn's mixtures, projections, covariances and outlier detectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np
from scipy.special import digamma

from tellwhy.core.arrays import as_floats
from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.score import Floats, ScoreFunction
from tellwhy.scoring.function_scores import FunctionScore
from tellwhy.scoring.mixture_scores import MixtureScore, Projection, ProjectionScore, ScaledMixture
from tellwhy.scoring.model_rows import (
    drop_names,
    ensure_fitted,
    look_up,
    read_fitted_names,
    read_fitted_width,
    read_number_rows,
)
from tellwhy.scoring.predictions import LinearOutputs

# (model, rows) -> for each row one number, or one derivative per column
ModelFunction = Callable[[Any, Any], Any]


def make_model_score(
    model: Any,
    value: ModelFunction,
    *,
    describes: str,
    gradient: ModelFunction | None = None,
    threshold: float | None = None,
    linear: LinearOutputs | None = None,
) -> FunctionScore:
    """Return a function of a fitted model and its rows as a score that knows the model's columns."""
    width = read_fitted_width(model)
    score = FunctionScore(
        partial(_apply_to_rows, model, value),
        gradient=None if gradient is None else partial(_apply_to_rows, model, gradient),
        feature_shape=None if width is None else (width,),
        feature_names=read_fitted_names(model),
        describes=describes,
        threshold=threshold,
    )
    score.linear = linear
    score.model = model
    return score


def _apply_to_rows(model: Any, function: ModelFunction, X: Any) -> Any:
    """Apply a function of a model to rows in the form that the model was fitted on."""
    return function(model, read_number_rows(model, X))


def turn_score_samples(model: Any, X: Any) -> Floats:
    """Return scikit-learn's score with its sign turned: high = anomalous."""
    return -np.asarray(model.score_samples(X))


def _minus_decision(model: Any, X: Any) -> Floats:
    return -np.asarray(model.decision_function(X))


def read_minus_offset(model: Any) -> float | None:
    """Return the threshold on the scale of −score_samples, where the model has one."""
    offset = getattr(model, "offset_", None)
    return None if offset is None else -float(np.ravel(offset)[0])


def mixture(model: Any) -> ScoreFunction:
    """−log p(x) of `GaussianMixture` and `BayesianGaussianMixture`."""
    ensure_fitted(model)
    log_weights = look_up(_LOG_WEIGHTS, model)
    describes = f"negative log-density −log p(x) of {type(model).__name__}"
    if log_weights is None:  # a mixture of someone else's: its density may be another formula
        return make_model_score(model, turn_score_samples, describes=describes)
    # What scikit-learn stores depends on the covariance type: one factor for all components, one number for
    # all columns. Broadcasting gives each component its own without copying.
    factors = np.asarray(model.precisions_cholesky_, dtype=np.float64)
    n_components, d = model.means_.shape
    if model.covariance_type == "tied":
        factors = np.broadcast_to(factors, (n_components, d, d))
    if model.covariance_type == "spherical":
        factors = np.broadcast_to(factors[:, None], (n_components, d))
    means = np.asarray(model.means_, dtype=np.float64)
    parts = ScaledMixture(log_weights(model), means, factors, np.zeros(d), np.ones(d))
    return MixtureScore(parts, feature_names=read_fitted_names(model), describes=describes)


def _log_weights(model: Any) -> Floats:
    return np.asarray(np.log(model.weights_), dtype=np.float64)


def _compute_expected_log_weights(model: Any) -> Floats:
    """Log-weights of a Bayesian mixture, with what its uncertain precisions take from each log-density.

    E[log π_k] + ½ (E[log |Λ_k|] − log |E Λ_k| − d/β_k): Bishop (2006), eqs 10.64 to 10.66.
    """
    freedom = model.degrees_of_freedom_
    d = model.means_.shape[1]
    log_precision = d * np.log(2.0) + digamma(0.5 * (freedom - np.arange(d)[:, None])).sum(axis=0)
    spread = log_precision - d * np.log(freedom)
    return np.asarray(_average_log_weights(model) + 0.5 * (spread - d / model.mean_precision_))


def _average_log_weights(model: Any) -> Floats:
    """E[log π_k] under the posterior of the weights: a Dirichlet process, or a Dirichlet distribution."""
    concentration = model.weight_concentration_
    if not isinstance(concentration, tuple):
        return np.asarray(digamma(concentration) - digamma(np.sum(concentration)))
    # A stick is broken in turn: component k takes its part of what the ones before it left.
    total = digamma(concentration[0] + concentration[1])
    taken = digamma(concentration[0]) - total
    left = digamma(concentration[1]) - total
    return np.asarray(taken + np.concatenate([[0.0], np.cumsum(left)[:-1]]))


_LOG_WEIGHTS: dict[str, Callable[[Any], Floats]] = {
    "sklearn.mixture.GaussianMixture": _log_weights,
    "sklearn.mixture.BayesianGaussianMixture": _compute_expected_log_weights,
}


def reconstruction(model: Any) -> ProjectionScore:
    """‖x − x̂‖² of a projection on orthonormal components: `PCA`, `IncrementalPCA`, `TruncatedSVD`."""
    ensure_fitted(model)
    components = np.asarray(model.components_, dtype=np.float64)
    mean = np.asarray(getattr(model, "mean_", np.zeros(components.shape[1])), dtype=np.float64)
    score = ProjectionScore(
        Projection(mean, components),
        feature_names=read_fitted_names(model),
        describes=f"squared reconstruction error ‖x − x̂‖² of {type(model).__name__}",
    )
    if hasattr(model, "get_covariance"):
        score.covariance = np.asarray(model.get_covariance(), dtype=np.float64)
    return score


def read_mahalanobis(model: Any) -> FunctionScore:
    """(x − μ)ᵀP(x − μ) of `EllipticEnvelope` and the estimators of a covariance."""
    ensure_fitted(model)
    describes = f"squared Mahalanobis distance of {type(model).__name__}"
    return make_model_score(
        model,
        _measure_mahalanobis,
        gradient=_compute_mahalanobis_gradient,
        describes=describes,
        threshold=read_minus_offset(model),
    )


def _measure_mahalanobis(model: Any, X: Any) -> Floats:
    deviation = as_floats(X) - model.location_
    return np.asarray(((deviation @ model.get_precision()) * deviation).sum(axis=1))


def _compute_mahalanobis_gradient(model: Any, X: Any) -> Floats:
    return np.asarray(2.0 * (as_floats(X) - model.location_) @ model.get_precision())


def read_linear_one_class(model: Any) -> FunctionScore:
    """−⟨w, x⟩ of `SGDOneClassSVM`."""
    ensure_fitted(model)
    return make_model_score(
        model,
        turn_score_samples,
        gradient=_compute_linear_gradient,
        describes=f"minus the score_samples of {type(model).__name__}, a linear function",
        threshold=read_minus_offset(model),
        linear=read_minus_weights(model),
    )


def read_minus_weights(model: Any) -> LinearOutputs:
    """Weights of −⟨w, x⟩, which has no intercept."""
    coef = model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_
    return LinearOutputs(-np.asarray(coef, dtype=np.float64).reshape(1, -1), np.zeros(1))


def _compute_linear_gradient(model: Any, X: Any) -> Floats:
    return np.repeat(-np.asarray(model.coef_, dtype=np.float64).reshape(1, -1), len(X), axis=0)


def read_local_outlier_factor(model: Any) -> FunctionScore:
    """−score_samples of `LocalOutlierFactor(novelty=True)`."""
    return read_outlier_detector(model, samples=_score_arrays)


def _score_arrays(model: Any, X: Any) -> Floats:
    """Score arrays: given a frame, LocalOutlierFactor warns of missing names although they are there."""
    return turn_score_samples(drop_names(model), as_floats(X))


def read_outlier_detector(model: Any, samples: ModelFunction = turn_score_samples) -> FunctionScore:
    """Turn the sign of any other detector: `IsolationForest`, and those of third parties."""
    ensure_fitted(model)
    name = type(model).__name__
    if hasattr(model, "score_samples"):
        describes = f"minus the score_samples of {name}"
        return make_model_score(model, samples, describes=describes, threshold=read_minus_offset(model))
    if hasattr(model, "decision_function"):
        describes = f"minus the decision_function of {name}"
        # scikit-learn's convention: decision_function is negative for outliers.
        return make_model_score(model, _minus_decision, describes=describes, threshold=0.0)
    raise UnsupportedModel(
        f"{name} cannot score new rows: it has neither score_samples nor decision_function. Fit a detector "
        "that has (for LocalOutlierFactor: novelty=True), or pass a function that gives one number per row."
    )


def refuse_classifier(model: Any) -> NoReturn:
    """Say how to explain a classifier: by what it predicts."""
    raise UnsupportedModel(
        f"{type(model).__name__} is a classifier, which does not say how anomalous a row is. "
        "tellwhy.explain(model, X, background=…) explains what it predicts; a method of your own choice "
        "takes tellwhy.scoring.as_prediction(model)."
    )


def refuse_regressor(model: Any) -> NoReturn:
    """Say how to explain a regressor: by what it predicts."""
    raise UnsupportedModel(
        f"{type(model).__name__} is a regressor, which does not say how anomalous a row is. "
        "tellwhy.explain(model, X, background=…) explains what it predicts; a method of your own choice "
        "takes tellwhy.scoring.as_prediction(model)."
    )


def refuse(model: Any) -> NoReturn:
    """Say what to do with a model that has no anomaly score."""
    raise UnsupportedModel(
        f"{type(model).__module__}.{type(model).__qualname__} has no anomaly score that tellwhy knows. Pass "
        "a function that takes rows and gives one number per row, high = anomalous."
    )

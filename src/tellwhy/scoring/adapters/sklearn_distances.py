"""Scores of scikit-learn's models that are made of distances or products with training rows or centres."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from tellwhy.core.arrays import as_floats
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.score import CentreDistance, Floats, KernelExpansion, NeighbourDistance, ScoreFunction
from tellwhy.kernels import Exponential
from tellwhy.scoring.adapters.sklearn_models import (
    make_model_score,
    read_minus_offset,
    read_minus_weights,
    turn_score_samples,
)
from tellwhy.scoring.distance_scores import CentreScore, NeighbourScore
from tellwhy.scoring.function_scores import FunctionScore
from tellwhy.scoring.model_rows import ensure_fitted, read_fitted_names
from tellwhy.scoring.one_class import KernelScore


def one_class_svm(model: Any) -> ScoreFunction:
    """−log g(x), g = Σ_j α_j k(x, u_j) with Σα = 1, for the Gaussian kernel; else −score_samples."""
    ensure_fitted(model)
    if model.kernel == "precomputed":
        raise UnsupportedModel(
            "OneClassSVM(kernel='precomputed') sees kernel values, not rows. Pass a function that computes "
            "them: lambda X: -model.score_samples(kernel(X, X_train))."
        )
    if model.kernel != "rbf" or model._gamma == 0:
        return _other_one_class_svm(model)
    alpha = _dense(model.dual_coef_).ravel()
    # The offset is the value of Σ_j α_j k at the boundary, before the weights are made to add up to 1.
    level = float(model.offset_[0]) / alpha.sum()
    expansion = KernelExpansion(
        _dense(model.support_vectors_),
        alpha / alpha.sum(),
        Exponential(1.0 / math.sqrt(2.0 * model._gamma)),  # exp(−γ r²) = exp(−r²/(2σ²))
        np.asarray(model.support_, dtype=np.int64),
        int(model.shape_fit_[0]),
    )
    return KernelScore(
        expansion,
        feature_names=read_fitted_names(model),
        describes=f"outlierness o(x) = −log g(x) of {type(model).__name__}",
        threshold=-math.log(level) if level > 0 else None,
    )


def _other_one_class_svm(model: Any) -> FunctionScore:
    named = model.kernel if isinstance(model.kernel, str) else "callable"
    score = make_model_score(
        model,
        turn_score_samples,
        gradient=_compute_product_gradient if named in ("linear", "poly", "sigmoid") else None,
        describes=f"minus the score_samples of {type(model).__name__} with a {named} kernel",
        threshold=read_minus_offset(model),
        linear=read_minus_weights(model) if named == "linear" else None,
    )
    score.has_no_minimum = named == "poly"  # far away, powers of products grow without end
    return score


def _compute_product_gradient(model: Any, X: Any) -> Floats:
    """−Σ_j α_j f'(⟨x, u_j⟩) u_j for a kernel f(⟨x, u⟩)."""
    U = _dense(model.support_vectors_)
    alpha = _dense(model.dual_coef_).ravel()
    products = as_floats(X) @ U.T
    if model.kernel == "linear":
        slopes = np.ones_like(products)
    else:
        inside = model._gamma * products + model.coef0
        degree = model.degree
        outer = degree * inside ** (degree - 1) if model.kernel == "poly" else 1.0 - np.tanh(inside) ** 2
        slopes = model._gamma * outer
    return np.asarray(-(slopes * alpha) @ U)


def kernel_density(model: Any) -> ScoreFunction:
    """−log p(x): a kernel expansion for the Gaussian and the exponential kernel, else a function."""
    ensure_fitted(model)
    describes = f"negative log-density −log p(x) of {type(model).__name__}"
    if model.kernel not in _LOG_VOLUMES or not _is_euclidean(model):
        return make_model_score(
            model, turn_score_samples, describes=f"{describes} with a {model.kernel} kernel"
        )
    points = np.asarray(model.tree_.data, dtype=np.float64)
    given = model.tree_.sample_weight
    weights = np.ones(len(points)) if given is None else np.asarray(given, dtype=np.float64)
    kept = np.flatnonzero(weights)  # the logarithm of a weight of 0 would be −∞
    q, log_volume = _LOG_VOLUMES[model.kernel]
    kernel = Exponential(float(model.bandwidth_), q)
    d = points.shape[1]
    return KernelScore(
        KernelExpansion(points[kept], weights[kept] / weights.sum(), kernel, kept, len(points)),
        feature_names=read_fitted_names(model),
        describes=describes,
        # The kernel has height 1; a density has volume 1.
        offset=log_volume(d) + d * math.log(kernel.bandwidth),
    )


def _gaussian_log_volume(d: int) -> float:
    """log ∫ exp(−r²/2) over d dimensions."""
    return 0.5 * d * math.log(2.0 * math.pi)


def _exponential_log_volume(d: int) -> float:
    """log ∫ exp(−r) over d dimensions: the surface of the unit sphere times Γ(d)."""
    return math.log(2.0) + 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d) + math.lgamma(d)


_LOG_VOLUMES = {"gaussian": (2.0, _gaussian_log_volume), "exponential": (1.0, _exponential_log_volume)}


def _is_euclidean(model: Any) -> bool:
    """Whether distances are Euclidean, also where they are called Minkowski's with p = 2."""
    settings = model.metric_params or {}
    if model.metric in ("minkowski", "p"):
        p = settings.get("p", getattr(model, "p", 2))
        return bool(p == 2) and set(settings) <= {"p"}
    return model.metric in ("euclidean", "l2") and not settings


def read_nearest_centre(model: Any) -> CentreScore:
    """Squared distance to the nearest centre of k-means."""
    ensure_fitted(model)
    centres = np.asarray(model.cluster_centers_, dtype=np.float64)
    describes = f"squared distance to the nearest centre of {type(model).__name__}"
    return CentreScore(CentreDistance(centres), feature_names=read_fitted_names(model), describes=describes)


def nearest_neighbours(model: Any) -> ScoreFunction:
    """Mean distance to the `n_neighbors` nearest fitted rows."""
    return measure_neighbours(model, describes_model=type(model).__name__)


def measure_neighbours(
    model: Any, *, describes_model: str, n_neighbours: int | None = None, threshold: float | None = None
) -> ScoreFunction:
    """Return the mean distance to the nearest rows of a fitted `NearestNeighbors`.

    The score knows its points, and so its gradient, where distances are Euclidean.
    """
    ensure_fitted(model)
    k = int(model.n_neighbors if n_neighbours is None else n_neighbours)
    describes = f"mean distance to the {k} nearest training rows of {describes_model}"
    if model.metric == "precomputed":
        raise UnsupportedModel(
            f"{describes_model} with a precomputed metric sees distances, not rows. Pass a function that "
            "computes them."
        )
    if not _is_euclidean(model):
        return make_model_score(
            model, partial(_average_distance, k), describes=describes, threshold=threshold
        )
    points = as_floats(_dense(model._fit_X))
    if k > len(points):
        raise InvalidInput(
            f"{describes_model} asks for {k} neighbours, but was fitted on {len(points)} rows."
        )
    expansion = NeighbourDistance(points, k, np.arange(len(points)), len(points))
    return NeighbourScore(
        expansion, feature_names=read_fitted_names(model), describes=describes, threshold=threshold
    )


def _average_distance(k: int, model: Any, X: Any) -> Floats:
    return np.asarray(model.kneighbors(X, n_neighbors=k)[0].mean(axis=1))


def _dense(array: Any) -> Floats:
    return np.asarray(array.toarray() if issparse(array) else array, dtype=np.float64)

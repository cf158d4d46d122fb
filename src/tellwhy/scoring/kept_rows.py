"""Ordinary rows that a fitted model keeps, or can draw: what other rows are compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.capabilities import HasMixture
from tellwhy.core.score_function import Floats
from tellwhy.scoring.adapters.class_names import lookup
from tellwhy.scoring.adapters.pyod_tails import TailScore
from tellwhy.scoring.observed import observed_by
from tellwhy.scoring.scores.encoded import EncodedScore

N_DRAWN = 500


@dataclass(frozen=True, eq=False)
class Kept:
    """Rows in the user's columns, and where they come from, in words."""

    rows: Any
    words: str


def kept_rows(score: Any) -> Kept | None:
    """Return ordinary rows that the model behind a score keeps or describes; None where it does neither.

    Support vectors of a one-class SVM are not ordinary: they are the rows at the edge and beyond it.

    Examples
    --------
    >>> from sklearn.neighbors import LocalOutlierFactor
    >>> from tellwhy.scoring import as_score
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> kept_rows(as_score(LocalOutlierFactor(novelty=True).fit(X))).rows.shape
    (60, 2)
    """
    if isinstance(score, EncodedScore):
        inner = kept_rows(score.inner)
        if inner is None or score.decode is None:
            return None
        return Kept(score.decode(inner.rows), inner.words)
    observed = None if _is_edge_only(score) else observed_by(score)
    if observed is not None:
        return Kept(observed.rows, f"{len(observed.rows)} rows that the model keeps")
    if isinstance(score, TailScore):
        return Kept(score.rows, f"{len(score.rows)} rows that the model keeps")
    model = getattr(score, "model", None)
    reader = lookup(_KEPT, model)
    held = None if reader is None else reader(model)
    if held is not None and len(held) > 1:
        return Kept(held, f"{len(held)} rows that the model keeps")
    return _drawn(score, model)


def _is_edge_only(score: Any) -> bool:
    """Whether what a score keeps is a part of its training rows: support vectors, the least ordinary ones."""
    expansion: Any = getattr(score, "expansion", None)
    n_training = getattr(expansion, "n_training", None)
    return n_training is not None and len(expansion.points) < n_training and not hasattr(score, "observed")


def _drawn(score: Any, model: Any) -> Kept | None:
    """Rows drawn from the distribution that a model has learned, where it is a normal one or a mixture."""
    words = f"{N_DRAWN} rows drawn from the distribution that the model has learned"
    if isinstance(score, HasMixture) and score.mixture.means.shape[1:] == tuple(score.feature_shape or ()):
        parts = score.mixture
        return Kept(_mixture_rows(parts.weights, parts.means, parts.covariances), words)
    inside = getattr(model, "detector_", model)  # PyOD keeps scikit-learn's model there
    if lookup({"sklearn.covariance.EmpiricalCovariance": True}, inside):
        one = np.ones(1)
        return Kept(_mixture_rows(one, inside.location_[None], inside.covariance_[None]), words)
    projection = getattr(score, "projection", None)
    spread = getattr(score, "covariance", None)
    if projection is not None and spread is not None:
        return Kept(_mixture_rows(np.ones(1), projection.mean[None], spread[None]), words)
    return None


def _mixture_rows(weights: Floats, means: Floats, covariances: Floats) -> Floats:
    """Draw rows of a Gaussian mixture; the same ones every time."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(N_DRAWN, weights / weights.sum())
    parts = [
        rng.multivariate_normal(mean, covariance, size=n, method="eigh")
        for n, mean, covariance in zip(counts, means, covariances, strict=True)
    ]
    return np.concatenate(parts)


def _field(*path: str) -> Callable[[Any], Any]:
    """Return a reader of one attribute, such as `tree_.data`; what is not there, or sparse, gives None."""

    def read(model: Any) -> Any:
        for name in path:
            model = getattr(model, name, None)
        return None if model is None or hasattr(model, "toarray") else np.asarray(model, dtype=np.float64)

    return read


# Public class names, and where a fitted model of the class has its training rows, unscaled.
_KEPT: dict[str, Callable[[Any], Any]] = {
    "sklearn.neighbors.LocalOutlierFactor": _field("_fit_X"),
    "sklearn.neighbors.NearestNeighbors": _field("_fit_X"),
    "sklearn.neighbors.KNeighborsClassifier": _field("_fit_X"),
    "sklearn.neighbors.KNeighborsRegressor": _field("_fit_X"),
    "sklearn.neighbors.RadiusNeighborsClassifier": _field("_fit_X"),
    "sklearn.neighbors.RadiusNeighborsRegressor": _field("_fit_X"),
    "sklearn.neighbors.KernelDensity": _field("tree_", "data"),
    "sklearn.gaussian_process.GaussianProcessClassifier": _field("base_estimator_", "X_train_"),
    "sklearn.gaussian_process.GaussianProcessRegressor": _field("X_train_"),
    "sklearn.kernel_ridge.KernelRidge": _field("X_fit_"),
    "pyod.models.abod.ABOD": _field("X_train_"),
    "pyod.models.knn.KNN": _field("neigh_", "_fit_X"),
    "pyod.models.lof.LOF": _field("detector_", "_fit_X"),
    "pyod.models.kde.KDE": _field("kde_", "tree_", "data"),
}

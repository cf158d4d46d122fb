"""Reference rows: those that a model keeps of what it learned from, or that its distribution can draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.arrays import spread_evenly, take_rows
from tellwhy.core.params import Fit, is_matrix
from tellwhy.core.score import Floats, HasMixture, HasReferenceRows, Integers, support_points
from tellwhy.scoring.function_scores import EncodedScore
from tellwhy.scoring.model_rows import look_up

Mask = NDArray[np.bool_]

MOST_ROWS = 1_000
MOST_CELLS = 1_000_000


@dataclass(frozen=True)
class ReferenceRows:
    """Some of the rows that a model learned from, and what is known of each column over all of them.

    `low` and `high` are the smallest and the largest number of each column; `whole` tells which columns hold
    whole numbers only.
    """

    rows: Floats
    low: Floats
    high: Floats
    whole: Mask

    @classmethod
    def of(cls, X: Floats) -> ReferenceRows:
        """Keep up to 1,000 rows of X.

        Examples
        --------
        >>> seen = ReferenceRows.of(np.arange(6000.0).reshape(3000, 2))
        >>> seen.rows.shape, seen.low, seen.high
        ((1000, 2), array([0., 1.]), array([5998., 5999.]))
        """
        return cls(some_rows(X), X.min(axis=0), X.max(axis=0), find_whole_columns(X))

    def _require(self) -> Iterator[Fit]:
        yield "rows", is_matrix(self.rows), True
        for name, array in (("low", self.low), ("high", self.high), ("whole", self.whole)):
            yield name, array.shape, self.rows.shape[1:]


def find_whole_columns(X: Floats) -> Mask:
    """Tell which columns hold nothing but whole numbers."""
    return np.asarray((np.round(X) == X).all(axis=0))


def some_rows(X: Any) -> Any:
    """Return a copy of up to 1,000 rows of an array or a frame (fewer of very wide ones), evenly spread."""
    return take_rows(X, choose_positions(np.shape(X)))


def lower_half(scores: Floats, n: int) -> Integers:
    """Return the places of up to n scores, evenly spread over the lower half: hardly half of all are odd.

    Examples
    --------
    >>> lower_half(np.array([5.0, 1.0, 9.0, 2.0]), 2)
    array([1, 3])
    """
    order = np.argsort(scores, kind="stable")
    lower = order[: (len(order) + 1) // 2]
    return lower[spread_evenly(len(lower), n)]


def choose_positions(shape: tuple[int, ...]) -> Integers:
    """Positions of the rows that `some_rows` takes of an array or frame of a shape."""
    n_cells = int(np.prod(shape[1:]))
    most = max(2, min(MOST_ROWS, MOST_CELLS // max(n_cells, 1)))
    return spread_evenly(shape[0], most)


def find_rows_of_reference(score: object) -> ReferenceRows | None:
    """Return rows that the model behind a score learned from, where it keeps any; None where it does not.

    A kernel model or one of neighbours keeps its support points.

    Examples
    --------
    >>> from tellwhy.detectors import GaussianMixture
    >>> from tellwhy.scoring import FunctionScore, as_score
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> find_rows_of_reference(as_score(GaussianMixture().fit(X))).rows.shape
    (50, 2)
    >>> find_rows_of_reference(FunctionScore(lambda X: X.sum(axis=1))) is None
    True
    """
    if isinstance(score, HasReferenceRows):
        kept: Any = score.reference_rows
        return kept
    points = support_points(score)
    return None if points is None else ReferenceRows.of(points)


N_DRAWN = 500


@dataclass(frozen=True, eq=False)
class SourcedRows:
    """Rows in the user's columns, and where they come from, in words."""

    rows: Any
    words: str


def find_reference_rows(score: Any) -> SourcedRows | None:
    """Return ordinary rows that the model behind a score keeps or describes; None where it does neither.

    Support vectors of a one-class SVM are not ordinary: they are the rows at the edge and beyond it.

    Examples
    --------
    >>> from sklearn.neighbors import LocalOutlierFactor
    >>> from tellwhy.scoring import as_score
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> find_reference_rows(as_score(LocalOutlierFactor(novelty=True).fit(X))).rows.shape
    (60, 2)
    """
    if isinstance(score, EncodedScore):
        inner = find_reference_rows(score.inner)
        if inner is None or score.decode is None:
            return None
        return SourcedRows(score.decode(inner.rows), inner.words)
    seen = None if _is_edge_only(score) else find_rows_of_reference(score)
    if seen is not None:
        return SourcedRows(seen.rows, f"{len(seen.rows)} rows that the model keeps")
    model = getattr(score, "model", score)
    reader = look_up(_KEPT, model)
    held = None if reader is None else reader(model)
    if held is not None and len(held) > 1:
        return SourcedRows(held, f"{len(held)} rows that the model keeps")
    return _drawn(score, model)


def _is_edge_only(score: Any) -> bool:
    """Whether what a score keeps is a part of its training rows: support vectors, the least ordinary ones."""
    expansion: Any = getattr(score, "expansion", None)
    n_training = getattr(expansion, "n_training", None)
    return (
        n_training is not None and len(expansion.points) < n_training and not hasattr(score, "reference_rows")
    )


def _drawn(score: Any, model: Any) -> SourcedRows | None:
    """Rows drawn from the distribution that a model has learned, where it is a normal one or a mixture."""
    words = f"{N_DRAWN} rows drawn from the distribution that the model has learned"
    if isinstance(score, HasMixture) and score.mixture.means.shape[1:] == tuple(score.feature_shape or ()):
        parts = score.mixture
        return SourcedRows(_draw_mixture_rows(parts.weights, parts.means, parts.covariances), words)
    learned = look_up(_LEARNED, getattr(model, "detector_", model)) or look_up(_LEARNED, model)
    if learned is not None:
        rows = learned(model)
        return None if rows is None else SourcedRows(rows, words)
    projection = getattr(score, "projection", None)
    spread = getattr(score, "covariance", None)
    if projection is not None and spread is not None:
        return SourcedRows(_draw_mixture_rows(np.ones(1), projection.mean[None], spread[None]), words)
    return None


def _draw_mixture_rows(weights: Floats, means: Floats, covariances: Floats) -> Floats:
    """Draw rows of a Gaussian mixture; the same ones every time."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(N_DRAWN, weights / weights.sum())
    parts = [
        rng.multivariate_normal(mean, covariance, size=n, method="eigh")
        for n, mean, covariance in zip(counts, means, covariances, strict=True)
    ]
    return np.concatenate(parts)


def _draw_normal_rows(model: Any) -> Floats:
    """Draw from the normal distribution of a covariance; PyOD keeps scikit-learn's model as `detector_`."""
    inside = getattr(model, "detector_", model)
    return _draw_mixture_rows(np.ones(1), inside.location_[None], inside.covariance_[None])


def _draw_gaussian_mixture_rows(model: Any) -> Floats:
    """Draw from the mixture inside PyOD's GMM."""
    from tellwhy.scoring.adapters.sklearn_models import mixture

    parts: Any = mixture(model.detector_)
    return _draw_mixture_rows(parts.mixture.weights, parts.mixture.means, parts.mixture.covariances)


def _draw_principal_rows(model: Any) -> Floats:
    """Draw from the normal distribution whose principal components PyOD's PCA keeps, in the user's units."""
    inside = model.detector_
    mean = np.asarray(inside.mean_)
    spread = np.asarray(inside.get_covariance())
    scaler = getattr(model, "scaler_", None) if model.standardization else None
    if scaler is not None:
        mean = mean * scaler.scale_ + scaler.mean_
        spread = spread * np.outer(scaler.scale_, scaler.scale_)
    return _draw_mixture_rows(np.ones(1), mean[None], spread[None])


def _draw_histogram_rows(model: Any) -> Floats | None:
    """Draw each column from its histogram, of which PyOD's HBOS takes the columns to be independent."""
    rng = np.random.default_rng(0)
    columns = []
    heights = model.hist_.T if isinstance(model.hist_, np.ndarray) else model.hist_
    edges = model.bin_edges_.T if isinstance(model.bin_edges_, np.ndarray) else model.bin_edges_
    for height, edge in zip(heights, edges, strict=True):
        chances = np.asarray(height) * np.diff(edge)
        if not np.isfinite(chances).all() or chances.sum() <= 0:
            return None
        at = rng.choice(len(chances), size=N_DRAWN, p=chances / chances.sum())
        columns.append(rng.uniform(np.asarray(edge)[at], np.asarray(edge)[at + 1]))
    return np.column_stack(columns)


def _read_centres_of_balls(model: Any) -> Any:
    """Training rows that PyOD's INNE has drawn as the centres of its balls."""
    return np.unique(model._centroids.reshape(-1, model._centroids.shape[-1]), axis=0)


def _undo_scaling(model: Any) -> Any:
    """Training rows of PyOD's QMCD, which keeps them scaled."""
    return model._scaler.inverse_transform(model._fitted_data)


def _read_field(*path: str) -> Callable[[Any], Any]:
    """Return a reader of one attribute, such as `tree_.data`; what is not there, or sparse, gives None."""

    def read(model: Any) -> Any:
        for name in path:
            model = getattr(model, name, None)
        return None if model is None or hasattr(model, "toarray") else np.asarray(model, dtype=np.float64)

    return read


# Public class names, and where a fitted model of the class has its training rows, unscaled.
_KEPT: dict[str, Callable[[Any], Any]] = {
    "sklearn.neighbors.LocalOutlierFactor": _read_field("_fit_X"),
    "sklearn.neighbors.NearestNeighbors": _read_field("_fit_X"),
    "sklearn.neighbors.KNeighborsClassifier": _read_field("_fit_X"),
    "sklearn.neighbors.KNeighborsRegressor": _read_field("_fit_X"),
    "sklearn.neighbors.RadiusNeighborsClassifier": _read_field("_fit_X"),
    "sklearn.neighbors.RadiusNeighborsRegressor": _read_field("_fit_X"),
    "sklearn.neighbors.KernelDensity": _read_field("tree_", "data"),
    "sklearn.gaussian_process.GaussianProcessClassifier": _read_field("base_estimator_", "X_train_"),
    "sklearn.gaussian_process.GaussianProcessRegressor": _read_field("X_train_"),
    "sklearn.kernel_ridge.KernelRidge": _read_field("X_fit_"),
    "pyod.models.abod.ABOD": _read_field("X_train_"),
    "pyod.models.knn.KNN": _read_field("neigh_", "_fit_X"),
    "pyod.models.lof.LOF": _read_field("detector_", "_fit_X"),
    "pyod.models.inne.INNE": _read_centres_of_balls,
    "pyod.models.kde.KDE": _read_field("kde_", "tree_", "data"),
    "pyod.models.qmcd.QMCD": _undo_scaling,
    "tellwhy.scoring.adapters.pyod_models.TailScore": _read_field("rows"),
}

# Models that keep no rows, but the distribution that they took them to have; others than mixtures that are
# read as such.
_LEARNED: dict[str, Callable[[Any], Floats | None]] = {
    "sklearn.covariance.EmpiricalCovariance": _draw_normal_rows,
    "pyod.models.gmm.GMM": _draw_gaussian_mixture_rows,
    "pyod.models.hbos.HBOS": _draw_histogram_rows,
    "pyod.models.pca.PCA": _draw_principal_rows,
}

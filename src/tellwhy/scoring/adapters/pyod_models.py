"""Scores of PyOD's detectors, which are high for anomalies already."""

from __future__ import annotations

import numbers
from typing import Any

from tellwhy.core.score_function import Floats, ScoreFunction
from tellwhy.scoring.adapters.sklearn_distances import mean_neighbour_distance
from tellwhy.scoring.adapters.sklearn_models import model_score
from tellwhy.scoring.model_rows import ensure_fitted
from tellwhy.scoring.scores.function_score import FunctionScore

# Detectors whose decision_function compares the rows of one call with each other.
SCORED_TOGETHER = frozenset({"CD", "COF", "COPOD", "ECOD", "LMDD", "RGraph", "ROD", "SOD", "SOS"})
_FITTED = ("decision_scores_", "threshold_", "labels_")


def detector(model: Any) -> FunctionScore:
    """Return the decision_function of any detector."""
    ensure_fitted(model, _FITTED)
    name = type(model).__name__
    caveat = ", which depends on the rows scored with it" if name in SCORED_TOGETHER else ""
    describes = f"decision_function of PyOD's {name}{caveat}"
    return model_score(model, _decision, describes=describes, threshold=_threshold(model))


def nearest_neighbours(model: Any) -> ScoreFunction:
    """Mean distance to the nearest neighbours for `KNN(method="mean")`; other methods as any detector."""
    if model.method != "mean":
        return detector(model)
    ensure_fitted(model, _FITTED)
    return mean_neighbour_distance(
        model.neigh_,
        describes_model="PyOD's KNN",
        n_neighbours=model.n_neighbors,
        threshold=_threshold(model),
    )


def _decision(model: Any, X: Any) -> Floats:
    return model.decision_function(X)


def _threshold(model: Any) -> float | None:
    """The model's threshold, where it is a number."""
    threshold = getattr(model, "threshold_", None)
    return float(threshold) if isinstance(threshold, numbers.Real) else None

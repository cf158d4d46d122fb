"""Models of trees, whose Shapley values are exact and need no background."""

from __future__ import annotations

from typing import Any

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.score_function import ScoreFunction
from tellwhy.explainers.trees import Trees, TreeScore, read_trees, tree_score
from tellwhy.scoring import EncodedScore
from tellwhy.scoring.adapters.pipelines import flat_steps
from tellwhy.scoring.scores.prediction_score import PREDICTED

# What the sum of the trees is, by the function that makes a probability of it.
_OUTPUT_OF_LINK = {"identity": "probability", "logistic": "margin", "softmax": "margin"}


def trees_of(model: Any, task: str, target: Any, output: str) -> ScoreFunction | None:
    """Return the score of a model of trees on the scale on which trees add up; None for other models.

    None too where another scale is asked for, and for pipelines that mix columns.
    """
    model = getattr(model, "best_estimator_", model)
    trees = _trees_inside(model)
    if trees is None or (trees.task == "anomaly") != (task == "anomaly"):
        return None
    is_classifier = trees.task == "classification"
    if is_classifier and output not in ("auto", _OUTPUT_OF_LINK.get(trees.link)):
        return None
    score = tree_score(model, PREDICTED if is_classifier and target is None else target)
    if isinstance(score, EncodedScore):
        return score if score.owner is not None else None
    return score if isinstance(score, TreeScore) else None


def _trees_inside(model: Any) -> Trees | None:
    """Return the trees of a model, or of the last step of a pipeline; None where there are none."""
    is_pipeline = hasattr(model, "steps") and hasattr(model, "named_steps")
    try:
        return read_trees(flat_steps(model)[-1][1] if is_pipeline else model)
    except UnsupportedModel:  # trees that do more than add up: explained like any other model
        return None

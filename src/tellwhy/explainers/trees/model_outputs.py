"""One output of any model of trees, or of a pipeline that ends in one, as a score."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.score_function import Floats, ScoreFunction
from tellwhy.explainers.trees.formats.rows import dense_rows
from tellwhy.explainers.trees.model import Trees
from tellwhy.explainers.trees.reading import read_trees
from tellwhy.explainers.trees.score import TreeScore
from tellwhy.scoring import EncodedScore
from tellwhy.scoring.adapters.class_names import lookup
from tellwhy.scoring.adapters.pipelines import encoded_by, encoding_of, flat_steps


def tree_score(model: Any, target: Any = None) -> ScoreFunction:
    """Return one output of a model of trees as a score; of a pipeline, in the columns that go into it.

    Raises
    ------
    UnsupportedModel
        For a model that is not one of trees.
    """
    if isinstance(model, EncodedScore) and isinstance(model.inner, TreeScore):
        return model
    if isinstance(model, TreeScore):
        return model if target is None else TreeScore(model.trees, target)
    if lookup({"sklearn.pipeline.Pipeline": True}, model):
        return _pipeline_score(model, target)
    score = TreeScore(_trees(model), target)
    score.describes  # noqa: B018  # an unknown class is told here, not when rows are explained
    return score


def _trees(model: Any) -> Trees:
    trees = model if isinstance(model, Trees) else read_trees(model)
    if trees is None:
        raise UnsupportedModel(
            f"{type(model).__module__}.{type(model).__qualname__} is no model of trees that tellwhy reads: a "
            "tree, forest or boosting of scikit-learn, XGBoost or LightGBM, or an isolation forest. Use "
            "KernelShap for it."
        )
    return trees


def _pipeline_score(model: Any, target: Any) -> ScoreFunction:
    """Return the score of a pipeline that ends in trees, in the columns that go into it."""
    whole = copy(model)
    whole.steps = flat_steps(model)
    trees = _trees(whole.steps[-1][1])
    # empty cells and categories are for the trees to judge
    encode = encoding_of(whole, lambda rows: trees.read(dense_rows(rows, trees.unstored)))
    if encode is None:
        return TreeScore(trees, target)
    own = None if trees.own is None else _after(encode.transformed, trees.own)
    return encoded_by(whole, TreeScore(replace(trees, read=_as_read, own=own), target), encode)


def _after(first: Any, second: Any) -> Any:
    """second(first(X))."""
    return lambda X: second(first(X))


def _as_read(Z: Any) -> Floats:
    """Rows that were read already."""
    return np.asarray(Z, dtype=np.float64)

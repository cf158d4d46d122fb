"""Exact explanations of trees, forests and boosted trees."""

from typing import TYPE_CHECKING

from tellwhy.core.lazy import lazy_names
from tellwhy.core.registry import announce

if TYPE_CHECKING:
    from tellwhy.explainers.trees.model import Trees as Trees
    from tellwhy.explainers.trees.model_outputs import tree_score as tree_score
    from tellwhy.explainers.trees.reading import read_trees as read_trees
    from tellwhy.explainers.trees.score import TreeScore as TreeScore
    from tellwhy.explainers.trees.tree_shapley import TreeShapley as TreeShapley

_PLACES = {
    "TreeScore": "score",
    "TreeShapley": "tree_shapley",
    "Trees": "model",
    "read_trees": "reading",
    "tree_score": "model_outputs",
}
__getattr__, __dir__ = lazy_names(__name__, _PLACES)
announce(__name__, ["tree_shapley"])
__all__ = list(_PLACES)

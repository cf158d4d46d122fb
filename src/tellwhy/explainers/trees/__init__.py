"""Exact explanations of trees, forests and boosted trees."""

from typing import TYPE_CHECKING

from tellwhy.core.catalogue import places
from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.explainers.trees.score import (
        TreeScore as TreeScore,
        read_trees as read_trees,
        tree_score as tree_score,
    )
    from tellwhy.explainers.trees.tree_shapley import TreeShapley as TreeShapley
    from tellwhy.explainers.trees.trees import Trees as Trees

_PLACES = {
    **places(__name__),
    "TreeScore": "score",
    "Trees": "trees",
    "read_trees": "score",
    "tree_score": "score",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)

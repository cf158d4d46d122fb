"""Exact explanations of trees, forests and boosted trees.

What stands where:

- `tree_shapley.TreeShapley`: the explainer; which output is explained, and for whom.
- `score`: path-dependent and interventional values, interactions, the quadrature that both rest on.
- `_compiled_paths`, `_compiled_background`: their loops, the formula first; `numpy_paths`: the same for a few
  small trees, to the same bits, without waiting for a compiler.
- `trees`: trees as arrays, whoever grew them; `of_sklearn`, `of_xgboost`, `of_lightgbm` read them.
"""

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

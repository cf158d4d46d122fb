"""Exact explanations of trees, forests and boosted trees.

What stands where:

- `tree_shapley`: the explainer, and one output of a model of trees as the score that it explains.
- `tree_values`: path-dependent and interventional values, interactions, the quadrature that they rest on; the
  same by NumPy for a few small trees, to the same bits, without waiting for a compiler.
- `_compiled_paths`, `_compiled_background`: their loops, the formula first.
- `trees`: trees as arrays, whoever grew them; `of_sklearn`, `of_xgboost`, `of_lightgbm` read them.
"""

from typing import TYPE_CHECKING

from tellwhy.core.catalogue import places
from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.explainers.trees.tree_shapley import (
        TreeScore as TreeScore,
        TreeShapley as TreeShapley,
        tree_score as tree_score,
    )
    from tellwhy.explainers.trees.trees import Trees as Trees, read_trees as read_trees

_PLACES = {
    **places(__name__),
    "TreeScore": "tree_shapley",
    "Trees": "trees",
    "read_trees": "trees",
    "tree_score": "tree_shapley",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)

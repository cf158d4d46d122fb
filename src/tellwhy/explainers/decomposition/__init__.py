"""Decompositions of a score into features, in closed form.

What stands where:

- `one_class_dtd.OneClassDTD`: deep Taylor decomposition of one-class models; equations 1 to 6 of the paper
  are in `scoring/one_class.py`, compiled in `_compiled_one_class.py` and as tensors in `one_class_torch.py`.
- `patch_relevance`: its section 7, patches of a `PatchModel`, or of any model of patches (PatchDTD).
- `latent_class_dtd`: the same for the class of a node that LCCAD found, and what its context adds.
- `linear_relevance`: w·(x − m), of classifiers (LinearRelevance) and of scores (LinearShapley).
- `marginal`, `_compiled_marginal`: energy of single features (Marginal), and of one after the other
  (SequentialFeature).
- `baselines`: what others are compared with: expected value, nearest support point, Gaussian likelihood,
  Sobel, random values; and shares that a score knows itself.
"""

from typing import TYPE_CHECKING

from tellwhy.core.catalogue import places
from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.explainers.decomposition.baselines import (
        CommitteeShares as CommitteeShares,
        ExpectedValue as ExpectedValue,
        GaussianNLL as GaussianNLL,
        NearestSupport as NearestSupport,
        RandomAttribution as RandomAttribution,
        Sobel as Sobel,
    )
    from tellwhy.explainers.decomposition.latent_class_dtd import LatentClassDTD as LatentClassDTD
    from tellwhy.explainers.decomposition.linear_relevance import (
        LinearRelevance as LinearRelevance,
        LinearShapley as LinearShapley,
    )
    from tellwhy.explainers.decomposition.marginal import (
        Marginal as Marginal,
        SequentialFeature as SequentialFeature,
    )
    from tellwhy.explainers.decomposition.one_class_dtd import (
        OneClassDTD as OneClassDTD,
        SupportExplanation as SupportExplanation,
    )
    from tellwhy.explainers.decomposition.patch_relevance import (
        PatchDTD as PatchDTD,
        PatchRelevance as PatchRelevance,
    )

_PLACES = {**places(__name__), "SupportExplanation": "one_class_dtd"}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)

"""Explanations from the slope of a score."""

from typing import TYPE_CHECKING

from tellwhy.core.catalogue import places
from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.explainers.gradients.integrated_gradients import IntegratedGradients as IntegratedGradients
    from tellwhy.explainers.gradients.sensitivity import (
        Sensitivity as Sensitivity,
        SimpleTaylor as SimpleTaylor,
    )

_PLACES = places(__name__)
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)

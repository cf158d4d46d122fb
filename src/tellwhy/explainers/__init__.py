"""Explainers: which features made each score."""

from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names
from tellwhy.core.registry import announce

if TYPE_CHECKING:
    from tellwhy.explainers.base import (
        BackgroundExplainer as BackgroundExplainer,
        ScoreExplainer as ScoreExplainer,
    )
    from tellwhy.explainers.decomposition import (
        CommitteeShares as CommitteeShares,
        ExpectedValue as ExpectedValue,
        GaussianNLL as GaussianNLL,
        LatentClassDTD as LatentClassDTD,
        LinearRelevance as LinearRelevance,
        LinearShapley as LinearShapley,
        Marginal as Marginal,
        NearestSupport as NearestSupport,
        OneClassDTD as OneClassDTD,
        PatchDTD as PatchDTD,
        PatchRelevance as PatchRelevance,
        RandomAttribution as RandomAttribution,
        SequentialFeature as SequentialFeature,
        Sobel as Sobel,
        SupportExplanation as SupportExplanation,
    )
    from tellwhy.explainers.ensemble import Ensemble as Ensemble
    from tellwhy.explainers.gradients import (
        IntegratedGradients as IntegratedGradients,
        Sensitivity as Sensitivity,
        SimpleTaylor as SimpleTaylor,
    )
    from tellwhy.explainers.perturbation import (
        AnomalyContribution as AnomalyContribution,
        Lime as Lime,
        Occlusion as Occlusion,
        PredictionDifference as PredictionDifference,
    )
    from tellwhy.explainers.propagation import (
        LRP as LRP,
        DeconvNet as DeconvNet,
        DeepTaylor as DeepTaylor,
        ExcitationBackprop as ExcitationBackprop,
        GradCAM as GradCAM,
        Gradient as Gradient,
        GuidedBackprop as GuidedBackprop,
        InputTimesGradient as InputTimesGradient,
        PatternAttribution as PatternAttribution,
        PatternNet as PatternNet,
        SmoothGrad as SmoothGrad,
        coverage as coverage,
        explain_all as explain_all,
    )
    from tellwhy.explainers.shapley import (
        AnomalyShapley as AnomalyShapley,
        Compensation as Compensation,
        KernelShap as KernelShap,
    )
    from tellwhy.explainers.surrogate import (
        DMMMEN as DMMMEN,
        PRESETS as PRESETS,
        Insight as Insight,
        LocalInsight as LocalInsight,
        Priors as Priors,
    )
    from tellwhy.explainers.trees import TreeShapley as TreeShapley

_PLACES = {
    "CommitteeShares": "decomposition",
    "AnomalyContribution": "perturbation",
    "AnomalyShapley": "shapley",
    "BackgroundExplainer": "base",
    "Compensation": "shapley",
    "DMMMEN": "surrogate",
    "DeconvNet": "propagation",
    "DeepTaylor": "propagation",
    "Ensemble": "ensemble",
    "ExcitationBackprop": "propagation",
    "ExpectedValue": "decomposition",
    "GaussianNLL": "decomposition",
    "GradCAM": "propagation",
    "Gradient": "propagation",
    "GuidedBackprop": "propagation",
    "InputTimesGradient": "propagation",
    "Insight": "surrogate",
    "IntegratedGradients": "gradients",
    "KernelShap": "shapley",
    "LRP": "propagation",
    "LatentClassDTD": "decomposition",
    "Lime": "perturbation",
    "LinearRelevance": "decomposition",
    "LinearShapley": "decomposition",
    "LocalInsight": "surrogate",
    "Marginal": "decomposition",
    "NearestSupport": "decomposition",
    "Occlusion": "perturbation",
    "OneClassDTD": "decomposition",
    "PRESETS": "surrogate",
    "PatchDTD": "decomposition",
    "PatternAttribution": "propagation",
    "PatternNet": "propagation",
    "PatchRelevance": "decomposition",
    "PredictionDifference": "perturbation",
    "Priors": "surrogate",
    "RandomAttribution": "decomposition",
    "ScoreExplainer": "base",
    "Sensitivity": "gradients",
    "SequentialFeature": "decomposition",
    "SimpleTaylor": "gradients",
    "Sobel": "decomposition",
    "SmoothGrad": "propagation",
    "SupportExplanation": "decomposition",
    "TreeShapley": "trees",
    "coverage": "propagation",
    "explain_all": "propagation",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
# `propagation` is not here, for it loads PyTorch: `network_cards` holds the cards of its classes
announce(
    __name__,
    [
        "decomposition",
        "ensemble",
        "gradients",
        "catalogue",
        "perturbation",
        "shapley",
        "surrogate",
        "trees",
    ],
)
__all__ = list(_PLACES)

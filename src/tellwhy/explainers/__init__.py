"""Explainers: which features made each score."""

from typing import TYPE_CHECKING

from tellwhy.core.catalogue import places
from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.explainers.base import (
        BackgroundExplainer as BackgroundExplainer,
        ScoreExplainer as ScoreExplainer,
    )
    from tellwhy.explainers.corruption.corruption_posterior import CorruptionPosterior as CorruptionPosterior
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
    from tellwhy.explainers.ensemble import Ensemble as Ensemble
    from tellwhy.explainers.gradients.integrated_gradients import IntegratedGradients as IntegratedGradients
    from tellwhy.explainers.gradients.sensitivity import (
        Sensitivity as Sensitivity,
        SimpleTaylor as SimpleTaylor,
    )
    from tellwhy.explainers.noise import Noise as Noise
    from tellwhy.explainers.perturbation.anomaly_contribution import (
        AnomalyContribution as AnomalyContribution,
    )
    from tellwhy.explainers.perturbation.lime import Lime as Lime
    from tellwhy.explainers.perturbation.occlusion import Occlusion as Occlusion
    from tellwhy.explainers.perturbation.prediction_difference import (
        PredictionDifference as PredictionDifference,
    )
    from tellwhy.explainers.propagation.base import explain_all as explain_all
    from tellwhy.explainers.propagation.deep_lift import (
        DeepLift as DeepLift,
        DeepLiftShap as DeepLiftShap,
        GradientShap as GradientShap,
    )
    from tellwhy.explainers.propagation.deep_taylor import DeepTaylor as DeepTaylor
    from tellwhy.explainers.propagation.excitation_backprop import ExcitationBackprop as ExcitationBackprop
    from tellwhy.explainers.propagation.grad_cam import GradCAM as GradCAM, GuidedGradCAM as GuidedGradCAM
    from tellwhy.explainers.propagation.gradient import (
        DeconvNet as DeconvNet,
        Gradient as Gradient,
        GuidedBackprop as GuidedBackprop,
        InputTimesGradient as InputTimesGradient,
        SmoothGrad as SmoothGrad,
    )
    from tellwhy.explainers.propagation.layer_attribution import LayerAttribution as LayerAttribution
    from tellwhy.explainers.propagation.ledger import coverage as coverage
    from tellwhy.explainers.propagation.lrp import LRP as LRP
    from tellwhy.explainers.propagation.patterns import (
        PatternAttribution as PatternAttribution,
        PatternNet as PatternNet,
    )
    from tellwhy.explainers.shapley.anomaly_shapley import AnomalyShapley as AnomalyShapley
    from tellwhy.explainers.shapley.compensation import Compensation as Compensation
    from tellwhy.explainers.shapley.kernel_shap import KernelShap as KernelShap
    from tellwhy.explainers.shapley.owen_values import OwenValues as OwenValues
    from tellwhy.explainers.surrogate.chains import (
        PRESETS as PRESETS,
        Priors as Priors,
    )
    from tellwhy.explainers.surrogate.dmm_men import DMMMEN as DMMMEN
    from tellwhy.explainers.surrogate.insight import Insight as Insight
    from tellwhy.explainers.surrogate.local_insight import LocalInsight as LocalInsight
    from tellwhy.explainers.trees.tree_shapley import TreeShapley as TreeShapley

_PLACES = {
    **places(__name__),
    "BackgroundExplainer": "base",
    "Insight": "surrogate.insight",
    "PRESETS": "surrogate.chains",
    "Priors": "surrogate.chains",
    "ScoreExplainer": "base",
    "SupportExplanation": "decomposition.one_class_dtd",
    "coverage": "propagation.ledger",
    "explain_all": "propagation.base",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)

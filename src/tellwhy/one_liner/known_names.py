"""Names that people know methods by, and what they are called here.

A name is looked up without its case, hyphens and underscores. Some names stand for a setting of a method, or
for one method of networks and another of scores; some stand for what is no explanation of rows, and are
answered with what to type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import simplify_name


@dataclass(frozen=True)
class Known:
    """What a name means here.

    Attributes
    ----------
    name
        The method.
    params
        Its settings that the name stands for.
    of_scores
        The method where the model is no network, if that is another one.
    """

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    of_scores: str = ""

    def called(self, *, is_network: bool) -> str:
        """The method's name for a network, or for any other model."""
        return self.name if is_network or not self.of_scores else self.of_scores


def _lrp(rule: str, **settings: float) -> Known:
    return Known("LRP", {"rule": rule, **({"rule_params": settings} if settings else {})})


SHAPLEY = (
    "shap",
    "shapley",
    "shapleyvalues",
)  # whichever method gives them of the model, exactly if one does

_KNOWN: dict[str, Known] = {
    "saliency": Known("Gradient", of_scores="Sensitivity"),
    "vanilla_gradient": Known("Gradient", of_scores="Sensitivity"),
    "gradients": Known("Gradient", of_scores="Sensitivity"),
    "input_x_gradient": Known("InputTimesGradient"),
    "gradient_x_input": Known("InputTimesGradient"),
    "ig": Known("IntegratedGradients"),
    "path_integrated_gradients": Known("IntegratedGradients"),
    "deep_shap": Known("DeepLiftShap"),
    "deep_explainer": Known("DeepLiftShap"),
    "gradient_explainer": Known("GradientShap"),
    "expected_gradients": Known("GradientShap"),
    "smooth_grad_squared": Known("SmoothGrad", {"postprocess": "square"}),
    "guided_backpropagation": Known("GuidedBackprop"),
    "deconvolution": Known("DeconvNet"),
    "deconv": Known("DeconvNet"),
    "layer_conductance": Known("LayerAttribution", {"method": "conductance"}),
    "layer_integrated_gradients": Known("LayerAttribution", {"method": "integrated_gradients"}),
    "layer_activation": Known("LayerAttribution", {"method": "activation"}),
    "layer_gradient_x_activation": Known("LayerAttribution", {"method": "activation_times_gradient"}),
    "layer_feature_ablation": Known("LayerAttribution", {"method": "ablation"}),
    "tree_shap": Known("TreeShapley"),
    "tree_explainer": Known("TreeShapley"),
    "linear_shap": Known("LinearShapley"),
    "linear_explainer": Known("LinearShapley"),
    "kernel_explainer": Known("KernelShap"),
    "sampling_explainer": Known("KernelShap"),
    "permutation_explainer": Known("KernelShap"),
    "owen": Known("OwenValues"),
    "partition": Known("OwenValues"),
    "partition_shap": Known("OwenValues"),
    "partition_explainer": Known("OwenValues"),
    "winter_values": Known("OwenValues"),
    "shapley_value_sampling": Known("KernelShap"),
    "feature_ablation": Known("Occlusion"),
    "ablation": Known("Occlusion"),
    "leave_one_out": Known("Occlusion"),
    "lime_tabular": Known("Lime"),
    "lime_tabular_explainer": Known("Lime"),
    "layerwise_relevance_propagation": Known("LRP"),
    "lrp_z": _lrp("z"),
    "lrp_0": _lrp("z"),
    "lrp_epsilon": _lrp("epsilon"),
    "lrp_gamma": _lrp("gamma"),
    "lrp_alpha_beta": _lrp("alpha_beta"),
    "lrp_alpha2_beta1": _lrp("alpha_beta", alpha=2.0, beta=1.0),
    "lrp_alpha1_beta0": _lrp("alpha_beta", alpha=1.0, beta=0.0),
    "epsilon_plus": Known("LRP", {"composite": "epsilon_plus"}),
    "epsilon_plus_flat": Known("LRP", {"composite": "epsilon_plus_flat"}),
    "attn_lrp": Known("LRP", {"attention": "attnlrp"}),
    "dtd": Known("DeepTaylor", of_scores="OneClassDTD"),
    "deep_taylor_decomposition": Known("DeepTaylor", of_scores="OneClassDTD"),
    "ash": Known("AnomalyShapley"),
    "ksh": Known("KernelShap", {"baseline": "kmeans"}),
    "wksh": Known("KernelShap", {"baseline": "neighbours"}),
    "ace": Known("AnomalyContribution"),
    "comp": Known("Compensation"),
    "marg": Known("Marginal"),
    "sfe": Known("SequentialFeature"),
}
KNOWN = {simplify_name(name): known for name, known in _KNOWN.items()}

_NOISE = (
    "goes around a method: tellwhy.explain(model, X, Noise(Gradient(model){more})), from tellwhy.explainers"
)
_NEURON = (
    "asks for a unit of a layer: tellwhy.explain(UpToLayer(model, 'name'), X, method, target=unit), from "
    "tellwhy.scoring"
)
_ANSWERS = {
    "neuron_conductance": _NEURON,
    "neuron_gradient": _NEURON,
    "neuron_integrated_gradients": _NEURON,
    "neuron_deep_lift": _NEURON,
    "noise_tunnel": _NOISE.format(more=""),
    "var_grad": _NOISE.format(more=", statistic='variance'"),
    "permutation_importance": "tells of a whole model, not of rows: "
    "tellwhy.evaluation.permutation_importance(model, X, y), or the mean of |values| of an explanation",
    "partial_dependence": "is a plot of an explanation here: tellwhy.plot.scatter(explanation, column)",
    "counterfactual": "comes with every explanation of an anomaly: explanation.extras['nearest_normal']",
    "anchors": "is LocalInsight here, which asks for the cells that suffice: method='LocalInsight'",
}
ANSWERS = {simplify_name(name): answer for name, answer in _ANSWERS.items()}


def known_name(name: str, *, is_network: bool) -> tuple[str, dict[str, Any]]:
    """Return the method that a name stands for, and its settings; a name that is not known as it is.

    Examples
    --------
    >>> known_name("saliency", is_network=True), known_name("wKSH", is_network=False)
    (('Gradient', {}), ('KernelShap', {'baseline': 'neighbours'}))
    """
    plain = simplify_name(name)
    if plain in ANSWERS:
        raise InvalidParameter(f"{name!r} {ANSWERS[plain]}.")
    known = KNOWN.get(plain)
    return (name, {}) if known is None else (known.called(is_network=is_network), dict(known.params))

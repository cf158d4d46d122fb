"""Cards of the explainers of networks, which are loaded, and PyTorch with them, when first used."""

from __future__ import annotations

from tellwhy.core.registry import Card, register_later

_ATTRIBUTION = "output = sum of values + residual, exactly"
_ONE_PASS = "one forward and one backward pass"
_CARDS = {
    "Gradient": (
        _ONE_PASS,
        "exact; a sensitivity, not shares",
        "Simonyan, Vedaldi, Zisserman, ICLR Workshop (2014)",
    ),
    "SmoothGrad": (
        "n_samples forward and backward passes",
        "Monte-Carlo mean; a sensitivity, not shares",
        "Smilkov et al., arXiv:1706.03825 (2017)",
    ),
    "InputTimesGradient": (_ONE_PASS, _ATTRIBUTION, "Shrikumar, Greenside, Kundaje, ICML (2017)"),
    "DeconvNet": (_ONE_PASS, "a signal, not shares", "Zeiler, Fergus, ECCV (2014)"),
    "GuidedBackprop": (_ONE_PASS, "a signal, not shares", "Springenberg et al., ICLR Workshop (2015)"),
    "LRP": (
        "one forward and about two backward passes",
        f"{_ATTRIBUTION}; the ledger says where the residual was absorbed",
        "Bach et al., PLoS ONE 10 (2015)",
    ),
    "DeepTaylor": (
        "one forward and about two backward passes",
        f"{_ATTRIBUTION}; for positive outputs",
        "Montavon et al., Pattern Recognition 65 (2017)",
    ),
    "ExcitationBackprop": (
        "one forward and about two backward passes",
        "a probability over the inputs, not shares",
        "Zhang et al., International Journal of Computer Vision 126 (2018)",
    ),
}

for _name, (_cost, _exactness, _citation) in _CARDS.items():
    register_later(
        Card(
            name=_name,
            role="network explainer",
            family="propagation",
            needs="a torch.nn.Module",
            cost=_cost,
            exactness=_exactness,
            citation=_citation,
            where="tellwhy.explainers.propagation",
        )
    )

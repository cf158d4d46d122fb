"""Cards of the explainers of networks, which are loaded, and PyTorch with them, when first used."""

from __future__ import annotations

from tellwhy.core.registry import Card, register_later

_ADDS_UP = "output = sum of values + residual, exactly"
_ONE_PASS = "one forward and one backward pass"
_TWO_PASSES = "one forward and about two backward passes"


def _enter(name: str, *, cost: str, exactness: str, citation: str, needs: str = "a torch.nn.Module") -> None:
    register_later(
        Card(
            name=name,
            role="network explainer",
            family="propagation",
            needs=needs,
            cost=cost,
            exactness=exactness,
            citation=citation,
            where="tellwhy.explainers.propagation",
        )
    )


_enter(
    "Gradient",
    cost=_ONE_PASS,
    exactness="exact; a sensitivity, not shares",
    citation="Simonyan, Vedaldi, Zisserman, ICLR Workshop (2014)",
)
_enter(
    "SmoothGrad",
    cost="n_samples forward and backward passes",
    exactness="Monte-Carlo mean; a sensitivity, not shares",
    citation="Smilkov et al., arXiv:1706.03825 (2017)",
)
_enter(
    "InputTimesGradient",
    cost=_ONE_PASS,
    exactness=_ADDS_UP,
    citation="Shrikumar, Greenside, Kundaje, ICML (2017)",
)
_enter(
    "DeconvNet",
    cost=_ONE_PASS,
    exactness="a signal, not shares",
    citation="Zeiler, Fergus, ECCV (2014)",
)
_enter(
    "GuidedBackprop",
    cost=_ONE_PASS,
    exactness="a signal, not shares",
    citation="Springenberg et al., ICLR Workshop (2015)",
)
_enter(
    "LRP",
    cost=_TWO_PASSES,
    exactness=f"{_ADDS_UP}; the ledger says where the residual was absorbed",
    citation="Bach et al., PLoS ONE 10 (2015)",
)
_enter(
    "DeepTaylor",
    cost=_TWO_PASSES,
    exactness=f"{_ADDS_UP}; for positive outputs",
    citation="Montavon et al., Pattern Recognition 65 (2017)",
)
_enter(
    "ExcitationBackprop",
    cost=_TWO_PASSES,
    exactness="a probability over the inputs, not shares",
    citation="Zhang et al., International Journal of Computer Vision 126 (2018)",
)
_enter(
    "PatternNet",
    cost=f"{_ONE_PASS}, after one over the rows that patterns are learned from",
    exactness="a signal, not shares",
    citation="Kindermans et al., ICLR (2018)",
    needs="a torch.nn.Module of layers, ReLU and pools, and rows to learn from",
)
_enter(
    "PatternAttribution",
    cost=f"{_ONE_PASS}, after one over the rows that patterns are learned from",
    exactness=_ADDS_UP,
    citation="Kindermans et al., ICLR (2018)",
    needs="a torch.nn.Module of layers, ReLU and pools, and rows to learn from",
)
_enter(
    "GradCAM",
    cost=_ONE_PASS,
    exactness="a signal, at the resolution of one layer",
    citation="Selvaraju et al., ICCV (2017)",
    needs="a torch.nn.Module with 2-D maps",
)
